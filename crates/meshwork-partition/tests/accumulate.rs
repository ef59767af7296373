//! Sums that a loop only adds up: reduced once after it, with the same result, and left alone where that would be wrong.

mod common;

use common::{check, split};
use meshwork_partition::Compiled;

/// Three rounds over `rows` rows split over four devices. `%g` is a product over the rows of a round, `%t` the carried value,
/// `%s` an argument; `term` makes `%u` of them, which is added to `%t`.
fn program(rows: i64, (elem, total): (&str, &str), start: &str, term: &str, out: &str) -> String {
    let (a, b) = (format!("tensor<3x{rows}x4x{elem}>"), format!("tensor<3x{rows}x8x{elem}>"));
    let (g, m) = (format!("tensor<4x8x{elem}>"), format!("tensor<4x8x{total}>"));
    let split = r#"{sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}, {}]>}"#;
    format!(
        r#"sdy.mesh @mesh = <["x"=4]>
        func.func @main(%a: {a} {split}, %b: {b} {split}, %s: {m}) -> ({m} {{sdy.sharding = #sdy.sharding<@mesh, {out}>}}) {{
          %zero = stablehlo.constant dense<0> : tensor<i32>
          %nothing = stablehlo.constant dense<0.0> : {m}
          %r:2 = stablehlo.while(%i = %zero, %t = {start}) : tensor<i32>, {m}
          cond {{
            %n = stablehlo.constant dense<3> : tensor<i32>
            %p = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
            stablehlo.return %p : tensor<i1>
          }} do {{
            %z = stablehlo.constant dense<0> : tensor<i32>
            %one = stablehlo.constant dense<1> : tensor<i32>
            %half = stablehlo.constant dense<0.5> : {m}
            %a0 = stablehlo.dynamic_slice %a, %i, %z, %z, sizes = [1, {rows}, 4] : ({a}, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x{rows}x4x{elem}>
            %a1 = stablehlo.reshape %a0 : (tensor<1x{rows}x4x{elem}>) -> tensor<{rows}x4x{elem}>
            %b0 = stablehlo.dynamic_slice %b, %i, %z, %z, sizes = [1, {rows}, 8] : ({b}, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x{rows}x8x{elem}>
            %b1 = stablehlo.reshape %b0 : (tensor<1x{rows}x8x{elem}>) -> tensor<{rows}x8x{elem}>
            %g = stablehlo.dot_general %a1, %b1, contracting_dims = [0] x [0] : (tensor<{rows}x4x{elem}>, tensor<{rows}x8x{elem}>) -> {g}
            {term}
            %t1 = stablehlo.add %t, %u : {m}
            %j = stablehlo.add %i, %one : tensor<i32>
            stablehlo.return %j, %t1 : tensor<i32>, {m}
          }}
          return %r#1 : {m}
        }}"#
    )
}

const F32: (&str, &str) = ("f32", "f32");

/// How often the reductions of a program run.
fn reductions(source: &str) -> Vec<i64> {
    times(&check(source))
}

fn times(compiled: &Compiled) -> Vec<i64> {
    let reduces = |name: &str| name == "all-reduce" || name == "reduce-scatter";
    let collectives = compiled.plan.collectives.iter().map(|c| &c.collective);
    collectives.filter(|c| reduces(c.kind.name())).map(|c| c.times).collect()
}

const LINEAR: [&str; 8] = [
    "%u = stablehlo.negate %g : tensor<4x8xf32>",
    "%u = stablehlo.multiply %g, %half : tensor<4x8xf32>",
    "%u = stablehlo.multiply %s, %g : tensor<4x8xf32>",
    "%u = stablehlo.divide %g, %half : tensor<4x8xf32>",
    "%k = stablehlo.multiply %half, %half : tensor<4x8xf32>
     %v = stablehlo.divide %g, %k : tensor<4x8xf32>
     %u = stablehlo.subtract %half, %v : tensor<4x8xf32>",
    "%v = stablehlo.transpose %g, dims = [1, 0] : (tensor<4x8xf32>) -> tensor<8x4xf32>
     %w = stablehlo.negate %v : tensor<8x4xf32>
     %u = stablehlo.transpose %w, dims = [1, 0] : (tensor<8x4xf32>) -> tensor<4x8xf32>",
    "%v = stablehlo.reshape %g : (tensor<4x8xf32>) -> tensor<32xf32>
     %u = stablehlo.reshape %v : (tensor<32xf32>) -> tensor<4x8xf32>",
    // Two reductions, and what needs none.
    "%c = stablehlo.tanh %a1 : tensor<ROWSx4xf32>
     %h = stablehlo.dot_general %c, %b1, contracting_dims = [0] x [0] : (tensor<ROWSx4xf32>, tensor<ROWSx8xf32>) -> tensor<4x8xf32>
     %v = stablehlo.subtract %g, %h : tensor<4x8xf32>
     %i1 = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
     %i2 = stablehlo.broadcast_in_dim %i1, dims = [] : (tensor<f32>) -> tensor<4x8xf32>
     %u = stablehlo.add %v, %i2 : tensor<4x8xf32>",
];

#[test]
fn sums_are_reduced_once_after_the_loop() {
    for rows in [8, 7] {
        for out in ["[{}, {}]", r#"[{"x"}, {}]"#, r#"[{}, {"x"}]"#] {
            for start in ["%nothing", "%s"] {
                for term in LINEAR {
                    let source = program(rows, F32, start, &term.replace("ROWS", &rows.to_string()), out);
                    let times = reductions(&source);
                    assert!(!times.is_empty() && times.iter().all(|&n| n == 1), "{times:?}\n{source}");
                }
            }
        }
    }
}

/// Half precision is added up, and reduced, in the type of the sum. Each part is rounded, so numbers are not compared.
#[test]
fn a_narrow_product_is_added_up_in_the_wide_type() {
    let term = "%u = stablehlo.convert %g : (tensor<4x8xbf16>) -> tensor<4x8xf32>";
    for out in ["[{}, {}]", r#"[{"x"}, {}]"#] {
        let source = program(8, ("bf16", "f32"), "%nothing", term, out);
        assert_eq!(times(&split(&source).1), [1], "{source}");
    }
}

#[test]
fn what_is_not_a_sum_of_reductions_stays_in_the_loop() {
    for term in [
        // The total is read.
        "%u = stablehlo.multiply %g, %t : tensor<4x8xf32>",
        // Not linear.
        "%u = stablehlo.tanh %g : tensor<4x8xf32>",
        "%u = stablehlo.divide %half, %g : tensor<4x8xf32>",
        // Another factor in every round.
        "%i1 = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
         %i2 = stablehlo.broadcast_in_dim %i1, dims = [] : (tensor<f32>) -> tensor<4x8xf32>
         %u = stablehlo.multiply %g, %i2 : tensor<4x8xf32>",
    ] {
        let times = reductions(&program(8, F32, "%s", term, "[{}, {}]"));
        assert!(times.contains(&3), "{times:?} of {term}");
    }
    // Division of integers rounds.
    let term = "%two = stablehlo.constant dense<2> : tensor<4x8xi32>
                %u = stablehlo.divide %g, %two : tensor<4x8xi32>";
    let source = program(8, ("i32", "i32"), "%s", term, "[{}, {}]")
        .replace("dense<0.5>", "dense<1>")
        .replace("dense<0.0>", "dense<0>");
    assert_eq!(reductions(&source), [3]);
}

/// A loop in a loop: the sum leaves both.
#[test]
fn sums_leave_nested_loops() {
    let source = program(8, F32, "%nothing", "%u = stablehlo.negate %g : tensor<4x8xf32>", "[{}, {}]");
    let m = "tensor<4x8xf32>";
    let outer = format!(
        "%q:2 = stablehlo.while(%k = %zero, %o = %s) : tensor<i32>, {m}
          cond {{
            %n = stablehlo.constant dense<5> : tensor<i32>
            %p = stablehlo.compare LT, %k, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
            stablehlo.return %p : tensor<i1>
          }} do {{
            %r:2"
    );
    let end = format!(
        "%one = stablehlo.constant dense<1> : tensor<i32>
            %l = stablehlo.add %k, %one : tensor<i32>
            stablehlo.return %l, %r#1 : tensor<i32>, {m}
          }}
          return %q#1"
    );
    let source = source.replace("%r:2", &outer).replace("return %r#1", &end).replace("%t = %nothing", "%t = %o");
    assert_eq!(reductions(&source), [1], "{source}");
}
