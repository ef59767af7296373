//! A list of vector instructions under construction, with the constants and values they use.

use std::sync::Arc;

use meshwork_ir::hash::HashMap;

use super::alloc::Frame;
use super::asm::{Enc, has_masks};
use super::calls::Site;
use super::inst::{Form, Home, Inst, NONE, V, Value, Vex, op};
use super::ternary;
use crate::kernel::interp::loops::Loop;
use crate::kernel::ir::{Cmp, Ty};

/// log2 of 1, 2, 4 or 8.
pub fn log2(size: usize) -> u8 {
    size.trailing_zeros() as u8
}

/// Constants behind the code.
#[derive(Default)]
pub struct Pool {
    /// The bytes.
    pub bytes: Vec<u8>,
    known: HashMap<[u8; 32], V>,
}

/// What all phases of a kernel share.
pub struct Unit {
    /// All values made so far.
    pub values: Vec<Value>,
    /// Size of the lanes of a mask, per value; 0 where every size is right.
    pub masks: Vec<u8>,
    /// Constants.
    pub pool: Pool,
    /// The frame.
    pub frame: Frame,
    /// Loops that are called.
    pub sites: Vec<Arc<Site>>,
}

impl Unit {
    /// A new value of `width` bytes.
    pub fn value(&mut self, width: usize, home: Home) -> V {
        self.values.push(Value { width: width as u8, home, pin: None });
        self.masks.push(0);
        self.values.len() as V - 1
    }

    /// A vector of 32 constant bytes.
    pub fn bytes(&mut self, bytes: [u8; 32]) -> V {
        if let Some(&v) = self.pool.known.get(&bytes) {
            return v;
        }
        let home = Home::Pool(self.pool.bytes.len() as u32);
        self.pool.bytes.extend(bytes);
        let v = self.value(32, home);
        self.pool.known.insert(bytes, v);
        v
    }

    /// The low `size` bytes of `bits` in every lane.
    pub fn splat(&mut self, size: usize, bits: u64) -> V {
        let mut bytes = [0; 32];
        for lane in bytes.chunks_exact_mut(size) {
            lane.copy_from_slice(&bits.to_le_bytes()[..size]);
        }
        self.bytes(bytes)
    }

    /// The first eight bytes of a constant.
    pub fn constant(&self, v: V) -> Option<u64> {
        let Home::Pool(at) = self.values[v as usize].home else { return None };
        let bytes = self.pool.bytes.get(at as usize..at as usize + 8)?;
        Some(bytes.iter().rev().fold(0, |bits, &b| bits << 8 | u64::from(b)))
    }

    /// All bits set.
    pub fn ones(&mut self) -> V {
        self.bytes([0xFF; 32])
    }

    /// No bit set.
    pub fn zero(&mut self) -> V {
        self.bytes([0; 32])
    }
}

/// A list of instructions for vectors of `lanes` elements.
pub struct Code<'a> {
    /// What is shared.
    pub unit: &'a mut Unit,
    /// The instructions.
    pub insts: Vec<Inst>,
    /// Elements of a vector.
    pub lanes: usize,
}

impl Code<'_> {
    /// Bytes of a vector of elements of `size` bytes.
    pub fn width(&self, size: usize) -> usize {
        self.lanes * size
    }

    /// A new value of elements of `size` bytes.
    pub fn fresh(&mut self, size: usize) -> V {
        let width = self.width(size);
        self.unit.value(width, Home::None)
    }

    fn push(&mut self, enc: Enc, form: Form, size: usize, [a, b, c]: [V; 3], imm: Option<u8>) -> V {
        let dst = self.fresh(size);
        let wide = self.width(size) > 16;
        let read = self.width(size).max(16) as u8;
        self.insts.push(Inst::Vex(Vex { enc, wide, form, dst, a, b, c, imm, read }));
        dst
    }

    /// `f(a, b)` on elements of `size` bytes.
    pub fn rvm(&mut self, enc: Enc, size: usize, a: V, b: V) -> V {
        self.push(enc, Form::Rvm, size, [a, b, NONE], None)
    }

    /// `f(a, b)` where the order does not matter.
    pub fn both(&mut self, enc: Enc, size: usize, a: V, b: V) -> V {
        self.push(enc, Form::Commutes, size, [a, b, NONE], None)
    }

    /// `f(a, b)` with an immediate.
    pub fn rvmi(&mut self, enc: Enc, size: usize, a: V, b: V, imm: u8) -> V {
        self.push(enc, Form::Rvm, size, [a, b, NONE], Some(imm))
    }

    /// `f(b)`, with elements of the same size.
    pub fn rm(&mut self, enc: Enc, size: usize, b: V, imm: Option<u8>) -> V {
        self.push(enc, Form::Rm, size, [NONE, b, NONE], imm)
    }

    /// `f(b)` from elements of another size: `wide` says which vector length the instruction names.
    pub fn resize(&mut self, enc: Enc, size: usize, b: V, wide: bool, imm: Option<u8>) -> V {
        let dst = self.fresh(size);
        let read = self.unit.values[b as usize].width;
        self.insts.push(Inst::Vex(Vex { enc, wide, form: Form::Rm, dst, a: NONE, b, c: NONE, imm, read }));
        dst
    }

    /// `f(b)` for lanes of 16 bytes and fewer, whatever the width of the phase's vectors.
    pub fn low(&mut self, enc: Enc, form: Form, [a, b]: [V; 2], imm: Option<u8>) -> V {
        let dst = self.unit.value(16, Home::None);
        self.insts.push(Inst::Vex(Vex { enc, wide: false, form, dst, a, b, c: NONE, imm, read: 16 }));
        dst
    }

    /// `mask ? yes : no`, where all bits of a lane of the mask are the same.
    ///
    /// With AVX-512 as a function of three bits: blends take Intel's processors three operations.
    pub fn blend(&mut self, size: usize, mask: V, yes: V, no: V) -> V {
        if has_masks() {
            self.ternary(ternary::CHOICE, size, [mask, yes, no])
        } else {
            self.blend_by_sign(size, mask, yes, no)
        }
    }

    /// Bit by bit, the bit of `table` that those of three vectors number; only where there is AVX-512.
    fn ternary(&mut self, table: u8, size: usize, operands: [V; 3]) -> V {
        self.push(op::MOVUPS, Form::Ternary(table), size, operands, None)
    }

    /// `mask ? yes : no`, where the topmost bit of a lane of the mask decides.
    pub fn blend_by_sign(&mut self, size: usize, mask: V, yes: V, no: V) -> V {
        let enc = match size {
            4 => op::BLEND[0],
            8 => op::BLEND[1],
            _ => op::PBLENDVB,
        };
        self.push(enc, Form::Blend, size, [no, yes, mask], None)
    }

    /// `a * b + c`, or `c - a * b`.
    pub fn fma(&mut self, size: usize, a: V, b: V, c: V, negated: bool) -> V {
        let enc = Enc { pp: 1, map: 2, op: 0, w: size == 8 };
        self.push(enc, if negated { Form::FmaNegated } else { Form::Fma }, size, [a, b, c], None)
    }

    /// `b` shifted by a constant: extension 2 right, 4 right with the sign, 6 left.
    pub fn shift(&mut self, extension: u8, size: usize, b: V, by: u8) -> V {
        self.shift_as(size, extension, size, b, by)
    }

    /// The same for elements of `size` bytes, taken as ones of `of` bytes.
    pub fn shift_as(&mut self, of: usize, extension: u8, size: usize, b: V, by: u8) -> V {
        let enc = op::SHIFT[usize::from(log2(of))];
        self.push(enc, Form::Shift(extension), size, [NONE, b, NONE], Some(by))
    }

    /// What the interpreter's loop `run` makes of the vectors `a`, and `b` if it has a second operand: elements of `size` bytes.
    pub fn called(&mut self, run: Loop, lanes: usize, a: &[V], b: &[V], size: usize) -> Vec<V> {
        let count = a.len();
        let site = Arc::new(Site::new(run, lanes, count));
        let slots: Vec<i32> = (0..Site::slots(count)).map(|_| self.unit.frame.slot()).collect();
        for (&src, &slot) in a.iter().chain(b).zip(&slots) {
            self.insts.push(Inst::Keep { src, slot });
        }
        self.insts.push(Inst::Call { site: std::ptr::from_ref(&*site) as u64, slots: slots[0] });
        self.unit.sites.push(site);
        let width = lanes * size;
        slots[2 * count..].iter().map(|&slot| self.unit.value(width, Home::Called(slot))).collect()
    }

    /// `near`, or where the size `x` is beyond a limit what a loop gives for both.
    pub fn far(&mut self, (run, limit): (Loop, f64), ty: Ty, x: V, near: V) -> V {
        let limit = self.number(ty, limit);
        let mask = self.compare(Cmp::Gt, ty, x, limit);
        self.rarely(run, ty, mask, [x, NONE, near])
    }

    /// `near`, or where the size `x` is at least so many times the size `y` what a loop gives for all three.
    pub fn far_apart(&mut self, (run, times): (Loop, f64), ty: Ty, [x, y, near]: [V; 3]) -> V {
        let times = self.number(ty, times);
        let limit = self.both(op::MUL[usize::from(ty == Ty::F64)], ty.size(), y, times);
        let mask = self.compare(Cmp::Ge, ty, x, limit);
        self.rarely(run, ty, mask, [x, y, near])
    }

    /// `near`, or where that is NaN what a loop gives for all three.
    pub fn unknown(&mut self, run: Loop, ty: Ty, [x, y, near]: [V; 3]) -> V {
        let mask = self.compare(Cmp::Ne, ty, near, near);
        self.rarely(run, ty, mask, [x, y, near])
    }

    fn number(&mut self, ty: Ty, x: f64) -> V {
        let bits = if ty == Ty::F32 { f32::to_bits(x as f32).into() } else { x.to_bits() };
        self.unit.splat(ty.size(), bits)
    }

    fn rarely(&mut self, run: Loop, ty: Ty, mask: V, [x, y, near]: [V; 3]) -> V {
        let site = Arc::new(Site::far(run, self.lanes, y != NONE));
        let slots = self.unit.frame.slot();
        (1..4).for_each(|_| _ = self.unit.frame.slot());
        let dst = self.fresh(ty.size());
        self.insts.push(Inst::Far { dst, mask, x, y, near, site: std::ptr::from_ref(&*site) as u64, slots });
        self.unit.sites.push(site);
        dst
    }

    /// The complement of a mask or integer.
    pub fn not(&mut self, size: usize, v: V) -> V {
        let ones = self.unit.ones();
        self.both(op::PXOR, size, v, ones)
    }

    /// `v` cut to elements of `to` bytes.
    pub fn narrow(&mut self, v: V, from: usize, to: usize) -> V {
        // Each half of the vector packs what it keeps at its start.
        let mut pattern = [0x80u8; 32];
        for half in pattern.chunks_exact_mut(16) {
            for (i, byte) in half.iter_mut().take(16 / from * to).enumerate() {
                *byte = (i / to * from + i % to) as u8;
            }
        }
        let pattern = self.unit.bytes(pattern);
        let wide = self.width(from) > 16;
        let dst = if wide { self.unit.value(32, Home::None) } else { self.fresh(to) };
        let read = if wide { 32 } else { 16 };
        let vex = Vex { enc: op::PSHUFB, wide, form: Form::Rvm, dst, a: v, b: pattern, c: NONE, imm: None, read };
        self.insts.push(Inst::Vex(vex));
        if !wide {
            return dst;
        }
        let kept = 16 / from * to;
        if kept == 8 {
            return self.resize(op::PERMQ, to, dst, true, Some(0b1000));
        }
        let mut order = [0u8; 32];
        order[4] = 4;
        let order = self.unit.bytes(order);
        let joined = self.unit.value(32, Home::None);
        let vex = Vex {
            enc: op::PERMD,
            wide: true,
            form: Form::Rvm,
            dst: joined,
            a: order,
            b: dst,
            c: NONE,
            imm: None,
            read: 32,
        };
        self.insts.push(Inst::Vex(vex));
        if kept == 4 {
            self.unit.values[joined as usize].width = self.width(to) as u8;
            return joined;
        }
        let mut last = [0x80u8; 32];
        last[..4].copy_from_slice(&[0, 1, 4, 5]);
        let last = self.unit.bytes(last);
        let out = self.low(op::PSHUFB, Form::Rvm, [joined, last], None);
        self.unit.values[out as usize].width = self.width(to) as u8;
        out
    }

    /// `v` widened to elements of `to` bytes.
    pub fn widen(&mut self, v: V, from: usize, to: usize, signed: bool) -> V {
        let mut enc = op::PMOVSX[usize::from(log2(from))][usize::from(log2(to)) - 1];
        if !signed {
            enc.op += 0x10;
        }
        let wide = self.width(to) > 16;
        self.resize(enc, to, v, wide, None)
    }

    /// Mask `v` with lanes of `size` bytes.
    pub fn mask(&mut self, v: V, size: usize) -> V {
        let have = usize::from(self.unit.masks[v as usize]);
        let out = match have {
            0 => return v,
            have if have == size => return v,
            have if have < size => self.widen(v, have, size, true),
            have => self.narrow(v, have, size),
        };
        self.unit.masks[out as usize] = size as u8;
        out
    }

    /// Marks `v` as a mask with lanes of `size` bytes.
    pub fn mark_mask(&mut self, v: V, size: usize) -> V {
        self.unit.masks[v as usize] = size as u8;
        v
    }
}
