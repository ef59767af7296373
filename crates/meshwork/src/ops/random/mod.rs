//! Random numbers that depend on a key and on the position in the global array alone: the same on any mesh.
//!
//! The generator is Threefry-2x32 with 20 rounds (Salmon et al., 2011). Element `i` is the encryption of the counter
//! `i` under the key, so the bits are those of `jax.random` with `jax_threefry_partitionable`, which is JAX's default. The
//! distributions are made of them as JAX makes them.
//!
//! | | |
//! |---|---|
//! | `mod.rs` | keys, bits, uniform and normal numbers |
//! | `choose.rs` | integers, choices, permutations, categories |
//! | `transformed.rs` | distributions that are functions of uniform or normal numbers |
//! | `gamma.rs`, `counts.rs` | distributions by rejection |

mod choose;
mod counts;
mod gamma;
mod transformed;

use meshwork_ir::ElementType::{self, BF16, F16, F32, F64, UI8, UI16, UI32, UI64};

use super::arithmetic::finfo;
use super::create::{full, iota, zeros};
use super::movement::stack;
use crate::element::Operand;
use crate::error::fail;
use crate::tree::{Path, Tree, Visit};
use crate::{Array, Shape, Tensor};

/// The key of a stream of random numbers. Use each key once; [`split`](Key::split) it for more.
///
/// It is a [`Tree`] of one array, of two `ui32`: an argument of functions, the state of loops. Several keys along a first
/// dimension come from [`split_many`](Key::split_many), for [`vmap`](crate::vmap) and [`scan`](crate::scan).
///
/// ```
/// use meshwork::prelude::*;
///
/// let f = jit(|_: ()| Key::new(0).uniform([3], F32));
/// let x = f.call(&())?.to_vec::<f32>()?;
/// assert!(x.iter().all(|u| (0.0..1.0).contains(u)));
///
/// // A key as an argument, one for each row.
/// let rows = jit(|key: Key| vmap(|key: Key| key.normal([4], BF16), key.split_many(3)));
/// assert_eq!(rows.call(&Array::from([0u32, 7]))?.shape(), [3, 4]);
/// # Ok::<(), meshwork::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Key {
    /// Two `ui32` along the last dimension.
    data: Tensor,
}

impl Key {
    /// The key of a seed that is known while tracing.
    #[track_caller]
    pub fn new(seed: u64) -> Key {
        Key { data: Tensor::constant(&Array::from([(seed >> 32) as u32, seed as u32])) }
    }

    /// The key of a seed that is data: a scalar of `ui32`, or two of them as a vector.
    #[track_caller]
    pub fn from_tensor(seed: &Tensor) -> Key {
        match (seed.dtype(), seed.shape()) {
            (UI32, []) => Key { data: stack(&[zeros((), UI32), seed.clone()], 0) },
            (UI32, [2]) => Key { data: seed.clone() },
            _ => fail("Key::from_tensor", format!("{} is not a ui32 scalar or pair", seed.describe())),
        }
    }

    /// The key as a vector of two `ui32`.
    pub fn tensor(&self) -> Tensor {
        self.data.clone()
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

    /// The keys of [`split`](Key::split) along a first dimension.
    #[track_caller]
    pub fn split_many(&self, count: i64) -> Key {
        let (high, low) = self.pairs(&[count]);
        Key { data: stack(&[high, low], -1) }
    }

    /// The key that belongs to this one and the `ui32` scalar `data`, for instance a step number.
    #[track_caller]
    pub fn fold_in(&self, data: &Tensor) -> Key {
        if data.dtype() != UI32 || data.rank() != 0 {
            fail("Key::fold_in", format!("{} is not a ui32 scalar", data.describe()));
        }
        let (high, low) = self.threefry(zeros((), UI32), data.clone());
        Key { data: stack(&[high, low], 0) }
    }

    /// 32 random bits per element.
    #[track_caller]
    pub fn bits(&self, shape: impl Shape) -> Tensor {
        let (high, low) = self.pairs(&shape.extents());
        high ^ low
    }

    /// Random bits per element, in an unsigned type.
    #[track_caller]
    pub fn bits_as(&self, shape: impl Shape, dtype: ElementType) -> Tensor {
        match dtype {
            UI8 | UI16 | UI32 => self.bits(shape).to(dtype),
            UI64 => {
                let (high, low) = self.pairs(&shape.extents());
                (high.to(UI64) << 32) | low.to(UI64)
            }
            other => fail("Key::bits_as", format!("element type {other}; UI8, UI16, UI32 and UI64 are possible")),
        }
    }

    /// Uniform in `[0, 1)`.
    #[track_caller]
    pub fn uniform(&self, shape: impl Shape, dtype: ElementType) -> Tensor {
        let shape = &shape.extents()[..];
        let mantissa = i64::from(finfo(dtype).mantissa);
        // A float in [1, 2) from its mantissa, less 1.
        let (bits, drop, one) = match dtype {
            F32 => (self.bits(shape), 32 - mantissa, 0x3f80_0000),
            F64 => (self.bits_as(shape, UI64), 64 - mantissa, 0x3ff0_0000_0000_0000i64),
            F16 => (self.bits_as(shape, UI16), 16 - mantissa, 0x3c00),
            // The mantissa has fewer than eight bits.
            BF16 => (self.bits_as(shape, UI8).to(UI16), 8 - mantissa, 0x3f80),
            other => fail("Key", format!("element type {other}; F16, BF16, F32 and F64 are possible")),
        };
        let word = bits.dtype();
        ((bits >> drop) | full((), word, one)).bitcast(dtype) - 1.0
    }

    /// Uniform in `[low, high)`; both broadcast.
    #[track_caller]
    pub fn uniform_in(
        &self,
        shape: impl Shape,
        dtype: ElementType,
        low: impl Into<Operand>,
        high: impl Into<Operand>,
    ) -> Tensor {
        let (low, high) = (low.into().tensor("Key::uniform_in", dtype), high.into().tensor("Key::uniform_in", dtype));
        (self.uniform(shape, dtype) * (high - &low) + &low).maximum(low)
    }

    /// From the normal distribution with mean 0 and variance 1.
    #[track_caller]
    pub fn normal(&self, shape: impl Shape, dtype: ElementType) -> Tensor {
        // Uniform in (-1, 1): the lower end is the float next to -1.
        let low = finfo(dtype).epsilon() / 2.0 - 1.0;
        let uniform = (self.uniform(shape, dtype) * (1.0 - low) + low).maximum(low);
        uniform.erf_inv() * std::f64::consts::SQRT_2
    }

    /// True with probability `p`.
    #[track_caller]
    pub fn bernoulli(&self, p: impl Into<Operand>, shape: impl Shape) -> Tensor {
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
        if self.data.shape() != [2] {
            fail("Key", format!("there are several keys, of shape {:?}; use vmap or scan", self.data.shape()));
        }
        let (k0, k1) = (self.data.slice(crate::s![0]), self.data.slice(crate::s![1]));
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

impl Tree for Key {
    type Host = Array;

    fn tensors(&self, path: &mut Path, visit: &mut dyn FnMut(&str, &Tensor)) {
        visit(path.text(), &self.data);
    }

    fn map(&self, next: &mut dyn FnMut(&Tensor) -> Tensor) -> Key {
        Key { data: next(&self.data) }
    }

    fn to_host(&self, next: &mut dyn FnMut(&Tensor) -> Array) -> Array {
        next(&self.data)
    }

    fn visit_host(host: &Array, path: &mut Path, visit: &mut dyn Visit) {
        visit.array(path.text(), host);
    }

    fn from_host(host: &Array, next: &mut dyn FnMut(&Array) -> Tensor) -> Key {
        Key { data: next(host) }
    }
}
