// RUN: opt -sdy-lift-inlined-meshes -sdy-remove-size-one-axes
sdy.mesh @mesh = <["a"=2, "one"=1]>
sdy.mesh @same = <["a"=2, "one"=1]>

func.func @main(%x: tensor<4x4xf32> {sdy.sharding = #sdy.sharding<@same, [{"a", "one"}, {"one"}p1], replicated={}>},
                %y: tensor<4xf32> {sdy.sharding = #sdy.sharding<mesh<["b"=2], device_ids=[1, 0]>, [{"b", ?}]>})
    -> (tensor<4x4xf32> {sdy.sharding = #sdy.sharding<mesh<["a"=2, "one"=1]>, [{"a"}, {?}p1]>}, tensor<4xf32>) {
  %0 = stablehlo.sine %x {sdy.sharding = #sdy.sharding_per_value<[<mesh<[], device_ids=[3]>, []>]>} : tensor<4x4xf32>
  %1 = sdy.sharding_constraint %y <mesh<["b"=2], device_ids=[1, 0]>, [{}]> : tensor<4xf32>
  return %0, %1 : tensor<4x4xf32>, tensor<4xf32>
}
