//! The modified Bessel function of the first kind, order 1, times `e^-|x|`.
//!
//! Of `f32`, it starts as `x/2` and falls as `1/√(2π x)`. With both taken out, what is left is smooth in `s = (x - 2)/(x + 2)`, which
//! takes all positive numbers to -1 to 1: one polynomial serves them all. Of `f64`, up to 8 it is `e^-x` times its series, and from there a
//! polynomial in 1/x over √x.

use super::super::build::Builder;
use super::super::ir::{BinaryOp, Cmp, Ty, UnaryOp, Val};
use super::{copysign, wide};

const F: Ty = Ty::F32;

/// `I₁(x) e^-x / x · (1 + x/2)^1.5` in s.
const FIRST: [f64; 19] = [
    0.304_436_751_357_268_2,
    -0.233_651_876_838_379_57,
    0.023_960_683_481_905_39,
    0.086_549_668_297_703_76,
    0.001_402_280_629_079_998,
    -0.049_310_433_215_690_355,
    -0.030_046_696_673_962_75,
    0.008_286_302_278_934_796,
    0.031_546_950_390_338_41,
    0.040_523_292_795_782_165,
    0.007_556_405_984_294_366,
    -0.064_780_032_608_878_88,
    -0.053_859_894_774_718_114,
    0.049_245_384_008_721_97,
    0.059_696_018_751_419_99,
    -0.019_602_596_236_636_134,
    -0.030_322_356_086_961_64,
    0.003_263_983_691_738_298_4,
    0.006_153_565_361_224_895,
];

/// `I₁(x) e^-|x|`.
pub fn i1e(b: &mut Builder<'_>, x: Val) -> Val {
    let (zero, half, one) = (b.num(F, 0.0), b.num(F, 0.5), b.num(F, 1.0));
    let (two, four, infinity) = (b.num(F, 2.0), b.num(F, 4.0), b.num(F, f64::INFINITY));
    let size = b.un(UnaryOp::Abs, x);
    // A quarter of the divisor would leave a quotient that is no normal number for the largest x.
    let above = b.add(size, two);
    let q = b.div(four, above);
    let s = b.sub(one, q);
    let p = b.poly(s, &FIRST);
    let halved = b.mul(q, half);
    let line = b.mul(size, halved);
    let root = b.un(UnaryOp::Sqrt, halved);
    let fall = b.mul(p, root);
    let value = b.mul(line, fall);
    let end = b.cmp(Cmp::Eq, size, infinity);
    let value = b.select(end, zero, value);
    copysign(b, value, x)
}

/// `I₁(x) / x` in x² up to 64.
const SERIES: [f64; 16] = [
    0.5,
    0.062_500_000_000_000_01,
    0.002_604_166_666_666_657_4,
    5.425_347_222_222_71e-05,
    6.781_684_027_764_357e-07,
    5.651_403_356_704_746e-09,
    3.363_930_566_898_247_5e-11,
    1.501_754_736_797_684_8e-13,
    5.214_425_120_919_993e-16,
    1.448_455_537_254_395e-18,
    3.291_825_901_828_770_6e-21,
    6.237_020_683_263_868_4e-24,
    9.956_969_230_500_738e-27,
    1.408_926_251_589_232e-29,
    1.380_818_158_491_429_8e-32,
    2.716_505_589_516_919e-35,
];

/// `I₁(x) e^-x √x` in 1/x up to ⅛.
const FAR: [f64; 22] = [
    0.398_942_280_401_432_7,
    -0.149_603_355_150_853_93,
    -0.046_751_048_080_006_82,
    -0.040_907_371_488_116_51,
    -0.057_471_517_834_958_394,
    -0.119_490_559_704_358_4,
    0.667_744_856_353_389_5,
    -71.226_330_766_898_6,
    3_850.908_513_208_32,
    -157_719.499_406_850_58,
    4_915_865.160_211_03,
    -118_104_309.171_551_72,
    2_201_474_795.270_524,
    -31_900_375_487.711_514,
    358_395_964_568.925_4,
    -3_098_216_607_622.76,
    20_328_651_133_252.32,
    -99_031_576_007_162.95,
    345_714_914_657_855.44,
    -814_484_875_398_486.8,
    1_154_972_991_993_141.0,
    -740_539_166_803_775.6,
];

/// `I₁(x) e^-|x|`.
pub fn i1e_wide(b: &mut Builder<'_>, x: Val) -> Val {
    let (one, eight) = (b.num(Ty::F64, 1.0), b.num(Ty::F64, 8.0));
    let size = b.un(UnaryOp::Abs, x);
    let is_near = b.cmp(Cmp::Lt, size, eight);
    let small = b.bin(BinaryOp::Minimum, size, eight);
    let square = b.mul(small, small);
    let p = b.poly(square, &SERIES);
    let p = b.mul(p, small);
    let minus = b.un(UnaryOp::Negate, small);
    let fall = wide::exp(b, minus);
    let near = b.mul(p, fall);
    let large = b.bin(BinaryOp::Maximum, size, eight);
    let inverse = b.div(one, large);
    let p = b.poly(inverse, &FAR);
    let root = b.un(UnaryOp::Sqrt, inverse);
    let far = b.mul(p, root);
    let value = b.select(is_near, near, far);
    copysign(b, value, x)
}
