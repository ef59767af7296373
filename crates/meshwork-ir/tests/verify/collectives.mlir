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
// -----
sdy.mesh @m = <["x"=2, "y"=4]>
func.func @f(%x: tensor<4xf32>) {
  %0 = "stablehlo.all_gather"(%x) {all_gather_dim = 0 : i64, replica_groups = #stablehlo.replica_group_mesh_axes<mesh = @m, axes = [#stablehlo.axis_ref<name = "y">]>} : (tensor<4xf32>) -> tensor<16xf32>
  return
}
// -----
sdy.mesh @m = <["x"=2, "y"=4]>
func.func @f(%x: tensor<4xf32>) {
  // error: 'stablehlo.all_gather' op result 0 must be 4 times 4 in dimension 0, for groups of 4, but is declared as tensor<8xf32>
  %0 = "stablehlo.all_gather"(%x) {all_gather_dim = 0 : i64, replica_groups = #stablehlo.replica_group_mesh_axes<mesh = @m, axes = [#stablehlo.axis_ref<name = "y">]>} : (tensor<4xf32>) -> tensor<8xf32>
  return
}
// -----
sdy.mesh @m = <["x"=2, "y"=4]>
func.func @f(%x: tensor<4xf32>) {
  %0 = "stablehlo.all_gather"(%x) {all_gather_dim = 0 : i64, replica_groups = #stablehlo.replica_group_mesh_axes<mesh = @m, axes = [#stablehlo.axis_ref<name = "y", sub_axis_info = (2)2>]>} : (tensor<4xf32>) -> tensor<8xf32>
  return
}
// -----
sdy.mesh @m = <["x"=2, "y"=4]>
func.func @f(%x: tensor<4xf32>) {
  // error: 'stablehlo.all_gather' op attribute 'replica_groups' names axis "z", but the mesh is <["x"=2, "y"=4]>
  %0 = "stablehlo.all_gather"(%x) {all_gather_dim = 0 : i64, replica_groups = #stablehlo.replica_group_mesh_axes<mesh = @m, axes = [#stablehlo.axis_ref<name = "z">]>} : (tensor<4xf32>) -> tensor<8xf32>
  return
}
// -----
sdy.mesh @m = <["x"=2, "y"=4]>
func.func @f(%x: tensor<4xf32>) {
  // error: 'stablehlo.all_gather' op attribute 'replica_groups' names axis "x" twice
  %0 = "stablehlo.all_gather"(%x) {all_gather_dim = 0 : i64, replica_groups = #stablehlo.replica_group_mesh_axes<mesh = @m, axes = [#stablehlo.axis_ref<name = "x">, #stablehlo.axis_ref<name = "x">]>} : (tensor<4xf32>) -> tensor<16xf32>
  return
}
// -----
sdy.mesh @m = <["x"=2, "y"=4]>
func.func @f(%x: tensor<4xf32>) {
  // error: 'stablehlo.all_gather' op attribute 'replica_groups' has wrong axes: sub-axis next pre-size 6 doesn't divide the size of the full axis 4: "y":(3)2; (pre-size)size must multiply to a divisor of 4
  %0 = "stablehlo.all_gather"(%x) {all_gather_dim = 0 : i64, replica_groups = #stablehlo.replica_group_mesh_axes<mesh = @m, axes = [#stablehlo.axis_ref<name = "y", sub_axis_info = (3)2>]>} : (tensor<4xf32>) -> tensor<8xf32>
  return
}
// -----
sdy.mesh @m = <["x"=2, "y"=4]>
func.func @f(%x: tensor<4xf32>) {
  // error: 'stablehlo.all_gather' op attribute 'replica_groups' names mesh @n, which is not defined
  %0 = "stablehlo.all_gather"(%x) {all_gather_dim = 0 : i64, replica_groups = #stablehlo.replica_group_mesh_axes<mesh = @n, axes = [#stablehlo.axis_ref<name = "x">]>} : (tensor<4xf32>) -> tensor<8xf32>
  return
}
// -----
func.func private @n()
func.func @f(%x: tensor<4xf32>) {
  %0 = "stablehlo.all_gather"(%x) {all_gather_dim = 0 : i64, replica_groups = #stablehlo.replica_group_mesh_axes<mesh = @n, axes = [#stablehlo.axis_ref<name = "x">]>} : (tensor<4xf32>) -> tensor<8xf32>
  return
}
// -----
func.func @f(%x: tensor<4xf32>) {
  %0 = "stablehlo.all_gather"(%x) {all_gather_dim = 0 : i64, replica_groups = #stablehlo.replica_group_mesh_axes<mesh = #stablehlo.mesh<axes=[<name = "x", size = 2>]>, axes = [#stablehlo.axis_ref<name = "x">]>} : (tensor<4xf32>) -> tensor<8xf32>
  return
}
// -----
func.func @f(%x: tensor<4xf32>) {
  // error: 'stablehlo.all_gather' op attribute 'replica_groups' names axis "y", but the mesh is <["x"=2]>
  %0 = "stablehlo.all_gather"(%x) {all_gather_dim = 0 : i64, replica_groups = #stablehlo.replica_group_mesh_axes<mesh = #stablehlo.mesh<axes=[<name = "x", size = 2>]>, axes = [#stablehlo.axis_ref<name = "y">]>} : (tensor<4xf32>) -> tensor<8xf32>
  return
}
// -----
sdy.mesh @m = <["x"=2, "y"=4]>
func.func @f(%x: tensor<4xf32>) {
  // error: expected one of name, sub_axis_info, found 's'
  %0 = "stablehlo.all_gather"(%x) {all_gather_dim = 0 : i64, replica_groups = #stablehlo.replica_group_mesh_axes<mesh = @m, axes = [#stablehlo.axis_ref<size = 2>]>} : (tensor<4xf32>) -> tensor<8xf32>
  return
}
// -----
sdy.mesh @m = <["x"=2, "y"=4]>
func.func @f(%x: tensor<8xf32>) {
  // error: 'stablehlo.reduce_scatter' op splits dimension 0 of size 8 into parts of size 2 over groups of 2
  %0 = "stablehlo.reduce_scatter"(%x) ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    "stablehlo.return"(%a) : (tensor<f32>) -> ()
  }) {scatter_dimension = 0 : i64, replica_groups = #stablehlo.replica_group_mesh_axes<mesh = @m, axes = [#stablehlo.axis_ref<name = "x">]>} : (tensor<8xf32>) -> tensor<2xf32>
  return
}
