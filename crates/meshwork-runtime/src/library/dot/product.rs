//! A stack of matrix products as work: `C[b] = A[b] B[b]`.

use std::fmt::Debug;
use std::ops::Range;
use std::sync::Arc;

use super::micro::{Micro, Tile};
use super::pack::{Index, Packer};
use super::plan::{Lie, Plan, Problem};
use crate::library::nest::piece;
use crate::step::{Buf, Fault, Frame, Scratch, Work};

/// One operand: where its elements lie.
#[derive(Clone, Debug)]
pub(crate) struct Side<T> {
    pub buf: Buf,
    /// Byte offset of each matrix of the stack.
    pub batch: Arc<[isize]>,
    /// Rows of `A`, columns of `B`.
    pub outer: Index,
    /// The direction that is summed over.
    pub depth: Index,
    pub packer: Arc<dyn Packer<T>>,
    /// Whether elements are numbers as they are.
    pub same: bool,
}

impl<T> Side<T> {
    fn lie(&self) -> Lie {
        let size = size_of::<T>() as isize;
        match (&self.outer, &self.depth) {
            (Index::Stride(_), Index::Stride(d)) if self.same && *d == size => Lie::Along,
            (Index::Stride(o), Index::Stride(_)) if self.same && *o == size => Lie::Across,
            _ => Lie::Other,
        }
    }
}

/// A finished piece of a product's result.
#[derive(Clone, Debug)]
pub struct DoneTile {
    /// Which matrix of the stack.
    pub batch: usize,
    /// Its rows.
    pub rows: Range<usize>,
    /// Its columns.
    pub columns: Range<usize>,
    /// Element (`rows.start`, `columns.start`) of the result.
    pub at: *mut u8,
    /// Bytes from one row to the next.
    pub stride: usize,
}

/// What is done to each piece of a product's result while it is in the cache: bias, activation and the like.
pub trait Epilogue: Send + Sync + Debug {
    /// Bytes of scratch memory that it needs.
    fn scratch_bytes(&self) -> usize;

    /// Works on one piece in place.
    ///
    /// # Safety
    /// The piece is valid and nobody else uses it; `scratch` is valid for as many bytes as asked for and 64-byte
    /// aligned; the contract of [`Work`] holds for `frame`.
    unsafe fn tile(&self, frame: &Frame<'_>, tile: &DoneTile, scratch: *mut u8) -> Result<(), Fault>;
}

/// Panels that are packed side by side.
const GROUP: usize = 8;

/// `C[b] = A[b] B[b]`, or `C[b] += A[b] B[b]`.
#[derive(Clone, Debug)]
pub(crate) struct Product<T> {
    pub a: Side<T>,
    pub b: Side<T>,
    pub c: Buf,
    pub rows: usize,
    pub columns: usize,
    pub depth: usize,
    /// Writes elements of the result, of `out_size` bytes each.
    pub out: Arc<dyn Packer<T>>,
    pub out_size: usize,
    /// Whether elements of the result are numbers as they are.
    pub out_same: bool,
    /// Whether the product is added to what the result holds.
    pub accumulate: bool,
    pub epilogue: Option<Arc<dyn Epilogue>>,
    /// All of `B`, packed by [`PackB`], if the plan says so.
    pub packed: Option<Buf>,
    pub plan: Plan,
}

impl<T: Tile> Product<T> {
    /// Decides how the product is cut; to be called when everything else is filled in.
    pub(crate) fn replan(&mut self) {
        self.plan = Plan::new(&Problem {
            batch: self.a.batch.len(),
            rows: self.rows,
            columns: self.columns,
            depth: self.depth,
            size: size_of::<T>(),
            mr: T::MR,
            nr: T::NR,
            plain_a: self.a.lie(),
            plain_b: self.b.lie(),
        });
    }

    /// Numbers of one packed matrix of `B`.
    pub(crate) fn packed_len(&self) -> usize {
        self.depth * self.columns.next_multiple_of(T::NR)
    }

    fn depth_blocks(&self) -> impl Iterator<Item = (usize, usize)> + use<T> {
        let (all, block) = (self.depth, self.plan.depth_block);
        // A product of no depth is zero: one block of nothing.
        (0..all.div_ceil(block).max(1)).map(move |i| (i * block, block.min(all - (i * block).min(all))))
    }

    /// Packs the panels of `columns` (which start at a multiple of `NR`) of one matrix, block of depth after block.
    ///
    /// # Safety
    /// `from` is that matrix, `to` has room; the panels of one block of depth are `stride` numbers apart from those
    /// of the next per unit of depth, and the first panel is that of column `first` there.
    unsafe fn pack_b(&self, from: *const u8, columns: Range<usize>, to: *mut T, stride: usize, first: usize) {
        for (k, depth) in self.depth_blocks() {
            let inner = (&self.b.depth, k, depth);
            let mut j = columns.start;
            while j < columns.end {
                // SAFETY: the caller's.
                unsafe {
                    let to = to.add(k * stride + (first + j - columns.start) * depth);
                    let panels = ((columns.end - j) / T::NR).min(GROUP);
                    let group = (&self.b.outer, j, panels);
                    if panels > 1 && self.b.packer.pack_group(from, group, inner, to, depth * T::NR, T::NR) {
                        j += panels * T::NR;
                        continue;
                    }
                    let have = T::NR.min(columns.end - j);
                    self.b.packer.pack(from, (&self.b.outer, j, have), inner, to, T::NR);
                    j += T::NR;
                }
            }
        }
    }

    fn scratch_numbers(&self) -> [usize; 3] {
        let plan = &self.plan;
        let line = |n: usize| n.next_multiple_of(64);
        let rows = self.rows.div_ceil(plan.row_parts) + plan.height;
        let a = if plan.direct_a { 0 } else { rows.next_multiple_of(plan.height) * self.depth };
        let b = match (plan.direct_b, plan.shared_b) {
            (true, _) if self.columns % T::NR == 0 => 0,
            (true, _) => self.depth * T::NR,
            (_, true) => 0,
            _ => self.depth * plan.column_block.min(self.columns.next_multiple_of(T::NR)),
        };
        let sums = if self.out_same { 0 } else { plan.row_block * plan.column_block };
        [line(a), line(b), line(sums)]
    }

    /// The rows `rows` times the columns `columns` of matrix `batch`.
    ///
    /// # Safety
    /// As [`Work::run`].
    unsafe fn block(
        &self,
        frame: &Frame<'_>,
        scratch: &mut Scratch,
        batch: usize,
        rows: Range<usize>,
        columns: Range<usize>,
    ) -> Result<(), Fault> {
        let plan = &self.plan;
        let (h, size) = (plan.height, size_of::<T>());
        let [len_a, len_b, len_sums] = self.scratch_numbers();
        let more = self.epilogue.as_ref().map_or(0, |e| e.scratch_bytes());
        let memory = scratch.get((len_a + len_b + len_sums) * size + more);
        // SAFETY: in the whole function: pointers stay inside the operands, the result and the scratch memory,
        // as sized above.
        unsafe {
            let packed_a = memory.cast::<T>();
            let packed_b = packed_a.add(len_a);
            let sums = packed_b.add(len_b);
            let spare = memory.add((len_a + len_b + len_sums) * size);
            let a = frame.ptr(self.a.buf).offset(self.a.batch[batch]).cast_const();
            let b = frame.ptr(self.b.buf).offset(self.b.batch[batch]).cast_const();
            let c = frame.ptr(self.c).add(batch * self.rows * self.columns * self.out_size);
            let shared = self.packed.map(|p| frame.ptr(p).cast::<T>().add(batch * self.packed_len()));
            if !plan.direct_a {
                let mut i = rows.start;
                while i < rows.end {
                    let to = packed_a.add((i - rows.start) * self.depth);
                    let inner = (&self.a.depth, 0, self.depth);
                    let panels = ((rows.end - i) / h).min(GROUP);
                    let group = (&self.a.outer, i, panels);
                    if panels > 1 && self.a.packer.pack_group(a, group, inner, to, self.depth * h, h) {
                        i += panels * h;
                        continue;
                    }
                    let have = h.min(rows.end - i);
                    self.a.packer.pack(a, (&self.a.outer, i, have), inner, to, h);
                    i += h;
                }
            }
            let tail = self.columns - self.columns % T::NR;
            for j0 in columns.clone().step_by(plan.column_block) {
                let j1 = (j0 + plan.column_block).min(columns.end);
                let wide = (j1 - j0).next_multiple_of(T::NR);
                if plan.direct_b {
                    if j1 > tail {
                        self.pack_b(b, tail..self.columns, packed_b, T::NR, 0);
                    }
                } else if shared.is_none() {
                    self.pack_b(b, j0..j1, packed_b, wide, 0);
                }
                for i0 in rows.clone().step_by(plan.row_block) {
                    let i1 = (i0 + plan.row_block).min(rows.end);
                    let (at, stride) = match self.out_same {
                        true => (c.cast::<T>().add(i0 * self.columns + j0), self.columns),
                        false => (sums, plan.column_block),
                    };
                    for (k, depth) in self.depth_blocks() {
                        for j in (j0..j1).step_by(T::NR) {
                            let (bp, b_step) = if plan.direct_b && j < tail {
                                let at = self.b.outer.at(j) + self.b.depth.at(k);
                                (b.offset(at).cast::<T>(), self.b.depth.at(1) / size as isize)
                            } else if plan.direct_b {
                                (packed_b.add(k * T::NR).cast_const(), T::NR as isize)
                            } else {
                                let (base, stride, first) = match shared {
                                    Some(s) => (s, self.columns.next_multiple_of(T::NR), 0),
                                    None => (packed_b, wide, j0),
                                };
                                (base.add(k * stride + (j - first) * depth).cast_const(), T::NR as isize)
                            };
                            for i in (i0..i1).step_by(h) {
                                let (ap, a_row, a_step) = match plan.direct_a {
                                    true => {
                                        let at = self.a.outer.at(i) + self.a.depth.at(k);
                                        let unit = |x: &Index| x.at(1) / size as isize;
                                        (a.offset(at).cast::<T>(), unit(&self.a.outer), unit(&self.a.depth))
                                    }
                                    false => {
                                        let at = (i - rows.start) * self.depth + k * h;
                                        (packed_a.add(at).cast_const(), 1, h as isize)
                                    }
                                };
                                let have = h.min(i1 - i);
                                T::micro(&Micro {
                                    depth,
                                    a: ap,
                                    a_row,
                                    a_step,
                                    b: bp,
                                    b_step,
                                    c: at.add((i - i0) * stride + (j - j0)),
                                    c_row: stride as isize,
                                    height: have,
                                    rows: have,
                                    columns: T::NR.min(j1 - j),
                                    add: k > 0 || (self.accumulate && self.out_same),
                                });
                            }
                        }
                    }
                    let done = c.add((i0 * self.columns + j0) * self.out_size);
                    if !self.out_same {
                        for i in 0..i1 - i0 {
                            let to = done.add(i * self.columns * self.out_size);
                            self.out.write(sums.add(i * plan.column_block), to, j1 - j0);
                        }
                    }
                    if let Some(epilogue) = &self.epilogue {
                        let stride = self.columns * self.out_size;
                        let tile = DoneTile { batch, rows: i0..i1, columns: j0..j1, at: done, stride };
                        epilogue.tile(frame, &tile, spare)?;
                    }
                }
            }
        }
        Ok(())
    }
}

impl<T: Tile> Work for Product<T> {
    fn parts(&self) -> usize {
        self.plan.batch_parts * self.plan.row_parts * self.plan.column_parts
    }

    fn cost(&self) -> u64 {
        let (a, b) = (self.rows * self.depth, self.columns * self.depth);
        let each = self.rows * self.columns * self.depth / 40 + (a + b + self.rows * self.columns) / 8 + 20;
        (self.a.batch.len() * each) as u64 * if T::MR == 6 { 1 } else { 4 }
    }

    unsafe fn run(&self, frame: &Frame<'_>, scratch: &mut Scratch, part: usize) -> Result<(), Fault> {
        let plan = &self.plan;
        let (part, column_part) = (part / plan.column_parts, part % plan.column_parts);
        let (batch_part, row_part) = (part / plan.row_parts, part % plan.row_parts);
        let rows = piece(self.rows, plan.row_parts, row_part, plan.height);
        let columns = piece(self.columns, plan.column_parts, column_part, T::NR);
        if rows.is_empty() || columns.is_empty() {
            return Ok(());
        }
        for batch in piece(self.a.batch.len(), plan.batch_parts, batch_part, 1) {
            // SAFETY: the trait's contract; parts are disjoint blocks of the result.
            unsafe { self.block(frame, scratch, batch, rows.clone(), columns.clone())? };
        }
        Ok(())
    }
}

/// Packs all of `B` for the parts of a [`Product`] to share.
#[derive(Clone, Debug)]
pub(crate) struct PackB<T> {
    pub product: Product<T>,
    pub to: Buf,
}

/// Panels that are packed by one part.
const PANELS: usize = GROUP;

impl<T: Tile> PackB<T> {
    fn groups(&self) -> usize {
        self.product.columns.div_ceil(T::NR * PANELS)
    }
}

impl<T: Tile> Work for PackB<T> {
    fn parts(&self) -> usize {
        (self.product.b.batch.len() * self.groups()).clamp(1, 128)
    }

    fn cost(&self) -> u64 {
        (self.product.b.batch.len() * self.product.packed_len()) as u64 / 2
    }

    unsafe fn run(&self, frame: &Frame<'_>, _: &mut Scratch, part: usize) -> Result<(), Fault> {
        let p = &self.product;
        let groups = self.groups();
        let stride = p.columns.next_multiple_of(T::NR);
        for group in (part..p.b.batch.len() * groups).step_by(self.parts()) {
            let (batch, at) = (group / groups, group % groups * PANELS * T::NR);
            let end = (at + PANELS * T::NR).min(p.columns);
            // SAFETY: the panels lie inside the packed matrix, and no other part writes them.
            unsafe {
                let from = frame.ptr(p.b.buf).offset(p.b.batch[batch]).cast_const();
                let to = frame.ptr(self.to).cast::<T>().add(batch * p.packed_len());
                p.pack_b(from, at..end, to, stride, at);
            }
        }
        Ok(())
    }
}
