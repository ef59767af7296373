//! Custom calls that are operations in other words.

use meshwork_ir::op::{ChloOp, UnaryOp};
use meshwork_ir::{Attr, ElementType, Module, OpId, OpKind, OpSpec, Type};

use super::replace;

pub(super) fn known(module: &mut Module, op: OpId) -> bool {
    let data = module.op(op);
    let Some(target) = data.call_target() else { return false };
    let unary = match target {
        "mhlo.acos" => UnaryOp::Acos,
        "mhlo.acosh" => UnaryOp::Acosh,
        "mhlo.asin" => UnaryOp::Asin,
        "mhlo.asinh" => UnaryOp::Asinh,
        "mhlo.atan" => UnaryOp::Atan,
        "mhlo.atanh" => UnaryOp::Atanh,
        "mhlo.cosh" => UnaryOp::Cosh,
        "mhlo.erf" => UnaryOp::Erf,
        "mhlo.erfc" => UnaryOp::Erfc,
        "mhlo.sinh" => UnaryOp::Sinh,
        "mhlo.tan" => UnaryOp::Tan,
        "mhlo.topk" | "TopK" => return top_k(module, op),
        _ => return false,
    };
    let operands = data.operands().to_vec();
    replace(module, op, |b| Ok(Some(vec![b.apply(OpKind::Unary(unary), &operands)?])))
}

fn top_k(module: &mut Module, op: OpId) -> bool {
    let data = module.op(op);
    let declared = data.results().first().and_then(|&v| module.ty(v).dims().last().copied());
    let k = data.entry("mhlo.attributes", "k").or(data.entry("mhlo.backend_config", "k")).or(declared);
    let (Some(k), &[x]) = (k, data.operands()) else { return false };
    if data.entry("mhlo.attributes", "largest") == Some(0) {
        return false;
    }
    let types: Vec<_> = data.results().iter().map(|&r| module.ty(r).clone()).collect();
    replace(module, op, |b| {
        let spec = OpSpec::new(OpKind::Chlo(ChloOp::TopK)).operands([x]).results(types).attr("k", Attr::i64(k));
        Ok(Some(b.values(spec)?.into_iter().collect()))
    })
}

/// The largest of elements that have no keys are those of a wider type.
pub(super) fn top_k_of_narrow(module: &mut Module, op: OpId) -> bool {
    let data = module.op(op);
    let (&[x], &[values, places]) = (data.operands(), data.results()) else { return false };
    let Some(elem) = module.ty(x).elem().filter(|&e| !crate::library::has_key(e)) else { return false };
    let wide = match elem {
        e if e.is_float() => ElementType::F32,
        e if e.is_integer() => ElementType::I32,
        _ => return false,
    };
    let (Some(k), shape) = (data.int("k"), module.ty(values).dims().to_vec()) else { return false };
    let place = module.ty(places).clone();
    replace(module, op, |b| {
        let x = b.convert(x, wide)?;
        let spec = OpSpec::new(OpKind::Chlo(ChloOp::TopK))
            .operands([x])
            .results([Type::tensor(shape, wide), place])
            .attr("k", Attr::i64(k));
        let both = b.values(spec)?;
        Ok(Some(vec![b.convert(both[0], elem)?, both[1]]))
    })
}
