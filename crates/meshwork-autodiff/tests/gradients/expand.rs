//! Derivatives of operations that are written out first.

use crate::common::{check, program};
use meshwork_autodiff::{GradOptions, vjp};

#[test]
fn maps() {
    check(&program(
        "(%x: tensor<2x3xf64>, %y: tensor<2x3xf64>) -> tensor<2x3xf64>",
        "%r = \"$map\"(%x, %y) <{dimensions = array<i64: 0, 1>}> ({
           ^bb0(%a: tensor<f64>, %b: tensor<f64>):
             %c = $multiply %a, %b : tensor<f64>
             %d = $sine %c : tensor<f64>
             %e = $constant dense<2.0> : tensor<f64>
             %f = $add %d, %e : tensor<f64>
             $return %f : tensor<f64>
         }) : (tensor<2x3xf64>, tensor<2x3xf64>) -> tensor<2x3xf64>
         return %r : tensor<2x3xf64>",
    ));
}

/// log(sum(exp)) pairwise.
const SOFT: &str = "%p = $exponential %a : tensor<f64>
    %q = $exponential %b : tensor<f64>
    %s = $add %p, %q : tensor<f64>
    %l = $log %s : tensor<f64>
    $return %l : tensor<f64>";

#[test]
fn reductions_by_any_body() {
    check(&program(
        "(%x: tensor<2x3x2xf64>, %i: tensor<f64>) -> tensor<3xf64>",
        &format!(
            "%y = \"$reduce\"(%x, %i) <{{dimensions = array<i64: 0, 2>}}> ({{
               ^bb0(%a: tensor<f64>, %b: tensor<f64>):
                 {SOFT}
             }}) : (tensor<2x3x2xf64>, tensor<f64>) -> tensor<3xf64>
             return %y : tensor<3xf64>"
        ),
    ));
}

/// The largest element and its position: the pair that `argmax` makes.
#[test]
fn a_reduction_of_pairs() {
    check(&program(
        "(%x: tensor<3x5xf64>) -> (tensor<3xf64>, tensor<3xi32>)",
        "%k = $iota dim = 1 : tensor<3x5xi32>
         %z = $constant dense<-9.0> : tensor<f64>
         %i = $constant dense<0> : tensor<i32>
         %r:2 = $reduce(%x init: %z), (%k init: %i) across dimensions = [1] : (tensor<3x5xf64>, tensor<3x5xi32>, tensor<f64>, tensor<i32>) -> (tensor<3xf64>, tensor<3xi32>)
          reducer(%a: tensor<f64>, %c: tensor<f64>) (%b: tensor<i32>, %d: tensor<i32>) {
           %p = $compare GE, %a, %c : (tensor<f64>, tensor<f64>) -> tensor<i1>
           %m = $select %p, %a, %c : tensor<i1>, tensor<f64>
           %n = $select %p, %b, %d : tensor<i1>, tensor<i32>
           $return %m, %n : tensor<f64>, tensor<i32>
         }
         return %r#0, %r#1 : tensor<3xf64>, tensor<3xi32>",
    ));
}

#[test]
fn extremes_with_a_differentiated_start() {
    for op in ["maximum", "minimum"] {
        check(&program(
            "(%x: tensor<2x3xf64>, %i: tensor<f64>) -> tensor<2xf64>",
            &format!(
                "%y = $reduce(%x init: %i) applies ${op} across dimensions = [1] : (tensor<2x3xf64>, tensor<f64>) -> tensor<2xf64>
                 return %y : tensor<2xf64>"
            ),
        ));
    }
}

#[test]
fn windows_by_any_body_with_holes_and_differentiated_starts() {
    let window = "window_dimensions = array<i64: 2, 1>, window_strides = array<i64: 2, 1>,
        base_dilations = array<i64: 2, 1>, window_dilations = array<i64: 2, 1>,
        padding = dense<[[1, 0], [0, 0]]> : tensor<2x2xi64>";
    let most = "%c = $maximum %a, %b : tensor<f64>\n$return %c : tensor<f64>";
    for body in [SOFT, most] {
        check(&program(
            "(%x: tensor<4x2xf64>, %i: tensor<f64>) -> tensor<3x2xf64>",
            &format!(
                "%y = \"$reduce_window\"(%x, %i) <{{{window}}}> ({{
                   ^bb0(%a: tensor<f64>, %b: tensor<f64>):
                     {body}
                 }}) : (tensor<4x2xf64>, tensor<f64>) -> tensor<3x2xf64>
                 return %y : tensor<3x2xf64>"
            ),
        ));
    }
}

#[test]
fn products_by_letters() {
    for (config, y, z) in [("ab,bc->ac", "3x4", "2x4"), ("ab,cb->ca", "4x3", "4x2"), ("ab,c->bc", "5", "3x5")] {
        check(&program(
            &format!("(%x: tensor<2x3xf64>, %y: tensor<{y}xf64>) -> tensor<{z}xf64>"),
            &format!(
                "%z = \"$einsum\"(%x, %y) <{{einsum_config = \"{config}\"}}> : (tensor<2x3xf64>, tensor<{y}xf64>) -> tensor<{z}xf64>
                 return %z : tensor<{z}xf64>"
            ),
        ));
    }
}

/// Groups of 2, 0 and 3 rows, with a matrix each, or with a product each; the last row of six belongs to none.
#[test]
fn ragged_products() {
    let dims = |contract: &str, group: &str| {
        format!(
            "#chlo.ragged_dot<lhs_batching_dimensions = [], rhs_batching_dimensions = [], lhs_contracting_dimensions = [{contract}], rhs_contracting_dimensions = [{contract}], lhs_ragged_dimensions = [0], rhs_group_dimensions = [{group}]>"
        )
    };
    for (rhs, result, dims) in [("3x3x4", "6x4", dims("1", "0")), ("6x4", "3x3x4", dims("0", ""))] {
        check(&program(
            &format!("(%x: tensor<6x3xf64>, %y: tensor<{rhs}xf64>) -> tensor<{result}xf64>"),
            &format!(
                "%g = $constant dense<[2, 0, 3]> : tensor<3xi64>
                 %z = \"chlo.ragged_dot\"(%x, %y, %g) <{{ragged_dot_dimension_numbers = {dims}}}> : (tensor<6x3xf64>, tensor<{rhs}xf64>, tensor<3xi64>) -> tensor<{result}xf64>
                 return %z : tensor<{result}xf64>"
            ),
        ));
    }
}

/// The gradient of a batch norm has derivatives itself.
#[test]
fn batch_norms_twice() {
    let module = program(
        "(%x: tensor<3x2xf64>, %s: tensor<2xf64>, %o: tensor<2xf64>) -> tensor<3x2xf64>",
        "%y:3 = \"$batch_norm_training\"(%x, %s, %o) <{epsilon = 0.01 : f32, feature_index = 1 : i64}> : (tensor<3x2xf64>, tensor<2xf64>, tensor<2xf64>) -> (tensor<3x2xf64>, tensor<2xf64>, tensor<2xf64>)
         return %y#0 : tensor<3x2xf64>",
    );
    check(&vjp(&module, "main", &GradOptions { wrt: vec![0, 1], keep_value: false }).expect("once"));
}
