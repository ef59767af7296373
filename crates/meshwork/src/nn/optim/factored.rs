//! Adafactor: the average square of a matrix kept as one number for each row and column.

use meshwork_mesh::sort_by_key;

use super::basic::{add_decayed_weights, counted, scale, with_count};
use super::{Params, Transform, chain, wide};
use crate::ElementType::F32;
use crate::Tensor;
use crate::ops::{full, zeros};

/// The two largest dimensions, the smaller one first, if the smaller has at least `least` elements.
fn largest_two(shape: &[i64], least: i64) -> Option<(i64, i64)> {
    let mut order: Vec<usize> = (0..shape.len()).collect();
    sort_by_key(&mut order, |&d| shape[d]);
    let &[.., second, first] = &order[..] else { return None };
    (shape[second] >= least).then_some((second as i64, first as i64))
}

/// Over the root of the average square of gradients, which for dimensions of at least `least` elements is kept by row
/// and column. `decay` is the exponent by which the average slows down.
pub fn scale_by_factored_rms(decay: f64, epsilon: f64, least: i64) -> Transform {
    let slots = move |params: &Params| -> usize {
        1 + params.iter().map(|(_, p)| if largest_two(p.shape(), least).is_some() { 2 } else { 1 }).sum::<usize>()
    };
    let init = move |params: &Params| {
        let mut out = vec![];
        for (_, p) in params {
            let elem = wide(p).dtype();
            match largest_two(p.shape(), least) {
                Some((second, first)) => {
                    let without = |d: i64| -> Vec<i64> {
                        (0..p.rank()).filter(|&i| i as i64 != d).map(|i| p.shape()[i]).collect()
                    };
                    out.extend([zeros(without(first), elem), zeros(without(second), elem)]);
                }
                None => out.push(zeros(p.shape(), elem)),
            }
        }
        counted(out)
    };
    let update = move |updates: Vec<Tensor>, state: &[Tensor], _: &Params| {
        let count = &state[0] + 1;
        // 1 - t^-decay, so that the first step forgets the start.
        let keep = 1.0 - count.to(F32).pow(-decay);
        let (mut out, mut kept, mut at) = (vec![], vec![], 1);
        for g in &updates {
            let g = wide(g);
            let keep = keep.to(g.dtype());
            let mixed = |old: &Tensor, new: Tensor| old * &keep + new * (1.0 - &keep);
            let square = g.square() + epsilon;
            match largest_two(g.shape(), least) {
                Some((second, first)) => {
                    let rows = mixed(&state[at], square.mean(&[first]));
                    let columns = mixed(&state[at + 1], square.mean(&[second]));
                    // The mean of the rows over what is left of the second dimension.
                    let reduced = if second > first { second - 1 } else { second };
                    let mean = rows.keep_dims(&[reduced], |x, axes| x.mean(axes));
                    let by_row = (&rows / mean).rsqrt();
                    let by_column = columns.rsqrt();
                    out.push(g * by_row.expand_dims(first) * by_column.expand_dims(second));
                    kept.extend([rows, columns]);
                    at += 2;
                }
                None => {
                    let v = mixed(&state[at], square);
                    out.push(g * v.rsqrt());
                    kept.push(v);
                    at += 1;
                }
            }
        }
        (out, with_count(count, kept))
    };
    Transform::new("scale_by_factored_rms", slots, init, update)
}

/// Each update scaled down so that its root mean square is at most `most`.
fn clip_by_block_rms(most: f64) -> Transform {
    Transform::of_each("clip_by_block_rms", move |g, _| {
        let rms = g.square().mean_all().sqrt();
        g / (rms / most).maximum(1.0)
    })
}

/// Times the root mean square of the parameter, at least `least`.
fn scale_by_param_block_rms(least: f64) -> Transform {
    Transform::of_each("scale_by_param_block_rms", move |g, p| {
        let rms = p.to(g.dtype()).square().mean_all().sqrt();
        g * rms.maximum(full((), g.dtype(), least))
    })
}

/// Adafactor with its usual settings and this step size, relative to the size of each parameter.
pub fn adafactor(rate: f64, decay: f64) -> Transform {
    adafactor_of(rate, decay, 128)
}

/// [`adafactor`] that keeps rows and columns of dimensions of at least `least` elements.
pub fn adafactor_of(rate: f64, decay: f64, least: i64) -> Transform {
    chain([
        scale_by_factored_rms(0.8, 1e-30, least),
        clip_by_block_rms(1.0),
        scale(rate),
        scale_by_param_block_rms(1e-3),
        add_decayed_weights(decay),
        scale(-1.0),
    ])
}
