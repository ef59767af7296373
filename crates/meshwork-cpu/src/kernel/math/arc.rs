//! Hyperbolic functions and their inverses, of either float type in its own arithmetic; arc sine and arc cosine of `f32`.

use super::super::build::Builder;
use super::super::ir::{Cmp, Ty, UnaryOp, Val};
use super::copysign;
use super::logarithm::Logarithm;
use super::{single, wide};

const F: Ty = Ty::F32;

/// From here on `x² + 1`, `x² - 1` and, in `ln(1 + x)`, `1 + x` have no digit of the one.
fn far(ty: Ty) -> f64 {
    if ty == F { 1e9 } else { 1e17 }
}

/// `(sinh(x) - x) / x³` in x² up to 1.
const SINH: [f64; 4] =
    [0.166_666_671_633_720_4, 0.008_333_349_600_434_303, 0.000_198_361_594_812_013_2, 2.816_951_564_454_939_2e-6];

/// The same as its series: 1/(2n+3)!.
const SINH_SERIES: [f64; 9] = {
    let mut out = [0.0; 9];
    let (mut n, mut factorial) = (0, 1.0);
    while n < out.len() {
        factorial *= ((2 * n + 2) * (2 * n + 3)) as f64;
        out[n] = 1.0 / factorial;
        n += 1;
    }
    out
};

fn logarithm(ty: Ty) -> &'static Logarithm {
    if ty == F { &single::LOGARITHM } else { &wide::LOGARITHM }
}

fn half_exp(b: &mut Builder<'_>, x: Val) -> Val {
    if b.ty(x) == F { single::half_exp(b, x) } else { wide::half_exp(b, x) }
}

/// `(e^x - e^-x) / 2`.
pub fn sinh(b: &mut Builder<'_>, x: Val) -> Val {
    let ty = b.ty(x);
    let (one, quarter) = (b.num(ty, 1.0), b.num(ty, 0.25));
    let size = b.un(UnaryOp::Abs, x);
    let half = half_exp(b, size);
    let other = b.div(quarter, half);
    let far = b.sub(half, other);
    let far = copysign(b, far, x);
    let square = b.mul(x, x);
    let p = if ty == F { b.poly(square, &SINH) } else { b.poly(square, &SINH_SERIES) };
    let cube = b.mul(square, x);
    let near = b.fma(cube, p, x);
    let is_near = b.cmp(Cmp::Lt, size, one);
    b.select(is_near, near, far)
}

/// `(e^x + e^-x) / 2`.
pub fn cosh(b: &mut Builder<'_>, x: Val) -> Val {
    let ty = b.ty(x);
    let quarter = b.num(ty, 0.25);
    let size = b.un(UnaryOp::Abs, x);
    let half = half_exp(b, size);
    let other = b.div(quarter, half);
    b.add(half, other)
}

/// `ln(1 + near)`, or `ln(2 size)` where `size` is large.
fn log_of(b: &mut Builder<'_>, size: Val, near: Val) -> Val {
    let ty = b.ty(size);
    let (limit, two, zero) = (b.num(ty, far(ty)), b.num(ty, std::f64::consts::LN_2), b.num(ty, 0.0));
    let far = b.cmp(Cmp::Gt, size, limit);
    let of = b.select(far, size, near);
    let log = logarithm(ty).log1p(b, of);
    let more = b.select(far, two, zero);
    b.add(log, more)
}

/// `ln(x + √(x² + 1))`.
pub fn asinh(b: &mut Builder<'_>, x: Val) -> Val {
    let ty = b.ty(x);
    let one = b.num(ty, 1.0);
    let size = b.un(UnaryOp::Abs, x);
    let square = b.mul(size, size);
    let sum = b.add(square, one);
    let root = b.un(UnaryOp::Sqrt, sum);
    let bottom = b.add(root, one);
    let part = b.div(square, bottom);
    let near = b.add(size, part);
    let log = log_of(b, size, near);
    copysign(b, log, x)
}

/// `ln(x + √(x² - 1))`.
pub fn acosh(b: &mut Builder<'_>, x: Val) -> Val {
    let ty = b.ty(x);
    let (one, two, nan) = (b.num(ty, 1.0), b.num(ty, 2.0), b.num(ty, f64::NAN));
    let above = b.sub(x, one);
    let sum = b.add(above, two);
    let product = b.mul(above, sum);
    let root = b.un(UnaryOp::Sqrt, product);
    let near = b.add(above, root);
    let log = log_of(b, x, near);
    let defined = b.cmp(Cmp::Ge, x, one);
    b.select(defined, log, nan)
}

/// `½ ln((1 + x) / (1 - x))`.
pub fn atanh(b: &mut Builder<'_>, x: Val) -> Val {
    let ty = b.ty(x);
    let (one, half) = (b.num(ty, 1.0), b.num(ty, 0.5));
    let size = b.un(UnaryOp::Abs, x);
    let (twice, less) = (b.add(size, size), b.sub(one, size));
    let ratio = b.div(twice, less);
    let log = logarithm(ty).log1p(b, ratio);
    let v = b.mul(log, half);
    copysign(b, v, x)
}

/// `(asin(x) - x) / x³` in x² up to ¼.
const ASIN: [f64; 6] = [
    0.166_666_597_127_914_43,
    0.075_005_039_572_715_76,
    0.044_516_954_571_008_68,
    0.031_807_713_210_582_73,
    0.014_438_623_562_455_177,
    0.037_516_422_569_751_74,
];

/// The same, of `f64`.
const ASIN_WIDE: [f64; 13] = [
    0.166_666_666_666_666_69,
    0.074_999_999_999_984_33,
    0.044_642_857_146_355_43,
    0.030_381_944_138_531_247,
    0.022_372_172_942_149_89,
    0.017_352_392_720_869_973,
    0.013_971_212_973_552_933,
    0.011_479_177_415_184_906,
    0.010_322_814_350_185_78,
    0.005_457_506_718_640_358,
    0.017_400_879_442_694_02,
    -0.014_851_887_071_247_204,
    0.028_757_851_367_421_566,
];

/// Whether `size` is up to ½, and the arc sine of it, or else of `√((1 - size) / 2)`, of which it is a quarter circle less
/// twice that.
fn arc(b: &mut Builder<'_>, size: Val) -> (Val, Val) {
    let ty = b.ty(size);
    let (one, half) = (b.num(ty, 1.0), b.num(ty, 0.5));
    let is_near = b.cmp(Cmp::Le, size, half);
    let (square, less) = (b.mul(size, size), b.sub(one, size));
    let other = b.mul(less, half);
    let z = b.select(is_near, square, other);
    let root = b.un(UnaryOp::Sqrt, other);
    let s = b.select(is_near, size, root);
    let p = if ty == F { b.poly(z, &ASIN) } else { b.poly(z, &ASIN_WIDE) };
    let cube = b.mul(s, z);
    (is_near, b.fma(cube, p, s))
}

/// A quarter circle in two parts.
fn quarter(b: &mut Builder<'_>, ty: Ty) -> (Val, Val) {
    let (high, low) = if ty == F {
        (1.570_796_370_506_286_6, -4.371_139_000_186_241e-8)
    } else {
        (std::f64::consts::FRAC_PI_2, 6.123_233_995_736_766e-17)
    };
    (b.num(ty, high), b.num(ty, low))
}

/// The arc sine.
pub fn asin(b: &mut Builder<'_>, x: Val) -> Val {
    let ty = b.ty(x);
    let ((quarter, low), minus) = (quarter(b, ty), b.num(ty, -2.0));
    let size = b.un(UnaryOp::Abs, x);
    let (is_near, angle) = arc(b, size);
    let other = b.fma(angle, minus, low);
    let other = b.add(quarter, other);
    let angle = b.select(is_near, angle, other);
    copysign(b, angle, x)
}

/// The arc cosine.
pub fn acos(b: &mut Builder<'_>, x: Val) -> Val {
    let ty = b.ty(x);
    let ((quarter, low), zero) = (quarter(b, ty), b.num(ty, 0.0));
    let size = b.un(UnaryOp::Abs, x);
    let (is_near, angle) = arc(b, size);
    let signed = copysign(b, angle, x);
    let middle = b.sub(low, signed);
    let middle = b.add(quarter, middle);
    let right = b.add(angle, angle);
    // Half a circle less the angle of -x.
    let (half, half_low) = (b.add(quarter, quarter), b.add(low, low));
    let left = b.sub(half_low, right);
    let left = b.add(half, left);
    let is_left = b.cmp(Cmp::Lt, x, zero);
    let end = b.select(is_left, left, right);
    b.select(is_near, middle, end)
}

/// The arc tangent.
pub fn atan(b: &mut Builder<'_>, x: Val) -> Val {
    let one = b.num(b.ty(x), 1.0);
    super::double::atan2(b, x, one)
}
