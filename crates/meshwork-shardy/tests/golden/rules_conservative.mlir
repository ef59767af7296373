// RUN: sdy-populate-op-sharding-rules{conservative-propagation=true}
func.func @main(%a: tensor<4x6xf32>, %x: tensor<8x28x4xf32>, %k: tensor<3x4x6xf32>) -> tensor<4x4xf32> {
  %0 = stablehlo.slice %a [0:4, 2:6] : (tensor<4x6xf32>) -> tensor<4x4xf32>
  %1 = stablehlo.concatenate %a, %a, dim = 0 : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<8x6xf32>
  %2 = stablehlo.convolution(%x, %k) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<8x28x4xf32>, tensor<3x4x6xf32>) -> tensor<8x26x6xf32>
  return %0 : tensor<4x4xf32>
}
// OUTPUT
module {
  func.func @main(%arg0: tensor<4x6xf32>, %arg1: tensor<8x28x4xf32>, %arg2: tensor<3x4x6xf32>) -> tensor<4x4xf32> {
    %0 = stablehlo.slice %arg0 [0:4, 2:6] {sdy.sharding_rule = #sdy.op_sharding_rule<([i, j])->([i, j]) {i=4, j=6} permutation={j} blocked_propagation={j}>} : (tensor<4x6xf32>) -> tensor<4x4xf32>
    %1 = stablehlo.concatenate %arg0, %arg0, dim = 0 {sdy.sharding_rule = #sdy.op_sharding_rule<([j, i], [k, i])->([l, i]) {i=6, j=1, k=1, l=1}>} : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<8x6xf32>
    %2 = stablehlo.convolution(%arg1, %arg2) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, sdy.sharding_rule = #sdy.op_sharding_rule<([i, l, j], [m, j, k])->([i, n, k]) {i=8, j=4, k=6, l=1, m=1, n=1} reduction={j}>} : (tensor<8x28x4xf32>, tensor<3x4x6xf32>) -> tensor<8x26x6xf32>
    return %0 : tensor<4x4xf32>
  }
}
