"builtin.module"() <{sym_name = "placed"}> ({
  "sdy.mesh"() <{mesh = #sdy.mesh<["x"=2, "y"=4]>, sym_name = "mesh"}> : () -> ()
  "sdy.mesh"() <{mesh = #sdy.mesh<[], device_ids=[3]>, sym_name = "one"}> : () -> ()
  "sdy.mesh"() <{mesh = #sdy.mesh<["a"=4], device_ids=[3, 2, 1, 0]>, sym_name = "odd mesh"}> : () -> ()
  "func.func"() <{arg_attrs = [{jax.arg = "w", sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {?}]>}, {}], function_type = (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>, res_attrs = [{sdy.sharding = #sdy.sharding<@mesh, [{"x", ?}p1, {"y":(1)2}]>}], sym_name = "main", sym_visibility = "public"}> ({
  ^bb0(%arg0: tensor<8x8xf32>, %arg1: tensor<8x8xf32>):
    %0 = "stablehlo.add"(%arg0, %arg1) {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"x"}, {}], replicated={"y"}>]>, sdy.sharding_rule = #sdy.op_sharding_rule<([i, j], [i, j])->([i, j]) {i=8, j=8} need_replication={j}, custom>} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    %1 = "sdy.sharding_constraint"(%0) <{sharding = #sdy.sharding<@mesh, [{"x"}, {"y"}]>}> : (tensor<8x8xf32>) -> tensor<8x8xf32>
    %2 = "sdy.reshard"(%1) <{sharding = #sdy.sharding<@mesh, [{"x", "y"}, {}]>}> : (tensor<8x8xf32>) -> tensor<8x8xf32>
    %3 = "sdy.all_gather"(%2) <{gathering_axes = #sdy<list_of_axis_ref_lists[{"y"}, {}]>, out_sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}> : (tensor<8x8xf32>) -> tensor<8x8xf32>
    %4 = "sdy.all_slice"(%3) <{out_sharding = #sdy.sharding<@mesh, [{"x"}, {"y"}]>, slicing_axes = #sdy<list_of_axis_ref_lists[{}, {"y"}]>}> : (tensor<8x8xf32>) -> tensor<8x8xf32>
    %5 = "sdy.all_to_all"(%4) <{out_sharding = #sdy.sharding<@mesh, [{"x", "y"}, {}]>, params = #sdy<all_to_all_param_list[{"y"}: 1->0]>}> : (tensor<8x8xf32>) -> tensor<8x8xf32>
    %6 = "sdy.collective_permute"(%5) <{out_sharding = #sdy.sharding<@mesh, [{"y", "x"}, {}]>}> : (tensor<8x8xf32>) -> tensor<8x8xf32>
    %7 = "sdy.propagation_barrier"(%6) <{allowed_direction = 2 : i32}> : (tensor<8x8xf32>) -> tensor<8x8xf32>
    %8 = "sdy.manual_computation"(%7, %arg1) <{in_shardings = #sdy.sharding_per_value<[<@mesh, [{"x"}, {}]>, <@mesh, [{}, {}]>]>, manual_axes = #sdy<manual_axes{"x"}>, out_shardings = #sdy.sharding_per_value<[<@mesh, [{"x"}, {}]>]>}> ({
    ^bb0(%arg3: tensor<4x8xf32>, %arg4: tensor<8x8xf32>):
      %13 = "stablehlo.negate"(%arg3) : (tensor<4x8xf32>) -> tensor<4x8xf32>
      "sdy.return"(%13) : (tensor<4x8xf32>) -> ()
    }) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    %9 = "sdy.named_computation"(%8) <{name = "layer", out_shardings = #sdy.sharding_per_value<[<@mesh, [{"x"}, {}]>]>}> ({
    ^bb0(%arg2: tensor<8x8xf32>):
      "sdy.return"(%arg2) : (tensor<8x8xf32>) -> ()
    }) : (tensor<8x8xf32>) -> tensor<8x8xf32>
    "sdy.sharding_group"(%9) <{group_id = 7 : i64}> : (tensor<8x8xf32>) -> ()
    %10 = "sdy.constant"() <{value = dense<1.000000e+00> : tensor<8x8xf32>}> : () -> tensor<8x8xf32>
    %11 = "stablehlo.negate"(%10) : (tensor<8x8xf32>) -> tensor<8x8xf32>
    %12 = "sdy.data_flow_edge"(%11) <{sharding = #sdy.sharding<@mesh, [{}, {?}]>}> : (tensor<8x8xf32>) -> tensor<8x8xf32>
    "func.return"(%12) : (tensor<8x8xf32>) -> ()
  }) : () -> ()
}) {mhlo.num_partitions = 4 : i32} : () -> ()
