//! Derivatives of operations that move elements.

use crate::common::{check, program};

#[test]
fn broadcasts() {
    for (from, to, map) in [
        ("2", "3x2", "1"),
        ("2", "2x3", "0"),
        ("", "2x2", ""),
        ("1x2", "3x2", "0, 1"),
        ("2x3", "3x4x2", "2, 0"),
        ("1x3", "3x4x2", "2, 0"),
        ("0", "2x0", "1"),
    ] {
        let ty = |dims: &str| if dims.is_empty() { "tensor<f64>".into() } else { format!("tensor<{dims}xf64>") };
        let (from, to) = (ty(from), ty(to));
        check(&program(
            &format!("(%x: {from}) -> {to}"),
            &format!("%y = $broadcast_in_dim %x, dims = [{map}] : ({from}) -> {to}\nreturn %y : {to}"),
        ));
    }
}

#[test]
fn reshape_transpose_reverse() {
    check(&program(
        "(%x: tensor<2x3x4xf64>) -> tensor<6x4xf64>",
        "%t = $transpose %x, dims = [2, 0, 1] : (tensor<2x3x4xf64>) -> tensor<4x2x3xf64>
         %r = $reverse %t, dims = [0, 2] : tensor<4x2x3xf64>
         %y = $reshape %r : (tensor<4x2x3xf64>) -> tensor<6x4xf64>
         return %y : tensor<6x4xf64>",
    ));
}

#[test]
fn slices() {
    for (slice, ty) in [("0:5", "5"), ("1:4", "3"), ("1:5:2", "2"), ("0:5:3", "2"), ("2:2", "0"), ("4:5", "1")] {
        check(&program(
            &format!("(%x: tensor<5xf64>) -> tensor<{ty}xf64>"),
            &format!("%y = $slice %x [{slice}] : (tensor<5xf64>) -> tensor<{ty}xf64>\nreturn %y : tensor<{ty}xf64>"),
        ));
    }
}

#[test]
fn pads() {
    for (n, low, high, between, to) in
        [(3, 1, 2, 0, 6), (3, 0, 0, 2, 7), (3, -1, 1, 0, 3), (3, -1, -1, 1, 3), (0, 1, 1, 1, 2), (1, 2, 0, 3, 3)]
    {
        check(&program(
            &format!("(%x: tensor<{n}x2xf64>, %v: tensor<f64>) -> tensor<{to}x3xf64>"),
            &format!(
                "%y = $pad %x, %v, low = [{low}, 0], high = [{high}, 1], interior = [{between}, 0]
                   : (tensor<{n}x2xf64>, tensor<f64>) -> tensor<{to}x3xf64>
                 return %y : tensor<{to}x3xf64>"
            ),
        ));
    }
}

#[test]
fn concatenates_one_value_twice() {
    check(&program(
        "(%x: tensor<2x3xf64>, %y: tensor<2x1xf64>) -> tensor<2x7xf64>",
        "%z = $concatenate %x, %y, %x, dim = 1 : (tensor<2x3xf64>, tensor<2x1xf64>, tensor<2x3xf64>) -> tensor<2x7xf64>
         return %z : tensor<2x7xf64>",
    ));
}

#[test]
fn dynamic_slices_and_updates() {
    // The last start is out of bounds and is clamped.
    for start in [0, 1, 9] {
        check(&program(
            "(%x: tensor<4x3xf64>, %u: tensor<2x1xf64>) -> (tensor<2x2xf64>, tensor<4x3xf64>)",
            &format!(
                "%i = $constant dense<{start}> : tensor<i32>
                 %j = $constant dense<1> : tensor<i32>
                 %y = $dynamic_slice %x, %i, %j, sizes = [2, 2] : (tensor<4x3xf64>, tensor<i32>, tensor<i32>) -> tensor<2x2xf64>
                 %z = $dynamic_update_slice %x, %u, %i, %j : (tensor<4x3xf64>, tensor<2x1xf64>, tensor<i32>, tensor<i32>) -> tensor<4x3xf64>
                 return %y, %z : tensor<2x2xf64>, tensor<4x3xf64>"
            ),
        ));
    }
}

#[test]
fn barriers_stay_on_the_way_back() {
    let module = program(
        "(%x: tensor<2xf64>, %y: tensor<2xf64>) -> tensor<2xf64>",
        "%a:2 = $optimization_barrier %x, %y : tensor<2xf64>, tensor<2xf64>
         %z = $multiply %a#0, %a#1 : tensor<2xf64>
         return %z : tensor<2xf64>",
    );
    check(&module);
    let options = meshwork_autodiff::GradOptions { wrt: vec![0], keep_value: false };
    let back = meshwork_autodiff::vjp(&module, "main", &options).expect("differentiable");
    assert_eq!(meshwork_ir::text::print(&back).matches("optimization_barrier").count(), 2);
}
