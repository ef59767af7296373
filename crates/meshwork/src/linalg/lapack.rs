//! Calls of LAPACK's routines under the names that JAX has for them on CPUs, which the engine and the evaluator know.

use std::sync::Arc;

use meshwork_ir::op::ControlOp;
use meshwork_ir::{Attr, AttrDict, ElementType, OpKind, OpSpec, Type};

use crate::Tensor;
use crate::error::fail;
use crate::trace::compose::emit_all;

/// A parameter of a routine: a letter, as LAPACK has it.
pub(super) type Letter = (&'static str, char);

/// The results of `routine`, named without the letter of its number type, of these element types and extents.
#[track_caller]
pub(super) fn call(
    routine: &str,
    operands: &[&Tensor],
    letters: &[Letter],
    results: Vec<(ElementType, Vec<i64>)>,
) -> Vec<Tensor> {
    let Some(first) = operands.first() else { fail(routine, "there is no operand") };
    let letter = match first.dtype() {
        ElementType::F32 => 's',
        ElementType::F64 => 'd',
        ElementType::C64 => 'c',
        _ => 'z',
    };
    let mut config = AttrDict::new();
    for (name, value) in letters {
        config.set(*name, Attr::Int(i64::from(u32::from(*value)), ElementType::UI8));
    }
    let types: Vec<Type> = results.into_iter().map(|(elem, dims)| Type::tensor(dims, elem)).collect();
    emit_all(routine, operands, |b, v| {
        let spec = OpSpec::new(OpKind::Control(ControlOp::CustomCall)).operands(v.iter().copied()).results(types);
        b.values(
            spec.attr("call_target_name", Attr::str(format!("lapack_{letter}{routine}_ffi")))
                .attr("api_version", Attr::i32(4))
                .attr("mhlo.backend_config", Attr::Dict(Arc::new(config))),
        )
    })
}
