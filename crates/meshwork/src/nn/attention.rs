//! Attention in the forms that models use: masked, grouped, of some queries at a position of the keys.
//!
//! [`layers::Attention`](crate::layers::Attention) is a layer with weights; [`sequence`](crate::sequence) has attention over a
//! sequence that is split.
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

use crate::ElementType::{F32, I32};
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
        let (&[batch, queries, heads, features], &[_, keys, groups, _]) = (q.shape(), k.shape()) else {
            fail("attention", format!("queries {} and keys {}; both have four dimensions", q.describe(), k.describe()))
        };
        if groups == 0 || heads % groups != 0 || k.shape()[..3] != v.shape()[..3] {
            let shapes = (q.shape(), k.shape(), v.shape());
            fail("attention", format!("queries, keys and values have the shapes {shapes:?}; groups must divide heads"));
        }
        let scale = self.scale.unwrap_or((features as f64).powf(-0.5));
        let grouped = q.reshape([batch, queries, groups, heads / groups, features]);
        let scores = einsum("bqghd,bkgd->bghqk", &[&grouped.to(F32), &k.to(F32)]) * scale;
        let mut scores = scores.reshape([batch, heads, queries, keys]);
        if let Some(bias) = &self.bias {
            scores += bias.to(F32);
        }
        let place = arange(queries, I32).expand_dims(1) + offset;
        let ahead = arange(keys, I32).expand_dims(0) - place;
        let mut hidden: Vec<Tensor> = vec![];
        if self.causal {
            hidden.push(ahead.gt(0));
        }
        if let Some(distance) = self.window {
            hidden.push(ahead.abs().gt(distance));
        }
        hidden.extend(self.mask.as_ref().map(|mask| !mask));
        for hidden in hidden {
            scores = select(hidden.broadcast_to(scores.shape()), f64::from(f32::MIN) * 0.7, scores);
        }
        let weights = scores.softmax(-1).reshape([batch, groups, heads / groups, queries, keys]);
        let out = einsum("bghqk,bkgd->bqghd", &[&weights, &v.to(F32)]);
        out.reshape([batch, queries, heads, v.dim(-1)]).to(q.dtype())
    }
}
