//! Derivatives of functions of elements.

use crate::common::{check_in, program};
use meshwork_autodiff::{GradOptions, vjp};
use meshwork_eval as eval;
use meshwork_ir::{ElementType, Literal};

fn unary(op: &str, range: (f64, f64)) {
    let module = program(
        "(%x: tensor<2x3xf64>) -> tensor<2x3xf64>",
        &format!("%y = {op} %x : tensor<2x3xf64>\nreturn %y : tensor<2x3xf64>"),
    );
    check_in(&module, range);
}

#[test]
fn unary_functions() {
    let anywhere = (-1.0, 1.0);
    for op in [
        "abs",
        "ceil",
        "cosine",
        "exponential",
        "exponential_minus_one",
        "floor",
        "logistic",
        "negate",
        "round_nearest_even",
        "sign",
        "sine",
        "tan",
        "tanh",
    ] {
        unary(&format!("${op}"), anywhere);
    }
    for op in ["cbrt", "log", "log_plus_one", "rsqrt", "sqrt"] {
        unary(&format!("${op}"), (0.2, 3.0));
    }
}

#[test]
fn chlo_functions() {
    for op in ["acos", "asin", "asinh", "atan", "atanh", "cosh", "erf", "erf_inv", "erfc", "sinh", "square", "tan"] {
        let module = program(
            "(%x: tensor<2x3xf64>) -> tensor<2x3xf64>",
            &format!("%y = chlo.{op} %x : tensor<2x3xf64> -> tensor<2x3xf64>\nreturn %y : tensor<2x3xf64>"),
        );
        check_in(&module, (-0.9, 0.9));
    }
    for op in ["acosh", "digamma", "lgamma"] {
        let module = program(
            "(%x: tensor<2x3xf64>) -> tensor<2x3xf64>",
            &format!("%y = chlo.{op} %x : tensor<2x3xf64> -> tensor<2x3xf64>\nreturn %y : tensor<2x3xf64>"),
        );
        check_in(&module, (1.2, 4.0));
    }
}

/// On both sides of where its expansion changes, and at zero.
#[test]
fn the_bessel_function_of_order_one() {
    let module = program(
        "(%x: tensor<2x3xf64>) -> tensor<2x3xf64>",
        "%y = chlo.bessel_i1e %x : tensor<2x3xf64> -> tensor<2x3xf64>\nreturn %y : tensor<2x3xf64>",
    );
    for range in [(-1.0, 1.0), (3.0, 12.0), (-40.0, -7.0), (-1e-3, 1e-3)] {
        check_in(&module, range);
    }
    // What jax.grad(jax.scipy.special.i1e) gives in f64.
    let x = [0.0, -0.5, 2.0, 7.99, 8.01, 100.0];
    let want = [
        0.5,
        0.17577286089453492,
        -0.014395611319735546,
        -0.0074907393526734145,
        -0.007466338788449767,
        -0.0001972152562848689,
    ];
    for (elem, tolerance) in [(ElementType::F64, 1e-15), (ElementType::F32, 2e-7), (ElementType::BF16, 4e-3)] {
        let ty = format!("tensor<2x3x{elem}>");
        let module = program(
            &format!("(%x: {ty}) -> {ty}"),
            &format!("%y = chlo.bessel_i1e %x : {ty} -> {ty}\nreturn %y : {ty}"),
        );
        let back = vjp(&module, "main", &GradOptions { wrt: vec![0], keep_value: false }).expect("a rule");
        let number = |values: &[f64]| Literal::from_f64s([2, 3], elem, values).expect("fits");
        let got = eval::run(&back, None, &[number(&x), number(&[1.0; 6])]).expect("it runs");
        for (got, want) in got[0].to_f64s().into_iter().zip(want) {
            assert!((got - want).abs() <= tolerance, "{got}, not {want}, in {elem}");
        }
    }
}

fn binary(op: &str, range: (f64, f64)) {
    let module = program(
        "(%x: tensor<2x3xf64>, %y: tensor<2x3xf64>) -> tensor<2x3xf64>",
        &format!("%z = ${op} %x, %y : tensor<2x3xf64>\nreturn %z : tensor<2x3xf64>"),
    );
    check_in(&module, range);
}

#[test]
fn binary_functions() {
    for op in ["add", "atan2", "maximum", "minimum", "multiply", "subtract"] {
        binary(op, (-1.0, 1.0));
    }
    for op in ["divide", "power", "remainder"] {
        binary(op, (0.3, 2.0));
    }
}

#[test]
fn clamp_with_scalar_and_full_bounds() {
    for bound in ["tensor<f64>", "tensor<5xf64>"] {
        let module = program(
            &format!("(%a: {bound}, %x: tensor<5xf64>, %b: {bound}) -> tensor<5xf64>"),
            &format!(
                "%y = $clamp %a, %x, %b : ({bound}, tensor<5xf64>, {bound}) -> tensor<5xf64>\nreturn %y : tensor<5xf64>"
            ),
        );
        check_in(&module, (-1.0, 1.0));
    }
}

#[test]
fn select_by_value_and_by_scalar() {
    let module = program(
        "(%x: tensor<6xf64>, %y: tensor<6xf64>) -> (tensor<6xf64>, tensor<6xf64>)",
        "%p = $compare LT, %x, %y : (tensor<6xf64>, tensor<6xf64>) -> tensor<6xi1>
         %z = $select %p, %x, %y : tensor<6xi1>, tensor<6xf64>
         %t = $constant dense<true> : tensor<i1>
         %w = $select %t, %x, %y : tensor<i1>, tensor<6xf64>
         return %z, %w : tensor<6xf64>, tensor<6xf64>",
    );
    check_in(&module, (-1.0, 1.0));
}

#[test]
fn conversions_and_a_round_trip_through_complex_numbers() {
    let module = program(
        "(%x: tensor<3xf64>, %y: tensor<3xf64>) -> (tensor<3xf64>, tensor<3xf64>, tensor<3xf64>)",
        "%z = $complex %x, %y : tensor<3xcomplex<f64>>
         %w = $multiply %z, %z : tensor<3xcomplex<f64>>
         %e = $exponential %w : tensor<3xcomplex<f64>>
         %c = chlo.conj %e : tensor<3xcomplex<f64>> -> tensor<3xcomplex<f64>>
         %d = $divide %c, %z : tensor<3xcomplex<f64>>
         %re = $real %d : (tensor<3xcomplex<f64>>) -> tensor<3xf64>
         %im = $imag %d : (tensor<3xcomplex<f64>>) -> tensor<3xf64>
         %abs = $abs %d : (tensor<3xcomplex<f64>>) -> tensor<3xf64>
         return %re, %im, %abs : tensor<3xf64>, tensor<3xf64>, tensor<3xf64>",
    );
    check_in(&module, (0.3, 1.0));
}

#[test]
fn integers_pass_nothing_back() {
    let module = program(
        "(%x: tensor<3xf64>) -> (tensor<3xf64>, tensor<3xi32>)",
        "%i = $convert %x : (tensor<3xf64>) -> tensor<3xi32>
         %f = $convert %i : (tensor<3xi32>) -> tensor<3xf64>
         %y = $multiply %f, %x : tensor<3xf64>
         return %y, %i : tensor<3xf64>, tensor<3xi32>",
    );
    check_in(&module, (1.2, 1.8));
}

#[test]
fn polygamma_and_zeta_of_their_second_operand() {
    for (op, first) in [("polygamma", "1.0"), ("polygamma", "2.0"), ("zeta", "2.5")] {
        let module = program(
            "(%x: tensor<3xf64>) -> tensor<3xf64>",
            &format!(
                "%n = $constant dense<{first}> : tensor<3xf64>
                 %y = chlo.{op} %n, %x : tensor<3xf64>, tensor<3xf64> -> tensor<3xf64>
                 return %y : tensor<3xf64>"
            ),
        );
        check_in(&module, (1.2, 3.0));
    }
}
