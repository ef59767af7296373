// RUN: opt -sdy-update-non-divisible-input-output-shardings -sdy-remove-sub-axes-in-input-output-shardings -sdy-close-shardings
sdy.mesh @m = <["a"=4, "b"=2]>

func.func @main(%x: tensor<6x5xf32> {sdy.sharding = #sdy.sharding<@m, [{"a"}, {"b", ?}]>},
                %y: tensor<0x3xf32> {sdy.sharding = #sdy.sharding<@m, [{"a"}, {?}], replicated={"b"}>})
    -> (tensor<6x5xf32> {sdy.sharding = #sdy.sharding<@m, [{"b", "a", ?}, {}]>}) {
  return %x : tensor<6x5xf32>
}
