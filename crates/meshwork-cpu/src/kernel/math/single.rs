//! Functions of `f32` in `f32` arithmetic.

use super::super::build::Builder;
use super::super::ir::{BinaryOp, Cmp, Op, Ty, UnaryOp, Val};
use super::logarithm::Logarithm;
use super::{constant, copysign, exact_mul};

const F: Ty = Ty::F32;

/// 1.5 · 2^23: adding it leaves a number rounded to an integer in the low bits.
const MAGIC: f64 = 12_582_912.0;

/// `(e^r - 1 - r) / r²` for |r| up to ln 2.
const EXP: [f64; 7] = [
    0.5,
    0.166_666_716_337_203_98,
    0.041_666_619_479_656_22,
    0.008_332_628_756_761_551,
    0.001_389_042_590_744_793_4,
    0.000_200_957_685_592_584_3,
    2.478_115_493_431_687_4e-5,
];

/// `x = 2k·ln 2 + r`: gives `r` and `2^k`, for x from -176 (where `2^k` is zero) to about 170.
fn reduce(b: &mut Builder<'_>, x: Val) -> (Val, Val) {
    // Twice ln 2 in two parts: the first has few enough digits that its products with k are exact.
    let (high, low) = (1.386_291_503_906_25, 2.857_213_530_659_845_7e-6);
    let (scale, magic) = (b.num(F, 0.5 * std::f64::consts::LOG2_E), b.num(F, MAGIC + 127.0));
    let shifted = b.fma(x, scale, magic);
    // The low bits of the sum are k + 127, the exponent field of 2^k.
    let (bits, places) = (b.cast(Ty::I32, shifted), b.bits(Ty::I32, 23));
    let power = b.bin(BinaryOp::ShiftLeft, bits, places);
    let power = b.cast(F, power);
    let k = b.sub(shifted, magic);
    let (high, low) = (b.num(F, -high), b.num(F, -low));
    let r = b.fma(k, high, x);
    let r = b.fma(k, low, r);
    (r, power)
}

/// `e^r` for |r| up to ln 2.
fn exp_near(b: &mut Builder<'_>, r: Val) -> Val {
    let mut list = vec![1.0, 1.0];
    list.extend(EXP);
    b.poly(r, &list)
}

/// `e^x` for x below 89, where it does not overflow or is infinite, in two factors: since 4^k alone would overflow or vanish before the
/// product does. Smaller x than `least` count as that.
fn factors(b: &mut Builder<'_>, x: Val, least: f64) -> (Val, Val) {
    let least = b.num(F, least);
    let x = b.bin(BinaryOp::Maximum, x, least);
    let (r, power) = reduce(b, x);
    let e = exp_near(b, r);
    (b.mul(e, power), power)
}

/// `e^x` for x below 89.
fn exp_below(b: &mut Builder<'_>, x: Val) -> Val {
    // Far below all numbers, but the first factor is a normal number.
    let (e, power) = factors(b, x, -120.0);
    let limit = b.num(F, -87.336_54);
    let is_tiny = b.cmp(Cmp::Lt, x, limit);
    product(b, e, power, is_tiny)
}

/// `x · y`, both normal positive numbers, where the product is less than the least normal number if `is_tiny`. Processors take a hundred
/// cycles for a product that is no normal number: the least one is added, which makes the same rounding, and its bits taken away.
pub fn product(b: &mut Builder<'_>, x: Val, y: Val, is_tiny: Val) -> Val {
    let ty = b.ty(x);
    let (int, least) = if ty == F { (Ty::I32, f32::MIN_POSITIVE.into()) } else { (Ty::I64, f64::MIN_POSITIVE) };
    let (zero, least) = (b.num(ty, 0.0), b.num(ty, least));
    let more = b.select(is_tiny, least, zero);
    let sum = b.fma(x, y, more);
    let (sum, more) = (b.cast(int, sum), b.cast(int, more));
    let bits = b.sub(sum, more);
    b.cast(ty, bits)
}

/// `e^x`.
pub fn exp(b: &mut Builder<'_>, x: Val) -> Val {
    if is_never_positive(b, x) {
        return exp_below(b, x);
    }
    let most = b.num(F, 89.0);
    let x = b.bin(BinaryOp::Minimum, x, most);
    exp_below(b, x)
}

/// Whether `x` follows from a square or a size that it is never positive, unless it is NaN, as the exponents of densities are.
fn is_never_positive(b: &Builder<'_>, x: Val) -> bool {
    let is_negative = |v: Val| constant(b, v).is_some_and(|number| number < 0.0);
    let is_size = |v: Val| match b.ops[usize::from(v)] {
        Op::Binary(BinaryOp::Multiply, x, y) => x == y,
        Op::Unary(UnaryOp::Abs, _) => true,
        _ => false,
    };
    match b.ops[usize::from(x)] {
        Op::Unary(UnaryOp::Negate, v) => is_size(v),
        Op::Binary(BinaryOp::Multiply, v, c) => (is_negative(c) && is_size(v)) || (is_negative(v) && is_size(c)),
        Op::Binary(BinaryOp::Divide, v, c) => is_negative(c) && is_size(v),
        _ => false,
    }
}

/// `e^x / 2` for x from 0, infinite where that is not a number.
pub fn half_exp(b: &mut Builder<'_>, x: Val) -> Val {
    let (most, half) = (b.num(F, 90.0), b.num(F, 0.5));
    let x = b.bin(BinaryOp::Minimum, x, most);
    let (r, power) = reduce(b, x);
    let e = exp_near(b, r);
    let e = b.mul(e, half);
    let e = b.mul(e, power);
    b.mul(e, power)
}

/// `1 / power` for a power of two that is a normal number, as its inverse is.
fn inverse_power(b: &mut Builder<'_>, power: Val) -> Val {
    let (unit, bits) = (b.bits(Ty::I32, 2 * (127 << 23)), b.cast(Ty::I32, power));
    let bits = b.sub(unit, bits);
    b.cast(F, bits)
}

/// `e^x - 1 = 2^k (2^k (e^r - 1) + (2^k - 2^-k))`.
pub fn expm1(b: &mut Builder<'_>, x: Val) -> Val {
    let (least, most, zero) = (b.num(F, -20.0), b.num(F, 89.0), b.num(F, 0.0));
    let bounded = b.bin(BinaryOp::Maximum, x, least);
    let bounded = b.bin(BinaryOp::Minimum, bounded, most);
    let (r, power) = reduce(b, bounded);
    let (square, q) = (b.mul(r, r), b.poly(r, &EXP));
    let near = b.fma(square, q, r);
    let inverse = inverse_power(b, power);
    let rest = b.sub(power, inverse);
    let half = b.fma(power, near, rest);
    let result = b.mul(half, power);
    // Zero keeps its sign.
    let is_zero = b.cmp(Cmp::Eq, x, zero);
    b.select(is_zero, x, result)
}

/// 1 / (1 + e^-x), by way of the exponential of a negative number only.
pub fn logistic(b: &mut Builder<'_>, x: Val) -> Val {
    let (one, zero) = (b.num(F, 1.0), b.num(F, 0.0));
    let size = b.un(UnaryOp::Abs, x);
    let minus = b.un(UnaryOp::Negate, size);
    // Far below all numbers: there the power is zero, and no product is a subnormal number, which would be slow. Few are before.
    let (e, power) = factors(b, minus, -176.0);
    let e = b.mul(e, power);
    let below = b.cmp(Cmp::Lt, x, zero);
    let top = b.select(below, e, one);
    let bottom = b.add(one, e);
    b.div(top, bottom)
}

/// `(ln(1 + f) - f + f²/2) / f³` for f from √½ - 1 to √2 - 1.
const LOG: [f64; 9] = [
    0.333_333_134_651_184_1,
    -0.250_000_089_406_967_16,
    0.200_021_192_431_449_9,
    -0.166_679_963_469_505_3,
    0.142_195_522_785_186_77,
    -0.124_055_892_229_080_2,
    0.118_881_627_917_289_73,
    -0.116_756_513_714_790_34,
    0.067_466_385_662_555_7,
];

/// The bits of √½.
const ROOT_HALF: u64 = 0x3F35_04F3;

/// ln 2 in two parts, the first exact in products with exponents.
pub const LN2_HIGH: f64 = 0.693_145_751_953_125;
const LN2_LOW: f64 = 1.428_606_765_330_187e-6;

/// `ln(x + lost)` for positive normal x and much smaller `lost`; the exponent of x counts `more` above what its bits say.
fn log_normal(b: &mut Builder<'_>, x: Val, more: Option<Val>, lost: Option<Val>) -> Val {
    let (exponent, rest) = log_parts(b, x, more, lost);
    let high = b.num(F, LN2_HIGH);
    b.fma(exponent, high, rest)
}

/// The same as an exponent, by which [`LN2_HIGH`] is to be multiplied, and the rest.
pub fn log_parts(b: &mut Builder<'_>, x: Val, more: Option<Val>, lost: Option<Val>) -> (Val, Val) {
    let (root, mantissa) = (b.bits(Ty::I32, ROOT_HALF), b.bits(Ty::I32, 0x7F_FFFF));
    let (places, one) = (b.bits(Ty::I32, 23), b.num(F, 1.0));
    let bits = b.cast(Ty::I32, x);
    let above = b.sub(bits, root);
    let exponent = b.bin(BinaryOp::ShiftRightArithmetic, above, places);
    let exponent = b.convert(F, exponent);
    let exponent = more.map_or(exponent, |more| b.add(exponent, more));
    let fraction = b.bin(BinaryOp::And, above, mantissa);
    let fraction = b.add(fraction, root);
    let m = b.cast(F, fraction);
    let f = b.sub(m, one);
    let f = lost.map_or(f, |lost| {
        // By the inverse of the power of two that was taken away; twice that, since half of the largest power's is no normal number.
        let (half, two) = (b.num(F, 0.5), b.num(F, 2.0));
        let (power, two) = (b.sub(bits, fraction), b.cast(Ty::I32, two));
        let inverse = b.sub(two, power);
        let (inverse, lost) = (b.cast(F, inverse), b.mul(lost, half));
        b.fma(lost, inverse, f)
    });
    let square = b.mul(f, f);
    let p = b.poly(f, &LOG);
    let cube = b.mul(square, f);
    let (low, half) = (b.num(F, LN2_LOW), b.num(F, -0.5));
    let tail = b.mul(exponent, low);
    let tail = b.fma(cube, p, tail);
    let tail = b.fma(square, half, tail);
    (exponent, b.add(f, tail))
}

/// How logarithms of this type are taken.
pub const LOGARITHM: Logarithm = Logarithm { ty: F, least: f32::MIN_POSITIVE as f64, places: 25, normal: log_normal };

/// The hyperbolic tangent: with `e = (e^2x - 1) / 2`, it is `e / (e + 1)`.
pub fn tanh(b: &mut Builder<'_>, x: Val) -> Val {
    /// `((e^2h - 1) / 2 - h) / h²` for |h| up to a quarter of ln 2.
    const HALF: [f64; 5] = [
        0.999_999_940_395_355_2,
        0.666_661_679_744_720_5,
        0.333_337_634_801_864_6,
        0.133_866_578_340_530_4,
        0.044_424_030_929_803_85,
    ];
    let (most, one, half, minus) = (b.num(F, 10.0), b.num(F, 1.0), b.num(F, 0.5), b.num(F, -0.5));
    let size = b.un(UnaryOp::Abs, x);
    let size = b.bin(BinaryOp::Minimum, size, most);
    // 2x = k ln 2 + 2h. The error of k ln 2 does not count: the larger k, the less the exponential does.
    let (scale, magic) = (b.num(F, 2.0 * std::f64::consts::LOG2_E), b.num(F, MAGIC + 127.0));
    let shifted = b.fma(size, scale, magic);
    let (bits, places) = (b.cast(Ty::I32, shifted), b.bits(Ty::I32, 23));
    let power = b.bin(BinaryOp::ShiftLeft, bits, places);
    let power = b.cast(F, power);
    let (k, step) = (b.sub(shifted, magic), b.num(F, -0.5 * std::f64::consts::LN_2));
    let h = b.fma(k, step, size);
    let (square, p) = (b.mul(h, h), b.poly(h, &HALF));
    let near = b.fma(square, p, h);
    let rest = b.fma(power, half, minus);
    let e = b.fma(power, near, rest);
    let bottom = b.add(e, one);
    let size = b.div(e, bottom);
    copysign(b, size, x)
}

/// `erf(x)/x - 1` in x² below 1.
const ERF: [f64; 6] = [
    0.128_379_121_422_767_64,
    -0.376_123_249_530_792_24,
    0.112_801_805_138_587_95,
    -0.026_711_324_229_836_464,
    0.004_917_563_404_887_915,
    -0.000_563_146_546_483_039_9,
];

/// The error function.
pub fn erf(b: &mut Builder<'_>, x: Val) -> Val {
    /// `erfc(x)^(-1/8)` from 1 to 4.
    const LARGE: [f64; 7] = [
        1.008_131_623_268_127_4,
        0.103_685_900_568_962_1,
        0.161_005_482_077_598_57,
        -0.048_692_755_401_134_49,
        0.046_105_388_551_950_455,
        -0.012_364_717_200_398_445,
        0.002_241_274_109_110_236,
    ];
    let (one, most, minus) = (b.num(F, 1.0), b.num(F, 4.0), b.num(F, -1.0));
    let size = b.un(UnaryOp::Abs, x);
    let square = b.mul(x, x);
    let p = b.poly(square, &ERF);
    let near = b.fma(p, x, x);
    let bounded = b.bin(BinaryOp::Minimum, size, most);
    let mut power = b.poly(bounded, &LARGE);
    for _ in 0..3 {
        power = b.mul(power, power);
    }
    let part = b.div(minus, power);
    let far = b.add(one, part);
    let far = copysign(b, far, x);
    let is_far = b.cmp(Cmp::Ge, size, one);
    b.select(is_far, far, near)
}

/// The inverse of the error function: x times a polynomial in `w = -ln(1 - x²)`, or in its root where that is large.
pub fn erf_inv(b: &mut Builder<'_>, x: Val) -> Val {
    /// From w = 0 to 5, around 2.5.
    const CENTRAL: [f64; 10] = [
        1.501_409_411_430_358_9,
        0.246_640_279_889_106_75,
        -0.004_177_386_872_470_379,
        -0.001_252_741_902_135_312_6,
        0.000_218_344_444_874_674_08,
        -4.963_350_420_439_383e-6,
        -3.462_705_080_892_192e-6,
        4.661_712_580_400_49e-7,
        2.323_266_734_549_634e-8,
        -8.791_100_292_171_45e-9,
    ];
    /// In √w, around 3.
    const TAIL: [f64; 10] = [
        2.832_976_818_084_717,
        1.001_675_009_727_478,
        0.009_445_286_355_912_685,
        -0.007_637_288_887_053_728,
        0.005_686_972_755_938_768,
        -0.003_597_405_506_297_946,
        0.001_485_093_845_985_829_8,
        -5.677_722_219_843_417_4e-5,
        -0.000_309_574_155_835_434_8,
        0.000_115_704_766_358_248_89,
    ];
    let (one, limit, zero) = (b.num(F, 1.0), b.num(F, 5.0), b.num(F, 0.0));
    let (middle, centre) = (b.num(F, 2.5), b.num(F, 3.0));
    let (infinity, nan) = (b.num(F, f64::INFINITY), b.num(F, f64::NAN));
    let size = b.un(UnaryOp::Abs, x);
    let (less, more) = (b.sub(one, x), b.add(one, x));
    // At least 2^-24 where it counts, so a normal number.
    let inside = b.mul(less, more);
    let log = log_normal(b, inside, None, None);
    let w = b.sub(zero, log);
    let near = b.sub(w, middle);
    let near = b.poly(near, &CENTRAL);
    let root = b.un(UnaryOp::Sqrt, w);
    let far = b.sub(root, centre);
    let far = b.poly(far, &TAIL);
    let is_far = b.cmp(Cmp::Gt, w, limit);
    let p = b.select(is_far, far, near);
    let v = b.mul(p, x);
    let at_one = b.cmp(Cmp::Eq, size, one);
    let end = copysign(b, infinity, x);
    let v = b.select(at_one, end, v);
    let defined = b.cmp(Cmp::Le, size, one);
    b.select(defined, v, nan)
}

/// The complementary error function: `1 - erf(x)` near zero, else `e^(-x²)` times a polynomial in (x - 3)/(x + 3).
pub fn erfc(b: &mut Builder<'_>, x: Val) -> Val {
    /// `e^(x²) erfc(x)` from 0.7 to 10.5.
    const SCALED: [f64; 9] = [
        0.179_001_152_515_411_38,
        -0.326_233_565_807_342_53,
        0.245_603_650_808_334_35,
        -0.150_115_519_762_039_18,
        0.071_668_706_834_316_25,
        -0.024_398_330_599_069_595,
        0.004_249_616_060_405_97,
        0.000_735_364_621_505_141_3,
        -0.000_540_139_270_015_060_9,
    ];
    let (one, two, three, zero) = (b.num(F, 1.0), b.num(F, 2.0), b.num(F, 3.0), b.num(F, 0.0));
    let (most, limit) = (b.num(F, 10.5), b.num(F, 0.7));
    let size = b.un(UnaryOp::Abs, x);
    let bounded = b.bin(BinaryOp::Minimum, size, most);
    let (less, more) = (b.sub(bounded, three), b.add(bounded, three));
    let t = b.div(less, more);
    let p = b.poly(t, &SCALED);
    // What rounding the square lost counts: the exponential makes a part of the result of it.
    let (square, lost) = exact_mul(b, bounded, bounded);
    let minus = b.un(UnaryOp::Negate, square);
    let (r, power) = reduce(b, minus);
    let r = b.sub(r, lost);
    let e = exp_near(b, r);
    let v = b.mul(e, p);
    let v = b.mul(v, power);
    let v = b.mul(v, power);
    let other = b.sub(two, v);
    let negative = b.cmp(Cmp::Lt, x, zero);
    let far = b.select(negative, other, v);
    let square = b.mul(x, x);
    let q = b.poly(square, &ERF);
    let minus = b.un(UnaryOp::Negate, q);
    let rest = b.sub(one, x);
    let near = b.fma(minus, x, rest);
    let is_near = b.cmp(Cmp::Lt, size, limit);
    b.select(is_near, near, far)
}
