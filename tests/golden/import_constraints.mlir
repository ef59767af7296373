// RUN: opt -sdy-apply-sharding-constraints
sdy.mesh @m = <["a"=2, "b"=2]>

func.func @closed_constraint(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %0 = stablehlo.sine %x : tensor<4x4xf32>
  %1 = sdy.sharding_constraint %0 <@m, [{"a"}, {}]> : tensor<4x4xf32>
  return %1 : tensor<4x4xf32>
}

func.func @open_constraint(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %0 = stablehlo.sine %x : tensor<4x4xf32>
  %1 = sdy.sharding_constraint %0 <@m, [{"a"}, {?}]> : tensor<4x4xf32>
  return %1 : tensor<4x4xf32>
}

func.func @two_wishes(%x: tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>) {
  %0 = stablehlo.sine %x : tensor<4x4xf32>
  %1 = sdy.sharding_constraint %0 <@m, [{"a"}, {}]> : tensor<4x4xf32>
  %2 = sdy.sharding_constraint %0 <@m, [{"b"}, {}]> : tensor<4x4xf32>
  return %1, %2 : tensor<4x4xf32>, tensor<4x4xf32>
}

// The sine uses the end of the chain; the return does not.
func.func @chain(%x: tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>) {
  %0 = sdy.sharding_constraint %x <@m, [{"a", ?}, {}]> : tensor<4x4xf32>
  %1 = sdy.sharding_constraint %0 <@m, [{"b"}, {}]> : tensor<4x4xf32>
  %2 = stablehlo.sine %x : tensor<4x4xf32>
  return %2, %x : tensor<4x4xf32>, tensor<4x4xf32>
}

// The other targets of the edge stay free: uses go through the constraint, which moves up.
func.func @edge(%x: tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>) {
  %0 = stablehlo.optimization_barrier %x : tensor<4x4xf32>
  %1 = sdy.data_flow_edge %0 : tensor<4x4xf32>
  %2 = stablehlo.sine %1 : tensor<4x4xf32>
  %3 = sdy.sharding_constraint %1 <@m, [{"a"}, {}], unreduced={"b"}> : tensor<4x4xf32>
  return %2, %3 : tensor<4x4xf32>, tensor<4x4xf32>
}

func.func @manual(%x: tensor<8x4xf32>) -> tensor<8x4xf32> {
  %0 = stablehlo.sine %x : tensor<8x4xf32>
  %1 = sdy.manual_computation(%0) in_shardings=[<@m, [{"a"}, {}]>] out_shardings=[<@m, [{"a"}, {}]>] manual_axes={"a"} (%y: tensor<4x4xf32>) {
    sdy.return %y : tensor<4x4xf32>
  } : (tensor<8x4xf32>) -> tensor<8x4xf32>
  return %1 : tensor<8x4xf32>
}
