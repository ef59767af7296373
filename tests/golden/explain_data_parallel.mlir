// RUN: explain --all
// RUN: explain --all --device 100,2000
// A step of two layers, the batch split over 8 devices, the weights on all. Gathering the batch would send less than adding up
// the parts of the gradients, but every device would compute all of them. Devices that compute fast make up for that.
module @step {
  sdy.mesh @mesh = <["data"=8]>
  func.func public @main(
      %arg0: tensor<256x512xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>},
      %arg1: tensor<512x512xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>},
      %arg2: tensor<512x512xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}) -> (tensor<512x512xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, tensor<512x512xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}) {
    %h = stablehlo.dot_general %arg0, %arg1, contracting_dims = [1] x [0] : (tensor<256x512xf32>, tensor<512x512xf32>) -> tensor<256x512xf32>
    %a = stablehlo.tanh %h : tensor<256x512xf32>
    %y = stablehlo.dot_general %a, %arg2, contracting_dims = [1] x [0] : (tensor<256x512xf32>, tensor<512x512xf32>) -> tensor<256x512xf32>
    %gw2 = stablehlo.dot_general %a, %y, contracting_dims = [0] x [0] : (tensor<256x512xf32>, tensor<256x512xf32>) -> tensor<512x512xf32>
    %ga = stablehlo.dot_general %y, %arg2, contracting_dims = [1] x [1] : (tensor<256x512xf32>, tensor<512x512xf32>) -> tensor<256x512xf32>
    %gw1 = stablehlo.dot_general %arg0, %ga, contracting_dims = [0] x [0] : (tensor<256x512xf32>, tensor<256x512xf32>) -> tensor<512x512xf32>
    return %gw1, %gw2 : tensor<512x512xf32>, tensor<512x512xf32>
  }
}
