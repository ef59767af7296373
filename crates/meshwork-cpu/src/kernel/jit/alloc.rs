//! Registers for straight-line code: a value is evicted when its next use is the furthest away.
//!
//! Values that are also in memory (constants, invariants, unit loads, spilled ones) are dropped without a store, and
//! are read from there when the instruction can do so and they are not needed again soon.

use super::asm::{Asm, Cond, Gpr, Rm, at, gpr};
use super::inst::{Count, Form, Home, Inst, NONE, Part, Sign, V, Value, Vex, op};
use super::twice;

/// What code generation knows of the frame that the code works on.
pub struct Frame {
    /// Byte of the table of pointers to the present row of each argument and temporary.
    pub ptrs: i32,
    /// Byte of the strides along the row.
    pub strides: i32,
    /// Byte of the first index dimension: the present row's start, step per row, step per element.
    pub index: i32,
    /// Byte of 64 bytes for moving elements one by one.
    pub buffer: i32,
    /// First free byte, a multiple of 32.
    pub bytes: i32,
    /// Room for all registers during a call, if there is one.
    pub registers: Option<i32>,
}

impl Frame {
    /// Room for one vector.
    pub fn slot(&mut self) -> i32 {
        self.bytes += 32;
        self.bytes - 32
    }

    /// Room for a value of `width` bytes that is spilled.
    fn room(&mut self, width: u8) -> i32 {
        let start = self.slot();
        if usize::from(width) == twice::WIDTH {
            self.slot();
        }
        start
    }

    /// Room for 8 pointers, then for 16 vectors.
    fn saved(&mut self) -> i32 {
        let end = self.bytes;
        *self.registers.get_or_insert_with(|| {
            self.bytes += 64 + 16 * 32;
            end
        })
    }
}

/// The register with the frame's address, the one with the number of the element, and the one with how many are left.
pub const FRAME: Gpr = gpr::R15;
/// The number of the element.
pub const ELEMENT: Gpr = gpr::RBX;
/// Elements left at the end of a row.
pub const REST: Gpr = gpr::R14;

/// Registers that hold pointers of arguments.
pub const POINTERS: [Gpr; 9] = [gpr::RSI, gpr::RDI, gpr::R8, gpr::R9, gpr::R10, gpr::R11, gpr::R12, gpr::R13, gpr::RBP];

/// Emits straight-line code.
pub struct Emitter<'a> {
    /// Where the bytes go.
    pub asm: &'a mut Asm,
    /// All values.
    pub values: &'a mut Vec<Value>,
    /// The frame.
    pub frame: &'a mut Frame,
    /// The register of each argument's pointer, if it has one.
    pub pointers: &'a [Option<Gpr>],
}

pub(super) struct State<'a, 'b> {
    pub(super) out: &'a mut Emitter<'b>,
    /// What each register holds.
    pub(super) held: [V; 16],
    /// Register of each value, or 255.
    pub(super) place: Vec<u8>,
    /// Where each value is read next, after the present instruction.
    pub(super) next: Vec<u32>,
}

/// No further use.
pub(super) const NEVER: u32 = u32::MAX;

/// The place of a value that is in no register.
pub(super) const NOWHERE: u8 = 255;

/// Most values in registers at once that have no other home, of code that starts and ends with none.
pub fn pressure(insts: &[Inst], values: &[Value]) -> usize {
    let mut last = vec![0usize; values.len()];
    for (i, inst) in insts.iter().enumerate() {
        for v in inst.sources() {
            last[v as usize] = i;
        }
    }
    let counts = |v: V| {
        let value = &values[v as usize];
        value.pin.is_none() && !matches!(value.home, Home::Pool(_) | Home::Slot(_) | Home::Called(_))
    };
    let mut live = vec![false; values.len()];
    let (mut now, mut most) = (0usize, 0);
    for (i, inst) in insts.iter().enumerate() {
        // Loads become live where they are used.
        for v in inst.sources().filter(|&v| counts(v)) {
            if !live[v as usize] {
                live[v as usize] = true;
                now += 1;
            }
        }
        most = most.max(now);
        for v in inst.sources().filter(|&v| counts(v)) {
            if live[v as usize] && last[v as usize] == i {
                live[v as usize] = false;
                now -= 1;
            }
        }
        if let Some(v) = inst.result()
            && counts(v)
            && last[v as usize] > i
            && !live[v as usize]
        {
            live[v as usize] = true;
            now += 1;
        }
        most = most.max(now);
    }
    most
}

impl Emitter<'_> {
    /// Emits `insts`; only pinned values survive it.
    pub fn block(&mut self, insts: &[Inst]) {
        let n = self.values.len();
        let mut next = vec![NEVER; n];
        // Per instruction and operand, where the value is read after it.
        let mut after = vec![[NEVER; 4]; insts.len()];
        for (i, inst) in insts.iter().enumerate().rev() {
            for (slot, v) in after[i].iter_mut().zip(inst.sources()) {
                *slot = next[v as usize];
            }
            for v in inst.sources() {
                next[v as usize] = i as u32;
            }
        }
        let mut state = State { held: [NONE; 16], place: vec![NOWHERE; n], next, out: self };
        for v in 0..n {
            if let Some(r) = state.out.values[v].pin {
                state.held[usize::from(r)] = v as V;
                state.place[v] = r;
            }
        }
        for (inst, after) in insts.iter().zip(after) {
            for (v, later) in inst.sources().zip(after) {
                state.next[v as usize] = later;
            }
            state.inst(inst);
        }
    }

    /// Loads a value with a home into register `r`.
    pub fn load(&mut self, r: u8, v: V) {
        let value = self.values[v as usize];
        let rm = self.home(&value);
        if matches!(value.home, Home::Arg { .. }) {
            match value.width {
                32.. => self.asm.vex(op::MOVUPS, true, r, 0, rm, None),
                16 => self.asm.vex(op::MOVUPS, false, r, 0, rm, None),
                8 => self.asm.vex(op::MOVQ, false, r, 0, rm, None),
                _ => self.asm.vex(op::MOVD, false, r, 0, rm, None),
            }
        } else {
            self.asm.vex(op::MOVUPS, true, r, 0, rm, None);
        }
    }

    /// The operand for a home; may load a pointer into `rax`.
    fn home(&mut self, value: &Value) -> Rm {
        // What is the same in all lanes is kept as 32 bytes.
        let one = self.asm.doubled.is_some() && usize::from(value.width) < twice::WIDTH;
        match value.home {
            Home::Pool(byte) if one => Rm::PoolOne(byte),
            Home::Slot(byte) if one => Rm::FrameOne(byte),
            Home::Pool(byte) => Rm::Pool(byte),
            Home::Slot(byte) | Home::Called(byte) => at(FRAME, byte),
            Home::Arg { arg, ahead, scale } => self.element(arg, ahead, scale),
            // Values without a home are in registers; the allocator never asks.
            Home::None => at(FRAME, self.frame.buffer),
        }
    }

    pub(super) fn pointer(&mut self, arg: u16) -> Gpr {
        match self.pointers[usize::from(arg)] {
            Some(r) => r,
            None => {
                self.asm.load(gpr::RAX, at(FRAME, self.frame.ptrs + 8 * i32::from(arg)));
                gpr::RAX
            }
        }
    }

    pub(super) fn element(&mut self, arg: u16, ahead: i32, scale: u8) -> Rm {
        let base = self.pointer(arg);
        Rm::Mem { base, index: Some((ELEMENT, scale)), disp: ahead << scale }
    }

    fn store(&mut self, rm: Rm, r: u8, width: u8) {
        match width {
            32.. => self.asm.vex(op::MOVUPS_STORE, true, r, 0, rm, None),
            16 => self.asm.vex(op::MOVUPS_STORE, false, r, 0, rm, None),
            8 => self.asm.vex(op::MOVQ_STORE, false, r, 0, rm, None),
            _ => self.asm.vex(op::MOVD_STORE, false, r, 0, rm, None),
        }
    }
}

impl State<'_, '_> {
    pub(super) fn value(&self, v: V) -> &Value {
        &self.out.values[v as usize]
    }

    pub(super) fn dies(&self, v: V) -> bool {
        self.value(v).pin.is_none() && self.next[v as usize] == NEVER
    }

    /// A free register, evicting if need be; never one of `locked`.
    pub(super) fn take(&mut self, locked: &[V]) -> u8 {
        let mut best = (0, 0u8);
        for r in 0..16u8 {
            let v = self.held[usize::from(r)];
            if v == NONE {
                return r;
            }
            if self.value(v).pin.is_some() || locked.contains(&v) {
                continue;
            }
            // Dropping is cheaper than spilling.
            let far = u64::from(self.next[v as usize]) * 2 + u64::from(self.value(v).home != Home::None);
            if far >= best.0 {
                best = (far, r);
            }
        }
        let r = best.1;
        let v = self.held[usize::from(r)];
        if self.value(v).home == Home::None && self.next[v as usize] != NEVER {
            let slot = self.out.frame.room(self.value(v).width);
            self.out.asm.vex(op::MOVUPS_STORE, true, r, 0, at(FRAME, slot), None);
            self.out.values[v as usize].home = Home::Slot(slot);
        }
        self.release(v);
        r
    }

    pub(super) fn release(&mut self, v: V) {
        let r = self.place[v as usize];
        if r != NOWHERE {
            self.held[usize::from(r)] = NONE;
            self.place[v as usize] = NOWHERE;
        }
    }

    pub(super) fn occupy(&mut self, v: V, r: u8) {
        self.held[usize::from(r)] = v;
        self.place[v as usize] = r;
    }

    /// The register of `v`, loading it if need be.
    pub(super) fn register(&mut self, v: V, locked: &[V]) -> u8 {
        if self.place[v as usize] == NOWHERE {
            let r = self.take(locked);
            self.out.load(r, v);
            self.occupy(v, r);
        }
        self.place[v as usize]
    }

    /// `v` as the operand that may be in memory, of which the instruction reads `read` bytes.
    pub(super) fn operand(&mut self, v: V, read: u8, locked: &[V]) -> Rm {
        let place = self.place[v as usize];
        if place != NOWHERE {
            return Rm::Reg(place);
        }
        let value = *self.value(v);
        let fits = match value.home {
            Home::Pool(_) | Home::Slot(_) | Home::Called(_) => true,
            // Another use soon: one load for both.
            Home::Arg { .. } => value.width == read && self.next[v as usize] == NEVER,
            Home::None => false,
        };
        if fits { self.out.home(&value) } else { Rm::Reg(self.register(v, locked)) }
    }

    /// Lets go of values that are not used after this instruction.
    pub(super) fn retire(&mut self, inst: &Inst) {
        for v in inst.sources() {
            if self.dies(v) {
                self.release(v);
            }
        }
    }

    /// A register for the result, after the operands were retired.
    pub(super) fn result(&mut self, v: V) -> u8 {
        if let Some(r) = self.value(v).pin {
            return r;
        }
        let r = self.take(&[]);
        self.occupy(v, r);
        self.drop_unread(v);
        r
    }

    /// Frees the register of `v` at once if nothing reads it.
    pub(super) fn drop_unread(&mut self, v: V) {
        if self.next[v as usize] == NEVER {
            self.release(v);
        }
    }

    fn inst(&mut self, inst: &Inst) {
        match *inst {
            Inst::Vex(x) => match x.form {
                Form::Fma | Form::FmaNegated => self.fma(inst, x),
                Form::Ternary(table) => self.ternary(inst, x, table),
                _ => self.vex(inst, x),
            },
            Inst::Touch(v) => {
                self.register(v, &[v]);
                self.out.values[v as usize].home = Home::None;
                self.retire(inst);
            }
            Inst::Test(v) => {
                let r = self.register(v, &[v]);
                self.out.asm.vex(op::MOVD_STORE, false, r, 0, Rm::Reg(gpr::RAX), None);
                self.out.asm.cmp_imm(gpr::RAX, 0);
                self.retire(inst);
            }
            Inst::Store { src, arg, ahead, scale, past } => {
                let (r, width) = (self.register(src, &[src]), self.value(src).width);
                let rm = self.out.element(arg, ahead, scale);
                match (past, width) {
                    (true, 16 | 32) => self.out.asm.vex(op::MOVNTPS, width == 32, r, 0, rm, None),
                    _ => self.out.store(rm, r, width),
                }
                self.retire(inst);
            }
            Inst::Keep { src, slot } => {
                let r = self.register(src, &[src]);
                self.out.asm.vex(op::MOVUPS_STORE, true, r, 0, at(FRAME, slot), None);
                self.retire(inst);
            }
            Inst::Call { site, slots } => self.call(site, slots),
            Inst::Far { dst, mask, x, y, near, site, slots } => {
                let r = self.far(dst, [mask, near, x, y], (site, slots));
                self.retire(inst);
                if self.value(dst).pin.is_none() {
                    self.occupy(dst, r);
                    self.drop_unread(dst);
                }
            }
            Inst::StoreOne { src, arg, scale, place, disp } => {
                let r = self.register(src, &[src, place]);
                let rm = self.one(arg, (place, disp), &[src, place]);
                let asm = &mut *self.out.asm;
                match scale {
                    0 => asm.vex(op::PEXTR[0], false, r, 0, rm, Some(0)),
                    1 => asm.vex(op::PEXTR[1], false, r, 0, rm, Some(0)),
                    2 => asm.vex(op::MOVD_STORE, false, r, 0, rm, None),
                    _ => asm.vex(op::MOVQ_STORE, false, r, 0, rm, None),
                }
                self.retire(inst);
            }
            Inst::LoadRest { dst, mask, arg, scale } => {
                if scale >= 2 {
                    let m = self.register(mask, &[mask]);
                    self.retire(inst);
                    let r = self.result(dst);
                    let wide = self.value(dst).width == 32;
                    let rm = self.out.element(arg, 0, scale);
                    let e = if scale == 2 { op::MASKMOVD_LOAD } else { op::MASKMOVQ_LOAD };
                    self.out.asm.vex(e, wide, r, m, rm, None);
                } else {
                    self.retire(inst);
                    self.copy_rest(arg, scale, true);
                    self.read_buffer(dst);
                }
            }
            Inst::StoreRest { src, mask, arg, scale } => {
                let r = self.register(src, &[src, mask]);
                if scale >= 2 {
                    let m = self.register(mask, &[src, mask]);
                    let wide = self.value(src).width == 32;
                    let rm = self.out.element(arg, 0, scale);
                    self.out.asm.store_masked(1 << scale, wide, r, m, rm);
                } else {
                    let buffer = at(FRAME, self.out.frame.buffer);
                    self.out.asm.vex(op::MOVUPS_STORE, true, r, 0, buffer, None);
                    self.copy_rest(arg, scale, false);
                }
                self.retire(inst);
            }
            Inst::Gather { dst, arg, ahead, scale, count: Count::Lanes(lanes) } => {
                self.gather(dst, arg, ahead, scale, lanes);
            }
            Inst::Gather { dst, arg, ahead, scale, count } => {
                self.copy_strided(arg, ahead, scale, count, true);
                self.read_buffer(dst);
            }
            Inst::Scatter { src, arg, ahead, scale, count: Count::Lanes(lanes) } => {
                self.scatter(src, arg, ahead, scale, lanes);
                self.retire(inst);
            }
            Inst::Scatter { src, arg, ahead, scale, count } => {
                let r = self.register(src, &[src]);
                let buffer = at(FRAME, self.out.frame.buffer);
                self.out.asm.vex(op::MOVUPS_STORE, true, r, 0, buffer, None);
                self.copy_strided(arg, ahead, scale, count, false);
                self.retire(inst);
            }
            Inst::LoadPair { dst, mask, arg, ahead, scale } => self.pair(inst, dst, mask, arg, ahead, scale),
            Inst::LoadTriple { dst, masks, arg, ahead, scale } => self.triple(inst, dst, masks, arg, ahead, scale),
            Inst::StorePair { src, mask, arg, ahead, scale } => {
                let locked = [src, mask];
                let (r, m) = (self.register(src, &locked), self.register(mask, &locked));
                let wide = self.value(src).width == 32;
                let spread = self.take(&locked);
                let there = |base: Gpr, disp: i32| Rm::Mem { base, index: Some((gpr::RDX, scale)), disp };
                let base = self.out.pointer(arg);
                let asm = &mut *self.out.asm;
                asm.lea(gpr::RDX, Rm::Mem { base: ELEMENT, index: Some((ELEMENT, 0)), disp: 0 });
                for half in 0..if wide { 2 } else { 1 } {
                    match (scale, half) {
                        (2, 0) => asm.vex(op::PMOVZXDQ, true, spread, 0, Rm::Reg(r), None),
                        (2, _) => {
                            asm.vex(op::EXTRACT128, true, r, 0, Rm::Reg(spread), Some(1));
                            asm.vex(op::PMOVZXDQ, true, spread, 0, Rm::Reg(spread), None);
                        }
                        (_, 0) => asm.vex(op::PERMQ, true, spread, 0, Rm::Reg(r), Some(0b0101_0000)),
                        _ => asm.vex(op::PERMQ, true, spread, 0, Rm::Reg(r), Some(0b1111_1010)),
                    }
                    let place = there(base, ((2 * ahead) << scale) + 32 * half);
                    asm.store_masked(1 << scale, true, spread, m, place);
                }
                self.retire(inst);
            }
            Inst::Spread { dst, arg, scale, shl, place, disp } => {
                let from = self.one(arg, (place, disp), &[place]);
                self.retire(inst);
                let r = self.result(dst);
                let asm = &mut *self.out.asm;
                if shl == 0 {
                    asm.vex(op::PBROADCAST[usize::from(scale)], true, r, 0, from, None);
                    return;
                }
                asm.load_sized(gpr::RAX, from, 1 << scale);
                asm.shl(gpr::RAX, shl);
                asm.vex(op::MOVQ_FROM_GPR, false, r, 0, Rm::Reg(gpr::RAX), None);
                asm.vex(op::PBROADCAST[2], true, r, 0, Rm::Reg(r), None);
            }
            Inst::Divide { dst, x, y, scale, sign, part } => {
                let (x, y) = (self.register(x, &[x, y]), self.register(y, &[x, y]));
                let to_gpr = if scale == 2 { op::MOVD_STORE } else { op::MOVQ_TO_GPR };
                self.out.asm.vex(to_gpr, false, x, 0, Rm::Reg(gpr::RAX), None);
                self.out.asm.vex(to_gpr, false, y, 0, Rm::Reg(gpr::RCX), None);
                self.retire(inst);
                let r = self.result(dst);
                let from = divide(self.out.asm, 1 << scale, sign, part);
                self.out.asm.spread(r, from, 1 << scale);
            }
            Inst::Pick { dst, place, mask, arg, scale, disp } => {
                self.pick(inst, dst, (place, mask), (arg, scale, disp))
            }
            Inst::Address { dst, arg, disp } => {
                let base = self.out.pointer(arg);
                let r = self.result(dst);
                let asm = &mut *self.out.asm;
                asm.lea(gpr::RAX, at(base, disp));
                asm.vex(op::MOVD, false, r, 0, Rm::Reg(gpr::RAX), None);
                asm.vex(op::PBROADCAST[2], true, r, 0, Rm::Reg(r), None);
            }
            Inst::SpreadMask { dst, arg } => {
                let base = self.out.pointer(arg);
                let r = self.result(dst);
                let asm = &mut *self.out.asm;
                asm.load_sized(gpr::RAX, at(base, 0), 1);
                asm.neg(gpr::RAX);
                asm.carry_mask(gpr::RAX);
                asm.vex(op::MOVQ_FROM_GPR, false, r, 0, Rm::Reg(gpr::RAX), None);
                asm.vex(op::PBROADCAST[3], true, r, 0, Rm::Reg(r), None);
            }
            Inst::Index { dst, dim, ahead, scale } => {
                let r = self.result(dst);
                let entry = self.out.frame.index + 24 * i32::from(dim);
                let asm = &mut *self.out.asm;
                asm.lea(gpr::RAX, at(ELEMENT, ahead));
                asm.mul(gpr::RAX, at(FRAME, entry + 16));
                asm.add(gpr::RAX, at(FRAME, entry));
                asm.vex(op::MOVQ_FROM_GPR, false, r, 0, Rm::Reg(gpr::RAX), None);
                asm.vex(op::PBROADCAST[usize::from(scale)], true, r, 0, Rm::Reg(r), None);
            }
        }
    }

    /// Calls a loop; no register survives that by itself.
    fn call(&mut self, site: u64, slots: i32) {
        let mut pinned = vec![];
        for r in 0..16u8 {
            let v = self.held[usize::from(r)];
            if v == NONE {
                continue;
            }
            if self.value(v).pin.is_some() {
                if !matches!(self.value(v).home, Home::Pool(_)) {
                    let slot = self.out.frame.slot();
                    self.out.asm.vex(op::MOVUPS_STORE, true, r, 0, at(FRAME, slot), None);
                    pinned.push((r, at(FRAME, slot)));
                } else if let Home::Pool(byte) = self.value(v).home {
                    pinned.push((r, Rm::Pool(byte)));
                }
                continue;
            }
            if self.value(v).home == Home::None && self.next[v as usize] != NEVER {
                let slot = self.out.frame.slot();
                self.out.asm.vex(op::MOVUPS_STORE, true, r, 0, at(FRAME, slot), None);
                self.out.values[v as usize].home = Home::Slot(slot);
            }
            self.release(v);
        }
        self.call_site(site, slots);
        for (r, from) in pinned {
            self.out.asm.vex(op::MOVUPS, true, r, 0, from, None);
        }
    }

    /// The call itself; pointers survive it.
    fn call_site(&mut self, site: u64, slots: i32) {
        let lost = [gpr::RSI, gpr::RDI, gpr::R8, gpr::R9, gpr::R10, gpr::R11];
        let lost: Vec<Gpr> = lost.into_iter().filter(|&r| self.out.pointers.contains(&Some(r))).collect();
        let saved = self.out.frame.saved();
        let asm = &mut *self.out.asm;
        lost.iter().zip((saved..).step_by(8)).for_each(|(&r, byte)| asm.store(at(FRAME, byte), r));
        asm.lea(gpr::RSI, at(FRAME, slots));
        asm.set_wide(gpr::RDI, site);
        asm.set_wide(gpr::RAX, super::calls::call as *const () as u64);
        asm.call(gpr::RAX);
        lost.iter().zip((saved..).step_by(8)).for_each(|(&r, byte)| asm.load(r, at(FRAME, byte)));
    }

    /// The register of [`Inst::Far`]'s result: all others are the same whether the call happened or not.
    fn far(&mut self, dst: V, locked: [V; 4], (site, slots): (u64, i32)) -> u8 {
        let [mask, near, x, y] = locked.map(|v| if v == NONE { NOWHERE } else { self.register(v, &locked) });
        let to = match self.value(dst).pin {
            Some(r) => r,
            None if self.dies(locked[1]) => near,
            None => self.take(&locked),
        };
        if to != near {
            self.out.asm.vex(op::MOVAPS, true, to, 0, Rm::Reg(near), None);
        }
        let wide = self.value(locked[0]).width == 32;
        let skip = self.out.asm.label();
        self.out.asm.vex(op::PTEST, wide, mask, 0, Rm::Reg(mask), None);
        self.out.asm.jump_if(Cond::Equal, skip);
        // Past the pointers.
        let saved = self.out.frame.saved() + 64;
        let live = |r: &u8| {
            let v = self.held[usize::from(*r)];
            *r != to && v != NONE && (self.value(v).pin.is_some() || self.next[v as usize] != NEVER)
        };
        let live: Vec<u8> = (0..16).filter(live).collect();
        let asm = &mut *self.out.asm;
        let operands = [x, near, y].into_iter().filter(|&r| r != NOWHERE);
        for (r, slot) in operands.zip((slots..).step_by(32)) {
            asm.vex(op::MOVUPS_STORE, true, r, 0, at(FRAME, slot), None);
        }
        for &r in &live {
            asm.vex(op::MOVUPS_STORE, true, r, 0, at(FRAME, saved + 32 * i32::from(r)), None);
        }
        self.call_site(site, slots);
        let asm = &mut *self.out.asm;
        for &r in &live {
            asm.vex(op::MOVUPS, true, r, 0, at(FRAME, saved + 32 * i32::from(r)), None);
        }
        asm.vex(op::MOVUPS, true, to, 0, at(FRAME, slots + 96), None);
        asm.bind(skip);
        to
    }

    fn vex(&mut self, inst: &Inst, mut x: Vex) {
        if x.form == Form::Commutes && self.place[x.a as usize] == NOWHERE && self.place[x.b as usize] != NOWHERE {
            std::mem::swap(&mut x.a, &mut x.b);
        }
        let locked = [x.a, x.b, x.c];
        let a = if x.a == NONE { 0 } else { self.register(x.a, &locked) };
        let c = if x.c == NONE { 0 } else { self.register(x.c, &locked) };
        let b = match x.form {
            Form::Shift(_) => Rm::Reg(self.register(x.b, &locked)),
            Form::Mr => Rm::Reg(0),
            _ => self.operand(x.b, x.read, &locked),
        };
        self.retire(inst);
        let dst = self.result(x.dst);
        let asm = &mut *self.out.asm;
        match x.form {
            Form::Rm => asm.vex(x.enc, x.wide, dst, 0, b, x.imm),
            Form::Shift(extension) => asm.vex(x.enc, x.wide, extension, dst, b, x.imm),
            Form::Mr => asm.vex(x.enc, x.wide, a, 0, Rm::Reg(dst), x.imm),
            Form::Blend => asm.vex(x.enc, x.wide, dst, a, b, Some(c << 4)),
            Form::Rvm | Form::Commutes | Form::Fma | Form::FmaNegated | Form::Ternary(_) => {
                asm.vex(x.enc, x.wide, dst, a, b, x.imm);
            }
        }
    }
}

/// Divides `rax` by `rcx`, integers of `size` bytes. Returns the register of the part that is wanted. Divisors that the instruction does not
/// take are left to jumps: what they decide is hardly ever different.
fn divide(asm: &mut Asm, size: usize, sign: Sign, part: Part) -> Gpr {
    let (usual, done) = (asm.label(), asm.label());
    let zero = match sign {
        Sign::Signed => {
            // Zero and minus one are 1 and 0 then.
            asm.lea(gpr::RDX, at(gpr::RCX, 1));
            asm.cmp_sized(gpr::RDX, 1, size);
            asm.jump_if(Cond::Above, usual);
            let zero = asm.label();
            asm.jump_if(Cond::Equal, zero);
            asm.neg(gpr::RAX);
            asm.set(gpr::RDX, 0);
            asm.jump(done);
            Some(zero)
        }
        Sign::Unsigned => {
            asm.cmp_sized(gpr::RCX, 0, size);
            asm.jump_if(Cond::NotEqual, usual);
            None
        }
    };
    zero.into_iter().for_each(|zero| asm.bind(zero));
    asm.mov(gpr::RDX, gpr::RAX);
    asm.set(gpr::RAX, -1);
    asm.jump(done);
    asm.bind(usual);
    match sign {
        Sign::Signed => asm.divide_signed(gpr::RCX, size),
        Sign::Unsigned => asm.divide_unsigned(gpr::RCX, size),
    }
    asm.bind(done);
    if part == Part::Quotient { gpr::RAX } else { gpr::RDX }
}
