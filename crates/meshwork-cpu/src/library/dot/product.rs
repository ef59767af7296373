//! A stack of matrix products as work: `C[b] = A[b] B[b]`.

use std::fmt::Debug;
use std::ops::Range;
use std::sync::Arc;

use meshwork_ir::ElementType;

use super::micro::{Micro, Packed, Shape};
use super::pack::{Index, Packer, Writer};
use super::plan::{Contiguity, Plan, Problem};
use super::subnormal::Subnormals;
use crate::library::nest::piece;
use crate::step::{Buf, Fault, Frame, Scratch, Work};

/// One operand: the location of its elements.
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
    /// How it lies, for a product with so many columns (of `A`) or rows (of `B`) of the other operand.
    fn contiguity(&self, others: usize) -> Contiguity {
        let size = size_of::<T>() as isize;
        let long = if others <= FEW { SHORT } else { LONG };
        let long = |x: &Index| x.run(0, long) == long;
        match (&self.outer, &self.depth) {
            _ if !self.same => Contiguity::Other,
            (o, d) if d.step() == size && long(d) && o.run(0, 4) == 4 => Contiguity::Along,
            (Index::Stride(o), Index::Stride(_)) if *o == size => Contiguity::Across,
            _ => Contiguity::Other,
        }
    }
}

/// Runs of the depth from this length on are worth a call of the micro-kernel each.
const LONG: usize = 48;

/// The same where what is packed would serve few columns.
const SHORT: usize = 12;
const FEW: usize = 64;

/// Rows or columns that are packed side by side.
const GROUP: usize = 128;

/// Columns of a matrix that threads share in smaller groups.
const FEW_COLUMNS: usize = 1024;

/// `C[b] = A[b] B[b]`, or `C[b] += A[b] B[b]`.
#[derive(Clone, Debug)]
pub(crate) struct Product<T: Packed> {
    pub a: Side<T>,
    pub b: Side<T>,
    pub c: Buf,
    /// Byte offset of each matrix of the result, and from one row to the next; columns are neighbors.
    pub c_batch: Arc<[isize]>,
    pub c_row: usize,
    /// Whether the result is row-major without gaps.
    pub dense: bool,
    pub rows: usize,
    pub columns: usize,
    /// Elements that are summed over.
    pub depth: usize,
    /// Writes elements of the result, of `out_size` bytes each.
    pub out: Arc<dyn Writer<T::Sum>>,
    pub out_size: usize,
    /// Whether elements of the result are numbers as they are.
    pub out_same: bool,
    /// Whether the product is added to what the result holds.
    pub accumulate: bool,
    /// Whether `B` is packed piece by piece because it is much larger packed than unpacked.
    pub swollen_b: bool,
    /// All of `B`, packed by [`PackB`], if the plan says so.
    pub packed: Option<Buf>,
    pub tile: Shape,
    pub plan: Plan,
    /// First row and height of each panel of `A`.
    pub panels: Arc<[(usize, usize)]>,
    /// Start and length of each block of the depth.
    pub blocks: Arc<[(usize, usize)]>,
}

/// Cuts `0..n` at multiples of `run` and then into nearly equal pieces of at most `most`.
fn pieces(n: usize, run: usize, most: usize) -> Arc<[(usize, usize)]> {
    let mut out = vec![];
    for start in (0..n).step_by(run.max(1)) {
        let len = run.min(n - start);
        let count = len.div_ceil(most);
        out.extend((0..count).map(|i| (start + len * i / count, len * (i + 1) / count - len * i / count)));
    }
    out.into()
}

impl<T: Packed> Product<T> {
    /// What profiles call it, with results of type `elem`.
    pub(crate) fn name(&self, elem: ElementType) -> String {
        super::name_of(self.a.batch.len(), [self.rows, self.columns, self.depth], elem)
    }

    /// Numbers along the depth.
    pub(crate) fn terms(&self) -> usize {
        self.depth.div_ceil(T::TERMS)
    }

    /// Decides how the product is cut; to be called when everything else is filled in.
    pub(crate) fn replan(&mut self) {
        self.tile = T::shape(self.rows, self.columns);
        self.plan = Plan::new(&Problem {
            batch: self.a.batch.len(),
            rows: self.rows,
            columns: self.columns,
            depth: self.terms(),
            size: size_of::<T>(),
            tile: self.tile,
            plain_a: self.a.contiguity(self.columns),
            plain_b: self.b.contiguity(self.rows),
            swollen_b: self.swollen_b,
        });
        let run = |x: &Index| x.run(0, usize::MAX);
        let (mut row_run, mut depth_run) = (self.rows, self.terms());
        if self.plan.direct_a {
            (row_run, depth_run) = (run(&self.a.outer).min(self.rows), run(&self.a.depth).min(self.terms()));
        }
        self.panels = pieces(self.rows, row_run, self.tile.rows);
        // A product of no depth is zero: one block of nothing.
        self.blocks = match self.terms() {
            0 => [(0, 0)].into(),
            n => pieces(n, depth_run, self.plan.depth_block),
        };
    }

    /// Numbers of one packed matrix of `B`.
    pub(crate) fn packed_len(&self) -> usize {
        self.terms() * self.columns.next_multiple_of(self.tile.columns)
    }

    /// Packs the panels of `columns` (which start at a multiple of `NR`) of one matrix for `blocks` of the depth.
    ///
    /// # Safety
    /// `from` is that matrix, `to` has room; the panels of one block of depth are `stride` numbers apart from those
    /// of the next per unit of depth, and the first panel is that of column `first` there.
    unsafe fn pack_b(
        &self,
        from: *const u8,
        columns: Range<usize>,
        blocks: &[(usize, usize)],
        to: *mut T,
        stride: usize,
        first: usize,
    ) {
        let width = self.tile.columns;
        for &(k, depth) in blocks {
            let inner = (&self.b.depth, k, depth);
            let mut j = columns.start;
            while j < columns.end {
                // SAFETY: the caller's.
                unsafe {
                    let to = to.add(k * stride + (first + j - columns.start) * depth);
                    let panels = ((columns.end - j) / width).min(GROUP / width);
                    let group = (&self.b.outer, j, panels);
                    if panels > 1 && self.b.packer.pack_group(from, group, inner, to, depth * width, width) {
                        j += panels * width;
                        continue;
                    }
                    let have = width.min(columns.end - j);
                    self.b.packer.pack(from, (&self.b.outer, j, have), inner, to, width);
                    j += width;
                }
            }
        }
    }

    fn scratch_numbers(&self) -> [usize; 3] {
        let plan = &self.plan;
        let line = |n: usize| n.next_multiple_of(64);
        let rows = (self.panels.len().div_ceil(plan.row_parts) + 1) * self.tile.rows;
        let a = if plan.direct_a { 0 } else { rows * self.depth_stretch() };
        let b = match (plan.direct_b, plan.shared_b) {
            (true, _) if self.columns.is_multiple_of(self.tile.columns) => 0,
            (true, _) => self.terms() * self.tile.columns,
            (_, true) => 0,
            _ => self.terms() * plan.column_block.min(self.columns.next_multiple_of(self.tile.columns)),
        };
        let sums = if self.out_same { 0 } else { self.row_block() * self.tile.rows * plan.column_block };
        [line(a), line(b), line(sums)]
    }

    /// Panels of `A` that are gone through for each panel of `B`.
    fn row_block(&self) -> usize {
        (ROW_BLOCK / self.tile.rows).max(1)
    }

    /// How much of the depth of `A` is packed at a time.
    fn depth_stretch(&self) -> usize {
        if self.out_same {
            self.stretches().map(|b| b.iter().map(|&(_, n)| n).sum()).max().unwrap_or(0)
        } else {
            // The sums of the whole depth are needed before they are rounded.
            self.terms()
        }
    }

    /// The blocks of the depth in groups whose panels of `A` are packed together.
    fn stretches(&self) -> impl Iterator<Item = &[(usize, usize)]> {
        let each = if self.out_same && !self.plan.direct_a {
            (STRETCH / self.plan.depth_block.max(1)).max(1)
        } else {
            self.blocks.len()
        };
        self.blocks.chunks(each)
    }

    /// The panels `panels` of rows times the columns `columns` of matrix `batch`.
    ///
    /// # Safety
    /// As [`Work::run`].
    unsafe fn block(
        &self,
        frame: &Frame<'_>,
        scratch: &mut Scratch,
        batch: usize,
        panels: Range<usize>,
        columns: Range<usize>,
    ) -> Result<(), Fault> {
        const { assert!(size_of::<T>() == size_of::<T::Sum>()) };
        let plan = &self.plan;
        let size = size_of::<T>();
        let [len_a, len_b, len_sums] = self.scratch_numbers();
        let memory = scratch.get((len_a + len_b + len_sums) * size);
        let panels = &self.panels[panels];
        let first_row = panels[0].0;
        // SAFETY: in the whole function: pointers stay inside the operands, the result and the scratch memory,
        // as sized above.
        unsafe {
            let packed_a = memory.cast::<T>();
            let packed_b = packed_a.add(len_a);
            let sums = packed_b.add(len_b).cast::<T::Sum>();
            let a = frame.ptr(self.a.buf).offset(self.a.batch[batch]).cast_const();
            let b = frame.ptr(self.b.buf).offset(self.b.batch[batch]).cast_const();
            let c = frame.ptr(self.c).offset(self.c_batch[batch]);
            let shared = self.packed.map(|p| frame.ptr(p).cast::<T>().add(batch * self.packed_len()));
            let width = self.tile.columns;
            let tail = self.columns - self.columns % width;
            let mut left = self.stretches().count();
            for stretch in self.stretches() {
                left -= 1;
                let depth_at = stretch[0].0;
                let depth_all: usize = stretch.iter().map(|&(_, n)| n).sum();
                if !plan.direct_a {
                    self.pack_a(a, panels, (depth_at, depth_all), packed_a);
                }
                for j0 in columns.clone().step_by(plan.column_block) {
                    let j1 = (j0 + plan.column_block).min(columns.end);
                    let wide = (j1 - j0).next_multiple_of(width);
                    if plan.direct_b {
                        if j1 > tail {
                            self.pack_b(b, tail..self.columns, stretch, packed_b, width, 0);
                        }
                    } else if shared.is_none() {
                        self.pack_b(b, j0..j1, stretch, packed_b, wide, 0);
                    }
                    for group in panels.chunks(self.row_block()) {
                        let (i0, i1) = (group[0].0, group[group.len() - 1].0 + group[group.len() - 1].1);
                        let done = c.add(i0 * self.c_row + j0 * self.out_size);
                        let (at, stride) = if self.out_same {
                            (done.cast::<T::Sum>(), self.c_row / size)
                        } else {
                            (sums, plan.column_block)
                        };
                        for &(k, depth) in stretch {
                            for j in (j0..j1).step_by(width) {
                                let (bp, b_step) = if plan.direct_b && j < tail {
                                    let at = self.b.outer.at(j) + self.b.depth.at(k);
                                    (b.offset(at).cast::<T>(), self.b.depth.step() / size as isize)
                                } else if plan.direct_b {
                                    (packed_b.add(k * width).cast_const(), width as isize)
                                } else {
                                    let (base, stride, first) = match shared {
                                        Some(s) => (s, self.columns.next_multiple_of(width), 0),
                                        None => (packed_b, wide, j0),
                                    };
                                    (base.add(k * stride + (j - first) * depth).cast_const(), width as isize)
                                };
                                for &(i, h) in group {
                                    let (ap, a_row, a_step) = if plan.direct_a {
                                        let at = self.a.outer.at(i) + self.a.depth.at(k);
                                        let unit = |x: &Index| x.step() / size as isize;
                                        (a.offset(at).cast::<T>(), unit(&self.a.outer), unit(&self.a.depth))
                                    } else {
                                        let at = (i - first_row) * depth_all + (k - depth_at) * h;
                                        (packed_a.add(at).cast_const(), 1, h as isize)
                                    };
                                    T::micro(&Micro {
                                        depth,
                                        a: ap,
                                        a_row,
                                        a_step,
                                        b: bp,
                                        b_step,
                                        c: at.add((i - i0) * stride + (j - j0)),
                                        c_row: stride as isize,
                                        height: h,
                                        width,
                                        rows: h,
                                        columns: width.min(j1 - j),
                                        add: k > 0 || (self.accumulate && self.out_same),
                                    });
                                }
                            }
                        }
                        if left > 0 {
                            continue;
                        }
                        if !self.out_same {
                            for i in 0..i1 - i0 {
                                let to = done.add(i * self.c_row);
                                self.out.write(sums.add(i * plan.column_block), to, j1 - j0);
                            }
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// Packs panels of `A` for a stretch of the depth.
    ///
    /// # Safety
    /// `from` is the matrix, `to` has room.
    unsafe fn pack_a(&self, from: *const u8, panels: &[(usize, usize)], (k, depth): (usize, usize), to: *mut T) {
        let inner = (&self.a.depth, k, depth);
        let first = panels.first().map_or(0, |p| p.0);
        let mut at = 0;
        while at < panels.len() {
            let (i, h) = panels[at];
            let same = panels[at..].iter().take(GROUP / h).take_while(|p| p.1 == h).count();
            // SAFETY: the caller's.
            unsafe {
                let to = to.add((i - first) * depth);
                if same > 1 && self.a.packer.pack_group(from, (&self.a.outer, i, same), inner, to, depth * h, h) {
                    at += same;
                } else {
                    self.a.packer.pack(from, (&self.a.outer, i, h), inner, to, h);
                    at += 1;
                }
            }
        }
    }
}

/// Rows of `A` that are gone through for each panel of `B`.
const ROW_BLOCK: usize = 120;

/// Depth of `A` that is packed at a time.
const STRETCH: usize = 2048;

impl<T: Packed> Work for Product<T> {
    fn parts(&self) -> usize {
        self.plan.batch_parts * self.plan.row_parts * self.plan.column_parts
    }

    fn cost(&self) -> u64 {
        let (a, b) = (self.rows * self.terms(), self.columns * self.terms());
        let each = self.rows * self.columns * self.terms() / 40 + (a + b + self.rows * self.columns) / 8 + 20;
        (self.a.batch.len() * each) as u64 * if T::FAST { 1 } else { 4 }
    }

    unsafe fn run(&self, frame: &Frame<'_>, scratch: &mut Scratch, part: usize) -> Result<(), Fault> {
        let _zero = Subnormals::are_zero();
        let plan = &self.plan;
        let (part, column_part) = (part / plan.column_parts, part % plan.column_parts);
        let (batch_part, row_part) = (part / plan.row_parts, part % plan.row_parts);
        let panels = piece(self.panels.len(), plan.row_parts, row_part, 1);
        let columns = piece(self.columns, plan.column_parts, column_part, self.tile.columns);
        if panels.is_empty() || columns.is_empty() {
            return Ok(());
        }
        for batch in piece(self.a.batch.len(), plan.batch_parts, batch_part, 1) {
            // SAFETY: the trait's contract; parts are disjoint blocks of the result.
            unsafe { self.block(frame, scratch, batch, panels.clone(), columns.clone())? };
        }
        Ok(())
    }
}

/// Packs all of `B` for the parts of a [`Product`] to share.
#[derive(Clone, Debug)]
pub(crate) struct PackB<T: Packed> {
    pub product: Product<T>,
    pub to: Buf,
}

impl<T: Packed> PackB<T> {
    /// Columns that are packed at a time: fewer where there are few, so that many threads have some.
    fn group(&self) -> usize {
        if self.product.columns <= FEW_COLUMNS { self.product.tile.columns.max(GROUP / 4) } else { GROUP }
    }

    /// Groups of columns, and blocks of the depth, that are packed by themselves.
    fn pieces(&self) -> [usize; 2] {
        [self.product.columns.div_ceil(self.group()), self.product.blocks.len()]
    }
}

impl<T: Packed> Work for PackB<T> {
    fn parts(&self) -> usize {
        let [groups, blocks] = self.pieces();
        (self.product.b.batch.len() * groups * blocks).clamp(1, 128)
    }

    fn cost(&self) -> u64 {
        (self.product.b.batch.len() * self.product.packed_len()) as u64 / 2
    }

    unsafe fn run(&self, frame: &Frame<'_>, _: &mut Scratch, part: usize) -> Result<(), Fault> {
        let p = &self.product;
        let [groups, blocks] = self.pieces();
        let stride = p.columns.next_multiple_of(p.tile.columns);
        for i in piece(p.b.batch.len() * groups * blocks, self.parts(), part, 1) {
            let (batch, group, block) = (i / blocks / groups, i / blocks % groups, i % blocks);
            let at = group * self.group();
            let end = (at + self.group()).min(p.columns);
            // SAFETY: the panels are inside the packed matrix, and no other part writes them.
            unsafe {
                let from = frame.ptr(p.b.buf).offset(p.b.batch[batch]).cast_const();
                let to = frame.ptr(self.to).cast::<T>().add(batch * p.packed_len());
                p.pack_b(from, at..end, &p.blocks[block..block + 1], to, stride, at);
            }
        }
        Ok(())
    }
}
