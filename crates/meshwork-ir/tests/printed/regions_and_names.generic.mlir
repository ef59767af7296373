"builtin.module"() ({
  "func.func"() <{function_type = (tensor<8xf32>) -> tensor<i32>, sym_name = "main"}> ({
  ^bb0(%arg1: tensor<8xf32>):
    %2 = "stablehlo.constant"() <{value = dense<1> : tensor<i32>}> : () -> tensor<i32>
    %3:2 = "stablehlo.while"(%2, %2) ({
    ^bb0(%arg14: tensor<i32>, %arg15: tensor<i32>):
      %22 = "stablehlo.constant"() <{value = dense<1> : tensor<i32>}> : () -> tensor<i32>
      %23 = "stablehlo.compare"(%arg14, %22) <{comparison_direction = #stablehlo<comparison_direction LT>}> : (tensor<i32>, tensor<i32>) -> tensor<i1>
      "stablehlo.return"(%23) : (tensor<i1>) -> ()
    }, {
    ^bb0(%arg10: tensor<i32>, %arg11: tensor<i32>):
      %16 = "stablehlo.constant"() <{value = dense<1.000000e+00> : tensor<f32>}> : () -> tensor<f32>
      %17 = "func.call"(%arg10) <{callee = @inc}> : (tensor<i32>) -> tensor<i32>
      %18 = "stablehlo.while"(%17) ({
      ^bb0(%arg13: tensor<i32>):
        %21 = "stablehlo.compare"(%arg13, %arg11) <{comparison_direction = #stablehlo<comparison_direction LT>}> : (tensor<i32>, tensor<i32>) -> tensor<i1>
        "stablehlo.return"(%21) : (tensor<i1>) -> ()
      }, {
      ^bb0(%arg12: tensor<i32>):
        %19 = "stablehlo.constant"() <{value = dense<2> : tensor<i32>}> : () -> tensor<i32>
        %20 = "stablehlo.add"(%arg12, %19) : (tensor<i32>, tensor<i32>) -> tensor<i32>
        "stablehlo.return"(%20) : (tensor<i32>) -> ()
      }) : (tensor<i32>) -> tensor<i32>
      "stablehlo.return"(%17, %18) : (tensor<i32>, tensor<i32>) -> ()
    }) {note = 1 : i32} : (tensor<i32>, tensor<i32>) -> (tensor<i32>, tensor<i32>)
    %4 = "stablehlo.constant"() <{value = dense<0.000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %5 = "stablehlo.reduce"(%arg1, %4) <{dimensions = array<i64: 0>}> ({
    ^bb0(%arg8: tensor<f32>, %arg9: tensor<f32>):
      %15 = "stablehlo.add"(%arg8, %arg9) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%15) : (tensor<f32>) -> ()
    }) : (tensor<8xf32>, tensor<f32>) -> tensor<f32>
    %6 = "stablehlo.iota"() <{iota_dimension = 0 : i64}> : () -> tensor<8xi32>
    %7:2 = "stablehlo.reduce"(%arg1, %6, %4, %2) <{dimensions = array<i64: 0>}> ({
    ^bb0(%arg4: tensor<f32>, %arg5: tensor<i32>, %arg6: tensor<f32>, %arg7: tensor<i32>):
      %14 = "stablehlo.maximum"(%arg4, %arg6) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%14, %arg5) : (tensor<f32>, tensor<i32>) -> ()
    }) : (tensor<8xf32>, tensor<8xi32>, tensor<f32>, tensor<i32>) -> (tensor<f32>, tensor<i32>)
    %8 = "stablehlo.sort"(%arg1) <{dimension = 0 : i64, is_stable = true}> ({
    ^bb0(%arg2: tensor<f32>, %arg3: tensor<f32>):
      %13 = "stablehlo.compare"(%arg2, %arg3) <{comparison_direction = #stablehlo<comparison_direction GT>}> : (tensor<f32>, tensor<f32>) -> tensor<i1>
      "stablehlo.return"(%13) : (tensor<i1>) -> ()
    }) : (tensor<8xf32>) -> tensor<8xf32>
    %9 = "stablehlo.case"(%2) ({
      %12 = "stablehlo.add"(%2, %2) : (tensor<i32>, tensor<i32>) -> tensor<i32>
      "stablehlo.return"(%12) : (tensor<i32>) -> ()
    }, {
      %11 = "stablehlo.multiply"(%2, %2) : (tensor<i32>, tensor<i32>) -> tensor<i32>
      "stablehlo.return"(%11) : (tensor<i32>) -> ()
    }) {sdy.sharding = #sdy.sharding_per_value<[<@mesh, []>]>} : (tensor<i32>) -> tensor<i32>
    %10:2 = "other.op"(%9) ({
      "other.inner"() : () -> ()
    }) {flag, "odd name" = 2 : i8} : (tensor<i32>) -> (tensor<i32>, tensor<i32>)
    "func.return"(%10#1) : (tensor<i32>) -> ()
  }) : () -> ()
  "func.func"() <{function_type = (tensor<i32>) -> tensor<i32>, sym_name = "inc", sym_visibility = "private"}> ({
  ^bb0(%arg0: tensor<i32>):
    %0 = "stablehlo.constant"() <{value = dense<1> : tensor<i32>}> : () -> tensor<i32>
    %1 = "stablehlo.add"(%arg0, %0) : (tensor<i32>, tensor<i32>) -> tensor<i32>
    "func.return"(%1) : (tensor<i32>) -> ()
  }) : () -> ()
  "sdy.mesh"() <{mesh = #sdy.mesh<["x"=2]>, sym_name = "mesh"}> : () -> ()
}) : () -> ()
