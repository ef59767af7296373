//! The all-reduces after an op that reduces over split factors, and how partial results are combined.

use std::sync::Arc;

use meshwork_ir::attr::EnumAttr;
use meshwork_ir::op::{BinaryOp, BodyOp, SdyOp};
use meshwork_ir::{Attr, ElementType, Module, OpId, OpKind, ValueId};
use meshwork_mesh::{AxisRef, Reduction, Sharding, axis_list};
use meshwork_propagate::factors::AxisList;
use meshwork_propagate::program::{axes_without, sharding_of};

use super::Context;
use super::common_axes::compatible_factor;
use super::op::Subject;
use crate::export::cursor::Cursor;

/// How partial results of each result of `op` are combined; `None` if no all-reduce can do it.
///
/// Ops with a body reduce as their body says; all others sum.
pub fn kinds(module: &Module, op: OpId) -> Option<Vec<Reduction>> {
    let results = module.op(op).results().len();
    match module.op(op).kind() {
        OpKind::Body(BodyOp::Reduce | BodyOp::Scatter) => {
            let body = module.body_of(op, 0)?;
            let args = module.block(body).args();
            (0..results)
                .map(|i| body_kind(module, module.returned(body).get(i)?, args.get(i)?, args.get(results + i)?))
                .collect()
        }
        _ => Some(vec![Reduction::Sum; results]),
    }
}

/// The reduction that combines arguments `a` and `b` to `value`.
fn body_kind(module: &Module, value: &ValueId, a: &ValueId, b: &ValueId) -> Option<Reduction> {
    let op = module.op(module.def_op(*value)?);
    let combines_both = op.operands() == [*a, *b] || op.operands() == [*b, *a];
    let is_boolean = module.ty(*value).elem() == Some(ElementType::I1);
    match op.kind() {
        OpKind::Binary(BinaryOp::Add) => Some(Reduction::Sum),
        OpKind::Binary(BinaryOp::Maximum) => Some(Reduction::Max),
        OpKind::Binary(BinaryOp::Minimum) => Some(Reduction::Min),
        OpKind::Binary(BinaryOp::Or) if is_boolean => Some(Reduction::Max),
        OpKind::Binary(BinaryOp::And) if is_boolean => Some(Reduction::Min),
        _ => None,
    }
    .filter(|_| combines_both)
}

/// Combines the partial results of an op, over what it reduces and its results are not declared partial over.
///
/// `axes` are those of each factor where the op was made to fit its rule; otherwise only ops with partial results
/// take part, and their tensors must agree on what is reduced.
pub fn insert(
    cx: &mut Context,
    module: &mut Module,
    subject: &Subject,
    axes: Option<&[AxisList]>,
    kinds: &[Reduction],
) -> Result<(), String> {
    let results = module.op(subject.op).results().to_vec();
    let Some(&first) = results.first() else { return Ok(()) };
    let partial = sharding_of(module, first).map_or(vec![], |s| s.unreduced);
    if axes.is_none() && partial.is_empty() {
        return Ok(());
    }
    let mut reduced: Vec<AxisRef> = vec![];
    for &factor in &subject.rule.rule.reduction {
        let of_factor = match axes {
            Some(axes) => axes[factor].clone(),
            None => compatible_factor(&subject.projection, factor).ok_or(
                "has a partial result, but its operands are split differently along a dimension that it reduces",
            )?,
        };
        reduced.extend(of_factor.into_iter().map(|a| cx.placements.axis_ref(a, subject.mesh)));
    }
    let mesh = cx.placements.mesh(subject.mesh);
    let mut reduced = axes_without(&reduced, &partial, mesh);
    if reduced.is_empty() {
        return Ok(());
    }
    axis_list::sort_and_merge(&mut reduced, mesh);
    let mut at = Cursor::After(subject.op);
    for (&result, &kind) in results.iter().zip(kinds) {
        let rank = module.ty(result).rank().unwrap_or(0);
        let sharding = sharding_of(module, result);
        let sharding = sharding.unwrap_or_else(|| Sharding::fully_closed(subject.mesh_ref.clone(), rank));
        let kind = if sharding.unreduced.is_empty() { kind } else { sharding.reduction };
        let complete = all_reduce(&mut at, module, result, reduced.clone(), kind, sharding);
        module.replace_uses_if(result, complete, |m, u| m.op(u.op).results().first() != Some(&complete));
    }
    Ok(())
}

/// Inserts an `sdy.all_reduce` of `value`.
pub fn all_reduce(
    at: &mut Cursor,
    module: &mut Module,
    value: ValueId,
    axes: Vec<AxisRef>,
    kind: Reduction,
    out: Sharding,
) -> ValueId {
    let kind = match kind {
        Reduction::Sum => "sum",
        Reduction::Max => "max",
        Reduction::Min => "min",
    };
    let kind = EnumAttr { dialect: "sdy".into(), kind: "reduction_op".into(), value: kind.into() };
    let attrs = [
        ("reduction_axes", Attr::Axes(axes.into())),
        ("reduction_op", Attr::Enum(Arc::new(kind))),
        ("out_sharding", Attr::Sharding(Arc::new(out))),
    ];
    at.insert_like(module, OpKind::Sdy(SdyOp::AllReduce), value, attrs)
}
