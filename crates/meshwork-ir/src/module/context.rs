//! What a module has many times and stores once: types, and the dictionaries of operations whose one attribute is a list
//! of numbers or the dimension numbers of a product.
//!
//! A value names its type by [`TypeId`]: equal types are equal numbers, and what is known of a type is kept under its
//! number. Nothing depends on dictionaries being shared for correctness.

use std::hash::BuildHasher;
use std::sync::Arc;

use smallvec::SmallVec;

use super::{Module, ValueId};
use crate::attr::{AttrDict, DotDims};
use crate::hash::{FixedState, Table, hash_numbers};
use crate::{Attr, ElementType, TensorType, Type};

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

/// The attribute that holds the dimension numbers of a product.
pub(crate) const DOT_DIMS: &str = "dot_dimension_numbers";

/// Names of a few types.
pub(crate) type TypeIds = SmallVec<[TypeId; 4]>;

/// The types and such dictionaries of a module, each once.
#[derive(Clone, Debug, Default)]
pub(crate) struct Context {
    types: Vec<Type>,
    type_table: Table,
    /// Whether there is a tensor type that does not [fit](TensorType::fits).
    oversized: bool,
    lists: Vec<(&'static str, Arc<[i64]>, AttrDict)>,
    list_table: Table,
    dots: Vec<(Arc<DotDims>, AttrDict)>,
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

/// The length tells most names apart.
fn hash_list(name: &str, numbers: &[i64]) -> u64 {
    hash_numbers(name.len() as u64, numbers)
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

    /// The dictionary of one attribute, which is a list of numbers. Names are compared by address.
    pub(crate) fn list(&mut self, name: &'static str, numbers: &[i64]) -> AttrDict {
        let is = |at: usize| std::ptr::eq(self.lists[at].0, name) && same(&self.lists[at].1, numbers);
        match self.list_table.find(hash_list(name, numbers), is) {
            Some(at) => self.lists[at].2.clone(),
            None => {
                let list: Arc<[i64]> = numbers.into();
                let dict = AttrDict::one(name, Attr::I64Array(list.clone()));
                self.lists.push((name, list, dict.clone()));
                self.list_table.add_last(&self.lists, |(name, list, _)| hash_list(name, list));
                dict
            }
        }
    }

    /// The dictionary of a product: batch and contracted dimensions of both sides.
    pub(crate) fn dot(&mut self, batch: [&[i64]; 2], contract: [&[i64]; 2]) -> AttrDict {
        let lists = [batch[0], batch[1], contract[0], contract[1]];
        let is = |dims: &DotDims| dot_lists(dims).iter().zip(lists).all(|(a, b)| same(a, b));
        match self.dot_table.find(hash_dot(lists), |at| is(&self.dots[at].0)) {
            Some(at) => self.dots[at].1.clone(),
            None => {
                let [lhs_batch, rhs_batch, lhs_contract, rhs_contract] = lists.map(<[i64]>::to_vec);
                let dims = Arc::new(DotDims { lhs_batch, rhs_batch, lhs_contract, rhs_contract });
                let dict = AttrDict::one(DOT_DIMS, Attr::Dot(dims.clone()));
                self.dots.push((dims, dict.clone()));
                self.dot_table.add_last(&self.dots, |(dims, _)| hash_dot(dot_lists(dims)));
                dict
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
        assert_eq!(a, context.dot([&[], &[]], [&[1], &[0]]));
        assert_ne!(a, context.dot([&[1], &[0]], [&[], &[]]));
        assert!(matches!(a.get(DOT_DIMS), Some(Attr::Dot(dims)) if dims.lhs_contract == [1]));
    }

    #[test]
    fn lists_are_told_apart_by_name_and_numbers() {
        let mut context = Context::default();
        let a = context.list("permutation", &[1, 0]);
        assert_eq!(a, context.list("permutation", &[1, 0]));
        assert_ne!(a, context.list("permutation", &[0, 1]));
        assert_ne!(a, context.list("noitatumrep", &[1, 0]));
        assert_eq!(a.get("permutation"), Some(&Attr::i64s([1, 0])));
    }
}
