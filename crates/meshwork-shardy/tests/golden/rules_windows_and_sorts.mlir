// RUN: sdy-populate-op-sharding-rules
func.func @main(%a: tensor<8x6xf32>, %z: tensor<f32>, %c: tensor<8x6x6xf32>, %b: tensor<8x6x4xf32>, %r: tensor<7xf32>) -> tensor<8xf32> {
  %0 = stablehlo.reduce(%a init: %z) applies stablehlo.add across dimensions = [1] : (tensor<8x6xf32>, tensor<f32>) -> tensor<8xf32>
  %1 = "stablehlo.reduce_window"(%a, %z) <{padding = dense<[[0, 0], [1, 0]]> : tensor<2x2xi64>, window_dimensions = array<i64: 1, 2>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %s = stablehlo.add %x, %y : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<8x6xf32>, tensor<f32>) -> tensor<8x6xf32>
  %2 = "stablehlo.sort"(%a) <{dimension = 1 : i64, is_stable = true}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %s = stablehlo.compare LT, %x, %y : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %s : tensor<i1>
  }) : (tensor<8x6xf32>) -> tensor<8x6xf32>
  %3 = "stablehlo.sort"(%r) <{dimension = 0 : i64}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %s = stablehlo.compare LT, %x, %y : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %s : tensor<i1>
  }) : (tensor<7xf32>) -> tensor<7xf32>
  %4 = stablehlo.cholesky %c : tensor<8x6x6xf32>
  %5 = "stablehlo.triangular_solve"(%c, %b) <{left_side = true, lower = true, transpose_a = #stablehlo<transpose TRANSPOSE>, unit_diagonal = false}> : (tensor<8x6x6xf32>, tensor<8x6x4xf32>) -> tensor<8x6x4xf32>
  %6 = stablehlo.fft %a, type = RFFT, length = [6] : (tensor<8x6xf32>) -> tensor<8x4xcomplex<f32>>
  %7:2 = stablehlo.custom_call @Qr(%c) : (tensor<8x6x6xf32>) -> (tensor<8x6x6xf32>, tensor<8x6xf32>)
  %8:2 = stablehlo.custom_call @mhlo.topk(%a) : (tensor<8x6xf32>) -> (tensor<8x2xf32>, tensor<8x2xi32>)
  return %0 : tensor<8xf32>
}
// OUTPUT
module {
  func.func @main(%arg0: tensor<8x6xf32>, %arg1: tensor<f32>, %arg2: tensor<8x6x6xf32>, %arg3: tensor<8x6x4xf32>, %arg4: tensor<7xf32>) -> tensor<8xf32> {
    %0 = stablehlo.reduce(%arg0 init: %arg1) across dimensions = [1] {sdy.sharding_rule = #sdy.op_sharding_rule<([i, j], [])->([i]) {i=8, j=6} reduction={j}>} : (tensor<8x6xf32>, tensor<f32>) -> tensor<8xf32>
     reducer(%arg5: tensor<f32>, %arg6: tensor<f32>)  {
      %9 = stablehlo.add %arg5, %arg6 {sdy.sharding_rule = #sdy.op_sharding_rule<([], [])->([])>} : tensor<f32>
      stablehlo.return %9 : tensor<f32>
    }
    %1 = "stablehlo.reduce_window"(%arg0, %arg1) <{padding = dense<[[0, 0], [1, 0]]> : tensor<2x2xi64>, window_dimensions = array<i64: 1, 2>}> ({
    ^bb0(%arg5: tensor<f32>, %arg6: tensor<f32>):
      %9 = stablehlo.add %arg5, %arg6 {sdy.sharding_rule = #sdy.op_sharding_rule<([], [])->([])>} : tensor<f32>
      stablehlo.return %9 : tensor<f32>
    }) {sdy.sharding_rule = #sdy.op_sharding_rule<([i, j], [])->([i, j]) {i=8, j=6} permutation={j}>} : (tensor<8x6xf32>, tensor<f32>) -> tensor<8x6xf32>
    %2 = "stablehlo.sort"(%arg0) <{dimension = 1 : i64, is_stable = true}> ({
    ^bb0(%arg5: tensor<f32>, %arg6: tensor<f32>):
      %9 = stablehlo.compare LT, %arg5, %arg6 {sdy.sharding_rule = #sdy.op_sharding_rule<([], [])->([])>} : (tensor<f32>, tensor<f32>) -> tensor<i1>
      stablehlo.return %9 : tensor<i1>
    }) {sdy.sharding_rule = #sdy.op_sharding_rule<([i, j])->([i, j]) {i=8, j=6} need_replication={j}>} : (tensor<8x6xf32>) -> tensor<8x6xf32>
    %3 = "stablehlo.sort"(%arg4) <{dimension = 0 : i64}> ({
    ^bb0(%arg5: tensor<f32>, %arg6: tensor<f32>):
      %9 = stablehlo.compare LT, %arg5, %arg6 {sdy.sharding_rule = #sdy.op_sharding_rule<([], [])->([])>} : (tensor<f32>, tensor<f32>) -> tensor<i1>
      stablehlo.return %9 : tensor<i1>
    }) {sdy.sharding_rule = #sdy.op_sharding_rule<([i])->([i]) {i=7} need_replication={i} blocked_propagation={i}>} : (tensor<7xf32>) -> tensor<7xf32>
    %4 = stablehlo.cholesky %arg2 {sdy.sharding_rule = #sdy.op_sharding_rule<([i, j, k])->([i, j, k]) {i=8, j=6, k=6} need_replication={j, k}>} : tensor<8x6x6xf32>
    %5 = "stablehlo.triangular_solve"(%arg2, %arg3) <{left_side = true, lower = true, transpose_a = #stablehlo<transpose TRANSPOSE>, unit_diagonal = false}> {sdy.sharding_rule = #sdy.op_sharding_rule<([i, l, j], [i, j, k])->([i, l, k]) {i=8, j=6, k=4, l=6} need_replication={j, k, l}>} : (tensor<8x6x6xf32>, tensor<8x6x4xf32>) -> tensor<8x6x4xf32>
    %6 = stablehlo.fft %arg0, type = RFFT, length = [6] {sdy.sharding_rule = #sdy.op_sharding_rule<([i, j])->([i, j]) {i=8, j=6} need_replication={j} blocked_propagation={j}>} : (tensor<8x6xf32>) -> tensor<8x4xcomplex<f32>>
    %7:2 = stablehlo.custom_call @Qr(%arg2) {sdy.sharding_rule = #sdy.op_sharding_rule<([i, j, k])->([i, j, k], [i, l]) {i=8, j=6, k=6, l=6} need_replication={j, k, l}>} : (tensor<8x6x6xf32>) -> (tensor<8x6x6xf32>, tensor<8x6xf32>)
    %8:2 = stablehlo.custom_call @mhlo.topk(%arg0) {sdy.sharding_rule = #sdy.op_sharding_rule<([i, j])->([i, j], [i, j]) {i=8, j=6} need_replication={j} blocked_propagation={j}>} : (tensor<8x6xf32>) -> (tensor<8x2xf32>, tensor<8x2xi32>)
    return %0 : tensor<8xf32>
  }
}
