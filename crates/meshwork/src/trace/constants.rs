//! Numbers as constants: each appears once per block.

use meshwork_ir::hash::HashMap;
use meshwork_ir::{BlockId, TypeId, ValueId};

use super::Trace;
use crate::element::Number;

/// The constants that blocks have already.
pub(super) type Constants = HashMap<(BlockId, Bits, TypeId), ValueId>;

/// A number by its bits: zero differs from its negative, and a NaN equals itself.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Bits {
    Float(u64),
    Int(i64),
    Bool(bool),
}

impl From<Number> for Bits {
    fn from(number: Number) -> Bits {
        match number {
            Number::Float(v) => Bits::Float(v.to_bits()),
            Number::Int(v) => Bits::Int(v),
            Number::Bool(v) => Bits::Bool(v),
        }
    }
}

impl Trace {
    /// The constant with all elements equal to `number`: the one that the block has already, or a new one.
    pub(crate) fn constant(&mut self, op: &str, number: Number, ty: TypeId) -> ValueId {
        let key = (self.block(), number.into(), ty);
        if let Some(&value) = self.constants.get(&key) {
            return value;
        }
        let ty = self.as_tensor(op, self.module.type_of(ty)).clone();
        let literal = match number.literal(ty.elem) {
            Ok(literal) => literal,
            Err(message) => self.fail(op, message),
        };
        let value = self.build(op, |b| b.splat_bytes(&ty.dims, ty.elem, literal.bytes()));
        self.constants.insert(key, value);
        value
    }
}
