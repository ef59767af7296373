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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collective::{Origin, Site};
    use crate::layout::Combine;
    use meshwork_ir::text;

    /// Optimises a program whose collectives all work over the first atom. Returns what is left of them.
    fn optimized(source: &str, limit: i64) -> (Module, Vec<Collective>) {
        let mut module = text::parse(source).unwrap_or_else(|d| panic!("{}", d.render("test", source)));
        let ops = module.all_ops(Walk::PreOrder);
        let mut collectives = vec![];
        for emitted in ops {
            let kind = match module.op(emitted).kind() {
                OpKind::AllReduce => CollectiveKind::AllReduce(Combine::Add),
                OpKind::AllGather => CollectiveKind::AllGather,
                OpKind::CollectivePermute => CollectiveKind::Permute,
                _ => continue,
            };
            let operand_bytes = crate::memory::type_bytes(module.ty(module.op(emitted).operands()[0]));
            let wire_bytes = operand_bytes as f64;
            let origins = vec![Origin { site: Site::Op(emitted), tensor: None, reason: "test".into(), wire_bytes }];
            let peers = Peers::Group([0].into_iter().collect());
            let (times, times_unknown) = (1, false);
            let collective =
                Collective { kind, peers, operand_bytes, wire_bytes, times, times_unknown, emitted, origins };
            collectives.push(collective);
        }
        optimize(&mut module, &mut collectives, limit);
        assert_eq!(meshwork_ir::verify::verify(&module), [], "{}", text::print(&module));
        (module, collectives)
    }

    fn kinds(module: &Module) -> Vec<&str> {
        let ops = module.all_ops(Walk::PreOrder);
        let names = ops.iter().map(|&op| module.op(op).kind().name());
        names.filter(|n| n.starts_with("stablehlo.") && *n != "stablehlo.return").map(|n| &n[10..]).collect()
    }

    const PERMUTE: &str = r#""stablehlo.collective_permute"(%V) <{source_target_pairs = dense<[[0, 1]]> : tensor<1x2xi64>}>
        : (tensor<1xf32>) -> tensor<1xf32>"#;

    #[test]
    fn equal_collectives_on_equal_operands_are_one_and_unused_ones_none() {
        let source = format!(
            "func.func @main(%a: tensor<4xf32>) -> (tensor<1xf32>, tensor<1xf32>) {{
              %0 = stablehlo.slice %a [0:1] : (tensor<4xf32>) -> tensor<1xf32>
              %1 = {}
              %2 = stablehlo.slice %a [0:1] : (tensor<4xf32>) -> tensor<1xf32>
              %3 = {}
              %4 = stablehlo.slice %a [1:2] : (tensor<4xf32>) -> tensor<1xf32>
              %5 = {}
              return %1, %3 : tensor<1xf32>, tensor<1xf32> }}",
            PERMUTE.replace("%V", "%0"),
            PERMUTE.replace("%V", "%2"),
            PERMUTE.replace("%V", "%4"),
        );
        let (module, collectives) = optimized(&source, 0);
        assert_eq!(kinds(&module), ["slice", "collective_permute"]);
        assert_eq!(collectives.len(), 1);
    }

    fn sum(operand: &str) -> String {
        format!(
            r#""stablehlo.all_reduce"({operand}) <{{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}}> ({{
                ^bb0(%p: tensor<f32>, %q: tensor<f32>):
                  %s = stablehlo.add %p, %q : tensor<f32>
                  stablehlo.return %s : tensor<f32> }}) : (tensor<4xf32>) -> tensor<4xf32>"#
        )
    }

    #[test]
    fn users_of_an_early_member_move_behind_the_joint_sum() {
        let source = format!(
            "func.func @main(%a: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {{
              %0 = {}
              %1 = stablehlo.negate %0 : tensor<4xf32>
              %2 = stablehlo.tanh %a : tensor<4xf32>
              %3 = {}
              return %1, %3 : tensor<4xf32>, tensor<4xf32> }}",
            sum("%a"),
            sum("%2"),
        );
        let (module, collectives) = optimized(&source, 32);
        assert_eq!(kinds(&module), ["tanh", "all_reduce", "add", "negate"]);
        let [one] = &collectives[..] else { panic!("{collectives:?}") };
        assert_eq!((one.operand_bytes, one.wire_bytes, one.origins.len()), (32, 32.0, 2));
        // One byte less, and they stay apart.
        assert_eq!(optimized(&source, 31).1.len(), 2);
    }

    #[test]
    fn sets_that_cross_do_not_close_a_circle() {
        // a1 before b1 and b2 before a2: only sums with equally many before them are combined.
        let source = format!(
            "func.func @main(%a: tensor<4xf32>, %b: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {{
              %0 = {}
              %1 = {}
              %2 = {}
              %3 = {}
              return %1, %3 : tensor<4xf32>, tensor<4xf32> }}",
            sum("%a"),
            sum("%0"),
            sum("%b"),
            sum("%2"),
        );
        let (module, collectives) = optimized(&source, 1 << 20);
        assert_eq!(collectives.len(), 2);
        assert_eq!(kinds(&module), ["all_reduce", "add", "all_reduce", "add"]);
    }
}
