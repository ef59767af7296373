//! Checks that no operation silently turns partial results into complete ones.
//!
//! A placement with unreduced axes says that devices hold partial results. Only a reshard, a constraint or a
//! reduction may drop such an axis, only with the reduction that the placement names; an op may introduce
//! one only with the reduction that it computes, which is a sum for everything but `stablehlo.reduce`.

use meshwork_ir::op::{BinaryOp, BodyOp, CollectiveOp, ControlOp, SdyOp};
use meshwork_ir::{Diagnostic, Failed, Module, OpId, OpKind, Pass, PassOptions, ValueId, Walk};
use meshwork_mesh::{AxisRef, Reduction, Sharding};
use meshwork_propagate::program::{
    Meshes, axes_without, callee_name, func_result_sharding, manual_axes, sharding_of, without_manual_axes,
};

use super::rewrite::{before_barriers, collective_reduction, skip_barriers};

/// The pass.
pub const PASS: Pass = Pass {
    name: "sdy-verify-unreduced-axes",
    summary: "Check that partial results are only completed by reshards and reductions",
    options: &[],
    run,
};

fn run(module: &mut Module, _: &PassOptions, diags: &mut Vec<Diagnostic>) -> Result<(), Failed> {
    let meshes = Meshes::of(module);
    let mut result = Ok(());
    for func in module.funcs().collect::<Vec<_>>() {
        for op in module.ops_below(func, Walk::PostOrder) {
            if let Err(message) = check_op(module, &meshes, op) {
                diags.push(Diagnostic::error(module.op(op).pos, format!("'{}' {message}", module.op(op).name())));
                result = Err(Failed);
                break;
            }
        }
    }
    result
}

/// What an op may do to unreduced axes.
#[derive(Clone, Copy, Default)]
struct Allowed {
    /// Introduce them, for partial results of this reduction.
    introduce: Option<Reduction>,
    /// Drop them, for partial results of this reduction.
    remove: Option<Reduction>,
}

fn check_op(module: &Module, meshes: &Meshes, op: OpId) -> Result<(), String> {
    let data = module.op(op);
    let sum = Some(Reduction::Sum);
    let all = data.operands();
    match data.kind() {
        OpKind::Control(ControlOp::Func) => Ok(()),
        OpKind::Sdy(SdyOp::Reshard | SdyOp::ShardingConstraint) => {
            let Some(from) = before_barriers(module, all[0]) else { return Ok(()) };
            let to = sharding_of(module, data.results()[0]);
            let allowed = Allowed { introduce: sum, remove: Some(from.reduction) };
            check_transition(meshes, &[Some(from)], &[to], allowed)
        }
        OpKind::Body(BodyOp::Reduce) => {
            let inputs = &all[..all.len() / 2];
            let allowed = Allowed { introduce: body_reduction(module, op), remove: None };
            check_transition(meshes, &unless_resharded(module, inputs), &shardings(module, data.results()), allowed)
        }
        OpKind::Sdy(SdyOp::AllReduce | SdyOp::ReduceScatter) => match before_barriers(module, all[0]) {
            None => Err("operand has no placement to reduce; give it one with unreduced axes".to_string()),
            Some(from) => {
                let allowed = Allowed { introduce: None, remove: Some(collective_reduction(module, op)) };
                check_transition(meshes, &[Some(from)], &shardings(module, data.results()), allowed)
            }
        },
        OpKind::Collective(CollectiveOp::AllReduce | CollectiveOp::ReduceScatter) => {
            let allowed = Allowed { introduce: None, remove: body_reduction(module, op) };
            let first = |values: &[ValueId]| shardings(module, &values[..values.len().min(1)]);
            check_transition(meshes, &first(all), &first(data.results()), allowed)
        }
        OpKind::Control(ControlOp::Call) => check_call(module, op),
        OpKind::Control(ControlOp::FuncReturn) | OpKind::Sdy(SdyOp::Return) => check_return(module, op),
        kind if kind.is_terminator() => Ok(()),
        _ => {
            let allowed = Allowed { introduce: sum, remove: None };
            check_transition(meshes, &unless_resharded(module, all), &shardings(module, data.results()), allowed)
        }
    }
}

fn is_resharded(module: &Module, value: ValueId) -> bool {
    let def = module.def_op(skip_barriers(module, value));
    def.is_some_and(|op| matches!(module.op(op).kind(), OpKind::Sdy(SdyOp::Reshard | SdyOp::ShardingConstraint)))
}

fn shardings(module: &Module, values: &[ValueId]) -> Vec<Option<Sharding>> {
    values.iter().map(|&v| before_barriers(module, v)).collect()
}

/// The placements of operands, without those that come straight from a reshard.
fn unless_resharded(module: &Module, values: &[ValueId]) -> Vec<Option<Sharding>> {
    let one = |&v: &ValueId| if is_resharded(module, v) { None } else { before_barriers(module, v) };
    values.iter().map(one).collect()
}

/// The reduction that the body of `op` computes, if it is one that placements know.
fn body_reduction(module: &Module, op: OpId) -> Option<Reduction> {
    let body = module.body_of(op, 0)?;
    let reduction = |&v: &ValueId| match module.op(module.def_op(v)?).kind() {
        OpKind::Binary(BinaryOp::Add) => Some(Reduction::Sum),
        OpKind::Binary(BinaryOp::Maximum) => Some(Reduction::Max),
        OpKind::Binary(BinaryOp::Minimum) => Some(Reduction::Min),
        _ => None,
    };
    let (first, rest) = module.returned(body).split_first()?;
    let first = reduction(first)?;
    rest.iter().all(|v| reduction(v) == Some(first)).then_some(first)
}

fn reduction_name(reduction: Reduction) -> &'static str {
    match reduction {
        Reduction::Sum => "sum",
        Reduction::Max => "max",
        Reduction::Min => "min",
    }
}

fn check_transition(
    meshes: &Meshes,
    operands: &[Option<Sharding>],
    results: &[Option<Sharding>],
    allowed: Allowed,
) -> Result<(), String> {
    let (operands, results): (Vec<&Sharding>, Vec<&Sharding>) =
        (operands.iter().flatten().collect(), results.iter().flatten().collect());
    let mut found = operands.iter().chain(&results).filter_map(|s| meshes.mesh(s));
    let Some(mesh) = found.next() else { return Ok(()) };
    if found.any(|other| other != mesh) {
        return Ok(());
    }
    let unreduced = |list: &[&Sharding]| list.iter().flat_map(|s| s.unreduced.iter().cloned()).collect::<Vec<_>>();
    let (before, after) = (unreduced(&operands), unreduced(&results));
    let introduced = axes_without(&after, &before, mesh);
    let removed = axes_without(&before, &after, mesh);
    if let Some(axis) = introduced.first() {
        let Some(expected) = allowed.introduce else {
            return Err(format!("makes results partial over axis {axis} that no operand is partial over"));
        };
        check_kind(&results, &introduced, expected, "introduces")?;
    }
    if let Some(axis) = removed.first() {
        let Some(expected) = allowed.remove else {
            return Err(format!(
                "drops unreduced axis {axis}: partial results over it would be used as complete ones; reduce them \
                 first with sdy.reshard"
            ));
        };
        check_kind(&operands, &removed, expected, "reduces")?;
    }
    for (result, operand) in results.iter().flat_map(|r| operands.iter().map(move |o| (r, o))) {
        let kept = result.unreduced.iter().find(|a| operand.unreduced.iter().any(|b| a.overlaps(b)));
        if let Some(axis) = kept.filter(|_| result.reduction != operand.reduction) {
            let (from, to) = (reduction_name(operand.reduction), reduction_name(result.reduction));
            return Err(format!(
                "uses partial results over axis {axis} that combine by {from} as ones that combine by {to}"
            ));
        }
    }
    Ok(())
}

/// Checks that placements that are partial over `axes` combine by the `expected` reduction.
fn check_kind(list: &[&Sharding], axes: &[AxisRef], expected: Reduction, verb: &str) -> Result<(), String> {
    for sharding in list {
        let axis = sharding.unreduced.iter().find(|a| axes.iter().any(|b| a.overlaps(b)));
        if let Some(axis) = axis.filter(|_| sharding.reduction != expected) {
            let (is, wants) = (reduction_name(sharding.reduction), reduction_name(expected));
            return Err(format!("{verb} partial results over axis {axis} by {wants}, but the placement says {is}"));
        }
    }
    Ok(())
}

/// Checks that both are partial over the same axes.
fn check_equal(from: Option<&Sharding>, to: Option<&Sharding>, place: &str) -> Result<(), String> {
    let sorted = |s: Option<&Sharding>| {
        let mut axes = s.map_or(vec![], |s| s.unreduced.clone());
        axes.sort();
        axes.dedup();
        axes
    };
    let (from, to) = (sorted(from), sorted(to));
    let differing = from.iter().filter(|a| !to.contains(a)).chain(to.iter().filter(|a| !from.contains(a)));
    let differing: Vec<String> = differing.map(|a| a.to_string()).collect();
    if differing.is_empty() {
        Ok(())
    } else {
        Err(format!(
            "has different unreduced axes on both sides of {place}: {}; reduce them first with sdy.reshard",
            differing.join(", ")
        ))
    }
}

fn check_call(module: &Module, call: OpId) -> Result<(), String> {
    let Some(func) = callee_name(module, call).and_then(|name| module.func(name)) else { return Ok(()) };
    let args = module.body_of(func, 0).map_or(&[][..], |body| module.block(body).args());
    for (i, (&operand, &arg)) in module.op(call).operands().iter().zip(args).enumerate() {
        if !is_resharded(module, operand) {
            let (from, to) = (before_barriers(module, operand), before_barriers(module, arg));
            check_equal(from.as_ref(), to.as_ref(), &format!("call argument {i}"))?;
        }
    }
    for (i, &result) in module.op(call).results().iter().enumerate() {
        let (from, to) = (func_result_sharding(module, func, i), before_barriers(module, result));
        check_equal(from, to.as_ref(), &format!("call result {i}"))?;
    }
    Ok(())
}

fn check_return(module: &Module, op: OpId) -> Result<(), String> {
    let Some(parent) = module.parent_op(op) else { return Ok(()) };
    for (i, &value) in module.op(op).operands().iter().enumerate() {
        let wanted = match module.op(parent).kind() {
            OpKind::Control(ControlOp::Func) => func_result_sharding(module, parent, i).cloned(),
            OpKind::Sdy(SdyOp::ManualComputation) => {
                let outer = module.op(parent).results().get(i).and_then(|&r| before_barriers(module, r));
                outer.map(|s| without_manual_axes(&s, manual_axes(module, parent)))
            }
            _ => module.op(parent).results().get(i).and_then(|&r| before_barriers(module, r)),
        };
        if let Some(wanted) = wanted.filter(|_| !is_resharded(module, value)) {
            check_equal(before_barriers(module, value).as_ref(), Some(&wanted), &format!("return value {i}"))?;
        }
    }
    Ok(())
}
