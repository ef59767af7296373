//! Convolutions in which every input feature makes its own output features: sums of shifted products.

use meshwork_ir::{ElementType, OpId};
use meshwork_mesh::sort_by_key;

use super::conv::Conv;
use super::nest::walk;
use super::shifted::Lines;
use crate::compile::lower::Lower;
use crate::step::{Buf, View};

/// Adds the step of a convolution with one input feature per group, if `conv` is one of floats that compute in their own
/// type; the input is padded already.
pub(super) fn lower(cx: &mut Lower<'_>, op: OpId, conv: &Conv) -> Result<bool, String> {
    let (d, lhs, rhs) = (&conv.dims, &conv.lhs, &conv.rhs);
    let result = cx.module.op(op).results()[0];
    let (elem, shape) = cx.shape(result);
    let one_type = lhs.elem == elem && rhs.elem == elem && matches!(elem, ElementType::F32 | ElementType::F64);
    let channels = rhs.dims[d.kernel_input_feature as usize];
    if !one_type || channels != 1 || conv.batch_groups != 1 || conv.feature_groups < 2 || rhs.is_empty() {
        return Ok(false);
    }
    let out = View::dense(Buf(0), elem, &shape);
    let features = shape[d.output_feature as usize];
    let multiplier = features / conv.feature_groups;
    // Loops over the result: extent and strides in the input, the kernel and the result. Output features are
    // groups, each of `multiplier`.
    let at = |x: &View, d: i64| x.strides[d as usize] as isize;
    let (fi, fw, fo) = (at(lhs, d.input_feature), at(rhs, d.kernel_output_feature), at(&out, d.output_feature));
    let m = multiplier as isize;
    let mut loops: Vec<(i64, [isize; 3])> = vec![
        (shape[d.output_batch as usize], [at(lhs, d.input_batch), 0, at(&out, d.output_batch)]),
        (conv.feature_groups, [fi, fw * m, fo * m]),
        (multiplier, [0, fw, fo]),
    ];
    let (mut taps, mut offset) = (vec![[0isize, 0]], rhs.offset as isize);
    for s in 0..d.input_spatial.len() {
        let (i, k, o) = (d.input_spatial[s], d.kernel_spatial[s], d.output_spatial[s]);
        loops.push((shape[o as usize], [at(lhs, i) * conv.strides[s] as isize, 0, at(&out, o)]));
        let (n, mut step) = (rhs.dims[k as usize] as isize, at(rhs, k));
        if conv.reversal[s] {
            offset += (n - 1) * step;
            step = -step;
        }
        let dilation = at(lhs, i) * conv.rhs_dilation[s] as isize;
        taps = taps.iter().flat_map(|&[x, w]| (0..n).map(move |t| [x + t * dilation, w + t * step])).collect();
    }
    let size = elem.storage_bytes() as isize;
    loops.retain(|l| l.0 != 1);
    let inner = loops.iter().position(|l| l.1[2] == size);
    let (n, along) = match inner {
        Some(i) => loops.remove(i),
        None => (1, [size, size, size]),
    };
    sort_by_key(&mut loops, |l| std::cmp::Reverse(l.1[2]));
    let dims: Vec<usize> = loops.iter().map(|l| l.0 as usize).collect();
    let strides: Vec<[isize; 3]> = loops.iter().map(|l| l.1).collect();
    let mut lines = vec![];
    walk(&dims, &strides, [lhs.offset as isize, offset, 0], &mut |l| lines.push(l));
    let buf = cx.result(result);
    let name = format!("depthwise convolution {elem} {shape:?}");
    let (n, strides) = (n as usize, [along[0], along[1]]);
    Lines { x: lhs.buf, w: rhs.buf, out: buf, lines, taps, n, strides }.emit(cx, op, name, elem);
    Ok(true)
}
