//! Vector instructions on values that have no register yet.

use super::asm::Enc;

/// Names a vector value.
pub type V = u32;

/// No value.
pub const NONE: V = u32::MAX;

/// Where a value can be read from memory instead of a register.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Home {
    /// Nowhere.
    None,
    /// The constants behind the code, at this byte.
    Pool(u32),
    /// The frame, at this byte.
    Slot(i32),
    /// The frame, at this byte, where a call has just written it.
    Called(i32),
    /// Argument (or temporary) `arg`, `ahead` elements of `1 << scale` bytes after the present one.
    Arg { arg: u16, ahead: i32, scale: u8 },
}

/// What is known of a value.
#[derive(Clone, Copy, Debug)]
pub struct Value {
    /// Bytes that count: lanes × size.
    pub width: u8,
    /// Where it also is.
    pub home: Home,
    /// The register it never leaves.
    pub pin: Option<u8>,
}

/// Which operands an instruction has.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Form {
    /// `dst = f(b)`.
    Rm,
    /// `dst = f(a, b)`.
    Rvm,
    /// `dst = f(a, b) = f(b, a)`.
    Commutes,
    /// `dst = c ? b : a`, where the topmost bits of lanes decide.
    Blend,
    /// Bit by bit, the bit of this table that those of `a`, `b` and `c` number.
    Ternary(u8),
    /// `dst = a * b + c`.
    Fma,
    /// `dst = c - a * b`.
    FmaNegated,
    /// `dst = f(b)` with the opcode extended by this number: shifts by constants.
    Shift(u8),
    /// `dst = f(a)` where the result is the operand that could be memory.
    Mr,
}

/// One vector instruction.
#[derive(Clone, Copy, Debug)]
pub struct Vex {
    /// Which.
    pub enc: Enc,
    /// 256 bits.
    pub wide: bool,
    /// Operands.
    pub form: Form,
    /// Result.
    pub dst: V,
    /// Operands.
    pub a: V,
    /// The one that may be in memory.
    pub b: V,
    /// Third operand.
    pub c: V,
    /// Immediate.
    pub imm: Option<u8>,
    /// Bytes it reads if `b` is in memory.
    pub read: u8,
}

/// How many elements a memory operation moves.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Count {
    /// All lanes.
    Lanes(u8),
    /// As many as are left of the row.
    Rest,
}

/// Whether integers have a sign.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Sign {
    /// They have.
    Signed,
    /// They do not.
    Unsigned,
}

/// What a division gives.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Part {
    /// The quotient toward zero; all bits set where the divisor is zero.
    Quotient,
    /// What is left, with the sign of the dividend, which is itself where the divisor is zero.
    Remainder,
}

/// One step of straight-line code.
#[derive(Clone, Copy, Debug)]
pub enum Inst {
    /// A vector instruction.
    Vex(Vex),
    /// Brings a value into a register now, since its memory is about to be written.
    Touch(V),
    /// Compares lane 0, a mask, with zero: the last instruction before a jump.
    Test(V),
    /// Writes all lanes of `src` to neighboring elements; `past` the caches if they are aligned to a vector.
    Store { src: V, arg: u16, ahead: i32, scale: u8, past: bool },
    /// Writes the 32 bytes of `src` to the frame.
    Keep { src: V, slot: i32 },
    /// Calls the function of a [`Site`](super::calls::Site), by its address, on vectors from this byte of the frame on.
    Call { site: u64, slots: i32 },
    /// `near`, unless a lane of `mask` is set: then what the function of a [`Site`](super::calls::Site) gives for `x`, perhaps `y`, and
    /// `near`.
    Far { dst: V, mask: V, x: V, y: V, near: V, site: u64, slots: i32 },
    /// Reads the rest of the row; lanes beyond hold anything. `mask` selects lanes where the size is 4 or 8.
    LoadRest { dst: V, mask: V, arg: u16, scale: u8 },
    /// Writes the rest of the row.
    StoreRest { src: V, mask: V, arg: u16, scale: u8 },
    /// Reads elements that are not adjacent.
    Gather { dst: V, arg: u16, ahead: i32, scale: u8, count: Count },
    /// Writes elements that are not adjacent.
    Scatter { src: V, arg: u16, ahead: i32, scale: u8, count: Count },
    /// Reads every other element into all lanes. Of those of less than 4 bytes `mask` selects the even lanes of a vector.
    LoadPair { dst: V, mask: V, arg: u16, ahead: i32, scale: u8 },
    /// Reads every third element, by the shuffles of [`triple::masks`](super::triple::masks).
    LoadTriple { dst: V, masks: [V; 3], arg: u16, ahead: i32, scale: u8 },
    /// Writes all lanes to every other element. `mask` selects the even lanes of a vector.
    StorePair { src: V, mask: V, arg: u16, ahead: i32, scale: u8 },
    /// The quotient of lane 0 of `x` and of `y`, integers of `1 << scale` bytes, 4 or 8, or the remainder, in all lanes.
    Divide { dst: V, x: V, y: V, scale: u8, sign: Sign, part: Part },
    /// The one element of `arg` as an integer in all lanes of that size, after `shl` bits of shift; of the element `disp` bytes
    /// further on, and `place` more if there is one.
    Spread { dst: V, arg: u16, scale: u8, shl: u8, place: V, disp: i32 },
    /// Elements of 4 or 8 bytes of `arg`, each so many bytes further on as its lane of `place`, of 4 bytes, says, and `disp`
    /// more; of the lanes that `mask` selects if there is one.
    Pick { dst: V, place: V, mask: V, arg: u16, scale: u8, disp: i32 },
    /// The low 4 bytes of the address of the one element of `arg`, or `disp` bytes further on, in all lanes of 4 bytes.
    Address { dst: V, arg: u16, disp: i32 },
    /// All bits set if the byte of `arg` is not zero, none otherwise.
    SpreadMask { dst: V, arg: u16 },
    /// Index of the element `ahead` along `dim`, in all lanes of `1 << scale` bytes.
    Index { dst: V, dim: u8, ahead: i32, scale: u8 },
    /// Writes lane 0 of `src` to the one element of `arg`, or further on, as for `Spread`.
    StoreOne { src: V, arg: u16, scale: u8, place: V, disp: i32 },
}

impl Inst {
    /// Values it reads.
    pub fn sources(&self) -> impl Iterator<Item = V> + use<> {
        let list = match *self {
            Inst::Vex(x) => [x.a, x.b, x.c, NONE],
            Inst::Touch(v) | Inst::Test(v) => [v, NONE, NONE, NONE],
            Inst::Store { src, .. } | Inst::Keep { src, .. } => [src, NONE, NONE, NONE],
            Inst::StoreOne { src, place, .. } => [src, place, NONE, NONE],
            Inst::Spread { place, .. } => [place, NONE, NONE, NONE],
            Inst::Pick { place, mask, .. } => [place, mask, NONE, NONE],
            Inst::Divide { x, y, .. } => [x, y, NONE, NONE],
            Inst::LoadRest { mask, .. } | Inst::LoadPair { mask, .. } => [mask, NONE, NONE, NONE],
            Inst::StoreRest { src, mask, .. } | Inst::StorePair { src, mask, .. } => [src, mask, NONE, NONE],
            Inst::Scatter { src, .. } => [src, NONE, NONE, NONE],
            Inst::LoadTriple { masks, .. } => [masks[0], masks[1], masks[2], NONE],
            Inst::Far { mask, x, y, near, .. } => [mask, x, near, y],
            Inst::Gather { .. } | Inst::SpreadMask { .. } | Inst::Index { .. } => [NONE; 4],
            Inst::Call { .. } | Inst::Address { .. } => [NONE; 4],
        };
        list.into_iter().filter(|&v| v != NONE)
    }

    /// The value it makes.
    pub fn result(&self) -> Option<V> {
        match *self {
            Inst::Vex(x) => Some(x.dst),
            Inst::LoadRest { dst, .. } | Inst::Gather { dst, .. } => Some(dst),
            Inst::LoadPair { dst, .. } | Inst::LoadTriple { dst, .. } => Some(dst),
            Inst::Far { dst, .. } | Inst::Pick { dst, .. } | Inst::Divide { dst, .. } => Some(dst),
            Inst::Spread { dst, .. } | Inst::SpreadMask { dst, .. } | Inst::Index { dst, .. } => Some(dst),
            Inst::Address { dst, .. } => Some(dst),
            Inst::Touch(_)
            | Inst::Test(_)
            | Inst::Store { .. }
            | Inst::Keep { .. }
            | Inst::Call { .. }
            | Inst::StoreRest { .. }
            | Inst::Scatter { .. }
            | Inst::StorePair { .. }
            | Inst::StoreOne { .. } => None,
        }
    }
}

/// Encodings.
#[allow(missing_docs)] // the names are the mnemonics
pub mod op {
    use super::super::asm::{Enc, enc};

    const fn wide(e: Enc) -> Enc {
        Enc { w: true, ..e }
    }

    pub const MOVUPS: Enc = enc(0, 1, 0x10);
    pub const MOVUPS_STORE: Enc = enc(0, 1, 0x11);
    pub const MOVNTPS: Enc = enc(0, 1, 0x2B);
    pub const MOVAPS: Enc = enc(0, 1, 0x28);
    pub const MOVD: Enc = enc(1, 1, 0x6E);
    pub const MOVQ_FROM_GPR: Enc = wide(enc(1, 1, 0x6E));
    pub const MOVD_STORE: Enc = enc(1, 1, 0x7E);
    pub const MOVQ_TO_GPR: Enc = wide(enc(1, 1, 0x7E));
    pub const MOVQ: Enc = enc(2, 1, 0x7E);
    pub const MOVQ_STORE: Enc = enc(1, 1, 0xD6);
    /// Elements of 1, 2, 4, 8 bytes into a lane of 16 bytes, and out of one.
    pub const PINSR: [Enc; 4] = [enc(1, 3, 0x20), enc(1, 1, 0xC4), enc(1, 3, 0x22), wide(enc(1, 3, 0x22))];
    pub const PEXTR: [Enc; 4] = [enc(1, 3, 0x14), enc(1, 3, 0x15), enc(1, 3, 0x16), wide(enc(1, 3, 0x16))];
    pub const INSERT128: Enc = enc(1, 3, 0x38);
    /// Elements of 4 and of 8 bytes, each at a place of its own.
    pub const PGATHERD: [Enc; 2] = [enc(1, 2, 0x90), wide(enc(1, 2, 0x90))];
    pub const MASKMOVD_LOAD: Enc = enc(1, 2, 0x8C);
    pub const MASKMOVQ_LOAD: Enc = wide(enc(1, 2, 0x8C));
    pub const PBROADCAST: [Enc; 4] = [enc(1, 2, 0x78), enc(1, 2, 0x79), enc(1, 2, 0x58), enc(1, 2, 0x59)];

    // On 64 bytes.
    pub const INSERT256: Enc = wide(enc(1, 3, 0x1A));
    pub const EXTRACT256: Enc = wide(enc(1, 3, 0x1B));
    /// Elements of 4 and of 8 bytes in all lanes.
    pub const SPREAD: [Enc; 2] = [enc(1, 2, 0x18), wide(enc(1, 2, 0x19))];
    pub const MASK_TO_LANES: Enc = enc(2, 2, 0x38);
    pub const LANES_TO_MASK: Enc = enc(2, 2, 0x39);
    pub const BLEND_BY_MASK: Enc = enc(1, 2, 0x65);

    // Floats come in pairs: f32, f64.
    pub const ADD: [Enc; 2] = [enc(0, 1, 0x58), enc(1, 1, 0x58)];
    pub const MUL: [Enc; 2] = [enc(0, 1, 0x59), enc(1, 1, 0x59)];
    pub const SUB: [Enc; 2] = [enc(0, 1, 0x5C), enc(1, 1, 0x5C)];
    pub const MIN: [Enc; 2] = [enc(0, 1, 0x5D), enc(1, 1, 0x5D)];
    pub const DIV: [Enc; 2] = [enc(0, 1, 0x5E), enc(1, 1, 0x5E)];
    pub const MAX: [Enc; 2] = [enc(0, 1, 0x5F), enc(1, 1, 0x5F)];
    pub const SQRT: [Enc; 2] = [enc(0, 1, 0x51), enc(1, 1, 0x51)];
    pub const AND: [Enc; 2] = [enc(0, 1, 0x54), enc(1, 1, 0x54)];
    pub const OR: [Enc; 2] = [enc(0, 1, 0x56), enc(1, 1, 0x56)];
    pub const XOR: [Enc; 2] = [enc(0, 1, 0x57), enc(1, 1, 0x57)];
    pub const CMP: [Enc; 2] = [enc(0, 1, 0xC2), enc(1, 1, 0xC2)];
    pub const ROUND: [Enc; 2] = [enc(1, 3, 0x08), enc(1, 3, 0x09)];
    pub const BLEND: [Enc; 2] = [enc(1, 3, 0x4A), enc(1, 3, 0x4B)];
    pub const CVT_I32: [Enc; 2] = [enc(0, 1, 0x5B), enc(2, 1, 0xE6)];
    pub const CVTT_I32: [Enc; 2] = [enc(2, 1, 0x5B), enc(1, 1, 0xE6)];
    pub const CVT_F32_F64: Enc = enc(0, 1, 0x5A);
    pub const CVT_F64_F32: Enc = enc(1, 1, 0x5A);
    pub const CVT_F16_F32: Enc = enc(1, 2, 0x13);
    pub const CVT_F32_F16: Enc = enc(1, 3, 0x1D);
    /// By form: 132, 213, 231.
    pub const FMA: [u8; 3] = [0x98, 0xA8, 0xB8];
    pub const FNMA: [u8; 3] = [0x9C, 0xAC, 0xBC];

    // Integers by size: 1, 2, 4, 8 bytes.
    pub const PADD: [Enc; 4] = [enc(1, 1, 0xFC), enc(1, 1, 0xFD), enc(1, 1, 0xFE), enc(1, 1, 0xD4)];
    pub const PSUB: [Enc; 4] = [enc(1, 1, 0xF8), enc(1, 1, 0xF9), enc(1, 1, 0xFA), enc(1, 1, 0xFB)];
    pub const PCMPEQ: [Enc; 4] = [enc(1, 1, 0x74), enc(1, 1, 0x75), enc(1, 1, 0x76), enc(1, 2, 0x29)];
    pub const PCMPGT: [Enc; 4] = [enc(1, 1, 0x64), enc(1, 1, 0x65), enc(1, 1, 0x66), enc(1, 2, 0x37)];
    pub const PMINS: [Enc; 3] = [enc(1, 2, 0x38), enc(1, 1, 0xEA), enc(1, 2, 0x39)];
    pub const PMAXS: [Enc; 3] = [enc(1, 2, 0x3C), enc(1, 1, 0xEE), enc(1, 2, 0x3D)];
    pub const PMINU: [Enc; 3] = [enc(1, 1, 0xDA), enc(1, 2, 0x3A), enc(1, 2, 0x3B)];
    pub const PMAXU: [Enc; 3] = [enc(1, 1, 0xDE), enc(1, 2, 0x3E), enc(1, 2, 0x3F)];
    pub const PABS: [Enc; 3] = [enc(1, 2, 0x1C), enc(1, 2, 0x1D), enc(1, 2, 0x1E)];
    pub const PSIGN: [Enc; 3] = [enc(1, 2, 0x08), enc(1, 2, 0x09), enc(1, 2, 0x0A)];
    pub const PMULLW: Enc = enc(1, 1, 0xD5);
    pub const PMULHW: Enc = enc(1, 1, 0xE5);
    pub const PMULHUW: Enc = enc(1, 1, 0xE4);
    pub const PMULLD: Enc = enc(1, 2, 0x40);
    pub const PMULUDQ: Enc = enc(1, 1, 0xF4);
    pub const PMULDQ: Enc = enc(1, 2, 0x28);
    pub const PMADDUBSW: Enc = enc(1, 2, 0x04);
    pub const PMADDWD: Enc = enc(1, 1, 0xF5);
    pub const PSADBW: Enc = enc(1, 1, 0xF6);
    pub const PAND: Enc = enc(1, 1, 0xDB);
    pub const PANDN: Enc = enc(1, 1, 0xDF);
    pub const POR: Enc = enc(1, 1, 0xEB);
    pub const PXOR: Enc = enc(1, 1, 0xEF);
    /// Sets the zero flag if no byte that two vectors have in common has a bit set.
    pub const PTEST: Enc = enc(1, 2, 0x17);
    pub const PBLENDVB: Enc = enc(1, 3, 0x4C);
    /// Shifts by a constant: opcode of words, double and quad words; the extension is 2 (right), 4 (arithmetic), 6.
    pub const SHIFT: [Enc; 4] = [enc(1, 1, 0x71), enc(1, 1, 0x71), enc(1, 1, 0x72), enc(1, 1, 0x73)];
    pub const PSLLV: [Enc; 2] = [enc(1, 2, 0x47), wide(enc(1, 2, 0x47))];
    pub const PSRLV: [Enc; 2] = [enc(1, 2, 0x45), wide(enc(1, 2, 0x45))];
    pub const PSRAVD: Enc = enc(1, 2, 0x46);
    pub const SHUF: [Enc; 2] = [enc(0, 1, 0xC6), enc(1, 1, 0xC6)];
    pub const PMOVZXDQ: Enc = enc(1, 2, 0x35);
    /// Elements of 2 and of 4 bytes of two vectors as elements of half of that, where they fit.
    pub const PACKUS: [Enc; 2] = [enc(1, 1, 0x67), enc(1, 2, 0x2B)];
    pub const PSHUFB: Enc = enc(1, 2, 0x00);
    /// Lanes of 4 bytes within 16, by an immediate.
    pub const PSHUFD: Enc = enc(1, 1, 0x70);
    /// Lanes of 4 bytes of two vectors, by an immediate.
    pub const BLENDPS: Enc = enc(1, 3, 0x0C);
    pub const PERMD: Enc = enc(1, 2, 0x36);
    pub const PERMQ: Enc = wide(enc(1, 3, 0x00));
    pub const EXTRACT128: Enc = enc(1, 3, 0x39);
    /// Sign extension from 1, 2, 4 bytes (row) to 2, 4, 8 (column); zero extension is 16 opcodes on.
    pub const PMOVSX: [[Enc; 3]; 3] = [
        [enc(1, 2, 0x20), enc(1, 2, 0x21), enc(1, 2, 0x22)],
        [enc(1, 2, 0), enc(1, 2, 0x23), enc(1, 2, 0x24)],
        [enc(1, 2, 0), enc(1, 2, 0), enc(1, 2, 0x25)],
    ];
}
