//! Sine, cosine and tangent of `f32` in `f32` arithmetic: what is left of quarter circles goes into polynomials.
//!
//! Quarter circles are taken away in three parts. The first difference is exact, since the product is not rounded by itself and what
//! is left has no more digits than a number has; the other two round what is left. This is right up to [`NEAR`]. Whatever is beyond has
//! [`Op::Far`], in `f64`.

use super::super::build::Builder;
use super::super::ir::{BinaryOp, Cmp, Op, Ty, UnaryOp, Val};

const F: Ty = Ty::F32;
const I: Ty = Ty::I32;

/// The largest angle that is reduced in `f32`: the error of the number of its quarters is a hundredth.
pub const NEAR: f32 = 131_072.0;

/// 1.5 · 2^23: adding it leaves a number rounded to an integer in the low bits.
const MAGIC: f64 = 12_582_912.0;

/// A quarter of a circle: parts of 24 bits.
const QUARTER: [f64; 3] = [1.570_796_370_506_286_6, -4.371_138_828_673_793e-8, -1.715_124_510_005_129_4e-15];

/// `(sin r - r) / r³` in r², for r up to an eighth of a circle.
const SIN: [f64; 3] = [-0.166_666_537_523_269_65, 0.008_332_108_147_442_34, -0.000_195_082_320_715_300_74];

/// `cos r` in r².
const COS: [f64; 5] = [1.0, -0.5, 0.041_666_645_556_688_31, -0.001_388_729_899_190_366_3, 2.443_028_279_230_93e-5];

/// `size`, which is not negative, in quarter circles: the bits of their number, and sine and cosine of what is left.
fn quarters(b: &mut Builder<'_>, size: Val) -> (Val, Val, Val) {
    let (scale, magic) = (b.num(F, std::f64::consts::FRAC_2_PI), b.num(F, MAGIC));
    let shifted = b.fma(size, scale, magic);
    let n = b.sub(shifted, magic);
    let mut r = size;
    for part in QUARTER {
        let part = b.num(F, -part);
        r = b.fma(n, part, r);
    }
    let square = b.mul(r, r);
    let p = b.poly(square, &SIN);
    let cube = b.mul(square, r);
    let sin = b.fma(cube, p, r);
    let cos = b.poly(square, &COS);
    (b.cast(I, shifted), sin, cos)
}

/// Whether n is even.
fn is_even(b: &mut Builder<'_>, n: Val) -> Val {
    let (one, zero) = (b.bits(I, 1), b.bits(I, 0));
    let low = b.bin(BinaryOp::And, n, one);
    b.cmp(Cmp::Eq, low, zero)
}

/// `v`, negated if n has the bit of two.
fn turn(b: &mut Builder<'_>, n: Val, v: Val) -> Val {
    let (places, top) = (b.bits(I, 30), b.bits(I, 1 << 31));
    let sign = b.bin(BinaryOp::ShiftLeft, n, places);
    let sign = b.bin(BinaryOp::And, sign, top);
    let v = b.cast(I, v);
    let v = b.bin(BinaryOp::Xor, v, sign);
    b.cast(F, v)
}

/// `v` with its sign changed if `x` is negative.
fn signed(b: &mut Builder<'_>, v: Val, x: Val) -> Val {
    let top = b.bits(I, 1 << 31);
    let (v, x) = (b.cast(I, v), b.cast(I, x));
    let sign = b.bin(BinaryOp::And, x, top);
    let v = b.bin(BinaryOp::Xor, v, sign);
    b.cast(F, v)
}

/// The sine.
pub fn sin(b: &mut Builder<'_>, x: Val) -> Val {
    let size = b.un(UnaryOp::Abs, x);
    let (n, s, c) = quarters(b, size);
    let even = is_even(b, n);
    let v = b.select(even, s, c);
    let v = turn(b, n, v);
    let v = b.push(Op::Far(UnaryOp::Sine, size, v));
    signed(b, v, x)
}

/// The cosine.
pub fn cos(b: &mut Builder<'_>, x: Val) -> Val {
    let size = b.un(UnaryOp::Abs, x);
    let (n, s, c) = quarters(b, size);
    let one = b.bits(I, 1);
    let even = is_even(b, n);
    let v = b.select(even, c, s);
    let next = b.add(n, one);
    let v = turn(b, next, v);
    b.push(Op::Far(UnaryOp::Cosine, size, v))
}

/// The tangent.
pub fn tan(b: &mut Builder<'_>, x: Val) -> Val {
    let size = b.un(UnaryOp::Abs, x);
    let (n, s, c) = quarters(b, size);
    let even = is_even(b, n);
    let minus = b.un(UnaryOp::Negate, s);
    let (top, bottom) = (b.select(even, s, c), b.select(even, c, minus));
    let v = b.div(top, bottom);
    let v = b.push(Op::Far(UnaryOp::Tan, size, v));
    signed(b, v, x)
}
