sdy.mesh @mesh = <["x"=2, "y"=4]>
func.func @f(%a: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {?}]>}) -> tensor<8x8xf32> {
  %0 = sdy.all_gather [{"x"}, {}] %a out_sharding=<@mesh, [{}, {}]> : tensor<8x8xf32>
  return %0 : tensor<8x8xf32>
}
// -----
sdy.mesh @mesh = <["x"=2, "y"=4]>
// error: 'func.func' op arg 0 - duplicate axis ref: "x"; an axis can be used once in a sharding
func.func @f(%a: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {"x"}]>}) {
  return
}
// -----
sdy.mesh @mesh = <["x"=2, "y"=4]>
func.func @f(%a: tensor<8x8xf32>) {
  // error: 'stablehlo.negate' op result 0 - unknown axis name: "z"; the mesh is <["x"=2, "y"=4]>
  %0 = stablehlo.negate %a {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"z"}, {}]>]>} : tensor<8x8xf32>
  return
}
// -----
func.func @f(%a: tensor<8x8xf32>) {
  // error: 'stablehlo.negate' op sharding rule: result 0 uses factor i twice
  %0 = stablehlo.negate %a {sdy.sharding_rule = #sdy.op_sharding_rule<([i, j])->([i, i]) {i=8, j=8}>} : tensor<8x8xf32>
  return
}
// -----
sdy.mesh @mesh = <["x"=2, "y"=4]>
func.func @f(%a: tensor<8x8xf32>) {
  // error: 'sdy.manual_computation' op operand 0 has manual axis "x" after free axis "y" in dimension 0; manual axes come first
  %0 = sdy.manual_computation(%a) in_shardings=[<@mesh, [{"y", "x"}, {}]>] out_shardings=[<@mesh, [{"y", "x"}, {}]>] manual_axes={"x"} (%b: tensor<4x8xf32>) {
    sdy.return %b : tensor<4x8xf32>
  } : (tensor<8x8xf32>) -> tensor<8x8xf32>
  return
}
// -----
sdy.mesh @mesh = <["x"=2, "y"=4]>
func.func @f(%a: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {"y"}]>}) {
  // error: 'sdy.all_to_all' op cannot take axis "y" off dimension 0, which is not sharded by it last: <@mesh, [{"x"}, {"y"}]>
  %0 = sdy.all_to_all [{"y"}: 0->1] %a out_sharding=<@mesh, [{"x"}, {"y"}]> : tensor<8x8xf32>
  return
}
// -----
sdy.mesh @mesh = <["x"=2, "y"=4]>
func.func @f(%a: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) {
  // error: 'sdy.all_reduce' op reduces over axis "x", which shards or replicates the operand: <@mesh, [{"x"}, {}]>
  %0 = sdy.all_reduce {"x"} %a out_sharding=<@mesh, [{"x"}, {}]> : tensor<8x8xf32>
  return
}
// -----
func.func @f(%a: tensor<8x8xf32>) {
  // error: 'sdy.propagation_barrier' op allows BOTH directions, so it is not a barrier: leave it out
  %0 = sdy.propagation_barrier %a allowed_direction=BOTH : tensor<8x8xf32>
  return
}
