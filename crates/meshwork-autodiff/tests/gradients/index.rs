//! Derivatives of gathers, scatters and sorts.

use crate::common::{check, check_at, program};
use meshwork_ir::{ElementType, Literal};

#[test]
fn rows_some_twice_some_outside() {
    check(&program(
        "(%x: tensor<4x3xf64>) -> tensor<5x2xf64>",
        "%i = $constant dense<[[0, 0], [2, 1], [2, 1], [9, -3], [3, 7]]> : tensor<5x2xi32>
         %y = \"$gather\"(%x, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0, 1], index_vector_dim = 1>, slice_sizes = array<i64: 1, 2>}> : (tensor<4x3xf64>, tensor<5x2xi32>) -> tensor<5x2xf64>
         return %y : tensor<5x2xf64>",
    ));
}

#[test]
fn batched_gather_with_scalar_indices() {
    check(&program(
        "(%x: tensor<2x4xf64>) -> tensor<2x3xf64>",
        "%i = $constant dense<[[0, 3, 3], [1, 0, 8]]> : tensor<2x3xi64>
         %y = \"$gather\"(%x, %i) <{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [1], operand_batching_dims = [0], start_indices_batching_dims = [0], start_index_map = [1], index_vector_dim = 2>, slice_sizes = array<i64: 1, 1>}> : (tensor<2x4xf64>, tensor<2x3xi64>) -> tensor<2x3xf64>
         return %y : tensor<2x3xf64>",
    ));
}

#[test]
fn torch_index_select() {
    let select = |x: &str, i: &str, indices: &str, y: &str, attrs: &str| {
        check(&program(
            &format!("(%x: tensor<{x}xf64>) -> tensor<{y}xf64>"),
            &format!(
                "%i = $constant dense<{indices}> : tensor<{i}xi64>
                 %y = \"$torch_index_select\"(%x, %i) <{{{attrs}}}> : (tensor<{x}xf64>, tensor<{i}xi64>) -> tensor<{y}xf64>
                 return %y : tensor<{y}xf64>"
            ),
        ));
    };
    // Rows, some twice, one outside; columns by a table of indices; per example of a batch.
    select("4x3", "5", "[0, 2, 2, 9, 3]", "5x3", "dim = 0 : i64, batch_dims = 0 : i64");
    select("2x4x3", "2x2", "[[0, 3], [1, 1]]", "2x2x2x3", "dim = 1 : i64, batch_dims = 0 : i64");
    select("2x3x4", "2x5", "[[0, 3, 3, 1, 2], [1, 0, 0, 2, 8]]", "2x3x5", "dim = 2 : i64, batch_dims = 1 : i64");
}

fn scatter(body: &str, unique: bool, indices: &str) {
    check(&program(
        "(%x: tensor<5x3xf64>, %u: tensor<3x2xf64>) -> tensor<5x3xf64>",
        &format!(
            "%i = $constant dense<{indices}> : tensor<3x2xi32>
             %y = \"$scatter\"(%x, %i, %u) <{{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0, 1], index_vector_dim = 1>, unique_indices = {unique}}}> ({{
               ^bb0(%a: tensor<f64>, %b: tensor<f64>):
                 {body}
             }}) : (tensor<5x3xf64>, tensor<3x2xi32>, tensor<3x2xf64>) -> tensor<5x3xf64>
             return %y : tensor<5x3xf64>"
        ),
    ));
}

#[test]
fn scatters() {
    let add = "%c = $add %a, %b : tensor<f64>\n$return %c : tensor<f64>";
    let set = "$return %b : tensor<f64>";
    for indices in ["[[0, 0], [2, 1], [4, 0]]", "[[1, 0], [7, 0], [-2, 1]]", "[[3, 2], [0, -1], [2, 0]]"] {
        scatter(add, true, indices);
        scatter(set, true, indices);
    }
    for indices in ["[[1, 0], [1, 0], [1, 1]]", "[[2, 0], [2, 1], [2, 0]]"] {
        scatter(add, false, indices);
        scatter(set, false, indices);
    }
}

#[test]
fn scatters_of_products_and_extremes() {
    for op in ["multiply", "maximum", "minimum"] {
        let body = format!("%c = ${op} %a, %b : tensor<f64>\n$return %c : tensor<f64>");
        for indices in ["[[0, 0], [2, 1], [4, 0]]", "[[1, 0], [7, 0], [-2, 1]]", "[[1, 0], [1, 0], [1, 1]]"] {
            scatter(&body, false, indices);
        }
    }
}

/// Products with one or several factors of zero: nothing is divided by them.
#[test]
fn a_scattered_product_with_zeros() {
    let module = program(
        "(%x: tensor<3xf64>, %u: tensor<4xf64>) -> tensor<3xf64>",
        "%i = $constant dense<[[0], [0], [1], [0]]> : tensor<4x1xi32>
         %y = \"$scatter\"(%x, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
           ^bb0(%a: tensor<f64>, %b: tensor<f64>):
             %c = $multiply %a, %b : tensor<f64>
             $return %c : tensor<f64>
         }) : (tensor<3xf64>, tensor<4x1xi32>, tensor<4xf64>) -> tensor<3xf64>
         return %y : tensor<3xf64>",
    );
    let line = |v: &[f64]| Literal::from_f64s([v.len() as i64], ElementType::F64, v).expect("fits");
    for updates in [[2.0, 3.0, 0.0, 0.5], [0.0, 3.0, 1.0, 0.5], [0.0, 0.0, 1.0, 0.5]] {
        check_at(&module, &[line(&[1.5, -2.0, 3.0]), line(&updates)]);
    }
}

#[test]
fn sorts_carry_other_operands_along() {
    for dim in [0, 1] {
        check(&program(
            "(%x: tensor<4x3xf64>, %y: tensor<4x3xf64>) -> (tensor<4x3xf64>, tensor<4x3xf64>, tensor<4x3xf64>)",
            &format!(
                "%s:2 = \"$sort\"(%x, %y) <{{dimension = {dim} : i64, is_stable = true}}> ({{
                   ^bb0(%a: tensor<f64>, %b: tensor<f64>, %c: tensor<f64>, %d: tensor<f64>):
                     %l = $compare GT, %a, %b : (tensor<f64>, tensor<f64>) -> tensor<i1>
                     $return %l : tensor<i1>
                 }}) : (tensor<4x3xf64>, tensor<4x3xf64>) -> (tensor<4x3xf64>, tensor<4x3xf64>)
                 %z = $multiply %s#0, %s#1 : tensor<4x3xf64>
                 return %z, %s#0, %s#1 : tensor<4x3xf64>, tensor<4x3xf64>, tensor<4x3xf64>"
            ),
        ));
    }
}

#[test]
fn largest_elements() {
    check(&program(
        "(%x: tensor<2x5xf64>) -> (tensor<2x3xf64>, tensor<2x3xi32>)",
        "%v, %i = chlo.top_k(%x, k = 3) : tensor<2x5xf64> -> (tensor<2x3xf64>, tensor<2x3xi32>)
         return %v, %i : tensor<2x3xf64>, tensor<2x3xi32>",
    ));
}
