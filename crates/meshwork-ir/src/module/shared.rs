//! Types and attributes that many operations have, each made once, and what type rules made of them.
//!
//! The tables are small and forget: they save memory and comparisons, and nothing depends on what they hold. They go
//! from a module that is dropped to the next one of the thread, as the context of MLIR outlives its modules.

use std::fmt;
use std::sync::Arc;

use super::{Module, ValueId};
use crate::attr::{AttrDict, DotDims};
use crate::{Attr, Dense, ElementType, OpKind, TensorType, Type};

/// How many of each kind a module remembers. A power of two.
const SLOTS: usize = 128;

/// What operations share.
#[derive(Default)]
pub(crate) struct Shared {
    types: Vec<Option<Arc<TensorType>>>,
    dicts: Vec<Option<AttrDict>>,
    applied: Vec<Applied>,
}

/// A type rule was applied to these types and attributes, and this came out.
#[derive(Default)]
struct Applied {
    asked: Addresses,
    result: Option<Arc<TensorType>>,
    /// What has the addresses: as long as it is held here, nothing else has them.
    _held: Option<Box<(AttrDict, [Option<Type>; 4])>>,
}

/// What a type rule was asked for, by address.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
struct Addresses {
    kind: usize,
    attrs: usize,
    /// Of up to three operands and the wanted result.
    types: [usize; 4],
}

impl Addresses {
    #[inline]
    fn slot(&self) -> usize {
        const FACTOR: usize = 0x9E37_79B9_7F4A_7C15;
        let [a, b, c, wanted] = self.types;
        // Objects are some words apart.
        let mixed = self.attrs ^ a ^ b.rotate_left(5) ^ c.rotate_left(10) ^ wanted.rotate_left(15);
        ((mixed >> 4) ^ self.kind).wrapping_mul(FACTOR) >> 32 & (SLOTS - 1)
    }
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

    /// The dictionary with a list of integers as its only attribute.
    pub(crate) fn list(&mut self, name: &'static str, values: &[i64]) -> AttrDict {
        let slot = slot(&mut self.dicts, mix(name.len() as u64, values));
        let same = |dict: &AttrDict| matches!(dict.get(name), Some(Attr::I64Array(known)) if **known == *values);
        match slot {
            Some(known) if same(known) => known.clone(),
            _ => slot.insert([(name, Attr::I64Array(values.into()))].into_iter().collect()).clone(),
        }
    }

    /// The dictionary with the dimensions of a product as its only attribute: batches of both sides, then what is
    /// contracted.
    pub(crate) fn dot(&mut self, name: &'static str, lists: [&[i64]; 4]) -> AttrDict {
        let hash = lists.iter().fold(0, |seed, list| mix(seed, list));
        let slot = slot(&mut self.dicts, hash);
        let same = |d: &DotDims| lists == [&d.lhs_batch[..], &d.rhs_batch, &d.lhs_contract, &d.rhs_contract];
        match slot {
            Some(known) if matches!(known.get(name), Some(Attr::Dot(d)) if same(d)) => known.clone(),
            _ => {
                let [lhs_batch, rhs_batch, lhs_contract, rhs_contract] = lists.map(<[i64]>::to_vec);
                let dims = DotDims { lhs_batch, rhs_batch, lhs_contract, rhs_contract };
                slot.insert([(name, Attr::Dot(Arc::new(dims)))].into_iter().collect()).clone()
            }
        }
    }

    /// The dictionary of a constant with all elements equal to `bytes`.
    pub(crate) fn splat(&mut self, ty: &Arc<TensorType>, bytes: &[u8]) -> AttrDict {
        const NAME: &str = "value";
        let seed = bytes.iter().fold(Arc::as_ptr(ty) as u64, |h, &b| h.rotate_left(8) ^ u64::from(b));
        let slot = slot(&mut self.dicts, mix(seed, &[]));
        let same = |d: &Dense| Arc::ptr_eq(&d.ty, ty) && d.splat_bytes() == Some(bytes);
        match slot {
            Some(known) if matches!(known.get(NAME), Some(Attr::Dense(d)) if same(d)) => known.clone(),
            _ => {
                let dense = Dense::splat(ty.clone(), bytes);
                slot.insert([(NAME, Attr::Dense(Arc::new(dense)))].into_iter().collect()).clone()
            }
        }
    }
}

/// Whether the answer is worth remembering: the rule looks at types and attributes only, and these come again.
fn is_remembered(kind: OpKind, attrs: &AttrDict) -> bool {
    let shared = matches!(kind, OpKind::BroadcastInDim | OpKind::DotGeneral | OpKind::Transpose | OpKind::Reduce);
    shared || attrs.is_empty() && (kind.is_elementwise() || kind == OpKind::Reshape)
}

impl Module {
    /// A tensor type; equal ones of a module are mostly one object, so that comparing them is quick.
    pub fn tensor_type(&mut self, dims: &[i64], elem: ElementType) -> Arc<TensorType> {
        self.shared.tensor(dims, elem)
    }

    /// What a type rule gave before: the only result of an operation.
    #[inline]
    pub(crate) fn known_result(&self, asked: &Asked<'_>) -> Option<Arc<TensorType>> {
        let addresses = self.addresses(asked)?;
        let known = self.shared.applied.get(addresses.slot())?;
        if known.asked == addresses { known.result.clone() } else { None }
    }

    /// Remembers the only result of a type rule for [`known_result`](Module::known_result).
    pub(crate) fn remember_result(&mut self, asked: &Asked<'_>, result: &Type) {
        let Type::Tensor(result) = result else { return };
        if !is_remembered(asked.kind, asked.attrs) {
            return;
        }
        let Some(addresses) = self.addresses(asked) else { return };
        let mut types = [const { None }; 4];
        for (held, &value) in types.iter_mut().zip(asked.operands) {
            *held = Some(self.ty(value).clone());
        }
        types[3] = asked.wanted.cloned();
        let _held = Some(Box::new((asked.attrs.clone(), types)));
        if self.shared.applied.is_empty() {
            self.shared.applied.resize_with(SLOTS, Applied::default);
        }
        self.shared.applied[addresses.slot()] = Applied { asked: addresses, result: Some(result.clone()), _held };
    }

    /// `None` for questions with many operands or with other types than tensors.
    #[inline]
    fn addresses(&self, asked: &Asked<'_>) -> Option<Addresses> {
        if asked.operands.len() > 3 {
            return None;
        }
        let address = |ty: &Type| match ty {
            Type::Tensor(t) => Some(Arc::as_ptr(t) as usize),
            _ => None,
        };
        let mut types = [0; 4];
        for (slot, &value) in types.iter_mut().zip(asked.operands) {
            *slot = address(self.ty(value))?;
        }
        if let Some(wanted) = asked.wanted {
            types[3] = address(wanted)?;
        }
        Some(Addresses { kind: asked.kind as usize, attrs: asked.attrs.address(), types })
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
        assert_eq!(module.known_result(&asked).map(Type::Tensor), Some(result.clone()));
        assert_eq!(module.known_result(&Asked { wanted: Some(&result), ..asked }), None);
        assert_eq!(module.known_result(&Asked { operands: &[b], ..asked }), None);
        assert_eq!(module.known_result(&Asked { attrs: &keep, ..asked }), None);
    }
}
