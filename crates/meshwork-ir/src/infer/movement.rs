//! Operations that move elements without computing: reshape, broadcast, slice, pad and similar operations.

use smol_str::format_smolstr;

use super::check::{Elems, dim, dims_agree, shapes_agree};
use super::source::static_result;
use super::{Inferred, OpTypes, Wrong};
use crate::{DYNAMIC, Dims, ElementType, TensorType, Type};

/// `reshape`: as many elements under other extents.
pub(super) fn reshape(t: &OpTypes) -> Inferred {
    t.operand_count(1)?;
    let x = t.tensor(0, "operand")?;
    let to = t.wanted_tensor(0, Elems::ANY)?;
    static_result(t, 0)?;
    same_elem_as_result(t, x, to)?;
    if x.is_static() && to.is_static() && x.num_elements() != to.num_elements() {
        let count = |ty: &TensorType| ty.num_elements().map_or("too many".into(), |n| n.to_string());
        return Err(t.mismatch(format!("makes {to} ({} elements) out of {x} ({} elements)", count(to), count(x))));
    }
    Ok(t.declared(0)?.into())
}

fn same_elem_as_result(t: &OpTypes, x: &TensorType, to: &TensorType) -> Result<(), Wrong> {
    if x.elem == to.elem {
        Ok(())
    } else {
        Err(t.bad_result(0, format_smolstr!("a tensor of {}, as the operand", x.elem)))
    }
}

/// `bitcast_convert`: the same bits as other elements; the innermost dimension makes up for the width.
pub(super) fn bitcast_convert(t: &OpTypes) -> Inferred {
    t.operand_count(1)?;
    let x = t.tensor(0, "operand")?;
    let to = t.wanted_tensor(0, Elems::ANY)?;
    if x.elem.is_complex() != to.elem.is_complex() {
        return Err(t.mismatch(format!("cannot convert between real and complex: {x} and {to}")));
    }
    let (from_bits, to_bits) = (x.elem.bits() as i64, to.elem.bits() as i64);
    let (small, big) = if from_bits < to_bits { (x, to) } else { (to, x) };
    let (less, more) = (from_bits.min(to_bits), from_bits.max(to_bits));
    let prefix = if less == more {
        &small.dims[..]
    } else {
        if small.rank() != big.rank() + 1 {
            let detail =
                format!("needs one dimension more on the side of the narrower elements: {small} against {big}");
            return Err(t.mismatch(detail));
        }
        let inner = small.dims[big.rank()];
        if inner != DYNAMIC && inner.checked_mul(less) != Some(more) {
            let detail = format!("packs {inner} elements of {less} bits into {more} bits: {small} against {big}");
            return Err(t.mismatch(detail));
        }
        &small.dims[..big.rank()]
    };
    if !shapes_agree(prefix, &big.dims) {
        return Err(t.mismatch(format!("must keep all dimensions but an innermost one: {x} to {to}")));
    }
    Ok(t.declared(0)?.into())
}

/// `broadcast`: new dimensions in front.
pub(super) fn broadcast(t: &OpTypes) -> Inferred {
    t.operand_count(1)?;
    let x = t.tensor(0, "operand")?;
    let sizes = t.ints("broadcast_sizes")?;
    if let Some(s) = sizes.iter().find(|&&s| s < 0) {
        return Err(t.bad_attr("broadcast_sizes", format!("has the negative size {s}")));
    }
    let dims: Dims = sizes.iter().chain(&x.dims).copied().collect();
    Ok(t.result(&dims, x.elem).into())
}

/// `broadcast_in_dim`: each operand dimension becomes one of the result, of equal size or stretched from 1.
pub(super) fn broadcast_in_dim(t: &OpTypes) -> Inferred {
    t.operand_count(1)?;
    let x = t.tensor(0, "operand")?;
    let to = t.wanted_tensor(0, Elems::ANY)?;
    if !to.is_static() {
        static_result(t, 0)?;
    }
    same_elem_as_result(t, x, to)?;
    let dims = t.ints_of("broadcast_dimensions", x.rank(), "operand dimension")?;
    t.distinct_dims("broadcast_dimensions", &dims, to.rank())?;
    let into = &to.dims[..];
    for (i, (&d, &from)) in dims.iter().zip(&x.dims).enumerate() {
        let into = into[d as usize];
        if from != DYNAMIC && from != 1 && from != into {
            let detail = format!(
                "cannot stretch operand dimension {i} of size {from} to result dimension {d} of size {}: {x} to {to}",
                dim(into)
            );
            return Err(t.mismatch(detail));
        }
    }
    Ok(t.declared(0)?.into())
}

/// `concatenate`: sizes add up along one dimension, the others are equal.
pub(super) fn concatenate(t: &OpTypes) -> Inferred {
    t.at_least(1)?;
    let first = t.tensor(0, "inputs")?;
    if first.rank() == 0 {
        return Err(t.bad_operand(0, "inputs", "a tensor of rank 1 or more"));
    }
    let along = t.dim_attr("dimension", first.rank())?;
    let mut dims = first.dims.clone();
    dims[along] = 0;
    for i in 0..t.operands.len() {
        let x = t.tensor(i, "inputs")?;
        let fits = x.elem == first.elem
            && x.rank() == first.rank()
            && (0..x.rank()).all(|d| d == along || dims_agree(x.dims[d], dims[d]));
        if !fits {
            let expected = format_smolstr!("like operand 0, {first}, but along dimension {along}");
            return Err(t.bad_operand(i, "inputs", expected));
        }
        for (d, size) in dims.iter_mut().enumerate() {
            *size = match (d == along, *size, x.dims[d]) {
                (true, DYNAMIC, _) | (true, _, DYNAMIC) => DYNAMIC,
                (true, a, b) => a.checked_add(b).ok_or_else(|| t.mismatch("makes a dimension longer than 2^63"))?,
                (false, DYNAMIC, b) => b,
                (false, a, _) => a,
            };
        }
    }
    Ok(t.result(&dims, first.elem).into())
}

/// `slice`: start, limit and stride per dimension.
pub(super) fn slice(t: &OpTypes) -> Inferred {
    t.operand_count(1)?;
    let x = t.tensor(0, "operand")?;
    let starts = t.ints_of("start_indices", x.rank(), "operand dimension")?;
    let limits = t.ints_of("limit_indices", x.rank(), "operand dimension")?;
    let strides = t.ints_of("strides", x.rank(), "operand dimension")?;
    let mut dims = Dims::new();
    for (d, &size) in x.dims.iter().enumerate() {
        let (start, limit, stride) = (starts[d], limits[d], strides[d]);
        if start < 0 || start > limit || size != DYNAMIC && limit > size {
            let detail =
                format!("takes {start} to {limit} of dimension {d}, which has size {}; operand is {x}", dim(size));
            return Err(t.mismatch(detail));
        }
        if stride < 1 {
            return Err(t.bad_attr("strides", format!("must be positive, but is {stride} in dimension {d}")));
        }
        // Both are at least 0 here, and stride at least 1.
        dims.push((limit - start).unsigned_abs().div_ceil(stride as u64) as i64);
    }
    Ok(t.result(&dims, x.elem).into())
}

/// `pad`: padding at both ends, which may be negative, and between elements.
pub(super) fn pad(t: &OpTypes) -> Inferred {
    t.operand_count(2)?;
    let x = t.tensor(0, "operand")?;
    let value = t.scalar_of(1, "padding_value", Elems::ANY)?;
    if value.elem != x.elem {
        return Err(t.bad_operand(1, "padding_value", format_smolstr!("a scalar tensor of {}", x.elem)));
    }
    let low = t.ints_of("edge_padding_low", x.rank(), "operand dimension")?;
    let high = t.ints_of("edge_padding_high", x.rank(), "operand dimension")?;
    let interior = t.ints_of("interior_padding", x.rank(), "operand dimension")?;
    let mut dims = Dims::new();
    for (d, &size) in x.dims.iter().enumerate() {
        if interior[d] < 0 {
            let detail = format!("must not be negative, but is {} in dimension {d}", interior[d]);
            return Err(t.bad_attr("interior_padding", detail));
        }
        dims.push(match size {
            DYNAMIC => DYNAMIC,
            _ => padded(size, low[d], high[d], interior[d]).filter(|&n| n >= 0).ok_or_else(|| {
                t.mismatch(format!(
                    "pads dimension {d} of size {size} by low {}, high {}, interior {}, which is not a valid size",
                    low[d], high[d], interior[d]
                ))
            })?,
        });
    }
    Ok(t.result(&dims, x.elem).into())
}

/// Size of a dimension after padding; `None` on overflow.
pub(super) fn padded(size: i64, low: i64, high: i64, interior: i64) -> Option<i64> {
    let between = (size - 1).max(0).checked_mul(interior)?;
    size.checked_add(between)?.checked_add(low)?.checked_add(high)
}

/// `reverse`.
pub(super) fn reverse(t: &OpTypes) -> Inferred {
    t.operand_count(1)?;
    let x = t.tensor(0, "operand")?;
    t.distinct_dims("dimensions", &t.ints("dimensions")?, x.rank())?;
    Ok(t.same(0).into())
}

/// `transpose`: result dimension `i` is operand dimension `permutation[i]`.
pub(super) fn transpose(t: &OpTypes) -> Inferred {
    t.operand_count(1)?;
    let x = t.tensor(0, "operand")?;
    let permutation = t.ints_of("permutation", x.rank(), "operand dimension")?;
    t.distinct_dims("permutation", &permutation, x.rank())?;
    let dims: Dims = permutation.iter().map(|&d| x.dims[d as usize]).collect();
    Ok(t.result(&dims, x.elem).into())
}

/// `get_dimension_size`.
pub(super) fn get_dimension_size(t: &OpTypes) -> Inferred {
    t.operand_count(1)?;
    let x = t.tensor(0, "operand")?;
    t.dim_attr("dimension", x.rank())?;
    Ok(t.result(&[], ElementType::I32).into())
}

/// `set_dimension_size`: one dimension becomes dynamic.
pub(super) fn set_dimension_size(t: &OpTypes) -> Inferred {
    t.operand_count(2)?;
    let x = t.tensor(0, "operand")?;
    if t.operands[1] != Type::tensor([], ElementType::I32) {
        return Err(t.bad_operand(1, "size", "tensor<i32>"));
    }
    let d = t.dim_attr("dimension", x.rank())?;
    let mut dims = x.dims.clone();
    let full = t.constant(1).is_some_and(|v| v.first() == Some(&dims[d]));
    if !full {
        dims[d] = DYNAMIC;
    }
    match t.given(0) {
        Some(w) if w.elem() == Some(x.elem) && shapes_agree(w.dims(), &dims) => Ok(t.declared(0)?.into()),
        _ => Ok(t.result(&dims, x.elem).into()),
    }
}

/// `torch_index_select`: the result type is given.
pub(super) fn torch_index_select(t: &OpTypes) -> Inferred {
    t.operand_count(2)?;
    t.tensor(0, "operand")?;
    t.tensor(1, "index")?;
    t.int("dim")?;
    t.int("batch_dims")?;
    Ok(t.declared(0)?.into())
}
