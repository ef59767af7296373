//! Reading every third element: loads that overlap, shuffled together. Nothing behind the last element is touched.
//!
//! With the instructions of AVX-512 that choose bytes of two vectors, each but the first load takes one of them.

use super::alloc::{ELEMENT, State};
use super::asm::{Rm, chooses_bytes, gpr};
use super::code::Unit;
use super::inst::{Inst, NONE, V, op};

/// Bytes of a load of narrow elements.
const LOAD: usize = 16;

/// Where the loads of `lanes` elements of `size` bytes, below 4, start, and how many bytes they have.
fn starts(lanes: usize, size: usize) -> (Vec<usize>, usize) {
    let span = (3 * lanes - 2) * size;
    let load = if chooses_bytes() && span > 2 * LOAD { 2 * LOAD } else { LOAD };
    ((0..span.div_ceil(load)).map(|i| (i * load).min(span.saturating_sub(load))).collect(), load)
}

/// The shuffles that read `lanes` elements of `size` bytes; `None` if other loads are better.
pub fn masks(unit: &mut Unit, lanes: usize, size: usize) -> Option<[V; 3]> {
    if size == 4 && lanes == 8 {
        let mut picks = [0; 32];
        picks.chunks_exact_mut(4).zip([0u8, 3, 6, 2, 5, 1, 4, 7]).for_each(|(lane, from)| lane[0] = from);
        return Some([unit.bytes(picks), NONE, NONE]);
    }
    let (starts, load) = starts(lanes, size);
    if size > 2 || starts.len() > 3 || (3 * lanes - 2) * size < load || (lanes * size > LOAD && !chooses_bytes()) {
        return None;
    }
    let mut masks: [Option<[u8; 32]>; 3] = [None; 3];
    let mut known = vec![false; lanes];
    for (i, &start) in starts.iter().enumerate() {
        // A choice starts with the bytes that are there.
        let mut picks: [u8; 32] = if chooses_bytes() { std::array::from_fn(|i| i as u8) } else { [0x80; 32] };
        for lane in 0..lanes {
            let at = 3 * lane * size;
            if !known[lane] && at >= start && at + size <= start + load {
                known[lane] = true;
                let second = if chooses_bytes() && i > 0 { load } else { 0 };
                (0..size).for_each(|byte| picks[lane * size + byte] = (second + at - start + byte) as u8);
            }
        }
        masks[i] = Some(picks);
    }
    if chooses_bytes() {
        // The first choice is between the first two loads.
        let [first, second, _] = masks;
        let both = first.zip(second).map(|(first, second)| {
            std::array::from_fn(|i| if second[i] as usize >= load { second[i] } else { first[i] })
        });
        masks = [both, masks[2], None];
    }
    Some(masks.map(|picks| picks.map_or(NONE, |picks| unit.bytes(picks))))
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
        } else if chooses_bytes() {
            let (starts, load) = starts(lanes, 1 << scale);
            let wide = load > LOAD;
            asm.vex(op::MOVAPS, wide, r, 0, Rm::Reg(shuffles[0]), None);
            asm.vex(op::MOVUPS, wide, more, 0, there(starts[0]), None);
            asm.choose_bytes(wide, r, more, there(starts[1]));
            if let Some(&third) = starts.get(2) {
                asm.choose_more_bytes(wide, r, shuffles[1], there(third));
            }
        } else {
            for (i, start) in starts(lanes, 1 << scale).0.into_iter().enumerate() {
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
