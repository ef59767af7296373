module @placed attributes {mhlo.num_partitions = 4 : i32} {
  sdy.mesh @mesh = <["x"=2, "y"=4]>
  sdy.mesh @one = <[], device_ids=[3]>
  sdy.mesh @"odd mesh" = <["a"=4], device_ids=[3, 2, 1, 0]>
  func.func public @main(%arg0: tensor<8x8xf32> {jax.arg = "w", sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {?}]>}, %arg1: tensor<8x8xf32>) -> (tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x", ?}p1, {"y":(1)2}]>}) {
    %0 = stablehlo.add %arg0, %arg1 {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"x"}, {}], replicated={"y"}>]>, sdy.sharding_rule = #sdy.op_sharding_rule<([i, j], [i, j])->([i, j]) {i=8, j=8} need_replication={j}, custom>} : tensor<8x8xf32>
    %1 = sdy.sharding_constraint %0 <@mesh, [{"x"}, {"y"}]> : tensor<8x8xf32>
    %2 = sdy.reshard %1 <@mesh, [{"x", "y"}, {}]> : tensor<8x8xf32>
    %3 = sdy.all_gather [{"y"}, {}] %2 out_sharding=<@mesh, [{"x"}, {}]> : tensor<8x8xf32>
    %4 = sdy.all_slice [{}, {"y"}] %3 out_sharding=<@mesh, [{"x"}, {"y"}]> : tensor<8x8xf32>
    %5 = sdy.all_to_all [{"y"}: 1->0] %4 out_sharding=<@mesh, [{"x", "y"}, {}]> : tensor<8x8xf32>
    %6 = sdy.collective_permute %5 out_sharding=<@mesh, [{"y", "x"}, {}]> : tensor<8x8xf32>
    %7 = sdy.propagation_barrier %6 allowed_direction=BACKWARD : tensor<8x8xf32>
    %8 = sdy.manual_computation(%7, %arg1) in_shardings=[<@mesh, [{"x"}, {}]>, <@mesh, [{}, {}]>] out_shardings=[<@mesh, [{"x"}, {}]>] manual_axes={"x"} (%arg2: tensor<4x8xf32>, %arg3: tensor<8x8xf32>) {
      %13 = stablehlo.negate %arg2 : tensor<4x8xf32>
      sdy.return %13 : tensor<4x8xf32>
    } : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    %9 = sdy.named_computation<"layer">(%8) out_shardings=[<@mesh, [{"x"}, {}]>] (%arg2: tensor<8x8xf32>) {
      sdy.return %arg2 : tensor<8x8xf32>
    } : (tensor<8x8xf32>) -> tensor<8x8xf32>
    sdy.sharding_group %9 group_id=7 : tensor<8x8xf32>
    %10 = sdy.constant dense<1.000000e+00> : tensor<8x8xf32>
    %11 = stablehlo.negate %10 : tensor<8x8xf32>
    %12 = sdy.data_flow_edge %11 sharding=<@mesh, [{}, {?}]> : tensor<8x8xf32>
    return %12 : tensor<8x8xf32>
  }
}
