//! Fourier transforms of many lines side by side: every number is a vector, one lane for each line, so that no step moves
//! numbers inside vectors.
//!
//! Element `k` of the lines is two vectors: the real parts and the imaginary parts. A transform goes through its factors
//! from one of two buffers to the other (Stockham's order), so elements end in order without being sorted. Inverse
//! transforms are forward ones with the parts swapped.

use std::f64::consts::{FRAC_1_SQRT_2, PI};

use rustfft::num_traits::Float;

use super::vector::Vector;

/// Prime factors above this are better left to other algorithms.
const MOST: usize = 13;

/// One factor of a length.
#[derive(Debug)]
struct Stage<T> {
    radix: usize,
    /// What is left of the length after this factor, and the product of the factors before.
    rest: usize,
    before: usize,
    /// `e^(-2πi p j / (radix rest))` for each `p` below the rest and `j` from 1 on.
    twiddles: Vec<[T; 2]>,
    /// `e^(-2πi j / radix)`.
    roots: Vec<[T; 2]>,
}

/// The factors of a length.
#[derive(Debug)]
pub(super) struct Stages<T> {
    pub n: usize,
    stages: Vec<Stage<T>>,
}

fn number<T: Float>(x: f64) -> T {
    T::from(x).unwrap_or_else(T::nan)
}

fn root<T: Float>(k: usize, n: usize) -> [T; 2] {
    let angle = -2.0 * PI * (k % n) as f64 / n as f64;
    [number(angle.cos()), number(angle.sin())]
}

/// One element of each line.
#[derive(Clone, Copy)]
struct Numbers<V>(V, V);

impl<T: Float> Stages<T> {
    /// The stages of a transform of `n` elements, if all prime factors are small.
    pub(super) fn new(n: usize) -> Option<Stages<T>> {
        let (mut left, mut before, mut stages) = (n, 1, vec![]);
        while left > 1 {
            // Factors of 16 are two of 4: a pass of 8 and one of 2 take longer.
            let powers: &[usize] = if left.trailing_zeros() == 4 { &[4] } else { &[8, 4, 2] };
            let radix = (3..=MOST).step_by(2).chain(powers.iter().copied()).find(|r| left.is_multiple_of(*r))?;
            let rest = left / radix;
            let twiddles = (0..rest).flat_map(|p| (1..radix).map(move |j| root(p * j, left))).collect();
            stages.push(Stage { radix, rest, before, twiddles, roots: (0..radix).map(|j| root(j, radix)).collect() });
            (left, before) = (rest, before * radix);
        }
        (n > 0).then_some(Stages { n, stages })
    }

    /// Transforms the lines in `x`, with `y` as the other buffer; whether the result is there.
    ///
    /// # Safety
    /// Both have `2 n` vectors, which the processor has.
    #[inline(always)]
    pub(super) unsafe fn run<V: Vector<Number = T>>(&self, mut x: *mut T, mut y: *mut T) -> bool {
        for stage in &self.stages {
            // SAFETY: the caller's.
            unsafe {
                match stage.radix {
                    2 => stage.pass::<V, 2>(x, y, |[a, b]| [plus(a, b), minus(a, b)]),
                    3 => stage.pass::<V, 3>(x, y, |a| stage.odd(a)),
                    4 => stage.pass::<V, 4>(x, y, |a| four(a)),
                    5 => stage.pass::<V, 5>(x, y, |a| stage.odd(a)),
                    7 => stage.pass::<V, 7>(x, y, |a| stage.odd(a)),
                    8 => stage.pass::<V, 8>(x, y, |a| eight(a)),
                    9 => stage.pass::<V, 9>(x, y, |a| stage.odd(a)),
                    11 => stage.pass::<V, 11>(x, y, |a| stage.odd(a)),
                    _ => stage.pass::<V, 13>(x, y, |a| stage.odd(a)),
                }
            }
            (x, y) = (y, x);
        }
        self.stages.len() % 2 == 1
    }
}

/// # Safety
/// The processor has the vectors; so for the functions below.
#[inline(always)]
unsafe fn plus<V: Vector>(a: Numbers<V>, b: Numbers<V>) -> Numbers<V> {
    // SAFETY: the caller's.
    unsafe { Numbers(a.0.add(b.0), a.1.add(b.1)) }
}

/// # Safety
/// As [`plus`].
#[inline(always)]
unsafe fn minus<V: Vector>(a: Numbers<V>, b: Numbers<V>) -> Numbers<V> {
    // SAFETY: the caller's.
    unsafe { Numbers(a.0.sub(b.0), a.1.sub(b.1)) }
}

/// # Safety
/// As [`plus`].
#[inline(always)]
unsafe fn four<V: Vector>([a, b, c, d]: [Numbers<V>; 4]) -> [Numbers<V>; 4] {
    // SAFETY: the caller's.
    unsafe {
        let (even, odd) = (plus(a, c), minus(a, c));
        let (sum, turn) = (plus(b, d), minus(b, d));
        // Minus and plus i times the turn.
        let second = Numbers(odd.0.add(turn.1), odd.1.sub(turn.0));
        let fourth = Numbers(odd.0.sub(turn.1), odd.1.add(turn.0));
        [plus(even, sum), second, minus(even, sum), fourth]
    }
}

/// # Safety
/// As [`plus`].
#[inline(always)]
unsafe fn eight<V: Vector<Number = T>, T: Float>(a: [Numbers<V>; 8]) -> [Numbers<V>; 8] {
    // SAFETY: the caller's.
    unsafe {
        let half = V::splat(number(FRAC_1_SQRT_2));
        let [e0, e1, e2, e3] = four([a[0], a[2], a[4], a[6]]);
        let [o0, o1, o2, o3] = four([a[1], a[3], a[5], a[7]]);
        let o1 = Numbers(o1.0.add(o1.1), o1.1.sub(o1.0));
        let o3 = Numbers(o3.1.sub(o3.0), o3.0.add(o3.1));
        [
            plus(e0, o0),
            Numbers(o1.0.mul_add(half, e1.0), o1.1.mul_add(half, e1.1)),
            Numbers(e2.0.add(o2.1), e2.1.sub(o2.0)),
            Numbers(o3.0.mul_add(half, e3.0), o3.1.sub_mul(half, e3.1)),
            minus(e0, o0),
            Numbers(o1.0.sub_mul(half, e1.0), o1.1.sub_mul(half, e1.1)),
            Numbers(e2.0.sub(o2.1), e2.1.add(o2.0)),
            Numbers(o3.0.sub_mul(half, e3.0), o3.1.mul_add(half, e3.1)),
        ]
    }
}

impl<T: Float> Stage<T> {
    /// The transform of an odd number of elements: pairs from both ends have the same products.
    ///
    /// # Safety
    /// As [`plus`].
    #[inline(always)]
    unsafe fn odd<V: Vector<Number = T>, const R: usize>(&self, a: [Numbers<V>; R]) -> [Numbers<V>; R] {
        // SAFETY: the caller's.
        unsafe {
            let (mut sums, mut turns, mut out) = (a, a, a);
            for j in 1..R / 2 + 1 {
                (sums[j], turns[j]) = (plus(a[j], a[R - j]), minus(a[j], a[R - j]));
                out[0] = plus(out[0], sums[j]);
            }
            for k in 1..R / 2 + 1 {
                let [cos, sin] = self.roots[k].map(|x| V::splat(x));
                let mut even = Numbers(sums[1].0.mul_add(cos, a[0].0), sums[1].1.mul_add(cos, a[0].1));
                let mut odd = Numbers(turns[1].1.mul(sin), turns[1].0.mul(sin));
                for j in 2..R / 2 + 1 {
                    let [cos, sin] = self.roots[j * k % R].map(|x| V::splat(x));
                    even = Numbers(sums[j].0.mul_add(cos, even.0), sums[j].1.mul_add(cos, even.1));
                    odd = Numbers(turns[j].1.mul_add(sin, odd.0), turns[j].0.mul_add(sin, odd.1));
                }
                out[k] = Numbers(even.0.sub(odd.0), even.1.add(odd.1));
                out[R - k] = Numbers(even.0.add(odd.0), even.1.sub(odd.1));
            }
            out
        }
    }

    /// One pass from `x` to `y` by the transform `f` of `R` elements.
    ///
    /// # Safety
    /// As [`Stages::run`].
    #[inline(always)]
    unsafe fn pass<V: Vector<Number = T>, const R: usize>(
        &self,
        x: *const T,
        y: *mut T,
        f: impl Fn([Numbers<V>; R]) -> [Numbers<V>; R],
    ) {
        let s = self.before;
        // SAFETY: the caller's; all elements are below the length.
        unsafe {
            for p in 0..self.rest {
                let factors = &self.twiddles[p * (R - 1)..(p + 1) * (R - 1)];
                for q in 0..s {
                    let done = f(std::array::from_fn(|j| {
                        let at = x.add(2 * V::LANES * (q + s * (p + j * self.rest)));
                        Numbers(V::load(at), V::load(at.add(V::LANES)))
                    }));
                    for (j, &z) in done.iter().enumerate() {
                        let at = y.add(2 * V::LANES * (s * (R * p + j) + q));
                        let z = if j == 0 || p == 0 {
                            z
                        } else {
                            let [re, im] = factors[j - 1].map(|x| V::splat(x));
                            Numbers(z.0.mul_sub(re, z.1.mul(im)), z.0.mul_add(im, z.1.mul(re)))
                        };
                        z.0.store(at);
                        z.1.store(at.add(V::LANES));
                    }
                }
            }
        }
    }
}
