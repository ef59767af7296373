// RUN: opt -sdy-sharding-group-import
func.func @main(%x: tensor<4xf32>, %y: tensor<4xf32>, %z: tensor<4xf32>) {
  sdy.sharding_group %x group_id=70 : tensor<4xf32>
  sdy.sharding_group %y group_id=3 : tensor<4xf32>
  sdy.sharding_group %y group_id=12 : tensor<4xf32>
  sdy.sharding_group %z group_id=12 : tensor<4xf32>
  sdy.sharding_group %z group_id=12 : tensor<4xf32>
  return
}
