// Two layers of a network on a mesh of four devices: the features of the first are split, and the second sums over them.
//
//   meshwork explain examples/mlir/split_matmul.mlir

sdy.mesh @mesh = <["model"=4]>

func.func @main() -> tensor<2x4xf32> {
  %x = stablehlo.constant dense<0.5> : tensor<2x8xf32>
  %w1 = stablehlo.iota dim = 1 {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{}, {"model"}]>]>} : tensor<8x16xf32>
  %w2 = stablehlo.iota dim = 1 {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"model"}, {}]>]>} : tensor<16x4xf32>
  %hidden = stablehlo.dot_general %x, %w1, contracting_dims = [1] x [0] : (tensor<2x8xf32>, tensor<8x16xf32>) -> tensor<2x16xf32>
  %out = stablehlo.dot_general %hidden, %w2, contracting_dims = [1] x [0] : (tensor<2x16xf32>, tensor<16x4xf32>) -> tensor<2x4xf32>
  return %out : tensor<2x4xf32>
}
