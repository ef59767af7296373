//! Fourier transforms of any length, in `f64`.

use std::f64::consts::PI;

use super::fault::Fault;
use super::index::{View, Walk, strides};
use super::nums::{C, c_mul, from_complex, from_f64, to_complex};
use meshwork_ir::{ElementType, Literal};

/// Which transform.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// Complex to complex.
    Fft,
    /// The inverse of [`Kind::Fft`].
    Ifft,
    /// Real to the first half of its symmetric spectrum.
    Rfft,
    /// The inverse of [`Kind::Rfft`].
    Irfft,
}

impl Kind {
    /// The kind spelled `FFT`, `IFFT`, `RFFT` or `IRFFT`.
    pub(crate) fn from_text(text: &str) -> Option<Kind> {
        Some(match text {
            "FFT" => Kind::Fft,
            "IFFT" => Kind::Ifft,
            "RFFT" => Kind::Rfft,
            "IRFFT" => Kind::Irfft,
            _ => return None,
        })
    }
}

/// `stablehlo.fft` over the last `lengths.len()` dimensions.
pub(crate) fn fft(x: &Literal, kind: Kind, lengths: &[i64], elem: ElementType) -> Result<Literal, Fault> {
    let rank = x.dims().len();
    if lengths.len() > rank || lengths.is_empty() {
        return Err(Fault::invalid(format!("{} transform lengths for a tensor of rank {rank}", lengths.len())));
    }
    let first = rank - lengths.len();
    let mut data = Grid { dims: x.dims().to_vec(), values: to_complex(x) };
    let last = lengths[lengths.len() - 1];
    match kind {
        Kind::Fft | Kind::Ifft => {
            for dim in (first..rank).rev() {
                data = data.along(dim, data.dims[dim], |line| transform(line, kind == Kind::Ifft));
            }
        }
        Kind::Rfft => {
            let half = if last == 0 { 0 } else { last / 2 + 1 };
            data = data.along(rank - 1, half, |line| {
                let mut full = transform(line, false);
                full.truncate(half as usize);
                full
            });
            for dim in (first..rank - 1).rev() {
                data = data.along(dim, data.dims[dim], |line| transform(line, false));
            }
        }
        Kind::Irfft => {
            for dim in first..rank - 1 {
                data = data.along(dim, data.dims[dim], |line| transform(line, true));
            }
            data = data.along(rank - 1, last, |line| transform(&mirror(line, last as usize), true));
            let real: Vec<f64> = data.values.iter().map(|v| v.0).collect();
            return from_f64(&data.dims, elem, &real);
        }
    }
    from_complex(&data.dims, elem, &data.values)
}

/// The full spectrum of `n` values of which `half` is the first half.
fn mirror(half: &[C], n: usize) -> Vec<C> {
    let at = |k: usize| half.get(k).copied().unwrap_or((0.0, 0.0));
    (0..n)
        .map(|k| match k {
            // These two are real in the spectrum of a real signal.
            0 => (at(0).0, 0.0),
            k if 2 * k == n => (at(k).0, 0.0),
            k if k <= n / 2 => at(k),
            k => (at(n - k).0, -at(n - k).1),
        })
        .collect()
}

struct Grid {
    dims: Vec<i64>,
    values: Vec<C>,
}

impl Grid {
    /// Replaces each line along `dim` by what `f` makes of it, `length` values.
    fn along(&self, dim: usize, length: i64, f: impl Fn(&[C]) -> Vec<C>) -> Grid {
        let mut dims = self.dims.clone();
        dims[dim] = length;
        let mut values = vec![(0.0, 0.0); dims.iter().product::<i64>() as usize];
        if values.is_empty() || self.values.is_empty() {
            return Grid { dims, values };
        }
        let mut outer: Vec<usize> = self.dims.iter().map(|&d| d as usize).collect();
        let n = std::mem::replace(&mut outer[dim], 1);
        let (from, to) = (strides(&self.dims), strides(&dims));
        let (step, out_step) = (from[dim] as usize, to[dim] as usize);
        let mut walk = Walk::new(&outer, [&View { offset: 0, strides: from }, &View { offset: 0, strides: to }]);
        let mut line = vec![(0.0, 0.0); n];
        while let Some([start, out]) = walk.next() {
            for (i, v) in line.iter_mut().enumerate() {
                *v = self.values[start as usize + i * step];
            }
            for (i, v) in f(&line).into_iter().enumerate() {
                values[out as usize + i * out_step] = v;
            }
        }
        Grid { dims, values }
    }
}

/// The transform of one line; the inverse one is scaled by `1/n`.
fn transform(line: &[C], inverse: bool) -> Vec<C> {
    let n = line.len();
    let sign = if inverse { 1.0 } else { -1.0 };
    let mut out = dft(line, sign);
    if inverse {
        out.iter_mut().for_each(|v| *v = (v.0 / n as f64, v.1 / n as f64));
    }
    out
}

/// Prime factors up to this are summed directly, larger ones by [`bluestein`].
const DIRECT: usize = 64;

/// The sums of a transform of any length.
fn dft(line: &[C], sign: f64) -> Vec<C> {
    let n = line.len();
    if n.is_power_of_two() {
        let mut out = line.to_vec();
        radix2(&mut out, sign);
        return out;
    }
    match (2..=n.min(DIRECT)).find(|p| n.is_multiple_of(*p)) {
        Some(p) => combine(line, p, sign),
        None => bluestein(line, sign),
    }
}

/// `p` interleaved transforms of a `p`th of the length, combined.
fn combine(line: &[C], p: usize, sign: f64) -> Vec<C> {
    let n = line.len();
    let m = n / p;
    let parts: Vec<Vec<C>> = (0..p)
        .map(|r| {
            let part: Vec<C> = line.iter().skip(r).step_by(p).copied().collect();
            if m == 1 { part } else { dft(&part, sign) }
        })
        .collect();
    let roots: Vec<C> = (0..n).map(|k| root(sign, 2 * k, n)).collect();
    (0..n)
        .map(|k| {
            parts.iter().enumerate().fold((0.0, 0.0), |sum, (r, part)| {
                let term = c_mul(part[k % m], roots[r * k % n]);
                (sum.0 + term.0, sum.1 + term.1)
            })
        })
        .collect()
}

/// `e^(sign i pi numerator / denominator)`, with the numerator reduced first for accuracy.
fn root(sign: f64, numerator: usize, denominator: usize) -> C {
    let angle = PI * (numerator % (2 * denominator)) as f64 / denominator as f64;
    (angle.cos(), sign * angle.sin())
}

/// In place, for lengths that are powers of two.
fn radix2(values: &mut [C], sign: f64) {
    let n = values.len();
    let mut j = 0;
    for i in 1..n {
        let mut bit = n >> 1;
        while j & bit != 0 {
            j ^= bit;
            bit >>= 1;
        }
        j |= bit;
        if i < j {
            values.swap(i, j);
        }
    }
    let mut half = 1;
    while half < n {
        let roots: Vec<C> = (0..half).map(|k| root(sign, k, half)).collect();
        for start in (0..n).step_by(2 * half) {
            for k in 0..half {
                let (a, b) = (values[start + k], c_mul(values[start + k + half], roots[k]));
                values[start + k] = (a.0 + b.0, a.1 + b.1);
                values[start + k + half] = (a.0 - b.0, a.1 - b.1);
            }
        }
        half *= 2;
    }
}

/// Any length, as a convolution of a power-of-two length.
fn bluestein(line: &[C], sign: f64) -> Vec<C> {
    let n = line.len();
    if n == 0 {
        return vec![];
    }
    let chirp: Vec<C> = (0..n).map(|k| root(sign, k * k % (2 * n), n)).collect();
    let size = (2 * n - 1).next_power_of_two();
    let mut a = vec![(0.0, 0.0); size];
    let mut b = vec![(0.0, 0.0); size];
    for k in 0..n {
        a[k] = c_mul(line[k], chirp[k]);
        let conj = (chirp[k].0, -chirp[k].1);
        b[k] = conj;
        b[(size - k) % size] = conj;
    }
    radix2(&mut a, -1.0);
    radix2(&mut b, -1.0);
    a.iter_mut().zip(&b).for_each(|(x, &y)| *x = c_mul(*x, y));
    radix2(&mut a, 1.0);
    let scale = 1.0 / size as f64;
    (0..n).map(|k| c_mul((a[k].0 * scale, a[k].1 * scale), chirp[k])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::tests::{f64s, to_f64s};

    fn naive(line: &[C]) -> Vec<C> {
        let n = line.len();
        let term = |k: usize| {
            line.iter().enumerate().fold((0.0, 0.0), |acc, (j, &v)| {
                let p = c_mul(v, root(-1.0, 2 * (j * k % n), n));
                (acc.0 + p.0, acc.1 + p.1)
            })
        };
        (0..n).map(term).collect()
    }

    #[test]
    fn agrees_with_the_definition_at_any_length() {
        for n in [1, 2, 3, 4, 5, 7, 12, 13, 16, 31, 60, 67, 134, 201] {
            let line: Vec<C> = (0..n).map(|i| ((i * i % 7) as f64 - 2.0, (i % 3) as f64)).collect();
            for (a, b) in transform(&line, false).iter().zip(naive(&line)) {
                assert!((a.0 - b.0).abs() < 1e-9 && (a.1 - b.1).abs() < 1e-9, "{n}: {a:?} {b:?}");
            }
            for (a, b) in transform(&transform(&line, false), true).iter().zip(&line) {
                assert!((a.0 - b.0).abs() < 1e-12 && (a.1 - b.1).abs() < 1e-12, "{n}");
            }
        }
    }

    #[test]
    fn real_transforms_are_inverse_in_two_dimensions() {
        for (rows, columns) in [(2, 3), (3, 4), (1, 1), (5, 2)] {
            let values: Vec<f64> = (0..rows * columns).map(|i| (i * 5 % 11) as f64).collect();
            let x = f64s(&[rows, columns], &values);
            let spectrum = fft(&x, Kind::Rfft, &[rows, columns], ElementType::C128).unwrap();
            assert_eq!(spectrum.dims(), [rows, columns / 2 + 1]);
            let back = fft(&spectrum, Kind::Irfft, &[rows, columns], ElementType::F64).unwrap();
            for (a, b) in to_f64s(&back).iter().zip(&values) {
                assert!((a - b).abs() < 1e-12);
            }
        }
    }
}
