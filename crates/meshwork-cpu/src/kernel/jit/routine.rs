//! The function of a routine: phases that run once, with jumps around them.
//!
//! Scalars pass from phase to phase in the frame. Those that the turns of an innermost loop hand on, or read most, have registers there.

use meshwork_ir::hash::HashMap;
use meshwork_mesh::sort_by_key;

use super::alloc::{Emitter, FRAME, Frame, POINTERS, pressure};
use super::asm::{Asm, Cond, Gpr, at, gpr};
use super::code::{Pool, Unit};
use super::emit::{Function, TABLES};
use super::inst::{Home, Inst, op};
use super::lower::Lower;
use crate::kernel::Stores;
use crate::kernel::ir::{Body, Flow, Op, Ty};

/// Most scalars in registers.
const MOST_PINS: usize = 9;

/// Compiles the phases of `body`, which run once, as `flow` says; `None` if something in them has no instructions.
pub fn compile(body: &Body, types: &[Vec<Option<Ty>>], flow: &[Flow]) -> Option<Function> {
    let args = body.args.len();
    let buffer = ((TABLES + 8 * args as i32) as u32).next_multiple_of(64) as i32;
    let frame = Frame { ptrs: TABLES, strides: TABLES, index: TABLES, buffer, bytes: buffer + 64, registers: None };
    let mut unit = Unit { values: vec![], masks: vec![], pool: Pool::default(), frame, sites: vec![] };
    let scalars: Vec<i32> = (0..body.scalars).map(|_| unit.frame.slot()).collect();
    let mut asm = Asm::default();
    let saved = [gpr::RBX, gpr::RBP, gpr::R12, gpr::R13, gpr::R14, gpr::R15];
    saved.iter().for_each(|&r| asm.push(r));
    asm.mov(FRAME, gpr::RDI);
    let pins = vec![None; scalars.len()];
    let mut routine = Routine { body, types, unit, asm, scalars, pointers: vec![None; args], pins };
    routine.assign_pointers();
    routine.list(flow)?;
    let Routine { mut asm, unit, .. } = routine;
    saved.iter().rev().for_each(|&r| asm.pop(r));
    asm.ret();
    Some(Function {
        bytes: asm.finish(&unit.pool.bytes)?,
        frame: (unit.frame.bytes as usize).next_multiple_of(64),
        steps: vec![],
        dims: 0,
        float_index: false,
        interleave: vec![],
        sites: unit.sites,
    })
}

struct Routine<'a> {
    body: &'a Body,
    types: &'a [Vec<Option<Ty>>],
    unit: Unit,
    asm: Asm,
    /// Slots of the scalars.
    scalars: Vec<i32>,
    /// The register of each argument's pointer.
    pointers: Vec<Option<Gpr>>,
    /// Scalars that have registers.
    pins: Vec<Option<u32>>,
}

impl Routine<'_> {
    /// Gives registers to the pointers of the arguments that are used most.
    fn assign_pointers(&mut self) {
        let mut uses = vec![0; self.pointers.len()];
        for op in self.body.phases.iter().flat_map(|p| &p.ops) {
            if let Op::Load(arg) | Op::Store(arg, _) | Op::LoadAt(arg, _) | Op::StoreAt(arg, ..) = *op {
                uses[usize::from(arg)] += 1;
            }
        }
        let mut order: Vec<usize> = (0..uses.len()).collect();
        sort_by_key(&mut order, |&k| std::cmp::Reverse(uses[k]));
        for (&k, r) in order.iter().zip(POINTERS) {
            self.pointers[k] = Some(r);
            self.asm.load(r, at(FRAME, TABLES + 8 * k as i32));
        }
    }

    fn list(&mut self, flow: &[Flow]) -> Option<()> {
        flow.iter().try_for_each(|f| match f {
            Flow::Phase(number) => self.phase(*number, None),
            Flow::Loop { cond, go_on, body } => self.turns(cond, *go_on, body),
            Flow::Choice { index, ty, branches } => self.choice(*index, *ty, branches),
        })
    }

    fn insts(&mut self, number: usize, tested: Option<u16>) -> Option<Vec<Inst>> {
        let mut steps = HashMap::default();
        let (phase, types) = (&self.body.phases[number], &self.types[number]);
        let mut lower = Lower::new(self.body, phase, types, &self.scalars, &mut steps, Stores::Cached);
        lower.pins.clone_from(&self.pins);
        lower.tested = tested;
        lower.uniform(&mut self.unit)
    }

    fn emitter(&mut self) -> Emitter<'_> {
        let Unit { values, frame, .. } = &mut self.unit;
        Emitter { asm: &mut self.asm, values, frame, pointers: &self.pointers }
    }

    fn phase(&mut self, number: usize, tested: Option<u16>) -> Option<()> {
        let insts = self.insts(number, tested)?;
        self.emitter().block(&insts);
        Some(())
    }

    /// Computes the condition and compares it with zero.
    fn test(&mut self, cond: &[Flow], go_on: u16) -> Option<()> {
        if let Some((Flow::Phase(last), before)) = cond.split_last() {
            self.list(before)?;
            return self.phase(*last, Some(go_on));
        }
        self.list(cond)?;
        self.load_scalar(go_on, 1);
        self.asm.cmp_imm(gpr::RAX, 0);
        Some(())
    }

    fn load_scalar(&mut self, scalar: u16, size: usize) {
        let slot = self.scalars[usize::from(scalar)];
        self.asm.load_sized(gpr::RAX, at(FRAME, slot), size);
    }

    fn turns(&mut self, cond: &[Flow], go_on: u16, body: &[Flow]) -> Option<()> {
        let pinned = self.pin(cond, body)?;
        let (again, done) = (self.asm.label(), self.asm.label());
        self.test(cond, go_on)?;
        self.asm.jump_if(Cond::Equal, done);
        self.asm.align(16);
        self.asm.bind(again);
        self.list(body)?;
        self.test(cond, go_on)?;
        self.asm.jump_if(Cond::NotEqual, again);
        self.asm.bind(done);
        for scalar in pinned {
            let slot = self.scalars[scalar];
            if let Some(v) = self.pins[scalar].take()
                && let Some(r) = self.unit.values[v as usize].pin.take()
            {
                self.asm.vex(op::MOVUPS_STORE, true, r, 0, at(FRAME, slot), None);
            }
        }
        Some(())
    }

    /// Gives registers to scalars of an innermost loop, and loads these.
    fn pin(&mut self, cond: &[Flow], body: &[Flow]) -> Option<Vec<usize>> {
        let number = |f: &Flow| if let Flow::Phase(number) = f { Some(*number) } else { None };
        let Some(phases) = cond.iter().chain(body).map(number).collect::<Option<Vec<usize>>>() else {
            return Some(vec![]);
        };
        let mut most = 0;
        for &phase in &phases {
            let insts = self.insts(phase, None)?;
            most = most.max(pressure(&insts, &self.unit.values));
        }
        let (mut reads, mut sets) = (vec![0; self.scalars.len()], vec![false; self.scalars.len()]);
        for op in phases.iter().flat_map(|&p| &self.body.phases[p].ops) {
            match *op {
                Op::Scalar(s, _) => reads[usize::from(s)] += 1,
                Op::SetScalar(s, _) => sets[usize::from(s)] = true,
                _ => {}
            }
        }
        let mut order: Vec<usize> = (0..reads.len()).filter(|&s| reads[s] > 0).collect();
        sort_by_key(&mut order, |&s| (!sets[s], std::cmp::Reverse(reads[s]), s));
        order.truncate(14usize.saturating_sub(most).min(MOST_PINS));
        for (r, &scalar) in (0..16u8).rev().zip(&order) {
            let v = self.unit.value(32, Home::Slot(self.scalars[scalar]));
            self.emitter().load(r, v);
            self.unit.values[v as usize].pin = Some(r);
            self.pins[scalar] = Some(v);
        }
        Some(order)
    }

    fn choice(&mut self, index: u16, ty: Ty, branches: &[Vec<Flow>]) -> Option<()> {
        let Some((last, others)) = branches.split_last() else { return Some(()) };
        let labels: Vec<_> = others.iter().map(|_| self.asm.label()).collect();
        let done = self.asm.label();
        match ty {
            Ty::Pred => {
                self.load_scalar(index, 1);
                self.asm.cmp_imm(gpr::RAX, 0);
                labels.iter().take(1).for_each(|&label| self.asm.jump_if(Cond::NotEqual, label));
            }
            _ => {
                self.load_scalar(index, 4);
                for (number, &label) in labels.iter().enumerate() {
                    self.asm.cmp_imm(gpr::RAX, number as i32);
                    self.asm.jump_if(Cond::Equal, label);
                }
            }
        }
        self.list(last)?;
        for (branch, label) in others.iter().zip(labels) {
            self.asm.jump(done);
            self.asm.bind(label);
            self.list(branch)?;
        }
        self.asm.bind(done);
        Some(())
    }
}
