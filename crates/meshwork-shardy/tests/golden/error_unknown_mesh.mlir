// RUN: sdy-basic-propagate
func.func @main(%a: tensor<8xf32> {sdy.sharding = #sdy.sharding<@nowhere, [{"x", ?}]>}) -> tensor<8xf32> {
  return %a : tensor<8xf32>
}
// OUTPUT
// 2:1: error: 'func.func' op argument 0: unknown mesh: @nowhere; define it with sdy.mesh @nowhere = <...>
