// RUN: opt -sdy-sink-data-flow-edges
sdy.mesh @m = <["a"=2, "b"=2]>

func.func @other_results_become_open(%x: tensor<4xf32>, %y: tensor<2x2xf32>) -> (tensor<4xf32>, tensor<2x2xf32>) {
  %0:2 = stablehlo.optimization_barrier %x, %y : tensor<4xf32>, tensor<2x2xf32>
  %1 = sdy.data_flow_edge %0#0 sharding=<@m, [{"a", ?}]> : tensor<4xf32>
  %2 = sdy.data_flow_edge %0#1 : tensor<2x2xf32>
  return %1, %2 : tensor<4xf32>, tensor<2x2xf32>
}

func.func @manual_axes_stay(%x: tensor<8x4xf32>) -> tensor<8x4xf32> {
  %0 = sdy.manual_computation(%x) in_shardings=[<@m, [{"a"}, {?}]>] out_shardings=[<@m, [{"a"}, {}]>] manual_axes={"a"} (%y: tensor<4x4xf32>) {
    %1 = sdy.data_flow_edge %y sharding=<@m, [{?}, {"b", ?}]> : tensor<4x4xf32>
    %2 = stablehlo.sine %1 : tensor<4x4xf32>
    sdy.return %2 : tensor<4x4xf32>
  } : (tensor<8x4xf32>) -> tensor<8x4xf32>
  %3 = sdy.data_flow_edge %0 sharding=<@m, [{"a"}, {"b"}]> : tensor<8x4xf32>
  return %3 : tensor<8x4xf32>
}
