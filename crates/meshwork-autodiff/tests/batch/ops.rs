//! Elementwise operations, movement, products, convolutions, reductions, linear algebra, random bits.

use crate::common::{check, check_with, program};
use meshwork_ir::{Literal, OpKind, Type};

fn one(signature: &str, op: &str, ty: &str) {
    check(&program(signature, &format!("%r = {op}\nreturn %r : {ty}")));
}

#[test]
fn elementwise() {
    let f = "tensor<2x3xf64>";
    for name in ["abs", "cbrt", "ceil", "cosine", "exponential", "floor", "log", "logistic", "negate", "sqrt", "tanh"] {
        one(&format!("(%x: {f}) -> {f}"), &format!("${name} %x : {f}"), f);
    }
    for name in ["add", "atan2", "divide", "maximum", "minimum", "multiply", "power", "remainder", "subtract"] {
        one(&format!("(%x: {f}, %y: {f}) -> {f}"), &format!("${name} %x, %y : {f}"), f);
    }
    for name in ["and", "or", "xor", "shift_left", "shift_right_logical"] {
        let i = "tensor<4xi32>";
        one(&format!("(%x: {i}, %y: {i}) -> {i}"), &format!("${name} %x, %y : {i}"), i);
    }
    for name in ["acos", "asinh", "digamma", "erf", "erf_inv", "lgamma", "square", "is_inf"] {
        let kind = OpKind::from_name(&format!("chlo.{name}")).expect("known");
        let out = if name == "is_inf" { "tensor<3xi1>" } else { "tensor<3xf64>" };
        one(&format!("(%x: tensor<3xf64>) -> {out}"), &format!("{} %x : tensor<3xf64> -> {out}", kind.name()), out);
    }
    one("(%x: tensor<3xi32>) -> tensor<3xf64>", "$convert %x : (tensor<3xi32>) -> tensor<3xf64>", "tensor<3xf64>");
    let compared = "$compare LT, %x, %y : (tensor<3xf64>, tensor<3xf64>) -> tensor<3xi1>";
    one("(%x: tensor<3xf64>, %y: tensor<3xf64>) -> tensor<3xi1>", compared, "tensor<3xi1>");
}

#[test]
fn clamp_and_select_with_scalars() {
    for bound in ["tensor<f64>", "tensor<3xf64>"] {
        let f = "tensor<3xf64>";
        let types = format!("({bound}, {f}, {bound}) -> {f}");
        one(&format!("(%a: {bound}, %x: {f}, %b: {bound}) -> {f}"), &format!("$clamp %a, %x, %b : {types}"), f);
    }
    for pred in ["tensor<i1>", "tensor<3xi1>"] {
        let f = "tensor<3xf64>";
        one(&format!("(%p: {pred}, %x: {f}, %y: {f}) -> {f}"), &format!("$select %p, %x, %y : {pred}, {f}"), f);
    }
}

#[test]
fn movement() {
    one(
        "(%x: tensor<3xf64>) -> tensor<2x3x4xf64>",
        "$broadcast_in_dim %x, dims = [1] : (tensor<3xf64>) -> tensor<2x3x4xf64>",
        "tensor<2x3x4xf64>",
    );
    one(
        "(%x: tensor<3xf64>) -> tensor<2x3xf64>",
        "$broadcast %x, sizes = [2] : (tensor<3xf64>) -> tensor<2x3xf64>",
        "tensor<2x3xf64>",
    );
    one("(%x: tensor<2x3xf64>) -> tensor<6xf64>", "$reshape %x : (tensor<2x3xf64>) -> tensor<6xf64>", "tensor<6xf64>");
    one(
        "(%x: tensor<2x3x4xf64>) -> tensor<4x2x3xf64>",
        "$transpose %x, dims = [2, 0, 1] : (tensor<2x3x4xf64>) -> tensor<4x2x3xf64>",
        "tensor<4x2x3xf64>",
    );
    one(
        "(%x: tensor<6x3xf64>) -> tensor<2x2xf64>",
        "$slice %x [1:5:2, 1:3] : (tensor<6x3xf64>) -> tensor<2x2xf64>",
        "tensor<2x2xf64>",
    );
    one(
        "(%x: tensor<2x3xf64>, %y: tensor<2x1xf64>) -> tensor<2x4xf64>",
        "$concatenate %x, %y, dim = 1 : (tensor<2x3xf64>, tensor<2x1xf64>) -> tensor<2x4xf64>",
        "tensor<2x4xf64>",
    );
    one("(%x: tensor<2x3xf64>) -> tensor<2x3xf64>", "$reverse %x, dims = [1] : tensor<2x3xf64>", "tensor<2x3xf64>");
    one(
        "(%x: tensor<3x2xf64>, %v: tensor<f64>) -> tensor<6x1xf64>",
        "$pad %x, %v, low = [1, 0], high = [0, -1], interior = [1, 0] : (tensor<3x2xf64>, tensor<f64>) -> tensor<6x1xf64>",
        "tensor<6x1xf64>",
    );
    one(
        "(%x: tensor<3xf64>) -> tensor<3x2xi32>",
        "$bitcast_convert %x : (tensor<3xf64>) -> tensor<3x2xi32>",
        "tensor<3x2xi32>",
    );
    one(
        "(%x: tensor<3x5xf64>) -> tensor<i32>",
        "$get_dimension_size %x, dim = 1 : (tensor<3x5xf64>) -> tensor<i32>",
        "tensor<i32>",
    );
    check(&program(
        "(%x: tensor<2xf64>, %y: tensor<2xi32>) -> (tensor<2xf64>, tensor<2xi32>)",
        "%r:2 = $optimization_barrier %x, %y : tensor<2xf64>, tensor<2xi32>
         return %r#0, %r#1 : tensor<2xf64>, tensor<2xi32>",
    ));
}

#[test]
fn products() {
    one(
        "(%x: tensor<2x3xf64>, %y: tensor<3x4xf64>) -> tensor<2x4xf64>",
        "$dot %x, %y : (tensor<2x3xf64>, tensor<3x4xf64>) -> tensor<2x4xf64>",
        "tensor<2x4xf64>",
    );
    one(
        "(%x: tensor<3xf64>, %y: tensor<3xf64>) -> tensor<f64>",
        "$dot %x, %y : (tensor<3xf64>, tensor<3xf64>) -> tensor<f64>",
        "tensor<f64>",
    );
    one(
        "(%x: tensor<5x2x3xf64>, %y: tensor<3x5x4xf64>) -> tensor<5x2x4xf64>",
        "$dot_general %x, %y, batching_dims = [0] x [1], contracting_dims = [2] x [0] : (tensor<5x2x3xf64>, tensor<3x5x4xf64>) -> tensor<5x2x4xf64>",
        "tensor<5x2x4xf64>",
    );
    one(
        "(%x: tensor<2x3xf64>, %y: tensor<4x3xf64>) -> tensor<2x4xf64>",
        "\"$einsum\"(%x, %y) <{einsum_config = \"ab,cb->ac\"}> : (tensor<2x3xf64>, tensor<4x3xf64>) -> tensor<2x4xf64>",
        "tensor<2x4xf64>",
    );
}

#[test]
fn convolutions() {
    let cases = [
        ("2x5x4xf64", "3x4x6xf64", "2x3x6xf64", 1, 1),
        ("2x5x4xf64", "3x2x6xf64", "2x3x6xf64", 2, 1),
        ("4x5x2xf64", "3x2x6xf64", "2x3x6xf64", 1, 2),
    ];
    for (x, k, y, features, batches) in cases {
        let (x, k, y) = (format!("tensor<{x}>"), format!("tensor<{k}>"), format!("tensor<{y}>"));
        one(
            &format!("(%x: {x}, %k: {k}) -> {y}"),
            &format!(
                "$convolution(%x, %k) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {{}} {{batch_group_count = {batches} : i64, feature_group_count = {features} : i64}} : ({x}, {k}) -> {y}"
            ),
            &y,
        );
    }
}

const SUM: &str = "({
  ^bb0(%a: tensor<f64>, %b: tensor<f64>):
    %c = $add %a, %b : tensor<f64>
    $return %c : tensor<f64>
})";

#[test]
fn reductions_also_from_batched_starts() {
    one(
        "(%x: tensor<2x3x4xf64>, %i: tensor<f64>) -> tensor<3xf64>",
        "$reduce(%x init: %i) applies $add across dimensions = [0, 2] : (tensor<2x3x4xf64>, tensor<f64>) -> tensor<3xf64>",
        "tensor<3xf64>",
    );
    one(
        "(%x: tensor<6x2xf64>, %i: tensor<f64>) -> tensor<3x2xf64>",
        &format!(
            "\"$reduce_window\"(%x, %i) <{{window_dimensions = array<i64: 3, 1>, window_strides = array<i64: 2, 1>, padding = dense<[[1, 0], [0, 0]]> : tensor<2x2xi64>}}> {SUM} : (tensor<6x2xf64>, tensor<f64>) -> tensor<3x2xf64>"
        ),
        "tensor<3x2xf64>",
    );
    one(
        "(%x: tensor<6xf64>, %s: tensor<3xf64>, %i: tensor<f64>) -> tensor<6xf64>",
        &format!("\"$select_and_scatter\"(%x, %s, %i) <{{window_dimensions = array<i64: 2>, window_strides = array<i64: 2>}}> ({{
           ^bb0(%a: tensor<f64>, %b: tensor<f64>):
             %c = $compare GE, %a, %b : (tensor<f64>, tensor<f64>) -> tensor<i1>
             $return %c : tensor<i1>
         }}, {}) : (tensor<6xf64>, tensor<3xf64>, tensor<f64>) -> tensor<6xf64>", &SUM[1..SUM.len() - 1]),
        "tensor<6xf64>",
    );
    check(&program(
        "(%x: tensor<5xf64>) -> (tensor<f64>, tensor<i32>)",
        "%k = $iota dim = 0 : tensor<5xi32>
         %z = $constant dense<0.0> : tensor<f64>
         %i = $constant dense<0> : tensor<i32>
         %r:2 = $reduce(%x init: %z), (%k init: %i) across dimensions = [0] : (tensor<5xf64>, tensor<5xi32>, tensor<f64>, tensor<i32>) -> (tensor<f64>, tensor<i32>)
          reducer(%a: tensor<f64>, %c: tensor<f64>) (%b: tensor<i32>, %d: tensor<i32>) {
           %p = $compare GE, %a, %c : (tensor<f64>, tensor<f64>) -> tensor<i1>
           %m = $select %p, %a, %c : tensor<i1>, tensor<f64>
           %n = $select %p, %b, %d : tensor<i1>, tensor<i32>
           $return %m, %n : tensor<f64>, tensor<i32>
         }
         return %r#0, %r#1 : tensor<f64>, tensor<i32>",
    ));
}

#[test]
fn sorts_maps_and_top_k() {
    check(&program(
        "(%x: tensor<4x2xf64>, %y: tensor<4x2xi32>) -> (tensor<4x2xf64>, tensor<4x2xi32>)",
        "%r:2 = \"$sort\"(%x, %y) <{dimension = 0 : i64, is_stable = true}> ({
           ^bb0(%a: tensor<f64>, %b: tensor<f64>, %c: tensor<i32>, %d: tensor<i32>):
             %p = $compare LT, %a, %b : (tensor<f64>, tensor<f64>) -> tensor<i1>
             $return %p : tensor<i1>
         }) : (tensor<4x2xf64>, tensor<4x2xi32>) -> (tensor<4x2xf64>, tensor<4x2xi32>)
         return %r#0, %r#1 : tensor<4x2xf64>, tensor<4x2xi32>",
    ));
    check(&program(
        "(%x: tensor<2x3xf64>, %y: tensor<2x3xf64>) -> tensor<2x3xf64>",
        "%r = \"$map\"(%x, %y) <{dimensions = array<i64: 0, 1>}> ({
           ^bb0(%a: tensor<f64>, %b: tensor<f64>):
             %c = $multiply %a, %b : tensor<f64>
             $return %c : tensor<f64>
         }) : (tensor<2x3xf64>, tensor<2x3xf64>) -> tensor<2x3xf64>
         return %r : tensor<2x3xf64>",
    ));
    check(&program(
        "(%x: tensor<2x5xf64>) -> (tensor<2x2xf64>, tensor<2x2xi32>)",
        "%v, %i = chlo.top_k(%x, k = 2) : tensor<2x5xf64> -> (tensor<2x2xf64>, tensor<2x2xi32>)
         return %v, %i : tensor<2x2xf64>, tensor<2x2xi32>",
    ));
}

/// A symmetric matrix that dominates its diagonal.
fn positive(ty: &Type, seed: u64) -> Literal {
    let n = ty.dims().to_vec();
    let value = |i: i64, j: i64| ((i.min(j) * 7 + i.max(j) * 3 + seed as i64) % 5) as f64 / 10.0;
    let mut all = vec![];
    for i in 0..n[0] {
        for j in 0..n[1] {
            all.push(if i == j { 3.0 + value(i, j) } else { value(i, j) });
        }
    }
    Literal::from_f64s(n, meshwork_ir::ElementType::F64, &all).expect("square")
}

#[test]
fn linear_algebra() {
    check_with(
        &program(
            "(%a: tensor<3x3xf64>) -> tensor<3x3xf64>",
            "%r = $cholesky %a, lower = true : tensor<3x3xf64>\nreturn %r : tensor<3x3xf64>",
        ),
        positive,
    );
    check_with(
        &program(
            "(%a: tensor<3x3xf64>, %b: tensor<3x2xf64>) -> tensor<3x2xf64>",
            "%r = \"$triangular_solve\"(%a, %b) <{left_side = true, lower = true, transpose_a = #stablehlo<transpose NO_TRANSPOSE>, unit_diagonal = false}> : (tensor<3x3xf64>, tensor<3x2xf64>) -> tensor<3x2xf64>
             return %r : tensor<3x2xf64>",
        ),
        positive,
    );
    check(&program(
        "(%x: tensor<2x4xf64>) -> tensor<2x3xf64>",
        "%w = $fft %x, type = RFFT, length = [2, 4] : (tensor<2x4xf64>) -> tensor<2x3xcomplex<f64>>
         %r = $real %w : (tensor<2x3xcomplex<f64>>) -> tensor<2x3xf64>
         return %r : tensor<2x3xf64>",
    ));
}

#[test]
fn batch_norms() {
    check(&program(
        "(%x: tensor<4x2x3xf64>, %s: tensor<2xf64>, %o: tensor<2xf64>) -> (tensor<4x2x3xf64>, tensor<2xf64>)",
        "%r:3 = \"$batch_norm_training\"(%x, %s, %o) <{epsilon = 1.0e-3 : f32, feature_index = 1 : i64}> : (tensor<4x2x3xf64>, tensor<2xf64>, tensor<2xf64>) -> (tensor<4x2x3xf64>, tensor<2xf64>, tensor<2xf64>)
         return %r#0, %r#2 : tensor<4x2x3xf64>, tensor<2xf64>",
    ));
    check(&program(
        "(%x: tensor<4x2xf64>, %s: tensor<2xf64>, %o: tensor<2xf64>, %m: tensor<2xf64>) -> tensor<4x2xf64>",
        "%r = \"$batch_norm_inference\"(%x, %s, %o, %m, %s) <{epsilon = 1.0e-3 : f32, feature_index = 1 : i64}> : (tensor<4x2xf64>, tensor<2xf64>, tensor<2xf64>, tensor<2xf64>, tensor<2xf64>) -> tensor<4x2xf64>
         return %r : tensor<4x2xf64>",
    ));
}

#[test]
fn random_bits_follow_each_state() {
    check(&program(
        "(%s: tensor<2xui64>) -> (tensor<2xui64>, tensor<3xui32>)",
        "%t, %b = $rng_bit_generator %s, algorithm = THREE_FRY : (tensor<2xui64>) -> (tensor<2xui64>, tensor<3xui32>)
         return %t, %b : tensor<2xui64>, tensor<3xui32>",
    ));
}

#[test]
fn numbers_without_operands_are_repeated() {
    let module = program(
        "(%x: tensor<2xf64>) -> (tensor<2xf64>, tensor<3xi32>)",
        "%i = $iota dim = 0 : tensor<3xi32>
         return %x, %i : tensor<2xf64>, tensor<3xi32>",
    );
    check(&module);
}
