//! Pipeline parallelism: the layers of a model cut into stages over a mesh axis, micro-batches passed from each stage to
//! the next.
//!
//! The stages run at the same time on different micro-batches. A buffer holds one micro-batch per stage, its first
//! dimension split over the axis. In each step every stage works on its entry and the buffer is shifted by one, which
//! is one permute between neighbors. It is an ordinary program, so gradients, data and tensor axes go through it.
//! While the buffer fills and empties, some stages are idle: the [`bubble_share`].
//!
//! ```
//! use meshwork::pipeline::{bubble_share, into_micro_batches, pipeline};
//! use meshwork::prelude::*;
//!
//! // Four stages that each multiply by a matrix of their own; 8 micro-batches of 2 rows.
//! let f = |w: Tensor, x: Tensor| pipeline("stage", &w, &into_micro_batches(&x, 8), |w, x| x.matmul(&w).tanh());
//! let w = Array::from_fn([4, 3, 3], |i| ((i[0] * 9 + i[1] * 3 + i[2]) as f32).sin());
//! let x = Array::from_fn([16, 3], |i| (i[0] * 3 + i[1]) as f32 * 0.1);
//! let mesh = Mesh::linear("stage", 4)?;
//! let split = jit(f).on(&mesh).in_shardings([P!["stage"], P![]]);
//! assert!(split.call((&w, &x))?.all_close(&jit(f).single_device().call((&w, &x))?, 1e-6));
//! assert_eq!(bubble_share(4, 8), 3.0 / 11.0);
//! # Ok::<(), meshwork::Error>(())
//! ```

use crate::Tensor;
use crate::control::scan;
use crate::error::fail;
use crate::ops::{concatenate, zeros};
use crate::spec::P;
use crate::trace::{Placing, placing};
use crate::transform::vmap;
use crate::tree::{Tree, leaves};

/// The fraction of its time that a stage is idle: `(stages - 1) / (micro_batches + stages - 1)`.
pub fn bubble_share(stages: i64, micro_batches: i64) -> f64 {
    (stages - 1).max(0) as f64 / (micro_batches + stages - 1).max(1) as f64
}

/// `x` of `[rows, ...]` as `[count, rows / count, ...]`. The micro-batch of a row is its number modulo `count`, so that
/// each device that holds rows has some of every micro-batch.
#[track_caller]
pub fn into_micro_batches(x: &Tensor, count: i64) -> Tensor {
    let rows = x.shape().first().copied().unwrap_or(0);
    if count < 1 || rows % count != 0 {
        fail("into_micro_batches", format!("{rows} rows in {count} micro-batches; give a number that divides them"));
    }
    let mut shape = vec![rows / count, count];
    shape.extend(&x.shape()[1..]);
    x.reshape(shape).swap_axes(0, 1)
}

/// The inverse of [`into_micro_batches`].
#[track_caller]
pub fn from_micro_batches(x: &Tensor) -> Tensor {
    let mut shape = vec![x.dim(0) * x.dim(1)];
    shape.extend(&x.shape()[2..]);
    x.swap_axes(0, 1).reshape(shape)
}

/// Runs micro-batches `[count, rows, ...]` through stages split over the mesh axis `axis`, and returns what the last
/// stage makes of them, `[count, rows, ...]`. `params` has one slice per stage along the first dimension of each of its
/// tensors; `stage` makes of one slice and one micro-batch another one of the same shape.
#[track_caller]
pub fn pipeline<A: Tree>(axis: &str, params: &A, micro: &Tensor, stage: impl Fn(A, Tensor) -> Tensor) -> Tensor {
    let firsts: Vec<i64> = leaves(params).iter().map(|p| p.shape().first().copied().unwrap_or(-1)).collect();
    let stages = match firsts.first() {
        Some(&n) if n >= 1 && firsts.iter().all(|&m| m == n) => n,
        _ => {
            fail("pipeline", format!("the parameters have first extents {firsts:?}; each must be the number of stages"))
        }
    };
    if micro.rank() < 2 {
        fail("pipeline", format!("micro-batches of shape {:?}; it must be [count, rows, ...]", micro.shape()));
    }
    let mut one = vec![stages];
    one.extend(&micro.shape()[1..]);
    let mut tail = micro.shape().to_vec();
    tail[0] = stages - 1;
    let fed = concatenate(&[micro.clone(), zeros(tail, micro.dtype())], 0);
    let empty = on_stages(axis, &zeros(one, micro.dtype()));
    let (_, out) = scan(empty, fed, |buffer, next| {
        let full = on_stages(axis, &buffer.at(crate::s![0]).set(next));
        let work = |(p, x): (A, Tensor)| stage(p, x);
        let done = on_stages(axis, &vmap(work, (params.map(&mut Tensor::clone), full)));
        let last = done.slice(crate::s![-1]);
        (done.roll(1, 0), last)
    });
    out.slice(crate::s![(stages - 1)..])
}

/// The first dimension over the axis, the others as propagation finds best.
#[track_caller]
fn on_stages(axis: &str, x: &Tensor) -> Tensor {
    match placing("pipeline") {
        Placing::On(_) => {
            let mut dims = vec![vec![]; x.rank()];
            dims[0] = vec![axis.into()];
            x.shard(P::of(dims).open())
        }
        Placing::Ignored(_) | Placing::NoMesh => x.clone(),
    }
}
