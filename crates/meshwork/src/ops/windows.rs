//! Convolutions that widen, and the windows of an input side by side.
//!
//! ```
//! use meshwork::prelude::*;
//!
//! let f = jit(|x: Tensor, k: Tensor| (x.conv_transpose(&k, &[2], &Padding::Same), x.conv_patches(&[2], &[1], &Padding::Valid)));
//! let (wide, patches) = f.call((&Array::full([1, 3, 1], 1.0f32), &Array::full([2, 1, 1], 1.0f32)))?;
//! assert_eq!(wide.shape(), [1, 6, 1]);
//! assert_eq!(patches.shape(), [1, 2, 2]);
//! # Ok::<(), meshwork::Error>(())
//! ```

use meshwork_ir::build::Convolution;

use super::broadcast::same_dtype;
use super::conv::channels_last;
use super::create::eye;
use super::{Conv, Padding};
use crate::Tensor;
use crate::error::fail;
use crate::trace::compose::emit;

impl Tensor {
    /// The convolution with `kernel` of the input with `strides - 1` zeros between its elements: the result is wider by
    /// the strides. Input and kernel as in [`conv`](Tensor::conv); the kernel is not turned round. Explicit padding is
    /// that of the widened input.
    #[track_caller]
    pub fn conv_transpose(&self, kernel: &Tensor, strides: &[i64], padding: &Padding) -> Tensor {
        same_dtype("conv_transpose", self, kernel);
        let (x, k) = (self.shape(), kernel.shape());
        if x.len() < 2 || x.len() != k.len() || strides.len() != x.len() - 2 || strides.iter().any(|&s| s < 1) {
            fail(
                "conv_transpose",
                format!(
                    "input {x:?}, kernel {k:?}, strides {strides:?}: one stride for each of the input's spatial dimensions"
                ),
            );
        }
        let n = x.len() - 2;
        if x[n + 1] != k[n] {
            fail("conv_transpose", format!("input {x:?} has {} features, kernel {k:?} takes {}", x[n + 1], k[n]));
        }
        let around = |i: usize| -> (i64, i64) {
            let (k, s) = (k[i], strides[i]);
            match padding {
                Padding::Same => {
                    let all = k + s - 2;
                    let before = if s > k - 1 { k - 1 } else { (all + 1) / 2 };
                    (before, all - before)
                }
                Padding::Valid => (k - 1, s - 1 + (k - s).max(0)),
                Padding::Explicit(pairs) => pairs.get(i).copied().unwrap_or((0, 0)),
            }
        };
        let conv = Convolution {
            padding: (0..n).map(around).collect(),
            lhs_dilation: strides.to_vec(),
            ..Convolution::new(channels_last(n))
        };
        emit("conv_transpose", &[self, kernel], |b, v| b.convolution(v[0], v[1], conv))
    }

    /// The windows of the input `[batch, spatial…, features]`, each as the features of one position: those of the first
    /// feature, then those of the next.
    #[track_caller]
    pub fn conv_patches(&self, window: &[i64], strides: &[i64], padding: &Padding) -> Tensor {
        let features = self.dim(-1);
        let count: i64 = window.iter().product();
        let one = eye(count, self.dtype()).reshape([window, &[1, count]].concat());
        let kernel = one.tile(features, -1);
        let options = Conv { strides: strides.to_vec(), padding: padding.clone(), groups: features, ..Conv::default() };
        self.conv(&kernel, &options)
    }

    /// The smallest element of each window; one window extent and one step per dimension.
    #[track_caller]
    pub fn min_pool(&self, window: &[i64], strides: &[i64], padding: Padding) -> Tensor {
        -(-self).max_pool(window, strides, padding)
    }

    /// Zero with probability `rate`, and the rest scaled up so that the mean stays.
    #[track_caller]
    pub fn dropout(&self, key: &super::Key, rate: f64) -> Tensor {
        if !(0.0..1.0).contains(&rate) {
            fail("dropout", format!("a rate of {rate}; it is at least 0 and below 1"));
        }
        let keep = key.bernoulli(1.0 - rate, self.shape());
        super::select(keep, self / (1.0 - rate), 0)
    }
}
