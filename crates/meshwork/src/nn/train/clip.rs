//! The global norm of gradients, and clipping by it.

use crate::ElementType::F32;
use crate::Tensor;
use crate::ops::{full, select};
use crate::tree::{Tree, leaves};

/// The Euclidean norm of all floats of a tree together, in `f32`. An element that several devices hold counts once.
#[track_caller]
pub fn global_norm<A: Tree>(tree: &A) -> Tensor {
    let mut sum = full((), F32, 0.0);
    for x in leaves(tree).iter().filter(|x| crate::transform::differentiable(x)) {
        sum += x.to(F32).square().sum_all();
    }
    sum.sqrt()
}

/// The tree scaled so that its [`global_norm`] is at most `most`, and the norm before.
///
/// ```
/// use meshwork::prelude::*;
/// use meshwork::train::clip_by_global_norm;
///
/// let f = jit(|x: (Tensor, Tensor)| clip_by_global_norm(&x, 1.0));
/// let ((a, b), norm) = f.call(&(Array::from([3.0f32]), Array::from([4.0f32])))?;
/// assert_eq!((a.item::<f32>()?, b.item::<f32>()?, norm.item::<f32>()?), (0.6, 0.8, 5.0));
/// # Ok::<(), meshwork::Error>(())
/// ```
#[track_caller]
pub fn clip_by_global_norm<A: Tree>(tree: &A, most: f64) -> (A, Tensor) {
    let norm = global_norm(tree);
    let scale = select(norm.gt(most), full((), F32, most) / &norm, norm.ones_like());
    let clipped =
        tree.map(&mut |x| if crate::transform::differentiable(x) { x * scale.to(x.dtype()) } else { x.clone() });
    (clipped, norm)
}
