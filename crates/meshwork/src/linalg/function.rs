//! Norms, least squares, and functions of matrices.

use super::factor::{svd, svdvals};
use super::system::solve;
use super::{adjoint, square};
use crate::ElementType::I32;
use crate::Tensor;
use crate::control::for_loop;
use crate::error::fail;
use crate::ops::{eye, select};

/// The Euclidean norm over `axes`, which go away.
#[track_caller]
pub fn norm(x: &Tensor, axes: &[i64]) -> Tensor {
    if x.dtype().is_complex() {
        return (x.real().square() + x.imag().square()).sum(axes).sqrt();
    }
    x.square().sum(axes).sqrt()
}

/// The norm of order `p` along `axis`, which goes away: infinite, 0 (how many are not 0), or the root of order `p` of the
/// sum of powers.
#[track_caller]
pub fn norm_by(x: &Tensor, p: f64, axis: i64) -> Tensor {
    let size = x.abs();
    match p {
        f64::INFINITY => size.max(&[axis]),
        f64::NEG_INFINITY => size.min(&[axis]),
        0.0 => size.ne(0).to(size.dtype()).sum(&[axis]),
        1.0 => size.sum(&[axis]),
        2.0 => norm(x, &[axis]),
        _ => size.pow(p).sum(&[axis]).pow(1.0 / p),
    }
}

/// A norm of the matrices in the last two dimensions: `"fro"`, `"nuc"`, `"2"` (the largest singular value), `"1"` (the
/// largest sum of a column) or `"inf"` (of a row).
#[track_caller]
pub fn matrix_norm(a: &Tensor, which: &str) -> Tensor {
    match which {
        "fro" => norm(a, &[-2, -1]),
        "nuc" => svdvals(a).sum(&[-1]),
        "2" => svdvals(a).max(&[-1]),
        "1" => a.abs().sum(&[-2]).max(&[-1]),
        "inf" => a.abs().sum(&[-1]).max(&[-1]),
        _ => fail("matrix_norm", format!("\"{which}\" is not one of \"fro\", \"nuc\", \"2\", \"1\" and \"inf\"")),
    }
}

/// Singular values below this count as 0, as in NumPy: the largest times the type's precision and the larger extent.
#[track_caller]
fn cutoff(a: &Tensor, s: &Tensor) -> Tensor {
    let precision = crate::ops::finfo(s.dtype()).epsilon();
    let extent = a.dim(-1).max(a.dim(-2)) as f64;
    s.max(&[-1]) * (precision * extent)
}

/// One over the singular values that count, else 0.
#[track_caller]
fn inverted(a: &Tensor, s: &Tensor) -> Tensor {
    let counts = s.gt(cutoff(a, s).expand_dims(-1));
    select(&counts, select(&counts, s, 1).recip(), 0)
}

/// The smallest `x` with the smallest `|a x - b|`: least squares. The columns of `b` are solved for.
#[track_caller]
pub fn lstsq(a: &Tensor, b: &Tensor) -> Tensor {
    let (u, s, vh) = svd(a);
    let inverse = inverted(a, &s).to(a.dtype()).expand_dims(-1);
    adjoint(&vh).matmul(inverse * adjoint(&u).matmul(b))
}

/// The pseudoinverse.
#[track_caller]
pub fn pinv(a: &Tensor) -> Tensor {
    let (u, s, vh) = svd(a);
    let inverse = inverted(a, &s).to(a.dtype()).expand_dims(-2);
    (adjoint(&vh) * inverse).matmul(adjoint(&u))
}

/// How many singular values are not 0, but for rounding; `i32`.
#[track_caller]
pub fn matrix_rank(a: &Tensor) -> Tensor {
    let s = svdvals(a);
    s.gt(cutoff(a, &s).expand_dims(-1)).to(I32).sum(&[-1])
}

/// The product of matrices, in the order with the fewest operations.
#[track_caller]
pub fn multi_dot(matrices: &[&Tensor]) -> Tensor {
    let Some((first, rest)) = matrices.split_first() else { fail("multi_dot", "no matrices given") };
    if rest.is_empty() {
        return (*first).clone();
    }
    let sizes: Vec<i64> = std::iter::once(first.dim(0)).chain(matrices.iter().map(|m| m.dim(-1))).collect();
    let count = matrices.len();
    // The cheapest cost of each run of matrices, and where to cut it.
    let mut cost = vec![vec![0i64; count]; count];
    let mut cut = vec![vec![0usize; count]; count];
    for length in 1..count {
        for i in 0..count - length {
            let j = i + length;
            let price = |k: usize| cost[i][k] + cost[k + 1][j] + sizes[i] * sizes[k + 1] * sizes[j + 1];
            let best = (i..j).min_by_key(|&k| price(k)).unwrap_or(i);
            (cost[i][j], cut[i][j]) = (price(best), best);
        }
    }
    product(matrices, &cut, 0, count - 1)
}

#[track_caller]
fn product(matrices: &[&Tensor], cut: &[Vec<usize>], i: usize, j: usize) -> Tensor {
    if i == j {
        return matrices[i].clone();
    }
    let k = cut[i][j];
    product(matrices, cut, i, k).matmul(product(matrices, cut, k + 1, j))
}

/// The matrices multiplied `n` times with themselves; the inverses for negative `n`.
#[track_caller]
pub fn matrix_power(a: &Tensor, n: i64) -> Tensor {
    let size = square("matrix_power", a);
    let mut base = if n < 0 { super::inv(a) } else { a.clone() };
    let mut rest = n.unsigned_abs();
    let mut out: Option<Tensor> = None;
    while rest > 0 {
        if rest % 2 == 1 {
            out = Some(out.map_or(base.clone(), |x| x.matmul(&base)));
        }
        rest /= 2;
        if rest > 0 {
            base = base.matmul(&base);
        }
    }
    out.unwrap_or_else(|| eye(size, a.dtype()).broadcast_to(a.shape()))
}

/// The exponential of square matrices: a quotient of polynomials of the matrix, scaled down by up to `2^16` and squared
/// again as often.
#[track_caller]
pub fn expm(a: &Tensor) -> Tensor {
    let n = square("expm", a);
    let size = a.abs().sum(&[-2]).max(&[-1]).stop_gradient();
    // Halvings until the norm is below the limit of the approximation.
    let halvings = (size / 5.37).log2().floor().clamp(0.0, 16.0);
    let halvings = select(halvings.is_nan(), 0, halvings).expand_dims(-1).expand_dims(-1);
    let a = a / halvings.exp2().to(a.dtype());
    let b = [
        64764752532480000.0,
        32382376266240000.0,
        7771770303897600.0,
        1187353796428800.0,
        129060195264000.0,
        10559470521600.0,
        670442572800.0,
        33522128640.0,
        1323241920.0,
        40840800.0,
        960960.0,
        16380.0,
        182.0,
        1.0,
    ]
    // The largest would not fit in f32 together with powers of the matrix.
    .map(|c: f64| c / 64764752532480000.0);
    let one = eye(n, a.dtype());
    let a2 = a.matmul(&a);
    let a4 = a2.matmul(&a2);
    let a6 = a4.matmul(&a2);
    let high = a6.matmul(&a6 * b[13] + &a4 * b[11] + &a2 * b[9]);
    let odd = a.matmul(high + &a6 * b[7] + &a4 * b[5] + &a2 * b[3] + &one * b[1]);
    let high = a6.matmul(&a6 * b[12] + &a4 * b[10] + &a2 * b[8]);
    let even = high + &a6 * b[6] + &a4 * b[4] + &a2 * b[2] + &one * b[0];
    let quotient = solve(&(&even - &odd), &(even + odd));
    for_loop(0..16, quotient, |i, r| {
        let again = halvings.gt(i.to(halvings.dtype()));
        select(again, r.matmul(&r), &r)
    })
}
