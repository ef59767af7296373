//! Arithmetic, comparisons and choices as vector instructions.

use super::code::{Code, log2};
use super::inst::{V, op};
use crate::kernel::ir::{BinaryOp, Cmp, Ty, UnaryOp};

/// Comparison predicates of `vcmpps`: quiet, false on NaN (true for "not equal").
const UNORDERED: u8 = 3;
const NOT_EQUAL_ORDERED: u8 = 0x0C;

/// A half of a product.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Half {
    /// The low bits.
    Lower,
    /// The high bits.
    Upper,
}

pub(super) fn float_index(ty: Ty) -> usize {
    usize::from(ty == Ty::F64)
}

impl Code<'_> {
    fn sign_bit(&mut self, size: usize) -> V {
        self.unit.splat(size, 1 << (8 * size - 1))
    }

    /// The number one as `ty`.
    pub fn one(&mut self, ty: Ty) -> V {
        let bits = match ty {
            Ty::F32 => 1f32.to_bits().into(),
            Ty::F64 => 1f64.to_bits(),
            _ => 1,
        };
        self.unit.splat(ty.size(), bits)
    }

    /// A function of one value; `None` if there are no instructions for it.
    pub fn unary(&mut self, f: UnaryOp, ty: Ty, a: V) -> Option<V> {
        let (size, k) = (ty.size(), float_index(ty));
        let i = usize::from(log2(size));
        if ty == Ty::Pred {
            let have = usize::from(self.unit.masks[a as usize]).max(1);
            let v = self.not(have, a);
            return (f == UnaryOp::Not).then(|| self.mark_mask(v, have));
        }
        if ty.is_float() {
            return Some(match f {
                UnaryOp::Negate => {
                    let sign = self.sign_bit(size);
                    self.both(op::XOR[k], size, a, sign)
                }
                UnaryOp::Abs => {
                    let rest = self.unit.splat(size, (1 << (8 * size - 1)) - 1);
                    self.both(op::AND[k], size, a, rest)
                }
                UnaryOp::Sqrt => self.rm(op::SQRT[k], size, a, None),
                UnaryOp::RoundNearestEven => self.rm(op::ROUND[k], size, a, Some(8)),
                UnaryOp::Floor => self.rm(op::ROUND[k], size, a, Some(9)),
                UnaryOp::Ceil => self.rm(op::ROUND[k], size, a, Some(10)),
                UnaryOp::Sign => {
                    let (sign, one, zero) = (self.sign_bit(size), self.one(ty), self.unit.zero());
                    let signed = self.both(op::AND[k], size, a, sign);
                    let signed = self.both(op::OR[k], size, signed, one);
                    let some = self.rvmi(op::CMP[k], size, a, zero, NOT_EQUAL_ORDERED);
                    self.blend(size, some, signed, a)
                }
                UnaryOp::IsFinite => {
                    let rest = self.unit.splat(size, (1 << (8 * size - 1)) - 1);
                    let magnitude = self.both(op::AND[k], size, a, rest);
                    let infinity = if ty == Ty::F32 { f32::INFINITY.to_bits().into() } else { f64::INFINITY.to_bits() };
                    let infinity = self.unit.splat(size, infinity);
                    self.compare(Cmp::Lt, ty, magnitude, infinity)
                }
                _ => return None,
            });
        }
        let zero = self.unit.zero();
        Some(match f {
            UnaryOp::Popcnt => self.ones_of(size, a),
            UnaryOp::Negate => self.rvm(op::PSUB[i], size, zero, a),
            UnaryOp::Not => self.not(size, a),
            UnaryOp::Abs if ty.is_unsigned() => a,
            UnaryOp::Abs if size < 8 => self.rm(op::PABS[i], size, a, None),
            UnaryOp::Abs => {
                let negative = self.rvm(op::PCMPGT[3], size, zero, a);
                let flipped = self.both(op::PXOR, size, a, negative);
                self.rvm(op::PSUB[3], size, flipped, negative)
            }
            UnaryOp::Sign if ty.is_unsigned() => {
                let one = self.one(ty);
                let none = self.both(op::PCMPEQ[i], size, a, zero);
                self.rvm(op::PANDN, size, none, one)
            }
            UnaryOp::Sign if size < 8 => {
                let one = self.one(ty);
                self.rvm(op::PSIGN[i], size, one, a)
            }
            UnaryOp::Sign => {
                let negative = self.rvm(op::PCMPGT[3], size, zero, a);
                let positive = self.rvm(op::PCMPGT[3], size, a, zero);
                self.rvm(op::PSUB[3], size, negative, positive)
            }
            _ => return None,
        })
    }

    /// A function of two values; `None` if there are no instructions for it.
    pub fn binary(&mut self, f: BinaryOp, ty: Ty, a: V, b: V) -> Option<V> {
        let size = ty.size();
        if ty == Ty::Pred {
            let have = |v: V| usize::from(self.unit.masks[v as usize]);
            let size = if have(a) == 0 { have(b).max(1) } else { have(a) };
            let (a, b) = (self.mask(a, size), self.mask(b, size));
            let enc = match f {
                BinaryOp::Add | BinaryOp::Or | BinaryOp::Maximum => op::POR,
                BinaryOp::Multiply | BinaryOp::And | BinaryOp::Minimum => op::PAND,
                BinaryOp::Xor => op::PXOR,
                _ => return None,
            };
            let v = self.both(enc, size, a, b);
            return Some(self.mark_mask(v, size));
        }
        if ty.is_float() {
            let k = float_index(ty);
            return Some(match f {
                BinaryOp::Add => self.both(op::ADD[k], size, a, b),
                BinaryOp::Subtract => self.rvm(op::SUB[k], size, a, b),
                BinaryOp::Multiply => self.both(op::MUL[k], size, a, b),
                BinaryOp::Divide => self.rvm(op::DIV[k], size, a, b),
                BinaryOp::Maximum => self.extreme(true, ty, a, b),
                BinaryOp::Minimum => self.extreme(false, ty, a, b),
                _ => return None,
            });
        }
        self.integer(f, ty, a, b)
    }

    /// The larger or smaller of two floats, NaN if either is, with +0 above -0.
    fn extreme(&mut self, larger: bool, ty: Ty, a: V, b: V) -> V {
        let (size, k) = (ty.size(), float_index(ty));
        let pick = if larger { op::MAX[k] } else { op::MIN[k] };
        for (x, c) in [(a, b), (b, a)] {
            let Some(bits) = self.unit.constant(c) else { continue };
            let value = if ty == Ty::F32 { f64::from(f32::from_bits(bits as u32)) } else { f64::from_bits(bits) };
            let negative = value.is_sign_negative();
            // The instruction gives its second operand if one is NaN or both are zero.
            if value.is_nan() || (value == 0.0 && negative && !larger) {
                continue;
            }
            let picked = self.rvm(pick, size, c, x);
            if value == 0.0 && !negative && larger {
                let zero = self.unit.zero();
                return self.both(op::ADD[k], size, picked, zero);
            }
            return picked;
        }
        let (one, other) = (self.rvm(pick, size, a, b), self.rvm(pick, size, b, a));
        let join = if larger { op::AND[k] } else { op::OR[k] };
        let joined = self.both(join, size, one, other);
        let nan = self.rvmi(op::CMP[k], size, a, b, UNORDERED);
        self.both(op::OR[k], size, joined, nan)
    }

    /// Which lanes of `v` are NaN.
    pub fn is_nan(&mut self, ty: Ty, v: V) -> V {
        self.rvmi(op::CMP[float_index(ty)], ty.size(), v, v, UNORDERED)
    }

    /// The larger or smaller by the bare instruction: `b` if either is NaN.
    pub fn bare_extreme(&mut self, larger: bool, ty: Ty, a: V, b: V) -> V {
        let k = float_index(ty);
        self.rvm(if larger { op::MAX[k] } else { op::MIN[k] }, ty.size(), a, b)
    }

    fn integer(&mut self, f: BinaryOp, ty: Ty, a: V, b: V) -> Option<V> {
        let size = ty.size();
        let i = usize::from(log2(size));
        Some(match f {
            BinaryOp::Add => self.both(op::PADD[i], size, a, b),
            BinaryOp::Subtract => self.rvm(op::PSUB[i], size, a, b),
            BinaryOp::Multiply => self.product(size, a, b),
            BinaryOp::And => self.both(op::PAND, size, a, b),
            BinaryOp::Or => self.both(op::POR, size, a, b),
            BinaryOp::Xor => self.both(op::PXOR, size, a, b),
            BinaryOp::Maximum | BinaryOp::Minimum if size < 8 => {
                let table = match (f, ty.is_signed()) {
                    (BinaryOp::Maximum, true) => op::PMAXS,
                    (BinaryOp::Maximum, false) => op::PMAXU,
                    (_, true) => op::PMINS,
                    (_, false) => op::PMINU,
                };
                self.both(table[i], size, a, b)
            }
            BinaryOp::Maximum => {
                let greater = self.compare(Cmp::Gt, ty, a, b);
                self.blend(size, greater, a, b)
            }
            BinaryOp::Minimum => {
                let greater = self.compare(Cmp::Gt, ty, a, b);
                self.blend(size, greater, b, a)
            }
            BinaryOp::Mulhi if size == 4 => self.upper_product(ty, a, b),
            BinaryOp::Mulhi if ty == Ty::U64 => self.upper_wide_product(a, b),
            BinaryOp::Mulhi if size == 2 => {
                self.both(if ty.is_signed() { op::PMULHW } else { op::PMULHUW }, size, a, b)
            }
            BinaryOp::ShiftLeft | BinaryOp::ShiftRightLogical | BinaryOp::ShiftRightArithmetic if size < 4 => {
                self.narrow_shift(f, size, a, self.unit.constant(b)?)
            }
            BinaryOp::ShiftLeft | BinaryOp::ShiftRightLogical if size >= 4 && self.unit.constant(b).is_some() => {
                let by = self.places(size, b)?;
                self.shift(if f == BinaryOp::ShiftLeft { 6 } else { 2 }, size, a, by)
            }
            BinaryOp::ShiftRightArithmetic if size == 4 && self.unit.constant(b).is_some() => {
                let by = self.places(size, b)?;
                self.shift(4, size, a, by)
            }
            BinaryOp::ShiftLeft if size >= 4 => self.rvm(op::PSLLV[i - 2], size, a, b),
            BinaryOp::ShiftRightLogical if size >= 4 => self.rvm(op::PSRLV[i - 2], size, a, b),
            BinaryOp::ShiftRightArithmetic if size == 4 => self.rvm(op::PSRAVD, size, a, b),
            BinaryOp::ShiftRightArithmetic if size == 8 => {
                let zero = self.unit.zero();
                let negative = self.rvm(op::PCMPGT[3], size, zero, a);
                let by = self.unit.constant(b).map(|by| by.min(255) as u8);
                if by.is_some_and(|by| by >= 63) {
                    return Some(negative);
                }
                let flipped = self.both(op::PXOR, size, a, negative);
                let shifted = match by {
                    Some(by) => self.shift(2, size, flipped, by),
                    None => self.rvm(op::PSRLV[1], size, flipped, b),
                };
                self.both(op::PXOR, size, shifted, negative)
            }
            _ => return None,
        })
    }

    /// By how many places the constant `b` shifts: all there are, and more, are as good as 255.
    fn places(&self, size: usize, b: V) -> Option<u8> {
        let by = self.unit.constant(b)? & (u64::MAX >> (64 - 8 * size));
        Some(by.min(255) as u8)
    }

    fn product(&mut self, size: usize, a: V, b: V) -> V {
        match size {
            1 => {
                let (low, high) = (self.unit.splat(2, 0xFF), [a, b]);
                let even = self.both(op::PMULLW, 1, a, b);
                let even = self.both(op::PAND, 1, even, low);
                // Words of bytes: the odd ones are shifted down, multiplied, shifted back.
                let [x, y] = high.map(|v| self.shift_words(2, v, 8));
                let odd = self.both(op::PMULLW, 1, x, y);
                let odd = self.shift_words(6, odd, 8);
                self.both(op::POR, 1, even, odd)
            }
            2 => self.both(op::PMULLW, 2, a, b),
            4 => self.both(op::PMULLD, 4, a, b),
            _ => {
                let low = self.both(op::PMULUDQ, 8, a, b);
                let (upper_a, upper_b) = (self.shift(2, 8, a, 32), self.shift(2, 8, b, 32));
                let one = self.both(op::PMULUDQ, 8, upper_a, b);
                let other = self.both(op::PMULUDQ, 8, upper_b, a);
                let cross = self.both(op::PADD[3], 8, one, other);
                let cross = self.shift(6, 8, cross, 32);
                self.both(op::PADD[3], 8, low, cross)
            }
        }
    }

    /// The product of integers of 32 bits that are the same in all lanes, or its upper half: those of even lanes are enough, and come sooner.
    pub fn single_product(&mut self, half: Half, ty: Ty, a: V, b: V) -> V {
        let enc = if half == Half::Upper && ty.is_signed() { op::PMULDQ } else { op::PMULUDQ };
        let wide = self.both(enc, 4, a, b);
        self.rm(op::PSHUFD, 4, wide, Some(if half == Half::Upper { 0xF5 } else { 0xA0 }))
    }

    /// The upper halves of products of 32 bits: those of even and of odd lanes.
    fn upper_product(&mut self, ty: Ty, a: V, b: V) -> V {
        let enc = if ty.is_signed() { op::PMULDQ } else { op::PMULUDQ };
        let even = self.both(enc, 4, a, b);
        let even = self.shift_as(8, 2, 4, even, 32);
        // A constant is the same in all lanes.
        let [x, y] = [a, b].map(|v| if self.unit.constant(v).is_some() { v } else { self.shift_as(8, 2, 4, v, 32) });
        let odd = self.both(enc, 4, x, y);
        self.rvmi(op::BLENDPS, 4, even, odd, 0b1010_1010)
    }

    /// The upper halves of products of 64 bits without sign, from those of their halves.
    fn upper_wide_product(&mut self, a: V, b: V) -> V {
        let low = self.unit.splat(8, 0xFFFF_FFFF);
        let [upper_a, upper_b] = [a, b].map(|v| match self.unit.constant(v) {
            Some(bits) => self.unit.splat(8, bits >> 32),
            None => self.shift(2, 8, v, 32),
        });
        let product = |code: &mut Self, x: V, y: V| code.both(op::PMULUDQ, 8, x, y);
        let sum = |code: &mut Self, x: V, y: V| code.both(op::PADD[3], 8, x, y);
        let lowest = product(self, a, b);
        let lowest = self.shift(2, 8, lowest, 32);
        let (one, other) = (product(self, upper_a, b), product(self, a, upper_b));
        let one = sum(self, one, lowest);
        let carried = self.both(op::PAND, 8, one, low);
        let other = sum(self, other, carried);
        let top = product(self, upper_a, upper_b);
        let (one, other) = (self.shift(2, 8, one, 32), self.shift(2, 8, other, 32));
        let top = sum(self, top, one);
        sum(self, top, other)
    }

    /// Bits that are set: those of half bytes by a table, their sums by instructions that add neighbors.
    fn ones_of(&mut self, size: usize, a: V) -> V {
        let mut table = [0; 32];
        table.iter_mut().enumerate().for_each(|(i, ones)| *ones = (i as u8 & 15).count_ones() as u8);
        let (table, low) = (self.unit.bytes(table), self.unit.splat(1, 15));
        let lower = self.both(op::PAND, size, a, low);
        let upper = self.shift_as(2, 2, size, a, 4);
        let upper = self.both(op::PAND, size, upper, low);
        let (lower, upper) = (self.rvm(op::PSHUFB, size, table, lower), self.rvm(op::PSHUFB, size, table, upper));
        let bytes = self.both(op::PADD[0], size, lower, upper);
        let (ones, words) = (self.unit.splat(1, 1), self.unit.splat(2, 1));
        match size {
            1 => bytes,
            2 => self.rvm(op::PMADDUBSW, size, bytes, ones),
            4 => {
                let sums = self.rvm(op::PMADDUBSW, size, bytes, ones);
                self.rvm(op::PMADDWD, size, sums, words)
            }
            _ => {
                let zero = self.unit.zero();
                self.rvm(op::PSADBW, size, bytes, zero)
            }
        }
    }

    /// Numbers of 8 or 16 bits shifted by the low bits of `by`: bytes as words, of which others' bits are cleared.
    fn narrow_shift(&mut self, f: BinaryOp, size: usize, a: V, by: u64) -> V {
        let (bits, all) = (8 * size as u64, u64::MAX >> (64 - 8 * size));
        let by = by & all;
        let arithmetic = f == BinaryOp::ShiftRightArithmetic;
        if by >= bits && !arithmetic {
            return self.unit.zero();
        }
        let by = by.min(bits - 1) as u8;
        let extension = match f {
            BinaryOp::ShiftLeft => 6,
            BinaryOp::ShiftRightArithmetic if size == 2 => 4,
            _ => 2,
        };
        let moved = self.shift(extension, size, a, by);
        if size == 2 {
            return moved;
        }
        let own = self.unit.splat(1, if f == BinaryOp::ShiftLeft { all << by & all } else { all >> by });
        let moved = self.both(op::PAND, 1, moved, own);
        if !arithmetic {
            return moved;
        }
        let sign = self.unit.splat(1, 0x80 >> by);
        let flipped = self.both(op::PXOR, 1, moved, sign);
        self.rvm(op::PSUB[0], 1, flipped, sign)
    }

    /// Bytes shifted as words.
    fn shift_words(&mut self, extension: u8, v: V, by: u8) -> V {
        // The table has the opcode of words for bytes too.
        self.shift(extension, 1, v, by)
    }

    /// A comparison, as a mask with lanes of the operands' size.
    pub fn compare(&mut self, f: Cmp, ty: Ty, a: V, b: V) -> V {
        let size = ty.size();
        let i = usize::from(log2(size));
        if ty == Ty::Pred {
            return self.compare_masks(f, a, b);
        }
        let v = if ty.is_float() {
            let predicate = match f {
                Cmp::Eq => 0,
                Cmp::Ne => 4,
                Cmp::Lt => 0x11,
                Cmp::Le => 0x12,
                Cmp::Gt => 0x1E,
                Cmp::Ge => 0x1D,
            };
            self.rvmi(op::CMP[float_index(ty)], size, a, b, predicate)
        } else if matches!(f, Cmp::Eq | Cmp::Ne) {
            let equal = self.both(op::PCMPEQ[i], size, a, b);
            if f == Cmp::Eq { equal } else { self.not(size, equal) }
        } else if ty.is_unsigned() && size < 8 {
            // a >= b where a is the larger one of the two; the others by exchange and complement.
            let (x, y, flip) = match f {
                Cmp::Ge => (a, b, false),
                Cmp::Le => (b, a, false),
                Cmp::Lt => (a, b, true),
                _ => (b, a, true),
            };
            let larger = self.both(op::PMAXU[i], size, x, y);
            let v = self.both(op::PCMPEQ[i], size, larger, x);
            if flip { self.not(size, v) } else { v }
        } else {
            let (mut a, mut b) = (a, b);
            if ty.is_unsigned() {
                let sign = self.sign_bit(size);
                (a, b) = (self.both(op::PXOR, size, a, sign), self.both(op::PXOR, size, b, sign));
            }
            let (x, y, flip) = match f {
                Cmp::Gt => (a, b, false),
                Cmp::Lt => (b, a, false),
                Cmp::Le => (a, b, true),
                _ => (b, a, true),
            };
            let v = self.rvm(op::PCMPGT[i], size, x, y);
            if flip { self.not(size, v) } else { v }
        };
        self.mark_mask(v, size)
    }

    /// Masks as numbers 0 and 1.
    fn compare_masks(&mut self, f: Cmp, a: V, b: V) -> V {
        let have = |v: V| usize::from(self.unit.masks[v as usize]);
        let size = if have(a) == 0 { have(b).max(1) } else { have(a) };
        let (a, b) = (self.mask(a, size), self.mask(b, size));
        let v = match f {
            Cmp::Ne => self.both(op::PXOR, size, a, b),
            Cmp::Eq => {
                let v = self.both(op::PXOR, size, a, b);
                self.not(size, v)
            }
            Cmp::Lt => self.rvm(op::PANDN, size, a, b),
            Cmp::Gt => self.rvm(op::PANDN, size, b, a),
            Cmp::Ge => {
                let v = self.rvm(op::PANDN, size, a, b);
                self.not(size, v)
            }
            Cmp::Le => {
                let v = self.rvm(op::PANDN, size, b, a);
                self.not(size, v)
            }
        };
        self.mark_mask(v, size)
    }
}
