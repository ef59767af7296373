//! Functions where they are hard: sine, cosine and tangent of `f32` far from zero, by the angle in quarter circles, modulo a whole one, in
//! `f64` and all its digits; the remainder of a number by a much smaller one; and what is left to the reference.

use meshwork_eval::special;

use super::loops::{Loop, loop3, versions};
use crate::kernel::ir::{BinaryOp, Ty, UnaryOp};
use crate::kernel::math::{ERF_INV_NEAR, NEAR, times};

/// 1.5 · 2^52: adding it leaves a number rounded to an integer in the low bits.
pub(super) const MAGIC: f64 = 6_755_399_441_055_744.0;

/// 2/π in pieces of 24 bits: their products with an `f32` are exact.
const TWO_OVER_PI: [f64; 9] = [
    0.636_619_746_685_028_1,
    2.568_255_297_319_410_6e-8,
    2.937_095_214_933_759e-16,
    3.254_379_400_173_245_6e-23,
    1.208_961_370_882_853_7e-29,
    5.667_556_795_740_071e-37,
    2.620_403_111_209_721_5e-44,
    7.053_957_680_880_629e-52,
    1.582_624_282_116_559e-58,
];

/// `sin(f·π/2) / f` in f².
const SIN: [f64; 6] = [
    1.570_796_326_794_889_5,
    -0.645_964_097_504_23,
    0.079_692_626_153_026_62,
    -0.004_681_752_559_511_007,
    0.000_160_429_113_514_822_78,
    -3.556_135_974_692_506_6e-6,
];

/// `cos(f·π/2)` in f².
const COS: [f64; 6] = [
    0.999_999_999_999_933_6,
    -1.233_700_550_118_012_5,
    0.253_669_507_085_061_86,
    -0.020_863_467_231_710_266,
    0.000_919_158_199_851_541_7,
    -2.484_527_315_610_498e-5,
];

/// `c₀ + c₁ x + c₂ x² + ...`
#[inline(always)]
pub(super) fn poly<const N: usize>(x: f64, coefficients: &[f64; N]) -> f64 {
    let mut sum = coefficients[N - 1];
    for &c in coefficients[..N - 1].iter().rev() {
        sum = sum.mul_add(x, c);
    }
    sum
}

/// `x · 2/π = n + f` modulo 4: gives the bits of n, sin(f·π/2) and cos(f·π/2).
#[inline(always)]
fn quarters(x: f32) -> (u64, f64, f64) {
    let x = f64::from(x);
    let mut turns = 0.0;
    for &piece in TWO_OVER_PI.iter().rev() {
        let product = x * piece;
        // Whole turns of the circle are multiples of four; taking them away is exact.
        turns += product - 4.0 * (0.25 * product).round_ties_even();
    }
    let shifted = turns + MAGIC;
    let f = turns - (shifted - MAGIC);
    let square = f * f;
    (shifted.to_bits(), f * poly(square, &SIN), poly(square, &COS))
}

/// `value`, negated if `n` has the bit of two.
#[inline(always)]
fn turned(value: f64, n: u64) -> f32 {
    f64::from_bits(value.to_bits() ^ ((n & 2) << 62)) as f32
}

#[inline(always)]
fn sine(x: f32) -> f32 {
    let (n, sin, cos) = quarters(x);
    turned(if n & 1 == 0 { sin } else { cos }, n)
}

#[inline(always)]
fn cosine(x: f32) -> f32 {
    let (n, sin, cos) = quarters(x);
    turned(if n & 1 == 0 { cos } else { sin }, n.wrapping_add(1))
}

#[inline(always)]
fn tangent(x: f32) -> f32 {
    let (n, sin, cos) = quarters(x);
    (if n & 1 == 0 { sin / cos } else { cos / -sin }) as f32
}

/// `$far` of the first operand where that is beyond `$limit`, and the second where it is not.
macro_rules! far {
    ($t:ty, $limit:expr, |$x:ident| $far:expr) => {{
        #[inline(always)]
        unsafe fn body(dst: *mut u8, src: [*const u8; 3], n: usize) {
            // SAFETY: the caller gives `n` aligned elements at each pointer, the result apart from the operands.
            let (d, x, near) = unsafe {
                (
                    std::slice::from_raw_parts_mut(dst.cast::<$t>(), n),
                    std::slice::from_raw_parts(src[0].cast::<$t>(), n),
                    std::slice::from_raw_parts(src[1].cast::<$t>(), n),
                )
            };
            d.copy_from_slice(near);
            let is_far = |x: $t| x > $limit as $t;
            if x.iter().fold(false, |any, &x| any | is_far(x)) {
                for (d, &$x) in d.iter_mut().zip(x) {
                    if is_far($x) {
                        *d = $far;
                    }
                }
            }
        }
        versions!(body)
    }};
}

/// The loop of [`Op::Far`](crate::kernel::ir::Op::Far) for a function; `None` if it has none.
pub fn far(f: UnaryOp, ty: Ty) -> Option<Loop> {
    Some(match (f, ty) {
        (UnaryOp::Sine, Ty::F32) => far!(f32, NEAR, |x| sine(x)),
        (UnaryOp::Cosine, Ty::F32) => far!(f32, NEAR, |x| cosine(x)),
        (UnaryOp::Tan, Ty::F32) => far!(f32, NEAR, |x| tangent(x)),
        (UnaryOp::ErfInv, Ty::F64) => far!(f64, ERF_INV_NEAR, |x| special::erf_inv(x)),
        _ => return None,
    })
}

/// The loop of [`Op::FarApart`](crate::kernel::ir::Op::FarApart) for a function; `None` if it has none.
pub fn far_apart(f: BinaryOp, ty: Ty) -> Option<Loop> {
    macro_rules! remainder {
        ($t:ty, $ty:expr) => {
            loop3!($t, $t, $t => $t, |x, y, near| if x >= y * times($ty) as $t { x % y } else { near })
        };
    }
    macro_rules! unknown {
        ($t:ty, $f:path) => {
            loop3!($t, $t, $t => $t, |x, y, near| if near.is_nan() { $f(x.into(), y.into()) as $t } else { near })
        };
    }
    match (f, ty) {
        (BinaryOp::Zeta, Ty::F32) => Some(unknown!(f32, special::zeta)),
        (BinaryOp::Zeta, Ty::F64) => Some(unknown!(f64, special::zeta)),
        (BinaryOp::Polygamma, Ty::F32) => Some(unknown!(f32, special::polygamma)),
        (BinaryOp::Polygamma, Ty::F64) => Some(unknown!(f64, special::polygamma)),
        (BinaryOp::Remainder, Ty::F32) => Some(remainder!(f32, Ty::F32)),
        (BinaryOp::Remainder, Ty::F64) => Some(remainder!(f64, Ty::F64)),
        _ => None,
    }
}
