//! Interned tensor types: equal types of one module are one object.
//!
//! Interning saves memory, and equal types compare by address first. Nothing depends on it for correctness.

use std::collections::HashSet;
use std::sync::Arc;

use super::Module;
use crate::{ElementType, TensorType, Type};

/// The types of a module, each once.
#[derive(Clone, Debug, Default)]
pub(crate) struct Context {
    types: HashSet<Arc<TensorType>, foldhash::fast::RandomState>,
}

impl Context {
    /// The tensor type without encoding that has these dimensions and elements.
    pub(crate) fn tensor(&mut self, dims: &[i64], elem: ElementType) -> Arc<TensorType> {
        let ty = TensorType::new(dims.iter().copied(), elem);
        match self.types.get(&ty) {
            Some(known) => known.clone(),
            None => self.insert(Arc::new(ty)),
        }
    }

    /// The type equal to `ty` that was interned first.
    pub(crate) fn intern(&mut self, ty: Type) -> Type {
        let Type::Tensor(ty) = ty else { return ty };
        Type::Tensor(match self.types.get(&ty) {
            Some(known) => known.clone(),
            None => self.insert(ty),
        })
    }

    fn insert(&mut self, ty: Arc<TensorType>) -> Arc<TensorType> {
        self.types.insert(ty.clone());
        ty
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
        let mut new = |dims| match context.intern(Type::tensor(dims, ElementType::F32)) {
            Type::Tensor(ty) => ty,
            other => panic!("{other} is not a tensor"),
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
        assert_ne!(context.intern(Type::from(encoded)), Type::Tensor(plain));
    }
}
