//! Products that are added to something: which operand the instruction overwrites, and which it reads from memory.

use super::alloc::{NEVER, NOWHERE, State};
use super::asm::{Enc, Rm};
use super::inst::{Form, Inst, V, Vex, op};

impl State<'_, '_> {
    /// `dst = ±a * b + c`: the result takes the register of an operand that is not needed any more.
    pub(super) fn fma(&mut self, inst: &Inst, mut x: Vex) {
        let forms = if x.form == Form::Fma { op::FMA } else { op::FNMA };
        let encode = |form: usize| Enc { op: forms[form], ..x.enc };
        let here = |s: &Self, v: V| s.place[v as usize] != NOWHERE;
        let locked = [x.a, x.b, x.c];
        // A factor in memory goes last.
        if !here(self, x.a) && here(self, x.b) {
            std::mem::swap(&mut x.a, &mut x.b);
        }
        let pinned = self.value(x.dst).pin;
        let usable = |s: &Self, v: V, others: [V; 2]| here(s, v) && s.dies(v) && !others.contains(&v);
        let a = self.register(x.a, &locked);
        if pinned.is_none() && x.a != x.b && usable(self, x.a, [x.b, x.c]) && !here(self, x.c) {
            // The summand may stay in memory: dst = b * dst + c.
            let b = self.register(x.b, &locked);
            let c = self.operand(x.c, x.read, &locked);
            self.finish_fma(inst, x, a, encode(1), b, c);
            return;
        }
        if pinned.is_none() && x.a != x.b && usable(self, x.a, [x.b, x.c]) && !self.dies(x.c) {
            let c = self.register(x.c, &locked);
            let b = self.operand(x.b, x.read, &locked);
            self.finish_fma(inst, x, a, encode(0), c, b);
            return;
        }
        if pinned.is_none() && x.a != x.b && usable(self, x.b, [x.a, x.c]) && !self.dies(x.c) {
            let b = self.place[x.b as usize];
            let c = self.operand(x.c, x.read, &locked);
            self.finish_fma(inst, x, b, encode(1), a, c);
            return;
        }
        // dst = a * b + dst, with the summand in a register of its own.
        if self.place[x.c as usize] != NOWHERE
            && (usable(self, x.c, [x.a, x.b]) || pinned == Some(self.place[x.c as usize]))
        {
            let c = self.place[x.c as usize];
            let b = self.operand(x.b, x.read, &locked);
            self.finish_fma(inst, x, c, encode(2), a, b);
            return;
        }
        let b = self.operand(x.b, x.read, &locked);
        let c = self.operand(x.c, 32, &locked);
        // Operands stay until the copy is made.
        let dst = match pinned {
            Some(r) => r,
            None => self.take(&locked),
        };
        match c {
            Rm::Reg(_) => self.out.asm.vex(op::MOVAPS, true, dst, 0, c, None),
            _ => self.out.asm.vex(op::MOVUPS, true, dst, 0, c, None),
        }
        // The pointer of a factor in memory may have been in the register that loading the summand used.
        let b = match b {
            Rm::Reg(r) => Rm::Reg(r),
            _ => self.operand(x.b, x.read, &locked),
        };
        self.out.asm.vex(encode(2), x.wide, dst, a, b, None);
        self.retire(inst);
        if pinned.is_none() {
            self.occupy(x.dst, dst);
            if self.next[x.dst as usize] == NEVER {
                self.release(x.dst);
            }
        }
    }

    fn finish_fma(&mut self, inst: &Inst, x: Vex, dst: u8, e: Enc, first: u8, rm: Rm) {
        self.out.asm.vex(e, x.wide, dst, first, rm, None);
        self.retire(inst);
        if self.value(x.dst).pin.is_none() {
            self.occupy(x.dst, dst);
            if self.next[x.dst as usize] == NEVER {
                self.release(x.dst);
            }
        }
    }
}
