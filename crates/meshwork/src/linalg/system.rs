//! Systems of equations: LU and Cholesky factors, triangular systems, determinants.

use meshwork_ir::ElementType::{self, I32};
use meshwork_ir::build::Triangle;

use super::factor::cholesky;
use super::{adjoint, lapack, matrix, square};
use crate::Tensor;
use crate::error::fail;
use crate::ops::{arange, eye, select};
use crate::trace::compose::emit;
use crate::transform::{custom_jvp, custom_vjp};

/// `x` with `a x = b`. Like NumPy's: a vector `b` is one column, else its columns are solved for.
#[track_caller]
pub fn solve(a: &Tensor, b: &Tensor) -> Tensor {
    let n = square("solve", a);
    if b.rank() == 1 {
        return solve(a, &b.expand_dims(1)).squeeze(-1);
    }
    if b.rank() == 0 || b.dim(-2) != n || a.dtype() != b.dtype() {
        fail("solve", format!("{} with right-hand sides {}", a.describe(), b.describe()));
    }
    let batch = crate::ops::broadcast_shapes(&[&a.shape()[..a.rank() - 2], &b.shape()[..b.rank() - 2]]);
    let a = a.broadcast_to([&batch[..], &a.shape()[a.rank() - 2..]].concat());
    let b = b.broadcast_to([&batch[..], &b.shape()[b.rank() - 2..]].concat());
    custom_vjp(
        |(a, b): (Tensor, Tensor)| by_lu(&a, &b),
        |(a, _), x, dx| {
            let db = solve(&a.t(), &dx);
            (-db.matmul(x.t()), db)
        },
        (a, b),
    )
}

/// The solution by LU factors, without a derivative.
#[track_caller]
fn by_lu(a: &Tensor, b: &Tensor) -> Tensor {
    let (factors, order) = lu_packed(a);
    let rows = order.expand_dims(-1).broadcast_to(b.shape());
    let b = b.take_along(&rows, -2);
    let low = Triangle { left: true, lower: true, unit_diagonal: true };
    let y = emit("solve", &[&factors, &b], |s, v| s.triangular_solve(v[0], v[1], low, "NO_TRANSPOSE"));
    let high = Triangle { left: true, lower: false, unit_diagonal: false };
    emit("solve", &[&factors, &y], |s, v| s.triangular_solve(v[0], v[1], high, "NO_TRANSPOSE"))
}

/// Both factors in one matrix, and the order of rows: row `i` of the product is row `order[i]` of the matrix.
#[track_caller]
fn lu_packed(a: &Tensor) -> (Tensor, Tensor) {
    let &[ref batch @ .., rows, columns] = a.shape() else { fail("lu", format!("{} is no matrix", a.describe())) };
    let few = rows.min(columns);
    let results = vec![(a.dtype(), a.shape().to_vec()), (I32, [batch, &[few]].concat()), (I32, batch.to_vec())];
    let out = lapack::call("getrf", &[a], &[], results);
    let (factors, swaps) = (&out[0], &out[1] - 1);
    // The swaps of rows, one after the other.
    let mut order = arange(rows, I32).broadcast_to([batch, &[rows]].concat());
    let at = arange(rows, I32);
    let rank = order.rank();
    order = crate::control::for_loop(0..few, order, |i, order| {
        let other = swaps.dynamic_slice_in_dim(&i, 1, -1);
        let mine = order.dynamic_slice_in_dim(&i, 1, -1);
        let theirs = order.take_along(&other, rank as i64 - 1);
        let here = at.eq(&i).broadcast_to(order.shape());
        let there = at.eq(&other);
        let moved = select(there, mine, &order);
        select(here, theirs, moved)
    });
    // A factor that failed is NaN.
    let good = out[2].ge(0).reshape([batch, &[1, 1]].concat());
    (select(good, factors, f64::NAN), order)
}

/// Factors `(p, l, u)` with `a = p l u`: rows exchanged, lower with ones on its diagonal, upper.
#[track_caller]
pub fn lu(a: &Tensor) -> (Tensor, Tensor, Tensor) {
    matrix("lu", a);
    let (packed, order) = lu_packed(a);
    let (rows, columns) = (a.dim(-2), a.dim(-1));
    let few = rows.min(columns);
    let rank = a.rank();
    let lower = packed.narrow("lu", rank - 1, 0, few).tril(-1);
    let ones = crate::ops::iota([rows, few], I32, 0).eq(crate::ops::iota([rows, few], I32, 1));
    let lower = lower + ones.to(a.dtype());
    let upper = packed.narrow("lu", rank - 2, 0, few).triu(0);
    let exchange = order.expand_dims(-2).eq(arange(rows, I32).expand_dims(1)).to(a.dtype());
    (exchange, lower, upper)
}

/// The inverse.
#[track_caller]
pub fn inv(a: &Tensor) -> Tensor {
    let n = square("inv", a);
    solve(a, &eye(n, a.dtype()).broadcast_to(a.shape()))
}

/// The sign (for complex numbers the direction) of the determinant, and the logarithm of its magnitude.
#[track_caller]
pub fn slogdet(a: &Tensor) -> (Tensor, Tensor) {
    square("slogdet", a);
    custom_jvp(
        |a: Tensor| {
            let (sign, diagonal) = lu_diagonal(&a);
            let size = diagonal.abs();
            let direction = if a.dtype().is_complex() { &diagonal / size.to(a.dtype()) } else { diagonal.sign() };
            (sign * direction.prod(&[-1]), size.log().sum(&[-1]))
        },
        |a, (sign, _), da| {
            let rate = solve(&a, &da).trace();
            match rate.dtype().is_complex() {
                true => (sign * rate.imag().zeros_like().complex(rate.imag()), rate.real()),
                false => (sign.zeros_like(), rate),
            }
        },
        a.clone(),
    )
}

/// The determinant.
#[track_caller]
pub fn det(a: &Tensor) -> Tensor {
    square("det", a);
    custom_jvp(
        |a: Tensor| {
            let (sign, diagonal) = lu_diagonal(&a);
            sign * diagonal.prod(&[-1])
        },
        |a, y, da| y * solve(&a, &da).trace(),
        a.clone(),
    )
}

/// The sign of the exchange of rows, and the diagonal of the upper factor.
#[track_caller]
fn lu_diagonal(a: &Tensor) -> (Tensor, Tensor) {
    let (packed, order) = lu_packed(a);
    let n = a.dim(-1);
    // Pairs of rows in the wrong order.
    let later = crate::ops::iota([n, n], I32, 0).lt(crate::ops::iota([n, n], I32, 1));
    let wrong = order.expand_dims(-1).gt(order.expand_dims(-2)) & later;
    let odd = wrong.to(I32).sum(&[-1, -2]).rem(2).eq(1);
    let one = packed.diagonal(0).prod(&[-1]).ones_like();
    (select(odd, -&one, one), packed.diagonal(0))
}

/// `x` with `a x = b` where the lower triangle of `a` counts, or else the upper one.
#[track_caller]
pub fn solve_triangular(a: &Tensor, b: &Tensor, lower: bool) -> Tensor {
    square("solve_triangular", a);
    if b.rank() + 1 == a.rank() {
        return solve_triangular(a, &b.expand_dims(-1), lower).squeeze(-1);
    }
    let shape = Triangle { left: true, lower, unit_diagonal: false };
    let b = b.broadcast_to([&a.shape()[..a.rank() - 2], &b.shape()[b.rank() - 2..]].concat());
    emit("solve_triangular", &[a, &b], |s, v| s.triangular_solve(v[0], v[1], shape, "NO_TRANSPOSE"))
}

/// The lower Cholesky factor, for [`cho_solve`].
#[track_caller]
pub fn cho_factor(a: &Tensor) -> Tensor {
    cholesky(a)
}

/// `x` with `l l^H x = b`, where `l` is a lower Cholesky factor.
#[track_caller]
pub fn cho_solve(l: &Tensor, b: &Tensor) -> Tensor {
    let y = solve_triangular(l, b, true);
    solve_triangular(&adjoint(l), &y, false)
}

/// The element type of singular values and eigenvalues of self-adjoint matrices of `elem`.
pub(super) fn real(elem: ElementType) -> ElementType {
    elem.real_part()
}
