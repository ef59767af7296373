//! Extents from whatever Rust programs have them in: `[4, n]`, a `Vec<usize>`, another array's shape, one number, `()`.

use meshwork_ir::Dims;

/// An integer that counts elements or positions.
pub trait Int: Copy {
    /// As the programs have it.
    fn int(self) -> i64;
}

/// The extents of an array: a list or array of integers of any type, one integer, or `()` for a scalar.
///
/// ```
/// use meshwork_runtime::Array;
///
/// let (rows, columns) = (2usize, 3u32);
/// let x = Array::full([rows, 3], 1.0f32);
/// assert_eq!(x.shape(), Array::full(vec![2, columns], 1.0f32).shape());
/// assert_eq!(Array::full(rows, 1.0f32).shape(), [2]);
/// assert_eq!(Array::full((), 1.0f32).shape(), Array::scalar(1.0f32).shape());
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a shape",
    note = "shapes are lists of integers (`[2, n]`, `vec![2, 3]`, `x.shape()`), one integer, or `()` for a scalar"
)]
pub trait Shape {
    /// The extents, outermost first.
    fn extents(&self) -> Dims;
}

macro_rules! integers {
    ($($ty:ty)*) => {
        $(
            impl Int for $ty {
                fn int(self) -> i64 {
                    self as i64
                }
            }

            impl Shape for $ty {
                fn extents(&self) -> Dims {
                    Dims::from_slice(&[self.int()])
                }
            }
        )*
    };
}

integers! { i32 i64 isize u32 u64 usize }

impl Shape for () {
    fn extents(&self) -> Dims {
        Dims::new()
    }
}

impl<T: Int> Shape for [T] {
    fn extents(&self) -> Dims {
        self.iter().map(|d| d.int()).collect()
    }
}

impl<T: Int, const N: usize> Shape for [T; N] {
    fn extents(&self) -> Dims {
        self[..].extents()
    }
}

impl<T: Int> Shape for Vec<T> {
    fn extents(&self) -> Dims {
        self[..].extents()
    }
}

impl Shape for Dims {
    fn extents(&self) -> Dims {
        self.clone()
    }
}

impl<S: Shape + ?Sized> Shape for &S {
    fn extents(&self) -> Dims {
        (**self).extents()
    }
}
