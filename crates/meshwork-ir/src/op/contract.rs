//! Contractions and linear algebra.

op_class! {
    /// Products that sum over shared dimensions.
    Contract ContractOp
    Convolution "stablehlo.convolution" [Pure]
        {"window_strides" "padding" "lhs_dilation" "rhs_dilation" "window_reversal" "dimension_numbers"
         "feature_group_count" "batch_group_count" "precision_config"}: Own(Convolution);
    Dot "stablehlo.dot" [Pure] {"precision_config"}: Own(Dot);
    DotGeneral "stablehlo.dot_general" [Pure] {"dot_dimension_numbers" "precision_config" "algorithm"}:
        Own(DotGeneral);
    Einsum "stablehlo.einsum" [Pure] {"einsum_config"}:
        Functional(Exactly(2), &[key("config", "einsum_config", Str)]);
    UnaryEinsum "stablehlo.unary_einsum" [Pure] {"einsum_config"}:
        Functional(Exactly(1), &[key("config", "einsum_config", Str)]);
}

op_class! {
    /// Factorizations, solvers, transforms and normalizations.
    Linalg LinalgOp
    BatchNormGrad "stablehlo.batch_norm_grad" [Pure] {"epsilon" "feature_index"}: Generic;
    BatchNormInference "stablehlo.batch_norm_inference" [Pure] {"epsilon" "feature_index"}: Generic;
    BatchNormTraining "stablehlo.batch_norm_training" [Pure] {"epsilon" "feature_index"}: Generic;
    Cholesky "stablehlo.cholesky" [Pure] {"lower"}: Same(Exactly(1), &[optional("lower", "lower", Bool)]);
    Fft "stablehlo.fft" [Pure] {"fft_type" "fft_length"}:
        Functional(Exactly(1), &[key("type", "fft_type", Enum("fft_type")), key("length", "fft_length", Ints)]);
    TriangularSolve "stablehlo.triangular_solve" [Pure] {"left_side" "lower" "unit_diagonal" "transpose_a"}: Generic;
}
