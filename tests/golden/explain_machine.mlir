// RUN: explain --machine h100
// RUN: explain --machine tpu-v5e --link x=20,5
// RUN: explain --machine nowhere.machine
// The program of explain_train on machines with levels.
module @step {
  sdy.mesh @mesh = <["x"=2, "y"=4]>
  func.func public @main(
      %arg0: tensor<16x64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>},
      %arg1: tensor<64x128xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"y"}]>},
      %arg2: tensor<128x64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"y"}, {}]>}) -> (tensor<16x64xf32>, tensor<64x128xf32>, tensor<128x64xf32>) {
    %h = stablehlo.dot_general %arg0, %arg1, contracting_dims = [1] x [0] : (tensor<16x64xf32>, tensor<64x128xf32>) -> tensor<16x128xf32>
    %a = stablehlo.tanh %h : tensor<16x128xf32>
    %y = stablehlo.dot_general %a, %arg2, contracting_dims = [1] x [0] : (tensor<16x128xf32>, tensor<128x64xf32>) -> tensor<16x64xf32>
    %gw2 = stablehlo.dot_general %a, %y, contracting_dims = [0] x [0] : (tensor<16x128xf32>, tensor<16x64xf32>) -> tensor<128x64xf32>
    %ga = stablehlo.dot_general %y, %arg2, contracting_dims = [1] x [1] : (tensor<16x64xf32>, tensor<128x64xf32>) -> tensor<16x128xf32>
    %gw1 = stablehlo.dot_general %arg0, %ga, contracting_dims = [0] x [0] : (tensor<16x64xf32>, tensor<16x128xf32>) -> tensor<64x128xf32>
    return %y, %gw1, %gw2 : tensor<16x64xf32>, tensor<64x128xf32>, tensor<128x64xf32>
  }
}
