//! Convolutions and pooling.

use meshwork_ir::attr::ConvDims;
use meshwork_ir::build::{Convolution, Window};

use super::broadcast::same_dtype;
use super::reduce::{Combine, reduce_window};
use crate::Tensor;
use crate::error::fail;
use crate::trace::compose::emit;

/// The padding around the input of a window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Padding {
    /// Nothing: only windows that fit.
    Valid,
    /// As much that the result has the input's extent divided by the step, rounded up.
    Same,
    /// So many before and after, per windowed dimension.
    Explicit(Vec<(i64, i64)>),
}

impl Padding {
    /// Padding before and after each dimension.
    #[track_caller]
    fn pairs(&self, op: &str, extents: &[i64], windows: &[i64], steps: &[i64]) -> Vec<(i64, i64)> {
        match self {
            Padding::Valid => vec![(0, 0); extents.len()],
            Padding::Explicit(pairs) if pairs.len() == extents.len() => pairs.clone(),
            Padding::Explicit(pairs) => {
                fail(op, format!("{} pairs of padding for {} dimensions", pairs.len(), extents.len()))
            }
            Padding::Same => (0..extents.len())
                .map(|i| {
                    let out = (extents[i] + steps[i] - 1) / steps[i];
                    let total = ((out - 1) * steps[i] + windows[i] - extents[i]).max(0);
                    (total / 2, total - total / 2)
                })
                .collect(),
        }
    }
}

/// How a convolution runs: see [`Tensor::conv`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conv {
    /// Step per spatial dimension; empty means 1.
    pub strides: Vec<i64>,
    /// The padding around the input.
    pub padding: Padding,
    /// Distance of the kernel's elements per spatial dimension; empty means 1.
    pub dilation: Vec<i64>,
    /// Number of groups of features that are convolved apart.
    pub groups: i64,
}

impl Default for Conv {
    fn default() -> Self {
        Conv { strides: vec![], padding: Padding::Valid, dilation: vec![], groups: 1 }
    }
}

#[track_caller]
fn per_dimension(op: &str, what: &str, list: &[i64], count: usize) -> Vec<i64> {
    match list.len() {
        0 => vec![1; count],
        n if n == count && list.iter().all(|&x| x > 0) => list.to_vec(),
        n if n == count => fail(op, format!("{what} {list:?} must be positive")),
        n => fail(op, format!("{n} {what} for {count} spatial dimensions")),
    }
}

impl Tensor {
    /// The convolution with `kernel`. The input is `[batch, spatial…, features]`, the kernel
    /// `[spatial…, input features / groups, output features]`, the result like the input.
    #[track_caller]
    pub fn conv(&self, kernel: &Tensor, options: &Conv) -> Tensor {
        same_dtype("conv", self, kernel);
        let (x, k) = (self.shape(), kernel.shape());
        if x.len() < 2 || x.len() != k.len() {
            fail("conv", format!("input {x:?} and kernel {k:?}: both need the same rank, at least 2"));
        }
        let n = x.len() - 2;
        let (features, wanted) = (x[n + 1], k[n] * options.groups);
        if features != wanted {
            fail(
                "conv",
                format!(
                    "input {x:?} has {features} features, kernel {k:?} in {} groups takes {wanted}",
                    options.groups
                ),
            );
        }
        let strides = per_dimension("conv", "strides", &options.strides, n);
        let dilation = per_dimension("conv", "dilations", &options.dilation, n);
        let windows: Vec<i64> = (0..n).map(|i| (k[i] - 1) * dilation[i] + 1).collect();
        let padding = options.padding.pairs("conv", &x[1..=n], &windows, &strides);
        let conv = Convolution {
            strides,
            padding,
            rhs_dilation: dilation,
            feature_groups: options.groups,
            ..Convolution::new(channels_last(n))
        };
        emit("conv", &[self, kernel], |b, v| b.convolution(v[0], v[1], conv))
    }

    /// The largest element of each window; one window extent and one step per dimension, or per spatial dimension of
    /// `[batch, spatial.., features]`.
    ///
    /// ```
    /// use meshwork::prelude::*;
    ///
    /// let halved = jit(|x: Tensor| x.max_pool(&[2, 2], &[2, 2], Padding::Valid));
    /// assert_eq!(halved.call(&Array::zeros([8, 28, 28, 3], F32))?.shape(), [8, 14, 14, 3]);
    /// # Ok::<(), meshwork::Error>(())
    /// ```
    #[track_caller]
    pub fn max_pool(&self, window: &[i64], strides: &[i64], padding: Padding) -> Tensor {
        self.pool("max_pool", Combine::Max, window, strides, padding)
    }

    /// The sum of each window, which is given as for [`max_pool`](Tensor::max_pool).
    #[track_caller]
    pub fn sum_pool(&self, window: &[i64], strides: &[i64], padding: Padding) -> Tensor {
        self.pool("sum_pool", Combine::Sum, window, strides, padding)
    }

    /// The mean of each window, of the elements that are inside; windows are given as for [`max_pool`](Tensor::max_pool).
    #[track_caller]
    pub fn avg_pool(&self, window: &[i64], strides: &[i64], padding: Padding) -> Tensor {
        let count = self.ones_like().pool("avg_pool", Combine::Sum, window, strides, padding.clone());
        self.pool("avg_pool", Combine::Sum, window, strides, padding) / count
    }

    #[track_caller]
    fn pool(&self, op: &str, how: Combine, window: &[i64], strides: &[i64], padding: Padding) -> Tensor {
        if window.len() == strides.len() && !window.is_empty() && window.len() + 2 == self.rank() {
            let around = |inside: &[i64]| [&[1], inside, &[1]].concat();
            let padding = match padding {
                Padding::Explicit(pairs) => Padding::Explicit([&[(0, 0)], &pairs[..], &[(0, 0)]].concat()),
                other => other,
            };
            return self.pool(op, how, &around(window), &around(strides), padding);
        }
        if window.len() != self.rank() || strides.len() != self.rank() {
            let (w, s) = (window.len(), strides.len());
            let hint = "give one each per dimension, or per spatial dimension of [batch, spatial.., features]";
            fail(op, format!("{w} window extents and {s} steps for {}; {hint}", self.describe()));
        }
        if window.iter().chain(strides).any(|&x| x < 1) {
            fail(op, format!("window {window:?} and steps {strides:?} must be positive"));
        }
        let padding = padding.pairs(op, self.shape(), window, strides);
        let window = Window { sizes: window.to_vec(), strides: strides.to_vec(), padding, ..Window::default() };
        reduce_window(op, how, self, &window)
    }
}

/// Inputs and outputs as `[batch, spatial…, features]`, kernels as `[spatial…, input features, output features]`.
pub(super) fn channels_last(n: usize) -> ConvDims {
    let spatial: Vec<i64> = (1..=n as i64).collect();
    ConvDims {
        input_batch: 0,
        input_feature: n as i64 + 1,
        input_spatial: spatial.clone(),
        kernel_input_feature: n as i64,
        kernel_output_feature: n as i64 + 1,
        kernel_spatial: (0..n as i64).collect(),
        output_batch: 0,
        output_feature: n as i64 + 1,
        output_spatial: spatial,
    }
}
