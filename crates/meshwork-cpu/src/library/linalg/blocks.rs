//! Factorizations of one large matrix as a sequence of steps, so that several threads work on it: a panel of columns is
//! factored by one of them, then the rest of the matrix follows in pieces.
//!
//! All steps work on the result, in place. Pieces depend on the size of the matrix alone.

use std::fmt;
use std::sync::Arc;

use meshwork_ir::OpId;
use rustfft::num_traits::Float;

use super::Triangle;
use super::factor;
use super::field::Field;
use super::householder;
use super::product::{Operand, Sign, accumulate, subtract_lower};
use super::triangular::{Diagonal, solve, solve_right};
use crate::compile::lower::Lower;
use crate::library::copy;
use crate::library::nest::piece;
use crate::step::{Buf, Fault, Frame, Scratch, Work};

/// Multiplications from which on a matrix is worth several threads.
const LARGE: usize = 1 << 24;

/// Columns of a panel of Cholesky's and of the LU factorization.
const PANEL: usize = 128;

/// Elements between the rows of a copied panel.
const APART: usize = 16;

/// Rows or columns of a piece.
const PIECE: usize = 128;

/// Whether a matrix of this size is factored in steps; stacks keep threads busy by themselves.
pub(super) fn is_large(count: usize, [m, n]: [usize; 2]) -> bool {
    count == 1 && m * n * m.min(n) >= LARGE
}

/// The first column after the reflectors of the panel from `k` on.
fn reflected([m, n]: [usize; 2], k: usize) -> usize {
    m.min(n).min(k + householder::BLOCK)
}

/// One step of a factorization.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    /// Copies the operand, or one triangle of it as the lower one.
    Copy(Option<Triangle>),
    /// The block on the diagonal from `k` on: Cholesky's factor.
    Diagonal(usize),
    /// The rows below that block.
    Below(usize),
    /// What these are subtracted from.
    Rest(usize),
    /// What remains to be written of Cholesky's factor.
    Finish(Triangle),
    /// The panel from `k` on: pivots and factors.
    Lu(usize),
    /// The other columns follow that panel.
    LuColumns(usize),
    /// The panel from `k` on: reflectors.
    Qr(usize),
    /// The columns after that panel.
    QrColumns(usize),
    /// The triangles of all blocks of so many reflectors.
    Triangles(usize),
    /// The product of so many reflectors.
    Product(usize),
}

/// A stage on a matrix of `size`.
struct Step<T> {
    stage: Stage,
    size: [usize; 2],
    from: Buf,
    to: Buf,
    /// Row swaps or the reflectors' factors.
    beside: Option<Buf>,
    /// The number that says what failed, or triangles of reflectors.
    info: Option<Buf>,
    of: std::marker::PhantomData<T>,
}

impl<T> fmt::Debug for Step<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} of {:?}", self.stage, self.size)
    }
}

impl<T> Step<T> {
    /// Rows or columns that pieces divide.
    fn divided(&self) -> usize {
        let [m, n] = self.size;
        match self.stage {
            Stage::Copy(_) | Stage::Finish(_) => m,
            Stage::Diagonal(_) | Stage::Lu(_) | Stage::Qr(_) => 1,
            Stage::Below(k) | Stage::Rest(k) => n - (k + PANEL).min(n),
            Stage::LuColumns(k) => n - PANEL.min(n - k),
            Stage::QrColumns(k) => n - reflected(self.size, k),
            Stage::Triangles(count) => count.div_ceil(householder::BLOCK),
            Stage::Product(_) => n,
        }
    }

    /// How much of that is a piece, and what the borders of pieces are multiples of.
    fn grain(&self) -> [usize; 2] {
        if let Stage::Triangles(_) = self.stage { [1, 1] } else { [PIECE, 16] }
    }
}

impl<T: Field> Work for Step<T> {
    fn parts(&self) -> usize {
        self.divided().div_ceil(self.grain()[0]).max(1)
    }

    fn cost(&self) -> u64 {
        let [m, n] = self.size;
        let work = match self.stage {
            Stage::Copy(_) | Stage::Finish(_) => m * n / 4,
            Stage::Diagonal(_) => PANEL.pow(3) / 20,
            Stage::Below(_) => self.divided() * PANEL * PANEL / 20,
            Stage::Rest(_) => self.divided().pow(2) * PANEL / 20,
            Stage::Lu(k) => (m - k.min(m)) * PANEL * PANEL / 10,
            Stage::LuColumns(k) => self.divided() * (m - k.min(m)) * PANEL / 20,
            Stage::Qr(k) => (m - k) * householder::BLOCK.pow(2) / 4,
            Stage::QrColumns(k) => self.divided() * (m - k) * householder::BLOCK / 10,
            Stage::Triangles(count) => count * m * householder::BLOCK / 20,
            Stage::Product(count) => n * m * count / 20,
        };
        work as u64
    }

    unsafe fn run(&self, frame: &Frame<'_>, scratch: &mut Scratch, part: usize) -> Result<(), Fault> {
        let mine = piece(self.divided(), self.parts(), part, self.grain()[1]);
        // SAFETY: the trait's contract; each piece writes its own rows or columns, and reads what earlier steps wrote.
        unsafe {
            let to = frame.ptr(self.to).cast::<T>();
            match self.stage {
                Stage::Copy(triangle) => self.copy(frame, to, triangle, mine),
                Stage::Diagonal(_) | Stage::Below(_) | Stage::Rest(_) => self.cholesky(frame, to, mine, scratch),
                Stage::Finish(triangle) => self.finish(frame, to, triangle, mine),
                Stage::Lu(_) | Stage::LuColumns(_) => self.lu(frame, to, mine, scratch),
                Stage::Qr(_) | Stage::QrColumns(_) => self.qr(frame, to, mine, scratch),
                Stage::Triangles(_) | Stage::Product(_) => self.product(frame, to, mine, scratch),
            }
        }
        Ok(())
    }
}

impl<T: Field> Step<T> {
    /// # Safety
    /// As [`Work::run`]; so for the functions below.
    unsafe fn copy(&self, frame: &Frame<'_>, to: *mut T, triangle: Option<Triangle>, rows: std::ops::Range<usize>) {
        let [m, n] = self.size;
        // SAFETY: rows of the two matrices.
        unsafe {
            let from = std::slice::from_raw_parts(frame.ptr(self.from).cast::<T>(), m * n);
            if let (0, Some(info)) = (rows.start, self.info) {
                *frame.ptr(info).cast::<i32>() = 0;
            }
            for i in rows {
                let to = std::slice::from_raw_parts_mut(to.add(i * n), n);
                match triangle {
                    None => to.copy_from_slice(&from[i * n..(i + 1) * n]),
                    Some(Triangle::Lower) => to[..i + 1].copy_from_slice(&from[i * n..i * n + i + 1]),
                    Some(Triangle::Upper) => (0..=i).for_each(|j| to[j] = from[j * n + i].conj()),
                }
            }
        }
    }

    /// # Safety
    /// As [`copy`](Step::copy).
    unsafe fn cholesky(&self, frame: &Frame<'_>, a: *mut T, mine: std::ops::Range<usize>, scratch: &mut Scratch) {
        let n = self.size[1];
        // SAFETY: blocks of the matrix.
        unsafe {
            let Some(info) = self.info.map(|info| frame.ptr(info).cast::<i32>()) else { return };
            if *info != 0 {
                return;
            }
            let block = |i: usize, j: usize| a.add(i * n + j);
            match self.stage {
                Stage::Diagonal(k) => {
                    if let Err(at) = factor::cholesky(block(k, k), n, PANEL.min(n - k), scratch) {
                        *info = (k + at) as i32;
                    }
                }
                Stage::Below(k) => {
                    let at = (block(k + PANEL + mine.start, k), n as isize);
                    solve_right(Operand::rows(block(k, k).cast_const(), n), at, [mine.len(), PANEL], scratch);
                }
                Stage::Rest(k) => {
                    // Rows up to the diagonal, then the block there.
                    let first = k + PANEL;
                    let rows = Operand::rows(block(first, k).cast_const(), n);
                    let left = rows.from(mine.start, 0);
                    let to = block(first + mine.start, first);
                    let size = [mine.len(), mine.start, PANEL];
                    accumulate((to, n as isize), Sign::Minus, left, rows.adjoint(), size, scratch);
                    let to = to.add(mine.start);
                    subtract_lower(to, n, left, left.adjoint(), [mine.len(), PANEL], scratch);
                }
                _ => {}
            }
        }
    }

    /// # Safety
    /// As [`copy`](Step::copy).
    unsafe fn finish(&self, frame: &Frame<'_>, to: *mut T, triangle: Triangle, rows: std::ops::Range<usize>) {
        let n = self.size[1];
        // SAFETY: rows of the matrix; where the factor stands elsewhere, of both.
        unsafe {
            let is_failed = self.info.is_some_and(|info| *frame.ptr(info).cast::<i32>() != 0);
            let factor = frame.ptr(self.from).cast::<T>().cast_const();
            for i in rows {
                let to = std::slice::from_raw_parts_mut(to.add(i * n), n);
                match triangle {
                    _ if is_failed => to.fill(T::real(T::Real::nan())),
                    Triangle::Lower => to[i + 1..].fill(T::zero()),
                    Triangle::Upper => {
                        to[..i].fill(T::zero());
                        (i..n).for_each(|j| to[j] = (*factor.add(j * n + i)).conj());
                    }
                }
            }
        }
    }

    /// # Safety
    /// As [`copy`](Step::copy).
    unsafe fn lu(&self, frame: &Frame<'_>, a: *mut T, mine: std::ops::Range<usize>, scratch: &mut Scratch) {
        let [m, n] = self.size;
        let least = m.min(n);
        // SAFETY: the panel and columns of the matrix, row swaps, a number.
        unsafe {
            let (Some(pivots), Some(info)) = (self.beside, self.info) else { return };
            let pivots = frame.ptr(pivots).cast::<i32>();
            let info = frame.ptr(info).cast::<i32>();
            match self.stage {
                Stage::Lu(k) => {
                    let pivots = std::slice::from_raw_parts_mut(pivots.add(k), PANEL.min(least - k));
                    let size = [m - k, PANEL.min(n - k)];
                    // In a copy: rows that are far apart would fall on the same few lines of the cache.
                    let row = size[1] + APART;
                    let panel = scratch.strips(size[0] * row * size_of::<T>()).cast::<T>();
                    let place = |i: usize| (a.add((k + i) * n + k), panel.add(i * row));
                    for i in 0..size[0] {
                        let (there, here) = place(i);
                        std::ptr::copy_nonoverlapping(there.cast_const(), here, size[1]);
                    }
                    let singular = factor::lu(panel, row, size, pivots, scratch);
                    for i in 0..size[0] {
                        let (there, here) = place(i);
                        std::ptr::copy_nonoverlapping(here.cast_const(), there, size[1]);
                    }
                    // LAPACK counts from 1.
                    pivots.iter_mut().for_each(|p| *p += k as i32 + 1);
                    if singular > 0 && *info == 0 {
                        *info = (k + singular) as i32;
                    }
                }
                Stage::LuColumns(k) => {
                    let width = PANEL.min(n - k);
                    let depth = width.min(m - k);
                    let pivots = std::slice::from_raw_parts(pivots.add(k).cast_const(), depth);
                    // Columns before the panel are only swapped.
                    let before = mine.start.min(k)..mine.end.min(k);
                    let after = mine.start.max(k) + width..mine.end.max(k) + width;
                    for columns in [before, after.clone()] {
                        for (i, &p) in pivots.iter().enumerate() {
                            let at = |row: usize| a.add(row * n + columns.start);
                            factor::swap(at(k + i), at(p as usize - 1), columns.len());
                        }
                    }
                    let right = a.add(k * n + after.start);
                    let panel = Operand::rows(a.add(k * n + k).cast_const(), n);
                    solve(panel, Diagonal::Ones, (right, n as isize), [depth, after.len()], scratch);
                    let known = Operand::rows(right.cast_const(), n);
                    let below = (right.add(depth * n), n as isize);
                    let size = [m - k - depth, after.len(), depth];
                    accumulate(below, Sign::Minus, panel.from(depth, 0), known, size, scratch);
                }
                _ => {}
            }
        }
    }

    /// # Safety
    /// As [`copy`](Step::copy).
    unsafe fn qr(&self, frame: &Frame<'_>, a: *mut T, mine: std::ops::Range<usize>, scratch: &mut Scratch) {
        let [m, n] = self.size;
        // SAFETY: the panel and columns of the matrix, factors of reflectors.
        unsafe {
            let (Some(taus), Some(triangle)) = (self.beside, self.info) else { return };
            let (taus, triangle) = (frame.ptr(taus).cast::<T>(), frame.ptr(triangle).cast::<T>());
            match self.stage {
                Stage::Qr(k) => {
                    let all = std::slice::from_raw_parts_mut(a, m * n);
                    let taus = std::slice::from_raw_parts_mut(taus, m.min(n));
                    householder::qr_panel(all, [m, n], k, taus, scratch);
                    if reflected(self.size, k) < n {
                        let taus = &taus[k..reflected(self.size, k)];
                        let found = householder::triangle(a, [m, n], k, taus, scratch);
                        std::ptr::copy_nonoverlapping(found.as_ptr(), triangle, found.len());
                    }
                }
                Stage::QrColumns(k) => {
                    let first = reflected(self.size, k);
                    let triangle = std::slice::from_raw_parts(triangle.cast_const(), (first - k).pow(2));
                    let columns = (first + mine.start, first + mine.end);
                    householder::follow(a, [m, n], k, triangle, columns, scratch);
                }
                _ => {}
            }
        }
    }

    /// # Safety
    /// As [`copy`](Step::copy).
    unsafe fn product(&self, frame: &Frame<'_>, to: *mut T, mine: std::ops::Range<usize>, scratch: &mut Scratch) {
        let [m, n] = self.size;
        // SAFETY: reflectors and their factors; triangles of blocks, or columns of the result.
        unsafe {
            let (Some(taus), Some(triangles)) = (self.beside, self.info) else { return };
            let triangles = frame.ptr(triangles).cast::<T>();
            let a = std::slice::from_raw_parts(frame.ptr(self.from).cast::<T>(), m * n);
            match self.stage {
                Stage::Triangles(count) => {
                    let taus = std::slice::from_raw_parts(frame.ptr(taus).cast::<T>(), count);
                    for block in mine {
                        householder::put_triangle(a.as_ptr(), [m, n], taus, block, triangles, scratch);
                    }
                }
                Stage::Product(count) => {
                    let len = householder::triangles_len(count);
                    let triangles = std::slice::from_raw_parts(triangles.cast_const(), len);
                    householder::product(a, [m, n], (count, triangles), to, mine, scratch);
                }
                _ => {}
            }
        }
    }
}

/// Adds steps, which write all of the buffers but read only `from` beside them.
struct Steps<'a, 'm, T> {
    cx: &'a mut Lower<'m>,
    op: OpId,
    name: String,
    like: Step<T>,
    /// Whether the first step has been added: the others read what it wrote.
    is_begun: bool,
}

impl<T: Field> Steps<'_, '_, T> {
    fn add(&mut self, stage: Stage) {
        let Step { size, from, to, beside, info, of, .. } = self.like;
        let writes: Vec<Buf> = [Some(to), beside, info].into_iter().flatten().collect();
        let mut reads = vec![from];
        if self.is_begun {
            reads.extend(&writes);
        }
        let work = Step { stage, size, from, to, beside, info, of };
        self.cx.step(self.op, self.name.clone(), Arc::new(work), reads, writes);
        self.is_begun = true;
    }
}

/// The steps of Cholesky's factorization of the first operand.
pub(super) fn cholesky<T: Field>(cx: &mut Lower<'_>, op: OpId, n: usize, triangle: Triangle) -> Result<bool, String> {
    let data = cx.module.op(op);
    let from = copy::dense(cx, op, data.operands()[0])?;
    let result = cx.result(data.results()[0]);
    let info = match data.results().get(1) {
        Some(&info) => cx.result(info),
        None => cx.temp(size_of::<i32>()),
    };
    // The upper factor is the adjoint of one that stands elsewhere.
    let is_lower = triangle == Triangle::Lower;
    let to = if is_lower { result } else { cx.temp(n * n * size_of::<T>()) };
    let name = format!("cholesky of {} in blocks", cx.module.ty(data.operands()[0]));
    let of = std::marker::PhantomData::<T>;
    let stage = Stage::Copy(Some(triangle));
    let like = Step { stage, size: [n, n], from, to, beside: None, info: Some(info), of };
    let mut steps = Steps { cx, op, name, like, is_begun: false };
    steps.add(stage);
    for k in (0..n).step_by(PANEL) {
        steps.add(Stage::Diagonal(k));
        if k + PANEL < n {
            steps.add(Stage::Below(k));
            steps.add(Stage::Rest(k));
        }
    }
    let name = steps.name;
    let work =
        Step { stage: Stage::Finish(triangle), size: [n, n], from: to, to: result, beside: None, info: Some(info), of };
    let reads = if is_lower { vec![info, result] } else { vec![info, to] };
    cx.step(op, name, Arc::new(work), reads, vec![result]);
    Ok(true)
}

/// The steps of LAPACK's `getrf`.
pub(super) fn lu<T: Field>(cx: &mut Lower<'_>, op: OpId, size: [usize; 2]) -> Result<bool, String> {
    let data = cx.module.op(op);
    let from = copy::dense(cx, op, data.operands()[0])?;
    let [to, pivots, info] = [0, 1, 2].map(|i| cx.result(data.results()[i]));
    let name = format!("lu of {} in blocks", cx.module.ty(data.operands()[0]));
    let (stage, of) = (Stage::Copy(None), std::marker::PhantomData::<T>);
    let like = Step { stage, size, from, to, beside: Some(pivots), info: Some(info), of };
    let mut steps = Steps { cx, op, name, like, is_begun: false };
    steps.add(stage);
    for k in (0..size[0].min(size[1])).step_by(PANEL) {
        steps.add(Stage::Lu(k));
        if size[1] > PANEL {
            steps.add(Stage::LuColumns(k));
        }
    }
    Ok(true)
}

/// The steps of LAPACK's `geqrf`.
pub(super) fn qr<T: Field>(cx: &mut Lower<'_>, op: OpId, size: [usize; 2]) -> Result<bool, String> {
    let data = cx.module.op(op);
    let from = copy::dense(cx, op, data.operands()[0])?;
    let [to, taus] = [0, 1].map(|i| cx.result(data.results()[i]));
    let name = format!("qr of {} in blocks", cx.module.ty(data.operands()[0]));
    let (stage, of) = (Stage::Copy(None), std::marker::PhantomData::<T>);
    let triangle = cx.temp(householder::triangles_len(1) * size_of::<T>());
    let like = Step { stage, size, from, to, beside: Some(taus), info: Some(triangle), of };
    let mut steps = Steps { cx, op, name, like, is_begun: false };
    steps.add(stage);
    for k in (0..size[0].min(size[1])).step_by(householder::BLOCK) {
        steps.add(Stage::Qr(k));
        if reflected(size, k) < size[1] {
            steps.add(Stage::QrColumns(k));
        }
    }
    Ok(true)
}

/// The steps of LAPACK's `orgqr` with so many reflectors.
pub(super) fn product<T: Field>(
    cx: &mut Lower<'_>,
    op: OpId,
    size: [usize; 2],
    reflectors: usize,
) -> Result<bool, String> {
    let data = cx.module.op(op);
    let from = copy::dense(cx, op, data.operands()[0])?;
    let taus = copy::dense(cx, op, data.operands()[1])?;
    let to = cx.result(data.results()[0]);
    let triangles = cx.temp(householder::triangles_len(reflectors).max(1) * size_of::<T>());
    let name = format!("product of reflectors of {} in blocks", cx.module.ty(data.operands()[0]));
    for (stage, reads, write) in [
        (Stage::Triangles(reflectors), vec![from, taus], triangles),
        (Stage::Product(reflectors), vec![from, taus, triangles], to),
    ] {
        let of = std::marker::PhantomData::<T>;
        let work = Step { stage, size, from, to, beside: Some(taus), info: Some(triangles), of };
        cx.step(op, name.clone(), Arc::new(work), reads, vec![write]);
    }
    Ok(true)
}
