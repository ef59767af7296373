// RUN: sdy-reshard-to-collectives
sdy.mesh @mesh = <["x"=2, "y"=4]>
sdy.mesh @odd = <["x"=2, "y"=3]>

func.func @swap(%a: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x", "y"}, {}]>}) -> tensor<8x8xf32> {
  %0 = sdy.reshard %a <@mesh, [{"y", "x"}, {}]> : tensor<8x8xf32>
  return %0 : tensor<8x8xf32>
}

func.func @move_a_part(%a: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"y"}, {}]>}) -> tensor<8x8xf32> {
  %0 = sdy.reshard %a <@mesh, [{"y":(1)2}, {"y":(2)2, "x"}]> : tensor<8x8xf32>
  return %0 : tensor<8x8xf32>
}

// Sizes 2 and 3 do not divide each other.
func.func @exchange_sizes(%a: tensor<12x12xf32> {sdy.sharding = #sdy.sharding<@odd, [{"x"}, {"y"}]>}) -> tensor<12x12xf32> {
  %0 = sdy.reshard %a <@odd, [{"y"}, {"x"}]> : tensor<12x12xf32>
  return %0 : tensor<12x12xf32>
}
// OUTPUT
module {
  sdy.mesh @mesh = <["x"=2, "y"=4]>
  sdy.mesh @odd = <["x"=2, "y"=3]>
  func.func @swap(%arg0: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x", "y"}, {}]>}) -> tensor<8x8xf32> {
    %0 = sdy.collective_permute %arg0 out_sharding=<@mesh, [{"y", "x"}, {}]> : tensor<8x8xf32>
    return %0 : tensor<8x8xf32>
  }
  func.func @move_a_part(%arg0: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"y"}, {}]>}) -> tensor<8x8xf32> {
    %0 = sdy.all_slice [{"x"}, {}] %arg0 out_sharding=<@mesh, [{"y", "x"}, {}]> : tensor<8x8xf32>
    %1 = sdy.all_to_all [{"y":(2)2, "x"}: 0->1] %0 out_sharding=<@mesh, [{"y":(1)2}, {"y":(2)2, "x"}]> : tensor<8x8xf32>
    return %1 : tensor<8x8xf32>
  }
  func.func @exchange_sizes(%arg0: tensor<12x12xf32> {sdy.sharding = #sdy.sharding<@odd, [{"x"}, {"y"}]>}) -> tensor<12x12xf32> {
    %0 = sdy.all_to_all [{"x"}: 0->1] %arg0 out_sharding=<@odd, [{}, {"y", "x"}]> : tensor<12x12xf32>
    %1 = sdy.collective_permute %0 out_sharding=<@odd, [{}, {"x", "y"}]> : tensor<12x12xf32>
    %2 = sdy.all_to_all [{"y"}: 1->0] %1 out_sharding=<@odd, [{"y"}, {"x"}]> : tensor<12x12xf32>
    return %2 : tensor<12x12xf32>
  }
}
