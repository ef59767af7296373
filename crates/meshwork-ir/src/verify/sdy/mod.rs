//! Placements: shardings fit their mesh and value, and operations that move between them say what they do.

mod collective;
mod edges;
mod manual;
mod rule;

use std::borrow::Cow;

use meshwork_mesh::{Mesh, MeshRef, Sharding, ShardingError, axis_list, verify as rules};

use super::{Check, Context};
use crate::op::{ControlOp, SdyOp};
use crate::{Attr, Def, Module, OpId, OpKind, Type, ValueId};

/// Checks the placements that `op` declares.
pub(super) fn check(cx: &Context, op: OpId) -> Check {
    let data = cx.module.op(op);
    if !data.attrs.is_empty() {
        attached(cx, op)?;
    }
    match data.kind() {
        OpKind::Control(ControlOp::Func) => func_values(cx, op),
        OpKind::Sdy(SdyOp::Mesh) => mesh(cx, op),
        OpKind::Sdy(SdyOp::ShardingConstraint | SdyOp::Reshard) => constraint(cx, op),
        OpKind::Sdy(SdyOp::DataFlowEdge | SdyOp::FuncDataFlowEdge) => edges::data_flow_edge(cx, op),
        OpKind::Sdy(SdyOp::ManualComputation) => manual::manual_computation(cx, op),
        OpKind::Sdy(SdyOp::NamedComputation) => named_computation(cx, op),
        OpKind::Sdy(SdyOp::PropagationBarrier) => barrier(cx, op),
        OpKind::Sdy(SdyOp::ShardingGroup) => match data.int("group_id") {
            Some(id) if id >= 0 => Ok(()),
            _ => Err(cx.error(op, "needs attribute 'group_id': an integer from 0")),
        },
        OpKind::Sdy(op_kind) if op_kind.is_collective() => collective::check(cx, op),
        _ => Ok(()),
    }
}

/// Attributes of the `sdy` dialect on operations of any dialect.
fn attached(cx: &Context, op: OpId) -> Check {
    let data = cx.module.op(op);
    for (name, attr) in data.attrs.iter().filter(|(name, _)| name.starts_with("sdy.")) {
        match (name.as_str(), attr) {
            ("sdy.sharding", Attr::ShardingPerValue(list)) => {
                let types: Vec<&Type> = data.results().iter().map(|&v| cx.module.ty(v)).collect();
                per_value(cx, op, "result", &types, list)?;
            }
            ("sdy.sharding", other) => {
                let detail = format!("attribute 'sdy.sharding' must be #sdy.sharding_per_value<...>, but is {other}");
                return Err(cx.error(op, detail));
            }
            ("sdy.sharding_rule", Attr::ShardingRule(r)) => rule::check(cx, op, r)?,
            ("sdy.sharding_rule", other) => {
                let detail =
                    format!("attribute 'sdy.sharding_rule' must be #sdy.op_sharding_rule<...>, but is {other}");
                return Err(cx.error(op, detail));
            }
            ("sdy.propagation_edges", edges) => edges::propagation_edges(cx, op, edges)?,
            ("sdy.result_propagation_edges" | "sdy.block_arg_propagation_edges", list) => {
                edges::edge_lists(cx, op, name, list)?;
            }
            _ => {}
        }
    }
    Ok(())
}

fn mesh(cx: &Context, op: OpId) -> Check {
    match cx.module.op(op).attr("mesh") {
        Some(Attr::Mesh(m)) => m.verify().map_err(|e| cx.error(op, e)),
        _ => Err(cx.error(op, "needs attribute 'mesh': #sdy.mesh<...>")),
    }
}

/// Placements of the arguments and results of a function.
fn func_values(cx: &Context, op: OpId) -> Check {
    let Some(Attr::Type(Type::Function(ty))) = cx.module.op(op).attr("function_type") else { return Ok(()) };
    for (kind, list, types) in [("arg", "arg_attrs", &ty.inputs), ("result", "res_attrs", &ty.results)] {
        let slots = cx.module.op(op).attr(list).and_then(Attr::as_array).unwrap_or(&[]);
        for (i, (slot, ty)) in slots.iter().zip(types).enumerate() {
            let Attr::Dict(dict) = slot else { continue };
            match dict.get("sdy.sharding") {
                None => {}
                Some(Attr::Sharding(s)) => {
                    fits(cx, s, ty).map_err(|e| cx.error(op, format_args!("{kind} {i} - {e}")))?;
                }
                Some(other) => {
                    let detail =
                        format!("{kind} {i} - attribute 'sdy.sharding' must be #sdy.sharding<...>, but is {other}");
                    return Err(cx.error(op, detail));
                }
            }
        }
    }
    Ok(())
}

/// The mesh of a sharding.
fn mesh_of<'m>(cx: &Context<'m>, sharding: &'m Sharding) -> Result<&'m Mesh, ShardingError> {
    let mesh = sharding.resolve_mesh(|name| cx.meshes.get(name).copied())?;
    if let MeshRef::Inline(_) = sharding.mesh {
        mesh.verify()?;
    }
    Ok(mesh)
}

/// Checks that `sharding` fits its mesh, a value of type `ty`, and the manual computations around it.
fn fits(cx: &Context, sharding: &Sharding, ty: &Type) -> Result<(), ShardingError> {
    let mesh = sharding.resolve_mesh(|name| cx.meshes.get(name).copied())?;
    if let MeshRef::Inline(_) = sharding.mesh {
        mesh.verify()?;
    }
    match ty {
        Type::Tensor(t) => rules::verify_sharding(sharding, mesh, Some(t.rank()))?,
        // A tuple of one tensor is placed as that tensor.
        Type::Tuple(parts) => match &parts[..] {
            [Type::Tensor(t)] => rules::verify_sharding(sharding, mesh, Some(t.rank()))?,
            _ => rules::verify_non_shaped(sharding, mesh, &ty.to_string())?,
        },
        _ => rules::verify_non_shaped(sharding, mesh, &ty.to_string())?,
    }
    if cx.manual.is_empty() {
        return Ok(());
    }
    let names: Vec<&str> = cx.manual.iter().flat_map(|&op| manual::axis_names(cx.module, op)).collect();
    rules::verify_not_manual(sharding, &names)
}

/// Checks one sharding per value.
fn per_value(cx: &Context, op: OpId, what: &str, types: &[&Type], list: &[Sharding]) -> Check {
    // An operation without results may still say on which single device it runs.
    if let (true, [only]) = (types.is_empty(), list) {
        let mesh = mesh_of(cx, only).map_err(|e| cx.error(op, format_args!("{what} - {e}")))?;
        if mesh.is_maximal() || only.is_fully_replicated() {
            let bare = only.dims.is_empty() && only.replicated.is_empty() && only.unreduced.is_empty();
            return if bare {
                Ok(())
            } else {
                Err(cx
                    .error(op, format_args!("{what} - sharding {only} says more than a device, but there is no value")))
            };
        }
    }
    if types.len() != list.len() {
        return Err(
            cx.error(op, format_args!("{what} shardings are {}, but there are {} values", list.len(), types.len()))
        );
    }
    for (i, (ty, sharding)) in types.iter().zip(list).enumerate() {
        fits(cx, sharding, ty).map_err(|e| {
            let mut error = cx.error(op, format_args!("{what} {i} - {e}"));
            if let ShardingError::ManualAxis { axis } = &e
                && let Some(owner) = manual::owner(cx, axis)
            {
                error.notes.push((cx.pos(owner), "the manual computation that binds it".into()));
            }
            error
        })?;
    }
    Ok(())
}

/// The sharding in attribute `name` of `op`.
fn sharding_attr<'m>(cx: &Context<'m>, op: OpId, name: &str) -> Result<&'m Sharding, crate::Diagnostic> {
    match cx.module.op(op).attr(name) {
        Some(Attr::Sharding(s)) => Ok(s),
        _ => Err(cx.error(op, format_args!("needs attribute '{name}': #sdy.sharding<...>"))),
    }
}

/// `sharding_constraint` and `reshard`.
fn constraint(cx: &Context, op: OpId) -> Check {
    let sharding = sharding_attr(cx, op, "sharding")?;
    let operand = cx.module.op(op).operands()[0];
    fits(cx, sharding, cx.module.ty(operand)).map_err(|e| shard_error(cx, op, &e))?;
    let mut source = operand;
    while let Some(def) =
        cx.module.def_op(source).filter(|&d| cx.module.op(d).kind() == OpKind::Sdy(SdyOp::PropagationBarrier))
    {
        source = cx.module.op(def).operands()[0];
    }
    match placement(cx.module, source) {
        Some(from) => {
            let change = Unreduced { add: Some(meshwork_mesh::Reduction::Sum), remove: Some(from.reduction) };
            change.check(cx, op, &from, sharding)
        }
        None => Ok(()),
    }
}

fn shard_error(cx: &Context, op: OpId, e: &ShardingError) -> crate::Diagnostic {
    let mut error = cx.error(op, e);
    if let ShardingError::ManualAxis { axis } = e
        && let Some(owner) = manual::owner(cx, axis)
    {
        error.notes.push((cx.pos(owner), "the manual computation that binds it".into()));
    }
    error
}

/// Which changes of unreduced axes an operation may make, and by which reduction.
struct Unreduced {
    add: Option<meshwork_mesh::Reduction>,
    remove: Option<meshwork_mesh::Reduction>,
}

impl Unreduced {
    fn check(&self, cx: &Context, op: OpId, from: &Sharding, to: &Sharding) -> Check {
        let resolve =
            |s: &Sharding| -> Option<Mesh> { s.resolve_mesh(|name| cx.meshes.get(name).copied()).ok().cloned() };
        let (Some(mesh), Some(other)) = (resolve(from), resolve(to)) else { return Ok(()) };
        if mesh != other {
            return Ok(());
        }
        let without = |a: &Sharding, b: &Sharding| {
            a.unreduced.iter().any(|axis| {
                let mut rest = vec![axis.clone()];
                for other in &b.unreduced {
                    rest = rest
                        .iter()
                        .flat_map(|part| {
                            if part.overlaps(other) {
                                vec![part.prefix_without_overlap(other), part.suffix_without_overlap(other, &mesh)]
                            } else {
                                vec![Some(part.clone())]
                            }
                        })
                        .flatten()
                        .collect();
                }
                !rest.is_empty()
            })
        };
        if without(to, from) && self.add != Some(to.reduction) {
            let detail = format!("cannot make axes unreduced by {:?}: {from} becomes {to}", to.reduction);
            return Err(cx.error(op, detail));
        }
        if without(from, to) && self.remove != Some(from.reduction) {
            let detail = format!("cannot reduce axes that are unreduced by {:?}: {from} becomes {to}", from.reduction);
            return Err(cx.error(op, detail));
        }
        if from.reduction != to.reduction && axis_list::overlaps(&from.unreduced, &to.unreduced) {
            let detail = format!("keeps axes unreduced but changes their reduction: {from} becomes {to}");
            return Err(cx.error(op, detail));
        }
        Ok(())
    }
}

fn barrier(cx: &Context, op: OpId) -> Check {
    let direction = cx.module.op(op).attr("allowed_direction");
    match direction
        .and_then(|a| a.as_enum().map(str::to_owned).or_else(|| a.as_int().map(|i| i.to_string())))
        .as_deref()
    {
        Some("BOTH" | "3") => Err(cx.error(op, "allows BOTH directions, so it is not a barrier: leave it out")),
        Some(_) => Ok(()),
        None => Err(cx.error(op, "needs attribute 'allowed_direction': NONE, FORWARD or BACKWARD")),
    }
}

fn named_computation(cx: &Context, op: OpId) -> Check {
    let data = cx.module.op(op);
    for (name, values) in [("in_shardings", data.operands()), ("out_shardings", data.results())] {
        if let Some(Attr::ShardingPerValue(list)) = data.attr(name) {
            let types: Vec<&Type> = values.iter().map(|&v| cx.module.ty(v)).collect();
            per_value(cx, op, name, &types, list)?;
        }
    }
    Ok(())
}

/// The placement that is written down for `value`.
fn placement(module: &Module, value: ValueId) -> Option<Cow<'_, Sharding>> {
    let edge = module
        .value(value)
        .uses()
        .iter()
        .map(|u| u.op)
        .find(|&u| module.op(u).kind() == OpKind::Sdy(SdyOp::DataFlowEdge));
    if let Some(edge) = edge {
        return module.op(edge).attr("sharding")?.as_sharding().map(Cow::Borrowed);
    }
    match module.value(value).def() {
        Def::Arg(block, index) => {
            let owner = module.block_parent_op(block)?;
            match module.op(owner).kind() {
                OpKind::Control(ControlOp::Func) => {
                    module.arg_attr(owner, index as usize, "sdy.sharding")?.as_sharding().map(Cow::Borrowed)
                }
                OpKind::Sdy(SdyOp::ManualComputation) => {
                    let outer = in_list(module, owner, "in_shardings", index)?;
                    Some(Cow::Owned(manual::without_axes(module, owner, outer)))
                }
                OpKind::Sdy(SdyOp::NamedComputation) => {
                    in_list(module, owner, "in_shardings", index).map(Cow::Borrowed)
                }
                // The arguments of a loop are placed like its results.
                OpKind::Control(ControlOp::While) => in_list(module, owner, "sdy.sharding", index).map(Cow::Borrowed),
                _ => None,
            }
        }
        Def::Result(op, index) => match module.op(op).kind() {
            OpKind::Sdy(SdyOp::ShardingConstraint | SdyOp::Reshard | SdyOp::DataFlowEdge) => {
                module.op(op).attr("sharding")?.as_sharding().map(Cow::Borrowed)
            }
            OpKind::Sdy(SdyOp::ManualComputation | SdyOp::NamedComputation) => {
                in_list(module, op, "out_shardings", index).map(Cow::Borrowed)
            }
            _ => match module.op(op).attr("out_sharding") {
                Some(Attr::Sharding(s)) => Some(Cow::Borrowed(s)),
                _ => in_list(module, op, "sdy.sharding", index).map(Cow::Borrowed),
            },
        },
    }
}

fn in_list<'m>(module: &'m Module, op: OpId, name: &str, index: u32) -> Option<&'m Sharding> {
    match module.op(op).attr(name)? {
        Attr::ShardingPerValue(list) => list.get(index as usize),
        _ => None,
    }
}
