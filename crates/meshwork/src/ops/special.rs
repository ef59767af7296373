//! Functions of `jax.scipy.special`.
//!
//! ```
//! use meshwork::prelude::*;
//!
//! let f = jit(|p: Tensor, q: Tensor| (p.xlogy(&q), p.logit(), p.kl_div(&q)));
//! let (xlogy, logit, kl) = f.call((&Array::from([0.0f32, 0.5]), &Array::from([0.0f32, 0.5])))?;
//! assert_eq!(xlogy.to_vec::<f32>()?[0], 0.0);
//! assert_eq!(logit.to_vec::<f32>()?[1], 0.0);
//! assert_eq!(kl.to_vec::<f32>()?, [0.0, 0.0]);
//! # Ok::<(), meshwork::Error>(())
//! ```

use std::f64::consts::FRAC_1_SQRT_2;

use meshwork_ir::OpKind;
use meshwork_ir::op::BinaryOp;

use super::elementwise::{Class, binary_op, select};
use crate::Tensor;
use crate::element::Operand;

impl Tensor {
    /// `x * log(y)`, and 0 where `x` is.
    #[track_caller]
    pub fn xlogy(&self, y: impl Into<Operand>) -> Tensor {
        let y = y.into().tensor("xlogy", self.dtype());
        let zero = self.eq(0);
        select(&zero, 0, self * select(&zero, y.ones_like(), &y).log())
    }

    /// `x * log(1 + y)`, and 0 where `x` is.
    #[track_caller]
    pub fn xlog1py(&self, y: impl Into<Operand>) -> Tensor {
        let y = y.into().tensor("xlog1py", self.dtype());
        let zero = self.eq(0);
        select(&zero, 0, self * select(&zero, y.zeros_like(), &y).log1p())
    }

    /// The inverse of [`sigmoid`](Tensor::sigmoid).
    #[track_caller]
    pub fn logit(&self) -> Tensor {
        (self / (1.0 - self)).log()
    }

    /// `-x log(x)`: 0 at 0, and negative infinity below.
    #[track_caller]
    pub fn entr(&self) -> Tensor {
        select(self.lt(0), f64::NEG_INFINITY, -self.xlogy(self))
    }

    /// `x log(x / y)` of positive numbers, 0 where `x` is 0 and `y` is not negative, else infinite.
    #[track_caller]
    pub fn rel_entr(&self, y: impl Into<Operand>) -> Tensor {
        let y = y.into().tensor("rel_entr", self.dtype());
        let both = self.gt(0) & y.gt(0);
        let (p, q) = (select(&both, self, 1), select(&both, &y, 1));
        let value = &p * (p.log() - q.log());
        select(both, value, select(self.eq(0) & y.ge(0), self.zeros_like(), f64::INFINITY))
    }

    /// [`rel_entr`](Tensor::rel_entr)`(x, y) - x + y`.
    #[track_caller]
    pub fn kl_div(&self, y: impl Into<Operand>) -> Tensor {
        let y = y.into().tensor("kl_div", self.dtype());
        self.rel_entr(&y) - self + y
    }

    /// The share of a normal distribution below `x`.
    #[track_caller]
    pub fn ndtr(&self) -> Tensor {
        let w = self * FRAC_1_SQRT_2;
        let z = w.abs();
        let tail = z.erfc();
        let outer = select(w.gt(0), 2.0 - &tail, &tail);
        0.5 * select(z.lt(FRAC_1_SQRT_2), w.erf() + 1.0, outer)
    }

    /// The logarithm of the beta function.
    #[track_caller]
    pub fn betaln(&self, y: impl Into<Operand>) -> Tensor {
        let y = y.into().tensor("betaln", self.dtype());
        self.lgamma() + y.lgamma() - (self + y).lgamma()
    }

    /// Derivative number `x`, whole and not negative, of [`digamma`](Tensor::digamma) at `y`.
    #[track_caller]
    pub fn polygamma(&self, y: impl Into<Operand>) -> Tensor {
        Class::Real.check("polygamma", self);
        binary_op("polygamma", OpKind::Binary(BinaryOp::Polygamma), self.into(), y.into())
    }

    /// The sum of `(k + q)^-x` over all `k` from 0.
    #[track_caller]
    pub fn zeta(&self, q: impl Into<Operand>) -> Tensor {
        Class::Real.check("zeta", self);
        binary_op("zeta", OpKind::Binary(BinaryOp::Zeta), self.into(), q.into())
    }
}
