//! Fourier transforms of any length along the last dimensions, in the precision of the elements.
//!
//! Lengths whose prime factors are small are split by them, one pass per factor (Stockham's order, so that no
//! permutation is needed); others become a convolution of a power of two (Bluestein). Tables of roots are made in
//! `f64` when the program is compiled.

use std::f64::consts::PI;
use std::sync::Arc;

use meshwork_ir::{ElementType, OpId};

use super::attrs;
use super::copy::view_of;
use super::nest::{offsets, parts_of, piece};
use super::num::Complex;
use crate::compile::lower::Lower;
use crate::step::{Buf, Fault, Frame, Scratch, View, Work};

/// A real number type of transforms.
trait Real: Copy + Default + Send + Sync + std::fmt::Debug + 'static {
    fn from_f64(v: f64) -> Self;
    fn plus(self, o: Self) -> Self;
    fn minus(self, o: Self) -> Self;
    fn times(self, o: Self) -> Self;
    fn is_negative(self) -> bool;
}

macro_rules! reals {
    ($($t:ty)*) => {$(
        impl Real for $t {
            #[inline(always)]
            fn from_f64(v: f64) -> Self {
                v as $t
            }
            #[inline(always)]
            fn plus(self, o: Self) -> Self {
                self + o
            }
            #[inline(always)]
            fn minus(self, o: Self) -> Self {
                self - o
            }
            #[inline(always)]
            fn times(self, o: Self) -> Self {
                self * o
            }
            #[inline(always)]
            fn is_negative(self) -> bool {
                self < 0.0
            }
        }
    )*};
}
reals!(f32 f64);

type C<T> = Complex<T>;

#[inline(always)]
fn add<T: Real>(a: C<T>, b: C<T>) -> C<T> {
    Complex { re: a.re.plus(b.re), im: a.im.plus(b.im) }
}

#[inline(always)]
fn sub<T: Real>(a: C<T>, b: C<T>) -> C<T> {
    Complex { re: a.re.minus(b.re), im: a.im.minus(b.im) }
}

#[inline(always)]
fn mul<T: Real>(a: C<T>, b: C<T>) -> C<T> {
    Complex { re: a.re.times(b.re).minus(a.im.times(b.im)), im: a.re.times(b.im).plus(a.im.times(b.re)) }
}

/// `e^(sign 2 pi i numerator / n)`.
fn root<T: Real>(sign: f64, numerator: usize, n: usize) -> C<T> {
    let angle = 2.0 * PI * (numerator % n) as f64 / n as f64;
    Complex { re: T::from_f64(angle.cos()), im: T::from_f64(sign * angle.sin()) }
}

/// The plan of one transform.
#[derive(Debug)]
enum Plan<T> {
    /// Passes by these factors; the roots of unity of the whole length.
    Factors { n: usize, factors: Vec<usize>, roots: Vec<C<T>> },
    /// A convolution of length `inner`: the chirp, and its transform.
    Chirp { n: usize, inner: Box<Plan<T>>, inverse: Box<Plan<T>>, chirp: Vec<C<T>>, kernel: Vec<C<T>> },
}

/// Larger prime factors are left to a convolution.
const LARGEST: usize = 31;

impl<T: Real> Plan<T> {
    fn new(n: usize, sign: f64) -> Plan<T> {
        let (mut rest, mut factors) = (n.max(1), vec![]);
        for f in [4, 2, 3, 5].into_iter().chain(7..=LARGEST) {
            while rest % f == 0 {
                factors.push(f);
                rest /= f;
            }
        }
        if rest == 1 {
            return Plan::Factors { n, factors, roots: (0..n.max(1)).map(|k| root(sign, k, n.max(1))).collect() };
        }
        let m = (2 * n - 1).next_power_of_two();
        let (inner, inverse) = (Plan::new(m, -1.0), Plan::new(m, 1.0));
        // k² / 2 modulo n, without overflow.
        let chirp: Vec<C<T>> =
            (0..n).map(|k| root(sign, (k as u128 * k as u128 % (2 * n as u128)) as usize, 2 * n)).collect();
        let mut kernel = vec![C::<T>::default(); m];
        let scale = T::from_f64(1.0 / m as f64);
        for (k, c) in chirp.iter().enumerate() {
            let conj = Complex { re: c.re.times(scale), im: T::default().minus(c.im).times(scale) };
            kernel[k] = conj;
            kernel[(m - k) % m] = conj;
        }
        let mut spare = vec![C::<T>::default(); inner.scratch()];
        inner.run(&mut kernel, &mut spare);
        Plan::Chirp { n, inner: Box::new(inner), inverse: Box::new(inverse), chirp, kernel }
    }

    /// Complex numbers of scratch that [`Plan::run`] needs.
    fn scratch(&self) -> usize {
        match self {
            Plan::Factors { n, .. } => *n,
            Plan::Chirp { kernel, inner, .. } => kernel.len() + inner.scratch(),
        }
    }

    /// Transforms `line` in place.
    fn run(&self, line: &mut [C<T>], spare: &mut [C<T>]) {
        match self {
            Plan::Factors { n, factors, roots } => {
                let (mut from, mut to) = (line, &mut spare[..*n]);
                // `length` is what is left of the transform, `stride` how many are interleaved.
                let (mut length, mut stride) = (*n, 1);
                for &p in factors {
                    pass(from, to, roots, p, length, stride);
                    std::mem::swap(&mut from, &mut to);
                    length /= p;
                    stride *= p;
                }
                if factors.len() % 2 == 1 {
                    to.copy_from_slice(from);
                }
            }
            Plan::Chirp { n, inner, inverse, chirp, kernel } => {
                let (work, rest) = spare.split_at_mut(kernel.len());
                for (w, (x, c)) in work.iter_mut().zip(line.iter().zip(chirp)) {
                    *w = mul(*x, *c);
                }
                work[*n..].fill(C::default());
                inner.run(work, rest);
                for (w, k) in work.iter_mut().zip(kernel) {
                    *w = mul(*w, *k);
                }
                inverse.run(work, rest);
                for (x, (w, c)) in line.iter_mut().zip(work.iter().zip(chirp)) {
                    *x = mul(*w, *c);
                }
            }
        }
    }
}

/// One pass of Stockham's algorithm: `stride` interleaved transforms of `length`, split by `p`.
fn pass<T: Real>(from: &[C<T>], to: &mut [C<T>], roots: &[C<T>], p: usize, length: usize, stride: usize) {
    let m = length / p;
    let n = roots.len();
    for q in 0..m {
        let twiddle = |r: usize| roots[q * r * stride % n];
        let at = |r: usize, s: usize| from[s + stride * (q + m * r)];
        match p {
            2 => {
                let w = twiddle(1);
                for s in 0..stride {
                    let (a, b) = (at(0, s), at(1, s));
                    to[s + stride * 2 * q] = add(a, b);
                    to[s + stride * (2 * q + 1)] = mul(sub(a, b), w);
                }
            }
            4 => {
                let (w1, w2, w3) = (twiddle(1), twiddle(2), twiddle(3));

                let forward = roots[n / 4].im.is_negative();
                for s in 0..stride {
                    let (a, b, c, d) = (at(0, s), at(1, s), at(2, s), at(3, s));
                    let (ac, bd) = (add(a, c), add(b, d));
                    let (a_c, b_d) = (sub(a, c), sub(b, d));
                    let j = if forward {
                        Complex { re: b_d.im, im: T::default().minus(b_d.re) }
                    } else {
                        Complex { re: T::default().minus(b_d.im), im: b_d.re }
                    };
                    let base = s + stride * 4 * q;
                    to[base] = add(ac, bd);
                    to[base + stride] = mul(add(a_c, j), w1);
                    to[base + 2 * stride] = mul(sub(ac, bd), w2);
                    to[base + 3 * stride] = mul(sub(a_c, j), w3);
                }
            }
            _ => {
                let step = n / p;
                for s in 0..stride {
                    for k in 0..p {
                        let mut sum = at(0, s);
                        for r in 1..p {
                            sum = add(sum, mul(at(r, s), roots[r * k % p * step]));
                        }
                        to[s + stride * (p * q + k)] = mul(sum, twiddle(k));
                    }
                }
            }
        }
    }
}

/// Which transform.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Complex,
    /// Real to the first half of the spectrum.
    Forward,
    /// The first half of a spectrum to real.
    Backward,
}

/// Transforms all lines along one dimension.
#[derive(Debug)]
struct Lines<T> {
    plan: Plan<T>,
    n: usize,
    kind: Kind,
    /// Inverse transforms are scaled.
    scale: f64,
    from: Buf,
    starts: Vec<isize>,
    step: isize,
    /// Elements of a line of the input.
    have: usize,
    to: Buf,
    targets: Vec<isize>,
    to_step: isize,
    /// Elements of a line of the result.
    want: usize,
    parts: usize,
}

impl<T: Real> Work for Lines<T> {
    fn parts(&self) -> usize {
        self.parts
    }

    fn cost(&self) -> u64 {
        (self.starts.len() * self.n * (4 + 2 * self.n.max(1).ilog2() as usize)) as u64
    }

    unsafe fn run(&self, frame: &Frame<'_>, scratch: &mut Scratch, part: usize) -> Result<(), Fault> {
        let spare = self.plan.scratch();
        let memory = scratch.get((self.n + spare) * size_of::<C<T>>()).cast::<C<T>>();
        let scale = T::from_f64(self.scale);
        // SAFETY: in the whole function: scratch of that size; elements of the lines.
        unsafe {
            std::ptr::write_bytes(memory, 0, self.n + spare);
            let line = std::slice::from_raw_parts_mut(memory, self.n);
            let spare = std::slice::from_raw_parts_mut(memory.add(self.n), spare);
            for i in piece(self.starts.len(), self.parts, part, 1) {
                let from = frame.ptr(self.from).offset(self.starts[i]).cast_const();
                let to = frame.ptr(self.to).offset(self.targets[i]);
                let read = |k: usize| from.offset(k as isize * self.step).cast::<C<T>>().read_unaligned();
                match self.kind {
                    Kind::Complex => (0..self.n).for_each(|k| line[k] = read(k)),
                    Kind::Forward => {
                        for (k, v) in line.iter_mut().enumerate() {
                            let re = from.offset(k as isize * self.step).cast::<T>().read_unaligned();
                            *v = Complex { re, im: T::default() };
                        }
                    }
                    Kind::Backward => {
                        let half = |k: usize| if k < self.have { read(k) } else { C::default() };
                        for k in 0..self.n {
                            line[k] = match k {
                                // These two are real in the spectrum of a real signal.
                                k if k == 0 || 2 * k == self.n => Complex { re: half(k).re, im: T::default() },
                                k if k <= self.n / 2 => half(k),
                                k => Complex { re: half(self.n - k).re, im: T::default().minus(half(self.n - k).im) },
                            };
                        }
                    }
                }
                self.plan.run(line, spare);
                for k in 0..self.want {
                    let v = Complex { re: line[k].re.times(scale), im: line[k].im.times(scale) };
                    let to = to.offset(k as isize * self.to_step);
                    match self.kind {
                        Kind::Backward => to.cast::<T>().write_unaligned(v.re),
                        _ => to.cast::<C<T>>().write_unaligned(v),
                    }
                }
            }
        }
        Ok(())
    }
}

/// Byte offsets of the lines of `x` along `dim`.
fn lines(x: &View, dim: usize) -> Vec<isize> {
    let others: Vec<usize> = (0..x.dims.len()).filter(|&d| d != dim).collect();
    let pick = |list: &[i64]| -> Vec<i64> { others.iter().map(|&d| list[d]).collect() };
    offsets(&pick(&x.dims), &pick(&x.strides)).into_iter().map(|o| o + x.offset as isize).collect()
}

/// `stablehlo.fft`.
pub(super) fn lower(cx: &mut Lower<'_>, op: OpId) -> Result<bool, String> {
    let data = cx.module.op(op);
    let lengths = attrs::ints(data, "fft_length")?;
    let x = view_of(cx, data.operands()[0])?;
    let Some(kind) = data.enum_value("fft_type") else { return Ok(false) };
    if lengths.is_empty() || lengths.len() > x.dims.len() {
        return Ok(false);
    }
    let wide = match x.elem {
        ElementType::F32 | ElementType::C64 => false,
        ElementType::F64 | ElementType::C128 => true,
        _ => return Ok(false),
    };
    let rank = x.dims.len();
    let first = rank - lengths.len();
    // The dimensions in the order in which they are transformed.
    let inverse = kind.starts_with('I');
    let mut passes: Vec<(usize, Kind)> = match kind {
        "FFT" | "IFFT" => (first..rank).rev().map(|d| (d, Kind::Complex)).collect(),
        "RFFT" => (first..rank - 1).rev().map(|d| (d, Kind::Complex)).collect(),
        "IRFFT" => (first..rank - 1).map(|d| (d, Kind::Complex)).collect(),
        _ => return Ok(false),
    };
    match kind {
        "RFFT" => passes.insert(0, (rank - 1, Kind::Forward)),
        "IRFFT" => passes.push((rank - 1, Kind::Backward)),
        _ => {}
    }
    let result = data.results()[0];
    let (elem, shape) = cx.shape(result);
    let complex = if wide { ElementType::C128 } else { ElementType::C64 };
    let mut view = x;
    for (i, &(dim, kind)) in passes.iter().enumerate() {
        let mut dims = view.dims.clone();
        let last = lengths[lengths.len() - 1];
        let n = match kind {
            Kind::Complex => dims[dim],
            Kind::Forward | Kind::Backward => last,
        } as usize;
        dims[dim] = match kind {
            Kind::Complex => dims[dim],
            Kind::Forward => {
                if last == 0 {
                    0
                } else {
                    last / 2 + 1
                }
            }
            Kind::Backward => last,
        };
        let buf = if i + 1 == passes.len() { cx.result(result) } else { cx.buffer(complex, &dims) };
        let to_elem = if i + 1 == passes.len() { elem } else { complex };
        let to = View::dense(buf, to_elem, if i + 1 == passes.len() { &shape } else { &dims });
        if wide {
            along::<f64>(cx, op, &view, &to, dim, n, kind, inverse)
        } else {
            along::<f32>(cx, op, &view, &to, dim, n, kind, inverse)
        }
        view = to;
    }
    Ok(true)
}

#[allow(clippy::too_many_arguments)]
fn along<T: Real>(cx: &mut Lower<'_>, op: OpId, x: &View, to: &View, dim: usize, n: usize, kind: Kind, inverse: bool) {
    let (starts, targets) = if to.is_empty() || n == 0 { (vec![], vec![]) } else { (lines(x, dim), lines(to, dim)) };
    let work = Lines::<T> {
        plan: Plan::new(n.max(1), if inverse { 1.0 } else { -1.0 }),
        n,
        kind,
        scale: if inverse { 1.0 / n.max(1) as f64 } else { 1.0 },
        from: x.buf,
        parts: parts_of(to.len() * 8, 1 << 15, starts.len().max(1)),
        starts,
        step: x.strides[dim] as isize,
        have: x.dims[dim] as usize,
        to: to.buf,
        targets,
        to_step: to.strides[dim] as isize,
        want: to.dims[dim] as usize,
    };
    cx.step(op, format!("transform {} {:?} along {dim}", x.elem, x.dims), Arc::new(work), vec![x.buf], vec![to.buf]);
}

#[cfg(test)]
mod tests {
    use crate::library::testing::check;

    fn source(kind: &str, from: &str, to: &str, lengths: &[i64]) -> String {
        format!(
            "func.func @main(%a: tensor<{from}>) -> tensor<{to}> {{
            %r = stablehlo.fft %a, type = {kind}, length = {lengths:?} : (tensor<{from}>) -> tensor<{to}>
            return %r : tensor<{to}> }}"
        )
    }

    #[test]
    fn lengths_of_all_factors() {
        for n in [1, 2, 3, 4, 5, 7, 8, 12, 16, 30, 31, 37, 49, 64, 74, 97, 100, 128, 210, 256, 1000, 1024, 1009] {
            for (re, tolerance) in [("f32", 1e-6), ("f64", 1e-12)] {
                let t = format!("2x{n}xcomplex<{re}>");
                check(&source("FFT", &t, &t, &[n]), tolerance);
                check(&source("IFFT", &t, &t, &[n]), tolerance);
                let (real, half) = (format!("2x{n}x{re}"), format!("2x{}xcomplex<{re}>", n / 2 + 1));
                check(&source("RFFT", &real, &half, &[n]), tolerance);
                check(&source("IRFFT", &half, &real, &[n]), tolerance);
            }
        }
    }

    #[test]
    fn several_dimensions() {
        let t = "3x4x5x6xcomplex<f32>";
        check(&source("FFT", t, t, &[4, 5, 6]), 1e-6);
        check(&source("IFFT", t, t, &[5, 6]), 1e-6);
        check(&source("RFFT", "3x4x6xf64", "3x4x4xcomplex<f64>", &[3, 4, 6]), 1e-12);
        check(&source("IRFFT", "3x4x4xcomplex<f64>", "3x4x6xf64", &[4, 6]), 1e-12);
        check(&source("FFT", "0x4xcomplex<f32>", "0x4xcomplex<f32>", &[4]), 1e-6);
    }
}
