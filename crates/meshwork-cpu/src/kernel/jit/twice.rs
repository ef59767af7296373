//! Two vectors in one register of 64 bytes, where there is AVX-512: a loop of much arithmetic takes half as many instructions.
//!
//! Such a loop is lowered with twice the lanes and half as many vectors in flight, so every accumulator sees the elements that it would
//! see otherwise. While it is written, [`Asm::twice`] turns each instruction on 32 bytes into the one on 64. Masks are vectors here, too, but
//! what a comparison makes stays in a mask register until something other than a blend reads it. Before the loop each pair of accumulators is joined, and parted after it.

use super::asm::{Asm, Enc, Rm, has_masks};
use super::code::Unit;
use super::inst::{Form, Home, Inst, NONE, V, op};
use super::lower::{Lower, Mode};
use crate::kernel::lanes;

/// Bytes of a register.
pub const WIDTH: usize = 64;

/// Instructions for each element that is read or written from which on a loop is worth it: what waits for memory is not faster, and an
/// access of 64 bytes at any place touches two lines.
const LEAST: usize = 3;

/// Instructions on floats, of 4 and of 8 bytes.
const FLOATS: [[Enc; 2]; 13] = [
    op::ADD,
    op::MUL,
    op::SUB,
    op::MIN,
    op::DIV,
    op::MAX,
    op::SQRT,
    op::AND,
    op::OR,
    op::XOR,
    op::CMP,
    op::ROUND,
    op::BLEND,
];

/// Those on bits, whatever the lanes are.
const BITS: [Enc; 4] = [op::PAND, op::PANDN, op::POR, op::PXOR];

/// Those on integers of 4 bytes.
const WORDS: [Enc; 16] = [
    op::PADD[2],
    op::PSUB[2],
    op::PCMPEQ[2],
    op::PCMPGT[2],
    op::PMINS[2],
    op::PMAXS[2],
    op::PMINU[2],
    op::PMAXU[2],
    op::PABS[2],
    op::PMULLD,
    op::PSLLV[0],
    op::PSRLV[0],
    op::PSRAVD,
    op::SHIFT[2],
    op::CVT_I32[0],
    op::CVTT_I32[0],
];

/// Those on integers of 8 bytes.
const LONG_WORDS: [Enc; 9] = [
    op::PADD[3],
    op::PSUB[3],
    op::PCMPEQ[3],
    op::PCMPGT[3],
    op::PMULUDQ,
    op::PMULDQ,
    op::PSLLV[1],
    op::PSRLV[1],
    op::SHIFT[3],
];

/// The instruction on 64 bytes for one on 32, in a loop with lanes of `size` bytes, if there is one that does the same.
fn encoding(e: Enc, size: usize) -> Option<Enc> {
    let float = FLOATS.iter().find_map(|pair| pair.iter().position(|&other| other == e));
    let w = if let Some(k) = float {
        k == 1
    } else if BITS.contains(&e) {
        size == 8
    } else if LONG_WORDS.contains(&e) {
        true
    } else if WORDS.contains(&e) {
        false
    } else {
        return None;
    };
    // What is the same in all lanes is read from memory as one element of the size that the instruction names.
    (w || size == 4).then_some(Enc { w, ..e })
}

/// What runs while so many elements fit.
pub struct Group {
    /// The instructions.
    pub insts: Vec<Inst>,
    /// Vectors of 32 bytes that it covers.
    pub vectors: usize,
    /// The size of lanes, if the instructions are for 64 bytes.
    pub doubled: Option<usize>,
    /// Accumulators that are joined meanwhile.
    pub joined: Vec<Joined>,
    /// What they are then: values in the registers of the first of each pair.
    pub accumulators: Vec<V>,
}

/// The group of a phase in registers of 64 bytes, if that is possible and worth it. `uniform` runs once per row; `vectors` is how many
/// would be in flight otherwise, and how many accumulators each reduction has.
pub fn group(lower: &mut Lower<'_>, unit: &mut Unit, uniform: &[Inst], vectors: usize) -> Option<Group> {
    // A call would lose the upper halves of constants in registers.
    let calls = uniform.iter().any(|inst| matches!(inst, Inst::Call { .. } | Inst::Far { .. }));
    let size = lanes::VECTOR / lower.lanes;
    if !has_masks() || calls || size < 4 {
        return None;
    }
    let reduces = !lower.reductions.is_empty();
    let half = match (reduces, vectors) {
        (false, _) => 2,
        (true, 2 | 4) => vectors / 2,
        _ => return None,
    };
    let (mut joined, mut accumulators, mut narrow) = (vec![], vec![], vec![]);
    for r in &mut lower.reductions {
        let pin = |v: V| unit.values[v as usize].pin;
        joined.extend(r.acc.chunks_exact(2).filter_map(|pair| Some(Joined::Pair(pin(pair[0])?, pin(pair[1])?))));
        joined.extend(r.nan.and_then(pin).map(Joined::Any));
        let mut wide = |v: V| {
            let (pin, wide) = (unit.values[v as usize].pin, unit.value(WIDTH, Home::None));
            unit.values[wide as usize].pin = pin;
            accumulators.push(wide);
            wide
        };
        let acc = r.acc.iter().step_by(2).map(|&v| wide(v)).collect();
        let nan = r.nan.map(&mut wide);
        narrow.push((std::mem::replace(&mut r.acc, acc), std::mem::replace(&mut r.nan, nan)));
    }
    lower.lanes *= 2;
    let insts = lower.varying(unit, Mode::Group(half));
    lower.lanes /= 2;
    for (r, (acc, nan)) in lower.reductions.iter_mut().zip(narrow) {
        (r.acc, r.nan) = (acc, nan);
    }
    let Some(insts) = insts.filter(|insts| worthwhile(insts, unit, size)) else {
        accumulators.into_iter().for_each(|v| unit.values[v as usize].pin = None);
        return None;
    };
    Some(Group { insts, vectors: 2 * half, doubled: Some(size), joined, accumulators })
}

/// Whether all of `insts`, of which lanes have `size` bytes, have instructions on 64 bytes and are worth them.
fn worthwhile(insts: &[Inst], unit: &Unit, size: usize) -> bool {
    let value = |v: V| &unit.values[v as usize];
    let whole = |v: V| usize::from(value(v).width) == WIDTH;
    let periodic = |v: V| match value(v).home {
        Home::Pool(at) => {
            let bytes = &unit.pool.bytes[at as usize..at as usize + 32];
            bytes.chunks_exact(size).all(|lane| *lane == bytes[..size])
        }
        Home::Slot(_) => true,
        _ => false,
    };
    let known = |v: V| v == NONE || whole(v) || periodic(v);
    let (mut arithmetic, mut moved) = (0, 0);
    let mut read: Vec<V> = vec![];
    for inst in insts {
        for v in inst.sources() {
            if matches!(value(v).home, Home::Arg { .. }) && !read.contains(&v) {
                read.push(v);
            }
        }
        let fits = match *inst {
            Inst::Vex(x) => {
                arithmetic += 1;
                let has_code = match x.form {
                    Form::Fma | Form::FmaNegated | Form::Ternary(_) => true,
                    Form::Mr => false,
                    Form::Rm if x.enc == op::MOVUPS => true,
                    _ => encoding(x.enc, size).is_some(),
                };
                has_code && whole(x.dst) && [x.a, x.b, x.c].into_iter().all(known)
            }
            Inst::Store { src, scale: 2.., past: false, .. } => {
                moved += 1;
                whole(src)
            }
            Inst::Touch(v) => whole(v),
            _ => false,
        };
        if !fits {
            return false;
        }
    }
    arithmetic >= LEAST * (moved + read.len()).max(2)
}

impl Group {
    /// Instructions on 32 bytes for so many vectors.
    pub fn narrow(insts: Vec<Inst>, vectors: usize) -> Group {
        Group { insts, vectors, doubled: None, joined: vec![], accumulators: vec![] }
    }
}

impl Asm {
    /// What [`vex`](Asm::vex) writes for 64 bytes in lanes of `size`; only what [`worthwhile`] let pass.
    pub(super) fn twice(&mut self, size: usize, e: Enc, [reg, first]: [u8; 2], rm: Rm, imm: Option<u8>) {
        let w = size == 8;
        let one = matches!(rm, Rm::PoolOne(_) | Rm::FrameOne(_));
        let lanes = |e: Enc| Enc { w, ..e };
        self.settle_all(&[first], rm);
        // What is overwritten has no lanes to come. Of stores and of sums of products `reg` is read, of shifts by a constant it is a part of
        // the code.
        let reads = e == op::MOVUPS_STORE || (encoding(e, size).is_none() && ![op::MOVUPS, op::MOVAPS].contains(&e));
        if reads {
            self.settle_all(&[reg], rm);
        } else if !op::SHIFT.contains(&e) && !op::BLEND.contains(&e) {
            self.masks.retain(|&(_, lanes)| lanes != reg);
        }
        if e == op::MOVUPS && one {
            let spread = if w { op::SPREAD[1] } else { op::SPREAD[0] };
            return self.evex(spread, 2, [reg, 0], 0, rm, None);
        }
        let moves = [op::MOVUPS, op::MOVUPS_STORE, op::MOVAPS];
        let Some(code) = encoding(e, size).filter(|_| !moves.contains(&e)) else {
            return self.evex(e, 2, [reg, first], 0, rm, imm);
        };
        let compares = [op::CMP[0], op::CMP[1], op::PCMPEQ[2], op::PCMPEQ[3], op::PCMPGT[2], op::PCMPGT[3]];
        if compares.contains(&e) {
            let mask = self.free_mask();
            self.evex(code, 2, [mask, first], 0, rm, imm);
            return self.masks.push((mask, reg));
        }
        if op::BLEND.contains(&e) {
            let by = imm.unwrap_or(0) >> 4;
            let mask = self.mask_of(by).unwrap_or_else(|| {
                self.evex(lanes(op::LANES_TO_MASK), 2, [1, 0], 0, Rm::Reg(by), None);
                1
            });
            return self.choose(mask, reg, first, rm);
        }
        self.evex(code, 2, [reg, first], 0, rm, imm);
    }

    /// The mask register with the lanes that register `lanes` is to have.
    pub(super) fn mask_of(&self, lanes: u8) -> Option<u8> {
        self.masks.iter().find(|&&(_, own)| own == lanes).map(|&(mask, _)| mask)
    }

    /// The lanes of `yes` where `mask` has them, else those of `no`.
    pub(super) fn choose(&mut self, mask: u8, dst: u8, no: u8, yes: Rm) {
        self.settle_all(&[no], yes);
        self.masks.retain(|&(_, lanes)| lanes != dst);
        let w = self.doubled == Some(8);
        self.evex(Enc { w, ..op::BLEND_BY_MASK }, 2, [dst, no], mask, yes, None);
    }

    /// A mask register from the second on that stands for no lanes.
    fn free_mask(&mut self) -> u8 {
        if self.masks.len() == 6 {
            let (_, oldest) = self.masks[0];
            self.settle_all(&[oldest], Rm::Pool(0));
        }
        (2..8).find(|mask| self.masks.iter().all(|(used, _)| used != mask)).unwrap_or(7)
    }

    /// Puts the lanes of masks into those of these registers, and of `rm`, that are to have them.
    pub(super) fn settle_all(&mut self, registers: &[u8], rm: Rm) {
        let Some(size) = self.doubled.filter(|_| !self.masks.is_empty()) else { return };
        let is_read = |lanes: u8| registers.contains(&lanes) || rm == Rm::Reg(lanes);
        for (mask, lanes) in std::mem::take(&mut self.masks) {
            if is_read(lanes) {
                let code = Enc { w: size == 8, ..op::MASK_TO_LANES };
                self.evex(code, 2, [lanes, 0], 0, Rm::Reg(mask), None);
            } else {
                self.masks.push((mask, lanes));
            }
        }
    }

    /// Instructions are on registers of 64 bytes, with lanes of `size` bytes, or on as many as they say.
    pub fn double(&mut self, size: Option<usize>) {
        self.doubled = size;
        self.masks.clear();
    }

    /// Puts `high` above the 32 bytes of `low`.
    pub(super) fn join(&mut self, low: u8, high: u8) {
        self.evex(op::INSERT256, 2, [low, low], 0, Rm::Reg(high), Some(1));
    }

    /// `dst` is the upper half of `from`.
    pub(super) fn part(&mut self, dst: u8, from: u8) {
        self.evex(op::EXTRACT256, 2, [from, 0], 0, Rm::Reg(dst), Some(1));
    }
}

/// Accumulators that a loop on 64 bytes has in one register.
#[derive(Clone, Copy, Debug)]
pub enum Joined {
    /// Those in these two registers; the first holds both.
    Pair(u8, u8),
    /// One of which all bits that are set anywhere count: the upper half starts empty.
    Any(u8),
}

/// Joins accumulators before the loop.
pub fn join(asm: &mut Asm, list: &[Joined]) {
    for &joined in list {
        if let Joined::Pair(low, high) = joined {
            asm.join(low, high);
        }
    }
}

/// Parts them after it; uses register 0.
pub fn part(asm: &mut Asm, list: &[Joined]) {
    for &joined in list {
        match joined {
            Joined::Pair(low, high) => asm.part(high, low),
            Joined::Any(r) => {
                asm.part(0, r);
                // This clears the upper half again.
                asm.vex(op::POR, true, r, r, Rm::Reg(0), None);
            }
        }
    }
}
