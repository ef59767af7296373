//! The modified Bessel function of the first kind, order 1, times `e^-|x|`, of `f32`.
//!
//! It starts as `x/2` and falls as `1/√(2π x)`. With both taken out, what is left is smooth in `s = (x - 2)/(x + 2)`, which
//! takes all positive numbers to -1 to 1: one polynomial serves them all.

use super::super::build::Builder;
use super::super::ir::{Cmp, Ty, UnaryOp, Val};
use super::copysign;

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
