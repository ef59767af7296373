//! Scatter: updates folded into windows of a tensor at positions that are data.
//!
//! Updates are applied in row-major order. Parts own disjoint ranges of one dimension of the tensor, and each goes
//! through all updates, so the result does not depend on which part runs when.

mod runs;

use std::sync::Arc;

use meshwork_ir::{Attr, OpId};
use meshwork_mesh::sort_by_key;

use super::attrs;
use super::combine::{Body, Fold, fold_of, recognise};
use super::copy::view_of;
use super::dynamic::{is_index, keep};
use super::gather::Corners;
use super::nest::{offsets, piece, walk};
use crate::compile::lower::Lower;
use crate::step::{Buf, Fault, Frame, Scratch, View, Work};

#[derive(Debug)]
struct Scatter {
    corners: Corners,
    to: Buf,
    from: Buf,
    /// Byte offset of each update in `from`.
    updates: Vec<isize>,
    size: usize,
    /// Per dimension of the tensor: its extent, the window's, and byte strides in the tensor and the updates.
    dims: Vec<Dim>,
    fold: How,
    /// The dimension that parts divide.
    split: usize,
    parts: usize,
}

#[derive(Clone, Copy, Debug)]
struct Dim {
    extent: i64,
    window: i64,
    to: isize,
    from: isize,
}

#[derive(Clone, Copy)]
enum How {
    Set,
    Fold(Fold),
}

impl std::fmt::Debug for How {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            How::Set => "Set",
            How::Fold(_) => "Fold",
        })
    }
}

impl Work for Scatter {
    fn parts(&self) -> usize {
        self.parts
    }

    fn cost(&self) -> u64 {
        let window: i64 = self.dims.iter().map(|d| d.window).product();
        self.updates.len() as u64 * (10 * self.parts as u64 + window as u64)
    }

    unsafe fn run(&self, frame: &Frame<'_>, _: &mut Scratch, part: usize) -> Result<(), Fault> {
        let mine =
            piece(self.dims.get(self.split).map_or(1, |d| d.extent as usize), self.parts, part, 16.min(self.grain()));
        let mine = mine.start as i64..mine.end as i64;
        let rank = self.dims.len();
        let mut corner = vec![0; rank];
        let mut counts = vec![1usize; rank];
        // The window's loops, longest run last; dimensions of extent 1 are no loops.
        let order: Vec<usize> = {
            let mut order: Vec<usize> = (0..rank).filter(|&d| self.dims[d].window != 1).collect();
            sort_by_key(&mut order, |&d| std::cmp::Reverse(self.dims[d].to.unsigned_abs()));
            order
        };
        let strides: Vec<[isize; 2]> = order.iter().map(|&d| [self.dims[d].to, self.dims[d].from]).collect();
        let mut loops = vec![0usize; order.len()];
        // SAFETY: in the loop: windows are cut so that they stay inside the tensor and this part's range.
        unsafe {
            let (to, from) = (frame.ptr(self.to), frame.ptr(self.from).cast_const());
            'updates: for (i, &update) in self.updates.iter().enumerate() {
                self.corners.corner(frame, i, &mut corner);
                let mut at = [0isize, update];
                for (d, dim) in self.dims.iter().enumerate() {
                    let (low, high) = if d == self.split { (mine.start, mine.end) } else { (0, dim.extent) };
                    let c = corner[d].clamp(-(1 << 40), 1 << 40);
                    let first = (low - c).max(0);
                    let last = (high - c).min(dim.window);
                    if first >= last {
                        continue 'updates;
                    }
                    counts[d] = (last - first) as usize;
                    at[0] += (c + first) as isize * dim.to;
                    at[1] += first as isize * dim.from;
                }
                for (n, &d) in loops.iter_mut().zip(&order) {
                    *n = counts[d];
                }
                let (inner, run) = match strides.split_last() {
                    None => (&strides[..], ([0, 0], 1)),
                    Some((last, outer)) => (outer, (*last, loops[loops.len() - 1])),
                };
                let ([ts, fs], n) = run;
                walk(&loops[..inner.len()], inner, at, &mut |[t, f]| match self.fold {
                    How::Fold(fold) => fold(to.offset(t), ts, from.offset(f), fs, n),
                    How::Set if ts == fs && ts == self.size as isize => {
                        std::ptr::copy_nonoverlapping(from.offset(f), to.offset(t), n * self.size);
                    }
                    How::Set => {
                        for i in 0..n as isize {
                            let (to, from) = (to.offset(t + i * ts), from.offset(f + i * fs));
                            std::ptr::copy_nonoverlapping(from, to, self.size);
                        }
                    }
                });
            }
        }
        Ok(())
    }
}

impl Scatter {
    fn grain(&self) -> usize {
        self.dims.get(self.split).map_or(1, |d| (d.extent as usize / self.parts).max(1))
    }
}

/// `stablehlo.scatter` of one tensor with a simple body.
pub(super) fn lower(cx: &mut Lower<'_>, op: OpId) -> Result<bool, String> {
    let data = cx.module.op(op);
    let Some(Attr::Scatter(numbers)) = data.attr("scatter_dimension_numbers") else {
        return Err(attrs::missing(data, "scatter_dimension_numbers", "#stablehlo.scatter<...>"));
    };
    let &[operand, indices, updates] = data.operands() else { return Ok(false) };
    let (x, indices, updates) = (view_of(cx, operand)?, view_of(cx, indices)?, view_of(cx, updates)?);
    let body = cx.module.body_of(op, 0).and_then(|block| recognise(cx.module, block));
    if let Some(body) = body
        && is_index(indices.elem)
        && updates.elem == x.elem
        && runs::lower(cx, op, [&x, &indices, &updates], numbers, body)?
    {
        return Ok(true);
    }
    let fold = match body {
        Some(Body::Second) => How::Set,
        Some(Body::Fold(combine)) => match fold_of(x.elem, combine) {
            Some(fold) => How::Fold(fold),
            None => return Ok(false),
        },
        Some(Body::First) | None => return Ok(false),
    };
    if !is_index(indices.elem) || updates.elem != x.elem {
        return Ok(false);
    }
    let corners = Corners::of_scatter(&indices, numbers);
    let dropped = |d: i64| numbers.inserted_window_dims.contains(&d) || numbers.input_batching_dims.contains(&d);
    let whole = View::dense(Buf(0), x.elem, &x.dims);
    let mut windows = numbers.update_window_dims.iter();
    let mut dims = vec![];
    for d in 0..x.dims.len() {
        let (window, from) = if dropped(d as i64) {
            (1, 0)
        } else {
            match windows.next() {
                Some(&w) => (updates.dims[w as usize], updates.strides[w as usize] as isize),
                None => return Err(format!("{} has too few window dimensions", data.name())),
            }
        };
        dims.push(Dim { extent: x.dims[d], window, to: whole.strides[d] as isize, from });
    }
    let scattered: Vec<usize> =
        (0..updates.dims.len()).filter(|&d| !numbers.update_window_dims.contains(&(d as i64))).collect();
    let pick = |list: &[i64]| -> Vec<i64> { scattered.iter().map(|&d| list[d]).collect() };
    let starts = offsets(&pick(&updates.dims), &pick(&updates.strides));
    let starts: Vec<isize> = starts.into_iter().map(|o| o + updates.offset as isize).collect();
    // Best divided along a dimension that every window covers, else along the longest.
    let fixed = |d: &usize| dims[*d].window == dims[*d].extent && dims[*d].window >= 64;
    let longest = (0..dims.len()).max_by_key(|&d| dims[d].extent).unwrap_or(0);
    let split = (0..dims.len()).rev().find(fixed).unwrap_or(longest);
    let elements = updates.len();
    let most = dims.get(split).map_or(1, |d| (d.extent as usize / 32).max(1));
    let parts = super::nest::parts_of(elements, 1 << 15, most.min(8));
    let buf = keep(cx, op, operand, data.results()[0])?;
    let name = format!("scatter {} {:?} into {:?}", x.elem, updates.dims, x.dims);
    let reads = vec![updates.buf, indices.buf, buf];
    let size = x.elem.storage_bytes();
    let work = Scatter { corners, to: buf, from: updates.buf, updates: starts, size, dims, fold, split, parts };
    cx.step(op, name, Arc::new(work), reads, vec![buf]);
    Ok(true)
}

#[cfg(test)]
mod tests {
    use crate::library::testing::{check_on, noise};
    use meshwork_ir::{ElementType, Literal};

    fn rows(elem: &str, op: &str, n: usize, d: usize) -> String {
        let body = match op {
            "set" => "stablehlo.return %y".to_string(),
            op => format!("%s = stablehlo.{op} %x, %y : tensor<{elem}>\n stablehlo.return %s"),
        };
        format!(
            "func.func @main(%a: tensor<13x{d}x{elem}>, %i: tensor<{n}x1xi32>, %u: tensor<{n}x{d}x{elem}>) -> tensor<13x{d}x{elem}> {{
            %r = \"stablehlo.scatter\"(%a, %i, %u) ({{
            ^bb0(%x: tensor<{elem}>, %y: tensor<{elem}>):
                {body} : tensor<{elem}>
            }}) {{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0],
                scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}}
                : (tensor<13x{d}x{elem}>, tensor<{n}x1xi32>, tensor<{n}x{d}x{elem}>) -> tensor<13x{d}x{elem}>
            return %r : tensor<13x{d}x{elem}> }}"
        )
    }

    fn indices(dims: &[i64], from: i64, to: i64) -> Literal {
        let n = dims.iter().product::<i64>();
        let values: Vec<i64> = (0..n).map(|i| from + (i * 7919 + 13) % (to - from)).collect();
        Literal::from_i64s(dims.iter().copied(), ElementType::I32, &values).unwrap()
    }

    #[test]
    fn folds_rows_of_all_element_types() {
        for elem in ["i1", "i8", "ui8", "i16", "i32", "ui64", "bf16", "f16", "f32", "f64", "complex<f32>"] {
            let e = ElementType::from_text(elem).unwrap();
            for op in ["set", "add", "multiply", "maximum", "minimum"] {
                for (n, d) in [(0, 3), (40, 7), (5, 1), (9, 2), (9, 3), (9, 4), (9, 8), (9, 16), (9, 43)] {
                    let args = [noise(&[13, d], e, 1), indices(&[n, 1], -2, 15), noise(&[n, d], e, 2)];
                    check_on(&rows(elem, op, n as usize, d as usize), &args, 1e-6);
                }
            }
        }
        let args = [
            noise(&[13, 300], ElementType::F32, 1),
            indices(&[700, 1], -2, 15),
            noise(&[700, 300], ElementType::F32, 2),
        ];
        check_on(&rows("f32", "add", 700, 300), &args, 0.0);
        check_on(&rows("f32", "set", 700, 300), &args, 0.0);
    }

    #[test]
    fn many_updates_in_stretches_and_ranges() {
        let elements = |elem: &str, op: &str, n: usize, m: usize| {
            let body = match op {
                "set" => "stablehlo.return %y".to_string(),
                op => format!("%s = stablehlo.{op} %x, %y : tensor<{elem}>\n stablehlo.return %s"),
            };
            format!(
                "func.func @main(%a: tensor<{m}x{elem}>, %i: tensor<{n}x1xi32>, %u: tensor<{n}x{elem}>) -> tensor<{m}x{elem}> {{
                %r = \"stablehlo.scatter\"(%a, %i, %u) ({{
                ^bb0(%x: tensor<{elem}>, %y: tensor<{elem}>):
                    {body} : tensor<{elem}>
                }}) {{scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0],
                    scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}}
                    : (tensor<{m}x{elem}>, tensor<{n}x1xi32>, tensor<{n}x{elem}>) -> tensor<{m}x{elem}>
                return %r : tensor<{m}x{elem}> }}"
            )
        };
        for (elem, op, m, tolerance) in [
            ("i32", "add", 100, 0.0),
            ("f64", "add", 100, 1e-9),
            ("f64", "maximum", 100, 0.0),
            ("i64", "minimum", 100, 0.0),
            ("i64", "and", 100, 0.0),
            ("i32", "set", 100, 0.0),
            ("i32", "add", 70_000, 0.0),
            ("i32", "set", 70_000, 0.0),
            ("i32", "add", 300_000, 0.0),
            ("i32", "set", 300_000, 0.0),
            ("f64", "maximum", 300_000, 0.0),
        ] {
            let (n, e) = (150_000, ElementType::from_text(elem).unwrap());
            let args = [noise(&[m], e, 1), indices(&[n, 1], -9, m + 9), noise(&[n], e, 2)];
            let steps = check_on(&elements(elem, op, n as usize, m as usize), &args, tolerance);
            let stretches = steps.iter().any(|s| s.starts_with("stretches"));
            assert_eq!(stretches, op != "set" && m == 100, "{steps:?}");
        }
    }

    #[test]
    fn windows_are_cut_at_the_rim() {
        let args = [
            noise(&[3, 9, 8], ElementType::F32, 1),
            indices(&[3, 5, 2], -3, 10),
            noise(&[3, 5, 4, 2], ElementType::F32, 2),
        ];
        check_on(
            "func.func @main(%a: tensor<3x9x8xf32>, %i: tensor<3x5x2xi32>, %u: tensor<3x5x4x2xf32>) -> tensor<3x9x8xf32> {
            %r = \"stablehlo.scatter\"(%a, %i, %u) ({
            ^bb0(%x: tensor<f32>, %y: tensor<f32>):
                %s = stablehlo.add %y, %x : tensor<f32>
                stablehlo.return %s : tensor<f32>
            }) {scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [2, 3], input_batching_dims = [0],
                scatter_indices_batching_dims = [0], scatter_dims_to_operand_dims = [2, 1], index_vector_dim = 2>}
                : (tensor<3x9x8xf32>, tensor<3x5x2xi32>, tensor<3x5x4x2xf32>) -> tensor<3x9x8xf32>
            return %r : tensor<3x9x8xf32> }",
            &args,
            0.0,
        );
    }

    #[test]
    fn single_elements_in_several_parts() {
        let args =
            [noise(&[1000], ElementType::F32, 1), indices(&[40000, 1], -9, 1009), noise(&[40000], ElementType::F32, 2)];
        check_on(
            "func.func @main(%a: tensor<1000xf32>, %i: tensor<40000x1xi32>, %u: tensor<40000xf32>) -> tensor<1000xf32> {
            %r = \"stablehlo.scatter\"(%a, %i, %u) ({
            ^bb0(%x: tensor<f32>, %y: tensor<f32>):
                %s = stablehlo.add %x, %y : tensor<f32>
                stablehlo.return %s : tensor<f32>
            }) {scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0],
                scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}
                : (tensor<1000xf32>, tensor<40000x1xi32>, tensor<40000xf32>) -> tensor<1000xf32>
            return %r : tensor<1000xf32> }",
            &args,
            0.0,
        );
    }
}
