//! What several devices of a process have in common: results of communication, and what is computed from those.
//!
//! All members of a group get the same from an all-reduce, an all-gather or a broadcast, and the caller may give the same
//! memory to several devices. What is computed from such values by steps that are the same on every device is *alike*,
//! too. A large result of communication is in memory of the group, and every member points there. An expensive step whose
//! operands are alike is done *once* for the group, by its first member, and its results are there as well.
//!
//! Memory of a group is written only when all members have done what comes before: by communication of exactly these
//! groups, or by a step of the entry block for which the coordinator waits for all devices. So what is dead on each of
//! them may be overwritten, and the usual liveness of one device decides. Groups that differ do not share memory.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use super::live::{Live, MoveKind};
use crate::device_program::Replication;
use crate::program::{Block, Collective, CollectiveKind, Node, Program};
use crate::step::{Buf, Step};

/// Smaller results of communication are written by every member for itself.
const LEAST_BYTES: usize = 16 << 10;
/// Steps that take fewer nanoseconds are done by every device for itself: waiting for all costs some.
const LEAST_NS: u64 = 20_000;

/// The first device of each device's group, who stands for it: devices with the same one have the same.
pub type Leaders = Arc<[usize]>;

/// Groups of devices that have memory together.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Commons {
    /// Who stands for each device.
    pub leader: Leaders,
    /// Size of the memory of a group.
    pub bytes: usize,
}

/// What is shared.
#[derive(Clone, Debug, Default)]
pub struct Sharing {
    /// By buffer: the number of the commons it is in.
    pub of: HashMap<u32, usize>,
    /// By position in the entry block: the commons whose leaders do the step for all.
    pub once: HashMap<usize, usize>,
    /// All commons; their sizes are not known yet.
    pub commons: Vec<Commons>,
    /// Per result of the program: on which devices it is alike, wherever it lies.
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
    // Loops and choices hand memory on.
    let handed: HashSet<u32> =
        live.moves.iter().filter(|m| m.kind != MoveKind::InPlace).flat_map(|m| [m.from, m.to]).collect();
    // Whoever donates must have the only reference.
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
        |b: Buf, leader: &Leaders| live.same[b.0 as usize] == b.0 && !handed.contains(&b.0) && may_share(b, leader);
    for (&b, writers) in &writers {
        if let [Writer::Exchange(c)] = writers[..]
            && program.bufs[b.0 as usize].bytes >= LEAST_BYTES
            && let Some(leader) = alike_after(c, devices)
            && fits(b, &leader)
        {
            let number = sharing.number(&leader);
            sharing.of.insert(b.0, number);
        }
    }
    let (alike, values) = alike_steps(program, devices, &replication.args);
    let result = |b: &Buf| values.get(b).filter(|l| may_share(*b, l) && live.same[b.0 as usize] == b.0).cloned();
    sharing.results = program.main.results.iter().map(result).collect();
    for &start in alike.keys() {
        let Node::Step(step) = &program.main.nodes[start] else { continue };
        if step.work.cost() < LEAST_NS || sharing.once.contains_key(&start) {
            continue;
        }
        // All that write the same buffers go with it.
        let leader = &alike[&start];
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
                        Writer::Step(i) if alike.get(&i) == Some(leader) => {
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
            let number = sharing.number(leader);
            for i in together {
                let Node::Step(step) = &program.main.nodes[i] else { continue };
                sharing.once.insert(i, number);
                step.writes.iter().for_each(|b| {
                    sharing.of.insert(b.0, number);
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
    /// The number of the commons of these groups.
    fn number(&mut self, leader: &Leaders) -> usize {
        let known = self.commons.iter().position(|known| known.leader == *leader);
        known.unwrap_or_else(|| {
            self.commons.push(Commons { leader: leader.clone(), bytes: 0 });
            self.commons.len() - 1
        })
    }
}

/// Steps of the entry block by position, and buffers, with the devices on which they are alike.
type AlikeSteps = (BTreeMap<usize, Leaders>, HashMap<Buf, Leaders>);

/// The steps of the entry block that do the same on several devices, and what is alike in the end.
fn alike_steps(program: &Program, devices: usize, args: &[Option<Leaders>]) -> AlikeSteps {
    let all: Leaders = vec![0; devices].into();
    let mut alike: HashMap<Buf, Leaders> = HashMap::new();
    for (b, info) in program.bufs.iter().enumerate() {
        if info.constant.is_some() {
            alike.insert(Buf(b as u32), all.clone());
        }
    }
    for (i, &b) in program.main.args.iter().enumerate() {
        let donated = program.donated.get(i).is_some_and(|&d| d);
        if let Some(leader) = args.get(i).and_then(Option::as_ref).filter(|l| l.len() == devices && !donated) {
            alike.insert(b, leader.clone());
        }
    }
    let mut steps = BTreeMap::new();
    for (i, node) in program.main.nodes.iter().enumerate() {
        match node {
            Node::Step(step) => {
                let found = result_of(step, &alike, &all);
                for &b in &step.writes {
                    match &found {
                        Some(leader) => alike.insert(b, leader.clone()),
                        None => alike.remove(&b),
                    };
                }
                found.into_iter().for_each(|leader| {
                    steps.insert(i, leader);
                });
            }
            Node::Collective(c) => {
                for &b in &c.results {
                    match alike_after(c, devices) {
                        Some(leader) => alike.insert(b, leader),
                        None => alike.remove(&b),
                    };
                }
            }
            // What they give is not followed.
            Node::Await(_) | Node::While(_) | Node::Case(_) => {}
        }
    }
    (steps, alike)
}

/// On which devices the results of `step` are alike, if on any two.
fn result_of(step: &Step, alike: &HashMap<Buf, Leaders>, all: &Leaders) -> Option<Leaders> {
    if !step.work.is_alike() {
        return None;
    }
    let mut leader = all.clone();
    for b in &step.reads {
        let other = alike.get(b)?;
        if *other != leader {
            leader = finer(&leader, other);
        }
    }
    leader.iter().enumerate().any(|(d, &l)| d != l).then_some(leader)
}

/// Groups of devices that are together in both.
fn finer(a: &Leaders, b: &Leaders) -> Leaders {
    let same = |d: usize, e: usize| a[d] == a[e] && b[d] == b[e];
    (0..a.len()).map(|d| (0..d).find(|&e| same(d, e)).unwrap_or(d)).collect()
}

/// Which devices have the same after `c`, if every device is in exactly one group and all of a group get the same.
fn alike_after(c: &Collective, devices: usize) -> Option<Leaders> {
    match c.kind {
        CollectiveKind::AllReduce(_) | CollectiveKind::AllGather { .. } | CollectiveKind::Broadcast => {}
        CollectiveKind::ReduceScatter { .. }
        | CollectiveKind::AllToAll { .. }
        | CollectiveKind::Permute { .. }
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
