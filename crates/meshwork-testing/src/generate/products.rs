//! Contractions and linear algebra.

use meshwork_ir::attr::ConvDims;
use meshwork_ir::build::{Builder, Convolution, Half, Triangle};
use meshwork_ir::op::{ChloOp, ContractOp, DynamicOp, LinalgOp};
use meshwork_ir::{Attr, Def, ElementClass, ElementType, Literal, OpKind, OpSpec, Type, ValueId};

use super::{Maker, Value};

/// Where the padding of a convolution is written.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Padding {
    Attribute,
    Operand,
}

/// The sum of `n` products of elements of `x` and `y`.
fn summed(b: &Builder<'_>, id: ValueId, x: &Value, y: &Value, n: i64) -> Option<Vec<Value>> {
    let n = n.max(0) as f64;
    let error = n * (x.error * y.bound + y.error * x.bound);
    Some(vec![Value::computed(b, id, n * x.bound * y.bound, error, x.whole && y.whole, n + 4.0)?])
}

impl Maker {
    fn number(&mut self, scope: &[Value], fits: impl Fn(&Value) -> bool) -> Option<Value> {
        self.pick(scope, |v| v.elem != ElementType::I1 && fits(v))
    }

    pub(super) fn contract(&mut self, b: &mut Builder<'_>, scope: &[Value], op: ContractOp) -> Option<Vec<Value>> {
        match op {
            ContractOp::Dot => {
                let x = self.number(scope, |v| (1..=2).contains(&v.rank()))?;
                let n = *x.dims.last()?;
                let dims = if self.numbers.below(2) == 0 { vec![n] } else { vec![n, self.extent()] };
                let y = self.like(b, scope, x.elem, &dims)?;
                let id = b.dot(x.id, y.id).ok()?;
                summed(b, id, &x, &y, n)
            }
            ContractOp::DotGeneral => {
                let x = self.number(scope, |v| v.rank() > 0)?;
                // Dimensions of the left, shuffled: some of batches, some to sum over, the rest free.
                let order = self.shuffled(x.rank());
                let batches = self.numbers.below(x.rank().min(2));
                let sums = self.numbers.below(x.rank() - batches + 1);
                let of = |range: std::ops::Range<usize>| order[range].to_vec();
                let (batch, sum) = (of(0..batches), of(batches..batches + sums));
                let mut right: Vec<i64> = batch.iter().chain(&sum).map(|&d| x.dims[d as usize]).collect();
                let shared = right.len();
                if self.numbers.below(3) > 0 {
                    right.push(self.extent());
                }
                let at = self.shuffled(right.len());
                let dims: Vec<i64> = at.iter().map(|&i| right[i as usize]).collect();
                let y = self.like(b, scope, x.elem, &dims)?;
                let place = |i: usize| at.iter().position(|&a| a as usize == i).unwrap_or(0) as i64;
                let there: Vec<i64> = (0..shared).map(place).collect();
                let n = sum.iter().map(|&d| x.dims[d as usize]).product();
                let id = b.dot_over(x.id, y.id, [&batch, &there[..batches]], [&sum, &there[batches..shared]]).ok()?;
                summed(b, id, &x, &y, n)
            }
            ContractOp::Einsum => {
                let x = self.number(scope, |v| v.rank() == 2)?;
                let y = self.number(scope, |v| v.elem == x.elem && v.rank() == 2 && v.dims[0] == x.dims[1])?;
                let spec = OpSpec::new(OpKind::Contract(op)).operands([x.id, y.id]);
                let id = b.value(spec.attr("einsum_config", Attr::str("ij,jk->ik"))).ok()?;
                summed(b, id, &x, &y, x.dims[1])
            }
            ContractOp::UnaryEinsum => {
                let x = self.number(scope, |v| v.rank() == 2)?;
                let spec = OpSpec::new(OpKind::Contract(op)).operands([x.id]);
                let id = b.value(spec.attr("einsum_config", Attr::str("ij->i"))).ok()?;
                let one = Value { bound: 1.0, error: 0.0, whole: true, ..x.clone() };
                summed(b, id, &x, &one, x.dims[1])
            }
            ContractOp::Convolution => self.convolution(b, scope, Padding::Attribute),
        }
    }

    /// In one or two spatial dimensions, in one of a few layouts.
    pub(super) fn convolution(&mut self, b: &mut Builder<'_>, scope: &[Value], padding: Padding) -> Option<Vec<Value>> {
        let x = self.number(scope, |v| (3..=4).contains(&v.rank()) && v.count() > 0)?;
        let spatial = x.rank() as i64 - 2;
        let last = self.numbers.below(2) == 0;
        let (feature, first) = if last { (spatial + 1, 1) } else { (1, 2) };
        let run = |first: i64| (first..first + spatial).collect::<Vec<i64>>();
        let features = x.dims[feature as usize];
        let groups = if self.numbers.below(3) == 0 { features } else { 1 };
        let window: Vec<i64> = (0..spatial).map(|_| 1 + self.numbers.below(3) as i64).collect();
        let outputs = groups * (1 + self.numbers.below(2) as i64);
        let kernel = [&window[..], &[features / groups, outputs]].concat();
        let y = self.like(b, scope, x.elem, &kernel)?;
        let dims = ConvDims {
            input_batch: 0,
            input_feature: feature,
            input_spatial: run(first),
            kernel_input_feature: spatial,
            kernel_output_feature: spatial + 1,
            kernel_spatial: run(0),
            output_batch: 0,
            output_feature: feature,
            output_spatial: run(first),
        };
        let mut list = |items: &[i64]| (0..spatial).map(|_| items[self.numbers.below(items.len())]).collect::<Vec<_>>();
        let conv = Convolution {
            strides: list(&[1, 1, 2]),
            lhs_dilation: list(&[1, 1, 1, 2]),
            rhs_dilation: list(&[1, 1, 1, 2]),
            padding: list(&[0, 1, 2]).into_iter().zip(list(&[0, 1])).collect(),
            reversal: list(&[0, 0, 0, 1]).into_iter().map(|r| r == 1).collect(),
            feature_groups: groups,
            ..Convolution::new(dims)
        };
        let amounts: Vec<i64> = conv.padding.iter().flat_map(|&(low, high)| [low, high]).collect();
        let mut id = b.convolution(x.id, y.id, conv).ok()?;
        if padding == Padding::Operand {
            let amounts = b.constant(&Literal::from_i64s([spatial, 2], ElementType::I64, &amounts)?).ok()?;
            let Def::Result(made, _) = b.module().value(id).def() else { return None };
            let mut attrs = b.module().op(made).attrs.clone();
            attrs.remove("padding");
            let spec = OpSpec::new(DynamicOp::Conv).operands([x.id, y.id, amounts]).results([b.ty(id).clone()]);
            id = b.value(OpSpec { attrs, ..spec }).ok()?;
        }
        summed(b, id, &x, &y, window.iter().product::<i64>() * features / groups)
    }

    /// Rows in groups of different sizes, each with its own matrix; the sizes need not add up to all rows.
    pub(super) fn ragged_dot(&mut self, b: &mut Builder<'_>, scope: &[Value]) -> Option<Vec<Value>> {
        let x = self.number(scope, |v| v.rank() == 2)?;
        let (groups, n) = (1 + self.numbers.below(3) as i64, self.extent());
        let y = self.like(b, scope, x.elem, &[groups, x.dims[1], n])?;
        let mut left = x.dims[0];
        let sizes: Vec<i64> = (0..groups)
            .map(|_| {
                let size = self.numbers.below(left as usize + 1) as i64;
                left -= size;
                size
            })
            .collect();
        let sizes = b.constant(&Literal::from_i64s([groups], ElementType::I64, &sizes)?).ok()?;
        let numbers = "#chlo.ragged_dot<lhs_batching_dimensions = [], rhs_batching_dimensions = [], \
                       lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [1], \
                       lhs_ragged_dimensions = [0], rhs_group_dimensions = [0]>";
        let spec = OpSpec::new(ChloOp::RaggedDot)
            .operands([x.id, y.id, sizes])
            .results([Type::tensor([x.dims[0], n], x.elem)])
            .attr("ragged_dot_dimension_numbers", Attr::Opaque(numbers.into()));
        let id = b.value(spec).ok()?;
        summed(b, id, &x, &y, x.dims[1])
    }

    /// Running combinations along a dimension, from either end.
    pub(super) fn scan(&mut self, b: &mut Builder<'_>, scope: &[Value]) -> Option<Vec<Value>> {
        let x = self.pick(scope, |v| v.rank() > 0)?;
        let d = self.numbers.below(x.rank());
        let mut slice = x.dims.clone();
        let n = slice.remove(d);
        let init = self.like(b, scope, x.elem, &slice)?;
        let f = self.combiner(&x);
        let ty = Type::tensor(slice.iter().copied(), x.elem);
        let open = b.open(
            OpSpec::new(ChloOp::Scan)
                .operands([x.id, init.id])
                .attr("dimension", Attr::i64(d as i64))
                .attr("is_reverse", Attr::Bool(self.numbers.below(2) == 0))
                .attr("operandSegmentSizes", Attr::Opaque("array<i32: 1, 1>".into()))
                .attr("resultSegmentSizes", Attr::Opaque("array<i32: 1, 1>".into())),
        );
        let block = b.begin_body(&open, [ty.clone(), ty]);
        let args = b.module().block(block).args().to_vec();
        let Ok(next) = Builder::at_end(b.module_mut(), block).apply(OpKind::Binary(f), &args) else {
            b.discard(open);
            return None;
        };
        b.end_body(&open, block, [next, next]);
        let out = b.close(open).ok()?;
        out.iter().map(|&id| self.combined(b, id, f, (&x, &init), n)).collect()
    }

    pub(super) fn linalg(&mut self, b: &mut Builder<'_>, scope: &[Value], op: LinalgOp) -> Option<Vec<Value>> {
        let wide = |v: &Value| v.is_float() && v.elem.bits() >= 32;
        match op {
            LinalgOp::Fft => {
                let x = self.number(scope, |v| v.rank() > 0 && (wide(v) || v.class() == ElementClass::Complex))?;
                let n = *x.dims.last()?;
                if n == 0 {
                    return None;
                }
                let id = match x.class() {
                    ElementClass::Complex => b.fft(x.id, ["FFT", "IFFT"][self.numbers.below(2)], &[n]).ok()?,
                    _ => b.fft(x.id, "RFFT", &[n]).ok()?,
                };
                let sum = n as f64 * x.bound;
                Some(vec![Value::computed(b, id, sum, n as f64 * x.error, false, 8.0 + 4.0 * n as f64)?])
            }
            LinalgOp::Cholesky => {
                // The identity and a little more is positive definite.
                let x = self.number(scope, |v| wide(v) && v.rank() == 2 && v.dims[0] > 0 && v.dims[0] < 9)?;
                let n = x.dims[0];
                let small = b.splat(x.dims.iter().copied(), x.elem, 0.25 / (n as f64 * x.bound.max(1.0))).ok()?;
                let small = b.multiply(x.id, small).ok()?;
                let square = b.dot_over(small, small, [&[], &[]], [&[1], &[1]]).ok()?;
                let one = self.identity(b, n, x.elem)?;
                let a = b.add(square, one).ok()?;
                let (half, direction) = match self.numbers.below(2) {
                    0 => (Half::Lower, meshwork_ir::build::Direction::Ge),
                    _ => (Half::Upper, meshwork_ir::build::Direction::Le),
                };
                let factor = b.cholesky(a, half).ok()?;
                // The other triangle is unspecified.
                let kept = self.triangle(b, n, direction)?;
                let zero = b.splat([n, n], x.elem, 0.0).ok()?;
                let id = b.select(kept, factor, zero).ok()?;
                Some(vec![Value::computed(b, id, 2.0, 2.0 * x.error, false, 64.0)?])
            }
            LinalgOp::TriangularSolve => {
                let y = self.number(scope, |v| wide(v) && v.rank() == 2 && v.dims[0] > 0 && v.dims[0] < 9)?;
                let n = y.dims[0];
                let a = self.like(b, scope, y.elem, &[n, n])?;
                let small = b.splat([n, n], y.elem, 0.25 / (n as f64 * a.bound.max(1.0))).ok()?;
                let small = b.multiply(a.id, small).ok()?;
                let shape = Triangle { left: true, lower: self.numbers.below(2) == 0, unit_diagonal: true };
                let transpose = ["NO_TRANSPOSE", "TRANSPOSE"][self.numbers.below(2)];
                let id = b.triangular_solve(small, y.id, shape, transpose).ok()?;
                let (bound, error) = (2.0 * y.bound, 2.0 * (y.error + y.bound * a.error));
                Some(vec![Value::computed(b, id, bound, error, false, 64.0)?])
            }
            LinalgOp::BatchNormInference | LinalgOp::BatchNormTraining | LinalgOp::BatchNormGrad => {
                self.norm(b, scope, op)
            }
        }
    }

    /// With an epsilon of 1, so that no variance is small.
    fn norm(&mut self, b: &mut Builder<'_>, scope: &[Value], op: LinalgOp) -> Option<Vec<Value>> {
        let x = self.number(scope, |v| v.is_float() && v.elem.bits() >= 32 && v.rank() > 1 && v.count() > 0)?;
        if x.bound > 100.0 {
            return None;
        }
        let d = self.numbers.below(x.rank());
        let mut feature = || self.like(b, scope, x.elem, &[x.dims[d]]);
        let (scale, offset, mean, variance) = (feature()?, feature()?, feature()?, feature()?);
        let variance_id = b.multiply(variance.id, variance.id).ok()?;
        let d = d as i64;
        let largest = x.bound.max(mean.bound).max(variance.bound.powi(2));
        let error = x.error.max(mean.error).max(scale.error).max(offset.error) + 2.0 * variance.bound * variance.error;
        let out = match op {
            LinalgOp::BatchNormInference => {
                let id = b.batch_norm_inference(x.id, [scale.id, offset.id, mean.id, variance_id], 1.0, d).ok()?;
                vec![id]
            }
            LinalgOp::BatchNormTraining => b.batch_norm_training(x.id, scale.id, offset.id, 1.0, d).ok()?.to_vec(),
            _ => {
                let grad = self.like(b, scope, x.elem, &x.dims)?;
                if grad.error > error || grad.bound > 10.0 {
                    return None;
                }
                b.batch_norm_grad(x.id, [scale.id, mean.id, variance_id], grad.id, 1.0, d).ok()?.to_vec()
            }
        };
        let n = x.count() as f64;
        let bound = (2.0 * largest + 10.0) * (scale.bound + 1.0) * 10.0 * largest.max(1.0) * n + offset.bound;
        let one = |id| Value::computed(b, id, bound, error * bound, false, 16.0 + n);
        out.into_iter().map(one).collect()
    }

    /// Where rows and columns compare so.
    fn triangle(&mut self, b: &mut Builder<'_>, n: i64, direction: meshwork_ir::build::Direction) -> Option<ValueId> {
        let ty = Type::tensor([n, n], ElementType::I32);
        let (i, j) = (b.iota(ty.clone(), 0).ok()?, b.iota(ty, 1).ok()?);
        b.compare(direction, i, j).ok()
    }

    fn identity(&mut self, b: &mut Builder<'_>, n: i64, elem: ElementType) -> Option<ValueId> {
        let diagonal = self.triangle(b, n, meshwork_ir::build::Direction::Eq)?;
        b.convert(diagonal, elem).ok()
    }
}
