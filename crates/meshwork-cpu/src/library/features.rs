//! Convolutions to few output features, such as gradients of kernels that have few: sums of shifted products along a dimension
//! whose elements are neighbors in the input. As products of matrices they would leave most of a tile empty.

use meshwork_ir::{ElementType, OpId};
use meshwork_mesh::sort_by_key;

use super::conv::Conv;
use super::copy::copy;
use super::nest::walk;
use super::shifted::Lines;
use crate::compile::lower::Lower;
use crate::step::View;

/// More features fill enough of a tile.
const FEW: i64 = 4;
/// Bytes of a line that is worth it.
const LEAST_BYTES: i64 = 32;
/// Taps, of which a list is kept.
const MOST_TAPS: i64 = 1 << 17;

/// One dimension of a loop: its extent and byte strides in the input, the kernel and the result.
type Loop = (i64, [isize; 3]);

/// Adds the step of `conv`, whose operands are floats and whose input is padded already, if it is one of these.
pub(super) fn lower(cx: &mut Lower<'_>, op: OpId, conv: &Conv) -> bool {
    let (d, lhs, rhs) = (&conv.dims, &conv.lhs, &conv.rhs);
    let (elem, shape) = cx.shape(cx.module.op(op).results()[0]);
    let one_type = lhs.elem == elem && rhs.elem == elem && matches!(elem, ElementType::F32 | ElementType::F64);
    let (features, channels) = (shape[d.output_feature as usize], rhs.dims[d.kernel_input_feature as usize]);
    let taps: i64 = channels * d.kernel_spatial.iter().map(|&k| rhs.dims[k as usize]).product::<i64>();
    let grouped = conv.batch_groups != 1 || conv.feature_groups != 1;
    if !one_type || grouped || features > FEW || !(8..=MOST_TAPS).contains(&taps) || shape.contains(&0) {
        return false;
    }
    let size = elem.storage_bytes() as i64;
    // The dimension of the result along which lines are, of those that go through the input.
    let spatial = d.input_spatial.iter().zip(&d.output_spatial).zip(&conv.strides).map(|((&i, &o), &s)| (i, o, s));
    let through: Vec<(i64, i64, i64)> = [(d.input_batch, d.output_batch, 1)].into_iter().chain(spatial).collect();
    let is_line =
        |&&(i, o, s): &&(i64, i64, i64)| lhs.strides[i as usize] * s == size && shape[o as usize] * size >= LEAST_BYTES;
    let Some(&(_, along, _)) = through.iter().find(is_line) else { return false };
    let along = along as usize;

    // Where the result has something else as neighbors, it is copied from an order in which these are.
    let target = View::dense(cx.result(cx.module.op(op).results()[0]), elem, &shape);
    let mut out = target.clone();
    if target.strides[along] != size {
        let order: Vec<usize> = (0..shape.len()).filter(|&d| d != along).chain([along]).collect();
        let ordered: Vec<i64> = order.iter().map(|&d| shape[d]).collect();
        out.buf = cx.buffer(elem, &ordered);
        let strides = View::dense(out.buf, elem, &ordered).strides;
        order.iter().zip(strides).for_each(|(&d, stride)| out.strides[d] = stride);
    }

    let at = |x: &View, d: i64| x.strides[d as usize] as isize;
    let mut loops: Vec<Loop> = vec![(features, [0, at(rhs, d.kernel_output_feature), at(&out, d.output_feature)])];
    for &(i, o, s) in through.iter().filter(|t| t.1 as usize != along) {
        loops.push((shape[o as usize], [at(lhs, i) * s as isize, 0, at(&out, o)]));
    }
    let mut depth: Vec<Loop> = vec![(channels, [at(lhs, d.input_feature), at(rhs, d.kernel_input_feature), 0])];
    let mut offset = rhs.offset as isize;
    for (s, (&i, &k)) in d.input_spatial.iter().zip(&d.kernel_spatial).enumerate() {
        let (n, mut step) = (rhs.dims[k as usize], at(rhs, k));
        if conv.reversal[s] {
            offset += (n - 1) as isize * step;
            step = -step;
        }
        depth.push((n, [at(lhs, i) * conv.rhs_dilation[s] as isize, step, 0]));
    }
    // The input is gone through in the order of memory.
    sort_by_key(&mut loops, |l| std::cmp::Reverse(l.1[2]));
    sort_by_key(&mut depth, |l| std::cmp::Reverse(l.1[0]));
    let mut lines = vec![];
    let each = |list: &[Loop], start: [isize; 3], visit: &mut dyn FnMut([isize; 3])| {
        let (dims, strides): (Vec<usize>, Vec<[isize; 3]>) = list.iter().map(|l| (l.0 as usize, l.1)).unzip();
        walk(&dims, &strides, start, visit);
    };
    each(&loops, [lhs.offset as isize, offset, 0], &mut |line| lines.push(line));
    let mut taps = vec![];
    each(&depth, [0; 3], &mut |tap| taps.push([tap[0], tap[1]]));
    let (n, strides) = (shape[along] as usize, [size as isize, 0]);
    let name = format!("convolution to few features {elem} {shape:?}");
    Lines { x: lhs.buf, w: rhs.buf, out: out.buf, lines, taps, n, strides }.emit(cx, op, name, elem);
    if out.buf != target.buf {
        copy(cx, op, &out, &target);
    }
    true
}
