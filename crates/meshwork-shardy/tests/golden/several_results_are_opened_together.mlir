// RUN: sdy-basic-propagate
sdy.mesh @mesh = <["x"=2]>
func.func @main(%s: tensor<2xui64>) -> (tensor<2xui64>, tensor<8x4xui32> {sdy.sharding = #sdy.sharding<@mesh, [{"x", ?}, {?}]>}) {
  %0:2 = stablehlo.rng_bit_generator %s, algorithm = DEFAULT : (tensor<2xui64>) -> (tensor<2xui64>, tensor<8x4xui32>)
  return %0#0, %0#1 : tensor<2xui64>, tensor<8x4xui32>
}
// OUTPUT
module {
  sdy.mesh @mesh = <["x"=2]>
  func.func @main(%arg0: tensor<2xui64>) -> (tensor<2xui64>, tensor<8x4xui32> {sdy.sharding = #sdy.sharding<@mesh, [{"x", ?}, {?}]>}) {
    %output_state, %output = stablehlo.rng_bit_generator %arg0, algorithm = DEFAULT {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{?}]>, <@mesh, [{"x", ?}, {?}]>]>} : (tensor<2xui64>) -> (tensor<2xui64>, tensor<8x4xui32>)
    return %output_state, %output : tensor<2xui64>, tensor<8x4xui32>
  }
}
