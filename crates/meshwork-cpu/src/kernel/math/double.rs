//! Functions of `f32` computed in `f64`, where range reduction or the range of results is hard in `f32`.
//!
//! Intermediate results have 30 bits or more, so the only rounding that counts is the last one, and results below the
//! normal numbers come out right by themselves.

use super::super::build::Builder;
use super::super::ir::{BinaryOp, Cmp, Ty, UnaryOp, Val};
use super::copysign;
use super::wide::split;

const D: Ty = Ty::F64;

/// 1.5 · 2^52: adding it leaves a number rounded to an integer in the low bits.
const MAGIC: f64 = 6_755_399_441_055_744.0;

/// `2^t`, zero or infinite as f32 where |t| is large.
fn exp2(b: &mut Builder<'_>, t: Val) -> Val {
    const EXP2: [f64; 9] = [
        0.999_999_999_999_759_9,
        0.693_147_180_546_407_3,
        0.240_226_506_989_038_83,
        0.055_504_109_397_786_03,
        0.009_618_128_539_573_848,
        0.001_333_345_163_757_181_5,
        0.000_154_038_529_464_852_53,
        1.530_985_161_169_714_5e-5,
        1.317_580_046_972_894e-6,
    ];
    let (least, most) = (b.num(D, -1000.0), b.num(D, 1000.0));
    let t = b.bin(BinaryOp::Maximum, t, least);
    let t = b.bin(BinaryOp::Minimum, t, most);
    let magic = b.num(D, MAGIC);
    let shifted = b.add(t, magic);
    let n = b.sub(shifted, magic);
    let f = b.sub(t, n);
    let p = b.poly(f, &EXP2);
    let (bits, places) = (b.cast(Ty::I64, shifted), b.bits(Ty::I64, 52));
    let power = b.bin(BinaryOp::ShiftLeft, bits, places);
    let p = b.cast(Ty::I64, p);
    let p = b.add(p, power);
    b.cast(D, p)
}

/// `log2 x` for positive finite x.
fn log2(b: &mut Builder<'_>, x: Val) -> Val {
    /// `log2((1 + s)/(1 - s)) / s` in s².
    const LOG2: [f64; 6] = [
        2.885_390_081_777_849_5,
        0.961_796_694_115_307,
        0.577_077_941_707_024,
        0.412_209_324_437_857_85,
        0.319_902_562_318_469_86,
        0.282_947_131_796_096_2,
    ];
    let (exponent, fraction) = split(b, x);
    let m = b.cast(D, fraction);
    let one = b.num(D, 1.0);
    let (less, more) = (b.sub(m, one), b.add(m, one));
    let s = b.div(less, more);
    let square = b.mul(s, s);
    let p = b.poly(square, &LOG2);
    b.fma(s, p, exponent)
}

/// `x^y` for positive finite x, an `f64` of some 30 bits where `f32` has it, else zero or infinite there.
pub fn power(b: &mut Builder<'_>, x: Val, y: Val) -> Val {
    let log = log2(b, x);
    let t = b.mul(log, y);
    exp2(b, t)
}

/// The cube root, as a third of the logarithm.
pub fn cbrt(b: &mut Builder<'_>, x: Val) -> Val {
    let (zero, infinity) = (b.num(Ty::F32, 0.0), b.num(Ty::F32, f64::INFINITY));
    let size = b.un(UnaryOp::Abs, x);
    let wide = b.convert(D, size);
    let third = b.num(D, 1.0 / 3.0);
    let log = log2(b, wide);
    let t = b.mul(log, third);
    let root = exp2(b, t);
    let root = b.convert(Ty::F32, root);
    let root = copysign(b, root, x);
    // Zeros, infinities and NaN are their own roots.
    let finite = b.cmp(Cmp::Lt, size, infinity);
    let root = b.select(finite, root, x);
    let is_zero = b.cmp(Cmp::Eq, size, zero);
    b.select(is_zero, x, root)
}

/// `x` to the power of `y`, with the special cases of C.
pub fn pow(b: &mut Builder<'_>, x: Val, y: Val) -> Val {
    let f = Ty::F32;
    let (zero, one, infinity, nan) = (b.num(f, 0.0), b.num(f, 1.0), b.num(f, f64::INFINITY), b.num(f, f64::NAN));
    let (half, two, least) = (b.num(f, 0.5), b.num(f, 2.0), b.num(f, f64::NEG_INFINITY));
    let size = b.un(UnaryOp::Abs, x);
    let (wide_x, wide_y) = (b.convert(D, size), b.convert(D, y));
    let r = power(b, wide_x, wide_y);
    let r = b.convert(f, r);
    let down = b.cmp(Cmp::Lt, y, zero);
    // Powers of zero, infinity and one.
    let at_zero = b.select(down, infinity, zero);
    let at_infinity = b.select(down, zero, infinity);
    let is_zero = b.cmp(Cmp::Eq, size, zero);
    let r = b.select(is_zero, at_zero, r);
    let is_infinite = b.cmp(Cmp::Eq, size, infinity);
    let r = b.select(is_infinite, at_infinity, r);
    let is_one = b.cmp(Cmp::Eq, size, one);
    let r = b.select(is_one, one, r);
    // Negative bases: the sign of odd powers, no fractional powers.
    let whole = b.un(UnaryOp::Floor, y);
    let is_whole = b.cmp(Cmp::Eq, whole, y);
    let halved = b.mul(y, half);
    let halved = b.un(UnaryOp::Floor, halved);
    let even = b.mul(halved, two);
    let uneven = b.cmp(Cmp::Ne, even, y);
    let odd = b.bin(BinaryOp::And, is_whole, uneven);
    let (bits, none) = (b.cast(Ty::I32, x), b.bits(Ty::I32, 0));
    let negative = b.cmp(Cmp::Lt, bits, none);
    let flip = b.bin(BinaryOp::And, negative, odd);
    let minus = b.un(UnaryOp::Negate, r);
    let r = b.select(flip, minus, r);
    let below = b.cmp(Cmp::Lt, x, zero);
    let finite = b.cmp(Cmp::Gt, x, least);
    let broken = b.un(UnaryOp::Not, is_whole);
    let broken = b.bin(BinaryOp::And, broken, below);
    let broken = b.bin(BinaryOp::And, broken, finite);
    let r = b.select(broken, nan, r);
    let sum = b.add(x, y);
    let unordered = b.cmp(Cmp::Ne, x, x);
    let unordered_y = b.cmp(Cmp::Ne, y, y);
    let unordered = b.bin(BinaryOp::Or, unordered, unordered_y);
    let r = b.select(unordered, sum, r);
    // Whatever the other one is.
    let base_one = b.cmp(Cmp::Eq, x, one);
    let power_zero = b.cmp(Cmp::Eq, y, zero);
    let trivial = b.bin(BinaryOp::Or, base_one, power_zero);
    b.select(trivial, one, r)
}

/// The angle of the point (x, y), of either float type.
pub fn atan2(b: &mut Builder<'_>, y: Val, x: Val) -> Val {
    /// `atan(z)/z` in z² up to 1.
    const ATAN: [f64; 11] = [
        0.999_999_999_628_667_7,
        -0.333_333_239_384_735_8,
        0.199_996_047_060_252_42,
        -0.142_791_603_281_350_27,
        0.110_545_050_706_021_19,
        -0.087_987_850_465_700_73,
        0.067_161_351_296_773_99,
        -0.044_357_865_254_012_27,
        0.022_274_657_821_047_216,
        -0.007_199_522_185_586_006_5,
        0.001_091_137_748_081_25,
    ];
    /// The same to the digits of `f64`.
    const ATAN_WIDE: [f64; 21] = [
        1.0,
        -0.333_333_333_333_328_6,
        0.199_999_999_999_299_46,
        -0.142_857_142_815_926_93,
        0.111_111_109_820_871_26,
        -0.090_909_066_056_568_98,
        0.076_922_755_552_056_3,
        -0.066_663_711_877_210_98,
        0.058_803_420_024_015_43,
        -0.052_527_255_573_225_747,
        0.047_197_239_923_211_12,
        -0.042_125_723_963_855_326,
        0.036_510_813_527_210_35,
        -0.029_700_717_736_234_23,
        0.021_740_213_830_758_134,
        -0.013_674_139_288_399_478,
        0.007_038_646_202_989_813,
        -0.002_804_765_553_170_131_5,
        0.000_803_360_418_162_602_7,
        -0.000_146_170_881_636_250_13,
        1.263_117_843_047_742_6e-5,
    ];
    let ty = b.ty(x);
    let (wide_y, wide_x) = (b.convert(D, y), b.convert(D, x));
    let (zero, one, infinity) = (b.num(D, 0.0), b.num(D, 1.0), b.num(D, f64::INFINITY));
    let (quarter, half) = (b.num(D, std::f64::consts::FRAC_PI_2), b.num(D, std::f64::consts::PI));
    let (up, along) = (b.un(UnaryOp::Abs, wide_y), b.un(UnaryOp::Abs, wide_x));
    let (larger, smaller) = (b.bin(BinaryOp::Maximum, up, along), b.bin(BinaryOp::Minimum, up, along));
    let z = b.div(smaller, larger);
    let origin = b.cmp(Cmp::Eq, larger, zero);
    let z = b.select(origin, zero, z);
    let corner = b.cmp(Cmp::Eq, smaller, infinity);
    let z = b.select(corner, one, z);
    let square = b.mul(z, z);
    let p = if ty == D { b.poly(square, &ATAN_WIDE) } else { b.poly(square, &ATAN) };
    let angle = b.mul(p, z);
    let other = b.sub(quarter, angle);
    let steep = b.cmp(Cmp::Gt, up, along);
    let angle = b.select(steep, other, angle);
    let back = b.sub(half, angle);
    let (bits, none) = (b.cast(Ty::I64, wide_x), b.bits(Ty::I64, 0));
    let left = b.cmp(Cmp::Lt, bits, none);
    let angle = b.select(left, back, angle);
    let angle = copysign(b, angle, wide_y);
    b.convert(ty, angle)
}
