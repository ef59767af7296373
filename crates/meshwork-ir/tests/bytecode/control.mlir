// Control flow, calls, tokens, and values that cross regions.
module @jit_f attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%n: tensor<i32> {jax.arg_info = "n", mhlo.layout_mode = "default"}, %x: tensor<3xf32> {tf.aliasing_output = 0 : i32}) -> (tensor<3xf32> {jax.result_info = "result"}) {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %0:2 = stablehlo.while(%i = %zero, %y = %x) : tensor<i32>, tensor<3xf32>
    cond {
      %c = stablehlo.compare LT, %i, %n, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %next = stablehlo.add %i, %one : tensor<i32>
      %sum = func.call @double(%y) : (tensor<3xf32>) -> tensor<3xf32>
      stablehlo.return %next, %sum : tensor<i32>, tensor<3xf32>
    }
    %1 = "stablehlo.case"(%n) ({
      stablehlo.return %0#1 : tensor<3xf32>
    }, {
      %2 = stablehlo.negate %0#1 : tensor<3xf32>
      stablehlo.return %2 : tensor<3xf32>
    }) : (tensor<i32>) -> tensor<3xf32>
    %3 = stablehlo.custom_call @target(%1) {api_version = 2 : i32, backend_config = "a\22b\00", has_side_effect = true, operand_layouts = [dense<0> : tensor<1xindex>], output_operand_aliases = [#stablehlo.output_operand_alias<output_tuple_indices = [], operand_index = 0, operand_tuple_indices = []>], result_layouts = [dense<0> : tensor<1xindex>]} : (tensor<3xf32>) -> tensor<3xf32>
    %token = stablehlo.create_token : !stablehlo.token
    %4 = stablehlo.after_all %token, %token : !stablehlo.token
    %5 = stablehlo.tuple %3, %n : tuple<tensor<3xf32>, tensor<i32>>
    %6 = stablehlo.get_tuple_element %5[0] : (tuple<tensor<3xf32>, tensor<i32>>) -> tensor<3xf32>
    %7 = stablehlo.optimization_barrier %6 : tensor<3xf32>
    return %7 : tensor<3xf32>
  }
  func.func private @double(%x: tensor<3xf32>) -> tensor<3xf32> {
    %0 = stablehlo.add %x, %x : tensor<3xf32>
    return %0 : tensor<3xf32>
  }
}
