//! Elementwise operations: each element of the result depends on one element of each operand.

op_class! {
    /// Functions of one element.
    Unary UnaryOp
    Abs "stablehlo.abs" [Pure] {}: Same(Exactly(1), &[]);
    Cbrt "stablehlo.cbrt" [Pure] {"result_accuracy"}: Same(Exactly(1), &[]);
    Ceil "stablehlo.ceil" [Pure] {}: Same(Exactly(1), &[]);
    Cosine "stablehlo.cosine" [Pure] {"result_accuracy"}: Same(Exactly(1), &[]);
    CountLeadingZeros "stablehlo.count_leading_zeros" [Pure] {}: Same(Exactly(1), &[]);
    Exponential "stablehlo.exponential" [Pure] {"result_accuracy"}: Same(Exactly(1), &[]);
    ExponentialMinusOne "stablehlo.exponential_minus_one" [Pure] {"result_accuracy"}: Same(Exactly(1), &[]);
    Floor "stablehlo.floor" [Pure] {}: Same(Exactly(1), &[]);
    Imag "stablehlo.imag" [Pure] {}: Same(Exactly(1), &[]);
    IsFinite "stablehlo.is_finite" [Pure] {}: Functional(Exactly(1), &[]);
    Log "stablehlo.log" [Pure] {"result_accuracy"}: Same(Exactly(1), &[]);
    LogPlusOne "stablehlo.log_plus_one" [Pure] {"result_accuracy"}: Same(Exactly(1), &[]);
    Logistic "stablehlo.logistic" [Pure] {"result_accuracy"}: Same(Exactly(1), &[]);
    Negate "stablehlo.negate" [Pure] {}: Same(Exactly(1), &[]);
    Not "stablehlo.not" [Pure] {}: Same(Exactly(1), &[]);
    Popcnt "stablehlo.popcnt" [Pure] {}: Same(Exactly(1), &[]);
    Real "stablehlo.real" [Pure] {}: Same(Exactly(1), &[]);
    RoundNearestAfz "stablehlo.round_nearest_afz" [Pure] {}: Same(Exactly(1), &[]);
    RoundNearestEven "stablehlo.round_nearest_even" [Pure] {}: Same(Exactly(1), &[]);
    Rsqrt "stablehlo.rsqrt" [Pure] {"result_accuracy"}: Same(Exactly(1), &[]);
    Sign "stablehlo.sign" [Pure] {}: Same(Exactly(1), &[]);
    Sine "stablehlo.sine" [Pure] {"result_accuracy"}: Same(Exactly(1), &[]);
    Sqrt "stablehlo.sqrt" [Pure] {"result_accuracy"}: Same(Exactly(1), &[]);
    Tan "stablehlo.tan" [Pure] {"result_accuracy"}: Same(Exactly(1), &[]);
    Tanh "stablehlo.tanh" [Pure] {"result_accuracy"}: Same(Exactly(1), &[]);
    Acos "chlo.acos" [Pure] {}: Arrow(Exactly(1));
    Acosh "chlo.acosh" [Pure] {}: Arrow(Exactly(1));
    Asin "chlo.asin" [Pure] {}: Arrow(Exactly(1));
    AsinAcosKernel "chlo._asin_acos_kernel" [Pure] {}: Arrow(Exactly(1));
    Asinh "chlo.asinh" [Pure] {}: Arrow(Exactly(1));
    Atan "chlo.atan" [Pure] {}: Arrow(Exactly(1));
    Atanh "chlo.atanh" [Pure] {}: Arrow(Exactly(1));
    BesselI1e "chlo.bessel_i1e" [Pure] {}: Arrow(Exactly(1));
    Conj "chlo.conj" [Pure] {}: Arrow(Exactly(1));
    Cosh "chlo.cosh" [Pure] {}: Arrow(Exactly(1));
    Digamma "chlo.digamma" [Pure] {}: Arrow(Exactly(1));
    Erf "chlo.erf" [Pure] {}: Arrow(Exactly(1));
    ErfInv "chlo.erf_inv" [Pure] {}: Arrow(Exactly(1));
    Erfc "chlo.erfc" [Pure] {}: Arrow(Exactly(1));
    IsInf "chlo.is_inf" [Pure] {}: Arrow(Exactly(1));
    IsNegInf "chlo.is_neg_inf" [Pure] {}: Arrow(Exactly(1));
    IsPosInf "chlo.is_pos_inf" [Pure] {}: Arrow(Exactly(1));
    Lgamma "chlo.lgamma" [Pure] {}: Arrow(Exactly(1));
    Sinh "chlo.sinh" [Pure] {}: Arrow(Exactly(1));
    Square "chlo.square" [Pure] {}: Arrow(Exactly(1));
    ChloTan "chlo.tan" [Pure] {}: Arrow(Exactly(1));
}

op_class! {
    /// Functions of two elements of one type.
    Binary BinaryOp
    Add "stablehlo.add" [Pure Commutative] {}: Same(Exactly(2), &[]);
    And "stablehlo.and" [Pure Commutative] {}: Same(Exactly(2), &[]);
    Atan2 "stablehlo.atan2" [Pure] {}: Same(Exactly(2), &[]);
    Complex "stablehlo.complex" [Pure] {}: Own(Complex);
    Divide "stablehlo.divide" [Pure] {}: Same(Exactly(2), &[]);
    Maximum "stablehlo.maximum" [Pure Commutative] {}: Same(Exactly(2), &[]);
    Minimum "stablehlo.minimum" [Pure Commutative] {}: Same(Exactly(2), &[]);
    Multiply "stablehlo.multiply" [Pure Commutative] {}: Same(Exactly(2), &[]);
    Or "stablehlo.or" [Pure Commutative] {}: Same(Exactly(2), &[]);
    Power "stablehlo.power" [Pure] {}: Same(Exactly(2), &[]);
    Remainder "stablehlo.remainder" [Pure] {}: Same(Exactly(2), &[]);
    ShiftLeft "stablehlo.shift_left" [Pure] {}: Same(Exactly(2), &[]);
    ShiftRightArithmetic "stablehlo.shift_right_arithmetic" [Pure] {}: Same(Exactly(2), &[]);
    ShiftRightLogical "stablehlo.shift_right_logical" [Pure] {}: Same(Exactly(2), &[]);
    Subtract "stablehlo.subtract" [Pure] {}: Same(Exactly(2), &[]);
    Xor "stablehlo.xor" [Pure Commutative] {}: Same(Exactly(2), &[]);
    Mulhi "chlo.mulhi" [Pure] {}: Arrow(Exactly(2));
    NextAfter "chlo.next_after" [Pure] {}: Arrow(Exactly(2));
    Polygamma "chlo.polygamma" [Pure] {}: Arrow(Exactly(2));
    Zeta "chlo.zeta" [Pure] {}: Arrow(Exactly(2));
}

op_class! {
    /// Elementwise operations with attributes, or with operands and results of different types.
    Mixed MixedOp
    Clamp "stablehlo.clamp" [Pure] {}: Same(Exactly(3), &[]);
    Compare "stablehlo.compare" [Pure] {"comparison_direction" "compare_type"}: Own(Compare);
    Convert "stablehlo.convert" [Pure] {}: Same(Exactly(1), &[]);
    ReducePrecision "stablehlo.reduce_precision" [Pure] {"exponent_bits" "mantissa_bits"}:
        Same(Exactly(1), &[key("format", "exponent_bits", Format)]);
    Select "stablehlo.select" [Pure] {}: Own(Select);
    UniformDequantize "stablehlo.uniform_dequantize" [Pure] {}: Same(Exactly(1), &[]);
    UniformQuantize "stablehlo.uniform_quantize" [Pure] {}: Same(Exactly(1), &[]);
}
