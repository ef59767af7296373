func.func @constants() {
  %0 = stablehlo.constant dense<[[1, -2], [0x7F, 4]]> : tensor<2x2xi8>
  %1 = stablehlo.constant dense<0.1> : tensor<1000000x1000000xf32>
  %2 = stablehlo.constant dense<[true, false, 1]> : tensor<3xi1>
  %3 = stablehlo.constant dense<(1.5, -0.0)> : tensor<2xcomplex<f32>>
  %4 = stablehlo.constant dense<[(1.0, 0x7F800000), (2.0, 3.0)]> : tensor<2xcomplex<f32>>
  %5 = stablehlo.constant dense<> : tensor<0x4xf32>
  %6 = stablehlo.constant dense<[[], []]> : tensor<2x0xi32>
  %7 = stablehlo.constant dense<"0x000080BF0000803F"> : tensor<2xf32>
  %8 = stablehlo.constant dense<"0x0F01"> : tensor<2xi4>
  %9 = stablehlo.constant dense<[1.0, 0x7FC0, 1.0e-40]> : tensor<3xbf16>
  %10 = stablehlo.constant dense_resource<blob> : tensor<2xi32>
  %11 = stablehlo.constant {note = "kept"} dense<7> : tensor<ui64>
  %12 = "stablehlo.constant"() <{value = dense<1> : tensor<1xi32>}> : () -> tensor<1xi32>
  return
}

{-#
  dialect_resources: {
    builtin: {
      blob: "0x040000000100000002000000"
    }
  }
#-}
