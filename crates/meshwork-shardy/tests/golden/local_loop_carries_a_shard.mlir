// RUN: sdy-convert-global-to-local sdy-drop-sharding-and-mesh
sdy.mesh @mesh = <["x"=2]>

func.func @main(%a: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}, %go: tensor<i1>)
    -> (tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) {
  %0 = stablehlo.while(%s = %a) : tensor<8xf32> attributes {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"x"}]>]>}
  cond {
    stablehlo.return %go : tensor<i1>
  } do {
    %1 = stablehlo.negate %s {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"x"}]>]>} : tensor<8xf32>
    stablehlo.return %1 : tensor<8xf32>
  }
  return %0 : tensor<8xf32>
}
// OUTPUT
module {
  func.func @main(%arg0: tensor<4xf32>, %arg1: tensor<i1>) -> tensor<4xf32> {
    %0 = stablehlo.while(%iterArg = %arg0) : tensor<4xf32>
    cond {
      stablehlo.return %arg1 : tensor<i1>
    } do {
      %1 = stablehlo.negate %iterArg : tensor<4xf32>
      stablehlo.return %1 : tensor<4xf32>
    }
    return %0 : tensor<4xf32>
  }
}
