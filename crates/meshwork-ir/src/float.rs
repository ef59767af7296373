//! Bit patterns of every floating-point element type, to and from `f64`.
//!
//! Every format narrower than `f64` is a subset of it, so [`decode`] is exact. [`encode`] rounds to nearest, ties
//! to even. What a format has no pattern for follows MLIR:
//!
//! | format | infinity, overflow | NaN | zero |
//! |---|---|---|---|
//! | `f8E3M4`, `f8E4M3`, `f8E5M2`, `f16`, `bf16`, ... | infinity | quiet NaN | signed |
//! | `f8E4M3FN` | NaN | all ones | signed |
//! | `f8E4M3FNUZ`, `f8E4M3B11FNUZ`, `f8E5M2FNUZ` | NaN | sign bit alone | positive only |
//! | `f4E2M1FN`, `f6E2M3FN`, `f6E3M2FN` | largest finite | negative zero | signed |
//! | `f8E8M0FNU` | NaN, as are negative numbers | all ones | smallest power of two |

use crate::ElementType;

/// How a format spells what is not a finite number.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Special {
    /// The largest exponent is infinity (mantissa zero) or NaN.
    Ieee,
    /// All ones is NaN; no infinity.
    AllOnes,
    /// The pattern of negative zero is NaN; no infinity, no negative zero.
    NegativeZero,
    /// Finite numbers only.
    Finite,
}

#[derive(Clone, Copy)]
struct Format {
    exponent: u32,
    mantissa: u32,
    bias: i32,
    special: Special,
}

fn format(elem: ElementType) -> Option<Format> {
    use ElementType::*;
    let (exponent, mantissa, bias, special) = match elem {
        F4E2M1FN => (2, 1, 1, Special::Finite),
        F6E2M3FN => (2, 3, 1, Special::Finite),
        F6E3M2FN => (3, 2, 3, Special::Finite),
        F8E3M4 => (3, 4, 3, Special::Ieee),
        F8E4M3 => (4, 3, 7, Special::Ieee),
        F8E4M3FN => (4, 3, 7, Special::AllOnes),
        F8E4M3FNUZ => (4, 3, 8, Special::NegativeZero),
        F8E4M3B11FNUZ => (4, 3, 11, Special::NegativeZero),
        F8E5M2 => (5, 2, 15, Special::Ieee),
        F8E5M2FNUZ => (5, 2, 16, Special::NegativeZero),
        BF16 => (8, 7, 127, Special::Ieee),
        F16 => (5, 10, 15, Special::Ieee),
        TF32 => (8, 10, 127, Special::Ieee),
        F32 => (8, 23, 127, Special::Ieee),
        F64 => (11, 52, 1023, Special::Ieee),
        I1 | I2 | I4 | I8 | I16 | I32 | I64 | Index | UI2 | UI4 | UI8 | UI16 | UI32 | UI64 | F8E8M0FNU | C64 | C128 => {
            return None;
        }
    };
    Some(Format { exponent, mantissa, bias, special })
}

/// The bit pattern of `value` in `elem`; for a complex type that of its real part; zero for integers.
pub fn encode(elem: ElementType, value: f64) -> u64 {
    match elem.real_part() {
        ElementType::F64 => value.to_bits(),
        ElementType::F32 => u64::from((value as f32).to_bits()),
        ElementType::F8E8M0FNU => encode_power(value),
        other => format(other).map_or(0, |f| f.encode(value)),
    }
}

/// The number whose bit pattern in `elem` is `bits`; higher bits are ignored; zero for integers.
pub fn decode(elem: ElementType, bits: u64) -> f64 {
    match elem.real_part() {
        ElementType::F64 => f64::from_bits(bits),
        ElementType::F32 => f64::from(f32::from_bits(bits as u32)),
        ElementType::F8E8M0FNU => match bits & 0xFF {
            0xFF => f64::NAN,
            exponent => pow2(exponent as i32 - 127),
        },
        other => format(other).map_or(0.0, |f| f.decode(bits)),
    }
}

/// Bits of the mantissa of `elem`, and the bias of its exponent; `None` if its numbers are no such fields, with a sign before them.
pub fn fields(elem: ElementType) -> Option<(u32, i32)> {
    format(elem).map(|f| (f.mantissa, f.bias))
}

/// Element `bytes` of type `elem`, as stored in a [`Literal`](crate::Literal), as a number.
/// For a complex type this is the part that `bytes` starts with.
pub fn read(elem: ElementType, bytes: &[u8]) -> f64 {
    let mut wide = [0u8; 8];
    let size = elem.real_part().storage_bytes().min(bytes.len()).min(8);
    wide[..size].copy_from_slice(&bytes[..size]);
    decode(elem, u64::from_le_bytes(wide))
}

/// Appends `value` as stored in a [`Literal`](crate::Literal) of `elem` (one part of a complex number).
pub fn write(elem: ElementType, value: f64, out: &mut Vec<u8>) {
    let size = elem.real_part().storage_bytes();
    out.extend_from_slice(&encode(elem, value).to_le_bytes()[..size]);
}

/// The least number of `elem`: minus infinity, where it has one.
pub fn lowest(elem: ElementType) -> f64 {
    extreme(elem, f64::NEG_INFINITY, f64::min)
}

/// The greatest number of `elem`: infinity, where it has one.
pub fn highest(elem: ElementType) -> f64 {
    extreme(elem, f64::INFINITY, f64::max)
}

fn extreme(elem: ElementType, infinity: f64, of: fn(f64, f64) -> f64) -> f64 {
    let nearest = decode(elem, encode(elem, infinity));
    // Only small types have no infinity.
    let all = || (0..1u64 << elem.bits().min(8)).map(|bits| decode(elem, bits)).filter(|v| !v.is_nan());
    if nearest.is_nan() { all().reduce(of).unwrap_or(nearest) } else { nearest }
}

fn encode_power(value: f64) -> u64 {
    if value.is_nan() || value.is_infinite() || value < 0.0 {
        return 0xFF;
    }
    if value < pow2(-127) {
        return 0;
    }
    let bits = value.to_bits();
    let exponent = (bits >> 52) as i64 - 1023 + 127;
    let fraction = bits & ((1 << 52) - 1);
    // The mantissa has no bits, so a tie goes to the even exponent pattern.
    let half = 1u64 << 51;
    let up = fraction > half || (fraction == half && exponent & 1 == 1);
    (exponent + i64::from(up)).min(0xFF) as u64
}

impl Format {
    fn sign_bit(self) -> u64 {
        1 << (self.exponent + self.mantissa)
    }

    fn max_exponent(self) -> u64 {
        (1 << self.exponent) - 1
    }

    /// Pattern of the largest finite magnitude.
    fn largest(self) -> u64 {
        let all = (1u64 << (self.exponent + self.mantissa)) - 1;
        match self.special {
            Special::Ieee => (self.max_exponent() << self.mantissa) - 1,
            Special::AllOnes => all - 1,
            Special::NegativeZero | Special::Finite => all,
        }
    }

    fn nan(self, sign: u64) -> u64 {
        match self.special {
            Special::Ieee => sign | (self.max_exponent() << self.mantissa) | (1 << (self.mantissa - 1)),
            Special::AllOnes => sign | (self.sign_bit() - 1),
            Special::NegativeZero | Special::Finite => self.sign_bit(),
        }
    }

    fn overflow(self, sign: u64) -> u64 {
        match self.special {
            Special::Ieee => sign | (self.max_exponent() << self.mantissa),
            Special::AllOnes | Special::NegativeZero => self.nan(sign),
            Special::Finite => sign | self.largest(),
        }
    }

    fn encode(self, value: f64) -> u64 {
        let bits = value.to_bits();
        let sign = if bits >> 63 == 1 { self.sign_bit() } else { 0 };
        if value.is_nan() {
            return self.nan(sign);
        }
        if value.is_infinite() {
            return self.overflow(sign);
        }
        let magnitude = self.round(bits & !(1 << 63));
        match (magnitude, self.special) {
            (0, Special::NegativeZero) => 0,
            (m, _) if m > self.largest() => self.overflow(sign),
            (m, _) => sign | m,
        }
    }

    /// The pattern nearest to the positive finite number `bits`; beyond [`Format::largest`] on overflow.
    fn round(self, bits: u64) -> u64 {
        let exponent = (bits >> 52) as i32;
        let fraction = bits & ((1 << 52) - 1);
        // value = significand * 2^scale
        let (significand, scale) = match exponent {
            0 => (fraction, -1074),
            e => (fraction | (1 << 52), e - 1075),
        };
        if significand == 0 {
            return 0;
        }
        // The weight of the last mantissa bit: that of the number's binade, or of the subnormals.
        let top = 63 - significand.leading_zeros() as i32 + scale;
        let lowest = 1 - self.bias;
        let last = top.max(lowest) - self.mantissa as i32;
        let drop = last - scale;
        let kept = match drop {
            ..=0 => significand << (-drop),
            1..=63 => {
                let (kept, rest, half) = (significand >> drop, significand & ((1 << drop) - 1), 1u64 << (drop - 1));
                kept + u64::from(rest > half || (rest == half && kept & 1 == 1))
            }
            _ => 0,
        };
        // Adding the exponent field lets a carry out of the mantissa move to the next binade by itself.
        if top < lowest { kept } else { kept + (((top - lowest) as u64) << self.mantissa) }
    }

    fn decode(self, bits: u64) -> f64 {
        let negative = bits & self.sign_bit() != 0;
        let magnitude = bits & (self.sign_bit() - 1);
        let exponent = magnitude >> self.mantissa;
        let mantissa = magnitude & ((1 << self.mantissa) - 1);
        let special = match self.special {
            Special::Ieee => exponent == self.max_exponent(),
            Special::AllOnes => magnitude == self.sign_bit() - 1,
            Special::NegativeZero => negative && magnitude == 0,
            Special::Finite => false,
        };
        let value = if special && self.special == Special::Ieee && mantissa == 0 {
            f64::INFINITY
        } else if special && self.special == Special::NegativeZero {
            return f64::NAN;
        } else if special {
            f64::NAN
        } else if exponent == 0 {
            mantissa as f64 * pow2(1 - self.bias - self.mantissa as i32)
        } else {
            (mantissa | (1 << self.mantissa)) as f64 * pow2(exponent as i32 - self.bias - self.mantissa as i32)
        };
        if negative { -value } else { value }
    }
}

/// Two to the power of `exponent`, which is within the normal numbers.
fn pow2(exponent: i32) -> f64 {
    f64::from_bits(((exponent + 1023) as u64) << 52)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ElementType::*;

    const NARROW: &[ElementType] = &[
        F4E2M1FN,
        F6E2M3FN,
        F6E3M2FN,
        F8E3M4,
        F8E4M3,
        F8E4M3FN,
        F8E4M3FNUZ,
        F8E4M3B11FNUZ,
        F8E5M2,
        F8E5M2FNUZ,
        F8E8M0FNU,
        BF16,
        F16,
    ];

    #[test]
    fn every_pattern_survives() {
        for &elem in NARROW {
            for bits in 0..1u64 << elem.bits() {
                let value = decode(elem, bits);
                if !value.is_nan() {
                    assert_eq!(encode(elem, value), bits, "{elem} {bits:#x} {value}");
                }
            }
        }
    }

    #[test]
    fn halfway_goes_to_even() {
        for &elem in NARROW {
            let mut finite: Vec<(f64, u64)> = (0..1u64 << elem.bits())
                .map(|b| (decode(elem, b), b))
                .filter(|(v, b)| v.is_finite() && (*v != 0.0 || *b == 0))
                .collect();
            finite.sort_by(|a, b| a.0.total_cmp(&b.0));
            for pair in finite.windows(2) {
                let ((lo, lo_bits), (hi, _)) = (pair[0], pair[1]);
                let even = if lo_bits & 1 == 0 { lo } else { hi };
                assert_eq!(decode(elem, encode(elem, (lo + hi) / 2.0)), even, "{elem} between {lo} and {hi}");
                assert_eq!(decode(elem, encode(elem, lo + (hi - lo) * 0.25)), lo, "{elem} {lo}");
                assert_eq!(decode(elem, encode(elem, lo + (hi - lo) * 0.75)), hi, "{elem} {hi}");
            }
        }
    }

    #[test]
    fn agrees_with_half() {
        for bits in (0..u64::MAX).step_by(0x0003_1234_5678_9ABC) {
            let value = f64::from_bits(bits);
            if !value.is_nan() {
                assert_eq!(encode(F16, value), u64::from(half::f16::from_f64(value).to_bits()), "{value:e}");
                assert_eq!(encode(BF16, value), u64::from(half::bf16::from_f64(value).to_bits()), "{value:e}");
            }
        }
    }

    #[test]
    fn nan_keeps_its_sign() {
        for elem in [BF16, F16, F8E5M2, F8E4M3FN] {
            assert!(decode(elem, encode(elem, -f64::NAN)).is_sign_negative(), "{elem}");
            assert!(decode(elem, encode(elem, f64::NAN)).is_sign_positive(), "{elem}");
        }
    }

    #[test]
    fn what_does_not_fit() {
        assert_eq!(encode(F8E4M3FN, 448.0), 0x7E);
        assert_eq!(encode(F8E4M3FN, 465.0), 0x7F);
        assert_eq!(encode(F8E4M3FN, f64::INFINITY), 0x7F);
        assert_eq!(encode(F8E5M2, 1e9), 0x7C);
        assert_eq!(encode(F8E4M3FNUZ, f64::NAN), 0x80);
        assert_eq!(encode(F8E4M3FNUZ, -0.0), 0);
        assert_eq!(encode(F4E2M1FN, -100.0), 0xF);
        assert_eq!(encode(F8E8M0FNU, 0.0), 0);
        assert_eq!(encode(F8E8M0FNU, -1.0), 0xFF);
        assert_eq!(encode(F32, 1e300), u64::from(f32::INFINITY.to_bits()));
    }
}
