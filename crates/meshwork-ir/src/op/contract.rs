//! Contractions and linear algebra.

op_class! {
    /// Products that sum over shared dimensions.
    Contract ContractOp
    Convolution "stablehlo.convolution" [Pure]
        {"window_strides" "padding" "lhs_dilation" "rhs_dilation" "window_reversal" "dimension_numbers"
         "feature_group_count" "batch_group_count" "precision_config"}
    Dot "stablehlo.dot" [Pure] {"precision_config"}
    DotGeneral "stablehlo.dot_general" [Pure] {"dot_dimension_numbers" "precision_config" "algorithm"}
    Einsum "stablehlo.einsum" [Pure] {"einsum_config"}
    UnaryEinsum "stablehlo.unary_einsum" [Pure] {"einsum_config"}
}

op_class! {
    /// Factorizations, solvers, transforms and normalizations.
    Linalg LinalgOp
    BatchNormGrad "stablehlo.batch_norm_grad" [Pure] {"epsilon" "feature_index"}
    BatchNormInference "stablehlo.batch_norm_inference" [Pure] {"epsilon" "feature_index"}
    BatchNormTraining "stablehlo.batch_norm_training" [Pure] {"epsilon" "feature_index"}
    Cholesky "stablehlo.cholesky" [Pure] {"lower"}
    Fft "stablehlo.fft" [Pure] {"fft_type" "fft_length"}
    TriangularSolve "stablehlo.triangular_solve" [Pure] {"left_side" "lower" "unit_diagonal" "transpose_a"}
}
