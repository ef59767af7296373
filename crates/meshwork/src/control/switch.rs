//! A choice among several branches, a loop with bounds that are data, and a function of one slice after the other.

use meshwork_ir::OpKind;
use meshwork_ir::op::ControlOp;

use super::{Open, scan, types, while_loop};
use crate::ElementType::I32;
use crate::Tensor;
use crate::element::Operand;
use crate::error::fail;
use crate::tree::{Tree, leaves, replace};

/// What the branch of number `index`, an integer scalar, returns. All are traced, one is run. A number past an end means
/// that end.
///
/// ```
/// use meshwork::prelude::*;
/// use meshwork::{fori_loop, map, switch};
///
/// let f = jit(|i: Tensor, x: Tensor| switch(&i, &[&|| x.sin(), &|| &x * 2.0, &|| x.clone()]));
/// let x = Array::scalar(3.0f32);
/// assert_eq!(f.call((&Array::scalar(1i32), &x))?.item::<f32>()?, 6.0);
/// assert_eq!(f.call((&Array::scalar(9i32), &x))?.item::<f32>()?, 3.0);
///
/// // As often as the data say.
/// let g = jit(|n: Tensor| fori_loop(0, n, zeros((), I32), |i, sum| sum + i));
/// assert_eq!(g.call(&Array::scalar(5i32))?.item::<i32>()?, 10);
/// let h = jit(|x: Tensor| map(|row: Tensor| row.sum_all(), x));
/// assert_eq!(h.call(&Array::full([2, 3], 1.0f32))?.to_vec::<f32>()?, [3.0, 3.0]);
/// # Ok::<(), meshwork::Error>(())
/// ```
#[track_caller]
pub fn switch<S: Tree>(index: &Tensor, branches: &[&dyn Fn() -> S]) -> S {
    if !index.dtype().is_integer() || index.rank() != 0 {
        fail("switch", format!("the number is {}; it must be an integer scalar", index.describe()));
    }
    let Some(last) = branches.len().checked_sub(1) else { fail("switch", "no branches given") };
    let index = index.to(I32).clamp(0, last as i64);
    let op = Open::new("switch", OpKind::Control(ControlOp::Case), &[index]);
    let mut first: Option<S> = None;
    for (i, branch) in branches.iter().enumerate() {
        op.begin(&[]);
        let out = branch();
        let list = leaves(&out);
        if let Some(first) = &first
            && types(&leaves(first)) != types(&list)
        {
            fail("switch", format!("branch 0 returns {:?}, branch {i} returns {list:?}", leaves(first)));
        }
        op.end(&list);
        first = first.or(Some(out));
    }
    let results = op.close();
    match first {
        Some(first) => replace(&first, &results),
        None => fail("switch", "no branches given"),
    }
}

/// Runs `body` for each number from `start` to before `end`, which may be `i32` scalars of the program. Where they are
/// known while tracing, [`for_loop`](super::for_loop) also has gradients.
#[track_caller]
pub fn fori_loop<S: Tree>(
    start: impl Into<Operand>,
    end: impl Into<Operand>,
    init: S,
    body: impl FnOnce(Tensor, S) -> S,
) -> S {
    let start = start.into().tensor("fori_loop", I32).to(I32);
    let end = end.into().tensor("fori_loop", I32).to(I32);
    let (_, state) = while_loop((start, init), |(i, _)| i.lt(&end), |(i, state)| (&i + 1, body(i, state)));
    state
}

/// `f` of one slice of `xs` along the first dimension after the other, stacked. ([`vmap`](crate::vmap) does all at once.)
#[track_caller]
pub fn map<X: Tree, Y: Tree>(f: impl Fn(X) -> Y, xs: X) -> Y {
    scan((), xs, |(), x| ((), f(x))).1
}
