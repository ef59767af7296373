//! Arrays from and to `ndarray`.

use ndarray::{ArrayBase, ArrayD, Data, Dimension, IxDyn};

use super::Array;
use crate::element::Element;
use crate::error::ArrayError;

impl<T: Element, S: Data<Elem = T>, D: Dimension> From<&ArrayBase<S, D>> for Array {
    /// The same elements, in any memory order.
    ///
    /// ```
    /// use meshwork_runtime::Array;
    ///
    /// let a = ndarray::array![[1.0f32, 2.0], [3.0, 4.0]];
    /// let x = Array::from(&a.t());
    /// assert_eq!(x.to_vec::<f32>()?, [1.0, 3.0, 2.0, 4.0]);
    /// assert_eq!(x.to_ndarray::<f32>()?, a.t().into_dyn());
    /// # Ok::<(), meshwork_runtime::ArrayError>(())
    /// ```
    fn from(array: &ArrayBase<S, D>) -> Array {
        let mut bytes = Vec::with_capacity(array.len() * T::TYPE.storage_bytes());
        array.iter().for_each(|e| e.write(&mut bytes));
        let shape = array.shape().iter().map(|&n| n as i64);
        // The iterator yields one element for each place of the shape.
        let literal =
            meshwork_ir::Literal::from_bytes(shape, T::TYPE, bytes).expect("as many elements as the shape has");
        Array::from_literal(literal)
    }
}

impl Array {
    /// The elements as an array of `ndarray`; an error if they are of another type.
    pub fn to_ndarray<T: Element>(&self) -> Result<ArrayD<T>, ArrayError> {
        let shape: Vec<usize> = self.shape().iter().map(|&n| n as usize).collect();
        let elements = self.to_vec::<T>()?;
        // An array has as many elements as its shape says.
        Ok(ArrayD::from_shape_vec(IxDyn(&shape), elements).expect("as many elements as the shape has"))
    }
}
