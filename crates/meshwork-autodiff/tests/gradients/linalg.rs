//! Derivatives of transforms, triangular systems, Cholesky factors and batch norms.

use crate::common::{check, check_in, program};

#[test]
fn complex_transforms() {
    for kind in ["FFT", "IFFT"] {
        check(&program(
            "(%x: tensor<2x3xf64>, %y: tensor<2x3xf64>) -> (tensor<2x3xf64>, tensor<2x3xf64>)",
            &format!(
                "%z = $complex %x, %y : tensor<2x3xcomplex<f64>>
                 %w = $fft %z, type = {kind}, length = [2, 3] : (tensor<2x3xcomplex<f64>>) -> tensor<2x3xcomplex<f64>>
                 %r = $real %w : (tensor<2x3xcomplex<f64>>) -> tensor<2x3xf64>
                 %i = $imag %w : (tensor<2x3xcomplex<f64>>) -> tensor<2x3xf64>
                 return %r, %i : tensor<2x3xf64>, tensor<2x3xf64>"
            ),
        ));
    }
}

#[test]
fn real_transforms_of_even_and_odd_length() {
    for n in [4, 5, 1] {
        let half = n / 2 + 1;
        check(&program(
            &format!("(%x: tensor<3x{n}xf64>) -> (tensor<3x{half}xf64>, tensor<3x{half}xf64>)"),
            &format!(
                "%w = $fft %x, type = RFFT, length = [3, {n}] : (tensor<3x{n}xf64>) -> tensor<3x{half}xcomplex<f64>>
                 %r = $real %w : (tensor<3x{half}xcomplex<f64>>) -> tensor<3x{half}xf64>
                 %i = $imag %w : (tensor<3x{half}xcomplex<f64>>) -> tensor<3x{half}xf64>
                 return %r, %i : tensor<3x{half}xf64>, tensor<3x{half}xf64>"
            ),
        ));
        check(&program(
            &format!("(%x: tensor<2x{half}xf64>, %y: tensor<2x{half}xf64>) -> tensor<2x{n}xf64>"),
            &format!(
                "%z = $complex %x, %y : tensor<2x{half}xcomplex<f64>>
                 %w = $fft %z, type = IRFFT, length = [{n}] : (tensor<2x{half}xcomplex<f64>>) -> tensor<2x{n}xf64>
                 return %w : tensor<2x{n}xf64>"
            ),
        ));
    }
}

#[test]
fn triangular_systems() {
    for left in [true, false] {
        for lower in [true, false] {
            for unit in [true, false] {
                for transpose in ["NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"] {
                    let b = if left { "tensor<2x3x2xf64>" } else { "tensor<2x2x3xf64>" };
                    check_in(
                        &program(
                            &format!("(%a: tensor<2x3x3xf64>, %b: {b}) -> {b}"),
                            &format!(
                                "%x = \"$triangular_solve\"(%a, %b) <{{left_side = {left}, lower = {lower}, unit_diagonal = {unit}, transpose_a = #stablehlo<transpose {transpose}>}}> : (tensor<2x3x3xf64>, {b}) -> {b}
                                 return %x : {b}"
                            ),
                        ),
                        (0.5, 1.5),
                    );
                }
            }
        }
    }
}

#[test]
fn cholesky_factors() {
    for lower in [true, false] {
        check(&program(
            "(%m: tensor<2x3x3xf64>) -> tensor<2x3x3xf64>",
            &format!(
                "%s = $dot_general %m, %m, batching_dims = [0] x [0], contracting_dims = [2] x [2] : (tensor<2x3x3xf64>, tensor<2x3x3xf64>) -> tensor<2x3x3xf64>
                 %i = $constant dense<[[2.0, 0.0, 0.0], [0.0, 2.0, 0.0], [0.0, 0.0, 2.0]]> : tensor<3x3xf64>
                 %j = $broadcast_in_dim %i, dims = [1, 2] : (tensor<3x3xf64>) -> tensor<2x3x3xf64>
                 %a = $add %s, %j : tensor<2x3x3xf64>
                 %l = $cholesky %a, lower = {lower} : tensor<2x3x3xf64>
                 %c = $constant dense<0> : tensor<i32>
                 %r = $iota dim = 1 : tensor<2x3x3xi32>
                 %q = $iota dim = 2 : tensor<2x3x3xi32>
                 %k = $compare {}, %r, %q : (tensor<2x3x3xi32>, tensor<2x3x3xi32>) -> tensor<2x3x3xi1>
                 %z = $constant dense<0.0> : tensor<2x3x3xf64>
                 %y = $select %k, %l, %z : tensor<2x3x3xi1>, tensor<2x3x3xf64>
                 return %y : tensor<2x3x3xf64>",
                if lower { "GE" } else { "LE" }
            ),
        ));
    }
}

#[test]
fn batch_norms() {
    check(&program(
        "(%x: tensor<3x2x2xf64>, %s: tensor<2xf64>, %o: tensor<2xf64>) -> (tensor<3x2x2xf64>, tensor<2xf64>, tensor<2xf64>)",
        "%y:3 = \"$batch_norm_training\"(%x, %s, %o) <{epsilon = 0.01 : f32, feature_index = 1 : i64}> : (tensor<3x2x2xf64>, tensor<2xf64>, tensor<2xf64>) -> (tensor<3x2x2xf64>, tensor<2xf64>, tensor<2xf64>)
         return %y#0, %y#1, %y#2 : tensor<3x2x2xf64>, tensor<2xf64>, tensor<2xf64>",
    ));
    check_in(
        &program(
            "(%x: tensor<3x2xf64>, %s: tensor<2xf64>, %o: tensor<2xf64>, %m: tensor<2xf64>, %v: tensor<2xf64>) -> tensor<3x2xf64>",
            "%y = \"$batch_norm_inference\"(%x, %s, %o, %m, %v) <{epsilon = 0.01 : f32, feature_index = 1 : i64}> : (tensor<3x2xf64>, tensor<2xf64>, tensor<2xf64>, tensor<2xf64>, tensor<2xf64>) -> tensor<3x2xf64>
             return %y : tensor<3x2xf64>",
        ),
        (0.3, 1.0),
    );
}
