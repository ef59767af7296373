//! Random placements for any program: on arguments, results and intermediate values.

use std::sync::Arc;

use meshwork_ir::op::{ControlOp, SdyOp};
use meshwork_ir::{Attr, BlockId, ElementClass, ElementType, Module, OpId, OpKind, OpSpec, Type, ValueId, Walk};
use meshwork_mesh::{AxisRef, DimSharding, Mesh, Reduction, Sharding, axis_list};
use meshwork_partition::orders::relabel;

use crate::Numbers;

/// The meshes that programs are placed on.
const MESHES: &[&[(&str, i64)]] = &[
    &[("x", 2)],
    &[("x", 3)],
    &[("x", 4)],
    &[("x", 6)],
    &[("x", 8)],
    &[("x", 2), ("y", 2)],
    &[("x", 2), ("y", 3)],
    &[("x", 4), ("y", 2)],
    &[("x", 6), ("y", 2)],
    &[("x", 2), ("y", 2), ("z", 2)],
];

/// A random mesh, sometimes with its devices in another order.
pub fn mesh(numbers: &mut Numbers) -> Mesh {
    let axes = numbers.pick(MESHES).iter().copied();
    let mesh = Mesh::new(axes).expect("axes with names and sizes");
    if numbers.one_in(5) { reordered(numbers, &mesh) } else { mesh }
}

fn reordered(numbers: &mut Numbers, mesh: &Mesh) -> Mesh {
    let order = numbers.order(mesh.device_count() as usize).into_iter().map(|d| d as i64).collect();
    mesh.clone().with_device_ids(order).map_or_else(|_| mesh.clone(), Mesh::without_identity_ids)
}

/// Defines `mesh` as `name` at the start of `module`.
pub fn define(module: &mut Module, name: &str, mesh: &Mesh) {
    let spec = OpSpec::new(SdyOp::Mesh).attr("sym_name", Attr::str(name)).attr("mesh", Attr::Mesh(mesh.clone().into()));
    let op = module.create(spec);
    module.prepend(module.body(), op);
}

/// Places arguments, results and some of the values between of the entry function on `mesh`, which `module` calls
/// `name`.
pub fn place(numbers: &mut Numbers, module: &mut Module, name: &str, mesh: &Mesh) {
    let Some(entry) = module.entry() else { return };
    let other = numbers.one_in(10).then(|| reordered(numbers, mesh)).filter(|other| other != mesh);
    if let Some(other) = &other {
        define(module, "other_order", other);
    }
    let ty = module.func_type(entry);
    let all: Vec<usize> = (0..mesh.axes().len()).collect();
    for (i, ty) in ty.inputs.iter().enumerate().filter(|(_, ty)| ty.as_tensor().is_some()) {
        let name = if other.is_some() && numbers.one_in(3) { "other_order" } else { name };
        let chosen = (!numbers.one_in(8))
            .then(|| sharding(numbers, name, mesh, &all, ty, &[Reduction::Sum, Reduction::Max, Reduction::Min]));
        module.set_arg_attr(entry, i, "sdy.sharding", chosen.map(|s| Attr::Sharding(s.into())));
    }
    for (i, ty) in ty.results.iter().enumerate().filter(|(_, ty)| ty.as_tensor().is_some()) {
        let name = if other.is_some() && numbers.one_in(3) { "other_order" } else { name };
        let chosen = numbers
            .one_in(2)
            .then(|| sharding(numbers, name, mesh, &all, ty, &[Reduction::Sum, Reduction::Max, Reduction::Min]));
        module.set_res_attr(entry, i, "sdy.sharding", chosen.map(|s| Attr::Sharding(s.into())));
    }
    let values: Vec<(OpId, ValueId)> = placeable(module);
    for (op, value) in values {
        if !numbers.one_in(6) {
            continue;
        }
        let manual = manual_axes(module, op);
        let free: Vec<usize> = all.iter().copied().filter(|&a| !manual.contains(&mesh.axes()[a].name)).collect();
        // A constraint takes a value apart into summands only.
        let chosen = sharding(numbers, name, mesh, &free, module.ty(value), &[Reduction::Sum]);
        constrain(module, op, value, chosen);
    }
    if let Some(other) = &other {
        let ops = module
            .all_ops(Walk::PreOrder)
            .into_iter()
            .filter(|&op| module.op(op).kind() == SdyOp::ManualComputation && manual_axes(module, op).is_empty());
        for op in ops.collect::<Vec<_>>() {
            if numbers.one_in(2) {
                relabel(module, op, (name, mesh), ("other_order", other));
            }
        }
    }
}

/// Asks for `value`, a result of `op`, to be in this placement.
fn constrain(module: &mut Module, op: OpId, value: ValueId, sharding: Sharding) {
    let spec = OpSpec::new(SdyOp::ShardingConstraint)
        .operands([value])
        .results([module.ty(value).clone()])
        .attr("sharding", Attr::Sharding(sharding.into()));
    let constraint = module.push_after(op, spec);
    let placed = module.result(constraint);
    module.replace_uses_if(value, placed, |_, u| u.op != constraint);
}

/// Tensors that operations of functions, loops, branches and manual computations make, but not those of other bodies.
fn placeable(module: &Module) -> Vec<(OpId, ValueId)> {
    let in_flow = |block: BlockId| {
        module.block_parent_op(block).is_some_and(|parent| {
            matches!(
                module.op(parent).kind(),
                OpKind::Control(ControlOp::Func | ControlOp::While | ControlOp::Case | ControlOp::If)
                    | OpKind::Sdy(SdyOp::ManualComputation)
            )
        })
    };
    // What a manual computation calls must not use its axes: then only the entry is placed.
    let ops = module.all_ops(Walk::PreOrder);
    let has_manual = ops.iter().any(|&op| module.op(op).kind() == SdyOp::ManualComputation);
    let in_entry = |op: OpId| module.entry().is_some_and(|entry| module.is_inside(op, entry));
    let ops = ops.into_iter().filter(|&op| !has_manual || in_entry(op));
    let ops = ops.filter(|&op| module.op(op).parent().is_some_and(in_flow) && !module.op(op).kind().is_terminator());
    ops.flat_map(|op| module.op(op).results().iter().map(move |&r| (op, r)))
        .filter(|&(_, r)| module.ty(r).as_tensor().is_some())
        .collect()
}

/// The axes that the manual computations around `op` hold.
fn manual_axes(module: &Module, op: OpId) -> Vec<Arc<str>> {
    let mut out = vec![];
    let mut at = module.parent_op(op);
    while let Some(parent) = at {
        if let Some(Attr::Axes(axes)) = module.op(parent).attr("manual_axes") {
            out.extend(axes.iter().map(|a| a.name.clone()));
        }
        at = module.parent_op(parent);
    }
    out
}

/// A random sharding of a value of type `ty` by some of the axes `usable`, which may be cut. Sometimes the value is in
/// parts, to be combined in one of the ways `combined`.
fn sharding(
    numbers: &mut Numbers,
    name: &str,
    mesh: &Mesh,
    usable: &[usize],
    ty: &Type,
    combined: &[Reduction],
) -> Sharding {
    let rank = ty.dims().len();
    let reduction = match ty.elem().map(ElementType::class) {
        Some(ElementClass::Complex) => Some(Reduction::Sum),
        Some(ElementClass::Float | ElementClass::Signed | ElementClass::Unsigned) => Some(*numbers.pick(combined)),
        Some(ElementClass::Bool) | None => None,
    };
    let reduction = reduction.filter(|_| numbers.one_in(8));
    let mut pieces: Vec<AxisRef> = vec![];
    for &a in usable {
        let axis = &mesh.axes()[a];
        let cuts: Vec<i64> = (2..axis.size).filter(|p| axis.size % p == 0).collect();
        if cuts.is_empty() || !numbers.one_in(3) {
            pieces.push(AxisRef::full(axis.name.clone()));
        } else {
            let cut = *numbers.pick(&cuts);
            pieces.push(AxisRef::sub(axis.name.clone(), 1, cut));
            pieces.push(AxisRef::sub(axis.name.clone(), cut, axis.size / cut));
        }
    }
    let mut dims: Vec<Vec<AxisRef>> = vec![vec![]; rank];
    let (mut replicated, mut unreduced) = (vec![], vec![]);
    for i in numbers.order(pieces.len()) {
        if rank > 0 && !numbers.one_in(3) {
            let d = numbers.below(rank);
            axis_list::push(&mut dims[d], pieces[i].clone(), mesh);
        } else if reduction.is_some() && numbers.one_in(2) {
            unreduced.push(pieces[i].clone());
        } else if numbers.one_in(6) {
            replicated.push(pieces[i].clone());
        }
    }
    axis_list::sort_and_merge(&mut replicated, mesh);
    axis_list::sort_and_merge(&mut unreduced, mesh);
    let dims = dims.into_iter().map(|axes| {
        let is_closed = !numbers.one_in(3);
        let priority = (!(axes.is_empty() && is_closed) && numbers.one_in(8)).then(|| numbers.between(0, 2));
        DimSharding { axes, is_closed, priority }
    });
    let dims: Vec<DimSharding> = dims.collect();
    let reduction = reduction.filter(|_| !unreduced.is_empty()).unwrap_or_default();
    Sharding { replicated, unreduced, reduction, ..Sharding::new(name, dims) }
}
