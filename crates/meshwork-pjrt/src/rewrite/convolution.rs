//! Convolutions of one array with one small kernel, as sums of shifted arrays: they fuse with what is around them.

use meshwork_ir::attr::ConvDims;
use meshwork_ir::build::{BuildError, Builder};
use meshwork_ir::{Attr, ElementType, Module, OpId, ValueId};

use super::constants::elements;

/// Numbers in a kernel that is still small.
const MOST_TAPS: i64 = 32;

struct Shape {
    numbers: ConvDims,
    /// Per spatial dimension.
    extent: Vec<i64>,
    window: Vec<i64>,
    padding: Vec<(i64, i64)>,
    out: Vec<i64>,
    elem: ElementType,
}

/// Replaces a convolution of one input of one channel with one kernel by products and sums of slices.
pub(super) fn as_shifts(module: &mut Module, op: OpId) -> bool {
    let Some(shape) = shape_of(module, op) else { return false };
    let Ok(value) = build(module, op, &shape) else { return false };
    module.replace_op(op, &[value]);
    true
}

fn build(module: &mut Module, op: OpId, shape: &Shape) -> Result<ValueId, BuildError> {
    let (x, kernel, result) = {
        let data = module.op(op);
        (data.operands()[0], data.operands()[1], data.results()[0])
    };
    let known = elements(module, kernel);
    let dims = module.ty(result).dims().to_vec();
    let rank = shape.window.len();
    let mut b = Builder::before(module, op);
    let mut x = b.reshape(x, shape.extent.iter().copied())?;
    if shape.padding.iter().any(|&p| p != (0, 0)) {
        let zero = b.splat([], shape.elem, 0.0)?;
        let (low, high): (Vec<i64>, Vec<i64>) = shape.padding.iter().copied().unzip();
        x = b.pad(x, zero, &low, &high, &vec![0; rank])?;
    }
    let taps: i64 = shape.window.iter().product();
    let mut sum = None;
    for tap in 0..taps {
        let mut at = vec![0; rank];
        let mut rest = tap;
        for d in (0..rank).rev() {
            at[d] = rest % shape.window[d];
            rest /= shape.window[d];
        }
        let weight = match &known {
            Some(numbers) => {
                let place = place_in_kernel(&shape.numbers, b.ty(kernel).dims(), &at);
                b.splat_bytes(&shape.out, shape.elem, numbers.element(place))?
            }
            None => {
                let mut start = vec![0; rank + 2];
                shape.numbers.kernel_spatial.iter().zip(&at).for_each(|(&d, &a)| start[d as usize] = a);
                let limit: Vec<i64> = start.iter().map(|s| s + 1).collect();
                let one = b.slice(kernel, &start, &limit, &vec![1; rank + 2])?;
                let one = b.reshape(one, [])?;
                b.broadcast_in_dim(one, shape.out.iter().copied(), &[])?
            }
        };
        let limit: Vec<i64> = at.iter().zip(&shape.out).map(|(a, n)| a + n).collect();
        let shifted = b.slice(x, &at, &limit, &vec![1; rank])?;
        let product = b.multiply(shifted, weight)?;
        sum = Some(match sum {
            Some(sum) => b.add(sum, product)?,
            None => product,
        });
    }
    b.reshape(sum.unwrap_or(x), dims)
}

/// The number of the element of the kernel at `at`, in row-major order.
fn place_in_kernel(numbers: &ConvDims, dims: &[i64], at: &[i64]) -> usize {
    let mut place = vec![0; dims.len()];
    numbers.kernel_spatial.iter().zip(at).for_each(|(&d, &a)| place[d as usize] = a);
    place.iter().zip(dims).fold(0, |sum, (&p, &n)| sum * n + p) as usize
}

/// What a convolution of one input, one channel and one kernel does; `None` for others.
fn shape_of(module: &Module, op: OpId) -> Option<Shape> {
    let data = module.op(op);
    let &[x, kernel] = data.operands() else { return None };
    let (xt, kt) = (module.ty(x).as_tensor()?, module.ty(kernel).as_tensor()?);
    let out = module.ty(data.results()[0]).as_tensor()?;
    let Some(Attr::Conv(n)) = data.attr("dimension_numbers") else { return None };
    let rank = n.input_spatial.len();
    let ones = |name: &str| data.attr(name).is_none_or(|a| a.as_i64s().is_some_and(|v| v.iter().all(|&n| n == 1)));
    let plain = ["window_strides", "lhs_dilation", "rhs_dilation"].iter().all(|name| ones(name));
    let one = |dims: &[i64], d: i64| dims[d as usize] == 1;
    let single = one(&xt.dims, n.input_batch)
        && one(&xt.dims, n.input_feature)
        && one(&kt.dims, n.kernel_output_feature)
        && one(&kt.dims, n.kernel_input_feature);
    let in_order = [&n.input_spatial, &n.kernel_spatial, &n.output_spatial].iter().all(|dims| dims.is_sorted());
    let is_reversed = data.bools("window_reversal", rank)?.contains(&true);
    let padding = match data.attr("padding") {
        Some(attr) => attr.as_i64s()?,
        None => vec![0; 2 * rank],
    };
    let shape = Shape {
        extent: n.input_spatial.iter().map(|&d| xt.dims[d as usize]).collect(),
        window: n.kernel_spatial.iter().map(|&d| kt.dims[d as usize]).collect(),
        padding: padding.chunks_exact(2).map(|p| (p[0], p[1])).collect(),
        out: n.output_spatial.iter().map(|&d| out.dims[d as usize]).collect(),
        elem: out.elem,
        numbers: (**n).clone(),
    };
    let taps: i64 = shape.window.iter().product();
    let same = xt.elem == kt.elem && xt.elem == out.elem && out.elem.is_float();
    let fits = plain && single && in_order && !is_reversed && same && out.num_elements()? > 0;
    (fits && (1..=MOST_TAPS).contains(&taps) && shape.padding.len() == rank).then_some(shape)
}
