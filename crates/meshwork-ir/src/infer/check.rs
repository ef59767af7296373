//! Questions that type rules ask: operand by operand, attribute by attribute.

use std::borrow::Cow;
use std::fmt::Write;

use smol_str::{SmolStr, format_smolstr};

use super::{InferError, OpTypes, ResultType, TypesOf, Wrong};
use crate::{Attr, DYNAMIC, Dense, ElementType, TensorType, Type};

/// A set of classes of element types.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Elems(u8);

impl Elems {
    pub(super) const PRED: Elems = Elems(1);
    pub(super) const SINT: Elems = Elems(2);
    pub(super) const UINT: Elems = Elems(4);
    pub(super) const INT: Elems = Elems(6);
    pub(super) const FLOAT: Elems = Elems(8);
    pub(super) const COMPLEX: Elems = Elems(16);
    pub(super) const ANY: Elems = Elems(31);
    /// `index`, which only dimension operands may be.
    pub(super) const INDEX: Elems = Elems(32);
    pub(super) const PRED_INT: Elems = Elems::PRED.or(Elems::INT);
    pub(super) const FLOAT_COMPLEX: Elems = Elems::FLOAT.or(Elems::COMPLEX);
    pub(super) const NUMBER: Elems = Elems::INT.or(Elems::FLOAT_COMPLEX);
    pub(super) const SIGNED_NUMBER: Elems = Elems::SINT.or(Elems::FLOAT_COMPLEX);
    pub(super) const INT_FLOAT: Elems = Elems::INT.or(Elems::FLOAT);
    pub(super) const DIMENSION: Elems = Elems::INT.or(Elems::INDEX);

    pub(super) const fn or(self, other: Elems) -> Elems {
        Elems(self.0 | other.0)
    }

    const fn of(elem: ElementType) -> Elems {
        use crate::ElementClass::*;
        match (elem, elem.class()) {
            (ElementType::Index, _) => Elems::INDEX,
            // Known to the type system, but no element type of StableHLO.
            (ElementType::TF32, _) => Elems(0),
            (_, Bool) => Elems::PRED,
            (_, Signed) => Elems::SINT,
            (_, Unsigned) => Elems::UINT,
            (_, Float) => Elems::FLOAT,
            (_, Complex) => Elems::COMPLEX,
        }
    }

    #[inline]
    pub(super) fn has(self, elem: ElementType) -> bool {
        const CLASSES: [Elems; ElementType::ALL.len()] = {
            let mut classes = [Elems(0); ElementType::ALL.len()];
            let mut i = 0;
            while i < classes.len() {
                classes[i] = Elems::of(ElementType::ALL[i]);
                i += 1;
            }
            classes
        };
        self.0 & CLASSES[elem as usize].0 != 0
    }

    /// The set in words, as the object of "a tensor of".
    pub(super) fn words(self) -> SmolStr {
        if self == Elems::ANY {
            return "any StableHLO element type".into();
        }
        let names = [
            (Elems::PRED, "bool"),
            (Elems::SINT, "signed integer"),
            (Elems::UINT, "unsigned integer"),
            (Elems::FLOAT, "float"),
            (Elems::COMPLEX, "complex"),
            (Elems::INDEX, "index"),
        ];
        let mut out = String::new();
        for (bit, name) in names.into_iter().filter(|(bit, _)| self.0 & bit.0 != 0) {
            let _ = write!(out, "{}{name}", if out.is_empty() { "" } else { " or " });
            let _ = bit;
        }
        out.replace("signed integer or unsigned integer", "integer").into()
    }
}

/// Whether two extents can be the same at run time.
pub(crate) fn dims_agree(a: i64, b: i64) -> bool {
    a == b || a == DYNAMIC || b == DYNAMIC
}

/// Whether two shapes can be the same at run time.
pub(crate) fn shapes_agree(a: &[i64], b: &[i64]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(&x, &y)| dims_agree(x, y))
}

/// Whether two types can be the same at run time: shapes agree, everything else is equal.
pub(crate) fn types_agree(a: &Type, b: &Type) -> bool {
    match (a, b) {
        (Type::Tensor(x), Type::Tensor(y)) => {
            std::sync::Arc::ptr_eq(x, y)
                || x.elem == y.elem && shapes_agree(&x.dims, &y.dims) && within_bounds(x, y) && within_bounds(y, x)
        }
        _ => a == b,
    }
}

/// Whether the static extents of `a` do not exceed the bounds that `b` declares for them.
fn within_bounds(a: &TensorType, b: &TensorType) -> bool {
    match bounds(b) {
        Some(bounds) => {
            a.dims.iter().zip(bounds).all(|(&d, bound)| bound.is_none_or(|bound| d == DYNAMIC || d <= bound))
        }
        None => true,
    }
}

/// The bounds of `#stablehlo.bounds<?, 3>`, also spelled `#stablehlo.type_extensions<bounds = [?, 3]>`, if that is
/// the encoding.
pub(crate) fn bounds(ty: &TensorType) -> Option<Vec<Option<i64>>> {
    let text = ty.encoding.as_deref()?;
    let list = match text.strip_prefix("#stablehlo.bounds<") {
        Some(list) => list.strip_suffix('>')?,
        None => text.strip_prefix("#stablehlo.type_extensions<")?.split_once('[')?.1.split_once(']')?.0,
    };
    Some(list.split(',').map(|b| b.trim().parse().ok()).collect())
}

/// The dimensions of a list and those of `set`, a bit each, if all are different dimensions of a tensor of rank `rank` and
/// there are bits for them.
#[inline]
pub(super) fn set_of(dims: &[i64], rank: usize, set: u64) -> Option<u64> {
    let mut set = set;
    for &d in dims {
        if d as u64 >= rank as u64 || d >= 64 || set >> d & 1 == 1 {
            return None;
        }
        set |= 1 << d;
    }
    Some(set)
}

/// A value that appears twice.
pub(crate) fn duplicate(values: impl IntoIterator<Item = i64> + Clone) -> Option<i64> {
    if values.clone().into_iter().is_sorted_by(|a, b| a < b) {
        return None;
    }
    // Dimensions are few and small, whatever their order.
    let mut seen = 0u64;
    let is_new = |v: i64| {
        let bit = if (0..64).contains(&v) { 1 << v } else { 0 };
        let is_new = seen & bit != bit;
        seen |= bit;
        is_new
    };
    if values.clone().into_iter().all(is_new) {
        return None;
    }
    let mut sorted: Vec<i64> = values.into_iter().collect();
    sorted.sort_unstable();
    sorted.windows(2).find(|w| w[0] == w[1]).map(|w| w[0])
}

/// The elements of an integer constant; `None` for other constants and for ones too long to be any list an
/// operation takes, which a short text can spell.
pub(super) fn dense_ints(dense: &Dense) -> Option<Vec<i64>> {
    const LIMIT: i64 = 1 << 24;
    dense.ty.num_elements().filter(|&n| n <= LIMIT)?;
    dense.to_i64s()
}

/// `[1, 2]`.
pub(super) fn list(values: &[i64]) -> String {
    let parts: Vec<String> = values.iter().map(|&v| if v == DYNAMIC { "?".into() } else { v.to_string() }).collect();
    format!("[{}]", parts.join(", "))
}

/// One extent: its number or `?`.
pub(super) fn dim(value: i64) -> String {
    if value == DYNAMIC { "?".into() } else { value.to_string() }
}

/// `(tensor<2xf32>, tensor<f32>)`.
pub(crate) fn type_list<'t>(types: impl IntoIterator<Item = &'t Type>) -> String {
    let parts: Vec<String> = types.into_iter().map(Type::to_string).collect();
    format!("({})", parts.join(", "))
}

impl<'a> OpTypes<'a> {
    pub(super) fn op(&self) -> &'static str {
        self.kind.name()
    }

    /// Operands and attributes do not fit.
    #[cold]
    pub(super) fn mismatch(&self, detail: impl Into<String>) -> Wrong {
        Box::new(InferError::Mismatch { op: self.op(), detail: detail.into() })
    }

    #[cold]
    pub(super) fn bad_attr(&self, attr: &'static str, detail: impl Into<String>) -> Wrong {
        Box::new(InferError::Attr { op: self.op(), attr, detail: detail.into() })
    }

    #[cold]
    pub(super) fn missing(&self, attr: &'static str, expected: &'static str) -> Wrong {
        Box::new(InferError::MissingAttr { op: self.op(), attr, expected })
    }

    #[cold]
    pub(super) fn bad_body(&self, body: &'static str, detail: impl Into<String>) -> Wrong {
        Box::new(InferError::Body { op: self.op(), body, detail: detail.into() })
    }

    #[cold]
    pub(super) fn bad_operand(&self, index: usize, name: &'static str, expected: impl Into<SmolStr>) -> Wrong {
        let got = self.operands.get(index).cloned().unwrap_or(Type::None);
        Box::new(InferError::OperandType { op: self.op(), index, name, expected: expected.into(), got })
    }

    #[cold]
    pub(super) fn bad_result(&self, index: usize, expected: impl Into<SmolStr>) -> Wrong {
        let got = self.given(index).cloned().unwrap_or(Type::None);
        Box::new(InferError::ResultType { op: self.op(), index, expected: expected.into(), got })
    }

    #[cold]
    pub(super) fn needs_result(&self, index: usize) -> Wrong {
        Box::new(InferError::NeedsResultType { op: self.op(), index })
    }

    #[cold]
    fn bad_count(&self, expected: SmolStr) -> Wrong {
        Box::new(InferError::OperandCount { op: self.op(), expected, got: self.operands.len() })
    }

    #[inline]
    pub(super) fn operand_count(&self, count: usize) -> Result<(), Wrong> {
        if self.operands.len() == count { Ok(()) } else { Err(self.not_count(count)) }
    }

    #[cold]
    fn not_count(&self, count: usize) -> Wrong {
        self.bad_count(match count {
            0 => "no operands".into(),
            1 => "one operand".into(),
            n => format_smolstr!("{n} operands"),
        })
    }

    pub(super) fn at_least(&self, count: usize) -> Result<(), Wrong> {
        if self.operands.len() >= count {
            return Ok(());
        }
        Err(self.bad_count(format_smolstr!("at least {count} operand(s)")))
    }

    /// Operand `index` as a tensor with an element type of `elems`. The operand exists.
    #[inline]
    pub(super) fn tensor_of(&self, index: usize, name: &'static str, elems: Elems) -> Result<&'a TensorType, Wrong> {
        match self.operands.get(index) {
            Some(Type::Tensor(t)) if elems.has(t.elem) => Ok(t),
            _ => Err(self.not_of(index, name, elems)),
        }
    }

    #[cold]
    fn not_of(&self, index: usize, name: &'static str, elems: Elems) -> Wrong {
        self.bad_operand(index, name, format_smolstr!("a tensor of {}", elems.words()))
    }

    /// Operand `index` as a tensor. The operand exists.
    #[inline]
    pub(super) fn tensor(&self, index: usize, name: &'static str) -> Result<&'a TensorType, Wrong> {
        self.tensor_of(index, name, Elems::ANY)
    }

    /// Operand `index` as a scalar tensor with an element type of `elems`.
    pub(super) fn scalar_of(&self, index: usize, name: &'static str, elems: Elems) -> Result<&'a TensorType, Wrong> {
        let t = self.tensor_of(index, name, elems)?;
        match t.rank() {
            0 => Ok(t),
            _ => Err(self.bad_operand(index, name, format_smolstr!("a scalar tensor of {}", elems.words()))),
        }
    }

    /// All operands from `from` on as tensors.
    pub(super) fn tensors(&self, from: usize, name: &'static str) -> Result<Vec<&'a TensorType>, Wrong> {
        (from..self.operands.len()).map(|i| self.tensor(i, name)).collect()
    }

    /// The declared type of result `index`, if there is one.
    pub(super) fn given(&self, index: usize) -> Option<&'a Type> {
        self.wanted.get(index).map(|&id| self.module.context.ty(id))
    }

    /// The declared type of result `index`.
    pub(super) fn wanted(&self, index: usize) -> Result<&'a Type, Wrong> {
        self.given(index).ok_or_else(|| self.needs_result(index))
    }

    /// Result `index` as declared.
    pub(super) fn declared(&self, index: usize) -> Result<ResultType, Wrong> {
        self.wanted.get(index).map(|&id| ResultType::Known(id)).ok_or_else(|| self.needs_result(index))
    }

    /// The declared type of result `index` as a tensor of `elems`.
    pub(super) fn wanted_tensor(&self, index: usize, elems: Elems) -> Result<&'a TensorType, Wrong> {
        match self.wanted(index)? {
            Type::Tensor(t) if elems.has(t.elem) => Ok(t),
            _ => Err(self.bad_result(index, format_smolstr!("a tensor of {}", elems.words()))),
        }
    }

    /// The declared element type of result `index` if a tensor type is declared, else `default`.
    pub(super) fn wanted_elem(&self, index: usize, default: ElementType) -> ElementType {
        self.given(index).and_then(Type::elem).unwrap_or(default)
    }

    pub(super) fn int(&self, attr: &'static str) -> Result<i64, Wrong> {
        self.attrs.get(attr).and_then(Attr::as_int).ok_or_else(|| self.missing(attr, "an integer"))
    }

    pub(super) fn int_or(&self, attr: &'static str, default: i64) -> Result<i64, Wrong> {
        if self.attrs.contains(attr) { self.int(attr) } else { Ok(default) }
    }

    /// A dimension number within `rank`.
    pub(super) fn dim_attr(&self, attr: &'static str, rank: usize) -> Result<usize, Wrong> {
        let d = self.int(attr)?;
        match usize::try_from(d) {
            Ok(i) if i < rank => Ok(i),
            _ => Err(self.bad_attr(attr, format!("is {d}, which is not a dimension of a tensor of rank {rank}"))),
        }
    }

    pub(super) fn flag(&self, attr: &str) -> bool {
        self.attrs.get(attr).and_then(Attr::as_bool).unwrap_or(false)
    }

    /// A list of integers that has to be there.
    pub(super) fn ints(&self, attr: &'static str) -> Result<Cow<'a, [i64]>, Wrong> {
        match self.attrs.get(attr) {
            Some(Attr::I64Array(list)) => Ok(Cow::Borrowed(list)),
            _ => self.ints_opt(attr)?.ok_or_else(|| self.missing(attr, "a list of integers")),
        }
    }

    /// A list of integers that may be absent.
    pub(super) fn ints_opt(&self, attr: &'static str) -> Result<Option<Cow<'a, [i64]>>, Wrong> {
        match self.attrs.get(attr) {
            None => Ok(None),
            Some(Attr::I64Array(a)) => Ok(Some(Cow::Borrowed(a))),
            Some(Attr::Dense(d)) if d.ty.rank() != 1 => {
                Err(self.bad_attr(attr, format!("must be one-dimensional, but has shape {}", list(&d.ty.dims))))
            }
            Some(Attr::Dense(d)) => match dense_ints(d) {
                Some(v) => Ok(Some(Cow::Owned(v))),
                None => Err(self.bad_attr(attr, format!("must be a list of integers, but is of type {}", d.ty))),
            },
            Some(other) => match other.as_i64s() {
                Some(v) => Ok(Some(Cow::Owned(v))),
                None => Err(self.bad_attr(attr, format!("must be a list of integers, but is {other}"))),
            },
        }
    }

    /// A list of integers of this length.
    pub(super) fn ints_of(&self, attr: &'static str, len: usize, per: &str) -> Result<Cow<'a, [i64]>, Wrong> {
        let values = self.ints(attr)?;
        if values.len() == len {
            Ok(values)
        } else {
            Err(self.bad_attr(attr, format!("has {} entries, but needs {len}, one per {per}", values.len())))
        }
    }

    /// Checks that `dims` are distinct dimensions of a tensor of rank `rank`.
    #[inline]
    pub(super) fn distinct_dims(&self, attr: &'static str, dims: &[i64], rank: usize) -> Result<(), Wrong> {
        if set_of(dims, rank, 0).is_some() {
            return Ok(());
        }
        self.dims_in_range(attr, dims, rank)?;
        match duplicate(dims.iter().copied()) {
            Some(d) => Err(self.bad_attr(attr, format!("lists dimension {d} twice: {}", list(dims)))),
            None => Ok(()),
        }
    }

    /// Checks that `dims` are dimensions of a tensor of rank `rank`.
    pub(super) fn dims_in_range(&self, attr: &'static str, dims: &[i64], rank: usize) -> Result<(), Wrong> {
        match dims.iter().find(|&&d| d as u64 >= rank as u64) {
            Some(d) => {
                Err(self.bad_attr(attr, format!("lists {d}, which is not a dimension of a tensor of rank {rank}")))
            }
            None => Ok(()),
        }
    }

    /// Checks that dimension numbers are in ascending order.
    pub(super) fn sorted(&self, attr: &'static str, dims: &[i64]) -> Result<(), Wrong> {
        if dims.is_sorted() {
            Ok(())
        } else {
            Err(self.bad_attr(attr, format!("must be in ascending order, but is {}", list(dims))))
        }
    }

    /// Checks that two lists of dimension numbers together name each dimension once.
    pub(super) fn disjoint(&self, a_name: &'static str, a: &[i64], b_name: &str, b: &[i64]) -> Result<(), Wrong> {
        match duplicate(a.iter().chain(b).copied()) {
            Some(d) => Err(self.bad_attr(a_name, format!("and {b_name} together list dimension {d} twice"))),
            None => Ok(()),
        }
    }

    /// The arguments of body `index`.
    pub(super) fn args(&self, index: usize, name: &'static str) -> Result<TypesOf<'a>, Wrong> {
        let region = *self.regions.get(index).ok_or_else(|| self.bad_body(name, "is missing"))?;
        let block = self.module.region(region).blocks().first();
        Ok(TypesOf { module: self.module, values: block.map_or(&[], |&block| self.module.block(block).args()) })
    }

    /// What body `index` returns, if it has a terminator.
    pub(super) fn returned(&self, index: usize) -> Option<TypesOf<'a>> {
        let &block = self.module.region(*self.regions.get(index)?).blocks().first()?;
        let values = self.module.op(self.module.terminator(block)?).operands();
        Some(TypesOf { module: self.module, values })
    }

    /// What body `index` returns.
    pub(super) fn returns(&self, index: usize, name: &'static str) -> Result<TypesOf<'a>, Wrong> {
        match self.returned(index) {
            Some(returned) => Ok(returned),
            None => {
                self.args(index, name)?;
                Err(self.bad_body(name, "does not end with stablehlo.return"))
            }
        }
    }
}
