//! The softmax family and activations.

use meshwork_ir::Type;

use crate::Tensor;
use crate::ops::elementwise::select;
use crate::tensor::dims;

impl Tensor {
    /// `exp(x)` over its sum along `axis`, without overflow.
    #[track_caller]
    pub fn softmax(&self, axis: i64) -> Tensor {
        let e = self.below_max(axis).exp();
        let sum = e.sum(&[axis]);
        &e / e.restore(axis, &sum)
    }

    /// The logarithm of [`softmax`](Tensor::softmax).
    #[track_caller]
    pub fn log_softmax(&self, axis: i64) -> Tensor {
        let x = self.below_max(axis);
        let sum = x.exp().sum(&[axis]).log();
        &x - x.restore(axis, &sum)
    }

    /// The logarithm of the sum of `exp(x)` along `axis`, which goes away.
    #[track_caller]
    pub fn logsumexp(&self, axis: i64) -> Tensor {
        let max = self.max(&[axis]).stop_gradient();
        // An all-infinite row has no finite maximum to subtract.
        let max = select(max.is_finite(), &max, 0.0);
        (self - self.restore(axis, &max)).exp().sum(&[axis]).log() + max
    }

    #[track_caller]
    fn below_max(&self, axis: i64) -> Tensor {
        let max = self.max(&[axis]).stop_gradient();
        self - self.restore(axis, &max)
    }

    /// A tensor reduced over `axis`, repeated along it.
    #[track_caller]
    fn restore(&self, axis: i64, reduced: &Tensor) -> Tensor {
        let axis = self.axis("softmax", axis) as i64;
        let map = dims((0..self.rank() as i64).filter(|&d| d != axis));
        reduced.spread("softmax", Type::Tensor(self.ty.clone()), &map)
    }

    /// The larger of `x` and 0.
    #[track_caller]
    pub fn relu(&self) -> Tensor {
        self.maximum(0)
    }

    /// `x * sigmoid(x)`.
    #[track_caller]
    pub fn silu(&self) -> Tensor {
        self * self.sigmoid()
    }

    /// `x` times the share of a normal distribution below `x`.
    #[track_caller]
    pub fn gelu(&self) -> Tensor {
        let share = ((self * std::f64::consts::FRAC_1_SQRT_2).erf() + 1.0) * 0.5;
        self * share
    }

    /// `log(1 + exp(x))`, without overflow.
    #[track_caller]
    pub fn softplus(&self) -> Tensor {
        self.maximum(0) + (-self.abs()).exp().log1p()
    }

    /// Mean 0 and variance 1 along the last dimension.
    #[track_caller]
    pub fn layer_norm(&self, epsilon: f64) -> Tensor {
        let mean = self.mean(&[-1]);
        let centered = self - self.restore(-1, &mean);
        let scale = (centered.square().mean(&[-1]) + epsilon).rsqrt();
        &centered * self.restore(-1, &scale)
    }
}
