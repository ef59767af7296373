// Meshes, placements, manual computations.
module {
  sdy.mesh @mesh = <["x"=4, "y"=2]>
  sdy.mesh @other = <["x"=2], device_ids=[1, 0]>
  func.func @main(%a: tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {"y", ?}p1]>}, %b: tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x":(1)2}, {}], replicated={"y"}>}) -> (tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}], unreduced={"x"}>}) {
    %0 = stablehlo.add %a, %b {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"x"}, {?}]>]>} : tensor<8x4xf32>
    %1 = sdy.sharding_constraint %0 <@mesh, [{}, {"y"}]> : tensor<8x4xf32>
    %2 = sdy.manual_computation(%1) in_shardings=[<@mesh, [{"x"}, {"y"}]>] out_shardings=[<@mesh, [{"x"}, {"y"}]>] manual_axes={"x", "y"} (%c: tensor<2x2xf32>) {
      %6 = stablehlo.multiply %c, %c : tensor<2x2xf32>
      sdy.return %6 : tensor<2x2xf32>
    } : (tensor<8x4xf32>) -> tensor<8x4xf32>
    sdy.sharding_group %2 group_id=3 : tensor<8x4xf32>
    %3 = sdy.propagation_barrier %2 allowed_direction=BACKWARD : tensor<8x4xf32>
    %4 = stablehlo.custom_call @foo(%3) {sdy.sharding_rule = #sdy.op_sharding_rule<([i, j])->([i, j]) {i=8, j=4} need_replication={j}, custom>} : (tensor<8x4xf32>) -> tensor<8x4xf32>
    %5 = sdy.reshard %4 <@mesh, [{"y"}, {}]> : tensor<8x4xf32>
    return %5 : tensor<8x4xf32>
  }
}
