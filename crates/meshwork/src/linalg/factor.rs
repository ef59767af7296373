//! Factors of matrices: Cholesky, QR, singular values, eigenvalues.

use meshwork_ir::ElementType::{C64, C128, F32, I32};
use meshwork_ir::build::Half;

use super::system::{real, solve_triangular};
use super::{adjoint, lapack, matrix, square};
use crate::Tensor;
use crate::ops::eye;
use crate::trace::compose::emit;
use crate::transform::custom_jvp;

/// The lower triangular `l` with `l l^H = a`, of the mean of `a` and its adjoint. NaN where `a` is not positive definite.
#[track_caller]
pub fn cholesky(a: &Tensor) -> Tensor {
    square("cholesky", a);
    let even = (a + adjoint(a)) * 0.5;
    emit("cholesky", &[&even], |b, v| b.cholesky(v[0], Half::Lower)).tril(0)
}

/// Factors `(q, r)` of `[m, n]` matrices with `a = q r`: `q` of `min(m, n)` orthogonal columns, `r` upper triangular.
#[track_caller]
pub fn qr(a: &Tensor) -> (Tensor, Tensor) {
    matrix("qr", a);
    custom_jvp(
        |a: Tensor| {
            let shape = a.shape().to_vec();
            let (batch, [m, n]) = (&shape[..shape.len() - 2], [a.dim(-2), a.dim(-1)]);
            let few = m.min(n);
            let results = vec![(a.dtype(), shape.clone()), (a.dtype(), [batch, &[few]].concat())];
            let out = lapack::call("geqrf", &[&a], &[], results);
            let r = out[0].narrow("qr", shape.len() - 2, 0, few).triu(0);
            let reflectors = out[0].narrow("qr", shape.len() - 1, 0, few);
            let name = if a.dtype().is_complex() { "ungqr" } else { "orgqr" };
            let wanted = vec![(a.dtype(), reflectors.shape().to_vec())];
            let q = lapack::call(name, &[&reflectors, &out[1]], &[], wanted).remove(0);
            (q, r)
        },
        |_, (q, r), da| {
            if r.dim(-1) > r.dim(-2) {
                crate::error::fail("qr", "the derivative needs at least as many rows as columns");
            }
            // x r = da for x, by the transposed system.
            let scaled = solve_triangular(&r.t(), &da.t(), true).t();
            let inner = adjoint(&q).matmul(&scaled);
            let lower = inner.tril(-1);
            let mut turn = &lower - adjoint(&lower);
            if inner.dtype().is_complex() {
                let diagonal = inner.diagonal(0);
                let phase = diagonal.imag().zeros_like().complex(diagonal.imag());
                turn += phase.diag_embed(0);
            }
            let dq = q.matmul(&turn - &inner) + scaled;
            let dr = (inner - turn).matmul(&r);
            (dq, dr)
        },
        a.clone(),
    )
}

/// Factors `(u, s, vh)` of `[m, n]` matrices with `a = u diag(s) vh`: the singular values `s`, largest first, and
/// `min(m, n)` columns of `u` and rows of `vh`.
#[track_caller]
pub fn svd(a: &Tensor) -> (Tensor, Tensor, Tensor) {
    matrix("svd", a);
    custom_jvp(
        |a: Tensor| {
            let shape = a.shape().to_vec();
            let (batch, [m, n]) = (&shape[..shape.len() - 2], [a.dim(-2), a.dim(-1)]);
            let few = m.min(n);
            let of = |dims: &[i64]| [batch, dims].concat();
            let results = vec![
                (a.dtype(), shape.clone()),
                (real(a.dtype()), of(&[few])),
                (a.dtype(), of(&[m, few])),
                (a.dtype(), of(&[few, n])),
                (I32, batch.to_vec()),
            ];
            let out = lapack::call("gesdd", &[&a], &[("mode", 'S')], results);
            (out[2].clone(), out[1].clone(), out[3].clone())
        },
        |a, (u, s, vh), da| svd_rule(&a, &u, &s, &vh, &da),
        a.clone(),
    )
}

#[track_caller]
fn svd_rule(a: &Tensor, u: &Tensor, s: &Tensor, vh: &Tensor, da: &Tensor) -> (Tensor, Tensor, Tensor) {
    let (uh, v) = (adjoint(u), adjoint(vh));
    let inner = uh.matmul(da).matmul(&v);
    let diagonal = inner.diagonal(0);
    let ds = if inner.dtype().is_complex() { diagonal.real() } else { diagonal };
    let wide = s.to(a.dtype());
    let (columns, rows) = (wide.expand_dims(-2), wide.expand_dims(-1));
    let one = eye(s.dim(-1), a.dtype());
    let distance = (&columns + &rows) * (&columns - &rows);
    let quotient = (distance + &one).recip() - &one;
    let by_columns = &columns * &inner;
    let by_rows = rows * &inner;
    let zero = s.eq(0).to(a.dtype());
    let inverse = (&wide + &zero).recip() - zero;
    let turn = (&inner - adjoint(&inner)) * inverse.diag_embed(0) * 0.5;
    let mut du = u.matmul(&quotient * (&by_columns + adjoint(&by_columns)) + turn);
    let mut dv = v.matmul(quotient * (&by_rows + adjoint(&by_rows)));
    if a.dim(-2) > a.dim(-1) {
        let moved = da.matmul(&v);
        du += (&moved - u.matmul(uh.matmul(&moved))) / &columns;
    }
    if a.dim(-1) > a.dim(-2) {
        let moved = adjoint(da).matmul(u);
        dv += (&moved - v.matmul(vh.matmul(&moved))) / &columns;
    }
    (du, ds, adjoint(&dv))
}

/// The singular values, largest first.
#[track_caller]
pub fn svdvals(a: &Tensor) -> Tensor {
    svd(a).1
}

/// The eigenvalues of self-adjoint matrices, ascending, and the eigenvectors as columns. The lower triangle counts.
#[track_caller]
pub fn eigh(a: &Tensor) -> (Tensor, Tensor) {
    square("eigh", a);
    let lower = a.tril(-1);
    let diagonal = a.diagonal(0);
    let diagonal = if a.dtype().is_complex() { diagonal.real().to(a.dtype()) } else { diagonal };
    let even = &lower + adjoint(&lower) + diagonal.diag_embed(0);
    custom_jvp(
        |a: Tensor| {
            let shape = a.shape().to_vec();
            let batch = &shape[..shape.len() - 2];
            let n = a.dim(-1);
            let results =
                vec![(a.dtype(), shape.clone()), (real(a.dtype()), [batch, &[n]].concat()), (I32, batch.to_vec())];
            let name = if a.dtype().is_complex() { "heevd" } else { "syevd" };
            let out = lapack::call(name, &[&a], &[("mode", 'V'), ("uplo", 'L')], results);
            (out[1].clone(), out[0].clone())
        },
        |a, (w, v), da| {
            let wide = w.to(a.dtype());
            let one = eye(w.dim(-1), a.dtype());
            let quotient = (wide.expand_dims(-2) - wide.expand_dims(-1) + &one).recip() - one;
            let inner = adjoint(&v).matmul(&da).matmul(&v);
            let diagonal = inner.diagonal(0);
            let dw = if inner.dtype().is_complex() { diagonal.real() } else { diagonal };
            (dw, v.matmul(quotient * inner))
        },
        even,
    )
}

/// The eigenvalues of self-adjoint matrices, ascending.
#[track_caller]
pub fn eigvalsh(a: &Tensor) -> Tensor {
    eigh(a).0
}

/// The eigenvalues of any square matrices, complex and in no order, and the eigenvectors as columns. Without a derivative.
#[track_caller]
pub fn eig(a: &Tensor) -> (Tensor, Tensor) {
    let n = square("eig", a);
    let shape = a.shape().to_vec();
    let batch = &shape[..shape.len() - 2];
    let complex = if real(a.dtype()) == F32 { C64 } else { C128 };
    let vector = [batch, &[n]].concat();
    let mut results = vec![(a.dtype(), vector.clone())];
    if !a.dtype().is_complex() {
        results.push((a.dtype(), vector));
    }
    results.extend([(complex, shape.clone()), (complex, shape.clone()), (I32, batch.to_vec())]);
    let out = lapack::call("geev", &[a], &[("compute_left", 'N'), ("compute_right", 'V')], results);
    match a.dtype().is_complex() {
        true => (out[0].clone(), out[2].clone()),
        false => (out[0].complex(&out[1]), out[3].clone()),
    }
}

/// The eigenvalues of any square matrices, complex and in no order. Without a derivative.
#[track_caller]
pub fn eigvals(a: &Tensor) -> Tensor {
    eig(a).0
}
