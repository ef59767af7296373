//! Scatter of windows that are wholly inside or outside: single elements, rows, and windows that cover dimensions.
//!
//! Updates are applied in row-major order of their index vectors, in one of these ways:
//! - the elements of long rows are divided: each part does all updates of its columns;
//! - many updates of a small tensor: each part folds a stretch of them into a copy of its own, which are folded in order;
//! - many rows for a large tensor: each part does those of its range of the tensor;
//! - otherwise one part does them all: to find its own among others' single elements takes longer than to write all.

use std::sync::Arc;

use meshwork_ir::attr::ScatterDims;
use meshwork_ir::identity::neutral;
use meshwork_ir::{ElementType, Literal, OpId};

use super::super::combine::{Body, Fold, Scattered, fold_of, scattered_of};
use super::super::dynamic::keep;
use super::super::nest::{Nest, parts_of, piece, walk};
use super::super::picks::{BLOCK, NOWHERE, Naming, Outside, Picks};
use crate::compile::lower::Lower;
use crate::kernel::ir::Combine;
use crate::step::{Buf, Fault, Frame, Scratch, View, Work};

struct Runs {
    picks: Picks,
    to: Buf,
    from: (Buf, isize),
    /// The window but its runs: operand 0 is the tensor, operand 1 the updates.
    window: Nest<2>,
    /// Elements of a run that is contiguous on both sides.
    run: usize,
    size: usize,
    /// Bytes of the tensor.
    bytes: usize,
    /// How elements are folded; they are replaced if there is no such.
    fold: Option<Scattered>,
    split: Split,
    parts: usize,
}

/// What parts divide.
enum Split {
    /// The elements of a run.
    Columns,
    /// The tensor.
    Range,
    /// The updates; each part has a tensor of its own, which starts as this element everywhere.
    Stretches(Literal),
}

impl std::fmt::Debug for Runs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Runs of {} in {} parts", self.run, self.parts)
    }
}

impl Work for Runs {
    fn parts(&self) -> usize {
        self.parts
    }

    fn cost(&self) -> u64 {
        (self.picks.nest.len() * (1 + self.window.len() * (1 + self.run / 8))) as u64
    }

    unsafe fn run(&self, frame: &Frame<'_>, _: &mut Scratch, part: usize) -> Result<(), Fault> {
        let mut dims = self.picks.nest.dims.clone();
        let mut at = [0; 3];
        let (mut first, mut count) = (0, self.run);
        let mut own = 0;
        let mut mine = 0..self.bytes as isize;
        match &self.split {
            Split::Columns => {
                let range = piece(self.run, self.parts, part, 1);
                (first, count) = (range.start, range.len());
            }
            Split::Range => {
                let range = piece(self.bytes, self.parts, part, 64);
                mine = range.start as isize..range.end as isize;
            }
            Split::Stretches(start) => {
                own = part * self.bytes;
                // SAFETY: the copy of this part.
                unsafe {
                    let to = frame.ptr(self.to).add(own);
                    std::ptr::copy_nonoverlapping(start.bytes().as_ptr(), to, self.size.min(self.bytes));
                    let mut done = self.size;
                    while done < self.bytes {
                        let more = done.min(self.bytes - done);
                        std::ptr::copy_nonoverlapping(to, to.add(done), more);
                        done += more;
                    }
                }
                let longest = (0..dims.len()).max_by_key(|&d| dims[d]);
                if let Some(d) = longest {
                    let range = piece(dims[d], self.parts, part, 1);
                    at = self.picks.nest.strides[d].map(|s| s * range.start as isize);
                    dims[d] = range.len();
                }
            }
        }
        let whole = mine == (0..self.bytes as isize);
        let skipped = first * self.size;
        // SAFETY: in the whole block: elements of updates, and of the tensor where they are inside.
        unsafe {
            let to = frame.ptr(self.to).add(own + skipped);
            let from = frame.ptr(self.from.0).offset(self.from.1).add(skipped).cast_const();
            self.picks.blocks(frame, &dims, at, &mut |update, step, offsets| {
                let mut some;
                let offsets = if whole {
                    offsets
                } else {
                    some = [NOWHERE; BLOCK];
                    for (to, &o) in some.iter_mut().zip(offsets) {
                        *to = if mine.contains(&o) { o } else { NOWHERE };
                    }
                    &some[..offsets.len()]
                };
                // Places in a tensor larger than the caches are fetched a few updates before they are written.
                let some = if self.bytes > CACHED { AHEAD } else { BLOCK };
                for first in (0..offsets.len()).step_by(some) {
                    let now = &offsets[first..offsets.len().min(first + some)];
                    let next = offsets.get(first + some..).unwrap_or_default();
                    next.iter().take(some).for_each(|&o| fetch(to.wrapping_offset(o)));
                    let from = from.offset(update + first as isize * step);
                    walk(&self.window.dims, &self.window.strides, [0, 0], &mut |[t, f]| match self.fold {
                        Some(fold) => fold.run(to.offset(t), now, from.offset(f), step, count),
                        None => set_runs(to.offset(t), now, from.offset(f), step, count * self.size),
                    });
                }
            });
        }
        Ok(())
    }
}

/// Bytes of a tensor that the caches of a core hold, and how many updates before its own a place in a larger one is fetched.
const CACHED: usize = 1 << 20;
const AHEAD: usize = 32;

/// Asks for the line of memory at `at`, which need not be there, in order to write it.
fn fetch(at: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a hint, which has no effect where there is no memory.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_ET0 }>(at.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}

/// Copies `run` bytes to each of `offsets` that is somewhere, from places `step` bytes apart.
///
/// # Safety
/// Both sides are valid and do not overlap.
unsafe fn set_runs(to: *mut u8, offsets: &[isize], from: *const u8, step: isize, run: usize) {
    /// # Safety
    /// As [`set_runs`], for `N` bytes.
    #[inline(always)]
    unsafe fn fixed<const N: usize>(to: *mut u8, offsets: &[isize], from: *const u8, step: isize) {
        for (i, &offset) in offsets.iter().enumerate().filter(|(_, o)| **o != NOWHERE) {
            // SAFETY: the caller's.
            unsafe {
                let from = from.offset(i as isize * step).cast::<[u8; N]>();
                to.offset(offset).cast::<[u8; N]>().write(from.read());
            }
        }
    }
    // SAFETY: the caller's.
    unsafe {
        match run {
            1 => fixed::<1>(to, offsets, from, step),
            2 => fixed::<2>(to, offsets, from, step),
            4 => fixed::<4>(to, offsets, from, step),
            8 => fixed::<8>(to, offsets, from, step),
            16 => fixed::<16>(to, offsets, from, step),
            n => {
                for (i, &offset) in offsets.iter().enumerate().filter(|(_, o)| **o != NOWHERE) {
                    std::ptr::copy_nonoverlapping(from.offset(i as isize * step), to.offset(offset), n);
                }
            }
        }
    }
}

/// Folds the copies of parts into the tensor.
struct Merge {
    from: Buf,
    to: Buf,
    copies: usize,
    elements: usize,
    size: usize,
    fold: Fold,
    parts: usize,
}

impl std::fmt::Debug for Merge {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Merge of {} copies", self.copies)
    }
}

impl Work for Merge {
    fn parts(&self) -> usize {
        self.parts
    }

    fn cost(&self) -> u64 {
        (self.elements * self.copies / 4) as u64
    }

    unsafe fn run(&self, frame: &Frame<'_>, _: &mut Scratch, part: usize) -> Result<(), Fault> {
        let range = piece(self.elements, self.parts, part, 16);
        let unit = self.size as isize;
        for copy in 0..self.copies {
            // SAFETY: elements of the tensor and of its copies.
            unsafe {
                let from = frame.ptr(self.from).add((copy * self.elements + range.start) * self.size);
                let to = frame.ptr(self.to).add(range.start * self.size);
                (self.fold)(to, unit, from, unit, range.len());
            }
        }
        Ok(())
    }
}

/// The element that changes nothing, not even the sign of a zero.
fn identity(elem: ElementType, combine: Combine) -> Literal {
    let bytes = neutral(combine, elem).unwrap_or_else(|| vec![0; elem.storage_bytes()]);
    Literal::from_bytes([], elem, bytes).unwrap_or_else(|| Literal::zeros([], elem))
}

/// Bytes of updates of one stretch, and the most stretches of all devices.
const STRETCH: usize = 256 << 10;
const MOST_STRETCHES: usize = 16;
/// Bytes of a tensor of which four copies would not stay in a second-level cache.
const LARGE: usize = 128 << 10;
/// Updates that are worth ranges of the tensor, and the bytes of each.
const MANY: usize = 1 << 14;
const LINE: usize = 64;
/// Elements of a row that are worth a part.
const COLUMNS: usize = 64;

/// The steps of a scatter of `updates` into a tensor like `x`, if each window is wholly inside or outside.
pub(super) fn lower(
    cx: &mut Lower<'_>,
    op: OpId,
    [x, indices, updates]: [&View; 3],
    numbers: &ScatterDims,
    body: Body,
) -> Result<bool, String> {
    let data = cx.module.op(op);
    let (elem, size) = (x.elem, x.elem.storage_bytes());
    let whole = View::dense(Buf(0), elem, &x.dims);
    let dropped = |d: &usize| {
        let d = *d as i64;
        numbers.inserted_window_dims.contains(&d) || numbers.input_batching_dims.contains(&d)
    };
    let kept: Vec<usize> = (0..x.dims.len()).filter(|d| !dropped(d)).collect();
    let windows: Vec<usize> = numbers.update_window_dims.iter().map(|&d| d as usize).collect();
    if kept.len() != windows.len() {
        return Err(format!("{} has {} window dimensions, not {}", data.name(), windows.len(), kept.len()));
    }
    // Where an index moves a window of several elements, it may be partly outside.
    let moved = |d: usize| numbers.scatter_dims_to_operand_dims.contains(&(d as i64));
    if kept.iter().zip(&windows).any(|(&d, &w)| moved(d) && updates.dims[w] != 1) {
        return Ok(false);
    }
    let (combine, fold) = match body {
        Body::Second => (None, None),
        Body::Fold(combine) => match scattered_of(elem, combine) {
            Some(fold) => (Some(combine), Some(fold)),
            None => return Ok(false),
        },
        Body::First => return Ok(false),
    };
    let scattered: Vec<usize> = (0..updates.dims.len()).filter(|d| !windows.contains(d)).collect();
    let pick = |list: &[i64], of: &[usize]| -> Vec<i64> { of.iter().map(|&d| list[d]).collect() };
    let naming = Naming {
        vector_dim: numbers.index_vector_dim,
        map: &numbers.scatter_dims_to_operand_dims,
        operand_batching: &numbers.input_batching_dims,
        indices_batching: &numbers.scatter_indices_batching_dims,
    };
    let most: Vec<i64> = x.dims.iter().map(|&n| n - 1).collect();
    if most.contains(&-1) {
        return Ok(false);
    }
    let with = pick(&updates.strides, &scattered);
    // The order of updates is that of their memory, which loops go through.
    let lengths = pick(&updates.dims, &scattered);
    let steps: Vec<i64> = with.iter().zip(lengths).filter(|(_, n)| *n != 1).map(|(s, _)| s.abs()).collect();
    if !steps.is_sorted_by(|a, b| a >= b) {
        return Ok(false);
    }
    let picks = Picks::new(indices, &naming, &whole.strides, &most, &with, Outside::Nowhere);
    let window =
        Nest::new(&pick(&updates.dims, &windows), [&pick(&whole.strides, &kept), &pick(&updates.strides, &windows)]);
    let (window, run) = super::super::gather::with_run(window, size);
    let run = run / size;
    let (bytes, amount) = (x.len() * size, updates.len() * size);
    let from = (updates.buf, updates.offset as isize);
    // The copies together are to be much smaller than the updates.
    let few = amount / (8 * bytes.max(1));
    let stretches = (amount / STRETCH)
        .min(few.max(if bytes > LARGE { 2 } else { 4 }))
        .min(amount / (2 * bytes.max(1)))
        .min(MOST_STRETCHES / cx.devices);
    let longest = picks.nest.dims.iter().copied().max().unwrap_or(1);
    let buf = keep(cx, op, data.operands()[0], data.results()[0])?;
    let name = format!("scatter {elem} {:?} into {:?}", updates.dims, x.dims);
    let reads = vec![updates.buf, indices.buf];
    let rows = run >= 2 * COLUMNS && window.dims.is_empty();
    let private = combine.and_then(|c| Some((c, fold_of(elem, c)?)));
    let private = private.filter(|_| !rows && stretches > 1 && longest >= stretches);
    if let Some((combine, folded)) = private {
        let copies = cx.temp(stretches * bytes);
        let split = Split::Stretches(identity(elem, combine));
        let work = Runs { picks, to: copies, from, window, run, size, bytes, fold, split, parts: stretches };
        cx.step(op, format!("stretches of {name}"), Arc::new(work), reads, vec![copies]);
        let parts = parts_of(x.len(), 1 << 14, x.len().max(1));
        let merge = Merge { from: copies, to: buf, copies: stretches, elements: x.len(), size, fold: folded, parts };
        cx.step(op, name, Arc::new(merge), vec![copies, buf], vec![buf]);
        return Ok(true);
    }
    let (split, parts) = if rows {
        (Split::Columns, parts_of(updates.len(), 1 << 15, (run / COLUMNS).min(8)))
    } else {
        let many = picks.nest.len() >= MANY && run * size >= LINE && bytes >= 1 << 18;
        (Split::Range, if many { 4 } else { 1 })
    };
    let work = Runs { picks, to: buf, from, window, run, size, bytes, fold, split, parts };
    let reads = [&reads[..], &[buf]].concat();
    cx.step(op, name, Arc::new(work), reads, vec![buf]);
    Ok(true)
}
