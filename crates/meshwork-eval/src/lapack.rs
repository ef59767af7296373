//! The LAPACK routines that JAX calls on CPUs, on stacks of matrices, and the calls that other platforms have for some.
//!
//! Reflectors, packed factors, row swaps and failure codes are as LAPACK has them. A problem with an element that is not
//! finite counts as one that does not converge: its failure code is 1, its results are NaN.

use super::fault::Fault;
use super::linalg::{Transpose, Triangular, factor, solution};
use super::matrix::{self, Matrix, Triangle};
use super::nums::{tensor, to_complex};
use super::reflectors::{hessenberg, pivoted_qr, q_of, qr};
use super::schur::{Side, eigenvalues, eigenvectors, real_schur, schur};
use super::special::Cplx;
use meshwork_ir::{Literal, Module, Op, Scalar};

/// The elements of one result for one matrix of the stack.
type Values = Vec<Cplx>;

/// Runs the custom call of `target` if it is a routine of linear algebra.
pub(crate) fn call(module: &Module, op: &Op, target: &str, args: &[&Literal]) -> Option<Result<Vec<Literal>, Fault>> {
    let routine = match target.strip_prefix("lapack_") {
        // The first letter is the element type, which the operand has too.
        Some(name) => name.strip_suffix("_ffi").unwrap_or(name).get(1..)?,
        None => target,
    };
    let is_complex = args.first()?.elem().is_complex();
    let config = |name: &str| op.entry("mhlo.backend_config", name);
    let is = |name: &str, letter: char| config(name) == Some(i64::from(u32::from(letter)));
    let triangle = Triangle::lower_if(is("uplo", 'L'));
    let run = |rank: usize, f: &dyn Fn(&[Matrix]) -> Vec<Values>| Some(stacked(module, op, args, rank, f));
    match routine {
        "potrf" => run(2, &|x| {
            let (l, failed) = factor(&x[0], triangle);
            vec![l.values, number(failed)]
        }),
        "trsm" => run(2, &|x| {
            let how = Triangular {
                left: is("side", 'L'),
                triangle,
                unit_diagonal: is("diag", 'U'),
                transpose: match () {
                    _ if is("trans_x", 'T') => Transpose::Yes,
                    _ if is("trans_x", 'C') => Transpose::Adjoint,
                    _ => Transpose::No,
                },
            };
            vec![solution(&x[0], x[1].clone(), how).values]
        }),
        "getrf" => run(2, &|x| {
            let mut a = x[0].clone();
            let (pivots, singular) = matrix::lu(&mut a);
            vec![a.values, pivots.into_iter().flat_map(|p| number(p + 1)).collect(), number(singular)]
        }),
        "geqrf" | "Qr" => run(2, &|x| {
            let mut a = x[0].clone();
            let taus = qr(&mut a);
            vec![a.values, taus]
        }),
        "orgqr" | "ungqr" | "ProductOfElementaryHouseholderReflectors" => {
            run(2, &|x| vec![q_of(&x[0], &x[1].values, x[0].columns).values])
        }
        "ormqr" | "unmqr" => run(2, &|x| {
            let q = q_of(&x[0], &x[1].values, x[0].rows);
            let q = if config("transpose") == Some(1) { q.adjoint() } else { q };
            vec![if config("left") == Some(1) { q.times(&x[2]) } else { x[2].times(&q) }.values]
        }),
        "geqp3" => run(2, &|x| {
            let mut a = x[0].clone();
            let mut order: Vec<i64> = x[1].values.iter().map(|v| v.re as i64).collect();
            let taus = pivoted_qr(&mut a, &mut order);
            vec![a.values, order.into_iter().flat_map(|p| number(p as usize)).collect(), taus]
        }),
        "gehrd" => run(2, &|x| {
            let mut a = x[0].clone();
            let taus = hessenberg(&mut a);
            vec![a.values, taus, number(0)]
        }),
        "sytrd" | "hetrd" => run(2, &|x| tridiagonal(&x[0], triangle)),
        "gtsv" => run(1, &|x| {
            let (solution, singular) = solve_tridiagonal(x, 0.0);
            let diagonals = x[..3].iter().map(|d| d.values.clone());
            diagonals.chain([solution.values, number(singular)]).collect()
        }),
        "tridiagonal_solve_perturbed_ffi" => run(1, &|x| vec![solve_tridiagonal(x, f64::EPSILON).0.values]),
        "syevd" | "heevd" => run(2, &|x| {
            let n = x[0].rows;
            let a = x[0].hermitian(triangle);
            if !is_finite(&a) {
                return vec![nans(n * n), nans(n), number(1)];
            }
            let (values, vectors) = matrix::eigh(&a);
            vec![vectors.values, reals(&values), number(0)]
        }),
        "gesdd" | "gesvd" => {
            let extent = |i: usize, from_last: usize| {
                let dims = op.results().get(i).map_or(&[][..], |&v| module.ty(v).dims());
                dims.iter().rev().nth(from_last).copied().unwrap_or(0) as usize
            };
            let basis = [extent(2, 0), extent(3, 1)];
            run(2, &|x| singular_values(&x[0], basis, !is("mode", 'N')))
        }
        "geev" => run(2, &|x| eigen(&x[0], is_complex, [is("compute_left", 'V'), is("compute_right", 'V')])),
        "gees" => run(2, &|x| schur_form(&x[0], is_complex)),
        _ if target.starts_with("lapack_") => Some(Err(Fault::unsupported(format!("custom call @{target}")))),
        _ => None,
    }
}

/// Calls `f` with one matrix of each operand after the other (a vector is one row, of which the first operand has rank
/// `rank`), and stacks what it gives for each result.
fn stacked(
    module: &Module,
    op: &Op,
    args: &[&Literal],
    rank: usize,
    f: &dyn Fn(&[Matrix]) -> Vec<Values>,
) -> Result<Vec<Literal>, Fault> {
    let first = args[0].dims();
    let wrong = |x: &Literal| Fault::invalid(format!("a {} where matrices are needed", x.ty()));
    let batch = first.len().checked_sub(rank).map(|n| &first[..n]).ok_or_else(|| wrong(args[0]))?;
    let count = batch.iter().product::<i64>() as usize;
    let mut operands = vec![];
    for x in args {
        let (rows, columns) = match x.dims().strip_prefix(batch) {
            Some(&[rows, columns]) => (rows as usize, columns as usize),
            Some(&[n]) => (1, n as usize),
            _ => return Err(wrong(x)),
        };
        operands.push((rows, columns, to_complex(x)));
    }
    let mut results = vec![vec![]; op.results().len()];
    for i in 0..count {
        let one = |(rows, columns, values): &(usize, usize, Values)| {
            let size = rows * columns;
            Matrix { rows: *rows, columns: *columns, values: values[i * size..(i + 1) * size].to_vec() }
        };
        let matrices: Vec<Matrix> = operands.iter().map(one).collect();
        for (all, part) in results.iter_mut().zip(f(&matrices)) {
            all.extend(part);
        }
    }
    let mut out = vec![];
    for (&v, values) in op.results().iter().zip(results) {
        let ty = module.ty(v).as_tensor().ok_or_else(|| Fault::invalid("a result is not a tensor"))?;
        if ty.num_elements() != Some(values.len() as i64) {
            return Err(Fault::invalid(format!("{} elements for a result {ty}", values.len())));
        }
        let scalar = |v: Cplx| match ty.elem {
            elem if elem.is_complex() => v.into(),
            elem if elem.is_float() => Scalar::Float(v.re),
            _ => Scalar::Int(v.re as i64),
        };
        out.push(tensor(&ty.dims, ty.elem, values.into_iter().map(scalar))?);
    }
    Ok(out)
}

fn number(n: usize) -> Values {
    vec![Cplx::new(n as f64, 0.0)]
}

fn reals(values: &[f64]) -> Values {
    values.iter().map(|&v| Cplx::new(v, 0.0)).collect()
}

fn nans(n: usize) -> Values {
    vec![Cplx::new(f64::NAN, f64::NAN); n]
}

fn is_finite(a: &Matrix) -> bool {
    a.values.iter().all(|v| v.re.is_finite() && v.im.is_finite())
}

/// Complex numbers as one result, or their real and imaginary parts as two.
fn apart(values: Values, is_complex: bool) -> Vec<Values> {
    if is_complex {
        return vec![values];
    }
    vec![values.iter().map(|v| Cplx::new(v.re, 0.0)).collect(), values.iter().map(|v| Cplx::new(v.im, 0.0)).collect()]
}

/// `sytrd`: packed reflectors, the diagonal, the one beside it, the reflectors' factors, and zero.
fn tridiagonal(a: &Matrix, triangle: Triangle) -> Vec<Values> {
    let n = a.rows;
    // From the other end, the upper triangle is the lower one.
    let turned = |m: &Matrix| Matrix::new(n, n, |i, j| m[(n - 1 - i, n - 1 - j)]);
    let is_upper = triangle == Triangle::Upper;
    let a = if is_upper { turned(a) } else { a.clone() };
    let mut packed = a.hermitian(Triangle::Lower);
    let mut taus = hessenberg(&mut packed);
    let mut diagonal: Values = (0..n).map(|k| Cplx::new(packed[(k, k)].re, 0.0)).collect();
    let mut beside: Values = (1..n).map(|k| packed[(k, k - 1)]).collect();
    // The other triangle stays as it is.
    let mut packed = Matrix::new(n, n, |i, j| if j > i { a[(i, j)] } else { packed[(i, j)] });
    if is_upper {
        packed = turned(&packed);
        [&mut diagonal, &mut beside, &mut taus].into_iter().for_each(|list| list.reverse());
    }
    vec![packed.values, diagonal, beside, taus, number(0)]
}

/// The solution of the system with diagonals `x[0..3]` for the columns of `x[3]`, and the first zero pivot, from 1, or 0.
/// Pivots that are smaller than `tolerance` times the largest are replaced by that.
fn solve_tridiagonal(x: &[Matrix], tolerance: f64) -> (Matrix, usize) {
    let n = x[1].columns;
    let element = |i: usize, j: usize| match (i, j) {
        _ if i == j => x[1].values[i],
        _ if i == j + 1 => x[0].values[i],
        _ if i + 1 == j => x[2].values[i],
        _ => Cplx::ZERO,
    };
    let mut lu = Matrix::new(n, n, element);
    let (pivots, singular) = matrix::lu(&mut lu);
    let most = lu.values.iter().map(|v| v.abs()).fold(0.0, f64::max);
    let least = (tolerance * most).max(if tolerance > 0.0 { f64::MIN_POSITIVE } else { 0.0 });
    for k in 0..n {
        if lu[(k, k)].abs() < least {
            lu[(k, k)] = Cplx::new(least, 0.0);
        }
    }
    let mut b = x[3].clone();
    for (i, &p) in pivots.iter().enumerate() {
        (0..b.columns).for_each(|j| (b[(i, j)], b[(p, j)]) = (b[(p, j)], b[(i, j)]));
    }
    let how = Triangular { left: true, triangle: Triangle::Lower, unit_diagonal: true, transpose: Transpose::No };
    let b = solution(&lu, b, how);
    let how = Triangular { triangle: Triangle::Upper, unit_diagonal: false, ..how };
    (solution(&lu, b, how), singular)
}

/// `gesdd`: the operand (its contents mean nothing afterwards), the singular values, `U` and `V*` with as many columns and
/// rows as `basis` says (zero if they are not wanted), and 0 for success.
fn singular_values(a: &Matrix, basis: [usize; 2], is_wanted: bool) -> Vec<Values> {
    let (m, n) = (a.rows, a.columns);
    if !is_finite(a) {
        return vec![a.values.clone(), nans(m.min(n)), nans(m * basis[0]), nans(basis[1] * n), number(1)];
    }
    let is_tall = m >= n;
    let (u, s, v) = matrix::svd(&if is_tall { a.clone() } else { a.adjoint() });
    // A wide matrix was factored as its adjoint.
    let (u, v) = if is_tall { (u, v) } else { (v, u) };
    let (left, right) = match is_wanted {
        true => (widened(&u, basis[0]).values, widened(&v, basis[1]).adjoint().values),
        false => (vec![Cplx::ZERO; m * basis[0]], vec![Cplx::ZERO; basis[1] * n]),
    };
    vec![a.values.clone(), reals(&s), left, right, number(0)]
}

/// The orthonormal columns of `m` continued to `columns` of them.
fn widened(m: &Matrix, columns: usize) -> Matrix {
    let mut out = Matrix::new(m.rows, columns, |i, j| if j < m.columns { m[(i, j)] } else { Cplx::ZERO });
    matrix::complete_basis(&mut out);
    out
}

/// The Schur form of `a` and its vectors, if all elements are finite and it converges.
fn finite_schur(a: &Matrix, is_complex: bool) -> Option<(Matrix, Matrix)> {
    let form = if is_complex { schur } else { real_schur };
    is_finite(a).then(|| form(a)).flatten()
}

/// `geev`: eigenvalues (of a real matrix their real parts, then their imaginary parts), left and right eigenvectors, and 0
/// for success. Vectors that are not wanted are zero.
fn eigen(a: &Matrix, is_complex: bool, wanted: [bool; 2]) -> Vec<Values> {
    let n = a.rows;
    let Some((t, _)) = finite_schur(a, is_complex) else {
        return apart(nans(n), is_complex).into_iter().chain([nans(n * n), nans(n * n), number(1)]).collect();
    };
    let values = eigenvalues(&t);
    let vectors = [Side::Left, Side::Right].into_iter().zip(wanted).map(|(side, wanted)| match wanted {
        true => eigenvectors(a, &values, side).map_or_else(|| nans(n * n), |m| m.values),
        false => vec![Cplx::ZERO; n * n],
    });
    let vectors: Vec<Values> = vectors.collect();
    apart(values, is_complex).into_iter().chain(vectors).chain([number(0)]).collect()
}

/// `gees`: the Schur form and its vectors, the eigenvalues as in [`eigen`], zero, and 0 for success.
fn schur_form(a: &Matrix, is_complex: bool) -> Vec<Values> {
    let n = a.rows;
    let (t, z, values, failed) = match finite_schur(a, is_complex) {
        Some((t, z)) => (t.values.clone(), z.values, eigenvalues(&t), 0),
        None => (nans(n * n), nans(n * n), nans(n), 1),
    };
    let values = apart(values, is_complex);
    [t, z].into_iter().chain(values).chain([number(0), number(failed)]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matrix(rows: usize, columns: usize, values: &[(f64, f64)]) -> Matrix {
        Matrix { rows, columns, values: values.iter().map(|&v| v.into()).collect() }
    }

    fn a() -> Matrix {
        let values = [(1., 0.), (2., 1.), (-1., 0.), (0., 3.), (1., 0.), (2., 0.), (2., 0.), (-1., 0.), (1., -1.)];
        matrix(3, 3, &values)
    }

    fn assert_near(got: &[Cplx], want: &[(f64, f64)]) {
        assert_eq!(got.len(), want.len());
        for (g, w) in got.iter().zip(want) {
            assert!((*g - (*w).into()).abs() < 1e-10, "{g:?} instead of {w:?}");
        }
    }

    // The numbers are what LAPACK gives.

    #[test]
    fn reflectors_have_the_signs_of_lapack() {
        let mut r = a();
        let taus = qr(&mut r);
        assert_near(&taus, &[(1.26726124191, 0.), (1.49957784246, -0.488338731816), (1.94335870981, 0.331774538846)]);
        let first = [(-3.74165738677, 0.), (0., 0.534522483825), (-0.267261241912, 2.1380899353)];
        assert_near(&r.values[..3], &first);
        let last = [(0.421793444119, 0.), (-0.414086959587, -0.185375461111), (-1.07683539507, 0.)];
        assert_near(&r.values[6..], &last);
        let mut h = a();
        let taus = hessenberg(&mut h);
        assert_near(&taus, &[(1., 0.832050294338), (1.18181818182, -0.983332166036)]);
        let first = [(1., 0.), (1.38675049056, -1.66410058868), (1.10940039245, -0.277350098113)];
        assert_near(&h.values[..3], &first);
        let last = [(0.327777388679, -0.272727272727), (0.538461538462, 0.), (1., 0.692307692308)];
        assert_near(&h.values[6..], &last);
    }

    #[test]
    fn tridiagonal_form_of_either_triangle() {
        let h = Matrix::new(3, 3, |i, j| (a()[(i, j)] + a()[(j, i)].conj()).scale(0.5));
        let lower = tridiagonal(&h, Triangle::Lower);
        let packed = [
            (1., 0.),
            (1., -1.),
            (0.5, 0.),
            (-1.5, 0.),
            (1.22222222222, 0.),
            (0.5, 0.),
            (0.172413793103, -0.0689655172414),
            (0.447903208239, 0.),
            (0.777777777778, 0.),
        ];
        assert_near(&lower[0], &packed);
        assert_near(&lower[1], &[(1., 0.), (1.22222222222, 0.), (0.777777777778, 0.)]);
        assert_near(&lower[2], &[(-1.5, 0.), (0.447903208239, 0.)]);
        assert_near(&lower[3], &[(1.66666666667, 0.666666666667), (1.59451131407, 0.804087244923)]);
        let values = [(2., 0.), (1., -2.), (0.5, 1.), (0., 0.), (1., 0.), (-1., 0.5), (0., 0.), (0., 0.), (3., 0.)];
        let upper = tridiagonal(&matrix(3, 3, &values), Triangle::Upper);
        assert_near(&upper[0][..3], &[(-0.5, 0.), (1.11803398875, 0.), (-0.114371767731, -0.409581178487)]);
        assert_near(&upper[1], &[(-0.5, 0.), (3.5, 0.), (3., 0.)]);
        assert_near(&upper[2], &[(1.11803398875, 0.), (1.58113883008, 0.)]);
        assert_near(&upper[3], &[(1.53333620393, -0.845903359477), (1.63245553203, -0.316227766017)]);
    }

    #[test]
    fn eigenvalues_and_vectors_of_a_real_matrix() {
        let a = matrix(3, 3, &[1., 2., 3., -2., 1., 1., 0.5, 4., -1.].map(|v| (v, 0.)));
        let parts = eigen(&a, false, [true, true]);
        let mut values: Vec<(f64, f64)> = parts[0].iter().zip(&parts[1]).map(|(re, im)| (re.re, im.re)).collect();
        let real = values.iter().position(|v| v.1 == 0.0).unwrap();
        let pair: Vec<usize> = (0..3).filter(|&i| i != real).collect();
        assert!(values[pair[0]].1 > 0.0 && values[pair[0]].1 == -values[pair[1]].1);
        values.sort_by(|a, b| a.0.total_cmp(&b.0).then(b.1.total_cmp(&a.1)));
        let got: Vec<Cplx> = values.into_iter().map(Cplx::from).collect();
        assert_near(&got, &[(-3.15584695159, 0.), (2.0779234758, 2.50947224775), (2.0779234758, -2.50947224775)]);
        // Of the vectors, the size of each element; the sign of a real one is free.
        let size = |v: Cplx| Cplx::new(v.abs(), 0.0);
        let sizes = |vectors: &Values, j: usize| (0..3).map(|i| size(vectors[i * 3 + j])).collect::<Values>();
        assert_near(&sizes(&parts[3], real), &[(0.405862316898, 0.), (0.3937768795, 0.), (0.824751810482, 0.)]);
        assert_near(&sizes(&parts[2], real), &[(0.356729379443, 0.), (0.553022797836, 0.), (0.752934216858, 0.)]);
    }

    #[test]
    fn singular_tridiagonal_systems() {
        let row = |v: &[f64]| matrix(1, v.len(), &v.iter().map(|&v| (v, 0.)).collect::<Vec<_>>());
        let b = matrix(2, 1, &[(1., 0.), (3., 0.)]);
        let regular = [row(&[0., 1.]), row(&[2., 3.]), row(&[1., 0.]), b.clone()];
        let (x, singular) = solve_tridiagonal(&regular, 0.0);
        assert_near(&x.values, &[(0., 0.), (1., 0.)]);
        assert_eq!(singular, 0);
        let singular = [row(&[0., 1.]), row(&[1., 1.]), row(&[1., 0.]), b];
        assert_eq!(solve_tridiagonal(&singular, 0.0).1, 2);
        assert!(solve_tridiagonal(&singular, f64::EPSILON).0.values.iter().all(|v| v.re.is_finite()));
    }
}
