//! One rule per operation: from the cotangents of its results to those of its operands.
//!
//! | file | operations |
//! |---|---|
//! | `elementwise`, `unary`, `bessel` | functions of elements |
//! | `movement` | broadcast, reshape, slice, pad and their kin |
//! | `contract`, `conv`, `linalg` | products, convolutions, batch norms, Fourier transforms, triangular systems |
//! | `reduce`, `window`, `patches`, `combiner` | reductions, pooling, cumulative sums |
//! | `gather`, `scatter`, `sort` | data at computed positions |
//! | `branch`, `loops`, `trip`, `scan` | control flow |
//! | `manual` | computations for single devices, collectives |
//! | `expand`, `ragged` | operations that are written out first: maps, reductions by any body, einsum, ragged products |
//! | `checkpoint` | parts of the program that are computed again instead of kept |

mod bessel;
mod branch;
mod checkpoint;
mod combiner;
mod contract;
mod conv;
mod elementwise;
mod expand;
mod gather;
mod linalg;
mod loops;
mod manual;
mod movement;
mod patches;
mod ragged;
mod reduce;
mod scan;
mod scatter;
mod sort;
mod trip;
mod unary;
mod window;

use meshwork_ir::OpKind;
use meshwork_ir::op::{
    BodyOp, CheckOp, ChloOp, CollectiveOp, ContractOp, ControlOp, LinalgOp, MixedOp, MovementOp, SdyOp, SourceOp,
    TokenOp,
};

use crate::GradError;
use crate::custom::is_custom;
use crate::reverse::{Reverse, Site};

/// Gives cotangents to the operands of `site`.
pub(crate) fn apply(r: &mut Reverse<'_>, site: &Site) -> Result<(), GradError> {
    const SHAPE: &str = "its shape is known only when it runs";
    const NONE: &str = "no derivative rule";
    const NO_VALUE: &str = "it has no value";
    let no_rule = |r, why| refuse(r, site, why);
    match site.op.kind() {
        OpKind::Unary(op) => unary::rule(r, site, op),
        OpKind::Binary(op) => elementwise::binary(r, site, op),
        OpKind::Mixed(op) => match op {
            MixedOp::Convert => unary::convert(r, site),
            MixedOp::ReducePrecision => unary::reduce_precision(r, site),
            MixedOp::Clamp => elementwise::clamp(r, site),
            MixedOp::Select => elementwise::select(r, site),
            MixedOp::Compare => Ok(()),
            MixedOp::UniformDequantize | MixedOp::UniformQuantize => no_rule(r, "quantized types have no derivative"),
        },
        OpKind::Source(op) => match op {
            SourceOp::Rng => {
                no_rule(r, "random numbers that depend on differentiated bounds; scale numbers from fixed bounds")
            }
            SourceOp::Constant
            | SourceOp::Iota
            | SourceOp::PartitionId
            | SourceOp::ReplicaId
            | SourceOp::RngBitGenerator => Ok(()),
        },
        OpKind::Movement(op) => match op {
            MovementOp::BroadcastInDim => movement::broadcast_in_dim(r, site),
            MovementOp::Broadcast => movement::broadcast(r, site),
            MovementOp::Reshape => movement::reshape(r, site),
            MovementOp::Transpose => movement::transpose(r, site),
            MovementOp::Slice => movement::slice(r, site),
            MovementOp::Pad => movement::pad(r, site),
            MovementOp::Concatenate => movement::concatenate(r, site),
            MovementOp::Reverse => movement::reverse(r, site),
            MovementOp::DynamicSlice => movement::dynamic_slice(r, site),
            MovementOp::DynamicUpdateSlice => movement::dynamic_update_slice(r, site),
            MovementOp::Gather => gather::rule(r, site),
            MovementOp::BitcastConvert | MovementOp::GetDimensionSize => Ok(()),
            MovementOp::SetDimensionSize => no_rule(r, SHAPE),
            MovementOp::TorchIndexSelect => no_rule(r, NONE),
        },
        OpKind::Dynamic(_) => no_rule(r, SHAPE),
        OpKind::Contract(op) => match op {
            ContractOp::Dot => contract::dot(r, site),
            ContractOp::DotGeneral => contract::dot_general(r, site),
            ContractOp::Convolution => conv::rule(r, site),
            ContractOp::Einsum | ContractOp::UnaryEinsum => expand::einsum(r, site),
        },
        OpKind::Linalg(op) => match op {
            LinalgOp::Fft => linalg::fft(r, site),
            LinalgOp::TriangularSolve => linalg::triangular_solve(r, site),
            LinalgOp::Cholesky => linalg::cholesky(r, site),
            LinalgOp::BatchNormTraining => linalg::batch_norm_training(r, site),
            LinalgOp::BatchNormInference => linalg::batch_norm_inference(r, site),
            LinalgOp::BatchNormGrad => expand::batch_norm_grad(r, site),
        },
        OpKind::Body(op) => match op {
            BodyOp::Map => expand::map(r, site),
            BodyOp::Reduce => reduce::rule(r, site),
            BodyOp::ReduceWindow => window::rule(r, site),
            BodyOp::SelectAndScatter => window::select_and_scatter(r, site),
            BodyOp::Scatter => scatter::rule(r, site),
            BodyOp::Sort => sort::sort(r, site),
        },
        OpKind::Control(op) => match op {
            ControlOp::While => loops::rule(r, site),
            ControlOp::Case | ControlOp::If => branch::rule(r, site),
            // The cotangent is moved as the value is, in the other direction.
            ControlOp::OptimizationBarrier => movement::barrier(r, site),
            ControlOp::Call => {
                no_rule(r, "the call could not be inlined: its callee is missing, recursive or has several blocks")
            }
            ControlOp::CustomCall => {
                no_rule(r, "what a custom call computes is not known here; differentiate a version without it")
            }
            ControlOp::AsyncDone | ControlOp::AsyncStart => no_rule(r, PER_DEVICE),
            ControlOp::Composite => no_rule(r, NONE),
            ControlOp::Module | ControlOp::Func | ControlOp::FuncReturn | ControlOp::HloReturn => no_rule(r, NO_VALUE),
        },
        OpKind::Token(op) => match op {
            TokenOp::CreateToken | TokenOp::AfterAll => Ok(()),
            TokenOp::Tuple
            | TokenOp::GetTupleElement
            | TokenOp::Infeed
            | TokenOp::Outfeed
            | TokenOp::Recv
            | TokenOp::Send => no_rule(r, NONE),
        },
        OpKind::Collective(op) => match op {
            CollectiveOp::AllReduce | CollectiveOp::CrossReplicaSum => manual::all_reduce(r, site),
            CollectiveOp::AllGather => manual::all_gather(r, site),
            CollectiveOp::ReduceScatter => manual::reduce_scatter(r, site),
            CollectiveOp::AllToAll => manual::all_to_all(r, site),
            CollectiveOp::CollectivePermute => manual::collective_permute(r, site),
            CollectiveOp::CollectiveBroadcast => manual::collective_broadcast(r, site),
            CollectiveOp::CollectiveReduce => manual::collective_reduce(r, site),
            CollectiveOp::RaggedAllToAll => no_rule(r, NONE),
        },
        OpKind::Chlo(op) => match op {
            ChloOp::RaggedDot => ragged::rule(r, site),
            ChloOp::Scan => scan::rule(r, site),
            ChloOp::TopK => sort::top_k(r, site),
            ChloOp::Constant | ChloOp::ConstantLike => Ok(()),
        },
        OpKind::Sdy(op) => match op {
            SdyOp::ShardingConstraint | SdyOp::Reshard | SdyOp::PropagationBarrier => movement::placed(r, site),
            SdyOp::DataFlowEdge | SdyOp::FuncDataFlowEdge => Ok(r.give(site.x(0), site.ct)?),
            SdyOp::NamedComputation if is_custom(&site.op) => crate::custom::reverse(r, site),
            SdyOp::NamedComputation => checkpoint::rule(r, site),
            SdyOp::ManualComputation => manual::computation(r, site),
            SdyOp::Constant => Ok(()),
            SdyOp::AllGather
            | SdyOp::AllReduce
            | SdyOp::AllSlice
            | SdyOp::AllToAll
            | SdyOp::CollectivePermute
            | SdyOp::ReduceScatter
            | SdyOp::ReplicatedToUnreduced
            | SdyOp::ShardedToUnreduced => no_rule(r, PER_DEVICE),
            SdyOp::Return | SdyOp::Mesh | SdyOp::ShardingGroup => no_rule(r, NO_VALUE),
        },
        OpKind::Check(CheckOp::Probe) => Ok(r.give(site.x(0), site.ct)?),
        OpKind::Check(_) => no_rule(r, NO_VALUE),
        OpKind::Unregistered => no_rule(r, NONE),
    }
}

const PER_DEVICE: &str = "it is written for single devices; differentiate the global program, before it is split";

fn refuse(r: &Reverse<'_>, site: &Site, why: &str) -> Result<(), GradError> {
    Err(GradError::no_rule(r.module(), site.id, why))
}
