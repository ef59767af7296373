// RUN: sdy-insert-explicit-reshards{enable-full-version=true}
sdy.mesh @mesh = <["x"=2]>

func.func @main(%a: tensor<8x4xi32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) -> (tensor<4xi32>, tensor<4xi32>) {
  %c = stablehlo.constant dense<-2147483648> : tensor<i32>
  %0 = stablehlo.reduce(%a init: %c) applies stablehlo.maximum across dimensions = [0] : (tensor<8x4xi32>, tensor<i32>) -> tensor<4xi32>
  // No all-reduce multiplies: the operand is gathered.
  %d = stablehlo.constant dense<1> : tensor<i32>
  %1 = stablehlo.reduce(%a init: %d) applies stablehlo.multiply across dimensions = [0] : (tensor<8x4xi32>, tensor<i32>) -> tensor<4xi32>
  return %0, %1 : tensor<4xi32>, tensor<4xi32>
}
// OUTPUT
module {
  sdy.mesh @mesh = <["x"=2]>
  func.func @main(%arg0: tensor<8x4xi32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) -> (tensor<4xi32>, tensor<4xi32>) {
    %c = stablehlo.constant dense<-2147483648> : tensor<i32>
    %0 = stablehlo.reduce(%arg0 init: %c) applies stablehlo.maximum across dimensions = [0] : (tensor<8x4xi32>, tensor<i32>) -> tensor<4xi32>
    %1 = sdy.all_reduce max {"x"} %0 out_sharding=<@mesh, [{}]> : tensor<4xi32>
    %c_0 = stablehlo.constant dense<1> : tensor<i32>
    %2 = sdy.reshard %arg0 <@mesh, [{}, {}]> : tensor<8x4xi32>
    %3 = stablehlo.reduce(%2 init: %c_0) applies stablehlo.multiply across dimensions = [0] : (tensor<8x4xi32>, tensor<i32>) -> tensor<4xi32>
    return %1, %3 : tensor<4xi32>, tensor<4xi32>
  }
}
