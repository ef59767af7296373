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

// What programs do to bring indices into range does not hide the batch.
func.func @indices_in_range(%x: tensor<4x8xf32>, %i: tensor<4x1xi32>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<4xi32>
  %four = stablehlo.constant dense<4> : tensor<4xi32>
  %low = stablehlo.constant dense<0> : tensor<i32>
  %high = stablehlo.constant dense<3> : tensor<i32>
  %iota = stablehlo.iota dim = 0 : tensor<4xi32>
  %negative = stablehlo.compare LT, %iota, %zero : (tensor<4xi32>, tensor<4xi32>) -> tensor<4xi1>
  %from_end = stablehlo.add %iota, %four : tensor<4xi32>
  %index = stablehlo.select %negative, %from_end, %iota : tensor<4xi1>, tensor<4xi32>
  %clamped = stablehlo.clamp %low, %index, %high : (tensor<i32>, tensor<4xi32>, tensor<i32>) -> tensor<4xi32>
  %column = stablehlo.broadcast_in_dim %clamped, dims = [0] : (tensor<4xi32>) -> tensor<4x1xi32>
  %0 = stablehlo.concatenate %column, %i, dim = 1 : (tensor<4x1xi32>, tensor<4x1xi32>) -> tensor<4x2xi32>
  %1 = "stablehlo.gather"(%x, %0) <{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [0, 1], start_index_map = [0, 1], index_vector_dim = 1>, slice_sizes = array<i64: 1, 1>}> : (tensor<4x8xf32>, tensor<4x2xi32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}

// The rows are 0, 0, 1, 1: no batch.
func.func @reshaped_rows(%x: tensor<4x8xf32>, %i: tensor<4x1xi32>) -> tensor<4xf32> {
  %iota = stablehlo.iota dim = 0 : tensor<2x2xi32>
  %column = stablehlo.reshape %iota : (tensor<2x2xi32>) -> tensor<4x1xi32>
  %0 = stablehlo.concatenate %column, %i, dim = 1 : (tensor<4x1xi32>, tensor<4x1xi32>) -> tensor<4x2xi32>
  %1 = "stablehlo.gather"(%x, %0) <{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [0, 1], start_index_map = [0, 1], index_vector_dim = 1>, slice_sizes = array<i64: 1, 1>}> : (tensor<4x8xf32>, tensor<4x2xi32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}

// Clamped to row 1: no batch.
func.func @clamped_rows(%x: tensor<4x8xf32>, %i: tensor<4x1xi32>) -> tensor<4xf32> {
  %low = stablehlo.constant dense<0> : tensor<i32>
  %high = stablehlo.constant dense<1> : tensor<i32>
  %iota = stablehlo.iota dim = 0 : tensor<4x1xi32>
  %column = stablehlo.clamp %low, %iota, %high : (tensor<i32>, tensor<4x1xi32>, tensor<i32>) -> tensor<4x1xi32>
  %0 = stablehlo.concatenate %column, %i, dim = 1 : (tensor<4x1xi32>, tensor<4x1xi32>) -> tensor<4x2xi32>
  %1 = "stablehlo.gather"(%x, %0) <{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [0, 1], start_index_map = [0, 1], index_vector_dim = 1>, slice_sizes = array<i64: 1, 1>}> : (tensor<4x8xf32>, tensor<4x2xi32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}
