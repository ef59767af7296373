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
