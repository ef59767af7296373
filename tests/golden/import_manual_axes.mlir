// RUN: opt -sdy-manual-axes-cleanup
sdy.mesh @m = <["a"=2, "b"=2, "c"=2]>

func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = sdy.manual_computation(%x) in_shardings=[<@m, [{"a"}], replicated={"c"}>] out_shardings=[<@m, [{"b", "a"}]>] manual_axes={"b", "a"} (%y: tensor<4xf32>) {
    %1 = stablehlo.slice %y [0:2] : (tensor<4xf32>) -> tensor<2xf32>
    sdy.return %1 : tensor<2xf32>
  } : (tensor<8xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}
