//! Reshapes of unevenly split dimensions: a dimension that is split into several is exchanged with direct neighbors; all
//! others are gathered.

use meshwork_ir::build::Builder;
use meshwork_ir::{Module, OpId, Type};
use meshwork_mesh::{AxisRef, Mesh, Sharding, axis_list, ceil_div};
use meshwork_propagate::program::{axes_without, set_sharding, sharding_of};

use super::Halo;
use super::exchange::{Ends, Line, Neighbors, Place, exchange};
use super::pad::zero;
use super::reshape_groups::{Group, Uneven, groups, same_through_reshape};
use super::shards::{
    cut_high, even_dims, inner_dims, manual_computation, pad_high, return_from, whole_axes, without_axes,
};
use crate::export::cursor::Cursor;
use crate::export::rewrite::{Problem, tensor};

/// A reshape of split tensors.
struct Reshape {
    op: OpId,
    from: Sharding,
    to: Sharding,
    from_dims: Vec<i64>,
    to_dims: Vec<i64>,
    mesh: Mesh,
    groups: Vec<Group>,
}

/// Makes a reshape of uneven shards local.
pub fn resolve(cx: &mut Halo, module: &mut Module, op: OpId) -> Result<(), Problem> {
    let (operand, result) = (module.op(op).operands()[0], module.result(op));
    let (Some(from), Some(to)) = (sharding_of(module, operand), sharding_of(module, result)) else { return Ok(()) };
    let Some(mesh) = cx.meshes.mesh(&from).filter(|mesh| !mesh.is_maximal()) else { return Ok(()) };
    let mesh: Mesh = (**mesh).clone();
    let in_order = |s: &Sharding| {
        let mut axes = vec![];
        axis_list::extend(&mut axes, s.dim_axes().cloned(), &mesh);
        axes
    };
    if in_order(&from) != in_order(&to) {
        return Err(format!("goes from {from} to {to}, which split differently; insert explicit reshards first").into());
    }
    let (from_dims, to_dims) = (module.ty(operand).dims().to_vec(), module.ty(result).dims().to_vec());
    let groups = groups(&from_dims, &to_dims);
    let reshape = Reshape { op, from, to, from_dims, to_dims, mesh, groups };
    if reshape.is_local() {
        return Ok(());
    }
    if cx.exchanges
        && let Some(lines) = reshape.exchanges()
    {
        return reshape.exchange(cx, module, &lines);
    }
    reshape.gather(module);
    Ok(())
}

/// One dimension before that becomes several, with what its shards need.
struct Split<'a> {
    group: &'a Group,
    neighbors: Neighbors,
    /// Where each shard finds its elements in the line of its neighbors, edge excluded.
    places: Vec<i64>,
}

impl Reshape {
    fn is_equal(&self, uneven: Uneven) -> bool {
        same_through_reshape((&self.from, &self.from_dims), (&self.to, &self.to_dims), &self.mesh, uneven)
    }

    fn is_local(&self) -> bool {
        let passes = || self.groups.iter().all(Group::passes_through);
        self.is_equal(Uneven::RoundUp) || (self.is_equal(Uneven::Fraction) && passes())
    }

    fn is_uneven(&self, group: &Group) -> bool {
        let uneven = |s: &Sharding, dims: &[i64], i: usize| dims[i] % s.dims[i].num_shards(&self.mesh) != 0;
        group.from.clone().any(|i| uneven(&self.from, &self.from_dims, i))
            || group.to.clone().any(|i| uneven(&self.to, &self.to_dims, i))
    }

    fn axes(&self, group: &Group) -> Vec<AxisRef> {
        let before = group.from.clone().flat_map(|i| &self.from.dims[i].axes);
        before.chain(group.to.clone().flat_map(|i| &self.to.dims[i].axes)).cloned().collect()
    }

    fn even(&self) -> (Vec<i64>, Vec<i64>) {
        (even_dims(&self.from_dims, &self.from, &self.mesh), even_dims(&self.to_dims, &self.to, &self.mesh))
    }

    /// The dimensions to exchange; `None` if something else is uneven, or too far away.
    fn exchanges(&self) -> Option<Vec<Split<'_>>> {
        if !self.is_equal(Uneven::Fraction) {
            return None;
        }
        let (even_from, even_to) = self.even();
        let volume = |dims: &[i64], range: &std::ops::Range<usize>| dims[range.clone()].iter().product::<i64>();
        let mut splits = vec![];
        for group in self.groups.iter().filter(|g| !g.passes_through() && self.is_uneven(g)) {
            let (first, second) = (self.from_dims[group.from.start], self.to_dims[group.to.start]);
            let divides = first % second == 0 || second % first == 0;
            let same_volume = volume(&even_from, &group.from) == volume(&even_to, &group.to);
            if !group.splits() || group.has_short_dims() || !divides || !same_volume {
                return None;
            }
            let split = self.split(group);
            if split.neighbors.left > 1 || split.neighbors.right > 1 {
                return None;
            }
            splits.push(split);
        }
        (!splits.is_empty()).then_some(splits)
    }

    /// Which neighbors the shards of the dimension of `group` need.
    fn split<'a>(&self, group: &'a Group) -> Split<'a> {
        let dim = group.from.start;
        let shards = self.from.dims[dim].num_shards(&self.mesh);
        let (extent, tile) = (self.from_dims[dim], ceil_div(self.from_dims[dim], shards));
        let holder = |element: i64| (element < extent).then_some(element / tile);
        let mut needed = Neighbors { is_near: true, ..Neighbors::default() };
        let mut sources = vec![];
        for shard in 0..shards {
            let start = self.first_element(group, shard);
            let (first, last) = (holder(start), holder(start + tile - 1));
            for source in [first, last].into_iter().flatten() {
                needed.moves |= source != shard;
            }
            needed.left = needed.left.max(shard - first.unwrap_or(shard));
            needed.right = needed.right.max(last.unwrap_or(shard) - shard);
            sources.push(first.map_or((shard, 0), |source| (source, start - source * tile)));
        }
        let place =
            |(shard, (source, offset)): (usize, &(i64, i64))| (needed.left + source - shard as i64) * tile + offset;
        let places = sources.iter().enumerate().map(place).collect();
        Split { group, neighbors: needed, places }
    }

    /// The first element of the whole that shard `shard` of the dimensions after has.
    fn first_element(&self, group: &Group, mut shard: i64) -> i64 {
        let (mut first, mut stride) = (0, 1);
        for dim in group.to.clone().rev() {
            let shards = self.to.dims[dim].num_shards(&self.mesh);
            first += shard % shards * ceil_div(self.to_dims[dim], shards) * stride;
            shard /= shards;
            stride *= self.to_dims[dim];
        }
        first
    }

    fn exchange(&self, cx: &mut Halo, module: &mut Module, splits: &[Split]) -> Result<(), Problem> {
        let op = self.op;
        let uneven: Vec<AxisRef> =
            self.groups.iter().filter(|g| self.is_uneven(g)).flat_map(|g| self.axes(g)).collect();
        let manual = whole_axes(&uneven, &self.mesh);
        let inner = without_axes(&self.from, &manual);
        let (even_from, even_to) = self.even();
        let operand = module.op(op).operands()[0];
        let padding = zero(module, op, operand)?;
        let input = pad_high(module, op, operand, &even_from, &self.from, None)?;
        let result = tensor(module, module.result(op))?;
        let scalar = Sharding::fully_open(self.from.mesh.clone(), 0);
        let operands = [(input, self.from.clone()), (padding, scalar)];
        let out = (Type::from(result.with_dims(even_to.clone())), self.to.clone());
        let computation = manual_computation(module, op, &operands, out, &manual, &self.mesh)?;
        let loc = module.op(op).loc.clone();
        let mut b = Builder::at_end(module, computation.body);
        b.set_loc(loc);
        let (mut value, padding) = (computation.args[0], computation.args[1]);
        for split in splits.iter().filter(|s| s.neighbors.moves) {
            let dim = split.group.from.start;
            let size = even_from[dim] / self.from.dims[dim].num_shards(&self.mesh);
            let axes: Vec<AxisRef> =
                split.group.to.clone().flat_map(|i| self.to.dims[i].axes.iter().cloned()).collect();
            let line = Line {
                dim,
                axes: &axes,
                neighbors: &split.neighbors,
                edge: size,
                interior: 0,
                ends: Ends::Zero,
                place: Place::Listed(split.places.iter().map(|place| size + place).collect()),
                size,
            };
            value = exchange(cx, &mut b, value, padding, &line, &self.mesh, &inner)?;
        }
        let value = b.reshape(value, inner_dims(&even_to, &self.to, &manual, &self.mesh))?;
        set_sharding(module, value, without_axes(&self.to, &manual));
        return_from(module, computation.body, value, op);
        let cut = cut_high(module, op, computation.result, &self.to_dims, &self.to)?;
        module.replace_op(op, &[cut]);
        Ok(())
    }

    /// Gathers the dimensions of uneven groups before and splits them again after.
    fn gather(&self, module: &mut Module) {
        let uneven = self.groups.iter().filter(|g| !g.passes_through() && self.is_uneven(g));
        let gone: Vec<AxisRef> = uneven.flat_map(|g| self.axes(g)).collect();
        if gone.is_empty() {
            return;
        }
        let without = |sharding: &Sharding| {
            let mut left = sharding.clone();
            for dim in &mut left.dims {
                dim.axes = axes_without(&dim.axes, &gone, &self.mesh);
            }
            left
        };
        let (op, result) = (self.op, module.result(self.op));
        let operand = module.op(op).operands()[0];
        let gathered = Cursor::Before(op).reshard(module, operand, without(&self.from));
        module.set_operand(op, 0, gathered);
        set_sharding(module, result, without(&self.to));
        let back = Cursor::After(op).reshard(module, result, self.to.clone());
        module.replace_uses_if(result, back, |m, u| m.op(u.op).results().first() != Some(&back));
    }
}
