module @control attributes {a.b = 1 : i32, c} {
  func.func private @declared(tensor<f32> {x.y = "z"}) -> (tensor<f32> {x.r})
  func.func public @main(%arg0: tensor<4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x", ?}p1]>} loc("arg"), %i: tensor<i32>) -> (tensor<4xf32> {jax.result_info = ""}) attributes {k = [1, 2.5, "s", @f::@g, unit]} {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %0:2 = stablehlo.while(%iter = %c, %x = %arg0) : tensor<i32>, tensor<4xf32> attributes {w}
    cond {
      %9 = stablehlo.compare LT, %iter, %i, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %9 : tensor<i1>
    } do {
      %9 = stablehlo.add %x, %x {note} : tensor<4xf32>
      stablehlo.return %iter, %9 : tensor<i32>, tensor<4xf32>
    } loc(#loc1)
    %init = stablehlo.constant dense<0.0> : tensor<f32>
    %1 = stablehlo.reduce(%0#1 init: %init) applies stablehlo.maximum across dimensions = [0] : (tensor<4xf32>, tensor<f32>) -> tensor<f32>
    %2:2 = stablehlo.reduce(%0#1 init: %init), (%arg0 init: %init) across dimensions = [0] : (tensor<4xf32>, tensor<4xf32>, tensor<f32>, tensor<f32>) -> (tensor<f32>, tensor<f32>)
     reducer(%a: tensor<f32>, %b: tensor<f32>) (%d: tensor<f32>, %e: tensor<f32>) {
      %9 = stablehlo.subtract %a, %d : tensor<f32>
      stablehlo.return %9, %e : tensor<f32>, tensor<f32>
    }
    %3 = "stablehlo.case"(%i) ({
      stablehlo.return %arg0 : tensor<4xf32>
    }, {
      %9 = stablehlo.negate %arg0 : tensor<4xf32>
      stablehlo.return %9 : tensor<4xf32>
    }) : (tensor<i32>) -> tensor<4xf32>
    %4 = "stablehlo.sort"(%3) <{dimension = 0 : i64, is_stable = true}> ({
    ^bb0(%l: tensor<f32>, %r: tensor<f32>):
      %9 = stablehlo.compare LT, %l, %r, TOTALORDER : (tensor<f32>, tensor<f32>) -> tensor<i1>
      stablehlo.return %9 : tensor<i1>
    }) : (tensor<4xf32>) -> tensor<4xf32>
    %5 = call @declared(%1) : (tensor<f32>) -> tensor<f32>
    %6 = func.call @declared(%5) {inline = false} : (tensor<f32>) -> tensor<f32> loc(fused<"m">["n"("f.py":1:2), callsite("a" at "f.py":3:4 to 5:6)])
    %7, %8:2 = "other.op"(%6, %6) <{p = 1 : i8}> ({}) {q = #other.attr<[a, "b>"] -> c>} : (tensor<f32>, tensor<f32>) -> (tensor<f32>, !other.type<4>, i32)
    return %4 : tensor<4xf32>
  }
  sdy.mesh @mesh = <["x"=2, "y"=4], device_ids=[1, 0, 2, 3, 4, 5, 6, 7]>
}
#loc1 = loc("late.py":10:20)
