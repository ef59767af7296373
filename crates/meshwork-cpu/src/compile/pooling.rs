//! Reductions over small windows as expressions of shifted arrays, which fuse with what is around them.
//!
//! A window of several dimensions and many elements is reduced along one dimension after the other. Where the input is
//! dilated, as in the gradient of a pooling with strides, the results that meet the same elements are computed together and
//! interleaved.

use meshwork_ir::op::{BinaryOp, MovementOp};
use meshwork_ir::{Attr, Literal, Module, OpId, OpKind, OpSpec, Type, ValueId};
use meshwork_mesh::sort_by_key;

use super::stencil::Emitter;
use crate::kernel::ir::Combine;
use crate::library::is_identity;

/// Elements of a window that are combined in one expression.
const MAX_TAPS: i64 = 16;
/// Results that are interleaved.
const MAX_PHASES: i64 = 8;

/// The windows of one dimension.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    size: i64,
    stride: i64,
    /// Distance of the elements of the input.
    pub base: i64,
    dilation: i64,
    low: i64,
    /// Extents of the input and of the result.
    n: i64,
    out: i64,
}

impl Window {
    fn is_plain(&self) -> bool {
        self.size == 1 && self.stride == 1 && self.base == 1 && self.low == 0 && self.n == self.out
    }

    /// One that leaves `n` elements as they are.
    pub fn plain(n: i64) -> Window {
        Window { size: 1, stride: 1, base: 1, dilation: 1, low: 0, n, out: n }
    }

    /// For results `phase`, `phase + base`, …: the position in the input of each element of the first of these windows. The
    /// next one is `stride` further on.
    fn taps(&self, phase: i64) -> Vec<i64> {
        let at = |w: i64| phase * self.stride + w * self.dilation - self.low;
        (0..self.size).map(at).filter(|at| at.rem_euclid(self.base) == 0).map(|at| at.div_euclid(self.base)).collect()
    }

    /// How many results there are of each phase, rounded up.
    fn each(&self) -> i64 {
        (self.out + self.base - 1) / self.base
    }
}

/// Replaces a reduction over windows by expressions of slices, if they are small.
pub(crate) fn reduce_window(module: &mut Module, op: OpId) -> bool {
    let Some((dims, combine)) = windows(module, op) else { return false };
    let data = module.op(op);
    let (x, init) = (data.operands()[0], data.operands()[1]);
    let mut e = Emitter { module, op };
    let total: i64 = dims.iter().map(|w| w.size).product();
    let mut value = x;
    if total <= MAX_TAPS {
        value = expression(&mut e, value, init, &dims, combine);
    } else {
        // Those with strides first: they leave less to do.
        let mut order: Vec<usize> = (0..dims.len()).filter(|&d| !dims[d].is_plain()).collect();
        sort_by_key(&mut order, |&d| (-dims[d].stride, d));
        for d in order {
            let mut one: Vec<Window> = e.module.ty(value).dims().iter().map(|&n| Window::plain(n)).collect();
            one[d] = dims[d];
            value = expression(&mut e, value, init, &one, combine);
        }
    }
    module.replace_op(op, &[value]);
    true
}

/// The windows of `op`, if they are small and combine as a binary operation does.
fn windows(module: &Module, op: OpId) -> Option<(Vec<Window>, BinaryOp)> {
    let data = module.op(op);
    let (&[x, init], &[result]) = (data.operands(), data.results()) else { return None };
    let (from, to) = (module.ty(x).as_tensor()?, module.ty(result).as_tensor()?);
    let rank = from.dims.len();
    let number = from.elem.is_float() || from.elem.is_integer();
    let combine = Combine::of_body(module, module.body_of(op, 0)?)?;
    let Some(Attr::Dense(dense)) = module.op(module.def_op(init)?).attr("value") else { return None };
    let start: Literal = dense.to_literal()?;
    if !number || from.elem != to.elem || !is_identity(&start, combine) || to.num_elements()? == 0 || rank == 0 {
        return None;
    }
    let list = |name: &str, default: i64, count: usize| match data.attr(name) {
        Some(a) => a.as_i64s().filter(|l| l.len() == count),
        None => Some(vec![default; count]),
    };
    let (size, stride) = (list("window_dimensions", 1, rank)?, list("window_strides", 1, rank)?);
    let (base, dilation) = (list("base_dilations", 1, rank)?, list("window_dilations", 1, rank)?);
    let padding = list("padding", 0, 2 * rank)?;
    let dim = |d: usize| Window {
        size: size[d],
        stride: stride[d],
        base: base[d],
        dilation: dilation[d],
        low: padding[2 * d],
        n: from.dims[d],
        out: to.dims[d],
    };
    let dims: Vec<Window> = (0..rank).map(dim).collect();
    // Phases of windows with strides would repeat after fewer steps.
    let even = dims.iter().all(|w| w.base == 1 || w.stride == 1);
    let phases: i64 = dims.iter().map(|w| w.base).product();
    let each = dims.iter().all(|w| w.size <= MAX_TAPS && (w.size > 1 || w.is_plain()));
    (even && each && phases <= MAX_PHASES).then(|| (dims, combine.into()))
}

/// The windows `dims` of `x`, of which `init` is what is outside.
fn expression(e: &mut Emitter<'_>, x: ValueId, init: ValueId, dims: &[Window], combine: BinaryOp) -> ValueId {
    let elem = e.module.ty(x).elem().unwrap_or(meshwork_ir::ElementType::F32);
    // Enough around the input that every tap is inside.
    let (mut low, mut high) = (vec![0; dims.len()], vec![0; dims.len()]);
    for (d, w) in dims.iter().enumerate() {
        for at in (0..w.base).flat_map(|phase| w.taps(phase)) {
            low[d] = low[d].max(-at);
            high[d] = high[d].max(at + (w.each() - 1) * w.stride + 1 - w.n);
        }
    }
    let whole = e.pad(x, init, &low, &high);
    let each: Vec<i64> = dims.iter().map(Window::each).collect();
    let ty = Type::tensor(each.clone(), elem);
    let mut pieces: Vec<ValueId> = vec![];
    for phase in combinations(&dims.iter().map(|w| (0..w.base).collect()).collect::<Vec<_>>()) {
        let taps: Vec<Vec<i64>> = dims.iter().zip(&phase).map(|(w, &p)| w.taps(p)).collect();
        let mut sum = None;
        for at in combinations(&taps) {
            let start: Vec<i64> = at.iter().zip(&low).map(|(a, l)| a + l).collect();
            let limit = start.iter().zip(dims).map(|(s, w)| s + (w.each() - 1) * w.stride + 1).collect();
            let piece = e.slice(whole, start, limit, dims.iter().map(|w| w.stride).collect(), ty.clone());
            sum = Some(sum.map_or(piece, |before| e.binary(OpKind::Binary(combine), before, piece, &ty)));
        }
        // A phase that meets no element.
        pieces.push(sum.unwrap_or_else(|| e.everywhere(init, &ty)));
    }
    let interleaved = interleave(e, pieces, dims, &each);
    let out: Vec<i64> = dims.iter().map(|w| w.out).collect();
    let full = e.module.ty(interleaved).dims().to_vec();
    if full == out {
        return interleaved;
    }
    let ones = vec![1; out.len()];
    e.slice(interleaved, vec![0; out.len()], out.clone(), ones, Type::tensor(out, elem))
}

/// The results of all phases, in the order of [`combinations`], side by side.
pub(super) fn interleave(e: &mut Emitter<'_>, mut pieces: Vec<ValueId>, dims: &[Window], each: &[i64]) -> ValueId {
    let elem = e.module.ty(pieces[0]).elem().unwrap_or(meshwork_ir::ElementType::F32);
    if pieces.len() == 1 {
        return pieces[0];
    }
    // One more dimension behind every dilated one, which the pieces are stacked along; the innermost first.
    let mut shape: Vec<i64> = vec![];
    let mut stacked = vec![];
    for (w, &n) in dims.iter().zip(each) {
        shape.push(n);
        if w.base > 1 {
            stacked.push((shape.len(), w.base));
            shape.push(1);
        }
    }
    for piece in &mut pieces {
        let spec = OpSpec::new(OpKind::Movement(MovementOp::Reshape)).operands([*piece]);
        *piece = e.add(spec, Type::tensor(shape.clone(), elem));
    }
    for &(d, base) in stacked.iter().rev() {
        shape[d] = base;
        let stack = |group: &[ValueId]| {
            let spec = OpSpec::new(OpKind::Movement(MovementOp::Concatenate))
                .operands(group.iter().copied())
                .attr("dimension", Attr::i64(d as i64));
            e.add(spec, Type::tensor(shape.clone(), elem))
        };
        pieces = pieces.chunks(base as usize).map(stack).collect();
    }
    let flat: Vec<i64> = dims.iter().zip(each).map(|(w, n)| w.base * n).collect();
    e.add(OpSpec::new(OpKind::Movement(MovementOp::Reshape)).operands([pieces[0]]), Type::tensor(flat, elem))
}

/// One of each list, in order, the last one fastest.
pub(super) fn combinations(lists: &[Vec<i64>]) -> Vec<Vec<i64>> {
    let mut out: Vec<Vec<i64>> = vec![vec![]];
    for list in lists {
        let with = |head: Vec<i64>| {
            list.iter().map(move |&x| {
                let mut all = head.clone();
                all.push(x);
                all
            })
        };
        out = out.into_iter().flat_map(with).collect();
    }
    out
}

#[cfg(test)]
mod tests {
    use crate::compile::testing::check;

    fn pool(x: &str, out: &str, op: &str, init: &str, window: &str) -> String {
        format!(
            "func.func @main(%a: tensor<{x}xf32>) -> tensor<{out}xf32> {{
            %i = stablehlo.constant dense<{init}> : tensor<f32>
            %t = stablehlo.tanh %a : tensor<{x}xf32>
            %r = \"stablehlo.reduce_window\"(%t, %i) <{{{window}}}> ({{
            ^bb0(%x: tensor<f32>, %y: tensor<f32>):
                %s = stablehlo.{op} %x, %y : tensor<f32>
                stablehlo.return %s : tensor<f32>
            }}) : (tensor<{x}xf32>, tensor<f32>) -> tensor<{out}xf32>
            return %r : tensor<{out}xf32> }}"
        )
    }

    #[test]
    fn windows_become_expressions() {
        let three = "window_dimensions = array<i64: 1, 3, 3, 1>";
        for (x, out, window) in [
            (
                "2x12x12x16",
                "2x6x6x16",
                format!(
                    "{three}, window_strides = array<i64: 1, 2, 2, 1>, padding = dense<[[0, 0], [0, 1], [0, 1], [0, 0]]> : tensor<4x2xi64>"
                ),
            ),
            (
                "2x6x6x16",
                "2x12x12x16",
                format!(
                    "{three}, base_dilations = array<i64: 1, 2, 2, 1>, padding = dense<[[0, 0], [2, 1], [2, 1], [0, 0]]> : tensor<4x2xi64>"
                ),
            ),
            (
                "2x5x6x3",
                "2x9x12x3",
                format!(
                    "{three}, base_dilations = array<i64: 1, 2, 2, 1>, padding = dense<[[0, 0], [1, 1], [1, 2], [0, 0]]> : tensor<4x2xi64>"
                ),
            ),
            ("1x20x20x4", "1x12x12x4", "window_dimensions = array<i64: 1, 9, 9, 1>".into()),
        ] {
            for (op, init) in [("add", "0.0"), ("maximum", "0xFF800000")] {
                let text = check(&pool(x, out, op, init, &window), 1e-5);
                assert!(!text.contains("windows"), "{text}");
            }
        }
    }
}
