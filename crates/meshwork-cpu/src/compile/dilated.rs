//! Convolutions of a dilated input, as in the gradient of one with strides: most taps meet the zeros in between. Results that
//! meet the same elements are convolutions of the input itself with every second (third, …) element of the kernel; they
//! are computed one after the other and interleaved.

use meshwork_ir::attr::ConvDims;
use meshwork_ir::{Attr, Module, OpId, Type, ValueId, ValueMap};
use meshwork_mesh::sort_by_key;

use super::pooling::{Window, combinations, interleave};
use super::stencil::Emitter;

/// Results that are interleaved.
const MAX_PHASES: i64 = 8;

/// Per spatial dimension.
#[derive(Clone, Copy)]
struct Dim {
    base: i64,
    size: i64,
    low: i64,
    n: i64,
    out: i64,
}

/// The taps of one phase along one dimension: the first element of the kernel, how many there are, and where the first
/// result of the phase meets the input.
struct Taps {
    first: i64,
    count: i64,
    at: i64,
}

impl Dim {
    fn taps(&self, phase: i64) -> Taps {
        let first = (self.low - phase).rem_euclid(self.base);
        let count = (self.size - first + self.base - 1).div_euclid(self.base).max(0);
        Taps { first, count, at: (phase + first - self.low).div_euclid(self.base) }
    }

    fn each(&self) -> i64 {
        (self.out + self.base - 1) / self.base
    }
}

/// Replaces a convolution of a dilated input by several of the input itself.
pub(crate) fn convolution(module: &mut Module, op: OpId) -> bool {
    let Some((numbers, dims)) = dims_of(module, op) else { return false };
    let data = module.op(op);
    let (x, kernel, result) = (data.operands()[0], data.operands()[1], data.results()[0]);
    let (Some(elem), Some(out_elem)) = (module.ty(x).elem(), module.ty(result).elem()) else { return false };
    let rank = module.ty(x).dims().len();
    let mut e = Emitter { module, op };
    // What all phases meet: the input with zeros around it, or less of it.
    let phases: Vec<Vec<Taps>> = dims.iter().map(|d| (0..d.base).map(|p| d.taps(p)).collect()).collect();
    let (mut low, mut high) = (vec![0; rank], vec![0; rank]);
    let mut padded = e.module.ty(x).dims().to_vec();
    for ((&d, dim), taps) in numbers.input_spatial.iter().zip(&dims).zip(&phases) {
        let d = d as usize;
        for t in taps.iter().filter(|t| t.count > 0) {
            low[d] = low[d].max(-t.at);
            high[d] = high[d].max(t.at + dim.each() + t.count - 1 - dim.n);
        }
        padded[d] += low[d] + high[d];
    }
    let zero = e.zero(elem);
    let whole = if padded == e.module.ty(x).dims() { x } else { e.pad(x, zero, &low, &high) };
    let mut shape = e.module.ty(result).dims().to_vec();
    numbers.output_spatial.iter().zip(&dims).for_each(|(&d, dim)| shape[d as usize] = dim.each());
    let ty = Type::tensor(shape.clone(), out_elem);
    let lists: Vec<Vec<i64>> = dims.iter().map(|d| (0..d.base).collect()).collect();
    let mut pieces = vec![];
    for phase in combinations(&lists) {
        let taps: Vec<&Taps> = phase.iter().zip(&phases).map(|(&p, taps)| &taps[p as usize]).collect();
        if taps.iter().any(|t| t.count == 0) {
            let zero = e.zero(out_elem);
            pieces.push(e.everywhere(zero, &ty));
            continue;
        }
        let part = |e: &mut Emitter<'_>, from: ValueId, at: &[i64], start: &dyn Fn(usize) -> (i64, i64, i64)| {
            let dims = e.module.ty(from).dims().to_vec();
            let (mut first, mut limit, mut steps) = (vec![0; dims.len()], dims.clone(), vec![1; dims.len()]);
            let mut cut = dims;
            for (i, &d) in at.iter().enumerate() {
                let (from, count, step) = start(i);
                let d = d as usize;
                (first[d], limit[d], steps[d], cut[d]) = (from, from + (count - 1) * step + 1, step, count);
            }
            let elem = e.module.ty(from).elem().unwrap_or(elem);
            e.slice(from, first, limit, steps, Type::tensor(cut, elem))
        };
        let x = part(&mut e, whole, &numbers.input_spatial, &|i| {
            let before = low[numbers.input_spatial[i] as usize];
            (taps[i].at + before, dims[i].each() + taps[i].count - 1, 1)
        });
        let k = part(&mut e, kernel, &numbers.kernel_spatial, &|i| (taps[i].first, taps[i].count, dims[i].base));
        let piece = e.module.clone_op(op, &mut ValueMap::default());
        e.module.insert_before(op, piece);
        e.module.op_mut(piece).attrs.remove("lhs_dilation");
        e.module.op_mut(piece).attrs.remove("padding");
        e.module.set_operands(piece, [x, k]);
        let made = e.module.result(piece);
        e.module.set_ty(made, ty.clone());
        pieces.push(made);
    }
    let mut windows: Vec<Window> = shape.iter().map(|&n| Window::plain(n)).collect();
    numbers.output_spatial.iter().zip(&dims).for_each(|(&d, dim)| windows[d as usize].base = dim.base);
    // The phases are in the order of the input's dimensions; results are interleaved in that of theirs.
    let order = output_order(&numbers, &dims);
    let sorted = order.into_iter().map(|i| pieces[i]).collect();
    let interleaved = interleave(&mut e, sorted, &windows, &shape);
    let out = e.module.ty(result).dims().to_vec();
    let new = if e.module.ty(interleaved).dims() == out {
        interleaved
    } else {
        let rank = out.len();
        e.slice(interleaved, vec![0; rank], out.clone(), vec![1; rank], Type::tensor(out, out_elem))
    };
    module.replace_op(op, &[new]);
    true
}

/// For each phase in the order of the result's dimensions, its number in the order of the spatial dimensions.
fn output_order(numbers: &ConvDims, dims: &[Dim]) -> Vec<usize> {
    let mut sorted: Vec<usize> = (0..dims.len()).collect();
    sort_by_key(&mut sorted, |&i| numbers.output_spatial[i]);
    let lists: Vec<Vec<i64>> = sorted.iter().map(|&i| (0..dims[i].base).collect()).collect();
    let number = |phase: Vec<i64>| {
        let mut of = vec![0; dims.len()];
        sorted.iter().zip(&phase).for_each(|(&i, &p)| of[i] = p);
        of.iter().zip(dims).fold(0, |n, (p, d)| n * d.base as usize + *p as usize)
    };
    combinations(&lists).into_iter().map(number).collect()
}

fn dims_of(module: &Module, op: OpId) -> Option<(ConvDims, Vec<Dim>)> {
    let data = module.op(op);
    let &[x, kernel] = data.operands() else { return None };
    let (xt, kt) = (module.ty(x).as_tensor()?, module.ty(kernel).as_tensor()?);
    let out = module.ty(data.results()[0]).as_tensor()?;
    let Some(Attr::Conv(n)) = data.attr("dimension_numbers") else { return None };
    let rank = n.input_spatial.len();
    let ints = |name: &str, default: i64, count: usize| match data.attr(name) {
        Some(a) => a.as_i64s().filter(|l| l.len() == count),
        None => Some(vec![default; count]),
    };
    let base = ints("lhs_dilation", 1, rank)?;
    let padding = ints("padding", 0, 2 * rank)?;
    let ones = |name: &str| ints(name, 1, rank).is_some_and(|l| l.iter().all(|&v| v == 1));
    let reversed = data.bools("window_reversal", rank)?.contains(&true);
    let dims: Vec<Dim> = (0..rank)
        .map(|i| Dim {
            base: base[i],
            size: kt.dims[n.kernel_spatial[i] as usize],
            low: padding[2 * i],
            n: xt.dims[n.input_spatial[i] as usize],
            out: out.dims[n.output_spatial[i] as usize],
        })
        .collect();
    let phases: i64 = base.iter().product();
    let fits = ones("window_strides") && ones("rhs_dilation") && !reversed && out.num_elements()? > 0;
    // Where all elements of a dimension are cut off, there is nothing to convolve.
    let meets = dims.iter().all(|d| d.n > 0 && d.out > 0);
    (fits && meets && (2..=MAX_PHASES).contains(&phases)).then(|| ((**n).clone(), dims))
}

#[cfg(test)]
mod tests {
    use crate::compile::testing::check;

    #[test]
    fn dilated_inputs_are_not_multiplied_with_zeros() {
        for (x, k, out, layout, rest) in [
            (
                "2x7x6x4",
                "4x4x4x8",
                "2x14x12x8",
                "[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]",
                "pad = [[2, 2], [2, 2]], lhs_dilate = [2, 2]",
            ),
            (
                "2x7x6x4",
                "3x3x4x8",
                "2x14x12x8",
                "[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]",
                "pad = [[1, 2], [1, 2]], lhs_dilate = [2, 2]",
            ),
            (
                "2x4x7x5",
                "6x4x2x3",
                "2x6x12x13",
                "[b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1]",
                "pad = [[0, 0], [1, 1]], lhs_dilate = [2, 3]",
            ),
            (
                "2x7x6x4",
                "1x1x4x8",
                "2x14x11x8",
                "[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]",
                "pad = [[0, 1], [0, 0]], lhs_dilate = [2, 2]",
            ),
            (
                "2x7x6x4",
                "3x3x4x8",
                "2x9x7x8",
                "[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]",
                "pad = [[-1, -1], [0, -2]], lhs_dilate = [2, 2]",
            ),
        ] {
            let text = check(
                &format!(
                    "func.func @main(%x: tensor<{x}xf32>, %k: tensor<{k}xf32>) -> tensor<{out}xf32> {{
                    %0 = stablehlo.convolution(%x, %k) dim_numbers = {layout}, window = {{stride = [1, 1], {rest}}}
                        {{batch_group_count = 1 : i64, feature_group_count = 1 : i64}}
                        : (tensor<{x}xf32>, tensor<{k}xf32>) -> tensor<{out}xf32>
                    return %0 : tensor<{out}xf32> }}"
                ),
                1e-4,
            );
            assert!(text.contains("concatenate"), "{text}");
        }
    }
}
