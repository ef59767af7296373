//! How two values become one in a reduction, where that is a single operation.

use meshwork_mesh::Reduction;

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
        let OpKind::Binary(op) = kind else { return None };
        Some(match op {
            BinaryOp::Add => Combine::Add,
            BinaryOp::Multiply => Combine::Mul,
            BinaryOp::Maximum => Combine::Max,
            BinaryOp::Minimum => Combine::Min,
            BinaryOp::And => Combine::And,
            BinaryOp::Or => Combine::Or,
            BinaryOp::Xor => Combine::Xor,
            _ => return None,
        })
    }

    /// The operation that it is.
    pub fn op(self) -> OpKind {
        OpKind::Binary(self.into())
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

impl From<Combine> for BinaryOp {
    fn from(combine: Combine) -> BinaryOp {
        match combine {
            Combine::Add => BinaryOp::Add,
            Combine::Mul => BinaryOp::Multiply,
            Combine::Max => BinaryOp::Maximum,
            Combine::Min => BinaryOp::Minimum,
            Combine::And => BinaryOp::And,
            Combine::Or => BinaryOp::Or,
            Combine::Xor => BinaryOp::Xor,
        }
    }
}

impl From<Reduction> for Combine {
    fn from(reduction: Reduction) -> Combine {
        match reduction {
            Reduction::Sum => Combine::Add,
            Reduction::Max => Combine::Max,
            Reduction::Min => Combine::Min,
        }
    }
}
