//! Schur forms and eigenvectors of general matrices.

use super::matrix::Matrix;
use super::reflectors::{hessenberg, q_of, qr, unpacked};
use super::special::Cplx;

const EPSILON: f64 = f64::EPSILON;

/// `a = Z T Z*` with a triangular `T` and a unitary `Z`, as `(T, Z)`: QR steps with Wilkinson's shift. None if they do not
/// converge.
pub(crate) fn schur(a: &Matrix) -> Option<(Matrix, Matrix)> {
    let n = a.rows;
    let mut packed = a.clone();
    let taus = hessenberg(&mut packed);
    let (mut z, mut t) = unpacked(&packed, &taus);
    let (mut last, mut steps) = (n, 0);
    while last > 1 {
        let hi = last - 1;
        // The active block ends at `hi` and starts where the subdiagonal is zero.
        let is_small = |l: usize| t[(l, l - 1)].abs() <= EPSILON * (t[(l, l)].abs() + t[(l - 1, l - 1)].abs());
        let lo = (1..=hi).rev().find(|&l| is_small(l)).unwrap_or(0);
        if lo > 0 {
            t[(lo, lo - 1)] = Cplx::ZERO;
        }
        if lo == hi {
            (last, steps) = (hi, 0);
            continue;
        }
        steps += 1;
        if steps > 300 {
            return None;
        }
        let shift = if steps % 10 == 0 { Cplx::new(t[(hi, hi - 1)].abs(), 0.0) } else { wilkinson(&t, hi) };
        // A QR step of the block, T - shift = Q R and T := R Q + shift, applied to the whole by rotations.
        (lo..=hi).for_each(|k| t[(k, k)] = t[(k, k)] - shift);
        let mut rotations = vec![];
        for k in lo..hi {
            let (a, b) = (t[(k, k)], t[(k + 1, k)]);
            let length = (a.norm2() + b.norm2()).sqrt();
            let (c, s) =
                if length == 0.0 { (Cplx::ONE, Cplx::ZERO) } else { (a.scale(1.0 / length), b.scale(1.0 / length)) };
            for j in k..n {
                let (x, y) = (t[(k, j)], t[(k + 1, j)]);
                t[(k, j)] = c.conj() * x + s.conj() * y;
                t[(k + 1, j)] = c * y - s * x;
            }
            rotations.push((k, c, s));
        }
        for (k, c, s) in rotations {
            let turn = |m: &mut Matrix, i: usize| {
                let (x, y) = (m[(i, k)], m[(i, k + 1)]);
                m[(i, k)] = x * c + y * s;
                m[(i, k + 1)] = y * c.conj() - x * s.conj();
            };
            (0..=hi.min(k + 1)).for_each(|i| turn(&mut t, i));
            (0..n).for_each(|i| turn(&mut z, i));
        }
        (lo..=hi).for_each(|k| t[(k, k)] = t[(k, k)] + shift);
    }
    let t = Matrix::new(n, n, |i, j| if i > j { Cplx::ZERO } else { t[(i, j)] });
    Some((t, z))
}

/// The eigenvalue of the last two rows and columns up to `hi` that is nearer to the last element.
fn wilkinson(t: &Matrix, hi: usize) -> Cplx {
    let (a, b, c, d) = (t[(hi - 1, hi - 1)], t[(hi - 1, hi)], t[(hi, hi - 1)], t[(hi, hi)]);
    let half = (a - d).scale(0.5);
    let root = (half * half + b * c).sqrt();
    let (one, two) = (d + half + root, d + half - root);
    if (one - d).abs() < (two - d).abs() { one } else { two }
}

/// The real Schur form of a real matrix, `(T, Z)`: `T` has blocks of order 2 on its diagonal for pairs of complex
/// eigenvalues, with equal diagonal elements. An eigenvector, or the plane of two, is split off at a time.
pub(crate) fn real_schur(a: &Matrix) -> Option<(Matrix, Matrix)> {
    let n = a.rows;
    let (mut t, mut z) = (a.clone(), Matrix::identity(n, n));
    let mut first = 0;
    while first < n {
        let rest = t.block(first..n, first..n);
        let (_, vectors) = schur(&rest)?;
        // The first Schur vector is an eigenvector; turned so that its largest element is real.
        let mut columns = vec![vectors.block(0..rest.rows, 0..1)];
        normalize(&mut columns);
        let v = &columns[0];
        let is_real = v.values.iter().map(|x| x.im * x.im).sum::<f64>().sqrt() < 1e-7;
        let plane = if is_real { 1 } else { 2 };
        let part = |i: usize, j: usize| Cplx::new(if j == 0 { v[(i, 0)].re } else { v[(i, 0)].im }, 0.0);
        let mut basis = Matrix::new(rest.rows, plane, part);
        let taus = qr(&mut basis);
        turn(&mut t, &mut z, first, &q_of(&basis, &taus, rest.rows));
        if plane == 2 {
            let rotation = standard(&t.block(first..first + 2, first..first + 2));
            turn(&mut t, &mut z, first, &rotation);
        }
        let is_block = plane == 2 && t[(first + 1, first)].re != 0.0;
        for i in first + 1..n {
            for j in first..first + plane {
                if i >= first + plane || (i > j && !is_block) {
                    t[(i, j)] = Cplx::ZERO;
                }
            }
        }
        if is_block {
            // Equal up to rounding; a pair of eigenvalues has one real part.
            let mean = (t[(first, first)] + t[(first + 1, first + 1)]).scale(0.5);
            (t[(first, first)], t[(first + 1, first + 1)]) = (mean, mean);
        }
        first += plane;
    }
    Some((t, z))
}

/// `T := Q* T Q` and `Z := Z Q`, with `q` in the rows and columns from `first` on.
fn turn(t: &mut Matrix, z: &mut Matrix, first: usize, q: &Matrix) {
    let n = t.rows;
    let inside = |i: usize| (first..first + q.rows).contains(&i);
    let whole = Matrix::new(n, n, |i, j| match (inside(i) && inside(j), i == j) {
        (true, _) => q[(i - first, j - first)],
        (false, true) => Cplx::ONE,
        (false, false) => Cplx::ZERO,
    });
    *t = whole.adjoint().times(t).times(&whole);
    *z = z.times(&whole);
}

/// The rotation that gives a real matrix of order 2 equal diagonal elements, or makes it triangular if its eigenvalues
/// are real.
fn standard(m: &Matrix) -> Matrix {
    let (a, b, c, d) = (m[(0, 0)].re, m[(0, 1)].re, m[(1, 0)].re, m[(1, 1)].re);
    let (half, product) = ((a - d) / 2.0, b * c);
    let angle = match half * half + product {
        root if root < 0.0 => f64::atan2(d - a, b + c) / 2.0,
        // The direction of an eigenvector.
        root => {
            let value = (a + d) / 2.0 + root.sqrt().copysign(half);
            if c.abs() > b.abs() { f64::atan2(c, value - d) } else { f64::atan2(value - a, b) }
        }
    };
    let (sin, cos) = angle.sin_cos();
    let values = [cos, -sin, sin, cos].map(|v| Cplx::new(v, 0.0)).to_vec();
    Matrix { rows: 2, columns: 2, values }
}

/// The eigenvalues on the diagonal of a (real or complex) Schur form.
pub(crate) fn eigenvalues(t: &Matrix) -> Vec<Cplx> {
    let n = t.rows;
    let mut out = vec![];
    while out.len() < n {
        let k = out.len();
        if k + 1 < n && t[(k + 1, k)] != Cplx::ZERO {
            let im = (t[(k, k + 1)].re.abs() * t[(k + 1, k)].re.abs()).sqrt();
            out.extend([Cplx::new(t[(k, k)].re, im), Cplx::new(t[(k, k)].re, -im)]);
        } else {
            out.push(t[(k, k)]);
        }
    }
    out
}

/// Which eigenvectors.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Side {
    /// `u* A = value u*`.
    Left,
    /// `A v = value v`.
    Right,
}

/// The eigenvectors of `a` for these eigenvalues, as columns of length 1 whose largest element is real; none if a Schur
/// form cannot be found.
pub(crate) fn eigenvectors(a: &Matrix, values: &[Cplx], side: Side) -> Option<Matrix> {
    let n = a.rows;
    let (a, values): (Matrix, Vec<Cplx>) = match side {
        Side::Right => (a.clone(), values.to_vec()),
        Side::Left => (a.adjoint(), values.iter().map(|v| v.conj()).collect()),
    };
    let (t, z) = schur(&a)?;
    let size = t.values.iter().map(|v| v.abs()).fold(0.0, f64::max).max(f64::MIN_POSITIVE);
    let mut is_taken = vec![false; n];
    let mut columns = vec![];
    for (i, &value) in values.iter().enumerate() {
        // A pair of conjugate eigenvalues of a real matrix has conjugate vectors.
        if i > 0 && value.im != 0.0 && values[i - 1] == value.conj() && a.values.iter().all(|v| v.im == 0.0) {
            let before: &Matrix = &columns[i - 1];
            columns.push(Matrix::new(n, 1, |r, _| before[(r, 0)].conj()));
            if let Some(k) = nearest(&t, value, &is_taken) {
                is_taken[k] = true;
            }
            continue;
        }
        let k = nearest(&t, value, &is_taken)?;
        is_taken[k] = true;
        // T x = t[k] x, with x[k] = 1 and nothing after it.
        let mut x = Matrix::zeros(n, 1);
        x[(k, 0)] = Cplx::ONE;
        for r in (0..k).rev() {
            let sum = (r + 1..=k).fold(Cplx::ZERO, |sum, j| sum + t[(r, j)] * x[(j, 0)]);
            let gap = t[(k, k)] - t[(r, r)];
            x[(r, 0)] = sum / if gap.abs() < EPSILON * size { Cplx::new(EPSILON * size, 0.0) } else { gap };
        }
        columns.push(z.times(&x));
    }
    normalize(&mut columns);
    Some(Matrix::new(n, n, |i, j| columns[j][(i, 0)]))
}

/// The diagonal element that is nearest to `value` among those not taken.
fn nearest(t: &Matrix, value: Cplx, is_taken: &[bool]) -> Option<usize> {
    let distance = |k: usize| (t[(k, k)] - value).abs();
    (0..t.rows).filter(|&k| !is_taken[k]).min_by(|&a, &b| distance(a).total_cmp(&distance(b)))
}

/// Scales each column to length 1, and turns it so that its largest element is real.
fn normalize(columns: &mut [Matrix]) {
    for column in columns {
        let length = column.length2(0).sqrt();
        let larger = |best: Cplx, &v: &Cplx| if v.norm2() > best.norm2() { v } else { best };
        let largest = column.values.iter().fold(Cplx::ZERO, larger);
        let turn = if largest.im == 0.0 { Cplx::ONE } else { largest.conj().scale(1.0 / largest.abs()) };
        column.values.iter_mut().for_each(|v| *v = (*v * turn).scale(1.0 / length));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matrix::tests::{near, sample};

    #[test]
    fn schur_forms_give_back_the_matrix() {
        for n in [0, 1, 2, 3, 6, 9] {
            let a = sample(n, n, true);
            let (t, z) = schur(&a).unwrap();
            assert!(near(&z.times(&t).times(&z.adjoint()), &a), "{n}");
            let a = sample(n, n, false);
            let (t, z) = real_schur(&a).unwrap();
            assert!(near(&z.times(&t).times(&z.adjoint()), &a), "{n}");
            assert!(z.values.iter().chain(&t.values).all(|v| v.im == 0.0));
            for k in 1..n {
                let (a, b, c) = (t[(k, k)].re - t[(k - 1, k - 1)].re, t[(k - 1, k)].re, t[(k, k - 1)].re);
                assert!(c == 0.0 || (a == 0.0 && b * c < 0.0), "{n} {k}");
                assert!((0..k - 1).all(|j| t[(k, j)].re == 0.0), "{n} {k}");
            }
        }
    }

    #[test]
    fn eigenvectors_of_both_sides() {
        for complex in [false, true] {
            let a = sample(5, 5, complex);
            let t = if complex { schur(&a) } else { real_schur(&a) }.unwrap().0;
            let values = eigenvalues(&t);
            let diagonal = Matrix::new(5, 5, |i, j| if i == j { values[i] } else { Cplx::ZERO });
            let right = eigenvectors(&a, &values, Side::Right).unwrap();
            assert!(near(&a.times(&right), &right.times(&diagonal)));
            let left = eigenvectors(&a, &values, Side::Left).unwrap().adjoint();
            assert!(near(&left.times(&a), &diagonal.times(&left)));
        }
    }
}
