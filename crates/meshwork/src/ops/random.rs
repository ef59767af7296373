//! Random numbers that depend on a key and on the position in the global array alone: the same on any mesh.
//!
//! The generator is Threefry-2x32 with 20 rounds (Salmon et al., 2011). Element `i` is the encryption of the counter
//! `i` under the key, so the bits are those of `jax.random` with `jax_threefry_partitionable`, which is JAX's default.

use meshwork_ir::ElementType::{self, F32, F64, UI32, UI64};

use super::create::{full, iota, zeros};
use super::movement::stack;
use crate::error::fail;
use crate::{Shape, Tensor};

/// The key of a stream of random numbers. Use each key once; [`split`](Key::split) it for more.
///
/// ```
/// use meshwork::prelude::*;
///
/// let f = jit(|_: ()| Key::new(0).uniform([3], F32));
/// let x = f.call(&())?.to_vec::<f32>()?;
/// assert!(x.iter().all(|u| (0.0..1.0).contains(u)));
/// # Ok::<(), meshwork::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Key {
    high: Tensor,
    low: Tensor,
}

impl Key {
    /// The key of a seed that is known while tracing.
    #[track_caller]
    pub fn new(seed: u64) -> Key {
        Key { high: full((), UI32, (seed >> 32) as i64), low: full((), UI32, (seed & 0xffff_ffff) as i64) }
    }

    /// The key of a seed that is data: a scalar of `ui32`, or two of them as a vector.
    #[track_caller]
    pub fn from_tensor(seed: &Tensor) -> Key {
        match (seed.dtype(), seed.shape()) {
            (UI32, []) => Key { high: zeros((), UI32), low: seed.clone() },
            (UI32, [2]) => Key { high: seed.slice(crate::s![0]), low: seed.slice(crate::s![1]) },
            _ => fail("Key::from_tensor", format!("{} is not a ui32 scalar or pair", seed.describe())),
        }
    }

    /// The key as a vector of two `ui32`.
    #[track_caller]
    pub fn tensor(&self) -> Tensor {
        stack(&[self.high.clone(), self.low.clone()], 0)
    }

    /// `count` keys that are independent of each other and of this one.
    #[track_caller]
    pub fn split(&self, count: usize) -> Vec<Key> {
        let mut keys = vec![];
        for i in 0..count {
            keys.push(self.fold_in(&full((), UI32, i as i64)));
        }
        keys
    }

    /// The key that belongs to this one and the `ui32` scalar `data`, for instance a step number.
    #[track_caller]
    pub fn fold_in(&self, data: &Tensor) -> Key {
        if data.dtype() != UI32 || data.rank() != 0 {
            fail("Key::fold_in", format!("{} is not a ui32 scalar", data.describe()));
        }
        let (high, low) = self.threefry(zeros((), UI32), data.clone());
        Key { high, low }
    }

    /// 32 random bits per element.
    #[track_caller]
    pub fn bits(&self, shape: impl Shape) -> Tensor {
        let (high, low) = self.pairs(&shape.extents());
        high ^ low
    }

    /// Uniform in `[0, 1)`.
    #[track_caller]
    pub fn uniform(&self, shape: impl Shape, dtype: ElementType) -> Tensor {
        let shape = &shape.extents()[..];
        match dtype {
            // A float in [1, 2) from its mantissa, less 1.
            F32 => ((self.bits(shape) >> 9) | full((), UI32, 0x3f80_0000)).bitcast(F32) - 1.0,
            F64 => {
                let (high, low) = self.pairs(shape);
                let bits = (high.to(UI64) << 32) | low.to(UI64);
                ((bits >> 12) | full((), UI64, 0x3ff0_0000_0000_0000i64)).bitcast(F64) - 1.0
            }
            other => fail("Key::uniform", format!("element type {other}; F32 and F64 are possible")),
        }
    }

    /// From the normal distribution with mean 0 and variance 1.
    #[track_caller]
    pub fn normal(&self, shape: impl Shape, dtype: ElementType) -> Tensor {
        // Uniform in (-1, 1): the lower end is the float next to -1.
        let low = if dtype == F32 { f64::from((-1.0f32).next_up()) } else { (-1.0f64).next_up() };
        let uniform = (self.uniform(shape, dtype) * (1.0 - low) + low).maximum(low);
        uniform.erf_inv() * std::f64::consts::SQRT_2
    }

    /// True with probability `p`.
    #[track_caller]
    pub fn bernoulli(&self, p: f64, shape: impl Shape) -> Tensor {
        self.uniform(shape, F32).lt(p)
    }

    /// The encrypted 64-bit position of each element, as two halves.
    #[track_caller]
    fn pairs(&self, shape: &[i64]) -> (Tensor, Tensor) {
        super::create::check_shape("Key", shape);
        if shape.iter().try_fold(1i64, |n, &d| n.checked_mul(d.max(1))).is_none_or(|n| n > u32::MAX.into()) {
            fail("Key", format!("shape {shape:?} has more than 2^32-1 elements; draw it in parts"));
        }
        let mut position = zeros(shape, UI32);
        let mut stride = 1;
        for d in (0..shape.len()).rev() {
            if shape[d] > 1 {
                position += iota(shape, UI32, d as i64) * stride;
            }
            stride *= shape[d];
        }
        self.threefry(zeros(shape, UI32), position)
    }

    #[track_caller]
    fn threefry(&self, x0: Tensor, x1: Tensor) -> (Tensor, Tensor) {
        let (k0, k1) = (self.high.clone(), self.low.clone());
        let k2 = &k0 ^ &k1 ^ full((), UI32, 0x1bd1_1bda);
        let keys = [k0, k1, k2];
        let rotations = [[13, 15, 26, 6], [17, 29, 16, 24]];
        let (mut x0, mut x1) = (x0 + &keys[0], x1 + &keys[1]);
        for group in 0..5 {
            for by in rotations[group % 2] {
                x0 = &x0 + &x1;
                x1 = ((&x1 << by) | (&x1 >> (32 - by))) ^ &x0;
            }
            x0 += &keys[(group + 1) % 3];
            x1 = x1 + &keys[(group + 2) % 3] + (group as i64 + 1);
        }
        (x0, x1)
    }
}
