// RUN: sdy-convert-global-to-local
sdy.mesh @mesh = <["x"=2]>

func.func @main(%a: tensor<4x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>},
                %b: tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) -> tensor<4x4xf32> {
  %0 = stablehlo.dot %a, %b : (tensor<4x8xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
  return %0 : tensor<4x4xf32>
}
// OUTPUT
// 6:8: error: 'stablehlo.dot' op has partial results over axes {"x"}, so that its only use must be an sdy.all_reduce over these; it is reduced over {}
