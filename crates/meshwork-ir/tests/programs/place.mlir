sdy.mesh @mesh = <["x"=2, "y"=4]>
sdy.mesh @one = <[], device_ids=[3]>
func.func @place(%a: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %0 = sdy.sharding_constraint %a <@mesh, [{"x"}, {"y":(1)2, ?}p2], replicated={"y":(2)2}> : tensor<8x8xf32>
  %1 = sdy.reshard %0 <mesh<["z"=2]>, [{"z"}, {}]> : tensor<8x8xf32>
  sdy.sharding_group %1 group_id=3 : tensor<8x8xf32>
  %2 = sdy.propagation_barrier %1 allowed_direction=FORWARD : tensor<8x8xf32>
  %3 = sdy.data_flow_edge %2 sharding=<@mesh, [{}, {}]> : tensor<8x8xf32>
  %4 = sdy.all_gather [{"x"}, {}] %3 out_sharding=<@mesh, [{}, {}]> : tensor<8x8xf32>
  %5 = sdy.all_slice [{}, {"y"}] %4 out_sharding=<@mesh, [{}, {"y"}]> : tensor<8x8xf32>
  %6 = sdy.all_to_all [{"y"}: 1->0] %5 out_sharding=<@mesh, [{"y"}, {}]> : tensor<8x8xf32>
  %7 = sdy.collective_permute %6 out_sharding=<@mesh, [{"x"}, {}]> : tensor<8x8xf32>
  %8 = sdy.all_reduce {"y"} %7 out_sharding=<@mesh, [{"x"}, {}]> : tensor<8x8xf32>
  %9 = sdy.all_reduce max {"y"} %8 out_sharding=<@mesh, [{"x"}, {}]> : tensor<8x8xf32>
  %10 = sdy.reduce_scatter [{}, {"y"}] %9 out_sharding=<@mesh, [{"x"}, {"y"}]> : tensor<8x8xf32>
  %11 = sdy.manual_computation(%10) in_shardings=[<@mesh, [{"x"}, {}]>] out_shardings=[<@mesh, [{"x"}, {}]>] manual_axes={"x"} (%a: tensor<4x8xf32>) {
    %c = sdy.constant dense<1.0> : tensor<4x8xf32>
    %0 = stablehlo.add %a, %c : tensor<4x8xf32>
    sdy.return %0 : tensor<4x8xf32>
  } : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %12 = sdy.named_computation<"block">(%11) out_shardings=[<@mesh, [{}, {}]>] (%a: tensor<8x8xf32>) {
    sdy.return %a : tensor<8x8xf32>
  } {note} : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %13 = stablehlo.custom_call @f(%12) {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{}, {}]>]>, sdy.sharding_rule = #sdy.op_sharding_rule<([i, jk])->([i, z_1]) {i=8, j=4, k=2, l=1, m=1, n=1, o=1, p=1, q=1, r=1, s=1, t=1, u=1, v=1, w=1, x=1, y=1, z=1, z_1=8} reduction={j, k} need_replication={l} permutation={m} blocked_propagation={i}, custom>} : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %14 = "sdy.propagation_barrier"(%13) <{allowed_direction = 2 : i32}> : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %15 = "sdy.all_reduce"(%14) <{out_sharding = #sdy.sharding<@mesh, [{}, {}]>, reduction_axes = #sdy<axis_ref_list{"x"}>}> : (tensor<8x8xf32>) -> tensor<8x8xf32>
  return %15 : tensor<8x8xf32>
}
