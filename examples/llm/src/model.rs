//! The model on some tokens of a text, with a cache of the keys and values of those before.

use meshwork::attention::DotProduct;
use meshwork::layers::KvCache;
use meshwork::prelude::*;

use crate::config::Config;
use crate::rope::turn;

/// The weights of a block, as in its files: products are with rows, `[outputs, inputs]`.
#[derive(Clone, Debug, Tree)]
pub struct Block<T = Tensor> {
    /// The scale of features before attention.
    pub attention_norm: T,
    /// To queries.
    pub query: T,
    /// To keys.
    pub key: T,
    /// To values.
    pub value: T,
    /// From the heads back to features.
    pub out: T,
    /// The scale of features before the feed-forward part.
    pub hidden_norm: T,
    /// To what decides how much of each hidden feature passes.
    pub gate: T,
    /// To hidden features.
    pub up: T,
    /// From hidden features back.
    pub down: T,
    /// The biases of query, key, value, out, gate, up and down, where there are any.
    pub biases: [Option<T>; 7],
}

/// The weights of a model.
#[derive(Clone, Debug, Tree)]
pub struct Llama<T = Tensor> {
    /// A row for each token.
    pub embed: T,
    /// The blocks, one after the other.
    pub blocks: Vec<Block<T>>,
    /// The scale of features after the blocks.
    pub norm: T,
    /// A row for the score of each token; the rows of `embed` if there is none.
    pub head: Option<T>,
}

/// The product with the rows of `weight`.
fn linear(x: &Tensor, weight: &Tensor, bias: &Option<Tensor>) -> Tensor {
    let y = einsum("btd,od->bto", &[x, weight]);
    bias.as_ref().map_or(y.clone(), |bias| y + bias)
}

/// A mean square of 1, computed in `f32`, and a scale.
fn rms_norm(x: &Tensor, scale: &Tensor, epsilon: f64) -> Tensor {
    let wide = x.to(F32);
    let square = wide.square().keep_dims(&[-1], |x, axes| x.mean(axes));
    (wide * (square + epsilon).rsqrt()).to(x.dtype()) * scale
}

impl Block {
    /// The block on `[1, tokens, features]`, the first of them at `position`; `angles` are those of their positions.
    fn apply(
        &self,
        config: &Config,
        x: &Tensor,
        cache: &KvCache,
        position: &Tensor,
        angles: &(Tensor, Tensor),
    ) -> (Tensor, KvCache) {
        let count = x.dim(1);
        let [query, key, value, out, gate, up, down] = &self.biases;
        let y = rms_norm(x, &self.attention_norm, config.epsilon);
        let in_heads = |x: Tensor, heads: i64| x.reshape([1, count, heads, config.width]);
        let q = turn(&in_heads(linear(&y, &self.query, query), config.heads), angles);
        let k = turn(&in_heads(linear(&y, &self.key, key), config.groups), angles);
        let v = in_heads(linear(&y, &self.value, value), config.groups);
        let cache = cache.with(&k, &v, position);
        let seen = config.window.map_or(DotProduct::default(), |window| DotProduct::default().window(window - 1));
        let heads = cache.attend(&q, position, seen);
        let x = x + linear(&heads.reshape([1, count, config.heads * config.width]), &self.out, out);

        let y = rms_norm(&x, &self.hidden_norm, config.epsilon);
        let hidden = linear(&y, &self.gate, gate).silu() * linear(&y, &self.up, up);
        (&x + linear(&hidden, &self.down, down), cache)
    }
}

impl Llama {
    /// Scores, `f32`, of the token after number `last` of `tokens`, a vector of `i32` whose first is at `position` of the text;
    /// and the cache with these tokens.
    pub fn next(
        &self,
        config: &Config,
        tokens: &Tensor,
        position: &Tensor,
        last: &Tensor,
        cache: &[KvCache],
    ) -> (Tensor, Vec<KvCache>) {
        let mut x = self.embed.take(tokens, 0).expand_dims(0);
        let angles = config.rope.angles(&(arange(tokens.dim(0), I32) + position), config.width);
        let mut caches = vec![];
        for (block, cache) in self.blocks.iter().zip(cache) {
            let (y, cache) = block.apply(config, &x, cache, position, &angles);
            x = y;
            caches.push(cache);
        }
        let x = rms_norm(&x.dynamic_slice_in_dim(last, 1, 1), &self.norm, config.epsilon);
        let scores = linear(&x, self.head.as_ref().unwrap_or(&self.embed), &None);
        (scores.reshape([config.vocabulary]).to(F32), caches)
    }
}
