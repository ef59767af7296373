//! Operations that move elements without computing on them.

op_class! {
    /// Broadcasts, reshapes, slices and gathers.
    Movement MovementOp
    BitcastConvert "stablehlo.bitcast_convert" [Pure] {}: Functional(Exactly(1), &[]);
    Broadcast "stablehlo.broadcast" [Pure] {"broadcast_sizes"}:
        Functional(Exactly(1), &[key("sizes", "broadcast_sizes", Ints)]);
    BroadcastInDim "stablehlo.broadcast_in_dim" [Pure] {"broadcast_dimensions"}:
        Functional(Exactly(1), &[key("dims", "broadcast_dimensions", Ints)]);
    Concatenate "stablehlo.concatenate" [Pure] {"dimension"}: Functional(AtLeast(1), &[key("dim", "dimension", I64)]);
    DynamicSlice "stablehlo.dynamic_slice" [Pure] {"slice_sizes"}:
        Functional(AtLeast(2), &[key("sizes", "slice_sizes", Ints)]);
    DynamicUpdateSlice "stablehlo.dynamic_update_slice" [Pure] {}: Functional(AtLeast(0), &[]);
    Gather "stablehlo.gather" [Pure] {"dimension_numbers" "slice_sizes" "indices_are_sorted"}: Generic;
    GetDimensionSize "stablehlo.get_dimension_size" [Pure] {"dimension"}:
        Functional(Exactly(1), &[key("dim", "dimension", I64)]);
    Pad "stablehlo.pad" [Pure] {"edge_padding_low" "edge_padding_high" "interior_padding"}: Functional(Exactly(2), &[
            key("low", "edge_padding_low", Ints),
            key("high", "edge_padding_high", Ints),
            key("interior", "interior_padding", Ints),
        ]);
    Reshape "stablehlo.reshape" [Pure] {}: Functional(Exactly(1), &[]);
    Reverse "stablehlo.reverse" [Pure] {"dimensions"}: Same(Exactly(1), &[key("dims", "dimensions", Ints)]);
    SetDimensionSize "stablehlo.set_dimension_size" [Pure] {"dimension"}:
        Functional(Exactly(2), &[key("dim", "dimension", I64)]);
    Slice "stablehlo.slice" [Pure] {"start_indices" "limit_indices" "strides"}: Own(Slice);
    TorchIndexSelect "stablehlo.torch_index_select" [Pure] {"dim" "batch_dims"}: Generic;
    Transpose "stablehlo.transpose" [Pure] {"permutation"}:
        Functional(Exactly(1), &[key("dims", "permutation", Ints)]);
}

op_class! {
    /// The same with shapes known only at run time.
    Dynamic DynamicOp
    BroadcastInDim "stablehlo.dynamic_broadcast_in_dim" [Pure]
        {"broadcast_dimensions" "known_expanding_dimensions" "known_nonexpanding_dimensions"}:
        Functional(Exactly(2), &[key("dims", "broadcast_dimensions", Ints)]);
    Conv "stablehlo.dynamic_conv" [Pure]
        {"window_strides" "lhs_dilation" "rhs_dilation" "window_reversal" "dimension_numbers" "feature_group_count"
         "batch_group_count" "precision_config"}: Generic;
    Gather "stablehlo.dynamic_gather" [Pure] {"dimension_numbers" "indices_are_sorted"}: Generic;
    Iota "stablehlo.dynamic_iota" [Pure] {"iota_dimension"}:
        Functional(Exactly(1), &[key("dim", "iota_dimension", I64)]);
    Pad "stablehlo.dynamic_pad" [Pure] {}: Functional(Exactly(5), &[]);
    Reshape "stablehlo.dynamic_reshape" [Pure] {}: Functional(Exactly(2), &[]);
    Slice "stablehlo.real_dynamic_slice" [Pure] {}: Functional(Exactly(4), &[]);
}
