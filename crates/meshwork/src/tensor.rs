//! The tensor: a value of the program being traced.

use std::fmt;
use std::sync::Arc;

use meshwork_ir::{BlockId, Dims, ElementType, TensorType, ValueId};
use smallvec::SmallVec;

use crate::error::fail;

/// A value of the program that is being traced: a shape and an element type, but no elements yet.
///
/// Tensors exist inside functions that [`jit`](crate::jit) runs. Cloning one copies a handle, not data.
/// Operations check shapes and element types at once; a misuse ends the trace, and `jit` returns an
/// [`Error`](crate::Error) with the operation, the numbers and the line of the program.
///
/// Two tensors combine by NumPy's broadcasting rules. Their element types must agree: convert with
/// [`to`](Tensor::to). Rust numbers take the element type of the other operand.
///
/// ```
/// use meshwork::prelude::*;
///
/// let f = jit(|x: Tensor| (2.0 * &x + 1.0).sum_all());
/// let x = Array::from([1.0f32, 2.0, 3.0]);
/// assert_eq!(f.call(&x)?.item::<f32>()?, 15.0);
/// # Ok::<(), meshwork::Error>(())
/// ```
#[derive(Clone)]
pub struct Tensor {
    pub(crate) trace: u64,
    pub(crate) block: BlockId,
    pub(crate) value: ValueId,
    pub(crate) ty: Arc<TensorType>,
}

impl Tensor {
    /// The extents, outermost first.
    pub fn shape(&self) -> &[i64] {
        &self.ty.dims
    }

    /// The element type.
    pub fn dtype(&self) -> ElementType {
        self.ty.elem
    }

    /// The number of dimensions.
    pub fn rank(&self) -> usize {
        self.ty.dims.len()
    }

    /// The number of elements.
    pub fn size(&self) -> i64 {
        self.ty.dims.iter().product()
    }

    /// The extent of dimension `axis`, which may count from the end.
    #[track_caller]
    pub fn dim(&self, axis: impl crate::Int) -> i64 {
        self.shape()[self.axis("dim", axis.int())]
    }

    /// For messages: `an f32 tensor of shape [2, 3]`.
    pub(crate) fn describe(&self) -> String {
        let dtype = self.dtype().to_string();
        let article = if dtype.starts_with(['f', 'i']) { "an" } else { "a" };
        format!("{article} {dtype} tensor of shape {:?}", self.shape())
    }

    /// Dimension `axis`, counted from the end if negative.
    #[track_caller]
    pub(crate) fn axis(&self, op: &str, axis: i64) -> usize {
        normalize(op, axis, self.rank())
    }

    /// Several dimensions, each once.
    #[track_caller]
    pub(crate) fn axes(&self, op: &str, axes: &[i64]) -> SmallVec<[usize; 4]> {
        self.dims_of(op, axes).into_iter().map(|d| d as usize).collect()
    }

    /// [`axes`](Tensor::axes) as attributes of operations have them.
    #[track_caller]
    pub(crate) fn dims_of(&self, op: &str, axes: &[i64]) -> Dims {
        let mut out = Dims::new();
        for &axis in axes {
            let axis = self.axis(op, axis) as i64;
            if out.contains(&axis) {
                fail(op, format!("axis {axis} is named twice in {axes:?}"));
            }
            out.push(axis);
        }
        out
    }
}

/// A short list of dimensions.
pub(crate) fn dims(list: impl IntoIterator<Item = i64>) -> Dims {
    let mut out = Dims::new();
    list.into_iter().for_each(|d| out.push(d));
    out
}

/// Dimension `axis` of `rank`, counted from the end if negative.
#[track_caller]
pub(crate) fn normalize(op: &str, axis: i64, rank: usize) -> usize {
    let n = rank as i64;
    match axis {
        _ if (0..n).contains(&axis) => axis as usize,
        _ if (-n..0).contains(&axis) => (axis + n) as usize,
        _ if rank == 0 => fail(op, format!("axis {axis}: a scalar has no axes")),
        _ => fail(op, format!("axis {axis} is out of range for a tensor of rank {rank}; use {}..{rank}", -n)),
    }
}

impl fmt::Debug for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{:?}", self.dtype(), self.shape())
    }
}
