//! Small matrices of a stack side by side, one in each lane of a vector.
//!
//! The rows of a matrix of a few elements are too short for vectors. Here every element is a vector: that of the same place in
//! as many matrices as there are lanes. No lane depends on another, so a matrix has the same result wherever it stands in the
//! stack. Complex numbers are left to the routines on single matrices.

use rustfft::num_traits::{Float, NumCast, ToPrimitive, Zero};

use super::Triangle;
use super::field::{Field, kernel, wide};
use super::stack::One;
use super::triangular::Diagonal;
use super::tridiagonal;
use crate::library::transpose::{Planes, transpose};
use crate::step::Scratch;

/// Elements of a matrix, or of a system, that are in lanes: so many vectors stay in the first-level cache.
const MOST: usize = 256;
/// The same of a system that is read from one end to the other and back, as memory is read fastest.
const MOST_IN_LINE: usize = 1 << 16;

/// The routines for as many matrices of one type as a vector has lanes.
#[derive(Clone, Copy)]
pub(super) struct Beside {
    width: usize,
    pub lu: unsafe fn([usize; 2], &[One<'_>], &mut Scratch),
    pub cholesky: unsafe fn(usize, Triangle, &[One<'_>], &mut Scratch),
    pub solve: unsafe fn(Systems, &[One<'_>], &mut Scratch),
    pub tridiagonal: unsafe fn([usize; 2], &[One<'_>], &mut Scratch),
}

impl Beside {
    /// Those of `W` matrices of numbers `T`.
    pub(super) const fn new<T: Field, const W: usize>() -> Beside {
        Beside {
            width: W,
            lu: lu::<T, W>,
            cholesky: cholesky::<T, W>,
            solve: solve::<T, W>,
            tridiagonal: tridiagonal::<T, W>,
        }
    }
}

/// How many matrices of type `T` are done side by side, for so many elements of each; 1 if none are.
pub(super) fn width<T: Field>(elements: usize) -> usize {
    T::BESIDE.filter(|_| elements <= MOST).map_or(1, |beside| beside.width)
}

/// The same for elements of which a few neighbors are needed at a time.
pub(super) fn width_in_line<T: Field>(elements: usize) -> usize {
    T::BESIDE.filter(|_| elements <= MOST_IN_LINE).map_or(1, |beside| beside.width)
}

/// Reads operand `number` of each matrix, of `x.len()` elements, into the lanes of `x`. Lanes without a matrix have the first one.
///
/// # Safety
/// The operands are of that type and size, and neighbors in memory.
unsafe fn read<T: Field, const W: usize>(ones: &[One<'_>], number: usize, x: &mut [[T; W]]) {
    let (size, n) = (size_of::<T>(), x.len());
    // SAFETY: the caller's.
    unsafe {
        let from = ones[0].operand::<T>(number).as_ptr().cast();
        let to = x.as_mut_ptr().cast();
        let planes = Planes { from, from_stride: (n * size) as isize, to, to_stride: (W * size) as isize };
        transpose(planes, n, ones.len(), size);
    }
    if ones.len() < W {
        for lanes in x {
            let first = lanes[0];
            lanes[ones.len()..].fill(first);
        }
    }
}

/// Writes the lanes of `x` to result `number` of each matrix.
///
/// # Safety
/// The results are of that type and size, and neighbors in memory.
unsafe fn write<T: Field, const W: usize>(x: &[[T; W]], ones: &[One<'_>], number: usize) {
    let (size, n) = (size_of::<T>(), x.len());
    // SAFETY: the caller's.
    unsafe {
        let (from, to) = (x.as_ptr().cast(), ones[0].result_start::<T>(number).cast());
        let planes = Planes { from, from_stride: (W * size) as isize, to, to_stride: (n * size) as isize };
        transpose(planes, ones.len(), n, size);
    }
}

/// `count` vectors of scratch memory.
///
/// # Safety
/// What is read of them has been written.
unsafe fn vectors<T: Field, const W: usize>(count: usize, scratch: &mut Scratch) -> &mut [[T; W]] {
    let memory = scratch.get(count * size_of::<[T; W]>()).cast();
    // SAFETY: it is as long, aligned to 64 bytes, and every pattern of bytes is a number.
    unsafe { std::slice::from_raw_parts_mut(memory, count) }
}

/// The number `i`.
#[inline(always)]
fn number<T: Field>(i: usize) -> T::Real {
    <T::Real as NumCast>::from(i).unwrap_or_else(T::Real::zero)
}

/// A small number in a lane.
fn integer<T: Field>(v: T) -> i32 {
    v.re().to_i32().unwrap_or(0)
}

/// LAPACK's `getrf` of `m × n` matrices: packed factors, row swaps from 1, the first zero pivot.
///
/// # Safety
/// Operands and results of such matrices.
unsafe fn lu<T: Field, const W: usize>([m, n]: [usize; 2], ones: &[One<'_>], scratch: &mut Scratch) {
    let least = m.min(n);
    // SAFETY: in the whole function: the caller's; all vectors are written before they are read.
    unsafe {
        let (x, numbers) = vectors::<T, W>(m * n + least + 1, scratch).split_at_mut(m * n);
        read(ones, 0, x);
        let (pivots, singular) = numbers.split_at_mut(least);
        wide(LuLanes, (&mut *x, [m, n], &mut *pivots, &mut singular[0]));
        write(x, ones, 0);
        for (lane, one) in ones.iter().enumerate() {
            let swaps = one.result::<i32>(1);
            swaps.iter_mut().zip(&*pivots).for_each(|(to, from)| *to = integer(from[lane]) + 1);
            one.result::<i32>(2)[0] = integer(singular[0][lane]);
        }
    }
}

kernel! {
    [T: Field, const W: usize] LuLanes(x: &mut [[T; W]], size: [usize; 2], pivots: &mut [[T; W]], singular: &mut [T; W]) -> () =
        lu_lanes(x, size, pivots, singular)
}

/// [`factor::lu`](super::factor::lu) of the `m × n` matrices in the lanes of `x`.
#[inline(always)]
fn lu_lanes<T: Field, const W: usize>(
    x: &mut [[T; W]],
    [m, n]: [usize; 2],
    pivots: &mut [[T; W]],
    singular: &mut [T; W],
) {
    *singular = [T::zero(); W];
    for k in 0..m.min(n) {
        let mut most = [T::Real::zero(); W];
        (0..W).for_each(|l| most[l] = x[k * n + k][l].size());
        let mut best = [number::<T>(k); W];
        for i in k + 1..m {
            let (column, i) = (&x[i * n + k], number::<T>(i));
            for l in 0..W {
                let size = column[l].size();
                let is_larger = size > most[l];
                best[l] = if is_larger { i } else { best[l] };
                most[l] = if is_larger { size } else { most[l] };
            }
        }
        (0..W).for_each(|l| pivots[k][l] = T::real(best[l]));
        let (above, below) = x.split_at_mut((k + 1) * n);
        let row = &mut above[k * n..];
        for i in k + 1..m {
            let (other, i) = (&mut below[(i - k - 1) * n..(i - k) * n], number::<T>(i));
            if best.iter().fold(false, |found, &b| found | (b == i)) {
                for (a, b) in row.iter_mut().zip(other) {
                    for l in 0..W {
                        let (here, there) = (a[l], b[l]);
                        a[l] = if best[l] == i { there } else { here };
                        b[l] = if best[l] == i { here } else { there };
                    }
                }
            }
        }
        let pivot = row[k];
        let is_zero = pivot.iter().fold(false, |found, &p| found | (p == T::zero()));
        if is_zero {
            for l in 0..W {
                if pivot[l] == T::zero() && singular[l] == T::zero() {
                    singular[l] = T::real(number::<T>(k + 1));
                }
            }
        }
        for other in below.chunks_exact_mut(n) {
            // A lane whose pivot is zero stays as it is.
            let is_left = |l: usize| is_zero && pivot[l] == T::zero();
            let mut factor = other[k];
            for l in 0..W {
                factor[l] = if is_left(l) { factor[l] } else { factor[l].over(pivot[l]) };
            }
            other[k] = factor;
            for (v, known) in other[k + 1..].iter_mut().zip(&row[k + 1..]) {
                if is_zero {
                    (0..W).filter(|&l| !is_left(l)).for_each(|l| v[l] = v[l] - known[l] * factor[l]);
                } else {
                    (0..W).for_each(|l| v[l] = v[l] - known[l] * factor[l]);
                }
            }
        }
    }
}

/// Cholesky's factors of matrices of order `n`, of which one triangle is read and written. As
/// [`Cholesky`](super::dense::Cholesky).
///
/// # Safety
/// Operands and results of such matrices.
unsafe fn cholesky<T: Field, const W: usize>(n: usize, triangle: Triangle, ones: &[One<'_>], scratch: &mut Scratch) {
    let [row, column] = if triangle == Triangle::Lower { [n, 1] } else { [1, n] };
    let place = |i: usize, j: usize| i * row + j * column;
    // SAFETY: in the whole function: the caller's; all vectors are written before they are read.
    unsafe {
        let (x, rest) = vectors::<T, W>(2 * n * n + 1, scratch).split_at_mut(n * n);
        let (lower, failed) = rest.split_at_mut(n * n);
        read(ones, 0, x);
        for (i, j) in (0..n).flat_map(|i| (0..n).map(move |j| (i, j))) {
            lower[i * n + j] = if j <= i { x[place(i, j)] } else { [T::zero(); W] };
        }
        wide(CholeskyLanes, (&mut *lower, n, &mut failed[0]));
        x.fill([T::zero(); W]);
        for (i, j) in (0..n).flat_map(|i| (0..=i).map(move |j| (i, j))) {
            x[place(i, j)] = lower[i * n + j];
        }
        write(x, ones, 0);
        for (lane, one) in ones.iter().enumerate() {
            let at = integer(failed[0][lane]);
            if at > 0 {
                one.result::<T>(0).fill(T::real(T::Real::nan()));
            }
            if one.results() > 1 {
                one.result::<i32>(1)[0] = at;
            }
        }
    }
}

kernel! {
    [T: Field, const W: usize] CholeskyLanes(x: &mut [[T; W]], n: usize, failed: &mut [T; W]) -> () =
        cholesky_lanes(x, n, failed)
}

/// The factors of the lower triangles of order `n` in the lanes of `x`; the row (from 1) at which a matrix turns out not to be
/// positive definite.
#[inline(always)]
fn cholesky_lanes<T: Field, const W: usize>(x: &mut [[T; W]], n: usize, failed: &mut [T; W]) {
    *failed = [T::zero(); W];
    for k in 0..n {
        let mut inverse = [T::Real::zero(); W];
        let first = T::real(number::<T>(k + 1));
        for l in 0..W {
            let pivot = x[k * n + k][l].re();
            let is_positive = pivot > T::Real::zero();
            failed[l] = if is_positive || failed[l] != T::zero() { failed[l] } else { first };
            let root = pivot.sqrt();
            inverse[l] = root.recip();
            x[k * n + k][l] = T::real(root);
        }
        for i in k + 1..n {
            (0..W).for_each(|l| x[i * n + k][l] = x[i * n + k][l].scale(inverse[l]));
        }
        for i in k + 1..n {
            let (known, row) = x.split_at_mut(i * n);
            let (first, row) = (row[k], &mut row[k + 1..=i]);
            for (j, v) in row.iter_mut().enumerate() {
                let factor = if k + 1 + j == i { first } else { known[(k + 1 + j) * n + k] };
                (0..W).for_each(|l| v[l] = v[l] - first[l] * factor[l]);
            }
        }
    }
}

/// Where element `(i, j)` of a matrix is, among the vectors of all.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub start: isize,
    pub row: isize,
    pub column: isize,
}

impl Place {
    #[inline(always)]
    fn at(self, i: usize, j: usize) -> usize {
        (self.start + i as isize * self.row + j as isize * self.column) as usize
    }

    /// The same matrix with its `n` rows, and as many columns if `square`, from the last to the first.
    fn reversed(self, n: usize, columns: Option<usize>) -> Place {
        let last = |n: usize, step: isize| n.saturating_sub(1) as isize * step;
        let rows = Place { start: self.start + last(n, self.row), row: -self.row, ..self };
        match columns {
            Some(c) => Place { start: rows.start + last(c, self.column), column: -self.column, ..rows },
            None => rows,
        }
    }
}

/// Triangular systems of order `n` with so many right-hand sides.
#[derive(Clone, Copy, Debug)]
pub(super) struct Systems {
    pub n: usize,
    pub sides: usize,
    /// Element `(i, j)` of the triangle, and `(i, side)` of the right-hand sides.
    pub triangle: Place,
    pub solution: Place,
    pub diagonal: Diagonal,
}

impl Systems {
    /// An upper triangle is a lower one from its last corner on.
    pub(super) fn reversed(self) -> Systems {
        Systems {
            triangle: self.triangle.reversed(self.n, Some(self.n)),
            solution: self.solution.reversed(self.n, None),
            ..self
        }
    }
}

/// Solves `L X = B` for lower triangles.
///
/// # Safety
/// Operands and results of such systems.
unsafe fn solve<T: Field, const W: usize>(systems: Systems, ones: &[One<'_>], scratch: &mut Scratch) {
    let Systems { n, sides, .. } = systems;
    // SAFETY: the caller's; all vectors are written before they are read.
    unsafe {
        let (l, x) = vectors::<T, W>(n * n + n * sides, scratch).split_at_mut(n * n);
        read(ones, 0, l);
        read(ones, 1, x);
        wide(SolveLanes, (&*l, &mut *x, systems));
        write(x, ones, 0);
    }
}

kernel! {
    [T: Field, const W: usize] SolveLanes(l: &[[T; W]], x: &mut [[T; W]], systems: Systems) -> () = solve_lanes(l, x, systems)
}

#[inline(always)]
fn solve_lanes<T: Field, const W: usize>(l: &[[T; W]], x: &mut [[T; W]], systems: Systems) {
    let Systems { n, sides, triangle, solution, diagonal } = systems;
    for (i, side) in (0..n).flat_map(|i| (0..sides).map(move |side| (i, side))) {
        let mut sum = x[solution.at(i, side)];
        for j in 0..i {
            let (factor, known) = (&l[triangle.at(i, j)], &x[solution.at(j, side)]);
            (0..W).for_each(|w| sum[w] = sum[w] - factor[w] * known[w]);
        }
        if diagonal == Diagonal::Stored {
            let pivot = &l[triangle.at(i, i)];
            (0..W).for_each(|w| sum[w] = sum[w].over(pivot[w]));
        }
        x[solution.at(i, side)] = sum;
    }
}

/// LAPACK's `gtsv` of systems of so many rows and right-hand sides, which leaves the diagonals as they were.
///
/// # Safety
/// Operands and results of such systems.
unsafe fn tridiagonal<T: Field, const W: usize>([n, sides]: [usize; 2], ones: &[One<'_>], scratch: &mut Scratch) {
    // SAFETY: the caller's; all vectors are written before they are read.
    unsafe {
        let (x, rest) = vectors::<T, W>(n * sides + 3 * n + 1, scratch).split_at_mut(n * sides);
        let (lower, rest) = rest.split_at_mut(n);
        let (diagonal, rest) = rest.split_at_mut(n);
        let (upper, singular) = rest.split_at_mut(n);
        read(ones, 0, lower);
        read(ones, 1, diagonal);
        read(ones, 2, upper);
        read(ones, 3, x);
        wide(tridiagonal::SolveLanes, ([lower, diagonal, upper], &mut *x, sides, &mut singular[0]));
        write(x, ones, 3);
        for (lane, one) in ones.iter().enumerate() {
            (0..3).for_each(|i| one.result::<T>(i).copy_from_slice(one.operand(i)));
            one.result::<i32>(4)[0] = integer(singular[0][lane]);
        }
    }
}

#[cfg(test)]
mod tests {
    use meshwork_ir::{ElementType, Literal, Scalar};

    use super::super::tests::{INT, call, definite, dominant, ty};
    use crate::library::testing::{check_on, noise, run};

    const REALS: [(ElementType, char, f64); 2] = [(ElementType::F32, 's', 2e-4), (ElementType::F64, 'd', 1e-10)];

    /// Fewer than lanes, as many, and some more.
    const COUNTS: [i64; 6] = [4, 8, 15, 16, 17, 40];

    #[test]
    fn factors_of_stacks() {
        for (elem, letter, tolerance) in REALS {
            for count in COUNTS {
                for [m, n] in [[1, 1], [3, 3], [5, 2], [2, 5], [8, 8], [16, 16], [17, 15], [0, 3], [3, 0], [30, 1]] {
                    let (a, x) = (ty(elem, &[count, m, n]), noise(&[count, m, n], elem, 3));
                    let results = [a.clone(), ty(INT, &[count, m.min(n)]), ty(INT, &[count])];
                    check_on(&call(&format!("lapack_{letter}getrf_ffi"), "", &[a], &results), &[x], tolerance);
                }
                for n in [0, 1, 2, 5, 8, 16] {
                    for letters in [76, 85] {
                        let a = ty(elem, &[count, n, n]);
                        let results = [a.clone(), ty(INT, &[count])];
                        let config = format!("uplo = {letters} : ui8");
                        let source = call(&format!("lapack_{letter}potrf_ffi"), &config, &[a], &results);
                        check_on(&source, &[definite(count, n, elem)], tolerance);
                    }
                }
            }
        }
    }

    #[test]
    fn systems_of_stacks() {
        for (elem, _, tolerance) in REALS {
            for (case, count) in COUNTS.into_iter().cycle().take(72).enumerate() {
                let (n, sides) = ([1, 2, 5, 8, 12][case % 5], [1, 3, 8][case % 3]);
                let [left, lower, unit] = [1, 2, 4].map(|bit| case & bit != 0);
                let transpose = ["NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"][case / 8 % 3];
                let shape = if left { [count, n, sides] } else { [count, sides, n] };
                let (a, b) = (ty(elem, &[count, n, n]), ty(elem, &shape));
                let source = format!(
                    "func.func @main(%a: {a}, %b: {b}) -> {b} {{
                    %r = \"stablehlo.triangular_solve\"(%a, %b) <{{left_side = {left}, lower = {lower}, transpose_a = #stablehlo<transpose {transpose}>, unit_diagonal = {unit}}}> : ({a}, {b}) -> {b}
                    return %r : {b} }}"
                );
                check_on(&source, &[dominant(count, n, elem), noise(&shape, elem, 3)], tolerance);
            }
        }
    }

    #[test]
    fn tridiagonal_stacks() {
        for (elem, letter, tolerance) in REALS {
            for (count, [n, sides]) in COUNTS.into_iter().zip([[1, 1], [2, 3], [9, 2], [40, 1], [0, 2], [7, 0]]) {
                let (d, b) = (ty(elem, &[count, n]), ty(elem, &[count, n, sides]));
                let args = [1, 2, 3].map(|seed| noise(&[count, n], elem, seed));
                let args = [&args[..], &[noise(&[count, n, sides], elem, 4)]].concat();
                let operands = [d.clone(), d.clone(), d.clone(), b.clone()];
                let results = [d.clone(), d.clone(), d, b, ty(INT, &[count])];
                let source = call(&format!("lapack_{letter}gtsv_ffi"), "", &operands, &results);
                check_on(&source, &args, 100.0 * tolerance);
            }
        }
    }

    /// A system has the same solution in a lane as alone; one that is singular is left where elimination ended.
    #[test]
    fn tridiagonal_systems_in_lanes_and_alone() {
        for (elem, letter, _) in REALS {
            let (count, n) = (19i64, 6i64);
            let results = |count: i64, from: &[Literal; 4], first: i64| {
                let (d, b) = (ty(elem, &[count, n]), ty(elem, &[count, n, 1]));
                let operands = [d.clone(), d.clone(), d.clone(), b.clone()];
                let to = [d.clone(), d.clone(), d, b, ty(INT, &[count])];
                let source = call(&format!("lapack_{letter}gtsv_ffi"), "", &operands, &to);
                let args: Vec<Literal> = from
                    .iter()
                    .zip([&[count, n][..], &[count, n], &[count, n], &[count, n, 1]])
                    .map(|(x, dims)| {
                        let range = (first * n) as usize..((first + count) * n) as usize;
                        let values: Vec<Scalar> = range.map(|at| x.get(at)).collect();
                        Literal::from_scalars(dims.iter().copied(), elem, values).expect("as many")
                    })
                    .collect();
                let module = meshwork_ir::text::parse(&source).expect("a program");
                run(&module, &args, false, false).results.expect("covered")
            };
            // The seventh has a column of zeros, the ninth ends with a row of them.
            let with_zeros = |seed: u64, at: usize| {
                let x = noise(&[count, n], elem, seed);
                let is_zero = |i: usize| [(7, at), (9, 5)].contains(&(i / n as usize, i % n as usize));
                let number = |i: usize| if is_zero(i) { Scalar::Float(0.0) } else { x.get(i) };
                let values: Vec<Scalar> = (0..x.len()).map(number).collect();
                Literal::from_scalars([count, n], elem, values).expect("as many")
            };
            let args = [with_zeros(1, 4), with_zeros(2, 3), with_zeros(3, 2), noise(&[count, n], elem, 4)];
            let together = results(count, &args, 0);
            assert!((0..count as usize).any(|i| together[4].get(i).as_i64() != 0), "{elem}: none is singular");
            for i in 0..count {
                let alone = results(1, &args, i);
                for (all, one) in together.iter().zip(&alone) {
                    for at in 0..one.len() {
                        assert_eq!(all.get(i as usize * one.len() + at), one.get(at), "{elem}, system {i}");
                    }
                }
            }
        }
    }

    /// A matrix that is singular, not definite, or full of what is not finite concerns no other lane.
    #[test]
    fn lanes_do_not_meet() {
        for (elem, letter, _) in REALS {
            let (count, n) = (19, 5);
            let (a, info) = (ty(elem, &[count, n, n]), ty(INT, &[count]));
            let lu = [a.clone(), ty(INT, &[count, n]), info.clone()];
            let programs = [
                call(&format!("lapack_{letter}getrf_ffi"), "", std::slice::from_ref(&a), &lu),
                call(
                    &format!("lapack_{letter}potrf_ffi"),
                    "uplo = 76 : ui8",
                    std::slice::from_ref(&a),
                    &[a.clone(), info],
                ),
            ];
            let good = definite(count, n, elem);
            let size = (n * n) as usize;
            for source in programs {
                let results = |x: &Literal| {
                    let module = meshwork_ir::text::parse(&source).expect("a program");
                    run(&module, std::slice::from_ref(x), false, false).results.expect("covered")
                };
                let expected = results(&good);
                for wrong in [0.0, f64::NAN, f64::INFINITY, -1.0] {
                    let number = |at: usize| if at / size == 7 { Scalar::Float(wrong) } else { good.get(at) };
                    let values: Vec<Scalar> = (0..good.len()).map(number).collect();
                    let mixed = Literal::from_scalars([count, n, n], elem, values).expect("as many");
                    for (found, expected) in results(&mixed).iter().zip(&expected) {
                        let each = found.len() / count as usize;
                        for at in (0..found.len()).filter(|at| at / each != 7) {
                            assert_eq!(found.get(at), expected.get(at), "{elem}, {wrong}, {at}");
                        }
                    }
                }
            }
            // Zero pivots are told, and the factors are as LAPACK leaves them.
            let zeros = (0..good.len()).map(|at| if at % 5 == 1 { Scalar::Float(0.0) } else { good.get(at) });
            let zeros = Literal::from_scalars([count, n, n], elem, zeros.collect::<Vec<_>>()).expect("as many");
            check_on(&call(&format!("lapack_{letter}getrf_ffi"), "", &[a], &lu), &[zeros], 1e-4);
        }
    }
}
