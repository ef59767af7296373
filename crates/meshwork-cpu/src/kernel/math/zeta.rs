//! The Hurwitz zeta function `ζ(s, q) = Σ (q + k)^-s` and the derivatives of the digamma function, by Euler and Maclaurin's sum:
//! some terms one by one, then the integral of the others, half the next term, and corrections by its derivatives.
//!
//! All is `f64`. What this does not cover (poles, negative numbers, exponents beyond [`MOST`]) is NaN, and left to the reference.

use super::super::build::Builder;
use super::super::ir::{BinaryOp, Cmp, Op, Ty, UnaryOp, Val};
use super::{constant, double, wide};

const D: Ty = Ty::F64;

/// Terms before the integral, which is also the number of corrections: for results of 26 bits and of 53.
const TERMS: [usize; 2] = [4, 8];

/// B(2k) / (2k)!.
const BERNOULLI: [f64; 8] = [
    8.333_333_333_333_333e-2,
    -1.388_888_888_888_889e-3,
    3.306_878_306_878_307e-5,
    -8.267_195_767_195_767e-7,
    2.087_675_698_786_81e-8,
    -5.284_190_138_687_493e-10,
    1.338_253_653_068_467e-11,
    -3.389_680_296_322_583e-13,
];

/// The largest exponent.
const MOST: f64 = 1000.0;

/// Between these, neither numbers nor their squares leave the normal ones.
const BASES: (f64, f64) = (1e-300, 1e150);

/// The highest derivative whose factor, a factorial, and whose power are products.
const ORDERS: f64 = 20.0;

/// An exponent: always the same, or not.
#[derive(Clone, Copy)]
enum Exponent {
    Fixed(f64),
    Varying(Val),
}

/// `ζ(s, q)`.
pub fn zeta(b: &mut Builder<'_>, s: Val, q: Val) -> Val {
    let ty = b.ty(s);
    let exponent = match constant(b, s) {
        Some(s) => Exponent::Fixed(s),
        None => Exponent::Varying(b.convert(D, s)),
    };
    let near = series(b, exponent, q);
    let near = b.convert(ty, near);
    b.push(Op::FarApart(BinaryOp::Zeta, s, q, near))
}

/// `ψ` of order `n`: `-(-1)^n n! ζ(n + 1, x)`.
pub fn polygamma(b: &mut Builder<'_>, n: Val, x: Val) -> Val {
    let ty = b.ty(n);
    let order = match constant(b, n) {
        Some(0.0) => return super::unary(b, UnaryOp::Digamma, x),
        Some(n) if n.fract() == 0.0 && (1.0..=ORDERS).contains(&n) => n,
        _ => return b.bin(BinaryOp::Polygamma, n, x),
    };
    let factorial: f64 = (1..=order as u32).map(f64::from).product();
    let factor = b.num(D, if order % 2.0 == 0.0 { -factorial } else { factorial });
    let near = series(b, Exponent::Fixed(order + 1.0), x);
    let near = b.mul(near, factor);
    let near = b.convert(ty, near);
    b.push(Op::FarApart(BinaryOp::Polygamma, n, x, near))
}

/// `ζ(s, q)`, as an `f64` with as many digits as the type of `q` has, or NaN.
fn series(b: &mut Builder<'_>, s: Exponent, q: Val) -> Val {
    let digits = b.ty(q);
    let terms = TERMS[usize::from(digits == D)];
    let q = b.convert(D, q);
    let (one, half, nan) = (b.num(D, 1.0), b.num(D, 0.5), b.num(D, f64::NAN));
    let mut sum = power(b, digits, q, s);
    for k in 1..terms {
        let more = b.num(D, k as f64);
        let at = b.add(q, more);
        let term = power(b, digits, at, s);
        sum = b.add(sum, term);
    }
    let more = b.num(D, terms as f64);
    let at = b.add(q, more);
    let first = power(b, digits, at, s);
    let inverse = b.div(one, at);
    let square = b.mul(inverse, inverse);
    // B₀ + (s + 1)(s + 2) / at² · (B₁ + (s + 3)(s + 4) / at² · (...)).
    let mut corrections = b.num(D, BERNOULLI[terms - 1]);
    for k in (1..terms).rev() {
        let above = 2.0 * k as f64;
        let (low, high) = (plus(b, s, above - 1.0), plus(b, s, above));
        let step = b.mul(low, square);
        let step = b.mul(step, high);
        let bernoulli = b.num(D, BERNOULLI[k - 1]);
        corrections = b.fma(step, corrections, bernoulli);
    }
    let (value, less) = (plus(b, s, 0.0), plus(b, s, -1.0));
    let slope = b.mul(value, inverse);
    let rest = b.fma(slope, corrections, half);
    let integral = b.div(at, less);
    let rest = b.add(integral, rest);
    let sum = b.fma(first, rest, sum);
    let (least, most) = (b.num(D, BASES.0), b.num(D, BASES.1));
    let (above, below) = (b.cmp(Cmp::Ge, q, least), b.cmp(Cmp::Le, q, most));
    let mut covered = b.bin(BinaryOp::And, above, below);
    if digits == D {
        // Where powers vanish, the sum may not yet.
        let tiny = b.num(D, f64::MIN_POSITIVE);
        let is_normal = b.cmp(Cmp::Gt, first, tiny);
        covered = b.bin(BinaryOp::And, covered, is_normal);
    }
    match s {
        Exponent::Fixed(s) if s > 1.0 && s <= MOST => {}
        Exponent::Fixed(_) => return nan,
        Exponent::Varying(s) => {
            let most = b.num(D, MOST);
            let (above, below) = (b.cmp(Cmp::Gt, s, one), b.cmp(Cmp::Le, s, most));
            let inside = b.bin(BinaryOp::And, above, below);
            covered = b.bin(BinaryOp::And, covered, inside);
        }
    }
    b.select(covered, sum, nan)
}

/// `s + more`.
fn plus(b: &mut Builder<'_>, s: Exponent, more: f64) -> Val {
    match s {
        Exponent::Fixed(s) => b.num(D, s + more),
        Exponent::Varying(s) => {
            let more = b.num(D, more);
            b.add(s, more)
        }
    }
}

/// `x^-s` for positive normal x.
fn power(b: &mut Builder<'_>, digits: Ty, x: Val, s: Exponent) -> Val {
    if let Exponent::Fixed(s) = s
        && (2.0 * s).fract() == 0.0
        && (1.0..=ORDERS + 1.0).contains(&s)
    {
        return inverse_product(b, x, s);
    }
    let minus = match s {
        Exponent::Fixed(s) => b.num(D, -s),
        Exponent::Varying(s) => b.un(UnaryOp::Negate, s),
    };
    if digits == D { wide::power(b, x, minus) } else { double::power(b, x, minus) }
}

/// `x^-s` where s is a multiple of a half: by squares, and a root.
fn inverse_product(b: &mut Builder<'_>, x: Val, s: f64) -> Val {
    let one = b.num(D, 1.0);
    let mut product = if s.fract() == 0.0 { one } else { b.un(UnaryOp::Sqrt, x) };
    let (mut square, mut left) = (x, s as u32);
    while left > 0 {
        if left % 2 == 1 {
            product = b.mul(square, product);
        }
        left /= 2;
        if left > 0 {
            square = b.mul(square, square);
        }
    }
    b.div(one, product)
}
