// RUN: opt -sdy-explicit-gather-scatter-batching
func.func @gather(%x: tensor<4x8xf32>, %i: tensor<4x1xi32>) -> tensor<4xf32> {
  %iota = stablehlo.iota dim = 0 : tensor<4x1xi32>
  %0 = stablehlo.concatenate %iota, %i, dim = 1 : (tensor<4x1xi32>, tensor<4x1xi32>) -> tensor<4x2xi32>
  %1 = "stablehlo.gather"(%x, %0) <{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [0, 1], start_index_map = [0, 1], index_vector_dim = 1>, slice_sizes = array<i64: 1, 1>}> : (tensor<4x8xf32>, tensor<4x2xi32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}

func.func @not_an_iota(%x: tensor<4x8xf32>, %i: tensor<4x2xi32>) -> tensor<4xf32> {
  %0 = "stablehlo.gather"(%x, %i) <{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [0, 1], start_index_map = [0, 1], index_vector_dim = 1>, slice_sizes = array<i64: 1, 1>}> : (tensor<4x8xf32>, tensor<4x2xi32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

func.func @scatter(%x: tensor<4x8x8xf32>, %i: tensor<4x2xi32>, %u: tensor<4xf32>) -> tensor<4x8x8xf32> {
  %iota = stablehlo.iota dim = 0 : tensor<4x1xi32>
  %j = stablehlo.slice %i [0:4, 0:1] : (tensor<4x2xi32>) -> tensor<4x1xi32>
  %k = stablehlo.slice %i [0:4, 1:2] : (tensor<4x2xi32>) -> tensor<4x1xi32>
  %0 = stablehlo.concatenate %j, %iota, %k, dim = 1 : (tensor<4x1xi32>, tensor<4x1xi32>, tensor<4x1xi32>) -> tensor<4x3xi32>
  %1 = "stablehlo.scatter"(%x, %0, %u) <{scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0, 1, 2], scatter_dims_to_operand_dims = [1, 0, 2], index_vector_dim = 1>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %2 = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %2 : tensor<f32>
  }) : (tensor<4x8x8xf32>, tensor<4x3xi32>, tensor<4xf32>) -> tensor<4x8x8xf32>
  return %1 : tensor<4x8x8xf32>
}
