//! Sequence parallelism: attention over a sequence that no device holds whole.
//!
//! The sequence is split over a mesh axis. Each device keeps its queries; keys and values go round the ring of devices,
//! one neighbor per step, while a running softmax takes them in. A device never holds more than two blocks of them,
//! nor a row of scores longer than a block.

use crate::ElementType::F32;
use crate::Tensor;
use crate::control::for_loop;
use crate::error::fail;
use crate::ops::{arange, einsum, full, select};
use crate::spec::P;
use crate::trace::{Placing, placing};

/// Which keys a query sees.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mask {
    /// All.
    Full,
    /// Those at its position and before.
    Causal,
}

/// Attention of `[batch, length, heads, features]`, the length split into `blocks` over the mesh axis `axis`.
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
pub fn ring_attention(axis: &str, blocks: i64, q: &Tensor, k: &Tensor, v: &Tensor, mask: Mask) -> Tensor {
    let &[batch, length, heads, features] = q.shape() else {
        fail("ring_attention", format!("queries of shape {:?}; they are [batch, length, heads, features]", q.shape()))
    };
    if k.shape() != q.shape() || v.shape() != q.shape() {
        let shapes = (q.shape(), k.shape(), v.shape());
        fail("ring_attention", format!("queries, keys and values have the shapes {shapes:?}, which must be equal"));
    }
    if blocks < 1 || length % blocks != 0 {
        fail("ring_attention", format!("a length of {length} in {blocks} blocks; give a number that divides it"));
    }
    let size = length / blocks;
    let cut = |x: &Tensor| {
        let parts = x.reshape([batch, blocks, size, heads, features]).permute(&[1, 0, 2, 3, 4]);
        on_ring(axis, &parts)
    };
    let (queries, keys, values) = (cut(q).to(F32) * (features as f64).powf(-0.5), cut(k).to(F32), cut(v).to(F32));
    let positions = on_ring(axis, &arange(length, F32).reshape([blocks, size]));
    let best = full([blocks, batch, heads, size], F32, -1e30);
    let start = (best.clone(), best.zeros_like(), queries.zeros_like(), keys, values, positions.clone());
    let (_, sum, out, ..) = for_loop(0..blocks, start, |_, (best, sum, out, keys, values, at)| {
        let mut scores = einsum("nbqhd,nbkhd->nbhqk", &[&queries, &keys]);
        if mask == Mask::Causal {
            let ahead = (at.expand_dims(1) - positions.expand_dims(2)).gt(0.0);
            let ahead = ahead.reshape([blocks, 1, 1, size, size]).broadcast_to(scores.shape());
            scores = select(ahead, -1e30, scores);
        }
        let next = best.maximum(scores.max(&[4]));
        let weights = (&scores - next.expand_dims(4)).exp();
        let weights = select(scores.le(-1e29), weights.zeros_like(), weights);
        let shrink = (&best - &next).exp();
        let sum = sum * &shrink + weights.sum(&[4]);
        let more = einsum("nbhqk,nbkhd->nbqhd", &[&weights, &values]);
        let out = out * shrink.swap_axes(2, 3).expand_dims(4) + more;
        (next, sum, out, on_ring(axis, &keys.roll(1, 0)), on_ring(axis, &values.roll(1, 0)), at.roll(1, 0))
    });
    let out = out / sum.swap_axes(2, 3).expand_dims(4);
    out.permute(&[1, 0, 2, 3, 4]).reshape([batch, length, heads, features]).to(q.dtype())
}

/// Attention of `[batch, length, heads, features]`, all at once.
#[track_caller]
pub fn attention(q: &Tensor, k: &Tensor, v: &Tensor, mask: Mask) -> Tensor {
    let (length, features) = (q.dim(1), q.dim(3));
    let scores = einsum("bqhd,bkhd->bhqk", &[&(q.to(F32) * (features as f64).powf(-0.5)), &k.to(F32)]);
    let scores = match mask {
        Mask::Full => scores,
        Mask::Causal => {
            let seen = arange(length, F32).expand_dims(1).ge(arange(length, F32).expand_dims(0));
            select(seen.reshape([1, 1, length, length]).broadcast_to(scores.shape()), scores, -1e30)
        }
    };
    einsum("bhqk,bkhd->bqhd", &[&scores.softmax(-1), &v.to(F32)]).to(q.dtype())
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
