// RUN: opt -sdy-add-data-flow-edges
sdy.mesh @m = <["a"=2, "b"=2]>

func.func @loop(%x: tensor<4xf32>, %n: tensor<i32>, %t: !stablehlo.token) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %0:3 = stablehlo.while(%i = %n, %y = %x, %u = %t) : tensor<i32>, tensor<4xf32>, !stablehlo.token
    attributes {sdy.sharding = #sdy.sharding_per_value<[<@m, []>, <@m, [{"a", ?}]>, <@m, []>]>}
  cond {
    %1 = stablehlo.compare GT, %i, %zero : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %1 : tensor<i1>
  } do {
    %2 = stablehlo.subtract %i, %n : tensor<i32>
    %3 = stablehlo.sine %y : tensor<4xf32>
    stablehlo.return %2, %3, %u : tensor<i32>, tensor<4xf32>, !stablehlo.token
  }
  return %0#1 : tensor<4xf32>
}

func.func @manual(%x: tensor<8x4xf32>) -> tensor<8x4xf32> {
  %0 = sdy.manual_computation(%x) in_shardings=[<@m, [{"a", "b"}, {?}]>] out_shardings=[<@m, [{"a"}, {}]>] manual_axes={"a"} (%y: tensor<4x4xf32>) {
    %1 = stablehlo.sine %y : tensor<4x4xf32>
    sdy.return %1 : tensor<4x4xf32>
  } : (tensor<8x4xf32>) -> tensor<8x4xf32>
  return %0 : tensor<8x4xf32>
}

func.func @branches(%p: tensor<i32>, %x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %0:2 = "stablehlo.case"(%p) ({
    stablehlo.return %x, %x : tensor<4xf32>, tensor<4xf32>
  }, {
    %1:2 = stablehlo.optimization_barrier %x, %x : tensor<4xf32>, tensor<4xf32>
    stablehlo.return %1#0, %1#1 : tensor<4xf32>, tensor<4xf32>
  }) : (tensor<i32>) -> (tensor<4xf32>, tensor<4xf32>)
  return %0#0, %0#1 : tensor<4xf32>, tensor<4xf32>
}
