//! Manual computations over some axes: inside, the other axes are split as elsewhere, and values differ along the manual
//! ones though no placement says so.

use crate::cases::{Failures, program, t};

/// Bodies on `%v`, of extents `n` x `m`: each defines `%o` and gives its extents.
fn bodies(n: i64, m: i64) -> Vec<(Vec<i64>, String)> {
    let l = t(&[n, m], "i32");
    let row = t(&[n], "i32");
    let reduce = |from: &str, to: &str, kind: &str, init: &str| {
        format!(
            "{to} = stablehlo.reduce({from} init: {init}) applies stablehlo.{kind} across dimensions = [1] : ({l}, tensor<i32>) -> {row}\n"
        )
    };
    let spread =
        |from: &str, to: &str| format!("{to} = stablehlo.broadcast_in_dim {from}, dims = [0] : ({row}) -> {l}\n");
    let constraint =
        |from: &str, to: &str, s: &str| format!("{to} = sdy.sharding_constraint {from} <@mesh, {s}> : {l}\n");
    let (by_rows, by_columns) = ("[{\"y\"}, {}]", "[{}, {\"y\"}]");
    let square = t(&[n, n], "i32");
    vec![
        (vec![n], reduce("%v", "%o", "add", "%zero")),
        (vec![n, n], format!("%o = stablehlo.dot_general %v, %v, contracting_dims = [1] x [1] : ({l}, {l}) -> {square}\n")),
        (
            vec![n, m],
            reduce("%v", "%max", "maximum", "%least")
                + &spread("%max", "%wide")
                + &format!("%less = stablehlo.subtract %v, %wide : {l}\n")
                + &reduce("%less", "%sum", "add", "%zero")
                + &spread("%sum", "%all")
                + &format!("%o = stablehlo.multiply %less, %all : {l}\n"),
        ),
        (
            vec![n, m],
            constraint("%v", "%a", by_rows)
                + &format!("%b = stablehlo.reverse %a, dims = [1] : {l}\n")
                + &constraint("%b", "%c", by_columns)
                + &format!("%o = stablehlo.add %c, %v : {l}\n"),
        ),
        (
            vec![n, m],
            format!(
                "%end:2 = stablehlo.while(%i = %zero, %w = %v) : tensor<i32>, {l}
cond {{ %three = stablehlo.constant dense<3> : tensor<i32>
  %go = stablehlo.compare LT, %i, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
  stablehlo.return %go : tensor<i1>
}} do {{ %one = stablehlo.constant dense<1> : tensor<i32>
  %next = stablehlo.add %i, %one : tensor<i32>
  {}{}  %sum = stablehlo.add %turned, %v : {l}
  stablehlo.return %next, %sum : tensor<i32>, {l}
}}\n%o = stablehlo.not %end#1 : {l}\n",
                constraint("%w", "%p", by_columns),
                format_args!("%turned = stablehlo.reverse %p, dims = [1] : {l}\n"),
            ),
        ),
        (
            vec![2, m],
            format!(
                "%at = stablehlo.constant dense<[[0], [{}]]> : tensor<2x1xi32>
%o = \"stablehlo.gather\"(%v, %at) <{{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, {m}>}}> : ({l}, tensor<2x1xi32>) -> {}\n",
                n - 1,
                t(&[2, m], "i32")
            ),
        ),
        (
            vec![n, m],
            format!(
                "%o = \"stablehlo.reduce_window\"(%v, %zero) <{{window_dimensions = array<i64: 1, {m}>, padding = dense<[[0, 0], [{}, 0]]> : tensor<2x2xi64>}}> ({{
^bb0(%p: tensor<i32>, %q: tensor<i32>):
  %s = stablehlo.add %p, %q : tensor<i32>
  stablehlo.return %s : tensor<i32>
}}) : ({l}, tensor<i32>) -> {l}\n",
                m - 1
            ),
        ),
    ]
}

/// `manual_axes={"x"}` on a mesh with an axis `y`, which is split inside as it suits.
#[test]
fn idle_axes_inside_are_not_the_manual_ones() {
    let mut failures = Failures::default();
    for (y, n, m) in [(2, 4, 4), (2, 6, 3), (3, 4, 6), (4, 8, 5)] {
        for (out, body) in bodies(n / 2, m) {
            for inside in ["{?}, {?}", "{\"y\"}, {}", "{}, {\"y\"}"] {
                let (a, l, o) = (t(&[n, m], "i32"), t(&[n / 2, m], "i32"), t(&out, "i32"));
                let mut whole = out.clone();
                whole[0] *= 2;
                let r = t(&whole, "i32");
                // The first dimension has the manual axis in front.
                let ins = format!("[{}]", inside.replacen('{', "{\"x\", ", 1).replace(", }", "}"));
                let rest = ", {?}".repeat(out.len() - 1);
                let text = format!(
                    "%m = sdy.manual_computation(%a0) in_shardings=[<@mesh, {ins}>] out_shardings=[<@mesh, [{{\"x\", ?}}{rest}]>] manual_axes={{\"x\"}} (%v: {l}) {{
%zero = stablehlo.constant dense<0> : tensor<i32>
%least = stablehlo.constant dense<-100> : tensor<i32>
{body}sdy.return %o : {o}
}} : ({a}) -> {r}
%r0 = stablehlo.not %m : {r}"
                );
                failures.enumerate_on(&[("x", 2), ("y", y)], &program(&[&a], &[&r], text), 8);
            }
        }
    }
    failures.report();
}

/// A manual computation in another one: inside both, the axes of both are manual.
#[test]
fn nested_manual_computations() {
    let mut failures = Failures::default();
    for free in ["", "\"z\"", "?"] {
        let (a, l, i) = (t(&[4, 6], "i32"), t(&[2, 6], "i32"), t(&[2, 3], "i32"));
        let text = format!(
            "%m = sdy.manual_computation(%a0) in_shardings=[<@mesh, [{{\"x\"}}, {{?}}]>] out_shardings=[<@mesh, [{{\"x\"}}]>] manual_axes={{\"x\"}} (%v: {l}) {{
  %n = sdy.manual_computation(%v) in_shardings=[<@mesh, [{{}}, {{\"y\"{}}}]>] out_shardings=[<@mesh, [{{}}, {{\"y\"}}]>] manual_axes={{\"y\"}} (%w: {i}) {{
    %p = sdy.sharding_constraint %w <@mesh, [{{{free}}}, {{}}]> : {i}
    %q = stablehlo.reverse %p, dims = [0] : {i}
    %s = stablehlo.add %q, %w : {i}
    sdy.return %s : {i}
  }} : ({l}) -> {l}
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %r = stablehlo.reduce(%n init: %zero) applies stablehlo.add across dimensions = [1] : ({l}, tensor<i32>) -> tensor<2xi32>
  sdy.return %r : tensor<2xi32>
}} : ({a}) -> tensor<4xi32>
%r0 = stablehlo.not %m : tensor<4xi32>",
            if free.is_empty() { String::new() } else { format!(", {free}") }
        );
        let axes = [("x", 2), ("y", 2), ("z", 2)];
        failures.enumerate_on(&axes, &program(&[&a], &[&t(&[4], "i32")], text), 40);
    }
    failures.report();
}
