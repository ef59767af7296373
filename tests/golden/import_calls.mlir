// RUN: opt -sdy-flatten-call-graph -sdy-import-func-calls -symbol-dce
sdy.mesh @m = <["a"=2]>

func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = call @outer(%x) {sdy.sharding = #sdy.sharding_per_value<[<@m, [{"a"}]>]>, note = "kept"} : (tensor<4xf32>) -> tensor<4xf32>
  %1 = call @outer(%0) : (tensor<4xf32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}

func.func private @outer(%x: tensor<4xf32> {sdy.sharding = #sdy.sharding<@m, [{?}]>}) -> tensor<4xf32> {
  %0 = call @inner(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

func.func private @inner(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.sine %x : tensor<4xf32>
  return %0 : tensor<4xf32>
}
