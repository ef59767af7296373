//! Reading every third element: loads that overlap, shuffled together. Nothing behind the last element is touched.

use super::alloc::{ELEMENT, State};
use super::asm::{Rm, gpr};
use super::code::Unit;
use super::inst::{Inst, NONE, V, op};

/// Bytes of a load of narrow elements.
const LOAD: usize = 16;

/// Where the loads of `lanes` elements of `size` bytes, below 4, start.
fn starts(lanes: usize, size: usize) -> Vec<usize> {
    let span = (3 * lanes - 2) * size;
    (0..span.div_ceil(LOAD)).map(|i| (i * LOAD).min(span - LOAD)).collect()
}

/// The shuffles that read `lanes` elements of `size` bytes; `None` if other loads are better.
pub fn masks(unit: &mut Unit, lanes: usize, size: usize) -> Option<[V; 3]> {
    if size == 4 && lanes == 8 {
        let mut picks = [0; 32];
        picks.chunks_exact_mut(4).zip([0u8, 3, 6, 2, 5, 1, 4, 7]).for_each(|(lane, from)| lane[0] = from);
        return Some([unit.bytes(picks), NONE, NONE]);
    }
    if size > 2 || lanes * size > LOAD || (3 * lanes - 2) * size < LOAD {
        return None;
    }
    let mut masks = [NONE; 3];
    let mut known = vec![false; lanes];
    for (mask, start) in masks.iter_mut().zip(starts(lanes, size)) {
        let mut picks = [0x80; 32];
        for lane in 0..lanes {
            let at = 3 * lane * size;
            if !known[lane] && at >= start && at + size <= start + LOAD {
                known[lane] = true;
                (0..size).for_each(|byte| picks[lane * size + byte] = (at - start + byte) as u8);
            }
        }
        *mask = unit.bytes(picks);
    }
    Some(masks)
}

impl State<'_, '_> {
    /// Every third element of `arg` into all lanes of `dst`, by the shuffles of [`masks`].
    pub(super) fn triple(&mut self, inst: &Inst, dst: V, masks: [V; 3], arg: u16, ahead: i32, scale: u8) {
        let locked = [masks[0], masks[1], masks[2], dst];
        let shuffles = masks.map(|v| if v == NONE { 0 } else { self.register(v, &locked) });
        let r = self.take(&locked);
        self.occupy(dst, r);
        let more = self.take(&locked);
        let lanes = usize::from(self.value(dst).width) >> scale;
        let base = self.out.pointer(arg);
        let asm = &mut *self.out.asm;
        asm.lea(gpr::RDX, Rm::Mem { base: ELEMENT, index: Some((ELEMENT, 1)), disp: 0 });
        let there =
            |byte: usize| Rm::Mem { base, index: Some((gpr::RDX, scale)), disp: ((3 * ahead) << scale) + byte as i32 };
        if scale == 2 {
            // Lanes 0, 3 and 6 of the first load, 2 and 5 of the second, 1, 4 and 7 of the third.
            asm.vex(op::MOVUPS, true, r, 0, there(0), None);
            asm.vex(op::BLENDPS, true, r, r, there(28), Some(0b0010_0100));
            asm.vex(op::BLENDPS, true, r, r, there(56), Some(0b1001_0010));
            asm.vex(op::PERMD, true, r, shuffles[0], Rm::Reg(r), None);
        } else {
            for (i, start) in starts(lanes, 1 << scale).into_iter().enumerate() {
                let to = if i == 0 { r } else { more };
                asm.vex(op::MOVUPS, false, to, 0, there(start), None);
                asm.vex(op::PSHUFB, false, to, to, Rm::Reg(shuffles[i]), None);
                if i > 0 {
                    asm.vex(op::POR, false, r, r, Rm::Reg(more), None);
                }
            }
        }
        self.retire(inst);
        self.drop_unread(dst);
    }
}
