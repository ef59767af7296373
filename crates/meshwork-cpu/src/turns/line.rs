//! Integers of a turn that are known beforehand: `base + step * turn`.

use std::cell::RefCell;

use meshwork_ir::op::{BinaryOp, MixedOp, MovementOp};
use meshwork_ir::{BlockId, Def, Module, OpId, OpKind, Type, ValueId};

use meshwork_ir::hash::HashMap;

use crate::compile::{constant, step_of};
use crate::fuse::limits_of;

/// A number that grows by `step` each turn.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Line {
    pub base: i64,
    pub step: i64,
}

impl Line {
    /// The number in turn `turn`.
    pub fn at(self, turn: u64) -> Option<i64> {
        self.step.checked_mul(i64::try_from(turn).ok()?)?.checked_add(self.base)
    }
}

/// The turns of a loop.
pub(crate) struct Turns<'m> {
    pub module: &'m Module,
    pub op: OpId,
    pub body: BlockId,
    pub trips: u64,
    /// Which lanes go on, if nothing else decides how many turns there are.
    pub goes_on: Option<ValueId>,
    known: RefCell<HashMap<ValueId, Option<Line>>>,
}

impl<'m> Turns<'m> {
    /// The `trips` turns of `body`, the body of the loop `op`.
    pub fn new(module: &'m Module, op: OpId, body: BlockId, trips: u64) -> Turns<'m> {
        Turns { module, op, body, trips, goes_on: None, known: RefCell::default() }
    }

    /// The same, ending when no lane of this goes on, if there is such a value.
    pub fn ending(self, goes_on: Option<ValueId>) -> Turns<'m> {
        Turns { goes_on, ..self }
    }

    /// Carry `i` as a line, if it starts at a constant and grows by one.
    pub fn counter(&self, i: usize) -> Option<Line> {
        let module = self.module;
        let argument = *module.block(self.body).args().get(i)?;
        let step = step_of(module, self.body, i)?;
        let line = Line { base: constant(module, *module.op(self.op).operands().get(i)?)?, step };
        // Its last value is one that no turn sees.
        self.fits(line, argument, self.trips).then_some(line)
    }

    /// `value` as a line.
    pub fn line(&self, value: ValueId) -> Option<Line> {
        if let Some(&line) = self.known.borrow().get(&value) {
            return line;
        }
        let line = self.unbounded(value).filter(|&line| self.fits(line, value, self.trips.saturating_sub(1)));
        self.known.borrow_mut().insert(value, line);
        line
    }

    fn fits(&self, line: Line, value: ValueId, last: u64) -> bool {
        let Some((low, high)) = self.module.ty(value).elem().and_then(limits_of) else { return false };
        [Some(line.base), line.at(last)].into_iter().all(|end| end.is_some_and(|n| (low..=high).contains(&n)))
    }

    fn unbounded(&self, value: ValueId) -> Option<Line> {
        let module = self.module;
        if !is_one(module.ty(value)) {
            return None;
        }
        let op = match module.value(value).def() {
            Def::Arg(block, i) if block == self.body => return self.counter(i as usize),
            Def::Arg(..) => return None,
            Def::Result(op, _) => op,
        };
        if let Some(base) = constant(module, value) {
            return Some(Line { base, step: 0 });
        }
        let data = module.op(op);
        let operand = |i: usize| self.line(*data.operands().get(i)?);
        match data.kind() {
            OpKind::Movement(MovementOp::Reshape | MovementOp::BroadcastInDim) | OpKind::Mixed(MixedOp::Convert) => {
                operand(0)
            }
            OpKind::Binary(f) => {
                let (a, b) = (operand(0)?, operand(1)?);
                match f {
                    BinaryOp::Add => {
                        Some(Line { base: a.base.checked_add(b.base)?, step: a.step.checked_add(b.step)? })
                    }
                    BinaryOp::Subtract => {
                        Some(Line { base: a.base.checked_sub(b.base)?, step: a.step.checked_sub(b.step)? })
                    }
                    BinaryOp::Multiply if a.step == 0 || b.step == 0 => {
                        let (factor, line) = if a.step == 0 { (a.base, b) } else { (b.base, a) };
                        Some(Line { base: line.base.checked_mul(factor)?, step: line.step.checked_mul(factor)? })
                    }
                    BinaryOp::Maximum => self.lower(a, b).map(|a_is_lower| if a_is_lower { b } else { a }),
                    BinaryOp::Minimum => self.lower(a, b).map(|a_is_lower| if a_is_lower { a } else { b }),
                    _ => None,
                }
            }
            OpKind::Mixed(MixedOp::Select) => match self.truth(*data.operands().first()?)? {
                true => operand(1),
                false => operand(2),
            },
            OpKind::Mixed(MixedOp::Clamp) => {
                let (low, line, high) = (operand(0)?, operand(1)?, operand(2)?);
                let line = if self.lower(low, line)? { line } else { low };
                Some(if self.lower(line, high)? { line } else { high })
            }
            _ => None,
        }
    }

    /// Whether `a` is at most `b` in all turns, or at least `b` in all.
    fn lower(&self, a: Line, b: Line) -> Option<bool> {
        let last = self.trips.saturating_sub(1);
        let (first, last) = ((a.base, b.base), (a.at(last)?, b.at(last)?));
        if first.0 <= first.1 && last.0 <= last.1 {
            Some(true)
        } else if first.0 >= first.1 && last.0 >= last.1 {
            Some(false)
        } else {
            None
        }
    }

    /// What the comparison `value` gives in all turns.
    pub fn truth(&self, value: ValueId) -> Option<bool> {
        let data = self.module.op(self.module.def_op(value)?);
        match data.kind() {
            OpKind::Mixed(MixedOp::Compare) => {
                let &[a, b] = data.operands() else { return None };
                let (a, b) = (self.line(a)?, self.line(b)?);
                let last = self.trips.saturating_sub(1);
                let direction = data.enum_value("comparison_direction")?;
                let holds = |a: i64, b: i64| match direction {
                    "LT" => Some(a < b),
                    "LE" => Some(a <= b),
                    "GT" => Some(a > b),
                    "GE" => Some(a >= b),
                    _ => None,
                };
                if matches!(direction, "EQ" | "NE") {
                    // Lines of different steps may meet in some turn.
                    return (a.step == b.step).then_some((a.base == b.base) == (direction == "EQ"));
                }
                let (first, last) = (holds(a.base, b.base)?, holds(a.at(last)?, b.at(last)?)?);
                (first == last).then_some(first)
            }
            OpKind::Movement(MovementOp::Reshape | MovementOp::BroadcastInDim) => self.truth(*data.operands().first()?),
            _ => None,
        }
    }
}

/// Whether it has one element.
fn is_one(ty: &Type) -> bool {
    ty.as_tensor().is_some_and(|t| t.num_elements() == Some(1))
}
