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
use meshwork_ir::op::{
    BodyOp, ChloOp, CollectiveOp, ContractOp, ControlOp, LinalgOp, MixedOp, MovementOp, SdyOp, SourceOp, TokenOp,
};
use meshwork_ir::{Attr, Module, OpId, OpKind, ValueId};

pub use builder::{Factor, RuleBuilder};

/// Name of the attribute that holds an op's rule.
pub const SHARDING_RULE: &str = "sdy.sharding_rule";

/// Which factors rules have.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum RuleMode {
    /// Also along dimensions whose split makes neighbors exchange data or needs padding.
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
    /// It has effects outside the program, or addresses single devices.
    Opaque,
    /// Its shape is only known at run time.
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
            NoRule::Opaque => f.write_str("it has effects outside the program"),
            NoRule::DynamicShape => f.write_str("its shape is only known at run time"),
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

impl From<NoRule> for RuleResult {
    fn from(reason: NoRule) -> Self {
        RuleResult::None(reason)
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

/// Checks that a rule maps the tensors of `op`, and only uses factors it defines.
fn check_fit(module: &Module, op: OpId, rule: &OpShardingRule) -> Result<(), String> {
    let sides =
        [("operand", module.op(op).operands(), &rule.operands), ("result", module.op(op).results(), &rule.results)];
    for (side, values, mappings) in sides {
        if values.len() != mappings.len() {
            return Err(format!("it maps {} {side}s, the op has {}", mappings.len(), values.len()));
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

/// The rule by which `op` may be split: [`sharding_rule`], and for some ops that have none a rule that placements do not
/// propagate along, because Shardy has none for them either.
pub fn splitting_rule(module: &Module, op: OpId) -> RuleResult {
    let ctx = Ctx { module, op, mode: RuleMode::Full };
    match module.op(op).kind() {
        OpKind::Body(BodyOp::Map) => ctx.pointwise(),
        OpKind::Linalg(LinalgOp::BatchNormTraining | LinalgOp::BatchNormGrad) => linalg::batch_norm_statistics(&ctx),
        _ => sharding_rule(module, op, RuleMode::Full),
    }
}

/// The rule of the kind of `op`.
fn rule_of_kind(module: &Module, op: OpId, mode: RuleMode) -> RuleResult {
    let ctx = Ctx { module, op, mode };
    match module.op(op).kind() {
        OpKind::Unary(_) | OpKind::Binary(_) => ctx.pointwise(),
        OpKind::Mixed(kind) => match kind {
            MixedOp::Compare | MixedOp::Convert | MixedOp::ReducePrecision => ctx.pointwise(),
            MixedOp::Clamp => ctx.builder().pointwise(ctx.operand(1)).into(),
            MixedOp::Select => ctx.builder().pointwise(ctx.result(0)).into(),
            MixedOp::UniformDequantize | MixedOp::UniformQuantize => ctx.unknown(),
        },
        OpKind::Source(kind) => match kind {
            SourceOp::Constant | SourceOp::Iota | SourceOp::PartitionId => NoRule::NoOperandDims.into(),
            SourceOp::RngBitGenerator => linalg::rng_bit_generator(&ctx),
            SourceOp::ReplicaId | SourceOp::Rng => ctx.unknown(),
        },
        OpKind::Movement(kind) => match kind {
            MovementOp::BitcastConvert => reshape::bitcast_convert(&ctx),
            MovementOp::BroadcastInDim => reshape::broadcast_in_dim(&ctx),
            MovementOp::Reshape => reshape::reshape(&ctx),
            MovementOp::Transpose => reshape::transpose(&ctx),
            MovementOp::Reverse => slicing::reverse(&ctx),
            MovementOp::Concatenate => slicing::concatenate(&ctx),
            MovementOp::Slice | MovementOp::Pad => slicing::slice_or_pad(&ctx),
            MovementOp::DynamicSlice => slicing::dynamic_slice(&ctx),
            MovementOp::DynamicUpdateSlice => slicing::dynamic_update_slice(&ctx),
            MovementOp::Gather => gather::gather(&ctx),
            MovementOp::GetDimensionSize | MovementOp::SetDimensionSize => NoRule::DynamicShape.into(),
            MovementOp::Broadcast | MovementOp::TorchIndexSelect => ctx.unknown(),
        },
        OpKind::Dynamic(_) => NoRule::DynamicShape.into(),
        OpKind::Contract(kind) => match kind {
            ContractOp::Dot => contraction::dot(&ctx),
            ContractOp::DotGeneral => contraction::dot_general(&ctx),
            ContractOp::Convolution => contraction::convolution(&ctx),
            ContractOp::Einsum | ContractOp::UnaryEinsum => ctx.unknown(),
        },
        OpKind::Linalg(kind) => match kind {
            LinalgOp::Fft => linalg::fft(&ctx),
            LinalgOp::Cholesky => linalg::cholesky(&ctx),
            LinalgOp::TriangularSolve => linalg::triangular_solve(&ctx),
            LinalgOp::BatchNormInference => linalg::batch_norm_inference(&ctx),
            LinalgOp::BatchNormGrad | LinalgOp::BatchNormTraining => ctx.unknown(),
        },
        OpKind::Body(kind) => match kind {
            BodyOp::Reduce => window::reduce(&ctx),
            BodyOp::ReduceWindow => window::reduce_window(&ctx),
            BodyOp::SelectAndScatter => window::select_and_scatter(&ctx),
            BodyOp::Scatter => gather::scatter(&ctx),
            BodyOp::Sort => linalg::sort(&ctx),
            BodyOp::Map => ctx.unknown(),
        },
        OpKind::Control(kind) => match kind {
            ControlOp::CustomCall => custom_call::custom_call(&ctx),
            ControlOp::Module
            | ControlOp::Func
            | ControlOp::Call
            | ControlOp::While
            | ControlOp::Case
            | ControlOp::OptimizationBarrier => NoRule::Structural.into(),
            ControlOp::FuncReturn | ControlOp::HloReturn => NoRule::Terminator.into(),
            ControlOp::If | ControlOp::AsyncDone | ControlOp::AsyncStart | ControlOp::Composite => ctx.unknown(),
        },
        OpKind::Token(kind) => match kind {
            TokenOp::CreateToken | TokenOp::AfterAll => NoRule::NoOperandDims.into(),
            TokenOp::GetTupleElement | TokenOp::Infeed | TokenOp::Outfeed | TokenOp::Recv | TokenOp::Send => {
                NoRule::Opaque.into()
            }
            TokenOp::Tuple => ctx.unknown(),
        },
        OpKind::Collective(kind) => match kind {
            CollectiveOp::AllReduce
            | CollectiveOp::CollectiveBroadcast
            | CollectiveOp::CollectivePermute
            | CollectiveOp::CrossReplicaSum => ctx.pointwise(),
            CollectiveOp::AllGather => collective::all_gather(&ctx),
            CollectiveOp::ReduceScatter => collective::reduce_scatter(&ctx),
            CollectiveOp::AllToAll => collective::all_to_all(&ctx),
            CollectiveOp::CollectiveReduce | CollectiveOp::RaggedAllToAll => ctx.unknown(),
        },
        OpKind::Chlo(kind) => match kind {
            ChloOp::TopK => linalg::top_k(&ctx),
            ChloOp::Constant | ChloOp::ConstantLike | ChloOp::RaggedDot | ChloOp::Scan => ctx.unknown(),
        },
        OpKind::Sdy(kind) => match kind {
            SdyOp::ShardingConstraint => ctx.pointwise(),
            SdyOp::Constant => NoRule::NoOperandDims.into(),
            SdyOp::Return => NoRule::Terminator.into(),
            SdyOp::DataFlowEdge
            | SdyOp::FuncDataFlowEdge
            | SdyOp::ManualComputation
            | SdyOp::NamedComputation
            | SdyOp::Mesh
            | SdyOp::PropagationBarrier
            | SdyOp::ShardingGroup
            | SdyOp::Reshard => NoRule::Structural.into(),
            SdyOp::AllGather
            | SdyOp::AllReduce
            | SdyOp::AllSlice
            | SdyOp::AllToAll
            | SdyOp::CollectivePermute
            | SdyOp::ReduceScatter
            | SdyOp::ReplicatedToUnreduced
            | SdyOp::ShardedToUnreduced => ctx.unknown(),
        },
        OpKind::Check(_) | OpKind::Unregistered => ctx.unknown(),
    }
}

/// The op to make a rule for, with shorthands.
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

    /// `factor`, with placements kept from spreading along it in conservative mode.
    fn unless_conservative(&self, factor: Factor) -> Factor {
        if self.is_conservative() { factor.blocked() } else { factor }
    }

    /// The kind of the op that defines `value`.
    fn def_kind(&self, value: ValueId) -> Option<OpKind> {
        self.module.def_op(value).map(|op| self.module.op(op).kind())
    }

    /// A listed gap: Shardy has no rule for the op either.
    fn unknown(&self) -> RuleResult {
        NoRule::UnknownOp(self.op().name().to_string()).into()
    }

    fn no_dimension_numbers(&self) -> RuleResult {
        NoRule::UnknownOp(format!("{} without dimension numbers", self.op().name())).into()
    }

    /// One factor per dimension of the first result, the same in all tensors.
    fn pointwise(&self) -> RuleResult {
        match self.op().results().first().map(|&v| self.module.ty(v)) {
            Some(ty) if ty.as_tensor().is_some() => self.builder().pointwise(ty.dims()).into(),
            _ => NoRule::NoOperandDims.into(),
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
