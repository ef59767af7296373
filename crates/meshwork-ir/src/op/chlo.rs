//! The operations of CHLO that are not elementwise.

op_class! {
    /// What JAX emits beyond StableHLO.
    Chlo ChloOp
    Constant "chlo.constant" [Pure] {"value"}: Own(Constant);
    ConstantLike "chlo.constant_like" [Pure] {"value"}: Generic;
    RaggedDot "chlo.ragged_dot" [Pure] {"ragged_dot_dimension_numbers" "precision_config"}: Generic;
    Scan "chlo.scan" [Isolated]
        {"dimension" "scan_dim_size" "is_reverse" "is_associative" "operandSegmentSizes" "resultSegmentSizes"}:
        Own(Scan);
    TopK "chlo.top_k" [Pure] {"k" "is_stable"}: Own(TopK);
}
