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
//! | `fft`, `linalg` | Fourier transforms; factorisation and solution |
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

use meshwork_ir::{OpId, OpKind};

use crate::compile::lower::Lower;

/// Adds the steps that compute the results of `op`; false if there is no kernel for it or its element types.
pub fn lower(cx: &mut Lower<'_>, op: OpId) -> Result<bool, String> {
    match cx.module.op(op).kind() {
        OpKind::Concatenate => movement::concatenate(cx, op),
        OpKind::Convolution => conv::lower(cx, op),
        OpKind::Dot | OpKind::DotGeneral => dot::lower(cx, op),
        OpKind::DynamicSlice => dynamic::slice(cx, op),
        OpKind::DynamicUpdateSlice => dynamic::update_slice(cx, op),
        OpKind::Gather => gather::lower(cx, op),
        OpKind::Scatter => scatter::lower(cx, op),
        OpKind::Iota => movement::iota(cx, op),
        OpKind::Reduce => reduce::lower(cx, op),
        OpKind::ReduceWindow => window::lower(cx, op),
        OpKind::RngBitGenerator => random::lower(cx, op),
        OpKind::SelectAndScatter => window::select_and_scatter(cx, op),
        OpKind::Sort => sort::lower(cx, op),
        OpKind::ChloTopK => sort::top_k(cx, op),
        OpKind::Fft => fft::lower(cx, op),
        OpKind::Cholesky => linalg::cholesky(cx, op),
        OpKind::TriangularSolve => linalg::triangular_solve(cx, op),
        OpKind::Pad => movement::pad(cx, op),
        OpKind::Reverse => movement::reverse(cx, op),
        // Loops of the fusion, views, control flow, exchanges, and what the evaluator does.
        meshwork_ir::elementwise_ops!()
        | meshwork_ir::collective_ops!()
        | OpKind::Module
        | OpKind::Func
        | OpKind::Call
        | OpKind::FuncReturn
        | OpKind::Constant
        | OpKind::PartitionId
        | OpKind::ReplicaId
        | OpKind::Rng
        | OpKind::BitcastConvert
        | OpKind::Broadcast
        | OpKind::BroadcastInDim
        | OpKind::GetDimensionSize
        | OpKind::Reshape
        | OpKind::SetDimensionSize
        | OpKind::Slice
        | OpKind::TorchIndexSelect
        | OpKind::Transpose
        | OpKind::DynamicBroadcastInDim
        | OpKind::DynamicConv
        | OpKind::DynamicGather
        | OpKind::DynamicIota
        | OpKind::DynamicPad
        | OpKind::DynamicReshape
        | OpKind::RealDynamicSlice
        | OpKind::Einsum
        | OpKind::UnaryEinsum
        | OpKind::BatchNormGrad
        | OpKind::BatchNormInference
        | OpKind::BatchNormTraining
        | OpKind::Map
        | OpKind::Case
        | OpKind::If
        | OpKind::While
        | OpKind::HloReturn
        | OpKind::AfterAll
        | OpKind::AsyncDone
        | OpKind::AsyncStart
        | OpKind::Composite
        | OpKind::CreateToken
        | OpKind::CustomCall
        | OpKind::GetTupleElement
        | OpKind::Infeed
        | OpKind::OptimizationBarrier
        | OpKind::Outfeed
        | OpKind::Recv
        | OpKind::Send
        | OpKind::Tuple
        | OpKind::ChloConstant
        | OpKind::ChloConstantLike
        | OpKind::ChloRaggedDot
        | OpKind::ChloScan
        | meshwork_ir::sdy_ops!()
        | OpKind::CheckExpectAlmostEq
        | OpKind::CheckExpectAlmostEqConst
        | OpKind::CheckExpectClose
        | OpKind::CheckExpectEq
        | OpKind::CheckExpectEqConst
        | OpKind::CheckExpectSerializedEq
        | OpKind::InterpreterPrint
        | OpKind::InterpreterProbe
        | OpKind::InterpreterRunParallel
        | OpKind::Unregistered => Ok(false),
    }
}
