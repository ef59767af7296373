// Every kind of location.
module {
  func.func @main(%x: tensor<f32> loc("x")) -> tensor<f32> {
    %0 = stablehlo.add %x, %x : tensor<f32> loc("train.py":12:4)
    %1 = stablehlo.add %0, %x : tensor<f32> loc("train.py":12:4 to :19)
    %2 = stablehlo.add %1, %x : tensor<f32> loc("train.py":12:4 to 14:9)
    %3 = stablehlo.add %2, %x : tensor<f32> loc("loss"("model.py":3:1))
    %4 = stablehlo.add %3, %x : tensor<f32> loc(callsite("f"("model.py":3:1) at "train.py":8:2))
    %5 = stablehlo.add %4, %x : tensor<f32> loc(fused["a", "model.py":1:1])
    %6 = stablehlo.add %5, %x : tensor<f32> loc(fused<"meta">["a", "model.py":1:1])
    return %6 : tensor<f32> loc(unknown)
  } loc("main.py":1:1)
} loc(unknown)
