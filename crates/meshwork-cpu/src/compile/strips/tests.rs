//! Attention in many spellings, forward and gradient, against the evaluator.

use meshwork_ir::Module;

use super::Limits;
use crate::compile::testing::{ONE, check_program, parse};
use crate::compile::{Span, compile_within};
use crate::library::testing::noise_args;

/// Strips of four rows for products of any size; what is large is computed again in the gradient.
const AGAIN: Limits = Limits { least_bytes: 0, recomputed_bytes: 0, strip_bytes: 1, fewest_rows: 4, most_rows: 4 };

/// The same, but what is large is kept for the gradient.
const KEPT: Limits = Limits { recomputed_bytes: i64::MAX, ..AGAIN };

fn check(source: &str, limits: &Limits, tolerance: f64) -> String {
    let module: Module = parse(source);
    let program =
        compile_within(&module, None, (ONE, Span::OneProcess), limits).unwrap_or_else(|e| panic!("{e}\n{source}"));
    check_program(source, &program, &noise_args(&module), tolerance)
}

/// What is added to or put in the place of scores.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Mask {
    Nothing,
    Causal,
    Lengths,
    Bias,
    Pairs,
}

/// How the rows become weights.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Softmax {
    Plain,
    /// Rows of nothing but minus infinity have a guard.
    Guarded,
    /// The division comes after the product.
    Late,
}

/// Which operand of the second product the weights are.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Side {
    Left,
    Right,
}

#[derive(Clone, Copy, Debug)]
struct Spelling {
    /// Stack of two, rows, columns, depth.
    sizes: [i64; 5],
    elem: &'static str,
    mask: Mask,
    softmax: Softmax,
    weights: Side,
}

const PLAIN: Spelling = Spelling {
    sizes: [2, 3, 23, 29, 2],
    elem: "f32",
    mask: Mask::Nothing,
    softmax: Softmax::Plain,
    weights: Side::Left,
};

fn tensor(dims: &[i64], elem: &str) -> String {
    let dims: String = dims.iter().map(|d| format!("{d}x")).collect();
    format!("tensor<{dims}{elem}>")
}

fn least(elem: &str) -> &'static str {
    match elem {
        "f64" => "0xFFF0000000000000",
        "bf16" => "0xFF80",
        "f16" => "0xFC00",
        _ => "0xFF800000",
    }
}

/// The lines of the forward program, from `%q`, `%k`, `%v` (and `%mask`) to `%o`; the weights are `%p`.
fn forward(s: &Spelling) -> String {
    let [b, h, q, k, d] = s.sizes;
    let t = |dims: &[i64]| tensor(dims, s.elem);
    let (tq, tk, ts, tr, t0) = (t(&[b, h, q, d]), t(&[b, h, k, d]), t(&[b, h, q, k]), t(&[b, h, q]), t(&[]));
    let low = least(s.elem);
    let mut text = format!(
        "%s0 = stablehlo.dot_general %q, %k, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [3] : ({tq}, {tk}) -> {ts}
         %half = stablehlo.constant dense<0.5> : {ts}
         %s1 = stablehlo.multiply %s0, %half : {ts}
         %low = stablehlo.constant dense<{low}> : {t0}
         %zero = stablehlo.constant dense<0.0> : {t0}\n"
    );
    let (pred, index) = (tensor(&[b, h, q, k], "i1"), tensor(&[q, k], "i32"));
    let flat = tensor(&[q, k], "i1");
    text += &match s.mask {
        Mask::Nothing => format!("%s2 = stablehlo.add %s1, %s1 : {ts}\n"),
        Mask::Causal => format!(
            "%i = stablehlo.iota dim = 0 : {index}
             %j = stablehlo.iota dim = 1 : {index}
             %below = stablehlo.compare GE, %i, %j, SIGNED : ({index}, {index}) -> {flat}
             %keep = stablehlo.broadcast_in_dim %below, dims = [2, 3] : ({flat}) -> {pred}
             %fill = stablehlo.constant dense<-1.0e4> : {ts}
             %s2 = stablehlo.select %keep, %s1, %fill : {pred}, {ts}\n"
        ),
        Mask::Lengths => format!(
            "%j = stablehlo.iota dim = 1 : {}
             %n = stablehlo.broadcast_in_dim %mask, dims = [0] : ({}) -> {}
             %short = stablehlo.compare LT, %j, %n, SIGNED : ({}, {}) -> {}
             %keep = stablehlo.broadcast_in_dim %short, dims = [0, 3] : ({}) -> {pred}
             %fill = stablehlo.broadcast_in_dim %low, dims = [] : ({t0}) -> {ts}
             %s2 = stablehlo.select %keep, %s1, %fill : {pred}, {ts}\n",
            tensor(&[b, k], "i32"),
            tensor(&[b], "i32"),
            tensor(&[b, k], "i32"),
            tensor(&[b, k], "i32"),
            tensor(&[b, k], "i32"),
            tensor(&[b, k], "i1"),
            tensor(&[b, k], "i1"),
        ),
        Mask::Bias => format!(
            "%bias = stablehlo.broadcast_in_dim %mask, dims = [1, 2, 3] : ({}) -> {ts}
             %s2 = stablehlo.add %s1, %bias : {ts}\n",
            t(&[h, q, k])
        ),
        Mask::Pairs => format!(
            "%one = stablehlo.broadcast_in_dim %mask, dims = [0, 2] : ({mask}) -> {square}
             %two = stablehlo.broadcast_in_dim %mask, dims = [0, 1] : ({mask}) -> {square}
             %same = stablehlo.compare EQ, %one, %two, SIGNED : ({square}, {square}) -> {truth}
             %keep = stablehlo.broadcast_in_dim %same, dims = [0, 2, 3] : ({truth}) -> {pred}
             %fill = stablehlo.constant dense<-1.0e4> : {ts}
             %s2 = stablehlo.select %keep, %s1, %fill : {pred}, {ts}\n",
            mask = tensor(&[b, k], "i32"),
            square = tensor(&[b, q, k], "i32"),
            truth = tensor(&[b, q, k], "i1"),
        ),
    };
    text += &format!(
        "%m0 = stablehlo.reduce(%s2 init: %low) applies stablehlo.maximum across dimensions = [3] : ({ts}, {t0}) -> {tr}\n"
    );
    text += &match s.softmax {
        Softmax::Guarded => format!(
            "%finite = stablehlo.is_finite %m0 : ({tr}) -> {}
             %none = stablehlo.constant dense<0.0> : {tr}
             %m = stablehlo.select %finite, %m0, %none : {}, {tr}\n",
            tensor(&[b, h, q], "i1"),
            tensor(&[b, h, q], "i1")
        ),
        _ => format!("%lows = stablehlo.constant dense<{low}> : {tr}\n%m = stablehlo.maximum %lows, %m0 : {tr}\n"),
    };
    text += &format!(
        "%mb = stablehlo.broadcast_in_dim %m, dims = [0, 1, 2] : ({tr}) -> {ts}
         %x = stablehlo.subtract %s2, %mb : {ts}
         %e = stablehlo.exponential %x : {ts}
         %l = stablehlo.reduce(%e init: %zero) applies stablehlo.add across dimensions = [3] : ({ts}, {t0}) -> {tr}
         %lb = stablehlo.broadcast_in_dim %l, dims = [0, 1, 2] : ({tr}) -> {ts}
         %p = stablehlo.divide %e, %lb : {ts}\n"
    );
    let (weights, out) = if s.softmax == Softmax::Late { ("%e", "%o1") } else { ("%p", "%o") };
    text += &match s.weights {
        Side::Left => format!(
            "{out} = stablehlo.dot_general {weights}, %v, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [2] : ({ts}, {tk}) -> {tq}\n"
        ),
        Side::Right => format!(
            "%ot = stablehlo.dot_general %v, {weights}, batching_dims = [0, 1] x [0, 1], contracting_dims = [2] x [3] : ({tk}, {ts}) -> {tt}
             {out} = stablehlo.transpose %ot, dims = [0, 1, 3, 2] : ({tt}) -> {tq}\n",
            tt = t(&[b, h, d, q])
        ),
    };
    if s.softmax == Softmax::Late {
        text += &format!(
            "%ld = stablehlo.broadcast_in_dim %l, dims = [0, 1, 2] : ({tr}) -> {tq}
             %o = stablehlo.divide %o1, %ld : {tq}\n"
        );
    }
    text
}

/// The lines of a gradient that follows from `%o`: `%dq`, `%dk`, `%dv`.
fn gradient(s: &Spelling) -> String {
    let [b, h, q, k, d] = s.sizes;
    let t = |dims: &[i64]| tensor(dims, s.elem);
    let (tq, tk, ts, tr, t0) = (t(&[b, h, q, d]), t(&[b, h, k, d]), t(&[b, h, q, k]), t(&[b, h, q]), t(&[]));
    let stack = "batching_dims = [0, 1] x [0, 1]";
    format!(
        "%do = stablehlo.multiply %o, %o : {tq}
         %dv = stablehlo.dot_general %p, %do, {stack}, contracting_dims = [2] x [2] : ({ts}, {tq}) -> {tk}
         %dp = stablehlo.dot_general %do, %v, {stack}, contracting_dims = [3] x [3] : ({tq}, {tk}) -> {ts}
         %both = stablehlo.multiply %dp, %p : {ts}
         %delta = stablehlo.reduce(%both init: %zero) applies stablehlo.add across dimensions = [3] : ({ts}, {t0}) -> {tr}
         %deltas = stablehlo.broadcast_in_dim %delta, dims = [0, 1, 2] : ({tr}) -> {ts}
         %rest = stablehlo.subtract %dp, %deltas : {ts}
         %ds0 = stablehlo.multiply %rest, %p : {ts}
         %ds = stablehlo.multiply %ds0, %half : {ts}
         %dq = stablehlo.dot_general %ds, %k, {stack}, contracting_dims = [3] x [2] : ({ts}, {tk}) -> {tq}
         %dk = stablehlo.dot_general %ds, %q, {stack}, contracting_dims = [2] x [2] : ({ts}, {tq}) -> {tk}\n"
    )
}

fn program(s: &Spelling, lines: &str, returned: &[&str]) -> String {
    let [b, h, q, k, d] = s.sizes;
    let t = |dims: &[i64]| tensor(dims, s.elem);
    let (tq, tk) = (t(&[b, h, q, d]), t(&[b, h, k, d]));
    let mask = match s.mask {
        Mask::Nothing | Mask::Causal => String::new(),
        Mask::Lengths => format!(", %mask: {}", tensor(&[b], "i32")),
        Mask::Bias => format!(", %mask: {}", t(&[h, q, k])),
        Mask::Pairs => format!(", %mask: {}", tensor(&[b, k], "i32")),
    };
    let types: Vec<&str> =
        returned.iter().map(|r| if matches!(*r, "%o" | "%dq") { &tq } else { &tk }).map(|t| t.as_str()).collect();
    format!(
        "func.func @main(%q: {tq}, %k: {tk}, %v: {tk}{mask}) -> ({types}) {{
         {lines}
         return {} : {types} }}",
        returned.join(", "),
        types = types.join(", ")
    )
}

/// Whether the program keeps a whole matrix of scores.
fn keeps_scores(s: &Spelling, text: &str) -> bool {
    let [b, h, q, k, _] = s.sizes;
    text.contains(&format!(":{b}x{h}x{q}x{k}x"))
}

#[test]
fn spellings() {
    for mask in [Mask::Nothing, Mask::Causal, Mask::Lengths, Mask::Bias] {
        for softmax in [Softmax::Plain, Softmax::Guarded, Softmax::Late] {
            for weights in [Side::Left, Side::Right] {
                let s = Spelling { mask, softmax, weights, ..PLAIN };
                let text = check(&program(&s, &forward(&s), &["%o"]), &AGAIN, 1e-4);
                assert_eq!(text.matches("strips ").count(), 1, "{s:?}\n{text}");
                assert!(!keeps_scores(&s, &text), "{s:?}\n{text}");
            }
        }
    }
    // As many rows as columns: who attends to whom follows from two numbers.
    let s = Spelling { mask: Mask::Pairs, sizes: [2, 3, 23, 23, 2], ..PLAIN };
    let text = check(&program(&s, &forward(&s), &["%o"]), &AGAIN, 1e-4);
    assert!(text.contains("strips ") && !text.contains("2x23x23"), "{text}");
}

#[test]
fn gradients() {
    for mask in [Mask::Nothing, Mask::Causal, Mask::Lengths, Mask::Bias] {
        for (softmax, weights) in
            [(Softmax::Plain, Side::Left), (Softmax::Guarded, Side::Right), (Softmax::Late, Side::Left)]
        {
            let s = Spelling { mask, softmax, weights, ..PLAIN };
            let source = program(&s, &(forward(&s) + &gradient(&s)), &["%o", "%dq", "%dk", "%dv"]);
            let text = check(&source, &AGAIN, 1e-4);
            assert_eq!(text.matches("strips ").count(), 2, "{s:?}\n{text}");
            assert!(!keeps_scores(&s, &text), "{s:?}\n{text}");
            let text = check(&source, &KEPT, 1e-4);
            assert_eq!(text.matches("strips ").count(), 2, "{s:?}\n{text}");
            assert!(keeps_scores(&s, &text), "{s:?}\n{text}");
        }
    }
}

#[test]
fn element_types() {
    // Many strips have their sums in several chunks.
    let few = [[1, 2, 8, 9, 1], [2, 1, 20, 9, 1]];
    let many = [[1, 2, 19, 17, 2], [1, 1, 70, 20, 1]];
    for (elem, tolerance, all) in [("f32", 1e-4, many), ("f64", 1e-10, many), ("f16", 2e-2, few), ("bf16", 1e-1, few)] {
        for sizes in all {
            let s = Spelling { elem, sizes, ..PLAIN };
            check(&program(&s, &forward(&s), &["%o"]), &AGAIN, tolerance);
            let source = program(&s, &(forward(&s) + &gradient(&s)), &["%o", "%dq", "%dk", "%dv"]);
            check(&source, &AGAIN, tolerance * 8.0);
        }
    }
}

#[test]
fn sizes() {
    for b in [0, 1, 2] {
        for q in [1, 2, 4, 5, 13] {
            for k in [1, 7, 16] {
                for (h, d) in [(1, 1), (2, 1), (1, 3)] {
                    let s = Spelling { sizes: [b, h, q, k, d], mask: Mask::Causal, ..PLAIN };
                    let source = program(&s, &(forward(&s) + &gradient(&s)), &["%o", "%dq", "%dk", "%dv"]);
                    check(&source, &AGAIN, 1e-4);
                }
            }
        }
    }
}

/// Queries in groups that share keys, in both orders of dimensions; sums of the gradient go over the group too.
#[test]
fn grouped_queries() {
    let [b, h, g, q, k, d] = [2, 2, 3, 9, 11, 1];
    let t = |dims: &[i64]| tensor(dims, "f32");
    let (tq, tk, ts) = (t(&[b, q, h, g, d]), t(&[b, k, h, d]), t(&[b, h, q, g, k]));
    let source = format!(
        "func.func @main(%q: {tq}, %k: {tk}, %v: {tk}) -> ({to}, {tv}) {{
         %s = stablehlo.dot_general %q, %k, batching_dims = [0, 2] x [0, 2], contracting_dims = [4] x [3] : ({tq}, {tk}) -> {ts}
         %st = stablehlo.transpose %s, dims = [0, 1, 3, 2, 4] : ({ts}) -> {tt}
         %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
         %zero = stablehlo.constant dense<0.0> : tensor<f32>
         %m = stablehlo.reduce(%st init: %low) applies stablehlo.maximum across dimensions = [4] : ({tt}, tensor<f32>) -> {tm}
         %mb = stablehlo.broadcast_in_dim %m, dims = [0, 1, 2, 3] : ({tm}) -> {tt}
         %x = stablehlo.subtract %st, %mb : {tt}
         %e = stablehlo.exponential %x : {tt}
         %l = stablehlo.reduce(%e init: %zero) applies stablehlo.add across dimensions = [4] : ({tt}, tensor<f32>) -> {tm}
         %lb = stablehlo.broadcast_in_dim %l, dims = [0, 1, 2, 3] : ({tm}) -> {tt}
         %p = stablehlo.divide %e, %lb : {tt}
         %o = stablehlo.dot_general %p, %v, batching_dims = [0, 1] x [0, 2], contracting_dims = [4] x [1] : ({tt}, {tk}) -> {to}
         %dv = stablehlo.dot_general %p, %o, batching_dims = [0, 1] x [0, 1], contracting_dims = [2, 3] x [2, 3] : ({tt}, {to}) -> {tv}
         return %o, %dv : {to}, {tv} }}",
        tt = t(&[b, h, g, q, k]),
        tm = t(&[b, h, g, q]),
        to = t(&[b, h, g, q, d]),
        tv = t(&[b, h, k, d]),
    );
    let text = check(&source, &AGAIN, 1e-4);
    assert_eq!(text.matches("strips ").count(), 2, "{text}");
    assert!(!text.contains(":2x2x3x9x11x") && !text.contains(":2x2x9x3x11x"), "{text}");
}

/// One array is queries, keys and values; a step between the members of a group reads what it computes.
#[test]
fn one_array_and_readers_between() {
    let source = "func.func @main(%x: tensor<37x2xf32>) -> (tensor<37x2xf32>, tensor<37xf32>, tensor<f32>) {
         %s = stablehlo.dot_general %x, %x, contracting_dims = [1] x [1] : (tensor<37x2xf32>, tensor<37x2xf32>) -> tensor<37x37xf32>
         %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
         %zero = stablehlo.constant dense<0.0> : tensor<f32>
         %m = stablehlo.reduce(%s init: %low) applies stablehlo.maximum across dimensions = [1] : (tensor<37x37xf32>, tensor<f32>) -> tensor<37xf32>
         %sorted = \"stablehlo.sort\"(%m) <{dimension = 0 : i64}> ({ ^bb0(%a: tensor<f32>, %b: tensor<f32>):
           %c = stablehlo.compare LT, %a, %b, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
           stablehlo.return %c : tensor<i1> }) : (tensor<37xf32>) -> tensor<37xf32>
         %all = stablehlo.reduce(%sorted init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<37xf32>, tensor<f32>) -> tensor<f32>
         %mb = stablehlo.broadcast_in_dim %m, dims = [0] : (tensor<37xf32>) -> tensor<37x37xf32>
         %y = stablehlo.subtract %s, %mb : tensor<37x37xf32>
         %e = stablehlo.exponential %y : tensor<37x37xf32>
         %o = stablehlo.dot_general %e, %x, contracting_dims = [1] x [0] : (tensor<37x37xf32>, tensor<37x2xf32>) -> tensor<37x2xf32>
         return %o, %sorted, %all : tensor<37x2xf32>, tensor<37xf32>, tensor<f32> }";
    let text = check(source, &AGAIN, 1e-4);
    assert_eq!(text.matches("strips ").count(), 1, "{text}");
    assert!(!text.contains("37x37"), "{text}");
}

/// Scores with keys along the rows: the softmax is over columns, and strips are of columns.
#[test]
fn transposed_scores() {
    let source = "func.func @main(%q: tensor<21x2xf32>, %k: tensor<26x2xf32>, %v: tensor<26x3xf32>) -> tensor<21x3xf32> {
         %s = stablehlo.dot_general %k, %q, contracting_dims = [1] x [1] : (tensor<26x2xf32>, tensor<21x2xf32>) -> tensor<26x21xf32>
         %zero = stablehlo.constant dense<0.0> : tensor<f32>
         %e = stablehlo.exponential %s : tensor<26x21xf32>
         %l = stablehlo.reduce(%e init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<26x21xf32>, tensor<f32>) -> tensor<21xf32>
         %lb = stablehlo.broadcast_in_dim %l, dims = [1] : (tensor<21xf32>) -> tensor<26x21xf32>
         %p = stablehlo.divide %e, %lb : tensor<26x21xf32>
         %o = stablehlo.dot_general %p, %v, contracting_dims = [0] x [0] : (tensor<26x21xf32>, tensor<26x3xf32>) -> tensor<21x3xf32>
         return %o : tensor<21x3xf32> }";
    let text = check(source, &AGAIN, 1e-4);
    assert_eq!(text.matches("strips ").count(), 1, "{text}");
}

/// The weights are a result as well: they are stored, by the strips.
#[test]
fn weights_that_are_returned() {
    let s = PLAIN;
    let [b, h, q, k, d] = s.sizes;
    let (tq, tk, ts) = (tensor(&[b, h, q, d], "f32"), tensor(&[b, h, k, d], "f32"), tensor(&[b, h, q, k], "f32"));
    let source = format!(
        "func.func @main(%q: {tq}, %k: {tk}, %v: {tk}) -> ({tq}, {ts}) {{ {} return %o, %p : {tq}, {ts} }}",
        forward(&s)
    );
    let text = check(&source, &AGAIN, 1e-4);
    assert_eq!(text.matches("strips ").count(), 1, "{text}");
}

/// A chain of products without a reduction between them stays as it is.
#[test]
fn other_products_are_left_alone() {
    let source = "func.func @main(%x: tensor<64x4xf32>, %w: tensor<4x64xf32>, %u: tensor<64x4xf32>) -> tensor<64x4xf32> {
         %h = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<64x4xf32>, tensor<4x64xf32>) -> tensor<64x64xf32>
         %t = stablehlo.tanh %h : tensor<64x64xf32>
         %y = stablehlo.dot_general %t, %u, contracting_dims = [1] x [0] : (tensor<64x64xf32>, tensor<64x4xf32>) -> tensor<64x4xf32>
         return %y : tensor<64x4xf32> }";
    let text = check(source, &AGAIN, 1e-4);
    assert!(!text.contains("strips "), "{text}");
}
