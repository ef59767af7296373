// RUN: opt -canonicalize
sdy.mesh @mesh = <["x"=2]>

func.func @dead(%a: tensor<2xf32>) -> tensor<2xf32> {
  %0 = stablehlo.sine %a : tensor<2xf32>
  %1 = stablehlo.cosine %0 : tensor<2xf32>
  %2:2 = stablehlo.while(%i = %a, %j = %1) : tensor<2xf32>, tensor<2xf32>
  cond {
    %c = stablehlo.constant dense<false> : tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %3 = stablehlo.add %i, %j : tensor<2xf32>
    stablehlo.return %3, %j : tensor<2xf32>, tensor<2xf32>
  }
  return %a : tensor<2xf32>
}

func.func @identities(%a: tensor<2x3xf32>) -> (tensor<2x3xf32>, tensor<2x3xf32>, tensor<3x2xf32>) {
  %0 = stablehlo.reshape %a : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %1 = stablehlo.transpose %0, dims = [0, 1] : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %2 = stablehlo.broadcast_in_dim %1, dims = [0, 1] : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %3 = stablehlo.transpose %2, dims = [1, 0] : (tensor<2x3xf32>) -> tensor<3x2xf32>
  %4 = stablehlo.reshape %a {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"x"}, {}]>]>} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return %2, %4, %3 : tensor<2x3xf32>, tensor<2x3xf32>, tensor<3x2xf32>
}

func.func @square_transpose_is_no_identity(%a: tensor<2x2xf32>) -> tensor<2x2xf32> {
  %0 = stablehlo.transpose %a, dims = [1, 0] : (tensor<2x2xf32>) -> tensor<2x2xf32>
  return %0 : tensor<2x2xf32>
}
