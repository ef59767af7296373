//! Conversions between types as vector instructions.

use meshwork_ir::ElementType;

use super::code::Code;
use super::inst::{Form, Inst, NONE, V, Vex, op};
use crate::kernel::ir::{Cmp, Ty};

fn f32_bits(x: f32) -> u64 {
    x.to_bits().into()
}

impl Code<'_> {
    /// As `stablehlo.convert` has it; `None` if there are no instructions for it.
    pub fn convert(&mut self, from: Ty, to: Ty, v: V) -> Option<V> {
        if from == to {
            return Some(v);
        }
        if to == Ty::Pred {
            let zero = self.unit.zero();
            return Some(self.compare(Cmp::Ne, from, v, zero));
        }
        if from == Ty::Pred {
            let mask = self.mask(v, to.size());
            let one = self.one(to);
            return Some(self.both(op::PAND, to.size(), mask, one));
        }
        match (from.is_float(), to.is_float()) {
            (false, false) => Some(self.integer_to_integer(from, to, v)),
            (false, true) => self.integer_to_float(from, to, v),
            (true, false) => self.float_to_integer(from, to, v),
            (true, true) => Some(self.float_to_float(from, v)),
        }
    }

    fn integer_to_integer(&mut self, from: Ty, to: Ty, v: V) -> V {
        let (have, want) = (from.size(), to.size());
        match have.cmp(&want) {
            std::cmp::Ordering::Equal => v,
            std::cmp::Ordering::Less => self.widen(v, have, want, from.is_signed()),
            std::cmp::Ordering::Greater => self.narrow(v, have, want),
        }
    }

    fn float_to_float(&mut self, from: Ty, v: V) -> V {
        if from == Ty::F32 {
            let wide = self.width(8) > 16;
            return self.resize(op::CVT_F32_F64, 8, v, wide, None);
        }
        let wide = self.width(8) > 16;
        self.resize(op::CVT_F64_F32, 4, v, wide, None)
    }

    /// 32-bit signed integers as floats.
    pub fn i32_to_float(&mut self, to: Ty, v: V) -> V {
        match to {
            Ty::F32 => self.rm(op::CVT_I32[0], 4, v, None),
            _ => {
                let wide = self.width(8) > 16;
                self.resize(op::CVT_I32[1], 8, v, wide, None)
            }
        }
    }

    fn integer_to_float(&mut self, from: Ty, to: Ty, v: V) -> Option<V> {
        let size = from.size();
        Some(match (from, to) {
            _ if size < 4 => {
                let wide = self.widen(v, size, 4, from.is_signed());
                self.i32_to_float(to, wide)
            }
            (Ty::I32, _) => self.i32_to_float(to, v),
            (Ty::U32, Ty::F64) => {
                let sign = self.unit.splat(4, 0x8000_0000);
                let flipped = self.both(op::PXOR, 4, v, sign);
                let shifted = self.i32_to_float(to, flipped);
                let back = self.unit.splat(8, 2147483648f64.to_bits());
                self.both(op::ADD[1], 8, shifted, back)
            }
            (Ty::U32, _) => {
                // Both halves are exact; their sum is rounded once.
                let (low, scale) = (self.unit.splat(4, 0xFFFF), self.unit.splat(4, f32_bits(65536.0)));
                let lower = self.both(op::PAND, 4, v, low);
                let upper = self.shift(2, 4, v, 16);
                let (lower, upper) = (self.i32_to_float(to, lower), self.i32_to_float(to, upper));
                self.fma(4, upper, scale, lower, false)
            }
            (Ty::I64 | Ty::U64, Ty::F64) => {
                // Halves in the digits of 2^84 and 2^52; the sum of what remains is rounded once.
                let sign = self.unit.splat(8, 1 << 63);
                let v = if from == Ty::I64 { self.both(op::PXOR, 8, v, sign) } else { v };
                let (tens, fifties) = (self.unit.splat(8, 0x4530 << 48), self.unit.splat(8, 0x4330 << 48));
                let low = self.unit.splat(8, 0xFFFF_FFFF);
                let upper = self.shift(2, 8, v, 32);
                let upper = self.both(op::POR, 8, upper, tens);
                let lower = self.both(op::PAND, 8, v, low);
                let lower = self.both(op::POR, 8, lower, fifties);
                let excess = 2f64.powi(84) + 2f64.powi(52) + if from == Ty::I64 { 2f64.powi(63) } else { 0.0 };
                let excess = self.unit.splat(8, excess.to_bits());
                let upper = self.rvm(op::SUB[1], 8, upper, excess);
                self.both(op::ADD[1], 8, upper, lower)
            }
            _ => return None,
        })
    }

    fn float_to_integer(&mut self, from: Ty, to: Ty, v: V) -> Option<V> {
        let (k, size) = (usize::from(from == Ty::F64), from.size());
        let number = |x: f64| if from == Ty::F32 { f32_bits(x as f32) } else { x.to_bits() };
        let ordered = self.rvmi(op::CMP[k], size, v, v, 7);
        let v = self.both(op::AND[k], size, v, ordered);
        if to.size() < 4 {
            let bits = 8 * to.size() as i32;
            let (least, most) = if to.is_signed() {
                (-(2f64.powi(bits - 1)), 2f64.powi(bits - 1) - 1.0)
            } else {
                (0.0, 2f64.powi(bits) - 1.0)
            };
            let (least, most) = (self.unit.splat(size, number(least)), self.unit.splat(size, number(most)));
            let v = self.rvm(op::MAX[k], size, v, least);
            let v = self.rvm(op::MIN[k], size, v, most);
            let whole = self.truncate(from, v);
            return Some(self.narrow(whole, 4, to.size()));
        }
        Some(match (from, to) {
            (Ty::F32, Ty::I32) => {
                // Out of range gives the least number, right for negative ones; its complement is the largest.
                let limit = self.unit.splat(4, f32_bits(2147483648.0));
                let over = self.rvmi(op::CMP[0], 4, v, limit, 0x1D);
                let whole = self.truncate(from, v);
                self.both(op::PXOR, 4, whole, over)
            }
            (Ty::F32, Ty::U32) => {
                let zero = self.unit.zero();
                let v = self.rvm(op::MAX[0], 4, v, zero);
                let half = self.unit.splat(4, f32_bits(2147483648.0));
                let limit = self.unit.splat(4, f32_bits(4294967296.0));
                let sign = self.unit.splat(4, 0x8000_0000);
                let big = self.rvmi(op::CMP[0], 4, v, half, 0x1D);
                let over = self.rvmi(op::CMP[0], 4, v, limit, 0x1D);
                let less = self.both(op::AND[0], 4, big, half);
                let v = self.rvm(op::SUB[0], 4, v, less);
                let whole = self.truncate(from, v);
                let top = self.both(op::PAND, 4, big, sign);
                let whole = self.both(op::PXOR, 4, whole, top);
                self.both(op::POR, 4, whole, over)
            }
            (Ty::F64, Ty::I32 | Ty::U32) => {
                let (least, most) = if to == Ty::I32 { (-2147483648.0, 2147483647.0) } else { (0.0, 4294967295.0) };
                let (least, most) = (self.unit.splat(8, number(least)), self.unit.splat(8, number(most)));
                let v = self.rvm(op::MAX[1], 8, v, least);
                let v = self.rvm(op::MIN[1], 8, v, most);
                if to == Ty::I32 {
                    return Some(self.truncate(from, v));
                }
                let half = self.unit.splat(8, 2147483648f64.to_bits());
                let v = self.rm(op::ROUND[1], 8, v, Some(11));
                let v = self.rvm(op::SUB[1], 8, v, half);
                let whole = self.truncate(from, v);
                let sign = self.unit.splat(4, 0x8000_0000);
                self.both(op::PXOR, 4, whole, sign)
            }
            _ => return None,
        })
    }

    /// Toward zero to 32-bit integers; the least number where out of range.
    fn truncate(&mut self, from: Ty, v: V) -> V {
        match from {
            Ty::F32 => self.rm(op::CVTT_I32[0], 4, v, None),
            _ => {
                let wide = self.width(8) > 16;
                self.resize(op::CVTT_I32[1], 4, v, wide, None)
            }
        }
    }

    /// An `f32` rounded to what `elem` holds.
    pub fn round(&mut self, elem: ElementType, v: V) -> Option<V> {
        Some(match elem {
            ElementType::BF16 => {
                let rounded = self.bf16_bits(v);
                let upper = self.unit.splat(4, 0xFFFF_0000);
                self.both(op::PAND, 4, rounded, upper)
            }
            ElementType::F16 => {
                let half = self.narrow_f16(v);
                self.widen_f16(half)
            }
            ElementType::F32 | ElementType::F64 => v,
            _ => return None,
        })
    }

    /// Bits whose upper half is `v` rounded to bf16. A NaN keeps its sign, by which sorts order it.
    fn bf16_bits(&mut self, v: V) -> V {
        let (one, half, quiet) = (self.unit.splat(4, 1), self.unit.splat(4, 0x7FFF), self.unit.splat(4, 0x0040_0000));
        let odd = self.shift(2, 4, v, 16);
        let odd = self.both(op::PAND, 4, odd, one);
        let up = self.both(op::PADD[2], 4, v, half);
        let rounded = self.both(op::PADD[2], 4, up, odd);
        let nan = self.both(op::POR, 4, v, quiet);
        let is_nan = self.rvmi(op::CMP[0], 4, v, v, 3);
        self.blend(4, is_nan, nan, rounded)
    }

    /// `v` as elements of bf16; `rounded` says that it already has no more digits.
    pub fn narrow_bf16(&mut self, v: V, rounded: bool) -> V {
        let bits = if rounded { v } else { self.bf16_bits(v) };
        let upper = self.shift(2, 4, bits, 16);
        self.narrow(upper, 4, 2)
    }

    /// Elements of bf16 as f32.
    pub fn widen_bf16(&mut self, v: V) -> V {
        let wide = self.widen(v, 2, 4, false);
        self.shift(6, 4, wide, 16)
    }

    /// `v` as elements of f16.
    pub fn narrow_f16(&mut self, v: V) -> V {
        let dst = self.fresh(2);
        let wide = self.width(4) > 16;
        let vex =
            Vex { enc: op::CVT_F32_F16, wide, form: Form::Mr, dst, a: v, b: NONE, c: NONE, imm: Some(0), read: 0 };
        self.insts.push(Inst::Vex(vex));
        dst
    }

    /// Elements of f16 as f32.
    pub fn widen_f16(&mut self, v: V) -> V {
        let wide = self.width(4) > 16;
        self.resize(op::CVT_F16_F32, 4, v, wide, None)
    }
}
