// RUN: opt -sdy-export-named-computations -sdy-propagate-to-func-results -sdy-unflatten-call-graph -symbol-dce -sdy-insert-func-call-reshards
sdy.mesh @m = <["a"=2]>

func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = sdy.named_computation<"f">(%x) in_shardings=[<@m, [{"a"}]>] out_shardings=[<@m, [{}]>] (%y: tensor<4xf32>) {
    %3 = stablehlo.sine %y {sdy.sharding = #sdy.sharding_per_value<[<@m, [{"a"}]>]>} : tensor<4xf32>
    sdy.return %3 : tensor<4xf32>
  } : (tensor<4xf32>) -> tensor<4xf32>
  %1 = sdy.named_computation<"f">(%0) in_shardings=[<@m, [{"a"}]>] out_shardings=[<@m, [{"a"}]>] (%y: tensor<4xf32>) {
    %3 = stablehlo.sine %y {sdy.sharding = #sdy.sharding_per_value<[<@m, [{"a"}]>]>} : tensor<4xf32>
    sdy.return %3 : tensor<4xf32>
  } : (tensor<4xf32>) -> tensor<4xf32>
  %2 = sdy.named_computation<"f">(%1) in_shardings=[<@m, [{}]>] out_shardings=[<@m, [{}]>] (%y: tensor<4xf32>) {
    %3 = stablehlo.sine %y {sdy.sharding = #sdy.sharding_per_value<[<@m, [{}]>]>} : tensor<4xf32>
    sdy.return %3 : tensor<4xf32>
  } : (tensor<4xf32>) -> tensor<4xf32>
  return %2 : tensor<4xf32>
}
