//! Slices at computed positions: their cotangents are added where the slices came from.

use meshwork_ir::attr::{GatherDims, ScatterDims};
use meshwork_ir::{Attr, ElementType, Literal, ValueId};

use crate::GradError;
use crate::reverse::{Reverse, Site};

pub(super) fn rule(r: &mut Reverse<'_>, site: &Site) -> Result<(), GradError> {
    let (x, indices, ct) = (site.x(0), site.x(1), site.ct);
    let Some(Attr::Gather(dims)) = site.op.attr("dimension_numbers") else {
        return Err(GradError::no_rule(r.module(), site.id, "it has no dimension numbers"));
    };
    if r.is_empty(ct) {
        return Ok(());
    }
    let sizes = site.i64s_or("slice_sizes", 0, 0);
    // A gather clamps indices; a scatter drops updates out of bounds.
    let limits: Vec<i64> = dims.start_index_map.iter().map(|&d| r.dims(x)[d as usize] - sizes[d as usize]).collect();
    let indices = clamped(r, indices, dims.index_vector_dim, &vec![0; limits.len()], &limits)?;
    let zeros = r.zeros_like(x)?;
    let given = r.scatter(&[zeros], indices, &[ct], to_scatter(dims), |b, a| Ok([b.add(a[0], a[1])?]))?[0];
    Ok(r.give(x, given)?)
}

/// The scatter that writes where this gather reads.
fn to_scatter(dims: &GatherDims) -> ScatterDims {
    ScatterDims {
        update_window_dims: dims.offset_dims.clone(),
        inserted_window_dims: dims.collapsed_slice_dims.clone(),
        input_batching_dims: dims.operand_batching_dims.clone(),
        scatter_indices_batching_dims: dims.start_indices_batching_dims.clone(),
        scatter_dims_to_operand_dims: dims.start_index_map.clone(),
        index_vector_dim: dims.index_vector_dim,
    }
}

/// Each component of the index vectors held between its bounds.
pub(super) fn clamped(
    r: &mut Reverse<'_>,
    indices: ValueId,
    vector_dim: i64,
    low: &[i64],
    high: &[i64],
) -> Result<ValueId, GradError> {
    let (low, high) = (per_component(r, indices, vector_dim, low)?, per_component(r, indices, vector_dim, high)?);
    Ok(r.clamp(low, indices, high)?)
}

/// A number for each component of the index vectors, in the shape of `indices`.
pub(super) fn per_component(
    r: &mut Reverse<'_>,
    indices: ValueId,
    vector_dim: i64,
    values: &[i64],
) -> Result<ValueId, GradError> {
    let (dims, elem) = (r.dims(indices), r.elem(indices));
    // Narrow indices cannot reach a larger limit.
    let largest = match elem {
        ElementType::I8 => i64::from(i8::MAX),
        ElementType::UI8 => i64::from(u8::MAX),
        ElementType::I16 => i64::from(i16::MAX),
        ElementType::UI16 => i64::from(u16::MAX),
        ElementType::I32 => i64::from(i32::MAX),
        ElementType::UI32 => i64::from(u32::MAX),
        _ => i64::MAX,
    };
    let values: Vec<i64> = values.iter().map(|&v| v.min(largest)).collect();
    if values.windows(2).all(|pair| pair[0] == pair[1]) {
        let value = values.first().copied().unwrap_or(0);
        return Ok(r.splat(dims, elem, value as f64)?);
    }
    let literal = Literal::from_i64s([values.len() as i64], elem, &values).expect("one number per element");
    let vector = r.constant(&literal)?;
    Ok(r.broadcast_in_dim(vector, dims, &[vector_dim])?)
}
