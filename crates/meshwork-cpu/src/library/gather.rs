//! Gather: windows of a tensor at positions that are data.

use std::sync::Arc;

use meshwork_ir::{Attr, ElementType, OpId};

use super::attrs;
use super::copy::view_of;
use super::dynamic::{is_index, read_index};
use super::nest::{Nest, offsets, parts_of, piece, walk};
use crate::compile::lower::Lower;
use crate::step::{Buf, Fault, Frame, Scratch, View, Work};

/// The windows that index vectors mean: shared by gather, which reads them, and scatter, which writes them.
#[derive(Debug)]
pub(super) struct Corners {
    pub buf: Buf,
    pub elem: ElementType,
    /// Byte offset of each index vector, in row-major order of the index dimensions but that of the components.
    pub vectors: Vec<isize>,
    /// Bytes from one component to the next.
    component: isize,
    /// Operand dimension of each component.
    map: Vec<usize>,
    /// Per batching dimension: the operand dimension, and each vector's position along it.
    batching: Vec<(usize, Vec<i64>)>,
}

impl Corners {
    /// `indices` with its components along `vector_dim` mapped to the operand's dimensions `map`.
    pub(super) fn new(
        indices: &View,
        vector_dim: i64,
        map: &[i64],
        operand_batching: &[i64],
        indices_batching: &[i64],
    ) -> Corners {
        let v = vector_dim as usize;
        let walked: Vec<usize> = (0..indices.dims.len()).filter(|&d| d != v).collect();
        let dims: Vec<i64> = walked.iter().map(|&d| indices.dims[d]).collect();
        let strides: Vec<i64> = walked.iter().map(|&d| indices.strides[d]).collect();
        let vectors = offsets(&dims, &strides).into_iter().map(|o| o + indices.offset as isize).collect();
        let positions = |of: i64| {
            let unit: Vec<i64> = walked.iter().map(|&d| i64::from(d == of as usize)).collect();
            offsets(&dims, &unit).into_iter().map(|p| p as i64).collect()
        };
        Corners {
            buf: indices.buf,
            elem: indices.elem,
            vectors,
            component: indices.strides.get(v).map_or(0, |&s| s as isize),
            map: map.iter().map(|&d| d as usize).collect(),
            batching: operand_batching
                .iter()
                .zip(indices_batching)
                .map(|(&o, &i)| (o as usize, positions(i)))
                .collect(),
        }
    }

    /// Whether each vector is one index, along dimension `dim` of the operand.
    pub(super) fn is_single(&self, dim: usize) -> bool {
        self.map == [dim] && self.batching.is_empty()
    }

    /// The corner that vector `i` means; dimensions without a component are zero.
    ///
    /// # Safety
    /// The buffer is valid.
    #[inline]
    pub(super) unsafe fn corner(&self, frame: &Frame<'_>, i: usize, out: &mut [i64]) {
        out.fill(0);
        // SAFETY: the caller's.
        unsafe {
            let at = frame.ptr(self.buf).offset(self.vectors[i]);
            for (c, &d) in self.map.iter().enumerate() {
                out[d] = read_index(at.offset(c as isize * self.component), self.elem);
            }
        }
        for (d, positions) in &self.batching {
            out[*d] = positions[i];
        }
    }
}

/// Copies the window of each index vector.
#[derive(Debug)]
struct Gather {
    corners: Corners,
    from: Buf,
    from_offset: isize,
    to: Buf,
    /// Largest start and byte stride of each operand dimension.
    limits: Vec<(i64, isize)>,
    /// Where each vector's window goes.
    targets: Vec<isize>,
    /// The window: operand 0 is the result, operand 1 the operand.
    window: Nest<2>,
    /// Bytes of the innermost run that is contiguous on both sides.
    run: usize,
    parts: usize,
}

impl Work for Gather {
    fn parts(&self) -> usize {
        self.parts
    }

    fn cost(&self) -> u64 {
        let pieces = self.targets.len() * self.window.len();
        (pieces * (2 + self.run / 10)) as u64 + 10 * self.targets.len() as u64
    }

    unsafe fn run(&self, frame: &Frame<'_>, _: &mut Scratch, part: usize) -> Result<(), Fault> {
        let mut corner = vec![0; self.limits.len()];
        // SAFETY: the trait's contract; clamped corners keep the windows inside.
        unsafe {
            let from = frame.ptr(self.from).offset(self.from_offset);
            let to = frame.ptr(self.to);
            for i in piece(self.targets.len(), self.parts, part, 1) {
                self.corners.corner(frame, i, &mut corner);
                let shift: isize =
                    corner.iter().zip(&self.limits).map(|(&c, &(most, s))| c.clamp(0, most) as isize * s).sum();
                let (from, to) = (from.offset(shift), to.offset(self.targets[i]));
                walk(&self.window.dims, &self.window.strides, [0, 0], &mut |[t, f]| {
                    copy_run(from.offset(f), to.offset(t), self.run);
                });
            }
        }
        Ok(())
    }
}

/// Copies `n` bytes; a few small sizes without a call.
///
/// # Safety
/// Both sides are valid and do not overlap.
#[inline(always)]
unsafe fn copy_run(from: *const u8, to: *mut u8, n: usize) {
    // SAFETY: the caller's.
    unsafe {
        match n {
            4 => to.cast::<[u8; 4]>().write(from.cast::<[u8; 4]>().read()),
            8 => to.cast::<[u8; 8]>().write(from.cast::<[u8; 8]>().read()),
            n => std::ptr::copy_nonoverlapping(from, to, n),
        }
    }
}

/// `stablehlo.gather`.
pub(super) fn lower(cx: &mut Lower<'_>, op: OpId) -> Result<bool, String> {
    let data = cx.module.op(op);
    let Some(Attr::Gather(dims)) = data.attr("dimension_numbers") else {
        return Err(attrs::missing(data, "dimension_numbers", "#stablehlo.gather<...>"));
    };
    let sizes = attrs::ints(data, "slice_sizes")?;
    let (x, indices) = (view_of(cx, data.operands()[0])?, view_of(cx, data.operands()[1])?);
    if !is_index(indices.elem) {
        return Ok(false);
    }
    let result = data.results()[0];
    let (elem, shape) = cx.shape(result);
    let out = View::dense(Buf(0), elem, &shape);
    let corners = Corners::new(
        &indices,
        dims.index_vector_dim,
        &dims.start_index_map,
        &dims.operand_batching_dims,
        &dims.start_indices_batching_dims,
    );
    let dropped = |d: i64| dims.collapsed_slice_dims.contains(&d) || dims.operand_batching_dims.contains(&d);
    let kept: Vec<usize> = (0..x.dims.len()).filter(|&d| !dropped(d as i64)).collect();
    let batch: Vec<usize> = (0..shape.len()).filter(|&d| !dims.offset_dims.contains(&(d as i64))).collect();
    let pick = |list: &[i64], of: &[usize]| -> Vec<i64> { of.iter().map(|&d| list[d]).collect() };
    let targets = offsets(&pick(&shape, &batch), &pick(&out.strides, &batch));
    let offset_dims: Vec<usize> = dims.offset_dims.iter().map(|&d| d as usize).collect();
    let window = Nest::new(&pick(&sizes, &kept), [&pick(&out.strides, &offset_dims), &pick(&x.strides, &kept)]);
    let (window, run) = with_run(window, elem.storage_bytes());
    let limits = (0..x.dims.len()).map(|d| (x.dims[d] - sizes[d], x.strides[d] as isize)).collect();
    let buf = cx.result(result);
    let parts = parts_of(out.len() * elem.storage_bytes() + targets.len() * 16, 64 << 10, targets.len());
    let reads = vec![x.buf, indices.buf];
    let from_offset = x.offset as isize;
    let work = Gather { corners, from: x.buf, from_offset, to: buf, limits, targets, window, run, parts };
    cx.step(op, format!("gather {elem} {shape:?}"), Arc::new(work), reads, vec![buf]);
    Ok(true)
}

/// Takes an innermost dimension that is contiguous for both operands out of a nest; bytes of the run.
fn with_run(mut nest: Nest<2>, size: usize) -> (Nest<2>, usize) {
    match (nest.dims.last(), nest.strides.last()) {
        (Some(&n), Some(&s)) if n > 0 && s == [size as isize; 2] => {
            nest.dims.pop();
            nest.strides.pop();
            (nest, n * size)
        }
        _ => (nest, size),
    }
}

#[cfg(test)]
mod tests {
    use crate::library::testing::{check_on, noise};
    use meshwork_ir::{ElementType, Literal};

    fn indices(dims: &[i64], from: i64, to: i64) -> Literal {
        let n = dims.iter().product::<i64>();
        let values: Vec<i64> = (0..n).map(|i| from + (i * 7919 + 13) % (to - from)).collect();
        Literal::from_i64s(dims.iter().copied(), ElementType::I32, &values).unwrap()
    }

    #[test]
    fn rows_of_a_table() {
        for (elem, n) in [("f32", 9), ("bf16", 300), ("i8", 1), ("complex<f64>", 5), ("f32", 0)] {
            let e = ElementType::from_text(elem).unwrap();
            let args = [noise(&[11, 13], e, 1), indices(&[n, 1], -3, 15)];
            check_on(
                &format!(
                    "func.func @main(%a: tensor<11x13x{elem}>, %i: tensor<{n}x1xi32>) -> tensor<{n}x13x{elem}> {{
                    %r = \"stablehlo.gather\"(%a, %i) {{dimension_numbers = #stablehlo.gather<offset_dims = [1],
                        collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>,
                        slice_sizes = array<i64: 1, 13>}} : (tensor<11x13x{elem}>, tensor<{n}x1xi32>) -> tensor<{n}x13x{elem}>
                    return %r : tensor<{n}x13x{elem}> }}"
                ),
                &args,
                0.0,
            );
        }
    }

    #[test]
    fn windows_with_batching_of_views() {
        let args = [noise(&[6, 3, 5], ElementType::F32, 1), indices(&[3, 4, 2], -1, 6)];
        check_on(
            "func.func @main(%a: tensor<6x3x5xf32>, %i: tensor<3x4x2xi32>) -> tensor<2x3x4x3xf32> {
            %t = stablehlo.transpose %a, dims = [2, 1, 0] : (tensor<6x3x5xf32>) -> tensor<5x3x6xf32>
            %r = \"stablehlo.gather\"(%t, %i) {dimension_numbers = #stablehlo.gather<offset_dims = [0, 3],
                operand_batching_dims = [1], start_indices_batching_dims = [0], start_index_map = [2, 0],
                index_vector_dim = 2>, slice_sizes = array<i64: 2, 1, 3>}
                : (tensor<5x3x6xf32>, tensor<3x4x2xi32>) -> tensor<2x3x4x3xf32>
            return %r : tensor<2x3x4x3xf32> }",
            &args,
            0.0,
        );
    }
}
