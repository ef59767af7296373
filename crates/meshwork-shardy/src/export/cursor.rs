//! A place in a program at which operations are inserted one after another.

use std::sync::Arc;

use meshwork_ir::op::SdyOp;
use meshwork_ir::{Attr, BlockId, Def, Loc, Module, OpId, OpKind, OpSpec, ValueId};
use meshwork_mesh::Sharding;

/// Where the next operation goes; those inserted before it stay in front of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cursor {
    /// Just before this operation.
    Before(OpId),
    /// Just after this operation.
    After(OpId),
    /// At the start of this block.
    Start(BlockId),
}

impl Cursor {
    /// Right after the definition of `value`.
    pub fn after_value(module: &Module, value: ValueId) -> Cursor {
        match module.value(value).def() {
            Def::Result(op, _) => Cursor::After(op),
            Def::Arg(block, _) => Cursor::Start(block),
        }
    }

    /// Creates an operation here and moves on.
    pub fn insert(&mut self, module: &mut Module, spec: OpSpec) -> OpId {
        let op = module.create(spec);
        match *self {
            Cursor::Before(anchor) => module.insert_before(anchor, op),
            Cursor::After(anchor) => {
                module.insert_after(anchor, op);
                *self = Cursor::After(op);
            }
            Cursor::Start(block) => {
                module.prepend(block, op);
                *self = Cursor::After(op);
            }
        }
        op
    }

    /// Creates an operation of one operand whose result has the same type; `attrs` are its own attributes.
    pub fn insert_like<const N: usize>(
        &mut self,
        module: &mut Module,
        kind: OpKind,
        value: ValueId,
        attrs: [(&'static str, Attr); N],
    ) -> ValueId {
        let loc = value_loc(module, value);
        let mut spec = OpSpec::new(kind).operands([value]).results([module.ty(value).clone()]).loc(loc);
        for (name, attr) in attrs {
            spec = spec.attr(name, attr);
        }
        let op = self.insert(module, spec);
        module.result(op)
    }

    /// Creates an `sdy.reshard` of `value`.
    pub fn reshard(&mut self, module: &mut Module, value: ValueId, sharding: Sharding) -> ValueId {
        self.insert_like(module, OpKind::Sdy(SdyOp::Reshard), value, [("sharding", Attr::Sharding(Arc::new(sharding)))])
    }
}

/// The location of the operation that defines `value`.
pub fn value_loc(module: &Module, value: ValueId) -> Loc {
    module.def_op(value).map(|op| module.op(op).loc.clone()).unwrap_or_default()
}
