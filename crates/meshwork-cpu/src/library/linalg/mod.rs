//! Linear algebra on stacks of matrices: `cholesky`, `triangular_solve`, and the custom calls of JAX's `linalg`.
//!
//! | file | what it is |
//! |---|---|
//! | `stack`, `lanes` | a routine on every matrix of a stack; on small ones side by side |
//! | `field`, `product` | numbers; products of blocks |
//! | `triangular`, `factor`, `householder`, `schur`, `tridiagonal` | the algorithms |
//! | `panels` | reductions to tridiagonal and bidiagonal form |
//! | `spectrum` | eigenvalues of tridiagonal, singular values of bidiagonal matrices, without vectors or of small ones |
//! | `secular`, `divide`, `singular` | the same with vectors, by dividing the matrix |
//! | `dense`, `eigen` | the routines of them |
//! | `blocks` | factorizations of one large matrix, as steps for several threads |
//!
//! A custom call is a LAPACK routine as JAX names it, `lapack_sgetrf_ffi`: operands and results are LAPACK's, stacked over
//! leading dimensions. Reflectors, packed factors, row swaps and failure codes are stored as LAPACK stores them.

mod blocks;
mod dense;
mod divide;
mod eigen;
mod factor;
mod field;
mod householder;
mod lanes;
mod panels;
mod product;
mod schur;
mod secular;
mod singular;
mod spectrum;
mod stack;
#[cfg(test)]
mod tests;
mod triangular;
mod tridiagonal;

use std::marker::PhantomData;
use std::sync::Arc;

use meshwork_ir::{ElementType, Op, OpId};
use rustfft::num_complex::Complex;

use super::copy;
use crate::compile::lower::Lower;
use dense::{Cholesky, Lu, Reflect, Reflection, Schur, Solve, Transpose, Tridiagonal};
use eigen::{General, SelfAdjoint, Vectors};
use field::Field;
use stack::{Part, Routine, Stack};
use triangular::Diagonal;
use tridiagonal::Singular;

/// Which triangle of a matrix counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Triangle {
    Lower,
    Upper,
}

impl Triangle {
    fn lower_if(lower: bool) -> Triangle {
        if lower { Triangle::Lower } else { Triangle::Upper }
    }
}

/// Calls a generic function with the number type of an element type.
macro_rules! with_field {
    ($elem:expr, $f:ident ( $($arg:expr),* )) => {
        match $elem {
            ElementType::F32 => $f::<f32>($($arg),*),
            ElementType::F64 => $f::<f64>($($arg),*),
            ElementType::C64 => $f::<Complex<f32>>($($arg),*),
            ElementType::C128 => $f::<Complex<f64>>($($arg),*),
            _ => Ok(false),
        }
    };
}

/// Rows and columns of the last two dimensions.
fn sides(dims: &[i64]) -> Option<[usize; 2]> {
    let &[.., rows, columns] = dims else { return None };
    Some([rows as usize, columns as usize])
}

/// Adds the step that does `routine` with every matrix of a stack of `batch`: all operands and results have its leading
/// dimensions.
fn stack(cx: &mut Lower<'_>, op: OpId, batch: usize, routine: impl Routine) -> Result<bool, String> {
    stacked(cx, op, batch, Box::new(routine))
}

fn stacked(cx: &mut Lower<'_>, op: OpId, batch: usize, routine: Box<dyn Routine>) -> Result<bool, String> {
    let data = cx.module.op(op);
    let count = cx.shape(data.operands()[0]).1[..batch].iter().product::<i64>() as usize;
    let each = |cx: &Lower<'_>, v| {
        let (elem, dims) = cx.shape(v);
        dims[batch..].iter().product::<i64>() as usize * elem.storage_bytes()
    };
    let mut operands = vec![];
    for &v in data.operands() {
        let bytes = each(cx, v);
        operands.push(Part { buf: copy::dense(cx, op, v)?, bytes });
    }
    let results: Vec<Part> = data.results().iter().map(|&v| Part { bytes: each(cx, v), buf: cx.result(v) }).collect();
    let name = data.call_target().unwrap_or(data.name());
    let name = format!("{name} of {} {}", count, cx.module.ty(data.operands()[0]));
    let (reads, writes) = (operands.iter().map(|p| p.buf).collect(), results.iter().map(|p| p.buf).collect());
    cx.step(op, name, Arc::new(Stack { routine, operands, results, count }), reads, writes);
    Ok(true)
}

/// `stablehlo.cholesky`.
pub(super) fn cholesky(cx: &mut Lower<'_>, op: OpId) -> Result<bool, String> {
    let data = cx.module.op(op);
    let elem = cx.shape(data.operands()[0]).0;
    with_field!(elem, factor_of(cx, op, Triangle::lower_if(data.flag("lower"))))
}

fn factor_of<T: Field>(cx: &mut Lower<'_>, op: OpId, triangle: Triangle) -> Result<bool, String> {
    let dims = cx.shape(cx.module.op(op).operands()[0]).1;
    let Some([_, n]) = sides(&dims) else { return Ok(false) };
    let count = dims[..dims.len() - 2].iter().product::<i64>() as usize;
    if blocks::is_large(count, [n, n]) {
        return blocks::cholesky::<T>(cx, op, n, triangle);
    }
    stack(cx, op, dims.len() - 2, Cholesky::<T> { n, triangle, of: PhantomData })
}

/// How a triangular system is given.
struct System {
    left: bool,
    triangle: Triangle,
    diagonal: Diagonal,
    transpose: Transpose,
}

/// `stablehlo.triangular_solve`.
pub(super) fn triangular_solve(cx: &mut Lower<'_>, op: OpId) -> Result<bool, String> {
    let data = cx.module.op(op);
    let system = System {
        left: data.flag("left_side"),
        triangle: Triangle::lower_if(data.flag("lower")),
        diagonal: if data.flag("unit_diagonal") { Diagonal::Ones } else { Diagonal::Stored },
        transpose: match data.enum_value("transpose_a") {
            Some("TRANSPOSE") => Transpose::Yes,
            Some("ADJOINT") => Transpose::Adjoint,
            _ => Transpose::No,
        },
    };
    with_field!(cx.shape(data.operands()[1]).0, solution_of(cx, op, system))
}

fn solution_of<T: Field>(cx: &mut Lower<'_>, op: OpId, system: System) -> Result<bool, String> {
    let dims = cx.shape(cx.module.op(op).operands()[1]).1;
    let Some([rows, columns]) = sides(&dims) else { return Ok(false) };
    let System { left, triangle, diagonal, transpose } = system;
    let routine = Solve::<T> { rows, columns, left, triangle, diagonal, transpose, of: PhantomData };
    stack(cx, op, dims.len() - 2, routine)
}

/// A custom call of JAX's `linalg`; false if it is another one.
pub(super) fn call(cx: &mut Lower<'_>, op: OpId) -> Result<bool, String> {
    let data = cx.module.op(op);
    let (Some(target), Some(&first)) = (data.call_target(), data.operands().first()) else { return Ok(false) };
    let routine = match target.strip_prefix("lapack_") {
        // The first letter is the element type, which the operand has too.
        Some(routine) => routine.strip_suffix("_ffi").unwrap_or(routine).get(1..),
        None => Some(target),
    };
    let Some(routine) = routine else { return Ok(false) };
    let elem = cx.shape(first).0;
    with_field!(elem, routine_of(cx, op, routine))
}

/// Whether the operands and results of `op` are the `ranks` (beyond the leading dimensions) and types of a routine: `x`
/// of the number type, `r` of its real parts, `c` of the complex type, `i` of 32-bit integers.
fn fits<T: Field>(cx: &Lower<'_>, op: &Op, batch: usize, signature: &str) -> bool {
    let parts: Vec<(char, usize)> =
        signature.split_whitespace().filter_map(|s| Some((s.chars().next()?, s.get(1..)?.parse().ok()?))).collect();
    let values: Vec<_> = op.operands().iter().chain(op.results()).collect();
    let lead = &cx.shape(op.operands()[0]).1[..batch];
    parts.len() == values.len()
        && parts.iter().zip(values).all(|(&(kind, rank), &v)| {
            let (elem, dims) = cx.shape(v);
            let wanted = match kind {
                'r' => T::ELEM.real_part(),
                'c' if T::ELEM.real_part() == ElementType::F32 => ElementType::C64,
                'c' => ElementType::C128,
                'i' => ElementType::I32,
                _ => T::ELEM,
            };
            elem == wanted && dims.len() == batch + rank && dims.starts_with(lead)
        })
}

/// The step of a LAPACK routine, named without the letter of its number type.
fn routine_of<T: Field>(cx: &mut Lower<'_>, op: OpId, routine: &str) -> Result<bool, String>
where
    Complex<T::Real>: Field<Real = T::Real>,
{
    let data = cx.module.op(op);
    let config = |name: &str| data.entry("mhlo.backend_config", name).unwrap_or(0);
    let is = |name: &str, letter: char| config(name) == i64::from(u32::from(letter));
    let dims = cx.shape(data.operands()[0]).1;
    let triangle = Triangle::lower_if(is("uplo", 'L'));
    let rank_of_first = if matches!(routine, "gtsv" | "tridiagonal_solve_perturbed_ffi") { 1 } else { 2 };
    let Some(batch) = dims.len().checked_sub(rank_of_first) else { return Ok(false) };
    let fits = |signature: &str| fits::<T>(cx, data, batch, signature);
    let size = sides(&dims).unwrap_or_default();
    let of = PhantomData::<T>;
    let reflect = |what: Reflect| Reflection { what, size, of };
    let count = dims[..batch].iter().product::<i64>() as usize;
    let is_large = blocks::is_large(count, size);
    match routine {
        "potrf" if fits("x2 x2 i0") && is_large => blocks::cholesky::<T>(cx, op, size[1], triangle),
        "getrf" if fits("x2 x2 i1 i0") && is_large => blocks::lu::<T>(cx, op, size),
        "geqrf" | "Qr" if fits("x2 x2 x1") && is_large => blocks::qr::<T>(cx, op, size),
        "potrf" if fits("x2 x2 i0") => stack(cx, op, batch, Cholesky { n: size[1], triangle, of }),
        "getrf" if fits("x2 x2 i1 i0") => stack(cx, op, batch, Lu { size, of }),
        "trsm" if fits("x2 x2 x2") => {
            let system = System {
                left: is("side", 'L'),
                triangle,
                diagonal: if is("diag", 'U') { Diagonal::Ones } else { Diagonal::Stored },
                transpose: match () {
                    _ if is("trans_x", 'T') => Transpose::Yes,
                    _ if is("trans_x", 'C') => Transpose::Adjoint,
                    _ => Transpose::No,
                },
            };
            solution_of::<T>(cx, op, system)
        }
        "geqrf" | "Qr" if fits("x2 x2 x1") => stack(cx, op, batch, reflect(Reflect::Qr)),
        "orgqr" | "ungqr" | "ProductOfElementaryHouseholderReflectors" if fits("x2 x1 x2") => {
            let reflectors = cx.shape(data.operands()[1]).1[batch] as usize;
            if is_large && reflectors > 0 {
                return blocks::product::<T>(cx, op, size, reflectors);
            }
            stack(cx, op, batch, reflect(Reflect::Product))
        }
        "ormqr" | "unmqr" if fits("x2 x1 x2 x2") => {
            let c = sides(&cx.shape(data.operands()[2]).1).unwrap_or_default();
            let what = Reflect::Multiply { left: config("left") != 0, adjoint: config("transpose") != 0, size: c };
            stack(cx, op, batch, reflect(what))
        }
        "geqp3" if fits("x2 i1 x2 i1 x1") => stack(cx, op, batch, reflect(Reflect::PivotedQr)),
        "gehrd" if fits("x2 x2 x1 i0") && config("low") == 1 && config("high") == size[1] as i64 => {
            stack(cx, op, batch, reflect(Reflect::Hessenberg))
        }
        "sytrd" | "hetrd" if fits("x2 x2 r1 r1 x1 i0") => stack(cx, op, batch, reflect(Reflect::Tridiagonal(triangle))),
        "gees" if fits("x2 x2 x2 x1 i0 i0") || fits("x2 x2 x2 x1 x1 i0 i0") => {
            stack(cx, op, batch, Schur { n: size[1], of })
        }
        "gtsv" if fits("x1 x1 x1 x2 x1 x1 x1 x2 i0") => {
            let size = sides(&cx.shape(data.operands()[3]).1).unwrap_or_default();
            stack(cx, op, batch, Tridiagonal { size, singular: Singular::Report, of })
        }
        "tridiagonal_solve_perturbed_ffi" if fits("x1 x1 x1 x2 x2") => {
            let size = sides(&cx.shape(data.operands()[3]).1).unwrap_or_default();
            stack(cx, op, batch, Tridiagonal { size, singular: Singular::Perturb, of })
        }
        "syevd" | "heevd" if fits("x2 x2 r1 i0") => {
            // Eigenvalues alone are much less work.
            let is_used = !cx.module.value(data.results()[0]).uses().is_empty();
            let vectors = if is_used { Vectors::Full } else { Vectors::None };
            stack(cx, op, batch, SelfAdjoint { n: size[1], triangle, vectors, of })
        }
        "gesdd" | "gesvd" if fits("x2 x2 r1 x2 x2 i0") => {
            let is_used = |i: usize| !cx.module.value(data.results()[i]).uses().is_empty();
            let vectors = match () {
                _ if is("mode", 'N') || !(is_used(2) || is_used(3)) => Vectors::None,
                _ if is("mode", 'A') => Vectors::Full,
                _ => Vectors::Thin,
            };
            stack(cx, op, batch, eigen::Singular { size, vectors, of })
        }
        "geev" if fits("x2 x1 c2 c2 i0") || fits("x2 x1 x1 c2 c2 i0") => {
            let first = data.results().len() - 3;
            let is_used = |i: usize| !cx.module.value(data.results()[first + i]).uses().is_empty();
            let (left, right) = (is("compute_left", 'V') && is_used(0), is("compute_right", 'V') && is_used(1));
            stack(cx, op, batch, General { n: size[1], left, right, of })
        }
        _ => Ok(false),
    }
}
