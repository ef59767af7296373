//! Gather: windows of a tensor at positions that are data.

use std::sync::Arc;

use meshwork_ir::attr::ScatterDims;
use meshwork_ir::{Attr, ElementType, OpId};

use super::attrs;
use super::copy::view_of;
use super::dynamic::{is_index, read_index};
#[cfg(target_arch = "x86_64")]
use super::elements::Elements;
use super::nest::{Nest, offsets, parts_of, piece, walk};
use super::picks::{Naming, Outside, Picks};
use crate::compile::lower::Lower;
use crate::step::{Buf, Fault, Frame, Scratch, View, Work};

/// The windows that index vectors mean.
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
    /// The corners of the windows that `indices` of a scatter mean.
    pub(super) fn of_scatter(indices: &View, numbers: &ScatterDims) -> Corners {
        let v = numbers.index_vector_dim as usize;
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
            map: numbers.scatter_dims_to_operand_dims.iter().map(|&d| d as usize).collect(),
            batching: (numbers.input_batching_dims.iter().zip(&numbers.scatter_indices_batching_dims))
                .map(|(&o, &i)| (o as usize, positions(i)))
                .collect(),
        }
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
    picks: Picks,
    from: Buf,
    from_offset: isize,
    to: Buf,
    /// The window but its runs: operand 0 is the result, operand 1 the operand.
    window: Nest<2>,
    /// Bytes of the innermost run that is contiguous on both sides.
    run: usize,
    /// Bytes of an element.
    element: usize,
    /// Loads for windows of one element.
    #[cfg(target_arch = "x86_64")]
    elements: Option<Elements>,
    split: Split,
    parts: usize,
}

/// Which loop parts divide.
#[derive(Clone, Copy, Debug)]
enum Split {
    Vectors(usize),
    Window(usize),
}

impl Work for Gather {
    fn parts(&self) -> usize {
        self.parts
    }

    fn cost(&self) -> u64 {
        let runs = self.picks.nest.len() * self.window.len();
        (runs * (1 + self.run / 10)) as u64 + self.picks.nest.len() as u64
    }

    fn slowness(&self) -> Option<&'static str> {
        let single = self.window.len() == 1 && self.run == self.element;
        single.then_some("gathers single elements, each from a place of its own")
    }

    unsafe fn run(&self, frame: &Frame<'_>, _: &mut Scratch, part: usize) -> Result<(), Fault> {
        let (mut vectors, mut window) = (self.picks.nest.dims.clone(), self.window.dims.clone());
        let (mut at, mut inside) = ([0; 3], [0; 2]);
        match self.split {
            Split::Vectors(d) => {
                if let Some(n) = vectors.get_mut(d) {
                    let range = piece(*n, self.parts, part, 1);
                    at = self.picks.nest.strides[d].map(|s| s * range.start as isize);
                    *n = range.len();
                }
            }
            Split::Window(d) => {
                let range = piece(window[d], self.parts, part, 1);
                inside = self.window.strides[d].map(|s| s * range.start as isize);
                window[d] = range.len();
            }
        }
        if window.contains(&0) {
            return Ok(());
        }
        // SAFETY: the trait's contract; clamped corners keep the windows inside.
        unsafe {
            let from = frame.ptr(self.from).offset(self.from_offset).cast_const();
            let to = frame.ptr(self.to);
            #[cfg(target_arch = "x86_64")]
            if let Some(elements) = &self.elements {
                self.picks.copy_elements(elements, frame, (&vectors, at), (from, to));
                return Ok(());
            }
            self.picks.blocks(frame, &vectors, at, &mut |first, step, offsets| {
                walk(&window, &self.window.strides, inside, &mut |[t, f]| {
                    copy_runs(to.offset(first + t), step, from.offset(f), offsets, self.run);
                });
            });
        }
        Ok(())
    }
}

/// Copies `run` bytes from each of `offsets` to places `step` bytes apart.
///
/// # Safety
/// Both sides are valid and do not overlap.
unsafe fn copy_runs(to: *mut u8, step: isize, from: *const u8, offsets: &[isize], run: usize) {
    /// # Safety
    /// As [`copy_runs`], for `N` bytes.
    #[inline(always)]
    unsafe fn fixed<const N: usize>(to: *mut u8, step: isize, from: *const u8, offsets: &[isize]) {
        for (i, &offset) in offsets.iter().enumerate() {
            // SAFETY: the caller's.
            unsafe {
                let to = to.offset(i as isize * step).cast::<[u8; N]>();
                to.write(from.offset(offset).cast::<[u8; N]>().read());
            }
        }
    }
    /// The same for `N` to `2 * N` bytes, by two pieces that may overlap.
    ///
    /// # Safety
    /// As [`copy_runs`].
    #[inline(always)]
    unsafe fn ends<const N: usize>(to: *mut u8, step: isize, from: *const u8, offsets: &[isize], run: usize) {
        for (i, &offset) in offsets.iter().enumerate() {
            // SAFETY: the caller's.
            unsafe {
                let (from, to) = (from.offset(offset), to.offset(i as isize * step));
                let pieces = [0, run - N].map(|at| from.add(at).cast::<[u8; N]>().read());
                to.cast::<[u8; N]>().write(pieces[0]);
                to.add(run - N).cast::<[u8; N]>().write(pieces[1]);
            }
        }
    }
    // SAFETY: the caller's.
    unsafe {
        match run {
            1 => fixed::<1>(to, step, from, offsets),
            2 => fixed::<2>(to, step, from, offsets),
            4 if step == 4 => fixed::<4>(to, 4, from, offsets),
            4 => fixed::<4>(to, step, from, offsets),
            8 => fixed::<8>(to, step, from, offsets),
            12 => fixed::<12>(to, step, from, offsets),
            16 => fixed::<16>(to, step, from, offsets),
            32 => fixed::<32>(to, step, from, offsets),
            64 => fixed::<64>(to, step, from, offsets),
            128 => fixed::<128>(to, step, from, offsets),
            256 => fixed::<256>(to, step, from, offsets),
            3 => ends::<2>(to, step, from, offsets, run),
            5..8 => ends::<4>(to, step, from, offsets, run),
            9..16 => ends::<8>(to, step, from, offsets, run),
            17..32 => ends::<16>(to, step, from, offsets, run),
            33..64 => ends::<32>(to, step, from, offsets, run),
            n => {
                for (i, &offset) in offsets.iter().enumerate() {
                    std::ptr::copy_nonoverlapping(from.offset(offset), to.offset(i as isize * step), n);
                }
            }
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
    let dropped = |d: i64| dims.collapsed_slice_dims.contains(&d) || dims.operand_batching_dims.contains(&d);
    let kept: Vec<usize> = (0..x.dims.len()).filter(|&d| !dropped(d as i64)).collect();
    let batch: Vec<usize> = (0..shape.len()).filter(|&d| !dims.offset_dims.contains(&(d as i64))).collect();
    let pick = |list: &[i64], of: &[usize]| -> Vec<i64> { of.iter().map(|&d| list[d]).collect() };
    let naming = Naming {
        vector_dim: dims.index_vector_dim,
        map: &dims.start_index_map,
        operand_batching: &dims.operand_batching_dims,
        indices_batching: &dims.start_indices_batching_dims,
    };
    let most: Vec<i64> = x.dims.iter().zip(&sizes).map(|(n, size)| n - size).collect();
    let picks = Picks::new(&indices, &naming, &x.strides, &most, &pick(&out.strides, &batch), Outside::Clamped);
    let offset_dims: Vec<usize> = dims.offset_dims.iter().map(|&d| d as usize).collect();
    let window = Nest::new(&pick(&sizes, &kept), [&pick(&out.strides, &offset_dims), &pick(&x.strides, &kept)]);
    let (window, run) = with_run(window, elem.storage_bytes());
    // Parts are pieces of the result that are far apart, if there are enough.
    let loops = picks.nest.dims.iter().zip(&picks.nest.strides).enumerate();
    let vectors = loops.map(|(d, (&n, s))| (n >= MANY, s[0].abs(), n, Split::Vectors(d)));
    let loops = window.dims.iter().zip(&window.strides).enumerate();
    let windows = loops.map(|(d, (&n, s))| (n >= MANY, s[0].abs(), n, Split::Window(d)));
    let best =
        vectors.chain(windows).max_by_key(|&(many, stride, n, _)| (many, if many { stride as usize } else { n }));
    let (most_parts, split) = best.map_or((1, Split::Vectors(0)), |(.., n, split)| (n.max(1), split));
    let buf = cx.result(result);
    let parts = parts_of(out.len() * elem.storage_bytes() + picks.nest.len() * 8, 128 << 10, most_parts);
    let reads = vec![x.buf, indices.buf];
    let from_offset = x.offset as isize;
    let work = Gather {
        #[cfg(target_arch = "x86_64")]
        elements: picks.elements(run).filter(|_| window.dims.is_empty()),
        picks,
        from: x.buf,
        from_offset,
        to: buf,
        window,
        run,
        element: elem.storage_bytes(),
        split,
        parts,
    };
    cx.step(op, format!("gather {elem} {shape:?}"), Arc::new(work), reads, vec![buf]);
    Ok(true)
}

/// Iterations of a loop that are worth dividing.
const MANY: usize = 16;

/// Takes an innermost dimension that is contiguous for both operands out of a nest; bytes of the run.
pub(super) fn with_run(mut nest: Nest<2>, size: usize) -> (Nest<2>, usize) {
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

    /// Rows of all lengths up to some vectors: each is copied by pieces that stay inside it.
    #[test]
    fn rows_of_few_bytes() {
        for n in 1..70 {
            let args = [noise(&[11, n], ElementType::UI8, 1), indices(&[300, 1], -3, 15)];
            check_on(
                &format!(
                    "func.func @main(%a: tensor<11x{n}xui8>, %i: tensor<300x1xi32>) -> tensor<300x{n}xui8> {{
                    %r = \"stablehlo.gather\"(%a, %i) {{dimension_numbers = #stablehlo.gather<offset_dims = [1],
                        collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>,
                        slice_sizes = array<i64: 1, {n}>}} : (tensor<11x{n}xui8>, tensor<300x1xi32>) -> tensor<300x{n}xui8>
                    return %r : tensor<300x{n}xui8> }}"
                ),
                &args,
                0.0,
            );
        }
    }

    #[test]
    fn single_elements_by_indices_of_each_type() {
        for elem in ["f32", "i64", "complex<f32>", "bf16"] {
            for (index, n) in [("i32", 0), ("i32", 1), ("i32", 37), ("ui32", 37), ("i64", 19), ("i8", 9), ("i32", 3001)]
            {
                let e = ElementType::from_text(elem).unwrap();
                let i = ElementType::from_text(index).unwrap();
                let values: Vec<i64> = (0..n).map(|k| k * 7919 % 60 - if index == "ui32" { 0 } else { 9 }).collect();
                let edges = [i64::from(i32::MIN), i64::from(i32::MAX), -1, 41, 40];
                let at = |k: usize| edges.get(k).filter(|_| index == "i32").copied().unwrap_or(values[k]);
                let values: Vec<i64> = (0..n as usize).map(at).collect();
                let list = Literal::from_i64s([n], i, &values).unwrap();
                let thrice = Literal::from_i64s([3, n], i, &values.repeat(3)).unwrap();
                // Of a line, and of a column for each row of indices.
                let args = [noise(&[41], e, 1), noise(&[41, 3], e, 2), list, thrice];
                check_on(
                    &format!(
                        "func.func @main(%d: tensor<41x{elem}>, %a: tensor<41x3x{elem}>, %i: tensor<{n}x{index}>,
                            %j: tensor<3x{n}x{index}>) -> (tensor<{n}x{elem}>, tensor<3x{n}x{elem}>) {{
                        %t = stablehlo.transpose %a, dims = [1, 0] : (tensor<41x3x{elem}>) -> tensor<3x41x{elem}>
                        %r = \"stablehlo.gather\"(%d, %i) {{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [0],
                            start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1>}}
                            : (tensor<41x{elem}>, tensor<{n}x{index}>) -> tensor<{n}x{elem}>
                        %u = \"stablehlo.gather\"(%t, %j) {{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [1],
                            operand_batching_dims = [0], start_indices_batching_dims = [0], start_index_map = [1],
                            index_vector_dim = 2>, slice_sizes = array<i64: 1, 1>}}
                            : (tensor<3x41x{elem}>, tensor<3x{n}x{index}>) -> tensor<3x{n}x{elem}>
                        return %r, %u : tensor<{n}x{elem}>, tensor<3x{n}x{elem}> }}"
                    ),
                    &args,
                    0.0,
                );
            }
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
