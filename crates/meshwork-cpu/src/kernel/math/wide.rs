//! Functions of `f64` in `f64` arithmetic: exponentials and logarithms, by their series.

use super::super::build::Builder;
use super::super::ir::{BinaryOp, Cmp, Op, Ty, UnaryOp, Val};
use super::logarithm::Logarithm;
use super::single::product;
use super::{copysign, exact_mul};

const D: Ty = Ty::F64;

/// 1.5 · 2^52: adding it leaves a number rounded to an integer in the low bits.
const MAGIC: f64 = 6_755_399_441_055_744.0;

/// ln 2 in two parts: products of the first with integers below 2^20 are exact.
const LN2: (f64, f64) = (0.693_147_180_369_123_8, 1.908_214_929_270_587_7e-10);

/// `(e^r - 1 - r) / r²`: 1/(n+2)!.
const EXP: [f64; 12] = {
    let mut out = [0.0; 12];
    let (mut n, mut factorial) = (0, 1.0);
    while n < out.len() {
        factorial *= (n + 2) as f64;
        out[n] = 1.0 / factorial;
        n += 1;
    }
    out
};

/// `x = k·ln 2 + r` with |r| up to half of ln 2: gives `r` and two powers of two whose product is `2^k`.
pub fn reduce(b: &mut Builder<'_>, x: Val) -> (Val, Val, Val) {
    let (scale, magic, biased) = (b.num(D, std::f64::consts::LOG2_E), b.num(D, MAGIC), b.num(D, MAGIC + 1023.0));
    let (half, high, low) = (b.num(D, 0.5), b.num(D, -LN2.0), b.num(D, -LN2.1));
    let shifted = b.fma(x, scale, magic);
    let k = b.sub(shifted, magic);
    let r = b.fma(k, high, x);
    let r = b.fma(k, low, r);
    // Half of k and the rest of it, each as the exponent field of a power.
    let first = b.fma(k, half, biased);
    let halved = b.sub(first, biased);
    let second = b.sub(k, halved);
    let second = b.add(second, biased);
    let places = b.bits(Ty::I64, 52);
    let [first, second] = [first, second].map(|v| {
        let bits = b.cast(Ty::I64, v);
        let power = b.bin(BinaryOp::ShiftLeft, bits, places);
        b.cast(D, power)
    });
    (r, first, second)
}

/// `e^x` for x below 710, in two factors. Smaller x than `least` count as that.
fn factors(b: &mut Builder<'_>, x: Val, least: f64) -> (Val, Val) {
    let least = b.num(D, least);
    let x = b.bin(BinaryOp::Maximum, x, least);
    let (r, first, second) = reduce(b, x);
    let e = exp_near(b, r);
    (b.mul(e, first), second)
}

/// `e^r` for |r| up to half of ln 2.
pub fn exp_near(b: &mut Builder<'_>, r: Val) -> Val {
    let mut list = vec![1.0, 1.0];
    list.extend(EXP);
    b.poly(r, &list)
}

/// `e^x`.
pub fn exp(b: &mut Builder<'_>, x: Val) -> Val {
    let most = b.num(D, 710.0);
    let x = b.bin(BinaryOp::Minimum, x, most);
    // Far below all numbers, but the first factor is a normal number.
    let (e, power) = factors(b, x, -800.0);
    let limit = b.num(D, -708.396_418_532_264_1);
    let is_tiny = b.cmp(Cmp::Lt, x, limit);
    product(b, e, power, is_tiny)
}

/// `e^x / 2` for x from 0, infinite where that is not a number.
pub fn half_exp(b: &mut Builder<'_>, x: Val) -> Val {
    let (most, half) = (b.num(D, 711.0), b.num(D, 0.5));
    let x = b.bin(BinaryOp::Minimum, x, most);
    let (r, first, second) = reduce(b, x);
    let e = exp_near(b, r);
    let e = b.mul(e, half);
    let e = b.mul(e, first);
    b.mul(e, second)
}

/// `e^x - 1 = 2^j (2^i (e^r - 1) + (2^i - 2^-j))` where i + j = k.
pub fn expm1(b: &mut Builder<'_>, x: Val) -> Val {
    let (least, most, zero) = (b.num(D, -50.0), b.num(D, 710.0), b.num(D, 0.0));
    let bounded = b.bin(BinaryOp::Maximum, x, least);
    let bounded = b.bin(BinaryOp::Minimum, bounded, most);
    let (r, first, second) = reduce(b, bounded);
    let (square, q) = (b.mul(r, r), b.poly(r, &EXP));
    let near = b.fma(square, q, r);
    // The inverse of a power of two has the opposite exponent.
    let (unit, bits) = (b.bits(Ty::I64, 2 * (1023 << 52)), b.cast(Ty::I64, second));
    let inverse = b.sub(unit, bits);
    let inverse = b.cast(D, inverse);
    let rest = b.sub(first, inverse);
    let part = b.fma(first, near, rest);
    let result = b.mul(part, second);
    let is_zero = b.cmp(Cmp::Eq, x, zero);
    b.select(is_zero, x, result)
}

/// 1 / (1 + e^-x).
pub fn logistic(b: &mut Builder<'_>, x: Val) -> Val {
    let (one, zero) = (b.num(D, 1.0), b.num(D, 0.0));
    let size = b.un(UnaryOp::Abs, x);
    let minus = b.un(UnaryOp::Negate, size);
    // Far below all numbers: there both powers are zero, and no product is a subnormal number, which would be slow. Few are before.
    let (e, power) = factors(b, minus, -1418.1);
    let e = b.mul(e, power);
    let below = b.cmp(Cmp::Lt, x, zero);
    let top = b.select(below, e, one);
    let bottom = b.add(one, e);
    b.div(top, bottom)
}

/// The hyperbolic tangent: `t / (t + 2)` where `t = e^2x - 1`.
pub fn tanh(b: &mut Builder<'_>, x: Val) -> Val {
    let (most, two) = (b.num(D, 22.0), b.num(D, 2.0));
    let size = b.un(UnaryOp::Abs, x);
    let size = b.bin(BinaryOp::Minimum, size, most);
    let double = b.mul(size, two);
    let t = expm1(b, double);
    let more = b.add(t, two);
    let v = b.div(t, more);
    copysign(b, v, x)
}

/// `x = 2^k m` with m from √½ to √2, for positive normal x: gives k and the bits of m.
pub fn split(b: &mut Builder<'_>, x: Val) -> (Val, Val) {
    let i = Ty::I64;
    let (root, mantissa) = (b.bits(i, std::f64::consts::FRAC_1_SQRT_2.to_bits()), b.bits(i, (1 << 52) - 1));
    let (bias, places, digits) = (b.bits(i, 1023 << 52), b.bits(i, 52), b.bits(i, 0x4330 << 48));
    let bits = b.cast(i, x);
    let above = b.sub(bits, root);
    // The exponent plus 1023, put into the digits of 2^52.
    let exponent = b.add(above, bias);
    let exponent = b.bin(BinaryOp::ShiftRightLogical, exponent, places);
    let exponent = b.bin(BinaryOp::Or, exponent, digits);
    let exponent = b.cast(D, exponent);
    let excess = b.num(D, 4_503_599_627_370_496.0 + 1023.0);
    let exponent = b.sub(exponent, excess);
    let fraction = b.bin(BinaryOp::And, above, mantissa);
    (exponent, b.add(fraction, root))
}

/// 2/(2n+3): ln((1+s)/(1-s)) = 2s + s·z·(2/3 + 2/5 z + ...) with z = s².
const SERIES: [f64; 10] = {
    let mut out = [0.0; 10];
    let mut n = 0;
    while n < out.len() {
        out[n] = 2.0 / (2 * n + 3) as f64;
        n += 1;
    }
    out
};

/// `ln(x + lost)` for positive normal x and much smaller `lost`; the exponent of x counts `more` above what its bits say.
fn log_normal(b: &mut Builder<'_>, x: Val, more: Option<Val>, lost: Option<Val>) -> Val {
    let high = b.num(D, LN2.0);
    let (exponent, f, tail) = log_parts(b, x, more, lost);
    let near = b.sub(f, tail);
    b.fma(exponent, high, near)
}

/// The same as an exponent, by which the high part of [`LN2`] is to be multiplied, and two parts whose difference is the rest; the
/// second is the smaller.
fn log_parts(b: &mut Builder<'_>, x: Val, more: Option<Val>, lost: Option<Val>) -> (Val, Val, Val) {
    let i = Ty::I64;
    let (one, two, half) = (b.num(D, 1.0), b.num(D, 2.0), b.num(D, 0.5));
    let bits = b.cast(i, x);
    let (exponent, fraction) = split(b, x);
    let exponent = more.map_or(exponent, |more| b.add(exponent, more));
    let m = b.cast(D, fraction);
    let f = b.sub(m, one);
    let f = lost.map_or(f, |lost| {
        // By the inverse of the power of two that was taken away; twice that, since half of the largest power's is no normal number.
        let (power, twice) = (b.sub(bits, fraction), b.cast(i, two));
        let inverse = b.sub(twice, power);
        let (inverse, lost) = (b.cast(D, inverse), b.mul(lost, half));
        b.fma(lost, inverse, f)
    });
    let bottom = b.add(f, two);
    let s = b.div(f, bottom);
    let z = b.mul(s, s);
    let p = b.poly(z, &SERIES);
    let r = b.mul(z, p);
    // ln(1+f) = f - (f²/2 - s (f²/2 + r)), which loses nothing to cancellation.
    let square = b.mul(f, f);
    let halved = b.mul(square, half);
    let sum = b.add(halved, r);
    let low = b.num(D, LN2.1);
    let tail = b.mul(exponent, low);
    let tail = b.fma(s, sum, tail);
    (exponent, f, b.sub(halved, tail))
}

/// How logarithms of this type are taken.
pub const LOGARITHM: Logarithm = Logarithm { ty: D, least: f64::MIN_POSITIVE, places: 54, normal: log_normal };

/// `x^y` for positive normal x and finite y, by way of a logarithm in two parts.
pub fn power(b: &mut Builder<'_>, x: Val, y: Val) -> Val {
    let (one, two) = (b.num(D, 1.0), b.num(D, 2.0));
    let (exponent, fraction) = split(b, x);
    let m = b.cast(D, fraction);
    // s = (m - 1) / (m + 1), and what rounding it lost: the numerator is exact, the denominator less what its own rounding lost.
    let (top, bottom) = (b.sub(m, one), b.add(m, one));
    let less = b.sub(bottom, one);
    let bottom_lost = b.sub(m, less);
    let inverse = b.div(one, bottom);
    let s = b.mul(top, inverse);
    let minus = b.un(UnaryOp::Negate, s);
    let rest = b.fma(minus, bottom, top);
    let rest = b.fma(minus, bottom_lost, rest);
    let lost = b.mul(rest, inverse);
    let z = b.mul(s, s);
    let p = b.poly(z, &SERIES[..9]);
    let cube = b.mul(s, z);
    // k ln 2 + 2s + s³ (2/3 + ...), larger first.
    let (high, low) = (b.num(D, LN2.0), b.num(D, LN2.1));
    let whole = b.mul(exponent, high);
    let twice = b.add(s, s);
    let sum = b.add(whole, twice);
    let kept = b.sub(sum, whole);
    let tail = b.sub(twice, kept);
    let tail = b.fma(lost, two, tail);
    let tail = b.fma(exponent, low, tail);
    let tail = b.fma(cube, p, tail);
    let log = b.add(sum, tail);
    let kept = b.sub(log, sum);
    let log_lost = b.sub(tail, kept);
    let (t, t_lost) = exact_mul(b, log, y);
    let t_lost = b.fma(log_lost, y, t_lost);
    // Far below all numbers.
    let (least, most) = (b.num(D, -800.0), b.num(D, 710.0));
    let t = b.bin(BinaryOp::Maximum, t, least);
    let t = b.bin(BinaryOp::Minimum, t, most);
    let (r, first, second) = reduce(b, t);
    let r = b.add(r, t_lost);
    let e = exp_near(b, r);
    let e = b.mul(e, first);
    b.mul(e, second)
}

/// Up to where [`ERF_INV`] is right.
pub const ERF_INV_NEAR: f64 = 0.999;

/// `erf_inv(x) / x` where x is zero: half the root of π.
const ERF_INV_SLOPE: f64 = 0.886_226_925_452_758;

/// What [`ERF_INV_SLOPE`] lacks.
const ERF_INV_SLOPE_REST: f64 = -3.833_293_249_912_899_4e-17;

/// What the first of [`ERF_INV`] lacks.
const ERF_INV_FIRST_REST: f64 = -1.092_350_819e-17;

/// `(erf_inv(x) / x - ERF_INV_SLOPE) / w` in `w - 3.125`, for `w = -ln(1 - x²)` up to 6.215.
const ERF_INV: [f64; 24] = [
    0.245_576_843_913_710_32,
    -0.001_733_971_676_199_034_6,
    -0.001_375_903_742_473_026_4,
    0.000_203_264_386_661_935_82,
    -5.289_657_164_881_093e-06,
    -2.749_717_193_447_751_5e-06,
    4.429_593_644_981_666_6e-07,
    -6.233_775_078_378_47e-09,
    -7.307_716_090_449_136e-09,
    1.022_417_686_536_286_6e-09,
    9.217_193_144_482_747e-12,
    -2.027_522_084_010_557e-11,
    2.335_081_953_873_120_2e-12,
    9.452_848_645_853_567e-14,
    -5.613_433_182_554_896e-14,
    5.159_025_431_881_599_5e-15,
    4.447_765_879_367_162e-16,
    -1.552_187_975_246_009_3e-16,
    9.642_010_222_348_402e-18,
    1.898_339_207_643_152e-18,
    -3.498_899_890_230_432e-19,
    -2.254_544_783_954_033_3e-23,
    3.958_665_403_863_444_6e-21,
    -2.297_475_022_347_336_6e-22,
];

/// The inverse of the error function. Beyond [`ERF_INV_NEAR`] other polynomials would be needed, for one number of a thousand.
pub fn erf_inv(b: &mut Builder<'_>, x: Val) -> Val {
    let (one, middle, slope) = (b.num(D, 1.0), b.num(D, 3.125), b.num(D, ERF_INV_SLOPE));
    let size = b.un(UnaryOp::Abs, x);
    // 1 - x² and what rounding takes from it; a positive normal number where it counts, NaN stays one in the products below.
    let (square, square_lost) = exact_mul(b, size, size);
    let rest = b.sub(one, square);
    let back = b.sub(one, rest);
    let rest_lost = b.sub(back, square);
    let rest_lost = b.sub(rest_lost, square_lost);
    // The logarithm, -w, likewise.
    let (exponent, f, tail) = log_parts(b, rest, None, Some(rest_lost));
    let (near, high) = (b.sub(f, tail), b.num(D, LN2.0));
    let log = b.fma(exponent, high, near);
    let w = b.un(UnaryOp::Negate, log);
    let (back, near_back) = (b.fma(exponent, high, w), b.sub(f, near));
    let (back, near_lost) = (b.add(back, near), b.sub(near_back, tail));
    let log_lost = b.add(back, near_lost);
    let centered = b.sub(w, middle);
    let q = b.poly(centered, &ERF_INV[1..]);
    let first = b.num(D, ERF_INV[0]);
    let p = b.fma(centered, q, first);
    let back = b.sub(first, p);
    let first_rest = b.num(D, ERF_INV_FIRST_REST);
    let p_lost = b.fma(centered, q, back);
    let p_lost = b.add(p_lost, first_rest);
    let (product, lost) = exact_mul(b, w, p);
    let lost = b.fma(w, p_lost, lost);
    let minus = b.un(UnaryOp::Negate, log_lost);
    let lost = b.fma(minus, p, lost);
    // The slope and the product, of which either may be the larger.
    let ratio = b.add(slope, product);
    let added = b.sub(ratio, slope);
    let (kept, product_lost) = (b.sub(ratio, added), b.sub(product, added));
    let slope_lost = b.sub(slope, kept);
    let slope_rest = b.num(D, ERF_INV_SLOPE_REST);
    let (lost, more) = (b.add(lost, slope_rest), b.add(slope_lost, product_lost));
    let lost = b.add(lost, more);
    let lost = b.mul(lost, size);
    let near = b.fma(ratio, size, lost);
    let v = b.push(Op::Far(UnaryOp::ErfInv, size, near));
    copysign(b, v, x)
}
