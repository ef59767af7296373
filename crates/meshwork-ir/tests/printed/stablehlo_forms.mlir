module {
  func.func @elementwise(%arg0: tensor<2x3xf32>, %arg1: tensor<2x3xi32>, %arg2: tensor<2x3xi1>) -> tensor<2x3xf32> {
    %0 = stablehlo.abs %arg0 : tensor<2x3xf32>
    %1 = stablehlo.exponential %0 {result_accuracy = #stablehlo.result_accuracy<mode = #stablehlo.result_accuracy_mode<HIGHEST>>} : tensor<2x3xf32>
    %2 = stablehlo.convert %arg1 : (tensor<2x3xi32>) -> tensor<2x3xf32>
    %3 = stablehlo.add %1, %2 {note = "sum"} : tensor<2x3xf32>
    %4 = stablehlo.compare LT, %3, %arg0 : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xi1>
    %5 = stablehlo.compare EQ, %arg1, %arg1, SIGNED : (tensor<2x3xi32>, tensor<2x3xi32>) -> tensor<2x3xi1>
    %6 = stablehlo.select %arg2, %3, %arg0 : tensor<2x3xi1>, tensor<2x3xf32>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %cst_0 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %7 = stablehlo.clamp %cst, %6, %cst_0 : (tensor<f32>, tensor<2x3xf32>, tensor<f32>) -> tensor<2x3xf32>
    %8 = stablehlo.clamp %arg0, %6, %7 : tensor<2x3xf32>
    %9 = stablehlo.complex %8, %arg0 : tensor<2x3xcomplex<f32>>
    %10 = stablehlo.real %9 : (tensor<2x3xcomplex<f32>>) -> tensor<2x3xf32>
    %11 = stablehlo.is_finite %10 : (tensor<2x3xf32>) -> tensor<2x3xi1>
    %12 = stablehlo.reduce_precision %10, format = e5m10 : tensor<2x3xf32>
    %13 = chlo.erf %12 : tensor<2x3xf32> -> tensor<2x3xf32>
    %14 = chlo.next_after %13, %12 : tensor<2x3xf32>, tensor<2x3xf32> -> tensor<2x3xf32>
    return %14 : tensor<2x3xf32>
  }
  func.func @movement(%arg0: tensor<4x8xf32>, %arg1: tensor<i32>, %arg2: tensor<2x8xf32>, %arg3: !stablehlo.token) {
    %0 = stablehlo.iota dim = 1 : tensor<4x8xi32>
    %1 = stablehlo.broadcast_in_dim %arg1, dims = [] : (tensor<i32>) -> tensor<4x8xi32>
    %2 = stablehlo.transpose %arg0, dims = [1, 0] : (tensor<4x8xf32>) -> tensor<8x4xf32>
    %3 = stablehlo.reshape %2 : (tensor<8x4xf32>) -> tensor<32xf32>
    %4 = stablehlo.slice %arg0 [0:4:2, 1:7] : (tensor<4x8xf32>) -> tensor<2x6xf32>
    %5 = stablehlo.dynamic_slice %arg0, %arg1, %arg1, sizes = [2, 8] : (tensor<4x8xf32>, tensor<i32>, tensor<i32>) -> tensor<2x8xf32>
    %6 = stablehlo.dynamic_update_slice %arg0, %arg2, %arg1, %arg1 : (tensor<4x8xf32>, tensor<2x8xf32>, tensor<i32>, tensor<i32>) -> tensor<4x8xf32>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %7 = stablehlo.pad %arg0, %cst, low = [0, 1], high = [2, -1], interior = [0, 1] : (tensor<4x8xf32>, tensor<f32>) -> tensor<6x15xf32>
    %8 = stablehlo.concatenate %arg0, %arg2, dim = 0 : (tensor<4x8xf32>, tensor<2x8xf32>) -> tensor<6x8xf32>
    %9 = stablehlo.reverse %arg0, dims = [0] : tensor<4x8xf32>
    %10 = stablehlo.get_dimension_size %arg0, dim = 1 : (tensor<4x8xf32>) -> tensor<i32>
    %11 = stablehlo.bitcast_convert %arg0 : (tensor<4x8xf32>) -> tensor<4x8xi32>
    %12 = stablehlo.tuple %arg0, %arg1 : tuple<tensor<4x8xf32>, tensor<i32>>
    %13 = stablehlo.get_tuple_element %12[1] : (tuple<tensor<4x8xf32>, tensor<i32>>) -> tensor<i32>
    %14 = stablehlo.after_all %arg3, %arg3 : !stablehlo.token
    %15:2 = stablehlo.optimization_barrier %arg0, %arg1 : tensor<4x8xf32>, tensor<i32>
    %16 = stablehlo.partition_id : tensor<ui32>
    %17 = "stablehlo.gather"(%arg0, %arg1) <{dimension_numbers = #stablehlo.gather<offset_dims = [0], collapsed_slice_dims = [0], start_index_map = [0]>, indices_are_sorted = false, slice_sizes = array<i64: 1, 8>}> : (tensor<4x8xf32>, tensor<i32>) -> tensor<8xf32>
    %values, %indices = chlo.top_k(%arg0, k = 2) : tensor<4x8xf32> -> (tensor<4x2xf32>, tensor<4x2xi32>)
    %c = stablehlo.constant dense<[1, 2]> : tensor<2xui64>
    %output_state, %output = stablehlo.rng_bit_generator %c, algorithm = THREE_FRY : (tensor<2xui64>) -> (tensor<2xui64>, tensor<4xui32>)
    stablehlo.custom_call @side.effect(%arg0) {api_version = 2 : i32, backend_config = "a\22b", has_side_effect = true} : (tensor<4x8xf32>) -> ()
    %18 = stablehlo.composite "my.op" %arg0 {composite_attributes = {k = 1 : i64}, decomposition = @elementwise2, version = 1 : i32} : (tensor<4x8xf32>) -> tensor<4x8xf32>
    return
  }
  func.func private @elementwise2(tensor<4x8xf32>) -> tensor<4x8xf32>
  func.func @linear(%arg0: tensor<2x4x8xf32>, %arg1: tensor<2x8x4xf32>, %arg2: tensor<4x4xf32>) -> (tensor<2x4x4xf32>, tensor<4x4xf32>) {
    %0 = stablehlo.dot_general %arg0, %arg1, batching_dims = [0] x [0], contracting_dims = [2] x [1], precision = [DEFAULT, HIGHEST] : (tensor<2x4x8xf32>, tensor<2x8x4xf32>) -> tensor<2x4x4xf32>
    %1 = stablehlo.dot %arg2, %arg2 : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %2 = stablehlo.cholesky %1, lower = true : tensor<4x4xf32>
    %3 = "stablehlo.triangular_solve"(%2, %arg2) <{left_side = true, lower = true, transpose_a = #stablehlo<transpose NO_TRANSPOSE>, unit_diagonal = false}> : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %4 = stablehlo.fft %3, type = RFFT, length = [4] : (tensor<4x4xf32>) -> tensor<4x3xcomplex<f32>>
    %cst = stablehlo.constant dense<1.000000e+00> : tensor<1x8x8x2xf32>
    %cst_0 = stablehlo.constant dense<1.000000e+00> : tensor<3x3x2x4xf32>
    %5 = stablehlo.convolution(%cst, %cst_0) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [2, 1], pad = [[1, 1], [0, 2]], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<1x8x8x2xf32>, tensor<3x3x2x4xf32>) -> tensor<1x4x8x4xf32>
    return %0, %3 : tensor<2x4x4xf32>, tensor<4x4xf32>
  }
}
