//! Arrays from Rust's nested ones: `Array::from([[1.0, 2.0], [3.0, 4.0]])`.

use super::Array;
use crate::element::Element;

/// An element, or an array of such of one shape.
pub trait Nested {
    /// The type of the elements.
    type Element: Element;
    /// The extents, outermost first.
    fn shape(dims: &mut Vec<i64>);
    /// Appends the elements.
    fn elements(&self, out: &mut Vec<Self::Element>);
}

impl<T: Element> Nested for T {
    type Element = T;

    fn shape(_: &mut Vec<i64>) {}

    fn elements(&self, out: &mut Vec<T>) {
        out.push(*self);
    }
}

impl<T: Nested, const N: usize> Nested for [T; N] {
    type Element = T::Element;

    fn shape(dims: &mut Vec<i64>) {
        dims.push(N as i64);
        T::shape(dims);
    }

    fn elements(&self, out: &mut Vec<T::Element>) {
        self.iter().for_each(|part| part.elements(out));
    }
}

/// ```
/// use meshwork_runtime::Array;
///
/// let x = Array::from([[1.0f32, 2.0, 3.0], [4.0, 5.0, 6.0]]);
/// assert_eq!((x.shape(), x.to_vec::<f32>()?), (&[2, 3][..], vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0]));
/// # Ok::<(), meshwork_runtime::ArrayError>(())
/// ```
impl<T: Nested, const N: usize> From<[T; N]> for Array {
    fn from(nested: [T; N]) -> Array {
        let (mut shape, mut elements) = (vec![], vec![]);
        <[T; N]>::shape(&mut shape);
        nested.elements(&mut elements);
        // As many elements as the type says.
        Array::from_vec(shape, elements).expect("an element for each position")
    }
}
