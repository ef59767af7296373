//! The shapes of results, without running anything.

use std::panic::Location;

use super::{Jit, LoweredFor};
use crate::error::At;
use crate::tree::Tree;
use crate::{Array, Function, Result};

impl<O: Tree> LoweredFor<O> {
    /// What the program returns, as [shapes](Array::shape_only) without elements.
    pub fn shapes(&self) -> O::Host {
        self.0.1.to_host(&mut |t| Array::shape_only(t.shape(), t.dtype()))
    }
}

impl<A, F: Function<A>> Jit<F, A> {
    /// What the function returns for these arguments, as shapes without elements. The arguments may be shapes too. The
    /// function is traced, and nothing is run.
    ///
    /// ```
    /// use meshwork::prelude::*;
    ///
    /// let f = jit(|x: Tensor, w: Tensor| (x.matmul(&w), x.argmax(-1)));
    /// let (y, at) = f.eval_shape((&Array::shape_only([8, 4], BF16), &Array::shape_only([4, 2], BF16)))?;
    /// assert_eq!((y.shape(), y.dtype(), at.shape(), at.dtype()), (&[8, 2][..], BF16, &[8][..], I32));
    /// # Ok::<(), meshwork::Error>(())
    /// ```
    #[track_caller]
    pub fn eval_shape(&self, args: F::Args<'_>) -> Result<<F::Output as Tree>::Host> {
        let at = Location::caller();
        let entry = self.entry(args, &self.arguments(args), At(at));
        entry.map(|program| LoweredFor(program).shapes()).map_err(|e| e.at(at))
    }
}
