//! What a module has many times and stores once: types, lists of dimensions, dimension numbers of products.
//!
//! A value names its type by [`TypeId`]: equal types are equal numbers, and what is known of a type is kept under its
//! number. Lists and dimension numbers are shared; nothing depends on that for correctness.

use std::hash::BuildHasher;
use std::sync::Arc;

use smallvec::SmallVec;

use super::{Module, ValueId};
use crate::attr::DotDims;
use crate::hash::{FixedState, Table, hash_numbers};
use crate::{ElementType, TensorType, Type};

/// Names a type of a module: equal types of one module have one number.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct TypeId(u32);

impl TypeId {
    /// Position among the types of the module: for side tables.
    #[inline]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// Names of a few types.
pub(crate) type TypeIds = SmallVec<[TypeId; 4]>;

/// The types, lists and dimension numbers of a module, each once.
#[derive(Clone, Debug, Default)]
pub(crate) struct Context {
    types: Vec<Type>,
    type_table: Table,
    /// Whether there is a tensor type that does not [fit](TensorType::fits).
    oversized: bool,
    lists: Vec<Arc<[i64]>>,
    list_table: Table,
    dots: Vec<Arc<DotDims>>,
    dot_table: Table,
}

fn hash_type(ty: &Type) -> u64 {
    match ty {
        Type::Tensor(ty) => hash_tensor(&ty.dims, ty.elem),
        other => FixedState::default().hash_one(other),
    }
}

/// Encodings are rare, so they are left out.
fn hash_tensor(dims: &[i64], elem: ElementType) -> u64 {
    hash_numbers(elem as u64, dims)
}

fn hash_dot(lists: [&[i64]; 4]) -> u64 {
    lists.iter().fold(0, |hash, list| hash_numbers(hash, list))
}

fn dot_lists(dims: &DotDims) -> [&[i64]; 4] {
    [&dims.lhs_batch, &dims.rhs_batch, &dims.lhs_contract, &dims.rhs_contract]
}

/// Whether lists are equal; they are short.
fn same(a: &[i64], b: &[i64]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(x, y)| x == y)
}

impl Context {
    /// The type `id`.
    #[inline]
    pub(crate) fn ty(&self, id: TypeId) -> &Type {
        &self.types[id.index()]
    }

    /// How many types there are.
    pub(crate) fn type_count(&self) -> usize {
        self.types.len()
    }

    /// Whether a tensor type of the module has too many bytes to compute with.
    pub(crate) fn is_oversized(&self) -> bool {
        self.oversized
    }

    /// The number of the tensor type without encoding that has these dimensions and elements, if the module has it.
    pub(crate) fn find(&self, dims: &[i64], elem: ElementType) -> Option<TypeId> {
        let is = |ty: &Type| matches!(ty, Type::Tensor(ty) if ty.elem == elem && same(&ty.dims, dims) && ty.encoding.is_none());
        self.type_table
            .find(hash_tensor(dims, elem), |number| is(&self.types[number]))
            .map(|number| TypeId(number as u32))
    }

    /// The number of the tensor type without encoding that has these dimensions and elements.
    pub(crate) fn tensor(&mut self, dims: &[i64], elem: ElementType) -> TypeId {
        self.find(dims, elem).unwrap_or_else(|| self.add(Type::tensor(dims.iter().copied(), elem)))
    }

    /// The number of `ty`.
    pub(crate) fn intern(&mut self, ty: Type) -> TypeId {
        let found = match &ty {
            Type::Tensor(ty) if ty.encoding.is_none() => self.find(&ty.dims, ty.elem),
            ty => {
                let number = self.type_table.find(hash_type(ty), |number| self.types[number] == *ty);
                number.map(|number| TypeId(number as u32))
            }
        };
        found.unwrap_or_else(|| self.add(ty))
    }

    fn add(&mut self, ty: Type) -> TypeId {
        self.oversized |= ty.as_tensor().is_some_and(|ty| !ty.fits());
        self.types.push(ty);
        self.type_table.add_last(&self.types, hash_type);
        TypeId(self.types.len() as u32 - 1)
    }

    /// These numbers as the list that an attribute holds.
    pub(crate) fn list(&mut self, numbers: &[i64]) -> Arc<[i64]> {
        match self.list_table.find(hash_numbers(0, numbers), |at| same(&self.lists[at], numbers)) {
            Some(at) => self.lists[at].clone(),
            None => {
                let list: Arc<[i64]> = numbers.into();
                self.lists.push(list.clone());
                self.list_table.add_last(&self.lists, |list| hash_numbers(0, list));
                list
            }
        }
    }

    /// The dimension numbers of a product: batch and contracted dimensions of both sides.
    pub(crate) fn dot(&mut self, batch: [&[i64]; 2], contract: [&[i64]; 2]) -> Arc<DotDims> {
        let lists = [batch[0], batch[1], contract[0], contract[1]];
        let is = |dims: &DotDims| dot_lists(dims).iter().zip(lists).all(|(a, b)| same(a, b));
        match self.dot_table.find(hash_dot(lists), |at| is(&self.dots[at])) {
            Some(at) => self.dots[at].clone(),
            None => {
                let [lhs_batch, rhs_batch, lhs_contract, rhs_contract] = lists.map(<[i64]>::to_vec);
                let dims = Arc::new(DotDims { lhs_batch, rhs_batch, lhs_contract, rhs_contract });
                self.dots.push(dims.clone());
                self.dot_table.add_last(&self.dots, |dims| hash_dot(dot_lists(dims)));
                dims
            }
        }
    }
}

impl Module {
    /// The number of the type of value `id`.
    #[inline]
    pub fn type_id(&self, id: ValueId) -> TypeId {
        self.value(id).ty
    }

    /// The number of the tensor type without encoding that has these dimensions and elements.
    pub fn tensor_type_id(&mut self, dims: &[i64], elem: ElementType) -> TypeId {
        self.context.tensor(dims, elem)
    }

    /// The type `id`.
    #[inline]
    pub fn type_of(&self, id: TypeId) -> &Type {
        self.context.ty(id)
    }

    /// The tensor type without encoding that has these dimensions and elements: one object however often it is asked for.
    pub fn tensor_type(&mut self, dims: &[i64], elem: ElementType) -> Arc<TensorType> {
        let id = self.context.tensor(dims, elem);
        match self.context.ty(id) {
            Type::Tensor(ty) => ty.clone(),
            // The number of a tensor type.
            ty => unreachable!("{ty} is not a tensor type"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_types_have_one_number() {
        let mut context = Context::default();
        let mut new = |dims| context.intern(Type::tensor(dims, ElementType::F32));
        let (a, b, c) = (new([2, 3]), new([2, 3]), new([3, 2]));
        assert_eq!(a, b);
        assert_eq!(context.ty(c).dims(), [3, 2]);
        assert_eq!(a, context.tensor(&[2, 3], ElementType::F32));
        assert_eq!(Some(a), context.find(&[2, 3], ElementType::F32));
        assert_ne!(a, context.tensor(&[2, 3], ElementType::F64));
        assert_eq!(context.intern(Type::Token), context.intern(Type::Token));
    }

    #[test]
    fn types_with_an_encoding_are_other_types() {
        let mut context = Context::default();
        let plain = context.tensor(&[2], ElementType::F32);
        let encoded = TensorType { encoding: Some("#sparse".into()), ..TensorType::new([2], ElementType::F32) };
        assert_ne!(context.intern(encoded.into()), plain);
    }

    #[test]
    fn dimension_numbers_are_told_apart_by_list() {
        let mut context = Context::default();
        let a = context.dot([&[], &[]], [&[1], &[0]]);
        assert!(Arc::ptr_eq(&a, &context.dot([&[], &[]], [&[1], &[0]])));
        assert_ne!(a, context.dot([&[1], &[0]], [&[], &[]]));
        assert_eq!(a.lhs_contract, [1]);
    }
}
