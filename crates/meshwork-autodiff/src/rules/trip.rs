//! How often a loop runs, read from its condition: a counter that starts at a constant, changes by a constant and is
//! compared with a constant.

use meshwork_ir::op::{BinaryOp, ControlOp, MixedOp, MovementOp, SourceOp};
use meshwork_ir::{Attr, Def, Module, OpId, OpKind, ValueId};

/// A counted loop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Trip {
    /// Which of the carried values counts.
    pub counter: usize,
    /// Its first value.
    pub start: i64,
    /// What each step adds.
    pub step: i64,
    /// The number of steps.
    pub count: i64,
}

/// The trip count of a `while`, or why it is unknown.
pub(super) fn read(module: &Module, op: OpId) -> Result<Trip, String> {
    let (Some(cond), Some(body)) = (module.body_of(op, 0), module.body_of(op, 1)) else {
        return Err("it has no condition or no body".into());
    };
    let test = module.returned(cond).first().and_then(|&v| module.def_op(v)).map(|t| module.op(t));
    let Some(test) = test.filter(|t| t.kind() == OpKind::Mixed(MixedOp::Compare)) else {
        return Err("the trip count of the loop is not known: its condition is not a comparison of a counter".into());
    };
    let direction = test.enum_value("comparison_direction").unwrap_or("");
    let (left, right) = (test.operands()[0], test.operands()[1]);
    let flipped = match direction {
        "LT" => "GT",
        "LE" => "GE",
        "GT" => "LT",
        "GE" => "LE",
        same => same,
    };
    for (counter, limit, direction) in [(left, right, direction), (right, left, flipped)] {
        let Def::Arg(block, index) = module.value(counter).def() else { continue };
        let index = index as usize;
        if block != cond {
            continue;
        }
        let (Some(limit), Some(step)) = (constant(module, limit), step(module, body, index)) else { continue };
        let Some(start) = constant(module, module.op(op).operands()[index]) else {
            return Err(format!(
                "the trip count of the loop is not known: its counter (carried value {index}) does not start at a constant"
            ));
        };
        let Some(count) = steps(start, limit, step, direction) else {
            return Err(format!(
                "the loop does not end: its counter goes from {start} by {step} while {direction} {limit}"
            ));
        };
        return Ok(Trip { counter: index, start, step, count });
    }
    Err("the trip count of the loop is unknown: its condition must compare a counter, which changes by a constant, with a constant".into())
}

/// The constant by which carried value `index` changes in each step.
fn step(module: &Module, body: meshwork_ir::BlockId, index: usize) -> Option<i64> {
    let arg = *module.block(body).args().get(index)?;
    let op = module.op(module.def_op(*module.returned(body).get(index)?)?);
    match (op.kind(), op.operands()) {
        (OpKind::Binary(BinaryOp::Add), &[a, b]) if a == arg => constant(module, b),
        (OpKind::Binary(BinaryOp::Add), &[a, b]) if b == arg => constant(module, a),
        (OpKind::Binary(BinaryOp::Subtract), &[a, b]) if a == arg => constant(module, b)?.checked_neg(),
        _ => None,
    }
}

/// The integer that scalar `v` always is: a constant, perhaps converted, or carried unchanged through loops.
fn constant(module: &Module, v: ValueId) -> Option<i64> {
    let mut v = v;
    loop {
        match module.value(v).def() {
            Def::Result(op, _) => {
                let data = module.op(op);
                match data.kind() {
                    OpKind::Source(SourceOp::Constant) => match data.attr("value")? {
                        Attr::Dense(dense) => return dense.to_i64s()?.first().copied(),
                        _ => return None,
                    },
                    OpKind::Mixed(MixedOp::Convert) | OpKind::Movement(MovementOp::Reshape) => {
                        v = *data.operands().first()?
                    }
                    _ => return None,
                }
            }
            Def::Arg(block, index) => {
                let outer = module.block_parent_op(block)?;
                if module.op(outer).kind() != OpKind::Control(ControlOp::While) {
                    return None;
                }
                let body = module.body_of(outer, 1)?;
                let index = index as usize;
                if module.returned(body).get(index) != module.block(body).args().get(index) {
                    return None;
                }
                v = *module.op(outer).operands().get(index)?;
            }
        }
    }
}

/// How often `start + k step` compares with `limit` as `direction` says, from `k = 0` on; `None` if for ever.
fn steps(start: i64, limit: i64, step: i64, direction: &str) -> Option<i64> {
    // In wide integers nothing overflows.
    let (start, limit, step) = (i128::from(start), i128::from(limit), i128::from(step));
    let up = |distance: i128, step: i128| match (distance > 0, step > 0) {
        (false, _) => Some(0),
        (true, true) => Some((distance + step - 1) / step),
        (true, false) => None,
    };
    let count = match direction {
        "LT" => up(limit - start, step),
        "LE" => up(limit - start + 1, step),
        "GT" => up(start - limit, -step),
        "GE" => up(start - limit + 1, -step),
        "NE" if start == limit => Some(0),
        "NE" if step != 0 && (limit - start) % step == 0 => Some((limit - start) / step).filter(|&n| n > 0),
        "EQ" if start != limit => Some(0),
        "EQ" if step != 0 => Some(1),
        _ => None,
    };
    count.and_then(|n| i64::try_from(n).ok()).filter(|&n| n <= i64::from(i32::MAX))
}

#[cfg(test)]
mod tests {
    use super::steps;

    #[test]
    fn steps_of_counted_loops() {
        assert_eq!(steps(0, 5, 1, "LT"), Some(5));
        assert_eq!(steps(1, 6, 2, "LT"), Some(3));
        assert_eq!(steps(1, 6, 2, "LE"), Some(3));
        assert_eq!(steps(5, 0, -1, "GT"), Some(5));
        assert_eq!(steps(5, 0, -2, "GE"), Some(3));
        assert_eq!(steps(0, 6, 3, "NE"), Some(2));
        assert_eq!(steps(0, 5, 3, "NE"), None);
        assert_eq!(steps(5, 0, 1, "LT"), Some(0));
        assert_eq!(steps(0, 5, 0, "LT"), None);
        assert_eq!(steps(i64::MIN, i64::MAX, 1, "LT"), None);
    }
}
