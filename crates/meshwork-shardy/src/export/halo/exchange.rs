//! The exchange along one dimension: which neighbors a shard needs, and the code that fetches them.
//!
//! A shard fetches its left and right neighbors, lays them side by side with itself, pads the line at both ends, and
//! cuts out what it needs at a place that depends on its index.

use meshwork_ir::build::Builder;
use meshwork_ir::op::CollectiveOp;
use meshwork_ir::{ElementType, OpSpec, Type, ValueId};
use meshwork_mesh::{AxisRef, Mesh, Sharding};
use meshwork_propagate::program::set_sharding;

use super::Halo;
use crate::export::local::device::{device_id, look_up, scalar, shard_indices};
use crate::export::local::groups::matrix;
use crate::export::local::indices::compare;
use crate::export::rewrite::Problem;

/// How a dimension changes: element `i` goes to position `i * dilation + low` of the result, whose extents per shard
/// are `to`, those before `from`.
#[derive(Clone, Copy, Debug)]
pub struct Shift {
    /// Number of shards.
    pub shards: i64,
    /// Extent of a shard before.
    pub from: i64,
    /// Extent of a shard after.
    pub to: i64,
    /// Elements in front of the first; negative where it is cut off.
    pub low: i64,
    /// Distance of neighboring elements in the result.
    pub dilation: i64,
    /// Extent of the whole dimension before.
    pub extent: i64,
}

/// The neighbors that shards of one dimension need.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Neighbors {
    /// How many to the left.
    pub left: i64,
    /// How many to the right.
    pub right: i64,
    /// Whether any shard needs elements of another one.
    pub moves: bool,
    /// Whether fetching neighbors is better than gathering all shards.
    pub is_near: bool,
}

/// Which neighbors a shift needs.
pub fn neighbors(shift: &Shift) -> Neighbors {
    let mut found = Neighbors { is_near: true, ..Neighbors::default() };
    for shard in 0..shift.shards {
        let start = (shard * shift.to - shift.low) / shift.dilation;
        let (first, last) = (start.max(0), (start + shift.to - 1).min(shift.extent - 1));
        if first > last {
            found.moves = true;
            continue;
        }
        let (first, last) = (first / shift.from, last / shift.from);
        found.moves |= first != shard || last != shard;
        found.left = found.left.max(shard - first);
        found.right = found.right.max(last - shard);
    }
    let all = found.left + found.right + 1 >= shift.shards;
    found.is_near = !(all && (found.left > 1 || found.right > 1));
    found
}

/// Pairs of devices `(from, to)` that are `distance` shards apart along `axes`; none beyond the ends.
pub fn pairs(mesh: &Mesh, axes: &[AxisRef], distance: i64) -> Vec<i64> {
    let shards = meshwork_mesh::axis_list::product(axes, mesh);
    let mut pairs = vec![];
    for position in 0..mesh.device_count() {
        let Some(coordinates) = mesh.coordinates_at(position) else { continue };
        let shard = meshwork_mesh::shard_index(axes, &coordinates, mesh) + distance;
        if !(0..shards).contains(&shard) {
            continue;
        }
        let (mut rest, mut moved) = (shard, coordinates.clone());
        for axis in axes.iter().rev() {
            let size = axis.size(mesh);
            let (now, then) = (axis.coordinate(&coordinates, mesh), rest % size);
            rest /= size;
            if let Some(i) = mesh.axis_index(&axis.name) {
                moved[i] += (then - now) * (mesh.axes()[i].size / axis.next_pre_size(mesh));
            }
        }
        pairs.extend(mesh.device_at_position(position));
        pairs.extend(mesh.device_at(&moved));
    }
    pairs
}

/// Sends `value` to the shards `distance` further along `axes`.
pub fn send(
    cx: &mut Halo,
    b: &mut Builder,
    value: ValueId,
    mesh: &Mesh,
    axes: &[AxisRef],
    distance: i64,
) -> Result<Option<ValueId>, Problem> {
    let pairs = pairs(mesh, axes, distance);
    if pairs.is_empty() {
        return Ok(None);
    }
    let spec = OpSpec::new(CollectiveOp::CollectivePermute)
        .operands([value])
        .attr("source_target_pairs", matrix(pairs.len() / 2, 2, pairs))
        .attr("channel_handle", cx.channels.take());
    Ok(Some(b.value(spec)?))
}

/// The index of this device's shard along `axes`, as a scalar.
fn shard_of_device(cx: &Halo, b: &mut Builder, mesh: &Mesh, axes: &[AxisRef]) -> Result<ValueId, Problem> {
    let device = device_id(b, cx.device_id)?;
    if mesh.device_ids().is_some() {
        return look_up(b, device, &shard_indices(mesh, axes));
    }
    let constant = |b: &mut Builder, value| scalar(b, ElementType::I64, value);
    let mut index: Option<ValueId> = None;
    for axis in axes {
        let behind = mesh.axes().iter().skip_while(|a| a.name != axis.name).skip(1);
        let behind: i64 = behind.map(|a| a.size).product();
        let stride = behind * (mesh.axis_size(&axis.name).unwrap_or(1) / axis.next_pre_size(mesh));
        let size = axis.size(mesh);
        let mut coordinate = device;
        if stride > 1 {
            let stride = constant(b, stride)?;
            coordinate = b.divide(coordinate, stride)?;
        }
        if size < mesh.device_count() {
            let size = constant(b, size)?;
            coordinate = b.remainder(coordinate, size)?;
        }
        index = Some(match index {
            Some(index) => {
                let size = constant(b, size)?;
                let scaled = b.multiply(index, size)?;
                b.add(scaled, coordinate)?
            }
            None => coordinate,
        });
    }
    match index {
        Some(index) => Ok(index),
        None => constant(b, 0),
    }
}

/// What fills the line where a shard at the end has no neighbor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ends {
    /// Zeros, which is what a permute gives those that receive nothing: fine if that is the padding, or not looked at.
    Zero,
    /// The padding.
    Padding,
}

/// Puts padding into `laid` where there is no neighbor.
fn fill_ends(
    cx: &Halo,
    b: &mut Builder,
    laid: ValueId,
    shard: ValueId,
    padding: ValueId,
    line: &Line,
    mesh: &Mesh,
) -> Result<ValueId, Problem> {
    let size = b.ty(shard).dims()[line.dim];
    let shards = meshwork_mesh::axis_list::product(line.axes, mesh);
    let dims = b.ty(laid).dims().to_vec();
    let index = shard_of_device(cx, b, mesh, line.axes)?;
    let left = scalar(b, ElementType::I64, line.neighbors.left)?;
    let first = b.subtract(index, left)?;
    let extent = scalar(b, ElementType::I64, size)?;
    let start = b.multiply(first, extent)?;
    let start = b.broadcast_in_dim(start, dims.clone(), &[])?;
    let position = b.iota(Type::tensor(dims.clone(), ElementType::I64), line.dim as i64)?;
    let position = b.add(position, start)?;
    let zero = b.splat(dims.clone(), ElementType::I64, 0.0)?;
    let end = b.splat(dims.clone(), ElementType::I64, (shards * size) as f64)?;
    let (from_start, to_end) = (compare(b, "GE", position, zero)?, compare(b, "LT", position, end)?);
    let inside = b.and(from_start, to_end)?;
    let padding = b.broadcast_in_dim(padding, dims, &[])?;
    Ok(b.select(inside, laid, padding)?)
}

/// Where each shard finds what it needs in the line of its neighbors.
pub enum Place {
    /// At a place that grows by the same amount from shard to shard.
    Linear {
        /// By how much it grows.
        step: i64,
        /// Where the first shard finds it.
        base: i64,
    },
    /// At the place listed for each shard.
    Listed(Vec<i64>),
}

/// One dimension to exchange.
pub struct Line<'a> {
    /// Which dimension.
    pub dim: usize,
    /// The axes that split it, or what it becomes.
    pub axes: &'a [AxisRef],
    /// Neighbors to fetch.
    pub neighbors: &'a Neighbors,
    /// Padding at both ends of the line.
    pub edge: i64,
    /// Padding between elements.
    pub interior: i64,
    /// What fills the line where a shard at the end has no neighbor.
    pub ends: Ends,
    /// Where to cut.
    pub place: Place,
    /// How much to cut out.
    pub size: i64,
}

/// Lays neighbors side by side and cuts out what this shard needs.
pub fn exchange(
    cx: &mut Halo,
    b: &mut Builder,
    value: ValueId,
    padding: ValueId,
    line: &Line,
    mesh: &Mesh,
    inner: &Sharding,
) -> Result<ValueId, Problem> {
    let mut parts = vec![];
    for distance in (-line.neighbors.right..=line.neighbors.left).rev() {
        let part = match distance {
            0 => None,
            _ => send(cx, b, value, mesh, line.axes, distance)?,
        };
        // Axes that are not part of the exchange split the neighbors too.
        if let Some(part) = part.filter(|_| !inner.is_fully_replicated()) {
            set_sharding(b.module_mut(), part, inner.clone());
        }
        parts.push(part.unwrap_or(value));
    }
    let mut laid = b.concatenate(&parts, line.dim as i64)?;
    set_sharding(b.module_mut(), laid, inner.clone());
    if line.ends == Ends::Padding {
        laid = fill_ends(cx, b, laid, value, padding, line, mesh)?;
        set_sharding(b.module_mut(), laid, inner.clone());
    }
    let rank = b.ty(laid).dims().len();
    let along = |value: i64| (0..rank).map(|d| if d == line.dim { value } else { 0 }).collect::<Vec<i64>>();
    let padded = b.pad(laid, padding, &along(line.edge), &along(line.edge), &along(line.interior))?;
    set_sharding(b.module_mut(), padded, inner.clone());
    let index = shard_of_device(cx, b, mesh, line.axes)?;
    let (start, zero) = match &line.place {
        Place::Linear { step, base } => {
            let step = scalar(b, ElementType::I64, *step)?;
            let base = scalar(b, ElementType::I64, *base)?;
            let scaled = b.multiply(index, step)?;
            let start = b.add(scaled, base)?;
            let zero = scalar(b, ElementType::I64, 0)?;
            (b.maximum(start, zero)?, zero)
        }
        Place::Listed(places) => (look_up(b, index, places)?, scalar(b, ElementType::I64, 0)?),
    };
    let mut sizes = b.ty(padded).dims().to_vec();
    sizes[line.dim] = line.size;
    let starts: Vec<ValueId> = (0..rank).map(|d| if d == line.dim { start } else { zero }).collect();
    let cut = b.dynamic_slice(padded, &starts, &sizes)?;
    set_sharding(b.module_mut(), cut, inner.clone());
    Ok(cut)
}

/// The exchange for a shift.
pub fn shift_line<'a>(
    dim: usize,
    axes: &'a [AxisRef],
    shift: &Shift,
    neighbors: &'a Neighbors,
    ends: Ends,
) -> Line<'a> {
    let (from, edge) = (shift.from * shift.dilation, shift.to * shift.dilation);
    Line {
        dim,
        axes,
        neighbors,
        edge,
        interior: shift.dilation - 1,
        ends,
        place: Place::Linear { step: shift.to - from, base: neighbors.left * from + edge - shift.low },
        size: shift.to,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbors_of_shifts() {
        let shift = |low, to, extent| Shift { shards: 4, from: 2, to, low, dilation: 1, extent };
        assert!(!neighbors(&shift(0, 2, 8)).moves);
        let one = neighbors(&shift(1, 2, 7));
        assert_eq!((one.left, one.right, one.moves, one.is_near), (1, 0, true, true));
        let far = neighbors(&shift(-5, 2, 8));
        assert_eq!((far.left, far.right, far.is_near), (0, 3, false));
    }

    #[test]
    fn pairs_do_not_wrap() -> Result<(), meshwork_mesh::MeshError> {
        let mesh = Mesh::new([("a", 4), ("b", 2)])?;
        assert_eq!(pairs(&mesh, &["b".into()], 1), [0, 1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(pairs(&mesh, &[AxisRef::sub("a", 2, 2)], -1), [2, 0, 3, 1, 6, 4, 7, 5]);
        assert_eq!(pairs(&mesh, &["a".into()], 4), []);
        Ok(())
    }
}
