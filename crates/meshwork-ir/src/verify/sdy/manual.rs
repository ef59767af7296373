//! Manual computations: what is inside has the shape that one device sees.

use meshwork_mesh::{AxisRef, Sharding, axis_list};

use super::{Check, Context, fits, mesh_of, per_value};
use crate::{Attr, DYNAMIC, Dims, Module, OpId, TensorType, Type, ValueId};

/// The names of the manual axes of `op`.
pub(super) fn axis_names(module: &Module, op: OpId) -> Vec<&str> {
    match module.op(op).attr("manual_axes") {
        Some(Attr::Axes(axes)) => axes.iter().map(|a| &*a.name).collect(),
        Some(Attr::Array(names)) => names.iter().filter_map(Attr::as_str).collect(),
        _ => vec![],
    }
}

/// The innermost manual computation around the current place that binds `axis`.
pub(super) fn owner(cx: &Context, axis: &str) -> Option<OpId> {
    cx.manual.iter().rev().copied().find(|&op| axis_names(cx.module, op).contains(&axis))
}

/// `sharding` as seen inside the manual computation `op`.
pub(super) fn without_axes(module: &Module, op: OpId, sharding: &Sharding) -> Sharding {
    let manual = axis_names(module, op);
    let keep = |axis: &AxisRef| !manual.contains(&&*axis.name);
    let mut inner = sharding.clone();
    inner.dims.iter_mut().for_each(|d| d.axes.retain(keep));
    inner.replicated.retain(keep);
    inner.unreduced.retain(keep);
    inner
}

/// `sdy.manual_computation`.
pub(super) fn manual_computation(cx: &Context, op: OpId) -> Check {
    let module = cx.module;
    let manual = axis_names(module, op);
    for axis in &manual {
        if let Some(owner) = owner(cx, axis) {
            let mut e =
                cx.error(op, format_args!("operates on axis \"{axis}\", which a manual computation around it binds"));
            e.notes.push((cx.pos(owner), "the manual computation that binds it".into()));
            return Err(e);
        }
    }
    let list = |name| match module.op(op).attr(name) {
        Some(Attr::ShardingPerValue(list)) => &list[..],
        _ => &[],
    };
    let (ins, outs) = (list("in_shardings"), list("out_shardings"));
    let Some(block) = module.body_of(op, 0) else { return Ok(()) };
    values(cx, op, "operand", module.op(op).operands(), module.block(block).args(), ins)?;
    values(cx, op, "result", module.op(op).results(), module.returned(block), outs)?;
    let mut common = None;
    for sharding in ins.iter().chain(outs) {
        let mesh = mesh_of(cx, sharding).map_err(|e| cx.error(op, e))?;
        match common {
            None => common = Some(mesh),
            Some(first) if first.is_empty() => common = Some(mesh),
            Some(first) if !mesh.is_empty() && mesh != first && !manual.is_empty() => {
                let detail = format!("has shardings on different meshes, {first} and {mesh}");
                return Err(cx.error(op, detail));
            }
            Some(_) => {}
        }
    }
    if let Some(mesh) = common
        && let Some(axis) = manual.iter().find(|axis| mesh.axis_size(axis).is_none())
    {
        return Err(cx.error(op, format_args!("unknown manual axis: \"{axis}\"; the mesh is {mesh}")));
    }
    Ok(())
}

/// Checks that each inner value is what one device sees of the outer one along the manual axes.
fn values(cx: &Context, op: OpId, what: &str, outer: &[ValueId], inner: &[ValueId], list: &[Sharding]) -> Check {
    let types = |values: &[ValueId]| values.iter().map(|&v| cx.module.ty(v)).collect::<Vec<_>>();
    let (outer, inner) = (types(outer), types(inner));
    if outer.is_empty() && inner.is_empty() && list.is_empty() {
        return Ok(());
    }
    per_value(cx, op, what, &outer, list)?;
    if outer.len() != inner.len() {
        return Err(cx.error(op, format_args!("has {} {what}s, but its body has {}", outer.len(), inner.len())));
    }
    for (i, ((global, local), sharding)) in outer.iter().zip(&inner).zip(list).enumerate() {
        fits(cx, sharding, global).map_err(|e| cx.error(op, e))?;
        let Type::Tensor(global) = global else { continue };
        let want = Type::from(local_type(cx, op, what, i, global, sharding)?);
        if want != **local {
            let detail = format!(
                "{what} {i} is {global} with sharding {sharding}, so the body should have {want}, but has {local}"
            );
            return Err(cx.error(op, detail));
        }
    }
    Ok(())
}

fn local_type(
    cx: &Context,
    op: OpId,
    what: &str,
    index: usize,
    global: &TensorType,
    sharding: &Sharding,
) -> Result<TensorType, crate::Diagnostic> {
    let manual = axis_names(cx.module, op);
    let mesh = sharding.resolve_mesh(|name| cx.meshes.get(name).copied()).map_err(|e| cx.error(op, e))?;
    let mut dims = Dims::new();
    for (d, (&size, entry)) in global.dims.iter().zip(&sharding.dims).enumerate() {
        let is_manual = |axis: &&AxisRef| manual.contains(&&*axis.name);
        let free = entry.axes.iter().position(|a| !is_manual(&a)).unwrap_or(entry.axes.len());
        if let Some(late) = entry.axes[free..].iter().find(is_manual) {
            let detail = format!(
                "{what} {index} has manual axis {late} after free axis {} in dimension {d}; manual axes come first",
                entry.axes[free]
            );
            return Err(cx.error(op, detail));
        }
        let parts = axis_list::product(&entry.axes[..free], mesh);
        if size != DYNAMIC && size % parts.max(1) != 0 {
            let detail =
                format!("{what} {index} has size {size} in dimension {d}, which the manual axes split in {parts}");
            return Err(cx.error(op, detail));
        }
        dims.push(if size == DYNAMIC { DYNAMIC } else { size / parts.max(1) });
    }
    Ok(TensorType::new(if sharding.dims.is_empty() { global.dims.clone() } else { dims }, global.elem))
}
