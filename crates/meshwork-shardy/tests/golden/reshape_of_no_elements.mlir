// RUN: sdy-populate-op-sharding-rules
func.func @main(%a: tensor<0x4xf32>) -> tensor<4x0xf32> {
  %0 = stablehlo.reshape %a : (tensor<0x4xf32>) -> tensor<4x0xf32>
  return %0 : tensor<4x0xf32>
}
// OUTPUT
module {
  func.func @main(%arg0: tensor<0x4xf32>) -> tensor<4x0xf32> {
    %0 = stablehlo.reshape %arg0 : (tensor<0x4xf32>) -> tensor<4x0xf32>
    return %0 : tensor<4x0xf32>
  }
}
