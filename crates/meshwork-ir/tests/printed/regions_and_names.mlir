module {
  func.func @main(%arg0: tensor<8xf32>) -> tensor<i32> {
    %c = stablehlo.constant dense<1> : tensor<i32>
    %0:2 = stablehlo.while(%iterArg = %c, %iterArg_0 = %c) : tensor<i32>, tensor<i32> attributes {note = 1 : i32}
    cond {
      %c_1 = stablehlo.constant dense<1> : tensor<i32>
      %7 = stablehlo.compare LT, %iterArg, %c_1 : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %7 : tensor<i1>
    } do {
      %cst_1 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
      %7 = func.call @inc(%iterArg) : (tensor<i32>) -> tensor<i32>
      %8 = stablehlo.while(%iterArg_2 = %7) : tensor<i32>
      cond {
        %9 = stablehlo.compare LT, %iterArg_2, %iterArg_0 : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %9 : tensor<i1>
      } do {
        %c_3 = stablehlo.constant dense<2> : tensor<i32>
        %9 = stablehlo.add %iterArg_2, %c_3 : tensor<i32>
        stablehlo.return %9 : tensor<i32>
      }
      stablehlo.return %7, %8 : tensor<i32>, tensor<i32>
    }
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %1 = stablehlo.reduce(%arg0 init: %cst) applies stablehlo.add across dimensions = [0] : (tensor<8xf32>, tensor<f32>) -> tensor<f32>
    %2 = stablehlo.iota dim = 0 : tensor<8xi32>
    %3:2 = stablehlo.reduce(%arg0 init: %cst), (%2 init: %c) across dimensions = [0] : (tensor<8xf32>, tensor<8xi32>, tensor<f32>, tensor<i32>) -> (tensor<f32>, tensor<i32>)
     reducer(%arg1: tensor<f32>, %arg3: tensor<f32>) (%arg2: tensor<i32>, %arg4: tensor<i32>)  {
      %7 = stablehlo.maximum %arg1, %arg3 : tensor<f32>
      stablehlo.return %7, %arg2 : tensor<f32>, tensor<i32>
    }
    %4 = "stablehlo.sort"(%arg0) <{dimension = 0 : i64, is_stable = true}> ({
    ^bb0(%arg1: tensor<f32>, %arg2: tensor<f32>):
      %7 = stablehlo.compare GT, %arg1, %arg2 : (tensor<f32>, tensor<f32>) -> tensor<i1>
      stablehlo.return %7 : tensor<i1>
    }) : (tensor<8xf32>) -> tensor<8xf32>
    %5 = "stablehlo.case"(%c) ({
      %7 = stablehlo.add %c, %c : tensor<i32>
      stablehlo.return %7 : tensor<i32>
    }, {
      %7 = stablehlo.multiply %c, %c : tensor<i32>
      stablehlo.return %7 : tensor<i32>
    }) {sdy.sharding = #sdy.sharding_per_value<[<@mesh, []>]>} : (tensor<i32>) -> tensor<i32>
    %6:2 = "other.op"(%5) ({
      "other.inner"() : () -> ()
    }) {flag, "odd name" = 2 : i8} : (tensor<i32>) -> (tensor<i32>, tensor<i32>)
    return %6#1 : tensor<i32>
  }
  func.func private @inc(%arg0: tensor<i32>) -> tensor<i32> {
    %c = stablehlo.constant dense<1> : tensor<i32>
    %0 = stablehlo.add %arg0, %c : tensor<i32>
    return %0 : tensor<i32>
  }
  sdy.mesh @mesh = <["x"=2]>
}
