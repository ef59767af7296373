//! Running combinations by an associative function, in a logarithm of steps.

use crate::Tensor;
use crate::error::fail;
use crate::ops::{concatenate, stack};
use crate::tree::{Tree, leaves, replace};

/// All combinations `x0`, `f(x0, x1)`, `f(f(x0, x1), x2)`, … along the first dimension of `xs`, where `f` is associative and
/// takes many pairs at once: slices of `xs` of one length.
///
/// Neighbors are combined in pairs, the pairs in turn, and the rest is filled in. The work is that of twice as many
/// combinations; the steps that follow each other are few.
///
/// ```
/// use meshwork::prelude::*;
/// use meshwork::associative_scan;
///
/// // A linear recurrence: y[i] = a[i] * y[i - 1] + b[i].
/// let f = jit(|a: Tensor, b: Tensor| {
///     associative_scan(|(a0, b0): (Tensor, Tensor), (a1, b1): (Tensor, Tensor)| (&a0 * &a1, b0 * a1 + b1), (a, b)).1
/// });
/// let (a, b) = (Array::from([0.5f32, 0.5, 0.5]), Array::from([1.0f32, 1.0, 1.0]));
/// assert_eq!(f.call((&a, &b))?.to_vec::<f32>()?, [1.0, 1.5, 1.75]);
/// # Ok::<(), meshwork::Error>(())
/// ```
#[track_caller]
pub fn associative_scan<X: Tree>(f: impl Fn(X, X) -> X, xs: X) -> X {
    let parts = leaves(&xs);
    let extents: Vec<i64> = parts.iter().map(|x| x.shape().first().copied().unwrap_or(-1)).collect();
    if extents.iter().any(|&n| n < 0 || n != extents[0]) {
        fail(
            "associative_scan",
            format!("the inputs have first extents {extents:?}, which must be equal (-1: scalar)"),
        );
    }
    let combine = |a: &[Tensor], b: &[Tensor]| leaves(&f(replace(&xs, a), replace(&xs, b)));
    let out = run(&combine, &parts);
    replace(&xs, &out)
}

/// Combines many pairs of slices.
type Combine<'f> = dyn Fn(&[Tensor], &[Tensor]) -> Vec<Tensor> + 'f;

#[track_caller]
fn run(combine: &Combine<'_>, xs: &[Tensor]) -> Vec<Tensor> {
    let n = xs.first().map_or(0, |x| x.shape()[0]);
    if n < 2 {
        return xs.to_vec();
    }
    let part = |list: &[Tensor], from: i64, to: i64, step: i64| -> Vec<Tensor> {
        let mut out = vec![];
        for x in list {
            out.push(x.slice([crate::Index::Range { start: Some(from), end: Some(to), step }]));
        }
        out
    };
    let pairs = combine(&part(xs, 0, n - 1, 2), &part(xs, 1, n, 2));
    let odd = run(combine, &pairs);
    let halves = n / 2;
    let even = if n > 2 {
        let before = if n % 2 == 0 { part(&odd, 0, halves - 1, 1) } else { odd.clone() };
        combine(&before, &part(xs, 2, n, 2))
    } else {
        vec![]
    };
    let first = part(xs, 0, 1, 1);
    let mut out = vec![];
    for (i, odd) in odd.iter().enumerate() {
        let even = match even.get(i) {
            Some(rest) => concatenate(&[first[i].clone(), rest.clone()], 0),
            None => first[i].clone(),
        };
        // One after the other: odd places are one fewer if the number is odd.
        let mut around = vec![(0, 0); odd.rank()];
        around[0] = (0, n % 2);
        let padded = if n % 2 == 0 { odd.clone() } else { odd.pad(&around, zero_of(odd)) };
        let wide = stack(&[even, padded], 1);
        let mut shape = odd.shape().to_vec();
        shape[0] = n + n % 2;
        out.push(wide.reshape(shape).slice([crate::Index::Range { start: Some(0), end: Some(n), step: 1 }]));
    }
    out
}

fn zero_of(x: &Tensor) -> crate::Number {
    if x.dtype() == crate::ElementType::I1 { crate::Number::Bool(false) } else { crate::Number::Int(0) }
}
