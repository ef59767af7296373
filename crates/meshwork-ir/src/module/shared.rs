//! Types and attributes that many operations of a module have, each made once, and what type rules made of them.
//!
//! The tables are small and forget: they save memory and comparisons, and nothing depends on what they hold.

use std::fmt;
use std::sync::Arc;

use smallvec::SmallVec;

use super::{Module, ValueId};
use crate::attr::{AttrDict, DotDims};
use crate::{Attr, ElementType, OpKind, TensorType, Type};

/// How many of each kind a module remembers. A power of two.
const SLOTS: usize = 128;

/// What the operations of a module share.
#[derive(Default)]
pub(crate) struct Shared {
    types: Vec<Option<Arc<TensorType>>>,
    dicts: Vec<Option<AttrDict>>,
    applied: Vec<Option<Box<Applied>>>,
}

/// A type rule was applied to these types and attributes, and this came out.
struct Applied {
    kind: OpKind,
    operands: SmallVec<[Type; 2]>,
    attrs: AttrDict,
    wanted: Option<Type>,
    result: Type,
}

/// What a type rule is asked for.
#[derive(Clone, Copy)]
pub(crate) struct Asked<'a> {
    pub(crate) kind: OpKind,
    pub(crate) operands: &'a [ValueId],
    pub(crate) attrs: &'a AttrDict,
    /// The declared result, or what the body returns: all that the rule sees beside operands and attributes.
    pub(crate) wanted: Option<&'a Type>,
}

impl Shared {
    /// A tensor type; equal ones are mostly one object.
    pub(crate) fn tensor(&mut self, dims: &[i64], elem: ElementType) -> Arc<TensorType> {
        let slot = slot(&mut self.types, mix(elem as u64, dims));
        match slot {
            Some(known) if known.elem == elem && known.dims[..] == *dims => known.clone(),
            _ => slot.insert(Arc::new(TensorType::new(dims.iter().copied(), elem))).clone(),
        }
    }

    /// Puts an equal type that was given before in the place of a new one.
    #[inline]
    pub(crate) fn exchange(&mut self, ty: &mut Type) {
        // If others hold it as well, it is not new.
        if let Type::Tensor(new) = ty
            && Arc::strong_count(new) == 1
        {
            self.exchange_tensor(new);
        }
    }

    fn exchange_tensor(&mut self, new: &mut Arc<TensorType>) {
        if new.encoding.is_some() {
            return;
        }
        match slot(&mut self.types, mix(new.elem as u64, &new.dims)) {
            Some(known) if known.elem == new.elem && known.dims == new.dims => *new = known.clone(),
            slot => *slot = Some(new.clone()),
        }
    }

    /// Forgets all but keeps the memory.
    pub(super) fn clear(&mut self) {
        self.types.iter_mut().for_each(|slot| *slot = None);
        self.dicts.iter_mut().for_each(|slot| *slot = None);
        self.applied.iter_mut().for_each(|slot| *slot = None);
    }

    /// The dictionary with a list of integers as its only attribute.
    pub(crate) fn list(&mut self, name: &'static str, values: &[i64]) -> AttrDict {
        let slot = slot(&mut self.dicts, mix(name.len() as u64, values));
        let same = |dict: &AttrDict| matches!(dict.get(name), Some(Attr::I64Array(known)) if **known == *values);
        match slot {
            Some(known) if same(known) => known.clone(),
            _ => slot.insert([(name, Attr::I64Array(values.into()))].into_iter().collect()).clone(),
        }
    }

    /// The dictionary with the dimensions of a product as its only attribute.
    pub(crate) fn dot(&mut self, name: &'static str, dims: DotDims) -> AttrDict {
        let lists = [&dims.lhs_batch, &dims.rhs_batch, &dims.lhs_contract, &dims.rhs_contract];
        let hash = lists.iter().fold(0, |seed, list| mix(seed, list));
        let slot = slot(&mut self.dicts, hash);
        match slot {
            Some(known) if matches!(known.get(name), Some(Attr::Dot(d)) if **d == dims) => known.clone(),
            _ => slot.insert([(name, Attr::Dot(Arc::new(dims)))].into_iter().collect()).clone(),
        }
    }
}

/// Whether the rule of `kind` looks at types and attributes only, and at enough of them to be worth remembering.
fn is_remembered(kind: OpKind) -> bool {
    matches!(kind, OpKind::BroadcastInDim | OpKind::DotGeneral | OpKind::Transpose | OpKind::Reduce)
}

impl Module {
    /// A tensor type; equal ones of a module are mostly one object, so that comparing them is quick.
    pub fn tensor_type(&mut self, dims: &[i64], elem: ElementType) -> Arc<TensorType> {
        self.shared.tensor(dims, elem)
    }

    /// What a type rule gave before: the only result of an operation.
    #[inline]
    pub(crate) fn known_result(&self, asked: &Asked<'_>) -> Option<Type> {
        is_remembered(asked.kind).then(|| self.look_up(asked)).flatten()
    }

    fn look_up(&self, asked: &Asked<'_>) -> Option<Type> {
        let known = self.shared.applied.get(self.applied_slot(asked))?.as_ref()?;
        let operands = asked.operands.iter().map(|&v| self.ty(v));
        let same = known.kind == asked.kind
            && known.operands.len() == asked.operands.len()
            && known.operands.iter().zip(operands).all(|(a, b)| is_same(a, b))
            && known.attrs.is_same(asked.attrs)
            && match (&known.wanted, asked.wanted) {
                (Some(a), Some(b)) => is_same(a, b),
                (a, b) => a.is_none() && b.is_none(),
            };
        same.then(|| known.result.clone())
    }

    /// Remembers the only result of a type rule for [`known_result`](Module::known_result).
    #[inline]
    pub(crate) fn remember_result(&mut self, asked: &Asked<'_>, result: &Type) {
        if is_remembered(asked.kind) {
            self.note(asked, result);
        }
    }

    fn note(&mut self, asked: &Asked<'_>, result: &Type) {
        let index = self.applied_slot(asked);
        let applied = Applied {
            kind: asked.kind,
            operands: asked.operands.iter().map(|&v| self.ty(v).clone()).collect(),
            attrs: asked.attrs.clone(),
            wanted: asked.wanted.cloned(),
            result: result.clone(),
        };
        *slot(&mut self.shared.applied, index as u64) = Some(Box::new(applied));
    }

    fn applied_slot(&self, asked: &Asked<'_>) -> usize {
        let operands = asked.operands.iter().map(|&v| address(self.ty(v)));
        let seed = asked.attrs.address() as u64 ^ asked.kind as u64;
        let hash = operands.chain(asked.wanted.map(address)).fold(seed, |h, a| mix(h, &[a as i64]));
        hash as usize % SLOTS
    }
}

/// Whether two types are one object. Equal ones need not be.
fn is_same(a: &Type, b: &Type) -> bool {
    matches!((a, b), (Type::Tensor(x), Type::Tensor(y)) if Arc::ptr_eq(x, y))
}

fn address(ty: &Type) -> usize {
    match ty {
        Type::Tensor(t) => Arc::as_ptr(t) as usize,
        _ => 0,
    }
}

fn slot<T>(table: &mut Vec<Option<T>>, hash: u64) -> &mut Option<T> {
    if table.is_empty() {
        table.resize_with(SLOTS, || None);
    }
    &mut table[hash as usize % SLOTS]
}

fn mix(seed: u64, values: &[i64]) -> u64 {
    const FACTOR: u64 = 0x9E37_79B9_7F4A_7C15;
    let mixed = values.iter().fold(seed ^ FACTOR, |h, &v| (h ^ v as u64).wrapping_mul(FACTOR).rotate_left(29));
    mixed.wrapping_mul(FACTOR) >> 32
}

/// A copy of a module starts anew.
impl Clone for Shared {
    fn clone(&self) -> Shared {
        Shared::default()
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Shared")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_types_and_lists_are_one() {
        let mut shared = Shared::default();
        let mut new = |dims| {
            let mut ty = Type::tensor(dims, ElementType::F32);
            shared.exchange(&mut ty);
            ty
        };
        let (Type::Tensor(a), Type::Tensor(b)) = (new([2, 3]), new([2, 3])) else { panic!("tensors") };
        assert!(Arc::ptr_eq(&a, &b));
        assert_eq!(new([3, 2]).dims(), [3, 2]);
        assert_eq!(shared.list("permutation", &[1, 0]), shared.list("permutation", &[1, 0]));
        assert_ne!(shared.list("permutation", &[1, 0]), shared.list("permutation", &[0, 1]));
        assert_ne!(shared.list("dimensions", &[1, 0]), shared.list("permutation", &[1, 0]));
        assert!(Arc::ptr_eq(&a, &shared.tensor(&[2, 3], ElementType::F32)));
    }

    #[test]
    fn a_result_is_known_for_the_same_types_and_attributes_only() {
        let mut module = Module::new();
        let [x, y] = [[2, 3], [3, 2]].map(|dims| module.tensor_type(&dims, ElementType::F32));
        let body = module.body();
        let [a, b] = [x, y].map(|ty| module.add_block_arg(body, Type::Tensor(ty)));
        let [turn, keep] = [[1, 0], [0, 1]].map(|order| module.shared.list("permutation", &order));
        let asked = Asked { kind: OpKind::Transpose, operands: &[a], attrs: &turn, wanted: None };
        let result = module.ty(b).clone();
        module.remember_result(&asked, &result);
        assert_eq!(module.known_result(&asked), Some(result.clone()));
        assert_eq!(module.known_result(&Asked { wanted: Some(&result), ..asked }), None);
        assert_eq!(module.known_result(&Asked { operands: &[b], ..asked }), None);
        assert_eq!(module.known_result(&Asked { attrs: &keep, ..asked }), None);
    }
}
