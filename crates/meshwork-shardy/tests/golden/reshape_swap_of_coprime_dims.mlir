// RUN: sdy-populate-op-sharding-rules
func.func @main(%a: tensor<3x2xf32>, %b: tensor<6x35xf32>) -> (tensor<2x3xf32>, tensor<14x15xf32>) {
  %0 = stablehlo.reshape %a : (tensor<3x2xf32>) -> tensor<2x3xf32>
  %1 = stablehlo.reshape %b : (tensor<6x35xf32>) -> tensor<14x15xf32>
  return %0, %1 : tensor<2x3xf32>, tensor<14x15xf32>
}
// OUTPUT
module {
  func.func @main(%arg0: tensor<3x2xf32>, %arg1: tensor<6x35xf32>) -> (tensor<2x3xf32>, tensor<14x15xf32>) {
    %0 = stablehlo.reshape %arg0 {sdy.sharding_rule = #sdy.op_sharding_rule<([i, l])->([j, k]) {i=3, j=2, k=3, l=2}>} : (tensor<3x2xf32>) -> tensor<2x3xf32>
    %1 = stablehlo.reshape %arg1 {sdy.sharding_rule = #sdy.op_sharding_rule<([ij, ln])->([ik, mn]) {i=2, j=3, k=7, l=7, m=3, n=5}>} : (tensor<6x35xf32>) -> tensor<14x15xf32>
    return %0, %1 : tensor<2x3xf32>, tensor<14x15xf32>
  }
}
