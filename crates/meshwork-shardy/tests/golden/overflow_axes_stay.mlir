// RUN: sdy-basic-propagate
sdy.mesh @mesh = <["x"=2, "y"=3]>
func.func @main(%a: tensor<12xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x", "y", ?}]>}) -> tensor<4x3xf32> {
  %0 = stablehlo.reshape %a : (tensor<12xf32>) -> tensor<4x3xf32>
  return %0 : tensor<4x3xf32>
}
// OUTPUT
module {
  sdy.mesh @mesh = <["x"=2, "y"=3]>
  func.func @main(%arg0: tensor<12xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x", "y", ?}]>}) -> (tensor<4x3xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x", ?}, {?}]>}) {
    %0 = stablehlo.reshape %arg0 {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"x", ?}, {?}]>]>} : (tensor<12xf32>) -> tensor<4x3xf32>
    return %0 : tensor<4x3xf32>
  }
}
