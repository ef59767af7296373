//! Results of communication that the devices of a group can read from one piece of memory.
//!
//! All members of a group get the same from an all-reduce, an all-gather or a broadcast. If they are in one process
//! and nobody writes it later, one copy does: it lies in memory of the group, and every member points there.
//!
//! Memory of a group is written only when all members are at a communication of exactly these groups, so whatever
//! they did before is over: what is dead on each of them may be overwritten. That is why groups of different
//! communications do not share, unless they are the same.

use std::collections::{HashMap, HashSet};

use super::live::{Live, MoveKind};
use crate::program::{Block, Collective, CollectiveKind, Node, Program};
use crate::step::Buf;

/// Smaller results are written by every member for itself.
const LEAST_BYTES: usize = 16 << 10;

/// Groups of devices that have memory together.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Commons {
    /// The first member of each device's group, who stands for it.
    pub leader: Vec<usize>,
    /// Size of the memory of a group.
    pub bytes: usize,
}

/// What is shared.
#[derive(Clone, Debug, Default)]
pub struct Sharing {
    /// By buffer: the number of the commons it may lie in.
    pub of: HashMap<u32, usize>,
    /// All commons; their sizes are not known yet.
    pub commons: Vec<Commons>,
}

/// Finds what `devices` devices in one process can share.
pub fn sharing(program: &Program, live: &Live, devices: usize) -> Sharing {
    let mut sharing = Sharing::default();
    if devices < 2 {
        return sharing;
    }
    let mut writes: HashMap<Buf, usize> = HashMap::new();
    let mut found: Vec<(&Collective, Buf)> = vec![];
    visit(&program.main, &mut |node| match node {
        Node::Step(step) => step.writes.iter().for_each(|&b| *writes.entry(b).or_default() += 1),
        Node::Collective(c) => {
            for &b in &c.results {
                *writes.entry(b).or_default() += 1;
                found.push((c, b));
            }
        }
        Node::While(_) | Node::Case(_) => {}
    });
    // Loops and choices hand memory on.
    let handed: HashSet<u32> =
        live.moves.iter().filter(|m| m.kind != MoveKind::InPlace).flat_map(|m| [m.from, m.to]).collect();
    // Whoever donates must have the only reference.
    let donates = program.donated.contains(&true);
    for (c, b) in found {
        let alike = match c.kind {
            CollectiveKind::AllReduce(_) | CollectiveKind::AllGather { .. } | CollectiveKind::Broadcast => true,
            CollectiveKind::ReduceScatter { .. } | CollectiveKind::AllToAll { .. } | CollectiveKind::Permute { .. } => {
                false
            }
        };
        let kept = program.main.results.contains(&b);
        let alone = writes[&b] == 1 && live.same[b.0 as usize] == b.0 && !handed.contains(&b.0);
        if !alike || !alone || (kept && donates) || program.bufs[b.0 as usize].bytes < LEAST_BYTES {
            continue;
        }
        let Some(leader) = leaders(c, devices) else { continue };
        let known = sharing.commons.iter().position(|known| known.leader == leader);
        let number = known.unwrap_or_else(|| {
            sharing.commons.push(Commons { leader, bytes: 0 });
            sharing.commons.len() - 1
        });
        sharing.of.insert(b.0, number);
    }
    sharing
}

/// Who stands for each device, if every device is in exactly one group.
fn leaders(c: &Collective, devices: usize) -> Option<Vec<usize>> {
    let mut leader = vec![None; devices];
    for group in &c.groups {
        for &d in group {
            let place = leader.get_mut(d as usize)?;
            if place.replace(group[0] as usize).is_some() {
                return None;
            }
        }
    }
    leader.into_iter().collect()
}

fn visit<'p>(block: &'p Block, f: &mut impl FnMut(&'p Node)) {
    for node in &block.nodes {
        f(node);
        match node {
            Node::Step(_) | Node::Collective(_) => {}
            Node::While(w) => {
                visit(&w.cond, f);
                visit(&w.body, f);
            }
            Node::Case(c) => c.branches.iter().for_each(|b| visit(b, f)),
        }
    }
}
