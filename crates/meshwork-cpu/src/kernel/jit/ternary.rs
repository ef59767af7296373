//! Functions of three bits, which AVX-512 has as one instruction: choices are.

use super::alloc::{NOWHERE, State};
use super::asm::Rm;
use super::inst::{Inst, V, Vex, op};

/// The bits of the second operand where the first has them, else those of the third.
pub(super) const CHOICE: u8 = 0b1100_1010;

impl State<'_, '_> {
    /// A choice by what a comparison has left in a mask register, of instructions on 64 bytes; `None` if there is none.
    fn chosen(&mut self, inst: &Inst, x: Vex, table: u8) -> Option<()> {
        let place = self.place[x.a as usize];
        let mask = self.out.asm.mask_of(place).filter(|_| table == CHOICE && x.wide && place != NOWHERE)?;
        let locked = [x.a, x.b, x.c];
        let no = self.register(x.c, &locked);
        let yes = self.operand(x.b, x.read, &locked);
        self.retire(inst);
        let to = self.result(x.dst);
        self.out.asm.choose(mask, to, no, yes);
        Some(())
    }

    /// A function of three bits: the result takes the register of an operand that is not needed any more, or of a copy.
    pub(super) fn ternary(&mut self, inst: &Inst, x: Vex, table: u8) {
        if self.chosen(inst, x, table).is_some() {
            return;
        }
        let locked = [x.a, x.b, x.c];
        let pinned = self.value(x.dst).pin;
        let gives = |s: &Self, v: V| {
            let r = s.place[v as usize];
            let once = locked.iter().filter(|&&other| other == v).count() == 1;
            r != NOWHERE && once && pinned.map_or(s.dies(v), |pin| pin == r)
        };
        let given = (0..3).find(|&i| gives(self, locked[i]));
        // A copy of what is in memory is a load.
        let absent = (0..3).find(|&i| self.place[locked[i] as usize] == NOWHERE);
        let first = given.or(absent).unwrap_or(0);
        // At most one of the other two stays in memory, and that one goes last.
        let mut rest = [(first + 1) % 3, (first + 2) % 3];
        if self.place[locked[rest[0]] as usize] == NOWHERE {
            rest.swap(0, 1);
        }
        let second = self.register(locked[rest[0]], &locked);
        let mut third = self.operand(locked[rest[1]], x.read, &locked);
        let to = if given.is_some() {
            self.place[locked[first] as usize]
        } else {
            let to = pinned.unwrap_or_else(|| self.take(&locked));
            match self.place[locked[first] as usize] {
                NOWHERE => self.out.load(to, locked[first]),
                r => self.out.asm.vex(op::MOVAPS, true, to, 0, Rm::Reg(r), None),
            }
            // That may have used the register with the pointer of an operand in memory.
            if !matches!(third, Rm::Reg(_)) {
                third = self.operand(locked[rest[1]], x.read, &locked);
            }
            to
        };
        let table = reordered(table, [first, rest[0], rest[1]]);
        self.out.asm.ternary(x.wide, to, second, third, table);
        self.retire(inst);
        if pinned.is_none() {
            self.occupy(x.dst, to);
            self.drop_unread(x.dst);
        }
    }
}

/// The table of a function of three bits whose operands are given as `order` says.
fn reordered(table: u8, order: [usize; 3]) -> u8 {
    let mut out = 0;
    for number in 0..8u8 {
        // The first operand has the topmost bit.
        let given = |operand: usize| order.iter().position(|&o| o == operand).map_or(0, |at| number >> (2 - at) & 1);
        let index = given(0) << 2 | given(1) << 1 | given(2);
        out |= (table >> index & 1) << number;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::{CHOICE, reordered};

    #[test]
    fn tables_of_three_bits_follow_their_operands() {
        let choice = CHOICE;
        assert_eq!(reordered(choice, [0, 1, 2]), choice);
        // The third operand, which is chosen where the first is clear, in front.
        assert_eq!(reordered(choice, [2, 1, 0]), 0b1101_1000);
        assert_eq!(reordered(choice, [1, 2, 0]), 0b1110_0100);
        assert_eq!(reordered(choice, [1, 0, 2]), 0b1110_0010);
    }
}
