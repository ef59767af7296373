// RUN: sdy-basic-propagate
sdy.mesh @m1 = <["x"=2]>
sdy.mesh @m2 = <["x"=2]>
sdy.mesh @other = <["x"=4]>
func.func @main(%a: tensor<8xf32> {sdy.sharding = #sdy.sharding<@m1, [{"x", ?}]>},
                %b: tensor<8xf32> {sdy.sharding = #sdy.sharding<@m2, [{?}]>},
                %c: tensor<8xf32> {sdy.sharding = #sdy.sharding<@other, [{?}]>}) -> (tensor<8xf32>, tensor<8xf32>) {
  %0 = stablehlo.add %a, %b : tensor<8xf32>
  %1 = stablehlo.multiply %a, %c : tensor<8xf32>
  return %0, %1 : tensor<8xf32>, tensor<8xf32>
}
// OUTPUT
module {
  sdy.mesh @m1 = <["x"=2]>
  sdy.mesh @m2 = <["x"=2]>
  sdy.mesh @other = <["x"=4]>
  func.func @main(%arg0: tensor<8xf32> {sdy.sharding = #sdy.sharding<@m1, [{"x", ?}]>}, %arg1: tensor<8xf32> {sdy.sharding = #sdy.sharding<@m1, [{"x", ?}]>}, %arg2: tensor<8xf32> {sdy.sharding = #sdy.sharding<@other, [{?}]>}) -> (tensor<8xf32> {sdy.sharding = #sdy.sharding<@m1, [{"x", ?}]>}, tensor<8xf32>) {
    %0 = stablehlo.add %arg0, %arg1 {sdy.sharding = #sdy.sharding_per_value<[<@m1, [{"x", ?}]>]>} : tensor<8xf32>
    %1 = stablehlo.multiply %arg0, %arg2 : tensor<8xf32>
    return %0, %1 : tensor<8xf32>, tensor<8xf32>
  }
}
