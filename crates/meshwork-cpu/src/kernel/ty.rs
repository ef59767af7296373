//! Facts about lane types: sizes, classes, what they hold in memory.

use meshwork_ir::ElementType;

use super::ir::{Combine, Op, Ty};

/// Whether numbers of this type are floats of one byte with a sign, an exponent and a mantissa: kernels compute with `f32` and
/// write the bytes by arithmetic.
pub fn is_byte_float(elem: ElementType) -> bool {
    elem.bits() == 8 && elem.is_float() && meshwork_ir::float::fields(elem).is_some()
}

impl Ty {
    /// All of them.
    pub const ALL: [Ty; 11] =
        [Ty::Pred, Ty::I8, Ty::U8, Ty::I16, Ty::U16, Ty::I32, Ty::U32, Ty::I64, Ty::U64, Ty::F32, Ty::F64];

    /// Bytes of one element; a `Pred` takes one.
    pub fn size(self) -> usize {
        match self {
            Ty::Pred | Ty::I8 | Ty::U8 => 1,
            Ty::I16 | Ty::U16 => 2,
            Ty::I32 | Ty::U32 | Ty::F32 => 4,
            Ty::I64 | Ty::U64 | Ty::F64 => 8,
        }
    }

    /// `F32` or `F64`.
    pub fn is_float(self) -> bool {
        matches!(self, Ty::F32 | Ty::F64)
    }

    /// A signed integer.
    pub fn is_signed(self) -> bool {
        matches!(self, Ty::I8 | Ty::I16 | Ty::I32 | Ty::I64)
    }

    /// An unsigned integer, without `Pred`.
    pub fn is_unsigned(self) -> bool {
        matches!(self, Ty::U8 | Ty::U16 | Ty::U32 | Ty::U64)
    }

    /// A signed or unsigned integer, without `Pred`.
    pub fn is_integer(self) -> bool {
        self.is_signed() || self.is_unsigned()
    }

    /// What lanes hold of elements that have type `elem` in memory; `None` if kernels cannot load them.
    pub fn of(elem: ElementType) -> Option<Ty> {
        Some(match elem {
            ElementType::I1 => Ty::Pred,
            ElementType::I8 => Ty::I8,
            ElementType::I16 => Ty::I16,
            ElementType::I32 => Ty::I32,
            ElementType::I64 | ElementType::Index => Ty::I64,
            ElementType::UI8 => Ty::U8,
            ElementType::UI16 => Ty::U16,
            ElementType::UI32 => Ty::U32,
            ElementType::UI64 => Ty::U64,
            ElementType::BF16 | ElementType::F16 | ElementType::F32 => Ty::F32,
            ElementType::F64 => Ty::F64,
            _ if is_byte_float(elem) => Ty::F32,
            _ => return None,
        })
    }

    /// The type in memory that holds exactly this.
    pub fn elem(self) -> ElementType {
        match self {
            Ty::Pred => ElementType::I1,
            Ty::I8 => ElementType::I8,
            Ty::U8 => ElementType::UI8,
            Ty::I16 => ElementType::I16,
            Ty::U16 => ElementType::UI16,
            Ty::I32 => ElementType::I32,
            Ty::U32 => ElementType::UI32,
            Ty::I64 => ElementType::I64,
            Ty::U64 => ElementType::UI64,
            Ty::F32 => ElementType::F32,
            Ty::F64 => ElementType::F64,
        }
    }

    /// The bits of the value that changes nothing in a reduction.
    pub fn identity(self, combine: Combine) -> u64 {
        let width = 8 * self.size() as u32;
        let ones = u64::MAX >> (64 - width);
        let least = if self.is_signed() { 1 << (width - 1) } else { 0 };
        match (combine, self) {
            (Combine::Add | Combine::Or | Combine::Xor, _) => 0,
            (Combine::Mul, Ty::F32) => 1f32.to_bits().into(),
            (Combine::Mul, Ty::F64) => 1f64.to_bits(),
            (Combine::Max, Ty::F32) => f32::NEG_INFINITY.to_bits().into(),
            (Combine::Max, Ty::F64) => f64::NEG_INFINITY.to_bits(),
            (Combine::Min, Ty::F32) => f32::INFINITY.to_bits().into(),
            (Combine::Min, Ty::F64) => f64::INFINITY.to_bits(),
            (Combine::And | Combine::Min, Ty::Pred) | (Combine::Mul, _) => 1,
            (Combine::And, _) => ones,
            (Combine::Max, _) => least,
            (Combine::Min, _) => ones ^ least,
        }
    }
}

impl Op {
    /// The values it uses.
    pub fn operands(&self) -> impl Iterator<Item = super::ir::Val> + use<> {
        let (list, n) = match *self {
            Op::Const(..) | Op::Load(_) | Op::LoadTemp(..) | Op::Scalar(..) | Op::Index(..) => ([0; 3], 0),
            Op::Unary(_, a) | Op::Convert(_, a) | Op::Bitcast(_, a) | Op::Round(_, a) => ([a, 0, 0], 1),
            Op::LoadAt(_, a) => ([a, 0, 0], 1),
            Op::Store(_, a) | Op::StoreTemp(_, a) | Op::SetScalar(_, a) | Op::Reduce(_, _, a) => ([a, 0, 0], 1),
            Op::Binary(_, a, b) | Op::Compare(_, a, b) | Op::StoreAt(_, a, b) | Op::Far(_, a, b) => ([a, b, 0], 2),
            Op::Select(a, b, c) | Op::MulAdd(a, b, c) | Op::FarApart(_, a, b, c) => ([a, b, c], 3),
        };
        list.into_iter().take(n)
    }

    /// The same operation on other values.
    pub fn map(self, f: impl Fn(super::ir::Val) -> super::ir::Val) -> Op {
        match self {
            Op::Const(..) | Op::Load(_) | Op::LoadTemp(..) | Op::Scalar(..) | Op::Index(..) => self,
            Op::Unary(k, a) => Op::Unary(k, f(a)),
            Op::Convert(t, a) => Op::Convert(t, f(a)),
            Op::Bitcast(t, a) => Op::Bitcast(t, f(a)),
            Op::Round(e, a) => Op::Round(e, f(a)),
            Op::LoadAt(k, a) => Op::LoadAt(k, f(a)),
            Op::StoreAt(k, a, b) => Op::StoreAt(k, f(a), f(b)),
            Op::Store(k, a) => Op::Store(k, f(a)),
            Op::StoreTemp(k, a) => Op::StoreTemp(k, f(a)),
            Op::SetScalar(k, a) => Op::SetScalar(k, f(a)),
            Op::Reduce(c, k, a) => Op::Reduce(c, k, f(a)),
            Op::Binary(k, a, b) => Op::Binary(k, f(a), f(b)),
            Op::Compare(k, a, b) => Op::Compare(k, f(a), f(b)),
            Op::Far(k, a, b) => Op::Far(k, f(a), f(b)),
            Op::FarApart(k, a, b, c) => Op::FarApart(k, f(a), f(b), f(c)),
            Op::Select(a, b, c) => Op::Select(f(a), f(b), f(c)),
            Op::MulAdd(a, b, c) => Op::MulAdd(f(a), f(b), f(c)),
        }
    }

    /// Whether it writes something instead of making a value.
    pub fn is_effect(&self) -> bool {
        matches!(self, Op::Store(..) | Op::StoreAt(..) | Op::StoreTemp(..) | Op::SetScalar(..) | Op::Reduce(..))
    }
}
