//! The gamma distribution, by the method of Marsaglia and Tsang (2000), and what is made of it.
//!
//! Gradients take no notice of its shape parameter.

use meshwork_ir::ElementType;

use super::Key;
use crate::control::while_loop;
use crate::element::Operand;
use crate::ops::create::{full, zeros};
use crate::ops::elementwise::select;
use crate::transform::vmap;
use crate::{Shape, Tensor};

/// Whether a gamma number is wanted, or its logarithm.
#[derive(Clone, Copy, PartialEq)]
enum Space {
    Linear,
    Log,
}

impl Key {
    /// From the gamma distribution with parameter `a`, which broadcasts to `shape`.
    #[track_caller]
    pub fn gamma(&self, a: impl Into<Operand>, shape: impl Shape, dtype: ElementType) -> Tensor {
        self.gammas(Space::Linear, a.into(), &shape.extents(), dtype)
    }

    /// The logarithm of numbers from the gamma distribution with parameter `a`, also where they are too small.
    #[track_caller]
    pub fn loggamma(&self, a: impl Into<Operand>, shape: impl Shape, dtype: ElementType) -> Tensor {
        self.gammas(Space::Log, a.into(), &shape.extents(), dtype)
    }

    #[track_caller]
    fn gammas(&self, space: Space, a: Operand, shape: &[i64], dtype: ElementType) -> Tensor {
        let a = a.tensor("Key::gamma", dtype).to(dtype).stop_gradient().broadcast_to(shape).flatten();
        let keys = self.split_many(a.size());
        vmap(|(key, a): (Key, Tensor)| one(&key, &a, space), (keys, a)).reshape(shape)
    }

    /// From the beta distribution; the parameters broadcast to `shape`.
    #[track_caller]
    pub fn beta(&self, a: impl Into<Operand>, b: impl Into<Operand>, shape: impl Shape, dtype: ElementType) -> Tensor {
        let keys = self.split(2);
        let (a, b) = (keys[0].loggamma(a, shape.extents(), dtype), keys[1].loggamma(b, shape.extents(), dtype));
        let largest = a.maximum(&b);
        let (a, b) = ((a - &largest).exp(), (b - largest).exp());
        &a / (&a + b)
    }

    /// From the chi-squared distribution with `df` degrees of freedom, which broadcast to `shape`.
    #[track_caller]
    pub fn chisquare(&self, df: impl Into<Operand>, shape: impl Shape, dtype: ElementType) -> Tensor {
        let half = df.into().tensor("Key::chisquare", dtype) / 2.0;
        self.loggamma(half, shape, dtype).exp() * 2.0
    }

    /// From Student's distribution with `df` degrees of freedom, which broadcast to `shape`.
    #[track_caller]
    pub fn student_t(&self, df: impl Into<Operand>, shape: impl Shape, dtype: ElementType) -> Tensor {
        let keys = self.split(2);
        let half = df.into().tensor("Key::student_t", dtype) / 2.0;
        let gamma = keys[1].gamma(&half, shape.extents(), dtype);
        keys[0].normal(shape, dtype) * (half / gamma).sqrt()
    }

    /// Shares that sum to 1, from Dirichlet's distribution with the parameters `alpha` along the last dimension.
    #[track_caller]
    pub fn dirichlet(&self, alpha: &Tensor, shape: impl Shape) -> Tensor {
        let shape = [&shape.extents()[..], &[alpha.dim(-1)]].concat();
        self.loggamma(alpha, shape, alpha.dtype()).softmax(-1)
    }
}

/// One number, of parameter `a`.
fn one(key: &Key, a: &Tensor, space: Space) -> Tensor {
    let dtype = a.dtype();
    let big = a.ge(1);
    let boosted = select(&big, a, a + 1.0);
    let third = full((), dtype, 1.0 / 3.0);
    let d = &boosted - &third;
    let c = third / d.sqrt();
    let keys = key.split(2);
    let start = (keys[0].clone(), zeros((), dtype), full((), dtype, 1.0), full((), dtype, 2.0));
    let rejected = |(_, x, v, u): &(Key, Tensor, Tensor, Tensor)| {
        let squeeze = u.ge(1.0 - x * x * 0.0331);
        let exact = u.log().ge(x * 0.5 + &d * (1.0 - v + v.log()));
        squeeze & exact
    };
    let (_, _, v, _) = while_loop(start, rejected, |(key, ..)| {
        let keys = key.split(3);
        let first = (keys[1].clone(), zeros((), dtype), full((), dtype, -1.0));
        let (_, x, v) = while_loop(
            first,
            |(_, _, v)| v.le(0),
            |(key, ..)| {
                let keys = key.split(2);
                let x = keys[1].normal((), dtype);
                let v = &x * &c + 1.0;
                (keys[0].clone(), x, v)
            },
        );
        (keys[0].clone(), x.square(), &v * &v * &v, keys[2].uniform((), dtype))
    });
    match space {
        Space::Log => {
            let logs = -keys[1].exponential((), dtype);
            let boost = select(big | logs.eq(0), 0, &logs * a.recip());
            d.log() + v.log() + boost
        }
        Space::Linear => {
            let samples = 1.0 - keys[1].uniform((), dtype);
            d * v * select(big, 1, samples.pow(a.recip()))
        }
    }
}
