//! Sine, cosine and tangent of `f64`, in vectors: an angle is brought near zero by quarters of a circle, in three parts whose products with
//! their number are exact, and what is left goes into the series of both. Angles beyond [`LIMIT`] are left to the reference.

use super::far::{MAGIC, poly};
use super::loops::{Loop, versions};

/// The largest angle that is reduced here: the number of its quarters has 20 bits.
const LIMIT: f64 = 1e6;

/// A quarter of a circle: parts of 33 bits, and the rest.
const QUARTER: [f64; 4] =
    [1.570_796_326_734_125_6, 6.077_100_506_303_966e-11, 2.022_266_248_711_166_5e-21, 8.478_427_660_368_9e-32];

/// `±1/n!` for n from `first` in steps of two.
const fn series<const N: usize>(first: usize, start: f64) -> [f64; N] {
    let mut out = [0.0; N];
    let (mut i, mut n, mut factorial, mut sign) = (0, 1, 1.0, start);
    while i < N {
        while n < first + 2 * i {
            n += 1;
            factorial *= n as f64;
        }
        out[i] = sign / factorial;
        sign = -sign;
        i += 1;
    }
    out
}

/// `(sin r - r) / r³` in r².
const SINE: [f64; 8] = series(3, -1.0);
/// `(cos r - 1 + r²/2) / r⁴` in r².
const COSINE: [f64; 8] = series(4, 1.0);

/// The number of quarters of a circle in `x`, modulo a power of two, and sine and cosine of the rest.
#[inline(always)]
fn reduced(x: f64) -> (u64, f64, f64) {
    let shifted = x.mul_add(std::f64::consts::FRAC_2_PI, MAGIC);
    let n = shifted - MAGIC;
    let first = x - n * QUARTER[0];
    let (w, v) = (n * QUARTER[1], n * QUARTER[2]);
    let second = first - w;
    let r = second - v;
    // What rounding the differences lost.
    let lost = ((first - second) - w) + ((second - r) - v) - n * QUARTER[3];
    let square = r * r;
    let sine = r + (r * square).mul_add(poly(square, &SINE), lost);
    let half = 0.5 * square;
    let near = 1.0 - half;
    let rest = (square * square).mul_add(poly(square, &COSINE), ((1.0 - near) - half) - r * lost);
    (shifted.to_bits(), sine, near + rest)
}

/// `value`, negated if `quarters` has the bit of two.
#[inline(always)]
fn turned(value: f64, quarters: u64) -> f64 {
    f64::from_bits(value.to_bits() ^ ((quarters & 2) << 62))
}

#[inline(always)]
fn sine(x: f64) -> f64 {
    let (quarters, sine, cosine) = reduced(x);
    let value = turned(if quarters & 1 == 0 { sine } else { cosine }, quarters);
    // The sum loses the sign of a zero.
    if x == 0.0 { x } else { value }
}

#[inline(always)]
fn cosine(x: f64) -> f64 {
    let (quarters, sine, cosine) = reduced(x);
    turned(if quarters & 1 == 0 { cosine } else { sine }, quarters.wrapping_add(1))
}

#[inline(always)]
fn tangent(x: f64) -> f64 {
    let (quarters, sine, cosine) = reduced(x);
    let value = if quarters & 1 == 0 { sine / cosine } else { cosine / -sine };
    if x == 0.0 { x } else { value }
}

/// `near` of all elements, then `far` of those that are beyond the limit or no numbers.
///
/// # Safety
/// As [`MapFn`](super::loops::MapFn), with one operand.
#[inline(always)]
unsafe fn each(dst: *mut u8, src: *const u8, n: usize, near: impl Fn(f64) -> f64, far: fn(f64) -> f64) {
    // SAFETY: the caller gives `n` aligned elements at each pointer, the result apart from the operand.
    let (d, x) = unsafe {
        (std::slice::from_raw_parts_mut(dst.cast::<f64>(), n), std::slice::from_raw_parts(src.cast::<f64>(), n))
    };
    for (d, &x) in d.iter_mut().zip(x) {
        *d = near(x);
    }
    let is_near = |x: &f64| x.abs() < LIMIT;
    if !x.iter().fold(true, |all, x| all & is_near(x)) {
        for (d, &x) in d.iter_mut().zip(x).filter(|(_, x)| !is_near(x)) {
            *d = far(x);
        }
    }
}

/// The loop of sines.
pub fn sines() -> Loop {
    #[inline(always)]
    unsafe fn body(dst: *mut u8, src: [*const u8; 3], n: usize) {
        // SAFETY: the caller's.
        unsafe { each(dst, src[0], n, sine, f64::sin) }
    }
    versions!(body)
}

/// The loop of cosines.
pub fn cosines() -> Loop {
    #[inline(always)]
    unsafe fn body(dst: *mut u8, src: [*const u8; 3], n: usize) {
        // SAFETY: the caller's.
        unsafe { each(dst, src[0], n, cosine, f64::cos) }
    }
    versions!(body)
}

/// The loop of tangents.
pub fn tangents() -> Loop {
    #[inline(always)]
    unsafe fn body(dst: *mut u8, src: [*const u8; 3], n: usize) {
        // SAFETY: the caller's.
        unsafe { each(dst, src[0], n, tangent, f64::tan) }
    }
    versions!(body)
}
