//! Elements that no vector load or store moves: those that are not adjacent, those at places of their own, the rest of a row.

use super::alloc::{ELEMENT, FRAME, REST, State};
use super::asm::{Cond, Gpr, Rm, at, gpr};
use super::inst::{Count, Inst, NONE, V, op};

impl State<'_, '_> {
    /// The one element of `arg`, or the one `disp` bytes further on, and `place` more.
    pub(super) fn one(&mut self, arg: u16, (place, disp): (V, i32), locked: &[V]) -> Rm {
        if place == NONE {
            return at(self.out.pointer(arg), disp);
        }
        let r = self.register(place, locked);
        let base = self.out.pointer(arg);
        self.out.asm.vex(op::MOVD_STORE, false, r, 0, Rm::Reg(gpr::RDX), None);
        Rm::Mem { base, index: Some((gpr::RDX, 0)), disp }
    }

    /// Elements that are each at a place of its own, by the instruction that clears its mask.
    pub(super) fn pick(&mut self, inst: &Inst, dst: V, (place, mask): (V, V), (arg, scale, disp): (u16, u8, i32)) {
        let locked = [place, mask, dst];
        let places = self.register(place, &locked);
        let wanted = if mask == NONE { None } else { Some(self.register(mask, &locked)) };
        // The result must be neither of the other two.
        let r = self.value(dst).pin.unwrap_or_else(|| {
            let r = self.take(&locked);
            self.occupy(dst, r);
            r
        });
        let lanes = self.take(&locked);
        let wide = self.value(dst).width == 32;
        let base = self.out.pointer(arg);
        let asm = &mut *self.out.asm;
        match wanted {
            Some(m) => asm.vex(op::MOVAPS, true, lanes, 0, Rm::Reg(m), None),
            None => asm.vex(op::PCMPEQ[2], true, lanes, lanes, Rm::Reg(lanes), None),
        }
        asm.vex(op::PXOR, true, r, r, Rm::Reg(r), None);
        let there = Rm::Mem { base, index: Some((places, 0)), disp };
        asm.vex(op::PGATHERD[usize::from(scale == 3)], wide, r, lanes, there, None);
        self.retire(inst);
        if self.value(dst).pin.is_none() {
            self.drop_unread(dst);
        }
    }

    /// Every other element of `arg`: two vectors, the second from one element early, so that nothing after the last element is read.
    pub(super) fn pair(&mut self, inst: &Inst, dst: V, mask: V, arg: u16, ahead: i32, scale: u8) {
        let (wide, bytes) = (self.value(dst).width == 32, i32::from(self.value(dst).width));
        let last = (bytes >> scale) - 1;
        let there = |base: Gpr, disp: i32| Rm::Mem { base, index: Some((gpr::RDX, scale)), disp: disp << scale };
        if scale >= 2 {
            let r = self.result(dst);
            let base = self.out.pointer(arg);
            let asm = &mut *self.out.asm;
            asm.lea(gpr::RDX, Rm::Mem { base: ELEMENT, index: Some((ELEMENT, 0)), disp: 0 });
            asm.vex(op::MOVUPS, wide, r, 0, there(base, 2 * ahead), None);
            let (enc, pick) = if scale == 2 { (op::SHUF[0], 0b1101_1000) } else { (op::SHUF[1], 0b1010) };
            asm.vex(enc, wide, r, r, there(base, 2 * ahead + last), Some(pick));
            if wide {
                asm.vex(op::PERMQ, true, r, 0, Rm::Reg(r), Some(0b1101_1000));
            }
            return;
        }
        let even = self.register(mask, &[mask]);
        let r = self.take(&[mask]);
        self.occupy(dst, r);
        let second = self.take(&[mask, dst]);
        let base = self.out.pointer(arg);
        let asm = &mut *self.out.asm;
        asm.lea(gpr::RDX, Rm::Mem { base: ELEMENT, index: Some((ELEMENT, 0)), disp: 0 });
        let load = if bytes == 8 { op::MOVQ } else { op::MOVUPS };
        asm.vex(load, wide, second, 0, there(base, 2 * ahead + last), None);
        asm.vex(op::SHIFT[usize::from(scale) + 1], wide, 2, second, Rm::Reg(second), Some(8 << scale));
        asm.vex(load, wide, r, 0, there(base, 2 * ahead), None);
        asm.vex(op::PAND, wide, r, r, Rm::Reg(even), None);
        asm.vex(op::PACKUS[usize::from(scale)], wide, r, r, Rm::Reg(second), None);
        match bytes {
            32 => asm.vex(op::PERMQ, true, r, 0, Rm::Reg(r), Some(0b1101_1000)),
            8 => asm.vex(op::PSHUFD, false, r, 0, Rm::Reg(r), Some(0b1000)),
            _ => {}
        }
        self.retire(inst);
        self.drop_unread(dst);
    }

    pub(super) fn read_buffer(&mut self, dst: V) {
        let r = self.result(dst);
        let buffer = at(FRAME, self.out.frame.buffer);
        self.out.asm.vex(op::MOVUPS, true, r, 0, buffer, None);
    }

    /// Copies the bytes of the rest of the row to the buffer or back.
    pub(super) fn copy_rest(&mut self, arg: u16, scale: u8, load: bool) {
        let from = self.out.element(arg, 0, scale);
        let buffer = self.out.frame.buffer;
        let asm = &mut *self.out.asm;
        asm.lea(gpr::RAX, from);
        asm.mov(gpr::RDX, REST);
        asm.shl(gpr::RDX, scale);
        // From the end, in pieces of 8 bytes, and then at most one of each smaller size.
        for size in [8i32, 4, 2, 1].into_iter().filter(|&size| size >= 1 << scale) {
            let (again, done) = (asm.label(), asm.label());
            asm.bind(again);
            asm.cmp_imm(gpr::RDX, size);
            asm.jump_if(Cond::Less, done);
            let there = Rm::Mem { base: gpr::RAX, index: Some((gpr::RDX, 0)), disp: -size };
            let here = Rm::Mem { base: FRAME, index: Some((gpr::RDX, 0)), disp: buffer - size };
            let (from, to) = if load { (there, here) } else { (here, there) };
            asm.load_sized(gpr::RCX, from, size as usize);
            asm.store_sized(to, gpr::RCX, size as usize);
            asm.add_imm(gpr::RDX, -size);
            if size == 8 {
                asm.jump(again);
            }
            asm.bind(done);
        }
    }

    /// Puts elements that are not adjacent into the lanes of `dst` one by one.
    pub(super) fn gather(&mut self, dst: V, arg: u16, ahead: i32, scale: u8, lanes: u8) {
        let r = self.result(dst);
        let per_half = 16 >> scale;
        let upper = if lanes > per_half { self.take(&[dst]) } else { r };
        self.first_of(arg, ahead);
        let asm = &mut *self.out.asm;
        for lane in 0..lanes {
            let to = if lane < per_half { r } else { upper };
            let (place, odd) = (lane % per_half, lane % 2 == 1);
            // Pairs share an address.
            let from = Rm::Mem { base: gpr::RAX, index: odd.then_some((gpr::RDX, 0)), disp: 0 };
            if place == 0 && scale >= 2 {
                asm.vex(if scale == 2 { op::MOVD } else { op::MOVQ }, false, to, 0, from, None);
            } else {
                if place == 0 {
                    asm.vex(op::PXOR, false, to, to, Rm::Reg(to), None);
                }
                asm.vex(op::PINSR[usize::from(scale)], false, to, to, from, Some(place));
            }
            if odd && lane + 1 < lanes {
                asm.lea(gpr::RAX, Rm::Mem { base: gpr::RAX, index: Some((gpr::RDX, 1)), disp: 0 });
            }
        }
        if upper != r {
            asm.vex(op::INSERT128, true, r, r, Rm::Reg(upper), Some(1));
        }
    }

    /// Writes elements that are not adjacent.
    pub(super) fn scatter(&mut self, src: V, arg: u16, ahead: i32, scale: u8, lanes: u8) {
        let r = self.register(src, &[src]);
        let per_half = 16 >> scale;
        let upper = if lanes > per_half { self.take(&[src]) } else { r };
        self.first_of(arg, ahead);
        let asm = &mut *self.out.asm;
        if upper != r {
            asm.vex(op::EXTRACT128, true, r, 0, Rm::Reg(upper), Some(1));
        }
        for lane in 0..lanes {
            let from = if lane < per_half { r } else { upper };
            let odd = lane % 2 == 1;
            let to = Rm::Mem { base: gpr::RAX, index: odd.then_some((gpr::RDX, 0)), disp: 0 };
            asm.vex(op::PEXTR[usize::from(scale)], false, from, 0, to, Some(lane % per_half));
            if odd && lane + 1 < lanes {
                asm.lea(gpr::RAX, Rm::Mem { base: gpr::RAX, index: Some((gpr::RDX, 1)), disp: 0 });
            }
        }
    }

    /// The address of the element of `arg` `ahead` of the current one in `rax`, and the way to the next in `rdx`.
    fn first_of(&mut self, arg: u16, ahead: i32) {
        let stride = at(FRAME, self.out.frame.strides + 8 * i32::from(arg));
        let pointer = at(FRAME, self.out.frame.ptrs + 8 * i32::from(arg));
        let asm = &mut *self.out.asm;
        asm.load(gpr::RDX, stride);
        asm.lea(gpr::RAX, at(ELEMENT, ahead));
        asm.mul(gpr::RAX, Rm::Reg(gpr::RDX));
        asm.add(gpr::RAX, pointer);
    }

    /// Copies elements that are not adjacent to the buffer or back.
    pub(super) fn copy_strided(&mut self, arg: u16, ahead: i32, scale: u8, count: Count, load: bool) {
        let (buffer, size) = (self.out.frame.buffer, 1usize << scale);
        let stride = at(FRAME, self.out.frame.strides + 8 * i32::from(arg));
        let pointer = at(FRAME, self.out.frame.ptrs + 8 * i32::from(arg));
        let asm = &mut *self.out.asm;
        asm.lea(gpr::RAX, at(ELEMENT, ahead));
        asm.mul(gpr::RAX, stride);
        asm.add(gpr::RAX, pointer);
        asm.set(gpr::RDX, 0);
        let again = asm.label();
        asm.bind(again);
        let there = at(gpr::RAX, 0);
        let here = Rm::Mem { base: FRAME, index: Some((gpr::RDX, scale)), disp: buffer };
        let (from, to) = if load { (there, here) } else { (here, there) };
        asm.load_sized(gpr::RCX, from, size);
        asm.store_sized(to, gpr::RCX, size);
        asm.add(gpr::RAX, stride);
        asm.add_imm(gpr::RDX, 1);
        match count {
            Count::Rest => asm.cmp(gpr::RDX, Rm::Reg(REST)),
            Count::Lanes(n) => {
                asm.set(gpr::RCX, n.into());
                asm.cmp(gpr::RDX, Rm::Reg(gpr::RCX));
            }
        }
        asm.jump_if(Cond::Less, again);
    }
}
