//! Fourier transforms over the last dimensions.

use crate::Tensor;
use crate::error::fail;
use crate::trace::compose::emit;

impl Tensor {
    /// The Fourier transform over the last `dims` dimensions of complex numbers.
    #[track_caller]
    pub fn fft(&self, dims: usize) -> Tensor {
        let lengths = self.last_extents("fft", dims);
        emit("fft", &[self], |b, v| b.fft(v[0], "FFT", &lengths))
    }

    /// The inverse of [`fft`](Tensor::fft).
    #[track_caller]
    pub fn ifft(&self, dims: usize) -> Tensor {
        let lengths = self.last_extents("ifft", dims);
        emit("ifft", &[self], |b, v| b.fft(v[0], "IFFT", &lengths))
    }

    /// The Fourier transform over the last `dims` dimensions of real numbers; of the last one, the first half.
    #[track_caller]
    pub fn rfft(&self, dims: usize) -> Tensor {
        let lengths = self.last_extents("rfft", dims);
        emit("rfft", &[self], |b, v| b.fft(v[0], "RFFT", &lengths))
    }

    /// The inverse of [`rfft`](Tensor::rfft); the last dimension of the result has extent `last`.
    #[track_caller]
    pub fn irfft(&self, dims: usize, last: i64) -> Tensor {
        let mut lengths = self.last_extents("irfft", dims);
        if let Some(extent) = lengths.last_mut() {
            *extent = last;
        }
        emit("irfft", &[self], |b, v| b.fft(v[0], "IRFFT", &lengths))
    }

    #[track_caller]
    fn last_extents(&self, op: &str, dims: usize) -> Vec<i64> {
        if dims == 0 || dims > self.rank() || dims > 3 {
            fail(op, format!("over {dims} dimensions of {}; one to three are possible", self.describe()));
        }
        self.shape()[self.rank() - dims..].to_vec()
    }
}

/// The frequencies of [`Tensor::fft`] of `n` samples at distances `d`.
#[track_caller]
pub fn fftfreq(n: i64, d: f64, dtype: crate::ElementType) -> Tensor {
    let at = crate::ops::arange(n, dtype);
    let half = (n + 1) / 2;
    crate::ops::select(at.lt(half), &at, &at - n) / (n as f64 * d)
}

/// The frequencies of [`Tensor::rfft`] of `n` samples at distances `d`.
#[track_caller]
pub fn rfftfreq(n: i64, d: f64, dtype: crate::ElementType) -> Tensor {
    crate::ops::arange(n / 2 + 1, dtype) / (n as f64 * d)
}

impl Tensor {
    /// Moves frequency 0 to the middle of `axes`.
    #[track_caller]
    pub fn fftshift(&self, axes: &[i64]) -> Tensor {
        axes.iter().fold(self.clone(), |x, &axis| x.roll(x.dim(axis) / 2, axis))
    }

    /// The inverse of [`fftshift`](Tensor::fftshift).
    #[track_caller]
    pub fn ifftshift(&self, axes: &[i64]) -> Tensor {
        axes.iter().fold(self.clone(), |x, &axis| x.roll(-(x.dim(axis) / 2), axis))
    }
}
