//! Slices, gathers and scatters at positions that may be batched.

use crate::common::{check, program};

#[test]
fn dynamic_slices_also_outside() {
    check(&program(
        "(%x: tensor<4x3xf64>, %i: tensor<i32>, %j: tensor<i32>) -> tensor<2x2xf64>",
        "%r = $dynamic_slice %x, %i, %j, sizes = [2, 2] : (tensor<4x3xf64>, tensor<i32>, tensor<i32>) -> tensor<2x2xf64>
         return %r : tensor<2x2xf64>",
    ));
}

#[test]
fn dynamic_updates_also_outside() {
    check(&program(
        "(%x: tensor<4x3xf64>, %u: tensor<2x2xf64>, %i: tensor<i32>, %j: tensor<i32>) -> tensor<4x3xf64>",
        "%r = $dynamic_update_slice %x, %u, %i, %j : (tensor<4x3xf64>, tensor<2x2xf64>, tensor<i32>, tensor<i32>) -> tensor<4x3xf64>
         return %r : tensor<4x3xf64>",
    ));
}

#[test]
fn gathers() {
    check(&program(
        "(%x: tensor<4x3xf64>, %i: tensor<5x2xi32>) -> tensor<5x2xf64>",
        "%y = \"$gather\"(%x, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0, 1], index_vector_dim = 1>, slice_sizes = array<i64: 1, 2>}> : (tensor<4x3xf64>, tensor<5x2xi32>) -> tensor<5x2xf64>
         return %y : tensor<5x2xf64>",
    ));
    check(&program(
        "(%x: tensor<2x4xf64>, %i: tensor<2x3xi64>) -> tensor<2x3xf64>",
        "%y = \"$gather\"(%x, %i) <{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [1], operand_batching_dims = [0], start_indices_batching_dims = [0], start_index_map = [1], index_vector_dim = 2>, slice_sizes = array<i64: 1, 1>}> : (tensor<2x4xf64>, tensor<2x3xi64>) -> tensor<2x3xf64>
         return %y : tensor<2x3xf64>",
    ));
    // The window in front of the positions.
    check(&program(
        "(%x: tensor<4x3xf64>, %i: tensor<5xi32>) -> tensor<3x5xf64>",
        "%y = \"$gather\"(%x, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = [0], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 3>}> : (tensor<4x3xf64>, tensor<5xi32>) -> tensor<3x5xf64>
         return %y : tensor<3x5xf64>",
    ));
}

#[test]
fn scatters() {
    for body in ["%c = $add %a, %b : tensor<f64>\n$return %c : tensor<f64>", "$return %b : tensor<f64>"] {
        check(&program(
            "(%x: tensor<6x3xf64>, %i: tensor<3x2xi32>, %u: tensor<3x2xf64>) -> tensor<6x3xf64>",
            &format!(
                "%y = \"$scatter\"(%x, %i, %u) <{{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0, 1], index_vector_dim = 1>}}> ({{
                   ^bb0(%a: tensor<f64>, %b: tensor<f64>):
                     {body}
                 }}) : (tensor<6x3xf64>, tensor<3x2xi32>, tensor<3x2xf64>) -> tensor<6x3xf64>
                 return %y : tensor<6x3xf64>"
            ),
        ));
    }
}
