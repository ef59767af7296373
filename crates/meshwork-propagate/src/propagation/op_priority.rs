//! The op-priority schedule: which ops placements may pass through, round by round.
//!
//! | round | op and factor | direction |
//! |---|---|---|
//! | 0 | element-wise ops, host transfers, reshape, transpose, edges, if no operand has several uses | both |
//! | 0 | dynamic slice and update, under the same condition | forward |
//! | 1 | the same without the condition | |
//! | 2 | pass-through factors of any op | both; broadcast: backward |
//! | 3 | all factors of any op | both; broadcast: backward |
//! | 4 | everything | both |
//!
//! Each round allows what the earlier ones did.

use meshwork_ir::op::{ControlOp, MovementOp, SdyOp};
use meshwork_ir::{Attr, Module, OpId, OpKind};

use super::factor::{Direction, Directions};
use crate::program::is_elementwise;

/// Number of rounds.
pub const ROUNDS: u8 = 5;

/// The directions of `op` in `round`.
pub fn directions(module: &Module, op: OpId, round: u8) -> Directions {
    let kind = module.op(op).kind();
    let mut allowed = Directions::all(simple_op(module, op, kind, round));
    if round >= 2 {
        let way = if kind == MovementOp::BroadcastInDim { Direction::Backward } else { Direction::Both };
        let other = if round >= 3 { way } else { Direction::None };
        allowed = allowed.union(Directions { pass_through: way, other });
    }
    if round >= 4 {
        allowed = Directions::all(Direction::Both);
    }
    allowed
}

/// Rounds 0 and 1.
fn simple_op(module: &Module, op: OpId, kind: OpKind, round: u8) -> Direction {
    let way = match kind {
        OpKind::Movement(MovementOp::Reshape | MovementOp::Transpose)
        | OpKind::Sdy(SdyOp::DataFlowEdge | SdyOp::FuncDataFlowEdge) => Direction::Both,
        OpKind::Movement(MovementOp::DynamicSlice | MovementOp::DynamicUpdateSlice) => Direction::Forward,
        _ if is_elementwise(module, op) || is_host_transfer(module, op) => Direction::Both,
        _ => Direction::None,
    };
    // An operand with several uses may get another placement from another use.
    let shared = || {
        let mut operands = module.op(op).operands().iter();
        operands.any(|&v| module.value(v).uses().len() != 1 && module.ty(v).rank() != Some(0))
    };
    if way != Direction::None && round == 0 && shared() { Direction::None } else { way }
}

fn is_host_transfer(module: &Module, op: OpId) -> bool {
    let data = module.op(op);
    data.kind() == ControlOp::CustomCall
        && matches!(data.attr("call_target_name").and_then(Attr::as_str), Some("MoveToDevice" | "MoveToHost"))
}
