// RUN: sdy-basic-propagate
func.func @main(%a: tensor<?xf32>) -> tensor<?xf32> {
  %0 = stablehlo.tanh %a : tensor<?xf32>
  return %0 : tensor<?xf32>
}
// OUTPUT
// 3:8: not supported: 'stablehlo.tanh' op has type tensor<?xf32>; propagation needs static shapes
