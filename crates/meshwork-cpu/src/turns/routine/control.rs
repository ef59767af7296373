//! Loops and choices.

use std::rc::Rc;

use meshwork_ir::op::{BodyOp, ControlOp, MovementOp};
use meshwork_ir::{BlockId, ElementType, Module, OpId, OpKind, ValueId, Walk};

use super::super::expand::{Expand, offsets};
use super::code::Number;
use super::machine::{MOST_NUMBERS, Machine, Numbers, Table};
use super::tables::is_moving;
use crate::compile::{captured, trip_count};
use crate::fuse::{self, Arithmetic};
use crate::kernel::ir::{Cmp, Flow, Ty};
use crate::step::View;

/// Elements of a carry that are cells.
const MOST_CELLS: i64 = 16;
/// Additions that both sides of a choice may cost if both are computed.
const MOST_CHOSEN: u64 = 24;
/// How often a loop turns if it is unknown.
const GUESSED_TRIPS: u64 = 16;

/// What a carry, or a result of a choice, is.
enum Kind {
    /// It never changes.
    Idle,
    /// Numbers in cells.
    Cells(Vec<(u16, Ty)>),
    /// A table, by number.
    Table(usize),
}

impl Machine<'_, '_> {
    /// Writes the loop or choice `op`; its results are known then.
    pub fn control(&mut self, op: OpId) -> Option<()> {
        if !self.busy.insert(op) {
            return None;
        }
        match self.cx.module.op(op).kind() {
            OpKind::Control(ControlOp::While) => self.turns(op)?,
            _ => self.choice(op)?,
        }
        self.busy.remove(&op);
        Some(())
    }

    fn cells(&mut self, value: ValueId) -> Option<Vec<(u16, Ty)>> {
        let ty = Ty::of(self.elem(value)?)?;
        let count = self.dims(value).iter().product::<i64>();
        (count <= MOST_NUMBERS).then(|| (0..count).map(|_| (self.code.cell(), ty)).collect())
    }

    /// Makes what comes from outside `op` before it.
    fn make_captured(&mut self, op: OpId) -> Option<()> {
        captured(self.cx.module, op).into_iter().try_for_each(|v| self.make(v))
    }

    /// The loop `op`.
    fn turns(&mut self, op: OpId) -> Option<()> {
        let module = self.cx.module;
        let data = module.op(op);
        let (cond, body) = (module.body_of(op, 0)?, module.body_of(op, 1)?);
        self.make_captured(op)?;
        for &v in data.operands() {
            self.make(v)?;
        }
        let args = module.block(body).args();
        let mut kinds = vec![];
        let mut first = vec![];
        for (i, &operand) in data.operands().iter().enumerate() {
            let count = self.dims(args[i]).iter().product::<i64>();
            kinds.push(if module.returned(body)[i] == args[i] {
                Kind::Idle
            } else if count > MOST_CELLS
                || is_moving(module, args[i])
                || is_moving(module, module.block(cond).args()[i])
            {
                Kind::Table(self.carried_table(op, operand)?)
            } else {
                let numbers = self.value(operand, None)?;
                let cells = self.cells(args[i])?;
                first.extend(cells.iter().zip(numbers.iter()).map(|(&(cell, _), &number)| (cell, number)));
                Kind::Cells(cells)
            });
        }
        self.code.set(&first);
        let trips = trip_count(module, op);
        let before = self.repeats;
        self.is_open |= trips.is_none();
        self.repeats = self.repeats.saturating_mul(trips.unwrap_or(GUESSED_TRIPS).max(1));
        // Every turn finds another version than what was there before the loop.
        self.change_all(&kinds);
        let mark = self.enter();
        self.bind(op, cond, &kinds);
        let go_on = self.value(*module.returned(cond).first()?, None)?[0];
        if self.bits(go_on).is_some() {
            return None;
        }
        let scalar = self.code.cell();
        self.code.set(&[(scalar, go_on)]);
        self.forget(mark);
        let cond_flow = self.code.leave();
        let mark = self.enter();
        self.bind(op, body, &kinds);
        self.results(module.returned(body), &kinds)?;
        self.forget(mark);
        let body_flow = self.code.leave();
        self.code.flow(Flow::Loop { cond: cond_flow, go_on: scalar, body: body_flow });
        self.repeats = before;
        self.change_all(&kinds);
        self.settled(op, kinds);
        Some(())
    }

    /// The table that a carry starts in.
    fn carried_table(&mut self, op: OpId, operand: ValueId) -> Option<usize> {
        if let Some(table) = self.table(operand) {
            self.settle(operand, op)?;
            return self.table(operand).filter(|&t| t == table);
        }
        if op != self.root {
            let numbers = self.value(operand, None)?;
            return self.new_table(operand, &numbers);
        }
        // It is copied to the memory of the result before the routine runs.
        let (elem, dims) = self.cx.shape(operand);
        self.cx.view(operand)?;
        let view = View::dense(self.cx.buffer(elem, &dims), elem, &dims);
        self.versions += 1;
        self.tables.push(Table { view, version: self.versions });
        Some(self.tables.len() - 1)
    }

    fn change_all(&mut self, kinds: &[Kind]) {
        for kind in kinds {
            if let Kind::Table(table) = *kind {
                self.change(table);
            }
        }
    }

    /// Gives the arguments of a block of the loop `op` their values.
    fn bind(&mut self, op: OpId, block: BlockId, kinds: &[Kind]) {
        let module = self.cx.module;
        for ((&arg, &operand), kind) in module.block(block).args().iter().zip(module.op(op).operands()).zip(kinds) {
            self.give(arg, operand, kind);
        }
    }

    fn give(&mut self, value: ValueId, operand: ValueId, kind: &Kind) {
        match kind {
            Kind::Idle => self.alias(value, operand),
            Kind::Cells(cells) => {
                let numbers = cells.iter().map(|&(cell, ty)| Number::Cell(cell, ty)).collect();
                self.know(value, Rc::new(numbers));
            }
            Kind::Table(table) => self.hold(value, *table),
        }
    }

    /// Makes what a block returns and puts it where it belongs, all at once.
    fn results(&mut self, returned: &[ValueId], kinds: &[Kind]) -> Option<()> {
        let mut cells: Vec<(u16, Number)> = vec![];
        let mut stores: Vec<(usize, Numbers)> = vec![];
        for (&v, kind) in returned.iter().zip(kinds) {
            match kind {
                Kind::Idle => {}
                Kind::Cells(list) => {
                    let numbers = self.value(v, None)?;
                    cells.extend(list.iter().zip(numbers.iter()).map(|(&(cell, _), &number)| (cell, number)));
                }
                Kind::Table(table) => {
                    self.make(v)?;
                    if !self.is_held(v) {
                        stores.push((*table, self.value(v, None)?));
                    } else if self.table(v) != Some(*table) {
                        return None;
                    }
                }
            }
        }
        // A version that was returned may have been overwritten meanwhile.
        for (&v, kind) in returned.iter().zip(kinds) {
            if let Kind::Table(table) = kind
                && self.is_held(v)
                && self.table(v) != Some(*table)
            {
                return None;
            }
        }
        for (table, numbers) in stores {
            let view = self.tables[table].view.clone();
            for (offset, &number) in offsets(&view.dims, &view.strides, 0).into_iter().zip(numbers.iter()) {
                self.code.store((view.buf, view.offset), view.elem, Number::Const(Ty::I32, offset as u64), number)?;
            }
            self.change(table);
        }
        self.code.set(&cells);
        Some(())
    }

    /// Gives the results of `op` their values.
    fn settled(&mut self, op: OpId, kinds: Vec<Kind>) {
        let data = self.cx.module.op(op);
        for (i, kind) in kinds.iter().enumerate() {
            // A choice has no operand for what never changes.
            let operand = data.operands().get(i).copied().unwrap_or(data.results()[i]);
            self.give(data.results()[i], operand, kind);
        }
    }

    /// The choice `op`.
    fn choice(&mut self, op: OpId) -> Option<()> {
        let module = self.cx.module;
        let data = module.op(op);
        let index = self.value(*data.operands().first()?, None)?[0];
        let count = data.regions().len();
        let branches: Vec<BlockId> = (0..count).map(|b| module.body_of(op, b)).collect::<Option<_>>()?;
        if self.bits(index).is_some() {
            return None;
        }
        self.make_captured(op)?;
        if is_cheap(module, op) {
            return self.chosen(op, index, &branches);
        }
        let mut kinds = vec![];
        for (i, &result) in data.results().iter().enumerate() {
            let bases = branches.iter().map(|&b| self.base(module.returned(b)[i], op));
            let bases: Vec<Option<usize>> = bases.collect();
            let table = bases.iter().flatten().next().copied();
            kinds.push(match table {
                Some(table) if bases.iter().all(|b| *b == Some(table)) => Kind::Table(table),
                _ => Kind::Cells(self.cells(result)?),
            });
        }
        for v in captured(module, op) {
            if self.table(v).is_some_and(|t| kinds.iter().any(|k| matches!(k, Kind::Table(own) if *own == t))) {
                self.settle(v, op)?;
            }
        }
        let ty = self.code.ty(index);
        let scalar = self.code.cell();
        self.code.set(&[(scalar, index)]);
        let before: Vec<usize> = self.tables.iter().map(|t| t.version).collect();
        let mut flows = vec![];
        let mut changed: Vec<usize> = vec![];
        for &branch in &branches {
            let mark = self.enter();
            self.results(module.returned(branch), &kinds)?;
            self.forget(mark);
            flows.push(self.code.leave());
            for (table, &version) in before.iter().enumerate() {
                if self.tables[table].version != version {
                    changed.push(table);
                    self.tables[table].version = version;
                }
            }
        }
        if !matches!(ty, Ty::Pred | Ty::I32) {
            return None;
        }
        self.code.flow(Flow::Choice { index: scalar, ty, branches: flows });
        changed.into_iter().for_each(|table| self.change(table));
        self.settled(op, kinds);
        Some(())
    }

    /// The table that `value`, made in a branch of `op`, is a version of, if that was a table before.
    fn base(&self, value: ValueId, op: OpId) -> Option<usize> {
        let module = self.cx.module;
        if let Some(table) = self.table(value) {
            return Some(table);
        }
        let def = module.def_op(value).filter(|&def| module.is_inside(def, op))?;
        let data = module.op(def);
        match data.kind() {
            OpKind::Movement(MovementOp::DynamicUpdateSlice) | OpKind::Body(BodyOp::Scatter) => {
                self.base(data.operands()[0], op)
            }
            OpKind::Control(ControlOp::While) => {
                let i = data.results().iter().position(|&r| r == value)?;
                self.base(data.operands()[i], op)
            }
            OpKind::Control(ControlOp::Case | ControlOp::If) => {
                let i = data.results().iter().position(|&r| r == value)?;
                self.base(*module.returned(module.body_of(def, 0)?).get(i)?, op)
            }
            _ => None,
        }
    }

    /// What all branches give, and a selection.
    fn chosen(&mut self, op: OpId, index: Number, branches: &[BlockId]) -> Option<()> {
        let module = self.cx.module;
        for (i, &result) in module.op(op).results().iter().enumerate() {
            if module.value(result).uses().is_empty() {
                continue;
            }
            let (last, others) = branches.split_last()?;
            let mut out = self.value(module.returned(*last)[i], None)?.to_vec();
            for (number, &branch) in others.iter().enumerate().rev() {
                let here = match self.code.ty(index) {
                    Ty::Pred => index,
                    ty => self.code.compare(Cmp::Eq, index, Number::Const(ty, number as u64)),
                };
                let own = self.value(module.returned(branch)[i], None)?;
                out = out.iter().zip(own.iter()).map(|(&n, &own)| self.code.select(here, own, n)).collect();
            }
            self.know(result, Rc::new(out));
        }
        Some(())
    }
}

/// Whether computing all branches of the choice `op` costs less than a wrong guess which one it is.
fn is_cheap(module: &Module, op: OpId) -> bool {
    let cost = |inner: &OpId| {
        let data = module.op(*inner);
        let count: i64 = data.results().iter().map(|&r| module.ty(r).dims().iter().product::<i64>()).sum();
        match data.kind() {
            OpKind::Source(_) | OpKind::Control(ControlOp::HloReturn) => Some(0),
            OpKind::Unary(_) | OpKind::Binary(_) | OpKind::Mixed(_) => {
                Some(count as u64 * u64::from(fuse::cost(data.kind())))
            }
            OpKind::Movement(MovementOp::BroadcastInDim | MovementOp::Reshape | MovementOp::Slice) => Some(0),
            _ => None,
        }
    };
    let costs: Option<Vec<u64>> = module.ops_below(op, Walk::PreOrder).iter().skip(1).map(cost).collect();
    costs.is_some_and(|list| list.iter().sum::<u64>() <= MOST_CHOSEN)
}

/// Whether nothing in the loop `op` is beyond routines.
pub(super) fn is_plain(module: &Module, op: OpId) -> bool {
    let known = |&inner: &OpId| {
        let data = module.op(inner);
        let typed = data.results().iter().all(|&r| match module.ty(r).elem() {
            Some(ElementType::BF16 | ElementType::F16) | None => false,
            Some(elem) => fuse::has_lanes(elem),
        });
        let kind = match data.kind() {
            OpKind::Unary(_) | OpKind::Binary(_) | OpKind::Mixed(_) | OpKind::Source(_) => true,
            OpKind::Movement(f) => f != MovementOp::TorchIndexSelect,
            OpKind::Body(f) => matches!(f, BodyOp::Reduce | BodyOp::Scatter),
            OpKind::Contract(f) => f == meshwork_ir::op::ContractOp::DotGeneral,
            OpKind::Control(f) => {
                matches!(f, ControlOp::While | ControlOp::Case | ControlOp::If | ControlOp::HloReturn)
            }
            _ => false,
        };
        kind && typed
    };
    module.ops_below(op, Walk::PreOrder).iter().all(known)
}

/// Steps that a turn of an ordinary loop has, roughly: those of loops inside count as often as these turn.
pub(super) fn steps(module: &Module, block: BlockId) -> f64 {
    let mut sum = 1.0;
    for op in module.op_list(block) {
        let data = module.op(op);
        sum += match data.kind() {
            OpKind::Control(ControlOp::While) => {
                let inner = |region| module.body_of(op, region).map_or(0.0, |b| steps(module, b));
                1.0 + inner(0) + inner(1)
            }
            OpKind::Control(ControlOp::Case | ControlOp::If) => {
                let inner = |region| module.body_of(op, region).map_or(0.0, |b| steps(module, b));
                1.0 + (0..data.regions().len()).map(inner).sum::<f64>()
            }
            OpKind::Contract(_) | OpKind::Body(_) => 1.0,
            OpKind::Movement(MovementOp::DynamicUpdateSlice | MovementOp::Concatenate | MovementOp::Gather) => 1.0,
            _ => 0.0,
        };
    }
    sum
}
