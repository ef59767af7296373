//! Gathers are freed and repeated where the device's memory has no room for their results until the last use.
//!
//! At the operation that needs most memory, what was gathered before and is used only later need not be there: it is
//! gathered again for the later uses. So FSDP keeps a layer's weights from the forward to the backward pass where there is
//! room, and gathers them twice where there is not.

use meshwork_ir::hash::HashMap;
use meshwork_ir::op::MovementOp;
use meshwork_ir::{BlockId, Module, OpId, OpKind, Use, ValueId, ValueMap};
use meshwork_mesh::sort_by_key;

use super::gathers::ancestor_in;
use super::{Collective, CollectiveKind, Peers};
use crate::plan::lives::{Life, Lives};

/// How often the lives of all values are looked at.
const MOST_ROUNDS: usize = 32;

/// Repeats gathers of `module` until it fits into `room` bytes, or none is left to free.
pub fn repeat_gathers(module: &mut Module, collectives: &mut Vec<Collective>, room: f64) {
    let Some(func) = module.entry() else { return };
    if !collectives.iter().any(is_own_gather) {
        return;
    }
    for _ in 0..MOST_ROUNDS {
        let Some(lives) = Lives::of(module, func) else { return };
        if lives.peak().1 as f64 <= room {
            return;
        }
        let mut freeing = Freeing::new(module, collectives, lives);
        let mut is_changed = false;
        while freeing.free_at_peak(room) {
            is_changed = true;
        }
        if !is_changed {
            return;
        }
    }
}

/// Whether a collective gathers what the program did not ask for.
fn is_own_gather(c: &Collective) -> bool {
    c.kind == CollectiveKind::AllGather && matches!(c.peers, Peers::Group(_))
}

/// A program whose gathers are being repeated. Lives are kept up to date but for what repeating takes in between: they are
/// looked at afresh when nothing more seems to be needed.
struct Freeing<'a> {
    module: &'a mut Module,
    collectives: &'a mut Vec<Collective>,
    lives: Lives,
    /// When each operation is done, with what is inside it.
    done: HashMap<OpId, usize>,
    /// The collective that each operation is.
    by_op: HashMap<OpId, usize>,
    orders: HashMap<BlockId, Order>,
}

impl<'a> Freeing<'a> {
    fn new(module: &'a mut Module, collectives: &'a mut Vec<Collective>, lives: Lives) -> Freeing<'a> {
        let mut done: HashMap<OpId, usize> = HashMap::default();
        for (time, &op) in lives.ops.iter().enumerate() {
            let mut at = Some(op);
            while let Some(op) = at.filter(|op| done.insert(*op, time) != Some(time)) {
                at = module.parent_op(op);
            }
        }
        let by_op = collectives.iter().enumerate().map(|(i, c)| (c.emitted, i)).collect();
        Freeing { module, collectives, lives, done, by_op, orders: HashMap::default() }
    }

    /// Frees what was gathered before the peak and is used only behind it, largest first, as far as `room` asks for it. `false`
    /// if there is room, or nothing to free.
    fn free_at_peak(&mut self, room: f64) -> bool {
        let (peak, bytes) = self.lives.peak();
        let excess = bytes as f64 - room;
        if excess <= 0.0 {
            return false;
        }
        let is_alive = |life: &Life| life.start < peak && peak <= life.end;
        let alive = (0..self.lives.all.len()).filter(|&i| is_alive(&self.lives.all[i]));
        let mut found: Vec<(usize, Vec<OpId>)> =
            alive.filter_map(|i| Some((i, self.gathered(self.lives.all[i].value)?))).collect();
        sort_by_key(&mut found, |(i, _)| (std::cmp::Reverse(self.lives.all[*i].bytes), self.lives.all[*i].value));
        let mut freed = 0.0;
        for (i, chain) in found {
            if freed >= excess {
                break;
            }
            if self.repeat(i, &chain, peak) {
                freed += self.lives.all[i].bytes as f64;
            }
        }
        freed > 0.0
    }

    /// The gather that `v` is the result of, and what moves its elements about from there to `v`, first to last.
    fn gathered(&self, v: ValueId) -> Option<Vec<OpId>> {
        let (mut at, mut chain) = (v, vec![]);
        loop {
            let op = self.module.def_op(at)?;
            chain.push(op);
            if let Some(&i) = self.by_op.get(&op) {
                chain.reverse();
                return is_own_gather(&self.collectives[i]).then_some(chain);
            }
            let moves = matches!(
                self.module.op(op).kind(),
                OpKind::Movement(MovementOp::Reshape | MovementOp::Transpose | MovementOp::Slice)
            );
            if !moves || chain.len() > 8 {
                return None;
            }
            at = self.module.op(op).operands()[0];
        }
    }

    /// Recomputes the value of life `i` by `chain` for its uses behind `peak`. `false` if there are none, or if the peak itself
    /// uses it.
    fn repeat(&mut self, i: usize, chain: &[OpId], peak: usize) -> bool {
        let Life { value: v, bytes, start, end } = self.lives.all[i];
        let Some(block) = chain.last().and_then(|&op| self.module.op(op).parent()) else { return false };
        let Some(at) = ancestor_in(self.module, self.lives.ops[peak], block) else { return false };
        let module = &mut *self.module;
        let order = self.orders.entry(block).or_insert_with(|| Order::of(module, block));
        let places: Vec<(f64, OpId)> = module.value(v).uses().iter().filter_map(|u| order.place(module, u)).collect();
        let Some(&here) = order.places.get(&at) else { return false };
        let last_before = places.iter().filter(|(p, _)| *p < here).max_by(|a, b| a.0.total_cmp(&b.0));
        let behind = places.iter().filter(|(p, _)| *p > here).min_by(|a, b| a.0.total_cmp(&b.0)).copied();
        let Some((first, anchor)) = behind.filter(|_| places.iter().all(|(p, _)| *p != here)) else { return false };
        // What nothing used so far could be gathered later instead; it would be alive all the same in the plans made here.
        if last_before.is_none() && module.next_op(chain[0]) == Some(anchor) {
            return false;
        }
        let done = |op: &OpId| self.done.get(op).copied();
        let until = last_before.and_then(|(_, op)| done(op)).unwrap_or(start);
        let again = done(&anchor).unwrap_or(end).min(end);
        let mut map = ValueMap::default();
        let mut made = v;
        for &op in chain {
            let copy = module.clone_op(op, &mut map);
            module.insert_before(anchor, copy);
            order.insert(module, copy);
            self.done.insert(copy, again);
            made = module.result(copy);
            map.insert(module.result(op), made);
            if let Some(&i) = self.by_op.get(&op) {
                let mut again = self.collectives[i].clone();
                again.emitted = copy;
                for origin in &mut again.origins {
                    origin.reason =
                        format!("{}; gathered again, as memory has no room to keep it", origin.reason).into();
                }
                self.by_op.insert(copy, self.collectives.len());
                self.collectives.push(again);
            }
        }
        let order = &self.orders[&block];
        self.module.replace_uses_if(v, made, |module, u| order.place(module, &u).is_some_and(|(p, _)| p >= first));
        self.lives.all[i].end = until.clamp(start, peak - 1);
        self.lives.all.push(Life { value: made, bytes, start: again, end });
        true
    }
}

/// The places of the operations of a block: numbers that are in their order, with room for others in between.
///
/// Numbering the operations again for every gather takes longer than all the rest where there are thousands of both.
struct Order {
    block: BlockId,
    places: HashMap<OpId, f64>,
}

impl Order {
    fn of(module: &Module, block: BlockId) -> Order {
        Order { block, places: module.ops_in(block).enumerate().map(|(i, op)| (op, i as f64)).collect() }
    }

    /// The place of the operation of the block that has a use, and the operation.
    fn place(&self, module: &Module, u: &Use) -> Option<(f64, OpId)> {
        let op = ancestor_in(module, u.op, self.block)?;
        Some((*self.places.get(&op)?, op))
    }

    /// Gives `op`, which was inserted, a place between its neighbours.
    fn insert(&mut self, module: &Module, op: OpId) {
        let of = |op: Option<OpId>| op.and_then(|op| self.places.get(&op).copied());
        let (before, after) = (of(module.prev_op(op)).unwrap_or(-1.0), of(module.next_op(op)).unwrap_or(f64::MAX));
        let place = before + (after - before) / 2.0;
        if before < place && place < after {
            self.places.insert(op, place);
        } else {
            *self = Order::of(module, self.block);
        }
    }
}
