//! Sequence parallelism: attention over a sequence that no device holds whole.
//!
//! The sequence is split over a mesh axis. Each device keeps its queries; keys and values go round the ring of devices,
//! one neighbor per step, while a running softmax takes them in. A device never holds more than two blocks of them,
//! nor a row of scores longer than a block.

use crate::ElementType::I32;
use crate::Tensor;
pub use crate::attention::Mask;
use crate::attention::{DotProduct, Extents, UNSEEN, wide};
use crate::control::for_loop;
use crate::error::fail;
use crate::ops::{arange, einsum, full, select};
use crate::spec::P;
use crate::trace::{Placing, placing};

/// Attention of `[batch, length, heads, features]`, the length split into `blocks` over the mesh axis `axis`, where queries see
/// keys as a [`Mask`] or [`DotProduct`] without masks and biases of its own says. Heads of keys and values may be shared.
///
/// ```
/// use meshwork::prelude::*;
/// use meshwork::sequence::{Mask, attention, ring_attention};
///
/// let wave = |n: i64| Array::from_fn([2, 8, 2, 4], move |i: &[i64]| (i.iter().fold(n, |s, i| 3 * s + i) as f32).sin());
/// let (q, k, v) = (wave(1), wave(2), wave(3));
/// let mesh = Mesh::linear("seq", 4)?;
/// let ring = jit(|q: Tensor, k: Tensor, v: Tensor| ring_attention("seq", 4, &q, &k, &v, Mask::Causal));
/// let ring = ring.on(&mesh).in_shardings([P![_, "seq"], P![_, "seq"], P![_, "seq"]]).out_shardings([P![_, "seq"]]);
/// let whole = jit(|q: Tensor, k: Tensor, v: Tensor| attention(&q, &k, &v, Mask::Causal));
/// assert!(ring.call((&q, &k, &v))?.all_close(&whole.call((&q, &k, &v))?, 1e-5));
/// // Only neighbours talk.
/// assert_eq!(ring.plan((&q, &k, &v))?.totals().keys().collect::<Vec<_>>(), [&"collective-permute"]);
/// # Ok::<(), meshwork::Error>(())
/// ```
#[track_caller]
pub fn ring_attention(
    axis: &str,
    blocks: i64,
    q: &Tensor,
    k: &Tensor,
    v: &Tensor,
    how: impl Into<DotProduct>,
) -> Tensor {
    let how = how.into();
    let Extents { batch, queries: length, keys, heads, groups } = Extents::of("ring_attention", q, k, v);
    if keys != length {
        fail("ring_attention", format!("{length} queries and {keys} keys, which must be equally many"));
    }
    if let Some(what) = how.given_by_pair() {
        fail("ring_attention", format!("a {what} for each query and key, which no device has whole; use attention"));
    }
    if blocks < 1 || length % blocks != 0 {
        fail("ring_attention", format!("a length of {length} in {blocks} blocks; give a number that divides it"));
    }
    let (size, each, wide) = (length / blocks, heads / groups, wide(q));
    // Blocks first, then batch, position, group, head of the group, feature.
    let cut = |x: &Tensor, heads: i64| {
        let parts = x.reshape([batch, blocks, size, groups, heads, x.dim(3)]).permute(&[1, 0, 2, 3, 4, 5]);
        on_ring(axis, &parts)
    };
    let queries = cut(&how.scaled(q), each);
    let (keys, values) = (cut(&k.to(wide), 1).squeeze(4), cut(&v.to(wide), 1).squeeze(4));
    let positions = on_ring(axis, &arange(length, I32).reshape([blocks, size]));
    let best = full([blocks, batch, groups, each, size], wide, UNSEEN);
    let out = full([blocks, batch, size, groups, each, v.dim(3)], wide, 0);
    let start = (best.clone(), best.zeros_like(), out, keys, values, positions.clone());
    let (_, sum, out, ..) = for_loop(0..blocks, start, |_, (best, sum, out, keys, values, at)| {
        let mut scores = einsum("nbqghd,nbkgd->nbghqk", &[&queries, &keys]);
        let unseen = how.unseen(&(at.expand_dims(1) - positions.expand_dims(2)));
        let unseen = unseen.map(|unseen| unseen.reshape([blocks, 1, 1, 1, size, size]).broadcast_to(scores.shape()));
        if let Some(unseen) = &unseen {
            scores = select(unseen, UNSEEN, scores);
        }
        let next = best.maximum(scores.max(&[5]));
        let mut weights = (&scores - next.expand_dims(5)).exp();
        if let Some(unseen) = unseen {
            weights = select(unseen, weights.zeros_like(), weights);
        }
        let shrink = (&best - &next).exp();
        let sum = sum * &shrink + weights.sum(&[5]);
        let more = einsum("nbghqk,nbkgd->nbqghd", &[&weights, &values]);
        let out = out * by_position(&shrink) + more;
        (next, sum, out, on_ring(axis, &keys.roll(1, 0)), on_ring(axis, &values.roll(1, 0)), at.roll(1, 0))
    });
    let out = out / by_position(&sum);
    out.permute(&[1, 0, 2, 3, 4, 5]).reshape([batch, length, heads, v.dim(3)]).to(q.dtype())
}

/// `[blocks, batch, groups, heads, positions]` beside `[blocks, batch, positions, groups, heads, features]`.
#[track_caller]
fn by_position(x: &Tensor) -> Tensor {
    x.permute(&[0, 1, 4, 2, 3]).expand_dims(5)
}

/// Attention of `[batch, length, heads, features]`, all at once: [`DotProduct::apply`].
#[track_caller]
pub fn attention(q: &Tensor, k: &Tensor, v: &Tensor, how: impl Into<DotProduct>) -> Tensor {
    how.into().apply(q, k, v)
}

/// The first dimension over the axis, the others as propagation finds best.
#[track_caller]
fn on_ring(axis: &str, x: &Tensor) -> Tensor {
    match placing("ring_attention") {
        Placing::On(_) => {
            let mut dims = vec![vec![]; x.rank()];
            dims[0] = vec![axis.into()];
            x.shard(P::of(dims).open())
        }
        Placing::Ignored(_) | Placing::NoMesh => x.clone(),
    }
}
