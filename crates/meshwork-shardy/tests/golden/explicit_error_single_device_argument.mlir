// RUN: sdy-insert-explicit-reshards{enable-full-version=true}
sdy.mesh @one = <[], device_ids=[3]>

func.func @main(%a: tensor<4xf32> {sdy.sharding = #sdy.sharding<@one, []>}) -> tensor<4xf32> {
  return %a : tensor<4xf32>
}
// OUTPUT
// 4:1: error: 'func.func' op function argument 0 cannot have a single-device (maximal) sharding attribute: place it on the mesh and reshard it inside
