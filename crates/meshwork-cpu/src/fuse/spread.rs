//! What is computed before it is spread over more positions: inside the loop it would be computed again at each of them.

use meshwork_ir::hash::HashSet;
use meshwork_ir::op::{BinaryOp, BodyOp, MixedOp, MovementOp, SourceOp, UnaryOp};
use meshwork_ir::{BlockId, ElementType, OpId, OpKind, ValueId};

use super::range::{Devices, range};
use super::{PICK_COST, is_fusible, is_pick, is_renaming, numbers};
use crate::compile::Compiler;

/// Additions per element from which on it pays to load the value instead.
const LEAST_COST: u32 = 8;
/// How many times more positions there are at least.
const LEAST_TIMES: i64 = 4;
/// Smaller loops take no longer than one more step.
const LEAST_SIZE: i64 = 4096;
/// The same of long loops over what is small, and of short rows: a division or a root is enough then.
const LEAST_COST_OF_MANY: u32 = 4;
const MANY_TIMES: i64 = 64;
const MANY: i64 = 1 << 16;
/// Rows up to this long take less time than what is computed once for each of them.
const SHORT: i64 = 32;
/// Operations that are looked at for the cost of one value.
const MOST_OPS: usize = 64;

/// How a value is repeated.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Spread {
    /// Along a dimension around others of it.
    Around,
    /// Along rows that take less time than what is computed once for each of them.
    AlongShortRows,
}

impl Compiler<'_> {
    /// The values of `block` that are expensive and spread.
    pub(super) fn spread_values(&self, block: BlockId) -> Vec<ValueId> {
        let module = self.cx.module;
        let size = |v: ValueId| module.ty(v).dims().iter().product::<i64>();
        let is_worth_it = |op: OpId| {
            let spread = self.spread(op).filter(|_| is_fusible(module, op))?;
            let data = module.op(op);
            let (from, to) = (data.operands()[0], size(data.results()[0]));
            let is_many = to >= MANY && to >= MANY_TIMES * size(from);
            let least = if is_many || spread == Spread::AlongShortRows { LEAST_COST_OF_MANY } else { LEAST_COST };
            (self.cost_at_least(from, least) && !self.is_region(from)).then_some(from)
        };
        module.ops_in(block).filter_map(is_worth_it).collect()
    }

    /// How `op` repeats its operand, if it does. What is only repeated along long rows is one number per row, which loops compute once.
    fn spread(&self, op: OpId) -> Option<Spread> {
        let module = self.cx.module;
        let data = module.op(op);
        if data.kind() != OpKind::Movement(MovementOp::BroadcastInDim) {
            return None;
        }
        let (from, to) = (module.ty(data.operands()[0]).dims(), module.ty(data.results()[0]).dims());
        let size = |dims: &[i64]| dims.iter().product::<i64>();
        let places = data.i64s("broadcast_dimensions")?;
        let kept = |d: usize| places.iter().zip(from).any(|(&p, &n)| p as usize == d && n > 1);
        let outermost = (0..to.len()).find(|&d| to[d] > 1 && !kept(d));
        let innermost = (0..to.len()).rev().find(|&d| kept(d));
        let around = matches!((outermost, innermost), (Some(repeated), Some(kept)) if repeated < kept);
        let row = innermost.map_or(SHORT + 1, |kept| size(&to[kept + 1..]));
        let short = row <= SHORT && size(to) >= MANY && !self.is_of_rows(data.operands()[0]);
        let spread = if short { Spread::AlongShortRows } else { Spread::Around };
        ((around || short) && size(to) >= LEAST_SIZE && size(to) >= LEAST_TIMES * size(from)).then_some(spread)
    }

    /// Whether `value` is computed from the reduction of rows, perhaps of those that it is spread over again.
    fn is_of_rows(&self, value: ValueId) -> bool {
        let module = self.cx.module;
        let (mut seen, mut work) = (HashSet::default(), vec![value]);
        while let Some(v) = work.pop() {
            let Some(op) = module.def_op(v) else { continue };
            if seen.len() >= MOST_OPS || module.op(op).kind() == OpKind::Body(BodyOp::Reduce) {
                return true;
            }
            if seen.insert(op) && is_fusible(module, op) {
                work.extend(module.op(op).operands());
            }
        }
        false
    }

    /// Whether `value` says which positions are inside a region that the device's number decides: nests are cut where it changes, and
    /// compute none of it. As an array it would be loaded and tested at each position.
    fn is_region(&self, value: ValueId) -> bool {
        let module = self.cx.module;
        let (mut seen, mut work) = (HashSet::default(), vec![value]);
        while let Some(v) = work.pop() {
            if range(module, v, Devices::SOME).is_some_and(|(least, most)| least == most) {
                continue;
            }
            let Some(op) = module.def_op(v).filter(|_| seen.len() < MOST_OPS) else { return false };
            if !seen.insert(op) {
                continue;
            }
            match module.op(op).kind() {
                OpKind::Source(SourceOp::Iota) => {}
                OpKind::Binary(
                    BinaryOp::And | BinaryOp::Or | BinaryOp::Add | BinaryOp::Subtract | BinaryOp::Multiply,
                ) => {}
                OpKind::Mixed(MixedOp::Compare | MixedOp::Convert) | OpKind::Unary(UnaryOp::Not) => {}
                kind if is_renaming(kind) => {}
                _ => return false,
            }
            work.extend(module.op(op).operands());
        }
        module.ty(value).elem() == Some(ElementType::I1)
    }

    /// Whether an element of `value` takes `least` additions or more.
    fn cost_at_least(&self, value: ValueId, least: u32) -> bool {
        let module = self.cx.module;
        let (mut cost, mut seen, mut work) = (0, HashSet::default(), vec![value]);
        while let Some(v) = work.pop() {
            if cost >= least || seen.len() >= MOST_OPS {
                break;
            }
            let Some(op) = module.def_op(v) else { continue };
            if !seen.insert(op) || !is_fusible(module, op) {
                continue;
            }
            if numbers::is_arithmetic(module, op) {
                cost += numbers::cost(module.op(op).kind());
            } else if is_pick(module, op) {
                cost += PICK_COST;
            } else if !is_renaming(module.op(op).kind()) {
                continue;
            }
            work.extend(module.op(op).operands());
        }
        cost >= least
    }
}

#[cfg(test)]
mod tests {
    use crate::compile::testing::check;

    /// `x * cos(v)` with `v` along `dim` of `x`.
    fn spread(dim: usize, function: &str) -> String {
        let n = [64, 32, 48][dim];
        let source = format!(
            "func.func @main(%x: tensor<64x32x48xf32>, %v: tensor<{n}xf32>) -> tensor<64x32x48xf32> {{
               %c = stablehlo.{function} %v : tensor<{n}xf32>
               %b = stablehlo.broadcast_in_dim %c, dims = [{dim}] : (tensor<{n}xf32>) -> tensor<64x32x48xf32>
               %y = stablehlo.multiply %x, %b : tensor<64x32x48xf32>
               return %y : tensor<64x32x48xf32> }}"
        );
        check(&source, 1e-6)
    }

    #[test]
    fn what_is_expensive_is_computed_before_it_is_repeated() {
        for dim in [1, 2] {
            assert!(spread(dim, "cosine").contains("fused cosine "), "{}", spread(dim, "cosine"));
            assert!(!spread(dim, "negate").contains("fused negate "), "{}", spread(dim, "negate"));
            assert!(spread(dim, "sqrt").contains("fused sqrt "), "{}", spread(dim, "sqrt"));
        }
        // One number for each of the outermost rows.
        assert!(!spread(0, "cosine").contains("fused cosine "), "{}", spread(0, "cosine"));
    }

    #[test]
    fn what_short_rows_would_compute_again_is_computed_before() {
        let spread = |rows: usize, n: usize| {
            check(
                &format!(
                    "func.func @main(%x: tensor<{rows}x{n}xf32>, %v: tensor<{rows}xf32>) -> tensor<{rows}x{n}xf32> {{
                       %c = stablehlo.cosine %v : tensor<{rows}xf32>
                       %b = stablehlo.broadcast_in_dim %c, dims = [0] : (tensor<{rows}xf32>) -> tensor<{rows}x{n}xf32>
                       %y = stablehlo.multiply %x, %b : tensor<{rows}x{n}xf32>
                       return %y : tensor<{rows}x{n}xf32> }}"
                ),
                1e-6,
            )
        };
        assert!(spread(8192, 16).contains("fused cosine "), "{}", spread(8192, 16));
        assert!(!spread(1024, 128).contains("fused cosine "), "{}", spread(1024, 128));
    }
    /// A region is boxes of the nest: there is no array of its positions, along either dimension.
    #[test]
    fn regions_are_not_arrays() {
        for dim in [0, 1] {
            let text = check(
                &format!(
                    "func.func @main(%x: tensor<600x600xf32>) -> tensor<600x600xf32> {{
                       %i = stablehlo.iota dim = 0 : tensor<600xi32>
                       %by = stablehlo.constant dense<3> : tensor<600xi32>
                       %low = stablehlo.constant dense<1> : tensor<600xi32>
                       %high = stablehlo.constant dense<598> : tensor<600xi32>
                       %j = stablehlo.add %i, %by : tensor<600xi32>
                       %a = stablehlo.compare GE, %j, %low : (tensor<600xi32>, tensor<600xi32>) -> tensor<600xi1>
                       %b = stablehlo.compare LT, %j, %high : (tensor<600xi32>, tensor<600xi32>) -> tensor<600xi1>
                       %c = stablehlo.and %a, %b : tensor<600xi1>
                       %in = stablehlo.broadcast_in_dim %c, dims = [{dim}] : (tensor<600xi1>) -> tensor<600x600xi1>
                       %twice = stablehlo.add %x, %x : tensor<600x600xf32>
                       %y = stablehlo.select %in, %twice, %x : tensor<600x600xi1>, tensor<600x600xf32>
                       return %y : tensor<600x600xf32> }}"
                ),
                0.0,
            );
            assert_eq!(text.matches("fused").count(), 1, "{text}");
        }
    }
}
