//! The logarithm of the gamma function and its derivative, of `f32`.
//!
//! Both are functions of `y = |x|`, in three stretches:
//!
//! ```text
//! below 1     from [1, 2) by Γ(y) = Γ(1 + y) / y
//! 1 to 3      zeros taken out, times a polynomial in y - 2
//! from 3 on   Stirling's series, as a polynomial in 1/y
//! ```
//!
//! Negative numbers are reflected: `Γ(-y) Γ(1 + y) = -π / sin(πy)`.

use super::super::build::Builder;
use super::super::ir::{BinaryOp, Cmp, Ty, UnaryOp, Val};
use super::single::{LN2_HIGH, LOGARITHM, log_parts};

const F: Ty = Ty::F32;

/// `ln Γ(2 + g) / (g (g + 1))` for |g| up to 1.
const NEAR: [f64; 13] = [
    0.422_784_328_460_693_36,
    -0.100_317_269_563_674_93,
    0.032_964_944_839_477_54,
    -0.012_384_977_191_686_63,
    0.004_999_483_935_534_954,
    -0.002_102_049_998_939_037_3,
    0.000_910_490_576_643_496_8,
    -0.000_425_598_002_038_896_1,
    0.000_195_831_657_038_070_26,
    -5.239_265_374_257_229e-5,
    2.021_947_511_821_054e-5,
    -3.874_399_408_232_421e-5,
    1.931_907_718_244_474_4e-5,
];

/// `ln Γ(y) - (y - ½)(ln y - 1)` in 1/y from 0 to ⅓.
const STIRLING: [f64; 5] = [
    0.418_938_636_779_785_16,
    0.083_329_834_043_979_64,
    4.239_669_215_166_941e-5,
    -0.003_018_626_244_738_698,
    0.000_672_439_229_674_637_3,
];

/// `ψ(2 + g) / (2 + g - root)` for |g| up to 1.
const SLOPE: [f64; 13] = [
    0.785_307_526_588_439_9,
    -0.260_738_611_221_313_5,
    0.108_999_408_781_528_47,
    -0.049_560_435_116_291_046,
    0.023_455_947_637_557_983,
    -0.011_265_607_550_740_242,
    0.005_499_041_639_268_398,
    -0.002_977_199_619_635_939_6,
    0.001_509_345_136_582_851_4,
    -0.000_310_869_974_782_690_4,
    0.000_125_448_554_172_180_6,
    -0.000_414_142_064_983_025_2,
    0.000_216_495_929_635_129_87,
];

/// `(ψ(y) - ln y + 1/2y) y²` in 1/y² from 0 to 1/9.
const SLOPE_FAR: [f64; 4] =
    [-0.083_333_276_212_215_42, 0.008_328_760_042_786_598, -0.003_845_231_607_556_343, 0.002_733_421_279_117_465];

/// `sin(πr) / πr` in r² up to ¼.
const SINE: [f64; 5] =
    [1.0, -1.644_933_104_515_075_7, 0.811_712_384_223_938, -0.190_426_379_442_214_97, 0.024_688_238_278_031_35];

/// `cos(πr) / (1 - 4r²)` in r² up to ¼.
const COSINE: [f64; 5] =
    [1.0, -0.934_801_995_754_241_9, 0.319_496_840_238_571_17, -0.057_180_240_750_312_805, 0.006_028_804_928_064_346];

/// Where `y` is: below 1, from 3 on, and `y` or `1 + y` less 2.
struct Stretch {
    small: Val,
    large: Val,
    g: Val,
}

fn stretch(b: &mut Builder<'_>, y: Val) -> Stretch {
    let (one, two, three) = (b.num(F, 1.0), b.num(F, 2.0), b.num(F, 3.0));
    let (small, large) = (b.cmp(Cmp::Lt, y, one), b.cmp(Cmp::Ge, y, three));
    let centre = b.select(small, one, two);
    // The difference is exact where it is small.
    Stretch { small, large, g: b.sub(y, centre) }
}

/// How far `y` is from the nearest integer, and `sin(πy) / π` up to its sign.
fn reflected(b: &mut Builder<'_>, y: Val) -> (Val, Val) {
    let whole = b.un(UnaryOp::RoundNearestEven, y);
    let r = b.sub(y, whole);
    let square = b.mul(r, r);
    let p = b.poly(square, &SINE);
    (r, b.mul(p, r))
}

/// `ln |Γ(x)|`.
pub fn lgamma(b: &mut Builder<'_>, x: Val) -> Val {
    let (zero, one, two) = (b.num(F, 0.0), b.num(F, 1.0), b.num(F, 2.0));
    let (half, minus, infinity) = (b.num(F, 0.5), b.num(F, -1.0), b.num(F, f64::INFINITY));
    let y = b.un(UnaryOp::Abs, x);
    let Stretch { small, large, g } = stretch(b, y);
    let (below, p) = (b.sub(y, one), b.poly(g, &NEAR));
    let other = b.select(small, y, below);
    let near = b.mul(g, p);
    let near = b.mul(near, other);
    let bounded = b.bin(BinaryOp::Maximum, y, two);
    let inverse = b.div(one, bounded);
    let far = b.poly(inverse, &STIRLING);
    let base = b.select(large, far, near);
    // The logarithm in two parts, times y - ½ in Stirling's formula, and -1 below 1.
    let either = b.bin(BinaryOp::Or, small, large);
    let of = b.select(either, y, one);
    let (of, more) = LOGARITHM.shifted_to_normal(b, of);
    let (exponent, rest) = log_parts(b, of, Some(more), None);
    let steep = b.sub(y, half);
    let factor = b.select(small, minus, zero);
    let factor = b.select(large, steep, factor);
    let less = b.select(large, minus, zero);
    let high = b.num(F, LN2_HIGH);
    let high = b.fma(exponent, high, less);
    let sum = b.fma(factor, rest, base);
    let positive = b.fma(factor, high, sum);
    // Of -y: -ln(sin(πy)/π) - ln Γ(1 + y).
    let (_, sine) = reflected(b, y);
    let sine = b.un(UnaryOp::Abs, sine);
    let scale = b.select(small, one, y);
    let product = b.mul(sine, scale);
    let log = LOGARITHM.log(b, product);
    let already = b.select(small, near, positive);
    let sum = b.add(log, already);
    let negative = b.un(UnaryOp::Negate, sum);
    let pole = b.cmp(Cmp::Eq, product, zero);
    let negative = b.select(pole, infinity, negative);
    let is_negative = b.cmp(Cmp::Lt, x, zero);
    let value = b.select(is_negative, negative, positive);
    let (is_zero, is_infinite) = (b.cmp(Cmp::Eq, y, zero), b.cmp(Cmp::Eq, y, infinity));
    let end = b.bin(BinaryOp::Or, is_zero, is_infinite);
    b.select(end, infinity, value)
}

/// The derivative of `ln |Γ(x)|`; NaN at its poles.
pub fn digamma(b: &mut Builder<'_>, x: Val) -> Val {
    /// The positive root in two parts.
    const ROOT: [f64; 2] = [1.461_632_132_530_212_4, 1.243_814_984_341_895_5e-8];
    let (zero, one, two) = (b.num(F, 0.0), b.num(F, 1.0), b.num(F, 2.0));
    let (half, nan, infinity) = (b.num(F, 0.5), b.num(F, f64::NAN), b.num(F, f64::INFINITY));
    let y = b.un(UnaryOp::Abs, x);
    let Stretch { small, large, g } = stretch(b, y);
    // 2 + g less the root; both differences of large numbers are exact.
    let (ahead, low) = (b.num(F, 2.0 - ROOT[0]), b.num(F, ROOT[1]));
    let root = b.num(F, ROOT[0]);
    let direct = b.sub(y, root);
    let raised = b.add(g, ahead);
    let distance = b.select(small, raised, direct);
    let distance = b.sub(distance, low);
    let p = b.poly(g, &SLOPE);
    let near = b.mul(distance, p);
    let inverse = b.div(one, y);
    let bounded = b.bin(BinaryOp::Maximum, y, two);
    let log = LOGARITHM.log(b, bounded);
    let square = b.mul(inverse, inverse);
    let q = b.poly(square, &SLOPE_FAR);
    let part = b.mul(inverse, half);
    let minus = b.un(UnaryOp::Negate, part);
    let series = b.fma(square, q, minus);
    let far = b.add(log, series);
    let lowered = b.sub(near, inverse);
    let positive = b.select(small, lowered, near);
    let positive = b.select(large, far, positive);
    // Of -y: ψ(1 + y) + π / tan(πy).
    let (r, sine) = reflected(b, y);
    let square = b.mul(r, r);
    let p = b.poly(square, &COSINE);
    let four = b.num(F, -4.0);
    let away = b.fma(square, four, one);
    let cosine = b.mul(p, away);
    let cotangent = b.div(cosine, sine);
    let raised = b.add(positive, inverse);
    let raised = b.select(small, near, raised);
    let negative = b.add(raised, cotangent);
    let pole = b.cmp(Cmp::Eq, r, zero);
    let negative = b.select(pole, nan, negative);
    let is_negative = b.cmp(Cmp::Lt, x, zero);
    let value = b.select(is_negative, negative, positive);
    let is_zero = b.cmp(Cmp::Eq, x, zero);
    let value = b.select(is_zero, nan, value);
    let end = b.cmp(Cmp::Eq, x, infinity);
    b.select(end, infinity, value)
}
