// RUN: opt -sdy-sharding-group-import
func.func @main(%x: tensor<4xf32>, %y: tensor<2x2xf32>) {
  sdy.sharding_group %x group_id=7 : tensor<4xf32>
  sdy.sharding_group %y group_id=7 : tensor<2x2xf32>
  return
}
