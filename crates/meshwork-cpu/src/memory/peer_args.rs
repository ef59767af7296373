//! Results of communication that are a peer's argument, unchanged, so that no bytes move.
//!
//! Arguments that are not donated are only read, and all devices of a process see the memory of all. So a permute or a
//! broadcast of such an argument gives each device a pointer to another's argument, and a result of the program
//! made this way is that shard of the argument itself, with one more reference.

use std::sync::Arc;

use meshwork_ir::hash::{HashMap, HashSet};

use super::live::{Live, Origin};
use super::share::visit;
use crate::program::{Collective, CollectiveKind, Node, Program};

/// Other devices' shards of an argument.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PeerArg {
    /// The argument.
    pub arg: usize,
    /// By device: whose shard it reads.
    pub from: Arc<[usize]>,
}

/// The buffers of `program` on `devices` devices in one process that are a peer's argument and need no memory.
pub fn peer_args(program: &Program, live: &Live, devices: usize) -> HashMap<u32, PeerArg> {
    let mut found: HashMap<u32, PeerArg> = HashMap::default();
    if devices < 2 {
        return found;
    }
    let (mut written, mut again) = (HashSet::default(), HashSet::default());
    visit(&program.main, &mut |node| {
        let writes = match node {
            Node::Step(step) => &step.writes,
            Node::Collective(c) => &c.results,
            Node::Case(c) => &c.results,
            Node::While(w) => &w.body.args,
            // What it ends has been counted where it began.
            Node::Await(_) => return,
        };
        again.extend(writes.iter().filter(|b| !written.insert(**b)).copied());
    });
    let donates = program.donated.contains(&true);
    for node in &program.main.nodes {
        let Node::Collective(c) = node else { continue };
        let Some((sources, unique)) = sources(c, devices) else { continue };
        for (operand, result) in c.operands.iter().zip(&c.results) {
            let bytes = |b: u32| program.bufs[b as usize].bytes;
            let (a, b) = (live.same[operand.0 as usize], live.same[result.0 as usize]);
            // A result that is donated later must have no other reference.
            let kept = !unique && donates && program.main.results.contains(result);
            if b != result.0 || again.contains(result) || bytes(a) != bytes(b) || kept {
                continue;
            }
            let here: Arc<[usize]> = (0..devices).collect();
            let before = match live.origins[a as usize] {
                Origin::Arg(arg) if !program.donated.get(arg as usize).is_some_and(|&d| d) => {
                    Some(PeerArg { arg: arg as usize, from: here })
                }
                _ => found.get(&a).cloned(),
            };
            if let Some(PeerArg { arg, from }) = before {
                found.insert(b, PeerArg { arg, from: sources.iter().map(|&d| from[d]).collect() });
            }
        }
    }
    found
}

/// By device: whose operand it gets unchanged, if all of them do; and whether no two get the same one.
fn sources(c: &Collective, devices: usize) -> Option<(Vec<usize>, bool)> {
    let mut from = vec![None; devices];
    match &c.kind {
        CollectiveKind::Permute { pairs } => {
            pairs.iter().for_each(|&(a, b)| from[b as usize] = Some(a as usize));
        }
        CollectiveKind::Broadcast => {
            for group in &c.groups {
                group.iter().for_each(|&d| from[d as usize] = Some(group[0] as usize));
            }
        }
        CollectiveKind::AllReduce(_)
        | CollectiveKind::ReduceScatter { .. }
        | CollectiveKind::AllGather { .. }
        | CollectiveKind::AllToAll { .. }
        | CollectiveKind::RaggedAllToAll
        | CollectiveKind::Reduce(_) => return None,
    }
    let from: Vec<usize> = from.into_iter().collect::<Option<_>>()?;
    let unique = from.iter().collect::<HashSet<_>>().len() == devices;
    Some((from, unique))
}
