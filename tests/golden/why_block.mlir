// RUN: why %s %arg1
// RUN: why %s %arg4 --dim 0
// RUN: why %s result0
// RUN: why %s 20
// RUN: why %s 26
// RUN: why %s 26 --dim 7
// RUN: why %s %arg9
// A transformer block: batch over data, heads over model, and a sequence constraint behind the attention.
module @block {
  sdy.mesh @mesh = <["data"=2, "model"=4]>
  func.func public @main(
      %arg0: tensor<8x16x32xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}, {}]>} loc("x"),
      %arg1: tensor<32x4x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"model"}, {}]>} loc("wq"),
      %arg2: tensor<32x4x8xf32> loc("wk"),
      %arg3: tensor<32x4x8xf32> loc("wv"),
      %arg4: tensor<4x8x32xf32> loc("wo")) -> tensor<8x16x32xf32> {
    %q = stablehlo.dot_general %arg0, %arg1, contracting_dims = [2] x [0] : (tensor<8x16x32xf32>, tensor<32x4x8xf32>) -> tensor<8x16x4x8xf32>
    %k = stablehlo.dot_general %arg0, %arg2, contracting_dims = [2] x [0] : (tensor<8x16x32xf32>, tensor<32x4x8xf32>) -> tensor<8x16x4x8xf32>
    %v = stablehlo.dot_general %arg0, %arg3, contracting_dims = [2] x [0] : (tensor<8x16x32xf32>, tensor<32x4x8xf32>) -> tensor<8x16x4x8xf32>
    %s = stablehlo.dot_general %q, %k, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [3] : (tensor<8x16x4x8xf32>, tensor<8x16x4x8xf32>) -> tensor<8x4x16x16xf32>
    %e = stablehlo.exponential %s : tensor<8x4x16x16xf32>
    %a = stablehlo.dot_general %e, %v, batching_dims = [0, 1] x [0, 2], contracting_dims = [3] x [1] : (tensor<8x4x16x16xf32>, tensor<8x16x4x8xf32>) -> tensor<8x4x16x8xf32>
    %o = stablehlo.dot_general %a, %arg4, contracting_dims = [1, 3] x [0, 1] : (tensor<8x4x16x8xf32>, tensor<4x8x32xf32>) -> tensor<8x16x32xf32>
    %r = stablehlo.add %o, %arg0 : tensor<8x16x32xf32>
    %c = sdy.sharding_constraint %r <@mesh, [{"data"}, {"model"}, {}]> : tensor<8x16x32xf32>
    %y = stablehlo.tanh %c : tensor<8x16x32xf32>
    return %y : tensor<8x16x32xf32>
  }
}
