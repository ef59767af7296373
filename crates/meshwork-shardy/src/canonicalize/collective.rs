//! Simplifies collectives that do nothing, or undo or continue one another.

use std::sync::Arc;

use meshwork_ir::attr::AllToAllParam;
use meshwork_ir::op::SdyOp;
use meshwork_ir::transform::canonicalize::Pattern;
use meshwork_ir::{Attr, Module, OpId, OpKind, OpSpec, ValueId};
use meshwork_mesh::{AxisRef, DimSharding, Sharding, axis_list};
use meshwork_propagate::program::{Meshes, sharding_of};

/// The patterns of this file.
pub const PATTERNS: &[(OpKind, Pattern)] = &[
    (OpKind::Sdy(SdyOp::AllGather), drop_without_axes),
    (OpKind::Sdy(SdyOp::AllSlice), slice_of_gather),
    (OpKind::Sdy(SdyOp::AllSlice), drop_without_axes),
    (OpKind::Sdy(SdyOp::AllSlice), slice_of_reduce),
    (OpKind::Sdy(SdyOp::AllReduce), drop_without_axes),
    (OpKind::Sdy(SdyOp::AllReduce), reduce_of_replicated),
    (OpKind::Sdy(SdyOp::AllReduce), reduce_of_sharded),
    (OpKind::Sdy(SdyOp::AllToAll), fuse_all_to_alls),
    (OpKind::Sdy(SdyOp::AllToAll), drop_unused),
    (OpKind::Sdy(SdyOp::CollectivePermute), drop_same_placement),
    (OpKind::Sdy(SdyOp::ReduceScatter), drop_without_axes),
];

fn input(module: &Module, op: OpId) -> ValueId {
    module.op(op).operands()[0]
}

/// The op that makes the operand of `op`, if it is of this kind.
fn input_of_kind(module: &Module, op: OpId, kind: OpKind) -> Option<OpId> {
    module.def_op(input(module, op)).filter(|&def| module.op(def).kind() == kind)
}

fn axes_per_dim<'m>(module: &'m Module, op: OpId, name: &str) -> &'m [Vec<AxisRef>] {
    match module.op(op).attr(name) {
        Some(Attr::AxesPerDim(axes)) => axes,
        _ => &[],
    }
}

fn axes<'m>(module: &'m Module, op: OpId, name: &str) -> &'m [AxisRef] {
    match module.op(op).attr(name) {
        Some(Attr::Axes(axes)) => axes,
        _ => &[],
    }
}

fn out_sharding(module: &Module, op: OpId) -> Option<&Sharding> {
    module.op(op).attr("out_sharding")?.as_sharding()
}

fn drop_without_axes(module: &mut Module, op: OpId) -> bool {
    let is_empty = match module.op(op).kind() {
        OpKind::Sdy(SdyOp::AllGather) => axes_per_dim(module, op, "gathering_axes").iter().all(Vec::is_empty),
        OpKind::Sdy(SdyOp::AllSlice) => axes_per_dim(module, op, "slicing_axes").iter().all(Vec::is_empty),
        OpKind::Sdy(SdyOp::ReduceScatter) => axes_per_dim(module, op, "reduce_scatter_axes").iter().all(Vec::is_empty),
        OpKind::Sdy(SdyOp::AllReduce) => axes(module, op, "reduction_axes").is_empty(),
        _ => false,
    };
    if is_empty {
        module.replace_op(op, &[input(module, op)]);
    }
    is_empty
}

/// Slicing what was gathered gives it back.
fn slice_of_gather(module: &mut Module, op: OpId) -> bool {
    let Some(gather) = input_of_kind(module, op, OpKind::Sdy(SdyOp::AllGather)) else { return false };
    let same = axes_per_dim(module, gather, "gathering_axes") == axes_per_dim(module, op, "slicing_axes");
    if same {
        module.replace_op(op, &[input(module, gather)]);
    }
    same
}

/// Reducing over axes that the op before only declared partial gives back what it had.
fn reduce_of_replicated(module: &mut Module, op: OpId) -> bool {
    let Some(partial) = input_of_kind(module, op, OpKind::Sdy(SdyOp::ReplicatedToUnreduced)) else { return false };
    let same = axes(module, partial, "axes") == axes(module, op, "reduction_axes");
    if same {
        module.replace_op(op, &[input(module, partial)]);
    }
    same
}

/// Summing shards padded with zeros is gathering them.
fn reduce_of_sharded(module: &mut Module, op: OpId) -> bool {
    let Some(partial) = input_of_kind(module, op, OpKind::Sdy(SdyOp::ShardedToUnreduced)) else { return false };
    let meshes = Meshes::of(module);
    let Some(mesh) = out_sharding(module, partial).and_then(|s| meshes.mesh(s)) else { return false };
    let per_dim = axes_per_dim(module, partial, "axes").to_vec();
    let mut all: Vec<AxisRef> = per_dim.iter().flatten().cloned().collect();
    axis_list::sort_and_merge(&mut all, mesh);
    let Some(out) = out_sharding(module, op).cloned() else { return false };
    if all != axes(module, op, "reduction_axes") {
        return false;
    }
    let spec = OpSpec::new(SdyOp::AllGather)
        .operands([input(module, partial)])
        .results([module.ty(module.result(op)).clone()])
        .attr("gathering_axes", Attr::AxesPerDim(per_dim.into()))
        .attr("out_sharding", Attr::Sharding(Arc::new(out)))
        .loc(module.op(op).loc.clone());
    let gather = module.push_before(op, spec);
    module.replace_op(op, &[module.result(gather)]);
    true
}

fn drop_same_placement(module: &mut Module, op: OpId) -> bool {
    let value = input(module, op);
    let (Some(from), Some(to)) = (sharding_of(module, value), out_sharding(module, op)) else { return false };
    let same = from.is_equivalent(to);
    if same {
        module.replace_op(op, &[value]);
    }
    same
}

fn drop_unused(module: &mut Module, op: OpId) -> bool {
    let unused = module.value(module.result(op)).uses().is_empty();
    if unused {
        module.erase(op);
    }
    unused
}

/// Two all-to-alls over different dimensions are one.
fn fuse_all_to_alls(module: &mut Module, op: OpId) -> bool {
    let Some(inner) = input_of_kind(module, op, OpKind::Sdy(SdyOp::AllToAll)) else { return false };
    if module.value(module.result(inner)).uses().len() != 1 {
        return false;
    }
    let params = |op| match module.op(op).attr("params") {
        Some(Attr::AllToAll(params)) => params.to_vec(),
        _ => vec![],
    };
    let mut all: Vec<AllToAllParam> = [params(inner), params(op)].concat();
    let mut dims: Vec<i64> = all.iter().flat_map(|p| [p.src, p.tgt]).collect();
    dims.sort_unstable();
    if dims.windows(2).any(|pair| pair[0] == pair[1]) {
        return false;
    }
    all.sort_by_key(|p| p.src);
    let tensor = input(module, inner);
    module.op_mut(op).attrs.set("params", Attr::AllToAll(all.into()));
    module.set_operand(op, 0, tensor);
    module.erase(inner);
    true
}

/// What becomes of a slice of an all-reduce.
struct Fusion {
    scatter_axes: Vec<Vec<AxisRef>>,
    /// What is sliced besides; all empty if nothing.
    slice_axes: Vec<Vec<AxisRef>>,
    scatter_sharding: Sharding,
}

/// Slicing along the axes of an all-reduce before it is a reduce-scatter, if nothing else uses the whole.
fn slice_of_reduce(module: &mut Module, slice: OpId) -> bool {
    let Some(reduce) = input_of_kind(module, slice, OpKind::Sdy(SdyOp::AllReduce)) else { return false };
    let reduced = module.result(reduce);
    let users: Vec<OpId> = module.value(reduced).uses().iter().map(|u| u.op).collect();
    let wanted = axes_per_dim(module, slice, "slicing_axes");
    let is_same_slice = |&user: &OpId| {
        module.op(user).kind() == SdyOp::AllSlice && axes_per_dim(module, user, "slicing_axes") == wanted
    };
    // The first slice of the block serves all, so that its result is defined before the others.
    let block = module.op(slice).parent();
    let is_first =
        users.iter().all(|&u| u == slice || module.op(u).parent() != block || !comes_before(module, u, slice));
    if !users.iter().all(is_same_slice) || !is_first {
        return false;
    }
    let Some(fusion) = fuse(module, reduce, slice) else { return false };
    let scatter_result = module.ty(reduced).clone();
    let mut spec = OpSpec::new(SdyOp::ReduceScatter)
        .operands([input(module, reduce)])
        .results([scatter_result.clone()])
        .attr("reduce_scatter_axes", Attr::AxesPerDim(fusion.scatter_axes.into()))
        .attr("out_sharding", Attr::Sharding(Arc::new(fusion.scatter_sharding)))
        .loc(module.op(reduce).loc.clone());
    if let Some(kind) = module.op(reduce).attr("reduction_op") {
        spec = spec.attr("reduction_op", kind.clone());
    }
    let scatter = module.push_before(slice, spec);
    let mut result = module.result(scatter);
    if !fusion.slice_axes.iter().all(Vec::is_empty) {
        let mut spec = OpSpec::new(SdyOp::AllSlice)
            .operands([result])
            .results([scatter_result])
            .attr("slicing_axes", Attr::AxesPerDim(fusion.slice_axes.into()))
            .loc(module.op(slice).loc.clone());
        if let Some(out) = module.op(slice).attr("out_sharding") {
            spec = spec.attr("out_sharding", out.clone());
        }
        let rest = module.push_before(slice, spec);
        result = module.result(rest);
    }
    users.into_iter().for_each(|user| module.replace_op(user, &[result]));
    module.erase(reduce);
    true
}

fn comes_before(module: &Module, first: OpId, second: OpId) -> bool {
    let mut at = module.next_op(first);
    while let Some(op) = at {
        if op == second {
            return true;
        }
        at = module.next_op(op);
    }
    false
}

/// The axes of the reduction are taken from the front of the sliced axes; all must be found.
fn fuse(module: &Module, reduce: OpId, slice: OpId) -> Option<Fusion> {
    let meshes = Meshes::of(module);
    let reduce_out = out_sharding(module, reduce)?;
    let slice_out = out_sharding(module, slice)?;
    let mesh = meshes.mesh(reduce_out)?;
    let mut left: Vec<&AxisRef> = axes(module, reduce, "reduction_axes").iter().collect();
    let (mut scatter_axes, mut slice_axes) = (vec![], vec![]);
    for dim_axes in axes_per_dim(module, slice, "slicing_axes") {
        let mut taken = 0;
        while let Some(found) = dim_axes.get(taken).and_then(|axis| left.iter().position(|&l| l == axis)) {
            left.remove(found);
            taken += 1;
        }
        scatter_axes.push(dim_axes[..taken].to_vec());
        slice_axes.push(dim_axes[taken..].to_vec());
    }
    if !left.is_empty() {
        return None;
    }
    let tensor = input(module, reduce);
    let closed = || Sharding::fully_closed(&reduce_out.mesh, scatter_axes.len());
    let before = sharding_of(module, tensor).unwrap_or_else(closed);
    let dims = before.dims.iter().zip(&scatter_axes).map(|(dim, more)| {
        let mut axes = dim.axes.clone();
        axis_list::extend(&mut axes, more.iter().cloned(), mesh);
        DimSharding::closed(axes)
    });
    let scatter_sharding = Sharding { dims: dims.collect(), mesh: reduce_out.mesh.clone(), ..slice_out.clone() };
    Some(Fusion { scatter_axes, slice_axes, scatter_sharding })
}
