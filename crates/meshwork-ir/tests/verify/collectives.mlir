// Legal: the group size decides how much is gathered.
func.func @f(%x: tensor<2xf32>) -> tensor<4xf32> {
  %0 = "stablehlo.all_gather"(%x) {all_gather_dim = 0 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>} : (tensor<2xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
// -----
func.func @f(%x: tensor<2xf32>) {
  // error: 'stablehlo.all_gather' op result 0 must be a multiple of 2 in dimension 0, but is declared as tensor<5xf32>
  %0 = "stablehlo.all_gather"(%x) {all_gather_dim = 0 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>} : (tensor<2xf32>) -> tensor<5xf32>
  return
}
// -----
func.func @f(%x: tensor<4xf32>) {
  // error: 'stablehlo.all_to_all' op attribute 'replica_groups' has groups of 2, but split_count is 4
  %0 = "stablehlo.all_to_all"(%x) {split_dimension = 0 : i64, concat_dimension = 0 : i64, split_count = 4 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>} : (tensor<4xf32>) -> tensor<4xf32>
  return
}
// -----
func.func @f(%x: tensor<4xf32>) {
  // error: 'stablehlo.collective_permute' op attribute 'source_target_pairs' lists source 0 twice
  %0 = "stablehlo.collective_permute"(%x) {source_target_pairs = dense<[[0, 1], [0, 2]]> : tensor<2x2xi64>} : (tensor<4xf32>) -> tensor<4xf32>
  return
}
// -----
func.func @f(%x: tensor<4xf32>) {
  // error: 'stablehlo.all_reduce' op attribute 'channel_handle' must be at least 1 with use_global_device_ids, but is 0
  %0 = "stablehlo.all_reduce"(%x) ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    "stablehlo.return"(%a) : (tensor<f32>) -> ()
  }) {replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, use_global_device_ids} : (tensor<4xf32>) -> tensor<4xf32>
  return
}
