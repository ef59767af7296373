//! Gathers are freed and repeated where the device's memory has no room for their results until the last use.
//!
//! At the operation that needs most memory, what was gathered before and is used only later need not be there: it is
//! gathered again for the later uses. So FSDP keeps a layer's weights from the forward to the backward pass where there is
//! room, and gathers them twice where there is not.

use meshwork_ir::hash::HashMap;
use meshwork_ir::op::MovementOp;
use meshwork_ir::{Module, OpId, OpKind, Use, ValueId, ValueMap};

use super::gathers::ancestor_in;
use super::{Collective, CollectiveKind, Peers};
use crate::plan::memory::{alive_at_peak, type_bytes};

/// More often than this the peak is not looked for.
const MOST_ROUNDS: usize = 256;

/// Repeats gathers of `module` until it fits into `room` bytes, or none is left to free.
pub fn repeat_gathers(module: &mut Module, collectives: &mut Vec<Collective>, room: f64) {
    let Some(func) = module.entry() else { return };
    for _ in 0..MOST_ROUNDS {
        let Some((bytes, at, alive)) = alive_at_peak(module, func) else { return };
        let excess = bytes as f64 - room;
        if excess <= 0.0 {
            return;
        }
        let by_op: HashMap<OpId, usize> = collectives.iter().enumerate().map(|(i, c)| (c.emitted, i)).collect();
        let mut found: Vec<(i64, ValueId, Vec<OpId>)> = vec![];
        for v in alive {
            if let Some(chain) = gathered(module, v, collectives, &by_op) {
                found.push((type_bytes(module.ty(v)), v, chain));
            }
        }
        found.sort_by_key(|(bytes, v, _)| (std::cmp::Reverse(*bytes), *v));
        let mut freed = 0.0;
        for (bytes, v, chain) in found {
            if freed < excess && repeat(module, collectives, &by_op, at, v, &chain) {
                freed += bytes as f64;
            }
        }
        if freed == 0.0 {
            return;
        }
    }
}

/// The gather that `v` is the result of, and what moves its elements about from there to `v`, first to last.
fn gathered(
    module: &Module,
    v: ValueId,
    collectives: &[Collective],
    by_op: &HashMap<OpId, usize>,
) -> Option<Vec<OpId>> {
    let (mut at, mut chain) = (v, vec![]);
    loop {
        let op = module.def_op(at)?;
        chain.push(op);
        if let Some(&i) = by_op.get(&op) {
            let c = &collectives[i];
            let is_own = c.kind == CollectiveKind::AllGather && matches!(c.peers, Peers::Group(_));
            chain.reverse();
            return is_own.then_some(chain);
        }
        let moves = matches!(
            module.op(op).kind(),
            OpKind::Movement(MovementOp::Reshape | MovementOp::Transpose | MovementOp::Slice)
        );
        if !moves || chain.len() > 8 {
            return None;
        }
        at = module.op(op).operands()[0];
    }
}

/// Recomputes `v` by `chain` for its uses behind `peak`. `false` if there are none, or if the peak itself uses it.
fn repeat(
    module: &mut Module,
    collectives: &mut Vec<Collective>,
    by_op: &HashMap<OpId, usize>,
    peak: OpId,
    v: ValueId,
    chain: &[OpId],
) -> bool {
    let Some(block) = chain.last().and_then(|&op| module.op(op).parent()) else { return false };
    let Some(peak) = ancestor_in(module, peak, block) else { return false };
    let order: HashMap<OpId, usize> = module.ops_in(block).enumerate().map(|(i, op)| (op, i)).collect();
    let place = |module: &Module, u: &Use| ancestor_in(module, u.op, block).and_then(|op| order.get(&op).copied());
    let places: Vec<usize> = module.value(v).uses().iter().filter_map(|u| place(module, u)).collect();
    let here = order[&peak];
    let (before, first) = (places.iter().any(|&p| p < here), places.iter().copied().filter(|&p| p > here).min());
    let Some(first) = first.filter(|_| !places.contains(&here)) else { return false };
    // What nothing used so far could be gathered later instead; it would be alive all the same in the plans made here.
    if !before && order.get(&chain[0]).is_some_and(|&p| p + 1 == first) {
        return false;
    }
    let Some(anchor) = module.ops_in(block).nth(first) else { return false };
    let mut map = ValueMap::default();
    let mut made = v;
    for &op in chain {
        let copy = module.clone_op(op, &mut map);
        module.insert_before(anchor, copy);
        made = module.result(copy);
        map.insert(module.result(op), made);
        if let Some(&i) = by_op.get(&op) {
            let mut again = collectives[i].clone();
            again.emitted = copy;
            for origin in &mut again.origins {
                origin.reason = format!("{}; gathered again, as memory has no room to keep it", origin.reason).into();
            }
            collectives.push(again);
        }
    }
    module.replace_uses_if(v, made, |module, u| place(module, &u).is_some_and(|p| p >= first));
    true
}
