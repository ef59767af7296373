//! Which ops a changed placement affects, also across calls.

use meshwork_ir::hash::HashMap;
use meshwork_ir::op::{ControlOp, SdyOp};
use meshwork_ir::{Attr, Def, Module, OpId, Use, ValueId, Values, Walk};

use crate::program::{edge_of_source, non_owner_targets};

/// Last in, first out, each op at most once.
pub struct WorkList {
    list: Vec<OpId>,
    listed: Vec<bool>,
}

impl WorkList {
    /// An empty list for a module with `slots` op slots.
    pub fn new(ops: usize) -> WorkList {
        WorkList { list: vec![], listed: vec![false; ops] }
    }

    /// Puts `op` on top, unless it is in the list.
    pub fn push(&mut self, op: OpId) {
        if !std::mem::replace(&mut self.listed[op.index()], true) {
            self.list.push(op);
        }
    }

    /// Takes the op on top.
    pub fn pop(&mut self) -> Option<OpId> {
        let op = self.list.pop()?;
        self.listed[op.index()] = false;
        Some(op)
    }
}

/// Who calls which function.
pub struct Calls {
    callee: HashMap<OpId, OpId>,
    callers: HashMap<OpId, Vec<OpId>>,
}

impl Calls {
    /// The calls of `module`.
    pub fn of(module: &Module) -> Calls {
        let funcs: HashMap<&str, OpId> = module.funcs().filter_map(|f| Some((module.symbol_name(f)?, f))).collect();
        let mut calls = Calls { callee: HashMap::default(), callers: HashMap::default() };
        for op in module.all_ops(Walk::PreOrder) {
            if module.op(op).kind() != ControlOp::Call {
                continue;
            }
            let name = module.op(op).attr("callee").and_then(Attr::as_symbol);
            if let Some(&func) = name.and_then(|n| funcs.get(n)) {
                calls.callee.insert(op, func);
                calls.callers.entry(func).or_default().push(op);
            }
        }
        calls
    }

    fn callers(&self, func: Option<OpId>) -> &[OpId] {
        func.and_then(|f| self.callers.get(&f)).map_or(&[], Vec::as_slice)
    }

    /// What flows into the operand of a function edge: the operands of all callers, or what the callee returns.
    pub fn sources(&self, module: &Module, operand: ValueId) -> Values {
        match module.value(operand).def() {
            Def::Arg(block, i) => {
                let callers = self.callers(module.block_parent_op(block)).iter();
                callers.filter_map(|&c| module.op(c).operands().get(i as usize).copied()).collect()
            }
            Def::Result(op, i) => {
                let body = self.callee.get(&op).and_then(|&f| module.body_of(f, 0));
                body.and_then(|b| module.returned(b).get(i as usize).copied()).into_iter().collect()
            }
        }
    }

    /// Passes to `push` all ops that a change of the placement of `value` affects, in order: users of the other targets
    /// of a data-flow edge, the op that defines the value, and its users.
    pub fn concerned(&self, module: &Module, value: ValueId, mut push: impl FnMut(OpId)) {
        match module.value(value).def() {
            Def::Result(op, _) => {
                if module.op(op).kind() == SdyOp::DataFlowEdge
                    && let Some(&owner) = module.op(op).operands().first()
                {
                    for target in non_owner_targets(module, owner) {
                        self.users(module, target, &mut push, &mut vec![]);
                    }
                }
                push(op);
            }
            Def::Arg(block, _) => {
                if let Some(parent) = module.block_parent_op(block) {
                    push(parent);
                }
            }
        }
        self.users(module, value, &mut push, &mut vec![]);
    }

    /// Latest use first, as MLIR lists them. `crossed` holds the values passed from one function to another, which
    /// recursion may meet again.
    fn users(&self, module: &Module, value: ValueId, push: &mut impl FnMut(OpId), crossed: &mut Vec<ValueId>) {
        for &u in module.value(value).uses().iter().rev() {
            let kind = module.op(u.op).kind();
            if let Some(edge) = edge_of_source(module, u) {
                push(edge);
            } else if kind == ControlOp::FuncReturn {
                for &caller in self.callers(module.parent_op(u.op)) {
                    self.cross(module, module.op(caller).results(), u, push, crossed);
                }
            } else if kind.is_terminator() {
                if let Some(parent) = module.parent_op(u.op) {
                    push(parent);
                }
            } else if let Some(&func) = self.callee.get(&u.op) {
                let args = module.body_of(func, 0).map_or(&[][..], |b| module.block(b).args());
                self.cross(module, args, u, push, crossed);
            } else {
                push(u.op);
            }
        }
    }

    fn cross(
        &self,
        module: &Module,
        to: &[ValueId],
        from: Use,
        push: &mut impl FnMut(OpId),
        crossed: &mut Vec<ValueId>,
    ) {
        if let Some(&value) = to.get(from.operand as usize)
            && !crossed.contains(&value)
        {
            crossed.push(value);
            self.users(module, value, push, crossed);
        }
    }
}
