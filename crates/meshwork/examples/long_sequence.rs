//! Attention over a sequence of which each of four devices holds a quarter: keys and values go round the ring, and a
//! device has the scores of one block at a time, never a whole row.

use meshwork::prelude::*;
use meshwork::sequence::{Mask, attention, ring_attention};

fn main() -> Result<(), Error> {
    let wave = |n: i64| Array::from_fn([1, 64, 2, 8], |i: &[i64]| (i.iter().fold(n, |s, i| 3 * s + i) as f32).sin());
    let (q, k, v) = (wave(1), wave(2), wave(3));
    let mesh = Mesh::linear("seq", 4)?;
    let split = || P![_, "seq"];
    let ring = jit(|q: Tensor, k: Tensor, v: Tensor| ring_attention("seq", 4, &q, &k, &v, Mask::Causal));
    let ring = ring.on(&mesh).in_shardings([split(), split(), split()]).out_shardings([split()]);
    let whole = jit(|q: Tensor, k: Tensor, v: Tensor| attention(&q, &k, &v, Mask::Causal));
    assert!(ring.call((&q, &k, &v))?.all_close(&whole.call((&q, &k, &v))?, 1e-4));
    println!("{}", ring.explain((&q, &k, &v))?);
    for length in [256, 512, 1024] {
        let x = Array::shape_only([1, length, 2, 8], F32);
        let gathered = jit(|q: Tensor, k: Tensor, v: Tensor| attention(&q, &k, &v, Mask::Causal)).on(&mesh);
        let gathered = gathered.in_shardings([split(), split(), split()]).out_shardings([split()]);
        let (ring, whole) = (ring.plan((&x, &x, &x))?.peak.bytes, gathered.plan((&x, &x, &x))?.peak.bytes);
        println!(
            "{length:6} positions: {:6.1} MB per device by the ring, {:7.1} MB all at once",
            ring as f64 / 1e6,
            whole as f64 / 1e6
        );
    }
    Ok(())
}
