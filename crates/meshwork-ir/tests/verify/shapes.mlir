// Legal: dynamic extents agree with every extent.
func.func @f(%x: tensor<?x3xf32>, %y: tensor<2x?xf32>) -> tensor<?x?xf32> {
  %0 = "stablehlo.add"(%x, %y) : (tensor<?x3xf32>, tensor<2x?xf32>) -> tensor<?x?xf32>
  return %0 : tensor<?x?xf32>
}
// -----
func.func @f(%x: tensor<2xf32>, %y: tensor<2xi32>) {
  // error: 'stablehlo.multiply' op operand 1 (rhs) must be of the type of operand 0 (lhs), tensor<2xf32>, but is tensor<2xi32>
  %0 = "stablehlo.multiply"(%x, %y) : (tensor<2xf32>, tensor<2xi32>) -> tensor<2xf32>
  return
}
// -----
func.func @f(%x: tensor<2xf32>) {
  // error: 'stablehlo.exponential' op result 0 must be tensor<2xf32>, but is declared as tensor<2xf64>
  %0 = "stablehlo.exponential"(%x) : (tensor<2xf32>) -> tensor<2xf64>
  return
}
// -----
func.func @f(%x: tensor<2x3xf32>) {
  // error: 'stablehlo.broadcast_in_dim' op attribute 'broadcast_dimensions' lists dimension 1 twice: [1, 1]
  %0 = "stablehlo.broadcast_in_dim"(%x) {broadcast_dimensions = array<i64: 1, 1>} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return
}
// -----
func.func @f(%x: tensor<2x3xf32>) {
  // error: 'stablehlo.transpose' op result 0 must be tensor<3x2xf32>, but is declared as tensor<2x3xf32>
  %0 = "stablehlo.transpose"(%x) {permutation = array<i64: 1, 0>} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return
}
// -----
func.func @f(%x: tensor<8xf32>) {
  // error: 'stablehlo.slice' op takes 6 to 4 of dimension 0, which has size 8; operand is tensor<8xf32>
  %0 = "stablehlo.slice"(%x) {start_indices = array<i64: 6>, limit_indices = array<i64: 4>, strides = array<i64: 1>} : (tensor<8xf32>) -> tensor<0xf32>
  return
}
// -----
func.func @f() {
  // error: 'stablehlo.iota' op attribute 'iota_dimension' is 1, which is not a dimension of a tensor of rank 1
  %0 = "stablehlo.iota"() {iota_dimension = 1 : i64} : () -> tensor<4xf32>
  return
}
// -----
func.func @f(%x: tensor<2x3xf32>, %y: tensor<4x5xf32>) {
  // error: 'stablehlo.dot' op contracts lhs dimension 1 of size 3 with rhs dimension 0 of size 4
  %0 = "stablehlo.dot"(%x, %y) : (tensor<2x3xf32>, tensor<4x5xf32>) -> tensor<2x5xf32>
  return
}
// -----
func.func @f(%x: tensor<4xf32>, %i: tensor<f32>) {
  // error: 'stablehlo.dynamic_slice' op operand 1 (start_indices) must be a tensor of integer, but is tensor<f32>
  %0 = "stablehlo.dynamic_slice"(%x, %i) {slice_sizes = array<i64: 2>} : (tensor<4xf32>, tensor<f32>) -> tensor<2xf32>
  return
}
// -----
func.func @f(%x: tensor<4x3xf32>, %b: tensor<2x3xf32>) {
  // error: 'stablehlo.triangular_solve' op operand 0 (a) must be square in its two last dimensions, but is tensor<4x3xf32>
  %0 = "stablehlo.triangular_solve"(%x, %b) {left_side = true, lower = true, unit_diagonal = false, transpose_a = #stablehlo<transpose NO_TRANSPOSE>} : (tensor<4x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  return
}
// -----
func.func @f(%x: tensor<2xf32>) {
  // error: 'stablehlo.tanh' op attribute 'result_accuracy' has tolerances, which only mode TOLERANCE uses: #stablehlo.result_accuracy<atol = 1.0, rtol = 0.0, ulps = 0, mode = #stablehlo.result_accuracy_mode<HIGHEST>>
  %0 = "stablehlo.tanh"(%x) {result_accuracy = #stablehlo.result_accuracy<atol = 1.0, rtol = 0.0, ulps = 0, mode = #stablehlo.result_accuracy_mode<HIGHEST>>} : (tensor<2xf32>) -> tensor<2xf32>
  return
}
// -----
// error: 'func.func' op @f has a bound for dimension 0 of tensor<3xf32, #stablehlo.bounds<4>>, which is static
func.func @f(%x: tensor<3xf32, #stablehlo.bounds<4>>) {
  return
}
