//! The operations of CHLO that are not elementwise.

op_class! {
    /// What JAX emits beyond StableHLO.
    Chlo ChloOp
    Constant "chlo.constant" [Pure] {"value"}
    ConstantLike "chlo.constant_like" [Pure] {"value"}
    RaggedDot "chlo.ragged_dot" [Pure] {"ragged_dot_dimension_numbers" "precision_config"}
    Scan "chlo.scan" []
        {"dimension" "scan_dim_size" "is_reverse" "is_associative" "operandSegmentSizes" "resultSegmentSizes"}
    TopK "chlo.top_k" [Pure] {"k" "is_stable"}
}
