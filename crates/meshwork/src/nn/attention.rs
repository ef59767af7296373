//! Attention in the forms that models use: masked, grouped, of some queries at a position of the keys.
//!
//! [`layers::Attention`](crate::layers::Attention) is this with weights and a cache; [`sequence`](crate::sequence) has the same
//! over a sequence that is split.
//!
//! ```
//! use meshwork::attention::DotProduct;
//! use meshwork::prelude::*;
//!
//! // Two heads of queries share one head of keys and values.
//! let wave = |shape: [i64; 4], n: i64| Array::from_fn(shape, move |i: &[i64]| (i.iter().sum::<i64>() + n) as f32);
//! let (q, k, v) = (wave([1, 3, 2, 4], 0), wave([1, 3, 1, 4], 1), wave([1, 3, 1, 4], 2));
//! let whole = jit(|q: Tensor, k: Tensor, v: Tensor| DotProduct::default().causal().apply(&q, &k, &v));
//!
//! // The same, one query after the other: what lies ahead of it in a cache of keys and values is not seen.
//! let steps = jit(|q: Tensor, k: Tensor, v: Tensor| {
//!     for_loop(0..3, q.zeros_like(), |i, y| {
//!         let one = q.dynamic_slice_in_dim(&i, 1, 1);
//!         y.dynamic_update_slice_in_dim(&DotProduct::default().causal().apply_from(&one, &k, &v, &i), &i, 1)
//!     })
//! });
//! assert!(whole.call((&q, &k, &v))?.all_close(&steps.call((&q, &k, &v))?, 1e-5));
//! # Ok::<(), meshwork::Error>(())
//! ```

use crate::ElementType::{self, F32, F64, I32};
use crate::Tensor;
use crate::error::fail;
use crate::ops::{arange, einsum, full, select};

/// How queries see keys: everything, unless said otherwise.
#[derive(Clone, Debug, Default)]
pub struct DotProduct {
    causal: bool,
    window: Option<i64>,
    mask: Option<Tensor>,
    bias: Option<Tensor>,
    scale: Option<f64>,
}

/// Which keys a query sees.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mask {
    /// All.
    Full,
    /// Those at its position and before.
    Causal,
}

impl From<Mask> for DotProduct {
    fn from(mask: Mask) -> DotProduct {
        DotProduct { causal: mask == Mask::Causal, ..DotProduct::default() }
    }
}

impl DotProduct {
    /// A query sees keys at its position and before. With more keys than queries, the last positions are the same.
    pub fn causal(mut self) -> DotProduct {
        self.causal = true;
        self
    }

    /// A query sees the keys at distances up to `distance` alone.
    pub fn window(mut self, distance: i64) -> DotProduct {
        self.window = Some(distance);
        self
    }

    /// A query sees a key where `mask`, which broadcasts to `[batch, heads, queries, keys]`, holds.
    pub fn mask(mut self, mask: &Tensor) -> DotProduct {
        self.mask = Some(mask.clone());
        self
    }

    /// Added to the scores; broadcasts to `[batch, heads, queries, keys]`.
    pub fn bias(mut self, bias: &Tensor) -> DotProduct {
        self.bias = Some(bias.clone());
        self
    }

    /// What scores are multiplied with, in place of one over the root of the number of features.
    pub fn scale(mut self, scale: f64) -> DotProduct {
        self.scale = Some(scale);
        self
    }

    /// Attention of queries `[batch, queries, heads, features]` to keys and values `[batch, keys, groups, features]`,
    /// where `groups` divides `heads`: `heads / groups` heads share keys and values. As `jax.nn.dot_product_attention`.
    #[track_caller]
    pub fn apply(&self, q: &Tensor, k: &Tensor, v: &Tensor) -> Tensor {
        let offset = k.shape().get(1).copied().unwrap_or(0) - q.shape().get(1).copied().unwrap_or(0);
        self.apply_from(q, k, v, &full((), I32, offset))
    }

    /// [`apply`](DotProduct::apply) where the first query is at position `offset`, an `i32` scalar, of the keys.
    #[track_caller]
    pub fn apply_from(&self, q: &Tensor, k: &Tensor, v: &Tensor, offset: &Tensor) -> Tensor {
        let Extents { batch, queries, keys, heads, groups, .. } = Extents::of("attention", q, k, v);
        let wide = wide(q);
        let (q32, k32, v32) = (self.scaled(q), k.to(wide), v.to(wide));
        let each = heads / groups;
        let mut scores = if each == 1 {
            einsum("bqhd,bkhd->bhqk", &[&q32, &k32])
        } else {
            let grouped = q32.reshape([batch, queries, groups, each, q.dim(3)]);
            einsum("bqghd,bkgd->bghqk", &[&grouped, &k32]).reshape([batch, heads, queries, keys])
        };
        if let Some(bias) = &self.bias {
            scores += bias.to(wide);
        }
        let place = arange(queries, I32).expand_dims(1) + offset;
        let ahead = arange(keys, I32).expand_dims(0) - place;
        let unseen = self.unseen(&ahead).into_iter().chain(self.mask.as_ref().map(|mask| !mask));
        for unseen in unseen {
            scores = select(unseen.broadcast_to(scores.shape()), UNSEEN, scores);
        }
        let weights = scores.softmax(-1);
        let out = if each == 1 {
            einsum("bhqk,bkhd->bqhd", &[&weights, &v32])
        } else {
            let grouped = weights.reshape([batch, groups, each, queries, keys]);
            einsum("bghqk,bkgd->bqghd", &[&grouped, &v32]).reshape([batch, queries, heads, v.dim(3)])
        };
        out.to(q.dtype())
    }

    /// Queries in the type of scores, times the scale of scores.
    #[track_caller]
    pub(crate) fn scaled(&self, q: &Tensor) -> Tensor {
        q.to(wide(q)) * self.scale.unwrap_or((q.dim(-1) as f64).powf(-0.5))
    }

    /// Where a key is not seen because of its position, by how far it is ahead of the query.
    #[track_caller]
    pub(crate) fn unseen(&self, ahead: &Tensor) -> Option<Tensor> {
        let causal = self.causal.then(|| ahead.gt(0));
        let window = self.window.map(|distance| ahead.abs().gt(distance));
        match (causal, window) {
            (Some(a), Some(b)) => Some(a | b),
            (a, b) => a.or(b),
        }
    }

    /// What is given for each pair of a query and a key: a mask or a bias.
    pub(crate) fn given_by_pair(&self) -> Option<&'static str> {
        self.mask.as_ref().map(|_| "mask").or(self.bias.as_ref().map(|_| "bias"))
    }
}

/// The score of a key that is not seen: low, and far enough from the end of the type that differences are finite.
pub(crate) const UNSEEN: f64 = f32::MIN as f64 * 0.7;

/// The type of scores and sums.
pub(crate) fn wide(q: &Tensor) -> ElementType {
    if q.dtype() == F64 { F64 } else { F32 }
}

/// The extents of queries, keys and values, which fit each other.
pub(crate) struct Extents {
    pub(crate) batch: i64,
    pub(crate) queries: i64,
    pub(crate) keys: i64,
    pub(crate) heads: i64,
    pub(crate) groups: i64,
}

impl Extents {
    #[track_caller]
    pub(crate) fn of(op: &str, q: &Tensor, k: &Tensor, v: &Tensor) -> Extents {
        let (&[batch, queries, heads, features], &[rows, keys, groups, wide]) = (q.shape(), k.shape()) else {
            let (q, k) = (q.describe(), k.describe());
            fail(op, format!("queries {q} and keys {k}; both are [batch, length, heads, features]"))
        };
        let fit = rows == batch && wide == features && v.rank() == 4 && k.shape()[..3] == v.shape()[..3];
        if groups == 0 || heads % groups != 0 || !fit {
            let (q, k, v) = (q.shape(), k.shape(), v.shape());
            let wanted = "batch, features of queries and keys, and lengths and heads of keys and values are equal, and the latter divide the heads of queries";
            fail(op, format!("queries {q:?}, keys {k:?} and values {v:?}: {wanted}"));
        }
        Extents { batch, queries, keys, heads, groups }
    }
}
