//! How two values become one in a reduction, where that is a single operation.

use crate::{BlockId, Module, OpKind};

/// How partial values combine: an operation that may take its operands in any order.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub enum Combine {
    /// Sum.
    Add,
    /// Product.
    Mul,
    /// Maximum.
    Max,
    /// Minimum.
    Min,
    /// Logical or bitwise and.
    And,
    /// Logical or bitwise or.
    Or,
    /// Logical or bitwise exclusive or.
    Xor,
}

impl Combine {
    /// The combination that operation `kind` is.
    pub fn of(kind: OpKind) -> Option<Combine> {
        Some(match kind {
            OpKind::Add => Combine::Add,
            OpKind::Multiply => Combine::Mul,
            OpKind::Maximum => Combine::Max,
            OpKind::Minimum => Combine::Min,
            OpKind::And => Combine::And,
            OpKind::Or => Combine::Or,
            OpKind::Xor => Combine::Xor,
            _ => return None,
        })
    }

    /// The operation that it is.
    pub fn op(self) -> OpKind {
        match self {
            Combine::Add => OpKind::Add,
            Combine::Mul => OpKind::Multiply,
            Combine::Max => OpKind::Maximum,
            Combine::Min => OpKind::Minimum,
            Combine::And => OpKind::And,
            Combine::Or => OpKind::Or,
            Combine::Xor => OpKind::Xor,
        }
    }

    /// The combination that the body of a reduction is, if it is one operation on its two arguments.
    pub fn of_body(module: &Module, body: BlockId) -> Option<Combine> {
        let (&[x, y], &[mut returned]) = (module.block(body).args(), module.returned(body)) else { return None };
        // JAX wraps bodies inside of manual computations in placement constraints: look through.
        while let Some(op) = module.def_op(returned)
            && module.op(op).kind() == OpKind::SdyShardingConstraint
        {
            returned = *module.op(op).operands().first()?;
        }
        let op = module.op(module.def_op(returned)?);
        let &[a, b] = op.operands() else { return None };
        ((a, b) == (x, y) || (a, b) == (y, x)).then(|| Combine::of(op.kind()))?
    }
}
