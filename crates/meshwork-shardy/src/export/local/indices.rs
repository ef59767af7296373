//! Indices of gathers and scatters, seen from a shard.

use meshwork_ir::build::Builder;
use meshwork_ir::op::MixedOp;
use meshwork_ir::{Attr, ElementType, OpSpec, TensorType, ValueId};
use meshwork_mesh::{Mesh, Sharding};

use super::device::{DeviceId, offset, scalar};
use crate::export::rewrite::Problem;

/// What indices point into.
pub struct Indexed<'a> {
    /// How it is split.
    pub sharding: &'a Sharding,
    /// Over which mesh.
    pub mesh: &'a Mesh,
    /// Extents of the whole.
    pub global: &'a [i64],
    /// Extents of a shard.
    pub local: &'a [i64],
    /// The dimension that each component of an index points along.
    pub components: &'a [i64],
    /// The dimension of the indices that has the components.
    pub vector_dim: usize,
    /// The dimensions that are split and of which single elements are taken.
    pub split: &'a [usize],
    /// Which id identifies a device.
    pub device_id: DeviceId,
}

impl Indexed<'_> {
    fn is_pointed_along(&self, dim: usize) -> bool {
        self.components.contains(&(dim as i64))
    }

    fn start(&self, b: &mut Builder, dim: usize) -> Result<ValueId, Problem> {
        offset(b, self.device_id, self.mesh, &self.sharding.dims[dim].axes, self.local[dim])
    }
}

/// Whether to compute which indices point into the shard.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Mask {
    /// Compute it.
    Yes,
    /// Indices outside the shard are ignored.
    No,
}

/// First and last position of the shard along each component's dimension; all positions where it is not split.
fn bounds(
    b: &mut Builder,
    x: &Indexed,
    elem: ElementType,
    mask: Mask,
) -> Result<(Vec<ValueId>, Vec<ValueId>), Problem> {
    let (mut first, mut last) = (vec![], vec![]);
    for &dim in x.components {
        let dim = dim as usize;
        if !x.split.contains(&dim) {
            first.push(scalar(b, elem, 0)?);
            if mask == Mask::Yes {
                last.push(scalar(b, elem, x.global[dim] - 1)?);
            }
            continue;
        }
        let start = x.start(b, dim)?;
        let start = b.value(convert_spec(start, elem))?;
        first.push(start);
        if mask == Mask::Yes {
            let size = scalar(b, elem, x.local[dim] - 1)?;
            last.push(b.add(start, size)?);
        }
    }
    Ok((first, last))
}

fn convert_spec(value: ValueId, elem: ElementType) -> OpSpec {
    OpSpec::new(MixedOp::Convert).operands([value]).results([meshwork_ir::Type::tensor([], elem)])
}

/// One value per component, as a tensor like the indices.
fn like_indices(b: &mut Builder, x: &Indexed, ty: &TensorType, values: &[ValueId]) -> Result<ValueId, Problem> {
    if x.vector_dim >= ty.rank() || ty.dims[x.vector_dim] == 1 {
        return Ok(b.broadcast_in_dim(values[0], ty.dims.to_vec(), &[])?);
    }
    let mut parts = vec![];
    for &value in values {
        parts.push(b.reshape(value, [1])?);
    }
    let all = b.concatenate(&parts, 0)?;
    Ok(b.broadcast_in_dim(all, ty.dims.to_vec(), &[x.vector_dim as i64])?)
}

/// Clamps indices to the whole.
pub fn clamp(b: &mut Builder, x: &Indexed, indices: ValueId, ty: &TensorType) -> Result<ValueId, Problem> {
    let last: Vec<i64> = x.components.iter().map(|&dim| x.global[dim as usize] - 1).collect();
    let zero = b.splat(ty.dims.to_vec(), ty.elem, 0.0)?;
    let last = if x.vector_dim < ty.rank() && last.len() > 1 {
        let table = super::device::table(b, &last)?;
        let table = if ty.elem == ElementType::I64 { table } else { b.convert(table, ty.elem)? };
        b.broadcast_in_dim(table, ty.dims.to_vec(), &[x.vector_dim as i64])?
    } else {
        b.splat(ty.dims.to_vec(), ty.elem, last.first().copied().unwrap_or(0) as f64)?
    };
    Ok(b.clamp(zero, indices, last)?)
}

/// The indices seen from the shard, and whether each component points into it.
pub fn shift(
    b: &mut Builder,
    x: &Indexed,
    indices: ValueId,
    ty: &TensorType,
    mask: Mask,
) -> Result<(ValueId, Option<ValueId>), Problem> {
    if !x.split.iter().any(|&dim| x.is_pointed_along(dim)) {
        return Ok((indices, None));
    }
    let (first, last) = bounds(b, x, ty.elem, mask)?;
    let first = like_indices(b, x, ty, &first)?;
    let last = if mask == Mask::Yes { Some(like_indices(b, x, ty, &last)?) } else { None };
    let shifted = b.subtract(indices, first)?;
    let mask = match last {
        Some(last) => {
            let not_before = compare(b, "GE", indices, first)?;
            let not_after = compare(b, "LE", indices, last)?;
            Some(b.and(not_before, not_after)?)
        }
        None => None,
    };
    Ok((shifted, mask))
}

/// Whether this device has the first shard of all dimensions from which the first element is taken without an index.
pub fn has_first(b: &mut Builder, x: &Indexed) -> Result<Option<ValueId>, Problem> {
    let mut all: Option<ValueId> = None;
    for &dim in x.split.iter().filter(|&&dim| !x.is_pointed_along(dim)) {
        let start = x.start(b, dim)?;
        let zero = scalar(b, ElementType::I64, 0)?;
        let is_first = compare(b, "EQ", start, zero)?;
        all = Some(match all {
            Some(others) => b.and(others, is_first)?,
            None => is_first,
        });
    }
    Ok(all)
}

/// A comparison of integers in their natural order.
pub(crate) fn compare(b: &mut Builder, direction: &str, x: ValueId, y: ValueId) -> Result<ValueId, Problem> {
    let spec = OpSpec::new(MixedOp::Compare).operands([x, y]);
    Ok(b.value(spec.attr("comparison_direction", Attr::hlo_enum("comparison_direction", direction)))?)
}
