//! Sorting by any comparator: a merge sort of positions that calls it on two elements at a time.

use std::sync::Arc;

use meshwork_ir::{OpId, Scalar};

use super::machine::Machine;
use super::{Array, body};
use crate::compile::lower::Lower;
use crate::library::copy::view_of;
use crate::library::nest::{parts_of, piece};
use crate::library::sort::lines;
use crate::step::{Fault, Frame, Scratch, View, Work};

#[derive(Debug)]
struct Sort {
    machine: Machine,
    columns: Vec<Column>,
    n: usize,
    parts: usize,
}

#[derive(Debug)]
struct Column {
    from: Array,
    starts: Vec<isize>,
    step: isize,
    to: Array,
    targets: Vec<isize>,
    to_step: isize,
}

impl Work for Sort {
    fn parts(&self) -> usize {
        self.parts
    }

    fn slowness(&self) -> Option<&'static str> {
        Some("compares by a body that runs for each pair of elements")
    }

    fn cost(&self) -> u64 {
        let compares = self.columns[0].starts.len() * self.n * (self.n.max(2).ilog2() as usize);
        (compares * 15 * self.machine.len()) as u64
    }

    unsafe fn run(&self, frame: &Frame<'_>, _: &mut Scratch, part: usize) -> Result<(), Fault> {
        let width = self.columns.len();
        // The elements of a line, those of one position side by side.
        let mut elements: Vec<Scalar> = Vec::with_capacity(self.n * width);
        let (mut from, mut to): (Vec<u32>, Vec<u32>) = (vec![], vec![]);
        // SAFETY: in the whole function: elements of lines of operands and results.
        unsafe {
            let mut registers = self.machine.start(frame);
            for line in piece(self.columns[0].starts.len(), self.parts, part, 1) {
                elements.clear();
                for i in 0..self.n as isize {
                    elements.extend(self.columns.iter().map(|c| c.from.get(frame, c.starts[line] + i * c.step)));
                }
                let mut before = |a: u32, b: u32| {
                    for k in 0..width {
                        registers[2 * k] = elements[a as usize * width + k];
                        registers[2 * k + 1] = elements[b as usize * width + k];
                    }
                    self.machine.call(&mut registers);
                    self.machine.result(0, &registers).as_bool()
                };
                merge_sort(self.n, &mut from, &mut to, &mut before);
                for column in &self.columns {
                    let size = column.to.elem.storage_bytes();
                    for (i, &at) in from.iter().enumerate() {
                        let source = column.from.start + column.starts[line] + at as isize * column.step;
                        let target = column.to.start + column.targets[line] + i as isize * column.to_step;
                        let (source, target) = (
                            frame.ptr(column.from.buf).offset(source).cast_const(),
                            frame.ptr(column.to.buf).offset(target),
                        );
                        std::ptr::copy_nonoverlapping(source, target, size);
                    }
                }
            }
        }
        Ok(())
    }
}

/// Sorts the positions `0..n` into `from`, stably, from runs of one up; `before` need not be an order.
fn merge_sort(n: usize, from: &mut Vec<u32>, to: &mut Vec<u32>, before: &mut impl FnMut(u32, u32) -> bool) {
    from.clear();
    from.extend(0..n as u32);
    to.clear();
    to.resize(n, 0);
    let mut width = 1;
    while width < n {
        for start in (0..n).step_by(2 * width) {
            let (middle, end) = ((start + width).min(n), (start + 2 * width).min(n));
            let (mut l, mut r) = (start, middle);
            for slot in &mut to[start..end] {
                // The right one goes first only if it must.
                let right = r < end && (l >= middle || before(from[r], from[l]));
                let side = if right { &mut r } else { &mut l };
                *slot = from[*side];
                *side += 1;
            }
        }
        std::mem::swap(from, to);
        width *= 2;
    }
}

/// `stablehlo.sort` with any comparator.
pub(in crate::library) fn lower(cx: &mut Lower<'_>, op: OpId, dim: usize) -> Result<bool, String> {
    let data = cx.module.op(op);
    let Some(machine) = body(cx, op, 0) else { return Ok(false) };
    let views = data.operands().iter().map(|&v| view_of(cx, v)).collect::<Result<Vec<_>, _>>()?;
    let mut columns = vec![];
    for (view, &result) in views.iter().zip(data.results()) {
        let to = View::dense(cx.result(result), view.elem, &view.dims);
        columns.push(Column {
            from: Array { start: 0, ..Array::new(view) },
            starts: lines(view, dim),
            step: view.strides[dim] as isize,
            to: Array::new(&to),
            targets: lines(&to, dim),
            to_step: to.strides[dim] as isize,
        });
    }
    let n = views[0].dims[dim] as usize;
    let parts = parts_of(views[0].len() * 8, 1 << 11, columns[0].starts.len());
    let name = format!("general comparator sort {} {:?}", views[0].elem, views[0].dims);
    let reads = views.iter().map(|v| v.buf).chain(machine.reads()).collect();
    let writes = columns.iter().map(|c| c.to.buf).collect();
    cx.step(op, name, Arc::new(Sort { machine, columns, n, parts }), reads, writes);
    Ok(true)
}
