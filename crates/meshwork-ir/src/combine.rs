//! How two values become one in a reduction, where that is a single operation.

use crate::op::{BinaryOp, SdyOp};
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
            OpKind::Binary(BinaryOp::Add) => Combine::Add,
            OpKind::Binary(BinaryOp::Multiply) => Combine::Mul,
            OpKind::Binary(BinaryOp::Maximum) => Combine::Max,
            OpKind::Binary(BinaryOp::Minimum) => Combine::Min,
            OpKind::Binary(BinaryOp::And) => Combine::And,
            OpKind::Binary(BinaryOp::Or) => Combine::Or,
            OpKind::Binary(BinaryOp::Xor) => Combine::Xor,
            _ => return None,
        })
    }

    /// The operation that it is.
    pub fn op(self) -> OpKind {
        match self {
            Combine::Add => OpKind::Binary(BinaryOp::Add),
            Combine::Mul => OpKind::Binary(BinaryOp::Multiply),
            Combine::Max => OpKind::Binary(BinaryOp::Maximum),
            Combine::Min => OpKind::Binary(BinaryOp::Minimum),
            Combine::And => OpKind::Binary(BinaryOp::And),
            Combine::Or => OpKind::Binary(BinaryOp::Or),
            Combine::Xor => OpKind::Binary(BinaryOp::Xor),
        }
    }

    /// The combination that the body of a reduction is, if it is one operation on its two arguments.
    pub fn of_body(module: &Module, body: BlockId) -> Option<Combine> {
        let (&[x, y], &[mut returned]) = (module.block(body).args(), module.returned(body)) else { return None };
        // JAX wraps bodies inside manual computations in placement constraints: look through.
        while let Some(op) = module.def_op(returned)
            && module.op(op).kind() == OpKind::Sdy(SdyOp::ShardingConstraint)
        {
            returned = *module.op(op).operands().first()?;
        }
        let op = module.op(module.def_op(returned)?);
        let &[a, b] = op.operands() else { return None };
        ((a, b) == (x, y) || (a, b) == (y, x)).then(|| Combine::of(op.kind()))?
    }
}
