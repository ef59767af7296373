//! The function of a kernel: rows, phases, loops over the row, reductions.
//!
//! ```text
//! per row:   per phase:  what is the same all along the row
//!                        while a group of vectors fits:  group   (folding sums every block; in the longest phase
//!                                                                 fetching the next row)
//!                        while a vector fits:            vector
//!                        if elements are left:           rest, by masks
//!                        combine accumulators
//!            next row of every pointer and index
//! ```

use std::sync::Arc;

use meshwork_ir::hash::HashMap;
use meshwork_mesh::sort_by_key;

use super::alloc::{ELEMENT, Emitter, FRAME, Frame, POINTERS, REST, pressure};
use super::asm::{Asm, Cond, Gpr, Label, Rm, at, gpr};
use super::calls::Site;
use super::carried::{Carried, carry};
use super::code::{Code, Pool, Unit, log2};
use super::inst::{Form, Home, Inst, NONE, V, op};
use super::lower::{Lower, Mode, Reduction, assign, combine};
use super::twice::{self, Group};
use crate::kernel::Stores;
use crate::kernel::ir::{Access, Body, Combine, Extent, Op, Phase, Ty};
use crate::kernel::lanes::{self, BLOCK};

/// Byte of the number of rows in the frame.
pub const ROWS: i32 = 0;
/// Byte of the number of elements.
pub const LENGTH: i32 = 8;
/// Byte of the first pointer.
pub const TABLES: i32 = 16;

/// A compiled function and what its caller must prepare.
#[derive(Debug)]
pub struct Function {
    /// Machine code with its constants.
    pub bytes: Vec<u8>,
    /// Bytes of the frame, a multiple of 64.
    pub frame: usize,
    /// Slots where lane `i` holds `i` steps of an index dimension: dimension, log2 of the size, byte.
    pub steps: Vec<(u8, u8, i32)>,
    /// Number of index dimensions.
    pub dims: usize,
    /// Whether an index becomes a float, by way of 32 bits.
    pub float_index: bool,
    /// Vectors in flight, per phase.
    pub interleave: Vec<usize>,
    /// Loops that the code calls, which stay where it looks for them.
    #[allow(dead_code)] // the code reads them
    pub sites: Vec<Arc<Site>>,
}

/// Bytes of a line of the caches.
const LINE: usize = 64;
/// Most arguments whose next row is fetched.
const MOST_FETCHED: usize = 3;

/// Most registers that stay with one value for a whole loop.
const PINS: usize = 11;

/// Compiles `body`; `None` if something in it has no instructions.
pub fn compile(body: &Body, types: &[Vec<Option<Ty>>], stores: Stores) -> Option<Function> {
    let ops = || body.phases.iter().flat_map(|p| &p.ops);
    let dims = ops().filter_map(|op| if let Op::Index(d, _) = op { Some(usize::from(*d) + 1) } else { None }).max();
    let dims = dims.unwrap_or(0);
    let (args, temps) = (body.args.len(), body.temps.len());
    let strides = TABLES + 8 * (2 * args + temps) as i32;
    let index = strides + 8 * args as i32;
    let buffer = ((index + 24 * dims as i32) as u32).next_multiple_of(64) as i32;
    let frame = Frame { ptrs: TABLES, strides, index, buffer, bytes: buffer + 64, registers: None };
    let mut unit = Unit { values: vec![], masks: vec![], pool: Pool::default(), frame, sites: vec![] };
    let scalars: Vec<i32> = (0..body.scalars).map(|_| unit.frame.slot()).collect();
    let mut steps = HashMap::default();
    let mut asm = Asm::default();
    let saved = [gpr::RBX, gpr::RBP, gpr::R12, gpr::R13, gpr::R14, gpr::R15];
    saved.iter().for_each(|&r| asm.push(r));
    asm.mov(FRAME, gpr::RDI);
    let (next_row, end) = (asm.label(), asm.label());
    asm.set(gpr::RAX, 0);
    asm.cmp(gpr::RAX, at(FRAME, ROWS));
    asm.jump_if(Cond::GreaterEqual, end);
    // A single phase keeps pointers and constants in registers from row to row.
    let single = body.phases.len() == 1;
    if !single {
        asm.bind(next_row);
    }
    let mut interleave = vec![];
    let mut stay = vec![None; args];
    let (fetching, fetched) = fetched(body, stores);
    for (i, (phase, types)) in body.phases.iter().zip(types).enumerate() {
        let lower = Lower::new(body, phase, types, &scalars, &mut steps, stores);
        let ahead = if Some(i) == fetching { &fetched[..] } else { &[] };
        let mut emit = PhaseEmitter { body, phase, lower, unit: &mut unit, asm: &mut asm, pointers: vec![], ahead };
        interleave.push(emit.phase(types, single.then_some(next_row))?);
        if single {
            stay = emit.pointers;
        }
    }
    for (k, r) in (0..args as i32).zip(stay) {
        if body.args[k as usize].access == Access::Fixed {
            continue;
        }
        let step = at(FRAME, TABLES + 8 * ((args + temps) as i32 + k));
        if body.args[k as usize].access == Access::Listed {
            asm.load(gpr::RAX, step);
            asm.load(r.unwrap_or(gpr::RDX), at(gpr::RAX, 0));
            if r.is_none() {
                asm.store(at(FRAME, TABLES + 8 * k), gpr::RDX);
            }
            asm.add_imm(gpr::RAX, 8);
            asm.store(step, gpr::RAX);
            continue;
        }
        match r {
            Some(r) => asm.add(r, step),
            None => {
                asm.load(gpr::RAX, step);
                asm.add_to(at(FRAME, TABLES + 8 * k), gpr::RAX);
            }
        }
    }
    for d in 0..dims as i32 {
        asm.load(gpr::RAX, at(FRAME, index + 24 * d + 8));
        asm.add_to(at(FRAME, index + 24 * d), gpr::RAX);
    }
    asm.dec(at(FRAME, ROWS));
    asm.jump_if(Cond::NotEqual, next_row);
    asm.bind(end);
    if stores == Stores::PastCaches {
        asm.store_fence();
    }
    saved.iter().rev().for_each(|&r| asm.pop(r));
    asm.ret();
    Some(Function {
        bytes: asm.finish(&unit.pool.bytes)?,
        frame: (unit.frame.bytes as usize).next_multiple_of(64),
        steps: steps.into_iter().map(|((dim, scale), slot)| (dim, scale, slot)).collect(),
        dims,
        float_index: ops().any(|op| matches!(op, Op::Index(_, ty) if ty.is_float())),
        interleave,
        sites: unit.sites,
    })
}

/// Of several phases along the row the most expensive after the first, and the arguments whose next row it fetches: those that
/// phases but the last read. In the first the row comes from memory; in later ones it is in the caches, and nothing else
/// would keep the memory busy. What is added to accumulators is fetched by the only phase.
fn fetched(body: &Body, stores: Stores) -> (Option<usize>, Vec<usize>) {
    let rows: Vec<usize> = (0..body.phases.len()).filter(|&i| body.phases[i].extent == Extent::Row).collect();
    let (longest, reading) = match (&rows[..], stores) {
        (&[only], Stores::Accumulated) => (only, &body.phases[..=only]),
        (&[_, .., last], _) => {
            let longest = rows[1..].iter().copied().max_by_key(|&i| body.phases[i].ops.len());
            (longest.unwrap_or(last), &body.phases[..last])
        }
        _ => return (None, vec![]),
    };
    let mut args: Vec<usize> = vec![];
    for op in reading.iter().flat_map(|p| &p.ops) {
        if let Op::Load(arg) = *op
            && body.args[usize::from(arg)].access == Access::Unit
            && !args.contains(&usize::from(arg))
        {
            args.push(usize::from(arg));
        }
    }
    args.truncate(MOST_FETCHED);
    (Some(longest), args)
}

struct PhaseEmitter<'a, 'b> {
    body: &'a Body,
    phase: &'a Phase,
    lower: Lower<'a>,
    unit: &'b mut Unit,
    asm: &'b mut Asm,
    /// The register of each argument's pointer.
    pointers: Vec<Option<Gpr>>,
    /// Arguments whose next row is fetched meanwhile.
    ahead: &'a [usize],
}

impl PhaseEmitter<'_, '_> {
    fn block(&mut self, insts: &[Inst]) {
        let Unit { values, frame, .. } = &mut *self.unit;
        Emitter { asm: self.asm, values, frame, pointers: &self.pointers }.block(insts);
    }

    /// Emits the phase and says how many vectors are in flight. `row` is bound to where the next row starts, if
    /// pointers and constants stay in registers until then.
    fn phase(&mut self, types: &[Option<Ty>], row: Option<Label>) -> Option<usize> {
        self.pointers = vec![None; self.body.args.len() + self.body.temps.len()];
        let uniform = self.lower.uniform(self.unit)?;
        if self.phase.extent == Extent::Once {
            let Some(next_row) = row else {
                self.asm.set(ELEMENT, 0);
                self.block(&uniform);
                return Some(1);
            };
            let Carried { loads, row, pinned } = carry(self.body, uniform, self.unit);
            self.block(&loads);
            self.asm.bind(next_row);
            self.asm.set(ELEMENT, 0);
            self.block(&row);
            pinned.iter().for_each(|&v| self.unit.values[v as usize].pin = None);
            return Some(1);
        }
        let kept = std::mem::take(&mut self.lower.kept);
        for &(v, slot) in &kept {
            self.unit.values[v as usize].home = Home::Slot(slot);
        }
        let mut pins: Vec<(V, Option<V>)> = vec![];
        self.make_reductions(types, &mut pins);
        if pins.len() > 9 {
            return None;
        }
        for (r, &(v, _)) in (0..16u8).rev().zip(&pins) {
            self.unit.values[v as usize].pin = Some(r);
        }
        let single = self.lower.varying(self.unit, Mode::Group(1))?;
        let vectors = self.vectors(&single, pins.len());
        let group = match twice::group(&mut self.lower, self.unit, &uniform, vectors) {
            Some(group) => group,
            None if vectors == 1 => Group::narrow(single.clone(), 1),
            None => Group::narrow(self.lower.varying(self.unit, Mode::Group(vectors))?, vectors),
        };
        for mask in &mut self.lower.rest_masks {
            let slot = self.unit.frame.slot();
            *mask = self.unit.value(32, Home::Slot(slot));
        }
        let rest = self.lower.varying(self.unit, Mode::Rest)?;
        let last = if self.lower.ends_in_a_vector() {
            for mask in &mut self.lower.last_masks {
                let slot = self.unit.frame.slot();
                *mask = self.unit.value(32, Home::Slot(slot));
            }
            Some(self.lower.varying(self.unit, Mode::Last)?)
        } else {
            None
        };
        let hoisted = self.hoist(&group.insts, pins.len());
        // Constants first: they stay from row to row.
        self.assign_pointers();
        let is_constant = |(v, _): &(V, u8)| matches!(self.unit.values[*v as usize].home, Home::Pool(_));
        let (constants, invariants): (Vec<_>, Vec<_>) = hoisted.iter().copied().partition(is_constant);
        self.asm.double(group.doubled);
        for (v, r) in constants {
            self.unit.values[v as usize].pin = Some(r);
            self.load_pin(v, v);
        }
        self.asm.double(None);
        if let Some(row) = row {
            self.asm.bind(row);
        }
        // While it is computed, what is kept for the loops is not in its slot yet.
        kept.iter().for_each(|&(v, _)| self.unit.values[v as usize].home = Home::None);
        self.asm.set(ELEMENT, 0);
        self.block(&uniform);
        kept.iter().for_each(|&(v, slot)| self.unit.values[v as usize].home = Home::Slot(slot));
        self.asm.double(group.doubled);
        for (v, r) in invariants {
            self.unit.values[v as usize].pin = Some(r);
            self.load_pin(v, v);
        }
        self.asm.double(None);
        for &(v, start) in &pins {
            self.load_pin(v, start.unwrap_or(v));
        }
        self.loops(&group, &single, (&rest, last.as_deref()))?;
        self.finish()?;
        let accumulators = group.accumulators.iter().copied();
        for v in pins.iter().map(|(v, _)| *v).chain(hoisted.iter().map(|(v, _)| *v)).chain(accumulators) {
            self.unit.values[v as usize].pin = None;
        }
        Some(group.vectors)
    }

    /// Loads the register of pinned value `v` with value `from`.
    fn load_pin(&mut self, v: V, from: V) {
        if let Some(r) = self.unit.values[v as usize].pin {
            let Unit { values, frame, .. } = &mut *self.unit;
            Emitter { asm: self.asm, values, frame, pointers: &self.pointers }.load(r, from);
        }
    }

    /// Gives registers to the pointers of the arguments that are used most.
    fn assign_pointers(&mut self) {
        let args = self.body.args.len();
        let mut uses = vec![0; self.pointers.len()];
        for op in &self.phase.ops {
            match *op {
                Op::Load(arg) | Op::Store(arg, _) => {
                    uses[usize::from(arg)] += u32::from(self.body.args[usize::from(arg)].access.is_unit());
                }
                Op::LoadTemp(temp, _) | Op::StoreTemp(temp, _) => uses[args + usize::from(temp)] += 1,
                _ => {}
            }
        }
        let mut order: Vec<usize> = (0..uses.len()).filter(|&k| uses[k] > 0).collect();
        sort_by_key(&mut order, |&k| std::cmp::Reverse(uses[k]));
        for (&k, r) in order.iter().zip(POINTERS) {
            self.pointers[k] = Some(r);
            self.asm.load(r, at(FRAME, TABLES + 8 * k as i32));
        }
    }

    /// Makes the accumulators; they and their first values are added to `pins`.
    fn make_reductions(&mut self, types: &[Option<Ty>], pins: &mut Vec<(V, Option<V>)>) {
        let vectors = lanes::interleave(self.phase);
        for op in &self.phase.ops {
            let Op::Reduce(how, scalar, a) = *op else { continue };
            let ty = types[usize::from(a)].unwrap_or(Ty::Pred);
            // Masks are reduced at the size of the widest lanes, which most of them have already.
            let size = if ty == Ty::Pred { lanes::VECTOR / self.lower.lanes } else { ty.size() };
            let mut identity = ty.identity(how);
            if ty == Ty::Pred && identity == 1 {
                identity = u64::MAX >> (64 - 8 * size);
            }
            let identity = self.unit.splat(size, identity);
            let width = self.lower.lanes * size;
            let acc: Vec<V> = (0..vectors).map(|_| self.unit.value(width, Home::None)).collect();
            pins.extend(acc.iter().map(|&v| (v, Some(identity))));
            let nan = (ty.is_float() && matches!(how, Combine::Max | Combine::Min)).then(|| {
                let nan = self.unit.value(width, Home::None);
                pins.push((nan, Some(self.unit.zero())));
                nan
            });
            let blocks = lanes::folds(how, ty);
            let second = (0..vectors).filter(|_| blocks).map(|_| self.unit.frame.slot()).collect();
            self.lower.reductions.push(Reduction { how, ty, size, acc, nan, second, scalar });
        }
    }

    /// How many vectors to keep in flight: as many as registers allow, but at least two, since a spilled value costs
    /// less than waiting. Short bodies are bound by memory and long ones by the decoder; three suit both.
    fn vectors(&self, single: &[Inst], pinned: usize) -> usize {
        if !self.lower.reductions.is_empty() {
            return lanes::interleave(self.phase);
        }
        let live = pressure(single, &self.unit.values).max(1);
        match single.len() {
            0..=6 | 40.. => 3,
            _ => ((15 - pinned) / live).clamp(2, 4),
        }
    }

    /// The constants and invariants that the loop uses most, and registers for them that it leaves free.
    fn hoist(&self, group: &[Inst], taken: usize) -> Vec<(V, u8)> {
        let mut uses: HashMap<V, usize> = HashMap::default();
        for inst in group {
            for v in inst.sources() {
                let value = &self.unit.values[v as usize];
                if value.pin.is_none() && matches!(value.home, Home::Pool(_) | Home::Slot(_)) {
                    *uses.entry(v).or_default() += 1;
                }
            }
        }
        let live = pressure(group, &self.unit.values);
        let room = 16usize.saturating_sub(taken + live).min(PINS - taken.min(PINS));
        let mut order: Vec<(V, usize)> = uses.into_iter().collect();
        sort_by_key(&mut order, |&(v, n)| (std::cmp::Reverse(n), v));
        order.iter().take(room).enumerate().map(|(i, &(v, _))| (v, 15 - (taken + i) as u8)).collect()
    }

    fn loops(&mut self, group: &Group, single: &[Inst], (rest, last): (&[Inst], Option<&[Inst]>)) -> Option<()> {
        let lanes = self.lower.lanes as i32;
        let step = lanes * group.vectors as i32;
        let blocks = self.lower.reductions.iter().any(|r| !r.second.is_empty());
        let (next_block, groups_done) = (self.asm.label(), self.asm.label());
        if blocks {
            self.start_second();
        }
        self.asm.bind(next_block);
        self.asm.load(REST, at(FRAME, LENGTH));
        if blocks {
            self.asm.lea(gpr::RAX, at(ELEMENT, BLOCK as i32));
            self.asm.cmp(gpr::RAX, Rm::Reg(REST));
            self.asm.mov_if(Cond::Less, REST, Rm::Reg(gpr::RAX));
        }
        self.run_while_fits(group, step, self.ahead);
        if blocks {
            self.asm.add_imm(REST, step);
            self.asm.cmp(REST, at(FRAME, LENGTH));
            self.asm.jump_if(Cond::GreaterEqual, groups_done);
            self.fold_blocks()?;
            self.asm.jump(next_block);
        }
        self.asm.bind(groups_done);
        if group.vectors > 1 {
            self.asm.load(REST, at(FRAME, LENGTH));
            self.run_while_fits(&Group::narrow(single.to_vec(), 1), lanes, &[]);
        }
        let done = self.asm.label();
        self.asm.mov(REST, ELEMENT);
        self.asm.neg(REST);
        self.asm.add(REST, at(FRAME, LENGTH));
        self.asm.jump_if(Cond::Equal, done);
        if let Some(last) = last {
            let short = self.asm.label();
            self.asm.set(gpr::RAX, lanes);
            self.asm.cmp(gpr::RAX, at(FRAME, LENGTH));
            self.asm.jump_if(Cond::Greater, short);
            self.make_masks(last, Mode::Last);
            self.asm.add_imm(ELEMENT, -lanes);
            self.asm.add(ELEMENT, Rm::Reg(REST));
            self.block(last);
            self.asm.jump(done);
            self.asm.bind(short);
        }
        self.make_masks(rest, Mode::Rest);
        self.block(rest);
        self.asm.bind(done);
        Some(())
    }

    /// Runs a group while `step` elements are left before the one that `REST` names, and fetches as many of the
    /// next row of the arguments `ahead`.
    fn run_while_fits(&mut self, group: &Group, step: i32, ahead: &[usize]) {
        let (again, done) = (self.asm.label(), self.asm.label());
        self.asm.add_imm(REST, -step);
        self.asm.cmp(ELEMENT, Rm::Reg(REST));
        self.asm.jump_if(Cond::Greater, done);
        twice::join(self.asm, &group.joined);
        self.asm.align(16);
        self.asm.bind(again);
        for &arg in ahead {
            self.fetch_next_row(arg, step);
        }
        self.asm.double(group.doubled);
        self.block(&group.insts);
        self.asm.double(None);
        self.asm.add_imm(ELEMENT, step);
        self.asm.cmp(ELEMENT, Rm::Reg(REST));
        self.asm.jump_if(Cond::LessEqual, again);
        twice::part(self.asm, &group.joined);
        self.asm.bind(done);
    }

    /// Fetches the lines that the next `step` elements are in, one row on. The row after the last may be anywhere: a fetch
    /// never faults.
    fn fetch_next_row(&mut self, arg: usize, step: i32) {
        let row = TABLES + 8 * (self.body.args.len() + self.body.temps.len() + arg) as i32;
        let pointer = self.pointers[arg].map_or(at(FRAME, TABLES + 8 * arg as i32), Rm::Reg);
        self.asm.load(gpr::RAX, at(FRAME, row));
        self.asm.add(gpr::RAX, pointer);
        let size = self.body.args[arg].elem.storage_bytes();
        for disp in (0..step * size as i32).step_by(LINE) {
            self.asm.fetch(Rm::Mem { base: gpr::RAX, index: Some((ELEMENT, log2(size))), disp });
        }
    }

    /// Loads the masks of the rest of the row that `insts` use into their slots: the rest at the start of a vector, or
    /// at its end.
    fn make_masks(&mut self, insts: &[Inst], mode: Mode) {
        let (masks, ahead, first, second) = match mode {
            Mode::Last => (self.lower.last_masks, self.lower.lanes as i32, [0; 32], [0xFF; 32]),
            _ => (self.lower.rest_masks, 0, [0xFF; 32], [0; 32]),
        };
        let base = self.unit.pool.bytes.len() as u32;
        let mut used = false;
        for (scale, mask) in masks.into_iter().enumerate() {
            if !insts.iter().any(|i| i.sources().any(|v| v == mask)) {
                continue;
            }
            used = true;
            self.asm.lea(gpr::RAX, Rm::Pool(base + 32));
            self.asm.mov(gpr::RDX, REST);
            match mode {
                Mode::Last => self.asm.add_imm(gpr::RDX, -ahead),
                _ => self.asm.neg(gpr::RDX),
            }
            self.asm.shl(gpr::RDX, scale as u8);
            let from = Rm::Mem { base: gpr::RAX, index: Some((gpr::RDX, 0)), disp: 0 };
            self.asm.vex(op::MOVUPS, true, 0, 0, from, None);
            if let Home::Slot(slot) = self.unit.values[mask as usize].home {
                self.asm.vex(op::MOVUPS_STORE, true, 0, 0, at(FRAME, slot), None);
            }
        }
        if used {
            self.unit.pool.bytes.extend(first);
            self.unit.pool.bytes.extend(second);
        }
    }

    /// Sets the second accumulators to the identity.
    fn start_second(&mut self) {
        for r in &self.lower.reductions {
            for (&slot, &acc) in r.second.iter().zip(&r.acc) {
                if let Some(from) = self.unit.values[acc as usize].pin {
                    self.asm.vex(op::MOVUPS_STORE, true, from, 0, at(FRAME, slot), None);
                }
            }
        }
    }

    /// Folds the accumulators into the second ones and starts them again.
    fn fold_blocks(&mut self) -> Option<()> {
        let mut code = Code { unit: self.unit, insts: vec![], lanes: self.lower.lanes };
        let mut fresh = vec![];
        for r in self.lower.reductions.iter().filter(|r| !r.second.is_empty()) {
            let identity = code.unit.splat(r.size, r.ty.identity(r.how));
            for (&slot, &acc) in r.second.iter().zip(&r.acc) {
                let second = code.unit.value(32, Home::Slot(slot));
                let v = combine(&mut code, r, acc, second)?;
                code.insts.push(Inst::Keep { src: v, slot });
                fresh.push((acc, identity));
            }
        }
        let insts = code.insts;
        self.block(&insts);
        for (acc, identity) in fresh {
            self.load_pin(acc, identity);
        }
        Some(())
    }

    /// Combines the accumulators of each reduction and spreads the result over its scalar's slot.
    fn finish(&mut self) -> Option<()> {
        let mut code = Code { unit: self.unit, insts: vec![], lanes: self.lower.lanes };
        for r in &self.lower.reductions {
            for (&slot, &acc) in r.second.iter().zip(&r.acc) {
                let second = code.unit.value(32, Home::Slot(slot));
                let v = combine(&mut code, r, acc, second)?;
                assign(&mut code, acc, v);
            }
            let mut group = r.acc.len();
            while group > 1 {
                group /= 2;
                for u in 0..group {
                    let v = combine(&mut code, r, r.acc[u], r.acc[u + group])?;
                    assign(&mut code, r.acc[u], v);
                }
            }
            let v = halve(&mut code, r, r.acc[0], false)?;
            let v = match r.nan {
                None => v,
                Some(nan) => {
                    let met = halve(&mut code, r, nan, true)?;
                    code.low(op::POR, Form::Commutes, [v, met], None)
                }
            };
            self.lower.set_scalar(&mut code, r.scalar, v, r.size);
        }
        let insts = code.insts;
        self.block(&insts);
        Some(())
    }
}

/// Combines the upper half of the lanes into the lower half until one is left (`any`: by or).
fn halve(code: &mut Code<'_>, r: &Reduction, v: V, any: bool) -> Option<V> {
    let join = |code: &mut Code<'_>, a: V, b: V| {
        if any { Some(code.low(op::POR, Form::Commutes, [a, b], None)) } else { combine(code, r, a, b) }
    };
    let mut width = code.lanes * r.size;
    let lanes = code.lanes;
    let mut v = v;
    if width == 32 {
        width = 16;
        code.lanes = lanes / 2;
        let dst = code.unit.value(16, Home::None);
        let vex = super::inst::Vex {
            enc: op::EXTRACT128,
            wide: true,
            form: Form::Mr,
            dst,
            a: v,
            b: NONE,
            c: NONE,
            imm: Some(1),
            read: 0,
        };
        code.insts.push(Inst::Vex(vex));
        v = join(code, v, dst)?;
    }
    while width > r.size {
        width /= 2;
        // Bytes shifted down within 16: the quad word shift with another extension.
        let upper = code.low(op::SHIFT[usize::from(log2(8))], Form::Shift(3), [NONE, v], Some(width as u8));
        v = join(code, v, upper)?;
    }
    code.lanes = lanes;
    Some(v)
}
