//! Types and attributes that many operations have, each made once, and what type rules made of them.
//!
//! The tables are small and forget: they save memory and comparisons, and nothing depends on what they hold. They go
//! from a module that is dropped to the next one of the thread, as the context of MLIR outlives its modules.

use std::fmt;
use std::sync::Arc;

use super::{Module, ValueId};
use crate::attr::{AttrDict, DotDims};
use crate::op::{BodyOp, ContractOp, MixedOp, MovementOp, SourceOp};
use crate::{Attr, Dense, ElementType, OpKind, TensorType, Type};

/// How many pairs of types and of attributes are remembered. A power of two.
const SLOTS: usize = 256;

/// How many pairs of applied rules are remembered. A power of two, and more than there are: the slots follow from addresses,
/// and of three rules that a program has in one slot each is worked out anew every time.
const RULES: usize = 1024;

/// What operations share.
#[derive(Default)]
pub(crate) struct Shared {
    // All are pairs of the newer and the older entry of a slot.
    types: Vec<[Option<Arc<TensorType>>; 2]>,
    dicts: Vec<[Option<AttrDict>; 2]>,
    applied: Vec<[Applied; 2]>,
}

/// A type rule was applied to these types and attributes, and this came out.
#[derive(Default)]
struct Applied {
    asked: Addresses,
    result: Option<Arc<TensorType>>,
    _held: Held,
}

/// What addresses belong to: as long as it is held, nothing else has them.
#[derive(Default)]
pub(crate) struct Held {
    _attrs: AttrDict,
    _types: [Option<Arc<TensorType>>; 4],
}

/// Attributes and types of an operation by address.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Addresses {
    kind: usize,
    attrs: usize,
    /// Of up to three operands and the result.
    types: [usize; 4],
}

impl Addresses {
    /// Those of an operation and `result`. `None` if there are many operands or other types than tensors.
    #[inline(always)]
    pub(crate) fn of(
        module: &Module,
        kind: usize,
        operands: &[ValueId],
        attrs: &AttrDict,
        result: Option<&Type>,
    ) -> Option<Addresses> {
        let address = |ty: &Type| match ty {
            Type::Tensor(t) => Some(Arc::as_ptr(t) as usize),
            _ => None,
        };
        let mut types = [0; 4];
        match *operands {
            [] => {}
            [a] => types[0] = address(module.ty(a))?,
            [a, b] => [types[0], types[1]] = [address(module.ty(a))?, address(module.ty(b))?],
            [a, b, c] => {
                [types[0], types[1], types[2]] =
                    [address(module.ty(a))?, address(module.ty(b))?, address(module.ty(c))?];
            }
            _ => return None,
        }
        if let Some(result) = result {
            types[3] = address(result)?;
        }
        Some(Addresses { kind, attrs: attrs.address(), types })
    }

    /// What to hold while the addresses are remembered.
    pub(crate) fn hold(module: &Module, operands: &[ValueId], attrs: &AttrDict, result: Option<&Type>) -> Held {
        let tensor = |ty: &Type| match ty {
            Type::Tensor(t) => Some(t.clone()),
            _ => None,
        };
        let mut types = [const { None }; 4];
        for (held, &value) in types.iter_mut().zip(operands) {
            *held = tensor(module.ty(value));
        }
        types[3] = result.and_then(tensor);
        Held { _attrs: attrs.clone(), _types: types }
    }

    /// A number below `count`, a power of two.
    #[inline]
    pub(crate) fn slot(&self, count: usize) -> usize {
        // Odd numbers without a pattern: a sum of products spreads addresses that differ in few bits.
        const FACTORS: [usize; 6] = [
            0x9E37_79B9_7F4A_7C15,
            0xC2B2_AE3D_27D4_EB4F,
            0x1656_67B1_9E37_79F9,
            0x85EB_CA77_C2B2_AE63,
            0x27D4_EB2F_1656_67C5,
            0xD6E8_FEB8_6659_FD93,
        ];
        let [a, b, c, result] = self.types;
        let words = [self.kind, self.attrs, a, b, c, result];
        let sum = words.iter().zip(FACTORS).fold(0usize, |sum, (w, f)| sum.wrapping_add(w.wrapping_mul(f)));
        (sum >> 40) & (count - 1)
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
    /// Whether nothing was ever put in.
    pub(super) fn is_empty(&self) -> bool {
        self.types.is_empty() && self.dicts.is_empty() && self.applied.is_empty()
    }

    /// A tensor type; equal ones are mostly one object.
    pub(crate) fn tensor(&mut self, dims: &[i64], elem: ElementType) -> Arc<TensorType> {
        let same = |known: &Arc<TensorType>| known.elem == elem && is_equal(&known.dims, dims);
        let make = || Arc::new(TensorType::new(dims.iter().copied(), elem));
        find(&mut self.types, mix(elem as u64, dims), same, make)
    }

    /// Puts an equal type that was given before in the place of a new one.
    #[inline]
    pub(crate) fn exchange(&mut self, ty: &mut Type) {
        // If others hold it as well, it is not new.
        if let Type::Tensor(new) = ty
            && Arc::strong_count(new) == 1
            && new.encoding.is_none()
        {
            let same = |known: &Arc<TensorType>| known.elem == new.elem && known.dims == new.dims;
            *new = find(&mut self.types, mix(new.elem as u64, &new.dims), same, || new.clone());
        }
    }

    /// The dictionary with a list of integers as its only attribute.
    pub(crate) fn list(&mut self, name: &'static str, values: &[i64]) -> AttrDict {
        let same = |dict: &AttrDict| matches!(dict.get(name), Some(Attr::I64Array(known)) if is_equal(known, values));
        let make = || [(name, Attr::I64Array(values.into()))].into_iter().collect();
        find(&mut self.dicts, mix(name.len() as u64, values), same, make)
    }

    /// The dictionary with an integer as its only attribute.
    pub(crate) fn int(&mut self, name: &'static str, value: i64) -> AttrDict {
        let same = |dict: &AttrDict| matches!(dict.get(name), Some(Attr::Int(known, _)) if *known == value);
        let make = || [(name, Attr::i64(value))].into_iter().collect();
        find(&mut self.dicts, mix(name.len() as u64, &[value]), same, make)
    }

    /// The dictionary of a comparison.
    pub(crate) fn comparison(&mut self, direction: &'static str, kind: &'static str) -> AttrDict {
        const NAMES: [&str; 2] = ["comparison_direction", "compare_type"];
        let hash = mix_bytes(mix_bytes(0, direction.as_bytes()), kind.as_bytes());
        let same = |dict: &AttrDict| {
            let value = |name| dict.get(name).and_then(Attr::as_enum);
            NAMES.map(value) == [Some(direction), Some(kind)]
        };
        let make = || {
            let values = [Attr::hlo_enum("comparison_direction", direction), Attr::hlo_enum("comparison_type", kind)];
            NAMES.into_iter().zip(values).collect()
        };
        find(&mut self.dicts, hash, same, make)
    }

    /// The dictionary with the dimensions of a product as its only attribute: batches of both sides, then what is
    /// contracted.
    pub(crate) fn dot(&mut self, name: &'static str, lists: [&[i64]; 4]) -> AttrDict {
        let hash = lists.iter().fold(0, |seed, list| mix(seed, list));
        let same = |dict: &AttrDict| match dict.get(name) {
            Some(Attr::Dot(d)) => {
                let known = [&d.lhs_batch, &d.rhs_batch, &d.lhs_contract, &d.rhs_contract];
                known.iter().zip(lists).all(|(a, b)| is_equal(a, b))
            }
            _ => false,
        };
        let make = || {
            let [lhs_batch, rhs_batch, lhs_contract, rhs_contract] = lists.map(<[i64]>::to_vec);
            let dims = DotDims { lhs_batch, rhs_batch, lhs_contract, rhs_contract };
            [(name, Attr::Dot(Arc::new(dims)))].into_iter().collect()
        };
        find(&mut self.dicts, hash, same, make)
    }

    /// The dictionary of a constant with all elements equal to `bytes`.
    pub(crate) fn splat(&mut self, ty: &Arc<TensorType>, bytes: &[u8]) -> AttrDict {
        const NAME: &str = "value";
        let hash = mix_bytes(mix(ty.elem as u64, &ty.dims), bytes);
        let same = |dict: &AttrDict| match dict.get(NAME) {
            Some(Attr::Dense(d)) => Arc::ptr_eq(&d.ty, ty) && d.splat_bytes() == Some(bytes),
            _ => false,
        };
        let make = || [(NAME, Attr::Dense(Arc::new(Dense::splat(ty.clone(), bytes))))].into_iter().collect();
        find(&mut self.dicts, hash, same, make)
    }
}

/// Whether the answer is worth remembering: the rule looks at types and attributes only, and these come again.
fn is_remembered(kind: OpKind, attrs: &AttrDict) -> bool {
    let listed = matches!(
        kind,
        OpKind::Movement(MovementOp::BroadcastInDim)
            | OpKind::Mixed(MixedOp::Compare)
            | OpKind::Source(SourceOp::Constant)
            | OpKind::Contract(ContractOp::DotGeneral)
            | OpKind::Source(SourceOp::Iota)
            | OpKind::Body(BodyOp::Reduce)
            | OpKind::Movement(MovementOp::Transpose)
    );
    listed && attrs.is_shared()
        || attrs.is_empty() && (kind.is_elementwise() || kind == OpKind::Movement(MovementOp::Reshape))
}

impl Module {
    /// A tensor type; equal ones of a module are mostly one object, so that comparing them is quick.
    pub fn tensor_type(&mut self, dims: &[i64], elem: ElementType) -> Arc<TensorType> {
        self.shared.tensor(dims, elem)
    }

    /// The attributes of the constant of type `ty` with all elements equal to `bytes`, one element as literals store it.
    pub fn splat_attrs(&mut self, ty: &Arc<TensorType>, bytes: &[u8]) -> AttrDict {
        self.shared.splat(ty, bytes)
    }

    /// What a type rule gave before: the only result of an operation.
    #[inline(always)]
    pub(crate) fn known_result(&self, asked: &Asked<'_>) -> Option<Arc<TensorType>> {
        let Asked { kind, operands, attrs, wanted } = *asked;
        let addresses = Addresses::of(self, kind.number(), operands, attrs, wanted)?;
        let [first, second] = self.shared.applied.get(addresses.slot(RULES))?;
        match () {
            () if first.asked == addresses => first.result.clone(),
            () if second.asked == addresses => second.result.clone(),
            () => None,
        }
    }

    /// Remembers the only result of a type rule for [`known_result`](Module::known_result).
    pub(crate) fn remember_result(&mut self, asked: &Asked<'_>, result: &Type) {
        let Type::Tensor(result) = result else { return };
        let Asked { kind, operands, attrs, wanted } = *asked;
        if !is_remembered(kind, attrs) {
            return;
        }
        let Some(asked) = Addresses::of(self, kind.number(), operands, attrs, wanted) else { return };
        let _held = Addresses::hold(self, operands, attrs, wanted);
        if self.shared.applied.is_empty() {
            self.shared.applied.resize_with(RULES, Default::default);
        }
        let [first, second] = &mut self.shared.applied[asked.slot(RULES)];
        *second = std::mem::replace(first, Applied { asked, result: Some(result.clone()), _held });
    }
}

/// What a table of pairs has in the place `hash`, or else what `make` makes, which takes the place of the older one.
#[inline]
fn find<T: Clone>(
    table: &mut Vec<[Option<T>; 2]>,
    hash: u64,
    same: impl Fn(&T) -> bool,
    make: impl FnOnce() -> T,
) -> T {
    if table.is_empty() {
        table.resize_with(SLOTS, || [None, None]);
    }
    let [first, second] = &mut table[hash as usize % SLOTS];
    if let Some(known) = [&*first, &*second].into_iter().flatten().find(|known| same(known)) {
        return known.clone();
    }
    let made = make();
    *second = first.replace(made.clone());
    made
}

#[inline]
fn is_equal(a: &[i64], b: &[i64]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(x, y)| x == y)
}

fn mix(seed: u64, values: &[i64]) -> u64 {
    const FACTOR: u64 = 0x9E37_79B9_7F4A_7C15;
    let mixed = values.iter().fold(seed ^ FACTOR, |h, &v| (h ^ v as u64).wrapping_mul(FACTOR).rotate_left(29));
    mixed.wrapping_mul(FACTOR) >> 32
}

fn mix_bytes(seed: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(seed, |h, &b| h.wrapping_mul(31).wrapping_add(b.into()))
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
    use crate::op::MovementOp;

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
        let asked = Asked { kind: OpKind::Movement(MovementOp::Transpose), operands: &[a], attrs: &turn, wanted: None };
        let result = module.ty(b).clone();
        module.remember_result(&asked, &result);
        assert_eq!(module.known_result(&asked).map(Type::Tensor), Some(result.clone()));
        assert_eq!(module.known_result(&Asked { wanted: Some(&result), ..asked }), None);
        assert_eq!(module.known_result(&Asked { operands: &[b], ..asked }), None);
        assert_eq!(module.known_result(&Asked { attrs: &keep, ..asked }), None);
    }
}
