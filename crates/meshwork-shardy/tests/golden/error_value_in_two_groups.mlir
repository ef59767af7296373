// RUN: sdy-basic-propagate
func.func @main(%a: tensor<8xf32>) -> tensor<8xf32> {
  sdy.sharding_group %a group_id=0 : tensor<8xf32>
  sdy.sharding_group %a group_id=1 : tensor<8xf32>
  return %a : tensor<8xf32>
}
// OUTPUT
// 4:3: error: 'sdy.sharding_group' op puts a value into group 1 that is in group 0 already; run sdy-sharding-group-import first, which merges such groups
