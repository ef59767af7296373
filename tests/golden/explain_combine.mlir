// RUN: explain
// RUN: explain --combine 0
// RUN: partition --combine 1000
// Gradients of three weights over one batch: independent sums over one group become one.
module @gradients {
  sdy.mesh @mesh = <["x"=4]>
  func.func public @main(
      %arg0: tensor<16x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>} loc("x"),
      %arg1: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>} loc("dy")) -> (tensor<8x4xf32>, tensor<4xf32>) {
    %0 = stablehlo.dot_general %arg0, %arg1, contracting_dims = [0] x [0] : (tensor<16x8xf32>, tensor<16x4xf32>) -> tensor<8x4xf32>
    %1 = stablehlo.negate %0 : tensor<8x4xf32>
    %z = stablehlo.constant dense<0.0> : tensor<f32>
    %2 = stablehlo.reduce(%arg1 init: %z) applies stablehlo.add across dimensions = [0] : (tensor<16x4xf32>, tensor<f32>) -> tensor<4xf32>
    return %1, %2 : tensor<8x4xf32>, tensor<4xf32>
  }
}
