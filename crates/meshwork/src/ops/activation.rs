//! Activations of neural networks, as `jax.nn` has them.
//!
//! ```
//! use meshwork::prelude::*;
//!
//! let f = jit(|x: Tensor| (x.leaky_relu(0.1), x.elu(1.0), x.hard_tanh(), x.glu(-1)));
//! let (leaky, _, hard, glu) = f.call(&Array::from([-2.0f32, 0.0]))?;
//! assert_eq!(leaky.to_vec::<f32>()?, [-0.2, 0.0]);
//! assert_eq!(hard.to_vec::<f32>()?, [-1.0, 0.0]);
//! assert_eq!(glu.to_vec::<f32>()?, [-1.0]);
//! # Ok::<(), meshwork::Error>(())
//! ```

use std::f64::consts::{FRAC_2_PI, LN_2};

use super::elementwise::select;
use crate::Tensor;
use crate::error::fail;

impl Tensor {
    /// The logarithm of [`sigmoid`](Tensor::sigmoid).
    #[track_caller]
    pub fn log_sigmoid(&self) -> Tensor {
        -(-self).softplus()
    }

    /// [`gelu`](Tensor::gelu) by the hyperbolic tangent, which is what `jax.nn.gelu` means by default.
    #[track_caller]
    pub fn gelu_tanh(&self) -> Tensor {
        let inner = (self + self.square() * self * 0.044715) * FRAC_2_PI.sqrt();
        self * ((inner.tanh() + 1.0) * 0.5)
    }

    /// The smaller of [`relu`](Tensor::relu) and 6.
    #[track_caller]
    pub fn relu6(&self) -> Tensor {
        self.maximum(0).minimum(6)
    }

    /// `x` above 0, else `alpha * (exp(x) - 1)`.
    #[track_caller]
    pub fn elu(&self, alpha: f64) -> Tensor {
        let positive = self.gt(0);
        let below = select(&positive, 0, self);
        select(positive, self, below.expm1() * alpha)
    }

    /// `x` above 0, else `alpha * (exp(x / alpha) - 1)`.
    #[track_caller]
    pub fn celu(&self, alpha: f64) -> Tensor {
        self.maximum(0) + (self.minimum(0) / alpha).expm1() * alpha
    }

    /// [`elu`](Tensor::elu), scaled so that mean 0 and variance 1 stay so.
    #[track_caller]
    pub fn selu(&self) -> Tensor {
        self.elu(1.673_263_242_354_377_2) * 1.050_700_987_355_480_5
    }

    /// `x` above 0, else `slope * x`.
    #[track_caller]
    pub fn leaky_relu(&self, slope: f64) -> Tensor {
        select(self.ge(0), self, self * slope)
    }

    /// `x` held between -1 and 1.
    #[track_caller]
    pub fn hard_tanh(&self) -> Tensor {
        select(self.gt(1), 1, select(self.lt(-1), -1, self))
    }

    /// `relu6(x + 3) / 6`.
    #[track_caller]
    pub fn hard_sigmoid(&self) -> Tensor {
        (self + 3.0).relu6() / 6.0
    }

    /// `x * hard_sigmoid(x)`.
    #[track_caller]
    pub fn hard_silu(&self) -> Tensor {
        self * self.hard_sigmoid()
    }

    /// `x * tanh(softplus(x))`.
    #[track_caller]
    pub fn mish(&self) -> Tensor {
        self * self.softplus().tanh()
    }

    /// `x / (1 + |x|)`.
    #[track_caller]
    pub fn soft_sign(&self) -> Tensor {
        self / (self.abs() + 1.0)
    }

    /// `(x + sqrt(x^2 + b)) / 2`.
    #[track_caller]
    pub fn squareplus(&self, b: f64) -> Tensor {
        (self + (self.square() + b).sqrt()) * 0.5
    }

    /// `log(1 - exp(-x))` of positive numbers, exact near 0 and far from it.
    #[track_caller]
    pub fn log1mexp(&self) -> Tensor {
        let near = self.lt(LN_2);
        let small = select(&near, self, LN_2);
        let large = select(&near, LN_2, self);
        select(near, (-(-small).expm1()).log(), (-(-large).exp()).log1p())
    }

    /// The first half along `axis` times the [`sigmoid`](Tensor::sigmoid) of the second.
    #[track_caller]
    pub fn glu(&self, axis: i64) -> Tensor {
        let [values, gate] = self.halves("glu", axis);
        values * gate.sigmoid()
    }

    /// [`silu`](Tensor::silu) of the first half along `axis` times the second.
    #[track_caller]
    pub fn swiglu(&self, axis: i64) -> Tensor {
        let [gate, values] = self.halves("swiglu", axis);
        gate.silu() * values
    }

    /// [`gelu`](Tensor::gelu) of the first half along `axis` times the second.
    #[track_caller]
    pub fn geglu(&self, axis: i64) -> Tensor {
        let [gate, values] = self.halves("geglu", axis);
        gate.gelu() * values
    }

    #[track_caller]
    fn halves(&self, op: &str, axis: i64) -> [Tensor; 2] {
        let axis = self.axis(op, axis);
        let n = self.shape()[axis];
        if n % 2 != 0 {
            fail(op, format!("axis {axis} of shape {:?} is odd and has no halves", self.shape()));
        }
        [self.narrow(op, axis, 0, n / 2), self.narrow(op, axis, n / 2, n)]
    }

    /// Mean 0 and variance 1 along `axis`, with `epsilon` added to the variance.
    #[track_caller]
    pub fn standardize(&self, axis: i64, epsilon: f64) -> Tensor {
        let centered = self - self.keep_dims(&[axis], |x, axes| x.mean(axes));
        let variance = centered.square().keep_dims(&[axis], |x, axes| x.mean(axes));
        centered * (variance + epsilon).rsqrt()
    }

    /// Over the root of the mean square along the last dimension, with `epsilon` added to the mean.
    #[track_caller]
    pub fn rms_norm(&self, epsilon: f64) -> Tensor {
        let mean = self.square().keep_dims(&[-1], |x, axes| x.mean(axes));
        self * (mean + epsilon).rsqrt()
    }

    /// Mean 0 and variance 1 over the batch, for each feature: of `[batch, …, features]` over all but the last
    /// dimension. Also returns mean and variance of each feature, for running averages.
    #[track_caller]
    pub fn batch_norm(&self, epsilon: f64) -> (Tensor, Tensor, Tensor) {
        let axes: Vec<i64> = (0..self.rank() as i64 - 1).collect();
        let (mean, variance) = (self.mean(&axes), self.var(&axes));
        ((self - &mean) * (&variance + epsilon).rsqrt(), mean, variance)
    }

    /// Mean 0 and variance 1 over all positions and the features of one group, for each example: of
    /// `[batch, …, features]` with the features in `groups` groups.
    #[track_caller]
    pub fn group_norm(&self, groups: i64, epsilon: f64) -> Tensor {
        let features = if self.rank() < 2 { 0 } else { self.dim(-1) };
        if groups < 1 || features % groups != 0 || features == 0 {
            fail("group_norm", format!("{} has {features} features, not in {groups} groups", self.describe()));
        }
        let mut shape = self.shape().to_vec();
        shape.pop();
        shape.extend([groups, features / groups]);
        let wide = self.reshape(&shape);
        let axes: Vec<i64> = (1..wide.rank() as i64).filter(|&d| d != wide.rank() as i64 - 2).collect();
        let centered = &wide - wide.keep_dims(&axes, |x, axes| x.mean(axes));
        let variance = centered.square().keep_dims(&axes, |x, axes| x.mean(axes));
        (centered * (variance + epsilon).rsqrt()).reshape(self.shape())
    }

    /// Mean 0 and variance 1 over all positions, for each example and feature of `[batch, …, features]`.
    #[track_caller]
    pub fn instance_norm(&self, epsilon: f64) -> Tensor {
        let axes: Vec<i64> = (1..self.rank() as i64 - 1).collect();
        let centered = self - self.keep_dims(&axes, |x, axes| x.mean(axes));
        let variance = centered.square().keep_dims(&axes, |x, axes| x.mean(axes));
        centered * (variance + epsilon).rsqrt()
    }
}
