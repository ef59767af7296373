//! The error function of `f64` and its complement: a series near zero, beyond it `e^(-x²)` times a polynomial in (x - 3)/(x + 3).

use super::super::build::Builder;
use super::super::ir::{BinaryOp, Cmp, Ty, UnaryOp, Val};
use super::wide::{exp_near, reduce};
use super::{copysign, exact_mul};

const D: Ty = Ty::F64;

/// `erf(x)/x - 1` in x² up to ¼.
const NEAR: [f64; 10] = [
    0.128_379_167_095_512_6,
    -0.376_126_389_031_837_5,
    0.112_837_916_709_548_7,
    -0.026_866_170_644_999_72,
    0.005_223_977_622_016_936_5,
    -0.000_854_832_651_072_479_6,
    0.000_120_552_862_020_057_14,
    -1.492_300_336_815_209_9e-05,
    1.637_123_442_577e-06,
    -1.462_091_340_945_175e-07,
];

/// `e^(x²) erfc(x) (x + 3)` from ½ to 28, beyond which the complement is zero.
const SCALED: [f64; 23] = [
    1.074_006_907_088_339_8,
    -0.883_394_453_169_883_6,
    0.590_228_357_104_101_9,
    -0.310_467_261_900_562_3,
    0.119_527_761_287_285_34,
    -0.026_827_234_624_690_048,
    -0.001_212_416_627_063_29,
    0.003_034_062_004_998_403,
    -0.000_548_309_694_458_255_7,
    -0.000_276_777_882_753_637_1,
    0.000_107_561_518_376_952_37,
    3.039_836_636_644_485e-05,
    -1.747_079_467_491_721e-05,
    -4.749_903_680_030_927_6e-06,
    2.766_397_368_713_548_3e-06,
    1.000_207_153_035_536_8e-06,
    -4.106_863_755_584_665e-07,
    -2.347_279_388_786_773e-07,
    5.048_301_671_704_242e-08,
    5.042_345_163_513_127e-08,
    -5.027_555_898_054_663e-09,
    -7.053_465_449_633_823_5e-09,
    7.573_538_166_260_855e-10,
];

/// Whether `x` is near zero, `erf(x) - x` there, and `erfc(|x|)` elsewhere.
fn parts(b: &mut Builder<'_>, x: Val) -> (Val, Val, Val) {
    let (one, three, six) = (b.num(D, 1.0), b.num(D, 3.0), b.num(D, -6.0));
    let (most, limit) = (b.num(D, 28.0), b.num(D, 0.5));
    let size = b.un(UnaryOp::Abs, x);
    let is_near = b.cmp(Cmp::Lt, size, limit);
    let square = b.mul(x, x);
    let near = b.poly(square, &NEAR);
    let near = b.mul(near, x);
    let bounded = b.bin(BinaryOp::Minimum, size, most);
    let above = b.add(bounded, three);
    let inverse = b.div(one, above);
    let t = b.fma(inverse, six, one);
    let p = b.poly(t, &SCALED);
    let p = b.mul(p, inverse);
    // What rounding the square lost counts: the exponential makes a part of the result of it.
    let (square, lost) = exact_mul(b, bounded, bounded);
    let minus = b.un(UnaryOp::Negate, square);
    let (r, first, second) = reduce(b, minus);
    let r = b.sub(r, lost);
    let e = exp_near(b, r);
    let v = b.mul(e, p);
    let v = b.mul(v, first);
    (is_near, near, b.mul(v, second))
}

/// The error function.
pub fn erf(b: &mut Builder<'_>, x: Val) -> Val {
    let one = b.num(D, 1.0);
    let (is_near, near, rest) = parts(b, x);
    let near = b.add(near, x);
    let far = b.sub(one, rest);
    let far = copysign(b, far, x);
    b.select(is_near, near, far)
}

/// The complementary error function.
pub fn erfc(b: &mut Builder<'_>, x: Val) -> Val {
    let (zero, one, two) = (b.num(D, 0.0), b.num(D, 1.0), b.num(D, 2.0));
    let (is_near, near, rest) = parts(b, x);
    let less = b.sub(one, x);
    let near = b.sub(less, near);
    let other = b.sub(two, rest);
    let negative = b.cmp(Cmp::Lt, x, zero);
    let far = b.select(negative, other, rest);
    b.select(is_near, near, far)
}
