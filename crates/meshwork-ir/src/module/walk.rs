//! Visiting operations: the ops of a block, and all ops nested below one.

use super::*;

/// Iterates over the operations of a block; see [`Module::ops_in`].
pub struct OpsIn<'m> {
    module: &'m Module,
    next: Option<OpId>,
}

impl Iterator for OpsIn<'_> {
    type Item = OpId;

    fn next(&mut self) -> Option<OpId> {
        let op = self.next?;
        self.next = self.module.op(op).next;
        Some(op)
    }
}

/// Whether operations come before or after what is nested in them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Walk {
    /// Parents first.
    PreOrder,
    /// Children first.
    PostOrder,
}

impl Module {
    /// The operations of `block` in order.
    pub fn ops_in(&self, block: BlockId) -> OpsIn<'_> {
        OpsIn { module: self, next: self.block(block).first }
    }

    /// The operations of `block` in order, collected, so that the module can be changed meanwhile.
    pub fn op_list(&self, block: BlockId) -> Vec<OpId> {
        self.ops_in(block).collect()
    }

    /// All operations of the module in program order.
    pub fn all_ops(&self, order: Walk) -> Vec<OpId> {
        let mut out = Vec::with_capacity(self.ops.len());
        self.collect(self.body(), order, &mut out);
        out
    }

    /// All operations of the module in the order in which they were made.
    pub fn op_ids(&self) -> impl Iterator<Item = OpId> {
        self.ops.iter().enumerate().filter(|(_, op)| !op.erased).map(|(i, _)| OpId::at(i))
    }

    /// `op` and all operations nested in it.
    pub fn ops_below(&self, op: OpId, order: Walk) -> Vec<OpId> {
        let mut out = vec![];
        self.visit(op, order, &mut out);
        out
    }

    /// All operations of `block` and below.
    pub fn ops_below_block(&self, block: BlockId, order: Walk) -> Vec<OpId> {
        let mut out = vec![];
        self.collect(block, order, &mut out);
        out
    }

    // Recursion is as deep as regions nest, which the parser bounds.
    fn collect(&self, block: BlockId, order: Walk, out: &mut Vec<OpId>) {
        for op in self.ops_in(block) {
            if self.op(op).regions.is_empty() {
                out.push(op);
            } else {
                self.visit(op, order, out);
            }
        }
    }

    fn visit(&self, op: OpId, order: Walk, out: &mut Vec<OpId>) {
        if order == Walk::PreOrder {
            out.push(op);
        }
        for &region in self.op(op).regions() {
            for &block in self.region(region).blocks() {
                self.collect(block, order, out);
            }
        }
        if order == Walk::PostOrder {
            out.push(op);
        }
    }

    /// The last operation of `block` if it is a terminator.
    pub fn terminator(&self, block: BlockId) -> Option<OpId> {
        self.block(block).last.filter(|&op| self.op(op).kind.is_terminator())
    }

    /// The values that `block`'s terminator returns.
    pub fn returned(&self, block: BlockId) -> &[ValueId] {
        self.terminator(block).map_or(&[], |t| self.op(t).operands())
    }

    /// The next operation of the same block.
    pub fn next_op(&self, op: OpId) -> Option<OpId> {
        self.op(op).next
    }

    /// The previous operation of the same block.
    pub fn prev_op(&self, op: OpId) -> Option<OpId> {
        self.op(op).prev
    }

    /// Whether `op` is `ancestor` or nested in it.
    pub fn is_inside(&self, op: OpId, ancestor: OpId) -> bool {
        let mut at = Some(op);
        while let Some(op) = at {
            if op == ancestor {
                return true;
            }
            at = self.parent_op(op);
        }
        false
    }
}
