// RUN: opt -symbol-dce
sdy.mesh @mesh = <["x"=2]>

func.func @main(%a: tensor<2xf32>) -> tensor<2xf32> {
  %0 = call @used(%a) : (tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}

func.func private @used(%a: tensor<2xf32>) -> tensor<2xf32> {
  return %a : tensor<2xf32>
}

func.func private @dead(%a: tensor<2xf32>) -> tensor<2xf32> {
  %0 = call @dead_too(%a) : (tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}

func.func private @dead_too(%a: tensor<2xf32>) -> tensor<2xf32> {
  %0 = call @dead(%a) : (tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
