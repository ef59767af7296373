// RUN: opt -canonicalize
sdy.mesh @m = <["a"=4, "b"=2, "one"=1]>

func.func @reshards(%x: tensor<8x4xf32>) -> (tensor<8x4xf32>, tensor<32xf32>, tensor<4x8xf32>) {
  %0 = sdy.reshard %x <@m, [{"b"}, {}]> : tensor<8x4xf32>
  %1 = sdy.reshard %0 <@m, [{"a"}, {}]> : tensor<8x4xf32>
  %2 = stablehlo.reshape %x : (tensor<8x4xf32>) -> tensor<32xf32>
  %3 = sdy.reshard %2 <@m, [{"a"}]> : tensor<32xf32>
  %4 = stablehlo.transpose %x, dims = [1, 0] : (tensor<8x4xf32>) -> tensor<4x8xf32>
  %5 = sdy.reshard %4 <@m, [{"a"}, {}]> : tensor<4x8xf32>
  return %1, %3, %5 : tensor<8x4xf32>, tensor<32xf32>, tensor<4x8xf32>
}

func.func @no_manual_axes(%x: tensor<8xf32>, %unused: tensor<8xf32>) -> tensor<8xf32> {
  %0 = sdy.manual_computation(%x, %unused) in_shardings=[<@m, [{"one"}]>, <@m, [{}]>] out_shardings=[<@m, [{}]>] manual_axes={"one"} (%y: tensor<8xf32>, %z: tensor<8xf32>) {
    %1 = stablehlo.sine %y : tensor<8xf32>
    sdy.return %1 : tensor<8xf32>
  } : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}

func.func @reduce_scatter(%x: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@m, [{}, {}], unreduced={"a"}>}) -> tensor<8x8xf32> {
  %0 = sdy.all_reduce {"a"} %x out_sharding=<@m, [{}, {}]> : tensor<8x8xf32>
  %1 = sdy.all_slice [{"a"}, {"b"}] %0 out_sharding=<@m, [{"a"}, {"b"}]> : tensor<8x8xf32>
  return %1 : tensor<8x8xf32>
}

func.func @unused_constraint_stays(%x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = sdy.sharding_constraint %x <@m, [{"a"}]> : tensor<8xf32>
  return %x : tensor<8xf32>
}
