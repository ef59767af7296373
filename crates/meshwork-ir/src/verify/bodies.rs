//! Bodies: how many an operation has, and how their blocks end.

use super::{Check, Context};
use crate::op::{BodyOp, ChloOp, CollectiveOp, ControlOp, SdyOp};
use crate::{OpId, OpKind};

/// How many bodies an operation has, and what ends each of them.
enum Rule {
    None,
    Exactly(usize, OpKind),
    AtLeast(usize, OpKind),
    /// Not ours to say.
    Any,
}

fn rule(kind: OpKind) -> Rule {
    const HLO: OpKind = OpKind::Control(ControlOp::HloReturn);
    const SDY: OpKind = OpKind::Sdy(SdyOp::Return);
    match kind {
        OpKind::Body(op) => match op {
            BodyOp::Map | BodyOp::Reduce | BodyOp::ReduceWindow | BodyOp::Scatter | BodyOp::Sort => {
                Rule::Exactly(1, HLO)
            }
            BodyOp::SelectAndScatter => Rule::Exactly(2, HLO),
        },
        OpKind::Control(op) => match op {
            // A declaration has no body, and other dialects may end a function.
            ControlOp::Module | ControlOp::Func | ControlOp::CustomCall | ControlOp::Composite => Rule::Any,
            ControlOp::If | ControlOp::While => Rule::Exactly(2, HLO),
            ControlOp::Case => Rule::AtLeast(1, HLO),
            ControlOp::AsyncStart => Rule::Exactly(1, HLO),
            ControlOp::Call
            | ControlOp::FuncReturn
            | ControlOp::HloReturn
            | ControlOp::AsyncDone
            | ControlOp::OptimizationBarrier => Rule::None,
        },
        OpKind::Collective(op) => match op {
            CollectiveOp::AllReduce | CollectiveOp::ReduceScatter | CollectiveOp::CollectiveReduce => {
                Rule::Exactly(1, HLO)
            }
            CollectiveOp::AllGather
            | CollectiveOp::AllToAll
            | CollectiveOp::CollectiveBroadcast
            | CollectiveOp::CollectivePermute
            | CollectiveOp::CrossReplicaSum
            | CollectiveOp::RaggedAllToAll => Rule::None,
        },
        OpKind::Chlo(ChloOp::Scan) => Rule::Exactly(1, HLO),
        OpKind::Sdy(SdyOp::ManualComputation | SdyOp::NamedComputation) => Rule::Exactly(1, SDY),
        OpKind::Unregistered => Rule::Any,
        OpKind::Unary(_)
        | OpKind::Binary(_)
        | OpKind::Mixed(_)
        | OpKind::Source(_)
        | OpKind::Movement(_)
        | OpKind::Dynamic(_)
        | OpKind::Contract(_)
        | OpKind::Linalg(_)
        | OpKind::Token(_)
        | OpKind::Chlo(_)
        | OpKind::Sdy(_)
        | OpKind::Check(_) => Rule::None,
    }
}

/// Checks the bodies of `op`, and that it stands at the end of its block if and only if it is a terminator.
pub(super) fn check(cx: &Context, op: OpId) -> Check {
    let data = cx.module.op(op);
    let count = data.regions().len();
    let end = match rule(data.kind()) {
        Rule::None if count > 0 => return Err(cx.error(op, format_args!("has no bodies, but {count} are given"))),
        Rule::Exactly(n, _) if count != n => {
            return Err(cx.error(op, format_args!("needs {n} bodies, but has {count}")));
        }
        Rule::AtLeast(n, _) if count < n => {
            return Err(cx.error(op, format_args!("needs at least {n} bodies, but has {count}")));
        }
        Rule::None | Rule::Any => None,
        Rule::Exactly(_, end) | Rule::AtLeast(_, end) => Some(end),
    };
    if let Some(end) = end {
        for (i, &region) in data.regions().iter().enumerate() {
            body(cx, op, i, cx.module.region(region).blocks(), end)?;
        }
    }
    let last = cx.module.next_op(op).is_none();
    if data.kind().is_terminator() && !last {
        return Err(cx.error(op, "must be the last operation of its block"));
    }
    Ok(())
}

fn body(cx: &Context, op: OpId, index: usize, blocks: &[crate::BlockId], end: OpKind) -> Check {
    let [block] = blocks else {
        return Err(cx.error(op, format_args!("body {index} must have one block, but has {}", blocks.len())));
    };
    match cx.module.block(*block).last() {
        Some(last) if cx.module.op(last).kind() == end => Ok(()),
        Some(last) => {
            let name = cx.module.op(last).name();
            Err(cx.error(op, format_args!("body {index} must end with {}, but ends with {name}", end.name())))
        }
        None => Err(cx.error(op, format_args!("body {index} must end with {}, but is empty", end.name()))),
    }
}
