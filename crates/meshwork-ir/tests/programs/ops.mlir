#dot = #stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>
!t = tensor<2x4xf32>
func.func @ops(%a: !t, %b: tensor<4x3xf32>, %c: tensor<2x4xcomplex<f32>>, %s: tensor<i32>, %tok: !stablehlo.token, %p: tensor<2x4xi1>, %b_pad: tensor<f32>, %seed: tensor<2xui64>, %sq: tensor<3x3xf32>, %img: tensor<1x4x4x3xf32>, %ker: tensor<3x3x3x8xf32>) {
  %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0], precision = [DEFAULT, HIGHEST] : (!t, tensor<4x3xf32>) -> tensor<2x3xf32>
  %1 = "stablehlo.dot_general"(%a, %b) {dot_dimension_numbers = #dot} : (!t, tensor<4x3xf32>) -> tensor<2x3xf32>
  %2 = stablehlo.dot_general %a, %a, batching_dims = [0] x [0], contracting_dims = [1] x [1], algorithm = <lhs_precision_type = tf32, rhs_precision_type = tf32, accumulation_type = f32, lhs_component_count = 1, rhs_component_count = 1, num_primitive_operations = 1, allow_imprecise_accumulation = false> : (!t, !t) -> tensor<2xf32>
  %3 = stablehlo.dot %a, %b, precision = [HIGH, HIGH] : (!t, tensor<4x3xf32>) -> tensor<2x3xf32>
  %4 = stablehlo.slice %a [0:2, 1:4:2] : (!t) -> tensor<2x2xf32>
  %5 = stablehlo.dynamic_slice %a, %s, %s, sizes = [1, 1] : (!t, tensor<i32>, tensor<i32>) -> tensor<1x1xf32>
  %6 = stablehlo.concatenate %a, %a, dim = 0 : (!t, !t) -> tensor<4x4xf32>
  %7 = stablehlo.iota dim = 1 : tensor<2x4xi32>
  %8 = stablehlo.select %p, %a, %a : tensor<2x4xi1>, !t
  %9 = stablehlo.complex %a, %a : tensor<2x4xcomplex<f32>>
  %10 = stablehlo.real %c : (tensor<2x4xcomplex<f32>>) -> !t
  %11 = stablehlo.reduce_precision %a, format = e5m10 : !t
  %12 = stablehlo.after_all %tok, %tok : !stablehlo.token
  %13 = stablehlo.tuple %a, %s : tuple<!t, tensor<i32>>
  %14 = stablehlo.get_tuple_element %13[1] : (tuple<!t, tensor<i32>>) -> tensor<i32>
  %15:2 = stablehlo.optimization_barrier %a, %s : !t, tensor<i32>
  stablehlo.optimization_barrier()
  %16 = stablehlo.custom_call @"my target"(%a) {backend_config = "\00\FFraw", api_version = 2 : i32, operand_layouts = [dense<[1, 0]> : tensor<2xindex>]} : (!t) -> !t
  %17 = stablehlo.composite "m.op" %a, %s {composite_attributes = {n = 1 : i32}, decomposition = @ops} : (!t, tensor<i32>) -> !t
  %18 = stablehlo.pad %b, %b_pad, low = [0, -1], high = [0, 0], interior = [1, 0] : (tensor<4x3xf32>, tensor<f32>) -> tensor<7x2xf32>
  %19 = stablehlo.fft %c, type = FFT, length = [4] : (tensor<2x4xcomplex<f32>>) -> tensor<2x4xcomplex<f32>>
  %20, %21 = stablehlo.rng_bit_generator %seed, algorithm = THREE_FRY : (tensor<2xui64>) -> (tensor<2xui64>, tensor<4xui32>)
  %22 = stablehlo.cholesky %sq, lower = true : tensor<3x3xf32>
  %23 = stablehlo.clamp %a, %a, %a : !t
  %24:2 = chlo.top_k(%a, k = 2) : !t -> (tensor<2x2xf32>, tensor<2x2xi32>)
  %25 = chlo.erf %a : !t -> !t
  %26 = chlo.next_after %a, %a : !t, !t -> !t
  %27 = chlo.broadcast_add %a, %a : (!t, !t) -> !t
  %28 = stablehlo.convolution(%img, %ker) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [2, 1], pad = [[0, 1], [1, 1]], rhs_dilate = [1, 1], reverse = [false, true]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<1x4x4x3xf32>, tensor<3x3x3x8xf32>) -> tensor<1x2x4x8xf32>
  %29 = "stablehlo.all_reduce"(%a) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, use_global_device_ids}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %z = stablehlo.add %x, %y : tensor<f32>
    stablehlo.return %z : tensor<f32>
  }) : (!t) -> !t
  %30 = arith.constant 3 : index
  check.expect_almost_eq_const %a, dense<1.0> : !t, tolerance = 0.5
  check.expect_close %a, %a, max_ulp_difference = 3, min_ulp_difference = 1 : !t, !t
  return
}
