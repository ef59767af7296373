// RUN: sdy-populate-op-sharding-rules
func.func @main(%t: tensor<16x8xf32>, %i: tensor<4x3x1xi32>, %u: tensor<4x3x8xf32>, %bt: tensor<5x16x8xf32>, %bi: tensor<5x3x1xi32>) -> tensor<4x3x8xf32> {
  %0 = "stablehlo.gather"(%t, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = [2], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 2>, slice_sizes = array<i64: 1, 8>}> : (tensor<16x8xf32>, tensor<4x3x1xi32>) -> tensor<4x3x8xf32>
  %1 = "stablehlo.gather"(%bt, %bi) <{dimension_numbers = #stablehlo.gather<offset_dims = [2], collapsed_slice_dims = [1], operand_batching_dims = [0], start_indices_batching_dims = [0], start_index_map = [1], index_vector_dim = 2>, slice_sizes = array<i64: 1, 1, 4>}> : (tensor<5x16x8xf32>, tensor<5x3x1xi32>) -> tensor<5x3x4xf32>
  %2 = "stablehlo.scatter"(%t, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [2], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 2>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %s = stablehlo.add %y, %x : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<16x8xf32>, tensor<4x3x1xi32>, tensor<4x3x8xf32>) -> tensor<16x8xf32>
  %3 = "stablehlo.scatter"(%t, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [2], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 2>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    stablehlo.return %y : tensor<f32>
  }) : (tensor<16x8xf32>, tensor<4x3x1xi32>, tensor<4x3x8xf32>) -> tensor<16x8xf32>
  return %0 : tensor<4x3x8xf32>
}
// OUTPUT
module {
  func.func @main(%arg0: tensor<16x8xf32>, %arg1: tensor<4x3x1xi32>, %arg2: tensor<4x3x8xf32>, %arg3: tensor<5x16x8xf32>, %arg4: tensor<5x3x1xi32>) -> tensor<4x3x8xf32> {
    %0 = "stablehlo.gather"(%arg0, %arg1) <{dimension_numbers = #stablehlo.gather<offset_dims = [2], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 2>, slice_sizes = array<i64: 1, 8>}> {sdy.sharding_rule = #sdy.op_sharding_rule<([l, k], [i, j, m])->([i, j, k]) {i=4, j=3, k=8, l=16, m=1} reduction={l} need_replication={m}>} : (tensor<16x8xf32>, tensor<4x3x1xi32>) -> tensor<4x3x8xf32>
    %1 = "stablehlo.gather"(%arg3, %arg4) <{dimension_numbers = #stablehlo.gather<offset_dims = [2], collapsed_slice_dims = [1], operand_batching_dims = [0], start_indices_batching_dims = [0], start_index_map = [1], index_vector_dim = 2>, slice_sizes = array<i64: 1, 1, 4>}> {sdy.sharding_rule = #sdy.op_sharding_rule<([i, l, k], [i, j, m])->([i, j, k]) {i=5, j=3, k=8, l=16, m=1} reduction={l} need_replication={k, m} blocked_propagation={k}>} : (tensor<5x16x8xf32>, tensor<5x3x1xi32>) -> tensor<5x3x4xf32>
    %2 = "stablehlo.scatter"(%arg0, %arg1, %arg2) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [2], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 2>}> ({
    ^bb0(%arg5: tensor<f32>, %arg6: tensor<f32>):
      %4 = stablehlo.add %arg6, %arg5 {sdy.sharding_rule = #sdy.op_sharding_rule<([], [])->([])>} : tensor<f32>
      stablehlo.return %4 : tensor<f32>
    }) {sdy.sharding_rule = #sdy.op_sharding_rule<([l, k], [i, j, m], [i, j, k])->([l, k]) {i=4, j=3, k=8, l=16, m=1} reduction={i, j} need_replication={m}>} : (tensor<16x8xf32>, tensor<4x3x1xi32>, tensor<4x3x8xf32>) -> tensor<16x8xf32>
    %3 = "stablehlo.scatter"(%arg0, %arg1, %arg2) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [2], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 2>}> ({
    ^bb0(%arg5: tensor<f32>, %arg6: tensor<f32>):
      stablehlo.return %arg6 : tensor<f32>
    }) {sdy.sharding_rule = #sdy.op_sharding_rule<([l, k], [i, j, m], [i, j, k])->([l, k]) {i=4, j=3, k=8, l=16, m=1} need_replication={i, j, m}>} : (tensor<16x8xf32>, tensor<4x3x1xi32>, tensor<4x3x8xf32>) -> tensor<16x8xf32>
    return %0 : tensor<4x3x8xf32>
  }
}
