//! Operations that move elements without computing on them.

op_class! {
    /// Broadcasts, reshapes, slices and gathers.
    Movement MovementOp
    BitcastConvert "stablehlo.bitcast_convert" [Pure] {}
    Broadcast "stablehlo.broadcast" [Pure] {"broadcast_sizes"}
    BroadcastInDim "stablehlo.broadcast_in_dim" [Pure] {"broadcast_dimensions"}
    Concatenate "stablehlo.concatenate" [Pure] {"dimension"}
    DynamicSlice "stablehlo.dynamic_slice" [Pure] {"slice_sizes"}
    DynamicUpdateSlice "stablehlo.dynamic_update_slice" [Pure] {}
    Gather "stablehlo.gather" [Pure] {"dimension_numbers" "slice_sizes" "indices_are_sorted"}
    GetDimensionSize "stablehlo.get_dimension_size" [Pure] {"dimension"}
    Pad "stablehlo.pad" [Pure] {"edge_padding_low" "edge_padding_high" "interior_padding"}
    Reshape "stablehlo.reshape" [Pure] {}
    Reverse "stablehlo.reverse" [Pure] {"dimensions"}
    SetDimensionSize "stablehlo.set_dimension_size" [Pure] {"dimension"}
    Slice "stablehlo.slice" [Pure] {"start_indices" "limit_indices" "strides"}
    TorchIndexSelect "stablehlo.torch_index_select" [Pure] {"dim" "batch_dims"}
    Transpose "stablehlo.transpose" [Pure] {"permutation"}
}

op_class! {
    /// The same with shapes known only at run time.
    Dynamic DynamicOp
    BroadcastInDim "stablehlo.dynamic_broadcast_in_dim" [Pure]
        {"broadcast_dimensions" "known_expanding_dimensions" "known_nonexpanding_dimensions"}
    Conv "stablehlo.dynamic_conv" [Pure]
        {"window_strides" "lhs_dilation" "rhs_dilation" "window_reversal" "dimension_numbers" "feature_group_count"
         "batch_group_count" "precision_config"}
    Gather "stablehlo.dynamic_gather" [Pure] {"dimension_numbers" "indices_are_sorted"}
    Iota "stablehlo.dynamic_iota" [Pure] {"iota_dimension"}
    Pad "stablehlo.dynamic_pad" [Pure] {}
    Reshape "stablehlo.dynamic_reshape" [Pure] {}
    Slice "stablehlo.real_dynamic_slice" [Pure] {}
}
