// RUN: sdy-pad-for-divisibility
sdy.mesh @mesh = <["x"=2]>

func.func @main(%a: tensor<3xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) -> tensor<3xf32> {
  return %a : tensor<3xf32>
}
// OUTPUT
// 4:1: error: 'func.func' op argument #0 has a non-divisible sharding: tensor<3xf32> by <@mesh, [{"x"}]>; run sdy-update-non-divisible-input-output-shardings first
