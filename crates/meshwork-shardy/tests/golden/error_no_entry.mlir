// RUN: sdy-basic-propagate
func.func @f(%a: tensor<8xf32>) -> tensor<8xf32> {
  return %a : tensor<8xf32>
}
func.func @g(%a: tensor<8xf32>) -> tensor<8xf32> {
  return %a : tensor<8xf32>
}
// OUTPUT
// error: module has 2 functions and none is called main; rename the entry to @main
