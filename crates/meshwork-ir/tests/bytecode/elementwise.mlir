// Elementwise operations and the movement of elements.
func.func @unary(%x: tensor<2x3xf32>, %z: tensor<2xcomplex<f32>>, %i: tensor<2xi32>) -> tensor<2x3xf32> {
  %0 = stablehlo.tanh %x : tensor<2x3xf32>
  %1 = stablehlo.exponential %0 : tensor<2x3xf32>
  %2 = stablehlo.log_plus_one %1 : tensor<2x3xf32>
  %3 = stablehlo.real %z : (tensor<2xcomplex<f32>>) -> tensor<2xf32>
  %4 = stablehlo.popcnt %i : tensor<2xi32>
  %5 = stablehlo.is_finite %2 : (tensor<2x3xf32>) -> tensor<2x3xi1>
  %6 = stablehlo.reduce_precision %2, format = e5m10 : tensor<2x3xf32>
  %7 = stablehlo.convert %6 : (tensor<2x3xf32>) -> tensor<2x3xbf16>
  %8 = stablehlo.bitcast_convert %i : (tensor<2xi32>) -> tensor<2xf32>
  return %2 : tensor<2x3xf32>
}
func.func @binary(%a: tensor<4xf32>, %b: tensor<4xf32>, %p: tensor<4xi1>) -> tensor<4xf32> {
  %0 = stablehlo.compare GT, %a, %b : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>
  %1 = stablehlo.compare LE, %a, %b, TOTALORDER : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>
  %2 = stablehlo.select %0, %a, %b : tensor<4xi1>, tensor<4xf32>
  %3 = stablehlo.clamp %a, %2, %b : tensor<4xf32>
  %4 = stablehlo.atan2 %3, %b {mhlo.frontend_attributes = {kept = "yes"}} : tensor<4xf32>
  %5 = stablehlo.complex %4, %b : tensor<4xcomplex<f32>>
  return %4 : tensor<4xf32>
}
func.func @movement(%x: tensor<2x3xf32>, %i: tensor<i32>, %pad: tensor<f32>) -> tensor<3x2xf32> {
  %0 = stablehlo.transpose %x, dims = [1, 0] : (tensor<2x3xf32>) -> tensor<3x2xf32>
  %1 = stablehlo.reshape %x : (tensor<2x3xf32>) -> tensor<6xf32>
  %2 = stablehlo.broadcast_in_dim %x, dims = [0, 2] : (tensor<2x3xf32>) -> tensor<2x5x3xf32>
  %3 = stablehlo.slice %x [0:2:2, 1:3] : (tensor<2x3xf32>) -> tensor<1x2xf32>
  %4 = stablehlo.pad %x, %pad, low = [1, -1], high = [0, 2], interior = [0, 1] : (tensor<2x3xf32>, tensor<f32>) -> tensor<3x6xf32>
  %5 = stablehlo.concatenate %x, %x, dim = 1 : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x6xf32>
  %6 = stablehlo.dynamic_slice %x, %i, %i, sizes = [1, 2] : (tensor<2x3xf32>, tensor<i32>, tensor<i32>) -> tensor<1x2xf32>
  %7 = stablehlo.dynamic_update_slice %x, %6, %i, %i : (tensor<2x3xf32>, tensor<1x2xf32>, tensor<i32>, tensor<i32>) -> tensor<2x3xf32>
  %8 = stablehlo.reverse %x, dims = [0] : tensor<2x3xf32>
  %9 = stablehlo.iota dim = 1 : tensor<2x3xi32>
  %10 = stablehlo.get_dimension_size %x, dim = 0 : (tensor<2x3xf32>) -> tensor<i32>
  return %0 : tensor<3x2xf32>
}
