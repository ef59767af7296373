//! Kernels of the library: what the fusion does not build as loops of straight-line code.
//!
//! [`lower`] adds the steps of one operation. Each kernel is a struct of numbers and buffer names that implements
//! [`Work`](crate::step::Work); how it is cut into parts depends on shapes alone.
//!
//! | file | what it is |
//! |---|---|
//! | `num` | numbers and elements |
//! | `dot` | matrix products |
//! | `conv`, `depthwise`, `features`, `shifted` | convolution |
//! | `dynamic` | slices at positions that are data |
//! | `picks`, `gather`, `scatter` | positions that are data, windows there |
//! | `combine`, `key` | bodies of reductions and scatters; elements as keys |
//! | `reduce`, `extreme`, `window` | reductions, argmax, sliding windows |
//! | `sort` | sorting by one key, `top_k` |
//! | `fft` | Fourier transforms |
//! | `linalg` | factorizations, systems of equations, eigenvalues |
//! | `random` | random bits |
//! | `general` | everything else: any body and any element type, on a machine of scalars |
//! | `nest`, `copy`, `transpose`, `interleave`, `movement` | strided boxes and copies between them |

mod attrs;
mod combine;
mod conv;
pub mod copy;
mod depthwise;
pub mod dot;
mod dynamic;
mod elements;
mod extreme;
mod features;
mod fft;
mod gather;
pub(crate) mod general;
mod heads;
#[cfg(target_arch = "x86_64")]
mod interleave;
mod key;
mod linalg;
mod movement;
pub(crate) mod nest;
mod num;
mod picks;
mod random;
mod reduce;
mod scatter;
mod select;
mod shifted;
mod sort;
pub(crate) mod strips;
#[cfg(test)]
pub(crate) mod testing;
pub(crate) mod transpose;
mod window;

pub(crate) use dynamic::{Place as Number, read_index};
pub(crate) use window::is_identity;

pub(crate) use extreme::takes_largest;
use meshwork_ir::op::{BodyOp, ChloOp, ContractOp, ControlOp, LinalgOp, MovementOp, SourceOp};
use meshwork_ir::{Module, OpId, OpKind};

use crate::compile::lower::Lower;
pub(crate) use key::has_key;

/// Adds the steps that compute the results of `op`; false if there is no kernel for it or its element types, or if it is
/// compiled elsewhere: to a loop of the fusion, a view, control flow or an exchange.
pub fn lower(cx: &mut Lower<'_>, op: OpId) -> Result<bool, String> {
    match cx.module.op(op).kind() {
        OpKind::Movement(movement) => match movement {
            MovementOp::Concatenate => movement::concatenate(cx, op),
            MovementOp::DynamicSlice => dynamic::slice(cx, op),
            MovementOp::DynamicUpdateSlice => dynamic::update_slice(cx, op),
            MovementOp::Gather => gather::lower(cx, op),
            MovementOp::Pad => movement::pad(cx, op),
            MovementOp::Reverse => movement::reverse(cx, op),
            MovementOp::BitcastConvert => general::bits::lower(cx, op),
            MovementOp::Broadcast
            | MovementOp::BroadcastInDim
            | MovementOp::GetDimensionSize
            | MovementOp::Reshape
            | MovementOp::SetDimensionSize
            | MovementOp::Slice
            | MovementOp::TorchIndexSelect
            | MovementOp::Transpose => Ok(false),
        },
        OpKind::Contract(contract) => match contract {
            ContractOp::Convolution => conv::lower(cx, op),
            ContractOp::Dot | ContractOp::DotGeneral => dot::lower(cx, op),
            ContractOp::Einsum | ContractOp::UnaryEinsum => Ok(false),
        },
        OpKind::Linalg(linalg) => match linalg {
            LinalgOp::Fft => fft::lower(cx, op),
            LinalgOp::Cholesky => linalg::cholesky(cx, op),
            LinalgOp::TriangularSolve => linalg::triangular_solve(cx, op),
            LinalgOp::BatchNormGrad | LinalgOp::BatchNormInference | LinalgOp::BatchNormTraining => Ok(false),
        },
        OpKind::Body(body) => match body {
            BodyOp::Reduce => Ok(reduce::lower(cx, op)? || general::reduce::lower(cx, op)?),
            BodyOp::ReduceWindow => Ok(window::lower(cx, op)? || general::window::lower(cx, op)?),
            BodyOp::Scatter => Ok(scatter::lower(cx, op)? || general::scatter::lower(cx, op)?),
            BodyOp::SelectAndScatter => Ok(select::lower(cx, op)? || general::window::select_and_scatter(cx, op)?),
            BodyOp::Sort => sort::lower(cx, op),
            BodyOp::Map => general::elements::map(cx, op),
        },
        OpKind::Source(source) => match source {
            SourceOp::Iota => movement::iota(cx, op),
            SourceOp::RngBitGenerator => random::lower(cx, op),
            SourceOp::Constant | SourceOp::PartitionId | SourceOp::ReplicaId | SourceOp::Rng => Ok(false),
        },
        OpKind::Chlo(chlo) => match chlo {
            ChloOp::TopK => sort::top_k(cx, op),
            ChloOp::Constant | ChloOp::ConstantLike | ChloOp::RaggedDot | ChloOp::Scan => Ok(false),
        },
        OpKind::Control(ControlOp::CustomCall) => linalg::call(cx, op),
        OpKind::Unary(_) | OpKind::Binary(_) | OpKind::Mixed(_) => general::elements::lower(cx, op),
        OpKind::Dynamic(_)
        | OpKind::Control(_)
        | OpKind::Token(_)
        | OpKind::Collective(_)
        | OpKind::Sdy(_)
        | OpKind::Check(_)
        | OpKind::Unregistered => Ok(false),
    }
}

/// Whether there is a kernel for the body of `op`, a `reduce`.
pub(crate) fn has_reduction(module: &Module, op: OpId) -> bool {
    let Some(block) = module.body_of(op, 0) else { return false };
    combine::recognise(module, block).is_some() || extreme::is_known(module, block)
}

/// Whether there is a kernel for the body of `op`, a `reduce_window`.
pub(crate) fn has_windows(module: &Module, op: OpId) -> bool {
    module.body_of(op, 0).is_some_and(|block| combine::recognise(module, block).is_some())
}
