//! Fourier transforms of any length: the sums of their definition, in `f64`.

use std::f64::consts::PI;

use super::fault::Fault;
use super::index::{each_index, position};
use super::nums::{from_complex, to_complex};
use super::special::Cplx;
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

/// The sign of the exponent.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    Forward,
    Inverse,
}

/// `stablehlo.fft` over the last `lengths.len()` dimensions.
pub(crate) fn fft(x: &Literal, kind: Kind, lengths: &[i64], elem: ElementType) -> Result<Literal, Fault> {
    let rank = x.dims().len();
    let (Some(&length), true) = (lengths.last(), lengths.len() <= rank) else {
        return Err(Fault::invalid(format!("{} transform lengths for a tensor of rank {rank}", lengths.len())));
    };
    let (first, last) = (rank - lengths.len(), rank - 1);
    let direction = match kind {
        Kind::Fft | Kind::Rfft => Direction::Forward,
        Kind::Ifft | Kind::Irfft => Direction::Inverse,
    };
    let mut data = Grid { dims: x.dims().to_vec(), values: to_complex(x) };
    if kind == Kind::Rfft {
        let half = if length == 0 { 0 } else { length / 2 + 1 };
        data = data.along(last, half, |line| transform(line, direction))?;
    }
    let others = if matches!(kind, Kind::Rfft | Kind::Irfft) { first..last } else { first..rank };
    for dim in others {
        data = data.along(dim, data.dims[dim], |line| transform(line, direction))?;
    }
    if kind == Kind::Irfft {
        data = data.along(last, length, |line| transform(&mirror(line, length as usize), direction))?;
    }
    from_complex(&data.dims, elem, &data.values)
}

/// The full spectrum of `n` values of which `half` is the first half.
fn mirror(half: &[Cplx], n: usize) -> Vec<Cplx> {
    let at = |k: usize| half.get(k).copied().unwrap_or(Cplx::ZERO);
    (0..n)
        .map(|k| match k {
            // These two are real in the spectrum of a real signal.
            0 => Cplx::new(at(0).re, 0.0),
            k if 2 * k == n => Cplx::new(at(k).re, 0.0),
            k if k <= n / 2 => at(k),
            k => at(n - k).conj(),
        })
        .collect()
}

struct Grid {
    dims: Vec<i64>,
    values: Vec<Cplx>,
}

impl Grid {
    /// Replaces each line along `dim` by the first `length` values of what `f` makes of it.
    fn along(&self, dim: usize, length: i64, f: impl Fn(&[Cplx]) -> Vec<Cplx>) -> Result<Grid, Fault> {
        let mut dims = self.dims.clone();
        dims[dim] = length;
        let mut values = vec![Cplx::ZERO; dims.iter().product::<i64>() as usize];
        let mut lines = self.dims.clone();
        lines[dim] = lines[dim].min(length).min(1);
        each_index(&lines, |_, start| {
            let at = |dims: &[i64], i: i64| {
                let mut index = start.to_vec();
                index[dim] = i;
                position(dims, &index)
            };
            let line: Vec<Cplx> = (0..self.dims[dim]).map(|i| self.values[at(&self.dims, i)]).collect();
            f(&line).into_iter().zip(0..length).for_each(|(v, i)| values[at(&dims, i)] = v);
            Ok(())
        })?;
        Ok(Grid { dims, values })
    }
}

/// The transform of one line by its definition; the inverse one is scaled by `1/n`.
fn transform(line: &[Cplx], direction: Direction) -> Vec<Cplx> {
    let n = line.len();
    let (sign, scale) = if direction == Direction::Forward { (-1.0, 1.0) } else { (1.0, 1.0 / n as f64) };
    let angle = |k: usize| 2.0 * PI * k as f64 / n as f64;
    let roots: Vec<Cplx> = (0..n).map(|k| Cplx::new(angle(k).cos(), sign * angle(k).sin())).collect();
    (0..n).map(|k| (0..n).fold(Cplx::ZERO, |sum, j| sum + line[j] * roots[j * k % n]).scale(scale)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::tests::{f64s, to_f64s};

    #[test]
    fn inverse_gives_back_the_line() {
        for n in [1, 2, 3, 4, 5, 7, 12, 13, 16, 31, 60, 67, 134, 201] {
            let line: Vec<Cplx> = (0..n).map(|i| Cplx::new((i * i % 7) as f64 - 2.0, (i % 3) as f64)).collect();
            for (a, b) in transform(&transform(&line, Direction::Forward), Direction::Inverse).iter().zip(&line) {
                assert!((*a - *b).abs() < 1e-12, "{n}");
            }
        }
        let line = [1.0, 2.0, 3.0, 4.0].map(|v| Cplx::new(v, 0.0));
        let want = [(10.0, 0.0), (-2.0, 2.0), (-2.0, 0.0), (-2.0, -2.0)];
        for (got, want) in transform(&line, Direction::Forward).iter().zip(want) {
            assert!((*got - want.into()).abs() < 1e-14);
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
