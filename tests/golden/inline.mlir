// RUN: opt -inline
func.func @main(%a: tensor<f32>) -> tensor<f32> {
  %0 = call @twice(%a) : (tensor<f32>) -> tensor<f32>
  %1 = call @loop(%0) : (tensor<f32>) -> tensor<f32>
  %2 = call @outside(%1) : (tensor<f32>) -> tensor<f32>
  return %2 : tensor<f32>
}

func.func private @twice(%a: tensor<f32>) -> tensor<f32> {
  %0 = call @once(%a) : (tensor<f32>) -> tensor<f32>
  %1 = call @once(%0) : (tensor<f32>) -> tensor<f32>
  return %1 : tensor<f32>
}

func.func private @once(%a: tensor<f32>) -> tensor<f32> {
  %0 = stablehlo.sine %a : tensor<f32>
  return %0 : tensor<f32>
}

func.func private @loop(%a: tensor<f32>) -> tensor<f32> {
  %0 = call @loop(%a) : (tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}

func.func private @outside(tensor<f32>) -> tensor<f32>

func.func private @unused(%a: tensor<f32>) -> tensor<f32> {
  return %a : tensor<f32>
}
