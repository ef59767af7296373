//! Placement operations: they never change a type.

use smol_str::format_smolstr;

use super::{Inferred, OpTypes, ResultTypes};
use crate::Type;

/// One tensor in, the same type out.
pub(super) fn identity(t: &OpTypes) -> Inferred {
    t.operand_count(1)?;
    Ok(t.same(0).into())
}

/// One tensor in, the same type out; other values have no dimensions to place.
pub(super) fn placed(t: &OpTypes) -> Inferred {
    t.operand_count(1)?;
    match &t.operands[0] {
        Type::Tensor(_) => Ok(t.same(0).into()),
        _ => Err(t.bad_operand(0, "input", "a tensor")),
    }
}

/// `sharding_group`: a tensor in, nothing out.
pub(super) fn sharding_group(t: &OpTypes) -> Inferred {
    t.operand_count(1)?;
    match &t.operands[0] {
        Type::Tensor(_) => Ok(ResultTypes::Several(vec![])),
        _ => Err(t.bad_operand(0, "input", "a tensor")),
    }
}

/// `named_computation`: the types its body returns.
pub(super) fn named_computation(t: &OpTypes) -> Inferred {
    let args = t.args(0, "body")?;
    if args.len() != t.operands.len() {
        let detail = format!("takes {} arguments, but there are {} operands", args.len(), t.operands.len());
        return Err(t.bad_body("body", detail));
    }
    for (i, (arg, x)) in args.iter().zip(t.operands.iter()).enumerate() {
        if arg != x {
            return Err(t.bad_operand(i, "operands", format_smolstr!("{arg}, the type of the body's argument {i}")));
        }
    }
    Ok(t.returns(0, "body")?.same())
}
