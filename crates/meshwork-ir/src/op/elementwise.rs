//! Elementwise operations: each element of the result depends on one element of each operand.

op_class! {
    /// Functions of one element.
    Unary UnaryOp
    Abs "stablehlo.abs" [Pure] {}
    Cbrt "stablehlo.cbrt" [Pure] {"result_accuracy"}
    Ceil "stablehlo.ceil" [Pure] {}
    Cosine "stablehlo.cosine" [Pure] {"result_accuracy"}
    CountLeadingZeros "stablehlo.count_leading_zeros" [Pure] {}
    Exponential "stablehlo.exponential" [Pure] {"result_accuracy"}
    ExponentialMinusOne "stablehlo.exponential_minus_one" [Pure] {"result_accuracy"}
    Floor "stablehlo.floor" [Pure] {}
    Imag "stablehlo.imag" [Pure] {}
    IsFinite "stablehlo.is_finite" [Pure] {}
    Log "stablehlo.log" [Pure] {"result_accuracy"}
    LogPlusOne "stablehlo.log_plus_one" [Pure] {"result_accuracy"}
    Logistic "stablehlo.logistic" [Pure] {"result_accuracy"}
    Negate "stablehlo.negate" [Pure] {}
    Not "stablehlo.not" [Pure] {}
    Popcnt "stablehlo.popcnt" [Pure] {}
    Real "stablehlo.real" [Pure] {}
    RoundNearestAfz "stablehlo.round_nearest_afz" [Pure] {}
    RoundNearestEven "stablehlo.round_nearest_even" [Pure] {}
    Rsqrt "stablehlo.rsqrt" [Pure] {"result_accuracy"}
    Sign "stablehlo.sign" [Pure] {}
    Sine "stablehlo.sine" [Pure] {"result_accuracy"}
    Sqrt "stablehlo.sqrt" [Pure] {"result_accuracy"}
    Tan "stablehlo.tan" [Pure] {"result_accuracy"}
    Tanh "stablehlo.tanh" [Pure] {"result_accuracy"}
    Acos "chlo.acos" [Pure] {}
    Acosh "chlo.acosh" [Pure] {}
    Asin "chlo.asin" [Pure] {}
    AsinAcosKernel "chlo._asin_acos_kernel" [Pure] {}
    Asinh "chlo.asinh" [Pure] {}
    Atan "chlo.atan" [Pure] {}
    Atanh "chlo.atanh" [Pure] {}
    BesselI1e "chlo.bessel_i1e" [Pure] {}
    Conj "chlo.conj" [Pure] {}
    Cosh "chlo.cosh" [Pure] {}
    Digamma "chlo.digamma" [Pure] {}
    Erf "chlo.erf" [Pure] {}
    ErfInv "chlo.erf_inv" [Pure] {}
    Erfc "chlo.erfc" [Pure] {}
    IsInf "chlo.is_inf" [Pure] {}
    IsNegInf "chlo.is_neg_inf" [Pure] {}
    IsPosInf "chlo.is_pos_inf" [Pure] {}
    Lgamma "chlo.lgamma" [Pure] {}
    Sinh "chlo.sinh" [Pure] {}
    Square "chlo.square" [Pure] {}
    ChloTan "chlo.tan" [Pure] {}
}

op_class! {
    /// Functions of two elements of one type.
    Binary BinaryOp
    Add "stablehlo.add" [Pure Commutative] {}
    And "stablehlo.and" [Pure Commutative] {}
    Atan2 "stablehlo.atan2" [Pure] {}
    Complex "stablehlo.complex" [Pure] {}
    Divide "stablehlo.divide" [Pure] {}
    Maximum "stablehlo.maximum" [Pure Commutative] {}
    Minimum "stablehlo.minimum" [Pure Commutative] {}
    Multiply "stablehlo.multiply" [Pure Commutative] {}
    Or "stablehlo.or" [Pure Commutative] {}
    Power "stablehlo.power" [Pure] {}
    Remainder "stablehlo.remainder" [Pure] {}
    ShiftLeft "stablehlo.shift_left" [Pure] {}
    ShiftRightArithmetic "stablehlo.shift_right_arithmetic" [Pure] {}
    ShiftRightLogical "stablehlo.shift_right_logical" [Pure] {}
    Subtract "stablehlo.subtract" [Pure] {}
    Xor "stablehlo.xor" [Pure Commutative] {}
    Mulhi "chlo.mulhi" [Pure] {}
    NextAfter "chlo.next_after" [Pure] {}
    Polygamma "chlo.polygamma" [Pure] {}
    Zeta "chlo.zeta" [Pure] {}
}

op_class! {
    /// Elementwise operations with attributes, or with operands and results of different types.
    Mixed MixedOp
    Clamp "stablehlo.clamp" [Pure] {}
    Compare "stablehlo.compare" [Pure] {"comparison_direction" "compare_type"}
    Convert "stablehlo.convert" [Pure] {}
    ReducePrecision "stablehlo.reduce_precision" [Pure] {"exponent_bits" "mantissa_bits"}
    Select "stablehlo.select" [Pure] {}
    UniformDequantize "stablehlo.uniform_dequantize" [Pure] {}
    UniformQuantize "stablehlo.uniform_quantize" [Pure] {}
}
