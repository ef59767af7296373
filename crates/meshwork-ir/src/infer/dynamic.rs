//! Operations whose result shape is an operand: the declared result type is checked against what is known.

use smol_str::format_smolstr;

use super::check::{Elems, duplicate, list, shapes_agree};
use super::movement::padded;
use super::{Inferred, OpTypes, Wrong};
use crate::{DYNAMIC, TensorType};

/// Operand `index` as a shape: one-dimensional, of static size.
fn shape_operand<'a>(t: &OpTypes<'a>, index: usize, name: &'static str) -> Result<&'a TensorType, Wrong> {
    let s = t.tensor_of(index, name, Elems::DIMENSION)?;
    if s.rank() == 1 && s.is_static() {
        Ok(s)
    } else {
        Err(t.bad_operand(index, name, "a one-dimensional integer tensor of static size"))
    }
}

/// The declared result, whose rank is the size of the shape operand and which agrees with it where it is constant.
fn shaped<'a>(t: &OpTypes<'a>, index: usize, name: &'static str) -> Result<&'a TensorType, Wrong> {
    let shape = shape_operand(t, index, name)?;
    let to = t.wanted_tensor(0, Elems::ANY)?;
    if shape.dims[0] != to.rank() as i64 {
        let expected = format_smolstr!("a tensor of rank {}, the size of {name}", shape.dims[0]);
        return Err(t.bad_result(0, expected));
    }
    if let Some(dims) = t.constant(index)
        && !(shapes_agree(&dims, &to.dims) && dims.iter().all(|&d| d >= 0))
    {
        let expected = format_smolstr!("of the shape that {name} says, {}", list(&dims));
        return Err(t.bad_result(0, expected));
    }
    Ok(to)
}

fn same_elem(t: &OpTypes, x: &TensorType, to: &TensorType) -> Result<(), Wrong> {
    if x.elem == to.elem {
        Ok(())
    } else {
        Err(t.mismatch(format!("must keep the element type, but makes {to} out of {x}")))
    }
}

/// `dynamic_iota`.
pub(super) fn iota(t: &OpTypes) -> Inferred {
    t.operand_count(1)?;
    let to = shaped(t, 0, "output_shape")?;
    t.dim_attr("iota_dimension", to.rank())?;
    Ok(t.declared(0)?.into())
}

/// `dynamic_reshape`.
pub(super) fn reshape(t: &OpTypes) -> Inferred {
    t.operand_count(2)?;
    let x = t.tensor(0, "operand")?;
    let to = t.wanted_tensor(0, Elems::ANY)?;
    same_elem(t, x, to)?;
    if x.is_static() && to.is_static() && x.num_elements() != to.num_elements() {
        return Err(t.mismatch(format!("makes {to} out of {x}, which has another number of elements")));
    }
    shaped(t, 1, "output_shape")?;
    if let (Some(n), Some(dims)) = (x.num_elements(), t.constant(1)) {
        let wanted = dims.iter().try_fold(1i64, |n, &d| n.checked_mul(d));
        if wanted != Some(n) {
            return Err(t.mismatch(format!("makes the shape {} out of {n} elements", list(&dims))));
        }
    }
    Ok(t.declared(0)?.into())
}

/// `dynamic_broadcast_in_dim`.
pub(super) fn broadcast_in_dim(t: &OpTypes) -> Inferred {
    t.operand_count(2)?;
    let x = t.tensor(0, "operand")?;
    let to = t.wanted_tensor(0, Elems::ANY)?;
    same_elem(t, x, to)?;
    let dims = t.ints_of("broadcast_dimensions", x.rank(), "operand dimension")?;
    if to.rank() < x.rank() {
        return Err(t.mismatch(format!("makes {to} out of {x}, which has a higher rank")));
    }
    t.distinct_dims("broadcast_dimensions", &dims, to.rank())?;
    shape_operand(t, 1, "output_dimensions")?;
    let constant = t.constant(1);
    for (i, &d) in dims.iter().enumerate() {
        let from = x.dims[i];
        let known = constant.as_ref().and_then(|c| c.get(d as usize).copied()).unwrap_or(DYNAMIC);
        for into in [to.dims[d as usize], known] {
            if from != 1 && from != DYNAMIC && into != DYNAMIC && from != into {
                let detail = format!(
                    "cannot stretch operand dimension {i} of size {from} to result dimension {d} of size {into}"
                );
                return Err(t.mismatch(detail));
            }
        }
    }
    shaped(t, 1, "output_dimensions")?;
    let expanding = t.ints_opt("known_expanding_dimensions")?.unwrap_or_default();
    let fixed = t.ints_opt("known_nonexpanding_dimensions")?.unwrap_or_default();
    t.dims_in_range("known_expanding_dimensions", &expanding, x.rank())?;
    t.dims_in_range("known_nonexpanding_dimensions", &fixed, x.rank())?;
    if let Some(d) = duplicate(expanding.iter().chain(fixed.iter()).copied()) {
        return Err(
            t.bad_attr("known_expanding_dimensions", format!("and known_nonexpanding_dimensions list {d} twice"))
        );
    }
    Ok(t.declared(0)?.into())
}

/// `dynamic_pad`.
pub(super) fn pad(t: &OpTypes) -> Inferred {
    t.operand_count(5)?;
    let x = t.tensor(0, "operand")?;
    let value = t.scalar_of(1, "padding_value", Elems::ANY)?;
    let to = t.wanted_tensor(0, Elems::ANY)?;
    if value.elem != x.elem {
        return Err(t.bad_operand(1, "padding_value", format_smolstr!("a scalar tensor of {}", x.elem)));
    }
    same_elem(t, x, to)?;
    if to.rank() != x.rank() {
        return Err(t.mismatch(format!("makes {to} out of {x}, which has another rank")));
    }
    for (i, name) in [(2, "edge_padding_low"), (3, "edge_padding_high"), (4, "interior_padding")] {
        let s = shape_operand(t, i, name)?;
        if s.dims[0] != x.rank() as i64 || t.operands.id(i) != t.operands.id(2) {
            return Err(t.bad_operand(i, name, format_smolstr!("one number per dimension of {x}, all of one type")));
        }
    }
    let Some(interior) = t.constant(4) else { return Ok(t.declared(0)?.into()) };
    if let Some(i) = interior.iter().find(|&&i| i < 0) {
        return Err(t.mismatch(format!("has the negative interior padding {i}")));
    }
    if let (Some(low), Some(high)) = (t.constant(2), t.constant(3)) {
        for (d, &size) in x.dims.iter().enumerate() {
            let known = size != DYNAMIC && to.dims[d] != DYNAMIC;
            if known && padded(size, low[d], high[d], interior[d]) != Some(to.dims[d]) {
                let detail = format!("pads dimension {d} of size {size} to another size than {}", to.dims[d]);
                return Err(t.mismatch(detail));
            }
        }
    }
    Ok(t.declared(0)?.into())
}

/// `real_dynamic_slice`.
pub(super) fn slice(t: &OpTypes) -> Inferred {
    t.operand_count(4)?;
    let x = t.tensor(0, "operand")?;
    let to = t.wanted_tensor(0, Elems::ANY)?;
    same_elem(t, x, to)?;
    for (i, name) in [(1, "start_indices"), (2, "limit_indices"), (3, "strides")] {
        let s = t.tensor_of(i, name, Elems::DIMENSION)?;
        if s.dims[..] != [x.rank() as i64] || t.operands.id(i) != t.operands.id(1) {
            return Err(t.bad_operand(i, name, format_smolstr!("one number per dimension of {x}, all of one type")));
        }
    }
    Ok(t.declared(0)?.into())
}
