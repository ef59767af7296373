//! Gathers are freed and repeated where the device's memory has no room for their results until the last use.
//!
//! At the operation that needs most memory, what was gathered before and is used only later need not be there: it is
//! gathered again for the later uses. So FSDP keeps a layer's weights from the forward to the backward pass where there is
//! room, and gathers them twice where there is not.

use meshwork_ir::hash::HashMap;
use meshwork_ir::op::MovementOp;
use meshwork_ir::{BlockId, Module, OpId, OpKind, Use, ValueId, ValueMap};

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
        let mut orders: HashMap<BlockId, Order> = HashMap::default();
        for (bytes, v, chain) in found {
            let Some(block) = chain.last().and_then(|&op| module.op(op).parent()) else { continue };
            if freed >= excess {
                break;
            }
            let order = orders.entry(block).or_insert_with(|| Order::of(module, block));
            if repeat(module, collectives, &by_op, order, at, v, &chain) {
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

/// The places of the operations of a block, of which those that are inserted between two others are also told apart.
///
/// Numbering the operations again for every gather takes longer than all the rest where there are thousands of both.
struct Order {
    block: BlockId,
    /// Operations that were there have even numbers, those that are inserted odd ones and a number of their own.
    places: HashMap<OpId, (usize, usize)>,
    inserted: usize,
}

impl Order {
    fn of(module: &Module, block: BlockId) -> Order {
        let places = module.ops_in(block).enumerate().map(|(i, op)| (op, (2 * i, 0))).collect();
        Order { block, places, inserted: 0 }
    }

    /// The operation of the block that has a use, and its place.
    fn place(&self, module: &Module, u: &Use) -> Option<((usize, usize), OpId)> {
        let op = ancestor_in(module, u.op, self.block)?;
        Some((*self.places.get(&op)?, op))
    }

    /// Notes that `op` was inserted right before `anchor`.
    fn insert(&mut self, op: OpId, (anchor, number): (usize, usize)) {
        self.inserted += 1;
        // Before one that was inserted itself there is room only by its number: those come later than all that are there.
        let place = if number == 0 { (anchor.saturating_sub(1), self.inserted) } else { (anchor, number) };
        self.places.insert(op, place);
    }
}

/// Recomputes `v` by `chain` for its uses behind `peak`. `false` if there are none, or if the peak itself uses it.
fn repeat(
    module: &mut Module,
    collectives: &mut Vec<Collective>,
    by_op: &HashMap<OpId, usize>,
    order: &mut Order,
    peak: OpId,
    v: ValueId,
    chain: &[OpId],
) -> bool {
    let Some(peak) = ancestor_in(module, peak, order.block) else { return false };
    let places: Vec<((usize, usize), OpId)> =
        module.value(v).uses().iter().filter_map(|u| order.place(module, u)).collect();
    let Some(&here) = order.places.get(&peak) else { return false };
    let before = places.iter().any(|(p, _)| *p < here);
    let first = places.iter().filter(|(p, _)| *p > here).min().copied();
    let Some((first, anchor)) = first.filter(|_| places.iter().all(|(p, _)| *p != here)) else { return false };
    // What nothing used so far could be gathered later instead; it would be alive all the same in the plans made here.
    if !before && module.next_op(chain[0]) == Some(anchor) {
        return false;
    }
    let mut map = ValueMap::default();
    let mut made = v;
    for &op in chain {
        let copy = module.clone_op(op, &mut map);
        module.insert_before(anchor, copy);
        order.insert(copy, first);
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
    module.replace_uses_if(v, made, |module, u| order.place(module, &u).is_some_and(|(p, _)| p >= first));
    true
}
