// Legal: accumulators may be wider than elements.
func.func @f(%x: tensor<4xf32>, %zero: tensor<f32>) -> tensor<f64> {
  %0 = "stablehlo.reduce"(%x, %zero) ({
  ^bb0(%a: tensor<f64>, %b: tensor<f64>):
    %1 = "stablehlo.add"(%a, %b) : (tensor<f64>, tensor<f64>) -> tensor<f64>
    "stablehlo.return"(%1) : (tensor<f64>) -> ()
  }) {dimensions = array<i64: 0>} : (tensor<4xf32>, tensor<f32>) -> tensor<f64>
  return %0 : tensor<f64>
}
// -----
func.func @f(%x: tensor<4xf32>, %zero: tensor<f32>) {
  // error: 'stablehlo.reduce' op body returns 2 value(s), but must return 1, one per input
  %0 = "stablehlo.reduce"(%x, %zero) ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    "stablehlo.return"(%a, %b) : (tensor<f32>, tensor<f32>) -> ()
  }) {dimensions = array<i64: 0>} : (tensor<4xf32>, tensor<f32>) -> tensor<f32>
  return
}
// -----
func.func @f(%x: tensor<4xf32>, %zero: tensor<f32>) {
  // error: 'stablehlo.reduce' op attribute 'dimensions' lists 1, which is not a dimension of a tensor of rank 1
  %0 = "stablehlo.reduce"(%x, %zero) ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    "stablehlo.return"(%a) : (tensor<f32>) -> ()
  }) {dimensions = array<i64: 1>} : (tensor<4xf32>, tensor<f32>) -> tensor<f32>
  return
}
// -----
func.func @f(%x: tensor<4xf32>) {
  // error: 'stablehlo.while' op cond must return tensor<i1>, but returns (tensor<4xf32>)
  %0 = "stablehlo.while"(%x) ({
  ^bb0(%a: tensor<4xf32>):
    "stablehlo.return"(%a) : (tensor<4xf32>) -> ()
  }, {
  ^bb0(%a: tensor<4xf32>):
    "stablehlo.return"(%a) : (tensor<4xf32>) -> ()
  }) : (tensor<4xf32>) -> tensor<4xf32>
  return
}
// -----
func.func @f(%p: tensor<i1>, %x: tensor<4xf32>, %y: tensor<5xf32>) {
  // error: 'stablehlo.if' op branch 1 returns (tensor<5xf32>), but branch 0 returns (tensor<4xf32>)
  %0 = "stablehlo.if"(%p) ({
    "stablehlo.return"(%x) : (tensor<4xf32>) -> ()
  }, {
    "stablehlo.return"(%y) : (tensor<5xf32>) -> ()
  }) : (tensor<i1>) -> tensor<4xf32>
  return
}
// -----
func.func @f(%x: tensor<4xf32>) {
  %0 = "stablehlo.sort"(%x) ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    // error: 'stablehlo.and' op operand 0 (lhs) must be a tensor of bool or integer, but is tensor<f32>
    %1 = "stablehlo.and"(%a, %b) : (tensor<f32>, tensor<f32>) -> tensor<i1>
    "stablehlo.return"(%1) : (tensor<i1>) -> ()
  }) {dimension = 0 : i64} : (tensor<4xf32>) -> tensor<4xf32>
  return
}
// -----
func.func @f(%x: tensor<4x4xf32>, %s: tensor<2x2xf32>, %zero: tensor<f32>) {
  // error: 'stablehlo.select_and_scatter' op operand 1 (source) must be tensor<3x2xf32>, one element per window, but is tensor<2x2xf32>
  %0 = "stablehlo.select_and_scatter"(%x, %s, %zero) ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %1 = "stablehlo.compare"(%a, %b) {comparison_direction = #stablehlo<comparison_direction GE>} : (tensor<f32>, tensor<f32>) -> tensor<i1>
    "stablehlo.return"(%1) : (tensor<i1>) -> ()
  }, {
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    "stablehlo.return"(%a) : (tensor<f32>) -> ()
  }) {window_dimensions = array<i64: 2, 2>, window_strides = array<i64: 1, 2>} : (tensor<4x4xf32>, tensor<2x2xf32>, tensor<f32>) -> tensor<4x4xf32>
  return
}
