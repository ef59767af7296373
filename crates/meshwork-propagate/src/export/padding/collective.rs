//! Collectives: what is split further is padded before, what is gathered is cut back after.

use meshwork_ir::{Attr, Module, OpId};

use super::{Padding, Problem};
use crate::values::sharding_of;

/// Pads the operand so that it divides by the placement after; the result is as large.
fn pad_operand(cx: &mut Padding, module: &mut Module, op: OpId) -> Result<(), Problem> {
    let input = module.op(op).operands()[0];
    let out = sharding_of(module, module.result(op));
    let ty = cx.padded(module.ty(input), out.as_ref());
    let mut is_zero = cx.zeros.contains(&input);
    if ty != *module.ty(input) {
        is_zero |= !cx.is_padded(module, input);
        let padded = cx.extend(module, op, input, &ty, is_zero)?;
        module.set_operand(op, 0, padded);
    }
    let result = module.result(op);
    module.set_ty(result, ty);
    if is_zero {
        cx.zeros.insert(result);
    }
    Ok(())
}

/// `sdy.all_slice` and `sdy.reduce_scatter`.
pub fn all_slice(cx: &mut Padding, module: &mut Module, op: OpId) -> Result<(), Problem> {
    pad_operand(cx, module, op)
}

/// `sdy.all_gather`: the gathered dimensions are cut back.
pub fn all_gather(cx: &mut Padding, module: &mut Module, op: OpId) -> Result<(), Problem> {
    let (input, result) = (module.op(op).operands()[0], module.result(op));
    let gathered: Vec<usize> = match module.op(op).attr("gathering_axes") {
        Some(Attr::AxesPerDim(axes)) => (0..axes.len()).filter(|&dim| !axes[dim].is_empty()).collect(),
        _ => vec![],
    };
    let (original, ty) = (module.ty(result).clone(), module.ty(input).clone());
    module.set_ty(result, ty);
    if cx.zeros.contains(&input) {
        cx.zeros.insert(result);
    }
    let out = sharding_of(module, result);
    cx.trim(module, op, &original, &gathered, out.as_ref())
}

/// `sdy.all_to_all`: the dimensions that axes leave are cut back.
pub fn all_to_all(cx: &mut Padding, module: &mut Module, op: OpId) -> Result<(), Problem> {
    let original = module.ty(module.result(op)).clone();
    let left: Vec<usize> = match module.op(op).attr("params") {
        Some(Attr::AllToAll(params)) => params.iter().map(|p| p.src as usize).collect(),
        _ => vec![],
    };
    pad_operand(cx, module, op)?;
    let out = sharding_of(module, module.result(op));
    cx.trim(module, op, &original, &left, out.as_ref())
}
