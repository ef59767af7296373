// Constants of every element type, and shapes that are not known.
func.func @main() {
  %0 = stablehlo.constant dense<[true, false, true]> : tensor<3xi1>
  %1 = stablehlo.constant dense<true> : tensor<2x9xi1>
  %2 = stablehlo.constant dense<[true, false, true, true, false, false, false, true, true, false]> : tensor<10xi1>
  %3 = stablehlo.constant dense<[-8, 7, -1]> : tensor<3xi4>
  %4 = stablehlo.constant dense<[0, 15, 8]> : tensor<3xui4>
  %5 = stablehlo.constant dense<[-1, 0, 1, -2]> : tensor<4xi2>
  %6 = stablehlo.constant dense<[-128, 127]> : tensor<2xi8>
  %7 = stablehlo.constant dense<[-9223372036854775808, 9223372036854775807]> : tensor<2xi64>
  %8 = stablehlo.constant dense<18446744073709551615> : tensor<ui64>
  %9 = stablehlo.constant dense<[1.500000e+00, -0.000000e+00, 0x7FC00000, 0xFF800000]> : tensor<4xf32>
  %10 = stablehlo.constant dense<[1.500000e+00, 2.000000e+00]> : tensor<2xbf16>
  %11 = stablehlo.constant dense<[1.500000e+00, 2.000000e+00]> : tensor<2xf8E4M3FN>
  %12 = stablehlo.constant dense<[(1.000000e+00,2.000000e+00), (0.000000e+00,-1.000000e+00)]> : tensor<2xcomplex<f64>>
  %13 = stablehlo.constant dense<> : tensor<0x3xf32>
  %14 = stablehlo.constant dense<[1.000000e+00, 2.000000e+00]> : tensor<2xf64>
  return
}
func.func @dynamic(%x: tensor<?x4xf32>, %y: tensor<?x?xf32, #stablehlo.bounds<?, 5>>, %shape: tensor<2xi32>) -> tensor<?x?xf32> {
  %0 = stablehlo.dynamic_reshape %x, %shape : (tensor<?x4xf32>, tensor<2xi32>) -> tensor<?x?xf32>
  %1 = stablehlo.dynamic_broadcast_in_dim %x, %shape, dims = [0, 1] : (tensor<?x4xf32>, tensor<2xi32>) -> tensor<?x?xf32>
  %2 = stablehlo.dynamic_iota %shape, dim = 1 : (tensor<2xi32>) -> tensor<?x?xf32>
  return %0 : tensor<?x?xf32>
}
