// RUN: sdy-pad-for-divisibility
sdy.mesh @mesh = <["x"=2, "y"=4]>

// Over 2 devices shards end after 3 elements, over 2 times 4 after 4.
func.func @main(%a: tensor<6xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) -> tensor<6xf32> {
  %0 = sdy.all_slice [{"y"}] %a out_sharding=<@mesh, [{"x", "y"}]> : tensor<6xf32>
  %1 = sdy.all_gather [{"x", "y"}] %0 out_sharding=<@mesh, [{}]> : tensor<6xf32>
  return %1 : tensor<6xf32>
}
// OUTPUT
module {
  sdy.mesh @mesh = <["x"=2, "y"=4]>
  func.func @main(%arg0: tensor<6xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) -> tensor<6xf32> {
    %0 = sdy.all_gather [{"x"}] %arg0 out_sharding=<@mesh, [{}]> : tensor<6xf32>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %1 = stablehlo.pad %0, %cst, low = [0], high = [2], interior = [0] {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{}]>]>} : (tensor<6xf32>, tensor<f32>) -> tensor<8xf32>
    %2 = sdy.all_slice [{"x", "y"}] %1 out_sharding=<@mesh, [{"x", "y"}]> : tensor<8xf32>
    %3 = sdy.all_gather [{"x", "y"}] %2 out_sharding=<@mesh, [{}]> : tensor<8xf32>
    %4 = stablehlo.slice %3 [0:6] {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{}]>]>} : (tensor<8xf32>) -> tensor<6xf32>
    return %4 : tensor<6xf32>
  }
}
