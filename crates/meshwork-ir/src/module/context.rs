//! Interned tensor types: equal types of one module are one object.
//!
//! Interning saves memory, and equal types compare by address first. Nothing depends on it for correctness.

use std::sync::Arc;

use super::Module;
use crate::hash::HashSet;
use crate::{Dims, ElementType, TensorType, Type};

/// The types of a module, each once.
#[derive(Clone, Debug, Default)]
pub(crate) struct Context {
    types: HashSet<Arc<TensorType>>,
}

impl Context {
    /// The tensor type without encoding that has these dimensions and elements.
    pub(crate) fn tensor(&mut self, dims: &[i64], elem: ElementType) -> Arc<TensorType> {
        let ty = TensorType { dims: Dims::from_slice(dims), elem, encoding: None };
        if let Some(known) = self.types.get(&ty) {
            return known.clone();
        }
        let ty = Arc::new(ty);
        self.types.insert(ty.clone());
        ty
    }

    /// The interned type that is equal to `ty`.
    pub(crate) fn find(&self, ty: &TensorType) -> Option<Arc<TensorType>> {
        self.types.get(ty).cloned()
    }

    /// Replaces a tensor type by the equal one that was interned first.
    pub(crate) fn intern(&mut self, ty: &mut Type) {
        let Type::Tensor(ty) = ty else { return };
        match self.types.get(ty) {
            Some(known) => ty.clone_from(known),
            None => drop(self.types.insert(ty.clone())),
        }
    }

    /// Interns a tensor type that nothing else holds: others come from an operand, or were interned when made.
    pub(crate) fn intern_new(&mut self, ty: &mut Type) {
        if matches!(ty, Type::Tensor(tensor) if Arc::strong_count(tensor) == 1) {
            self.intern(ty);
        }
    }
}

impl Module {
    /// The tensor type without encoding that has these dimensions and elements, interned.
    pub fn tensor_type(&mut self, dims: &[i64], elem: ElementType) -> Arc<TensorType> {
        self.context.tensor(dims, elem)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_types_are_one_object() {
        let mut context = Context::default();
        let mut new = |dims| {
            let mut ty = Type::tensor(dims, ElementType::F32);
            context.intern(&mut ty);
            match ty {
                Type::Tensor(ty) => ty,
                other => panic!("{other} is not a tensor"),
            }
        };
        let (a, b, c) = (new([2, 3]), new([2, 3]), new([3, 2]));
        assert!(Arc::ptr_eq(&a, &b));
        assert_eq!(c.dims[..], [3, 2]);
        assert!(Arc::ptr_eq(&a, &context.tensor(&[2, 3], ElementType::F32)));
        assert_ne!(a, context.tensor(&[2, 3], ElementType::F64));
    }

    #[test]
    fn types_with_an_encoding_are_other_types() {
        let mut context = Context::default();
        let plain = context.tensor(&[2], ElementType::F32);
        let encoded = TensorType { encoding: Some("#sparse".into()), ..(*plain).clone() };
        let mut interned = Type::from(encoded);
        context.intern(&mut interned);
        assert_ne!(interned, Type::Tensor(plain));
    }
}
