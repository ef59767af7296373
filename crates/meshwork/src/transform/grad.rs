//! Gradients of functions of tensors: traced separately, differentiated as a module, and inlined.

use meshwork_autodiff::GradOptions;

use super::linear::traced;
use crate::Tensor;
use crate::error::fail;
use crate::trace::inline::inline;
use crate::tree::{Tree, leaves, replace};

/// The gradient of the scalar that `f` returns, at `x`: a tree like `x`.
///
/// It is used inside a traced function. Tensors that `f` captures are held fixed. The gradient is that of the
/// global program: under data parallelism it is the gradient of the loss over the whole batch, on any mesh.
/// Integers have a gradient of zero.
///
/// ```
/// use meshwork::prelude::*;
///
/// let slope = jit(|x: Tensor| grad(|x: Tensor| x.pow(3.0).sum_all(), x));
/// assert_eq!(slope.call(&Array::from([1.0f32, 2.0]))?.to_vec::<f32>()?, [3.0, 12.0]);
/// # Ok::<(), meshwork::Error>(())
/// ```
#[track_caller]
pub fn grad<A: Tree>(f: impl FnOnce(A) -> Tensor, x: A) -> A {
    value_and_grad(f, x).1
}

/// The scalar that `f` returns, and its gradient at `x`.
///
/// ```
/// use meshwork::prelude::*;
///
/// let f = jit(|w: Tensor, x: Tensor| value_and_grad(|w: Tensor| (w * &x).sum_all(), w));
/// let (value, gradient) = f.call((&Array::from([1.0f32, 2.0]), &Array::from([3.0f32, 4.0])))?;
/// assert_eq!(value.item::<f32>()?, 11.0);
/// assert_eq!(gradient.to_vec::<f32>()?, [3.0, 4.0]);
/// # Ok::<(), meshwork::Error>(())
/// ```
#[track_caller]
pub fn value_and_grad<A: Tree>(f: impl FnOnce(A) -> Tensor, x: A) -> (Tensor, A) {
    let (value, (), gradient) = value_and_grad_aux(|x| (f(x), ()), x);
    (value, gradient)
}

/// The scalar that `f` returns, what it returns beside it, and the gradient of the scalar at `x`.
#[track_caller]
pub fn value_and_grad_aux<A: Tree, B: Tree>(f: impl FnOnce(A) -> (Tensor, B), x: A) -> (Tensor, B, A) {
    let inputs = leaves(&x);
    let ((value, aux), module, captures) = traced("grad", &inputs, |t| f(replace(&x, t)));
    if value.rank() != 0 || !value.dtype().is_float() {
        fail("grad", format!("the function returns {}; it must be a float scalar", value.describe()));
    }
    let wrt: Vec<usize> = (0..inputs.len()).filter(|&i| differentiable(&inputs[i])).collect();
    let options = GradOptions { wrt: wrt.clone(), keep_value: true };
    let module = match meshwork_autodiff::grad(&module, "main", &options) {
        Ok(module) => module,
        Err(e) => fail("grad", e.to_string()),
    };
    let args: Vec<Tensor> = inputs.iter().cloned().chain(captures).collect();
    let out = inline("grad", &module, &args);
    // The value, a gradient for each of `wrt`, then what else was returned.
    let (head, rest) = out.split_at(1 + wrt.len());
    let mut gradients = vec![];
    for (i, input) in inputs.iter().enumerate() {
        match wrt.iter().position(|&w| w == i) {
            Some(at) => gradients.push(head[1 + at].clone()),
            None => gradients.push(input.zeros_like()),
        }
    }
    (head[0].clone(), replace(&aux, rest), replace(&x, &gradients))
}

/// Whether derivatives by `x` exist.
pub(crate) fn differentiable(x: &Tensor) -> bool {
    x.dtype().is_float() || x.dtype().is_complex()
}
