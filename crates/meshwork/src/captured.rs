//! Arrays that a function has captured: constants of its program, which should be small.

use meshwork_ir::attr::DenseData;
use meshwork_ir::op::SourceOp;
use meshwork_ir::{Attr, Module, OpKind};
use meshwork_partition::plan::{human_bytes, place_of};

/// A constant of more bytes is copied with the program often enough to be noticed.
const LARGE: usize = 16 << 20;

/// A sentence for each constant that should be an argument, with its line.
pub(crate) fn large_constants(module: &Module) -> Vec<String> {
    let mut out = vec![];
    for op in module.op_ids().filter(|&op| module.op(op).kind() == OpKind::Source(SourceOp::Constant)) {
        let Some(Attr::Dense(dense)) = module.op(op).attr("value") else { continue };
        let DenseData::Full(bytes) = &dense.data else { continue };
        if bytes.len() > LARGE {
            out.push(format!(
                "{}: an array of {} ({}{:?}) is a constant of the program, on every device; pass it as an argument",
                place_of(module, op),
                human_bytes(bytes.len() as f64),
                dense.ty.elem,
                &dense.ty.dims[..],
            ));
        }
    }
    out
}
