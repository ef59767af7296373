//! Values that several devices of a process share: replicated results of communication, and what is computed from them.
//!
//! All members of a group get the same value from an all-reduce, an all-gather or a broadcast, and the caller may pass the
//! same memory to several devices. What uniform steps compute from replicated values is *replicated*, too. A large
//! replicated result of communication is in an arena that the group shares, and every member points there. An expensive
//! step with replicated operands runs *once* per group, on its leader, and its results are in that arena as well. So does
//! a loop without communication, whose results are then copied to the others.
//!
//! A shared arena is written only when all members have done what comes before: by communication of exactly these
//! groups, or by a step of the entry block for which the coordinator waits for all devices. So what is dead on each of
//! them may be overwritten, and the usual liveness of one device decides. Different groups share no arena.

use std::collections::BTreeMap;
use std::sync::Arc;

use meshwork_ir::hash::{HashMap, HashSet};

use super::live::{Live, MoveKind};
use crate::device_program::Replication;
use crate::program::{Block, Collective, CollectiveKind, Node, Program, While};
use crate::step::{Buf, Step};

/// Smaller results of communication are written by each member into its own memory.
const LEAST_BYTES: usize = 16 << 10;
/// Steps that take fewer nanoseconds run on every device: waiting for all of them costs more.
const LEAST_NS: u64 = 20_000;

/// The first device of each device's group. Devices with the same leader hold the same value.
pub type Leaders = Arc<[usize]>;

/// Memory that each of some groups of devices shares.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SharedArena {
    /// The leader of each device.
    pub leader: Leaders,
    /// Size of one group's arena.
    pub bytes: usize,
}

/// What is shared.
#[derive(Clone, Debug, Default)]
pub struct Sharing {
    /// By buffer: the index of the shared arena it is in.
    pub of: HashMap<u32, usize>,
    /// By position in the entry block: the shared arena whose leaders run the step for their groups.
    pub once: HashMap<usize, usize>,
    /// By position in the entry block: the groups whose leaders run the loop for all.
    pub once_loops: HashMap<usize, Leaders>,
    /// All shared arenas; their sizes are not known yet.
    pub arenas: Vec<SharedArena>,
    /// Per result of the program: on which devices it is replicated, wherever it is stored.
    pub results: Vec<Option<Leaders>>,
}

/// Finds what `devices` devices in one process can share, given which arguments and results are replicated.
pub fn sharing(program: &Program, live: &Live, devices: usize, replication: &Replication) -> Sharing {
    let mut sharing = Sharing::default();
    if devices < 2 {
        return sharing;
    }
    let mut writers: BTreeMap<Buf, Vec<Writer<'_>>> = BTreeMap::new();
    visit(&program.main, &mut |node| match node {
        Node::Step(step) => step.writes.iter().for_each(|&b| writers.entry(b).or_default().push(Writer::Inner)),
        Node::Collective(c) => c.results.iter().for_each(|&b| writers.entry(b).or_default().push(Writer::Exchange(c))),
        Node::Await(_) | Node::While(_) | Node::Case(_) => {}
    });
    // Steps of the entry block are known by their position.
    for (i, node) in program.main.nodes.iter().enumerate() {
        if let Node::Step(step) = node {
            for b in &step.writes {
                let inner = writers.get_mut(b).and_then(|w| w.iter_mut().find(|w| matches!(w, Writer::Inner)));
                inner.into_iter().for_each(|w| *w = Writer::Step(i));
            }
        }
    }
    // Loops and choices exchange their buffers.
    let exchanged: HashSet<u32> =
        live.moves.iter().filter(|m| m.kind != MoveKind::InPlace).flat_map(|m| [m.from, m.to]).collect();
    // A donated buffer must have no other reference.
    let donates = program.donated.contains(&true);
    // A result that is shared and then donated would have to be copied. Those that are replicated are never overwritten.
    let may_share = |b: Buf, leader: &Leaders| {
        let is_replicated = |(i, _): (usize, &Buf)| {
            let replicas = replication.results.get(i).and_then(Option::as_ref);
            replicas.is_some_and(|r| leader.iter().enumerate().all(|(d, &l)| r[d] == r[l]))
        };
        !donates || program.main.results.iter().enumerate().filter(|&(_, r)| *r == b).all(is_replicated)
    };
    let fits =
        |b: Buf, leader: &Leaders| live.same[b.0 as usize] == b.0 && !exchanged.contains(&b.0) && may_share(b, leader);
    for (&b, writers) in &writers {
        if let [Writer::Exchange(c)] = writers[..]
            && program.bufs[b.0 as usize].bytes >= LEAST_BYTES
            && let Some(leader) = replicated_after(c, devices)
            && fits(b, &leader)
        {
            let arena = sharing.arena(&leader);
            sharing.of.insert(b.0, arena);
        }
    }
    let Replicated { steps, loops, values } = replicated(program, devices, &replication.args);
    sharing.once_loops = loops;
    let result = |b: &Buf| values.get(b).filter(|l| may_share(*b, l) && live.same[b.0 as usize] == b.0).cloned();
    sharing.results = program.main.results.iter().map(result).collect();
    for (&start, leader) in &steps {
        let Node::Step(step) = &program.main.nodes[start] else { continue };
        if step.work.cost() < LEAST_NS || sharing.once.contains_key(&start) {
            continue;
        }
        // All that write the same buffers go with it.
        let mut together = vec![start];
        let mut at = 0;
        let mut right = true;
        while at < together.len() && right {
            let Node::Step(step) = &program.main.nodes[together[at]] else { break };
            at += 1;
            for b in &step.writes {
                right &= fits(*b, leader) && program.bufs[b.0 as usize].bytes > 0;
                for writer in &writers[b] {
                    match *writer {
                        Writer::Step(i) if steps.get(&i) == Some(leader) => {
                            if !together.contains(&i) {
                                together.push(i);
                            }
                        }
                        Writer::Step(_) | Writer::Inner | Writer::Exchange(_) => right = false,
                    }
                }
            }
        }
        if right {
            let arena = sharing.arena(leader);
            for i in together {
                let Node::Step(step) = &program.main.nodes[i] else { continue };
                sharing.once.insert(i, arena);
                step.writes.iter().for_each(|b| {
                    sharing.of.insert(b.0, arena);
                });
            }
        }
    }
    sharing
}

/// Who writes a buffer.
#[derive(Clone, Copy)]
enum Writer<'p> {
    /// The step at this position of the entry block.
    Step(usize),
    /// A step of a loop or choice.
    Inner,
    Exchange(&'p Collective),
}

impl Sharing {
    /// The index of the arena of these groups.
    fn arena(&mut self, leader: &Leaders) -> usize {
        let known = self.arenas.iter().position(|known| known.leader == *leader);
        known.unwrap_or_else(|| {
            self.arenas.push(SharedArena { leader: leader.clone(), bytes: 0 });
            self.arenas.len() - 1
        })
    }
}

/// What is the same on several devices, and on which.
struct Replicated {
    /// Steps of the entry block, by position.
    steps: BTreeMap<usize, Leaders>,
    /// Loops of the entry block without communication, by position.
    loops: HashMap<usize, Leaders>,
    /// Buffers, in the end.
    values: HashMap<Buf, Leaders>,
}

/// Finds what the entry block does the same on several devices.
fn replicated(program: &Program, devices: usize, args: &[Option<Leaders>]) -> Replicated {
    let all: Leaders = vec![0; devices].into();
    let mut replicated: HashMap<Buf, Leaders> = HashMap::default();
    for (b, info) in program.bufs.iter().enumerate() {
        if info.constant.is_some() {
            replicated.insert(Buf(b as u32), all.clone());
        }
    }
    for (i, &b) in program.main.args.iter().enumerate() {
        let donated = program.donated.get(i).is_some_and(|&d| d);
        if let Some(leader) = args.get(i).and_then(Option::as_ref).filter(|l| l.len() == devices && !donated) {
            replicated.insert(b, leader.clone());
        }
    }
    let (mut steps, mut loops) = (BTreeMap::new(), HashMap::default());
    for (i, node) in program.main.nodes.iter().enumerate() {
        match node {
            Node::Step(step) => {
                let found = result_of(step, &replicated, &all);
                for &b in &step.writes {
                    match &found {
                        Some(leader) => replicated.insert(b, leader.clone()),
                        None => replicated.remove(&b),
                    };
                }
                found.into_iter().for_each(|leader| {
                    steps.insert(i, leader);
                });
            }
            Node::Collective(c) => {
                for &b in &c.results {
                    match replicated_after(c, devices) {
                        Some(leader) => replicated.insert(b, leader),
                        None => replicated.remove(&b),
                    };
                }
            }
            Node::While(w) => {
                if let Some(leader) = loop_of(w, &replicated, &all) {
                    for &b in w.body.args.iter().chain(&w.cond.args) {
                        replicated.insert(b, leader.clone());
                    }
                    loops.insert(i, leader);
                }
            }
            // Their results are not tracked.
            Node::Await(_) | Node::Case(_) => {}
        }
    }
    Replicated { steps, loops, values: replicated }
}

/// On which devices the loop `w` does the same, if on any two: it does not communicate, does nothing that depends on the
/// device, and what it reads from outside is replicated.
fn loop_of(w: &While, replicated: &HashMap<Buf, Leaders>, all: &Leaders) -> Option<Leaders> {
    let mut inside: HashSet<Buf> = w.body.args.iter().chain(&w.cond.args).copied().collect();
    let mut reads: Vec<Buf> = w.init.clone();
    let mut uniform = true;
    let mut node = |node: &Node| match node {
        Node::Step(step) => {
            uniform &= step.work.is_uniform();
            reads.extend(&step.reads);
            inside.extend(&step.writes);
        }
        Node::Collective(_) | Node::Await(_) => uniform = false,
        Node::While(inner) => {
            reads.extend(inner.init.iter().chain(&inner.body.results).chain(&inner.cond.results));
            inside.extend(inner.body.args.iter().chain(&inner.cond.args));
        }
        Node::Case(c) => {
            reads.push(c.index);
            reads.extend(c.branches.iter().flat_map(|b| &b.results));
            inside.extend(&c.results);
        }
    };
    visit(&w.cond, &mut node);
    visit(&w.body, &mut node);
    reads.extend(w.body.results.iter().chain(&w.cond.results));
    let mut outside = reads.iter().filter(|b| !inside.contains(b));
    uniform.then(|| common(&mut outside, replicated, all)).flatten()
}

/// On which devices the results of `step` are replicated, if on any two.
fn result_of(step: &Step, replicated: &HashMap<Buf, Leaders>, all: &Leaders) -> Option<Leaders> {
    if !step.work.is_uniform() {
        return None;
    }
    common(&mut step.reads.iter(), replicated, all)
}

/// The devices on which all of `bufs` are replicated, if any two.
fn common(bufs: &mut dyn Iterator<Item = &Buf>, replicated: &HashMap<Buf, Leaders>, all: &Leaders) -> Option<Leaders> {
    let mut leader = all.clone();
    for b in bufs {
        let other = replicated.get(b)?;
        if *other != leader {
            leader = finer(&leader, other);
        }
    }
    leader.iter().enumerate().any(|(d, &l)| d != l).then_some(leader)
}

/// The groups of devices that are in one group of both.
fn finer(a: &Leaders, b: &Leaders) -> Leaders {
    let same = |d: usize, e: usize| a[d] == a[e] && b[d] == b[e];
    (0..a.len()).map(|d| (0..d).find(|&e| same(d, e)).unwrap_or(d)).collect()
}

/// Which devices hold the same value after `c`, if every device is in exactly one group and all of a group get the same.
fn replicated_after(c: &Collective, devices: usize) -> Option<Leaders> {
    match c.kind {
        CollectiveKind::AllReduce(_) | CollectiveKind::AllGather { .. } | CollectiveKind::Broadcast => {}
        CollectiveKind::ReduceScatter { .. }
        | CollectiveKind::AllToAll { .. }
        | CollectiveKind::Permute { .. }
        | CollectiveKind::RaggedAllToAll
        | CollectiveKind::Reduce(_) => return None,
    }
    let mut leader = vec![None; devices];
    for group in &c.groups {
        let first = group.iter().min().copied()? as usize;
        for &d in group {
            let place = leader.get_mut(d as usize)?;
            if place.replace(first).is_some() {
                return None;
            }
        }
    }
    leader.into_iter().collect()
}

/// Every node of a block and of those in it, in order.
pub(super) fn visit<'p>(block: &'p Block, f: &mut impl FnMut(&'p Node)) {
    for node in &block.nodes {
        f(node);
        match node {
            Node::Step(_) | Node::Collective(_) | Node::Await(_) => {}
            Node::While(w) => {
                visit(&w.cond, f);
                visit(&w.body, f);
            }
            Node::Case(c) => c.branches.iter().for_each(|b| visit(b, f)),
        }
    }
}
