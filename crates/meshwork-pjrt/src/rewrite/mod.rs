//! Programs as XLA runs them fastest on GPUs: rewritten before they are handed over.
//!
//! XLA makes one kernel of element-wise work on whole arrays, but needs a copy of the array and a second kernel to assign to a
//! part of it, and copies what a loop carries in every turn if the next value cannot be written over the last one. So:
//!
//! | what is written | becomes | file |
//! |---|---|---|
//! | an array with a part assigned (`dynamic_update_slice`, `scatter`) | a `select` between the part and the array | `assign` |
//! | a part between slices of an array (`concatenate`) | the same | `assign` |
//! | a part with a border of one value (`pad`) | a `select` between the part and the value | `assign` |
//! | element-wise work on slices of an array | the same work on the array, shifted | `shift` |
//! | a convolution with one small kernel | a sum of shifted arrays | `convolution` |
//! | a loop whose turns are such work | a call of an own kernel, where the device has them | `crate::kernels` |
//! | another loop of such work | four turns at a time | `unroll` |
//! | transposes and reshapes of each other, of nothing | one, or none | `moves` |
//! | equal work | done once | `meshwork_ir::transform::cse` |
//!
//! Every step keeps the numbers: the same operations on the same elements in the same order. The convolution alone adds its
//! products in an order of its own.

mod assign;
mod constants;
mod convolution;
mod moves;
mod shift;
mod unroll;

#[cfg(test)]
pub(crate) mod tests;

use meshwork_ir::op::{BodyOp, ContractOp, MovementOp};
use meshwork_ir::transform::canonicalize::{self, Pattern};
use meshwork_ir::transform::{calls, cse, inline, symbol_dce};
use meshwork_ir::{Module, OpKind};

pub(crate) use assign::assigned_part;
pub(crate) use unroll::{Counter, counter_of};

use crate::kernels;

/// Programs of more operations are handed over as they are.
const MOST_OPS: u64 = 1 << 17;

/// Which operation is written how.
const PATTERNS: &[(OpKind, Pattern)] = &[
    (OpKind::Movement(MovementOp::Transpose), moves::transpose),
    (OpKind::Movement(MovementOp::Reshape), moves::reshape),
    (OpKind::Movement(MovementOp::BroadcastInDim), moves::broadcast),
    (OpKind::Movement(MovementOp::Slice), moves::slice),
    (OpKind::Contract(ContractOp::Convolution), convolution::as_shifts),
    (OpKind::Movement(MovementOp::DynamicUpdateSlice), assign::assignment),
    (OpKind::Body(BodyOp::Scatter), assign::assignment),
    (OpKind::Movement(MovementOp::Concatenate), assign::concatenate),
    (OpKind::Movement(MovementOp::Pad), assign::pad),
];

/// How programs are rewritten.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Rewriting {
    /// How many turns of a loop of stencils are done at a time where XLA computes them.
    pub turns: u64,
    /// How own kernels do them; `None` where there are none.
    pub kernels: Option<kernels::Wish>,
}

/// Rewrites `module`. Says which loops are own kernels.
pub(crate) fn rewrite(module: &mut Module, how: Rewriting) -> Vec<String> {
    let Some(entry) = module.entry() else { return vec![] };
    if calls::size(module, entry).map_or(true, |size| size > MOST_OPS) {
        return vec![];
    }
    inline::inline_all(module);
    symbol_dce::remove_unused(module, |op| op != entry);
    let patterns: Vec<(OpKind, Pattern)> = canonicalize::PATTERNS.iter().chain(PATTERNS).copied().collect();
    canonicalize::apply(module, &patterns);
    cse::eliminate(module);
    let notes = how.kernels.map_or(vec![], |wish| kernels::replace_loops(module, wish));
    if how.turns > 1 {
        unroll::loops(module, how.turns);
        cse::eliminate(module);
    }
    notes
}
