//! A stack of products on the matrix unit as work: `C[b] = A[b] B[b]`.
//!
//! Each element of the result is one sum in the order of the depth, whatever the blocks are, and is rounded once.

use std::arch::x86_64::*;
use std::ops::Range;
use std::sync::Arc;

use super::pack::{Matrix, Pack, Role, panel_bytes};
use super::plan::{MOST_ROWS, Plan, Problem};
use super::split;
use super::unit::{Kind, PANEL, Panels, ROWS, Sums, TILE, Tiles, multiply};
use crate::library::dot::pack::{Index, Writer};
use crate::library::dot::subnormal::Subnormals;
use crate::library::nest::piece;
use crate::step::{Buf, Fault, Frame, Scratch, Work};

/// One operand.
#[derive(Clone, Debug)]
pub(crate) struct Operand {
    pub buf: Buf,
    /// Byte offset of each matrix of the stack.
    pub batch: Arc<[isize]>,
    /// Rows of `A`, columns of `B`; and how many.
    pub outer: Index,
    pub count: usize,
    /// The direction that is summed over.
    pub depth: Index,
    pub pack: Arc<dyn Pack>,
    /// All of it, packed by [`Packing`], if the plan says so.
    pub packed: Option<Buf>,
}

/// How sums become elements of the result.
#[derive(Clone, Debug)]
pub(crate) enum Out {
    /// They are elements as they are.
    Same,
    /// Rounded to `bf16`, or to `f16`.
    Bf16,
    F16,
    /// By a writer.
    Float(Arc<dyn Writer<f32>>),
    Int(Arc<dyn Writer<i32>>),
}

/// `C[b] = A[b] B[b]`.
#[derive(Clone, Debug)]
pub(crate) struct Product {
    pub kind: Kind,
    pub a: Operand,
    pub b: Operand,
    /// Elements that are summed over.
    pub depth: usize,
    pub c: Buf,
    /// Byte offset of each matrix of the result, and from one row to the next; columns are neighbors.
    pub c_batch: Arc<[isize]>,
    pub c_row: usize,
    pub out: Out,
    /// Bytes of an element of the result.
    pub out_size: usize,
    /// See [`Problem::swollen`].
    pub swollen: Option<Role>,
    pub plan: Plan,
}

/// Rows or columns that are packed side by side.
const TOGETHER: usize = 4 * PANEL;

/// Tiles of the depth that are gone through at a time: two panels of them stay in the second-level cache.
const BLOCK: usize = 64;

impl Product {
    /// Its size, on `devices` devices.
    pub(crate) fn problem(&self, devices: usize) -> Problem {
        Problem {
            batch: self.a.batch.len(),
            rows: self.a.count,
            columns: self.b.count,
            depth: self.work_depth(),
            devices,
            swollen: self.swollen,
        }
    }

    /// The depth of a product of plain elements that is as much work.
    fn work_depth(&self) -> usize {
        if self.kind == Kind::F16 { 4 * self.depth } else { self.depth }
    }

    /// Tiles along the depth.
    fn tiles(&self) -> usize {
        self.kind.tiles(self.depth)
    }

    /// Tiles of the depth that a block has at most.
    fn block(&self) -> usize {
        let tiles = self.tiles().max(1);
        tiles.div_ceil(tiles.div_ceil(BLOCK))
    }

    /// Bytes of one packed matrix of an operand.
    pub(crate) fn packed_bytes(&self, of: &Operand) -> usize {
        of.count.div_ceil(PANEL) * self.apart()
    }

    /// Bytes from one packed panel of the whole depth to the next.
    fn apart(&self) -> usize {
        panel_bytes(PANEL, self.tiles())
    }

    /// Matrix `batch` of an operand.
    ///
    /// # Safety
    /// As [`Work::run`].
    unsafe fn matrix<'a>(&self, of: &'a Operand, role: Role, frame: &Frame<'_>, batch: usize) -> Matrix<'a> {
        // SAFETY: the offset is inside the buffer.
        let from = unsafe { frame.ptr(of.buf).offset(of.batch[batch]).cast_const() };
        Matrix { from, outer: &of.outer, depth: &of.depth, terms: self.depth, role }
    }

    /// The rows `rows` times the columns `columns` of matrix `batch`.
    ///
    /// # Safety
    /// As [`Work::run`]; [`Tiles`] are configured.
    unsafe fn part(
        &self,
        frame: &Frame<'_>,
        scratch: &mut Scratch,
        batch: usize,
        rows: Range<usize>,
        columns: Range<usize>,
    ) {
        let (tiles, block) = (self.tiles(), self.block());
        let panels = |of: &Range<usize>| of.len().div_ceil(PANEL);
        let one = panel_bytes(PANEL, block);
        let own_a = if self.a.packed.is_some() { 0 } else { panels(&rows) * one };
        let group = TOGETHER.min(columns.len());
        let own_b = if self.b.packed.is_some() { 0 } else { group.div_ceil(PANEL) * one };
        let kept = if tiles > block { panels(&rows) * panels(&columns) } else { 1 };
        let memory = scratch.get(own_a + own_b + kept * size_of::<Sums>());
        // SAFETY: in the whole function: pointers stay inside the operands, the result and the scratch memory, as sized
        // above.
        unsafe {
            let (own_a, own_b, sums) = (memory, memory.add(own_a), memory.add(own_a + own_b).cast::<Sums>());
            let (a, b) =
                (self.matrix(&self.a, Role::Rows, frame, batch), self.matrix(&self.b, Role::Columns, frame, batch));
            let c = frame.ptr(self.c).offset(self.c_batch[batch]);
            let shared = |of: &Operand| of.packed.map(|p| frame.ptr(p).add(batch * self.packed_bytes(of)).cast_const());
            let (shared_a, shared_b) = (shared(&self.a), shared(&self.b));
            let mut k = 0;
            loop {
                let depth = block.min(tiles - k);
                if shared_a.is_none() {
                    self.a.pack.pack(&a, rows.clone(), k..k + depth, own_a, one);
                }
                for (q, j) in columns.clone().step_by(PANEL).enumerate() {
                    let wide = PANEL.min(columns.end - j);
                    let b_tiles = wide.div_ceil(ROWS);
                    let bp = match shared_b {
                        Some(all) => all.add(j / PANEL * self.apart() + panel_bytes(wide, k)),
                        None => {
                            let at = q * PANEL % TOGETHER;
                            if at == 0 {
                                let end = columns.end.min(j + TOGETHER);
                                self.b.pack.pack(&b, j..end, k..k + depth, own_b, one);
                            }
                            own_b.add(at / PANEL * one).cast_const()
                        }
                    };
                    for (p, i) in rows.clone().step_by(PANEL).enumerate() {
                        let high = PANEL.min(rows.end - i);
                        let a_tiles = high.div_ceil(ROWS);
                        let ap = match shared_a {
                            Some(all) => all.add(i / PANEL * self.apart() + panel_bytes(high, k)),
                            None => own_a.add(p * one).cast_const(),
                        };
                        let to = c.add(i * self.c_row + j * self.out_size);
                        if k + depth == tiles {
                            // The lines of the result are there when the sums are.
                            for row in 0..high {
                                _mm_prefetch::<_MM_HINT_ET0>(to.add(row * self.c_row).cast_const().cast());
                            }
                        }
                        let sums = if kept > 1 { sums.add(q * panels(&rows) + p) } else { sums };
                        multiply(self.kind, &Panels { a: ap, a_tiles, b: bp, b_tiles, depth, add: k > 0 }, sums);
                        if k + depth < tiles {
                            continue;
                        }
                        if self.kind == Kind::F16 && split::has_nan(&*sums, high, wide) {
                            let (a, b) = ((&a, &*self.a.pack), (&b, &*self.b.pack));
                            *sums = split::again(a, b, (i..i + high, j..j + wide), tiles);
                        }
                        self.write(&*sums, to, high, wide);
                    }
                }
                k += depth;
                if k >= tiles {
                    break;
                }
            }
        }
    }

    /// Writes the first `rows × columns` of a block of sums.
    ///
    /// # Safety
    /// `to` is valid for them.
    unsafe fn write(&self, sums: &Sums, to: *mut u8, rows: usize, columns: usize) {
        // SAFETY: the caller's; the processor has AVX-512.
        unsafe {
            match &self.out {
                Out::Same => words(sums, to, self.c_row, rows, columns),
                Out::Bf16 => halves(sums, to, self.c_row, rows, columns),
                Out::F16 => sixteens(sums, to, self.c_row, rows, columns),
                out => {
                    for i in 0..rows {
                        let (to, [left, right]) = (to.add(i * self.c_row), row(sums, i));
                        let mut line = [0u32; PANEL];
                        line[..ROWS].copy_from_slice(left);
                        line[ROWS..].copy_from_slice(right);
                        match out {
                            Out::Float(writer) => writer.write(line.as_ptr().cast(), to, columns),
                            Out::Int(writer) => writer.write(line.as_ptr().cast(), to, columns),
                            Out::Same | Out::Bf16 | Out::F16 => {}
                        }
                    }
                }
            }
        }
    }
}

/// Row `i` of a block of sums, in two pieces.
#[inline(always)]
fn row(sums: &Sums, i: usize) -> [&[u32; ROWS]; 2] {
    let [first, second, third, fourth] = &sums.0;
    if i < ROWS { [&first[i], &second[i]] } else { [&third[i % ROWS], &fourth[i % ROWS]] }
}

/// # Safety
/// The processor has AVX-512; `to` is valid for `rows` of `columns` words, `apart` bytes apart.
#[target_feature(enable = "avx512f")]
unsafe fn words(sums: &Sums, to: *mut u8, apart: usize, rows: usize, columns: usize) {
    let mask = ((1u64 << columns) - 1) as u32;
    for i in 0..rows {
        // SAFETY: the caller's; masks leave out what is not there.
        unsafe {
            let to = to.add(i * apart).cast::<i32>();
            for (half, piece) in row(sums, i).into_iter().enumerate() {
                let value = _mm512_loadu_si512(piece.as_ptr().cast());
                _mm512_mask_storeu_epi32(to.wrapping_add(16 * half), (mask >> (16 * half)) as u16, value);
            }
        }
    }
}

/// # Safety
/// The processor has AVX-512 and its BF16; `to` is valid for `rows` of `columns` elements, `apart` bytes apart.
#[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
unsafe fn halves(sums: &Sums, to: *mut u8, apart: usize, rows: usize, columns: usize) {
    let mask = ((1u64 << columns) - 1) as u32;
    // SAFETY: the caller's; masks leave out what is not there.
    unsafe {
        let both = |i: usize| {
            let [left, right] = row(sums, i).map(|piece| _mm512_loadu_ps(piece.as_ptr().cast()));
            std::mem::transmute::<__m512bh, __m512i>(_mm512_cvtne2ps_pbh(right, left))
        };
        if rows == PANEL && columns == PANEL {
            for i in 0..PANEL {
                _mm512_storeu_si512(to.add(i * apart).cast(), both(i));
            }
        } else {
            for i in 0..rows {
                _mm512_mask_storeu_epi16(to.add(i * apart).cast(), mask, both(i));
            }
        }
    }
}

/// # Safety
/// The processor has AVX-512; `to` is valid for `rows` of `columns` elements, `apart` bytes apart.
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
unsafe fn sixteens(sums: &Sums, to: *mut u8, apart: usize, rows: usize, columns: usize) {
    let mask = ((1u64 << columns) - 1) as u32;
    for i in 0..rows {
        // SAFETY: the caller's; masks leave out what is not there.
        unsafe {
            let to = to.add(i * apart).cast::<i16>();
            for (half, piece) in row(sums, i).into_iter().enumerate() {
                let value = _mm512_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(_mm512_loadu_ps(piece.as_ptr().cast()));
                _mm256_mask_storeu_epi16(to.wrapping_add(16 * half), (mask >> (16 * half)) as u16, value);
            }
        }
    }
}

impl Work for Product {
    fn parts(&self) -> usize {
        self.plan.batch_parts * self.plan.row_parts * self.plan.column_parts
    }

    fn cost(&self) -> u64 {
        let of = |n: usize| n.next_multiple_of(ROWS);
        let (rows, columns, depth) = (of(self.a.count), of(self.b.count), self.work_depth().next_multiple_of(32));
        let packed =
            if self.plan.shared_b { 0 } else { columns * depth } + if self.plan.shared_a { 0 } else { rows * depth };
        (self.a.batch.len() * (rows * columns * depth / 800 + (packed + rows * columns) / 8 + 50)) as u64
    }

    unsafe fn run(&self, frame: &Frame<'_>, scratch: &mut Scratch, part: usize) -> Result<(), Fault> {
        let _zero = Subnormals::are_zero();
        let plan = &self.plan;
        let (part, column_part) = (part / plan.column_parts, part % plan.column_parts);
        let (batch_part, row_part) = (part / plan.row_parts, part % plan.row_parts);
        let rows = piece(self.a.count, plan.row_parts, row_part, PANEL);
        let columns = piece(self.b.count, plan.column_parts, column_part, PANEL);
        if rows.is_empty() || columns.is_empty() {
            return Ok(());
        }
        // SAFETY: such work is made only where the unit is available, and nothing below configures it again.
        let _tiles = unsafe { Tiles::configured() };
        for batch in piece(self.a.batch.len(), plan.batch_parts, batch_part, 1) {
            for first in rows.clone().step_by(MOST_ROWS) {
                let rows = first..rows.end.min(first + MOST_ROWS);
                // SAFETY: the trait's contract; parts are disjoint blocks of the result.
                unsafe { self.part(frame, scratch, batch, rows, columns.clone()) };
            }
        }
        Ok(())
    }
}

/// Packs all of an operand for the parts of a [`Product`] to share.
#[derive(Clone, Debug)]
pub(crate) struct Packing {
    pub product: Product,
    pub role: Role,
    pub to: Buf,
}

impl Packing {
    fn operand(&self) -> &Operand {
        match self.role {
            Role::Rows => &self.product.a,
            Role::Columns => &self.product.b,
        }
    }

    /// Groups of positions, and stretches of the depth, that are packed by themselves.
    fn pieces(&self) -> [usize; 2] {
        [self.operand().count.div_ceil(TOGETHER), self.product.tiles().div_ceil(STRETCH)]
    }
}

/// Tiles of the depth that are packed at a time.
const STRETCH: usize = 8;

impl Work for Packing {
    fn parts(&self) -> usize {
        let [groups, stretches] = self.pieces();
        (self.operand().batch.len() * groups * stretches).clamp(1, 128)
    }

    fn cost(&self) -> u64 {
        let of = self.operand();
        (of.batch.len() * self.product.packed_bytes(of)) as u64 / 12
    }

    unsafe fn run(&self, frame: &Frame<'_>, _: &mut Scratch, part: usize) -> Result<(), Fault> {
        let (p, of, [groups, stretches]) = (&self.product, self.operand(), self.pieces());
        for i in piece(of.batch.len() * groups * stretches, self.parts(), part, 1) {
            let (batch, at, k) = (i / stretches / groups, i / stretches % groups * TOGETHER, i % stretches * STRETCH);
            let end = (at + TOGETHER).min(of.count);
            let tiles = k..p.tiles().min(k + STRETCH);
            // Where the last panel has one tile of each depth, it is packed by itself.
            let narrow = if (1..=ROWS).contains(&((end - at) % PANEL)) { end / PANEL * PANEL } else { end };
            // SAFETY: the panels are inside the packed matrix, and no other part writes them.
            unsafe {
                let from = p.matrix(of, self.role, frame, batch);
                let to = frame.ptr(self.to).add(batch * p.packed_bytes(of));
                for outer in [at..narrow, narrow..end] {
                    let start = outer.start / PANEL * p.apart() + panel_bytes(outer.len(), k);
                    of.pack.pack(&from, outer, tiles.clone(), to.add(start), p.apart());
                }
            }
        }
        Ok(())
    }
}

const _: () = assert!(size_of::<Sums>() == 4 * TILE);
