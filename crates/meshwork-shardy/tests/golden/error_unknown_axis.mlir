// RUN: sdy-basic-propagate
sdy.mesh @mesh = <["x"=2]>
func.func @main(%a: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"z", ?}]>}) -> tensor<8xf32> {
  return %a : tensor<8xf32>
}
// OUTPUT
// 3:1: error: 'func.func' op argument 0: unknown axis name: "z" is not an axis of <["x"=2]>
