//! Fewer collectives for the same result: equal ones are shared, unused ones removed, small ones combined.
//!
//! Works on the per-device program before device lists are written, so that it does not depend on the number of
//! devices. All devices run the same program, so any change that keeps what each value depends on keeps the result.

use std::collections::{HashMap, HashSet};

use meshwork_ir::transform::dead::{is_effect_free, remove_dead};
use meshwork_ir::{BlockId, Module, OpId, OpKind, OpSpec, Trait, Type, ValueId, Walk};

use crate::collective::{Collective, CollectiveKind, Peers};

/// All-reduces are combined up to this many bytes of operands, if nothing else is asked for. At 50 GB/s this many bytes
/// take some 80 times as long as the latency that combining saves: more would gain nothing and cost memory.
pub const DEFAULT_COMBINE_BYTES: i64 = 4 << 20;

/// Optimises `module`, whose collectives are `collectives`, and keeps the list up to date.
pub fn optimize(module: &mut Module, collectives: &mut Vec<Collective>, combine_bytes: i64) {
    let by_op: HashMap<OpId, usize> = collectives.iter().enumerate().map(|(i, c)| (c.emitted, i)).collect();
    let blocks: Vec<BlockId> = blocks_with(module, &by_op);
    for &block in &blocks {
        share(module, block, collectives, &by_op);
    }
    remove_unused(module, collectives);
    for &block in &blocks {
        combine(module, block, collectives, &by_op, combine_bytes);
    }
    collectives.retain(|c| !module.is_erased(c.emitted));
}

/// Blocks that hold at least two collectives.
fn blocks_with(module: &Module, by_op: &HashMap<OpId, usize>) -> Vec<BlockId> {
    let mut count: HashMap<BlockId, usize> = HashMap::new();
    for &op in by_op.keys() {
        if let Some(block) = module.op(op).parent() {
            *count.entry(block).or_default() += 1;
        }
    }
    let mut blocks: Vec<BlockId> = count.into_iter().filter(|(_, n)| *n > 1).map(|(b, _)| b).collect();
    blocks.sort_unstable();
    blocks
}

/// Lets equal collectives of a block be one. Operands are equal if they are computed alike.
fn share(module: &mut Module, block: BlockId, collectives: &[Collective], by_op: &HashMap<OpId, usize>) {
    let mut same: HashMap<ValueId, ValueId> = HashMap::new();
    let mut seen: HashMap<(OpKind, Vec<ValueId>, Vec<Type>), Vec<OpId>> = HashMap::new();
    for op in module.op_list(block) {
        let data = module.op(op);
        let known = by_op.get(&op).map(|&i| &collectives[i]);
        if known.is_none() && (!data.kind().is_pure() || !data.regions().is_empty()) {
            continue;
        }
        let operands = data.operands().iter().map(|v| *same.get(v).unwrap_or(v)).collect();
        let types = data.results().iter().map(|&v| module.ty(v).clone()).collect();
        let alike = seen.entry((data.kind(), operands, types)).or_default();
        let equal = |&other: &OpId| {
            let peers = by_op.get(&other).map(|&i| &collectives[i]);
            module.op(other).attrs == data.attrs
                && peers.map(|c| (&c.kind, &c.peers)) == known.map(|c| (&c.kind, &c.peers))
                && !known.is_some_and(|c| matches!(c.peers, Peers::Given { .. }))
        };
        let Some(first) = alike.iter().copied().find(equal) else {
            alike.push(op);
            continue;
        };
        let pairs: Vec<(ValueId, ValueId)> =
            data.results().iter().copied().zip(module.op(first).results().iter().copied()).collect();
        for (later, earlier) in pairs {
            same.insert(later, earlier);
            if known.is_some() {
                module.replace_all_uses(later, earlier);
            }
        }
    }
}

/// Removes what nobody uses, collectives included.
fn remove_unused(module: &mut Module, collectives: &[Collective]) {
    remove_dead(module);
    loop {
        let unused = |c: &&Collective| {
            let data = module.op(c.emitted);
            !module.is_erased(c.emitted) && data.results().iter().all(|&r| module.value(r).uses().is_empty())
        };
        let dead: HashSet<OpId> = collectives.iter().filter(unused).map(|c| c.emitted).collect();
        if dead.is_empty() {
            return;
        }
        dead.into_iter().for_each(|op| module.erase(op));
        remove_dead(module);
    }
}

/// What collectives must agree in to be combined: group, combiner, element type, how often, and how many candidates
/// stand before them on a path.
type Key = (Vec<u8>, crate::layout::Combine, Type, i64, usize);

/// Combines independent all-reduces of one group and combiner into one of several operands.
fn combine(
    module: &mut Module,
    block: BlockId,
    collectives: &mut [Collective],
    by_op: &HashMap<OpId, usize>,
    limit: i64,
) {
    let ops = module.op_list(block);
    let chunks = chunks(module, &ops, collectives, by_op, limit);
    if chunks.is_empty() {
        return;
    }
    let mut merged = vec![];
    for chunk in &chunks {
        let ops: Vec<OpId> = chunk.iter().map(|&i| collectives[i].emitted).collect();
        let joint = join(module, &ops);
        merged.push((joint, ops));
        let mut total = collectives[chunk[0]].clone();
        total.emitted = joint;
        for &i in &chunk[1..] {
            total.operand_bytes += collectives[i].operand_bytes;
            total.wire_bytes += collectives[i].wire_bytes;
            total.origins.extend(collectives[i].origins.clone());
        }
        collectives[chunk[0]] = total;
    }
    reorder(module, block, &ops, &merged);
    for op in merged.into_iter().flat_map(|(_, members)| members) {
        module.erase(op);
    }
}

/// Candidates that may become one, at least two together. Candidates of one key have equally many candidates before
/// them, so none depends on another, and combining several sets can not close a circle.
fn chunks(
    module: &Module,
    ops: &[OpId],
    collectives: &[Collective],
    by_op: &HashMap<OpId, usize>,
    limit: i64,
) -> Vec<Vec<usize>> {
    let mut depth: HashMap<ValueId, usize> = HashMap::new();
    let mut keys: Vec<Key> = vec![];
    let mut open: HashMap<Key, Vec<Vec<usize>>> = HashMap::new();
    for &op in ops {
        let before = inputs(module, op).filter_map(|v| depth.get(&v)).max().copied().unwrap_or(0);
        let candidate = by_op.get(&op).and_then(|&i| Some((i, key(module, &collectives[i], before)?)));
        let after = before + usize::from(candidate.is_some());
        depth.extend(module.op(op).results().iter().map(|&r| (r, after)));
        let Some((index, key)) = candidate else { continue };
        let lists = open.entry(key.clone()).or_insert_with(|| {
            keys.push(key);
            vec![]
        });
        let bytes = |list: &Vec<usize>| list.iter().map(|&i| collectives[i].operand_bytes).sum::<i64>();
        match lists.last_mut() {
            Some(list) if bytes(list) + collectives[index].operand_bytes <= limit => list.push(index),
            _ => lists.push(vec![index]),
        }
    }
    let all = keys.into_iter().flat_map(|key| open.remove(&key).unwrap_or_default());
    all.filter(|list| list.len() > 1).collect()
}

fn key(module: &Module, c: &Collective, depth: usize) -> Option<Key> {
    let (CollectiveKind::AllReduce(combine), Peers::Group(list)) = (&c.kind, &c.peers) else { return None };
    let element = module.ty(*module.op(c.emitted).operands().first()?).elem()?;
    Some((list.to_vec(), *combine, Type::tensor([], element), c.times, depth))
}

/// Operands of `op`, and what its regions use.
fn inputs<'m>(module: &'m Module, op: OpId) -> impl Iterator<Item = ValueId> + 'm {
    let below = match module.op(op).regions().is_empty() {
        true => vec![op],
        false => module.ops_below(op, Walk::PreOrder),
    };
    below.into_iter().flat_map(|inner| module.op(inner).operands().iter().copied())
}

/// One operation, not yet in a block, that does what `ops` do. Uses are redirected to it.
fn join(module: &mut Module, ops: &[OpId]) -> OpId {
    let first = module.op(ops[0]).clone();
    let operands: Vec<ValueId> = ops.iter().flat_map(|&op| module.op(op).operands().to_vec()).collect();
    let types: Vec<Type> = operands.iter().map(|&v| module.ty(v).clone()).collect();
    let mut spec = OpSpec::new(first.kind()).operands(operands).results(types);
    (spec.attrs, spec.loc, spec.pos) = (first.attrs.clone(), first.loc.clone(), first.pos);
    let joint = module.create(spec);
    let (body, region) = (module.op(ops[0]).regions()[0], module.add_region(joint));
    module.move_blocks(body, region);
    let results = module.op(joint).results().to_vec();
    let olds: Vec<ValueId> = ops.iter().flat_map(|&op| module.op(op).results().to_vec()).collect();
    for (old, new) in olds.into_iter().zip(results) {
        module.replace_all_uses(old, new);
    }
    joint
}

/// Puts each joint operation where the last of its members stood, and what depends on it after it.
fn reorder(module: &mut Module, block: BlockId, ops: &[OpId], merged: &[(OpId, Vec<OpId>)]) {
    let Some(end) = module.terminator(block) else { return };
    let joint_of = merged.iter().enumerate().flat_map(|(i, (_, members))| members.iter().map(move |&m| (m, i)));
    let mut order = Order {
        joint_of: joint_of.collect(),
        to_come: merged.iter().map(|(_, members)| members.len()).collect(),
        missing: merged.iter().flat_map(|(joint, _)| module.op(*joint).results().to_vec()).collect(),
        effect_waits: false,
        merged,
        end,
    };
    let mut delayed: Vec<OpId> = vec![];
    for &op in ops.iter().filter(|&&op| op != end) {
        match order.place(module, op) {
            Placed::Waits => delayed.push(op),
            Placed::Done => {}
            Placed::Releases => {
                let mut again = true;
                while again {
                    (again, order.effect_waits) = (false, false);
                    for op in std::mem::take(&mut delayed) {
                        match order.place(module, op) {
                            Placed::Waits => delayed.push(op),
                            Placed::Done => {}
                            Placed::Releases => again = true,
                        }
                    }
                }
            }
        }
    }
}

/// A block being put in order.
struct Order<'a> {
    joint_of: HashMap<OpId, usize>,
    /// Members of each joint operation that have not come yet.
    to_come: Vec<usize>,
    /// Values that are not computed yet, among those that were moved back.
    missing: HashSet<ValueId>,
    /// Whether an operation with effects waits: others keep behind it.
    effect_waits: bool,
    merged: &'a [(OpId, Vec<OpId>)],
    end: OpId,
}

enum Placed {
    /// Something it needs is missing.
    Waits,
    Done,
    /// Done, and a joint operation with it: others may be able to go now.
    Releases,
}

impl Order<'_> {
    fn place(&mut self, module: &mut Module, op: OpId) -> Placed {
        let kind = module.op(op).kind();
        let has_effect = !kind.is_pure() && !kind.has(Trait::Collective) && !is_effect_free(module, op);
        if inputs(module, op).any(|v| self.missing.contains(&v)) || (has_effect && self.effect_waits) {
            self.effect_waits |= has_effect;
            self.missing.extend(module.op(op).results().iter().copied());
            return Placed::Waits;
        }
        let Some(&i) = self.joint_of.get(&op) else {
            self.emit(module, op);
            return Placed::Done;
        };
        self.to_come[i] -= 1;
        if self.to_come[i] > 0 {
            return Placed::Done;
        }
        self.emit(module, self.merged[i].0);
        Placed::Releases
    }

    fn emit(&mut self, module: &mut Module, op: OpId) {
        for v in module.op(op).results() {
            self.missing.remove(v);
        }
        module.detach(op);
        module.insert_before(self.end, op);
    }
}
