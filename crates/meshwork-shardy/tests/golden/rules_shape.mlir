// RUN: sdy-populate-op-sharding-rules
func.func @main(%a: tensor<4x1x6xf32>, %b: tensor<4x2x6xf32>, %p: tensor<f32>, %i: tensor<i32>) -> tensor<7x4x5x6xf32> {
  %0 = stablehlo.broadcast_in_dim %a, dims = [1, 2, 3] : (tensor<4x1x6xf32>) -> tensor<7x4x5x6xf32>
  %1 = stablehlo.transpose %b, dims = [2, 0, 1] : (tensor<4x2x6xf32>) -> tensor<6x4x2xf32>
  %2 = stablehlo.reverse %b, dims = [1] : tensor<4x2x6xf32>
  %3 = stablehlo.slice %b [0:4, 0:1, 2:6] : (tensor<4x2x6xf32>) -> tensor<4x1x4xf32>
  %4 = stablehlo.pad %b, %p, low = [0, 0, 1], high = [0, 0, 1], interior = [0, 0, 0] : (tensor<4x2x6xf32>, tensor<f32>) -> tensor<4x2x8xf32>
  %5 = stablehlo.concatenate %a, %b, dim = 1 : (tensor<4x1x6xf32>, tensor<4x2x6xf32>) -> tensor<4x3x6xf32>
  %6 = stablehlo.slice %b [0:4, 1:2, 0:6] : (tensor<4x2x6xf32>) -> tensor<4x1x6xf32>
  %7 = stablehlo.concatenate %6, %b, dim = 1 : (tensor<4x1x6xf32>, tensor<4x2x6xf32>) -> tensor<4x3x6xf32>
  %8 = stablehlo.dynamic_slice %b, %i, %i, %i, sizes = [4, 1, 6] : (tensor<4x2x6xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<4x1x6xf32>
  %9 = stablehlo.dynamic_update_slice %b, %a, %i, %i, %i : (tensor<4x2x6xf32>, tensor<4x1x6xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<4x2x6xf32>
  %10 = stablehlo.bitcast_convert %b : (tensor<4x2x6xf32>) -> tensor<4x2x6x2xi16>
  %11 = stablehlo.clamp %p, %b, %p : (tensor<f32>, tensor<4x2x6xf32>, tensor<f32>) -> tensor<4x2x6xf32>
  return %0 : tensor<7x4x5x6xf32>
}
// OUTPUT
module {
  func.func @main(%arg0: tensor<4x1x6xf32>, %arg1: tensor<4x2x6xf32>, %arg2: tensor<f32>, %arg3: tensor<i32>) -> tensor<7x4x5x6xf32> {
    %0 = stablehlo.broadcast_in_dim %arg0, dims = [1, 2, 3] {sdy.sharding_rule = #sdy.op_sharding_rule<([j, k, m])->([i, j, l, m]) {i=7, j=4, k=1, l=5, m=6}>} : (tensor<4x1x6xf32>) -> tensor<7x4x5x6xf32>
    %1 = stablehlo.transpose %arg1, dims = [2, 0, 1] {sdy.sharding_rule = #sdy.op_sharding_rule<([j, k, i])->([i, j, k]) {i=6, j=4, k=2}>} : (tensor<4x2x6xf32>) -> tensor<6x4x2xf32>
    %2 = stablehlo.reverse %arg1, dims = [1] {sdy.sharding_rule = #sdy.op_sharding_rule<([i, j, k])->([i, j, k]) {i=4, j=2, k=6} permutation={j}>} : tensor<4x2x6xf32>
    %3 = stablehlo.slice %arg1 [0:4, 0:1, 2:6] {sdy.sharding_rule = #sdy.op_sharding_rule<([i, j, k])->([i, j, k]) {i=4, j=2, k=6} permutation={j, k}>} : (tensor<4x2x6xf32>) -> tensor<4x1x4xf32>
    %4 = stablehlo.pad %arg1, %arg2, low = [0, 0, 1], high = [0, 0, 1], interior = [0, 0, 0] {sdy.sharding_rule = #sdy.op_sharding_rule<([i, j, k], [])->([i, j, k]) {i=4, j=2, k=6} permutation={k}>} : (tensor<4x2x6xf32>, tensor<f32>) -> tensor<4x2x8xf32>
    %5 = stablehlo.concatenate %arg0, %arg1, dim = 1 {sdy.sharding_rule = #sdy.op_sharding_rule<([i, j, k], [i, j, k])->([i, j, k]) {i=4, j=3, k=6} need_replication={j}>} : (tensor<4x1x6xf32>, tensor<4x2x6xf32>) -> tensor<4x3x6xf32>
    %6 = stablehlo.slice %arg1 [0:4, 1:2, 0:6] {sdy.sharding_rule = #sdy.op_sharding_rule<([i, j, k])->([i, j, k]) {i=4, j=2, k=6} permutation={j}>} : (tensor<4x2x6xf32>) -> tensor<4x1x6xf32>
    %7 = stablehlo.concatenate %6, %arg1, dim = 1 {sdy.sharding_rule = #sdy.op_sharding_rule<([i, j, k], [i, j, k])->([i, j, k]) {i=4, j=3, k=6} permutation={j}>} : (tensor<4x1x6xf32>, tensor<4x2x6xf32>) -> tensor<4x3x6xf32>
    %8 = stablehlo.dynamic_slice %arg1, %arg3, %arg3, %arg3, sizes = [4, 1, 6] {sdy.sharding_rule = #sdy.op_sharding_rule<([i, j, k], [], [], [])->([i, j, k]) {i=4, j=2, k=6} need_replication={j} blocked_propagation={j}>} : (tensor<4x2x6xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<4x1x6xf32>
    %9 = stablehlo.dynamic_update_slice %arg1, %arg0, %arg3, %arg3, %arg3 {sdy.sharding_rule = #sdy.op_sharding_rule<([i, j, l], [i, k, l], [], [], [])->([i, j, l]) {i=4, j=2, k=1, l=6} need_replication={k}>} : (tensor<4x2x6xf32>, tensor<4x1x6xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<4x2x6xf32>
    %10 = stablehlo.bitcast_convert %arg1 {sdy.sharding_rule = #sdy.op_sharding_rule<([i, j, k])->([i, j, k, l]) {i=4, j=2, k=6, l=2} need_replication={l}>} : (tensor<4x2x6xf32>) -> tensor<4x2x6x2xi16>
    %11 = stablehlo.clamp %arg2, %arg1, %arg2 {sdy.sharding_rule = #sdy.op_sharding_rule<([], [i, j, k], [])->([i, j, k]) {i=4, j=2, k=6}>} : (tensor<f32>, tensor<4x2x6xf32>, tensor<f32>) -> tensor<4x2x6xf32>
    return %0 : tensor<7x4x5x6xf32>
  }
}
