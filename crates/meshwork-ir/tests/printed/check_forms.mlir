module {
  func.func @main(%arg0: tensor<2xf32>, %arg1: tensor<2xf32>) {
    check.expect_eq %arg0, %arg1 : tensor<2xf32>
    check.expect_eq_const %arg0, dense<1.000000e+00> : tensor<2xf32>
    check.expect_almost_eq %arg0, %arg1 : tensor<2xf32>
    check.expect_almost_eq %arg0, %arg1, tolerance = 1.000000e-03 : tensor<2xf32>
    check.expect_almost_eq_const %arg0, dense<[1.000000e+00, 2.000000e+00]> : tensor<2xf32>, tolerance = 1.000000e-03
    check.expect_close %arg0, %arg1, max_ulp_difference = 3 : tensor<2xf32>, tensor<2xf32>
    check.expect_close %arg0, %arg1, max_ulp_difference = 3, min_ulp_difference = 1 : tensor<2xf32>, tensor<2xf32>
    check.expect_serialized_eq %arg0, probe_id = "probe", iter = 1 : tensor<2xf32>
    interpreter.print %arg0 : tensor<2xf32>
    %0 = interpreter.probe %arg0, probe_id = "probe" : tensor<2xf32>
    return
  }
}
