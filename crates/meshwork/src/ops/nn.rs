//! The softmax family and activations.

use meshwork_ir::op::{BinaryOp, UnaryOp};
use meshwork_ir::{Dims, OpKind, ValueId};

use super::elementwise::{Class, select};
use super::reduce::Combine;
use crate::Tensor;
use crate::element::Number;
use crate::tensor::dims;
use crate::trace::compose::{Composer, compose};

/// One dimension of a tensor, which is reduced and comes back.
struct Along {
    /// It alone.
    over: [i64; 1],
    /// All but it.
    others: Dims,
    extent: i64,
}

impl Along {
    #[track_caller]
    fn new(op: &str, x: &Tensor, class: Class, axis: i64) -> Along {
        class.check(op, x);
        let axis = x.axis(op, axis) as i64;
        let others = dims((0..x.rank() as i64).filter(|&d| d != axis));
        Along { over: [axis], others, extent: x.shape()[axis as usize] }
    }

    /// What was reduced, repeated along the dimension to the type of `like`.
    fn restore(&self, s: &mut Composer<'_>, reduced: ValueId, like: ValueId) -> ValueId {
        s.spread(reduced, like, &self.others)
    }

    /// `x` minus its maximum, of which gradients take no notice.
    fn below_max(&self, s: &mut Composer<'_>, x: ValueId) -> ValueId {
        let max = s.reduce(Combine::Max, x, &self.over);
        let max = s.stop_gradient(max);
        let max = self.restore(s, max, x);
        s.apply(OpKind::Binary(BinaryOp::Subtract), [x, max])
    }

    fn mean(&self, s: &mut Composer<'_>, x: ValueId) -> ValueId {
        s.mean(x, &self.over, self.extent)
    }
}

impl Tensor {
    /// `exp(x)` over its sum along `axis`, without overflow.
    #[track_caller]
    pub fn softmax(&self, axis: i64) -> Tensor {
        let along = Along::new("softmax", self, Class::Real, axis);
        compose("softmax", [self], |s, [x]| {
            let x = along.below_max(s, x);
            let e = s.apply(OpKind::Unary(UnaryOp::Exponential), [x]);
            let sum = s.reduce(Combine::Sum, e, &along.over);
            let sum = along.restore(s, sum, e);
            s.apply(OpKind::Binary(BinaryOp::Divide), [e, sum])
        })
    }

    /// The logarithm of [`softmax`](Tensor::softmax).
    #[track_caller]
    pub fn log_softmax(&self, axis: i64) -> Tensor {
        let along = Along::new("log_softmax", self, Class::Real, axis);
        compose("log_softmax", [self], |s, [x]| {
            let x = along.below_max(s, x);
            let e = s.apply(OpKind::Unary(UnaryOp::Exponential), [x]);
            let sum = s.reduce(Combine::Sum, e, &along.over);
            let sum = s.apply(OpKind::Unary(UnaryOp::Log), [sum]);
            let sum = along.restore(s, sum, x);
            s.apply(OpKind::Binary(BinaryOp::Subtract), [x, sum])
        })
    }

    /// The logarithm of the sum of `exp(x)` along `axis`, which goes away.
    #[track_caller]
    pub fn logsumexp(&self, axis: i64) -> Tensor {
        let along = Along::new("logsumexp", self, Class::Real, axis);
        let max = self.max(&[axis]).stop_gradient();
        // An all-infinite row has no finite maximum to subtract.
        let max = select(max.is_finite(), &max, 0.0);
        compose("logsumexp", [self, &max], |s, [x, max]| {
            let wide = along.restore(s, max, x);
            let x = s.apply(OpKind::Binary(BinaryOp::Subtract), [x, wide]);
            let e = s.apply(OpKind::Unary(UnaryOp::Exponential), [x]);
            let sum = s.reduce(Combine::Sum, e, &along.over);
            let sum = s.apply(OpKind::Unary(UnaryOp::Log), [sum]);
            s.apply(OpKind::Binary(BinaryOp::Add), [sum, max])
        })
    }

    /// The larger of `x` and 0. Its slope at 0 is 0, while that of `x.maximum(0)` is one half, shared between equals.
    #[track_caller]
    pub fn relu(&self) -> Tensor {
        select(self.gt(0), self, self.maximum(0).stop_gradient())
    }

    /// `x * sigmoid(x)`.
    #[track_caller]
    pub fn silu(&self) -> Tensor {
        self * self.sigmoid()
    }

    /// `x` times the share of a normal distribution below `x`.
    #[track_caller]
    pub fn gelu(&self) -> Tensor {
        Class::Real.check("gelu", self);
        compose("gelu", [self], |s, [x]| {
            let factor = s.fill_like(Number::Float(std::f64::consts::FRAC_1_SQRT_2), x);
            let scaled = s.apply(OpKind::Binary(BinaryOp::Multiply), [x, factor]);
            let erf = s.apply(OpKind::Unary(UnaryOp::Erf), [scaled]);
            let one = s.fill_like(Number::Float(1.0), x);
            let share = s.apply(OpKind::Binary(BinaryOp::Add), [erf, one]);
            let half = s.fill_like(Number::Float(0.5), x);
            let share = s.apply(OpKind::Binary(BinaryOp::Multiply), [share, half]);
            s.apply(OpKind::Binary(BinaryOp::Multiply), [x, share])
        })
    }

    /// `log(1 + exp(x))`, without overflow.
    #[track_caller]
    pub fn softplus(&self) -> Tensor {
        // The smaller of both signs is -|x|, with the slope 0 at 0.
        self.maximum(0) + self.minimum(-self).exp().log1p()
    }

    /// Mean 0 and variance 1 along the last dimension.
    #[track_caller]
    pub fn layer_norm(&self, epsilon: f64) -> Tensor {
        let along = Along::new("layer_norm", self, Class::Float, -1);
        compose("layer_norm", [self], |s, [x]| {
            let mean = along.mean(s, x);
            let mean = along.restore(s, mean, x);
            let centered = s.apply(OpKind::Binary(BinaryOp::Subtract), [x, mean]);
            let squares = s.apply(OpKind::Binary(BinaryOp::Multiply), [centered, centered]);
            let variance = along.mean(s, squares);
            let epsilon = s.fill_like(Number::Float(epsilon), variance);
            let variance = s.apply(OpKind::Binary(BinaryOp::Add), [variance, epsilon]);
            let scale = s.apply(OpKind::Unary(UnaryOp::Rsqrt), [variance]);
            let scale = along.restore(s, scale, x);
            s.apply(OpKind::Binary(BinaryOp::Multiply), [centered, scale])
        })
    }
}
