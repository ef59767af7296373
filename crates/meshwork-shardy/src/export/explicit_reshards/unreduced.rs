//! Partial results: completed where they are used as complete ones, and made where partial ones are wanted.

use std::sync::Arc;

use meshwork_ir::op::SdyOp;
use meshwork_ir::{Attr, Module, OpId, OpKind, Use};
use meshwork_mesh::axis_list::{self, PrefixStatus};
use meshwork_mesh::{AxisRef, DimSharding, Mesh, Sharding};
use meshwork_propagate::program::{axes_without, sharding_of};

use super::Context;
use super::reductions::all_reduce;
use crate::export::cursor::Cursor;

/// Completes the operands of `op` over axes that its results are not partial over.
pub fn reduce_operands(cx: &Context, module: &mut Module, op: OpId) -> Result<(), String> {
    let data = module.op(op);
    let is_partial = |v| sharding_of(module, v).is_some_and(|s| !s.unreduced.is_empty());
    let Some((&first, rest)) = data.results().split_first() else {
        return match data.operands().iter().position(|&v| is_partial(v)) {
            Some(i) => Err(format!("operand {i} has partial results, but no result can be partial")),
            None => Ok(()),
        };
    };
    let target = sharding_of(module, first);
    let unreduced = |s: Option<&Sharding>| s.map_or(vec![], |s| s.unreduced.clone());
    if let Some(i) = rest.iter().position(|&v| unreduced(sharding_of(module, v).as_ref()) != unreduced(target.as_ref()))
    {
        return Err(format!("results 0 and {} are partial over different axes", i + 1));
    }
    let mut at = Cursor::Before(op);
    for operand in 0..data.operands().len() {
        complete(cx, module, &mut at, Use { op, operand: operand as u32 }, target.as_ref())?;
    }
    Ok(())
}

/// Completes the operand in `slot` over those of its unreduced axes that `target` lacks; returns its new placement.
pub fn complete(
    cx: &Context,
    module: &mut Module,
    at: &mut Cursor,
    slot: Use,
    target: Option<&Sharding>,
) -> Result<Option<Sharding>, String> {
    let value = module.op(slot.op).operands()[slot.operand as usize];
    let Some(source) = sharding_of(module, value) else { return Ok(None) };
    if source.unreduced.is_empty() {
        return Ok(Some(source));
    }
    let mesh = same_mesh(cx, &source, target)?;
    let axes = axes_without(&source.unreduced, target.map_or(&[], |t| &t.unreduced), mesh);
    if axes.is_empty() {
        return Ok(Some(source));
    }
    let kind = source.reduction;
    let left = axes_without(&source.unreduced, &axes, mesh);
    let out = source.with_unreduced(kind, left);
    let result = all_reduce(at, module, value, axes, kind, out.clone());
    module.set_operand(slot.op, slot.operand as usize, result);
    Ok(Some(out))
}

fn same_mesh<'c>(cx: &'c Context, source: &'c Sharding, target: Option<&Sharding>) -> Result<&'c Mesh, String> {
    let mesh = cx.meshes.mesh(source).ok_or("has a placement on an unknown mesh")?;
    match target.and_then(|t| cx.meshes.mesh(t)) {
        Some(other) if other != mesh => {
            Err(format!("goes between partial and complete results on different meshes {mesh} and {other}"))
        }
        _ => Ok(mesh),
    }
}

/// Turns the value in `slot` into partial results over those axes of `target` that it is not partial over yet: axes
/// that split it, where they are the minor-most of a dimension, and axes over which it is replicated. Returns its
/// placement then; `None` if there was nothing to do.
pub fn spread(
    cx: &Context,
    module: &mut Module,
    at: &mut Cursor,
    slot: Use,
    target: &Sharding,
) -> Result<Option<Sharding>, String> {
    let value = module.op(slot.op).operands()[slot.operand as usize];
    let Some(source) = sharding_of(module, value).filter(|_| !target.unreduced.is_empty()) else { return Ok(None) };
    let mesh = same_mesh(cx, &source, Some(target))?;
    let added = axes_without(&target.unreduced, &source.unreduced, mesh);
    if added.is_empty() {
        return Ok(None);
    }
    if let Some(axis) = axes_without(&source.unreduced, &target.unreduced, mesh).first() {
        return Err(format!("is partial over {axis}, its target over other axes: reshard in two steps"));
    }
    let plan = Spread::plan(&source, target, &added, mesh);
    let mut result = value;
    if plan.needs_reshard {
        let aligned = Sharding { dims: plan.dims.clone(), ..source.clone() };
        result = at.reshard(module, result, aligned);
    }
    let mut last = sharding_of(module, result);
    let from_copies = axes_without(&added, &plan.sharded, mesh);
    if !from_copies.is_empty() {
        let mut unreduced = [source.unreduced.clone(), from_copies.clone()].concat();
        axis_list::sort_and_merge(&mut unreduced, mesh);
        let out = Sharding {
            mesh: source.mesh.clone(),
            dims: plan.dims,
            replicated: target.replicated.clone(),
            unreduced,
            reduction: target.reduction,
        };
        let attrs = [("axes", Attr::Axes(from_copies.into())), ("out_sharding", Attr::Sharding(Arc::new(out.clone())))];
        result = at.insert_like(module, OpKind::Sdy(SdyOp::ReplicatedToUnreduced), result, attrs);
        last = Some(out);
    }
    if !plan.sharded.is_empty() {
        let attrs = [
            ("axes", Attr::AxesPerDim(plan.axes_per_dim.into())),
            ("out_sharding", Attr::Sharding(Arc::new(target.clone()))),
        ];
        result = at.insert_like(module, OpKind::Sdy(SdyOp::ShardedToUnreduced), result, attrs);
        last = Some(target.clone());
    }
    module.set_operand(slot.op, slot.operand as usize, result);
    Ok(last)
}

/// Which axes that split a tensor become unreduced.
struct Spread {
    axes_per_dim: Vec<Vec<AxisRef>>,
    /// All of them.
    sharded: Vec<AxisRef>,
    /// The dimensions before that: as in the source where axes become unreduced, else as in the target.
    dims: Vec<DimSharding>,
    needs_reshard: bool,
}

impl Spread {
    fn plan(source: &Sharding, target: &Sharding, added: &[AxisRef], mesh: &Mesh) -> Spread {
        let mut plan = Spread { axes_per_dim: vec![], sharded: vec![], dims: vec![], needs_reshard: false };
        for (from, to) in source.dims.iter().zip(&target.dims) {
            let (mut moved, mut dim) = (vec![], to.clone());
            match axis_list::prefix_status(&to.axes, &from.axes) {
                PrefixStatus::Equal => {}
                PrefixStatus::NotAPrefix => plan.needs_reshard = true,
                PrefixStatus::StrictPrefix => {
                    let rest = axis_list::strip_prefix(&from.axes, &to.axes, mesh).unwrap_or_default();
                    if axes_without(&rest, added, mesh).is_empty() {
                        plan.sharded.extend(rest.iter().cloned());
                        (moved, dim) = (rest, from.clone());
                    } else {
                        plan.needs_reshard = true;
                    }
                }
            }
            plan.axes_per_dim.push(moved);
            plan.dims.push(dim);
        }
        plan
    }
}

/// Replaces a reshard to partial results by the ops that make them; returns whether it did.
pub fn make_partial(cx: &Context, module: &mut Module, reshard: OpId) -> Result<bool, String> {
    let Some(target) = sharding_of(module, module.result(reshard)) else { return Ok(false) };
    let slot = Use { op: reshard, operand: 0 };
    if spread(cx, module, &mut Cursor::Before(reshard), slot, &target)?.is_none() {
        return Ok(false);
    }
    let value = module.op(reshard).operands()[0];
    module.replace_op(reshard, &[value]);
    Ok(true)
}
