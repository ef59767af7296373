// RUN: explain --all --link 100,1 --device 10,100
// RUN: explain --link 100,1 --device 10,100 --without overlapped-halos,wide-halos
// Fifty turns of a heat equation: links are slow, and blocks are large enough to hide them.
sdy.mesh @mesh = <["x"=4]>
func.func @main(%x: tensor<8192x2048xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) -> (tensor<8192x2048xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %turns = stablehlo.constant dense<50> : tensor<i32>
  %quarter = stablehlo.constant dense<0.25> : tensor<8190x2048xf32>
  %r:2 = stablehlo.while(%i = %zero, %u = %x) : tensor<i32>, tensor<8192x2048xf32>
  cond {
    %go = stablehlo.compare LT, %i, %turns : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %go : tensor<i1>
  } do {
    %up = stablehlo.slice %u [0:8190, 0:2048] : (tensor<8192x2048xf32>) -> tensor<8190x2048xf32>
    %mid = stablehlo.slice %u [1:8191, 0:2048] : (tensor<8192x2048xf32>) -> tensor<8190x2048xf32>
    %down = stablehlo.slice %u [2:8192, 0:2048] : (tensor<8192x2048xf32>) -> tensor<8190x2048xf32>
    %s0 = stablehlo.add %up, %down : tensor<8190x2048xf32>
    %s1 = stablehlo.subtract %s0, %mid : tensor<8190x2048xf32>
    %s2 = stablehlo.subtract %s1, %mid : tensor<8190x2048xf32>
    %s3 = stablehlo.multiply %s2, %quarter : tensor<8190x2048xf32>
    %s4 = stablehlo.add %mid, %s3 : tensor<8190x2048xf32>
    %new = stablehlo.dynamic_update_slice %u, %s4, %one, %zero : (tensor<8192x2048xf32>, tensor<8190x2048xf32>, tensor<i32>, tensor<i32>) -> tensor<8192x2048xf32>
    %j = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %j, %new : tensor<i32>, tensor<8192x2048xf32>
  }
  return %r#1 : tensor<8192x2048xf32>
}
