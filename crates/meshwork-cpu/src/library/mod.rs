//! Kernels of the library: what the fusion does not build as loops of straight-line code.
//!
//! [`lower`] adds the steps of one operation. Each kernel is a struct of numbers and buffer names that implements
//! [`Work`](crate::step::Work); how it is cut into parts depends on shapes alone.
//!
//! | file | what it is |
//! |---|---|
//! | `num` | numbers and elements |
//! | `dot` | matrix products |
//! | `conv`, `depthwise` | convolution |
//! | `dynamic` | slices at positions that are data |
//! | `gather`, `scatter` | windows at positions that are data |
//! | `combine`, `key` | bodies of reductions and scatters; elements as keys |
//! | `reduce`, `extreme`, `window` | reductions, argmax, sliding windows |
//! | `sort` | sorting by one key, `top_k` |
//! | `fft`, `linalg` | Fourier transforms; factorization and solution |
//! | `random` | random bits |
//! | `nest`, `copy`, `transpose`, `movement` | strided boxes and copies between them |

mod attrs;
mod combine;
mod conv;
pub mod copy;
mod depthwise;
pub mod dot;
mod dynamic;
mod extreme;
mod fft;
mod gather;
mod key;
mod linalg;
mod movement;
mod nest;
mod num;
mod random;
mod reduce;
mod scatter;
mod sort;
#[cfg(test)]
pub(crate) mod testing;
pub(crate) mod transpose;
mod window;

use meshwork_ir::op::{
    BodyOp, CheckOp, ChloOp, ContractOp, ControlOp, DynamicOp, LinalgOp, MovementOp, SourceOp, TokenOp,
};
use meshwork_ir::{OpId, OpKind};

use crate::compile::lower::Lower;

/// Adds the steps that compute the results of `op`; false if there is no kernel for it or its element types.
pub fn lower(cx: &mut Lower<'_>, op: OpId) -> Result<bool, String> {
    match cx.module.op(op).kind() {
        OpKind::Movement(MovementOp::Concatenate) => movement::concatenate(cx, op),
        OpKind::Contract(ContractOp::Convolution) => conv::lower(cx, op),
        OpKind::Contract(ContractOp::Dot | ContractOp::DotGeneral) => dot::lower(cx, op),
        OpKind::Movement(MovementOp::DynamicSlice) => dynamic::slice(cx, op),
        OpKind::Movement(MovementOp::DynamicUpdateSlice) => dynamic::update_slice(cx, op),
        OpKind::Movement(MovementOp::Gather) => gather::lower(cx, op),
        OpKind::Body(BodyOp::Scatter) => scatter::lower(cx, op),
        OpKind::Source(SourceOp::Iota) => movement::iota(cx, op),
        OpKind::Body(BodyOp::Reduce) => reduce::lower(cx, op),
        OpKind::Body(BodyOp::ReduceWindow) => window::lower(cx, op),
        OpKind::Source(SourceOp::RngBitGenerator) => random::lower(cx, op),
        OpKind::Body(BodyOp::SelectAndScatter) => window::select_and_scatter(cx, op),
        OpKind::Body(BodyOp::Sort) => sort::lower(cx, op),
        OpKind::Chlo(ChloOp::TopK) => sort::top_k(cx, op),
        OpKind::Linalg(LinalgOp::Fft) => fft::lower(cx, op),
        OpKind::Linalg(LinalgOp::Cholesky) => linalg::cholesky(cx, op),
        OpKind::Linalg(LinalgOp::TriangularSolve) => linalg::triangular_solve(cx, op),
        OpKind::Movement(MovementOp::Pad) => movement::pad(cx, op),
        OpKind::Movement(MovementOp::Reverse) => movement::reverse(cx, op),
        // Loops of the fusion, views, control flow, exchanges, and what the evaluator does.
        OpKind::Unary(_)
        | OpKind::Binary(_)
        | OpKind::Mixed(_)
        | OpKind::Collective(_)
        | OpKind::Control(ControlOp::Module | ControlOp::Func | ControlOp::Call | ControlOp::FuncReturn)
        | OpKind::Source(SourceOp::Constant | SourceOp::PartitionId | SourceOp::ReplicaId | SourceOp::Rng)
        | OpKind::Movement(
            MovementOp::BitcastConvert
            | MovementOp::Broadcast
            | MovementOp::BroadcastInDim
            | MovementOp::GetDimensionSize
            | MovementOp::Reshape
            | MovementOp::SetDimensionSize
            | MovementOp::Slice
            | MovementOp::TorchIndexSelect
            | MovementOp::Transpose,
        )
        | OpKind::Dynamic(
            DynamicOp::BroadcastInDim
            | DynamicOp::Conv
            | DynamicOp::Gather
            | DynamicOp::Iota
            | DynamicOp::Pad
            | DynamicOp::Reshape
            | DynamicOp::Slice,
        )
        | OpKind::Contract(ContractOp::Einsum | ContractOp::UnaryEinsum)
        | OpKind::Linalg(LinalgOp::BatchNormGrad | LinalgOp::BatchNormInference | LinalgOp::BatchNormTraining)
        | OpKind::Body(BodyOp::Map)
        | OpKind::Control(ControlOp::Case | ControlOp::If | ControlOp::While | ControlOp::HloReturn)
        | OpKind::Token(TokenOp::AfterAll)
        | OpKind::Control(ControlOp::AsyncDone | ControlOp::AsyncStart | ControlOp::Composite)
        | OpKind::Token(TokenOp::CreateToken)
        | OpKind::Control(ControlOp::CustomCall)
        | OpKind::Token(TokenOp::GetTupleElement | TokenOp::Infeed)
        | OpKind::Control(ControlOp::OptimizationBarrier)
        | OpKind::Token(TokenOp::Outfeed | TokenOp::Recv | TokenOp::Send | TokenOp::Tuple)
        | OpKind::Chlo(ChloOp::Constant | ChloOp::ConstantLike | ChloOp::RaggedDot | ChloOp::Scan)
        | OpKind::Sdy(_)
        | OpKind::Check(
            CheckOp::ExpectAlmostEq
            | CheckOp::ExpectAlmostEqConst
            | CheckOp::ExpectClose
            | CheckOp::ExpectEq
            | CheckOp::ExpectEqConst
            | CheckOp::ExpectSerializedEq
            | CheckOp::Print
            | CheckOp::Probe
            | CheckOp::RunParallel,
        )
        | OpKind::Unregistered => Ok(false),
    }
}
