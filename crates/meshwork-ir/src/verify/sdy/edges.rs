//! Edges: operations that stand for all ends of a data flow, and the record of how placements spread.

use super::{Check, Context, fits, placement, shard_error};
use crate::op::{ControlOp, SdyOp};
use crate::{Attr, Def, OpId, OpKind};

/// `data_flow_edge` and `func_data_flow_edge`.
pub(super) fn data_flow_edge(cx: &Context, op: OpId) -> Check {
    let module = cx.module;
    let data = module.op(op);
    let input = data.operands()[0];
    let ty = module.ty(input);
    if !ty.as_tensor().is_none_or(crate::TensorType::is_static) || matches!(ty, crate::Type::Opaque(_)) {
        return Err(cx.error(op, format_args!("needs a value of static shape, but has {ty}")));
    }
    if module.value(input).uses().len() != 1 {
        let uses = module.value(input).uses().len();
        return Err(cx.error(op, format_args!("must be the only use of its input, which has {uses} uses")));
    }
    if data.kind() == OpKind::Sdy(SdyOp::FuncDataFlowEdge) {
        let fits = match module.value(input).def() {
            Def::Arg(block, _) => {
                module.block_parent_op(block).is_some_and(|p| module.op(p).kind() == OpKind::Control(ControlOp::Func))
            }
            Def::Result(def, _) => module.op(def).kind() == OpKind::Control(ControlOp::Call),
        };
        return if fits {
            Ok(())
        } else {
            Err(cx.error(op, "must have an argument of a function or the result of a call as its input"))
        };
    }
    if let Some(def) = module.def_op(input) {
        let kind = module.op(def).kind();
        let shardable = matches!(kind, OpKind::Sdy(SdyOp::NamedComputation | SdyOp::ManualComputation));
        if kind.dialect() == "sdy" && !shardable {
            let detail = format!("has an input that {} defines, which has a placement of its own", kind.name());
            let mut e = cx.error(op, detail);
            e.notes.push((cx.pos(def), "defined here".into()));
            return Err(e);
        }
    }
    match data.attr("sharding") {
        Some(Attr::Sharding(s)) => fits(cx, s, ty).map_err(|e| shard_error(cx, op, &e)),
        Some(other) => {
            Err(cx.error(op, format_args!("attribute 'sharding' must be #sdy.sharding<...>, but is {other}")))
        }
        None => Ok(()),
    }
}

/// One end of an edge: `operand-0` or `result-1`.
#[derive(Clone, Copy, PartialEq, Eq)]
struct End {
    operand: bool,
    index: i64,
}

/// One record: this axis went from an end to others in this step.
struct Edge {
    step: i64,
    axis: String,
    source: End,
    targets: Vec<End>,
}

/// Reads `#sdy.propagation_edges<[{step-1 = [{"c" = operand-0 -> [result-0]}]}]>`; `None` if it is something else.
fn parse(text: &str) -> Option<Vec<Edge>> {
    let mut rest = text.strip_prefix("#sdy.propagation_edges<")?;
    let mut edges = vec![];
    let mut step = 0;
    loop {
        let (at, is_step) = match (rest.find("step-"), rest.find('"')) {
            (Some(s), Some(q)) if s < q => (s, true),
            (_, Some(q)) => (q, false),
            (_, None) => return Some(edges),
        };
        if is_step {
            let (number, after) = rest[at + 5..].split_once('=')?;
            step = number.trim().parse().ok()?;
            rest = after;
            continue;
        }
        let (axis, after) = rest[at + 1..].split_once('"')?;
        let (source, after) = after.split_once("->")?;
        let source = end(source.rsplit('=').next()?)?;
        let (_, after) = after.split_once('[')?;
        let (targets, after) = after.split_once(']')?;
        let targets = targets.split(',').map(end).collect::<Option<Vec<End>>>()?;
        edges.push(Edge { step, axis: axis.into(), source, targets });
        rest = after;
    }
}

fn end(text: &str) -> Option<End> {
    let (kind, index) = text.trim().split_once('-')?;
    Some(End { operand: kind == "operand", index: index.parse().ok()? })
}

/// `sdy.propagation_edges` on an operation.
pub(super) fn propagation_edges(cx: &Context, op: OpId, attr: &Attr) -> Check {
    let text = match attr {
        Attr::Opaque(text) => text.as_str(),
        _ => "",
    };
    let Some(edges) = parse(text) else {
        let detail = format!("attribute 'sdy.propagation_edges' must be #sdy.propagation_edges<...>, but is {attr}");
        return Err(cx.error(op, detail));
    };
    let mut steps = vec![];
    for (i, edge) in edges.iter().enumerate() {
        if i == 0 || edges[i - 1].step != edge.step {
            steps.push(edge.step);
        }
    }
    // A step that is written twice in a row shows as two lists under one number.
    let written = text.matches("step-").count();
    if let Some(step) = steps.iter().find(|&&s| s < 0) {
        return Err(cx.error(op, format_args!("propagation edges have the negative step {step}")));
    }
    if written != steps.len() || crate::infer::duplicate(steps.iter().copied()).is_some() {
        return Err(cx.error(op, "propagation edges list one step twice"));
    }
    let data = cx.module.op(op);
    let value = |end: End| {
        let list = if end.operand { data.operands() } else { data.results() };
        usize::try_from(end.index).ok().and_then(|i| list.get(i).copied())
    };
    for edge in &edges {
        if edge.targets.contains(&edge.source) {
            return Err(cx.error(
                op,
                format_args!("propagation edges have a source that is also a target of axis \"{}\"", edge.axis),
            ));
        }
        if edge.targets.iter().enumerate().any(|(i, t)| edge.targets[..i].contains(t)) {
            return Err(cx.error(op, format_args!("propagation edges list a target twice for axis \"{}\"", edge.axis)));
        }
    }
    let ends = || edges.iter().flat_map(|e| std::iter::once(&e.source).chain(&e.targets).copied());
    let shardings: Vec<_> = ends().filter_map(value).filter_map(|v| placement(cx.module, v)).collect();
    let mut mesh = None;
    for sharding in &shardings {
        let Ok(next) = sharding.resolve_mesh(|name| cx.meshes.get(name).copied()) else { continue };
        if mesh.is_some_and(|m: &meshwork_mesh::Mesh| m != next && !m.is_empty() && !next.is_empty()) {
            return Err(cx.error(op, "propagation edges connect values on different meshes"));
        }
        mesh = Some(next);
    }
    let Some(mesh) = mesh else {
        return Err(cx.error(op, "propagation edges connect values of which none has a sharding"));
    };
    for edge in &edges {
        if mesh.axis_size(&edge.axis).is_none() {
            return Err(
                cx.error(op, format_args!("propagation edges name axis \"{}\", but the mesh is {mesh}", edge.axis))
            );
        }
    }
    if data.kind() != OpKind::Sdy(SdyOp::FuncDataFlowEdge)
        && let Some(bad) = ends().find(|&e| value(e).is_none())
    {
        let (kind, count) =
            if bad.operand { ("operand", data.operands().len()) } else { ("result", data.results().len()) };
        return Err(cx.error(op, format_args!("propagation edges name {kind} {}, but there are {count}", bad.index)));
    }
    Ok(())
}

/// Lists of edges, one per result or block argument.
pub(super) fn edge_lists(cx: &Context, op: OpId, name: &str, attr: &Attr) -> Check {
    let edges = |a: &Attr| matches!(a, Attr::Opaque(text) if parse(text).is_some());
    match attr.as_array() {
        Some(list) if list.iter().all(edges) => Ok(()),
        _ => Err(cx.error(
            op,
            format_args!("attribute '{name}' must be a list of #sdy.propagation_edges<...>, but is {attr}"),
        )),
    }
}
