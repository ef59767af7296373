func.func private @declared(tensor<4xf32>) -> tensor<4xf32>
func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = func.call @declared(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
// -----
func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  // error: 'func.call' op calls @gone, but there is no function of that name
  %0 = func.call @gone(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
// -----
func.func @g(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}
func.func @f(%x: tensor<4xf32>) {
  // error: 'func.call' op expects (tensor<5xf32>) of @g, but it returns (tensor<4xf32>)
  %0 = func.call @g(%x) : (tensor<4xf32>) -> tensor<5xf32>
  return
}
// -----
func.func @f(%x: tensor<4xf32>) -> tensor<5xf32> {
  // error: 'func.return' op returns (tensor<4xf32>), but @f returns (tensor<5xf32>)
  return %x : tensor<4xf32>
}
// -----
func.func @f() {
  return
}
// error: redefinition of symbol @f
func.func @f() {
  return
}
// -----
func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  // error: 'stablehlo.composite' op attribute 'name' must be like my_dialect.my_op, but is "no_dot"
  %0 = stablehlo.composite "no_dot" %x {decomposition = @f} : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
// -----
func.func @f(%x: tensor<4xf32>) {
  // error: 'stablehlo.custom_call' op operand 0 is tensor<4xf32>, for which dense<1> : tensor<1xindex> is not a layout
  %0 = "stablehlo.custom_call"(%x) {call_target_name = "t", operand_layouts = [dense<[1]> : tensor<1xindex>], result_layouts = [dense<[0]> : tensor<1xindex>]} : (tensor<4xf32>) -> tensor<4xf32>
  return
}
