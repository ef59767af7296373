//! Derivatives of products.

use crate::common::{check, program};
use meshwork_autodiff::{GradOptions, vjp};
use meshwork_eval as eval;
use meshwork_ir::{ElementType, Literal, verify};

#[test]
fn products_over_any_dimensions() {
    for (lhs, rhs, dims, out) in [
        ("2x3", "3x4", "contracting_dims = [1] x [0]", "2x4"),
        ("3x2", "4x3", "contracting_dims = [0] x [1]", "2x4"),
        ("2x3", "2x3", "contracting_dims = [0, 1] x [0, 1]", ""),
        ("2x3", "3x2", "contracting_dims = [1, 0] x [0, 1]", ""),
        ("2", "3", "contracting_dims = [] x []", "2x3"),
        ("5x2x3", "5x3x4", "batching_dims = [0] x [0], contracting_dims = [2] x [1]", "5x2x4"),
        ("2x5x3", "3x4x5", "batching_dims = [1] x [2], contracting_dims = [2] x [0]", "5x2x4"),
        ("2x5x3x2", "2x3x4x5", "batching_dims = [1] x [3], contracting_dims = [3, 2] x [0, 1]", "5x2x4"),
        ("2x3", "2x3", "batching_dims = [1, 0] x [1, 0], contracting_dims = [] x []", "3x2"),
    ] {
        let ty = |dims: &str| if dims.is_empty() { "tensor<f64>".into() } else { format!("tensor<{dims}xf64>") };
        let (lhs, rhs, out) = (ty(lhs), ty(rhs), ty(out));
        check(&program(
            &format!("(%x: {lhs}, %y: {rhs}) -> {out}"),
            &format!("%z = $dot_general %x, %y, {dims} : ({lhs}, {rhs}) -> {out}\nreturn %z : {out}"),
        ));
    }
}

#[test]
fn old_dot() {
    for (lhs, rhs, out) in [("3", "3", ""), ("2x3", "3", "2x"), ("3", "3x2", "2x"), ("2x3", "3x4", "2x4x")] {
        check(&program(
            &format!("(%x: tensor<{lhs}xf64>, %y: tensor<{rhs}xf64>) -> tensor<{out}f64>"),
            &format!(
                "%z = $dot %x, %y : (tensor<{lhs}xf64>, tensor<{rhs}xf64>) -> tensor<{out}f64>\nreturn %z : tensor<{out}f64>"
            ),
        ));
    }
}

#[test]
fn a_square_gets_both_parts() {
    check(&program(
        "(%x: tensor<3x3xf64>) -> tensor<3x3xf64>",
        "%z = $dot_general %x, %x, contracting_dims = [1] x [0] : (tensor<3x3xf64>, tensor<3x3xf64>) -> tensor<3x3xf64>
         return %z : tensor<3x3xf64>",
    ));
}

/// The cotangent of a product wider than its operands is rounded only at the end.
#[test]
fn narrow_operands_with_a_wide_product() {
    let module = program(
        "(%x: tensor<2x3xbf16>, %y: tensor<3xbf16>) -> tensor<2xf32>",
        "%z = $dot_general %x, %y, contracting_dims = [1] x [0] : (tensor<2x3xbf16>, tensor<3xbf16>) -> tensor<2xf32>
         return %z : tensor<2xf32>",
    );
    let back = vjp(&module, "main", &GradOptions { wrt: vec![0, 1], keep_value: false }).expect("differentiable");
    assert_eq!(verify::verify(&back), []);
    let literal = |dims: &[i64], elem, v: &[f64]| Literal::from_f64s(dims.to_vec(), elem, v).expect("fits");
    let x = literal(&[2, 3], ElementType::BF16, &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    let y = literal(&[3], ElementType::BF16, &[0.5, -1.0, 2.0]);
    let ct = literal(&[2], ElementType::F32, &[1.0, 3.0]);
    let out = eval::run(&back, None, &[x, y, ct]).expect("runs");
    assert_eq!(out[0], literal(&[2, 3], ElementType::BF16, &[0.5, -1.0, 2.0, 1.5, -3.0, 6.0]));
    assert_eq!(out[1], literal(&[3], ElementType::BF16, &[13.0, 17.0, 21.0]));
}
