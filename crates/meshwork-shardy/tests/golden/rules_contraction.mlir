// RUN: sdy-populate-op-sharding-rules
func.func @main(%a: tensor<2x8x16xf32>, %b: tensor<2x16x32xf32>, %m: tensor<8x16xf32>, %v: tensor<16xf32>, %x: tensor<8x28x28x4xf32>, %k: tensor<3x3x4x6xf32>, %g: tensor<3x3x2x6xf32>) -> tensor<8xf32> {
  %0 = stablehlo.dot_general %a, %b, batching_dims = [0] x [0], contracting_dims = [2] x [1] : (tensor<2x8x16xf32>, tensor<2x16x32xf32>) -> tensor<2x8x32xf32>
  %1 = stablehlo.dot %m, %v : (tensor<8x16xf32>, tensor<16xf32>) -> tensor<8xf32>
  %2 = stablehlo.convolution(%x, %k) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<8x28x28x4xf32>, tensor<3x3x4x6xf32>) -> tensor<8x26x26x6xf32>
  %3 = stablehlo.convolution(%x, %g) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {} {batch_group_count = 1 : i64, feature_group_count = 2 : i64} : (tensor<8x28x28x4xf32>, tensor<3x3x2x6xf32>) -> tensor<8x26x26x6xf32>
  return %1 : tensor<8xf32>
}
// OUTPUT
module {
  func.func @main(%arg0: tensor<2x8x16xf32>, %arg1: tensor<2x16x32xf32>, %arg2: tensor<8x16xf32>, %arg3: tensor<16xf32>, %arg4: tensor<8x28x28x4xf32>, %arg5: tensor<3x3x4x6xf32>, %arg6: tensor<3x3x2x6xf32>) -> tensor<8xf32> {
    %0 = stablehlo.dot_general %arg0, %arg1, batching_dims = [0] x [0], contracting_dims = [2] x [1] {sdy.sharding_rule = #sdy.op_sharding_rule<([i, j, l], [i, l, k])->([i, j, k]) {i=2, j=8, k=32, l=16} reduction={l}>} : (tensor<2x8x16xf32>, tensor<2x16x32xf32>) -> tensor<2x8x32xf32>
    %1 = stablehlo.dot %arg2, %arg3 {sdy.sharding_rule = #sdy.op_sharding_rule<([i, j], [j])->([i]) {i=8, j=16} reduction={j}>} : (tensor<8x16xf32>, tensor<16xf32>) -> tensor<8xf32>
    %2 = stablehlo.convolution(%arg4, %arg5) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, sdy.sharding_rule = #sdy.op_sharding_rule<([i, j, k, l], [n, o, l, m])->([i, j, k, m]) {i=8, j=26, k=26, l=4, m=6, n=1, o=1} reduction={l} permutation={j, k}>} : (tensor<8x28x28x4xf32>, tensor<3x3x4x6xf32>) -> tensor<8x26x26x6xf32>
    %3 = stablehlo.convolution(%arg4, %arg6) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {} {batch_group_count = 1 : i64, feature_group_count = 2 : i64, sdy.sharding_rule = #sdy.op_sharding_rule<([i, j, k, lm], [o, p, m, ln])->([i, j, k, ln]) {i=8, j=26, k=26, l=2, m=2, n=3, o=1, p=1} reduction={m} permutation={j, k}>} : (tensor<8x28x28x4xf32>, tensor<3x3x2x6xf32>) -> tensor<8x26x26x6xf32>
    return %1 : tensor<8xf32>
  }
}
