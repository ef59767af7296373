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
//! | `combine` | bodies of reductions and scatters |
//! | `nest`, `copy`, `transpose`, `movement` | strided boxes and copies between them |

mod attrs;
mod combine;
mod conv;
pub mod copy;
mod depthwise;
pub mod dot;
mod dynamic;
mod gather;
mod movement;
mod nest;
mod num;
mod scatter;
#[cfg(test)]
pub(crate) mod testing;
mod transpose;

use meshwork_ir::{OpId, OpKind};

use crate::compile::lower::Lower;

/// Adds the steps that compute the results of `op`; false if there is no kernel for it or its element types.
pub fn lower(cx: &mut Lower<'_>, op: OpId) -> Result<bool, String> {
    match cx.module.op(op).kind() {
        OpKind::Concatenate => movement::concatenate(cx, op),
        OpKind::Convolution => conv::lower(cx, op),
        OpKind::Dot | OpKind::DotGeneral => dot::lower(cx, op, dot::Extra::default()),
        OpKind::DynamicSlice => dynamic::slice(cx, op),
        OpKind::DynamicUpdateSlice => dynamic::update_slice(cx, op),
        OpKind::Gather => gather::lower(cx, op),
        OpKind::Scatter => scatter::lower(cx, op),
        OpKind::Pad => movement::pad(cx, op),
        OpKind::Reverse => movement::reverse(cx, op),
        _ => Ok(false),
    }
}
