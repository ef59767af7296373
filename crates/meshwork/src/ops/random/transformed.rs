//! Distributions that are functions of uniform or normal numbers.

use std::f64::consts::{PI, SQRT_2};

use meshwork_ir::ElementType::{self, I32};

use super::Key;
use crate::element::Operand;
use crate::ops::arithmetic::finfo;
use crate::ops::create::full;
use crate::ops::einsum::einsum;
use crate::ops::elementwise::select;
use crate::{Shape, Tensor};

impl Key {
    /// The distribution of the largest of many: `-log(-log(u))`.
    #[track_caller]
    pub fn gumbel(&self, shape: impl Shape, dtype: ElementType) -> Tensor {
        -(-self.uniform_in(shape, dtype, finfo(dtype).tiny, 1.0).log()).log()
    }

    /// From the exponential distribution with mean 1.
    #[track_caller]
    pub fn exponential(&self, shape: impl Shape, dtype: ElementType) -> Tensor {
        -(-self.uniform(shape, dtype)).log1p()
    }

    /// From the normal distribution with mean 0 and variance 1, between `low` and `high`.
    #[track_caller]
    pub fn truncated_normal(&self, low: f64, high: f64, shape: impl Shape, dtype: ElementType) -> Tensor {
        let (low, high) = (full((), dtype, low), full((), dtype, high));
        let (from, to) = ((&low / SQRT_2).erf(), (&high / SQRT_2).erf());
        let x = self.uniform_in(shape, dtype, from, to).erf_inv() * SQRT_2;
        x.clamp(low.nextafter(f64::INFINITY), high.nextafter(f64::NEG_INFINITY))
    }

    /// From Laplace's distribution with mean 0 and scale 1.
    #[track_caller]
    pub fn laplace(&self, shape: impl Shape, dtype: ElementType) -> Tensor {
        let low = finfo(dtype).epsilon() / 2.0 - 1.0;
        let u = self.uniform_in(shape, dtype, low, 1.0);
        u.sign() * (-u.abs()).log1p()
    }

    /// From the logistic distribution with mean 0 and scale 1.
    #[track_caller]
    pub fn logistic(&self, shape: impl Shape, dtype: ElementType) -> Tensor {
        let u = self.uniform_in(shape, dtype, finfo(dtype).tiny, 1.0);
        u.log() - (-&u).log1p()
    }

    /// From Cauchy's distribution.
    #[track_caller]
    pub fn cauchy(&self, shape: impl Shape, dtype: ElementType) -> Tensor {
        let u = self.uniform_in(shape, dtype, finfo(dtype).epsilon(), 1.0);
        ((u - 0.5) * PI).tan()
    }

    /// From Weibull's distribution with this scale and concentration.
    #[track_caller]
    pub fn weibull_min(&self, scale: f64, concentration: f64, shape: impl Shape, dtype: ElementType) -> Tensor {
        (-(-self.uniform(shape, dtype)).log1p()).pow(1.0 / concentration) * scale
    }

    /// The exponential of normal numbers of standard deviation `sigma`.
    #[track_caller]
    pub fn lognormal(&self, sigma: impl Into<Operand>, shape: impl Shape, dtype: ElementType) -> Tensor {
        (self.normal(shape, dtype) * sigma).exp()
    }

    /// 1 or -1, `i32`.
    #[track_caller]
    pub fn rademacher(&self, shape: impl Shape) -> Tensor {
        self.bernoulli(0.5, shape).to(I32) * 2 - 1
    }

    /// From Pareto's distribution with exponent `b`.
    #[track_caller]
    pub fn pareto(&self, b: impl Into<Operand>, shape: impl Shape, dtype: ElementType) -> Tensor {
        (self.exponential(shape, dtype) / b).exp()
    }

    /// From Rayleigh's distribution with this scale.
    #[track_caller]
    pub fn rayleigh(&self, scale: impl Into<Operand>, shape: impl Shape, dtype: ElementType) -> Tensor {
        (self.uniform(shape, dtype).log() * -2.0).sqrt() * scale
    }

    /// How often one tries until something of probability `p` happens, `i32`.
    #[track_caller]
    pub fn geometric(&self, p: impl Into<Operand>, shape: impl Shape) -> Tensor {
        let u = self.uniform(shape, ElementType::F32);
        let u = select(u.eq(0), 1, u);
        let p = p.into().tensor("Key::geometric", ElementType::F32);
        ((u.log() / (-p).log1p()).floor() + 1.0).to(I32)
    }

    /// From the normal distribution with this mean, a vector, and matrix of covariances; `shape` of them.
    #[track_caller]
    pub fn multivariate_normal(&self, mean: &Tensor, covariance: &Tensor, shape: impl Shape) -> Tensor {
        let factor = crate::linalg::cholesky(covariance);
        let shape = [&shape.extents()[..], &[mean.dim(-1)]].concat();
        let normal = self.normal(&shape, mean.dtype());
        let flat = normal.reshape([-1, mean.dim(-1)]);
        einsum("ij,nj->ni", &[&factor, &flat]).reshape(&shape) + mean
    }
}
