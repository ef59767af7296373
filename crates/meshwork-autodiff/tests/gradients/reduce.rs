//! Derivatives of reductions.

use crate::common::{check, check_at, program};
use meshwork_ir::{ElementType, Literal};

fn reduction(op: &str, init: &str, dims: &str, out: &str) -> meshwork_ir::Module {
    program(
        &format!("(%x: tensor<2x3x2xf64>) -> tensor<{out}f64>"),
        &format!(
            "%i = $constant dense<{init}> : tensor<f64>
             %y = $reduce(%x init: %i) applies ${op} across dimensions = [{dims}] : (tensor<2x3x2xf64>, tensor<f64>) -> tensor<{out}f64>
             return %y : tensor<{out}f64>"
        ),
    )
}

#[test]
fn sums_products_and_extremes() {
    for (op, init) in
        [("add", "0.5"), ("multiply", "1.0"), ("multiply", "2.0"), ("maximum", "-9.0"), ("minimum", "9.0")]
    {
        for (dims, out) in [("1", "2x2x"), ("0, 2", "3x"), ("2, 0", "3x"), ("0, 1, 2", ""), ("", "2x3x2x")] {
            check(&reduction(op, init, dims, out));
        }
    }
}

#[test]
fn a_product_with_zeros() {
    let x = [0.0, 1.0, 2.0, 0.0, 0.0, 3.0, 1.5, 0.5, 2.0, 1.0, -1.0, 2.0];
    let x = Literal::from_f64s([2, 3, 2], ElementType::F64, &x).expect("fits");
    check_at(&reduction("multiply", "1.0", "1", "2x2x"), &[x]);
}

#[test]
fn the_initial_value_of_sum_and_product() {
    for op in ["add", "multiply"] {
        check(&program(
            "(%x: tensor<2x3xf64>, %i: tensor<f64>) -> tensor<2xf64>",
            &format!(
                "%y = $reduce(%x init: %i) applies ${op} across dimensions = [1] : (tensor<2x3xf64>, tensor<f64>) -> tensor<2xf64>
                 return %y : tensor<2xf64>"
            ),
        ));
    }
}
