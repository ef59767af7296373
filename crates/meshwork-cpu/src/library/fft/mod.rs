//! Fourier transforms: `fft` along one dimension after another, lines side by side in vectors ([`lanes`]) or one by one by
//! `rustfft`.
//!
//! A real line of even length is transformed as a complex one of half the length: its even elements are the real
//! parts, its odd ones the imaginary parts, and one pass separates the two spectra.

#[cfg(target_arch = "x86_64")]
mod lanes;
#[cfg(target_arch = "x86_64")]
mod side;
#[cfg(target_arch = "x86_64")]
mod vector;

use std::f64::consts::PI;
use std::fmt;
use std::sync::Arc;

use meshwork_ir::{ElementType, OpId};
use rustfft::num_complex::Complex;
use rustfft::{Fft, FftDirection, FftNum};

use super::attrs;
use super::copy::dense;
use super::nest::{parts_of, piece};
use crate::compile::lower::Lower;
use crate::step::{Buf, Fault, Frame, Scratch, Work};

/// Which transform.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Complex,
    /// Real to the first half of the spectrum.
    Forward,
    /// The first half of a spectrum to real.
    Backward,
}

/// Lines that are transformed together if they are not contiguous: they are read and written side by side.
const WIDTH: usize = 16;

/// Transforms all lines along one dimension of a dense array `[outer, have, inner]` to `[outer, want, inner]`.
struct Lines<T> {
    /// Of `n` complex numbers, or of half as many if the lines are real and `n` is even.
    fft: Arc<dyn Fft<T>>,
    n: usize,
    kind: Kind,
    /// `e^(±2πi k/n)` for `k` up to `n/2`, to join the halves of real lines.
    roots: Vec<Complex<T>>,
    is_inverse: bool,
    /// Of the results; inverse transforms are scaled.
    scale: T,
    from: Buf,
    to: Buf,
    outer: usize,
    inner: usize,
    have: usize,
    want: usize,
    parts: usize,
    /// How lines are transformed side by side, if they are.
    #[cfg(target_arch = "x86_64")]
    stages: Option<lanes::Stages<T>>,
}

#[cfg(target_arch = "x86_64")]
use side::Wide;

/// A number type with transforms.
#[cfg(not(target_arch = "x86_64"))]
trait Wide: FftNum {}
#[cfg(not(target_arch = "x86_64"))]
impl<T: FftNum> Wide for T {}

impl<T: FftNum> fmt::Debug for Lines<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Lines({:?}, {} lines of {})", self.kind, self.outer * self.inner, self.n)
    }
}

impl<T: Wide> Lines<T> {
    /// Contiguous lines that one call transforms.
    fn rows(&self) -> usize {
        ((1 << 12) / self.n.max(1)).clamp(1, WIDTH)
    }

    /// Lines of one group if they are done side by side.
    fn together(&self) -> Option<usize> {
        #[cfg(target_arch = "x86_64")]
        if self.stages.is_some() {
            return Some(T::lanes()? * if self.kind == Kind::Complex { 1 } else { 2 });
        }
        None
    }

    /// Groups of lines that are transformed together.
    fn groups(&self) -> usize {
        if let Some(width) = self.together() {
            return if self.inner == 1 { self.outer.div_ceil(width) } else { self.outer * self.inner.div_ceil(width) };
        }
        if self.inner == 1 { self.outer.div_ceil(self.rows()) } else { self.outer * self.inner.div_ceil(WIDTH) }
    }

    /// Whether real lines are done as complex ones of half the length.
    fn is_halved(&self) -> bool {
        self.kind != Kind::Complex && self.n.is_multiple_of(2)
    }

    /// The groups of one part, each in lanes of vectors.
    ///
    /// # Safety
    /// As [`Work::run`].
    #[cfg(target_arch = "x86_64")]
    unsafe fn side_by_side_in_vectors(
        &self,
        frame: &Frame<'_>,
        scratch: &mut Scratch,
        part: usize,
        stages: &lanes::Stages<T>,
        width: usize,
    ) {
        let numbers = side::Group::<T>::numbers(self.n);
        let memory = scratch.get(numbers * size_of::<T>()).cast::<T>();
        let (from, to) = (frame.ptr(self.from).cast::<T>().cast_const(), frame.ptr(self.to).cast::<T>());
        let numbers_of = |kind: Kind, n: usize| if self.kind == kind { n } else { 2 * n };
        // A line's numbers, of real lines on one side and of complex ones on the other.
        let (from_line, to_line) = (numbers_of(Kind::Forward, self.have), numbers_of(Kind::Backward, self.want));
        // SAFETY: in the whole block: scratch of that size; groups of lines of the two arrays.
        unsafe {
            for group in piece(self.groups(), self.parts, part, 1) {
                let (at, to_at, lines, from_line, to_line) = if self.inner > 1 {
                    let columns = self.inner.div_ceil(width);
                    let (o, i) = (group / columns, group % columns * width);
                    let at = 2 * (o * self.n * self.inner + i);
                    (at, at, width.min(self.inner - i), 0, 0)
                } else {
                    let first = group * width;
                    (first * from_line, first * to_line, width.min(self.outer - first), from_line, to_line)
                };
                T::run(&side::Group {
                    stages,
                    kind: self.kind,
                    is_inverse: self.is_inverse,
                    scale: self.scale,
                    from: from.add(at),
                    to: to.add(to_at),
                    from_line,
                    to_line,
                    inner: self.inner,
                    lines,
                    memory,
                });
            }
        }
    }

    /// Complex lines side by side.
    ///
    /// # Safety
    /// `from` and `to` are the first elements of `width` neighboring lines.
    unsafe fn side_by_side(
        &self,
        from: *const Complex<T>,
        to: *mut Complex<T>,
        width: usize,
        lines: &mut [Complex<T>],
        spare: &mut [Complex<T>],
    ) {
        let (n, inner) = (self.n, self.inner);
        let lines = &mut lines[..width * n];
        for k in 0..n {
            for w in 0..width {
                // SAFETY: element `k` of line `w`.
                lines[w * n + k] = unsafe { *from.add(k * inner + w) };
            }
        }
        self.fft.process_with_scratch(lines, spare);
        for k in 0..n {
            for w in 0..width {
                // SAFETY: element `k` of line `w`.
                unsafe { *to.add(k * inner + w) = lines[w * n + k] * self.scale };
            }
        }
    }

    /// One real line to half a spectrum.
    fn forward(&self, from: &[T], to: &mut [Complex<T>], line: &mut [Complex<T>], spare: &mut [Complex<T>]) {
        if !self.is_halved() {
            line.iter_mut().zip(from).for_each(|(c, &re)| *c = Complex::new(re, T::zero()));
            self.fft.process_with_scratch(line, spare);
            return to.copy_from_slice(&line[..to.len()]);
        }
        let half = self.n / 2;
        for (c, pair) in line.iter_mut().zip(from.chunks_exact(2)) {
            *c = Complex::new(pair[0], pair[1]);
        }
        self.fft.process_with_scratch(&mut line[..half], spare);
        line[half] = line[0];
        let scale = T::from_f64(0.5).unwrap_or_else(T::one);
        for (k, ((x, root), z)) in to.iter_mut().zip(&self.roots).zip(&*line).enumerate() {
            let other = line[half - k].conj();
            let (even, odd) = (z + other, z - other);
            *x = (even + root * Complex::new(odd.im, -odd.re)) * scale;
        }
    }

    /// Half a spectrum to one real line. The imaginary parts of the first and (of an even length) last element
    /// count as zero.
    fn backward(&self, from: &[Complex<T>], to: &mut [T], line: &mut [Complex<T>], spare: &mut [Complex<T>]) {
        let half = self.n / 2;
        let at = |k: usize| match from.get(k) {
            Some(x) if k == 0 || 2 * k == self.n => Complex::new(x.re, T::zero()),
            Some(&x) => x,
            None => Complex::new(T::zero(), T::zero()),
        };
        if !self.is_halved() {
            for k in 0..self.n {
                line[k] = if k <= half { at(k) } else { at(self.n - k).conj() };
            }
            self.fft.process_with_scratch(line, spare);
            return to.iter_mut().zip(line).for_each(|(x, c)| *x = c.re * self.scale);
        }
        for k in 0..half {
            let (x, other) = (at(k), at(half - k).conj());
            let (even, odd) = (x + other, self.roots[k] * (x - other));
            line[k] = even + Complex::new(-odd.im, odd.re);
        }
        self.fft.process_with_scratch(&mut line[..half], spare);
        for (pair, c) in to.chunks_exact_mut(2).zip(line) {
            (pair[0], pair[1]) = (c.re * self.scale, c.im * self.scale);
        }
    }
}

impl<T: Wide> Work for Lines<T> {
    fn parts(&self) -> usize {
        self.parts
    }

    fn cost(&self) -> u64 {
        (self.outer * self.inner * self.n * (2 + self.n.max(1).ilog2() as usize) / 4) as u64
    }

    unsafe fn run(&self, frame: &Frame<'_>, scratch: &mut Scratch, part: usize) -> Result<(), Fault> {
        #[cfg(target_arch = "x86_64")]
        if let (Some(stages), Some(width)) = (&self.stages, self.together()) {
            // SAFETY: the trait's contract.
            unsafe { self.side_by_side_in_vectors(frame, scratch, part, stages, width) };
            return Ok(());
        }
        let width = if self.kind == Kind::Complex { WIDTH.min(self.inner) } else { 1 };
        let (len, spare) =
            (width * (self.n + 1), self.fft.get_inplace_scratch_len().max(self.fft.get_immutable_scratch_len()));
        let memory = scratch.get((len + spare) * size_of::<Complex<T>>()).cast::<Complex<T>>();
        let (from, to) = (frame.ptr(self.from), frame.ptr(self.to));
        // SAFETY: in the whole function: scratch of that size; groups of lines of the two arrays.
        unsafe {
            std::ptr::write_bytes(memory, 0, len + spare);
            let lines = std::slice::from_raw_parts_mut(memory, len);
            let spare = std::slice::from_raw_parts_mut(memory.add(len), spare);
            for group in piece(self.groups(), self.parts, part, 1) {
                if self.inner > 1 {
                    let columns = self.inner.div_ceil(WIDTH);
                    let (o, i) = (group / columns, group % columns * WIDTH);
                    let at = o * self.n * self.inner + i;
                    let (from, to) = (from.cast::<Complex<T>>().add(at), to.cast::<Complex<T>>().add(at));
                    self.side_by_side(from, to, WIDTH.min(self.inner - i), lines, spare);
                    continue;
                }
                let first = group * self.rows();
                let rows = self.rows().min(self.outer - first);
                match self.kind {
                    Kind::Complex => {
                        let (from, to) = (part_of(from, first, rows, self.n), part_of_mut(to, first, rows, self.n));
                        self.fft.process_immutable_with_scratch(from, to, spare);
                        if self.scale != T::one() {
                            to.iter_mut().for_each(|c: &mut Complex<T>| *c = *c * self.scale);
                        }
                    }
                    Kind::Forward => {
                        for o in first..first + rows {
                            let (from, to) = (part_of(from, o, 1, self.have), part_of_mut(to, o, 1, self.want));
                            self.forward(from, to, &mut lines[..self.n.max(self.n / 2 + 1)], spare);
                        }
                    }
                    Kind::Backward => {
                        for o in first..first + rows {
                            let (from, to) = (part_of(from, o, 1, self.have), part_of_mut(to, o, 1, self.want));
                            self.backward(from, to, &mut lines[..self.n], spare);
                        }
                    }
                }
            }
        }
        Ok(())
    }
}

/// `rows` rows of `n` elements each, from row `first` on.
///
/// # Safety
/// They are valid, and nothing writes them meanwhile.
unsafe fn part_of<'a, E>(base: *const u8, first: usize, rows: usize, n: usize) -> &'a [E] {
    // SAFETY: the caller's.
    unsafe { std::slice::from_raw_parts(base.cast::<E>().add(first * n), rows * n) }
}

/// The same, to be written.
///
/// # Safety
/// They are valid, and nothing else uses them meanwhile.
unsafe fn part_of_mut<'a, E>(base: *mut u8, first: usize, rows: usize, n: usize) -> &'a mut [E] {
    // SAFETY: the caller's.
    unsafe { std::slice::from_raw_parts_mut(base.cast::<E>().add(first * n), rows * n) }
}

/// `stablehlo.fft`.
pub(super) fn lower(cx: &mut Lower<'_>, op: OpId) -> Result<bool, String> {
    let data = cx.module.op(op);
    let lengths = attrs::ints(data, "fft_length")?;
    let (elem, mut dims) = cx.shape(data.operands()[0]);
    let rank = dims.len();
    let (Some(name), Some(&last)) = (data.enum_value("fft_type"), lengths.last()) else { return Ok(false) };
    let complex = match elem {
        ElementType::F32 | ElementType::C64 => ElementType::C64,
        ElementType::F64 | ElementType::C128 => ElementType::C128,
        _ => return Ok(false),
    };
    if lengths.len() > rank {
        return Ok(false);
    }
    // The dimensions in the order in which they are transformed.
    let others = rank - lengths.len()..rank - 1;
    let others = others.rev().map(|d| (d, Kind::Complex));
    let (passes, direction): (Vec<(usize, Kind)>, _) = match name {
        "FFT" => ([(rank - 1, Kind::Complex)].into_iter().chain(others).collect(), FftDirection::Forward),
        "IFFT" => ([(rank - 1, Kind::Complex)].into_iter().chain(others).collect(), FftDirection::Inverse),
        "RFFT" => ([(rank - 1, Kind::Forward)].into_iter().chain(others).collect(), FftDirection::Forward),
        "IRFFT" => (others.chain([(rank - 1, Kind::Backward)]).collect(), FftDirection::Inverse),
        _ => return Ok(false),
    };
    let mut from = dense(cx, op, data.operands()[0])?;
    let result = data.results()[0];
    for (i, &(dim, kind)) in passes.iter().enumerate() {
        let (n, want) = match kind {
            Kind::Complex => (dims[dim], dims[dim]),
            Kind::Forward if last == 0 => (0, 0),
            Kind::Forward => (last, last / 2 + 1),
            Kind::Backward => (last, last),
        };
        let pass = Pass { dim, kind, n: n as usize, have: dims[dim] as usize, want: want as usize, direction };
        dims[dim] = want;
        let to = if i + 1 == passes.len() { cx.result(result) } else { cx.buffer(complex, &dims) };
        if complex == ElementType::C64 {
            along::<f32>(cx, op, from, to, &dims, pass)
        } else {
            along::<f64>(cx, op, from, to, &dims, pass)
        }
        from = to;
    }
    Ok(true)
}

/// The transform of one dimension.
struct Pass {
    dim: usize,
    kind: Kind,
    n: usize,
    have: usize,
    want: usize,
    direction: FftDirection,
}

/// Adds the step from `from` to `to`, which has the extents `dims`.
fn along<T: Wide>(cx: &mut Lower<'_>, op: OpId, from: Buf, to: Buf, dims: &[i64], pass: Pass) {
    let Pass { dim, kind, n, have, want, direction } = pass;
    let product = |dims: &[i64]| dims.iter().product::<i64>() as usize;
    let is_empty = n == 0 || product(dims) == 0;
    let (outer, inner) = if is_empty { (0, 1) } else { (product(&dims[..dim]), product(&dims[dim + 1..])) };
    let (sign, scale) = match direction {
        FftDirection::Forward => (-1.0, 1.0),
        FftDirection::Inverse => (1.0, 1.0 / n.max(1) as f64),
    };
    let number = |x: f64| T::from_f64(x).unwrap_or_else(T::zero);
    let root = |k: usize| {
        let angle = 2.0 * PI * k as f64 / n as f64;
        Complex::new(number(angle.cos()), number(sign * angle.sin()))
    };
    // Half of a spectrum may be given in part.
    #[cfg(target_arch = "x86_64")]
    let expected = if kind == Kind::Backward { n / 2 + 1 } else { n };
    let is_halved = kind != Kind::Complex && n.is_multiple_of(2);
    let length = if is_halved { n / 2 } else { n };
    let mut work = Lines::<T> {
        fft: plan(length.max(1), direction),
        n,
        kind,
        roots: if is_halved { (0..=n / 2).map(root).collect() } else { vec![] },
        is_inverse: direction == FftDirection::Inverse,
        scale: number(scale),
        from,
        to,
        outer,
        inner,
        have,
        want,
        parts: 1,
        #[cfg(target_arch = "x86_64")]
        stages: if have == expected { side::stages(n, kind, outer * inner, inner) } else { None },
    };
    work.parts = parts_of(outer * inner * n * 8, 1 << 15, work.groups());
    cx.step(op, format!("transform {dims:?} along {dim}"), Arc::new(work), vec![from], vec![to]);
}

/// The transform of a line of `n` numbers.
#[cfg(not(target_arch = "x86_64"))]
fn plan<T: FftNum>(n: usize, direction: FftDirection) -> Arc<dyn Fft<T>> {
    rustfft::FftPlanner::new().plan_fft(n, direction)
}

/// The transform of a line of `n` numbers.
#[cfg(target_arch = "x86_64")]
fn plan<T: FftNum>(n: usize, direction: FftDirection) -> Arc<dyn Fft<T>> {
    match rustfft::FftPlannerAvx::new() {
        Ok(mut planner) => planner.plan_fft(n, direction),
        Err(()) => plain(n, direction),
    }
}

/// The transform for processors without AVX: all lengths by those of powers of two. `rustfft` has more algorithms for them,
/// which take every build longer.
#[cfg(target_arch = "x86_64")]
fn plain<T: FftNum>(n: usize, direction: FftDirection) -> Arc<dyn Fft<T>> {
    use rustfft::algorithm::{BluesteinsAlgorithm, Radix4};
    if n.is_power_of_two() {
        return Arc::new(Radix4::new(n, direction));
    }
    Arc::new(BluesteinsAlgorithm::new(n, Arc::new(Radix4::new((2 * n - 1).next_power_of_two(), direction))))
}

#[cfg(test)]
mod tests {
    use crate::library::testing::check;

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn processors_without_avx_have_all_lengths() {
        use rustfft::num_complex::Complex;
        for n in [1, 2, 3, 8, 30, 37, 64, 1009] {
            for direction in [rustfft::FftDirection::Forward, rustfft::FftDirection::Inverse] {
                let line: Vec<Complex<f64>> = (0..n).map(|i| Complex::new((i % 7) as f64, (i % 5) as f64)).collect();
                let (mut a, mut b) = (line.clone(), line);
                super::plan(n, direction).process(&mut a);
                super::plain(n, direction).process(&mut b);
                let worst = a.iter().zip(&b).map(|(a, b)| (a - b).norm()).fold(0.0, f64::max);
                assert!(worst < 1e-9, "{n} {direction:?}: {worst}");
            }
        }
    }

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

    /// As many lines as fill vectors, one less, one more, and odd ones of pairs.
    #[test]
    fn lines_side_by_side() {
        for n in [2, 3, 5, 8, 9, 16, 30, 49, 60, 64, 121, 128, 169, 250, 315] {
            for (re, tolerance) in [("f32", 1e-6), ("f64", 1e-12)] {
                for lines in [15, 16, 17, 33] {
                    let t = format!("{lines}x{n}xcomplex<{re}>");
                    let (real, half) = (format!("{lines}x{n}x{re}"), format!("{lines}x{}xcomplex<{re}>", n / 2 + 1));
                    check(&source("RFFT", &real, &half, &[n]), tolerance);
                    check(&source("IRFFT", &half, &real, &[n]), tolerance);
                    if n < 300 {
                        check(&source("FFT", &t, &t, &[n]), tolerance);
                        check(&source("IFFT", &t, &t, &[n]), tolerance);
                        let columns = format!("2x{n}x{lines}xcomplex<{re}>");
                        check(&source("FFT", &columns, &columns, &[n, lines]), tolerance);
                        check(&source("IFFT", &columns, &columns, &[n, lines]), tolerance);
                    }
                }
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
        // More columns than go side by side, and more rows than one call takes.
        check(&source("FFT", "2x5x37xcomplex<f64>", "2x5x37xcomplex<f64>", &[5, 37]), 1e-12);
        check(&source("RFFT", "37x8xf32", "37x5xcomplex<f32>", &[8]), 1e-6);
        check(&source("IRFFT", "37x5xcomplex<f32>", "37x8xf32", &[8]), 1e-6);
    }
}
