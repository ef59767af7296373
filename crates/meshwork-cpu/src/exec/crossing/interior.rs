//! Steps cut in two: what does not need messages that are under way, and what does.
//!
//! A turn of a stencil is one fused step with a loop for the interior of a block and a few for its edges, which read halos. All of it would
//! wait for the halos. As two steps that write the same buffer, the interior runs while they are under way. No array is copied for that:
//! both write straight into the result.

use meshwork_ir::hash::HashSet;

use super::overlap::uses;
use crate::program::{Collective, Node};
use crate::step::{Apart, Buf, Step};

/// Less work than this is not worth a step of its own.
const LEAST_NS: u64 = 2_000;

/// The nodes of a block in their order, with steps cut in two where a part of them reads nothing that comes from a collective that
/// `crosses` processes.
pub(super) fn cut_steps(nodes: Vec<Node>, crosses: &dyn Fn(&Collective) -> bool) -> Vec<Node> {
    let mut late: HashSet<Buf> = HashSet::default();
    let mut out = vec![];
    for node in nodes {
        let (reads, writes) = uses(&node);
        let waits = reads.iter().any(|buf| late.contains(buf));
        if waits || matches!(&node, Node::Collective(c) if crosses(c)) {
            late.extend(writes);
        }
        match node {
            Node::Step(step) if waits => out.extend(cut(step, &late).into_iter().map(Node::Step)),
            node => out.push(node),
        }
    }
    out
}

fn cut(step: Step, late: &HashSet<Buf>) -> Vec<Step> {
    // One that goes on with what is there already does so in its order.
    if step.writes.iter().any(|buf| step.reads.contains(buf)) {
        return vec![step];
    }
    let apart = step.work.apart(&|buf| late.contains(&buf));
    let Some(Apart { early, early_reads, late, mut late_reads }) = apart.filter(|a| a.early.cost() >= LEAST_NS) else {
        return vec![step];
    };
    // The second step fills in what the first has left out.
    late_reads.extend(&step.writes);
    let one =
        |work, reads, name| Step { work, reads, writes: step.writes.clone(), in_place: vec![], op: step.op, name };
    vec![
        one(early, early_reads, format!("{}, interior", step.name)),
        one(late, late_reads, format!("{}, edges", step.name)),
    ]
}
