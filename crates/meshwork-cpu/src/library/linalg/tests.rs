//! Every routine on stacks of real and complex matrices, against the evaluator or by what the factors multiply to.

use meshwork_ir::{ElementType, Literal, Scalar, text};

use crate::library::testing::{check_on, noise, run};

/// Element types with the letter of LAPACK and how far results may be apart.
const TYPES: [(ElementType, char, f64); 4] = [
    (ElementType::F32, 's', 2e-4),
    (ElementType::F64, 'd', 1e-10),
    (ElementType::C64, 'c', 2e-4),
    (ElementType::C128, 'z', 1e-10),
];

pub(super) fn ty(elem: ElementType, dims: &[i64]) -> String {
    let dims: String = dims.iter().map(|d| format!("{d}x")).collect();
    format!("tensor<{dims}{elem}>")
}

/// A program that makes one call.
pub(super) fn call(target: &str, config: &str, operands: &[String], results: &[String]) -> String {
    let args: Vec<String> = operands.iter().enumerate().map(|(i, t)| format!("%a{i}: {t}")).collect();
    let names: Vec<String> = (0..operands.len()).map(|i| format!("%a{i}")).collect();
    let out: Vec<String> = match results.len() {
        1 => vec!["%r".into()],
        n => (0..n).map(|i| format!("%r#{i}")).collect(),
    };
    let bind = if results.len() == 1 { "%r".into() } else { format!("%r:{}", results.len()) };
    let (args, names, out, types) = (args.join(", "), names.join(", "), out.join(", "), results.join(", "));
    let from = operands.join(", ");
    format!(
        "func.func @main({args}) -> ({types}) {{
        {bind} = stablehlo.custom_call @{target}({names}) {{api_version = 4 : i32, mhlo.backend_config = {{{config}}}}} : ({from}) -> ({types})
        return {out} : {types} }}"
    )
}

/// Positive definite matrices: noise times its adjoint plus a multiple of the identity.
pub(super) fn definite(count: i64, n: i64, elem: ElementType) -> Literal {
    let x = noise(&[count, n, n], elem, 7);
    let n = n as usize;
    let at = |m: usize, i: usize, j: usize| x.get((m * n + i) * n + j).as_complex();
    let mut out = vec![];
    for m in 0..count as usize {
        for i in 0..n {
            for j in 0..n {
                let (mut re, mut im) = (if i == j { 5.0 } else { 0.0 }, 0.0);
                for k in 0..n {
                    let ((a, b), (c, d)) = (at(m, i, k), at(m, j, k));
                    (re, im) = (re + a * c + b * d, im + b * c - a * d);
                }
                out.push(if elem.is_complex() { Scalar::Complex(re, im) } else { Scalar::Float(re) });
            }
        }
    }
    Literal::from_scalars([count, n as i64, n as i64], elem, out).unwrap()
}

pub(super) const INT: ElementType = ElementType::I32;

#[test]
fn cholesky_of_stacks() {
    for (elem, letter, tolerance) in TYPES {
        // Beyond the order from which on blocks are halved, and of odd sizes.
        for (count, n) in [(2, 5), (1, 1), (3, 0), (2, 8), (1, 9), (1, 16), (1, 31), (1, 37), (1, 100)] {
            for lower in [true, false] {
                let t = ty(elem, &[count, n, n]);
                let source = format!(
                    "func.func @main(%a: {t}) -> {t} {{
                    %r = stablehlo.cholesky %a, lower = {lower} : {t}
                    return %r : {t} }}"
                );
                let x = definite(count, n, elem);
                check_on(&source, std::slice::from_ref(&x), tolerance);
                let config = format!("uplo = {} : ui8", if lower { 76 } else { 85 });
                let results = [t.clone(), ty(INT, &[count])];
                check_on(&call(&format!("lapack_{letter}potrf_ffi"), &config, &[t], &results), &[x], tolerance);
            }
        }
        // Not positive definite: all NaN, and the row is told.
        let t = ty(elem, &[2, 40, 40]);
        let results = [t.clone(), ty(INT, &[2])];
        let source = call(&format!("lapack_{letter}potrf_ffi"), "uplo = 76 : ui8", &[t], &results);
        check_on(&source, &[noise(&[2, 40, 40], elem, 1)], tolerance);
    }
}

#[test]
fn triangular_systems_of_all_kinds() {
    for (elem, _, tolerance) in TYPES {
        for (left, rows, columns) in [
            (true, 5, 3),
            (false, 3, 5),
            (true, 1, 1),
            (false, 4, 4),
            (true, 70, 130),
            (false, 67, 70),
            (true, 0, 3),
            (false, 3, 0),
        ] {
            let n = if left { rows } else { columns };
            for (lower, unit) in [(true, true), (true, false), (false, true), (false, false)] {
                for transpose in ["NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"] {
                    let (a, b) = (ty(elem, &[2, n, n]), ty(elem, &[2, rows, columns]));
                    let source = format!(
                        "func.func @main(%a: {a}, %b: {b}) -> {b} {{
                        %r = \"stablehlo.triangular_solve\"(%a, %b) <{{left_side = {left}, lower = {lower}, transpose_a = #stablehlo<transpose {transpose}>, unit_diagonal = {unit}}}> : ({a}, {b}) -> {b}
                        return %r : {b} }}"
                    );
                    check_on(&source, &[dominant(2, n, elem), noise(&[2, rows, columns], elem, 3)], tolerance);
                }
            }
        }
    }
}

/// Matrices whose triangles are far from singular: small noise with a large diagonal.
pub(super) fn dominant(count: i64, n: i64, elem: ElementType) -> Literal {
    let x = noise(&[count, n, n], elem, 5);
    let n = n as usize;
    let scaled = (0..x.len()).map(|at| {
        let (re, im) = x.get(at).as_complex();
        let (i, j) = (at / n.max(1) % n.max(1), at % n.max(1));
        let shrink = 1.0 / (8 * n) as f64;
        let (re, im) = if i == j { (2.0 + re * shrink, im * shrink) } else { (re * shrink, im * shrink) };
        if elem.is_complex() { Scalar::Complex(re, im) } else { Scalar::Float(re) }
    });
    Literal::from_scalars([count, n as i64, n as i64], elem, scaled.collect::<Vec<_>>()).unwrap()
}

/// Some on both sides of the widths of panels, and some whose columns are no multiple of lanes.
const SIZES: [[i64; 2]; 12] =
    [[1, 1], [3, 3], [5, 2], [2, 5], [40, 70], [90, 50], [0, 3], [3, 0], [17, 16], [16, 17], [67, 33], [131, 1]];

#[test]
fn lu_and_qr_as_lapack_packs_them() {
    for (elem, letter, tolerance) in TYPES {
        for [m, n] in SIZES {
            let (a, x) = (ty(elem, &[2, m, n]), noise(&[2, m, n], elem, 11));
            let least = m.min(n);
            let results = [a.clone(), ty(INT, &[2, least]), ty(INT, &[2])];
            let name = format!("lapack_{letter}getrf_ffi");
            check_on(&call(&name, "", std::slice::from_ref(&a), &results), std::slice::from_ref(&x), tolerance);
            let results = [a.clone(), ty(elem, &[2, least])];
            for name in [format!("lapack_{letter}geqrf_ffi"), "Qr".into()] {
                check_on(&call(&name, "", std::slice::from_ref(&a), &results), std::slice::from_ref(&x), tolerance);
            }
            let order = Literal::from_f64s([2, n], INT, &vec![0.0; 2 * n as usize]).unwrap();
            let (operands, results) = ([a.clone(), ty(INT, &[2, n])], [a, ty(INT, &[2, n]), ty(elem, &[2, least])]);
            check_on(&call(&format!("lapack_{letter}geqp3_ffi"), "", &operands, &results), &[x, order], tolerance);
        }
    }
    // A column of zeros: the pivot is told, and the factorization goes on.
    let x = Literal::from_f64s([1, 3, 3], ElementType::F64, &[1., 0., 2., 3., 0., 4., 5., 0., 7.]).unwrap();
    let a = ty(ElementType::F64, &[1, 3, 3]);
    let results = [a.clone(), ty(INT, &[1, 3]), ty(INT, &[1])];
    check_on(&call("lapack_dgetrf_ffi", "", &[a], &results), &[x], 1e-14);
}

/// Matrices that are factored in steps, whose last panels and pieces are shorter than the others.
#[test]
fn large_matrices_in_blocks() {
    for (elem, letter, tolerance) in TYPES {
        for n in [256, 300] {
            for lower in [true, false] {
                let t = ty(elem, &[n, n]);
                let x = definite(1, n, elem);
                let x =
                    Literal::from_scalars([n, n], elem, (0..x.len()).map(|i| x.get(i)).collect::<Vec<_>>()).unwrap();
                let config = format!("uplo = {} : ui8", if lower { 76 } else { 85 });
                let source = call(
                    &format!("lapack_{letter}potrf_ffi"),
                    &config,
                    std::slice::from_ref(&t),
                    &[t.clone(), ty(INT, &[])],
                );
                let steps = check_on(&source, &[x], tolerance);
                assert!(steps.iter().any(|s| s.ends_with("in blocks")), "{steps:?}");
            }
        }
        // Not positive definite: all NaN, and the row is told.
        let t = ty(elem, &[300, 300]);
        let source = call(
            &format!("lapack_{letter}potrf_ffi"),
            "uplo = 76 : ui8",
            std::slice::from_ref(&t),
            &[t.clone(), ty(INT, &[])],
        );
        check_on(&source, &[noise(&[300, 300], elem, 1)], tolerance);
        for [m, n] in [[300, 260], [260, 300], [520, 190]] {
            let (a, x) = (ty(elem, &[m, n]), noise(&[m, n], elem, 11));
            let results = [a.clone(), ty(elem, &[m.min(n)])];
            let source = call(&format!("lapack_{letter}geqrf_ffi"), "", std::slice::from_ref(&a), &results);
            let steps = check_on(&source, std::slice::from_ref(&x), 10.0 * tolerance);
            assert!(steps.iter().any(|s| s.ends_with("in blocks")), "{steps:?}");
            // Row swaps are choices between close numbers, which few digits may decide otherwise.
            if matches!(elem, ElementType::F64 | ElementType::C128) {
                let results = [a.clone(), ty(INT, &[m.min(n)]), ty(INT, &[])];
                let source = call(&format!("lapack_{letter}getrf_ffi"), "", &[a], &results);
                let steps = check_on(&source, &[x], 100.0 * tolerance);
                assert!(steps.iter().any(|s| s.ends_with("in blocks")), "{steps:?}");
            }
        }
    }
    // A column of zeros: the pivot is told, and the factorization goes on.
    let x = noise(&[256, 256], ElementType::F64, 3);
    let zero = |i: usize| if i % 256 == 200 { Scalar::Float(0.0) } else { x.get(i) };
    let x = Literal::from_scalars([256, 256], ElementType::F64, (0..x.len()).map(zero).collect::<Vec<_>>()).unwrap();
    let a = ty(ElementType::F64, &[256, 256]);
    let results = [a.clone(), ty(INT, &[256]), ty(INT, &[])];
    check_on(&call("lapack_dgetrf_ffi", "", &[a], &results), &[x], 1e-8);
}

#[test]
fn products_of_reflectors() {
    for (elem, letter, tolerance) in TYPES {
        let prefix = if elem.is_complex() { "un" } else { "or" };
        for [m, n, k] in [[1, 1, 1], [5, 3, 3], [5, 5, 2], [70, 50, 50], [70, 40, 35], [150, 140, 70]] {
            // Reflectors of unit length or so: small vectors below the diagonal.
            let (a, tau) = (small(&[2, m, n], elem, 3, 0.05), small(&[2, k], elem, 4, 0.2));
            let types = [ty(elem, &[2, m, n]), ty(elem, &[2, k])];
            for name in [format!("lapack_{letter}{prefix}gqr_ffi"), "ProductOfElementaryHouseholderReflectors".into()] {
                let source = call(&name, "", &types, &types[..1]);
                check_on(&source, &[a.clone(), tau.clone()], tolerance);
            }
            if m > 100 {
                // Of one matrix that is large enough for steps.
                let (m, n, k) = (2 * m, 2 * n, 2 * k - 1);
                let (a, tau) = (small(&[m, n], elem, 3, 0.05), small(&[k], elem, 4, 0.2));
                let types = [ty(elem, &[m, n]), ty(elem, &[k])];
                let source = call(&format!("lapack_{letter}{prefix}gqr_ffi"), "", &types, &types[..1]);
                let steps = check_on(&source, &[a, tau], tolerance);
                assert!(steps.iter().any(|s| s.ends_with("in blocks")), "{steps:?}");
            }
            for (left, transpose) in [(true, true), (true, false), (false, true), (false, false)] {
                let size = if left { [2, m, 9] } else { [2, 9, m] };
                let (c, t) = (noise(&size, elem, 6), ty(elem, &size));
                let (a, reflectors) = (small(&[2, m, k], elem, 3, 0.05), ty(elem, &[2, m, k]));
                let operands = [reflectors, types[1].clone(), t.clone()];
                let config = format!("left = {left}, transpose = {transpose}");
                let source = call(&format!("lapack_{letter}{prefix}mqr_ffi"), &config, &operands, &[t]);
                check_on(&source, &[a, tau.clone(), c], tolerance);
            }
        }
    }
}

fn small(dims: &[i64], elem: ElementType, seed: u64, factor: f64) -> Literal {
    let x = noise(dims, elem, seed);
    let scaled = (0..x.len()).map(|i| match x.get(i).as_complex() {
        (re, im) if elem.is_complex() => Scalar::Complex(re * factor, im * factor),
        (re, _) => Scalar::Float(re * factor),
    });
    Literal::from_scalars(dims.iter().copied(), elem, scaled.collect::<Vec<_>>()).unwrap()
}

#[test]
fn reductions_to_hessenberg_and_tridiagonal_form() {
    for (elem, letter, tolerance) in TYPES {
        for n in [1, 2, 3, 8, 33, 110] {
            // What is rounded in one column grows in all that follow.
            let tolerance = tolerance * (1.0 + n as f64 / 20.0);
            let (a, x) = (ty(elem, &[2, n, n]), noise(&[2, n, n], elem, 2));
            let config = format!("low = 1 : i32, high = {n} : i32");
            let results = [a.clone(), ty(elem, &[2, n - 1]), ty(INT, &[2])];
            let source = call(&format!("lapack_{letter}gehrd_ffi"), &config, std::slice::from_ref(&a), &results);
            check_on(&source, &[x], tolerance);
            let real = elem.real_part();
            let name = format!("lapack_{letter}{}trd_ffi", if elem.is_complex() { "he" } else { "sy" });
            for uplo in [76, 85] {
                let results =
                    [a.clone(), ty(real, &[2, n]), ty(real, &[2, n - 1]), ty(elem, &[2, n - 1]), ty(INT, &[2])];
                let source = call(&name, &format!("uplo = {uplo} : ui8"), std::slice::from_ref(&a), &results);
                check_on(&source, &[definite(2, n, elem)], tolerance);
            }
        }
    }
}

#[test]
fn tridiagonal_systems() {
    for (elem, letter, tolerance) in TYPES {
        for [n, columns] in [[1, 1], [2, 3], [9, 2], [40, 1], [0, 2]] {
            let d = ty(elem, &[2, n]);
            let b = ty(elem, &[2, n, columns]);
            let args = [
                noise(&[2, n], elem, 1),
                noise(&[2, n], elem, 2),
                noise(&[2, n], elem, 3),
                noise(&[2, n, columns], elem, 4),
            ];
            let operands = [d.clone(), d.clone(), d.clone(), b.clone()];
            let results = [d.clone(), d.clone(), d, b.clone(), ty(INT, &[2])];
            let source = call(&format!("lapack_{letter}gtsv_ffi"), "", &operands, &results);
            check_on(&source, &args, 100.0 * tolerance);
            check_on(&call("tridiagonal_solve_perturbed_ffi", "", &operands, &[b]), &args, 100.0 * tolerance);
        }
    }
}

type C = (f64, f64);

fn results(source: &str, args: &[Literal]) -> Vec<Literal> {
    let module = text::parse(source).unwrap_or_else(|d| panic!("{d:?} in {source}"));
    run(&module, args, false, false).results.unwrap_or_else(|| panic!("not covered: {source}"))
}

fn values(x: &Literal) -> Vec<C> {
    (0..x.len()).map(|i| x.get(i).as_complex()).collect()
}

fn times(a: &[C], b: &[C], [m, k, n]: [usize; 3]) -> Vec<C> {
    let element = |at: usize| {
        (0..k).fold((0.0, 0.0), |sum: C, p| {
            let (x, y) = (a[at / n * k + p], b[p * n + at % n]);
            (sum.0 + x.0 * y.0 - x.1 * y.1, sum.1 + x.0 * y.1 + x.1 * y.0)
        })
    };
    (0..m * n).map(element).collect()
}

fn adjoint(a: &[C], [m, n]: [usize; 2]) -> Vec<C> {
    (0..m * n).map(|at| (a[at % m * n + at / m].0, -a[at % m * n + at / m].1)).collect()
}

fn diagonal(values: &[C]) -> Vec<C> {
    let n = values.len();
    (0..n * n).map(|at| if at / n == at % n { values[at / n] } else { (0.0, 0.0) }).collect()
}

fn assert_near(a: &[C], b: &[C], tolerance: f64, what: &str) {
    let scale = b.iter().fold(1.0, |m: f64, v| m.max(v.0.abs()).max(v.1.abs()));
    assert_eq!(a.len(), b.len(), "{what}");
    for (x, y) in a.iter().zip(b) {
        let near = (x.0 - y.0).abs() <= tolerance * scale && (x.1 - y.1).abs() <= tolerance * scale;
        assert!(near, "{x:?} instead of {y:?}: {what}");
    }
}

#[test]
fn schur_forms() {
    for (elem, letter, tolerance) in TYPES {
        for n in [0, 1, 2, 3, 6, 25] {
            let (a, x) = (ty(elem, &[1, n, n]), noise(&[1, n, n], elem, 5));
            let (w, info) = (ty(elem, &[1, n]), ty(INT, &[1]));
            let mut out = vec![a.clone(), a.clone(), w.clone(), info.clone(), info];
            if !elem.is_complex() {
                out.insert(2, w);
            }
            let name = format!("lapack_{letter}gees_ffi");
            let out = results(&call(&name, "mode = 86 : ui8, sort = 78 : ui8", &[a], &out), std::slice::from_ref(&x));
            let (x, t, z, size, what) =
                (values(&x), values(&out[0]), values(&out[1]), n as usize, format!("{name} {n}"));
            let zt = times(&z, &t, [size; 3]);
            assert_near(&times(&zt, &adjoint(&z, [size; 2]), [size; 3]), &x, tolerance, &what);
            let one = diagonal(&vec![(1.0, 0.0); size]);
            assert_near(&times(&adjoint(&z, [size; 2]), &z, [size; 3]), &one, tolerance, &what);
            for i in 1..size {
                assert!(t[i * size..i * size + i - 1].iter().all(|&v| v == (0.0, 0.0)), "{what}");
                let below = t[i * size + i - 1];
                if elem.is_complex() {
                    assert_eq!(below, (0.0, 0.0), "{what}");
                } else if below.0 != 0.0 {
                    assert!(below.0 * t[(i - 1) * size + i].0 < 0.0, "{what}");
                    assert_eq!(t[i * size + i], t[(i - 1) * size + i - 1], "{what}");
                }
            }
            let trace = |m: &[C]| (0..size).fold((0.0, 0.0), |s, i| (s.0 + m[i * size + i].0, s.1 + m[i * size + i].1));
            let sum = values(&out[2]).iter().fold((0.0, 0.0), |s, v| (s.0 + v.0, s.1 + v.1));
            assert_near(
                &[sum],
                &[if elem.is_complex() { trace(&x) } else { (trace(&x).0, 0.0) }],
                10.0 * tolerance,
                &what,
            );
            assert!(values(&out[out.len() - 1]).iter().all(|&v| v == (0.0, 0.0)), "{what}");
        }
    }
}

mod spectra {
    use super::*;

    #[test]
    fn self_adjoint_matrices() {
        for (elem, letter, tolerance) in TYPES {
            for n in [0, 1, 2, 7, 40, 101, 131] {
                for uplo in ['L', 'U'] {
                    let (count, size) = (3, n as usize);
                    let (a, x) = (ty(elem, &[count, n, n]), definite(count, n, elem));
                    let name = format!("lapack_{letter}{}evd_ffi", if elem.is_complex() { "he" } else { "sy" });
                    let out = [a.clone(), ty(elem.real_part(), &[count, n]), ty(INT, &[count])];
                    let config = format!("mode = 86 : ui8, uplo = {} : ui8", u32::from(uplo));
                    let out = results(&call(&name, &config, &[a], &out), std::slice::from_ref(&x));
                    let (x, v, w) = (values(&x), values(&out[0]), values(&out[1]));
                    for i in 0..count as usize {
                        let what = format!("{name} {n} {uplo}");
                        let part = |m: &[C]| m[i * size * size..(i + 1) * size * size].to_vec();
                        let (x, v, w) = (part(&x), part(&v), &w[i * size..(i + 1) * size]);
                        assert!(w.windows(2).all(|w| w[0].0 <= w[1].0), "{what}");
                        let vw = times(&v, &diagonal(w), [size; 3]);
                        assert_near(&times(&vw, &adjoint(&v, [size; 2]), [size; 3]), &x, tolerance, &what);
                        let one = diagonal(&vec![(1.0, 0.0); size]);
                        assert_near(&times(&adjoint(&v, [size; 2]), &v, [size; 3]), &one, tolerance, &what);
                    }
                    assert!(values(&out[2]).iter().all(|&v| v == (0.0, 0.0)));
                }
            }
        }
    }

    #[test]
    fn singular_values_of_all_shapes() {
        for (elem, letter, tolerance) in TYPES {
            for [m, n] in [[1, 1], [4, 4], [7, 3], [3, 7], [40, 20], [9, 60], [130, 110], [101, 150], [230, 99]] {
                for mode in ['A', 'S', 'N'] {
                    let least = m.min(n);
                    let [u_columns, v_rows] = if mode == 'S' { [least, least] } else { [m, n] };
                    let (a, x) = (ty(elem, &[1, m, n]), noise(&[1, m, n], elem, 9));
                    let out = [
                        a.clone(),
                        ty(elem.real_part(), &[1, least]),
                        ty(elem, &[1, m, u_columns]),
                        ty(elem, &[1, v_rows, n]),
                        ty(INT, &[1]),
                    ];
                    let name = format!("lapack_{letter}gesdd_ffi");
                    let config = format!("mode = {} : ui8", u32::from(mode));
                    let out = results(&call(&name, &config, &[a], &out), std::slice::from_ref(&x));
                    let what = format!("{name} {m} {n} {mode}");
                    let (s, u, v) = (values(&out[1]), values(&out[2]), values(&out[3]));
                    assert!(s.windows(2).all(|w| w[0].0 >= w[1].0), "{what}");
                    if mode == 'N' {
                        let sum = |x: &[C]| vec![(x.iter().map(|v| v.0 * v.0 + v.1 * v.1).sum::<f64>(), 0.0)];
                        assert_near(&sum(&s), &sum(&values(&x)), tolerance, &what);
                        continue;
                    }
                    let [m, n, uc, vr] = [m, n, u_columns, v_rows].map(|v| v as usize);
                    let scaled: Vec<C> = (0..m * vr)
                        .map(|at| match (at / vr, at % vr) {
                            (i, j) if j < s.len() => (u[i * uc + j].0 * s[j].0, u[i * uc + j].1 * s[j].0),
                            _ => (0.0, 0.0),
                        })
                        .collect();
                    assert_near(&times(&scaled, &v, [m, vr, n]), &values(&x), tolerance, &what);
                    let one = |n: usize| diagonal(&vec![(1.0, 0.0); n]);
                    assert_near(&times(&adjoint(&u, [m, uc]), &u, [uc, m, uc]), &one(uc), tolerance, &what);
                    assert_near(&times(&v, &adjoint(&v, [vr, n]), [vr, n, vr]), &one(vr), tolerance, &what);
                }
            }
        }
    }

    #[test]
    fn general_matrices() {
        for (elem, letter, tolerance) in TYPES {
            for n in [1, 2, 5, 30] {
                let (a, x) = (ty(elem, &[1, n, n]), noise(&[1, n, n], elem, 3));
                let complex = if elem.real_part() == ElementType::F32 { ElementType::C64 } else { ElementType::C128 };
                let w = ty(elem, &[1, n]);
                let mut out = vec![w.clone(), ty(complex, &[1, n, n]), ty(complex, &[1, n, n]), ty(INT, &[1])];
                if !elem.is_complex() {
                    out.insert(0, w);
                }
                let name = format!("lapack_{letter}geev_ffi");
                let config = "compute_left = 86 : ui8, compute_right = 86 : ui8";
                let out = results(&call(&name, config, &[a], &out), std::slice::from_ref(&x));
                let mut out: Vec<Vec<C>> = out.iter().map(values).collect();
                if !elem.is_complex() {
                    let im = out.remove(1);
                    out[0].iter_mut().zip(im).for_each(|(v, im)| v.1 = im.0);
                }
                let (x, size, what) = (values(&x), n as usize, format!("{name} {n}"));
                let w = diagonal(&out[0]);
                let (left, right) = (adjoint(&out[1], [size; 2]), &out[2]);
                let tolerance = 10.0 * tolerance;
                assert_near(&times(&x, right, [size; 3]), &times(right, &w, [size; 3]), tolerance, &what);
                assert_near(&times(&left, &x, [size; 3]), &times(&w, &left, [size; 3]), tolerance, &what);
            }
        }
    }

    /// Eigenvalues of general matrices whose vectors nobody wants are those that are found with them.
    #[test]
    fn general_values_alone() {
        for (elem, letter, tolerance) in TYPES {
            for n in [0, 1, 2, 3, 6, 31, 64] {
                let (a, x) = (ty(elem, &[2, n, n]), noise(&[2, n, n], elem, 3));
                let complex = if elem.real_part() == ElementType::F32 { ElementType::C64 } else { ElementType::C128 };
                let (w, v) = (ty(elem, &[2, n]), ty(complex, &[2, n, n]));
                let numbers = if elem.is_complex() { 1 } else { 2 };
                let mut out = vec![w; numbers];
                out.extend([v.clone(), v, ty(INT, &[2])]);
                let with = |job: char| {
                    let config = format!("compute_left = 78 : ui8, compute_right = {} : ui8", u32::from(job));
                    let source = call(&format!("lapack_{letter}geev_ffi"), &config, std::slice::from_ref(&a), &out);
                    results(&source, std::slice::from_ref(&x))
                };
                let (all, alone) = (with('V'), with('N'));
                for i in 0..numbers {
                    assert_near(&values(&alone[i]), &values(&all[i]), 10.0 * tolerance, &format!("{letter}geev {n}"));
                }
                assert!(values(&alone[numbers + 1]).iter().all(|&v| v == (0.0, 0.0)), "{letter}geev {n}");
                assert!(values(&alone[numbers + 2]).iter().all(|&v| v == (0.0, 0.0)), "{letter}geev {n}");
            }
        }
    }

    /// Values whose vectors nobody reads are those that are found with them.
    #[test]
    fn values_alone() {
        for (elem, letter, tolerance) in TYPES {
            let (real, name) = (elem.real_part(), if elem.is_complex() { "he" } else { "sy" });
            for n in [1i64, 2, 3, 17, 101, 131] {
                let only = |source: String, types: &str, all: &str, one: &str| {
                    source
                        .replace(all, one)
                        .replace(&format!("({types}) {{\n"), &format!("{one_type} {{\n", one_type = ty(real, &[2, n])))
                };
                let a = ty(elem, &[2, n, n]);
                let x = definite(2, n, elem);
                let out = [a.clone(), ty(real, &[2, n]), ty(INT, &[2])];
                let all = call(
                    &format!("lapack_{letter}{name}evd_ffi"),
                    "mode = 86 : ui8, uplo = 76 : ui8",
                    std::slice::from_ref(&a),
                    &out,
                );
                let some = only(
                    all.clone(),
                    &out.join(", "),
                    &format!("return %r#0, %r#1, %r#2 : {}", out.join(", ")),
                    &format!("return %r#1 : {}", out[1]),
                );
                let (all, some) = (results(&all, std::slice::from_ref(&x)), results(&some, std::slice::from_ref(&x)));
                assert_near(&values(&some[0]), &values(&all[1]), tolerance, name);
                let out = [a.clone(), ty(real, &[2, n]), a.clone(), a.clone(), ty(INT, &[2])];
                let all = call(&format!("lapack_{letter}gesdd_ffi"), "mode = 65 : ui8", &[a], &out);
                let some = only(
                    all.clone(),
                    &out.join(", "),
                    &format!("return %r#0, %r#1, %r#2, %r#3, %r#4 : {}", out.join(", ")),
                    &format!("return %r#1 : {}", out[1]),
                );
                let (all, some) = (results(&all, std::slice::from_ref(&x)), results(&some, &[x]));
                assert_near(&values(&some[0]), &values(&all[1]), tolerance, "gesdd");
            }
        }
    }

    #[test]
    fn what_is_not_finite_gives_nan() {
        let x = Literal::from_f64s([2, 2], ElementType::F64, &[1.0, f64::NAN, f64::NAN, 1.0]).unwrap();
        let a = ty(ElementType::F64, &[2, 2]);
        let out = [a.clone(), ty(ElementType::F64, &[2]), ty(INT, &[])];
        let out = results(&call("lapack_dsyevd_ffi", "uplo = 76 : ui8", &[a], &out), &[x]);
        assert!(values(&out[0]).iter().chain(&values(&out[1])).all(|v| v.0.is_nan()));
        assert_eq!(values(&out[2]), [(1.0, 0.0)]);
    }
}
