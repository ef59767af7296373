//! Rewrites that leave less to do: each looks at one operation.

use meshwork_ir::{Attr, Dense, Module, OpId, OpKind, OpSpec};

use crate::kernel::ir::Combine;

/// A reduction over dimensions of one element is a reshape, if its initial value changes nothing.
pub(crate) fn reduce_of_ones(module: &mut Module, op: OpId) -> bool {
    let data = module.op(op);
    let (&[operand, init], &[result]) = (data.operands(), data.results()) else { return false };
    let dims = module.ty(operand).dims();
    let Some(reduced) = data.i64s("dimensions") else { return false };
    let ones = reduced.iter().all(|&d| dims.get(d as usize) == Some(&1));
    let combine = module.body_of(op, 0).and_then(|body| Combine::of_body(module, body));
    let zero = module.def_op(init).is_some_and(|def| match module.op(def).attr("value") {
        Some(Attr::Dense(dense)) => is_zero(dense),
        _ => false,
    });
    let same = module.ty(operand).elem() == module.ty(result).elem();
    if !(ones && same && combine == Some(Combine::Add) && zero) {
        return false;
    }
    let spec =
        OpSpec::new(OpKind::Reshape).operands([operand]).results([module.ty(result).clone()]).loc(data.loc.clone());
    let reshape = module.push_before(op, spec);
    let new = module.result(reshape);
    module.replace_all_uses(result, new);
    module.erase(op);
    true
}

fn is_zero(dense: &Dense) -> bool {
    dense.splat_bytes().is_some_and(|b| b.iter().all(|&x| x == 0))
}
