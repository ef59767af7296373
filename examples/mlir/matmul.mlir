// A product of two matrices, and its relu.
module @matmul {
  func.func @main() -> (tensor<2x2xf32>, tensor<2x2xf32>) {
    %a = stablehlo.constant dense<[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]> : tensor<2x3xf32>
    %b = stablehlo.constant dense<[[1.0, 0.0], [0.0, 1.0], [0.5, -2.0]]> : tensor<3x2xf32>
    %product = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<2x3xf32>, tensor<3x2xf32>) -> tensor<2x2xf32>
    %zero = stablehlo.constant dense<0.0> : tensor<2x2xf32>
    %relu = stablehlo.maximum %product, %zero : tensor<2x2xf32>
    return %product, %relu : tensor<2x2xf32>, tensor<2x2xf32>
  }
}
