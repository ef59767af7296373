//! Operations that make tensors out of nothing: constants, indices, device numbers, random bits.

use smol_str::format_smolstr;

use super::check::{Elems, bounds, list, shapes_agree};
use super::{Inferred, OpTypes, Wrong};
use crate::{Attr, DYNAMIC, ElementType, TensorType, Type};

/// `constant`: the type of its value.
pub(super) fn constant(t: &OpTypes) -> Inferred {
    t.operand_count(0)?;
    match t.attrs.get("value") {
        Some(Attr::Dense(d)) => Ok(Type::Tensor(d.ty.clone()).into()),
        // Values kept as text (sparse ones) do not say their type.
        Some(Attr::Opaque(_)) => Ok(t.declared(0)?.into()),
        _ => Err(t.missing("value", "a dense constant")),
    }
}

/// `iota`: any shape with at least one dimension.
pub(super) fn iota(t: &OpTypes) -> Inferred {
    t.operand_count(0)?;
    let ty = t.wanted_tensor(0, Elems::NUMBER)?;
    if ty.rank() == 0 {
        return Err(t.bad_result(0, "a tensor of rank 1 or more"));
    }
    t.dim_attr("iota_dimension", ty.rank())?;
    static_result(t, 0)?;
    Ok(t.declared(0)?.into())
}

/// Checks that result `index` has no dynamic extent, or one with a bound.
pub(super) fn static_result(t: &OpTypes, index: usize) -> Result<(), Wrong> {
    match t.wanted(index)?.as_tensor() {
        Some(ty) if ty.is_static() || is_single_bounded(ty) => Ok(()),
        _ => Err(t.bad_result(index, "a static shape")),
    }
}

fn is_single_bounded(ty: &TensorType) -> bool {
    let mut dynamic = (0..ty.rank()).filter(|&d| ty.dims[d] == DYNAMIC);
    match (dynamic.next(), dynamic.next(), bounds(ty)) {
        (Some(d), None, Some(bounds)) => bounds.get(d).is_some_and(Option::is_some),
        _ => false,
    }
}

/// `partition_id`, `replica_id`.
pub(super) fn device_number(t: &OpTypes) -> Inferred {
    t.operand_count(0)?;
    Ok(t.result(&[], ElementType::UI32).into())
}

/// `rng`: the shape is an operand, so the result type has to be given unless that is a constant.
pub(super) fn rng(t: &OpTypes) -> Inferred {
    t.operand_count(3)?;
    let elems = Elems::PRED.or(Elems::INT_FLOAT);
    let a = t.scalar_of(0, "a", elems)?;
    let b = t.scalar_of(1, "b", elems)?;
    if a.elem != b.elem {
        return Err(t.bad_operand(1, "b", format_smolstr!("of the type of a, {a}")));
    }
    let shape = t.tensor_of(2, "shape", Elems::DIMENSION)?;
    if shape.rank() != 1 || !shape.is_static() {
        return Err(t.bad_operand(2, "shape", "a one-dimensional integer tensor of static size"));
    }
    match t.attrs.get("rng_distribution").and_then(Attr::as_enum) {
        Some("UNIFORM") => {}
        Some("NORMAL") if a.elem.is_float() => {}
        Some("NORMAL") => return Err(t.bad_operand(0, "a", "a scalar tensor of float for rng_distribution NORMAL")),
        _ => {
            let expected = "UNIFORM or NORMAL";
            return Err(t.missing("rng_distribution", expected));
        }
    }
    let rank = shape.dims[0];
    if rank > 1 << 16 {
        return Err(t.bad_operand(2, "shape", "a shape of at most 65536 dimensions"));
    }
    let dims = t.constant(2).unwrap_or_else(|| vec![DYNAMIC; rank.max(0) as usize]);
    match t.given(0).and_then(Type::as_tensor) {
        Some(w) if w.elem == a.elem && shapes_agree(&w.dims, &dims) => Ok(t.declared(0)?.into()),
        _ => Ok(t.result(&dims, a.elem).into()),
    }
}

/// `rng_bit_generator`: new state and bits, both of given type.
pub(super) fn rng_bit_generator(t: &OpTypes) -> Inferred {
    t.operand_count(1)?;
    let state = t.tensor_of(0, "initial_state", Elems::INT_FLOAT)?;
    if !matches!(t.attrs.get("rng_algorithm").and_then(Attr::as_enum), Some("DEFAULT" | "THREE_FRY" | "PHILOX")) {
        let expected = "DEFAULT, THREE_FRY or PHILOX";
        return Err(t.missing("rng_algorithm", expected));
    }
    let bits = match t.wanted.len() {
        1 => 0,
        _ => 1,
    };
    t.wanted_tensor(bits, Elems::INT_FLOAT)?;
    static_result(t, bits)?;
    if t.wanted.len() == 2 {
        let out = t.wanted_tensor(0, Elems::INT_FLOAT)?;
        if !shapes_agree(&out.dims, &state.dims) {
            let detail = format!("output_state has shape {}, but initial_state {}", list(&out.dims), list(&state.dims));
            return Err(t.mismatch(detail));
        }
        return Ok([t.declared(0)?, t.declared(1)?].into_iter().collect());
    }
    Ok([t.same(0), t.declared(bits)?].into_iter().collect())
}
