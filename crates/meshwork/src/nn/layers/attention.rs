//! Attention with several heads, over a sequence at once or one token after the other.

use super::Linear;
use crate::ElementType;
use crate::attention::DotProduct;
use crate::error::fail;
use crate::ops::zeros;
use crate::{Int, Key, Tensor, Tree};

/// Attention with several heads of `[batch, length, features]`.
#[derive(Clone, Debug, Tree)]
pub struct Attention<T = Tensor> {
    /// To queries, `[features, features]`.
    pub query: Linear<T>,
    /// To keys.
    pub key: Linear<T>,
    /// To values.
    pub value: Linear<T>,
    /// From the heads' values to the result.
    pub out: Linear<T>,
    /// The number of heads.
    #[tree(skip)]
    pub heads: i64,
}

/// Keys and values of the tokens so far, for a sequence that is made token by token.
#[derive(Clone, Debug, Tree)]
pub struct KvCache<T = Tensor> {
    /// `[batch, longest, heads, features / heads]`.
    pub keys: T,
    /// `[batch, longest, heads, features / heads]`.
    pub values: T,
}

impl KvCache {
    /// Room for `longest` tokens of each sequence, for a layer of this size.
    #[track_caller]
    pub fn empty(batch: i64, longest: i64, heads: i64, features: i64, dtype: ElementType) -> KvCache {
        let room = || zeros([batch, longest, heads, features / heads], dtype);
        KvCache { keys: room(), values: room() }
    }

    /// The cache with keys and values, `[batch, some, heads, features / heads]`, of tokens of which the first is number
    /// `position`, an `i32` scalar.
    #[track_caller]
    pub fn with(&self, keys: &Tensor, values: &Tensor, position: &Tensor) -> KvCache {
        let put = |room: &Tensor, new: &Tensor| room.dynamic_update_slice_in_dim(&new.to(room.dtype()), position, 1);
        KvCache { keys: put(&self.keys, keys), values: put(&self.values, values) }
    }

    /// What queries `[batch, some, heads, features / heads]`, of which the first is number `position`, see of the tokens up to
    /// theirs. Heads of queries may be a multiple of those of the cache.
    #[track_caller]
    pub fn attend(&self, q: &Tensor, position: &Tensor, how: DotProduct) -> Tensor {
        how.causal().apply_from(q, &self.keys, &self.values, position)
    }
}

impl Attention {
    /// Four [linear](Linear::init) layers.
    #[track_caller]
    pub fn init(key: &Key, features: impl Int, heads: impl Int) -> Attention {
        let (features, heads) = (features.int(), heads.int());
        if heads < 1 || features % heads != 0 {
            fail("Attention", format!("{features} features for {heads} heads; give a number that divides them"));
        }
        let keys = key.split(4);
        let linear = |i: usize| Linear::init(&keys[i], features, features);
        Attention { query: linear(0), key: linear(1), value: linear(2), out: linear(3), heads }
    }

    /// `[batch, length, features]` as `[batch, length, heads, features / heads]`.
    #[track_caller]
    fn in_heads(&self, x: &Tensor) -> Tensor {
        let &[batch, length, features] = x.shape() else {
            fail("Attention", format!("{:?} is not [batch, length, features]", x.shape()))
        };
        x.reshape([batch, length, self.heads, features / self.heads])
    }

    /// The layer on `[batch, length, features]`, where queries see keys as a [`Mask`](crate::attention::Mask) or [`DotProduct`]
    /// says.
    #[track_caller]
    pub fn apply(&self, x: &Tensor, how: impl Into<DotProduct>) -> Tensor {
        let part = |layer: &Linear| self.in_heads(&layer.apply(x));
        let y = how.into().apply(&part(&self.query), &part(&self.key), &part(&self.value));
        self.out.apply(&y.reshape(x.shape()))
    }

    /// The layer on the next tokens, `[batch, some, features]`, of which the first is number `position`, an `i32` scalar:
    /// each sees those before it. Returns the result and the cache with these tokens.
    #[track_caller]
    pub fn next(&self, x: &Tensor, cache: &KvCache, position: &Tensor) -> (Tensor, KvCache) {
        let part = |layer: &Linear| self.in_heads(&layer.apply(x));
        let cache = cache.with(&part(&self.key), &part(&self.value), position);
        let y = cache.attend(&part(&self.query), position, DotProduct::default());
        (self.out.apply(&y.reshape(x.shape())), cache)
    }
}
