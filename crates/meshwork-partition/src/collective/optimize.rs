//! Fewer collectives for the same result: equal ones are shared, unused ones removed, reductions that are added up are one
//! (`sums.rs`), sums that loops add up are reduced after them (`accumulate.rs`), what loops gather part by part is gathered
//! once (`gathers.rs`), small ones combined (`combine.rs`). Where memory has no room, gathers are repeated (`repeat.rs`).
//!
//! Works on the per-device program before device lists are written, so that it does not depend on the number of
//! devices. All devices run the same program, so any change that keeps what each value depends on keeps the result.

use meshwork_ir::hash::{HashMap, HashSet};
use meshwork_ir::transform::dead::remove_dead;
use meshwork_ir::{BlockId, Module, OpId, OpKind, Type, ValueId};

use crate::collective::accumulate::reduce_after_loops;
use crate::collective::combine::{Limit, combine};
use crate::collective::gathers::gather_once;
use crate::collective::repeat::repeat_gathers;
use crate::collective::sums::reduce_sums;
use crate::collective::{Collective, Peers};

/// Optimizes `module`, whose collectives are `collectives`, and keeps the list up to date. `room` is how many bytes of
/// memory a device has, if that is known.
pub fn optimize(module: &mut Module, collectives: &mut Vec<Collective>, limit: &Limit<'_>, room: Option<f64>) {
    let by_op: HashMap<OpId, usize> = collectives.iter().enumerate().map(|(i, c)| (c.emitted, i)).collect();
    let blocks: Vec<BlockId> = blocks_with(module, &by_op);
    for &block in &blocks {
        share(module, block, collectives, &by_op);
    }
    remove_unused(module, collectives);
    collectives.retain(|c| !module.is_erased(c.emitted));
    reduce_sums(module, collectives);
    collectives.retain(|c| !module.is_erased(c.emitted));
    reduce_after_loops(module, collectives);
    gather_once(module, collectives, room);
    collectives.retain(|c| !module.is_erased(c.emitted));
    if let Some(room) = room {
        repeat_gathers(module, collectives, room);
        remove_unused(module, collectives);
        collectives.retain(|c| !module.is_erased(c.emitted));
    }
    let by_op: HashMap<OpId, usize> = collectives.iter().enumerate().map(|(i, c)| (c.emitted, i)).collect();
    for block in blocks_with(module, &by_op) {
        combine(module, block, collectives, &by_op, limit);
    }
    collectives.retain(|c| !module.is_erased(c.emitted));
}

/// Blocks that hold at least two collectives.
fn blocks_with(module: &Module, by_op: &HashMap<OpId, usize>) -> Vec<BlockId> {
    let mut count: HashMap<BlockId, usize> = HashMap::default();
    for &op in by_op.keys() {
        if let Some(block) = module.op(op).parent() {
            *count.entry(block).or_default() += 1;
        }
    }
    let mut blocks: Vec<BlockId> = count.into_iter().filter(|(_, n)| *n > 1).map(|(b, _)| b).collect();
    blocks.sort_unstable();
    blocks
}

/// Replaces equal collectives of a block by one. Operands are equal if they are computed in the same way.
fn share(module: &mut Module, block: BlockId, collectives: &[Collective], by_op: &HashMap<OpId, usize>) {
    let mut same: HashMap<ValueId, ValueId> = HashMap::default();
    let mut seen: HashMap<(OpKind, Vec<ValueId>, Vec<Type>), Vec<OpId>> = HashMap::default();
    for op in module.op_list(block) {
        let data = module.op(op);
        let known = by_op.get(&op).map(|&i| &collectives[i]);
        if known.is_none() && (!data.kind().is_pure() || !data.regions().is_empty()) {
            continue;
        }
        let operands = data.operands().iter().map(|v| *same.get(v).unwrap_or(v)).collect();
        let types = data.results().iter().map(|&v| module.ty(v).clone()).collect();
        let similar = seen.entry((data.kind(), operands, types)).or_default();
        let equal = |&other: &OpId| {
            let peers = by_op.get(&other).map(|&i| &collectives[i]);
            module.op(other).attrs == data.attrs
                && peers.map(|c| (&c.kind, &c.peers)) == known.map(|c| (&c.kind, &c.peers))
                && !known.is_some_and(|c| matches!(c.peers, Peers::Given { .. }))
        };
        let Some(first) = similar.iter().copied().find(equal) else {
            similar.push(op);
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

/// Removes what is unused, collectives included.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collective::{CollectiveKind, Origin, Site};
    use meshwork_ir::Combine;
    use meshwork_ir::op::CollectiveOp;
    use meshwork_ir::{Walk, text};

    /// Optimizes a program whose collectives all work over the first atom. Returns what is left of them.
    fn optimized(source: &str, limit: i64) -> (Module, Vec<Collective>) {
        let mut module = text::parse(source).unwrap_or_else(|d| panic!("{}", d.render("test", source)));
        let ops = module.all_ops(Walk::PreOrder);
        let mut collectives = vec![];
        for emitted in ops {
            let kind = match module.op(emitted).kind() {
                OpKind::Collective(CollectiveOp::AllReduce) => CollectiveKind::AllReduce(Combine::Add),
                OpKind::Collective(CollectiveOp::AllGather) => CollectiveKind::AllGather,
                OpKind::Collective(CollectiveOp::CollectivePermute) => CollectiveKind::Permute,
                _ => continue,
            };
            let operand_bytes = crate::plan::memory::type_bytes(module.ty(module.op(emitted).operands()[0]));
            let wire_bytes = operand_bytes as f64;
            let origins = vec![Origin { site: Site::Op(emitted), tensor: None, reason: "test".into(), wire_bytes }];
            let peers = Peers::Group([0].into_iter().collect());
            let (times, times_unknown) = (1, false);
            let collective =
                Collective { kind, peers, operand_bytes, wire_bytes, times, times_unknown, emitted, origins };
            collectives.push(collective);
        }
        optimize(&mut module, &mut collectives, &Limit { bytes: limit, network: None }, None);
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
