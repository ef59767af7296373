//! Whole derivatives: Jacobians row by row or column by column, and Hessians.

use super::grad::{differentiable, grad};
use super::linear::{jvp, vjp};
use super::vmap::vmap;
use crate::Tensor;
use crate::error::fail;
use crate::ops::eye;

/// The derivative of `f` at `x`, in forward mode: of shape `[shape of f(x)…, shape of x…]`. Its cost grows with the number
/// of elements of `x`.
///
/// ```
/// use meshwork::prelude::*;
/// use meshwork::{hessian, jacfwd, jacrev};
///
/// let f = jit(|x: Tensor| jacfwd(|x: Tensor| x.square(), x));
/// assert_eq!(f.call(&Array::from([1.0f32, 2.0]))?.to_vec::<f32>()?, [2.0, 0.0, 0.0, 4.0]);
/// let g = jit(|x: Tensor| (jacrev(|x: Tensor| x.sum_all(), x.clone()), hessian(|x: Tensor| x.pow(3.0).sum_all(), x)));
/// let (rows, second) = g.call(&Array::from([1.0f32, 2.0]))?;
/// assert_eq!(rows.to_vec::<f32>()?, [1.0, 1.0]);
/// assert_eq!(second.to_vec::<f32>()?, [6.0, 0.0, 0.0, 12.0]);
/// # Ok::<(), meshwork::Error>(())
/// ```
#[track_caller]
pub fn jacfwd(f: impl Fn(Tensor) -> Tensor, x: Tensor) -> Tensor {
    check("jacfwd", &x);
    let n = x.size();
    let columns = vmap(|direction: Tensor| jvp(&f, x.clone(), direction.reshape(x.shape())).1, eye(n, x.dtype()));
    // The directions come last, in the shape of x.
    let columns = columns.moveaxis(0, -1);
    let shape: Vec<i64> = columns.shape()[..columns.rank() - 1].iter().chain(x.shape()).copied().collect();
    columns.reshape(shape)
}

/// The derivative of `f` at `x`, in reverse mode: of shape `[shape of f(x)…, shape of x…]`. Its cost grows with the number
/// of elements of `f(x)`. See [`jacfwd`].
#[track_caller]
pub fn jacrev(f: impl Fn(Tensor) -> Tensor, x: Tensor) -> Tensor {
    check("jacrev", &x);
    let (y, back) = vjp(&f, x.clone());
    let rows = vmap(|row: Tensor| back(row.reshape(y.shape())), eye(y.size(), y.dtype()));
    rows.reshape(y.shape().iter().chain(x.shape()).copied().collect::<Vec<_>>())
}

/// The second derivative of the scalar that `f` returns at `x`: of shape `[shape of x…, shape of x…]`. See [`jacfwd`].
#[track_caller]
pub fn hessian(f: impl Fn(Tensor) -> Tensor, x: Tensor) -> Tensor {
    jacfwd(|x| grad(&f, x), x)
}

/// `f(x)`, and the function that takes a tangent of `x` to the one of `f(x)`.
#[track_caller]
pub fn linearize(f: impl Fn(Tensor) -> Tensor, x: Tensor) -> (Tensor, impl Fn(Tensor) -> Tensor) {
    check("linearize", &x);
    let y = f(x.clone());
    (y, move |dx| jvp(&f, x.clone(), dx).1)
}

/// The transpose of a function `f` that is linear, for arguments like `x`: takes a cotangent of the result to the one of
/// the argument.
#[track_caller]
pub fn linear_transpose(f: impl Fn(Tensor) -> Tensor, x: &Tensor) -> impl Fn(Tensor) -> Tensor {
    check("linear_transpose", x);
    vjp(f, x.zeros_like()).1
}

#[track_caller]
fn check(op: &str, x: &Tensor) {
    if !differentiable(x) {
        fail(op, format!("by {}; it must be of floats", x.describe()));
    }
}
