//! The op table: every operation Meshwork knows, its MLIR name, its traits and its own attributes.
//!
//! Each room of the project matches on [`OpKind`] without a wildcard arm, so a new entry here is a compile error
//! wherever it has not been thought about.

use std::collections::HashMap;
use std::sync::LazyLock;

/// Facts about an operation that several stages ask for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Trait {
    /// Works element by element: all tensors have one shape.
    Elementwise,
    /// No effect but its results; may be removed when they are unused.
    Pure,
    /// Ends a block.
    Terminator,
    /// Exchanges data between devices.
    Collective,
    /// `f(a, b) = f(b, a)`.
    Commutative,
    /// Defines a symbol by its `sym_name`.
    Symbol,
}

macro_rules! op_table {
    ($($variant:ident $name:literal [$($tr:ident)*] {$($attr:literal)*})*) => {
        /// The operations that Meshwork knows.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
        #[allow(missing_docs)] // the variants are the operation names
        pub enum OpKind {
            $($variant,)*
            /// An operation of a dialect Meshwork does not interpret; [`Op::name`](crate::Op::name) spells it.
            Unregistered,
        }

        impl OpKind {
            /// Every known operation, in table order.
            pub const ALL: &[OpKind] = &[$(OpKind::$variant),*];

            /// The full MLIR name, `stablehlo.add`. Empty for [`OpKind::Unregistered`].
            pub fn name(self) -> &'static str {
                match self { $(OpKind::$variant => $name,)* OpKind::Unregistered => "" }
            }

            /// The traits of the operation.
            pub fn traits(self) -> &'static [Trait] {
                match self { $(OpKind::$variant => &[$(Trait::$tr),*],)* OpKind::Unregistered => &[] }
            }

            /// Names of the attributes that belong to the operation itself, which the generic form prints
            /// between `<{` and `}>`; all others are discardable.
            pub fn own_attrs(self) -> &'static [&'static str] {
                match self { $(OpKind::$variant => &[$($attr),*],)* OpKind::Unregistered => &[] }
            }
        }
    };
}

op_table! {
    // Structure.
    Module "builtin.module" [Symbol] {"sym_name" "sym_visibility"}
    Func "func.func" [Symbol] {"sym_name" "function_type" "sym_visibility" "arg_attrs" "res_attrs" "no_inline"}
    Call "func.call" [] {"callee" "arg_attrs" "res_attrs" "no_inline"}
    FuncReturn "func.return" [Terminator] {}

    // Elementwise, one operand.
    Abs "stablehlo.abs" [Elementwise Pure] {}
    Cbrt "stablehlo.cbrt" [Elementwise Pure] {"result_accuracy"}
    Ceil "stablehlo.ceil" [Elementwise Pure] {}
    Convert "stablehlo.convert" [Elementwise Pure] {}
    Cosine "stablehlo.cosine" [Elementwise Pure] {"result_accuracy"}
    CountLeadingZeros "stablehlo.count_leading_zeros" [Elementwise Pure] {}
    Exponential "stablehlo.exponential" [Elementwise Pure] {"result_accuracy"}
    ExponentialMinusOne "stablehlo.exponential_minus_one" [Elementwise Pure] {"result_accuracy"}
    Floor "stablehlo.floor" [Elementwise Pure] {}
    Imag "stablehlo.imag" [Elementwise Pure] {}
    IsFinite "stablehlo.is_finite" [Elementwise Pure] {}
    Log "stablehlo.log" [Elementwise Pure] {"result_accuracy"}
    LogPlusOne "stablehlo.log_plus_one" [Elementwise Pure] {"result_accuracy"}
    Logistic "stablehlo.logistic" [Elementwise Pure] {"result_accuracy"}
    Negate "stablehlo.negate" [Elementwise Pure] {}
    Not "stablehlo.not" [Elementwise Pure] {}
    Popcnt "stablehlo.popcnt" [Elementwise Pure] {}
    Real "stablehlo.real" [Elementwise Pure] {}
    ReducePrecision "stablehlo.reduce_precision" [Elementwise Pure] {"exponent_bits" "mantissa_bits"}
    RoundNearestAfz "stablehlo.round_nearest_afz" [Elementwise Pure] {}
    RoundNearestEven "stablehlo.round_nearest_even" [Elementwise Pure] {}
    Rsqrt "stablehlo.rsqrt" [Elementwise Pure] {"result_accuracy"}
    Sign "stablehlo.sign" [Elementwise Pure] {}
    Sine "stablehlo.sine" [Elementwise Pure] {"result_accuracy"}
    Sqrt "stablehlo.sqrt" [Elementwise Pure] {"result_accuracy"}
    Tan "stablehlo.tan" [Elementwise Pure] {"result_accuracy"}
    Tanh "stablehlo.tanh" [Elementwise Pure] {"result_accuracy"}
    UniformDequantize "stablehlo.uniform_dequantize" [Elementwise Pure] {}
    UniformQuantize "stablehlo.uniform_quantize" [Elementwise Pure] {}

    // Elementwise, two or three operands.
    Add "stablehlo.add" [Elementwise Pure Commutative] {}
    And "stablehlo.and" [Elementwise Pure Commutative] {}
    Atan2 "stablehlo.atan2" [Elementwise Pure] {}
    Compare "stablehlo.compare" [Elementwise Pure] {"comparison_direction" "compare_type"}
    Complex "stablehlo.complex" [Elementwise Pure] {}
    Divide "stablehlo.divide" [Elementwise Pure] {}
    Maximum "stablehlo.maximum" [Elementwise Pure Commutative] {}
    Minimum "stablehlo.minimum" [Elementwise Pure Commutative] {}
    Multiply "stablehlo.multiply" [Elementwise Pure Commutative] {}
    Or "stablehlo.or" [Elementwise Pure Commutative] {}
    Power "stablehlo.power" [Elementwise Pure] {}
    Remainder "stablehlo.remainder" [Elementwise Pure] {}
    ShiftLeft "stablehlo.shift_left" [Elementwise Pure] {}
    ShiftRightArithmetic "stablehlo.shift_right_arithmetic" [Elementwise Pure] {}
    ShiftRightLogical "stablehlo.shift_right_logical" [Elementwise Pure] {}
    Subtract "stablehlo.subtract" [Elementwise Pure] {}
    Xor "stablehlo.xor" [Elementwise Pure Commutative] {}
    Clamp "stablehlo.clamp" [Elementwise Pure] {}
    Select "stablehlo.select" [Elementwise Pure] {}

    // Constants and index sources.
    Constant "stablehlo.constant" [Pure] {"value"}
    Iota "stablehlo.iota" [Pure] {"iota_dimension"}
    PartitionId "stablehlo.partition_id" [Pure] {}
    ReplicaId "stablehlo.replica_id" [Pure] {}
    Rng "stablehlo.rng" [] {"rng_distribution"}
    RngBitGenerator "stablehlo.rng_bit_generator" [Pure] {"rng_algorithm"}

    // Shape and movement.
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

    // The same with shapes known at run time only.
    DynamicBroadcastInDim "stablehlo.dynamic_broadcast_in_dim" [Pure]
        {"broadcast_dimensions" "known_expanding_dimensions" "known_nonexpanding_dimensions"}
    DynamicConv "stablehlo.dynamic_conv" [Pure]
        {"window_strides" "lhs_dilation" "rhs_dilation" "window_reversal" "dimension_numbers"
         "feature_group_count" "batch_group_count" "precision_config"}
    DynamicGather "stablehlo.dynamic_gather" [Pure] {"dimension_numbers" "indices_are_sorted"}
    DynamicIota "stablehlo.dynamic_iota" [Pure] {"iota_dimension"}
    DynamicPad "stablehlo.dynamic_pad" [Pure] {}
    DynamicReshape "stablehlo.dynamic_reshape" [Pure] {}
    RealDynamicSlice "stablehlo.real_dynamic_slice" [Pure] {}

    // Contraction and linear algebra.
    Cholesky "stablehlo.cholesky" [Pure] {"lower"}
    Convolution "stablehlo.convolution" [Pure]
        {"window_strides" "padding" "lhs_dilation" "rhs_dilation" "window_reversal" "dimension_numbers"
         "feature_group_count" "batch_group_count" "precision_config"}
    Dot "stablehlo.dot" [Pure] {"precision_config"}
    DotGeneral "stablehlo.dot_general" [Pure] {"dot_dimension_numbers" "precision_config" "algorithm"}
    Einsum "stablehlo.einsum" [Pure] {"einsum_config"}
    UnaryEinsum "stablehlo.unary_einsum" [Pure] {"einsum_config"}
    Fft "stablehlo.fft" [Pure] {"fft_type" "fft_length"}
    TriangularSolve "stablehlo.triangular_solve" [Pure] {"left_side" "lower" "unit_diagonal" "transpose_a"}
    BatchNormGrad "stablehlo.batch_norm_grad" [Pure] {"epsilon" "feature_index"}
    BatchNormInference "stablehlo.batch_norm_inference" [Pure] {"epsilon" "feature_index"}
    BatchNormTraining "stablehlo.batch_norm_training" [Pure] {"epsilon" "feature_index"}

    // Operations with a body.
    Map "stablehlo.map" [Pure] {"dimensions"}
    Reduce "stablehlo.reduce" [Pure] {"dimensions"}
    ReduceWindow "stablehlo.reduce_window" [Pure]
        {"window_dimensions" "window_strides" "base_dilations" "window_dilations" "padding"}
    Scatter "stablehlo.scatter" [Pure] {"scatter_dimension_numbers" "indices_are_sorted" "unique_indices"}
    SelectAndScatter "stablehlo.select_and_scatter" [Pure] {"window_dimensions" "window_strides" "padding"}
    Sort "stablehlo.sort" [Pure] {"dimension" "is_stable"}
    Case "stablehlo.case" [] {}
    If "stablehlo.if" [] {}
    While "stablehlo.while" [] {}
    HloReturn "stablehlo.return" [Terminator] {}

    // Collectives.
    AllGather "stablehlo.all_gather" [Collective]
        {"all_gather_dim" "replica_groups" "channel_handle" "use_global_device_ids"}
    AllReduce "stablehlo.all_reduce" [Collective] {"replica_groups" "channel_handle" "use_global_device_ids"}
    AllToAll "stablehlo.all_to_all" [Collective]
        {"split_dimension" "concat_dimension" "split_count" "replica_groups" "channel_handle"}
    CollectiveBroadcast "stablehlo.collective_broadcast" [Collective]
        {"replica_groups" "channel_handle" "has_dynamic_root"}
    CollectivePermute "stablehlo.collective_permute" [Collective] {"source_target_pairs" "channel_handle"}
    CollectiveReduce "stablehlo.collective_reduce" [Collective]
        {"replica_groups" "channel_handle" "use_global_device_ids" "has_dynamic_root"}
    CrossReplicaSum "stablehlo.cross-replica-sum" [Collective] {"replica_groups"}
    ReduceScatter "stablehlo.reduce_scatter" [Collective]
        {"scatter_dimension" "replica_groups" "channel_handle" "use_global_device_ids"}

    // Tokens, tuples, the outside world.
    AfterAll "stablehlo.after_all" [Pure] {}
    AsyncDone "stablehlo.async_done" [] {}
    AsyncStart "stablehlo.async_start" [] {}
    Composite "stablehlo.composite" [] {"name" "composite_attributes" "decomposition" "version"}
    CreateToken "stablehlo.create_token" [Pure] {}
    CustomCall "stablehlo.custom_call" []
        {"call_target_name" "has_side_effect" "backend_config" "api_version" "called_computations"
         "operand_layouts" "result_layouts" "output_operand_aliases" "result_tilings"}
    GetTupleElement "stablehlo.get_tuple_element" [Pure] {"index"}
    Infeed "stablehlo.infeed" [] {"infeed_config" "layout"}
    OptimizationBarrier "stablehlo.optimization_barrier" [Pure] {}
    Outfeed "stablehlo.outfeed" [] {"outfeed_config"}
    Recv "stablehlo.recv" [] {"channel_handle" "is_host_transfer" "source_target_pairs"}
    Send "stablehlo.send" [] {"channel_handle" "is_host_transfer" "source_target_pairs"}
    Tuple "stablehlo.tuple" [Pure] {}

    // CHLO: what JAX emits beyond StableHLO.
    ChloAcos "chlo.acos" [Elementwise Pure] {}
    ChloAcosh "chlo.acosh" [Elementwise Pure] {}
    ChloAsin "chlo.asin" [Elementwise Pure] {}
    ChloAsinAcosKernel "chlo._asin_acos_kernel" [Elementwise Pure] {}
    ChloAsinh "chlo.asinh" [Elementwise Pure] {}
    ChloAtan "chlo.atan" [Elementwise Pure] {}
    ChloAtanh "chlo.atanh" [Elementwise Pure] {}
    ChloBesselI1e "chlo.bessel_i1e" [Elementwise Pure] {}
    ChloConj "chlo.conj" [Elementwise Pure] {}
    ChloCosh "chlo.cosh" [Elementwise Pure] {}
    ChloDigamma "chlo.digamma" [Elementwise Pure] {}
    ChloErf "chlo.erf" [Elementwise Pure] {}
    ChloErfInv "chlo.erf_inv" [Elementwise Pure] {}
    ChloErfc "chlo.erfc" [Elementwise Pure] {}
    ChloIsInf "chlo.is_inf" [Elementwise Pure] {}
    ChloIsNegInf "chlo.is_neg_inf" [Elementwise Pure] {}
    ChloIsPosInf "chlo.is_pos_inf" [Elementwise Pure] {}
    ChloLgamma "chlo.lgamma" [Elementwise Pure] {}
    ChloMulhi "chlo.mulhi" [Elementwise Pure] {}
    ChloNextAfter "chlo.next_after" [Elementwise Pure] {}
    ChloPolygamma "chlo.polygamma" [Elementwise Pure] {}
    ChloSinh "chlo.sinh" [Elementwise Pure] {}
    ChloSquare "chlo.square" [Elementwise Pure] {}
    ChloTan "chlo.tan" [Elementwise Pure] {}
    ChloZeta "chlo.zeta" [Elementwise Pure] {}
    ChloConstant "chlo.constant" [Pure] {"value"}
    ChloConstantLike "chlo.constant_like" [Pure] {"value"}
    ChloRaggedDot "chlo.ragged_dot" [Pure] {"ragged_dot_dimension_numbers" "precision_config"}
    ChloScan "chlo.scan" []
        {"dimension" "scan_dim_size" "is_reverse" "is_associative" "operandSegmentSizes" "resultSegmentSizes"}
    ChloTopK "chlo.top_k" [Pure] {"k" "is_stable"}

    // sdy: placements.
    SdyAllGather "sdy.all_gather" [] {"gathering_axes" "out_sharding"}
    SdyAllReduce "sdy.all_reduce" [] {"reduction_axes" "reduction_op" "out_sharding"}
    SdyAllSlice "sdy.all_slice" [] {"slicing_axes" "out_sharding"}
    SdyAllToAll "sdy.all_to_all" [] {"params" "out_sharding"}
    SdyCollectivePermute "sdy.collective_permute" [] {"out_sharding"}
    SdyConstant "sdy.constant" [Pure] {"value"}
    SdyDataFlowEdge "sdy.data_flow_edge" [] {"sharding"}
    SdyFuncDataFlowEdge "sdy.func_data_flow_edge" [] {}
    SdyManualComputation "sdy.manual_computation" [] {"in_shardings" "out_shardings" "manual_axes"}
    SdyMesh "sdy.mesh" [Symbol] {"sym_name" "mesh"}
    SdyNamedComputation "sdy.named_computation" [] {"name" "in_shardings" "out_shardings"}
    SdyPropagationBarrier "sdy.propagation_barrier" [Pure] {"allowed_direction"}
    SdyReduceScatter "sdy.reduce_scatter" [] {"reduce_scatter_axes" "reduction_op" "out_sharding"}
    SdyReplicatedToUnreduced "sdy.replicated_to_unreduced" [] {"axes" "out_sharding"}
    SdyReshard "sdy.reshard" [Pure] {"sharding"}
    SdyReturn "sdy.return" [Terminator] {}
    SdyShardedToUnreduced "sdy.sharded_to_unreduced" [] {"axes" "out_sharding"}
    SdyShardingConstraint "sdy.sharding_constraint" [] {"sharding"}
    SdyShardingGroup "sdy.sharding_group" [] {"group_id"}

    // Test support of StableHLO's own suites.
    CheckExpectAlmostEq "check.expect_almost_eq" [] {"tolerance"}
    CheckExpectAlmostEqConst "check.expect_almost_eq_const" [] {"value" "tolerance"}
    CheckExpectClose "check.expect_close" [] {"max_ulp_difference" "min_ulp_difference"}
    CheckExpectEq "check.expect_eq" [] {}
    CheckExpectEqConst "check.expect_eq_const" [] {"value"}
    CheckExpectSerializedEq "check.expect_serialized_eq" [] {"probe_id" "iteration"}
    InterpreterPrint "interpreter.print" [] {}
    InterpreterProbe "interpreter.probe" [Pure] {"probe_id"}
    InterpreterRunParallel "interpreter.run_parallel" [] {"infeed" "programs"}
}

/// Pattern of all operations with [`Trait::Elementwise`](crate::Trait::Elementwise), for matches without a wildcard arm.
#[macro_export]
macro_rules! elementwise_ops {
    () => {
        $crate::OpKind::Abs
            | $crate::OpKind::Cbrt
            | $crate::OpKind::Ceil
            | $crate::OpKind::Convert
            | $crate::OpKind::Cosine
            | $crate::OpKind::CountLeadingZeros
            | $crate::OpKind::Exponential
            | $crate::OpKind::ExponentialMinusOne
            | $crate::OpKind::Floor
            | $crate::OpKind::Imag
            | $crate::OpKind::IsFinite
            | $crate::OpKind::Log
            | $crate::OpKind::LogPlusOne
            | $crate::OpKind::Logistic
            | $crate::OpKind::Negate
            | $crate::OpKind::Not
            | $crate::OpKind::Popcnt
            | $crate::OpKind::Real
            | $crate::OpKind::ReducePrecision
            | $crate::OpKind::RoundNearestAfz
            | $crate::OpKind::RoundNearestEven
            | $crate::OpKind::Rsqrt
            | $crate::OpKind::Sign
            | $crate::OpKind::Sine
            | $crate::OpKind::Sqrt
            | $crate::OpKind::Tan
            | $crate::OpKind::Tanh
            | $crate::OpKind::UniformDequantize
            | $crate::OpKind::UniformQuantize
            | $crate::OpKind::Add
            | $crate::OpKind::And
            | $crate::OpKind::Atan2
            | $crate::OpKind::Compare
            | $crate::OpKind::Complex
            | $crate::OpKind::Divide
            | $crate::OpKind::Maximum
            | $crate::OpKind::Minimum
            | $crate::OpKind::Multiply
            | $crate::OpKind::Or
            | $crate::OpKind::Power
            | $crate::OpKind::Remainder
            | $crate::OpKind::ShiftLeft
            | $crate::OpKind::ShiftRightArithmetic
            | $crate::OpKind::ShiftRightLogical
            | $crate::OpKind::Subtract
            | $crate::OpKind::Xor
            | $crate::OpKind::Clamp
            | $crate::OpKind::Select
            | $crate::OpKind::ChloAcos
            | $crate::OpKind::ChloAcosh
            | $crate::OpKind::ChloAsin
            | $crate::OpKind::ChloAsinAcosKernel
            | $crate::OpKind::ChloAsinh
            | $crate::OpKind::ChloAtan
            | $crate::OpKind::ChloAtanh
            | $crate::OpKind::ChloBesselI1e
            | $crate::OpKind::ChloConj
            | $crate::OpKind::ChloCosh
            | $crate::OpKind::ChloDigamma
            | $crate::OpKind::ChloErf
            | $crate::OpKind::ChloErfInv
            | $crate::OpKind::ChloErfc
            | $crate::OpKind::ChloIsInf
            | $crate::OpKind::ChloIsNegInf
            | $crate::OpKind::ChloIsPosInf
            | $crate::OpKind::ChloLgamma
            | $crate::OpKind::ChloMulhi
            | $crate::OpKind::ChloNextAfter
            | $crate::OpKind::ChloPolygamma
            | $crate::OpKind::ChloSinh
            | $crate::OpKind::ChloSquare
            | $crate::OpKind::ChloTan
            | $crate::OpKind::ChloZeta
    };
}

/// Pattern of all operations with [`Trait::Collective`](crate::Trait::Collective), for matches without a wildcard arm.
#[macro_export]
macro_rules! collective_ops {
    () => {
        $crate::OpKind::AllGather
            | $crate::OpKind::AllReduce
            | $crate::OpKind::AllToAll
            | $crate::OpKind::CollectiveBroadcast
            | $crate::OpKind::CollectivePermute
            | $crate::OpKind::CollectiveReduce
            | $crate::OpKind::CrossReplicaSum
            | $crate::OpKind::ReduceScatter
    };
}

/// Pattern of all operations of the dialect `sdy`, for matches without a wildcard arm.
#[macro_export]
macro_rules! sdy_ops {
    () => {
        $crate::OpKind::SdyAllGather
            | $crate::OpKind::SdyAllReduce
            | $crate::OpKind::SdyAllSlice
            | $crate::OpKind::SdyAllToAll
            | $crate::OpKind::SdyCollectivePermute
            | $crate::OpKind::SdyConstant
            | $crate::OpKind::SdyDataFlowEdge
            | $crate::OpKind::SdyFuncDataFlowEdge
            | $crate::OpKind::SdyManualComputation
            | $crate::OpKind::SdyMesh
            | $crate::OpKind::SdyNamedComputation
            | $crate::OpKind::SdyPropagationBarrier
            | $crate::OpKind::SdyReduceScatter
            | $crate::OpKind::SdyReplicatedToUnreduced
            | $crate::OpKind::SdyReshard
            | $crate::OpKind::SdyReturn
            | $crate::OpKind::SdyShardedToUnreduced
            | $crate::OpKind::SdyShardingConstraint
            | $crate::OpKind::SdyShardingGroup
    };
}

impl OpKind {
    /// The operation called `name`, e.g. `stablehlo.add`.
    pub fn from_name(name: &str) -> Option<OpKind> {
        static BY_NAME: LazyLock<HashMap<&'static str, OpKind>> =
            LazyLock::new(|| OpKind::ALL.iter().map(|&k| (k.name(), k)).collect());
        BY_NAME.get(name).copied()
    }

    /// Whether the operation has `t`.
    pub fn has(self, t: Trait) -> bool {
        self.traits().contains(&t)
    }

    /// Ends a block.
    pub fn is_terminator(self) -> bool {
        self.has(Trait::Terminator)
    }

    /// Works element by element.
    pub fn is_elementwise(self) -> bool {
        self.has(Trait::Elementwise)
    }

    /// May be removed when its results are unused.
    pub fn is_pure(self) -> bool {
        self.has(Trait::Pure)
    }

    /// The part of the name before the dot.
    pub fn dialect(self) -> &'static str {
        self.name().split('.').next().unwrap_or("")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_parse_back() {
        for &kind in OpKind::ALL {
            assert_eq!(OpKind::from_name(kind.name()), Some(kind));
        }
        assert_eq!(OpKind::from_name("stablehlo.no_such"), None);
    }

    #[test]
    fn patterns_hold_what_the_traits_say() {
        for &kind in OpKind::ALL {
            assert_eq!(matches!(kind, elementwise_ops!()), kind.is_elementwise(), "{kind:?}");
            assert_eq!(matches!(kind, sdy_ops!()), kind.dialect() == "sdy", "{kind:?}");
            assert_eq!(matches!(kind, collective_ops!()), kind.has(Trait::Collective), "{kind:?}");
        }
    }
}
