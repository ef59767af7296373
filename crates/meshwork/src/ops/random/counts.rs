//! Distributions of counts: Poisson's and the binomial one.

use meshwork_ir::ElementType::{self, F32, I1, I32};

use super::Key;
use crate::control::while_loop;
use crate::element::Operand;
use crate::ops::create::zeros;
use crate::ops::elementwise::select;
use crate::{Shape, Tensor};

/// Where the logarithm of a factorial differs from Stirling's formula, for 0 to 9.
const STIRLING: [f32; 10] = [
    0.081_061_47,
    0.041_340_695,
    0.027_677_925,
    0.020_790_672,
    0.016_644_69,
    0.013_876_129,
    0.011_896_71,
    0.010_411_265,
    0.009_255_462,
    0.008_330_563,
];

impl Key {
    /// From Poisson's distribution with mean `rate`, which broadcasts to `shape`; `i32`.
    #[track_caller]
    pub fn poisson(&self, rate: impl Into<Operand>, shape: impl Shape) -> Tensor {
        let rate = rate.into().tensor("Key::poisson", F32).to(F32).stop_gradient().broadcast_to(shape.extents());
        let few = rate.is_nan() | rate.lt(10);
        let low = self.poisson_by_products(&select(&few, &rate, 0));
        let high = self.poisson_by_rejection(&select(&few, 100_000.0, &rate));
        select(rate.eq(0), 0, select(few, low, high))
    }

    /// Knuth's method: how many uniform numbers have a product above `exp(-rate)`.
    #[track_caller]
    fn poisson_by_products(&self, rate: &Tensor) -> Tensor {
        let start = (zeros(rate.shape(), I32), self.clone(), rate.zeros_like());
        let (count, ..) = while_loop(
            start,
            |(_, _, product)| product.gt(-rate).any_all(),
            |(count, key, product)| {
                let keys = key.split(2);
                let count = select(product.gt(-rate), &count + 1, &count);
                let u = keys[1].uniform(rate.shape(), F32);
                (count, keys[0].clone(), product + u.log())
            },
        );
        count - 1
    }

    /// Hörmann's method of transformed rejection (1993).
    #[track_caller]
    fn poisson_by_rejection(&self, rate: &Tensor) -> Tensor {
        let log_rate = rate.log();
        let b = rate.sqrt() * 2.53 + 0.931;
        let a = &b * 0.02483 - 0.059;
        let inv_alpha = 1.1328 / (&b - 3.4) + 1.1239;
        let limit = 0.9277 - 3.6224 / (&b - 2.0);
        let start = (rate.zeros_like() - 1.0, zeros(rate.shape(), I1), self.clone());
        let (count, ..) = while_loop(
            start,
            |(_, accepted, _)| (!accepted).any_all(),
            |(count, accepted, key)| {
                let keys = key.split(3);
                let u = keys[1].uniform(rate.shape(), F32) - 0.5;
                let v = keys[2].uniform(rate.shape(), F32);
                let edge = 0.5 - u.abs();
                let k = ((2.0 * &a / &edge + &b) * &u + rate + 0.43).floor();
                let s = (&v * &inv_alpha / (&a / (&edge * &edge) + &b)).log();
                let t = -rate + &k * &log_rate - (&k + 1.0).lgamma();
                let inside = edge.ge(0.07) & v.le(&limit);
                let outside = k.lt(0) | (edge.lt(0.013) & v.gt(&edge));
                let accept = inside | (!outside & s.le(t));
                (select(&accept, k, count), accepted | accept, keys[0].clone())
            },
        );
        count.to(I32)
    }

    /// How many of `n` tries succeed that each have probability `p`; both broadcast to `shape`. In a float type.
    #[track_caller]
    pub fn binomial(
        &self,
        n: impl Into<Operand>,
        p: impl Into<Operand>,
        shape: impl Shape,
        dtype: ElementType,
    ) -> Tensor {
        let whole =
            |x: Operand| x.tensor("Key::binomial", dtype).to(dtype).stop_gradient().broadcast_to(shape.extents());
        let (n, p) = (whole(n.into()), whole(p.into()));
        let small = p.lt(0.5);
        let q = select(&small, &p, 1.0 - &p);
        let (no_count, endless) = (n.is_nan() | n.lt(0), n.is_inf());
        let (nan, negative) = (q.is_nan(), q.lt(0));
        let q = select(&nan | &negative, 0.01, q);
        let few = &no_count | (&n * &q).le(10);
        let n = n.floor();
        let low = self.binomial_by_inversion(&select(&few, &n, 0), &q);
        let high = self.binomial_by_rejection(&select(&few, 10_000.0, &n), &select(&few, 0.5, &q));
        let count = select(few, low, high);
        let invalid = negative | &nan | &no_count;
        let count = select(&invalid, f64::NAN, count);
        let count = select(&endless & !invalid, f64::INFINITY, count);
        select(small | no_count | nan | endless, &count, n - &count)
    }

    /// Sums the distances between successes, which are geometric.
    #[track_caller]
    fn binomial_by_inversion(&self, n: &Tensor, p: &Tensor) -> Tensor {
        let log_miss = (-p).log1p();
        let start = (n.zeros_like(), n.zeros_like(), self.clone());
        let (count, ..) = while_loop(
            start,
            |(_, sum, _)| sum.le(n).any_all(),
            |(count, sum, key)| {
                let keys = key.split(2);
                let count = select(sum.le(n), &count + 1.0, &count);
                let u = keys[0].uniform(n.shape(), n.dtype());
                (count, sum + (u.log() / &log_miss).ceil(), keys[1].clone())
            },
        );
        count - 1.0
    }

    /// Hörmann's method of transformed rejection with squeeze (1993).
    #[track_caller]
    fn binomial_by_rejection(&self, n: &Tensor, p: &Tensor) -> Tensor {
        let deviation = (n * p * (1.0 - p)).sqrt();
        let b = &deviation * 2.53 + 1.15;
        let a = &b * 0.0248 + p * 0.01 - 0.0873;
        let c = n * p + 0.5;
        let limit = 0.92 - 4.2 / &b;
        let odds = p / (1.0 - p);
        let alpha = (5.1 / &b + 2.83) * &deviation;
        let m = ((n + 1.0) * p).floor();
        let start = (n.zeros_like() - 1.0, zeros(n.shape(), I1), self.clone());
        let (count, ..) = while_loop(
            start,
            |(_, accepted, _)| (!accepted).any_all(),
            |(count, accepted, key)| {
                let keys = key.split(3);
                let u = keys[1].uniform(n.shape(), n.dtype()) - 0.5;
                let v = keys[2].uniform(n.shape(), n.dtype());
                let edge = 0.5 - u.abs();
                let inside = edge.ge(0.07) & v.le(&limit);
                let k = ((2.0 * &a / &edge + &b) * &u + &c).floor();
                let outside = k.lt(0) | k.gt(n);
                let v = (v * &alpha / (&a / (&edge * &edge) + &b)).log();
                let bound = (&m + 0.5) * ((&m + 1.0) / (&odds * (n - &m + 1.0))).log()
                    + (n + 1.0) * ((n - &m + 1.0) / (n - &k + 1.0)).log()
                    + (&k + 0.5) * (&odds * (n - &k + 1.0) / (&k + 1.0)).log()
                    + stirling(&m)
                    + stirling(&(n - &m))
                    - stirling(&k)
                    - stirling(&(n - &k));
                let accept = inside | (!outside & v.le(bound));
                (select(&accept, k, count), accepted | accept, keys[0].clone())
            },
        );
        count
    }
}

#[track_caller]
fn stirling(k: &Tensor) -> Tensor {
    let small = k.le(9);
    let k = k.clamp(0.0, 9.0);
    let square = (&k + 1.0).square();
    let series = (1.0 / 12.0 - (1.0 / 360.0 - (1.0 / 1260.0) / &square) / &square) / (&k + 1.0);
    let table = Tensor::constant(&crate::Array::from(STIRLING)).to(k.dtype());
    select(small, table.take(&k.floor().to(I32), 0), series)
}
