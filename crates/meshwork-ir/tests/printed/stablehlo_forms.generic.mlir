"builtin.module"() ({
  "func.func"() <{function_type = (tensor<2x3xf32>, tensor<2x3xi32>, tensor<2x3xi1>) -> tensor<2x3xf32>, sym_name = "elementwise"}> ({
  ^bb0(%arg7: tensor<2x3xf32>, %arg8: tensor<2x3xi32>, %arg9: tensor<2x3xi1>):
    %31 = "stablehlo.abs"(%arg7) : (tensor<2x3xf32>) -> tensor<2x3xf32>
    %32 = "stablehlo.exponential"(%31) <{result_accuracy = #stablehlo.result_accuracy<mode = #stablehlo.result_accuracy_mode<HIGHEST>>}> : (tensor<2x3xf32>) -> tensor<2x3xf32>
    %33 = "stablehlo.convert"(%arg8) : (tensor<2x3xi32>) -> tensor<2x3xf32>
    %34 = "stablehlo.add"(%32, %33) {note = "sum"} : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
    %35 = "stablehlo.compare"(%34, %arg7) <{comparison_direction = #stablehlo<comparison_direction LT>}> : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xi1>
    %36 = "stablehlo.compare"(%arg8, %arg8) <{compare_type = #stablehlo<comparison_type SIGNED>, comparison_direction = #stablehlo<comparison_direction EQ>}> : (tensor<2x3xi32>, tensor<2x3xi32>) -> tensor<2x3xi1>
    %37 = "stablehlo.select"(%arg9, %34, %arg7) : (tensor<2x3xi1>, tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
    %38 = "stablehlo.constant"() <{value = dense<0.000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %39 = "stablehlo.constant"() <{value = dense<1.000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %40 = "stablehlo.clamp"(%38, %37, %39) : (tensor<f32>, tensor<2x3xf32>, tensor<f32>) -> tensor<2x3xf32>
    %41 = "stablehlo.clamp"(%arg7, %37, %40) : (tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
    %42 = "stablehlo.complex"(%41, %arg7) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xcomplex<f32>>
    %43 = "stablehlo.real"(%42) : (tensor<2x3xcomplex<f32>>) -> tensor<2x3xf32>
    %44 = "stablehlo.is_finite"(%43) : (tensor<2x3xf32>) -> tensor<2x3xi1>
    %45 = "stablehlo.reduce_precision"(%43) <{exponent_bits = 5 : i32, mantissa_bits = 10 : i32}> : (tensor<2x3xf32>) -> tensor<2x3xf32>
    %46 = "chlo.erf"(%45) : (tensor<2x3xf32>) -> tensor<2x3xf32>
    %47 = "chlo.next_after"(%46, %45) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
    "func.return"(%47) : (tensor<2x3xf32>) -> ()
  }) : () -> ()
  "func.func"() <{function_type = (tensor<4x8xf32>, tensor<i32>, tensor<2x8xf32>, !stablehlo.token) -> (), sym_name = "movement"}> ({
  ^bb0(%arg3: tensor<4x8xf32>, %arg4: tensor<i32>, %arg5: tensor<2x8xf32>, %arg6: !stablehlo.token):
    %8 = "stablehlo.iota"() <{iota_dimension = 1 : i64}> : () -> tensor<4x8xi32>
    %9 = "stablehlo.broadcast_in_dim"(%arg4) <{broadcast_dimensions = array<i64>}> : (tensor<i32>) -> tensor<4x8xi32>
    %10 = "stablehlo.transpose"(%arg3) <{permutation = array<i64: 1, 0>}> : (tensor<4x8xf32>) -> tensor<8x4xf32>
    %11 = "stablehlo.reshape"(%10) : (tensor<8x4xf32>) -> tensor<32xf32>
    %12 = "stablehlo.slice"(%arg3) <{limit_indices = array<i64: 4, 7>, start_indices = array<i64: 0, 1>, strides = array<i64: 2, 1>}> : (tensor<4x8xf32>) -> tensor<2x6xf32>
    %13 = "stablehlo.dynamic_slice"(%arg3, %arg4, %arg4) <{slice_sizes = array<i64: 2, 8>}> : (tensor<4x8xf32>, tensor<i32>, tensor<i32>) -> tensor<2x8xf32>
    %14 = "stablehlo.dynamic_update_slice"(%arg3, %arg5, %arg4, %arg4) : (tensor<4x8xf32>, tensor<2x8xf32>, tensor<i32>, tensor<i32>) -> tensor<4x8xf32>
    %15 = "stablehlo.constant"() <{value = dense<0.000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %16 = "stablehlo.pad"(%arg3, %15) <{edge_padding_high = array<i64: 2, -1>, edge_padding_low = array<i64: 0, 1>, interior_padding = array<i64: 0, 1>}> : (tensor<4x8xf32>, tensor<f32>) -> tensor<6x15xf32>
    %17 = "stablehlo.concatenate"(%arg3, %arg5) <{dimension = 0 : i64}> : (tensor<4x8xf32>, tensor<2x8xf32>) -> tensor<6x8xf32>
    %18 = "stablehlo.reverse"(%arg3) <{dimensions = array<i64: 0>}> : (tensor<4x8xf32>) -> tensor<4x8xf32>
    %19 = "stablehlo.get_dimension_size"(%arg3) <{dimension = 1 : i64}> : (tensor<4x8xf32>) -> tensor<i32>
    %20 = "stablehlo.bitcast_convert"(%arg3) : (tensor<4x8xf32>) -> tensor<4x8xi32>
    %21 = "stablehlo.tuple"(%arg3, %arg4) : (tensor<4x8xf32>, tensor<i32>) -> tuple<tensor<4x8xf32>, tensor<i32>>
    %22 = "stablehlo.get_tuple_element"(%21) <{index = 1 : i32}> : (tuple<tensor<4x8xf32>, tensor<i32>>) -> tensor<i32>
    %23 = "stablehlo.after_all"(%arg6, %arg6) : (!stablehlo.token, !stablehlo.token) -> !stablehlo.token
    %24:2 = "stablehlo.optimization_barrier"(%arg3, %arg4) : (tensor<4x8xf32>, tensor<i32>) -> (tensor<4x8xf32>, tensor<i32>)
    %25 = "stablehlo.partition_id"() : () -> tensor<ui32>
    %26 = "stablehlo.gather"(%arg3, %arg4) <{dimension_numbers = #stablehlo.gather<offset_dims = [0], collapsed_slice_dims = [0], start_index_map = [0]>, indices_are_sorted = false, slice_sizes = array<i64: 1, 8>}> : (tensor<4x8xf32>, tensor<i32>) -> tensor<8xf32>
    %27:2 = "chlo.top_k"(%arg3) <{k = 2 : i64}> : (tensor<4x8xf32>) -> (tensor<4x2xf32>, tensor<4x2xi32>)
    %28 = "stablehlo.constant"() <{value = dense<[1, 2]> : tensor<2xui64>}> : () -> tensor<2xui64>
    %29:2 = "stablehlo.rng_bit_generator"(%28) <{rng_algorithm = #stablehlo<rng_algorithm THREE_FRY>}> : (tensor<2xui64>) -> (tensor<2xui64>, tensor<4xui32>)
    "stablehlo.custom_call"(%arg3) <{api_version = 2 : i32, backend_config = "a\22b", call_target_name = "side.effect", has_side_effect = true}> : (tensor<4x8xf32>) -> ()
    %30 = "stablehlo.composite"(%arg3) <{composite_attributes = {k = 1 : i64}, decomposition = @elementwise2, name = "my.op", version = 1 : i32}> : (tensor<4x8xf32>) -> tensor<4x8xf32>
    "func.return"() : () -> ()
  }) : () -> ()
  "func.func"() <{function_type = (tensor<4x8xf32>) -> tensor<4x8xf32>, sym_name = "elementwise2", sym_visibility = "private"}> ({
  }) : () -> ()
  "func.func"() <{function_type = (tensor<2x4x8xf32>, tensor<2x8x4xf32>, tensor<4x4xf32>) -> (tensor<2x4x4xf32>, tensor<4x4xf32>), sym_name = "linear"}> ({
  ^bb0(%arg0: tensor<2x4x8xf32>, %arg1: tensor<2x8x4xf32>, %arg2: tensor<4x4xf32>):
    %0 = "stablehlo.dot_general"(%arg0, %arg1) <{dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = [0], rhs_batching_dimensions = [0], lhs_contracting_dimensions = [2], rhs_contracting_dimensions = [1]>, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision HIGHEST>]}> : (tensor<2x4x8xf32>, tensor<2x8x4xf32>) -> tensor<2x4x4xf32>
    %1 = "stablehlo.dot"(%arg2, %arg2) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %2 = "stablehlo.cholesky"(%1) <{lower = true}> : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %3 = "stablehlo.triangular_solve"(%2, %arg2) <{left_side = true, lower = true, transpose_a = #stablehlo<transpose NO_TRANSPOSE>, unit_diagonal = false}> : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %4 = "stablehlo.fft"(%3) <{fft_length = array<i64: 4>, fft_type = #stablehlo<fft_type RFFT>}> : (tensor<4x4xf32>) -> tensor<4x3xcomplex<f32>>
    %5 = "stablehlo.constant"() <{value = dense<1.000000e+00> : tensor<1x8x8x2xf32>}> : () -> tensor<1x8x8x2xf32>
    %6 = "stablehlo.constant"() <{value = dense<1.000000e+00> : tensor<3x3x2x4xf32>}> : () -> tensor<3x3x2x4xf32>
    %7 = "stablehlo.convolution"(%5, %6) <{batch_group_count = 1 : i64, dimension_numbers = #stablehlo.conv<[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]>, feature_group_count = 1 : i64, padding = dense<[[1, 1], [0, 2]]> : tensor<2x2xi64>, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>], rhs_dilation = array<i64: 1, 1>, window_reversal = array<i1: false, false>, window_strides = array<i64: 2, 1>}> : (tensor<1x8x8x2xf32>, tensor<3x3x2x4xf32>) -> tensor<1x4x8x4xf32>
    "func.return"(%0, %3) : (tensor<2x4x4xf32>, tensor<4x4xf32>) -> ()
  }) : () -> ()
}) : () -> ()
