//! Sorting, transforms, solves, random bits and normalizations.

use crate::cases::{Program, SIZES, conform, program, t};

fn sort_program(n: i64, m: i64, dim: i64) -> Program {
    let (a, b) = (t(&[n, m], "i32"), t(&[n, m], "f32"));
    let body = format!(
        "%r0, %r1 = \"stablehlo.sort\"(%a0, %a1) ({{
^bb0(%p: tensor<i32>, %q: tensor<i32>, %s: tensor<f32>, %u: tensor<f32>):
  %c = stablehlo.compare LT, %p, %q : (tensor<i32>, tensor<i32>) -> tensor<i1>
  stablehlo.return %c : tensor<i1>
}}) {{dimension = {dim} : i64, is_stable = true}} : ({a}, {b}) -> ({a}, {b})"
    );
    program(&[&a, &b], &[&a, &b], body)
}

#[test]
fn sort() {
    let mut programs = vec![];
    for &n in SIZES {
        programs.push(sort_program(n, 4, 0));
        programs.push(sort_program(3, n, 1));
    }
    conform(programs, 6);
}

/// A constant that only the comparator uses stands before the sort, not behind it.
#[test]
fn sort_by_a_comparator_with_a_constant_from_outside() {
    let mut programs = vec![];
    for n in [1, 3, 4] {
        let a = t(&[n, 4], "f32");
        let body = format!(
            "%half = stablehlo.constant dense<0.5> : tensor<f32>
%r0 = \"stablehlo.sort\"(%a0) ({{
^bb0(%p: tensor<f32>, %q: tensor<f32>):
  %x = stablehlo.maximum %p, %half : tensor<f32>
  %y = stablehlo.maximum %q, %half : tensor<f32>
  %c = stablehlo.compare LT, %x, %y : (tensor<f32>, tensor<f32>) -> tensor<i1>
  stablehlo.return %c : tensor<i1>
}}) {{dimension = 1 : i64, is_stable = true}} : ({a}) -> {a}"
        );
        programs.push(program(&[&a], &[&a], body));
    }
    conform(programs, 4);
}

#[test]
fn fft() {
    let mut programs = vec![];
    for n in [1, 3, 4, 7] {
        for m in [4, 3] {
            let a = t(&[n, m], "complex<f32>");
            for (kind, length) in [("FFT", format!("{m}")), ("IFFT", format!("{n}, {m}"))] {
                let body = format!("%r0 = stablehlo.fft %a0, type = {kind}, length = [{length}] : ({a}) -> {a}");
                programs.push(program(&[&a], &[&a], body));
            }
            let (f, h) = (t(&[n, m], "f32"), t(&[n, m / 2 + 1], "complex<f32>"));
            let body = format!("%r0 = stablehlo.fft %a0, type = RFFT, length = [{m}] : ({f}) -> {h}");
            programs.push(program(&[&f], &[&h], body));
        }
    }
    conform(programs, 4);
}

/// A batch of matrices that are symmetric and positive, made from any batch.
fn positive(a: &str, n: i64, k: i64) -> String {
    let row = t(&[k, k], "f32");
    format!(
        "%g = stablehlo.dot_general %a0, %a0, batching_dims = [0] x [0], contracting_dims = [2] x [2] : ({a}, {a}) -> {a}
%i = stablehlo.iota dim = 0 : {row}
%j = stablehlo.iota dim = 1 : {row}
%e = stablehlo.compare EQ, %i, %j, FLOAT : ({row}, {row}) -> tensor<{k}x{k}xi1>
%d = stablehlo.convert %e : (tensor<{k}x{k}xi1>) -> {row}
%ten = stablehlo.constant dense<10.0> : {row}
%dd = stablehlo.multiply %d, %ten : {row}
%w = stablehlo.broadcast_in_dim %dd, dims = [1, 2] : ({row}) -> tensor<{n}x{k}x{k}xf32>
%p = stablehlo.add %g, %w : {a}
"
    )
}

#[test]
fn cholesky_and_triangular_solve() {
    let mut programs = vec![];
    for n in [0, 1, 3, 4] {
        let k = 3;
        let a = t(&[n, k, k], "f32");
        programs.push(program(
            &[&a],
            &[&a],
            positive(&a, n, k) + &format!("%r0 = stablehlo.cholesky %p, lower = true : {a}"),
        ));
        let b = t(&[n, k, 2], "f32");
        let body = positive(&a, n, k)
            + &format!(
                "%r0 = \"stablehlo.triangular_solve\"(%p, %a1) <{{left_side = true, lower = true, unit_diagonal = false, transpose_a = #stablehlo<transpose NO_TRANSPOSE>}}> : ({a}, {b}) -> {b}"
            );
        programs.push(program(&[&a, &b], &[&b], body));
    }
    conform(programs, 6);
}

/// LAPACK calls as JAX writes them: with a rule that names only the batch dimension of both sides, or with none.
#[test]
fn lapack_calls() {
    let mut programs = vec![];
    for n in [0, 1, 3, 4] {
        let (a, tau, pivots, info) = (t(&[n, 3, 2], "f32"), t(&[n, 2], "f32"), t(&[n, 2], "i32"), t(&[n], "i32"));
        let rule = format!(
            ", sdy.sharding_rule = #sdy.op_sharding_rule<([i, j, k])->([i, l, m], [i, n]) {{i={n}, j=3, k=2, l=3, m=2, n=2}}, custom>"
        );
        for rule in [rule.as_str(), ""] {
            let call = "stablehlo.custom_call @lapack_sgeqrf_ffi(%a0) {api_version = 4 : i32, mhlo.backend_config = {}";
            let body = format!("%r0, %r1 = {call}{rule}}} : ({a}) -> ({a}, {tau})");
            programs.push(program(&[&a], &[&a, &tau], body));
        }
        let call = "stablehlo.custom_call @lapack_sgetrf_ffi(%a0) {api_version = 4 : i32, mhlo.backend_config = {}}";
        let body = format!("%r0, %r1, %r2 = {call} : ({a}) -> ({a}, {pivots}, {info})");
        programs.push(program(&[&a], &[&a, &pivots, &info], body));
    }
    conform(programs, 6);
}

#[test]
fn random_bits() {
    let mut programs = vec![];
    for &n in SIZES {
        for (algorithm, words) in [("THREE_FRY", 2), ("PHILOX", 2), ("DEFAULT", 2)] {
            let (s, r) = (t(&[words], "ui64"), t(&[n, 3], "ui32"));
            let body =
                format!("%r0, %r1 = stablehlo.rng_bit_generator %a0, algorithm = {algorithm} : ({s}) -> ({s}, {r})");
            programs.push(program(&[&s], &[&s, &r], body));
        }
    }
    conform(programs, 2);
}

#[test]
fn top_k() {
    let mut programs = vec![];
    for (n, k) in [(4, 1), (7, 3), (8, 2), (3, 3), (8, 5)] {
        for rows in [1, 3, 4] {
            let (a, v, i) = (t(&[rows, n], "f32"), t(&[rows, k], "f32"), t(&[rows, k], "i32"));
            programs.push(program(
                &[&a],
                &[&v, &i],
                format!("%r0, %r1 = chlo.top_k(%a0, k = {k}) : {a} -> ({v}, {i})"),
            ));
        }
    }
    conform(programs, 6);
}

#[test]
fn normalisations() {
    let mut programs = vec![];
    for n in [1, 3, 4, 7] {
        for c in [1, 3, 4] {
            let (a, f) = (t(&[n, 2, c], "f32"), t(&[c], "f32"));
            programs.push(program(
                &[&a, &f, &f, &f, &f],
                &[&a],
                format!(
                    "%r0 = \"stablehlo.batch_norm_inference\"(%a0, %a1, %a2, %a3, %m) <{{epsilon = 1.0 : f32, feature_index = 2 : i64}}> : ({a}, {f}, {f}, {f}, {f}) -> {a}"
                )
                .replace("%m", "%sq")
                .replacen("%r0", &format!("%sq = stablehlo.multiply %a4, %a4 : {f}\n%r0"), 1),
            ));
            programs.push(program(
                &[&a, &f, &f],
                &[&a, &f, &f],
                format!(
                    "%r0, %r1, %r2 = \"stablehlo.batch_norm_training\"(%a0, %a1, %a2) <{{epsilon = 1.0 : f32, feature_index = 2 : i64}}> : ({a}, {f}, {f}) -> ({a}, {f}, {f})"
                ),
            ));
            programs.push(program(
                &[&a, &f, &f, &f, &a],
                &[&a, &f, &f],
                format!(
                    "%sq = stablehlo.multiply %a3, %a3 : {f}\n%r0, %r1, %r2 = \"stablehlo.batch_norm_grad\"(%a0, %a1, %a2, %sq, %a4) <{{epsilon = 1.0 : f32, feature_index = 2 : i64}}> : ({a}, {f}, {f}, {f}, {a}) -> ({a}, {f}, {f})"
                ),
            ));
        }
    }
    conform(programs, 2);
}

#[test]
fn bitcasts() {
    let mut programs = vec![];
    for &n in SIZES {
        let (a, wide, narrow) = (t(&[n, 3], "f32"), t(&[n, 3], "i32"), t(&[n, 3, 4], "i8"));
        programs.push(program(&[&a], &[&wide], format!("%r0 = stablehlo.bitcast_convert %a0 : ({a}) -> {wide}")));
        programs.push(program(
            &[&wide],
            &[&narrow],
            format!("%r0 = stablehlo.bitcast_convert %a0 : ({wide}) -> {narrow}"),
        ));
        programs.push(program(
            &[&narrow],
            &[&wide],
            format!("%r0 = stablehlo.bitcast_convert %a0 : ({narrow}) -> {wide}"),
        ));
    }
    conform(programs, 4);
}
