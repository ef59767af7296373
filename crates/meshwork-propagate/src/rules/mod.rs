//! Op sharding rules: how the dimensions of an op's operands and results relate, as factors.
//!
//! Every op of the op table has an entry in [`sharding_rule`]: a rule, or the reason why it has none. A rule that
//! the program carries in `sdy.sharding_rule` wins over the table.

mod builder;
mod collective;
mod contraction;
mod custom_call;
mod gather;
mod linalg;
mod reshape;
mod slicing;
mod window;

use std::fmt;
use std::sync::Arc;

use meshwork_ir::attr::OpShardingRule;
use meshwork_ir::{Attr, Module, OpId, OpKind, ValueId};

pub use builder::{Factor, RuleBuilder};

/// Name of the attribute that holds an op's rule.
pub const SHARDING_RULE: &str = "sdy.sharding_rule";

/// How far rules go.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum RuleMode {
    /// Also along dimensions whose split makes neighbours exchange data or needs padding.
    #[default]
    Full,
    /// Only where a split needs neither.
    Conservative,
}

/// The rule of an op, or why it has none.
#[derive(Clone, PartialEq, Debug)]
pub enum RuleResult {
    /// Placements follow this rule.
    Rule(Arc<OpShardingRule>),
    /// Placements do not pass through the op.
    None(NoRule),
}

/// Why an op has no rule.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NoRule {
    /// Structure, or an op whose edges carry placements: module, function, call, while, data-flow edge.
    Structural,
    /// It has no tensor operand that a placement could come from or go to: constants, iota, tokens.
    NoOperandDims,
    /// It ends a block.
    Terminator,
    /// Its tensors have no elements.
    NoElements,
    /// It talks to the outside world, or to devices one by one.
    Opaque,
    /// Its shape is known at run time only.
    DynamicShape,
    /// No rule is known for this op.
    UnknownOp(String),
    /// No rule is known for a custom call of this target.
    UnknownCustomCall(String),
    /// The rule that the op carries does not fit it, for this reason.
    Misfit(String),
}

impl fmt::Display for NoRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NoRule::Structural => f.write_str("placements pass by its data-flow edges, not through it"),
            NoRule::NoOperandDims => f.write_str("no dimension of an operand relates to its results"),
            NoRule::Terminator => f.write_str("it ends a block"),
            NoRule::NoElements => f.write_str("its tensors have no elements"),
            NoRule::Opaque => f.write_str("its effect is outside of the program"),
            NoRule::DynamicShape => f.write_str("its shape is known at run time only"),
            NoRule::UnknownOp(name) => write!(f, "op '{name}' has no sharding rule"),
            NoRule::UnknownCustomCall(name) => {
                write!(f, "custom call @{name} has no sharding rule; give it one with sdy.sharding_rule")
            }
            NoRule::Misfit(reason) => write!(f, "its sharding rule does not fit: {reason}"),
        }
    }
}

impl From<RuleBuilder> for RuleResult {
    fn from(builder: RuleBuilder) -> Self {
        RuleResult::Rule(Arc::new(builder.build()))
    }
}

impl From<&mut RuleBuilder> for RuleResult {
    fn from(builder: &mut RuleBuilder) -> Self {
        builder.clone().into()
    }
}

/// The rule that `op` carries, if any.
pub fn stored_rule(module: &Module, op: OpId) -> Option<&Arc<OpShardingRule>> {
    match module.op(op).attr(SHARDING_RULE)? {
        Attr::ShardingRule(rule) => Some(rule),
        _ => None,
    }
}

/// The rule of `op`: the one it carries, else that of its kind.
pub fn sharding_rule(module: &Module, op: OpId, mode: RuleMode) -> RuleResult {
    match stored_rule(module, op) {
        Some(rule) => match check_fit(module, op, rule) {
            Ok(()) => RuleResult::Rule(rule.clone()),
            Err(reason) => RuleResult::None(NoRule::Misfit(reason)),
        },
        None => rule_of_kind(module, op, mode),
    }
}

/// Whether a rule speaks of the tensors that `op` has, and only of factors it defines.
fn check_fit(module: &Module, op: OpId, rule: &OpShardingRule) -> Result<(), String> {
    let sides =
        [("operand", module.op(op).operands(), &rule.operands), ("result", module.op(op).results(), &rule.results)];
    for (side, values, mappings) in sides {
        if values.len() != mappings.len() {
            return Err(format!("it maps {} {side}s of {}", mappings.len(), values.len()));
        }
        for (i, (&value, dims)) in values.iter().zip(mappings).enumerate() {
            let rank = module.ty(value).rank().unwrap_or(0);
            if dims.len() != rank {
                return Err(format!("{side} {i} has rank {rank}, its mapping {}", dims.len()));
            }
            let mut seen = vec![false; rule.factor_sizes.len()];
            for &factor in dims.iter().flatten() {
                match seen.get_mut(factor) {
                    None => return Err(format!("factor {factor} of {side} {i} is not defined")),
                    Some(true) => {
                        let name = OpShardingRule::factor_name(factor);
                        return Err(format!("factor {name} is in two dimensions of {side} {i}"));
                    }
                    Some(seen) => *seen = true,
                }
            }
        }
    }
    match rule.factor_sizes.iter().position(|&size| size < 0) {
        Some(factor) => Err(format!("factor {} has a negative extent", OpShardingRule::factor_name(factor))),
        None => Ok(()),
    }
}

/// The rule that the op table gives `op`.
pub fn rule_of_kind(module: &Module, op: OpId, mode: RuleMode) -> RuleResult {
    use OpKind as K;
    let ctx = Ctx { module, op, mode };
    match module.op(op).kind() {
        // One factor per dimension.
        K::Abs
        | K::Cbrt
        | K::Ceil
        | K::Convert
        | K::Cosine
        | K::CountLeadingZeros
        | K::Exponential
        | K::ExponentialMinusOne
        | K::Floor
        | K::Imag
        | K::IsFinite
        | K::Log
        | K::LogPlusOne
        | K::Logistic
        | K::Negate
        | K::Not
        | K::Popcnt
        | K::Real
        | K::ReducePrecision
        | K::RoundNearestAfz
        | K::RoundNearestEven
        | K::Rsqrt
        | K::Sign
        | K::Sine
        | K::Sqrt
        | K::Tan
        | K::Tanh
        | K::Add
        | K::And
        | K::Atan2
        | K::Compare
        | K::Complex
        | K::Divide
        | K::Maximum
        | K::Minimum
        | K::Multiply
        | K::Or
        | K::Power
        | K::Remainder
        | K::ShiftLeft
        | K::ShiftRightArithmetic
        | K::ShiftRightLogical
        | K::Subtract
        | K::Xor => ctx.pointwise(),
        K::ChloAcos
        | K::ChloAcosh
        | K::ChloAsin
        | K::ChloAsinAcosKernel
        | K::ChloAsinh
        | K::ChloAtan
        | K::ChloAtanh
        | K::ChloBesselI1e
        | K::ChloConj
        | K::ChloCosh
        | K::ChloDigamma
        | K::ChloErf
        | K::ChloErfInv
        | K::ChloErfc
        | K::ChloIsInf
        | K::ChloIsNegInf
        | K::ChloIsPosInf
        | K::ChloLgamma
        | K::ChloMulhi
        | K::ChloNextAfter
        | K::ChloPolygamma
        | K::ChloSinh
        | K::ChloSquare
        | K::ChloTan
        | K::ChloZeta => ctx.pointwise(),
        K::AllReduce | K::CollectiveBroadcast | K::CollectivePermute | K::CrossReplicaSum => ctx.pointwise(),
        K::SdyShardingConstraint => ctx.pointwise(),
        K::Clamp => ctx.builder().pointwise(ctx.operand(1)).into(),
        K::Select => ctx.builder().pointwise(ctx.result(0)).into(),
        K::BitcastConvert => reshape::bitcast_convert(&ctx),

        K::BroadcastInDim => reshape::broadcast_in_dim(&ctx),
        K::Reshape => reshape::reshape(&ctx),
        K::Transpose => reshape::transpose(&ctx),
        K::Reverse => slicing::reverse(&ctx),
        K::Concatenate => slicing::concatenate(&ctx),
        K::Slice | K::Pad => slicing::slice_or_pad(&ctx),
        K::DynamicSlice => slicing::dynamic_slice(&ctx),
        K::DynamicUpdateSlice => slicing::dynamic_update_slice(&ctx),
        K::Gather => gather::gather(&ctx),
        K::Scatter => gather::scatter(&ctx),
        K::Reduce => window::reduce(&ctx),
        K::ReduceWindow => window::reduce_window(&ctx),
        K::SelectAndScatter => window::select_and_scatter(&ctx),
        K::Dot => contraction::dot(&ctx),
        K::DotGeneral => contraction::dot_general(&ctx),
        K::Convolution => contraction::convolution(&ctx),
        K::Sort => linalg::sort(&ctx),
        K::Fft => linalg::fft(&ctx),
        K::Cholesky => linalg::cholesky(&ctx),
        K::TriangularSolve => linalg::triangular_solve(&ctx),
        K::BatchNormInference => linalg::batch_norm_inference(&ctx),
        K::RngBitGenerator => linalg::rng_bit_generator(&ctx),
        K::ChloTopK => linalg::top_k(&ctx),
        K::AllGather => collective::all_gather(&ctx),
        K::ReduceScatter => collective::reduce_scatter(&ctx),
        K::AllToAll => collective::all_to_all(&ctx),
        K::CustomCall => custom_call::custom_call(&ctx),

        K::Module
        | K::Func
        | K::Call
        | K::While
        | K::Case
        | K::OptimizationBarrier
        | K::SdyDataFlowEdge
        | K::SdyFuncDataFlowEdge
        | K::SdyManualComputation
        | K::SdyNamedComputation
        | K::SdyMesh
        | K::SdyPropagationBarrier
        | K::SdyShardingGroup
        | K::SdyReshard => RuleResult::None(NoRule::Structural),
        K::Constant | K::SdyConstant | K::Iota | K::PartitionId | K::CreateToken | K::AfterAll => {
            RuleResult::None(NoRule::NoOperandDims)
        }
        K::GetTupleElement | K::Infeed | K::Outfeed | K::Recv | K::Send => RuleResult::None(NoRule::Opaque),
        K::FuncReturn | K::HloReturn | K::SdyReturn => RuleResult::None(NoRule::Terminator),
        K::DynamicBroadcastInDim
        | K::DynamicConv
        | K::DynamicGather
        | K::DynamicIota
        | K::DynamicPad
        | K::DynamicReshape
        | K::RealDynamicSlice
        | K::GetDimensionSize
        | K::SetDimensionSize => RuleResult::None(NoRule::DynamicShape),
        // Listed gaps: Shardy has no rule for these either.
        K::UniformDequantize
        | K::UniformQuantize
        | K::ReplicaId
        | K::Rng
        | K::Broadcast
        | K::TorchIndexSelect
        | K::Einsum
        | K::UnaryEinsum
        | K::BatchNormGrad
        | K::BatchNormTraining
        | K::Map
        | K::If
        | K::CollectiveReduce
        | K::AsyncDone
        | K::AsyncStart
        | K::Composite
        | K::Tuple
        | K::ChloConstant
        | K::ChloConstantLike
        | K::ChloRaggedDot
        | K::ChloScan
        | K::SdyAllGather
        | K::SdyAllReduce
        | K::SdyAllSlice
        | K::SdyAllToAll
        | K::SdyCollectivePermute
        | K::SdyReduceScatter
        | K::SdyReplicatedToUnreduced
        | K::SdyShardedToUnreduced
        | K::CheckExpectAlmostEq
        | K::CheckExpectAlmostEqConst
        | K::CheckExpectClose
        | K::CheckExpectEq
        | K::CheckExpectEqConst
        | K::CheckExpectSerializedEq
        | K::InterpreterPrint
        | K::InterpreterProbe
        | K::InterpreterRunParallel
        | K::Unregistered => RuleResult::None(NoRule::UnknownOp(module.op(op).name().to_string())),
    }
}

/// The op a rule is made for, with short ways to ask about it.
struct Ctx<'m> {
    module: &'m Module,
    op: OpId,
    mode: RuleMode,
}

impl<'m> Ctx<'m> {
    fn op(&self) -> &'m meshwork_ir::Op {
        self.module.op(self.op)
    }

    fn builder(&self) -> RuleBuilder {
        RuleBuilder::for_op(self.module, self.op)
    }

    fn dims(&self, value: Option<&ValueId>) -> &'m [i64] {
        value.map_or(&[], |&v| self.module.ty(v).dims())
    }

    /// Shape of operand `index`.
    fn operand(&self, index: usize) -> &'m [i64] {
        self.dims(self.op().operands().get(index))
    }

    /// Shape of result `index`.
    fn result(&self, index: usize) -> &'m [i64] {
        self.dims(self.op().results().get(index))
    }

    /// The integer attribute `name` as a dimension; out of range if it is missing.
    fn dim_attr(&self, name: &str) -> usize {
        self.op().int(name).and_then(|d| usize::try_from(d).ok()).unwrap_or(usize::MAX)
    }

    fn i64s(&self, name: &str) -> Vec<i64> {
        self.op().i64s(name).unwrap_or_default()
    }

    fn is_conservative(&self) -> bool {
        self.mode == RuleMode::Conservative
    }

    /// The kind of the op that defines `value`.
    fn def_kind(&self, value: ValueId) -> Option<OpKind> {
        self.module.def_op(value).map(|op| self.module.op(op).kind())
    }

    /// One factor per dimension of the first result, the same in all tensors.
    fn pointwise(&self) -> RuleResult {
        match self.op().results().first().map(|&v| self.module.ty(v)) {
            Some(ty) if ty.as_tensor().is_some() => self.builder().pointwise(ty.dims()).into(),
            _ => RuleResult::None(NoRule::NoOperandDims),
        }
    }
}

/// The extent of dimension `dim`; 1 if there is none.
fn extent(shape: &[i64], dim: usize) -> i64 {
    shape.get(dim).copied().unwrap_or(1)
}

/// A dimension number of an attribute.
fn dim(value: i64) -> usize {
    usize::try_from(value).unwrap_or(usize::MAX)
}
