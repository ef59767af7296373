//! Scatter with any body, of one tensor or several.

use std::sync::Arc;

use meshwork_ir::{Attr, OpId, Scalar};

use super::machine::Machine;
use super::{Array, SCALAR_BODY, body, fold};
use crate::compile::lower::Lower;
use crate::library::attrs;
use crate::library::copy::view_of;
use crate::library::dynamic::{is_index, keep};
use crate::library::gather::Corners;
use crate::library::nest::{offsets, walk};
use crate::step::{Fault, Frame, Scratch, View, Work};

#[derive(Debug)]
struct Scatter {
    machine: Machine,
    corners: Corners,
    /// The tensors, all of one shape and dense.
    to: Vec<Array>,
    /// Extents and strides of the tensors in elements.
    extents: Vec<(i64, i64)>,
    /// The updates: each with the byte of each window.
    from: Vec<(Array, Vec<isize>)>,
    /// Window extents per dimension of the tensor, and byte strides of each update there.
    window: Vec<usize>,
    strides: Vec<Vec<isize>>,
}

impl Work for Scatter {
    fn parts(&self) -> usize {
        1
    }

    fn slowness(&self) -> Option<&'static str> {
        Some(SCALAR_BODY)
    }

    fn cost(&self) -> u64 {
        (self.corners.vectors.len() * self.window.iter().product::<usize>() * 20 * self.machine.len()) as u64
    }

    unsafe fn run(&self, frame: &Frame<'_>, _: &mut Scratch, _: usize) -> Result<(), Fault> {
        let rank = self.extents.len();
        let mut corner = vec![0; rank];
        let mut acc = vec![Scalar::Bool(false); self.to.len()];
        let mut index = vec![0i64; rank];
        // SAFETY: in the whole function: index vectors, elements of updates, and of the tensors where they are inside.
        unsafe {
            let mut registers = self.machine.start(frame);
            for i in 0..self.corners.vectors.len() {
                self.corners.corner(frame, i, &mut corner);
                index.fill(0);
                walk(&self.window, &vec![[1isize]; rank], [0], &mut |_| {
                    let place = |d: usize| corner[d].saturating_add(index[d]);
                    if (0..rank).all(|d| (0..self.extents[d].0).contains(&place(d))) {
                        let at = (0..rank).map(|d| place(d) * self.extents[d].1).sum::<i64>() as isize;
                        let byte = |a: &Array| at * a.elem.storage_bytes() as isize;
                        acc.iter_mut().zip(&self.to).for_each(|(acc, to)| *acc = to.get(frame, byte(to)));
                        let x = self.from.iter().zip(&self.strides).map(|((from, starts), strides)| {
                            let inside: isize = (0..rank).map(|d| index[d] as isize * strides[d]).sum();
                            from.get(frame, starts[i] + inside)
                        });
                        fold(&self.machine, &mut registers, &mut acc, x);
                        self.to.iter().zip(&acc).for_each(|(to, &value)| to.set(frame, byte(to), value));
                    }
                    for d in (0..rank).rev() {
                        index[d] += 1;
                        if index[d] < self.window[d] as i64 {
                            break;
                        }
                        index[d] = 0;
                    }
                });
            }
        }
        Ok(())
    }
}

/// `stablehlo.scatter` with any body.
pub(in crate::library) fn lower(cx: &mut Lower<'_>, op: OpId) -> Result<bool, String> {
    let data = cx.module.op(op);
    let Some(Attr::Scatter(numbers)) = data.attr("scatter_dimension_numbers") else {
        return Err(attrs::missing(data, "scatter_dimension_numbers", "#stablehlo.scatter<...>"));
    };
    let Some(machine) = body(cx, op, 0) else { return Ok(false) };
    let n = data.results().len();
    let indices = view_of(cx, data.operands()[n])?;
    if !is_index(indices.elem) {
        return Ok(false);
    }
    let updates = data.operands()[n + 1..].iter().map(|&v| view_of(cx, v)).collect::<Result<Vec<_>, _>>()?;
    let corners = Corners::of_scatter(&indices, numbers);
    let (_, shape) = cx.shape(data.results()[0]);
    let dropped = |d: usize| {
        let d = d as i64;
        numbers.inserted_window_dims.contains(&d) || numbers.input_batching_dims.contains(&d)
    };
    // The dimension of the updates that each dimension of the tensors has a window in.
    let mut windows = numbers.update_window_dims.iter();
    let of: Vec<Option<usize>> =
        (0..shape.len()).map(|d| if dropped(d) { None } else { windows.next().map(|&w| w as usize) }).collect();
    let window = of.iter().map(|w| w.map_or(1, |w| updates[0].dims[w] as usize)).collect();
    let strides = updates.iter().map(|u| of.iter().map(|w| w.map_or(0, |w| u.strides[w] as isize)).collect()).collect();
    let scattered: Vec<usize> =
        (0..updates[0].dims.len()).filter(|&d| !numbers.update_window_dims.contains(&(d as i64))).collect();
    let pick = |list: &[i64]| -> Vec<i64> { scattered.iter().map(|&d| list[d]).collect() };
    let from = updates.iter().map(|u| (Array::new(u), offsets(&pick(&u.dims), &pick(&u.strides)))).collect();
    let mut to = vec![];
    for i in 0..n {
        let elem = cx.shape(data.results()[i]).0;
        let buf = keep(cx, op, data.operands()[i], data.results()[i])?;
        to.push(Array { buf, elem, start: 0 });
    }
    let dense = View::dense(to[0].buf, to[0].elem, &shape);
    let size = to[0].elem.storage_bytes() as i64;
    let extents = shape.iter().zip(&dense.strides).map(|(&n, &s)| (n, s / size)).collect();
    let writes: Vec<_> = to.iter().map(|t| t.buf).collect();
    let mut reads: Vec<_> = updates.iter().map(|u| u.buf).chain([indices.buf]).chain(machine.reads()).collect();
    reads.extend(&writes);
    let name = format!("scalar scatter {} {:?} into {shape:?}", updates[0].elem, updates[0].dims);
    cx.step(op, name, Arc::new(Scatter { machine, corners, to, extents, from, window, strides }), reads, writes);
    Ok(true)
}
