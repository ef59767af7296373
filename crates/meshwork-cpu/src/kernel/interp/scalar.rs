//! What each function does to one element, where Rust's own operators do not say it.

/// Floats as the interpreter computes with them.
pub trait Float: Copy + PartialOrd {
    /// The larger one; NaN if either is NaN; +0 is larger than -0.
    fn larger(self, other: Self) -> Self;
    /// The smaller one; NaN if either is NaN; -0 is smaller than +0.
    fn smaller(self, other: Self) -> Self;
    /// -1, 1, or the zero or NaN itself.
    fn sign(self) -> Self;
    /// A NaN as a quiet one.
    ///
    /// Folds keep it instead of the NaN itself. Where a vector of numbers is folded in place, a choice between what is there
    /// and something else would be compiled to a masked store of AVX, which takes some processors tens of cycles.
    fn quiet(self) -> Self;
    /// The number next to it on the way to `other`.
    fn next_to(self, other: Self) -> Self;
}

macro_rules! float {
    ($t:ty) => {
        impl Float for $t {
            #[inline(always)]
            fn larger(self, other: $t) -> $t {
                // Equal numbers differ at most in the sign of zero: positive if either is.
                let tie = <$t>::from_bits(self.to_bits() & other.to_bits());
                let pick = if self > other { self } else { other };
                let pick = if self == other { tie } else { pick };
                if self.is_nan() { self.quiet() } else { pick }
            }

            #[inline(always)]
            fn smaller(self, other: $t) -> $t {
                let tie = <$t>::from_bits(self.to_bits() | other.to_bits());
                let pick = if self < other { self } else { other };
                let pick = if self == other { tie } else { pick };
                if self.is_nan() { self.quiet() } else { pick }
            }

            #[inline(always)]
            fn sign(self) -> $t {
                let one = (1.0 as $t).copysign(self);
                if self.is_nan() || self == 0.0 { self } else { one }
            }

            #[inline(always)]
            fn quiet(self) -> $t {
                <$t>::from_bits(self.to_bits() | 1 << (<$t>::MANTISSA_DIGITS - 2))
            }

            fn next_to(self, other: $t) -> $t {
                match self.partial_cmp(&other) {
                    None => self + other,
                    Some(std::cmp::Ordering::Equal) => other,
                    Some(std::cmp::Ordering::Less) => self.next_up(),
                    Some(std::cmp::Ordering::Greater) => self.next_down(),
                }
            }
        }
    };
}

float!(f32);
float!(f64);

/// Integers as the interpreter computes with them: a quotient by zero has all bits set, a remainder by zero is the
/// dividend, and bits shifted past the end are gone.
pub trait Int: Copy {
    /// Quotient rounded toward zero.
    fn div(self, other: Self) -> Self;
    /// Remainder with the sign of the dividend.
    fn rem(self, other: Self) -> Self;
    /// Power by squaring; negative powers are zero except those of 1 and -1.
    fn pow(self, other: Self) -> Self;
    /// Shift left.
    fn shl(self, other: Self) -> Self;
    /// Shift right, filled with the top bit.
    fn shr_arith(self, other: Self) -> Self;
    /// Shift right, filled with zeros.
    fn shr_logic(self, other: Self) -> Self;
}

macro_rules! int {
    ($($t:ty, $signed:ty, $unsigned:ty);+) => { $(
        impl Int for $t {
            #[inline(always)]
            fn div(self, other: $t) -> $t {
                if other == 0 { !0 } else { self.wrapping_div(other) }
            }

            #[inline(always)]
            fn rem(self, other: $t) -> $t {
                if other == 0 { self } else { self.wrapping_rem(other) }
            }

            fn pow(self, other: $t) -> $t {
                #[allow(unused_comparisons)] // unsigned types have no negative powers
                if other < 0 {
                    return match self {
                        1 => 1,
                        _ if self == !0 => if other & 1 == 1 { self } else { 1 },
                        _ => 0,
                    };
                }
                let (mut result, mut base, mut power) = (1, self, other as $unsigned);
                while power != 0 {
                    if power & 1 == 1 {
                        result = base.wrapping_mul(result);
                    }
                    base = base.wrapping_mul(base);
                    power >>= 1;
                }
                result
            }

            #[inline(always)]
            fn shl(self, other: $t) -> $t {
                let (wide, n) = ((other as $unsigned) >= <$t>::BITS as $unsigned, other as u32);
                if wide { 0 } else { self.wrapping_shl(n) }
            }

            #[inline(always)]
            fn shr_arith(self, other: $t) -> $t {
                let n = (other as $unsigned).min(<$t>::BITS as $unsigned - 1) as u32;
                ((self as $signed) >> n) as $t
            }

            #[inline(always)]
            fn shr_logic(self, other: $t) -> $t {
                let (wide, n) = ((other as $unsigned) >= <$t>::BITS as $unsigned, other as u32);
                if wide { 0 } else { (self as $unsigned).wrapping_shr(n) as $t }
            }
        }
    )+ };
}

int!(i8, i8, u8; u8, i8, u8; i16, i16, u16; u16, i16, u16; i32, i32, u32; u32, i32, u32; i64, i64, u64; u64, i64, u64);

/// The number with these bits of `f16`.
#[inline(always)]
pub fn from_f16(bits: u16) -> f32 {
    // The fraction and exponent as those of an f32 that is 2^112 too small; the product is exact also for subnormals.
    let magnitude = u32::from(bits & 0x7FFF) << 13;
    let scaled = (f32::from_bits(magnitude) * f32::from_bits(0x7780_0000)).to_bits();
    let special = magnitude | 0x7F80_0000;
    let value = if magnitude >= 0x0F80_0000 { special } else { scaled };
    f32::from_bits(value | u32::from(bits & 0x8000) << 16)
}

/// The bits of `f16` nearest to `x`, ties to even.
#[inline(always)]
pub fn to_f16(x: f32) -> u16 {
    let bits = x.to_bits();
    let (sign, magnitude) = ((bits >> 16) as u16 & 0x8000, bits & 0x7FFF_FFFF);
    // Normal results: drop 13 bits after adding just under a half, or a half if the result would be odd.
    let odd = magnitude >> 13 & 1;
    let normal = magnitude.wrapping_sub(0x3800_0000).wrapping_add(0xFFF + odd) >> 13;
    // Subnormal results: adding 0.5 puts the last bit of an f16 subnormal at the last bit of the sum.
    let subnormal = (f32::from_bits(magnitude) + 0.5).to_bits().wrapping_sub(0x3F00_0000);
    let value = if magnitude < 0x3880_0000 { subnormal } else { normal };
    let value = if magnitude >= 0x477F_F000 { 0x7C00 } else { value };
    let value = if magnitude > 0x7F80_0000 { 0x7E00 } else { value };
    value as u16 | sign
}

/// The number with these bits of `bf16`.
#[inline(always)]
pub fn from_bf16(bits: u16) -> f32 {
    f32::from_bits(u32::from(bits) << 16)
}

/// The bits of `bf16` nearest to `x`, ties to even.
#[inline(always)]
pub fn to_bf16(x: f32) -> u16 {
    let bits = x.to_bits();
    let rounded = bits.wrapping_add(0x7FFF + (bits >> 16 & 1)) >> 16;
    let nan = bits >> 16 | 0x40;
    (if x.is_nan() { nan } else { rounded }) as u16
}

#[cfg(test)]
mod tests {
    use super::*;
    use meshwork_ir::{ElementType, float};

    #[test]
    fn half_floats_as_the_reference_has_them() {
        for bits in 0..=u16::MAX {
            for (elem, got) in [(ElementType::F16, from_f16(bits)), (ElementType::BF16, from_bf16(bits))] {
                let want = float::decode(elem, bits.into()) as f32;
                assert!(got.to_bits() == want.to_bits() || (got.is_nan() && want.is_nan()), "{elem} {bits:#x}");
            }
        }
        for i in 0..1_000_000u32 {
            // All exponents, and patterns at and beside the middles of both formats.
            let near = [0u32, 1, 0xFFF, 0x1000, 0x1001, 0x3000, 0x7FFF, 0x8000, 0x8001, 0x18000];
            let x = f32::from_bits(
                i.wrapping_mul(0x9E37_79B9) & if i & 1 == 0 { !0 } else { 0xFFFE_0000 } | near[i as usize % 10],
            );
            for (elem, got) in [(ElementType::F16, to_f16(x)), (ElementType::BF16, to_bf16(x))] {
                let want = float::encode(elem, x.into()) as u16;
                assert!(got == want || x.is_nan(), "{elem} {x:e} {got:#x} {want:#x}");
                assert_eq!(float::decode(elem, got.into()).is_nan(), x.is_nan(), "{x:e}");
            }
        }
    }
}
