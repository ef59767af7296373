// RUN: explain
// A step of the heat equation in a loop: two neighbour permutes of one element a step.
module @heat {
  sdy.mesh @mesh = <["x"=4]>
  func.func public @main(%arg0: tensor<102xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) -> tensor<102xf32> {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %0:2 = stablehlo.while(%i = %zero, %u = %arg0) : tensor<i32>, tensor<102xf32>
    cond {
      %n = stablehlo.constant dense<10> : tensor<i32>
      %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %next = stablehlo.add %i, %one : tensor<i32>
      %l = stablehlo.slice %u [0:100] : (tensor<102xf32>) -> tensor<100xf32>
      %r = stablehlo.slice %u [2:102] : (tensor<102xf32>) -> tensor<100xf32>
      %s = stablehlo.add %l, %r : tensor<100xf32>
      %at = stablehlo.constant dense<1> : tensor<i32>
      %v = stablehlo.dynamic_update_slice %u, %s, %at : (tensor<102xf32>, tensor<100xf32>, tensor<i32>) -> tensor<102xf32>
      stablehlo.return %next, %v : tensor<i32>, tensor<102xf32>
    }
    return %0#1 : tensor<102xf32>
  }
}
