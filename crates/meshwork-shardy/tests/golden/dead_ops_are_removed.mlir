// RUN: sdy-basic-propagate
func.func @main(%a: tensor<8xf32>) -> tensor<8xf32> {
  %0 = stablehlo.tanh %a : tensor<8xf32>
  %1 = stablehlo.add %0, %0 : tensor<8xf32>
  return %a : tensor<8xf32>
}
// OUTPUT
module {
  func.func @main(%arg0: tensor<8xf32>) -> tensor<8xf32> {
    return %arg0 : tensor<8xf32>
  }
}
