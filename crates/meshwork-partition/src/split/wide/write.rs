//! Writing a loop that exchanges halos once in several turns.

use meshwork_ir::op::{BinaryOp, ControlOp};
use meshwork_ir::{Direction, OpKind, OpSpec, Type, ValueId};

use super::super::{Result, Splitter};
use super::reach::{Along, WideLoop};
use super::round::{Elements, Outside, Round};
use crate::collective::Site;
use crate::layout::{DimLayout, Layout};
use crate::reshard::moves::Form;

impl Splitter<'_> {
    /// The values that the loop of `plan` ends with, if halos are exchanged every `turns` turns.
    pub(super) fn write_wide(&mut self, plan: &WideLoop, turns: i64) -> Result<Vec<ValueId>> {
        let values = self.carried(plan)?;
        let (rounds, rest) = (plan.turns / turns, plan.turns % turns);
        let values = self.rounds(plan, turns, rounds, values)?;
        if rest == 0 { Ok(values) } else { self.rounds(plan, rest, 1, values) }
    }

    /// What the loop of `plan` starts with, placed as it carries it.
    pub(super) fn carried(&mut self, plan: &WideLoop) -> Result<Vec<ValueId>> {
        self.site = Site::Op(plan.op);
        self.reason = "the loop carries it in this placement".into();
        let operands = self.src.op(plan.op).operands().to_vec();
        operands.iter().zip(&plan.layouts).map(|(&v, layout)| self.get(v, layout)).collect()
    }

    /// The arrays from outside the loop on their lines, and how they lie there.
    pub(super) fn arrays_from_outside(&mut self, plan: &WideLoop) -> Result<Vec<(ValueId, Layout)>> {
        self.reason = "the loop reads its halo".into();
        let mut out = vec![];
        for (v, along) in &plan.outside {
            let frame = |(a, n): (&Along, &i64)| match a {
                Along::Whole => DimLayout::whole(*n),
                Along::Line { line, .. } => {
                    let line = &plan.lines[*line];
                    DimLayout { atoms: line.atoms.clone(), block: line.block, offset: 0 }
                }
            };
            let dims = along.iter().zip(&self.extents(*v)).map(frame).collect();
            let layout = Layout { dims, partial: None };
            out.push((self.get(*v, &layout)?, layout));
        }
        Ok(out)
    }

    /// `rounds` times an exchange and `turns` turns.
    fn rounds(&mut self, plan: &WideLoop, turns: i64, rounds: i64, values: Vec<ValueId>) -> Result<Vec<ValueId>> {
        let mut round = Round::wide(plan, turns);
        for ((v, along), (value, layout)) in plan.outside.iter().zip(self.arrays_from_outside(plan)?) {
            let extents = self.extents(*v);
            let wide = self.widen(&round, value, &layout, &extents, along);
            round.outside.push(Outside::Whole(wide));
        }
        let from = self.collectives.len();
        let made = if rounds == 1 {
            self.scoped(|s| s.one_round(&mut round, turns, &values))
        } else {
            self.repeat_turns(rounds, &values, |s, args| s.one_round(&mut round, turns, args))
        };
        self.give_reasons(from, turns, plan.repeated(turns));
        made
    }

    /// A loop that runs `turn` so often.
    pub(super) fn repeat_turns(
        &mut self,
        times: i64,
        values: &[ValueId],
        turn: impl FnOnce(&mut Self, &[ValueId]) -> Result<Vec<ValueId>>,
    ) -> Result<Vec<ValueId>> {
        let zero = self.local.index_constant(0);
        let all: Vec<ValueId> = std::iter::once(zero).chain(values.iter().copied()).collect();
        let types: Vec<Type> = all.iter().map(|&v| self.local.module.ty(v).clone()).collect();
        let spec = OpSpec::new(ControlOp::While).operands(all).results(types.clone());
        let copy = self.local.push(spec);
        let condition = self.local.module.add_body(copy, types.iter().cloned());
        let counter = self.local.module.block(condition).args()[0];
        self.scoped(|s| {
            (s.local.block, s.local.before) = (condition, None);
            let limit = s.local.index_constant(times);
            let goes_on = s.local.compare(Direction::Lt, counter, limit);
            s.local.push(OpSpec::new(ControlOp::HloReturn).operands([goes_on]));
            Ok(())
        })?;
        let body = self.local.module.add_body(copy, types);
        let args = self.local.module.block(body).args().to_vec();
        let around = self.times;
        self.times *= times;
        self.scoped(|s| {
            (s.local.block, s.local.before) = (body, None);
            let mut made = turn(s, &args[1..])?;
            let one = s.local.index_constant(1);
            made.insert(0, s.local.same(OpKind::Binary(BinaryOp::Add), &[args[0], one]));
            s.local.push(OpSpec::new(ControlOp::HloReturn).operands(made));
            Ok(())
        })?;
        self.times = around;
        Ok(self.local.module.op(copy).results()[1..].to_vec())
    }

    /// An exchange, some turns, and the blocks that are left.
    fn one_round(&mut self, round: &mut Round<'_>, turns: i64, values: &[ValueId]) -> Result<Vec<ValueId>> {
        let plan = round.plan;
        let args = self.src.block(plan.body).args().to_vec();
        let results = self.src.op(plan.op).results().to_vec();
        let mut wide = vec![];
        for (i, &value) in values.iter().enumerate() {
            let extents = self.extents(results[i]);
            self.tensor = Some(results[i]);
            wide.push(match plan.spans.get(&args[i]) {
                Some(along) => self.widen(round, value, &plan.layouts[i], &extents, along),
                None => value,
            });
        }
        // Between turns arrays are as long as before; what is behind their ends is not looked at.
        let blocks: Vec<Elements> = plan.lines.iter().map(|l| (0, l.block)).collect();
        let wide = match turns {
            1 => self.wide_turn(round, &wide, |round, along| round.exactly(along, &blocks))?,
            turns => {
                let full = |_: &Round<'_>, along: Along| along.full();
                let wide = self.repeat_turns(turns, &wide, |s, args| s.wide_turn(round, args, full))?;
                let blocks = args.iter().zip(wide).zip(&results).map(|((arg, value), &r)| {
                    let Some(along) = plan.spans.get(arg) else { return value };
                    let extents = self.extents(r);
                    let own = |(&a, &n): (&Along, &i64)| round.elements(a, n);
                    let block = |(&a, &n): (&Along, &i64)| round.elements(round.exactly(a, &blocks), n);
                    let own: Vec<Elements> = along.iter().zip(&extents).map(own).collect();
                    let block: Vec<Elements> = along.iter().zip(&extents).map(block).collect();
                    self.shorten(value, &own, &block)
                });
                blocks.collect()
            }
        };
        let mut out = vec![];
        for (i, value) in wide.into_iter().enumerate() {
            let extents = self.extents(results[i]);
            let mut form = Form { value, layout: plan.layouts[i].clone() };
            for (d, along) in plan.spans.get(&args[i]).map_or(&[][..], |along| along).iter().enumerate() {
                if let Along::Line { line, .. } = along {
                    let (block, target) = (plan.lines[*line].block, plan.layouts[i].dims[d].clone());
                    form.layout.dims[d] = DimLayout { atoms: target.atoms.clone(), block, offset: 0 };
                    form = self.reframe(form, &extents, d, &target);
                }
            }
            out.push(form.value);
        }
        Ok(out)
    }
}
