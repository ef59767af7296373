//! Rules of gather and scatter, which share one walk over the dimensions of the slices.

use meshwork_ir::attr::{GatherDims, ScatterDims};
use meshwork_ir::op::BinaryOp;
use meshwork_ir::{Attr, Def, ElementType, OpKind, ValueId};

use super::builder::{Dim, Factor, PASS, REDUCE, REPLICATE, REPLICATE_BLOCKED};
use super::{Ctx, RuleBuilder, RuleResult, dim, extent};

/// Gather: slices are the result.
pub(super) fn gather(ctx: &Ctx) -> RuleResult {
    let Some(Attr::Gather(dims)) = ctx.op().attr("dimension_numbers") else { return ctx.no_dimension_numbers() };
    let GatherDims { offset_dims, collapsed_slice_dims, operand_batching_dims, .. } = &**dims;
    let walk = SliceWalk {
        input: ctx.operand(0),
        indices: ctx.operand(1),
        slices: ctx.result(0),
        window_dims: offset_dims,
        dropped_dims: collapsed_slice_dims,
        input_batching: operand_batching_dims,
        indices_batching: &dims.start_indices_batching_dims,
        index_vector_dim: dim(dims.index_vector_dim),
        direction: Direction::Gather,
    };
    let mut rule = ctx.builder();
    walk.factors(|f| {
        rule.factor(&[f.input, f.indices], &[f.slices], f.size, f.factor);
    });
    rule.into()
}

/// Scatter: slices are the updates; inputs and results have the same dimensions.
pub(super) fn scatter(ctx: &Ctx) -> RuleResult {
    let Some(Attr::Scatter(dims)) = ctx.op().attr("scatter_dimension_numbers") else {
        return ctx.no_dimension_numbers();
    };
    let ScatterDims { update_window_dims, inserted_window_dims, input_batching_dims, .. } = &**dims;
    let inputs = ctx.op().operands().len().saturating_sub(1) / 2;
    let walk = SliceWalk {
        input: ctx.operand(0),
        indices: ctx.operand(inputs),
        slices: ctx.operand(inputs + 1),
        window_dims: update_window_dims,
        dropped_dims: inserted_window_dims,
        input_batching: input_batching_dims,
        indices_batching: &dims.scatter_indices_batching_dims,
        index_vector_dim: dim(dims.index_vector_dim),
        direction: match reduction_kind(ctx, inputs) {
            Some(_) => Direction::ReducingScatter,
            None => Direction::Scatter,
        },
    };
    let mut rule: RuleBuilder = ctx.builder();
    walk.factors(|f| {
        let mut operands = vec![f.input; inputs];
        operands.push(f.indices);
        operands.extend(vec![f.slices; inputs]);
        rule.factor(&operands, &vec![f.input; inputs], f.size, f.factor);
    });
    rule.into()
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    Gather,
    /// Updates replace.
    Scatter,
    /// Updates are combined by an associative op.
    ReducingScatter,
}

/// One factor: the dimension of the input, the indices and the slices it runs along.
struct SliceFactor {
    input: Dim,
    indices: Dim,
    slices: Dim,
    size: i64,
    factor: Factor,
}

struct SliceWalk<'a> {
    input: &'a [i64],
    indices: &'a [i64],
    slices: &'a [i64],
    /// Dimensions of the slices that run over the window.
    window_dims: &'a [i64],
    /// Window dimensions that the slices leave out.
    dropped_dims: &'a [i64],
    input_batching: &'a [i64],
    indices_batching: &'a [i64],
    index_vector_dim: usize,
    direction: Direction,
}

impl SliceWalk<'_> {
    fn factors(&self, mut add: impl FnMut(SliceFactor)) {
        let scatter = self.direction != Direction::Gather;
        let mut input_dim = 0;
        let mut batch_dims = (0..).filter(|&d| d != self.index_vector_dim);
        for (slices_dim, &size) in self.slices.iter().enumerate() {
            let slices = Some(slices_dim);
            if self.window_dims.contains(&(slices_dim as i64)) {
                while self.dropped_dims.contains(&input_dim) || self.input_batching.contains(&input_dim) {
                    input_dim += 1;
                }
                let input = Some(dim(input_dim));
                let input_size = extent(self.input, dim(input_dim));
                input_dim += 1;
                if input_size == size {
                    add(SliceFactor { input, indices: None, slices, size, factor: PASS });
                    continue;
                }
                if !scatter && size != 1 {
                    add(SliceFactor { input, indices: None, slices, size: input_size, factor: REPLICATE_BLOCKED });
                    continue;
                }
                // A gather of single elements from a split dimension: all devices but one contribute nothing.
                let factor = if scatter { REPLICATE } else { REDUCE };
                add(SliceFactor { input, indices: None, slices: None, size: input_size, factor });
                add(SliceFactor { input: None, indices: None, slices, size, factor: REPLICATE });
            } else {
                let indices_dim = batch_dims.next().unwrap_or(usize::MAX);
                let batching = self.indices_batching.iter().position(|&d| dim(d) == indices_dim);
                let input = batching.and_then(|i| self.input_batching.get(i)).map(|&d| dim(d));
                let factor = match self.direction {
                    Direction::Gather => PASS,
                    _ if batching.is_some() => PASS,
                    Direction::ReducingScatter => REDUCE,
                    Direction::Scatter => REPLICATE,
                };
                add(SliceFactor { input, indices: Some(indices_dim), slices, size, factor });
            }
        }
        for &dropped in self.dropped_dims {
            let size = extent(self.input, dim(dropped));
            let factor = match (scatter, size) {
                (true, _) => PASS,
                (false, 1) => REPLICATE,
                (false, _) => REDUCE,
            };
            add(SliceFactor { input: Some(dim(dropped)), indices: None, slices: None, size, factor });
        }
        if let Some(&size) = self.indices.get(self.index_vector_dim) {
            let indices = Some(self.index_vector_dim);
            add(SliceFactor { input: None, indices, slices: None, size, factor: REPLICATE });
        }
    }
}

/// The op by which a scatter combines all its updates: add, multiply, maximum or minimum of the two matching
/// block arguments, or a logical and/or.
fn reduction_kind(ctx: &Ctx, inputs: usize) -> Option<OpKind> {
    let block = ctx.module.body_of(ctx.op, 0)?;
    let returned = ctx.module.returned(block);
    if ctx.module.block(block).args().len() != 2 * inputs || returned.len() != inputs {
        return None;
    }
    let mut common = None;
    for (index, &value) in returned.iter().enumerate() {
        let def = ctx.module.op(ctx.module.def_op(value)?);
        let known = match def.kind() {
            OpKind::Binary(BinaryOp::Add | BinaryOp::Multiply | BinaryOp::Maximum | BinaryOp::Minimum) => true,
            OpKind::Binary(BinaryOp::And | BinaryOp::Or) => ctx.module.ty(value).elem() == Some(ElementType::I1),
            _ => false,
        };
        let [lhs, rhs] = def.operands() else { return None };
        let is_arg = |v: ValueId, i: usize| ctx.module.value(v).def() == Def::Arg(block, i as u32);
        let in_order = is_arg(*lhs, index) && is_arg(*rhs, index + inputs);
        let swapped = is_arg(*lhs, index + inputs) && is_arg(*rhs, index);
        if !known || !(in_order || swapped) || *common.get_or_insert(def.kind()) != def.kind() {
            return None;
        }
    }
    common
}
