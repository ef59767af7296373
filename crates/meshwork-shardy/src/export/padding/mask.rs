//! Setting padding to a value: elements past the original extents are replaced.

use meshwork_ir::{ElementType, Module, OpId, Type, ValueId};
use meshwork_propagate::program::sharding_of;

use super::{Padding, place};
use crate::export::local::indices::compare;
use crate::export::rewrite::{Problem, before, tensor};

/// What padding is set to.
pub enum Fill {
    /// Zero; nothing is done where padding is known to be zero.
    Zero,
    /// This scalar.
    Value(ValueId),
    /// The constant -1.
    MinusOne,
}

/// The value in front of `at` with its padding along `dims` (all of them for `None`) set to `fill`.
pub fn fill_padding(
    cx: &mut Padding,
    module: &mut Module,
    at: OpId,
    value: ValueId,
    fill: Fill,
    dims: Option<&[usize]>,
) -> Result<ValueId, Problem> {
    let padded = tensor(module, value)?;
    let original = cx.original(module, value).clone();
    let is_known = matches!(fill, Fill::Zero) && cx.zeros.contains(&value);
    let needs = |dim: &usize| original.dims()[*dim] != padded.dims[*dim] && dims.is_none_or(|dims| dims.contains(dim));
    let uneven: Vec<usize> = (0..padded.rank()).filter(needs).collect();
    if original == Type::from(padded.clone()) || is_known || uneven.is_empty() {
        return Ok(value);
    }
    let sharding = sharding_of(module, value);
    let shape = padded.dims.to_vec();
    let mut b = before(module, at);
    let fill = match fill {
        Fill::Zero => b.scalar(padded.elem, 0.0)?,
        Fill::MinusOne => b.scalar(padded.elem, -1.0)?,
        Fill::Value(value) => value,
    };
    let mut mask: Option<ValueId> = None;
    let mut made = vec![];
    for dim in uneven {
        let position = b.iota(Type::tensor(shape.clone(), ElementType::I32), dim as i64)?;
        let limit = b.scalar(ElementType::I32, original.dims()[dim] as f64)?;
        let limit = b.broadcast_in_dim(limit, shape.clone(), &[])?;
        let inside = compare(&mut b, "LT", position, limit)?;
        made.extend([position, limit, inside]);
        mask = Some(match mask {
            Some(mask) => {
                let both = b.and(mask, inside)?;
                made.push(both);
                both
            }
            None => inside,
        });
    }
    let Some(mask) = mask else { return Ok(value) };
    let fill = b.broadcast_in_dim(fill, shape, &[])?;
    let filled = b.select(mask, value, fill)?;
    made.extend([fill, filled]);
    for new in made {
        place(module, new, sharding.as_ref());
    }
    cx.originals.insert(filled, original);
    Ok(filled)
}
