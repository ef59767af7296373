//! Bytes of x86-64 instructions: the few integer ones that loops need, any VEX-encoded vector one, masked stores, and functions of three bits.

use std::sync::LazyLock;

use super::alloc::FRAME;
use super::inst::op;

/// A general register by number: 0 rax, 1 rcx, 2 rdx, 3 rbx, 4 rsp, 5 rbp, 6 rsi, 7 rdi, 8.. r8..
pub type Gpr = u8;

/// A general register's name.
#[allow(missing_docs)] // the names are the names
pub mod gpr {
    pub const RAX: u8 = 0;
    pub const RCX: u8 = 1;
    pub const RDX: u8 = 2;
    pub const RBX: u8 = 3;
    pub const RBP: u8 = 5;
    pub const RSI: u8 = 6;
    pub const RDI: u8 = 7;
    pub const R8: u8 = 8;
    pub const R9: u8 = 9;
    pub const R10: u8 = 10;
    pub const R11: u8 = 11;
    pub const R12: u8 = 12;
    pub const R13: u8 = 13;
    pub const R14: u8 = 14;
    pub const R15: u8 = 15;
}

/// Register or memory operand.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Rm {
    /// A register.
    Reg(u8),
    /// `[base + index * 2^scale + disp]`.
    Mem { base: Gpr, index: Option<(Gpr, u8)>, disp: i32 },
    /// Byte `0` of the constants that follow the code.
    Pool(u32),
    /// The same, of which every lane gets the first element; of instructions on 64 bytes.
    PoolOne(u32),
    /// The element at this byte of the frame for every lane; of instructions on 64 bytes.
    FrameOne(i32),
}

/// How displacements are written.
#[derive(Clone, Copy, PartialEq)]
enum Displacement {
    /// In as few bytes as they need.
    Shortest,
    /// In four bytes unless they are zero: of AVX-512, those of one byte count vectors.
    Long,
}

/// `[base + disp]`.
pub fn at(base: Gpr, disp: i32) -> Rm {
    Rm::Mem { base, index: None, disp }
}

/// What distinguishes one VEX instruction from another: mandatory prefix (0 none, 1 `66`, 2 `F3`, 3 `F2`), opcode map
/// (1 `0F`, 2 `0F38`, 3 `0F3A`), opcode, and the W bit.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Enc {
    /// Prefix.
    pub pp: u8,
    /// Map.
    pub map: u8,
    /// Opcode.
    pub op: u8,
    /// W.
    pub w: bool,
}

/// An [`Enc`] with W clear.
pub const fn enc(pp: u8, map: u8, op: u8) -> Enc {
    Enc { pp, map, op, w: false }
}

/// Conditions of jumps, as encoded.
#[derive(Clone, Copy, PartialEq, Debug)]
#[allow(missing_docs)] // the names are the mnemonics
pub enum Cond {
    Equal = 4,
    NotEqual = 5,
    Above = 7,
    Less = 12,
    GreaterEqual = 13,
    LessEqual = 14,
    Greater = 15,
}

/// Whether vectors of 16 and 32 bytes have mask registers.
static HAS_MASKS: LazyLock<bool> = LazyLock::new(|| {
    #[cfg(target_arch = "x86_64")]
    {
        std::arch::is_x86_feature_detected!("avx512vl") && std::arch::is_x86_feature_detected!("avx512dq")
    }
    #[cfg(not(target_arch = "x86_64"))]
    false
});

/// Whether there are the instructions of AVX-512 on vectors of 16 and 32 bytes, with mask registers.
pub fn has_masks() -> bool {
    *HAS_MASKS
}

/// Whether vectors of 16 and 32 bytes have the instructions that choose bytes of two of them.
static CHOOSES_BYTES: LazyLock<bool> = LazyLock::new(|| {
    #[cfg(target_arch = "x86_64")]
    {
        std::arch::is_x86_feature_detected!("avx512vl") && std::arch::is_x86_feature_detected!("avx512vbmi")
    }
    #[cfg(not(target_arch = "x86_64"))]
    false
});

/// Whether [`Asm::choose_bytes`] is there.
pub fn chooses_bytes() -> bool {
    *CHOOSES_BYTES
}

/// A place to jump to.
#[derive(Clone, Copy, Debug)]
pub struct Label(usize);

/// Code under construction.
#[derive(Default)]
pub struct Asm {
    code: Vec<u8>,
    /// While set, instructions on 32 bytes are written for 64, in lanes of so many bytes.
    pub doubled: Option<usize>,
    /// Mask registers of which vector registers are to have the lanes, should anything read them.
    pub(super) masks: Vec<(u8, u8)>,
    /// Position of each label once bound.
    labels: Vec<Option<usize>>,
    /// Positions of four-byte distances to labels.
    jumps: Vec<(usize, usize)>,
    /// Positions of four-byte distances to constants, the constant's byte, and bytes of the instruction that follow.
    loads: Vec<(usize, u32, usize)>,
}

impl Asm {
    /// A label that is not bound yet.
    pub fn label(&mut self) -> Label {
        self.labels.push(None);
        Label(self.labels.len() - 1)
    }

    /// Binds `label` to here.
    pub fn bind(&mut self, label: Label) {
        self.labels[label.0] = Some(self.code.len());
    }

    /// Pads with `nop` so that a loop starts on a boundary that suits the decoder.
    pub fn align(&mut self, to: usize) {
        while !self.code.len().is_multiple_of(to) {
            self.code.push(0x90);
        }
    }

    fn modrm(&mut self, reg: u8, rm: Rm, displacement: Displacement, trailing: usize) {
        let reg = (reg & 7) << 3;
        match rm {
            Rm::Reg(r) => self.code.push(0xC0 | reg | (r & 7)),
            Rm::Pool(byte) | Rm::PoolOne(byte) => {
                self.code.push(reg | 5);
                self.loads.push((self.code.len(), byte, trailing));
                self.code.extend([0; 4]);
            }
            Rm::FrameOne(byte) => {
                self.code.push(0x80 | reg | (FRAME & 7));
                self.code.extend(byte.to_le_bytes());
            }
            Rm::Mem { base, index, disp } => {
                let short = displacement == Displacement::Shortest && i8::try_from(disp).is_ok();
                let mode = if disp == 0 && base & 7 != 5 {
                    0
                } else if short {
                    0x40
                } else {
                    0x80
                };
                match index {
                    None if base & 7 != 4 => self.code.push(mode | reg | (base & 7)),
                    None => self.code.extend([mode | reg | 4, 0x24]),
                    Some((index, scale)) => {
                        self.code.extend([mode | reg | 4, scale << 6 | (index & 7) << 3 | (base & 7)]);
                    }
                }
                match mode {
                    0 => {}
                    0x40 => self.code.push(disp as u8),
                    _ => self.code.extend(disp.to_le_bytes()),
                }
            }
        }
    }

    /// The bits that extend the register numbers in `rm`: X and B.
    fn extend(rm: Rm) -> (u8, u8) {
        match rm {
            Rm::Reg(r) => (0, r >> 3),
            Rm::Pool(_) | Rm::PoolOne(_) => (0, 0),
            Rm::FrameOne(_) => (0, FRAME >> 3),
            Rm::Mem { base, index, .. } => (index.map_or(0, |(i, _)| i >> 3), base >> 3),
        }
    }

    /// A vector instruction; `wide` means 256 bits. `reg` and `first` are register numbers (`first` is 0 if unused).
    pub fn vex(&mut self, e: Enc, wide: bool, reg: u8, first: u8, rm: Rm, imm: Option<u8>) {
        if let (true, Some(size)) = (wide, self.doubled) {
            return self.twice(size, e, [reg, first], rm, imm);
        }
        let (x, b) = Asm::extend(rm);
        let last = (!first & 15) << 3 | u8::from(wide) << 2 | e.pp;
        if x == 0 && b == 0 && e.map == 1 && !e.w {
            self.code.extend([0xC5, (!reg >> 3 & 1) << 7 | last]);
        } else {
            let second = (!reg >> 3 & 1) << 7 | (1 ^ x) << 6 | (1 ^ b) << 5 | e.map;
            self.code.extend([0xC4, second, u8::from(e.w) << 7 | last]);
        }
        self.code.push(e.op);
        self.modrm(reg, rm, Displacement::Shortest, usize::from(imm.is_some()));
        self.code.extend(imm);
    }

    /// Stores the lanes of 4 or 8 bytes (`size`) of `src` that have the top bit of `mask` set; uses `k1`.
    ///
    /// By a mask register where there are such: the instruction of AVX takes AMD's processors tens of cycles.
    pub fn store_masked(&mut self, size: usize, wide: bool, src: u8, mask: u8, rm: Rm) {
        let w = size == 8;
        self.settle_all(&[src, mask], rm);
        if !*HAS_MASKS {
            return self.vex(Enc { w, ..enc(1, 2, 0x8E) }, wide, src, mask, rm, None);
        }
        self.evex(Enc { w, ..op::LANES_TO_MASK }, u8::from(wide), [1, 0], 0, Rm::Reg(mask), None);
        self.evex(Enc { w, ..enc(2, 1, 0x7F) }, u8::from(wide), [src, 0], 1, rm, None);
    }

    /// The integer of 4 or 8 bytes in `src` in all lanes of `dst`.
    pub fn spread(&mut self, dst: u8, src: Gpr, size: usize) {
        let w = size == 8;
        if *HAS_MASKS {
            return self.evex(Enc { w, ..enc(1, 2, 0x7C) }, 1, [dst, 0], 0, Rm::Reg(src), None);
        }
        self.vex(Enc { w: true, ..enc(1, 1, 0x6E) }, false, dst, 0, Rm::Reg(src), None);
        self.vex(enc(1, 2, if w { 0x59 } else { 0x58 }), true, dst, 0, Rm::Reg(dst), None);
    }

    /// Any function of three bits, on those of `dst`, which becomes the result, `second` and `rm`: the bit of `table` that they number.
    /// Only where [`has_masks`] says so.
    pub fn ternary(&mut self, wide: bool, dst: u8, second: u8, rm: Rm, table: u8) {
        let (w, length) = match self.doubled {
            Some(size) if wide => {
                self.settle_all(&[dst, second], rm);
                (size == 8, 2)
            }
            _ => (false, u8::from(wide)),
        };
        self.evex(Enc { w, ..enc(1, 3, 0x25) }, length, [dst, second], 0, rm, Some(table));
    }

    /// The bytes of `first` and `second` that those of `dst`, which becomes the result, number. Only where [`chooses_bytes`] says so.
    pub fn choose_bytes(&mut self, wide: bool, dst: u8, first: u8, second: Rm) {
        self.evex(enc(1, 2, 0x75), u8::from(wide), [dst, first], 0, second, None);
    }

    /// The bytes of `dst`, which becomes the result, and `second` that those of `order` number. Only where [`chooses_bytes`] says so.
    pub fn choose_more_bytes(&mut self, wide: bool, dst: u8, order: u8, second: Rm) {
        self.evex(enc(1, 2, 0x7D), u8::from(wide), [dst, order], 0, second, None);
    }

    /// An instruction of AVX-512 on 16, 32 or 64 bytes (`length` 0, 1, 2) of the first 16 registers (the second of them is 0 if unused),
    /// under the mask register with the number `mask`, 0 for none.
    pub(super) fn evex(&mut self, e: Enc, length: u8, [reg, vector]: [u8; 2], mask: u8, rm: Rm, imm: Option<u8>) {
        let (x, b) = Asm::extend(rm);
        let first = (!reg >> 3 & 1) << 7 | (1 ^ x) << 6 | (1 ^ b) << 5 | 1 << 4 | e.map;
        let second = u8::from(e.w) << 7 | (!vector & 15) << 3 | 1 << 2 | e.pp;
        let one = u8::from(matches!(rm, Rm::PoolOne(_) | Rm::FrameOne(_)));
        // Loads that spread an element by themselves have no bit for it.
        let one = if e == op::SPREAD[0] || e == op::SPREAD[1] { 0 } else { one };
        let third = length << 5 | one << 4 | 1 << 3 | mask;
        self.code.extend([0x62, first, second, third, e.op]);
        self.modrm(reg, rm, Displacement::Long, usize::from(imm.is_some()));
        self.code.extend(imm);
    }

    /// An integer instruction with opcode bytes `op`; `wide` means 64 bits, `bytes` that `reg` is a byte register.
    fn int(&mut self, wide: bool, bytes: bool, op: &[u8], reg: u8, rm: Rm, imm: &[u8]) {
        let (x, b) = Asm::extend(rm);
        let rex = 0x40 | u8::from(wide) << 3 | (reg >> 3) << 2 | x << 1 | b;
        if rex != 0x40 || bytes {
            self.code.push(rex);
        }
        self.code.extend(op);
        self.modrm(reg, rm, Displacement::Shortest, imm.len());
        self.code.extend(imm);
    }

    /// Fetches the line of `[rm]` into the second cache.
    pub fn fetch(&mut self, rm: Rm) {
        self.int(false, false, &[0x0F, 0x18], 2, rm, &[]);
    }

    /// Waits until stores that went past the caches can be seen by others.
    pub fn store_fence(&mut self) {
        self.code.extend([0x0F, 0xAE, 0xF8]);
    }

    /// `dst = [rm]`, 64 bits.
    pub fn load(&mut self, dst: Gpr, rm: Rm) {
        self.int(true, false, &[0x8B], dst, rm, &[]);
    }

    /// `[rm] = src`, 64 bits.
    pub fn store(&mut self, rm: Rm, src: Gpr) {
        self.int(true, false, &[0x89], src, rm, &[]);
    }

    /// `dst = [rm]` of 1, 2, 4 or 8 bytes, zero-extended.
    pub fn load_sized(&mut self, dst: Gpr, rm: Rm, size: usize) {
        match size {
            1 => self.int(false, false, &[0x0F, 0xB6], dst, rm, &[]),
            2 => self.int(false, false, &[0x0F, 0xB7], dst, rm, &[]),
            4 => self.int(false, false, &[0x8B], dst, rm, &[]),
            _ => self.load(dst, rm),
        }
    }

    /// `[rm] = src` of 1, 2, 4 or 8 bytes.
    pub fn store_sized(&mut self, rm: Rm, src: Gpr, size: usize) {
        match size {
            1 => self.int(false, true, &[0x88], src, rm, &[]),
            2 => {
                self.code.push(0x66);
                self.int(false, false, &[0x89], src, rm, &[]);
            }
            4 => self.int(false, false, &[0x89], src, rm, &[]),
            _ => self.store(rm, src),
        }
    }

    /// `dst += rm`.
    pub fn add(&mut self, dst: Gpr, rm: Rm) {
        self.int(true, false, &[0x03], dst, rm, &[]);
    }

    /// `[rm] += src`.
    pub fn add_to(&mut self, rm: Rm, src: Gpr) {
        self.int(true, false, &[0x01], src, rm, &[]);
    }

    /// `dst *= rm`.
    pub fn mul(&mut self, dst: Gpr, rm: Rm) {
        self.int(true, false, &[0x0F, 0xAF], dst, rm, &[]);
    }

    /// `dst += value`.
    pub fn add_imm(&mut self, dst: Gpr, value: i32) {
        self.int(true, false, &[0x81], 0, Rm::Reg(dst), &value.to_le_bytes());
    }

    /// `rm -= 1`.
    pub fn dec(&mut self, rm: Rm) {
        self.int(true, false, &[0xFF], 1, rm, &[]);
    }

    /// `dst = -dst`, 64 bits; the carry is set if it was not zero.
    pub fn neg(&mut self, dst: Gpr) {
        self.int(true, false, &[0xF7], 3, Rm::Reg(dst), &[]);
    }

    /// `dst = -carry`, 64 bits.
    pub fn carry_mask(&mut self, dst: Gpr) {
        self.int(true, false, &[0x1B], dst, Rm::Reg(dst), &[]);
    }

    /// `dst <<= by`.
    pub fn shl(&mut self, dst: Gpr, by: u8) {
        self.int(true, false, &[0xC1], 4, Rm::Reg(dst), &[by]);
    }

    /// `dst = address of rm`.
    pub fn lea(&mut self, dst: Gpr, rm: Rm) {
        self.int(true, false, &[0x8D], dst, rm, &[]);
    }

    /// `dst = src`.
    pub fn mov(&mut self, dst: Gpr, src: Gpr) {
        self.load(dst, Rm::Reg(src));
    }

    /// `dst = value`, sign-extended.
    pub fn set(&mut self, dst: Gpr, value: i32) {
        self.int(true, false, &[0xC7], 0, Rm::Reg(dst), &value.to_le_bytes());
    }

    /// `dst = value`, 64 bits.
    pub fn set_wide(&mut self, dst: Gpr, value: u64) {
        self.code.extend([0x48 | dst >> 3, 0xB8 | (dst & 7)]);
        self.code.extend(value.to_le_bytes());
    }

    /// Calls the function at the address in `r`. Six registers have been pushed since the function was entered, which leaves the
    /// stack eight bytes off the alignment that callees expect.
    pub fn call(&mut self, r: Gpr) {
        self.add_imm(4, -8);
        // Callees expect the upper halves of the vector registers to be clear.
        self.code.extend([0xC5, 0xF8, 0x77]);
        self.int(false, false, &[0xFF], 2, Rm::Reg(r), &[]);
        self.add_imm(4, 8);
    }

    /// Compares `a` with `rm`.
    pub fn cmp(&mut self, a: Gpr, rm: Rm) {
        self.int(true, false, &[0x3B], a, rm, &[]);
    }

    /// Compares the lower 32 bits of `a` with `value`.
    pub fn cmp_imm(&mut self, a: Gpr, value: i32) {
        self.int(false, false, &[0x81], 7, Rm::Reg(a), &value.to_le_bytes());
    }

    /// Compares the integer of 4 or 8 bytes in `a` with `value`.
    pub fn cmp_sized(&mut self, a: Gpr, value: i32, size: usize) {
        self.int(size == 8, false, &[0x81], 7, Rm::Reg(a), &value.to_le_bytes());
    }

    /// Divides the integer of 4 or 8 bytes in `rax`, which has a sign, by the one in `by`: quotient in `rax`, remainder in `rdx`. It faults if
    /// `by` is zero, or if the quotient does not fit.
    pub fn divide_signed(&mut self, by: Gpr, size: usize) {
        if size == 8 {
            self.code.push(0x48);
        }
        self.code.push(0x99);
        self.int(size == 8, false, &[0xF7], 7, Rm::Reg(by), &[]);
    }

    /// The same without sign.
    pub fn divide_unsigned(&mut self, by: Gpr, size: usize) {
        self.set(gpr::RDX, 0);
        self.int(size == 8, false, &[0xF7], 6, Rm::Reg(by), &[]);
    }

    /// `dst = rm` if the condition holds.
    pub fn mov_if(&mut self, cond: Cond, dst: Gpr, rm: Rm) {
        self.int(true, false, &[0x0F, 0x40 | cond as u8], dst, rm, &[]);
    }

    /// Saves a register on the stack.
    pub fn push(&mut self, r: Gpr) {
        if r > 7 {
            self.code.push(0x41);
        }
        self.code.push(0x50 | (r & 7));
    }

    /// Restores a register from the stack.
    pub fn pop(&mut self, r: Gpr) {
        if r > 7 {
            self.code.push(0x41);
        }
        self.code.push(0x58 | (r & 7));
    }

    /// Jumps if the condition holds.
    pub fn jump_if(&mut self, cond: Cond, to: Label) {
        self.code.extend([0x0F, 0x80 | cond as u8]);
        self.jumps.push((self.code.len(), to.0));
        self.code.extend([0; 4]);
    }

    /// Jumps.
    pub fn jump(&mut self, to: Label) {
        self.code.push(0xE9);
        self.jumps.push((self.code.len(), to.0));
        self.code.extend([0; 4]);
    }

    /// Clears the upper halves of the vector registers, as callers expect, and returns.
    pub fn ret(&mut self) {
        self.code.extend([0xC5, 0xF8, 0x77, 0xC3]);
    }

    /// The finished code with `pool` behind it, aligned to 32 bytes; `None` if a label was never bound or something
    /// is too far away.
    pub fn finish(mut self, pool: &[u8]) -> Option<Vec<u8>> {
        let start = self.code.len().next_multiple_of(32);
        for (at, label) in self.jumps {
            let distance = i32::try_from(self.labels[label]? as isize - (at + 4) as isize).ok()?;
            self.code[at..at + 4].copy_from_slice(&distance.to_le_bytes());
        }
        for (at, byte, trailing) in self.loads {
            let distance = i32::try_from(start + byte as usize - (at + 4 + trailing)).ok()?;
            self.code[at..at + 4].copy_from_slice(&distance.to_le_bytes());
        }
        self.code.resize(start, 0xCC);
        self.code.extend_from_slice(pool);
        Some(self.code)
    }
}
