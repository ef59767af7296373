// A rod of eleven cells, hot in the middle, cooling for a hundred steps: u += (left - 2 u + right) / 4 inside.
// The program checks that what is left is symmetric.
module @heat {
  func.func @main() -> tensor<11xf32> {
    %start = stablehlo.constant dense<[0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0]> : tensor<11xf32>
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %steps = stablehlo.constant dense<100> : tensor<i32>
    %result:2 = stablehlo.while(%i = %zero, %u = %start) : tensor<i32>, tensor<11xf32>
    cond {
      %more = stablehlo.compare LT, %i, %steps : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %more : tensor<i1>
    } do {
      %next = func.call @step(%u) : (tensor<11xf32>) -> tensor<11xf32>
      %j = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %j, %next : tensor<i32>, tensor<11xf32>
    }
    %mirrored = stablehlo.reverse %result#1, dims = [0] : tensor<11xf32>
    stablehlo.custom_call @check.expect_almost_eq(%result#1, %mirrored) {has_side_effect = true} : (tensor<11xf32>, tensor<11xf32>) -> ()
    return %result#1 : tensor<11xf32>
  }

  // One step; the two ends keep their temperature.
  func.func private @step(%u: tensor<11xf32>) -> tensor<11xf32> {
    %quarter = stablehlo.constant dense<2.500000e-01> : tensor<9xf32>
    %two = stablehlo.constant dense<2.000000e+00> : tensor<9xf32>
    %left = stablehlo.slice %u [0:9] : (tensor<11xf32>) -> tensor<9xf32>
    %middle = stablehlo.slice %u [1:10] : (tensor<11xf32>) -> tensor<9xf32>
    %right = stablehlo.slice %u [2:11] : (tensor<11xf32>) -> tensor<9xf32>
    %sides = stablehlo.add %left, %right : tensor<9xf32>
    %twice = stablehlo.multiply %two, %middle : tensor<9xf32>
    %flow = stablehlo.subtract %sides, %twice : tensor<9xf32>
    %change = stablehlo.multiply %quarter, %flow : tensor<9xf32>
    %inside = stablehlo.add %middle, %change : tensor<9xf32>
    %first = stablehlo.slice %u [0:1] : (tensor<11xf32>) -> tensor<1xf32>
    %last = stablehlo.slice %u [10:11] : (tensor<11xf32>) -> tensor<1xf32>
    %next = stablehlo.concatenate %first, %inside, %last, dim = 0 : (tensor<1xf32>, tensor<9xf32>, tensor<1xf32>) -> tensor<11xf32>
    return %next : tensor<11xf32>
  }
}
