//! Simplifies reshards: of reshards, and those that another reshard has done already.
//!
//! A reshard can reuse another one of the same data even if different reshapes come before them: what counts
//! is the stride, in elements of the flat data, at which each axis cuts.

use std::collections::HashSet;
use std::sync::Arc;

use meshwork_ir::op::{MovementOp, SdyOp};
use meshwork_ir::transform::canonicalize::Pattern;
use meshwork_ir::{Attr, BlockId, Module, OpId, OpKind, OpSpec, TensorType, ValueId, ValueMap};
use meshwork_mesh::{AxisRef, Mesh, Sharding, ceil_div};
use meshwork_propagate::import::insert_after_value;
use meshwork_propagate::program::Meshes;

/// Reuse of reshards.
pub const CSE_PATTERNS: &[(OpKind, Pattern)] = &[(OpKind::Sdy(SdyOp::Reshard), reuse_other_reshard)];

/// Merging of reshards.
pub const PATTERNS: &[(OpKind, Pattern)] = &[(OpKind::Sdy(SdyOp::Reshard), reshard_of_reshard)];

fn target(module: &Module, reshard: OpId) -> Option<&Sharding> {
    module.op(reshard).attr("sharding")?.as_sharding()
}

/// Only the last of two reshards counts, if nothing else uses the first.
fn reshard_of_reshard(module: &mut Module, op: OpId) -> bool {
    let inner = module.def_op(module.op(op).operands()[0]);
    let Some(inner) = inner.filter(|&def| module.op(def).kind() == SdyOp::Reshard) else { return false };
    if module.value(module.result(inner)).uses().len() != 1 {
        return false;
    }
    let Some(sharding) = target(module, op).cloned() else { return false };
    let result = module.result(op);
    let spec = OpSpec::new(SdyOp::Reshard)
        .operands([module.op(inner).operands()[0]])
        .results([module.ty(result).clone()])
        .attr("sharding", Attr::Sharding(Arc::new(sharding)))
        .loc(module.op(op).loc.clone());
    let new = module.push_before(op, spec);
    module.replace_op(op, &[module.result(new)]);
    module.erase(inner);
    true
}

fn is_metadata(module: &Module, op: OpId) -> bool {
    matches!(module.op(op).kind(), OpKind::Movement(MovementOp::Reshape | MovementOp::Transpose))
}

fn reuse_other_reshard(module: &mut Module, op: OpId) -> bool {
    let input = module.op(op).operands()[0];
    // The ops between the data and the reshard, last first.
    let (mut root, mut path) = (input, vec![]);
    while let Some(def) = module.def_op(root).filter(|&def| is_metadata(module, def)) {
        path.push(def);
        root = module.op(def).operands()[0];
    }
    let Some(wanted) = target(module, op).and_then(|s| before_transposes(module, s, &path)) else { return false };
    let Some(found) = find_reshard(module, root, &wanted, op) else { return false };
    let mut value = module.result(found);
    if module.ty(value) != module.ty(root) {
        let spec = OpSpec::new(MovementOp::Reshape)
            .operands([value])
            .results([module.ty(root).clone()])
            .loc(module.op(op).loc.clone());
        value = insert(module, value, spec);
    }
    for def in path.into_iter().rev() {
        let mut map: ValueMap = [(module.op(def).operands()[0], value)].into_iter().collect();
        let copy = module.clone_op(def, &mut map);
        insert_after_value(module, value, copy);
        value = module.result(copy);
    }
    module.replace_op(op, &[value]);
    true
}

fn insert(module: &mut Module, after: ValueId, spec: OpSpec) -> ValueId {
    let op = module.create(spec);
    insert_after_value(module, after, op);
    module.result(op)
}

/// The placement before the transposes of `path`, last first, up to a reshape that changes the rank.
fn before_transposes(module: &Module, sharding: &Sharding, path: &[OpId]) -> Option<Sharding> {
    let mut sharding = sharding.clone();
    for &op in path {
        let rank = |v: ValueId| module.ty(v).rank();
        if module.op(op).kind() == MovementOp::Transpose {
            let permutation = module.op(op).i64s("permutation")?;
            let mut dims = sharding.dims.clone();
            for (dim, &to) in sharding.dims.iter().zip(&permutation) {
                *dims.get_mut(to as usize)? = dim.clone();
            }
            sharding.dims = dims;
        } else if rank(module.op(op).operands()[0]) != rank(module.result(op)) {
            break;
        }
    }
    Some(sharding)
}

/// A reshard of `root`, or of a reshape of it, before `current` that cuts the data as `wanted` does.
fn find_reshard(module: &Module, root: ValueId, wanted: &Sharding, current: OpId) -> Option<OpId> {
    let meshes = Meshes::of(module);
    let wanted_type = module.ty(module.result(current)).as_tensor()?;
    let block = module.op(current).parent()?;
    let (mut work, mut seen) = (vec![root], HashSet::new());
    while let Some(value) = work.pop() {
        if !seen.insert(value) {
            continue;
        }
        for user in module.value(value).uses().iter().rev().map(|u| u.op).filter(|&user| user != current) {
            match module.op(user).kind() {
                OpKind::Sdy(SdyOp::Reshard) => {
                    let ty = module.ty(module.result(user)).as_tensor()?;
                    let sharding = target(module, user)?;
                    if is_before(module, block, user, current)
                        && cuts_equal(&meshes, (sharding, ty), (wanted, wanted_type))
                    {
                        return Some(user);
                    }
                }
                OpKind::Movement(MovementOp::Reshape) => work.push(module.result(user)),
                _ => {}
            }
        }
    }
    None
}

fn is_before(module: &Module, block: BlockId, first: OpId, second: OpId) -> bool {
    if module.op(first).parent() != Some(block) {
        return false;
    }
    let mut at = module.prev_op(second);
    while let Some(op) = at {
        if op == first {
            return true;
        }
        at = module.prev_op(op);
    }
    false
}

/// Whether both cut the same flat data in the same way.
fn cuts_equal(meshes: &Meshes, first: (&Sharding, &TensorType), second: (&Sharding, &TensorType)) -> bool {
    if first == second {
        return true;
    }
    let ((a, a_type), (b, b_type)) = (first, second);
    if a.mesh != b.mesh || a.replicated != b.replicated || a_type.encoding.is_some() || b_type.encoding.is_some() {
        return false;
    }
    let Some(mesh) = meshes.mesh(a) else { return false };
    match (axis_strides(a, a_type, mesh), axis_strides(b, b_type, mesh)) {
        (Some(a), Some(b)) => a == b,
        _ => false,
    }
}

/// For each axis, smallest stride first, how many elements of the flat data are between neighbors along it.
///
/// Parts of an axis that continue one another are one. `None` if the sizes do not fit.
fn axis_strides(sharding: &Sharding, ty: &TensorType, mesh: &Mesh) -> Option<Vec<(AxisRef, i64)>> {
    if sharding.rank() != ty.rank() || !ty.is_static() {
        return None;
    }
    let mut strides: Vec<(AxisRef, i64)> = vec![];
    let mut inner = 1i64;
    for (dim, &size) in sharding.dims.iter().zip(&ty.dims).rev() {
        let mut stride = inner.checked_mul(ceil_div(size, dim.num_shards(mesh)))?;
        for axis in dim.axes.iter().rev() {
            strides.push((axis.clone(), stride));
            stride = stride.checked_mul(axis.size(mesh))?;
        }
        inner = inner.checked_mul(size)?;
    }
    strides.sort_by_key(|&(_, stride)| stride);
    let mut merged: Vec<(AxisRef, i64)> = vec![];
    for (axis, stride) in strides {
        if let Some((last, last_stride)) = merged.last_mut()
            && stride == *last_stride * last.size(mesh)
            && let Some(both) = axis.merge(last, mesh)
        {
            *last = both;
            continue;
        }
        merged.push((axis, stride));
    }
    Some(merged)
}
