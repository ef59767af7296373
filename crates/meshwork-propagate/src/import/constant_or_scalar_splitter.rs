//! Gives every use of a constant its own copy, so that each can be placed on its own.
//!
//! - `stablehlo.constant` becomes `sdy.constant`, which is never folded or merged.
//! - A *constant expression* is a constant, an iota, or an op that is pure and computes each element from
//!   the elements at one place (elementwise, broadcast, reshape, slice) with only constant expressions as
//!   operands; also a call or a named computation whose body is made of such ops.
//! - Where an op that is not a constant expression uses one, or uses the broadcast of a scalar, it gets a copy
//!   of the whole expression. Scalars are not copied: there is nothing to place.
//! - Sharding groups on a copied value are copied with it.

use meshwork_ir::hash::{HashMap, HashSet};
use meshwork_ir::op::{ControlOp, MovementOp, SdyOp, SourceOp};
use meshwork_ir::{Def, Diagnostic, Failed, Module, OpId, OpKind, OpSpec, RegionId, Use, ValueId, ValueMap, Walk};

use crate::program::{Symbols, callee_name, clone_callee, funcs_callees_first, is_elementwise, original_name};

/// Gives every use of a constant or a broadcast scalar its own copy. Fails on recursive calls.
pub fn split_constants(module: &mut Module, diags: &mut Vec<Diagnostic>) -> Result<(), Failed> {
    let funcs = funcs_callees_first(module, diags)?;
    for op in module.all_ops(Walk::PreOrder) {
        if module.op(op).kind() == SourceOp::Constant {
            replace_constant(module, op);
        }
    }
    let mut splitter = Splitter {
        symbols: Symbols::of(module),
        changing: HashSet::default(),
        changing_funcs: HashSet::default(),
        groups: HashMap::default(),
    };
    for func in funcs {
        for op in module.ops_below(func, Walk::PostOrder) {
            if module.op(op).kind() == SdyOp::NamedComputation {
                splitter.split_region(module, op, func);
            }
        }
        splitter.split_region(module, func, func);
    }
    Ok(())
}

fn replace_constant(module: &mut Module, old: OpId) {
    let result = module.result(old);
    let mut spec = OpSpec::new(SdyOp::Constant).results([module.ty(result).clone()]);
    spec.attrs = module.op(old).attrs.clone();
    spec.loc = module.op(old).loc.clone();
    spec.pos = module.op(old).pos;
    let new = module.push_before(old, spec);
    module.replace_op(old, &[module.result(new)]);
}

struct Splitter {
    symbols: Symbols,
    /// Names of named computations that are not constant for constant operands.
    changing: HashSet<String>,
    /// Original names of functions that are not constant for constant operands.
    changing_funcs: HashSet<String>,
    /// The sharding groups on values that were copied.
    groups: HashMap<ValueId, Vec<OpId>>,
}

/// The constant expressions and broadcast scalars found so far in a region, in program order.
#[derive(Default)]
struct Found {
    constants: Vec<OpId>,
    is_constant: HashSet<OpId>,
    expansions: Vec<OpId>,
    is_expansion: HashSet<OpId>,
    /// The copy for each use of a constant expression by something else.
    copies: HashMap<Use, ValueId>,
}

impl Splitter {
    /// Splits in the only region of `holder`, which is `func` or a named computation in it.
    fn split_region(&mut self, module: &mut Module, holder: OpId, func: OpId) {
        let mut ops = vec![];
        for &region in module.op(holder).regions() {
            collect(module, region, &mut ops);
        }
        let mut found = Found::default();
        for op in ops {
            self.split_op(module, op, func, &mut found);
        }
        for &op in found.expansions.iter().chain(&found.constants) {
            for result in module.op(op).results().to_vec() {
                module.redirect_uses(result, |u| found.copies.get(&u).copied());
            }
        }
        for op in found.expansions.into_iter().chain(found.constants.into_iter().rev()) {
            erase_if_unused(module, op);
        }
    }

    fn split_op(&mut self, module: &mut Module, op: OpId, func: OpId, found: &mut Found) {
        let kind = module.op(op).kind();
        if kind == SdyOp::ShardingGroup {
            return;
        }
        let preserves = self.preserves_constants(module, op);
        let constant_operands = || {
            let is_found = |v: &ValueId| module.def_op(*v).is_some_and(|def| found.is_constant.contains(&def));
            module.op(op).operands().iter().all(is_found)
        };
        if matches!(kind, OpKind::Sdy(SdyOp::Constant) | OpKind::Source(SourceOp::Iota))
            || (preserves && constant_operands())
        {
            found.constants.push(op);
            found.is_constant.insert(op);
            return;
        }
        if !preserves && !kind.is_terminator() {
            if let Some(name) = enclosing_computation(module, op) {
                self.changing.insert(name);
            }
            self.changing_funcs.insert(original_name(module, func).to_string());
        }
        if is_scalar_expansion(module, op) {
            found.expansions.push(op);
            found.is_expansion.insert(op);
            return;
        }
        for i in 0..module.op(op).operands().len() {
            let operand = module.op(op).operands()[i];
            let is_found = |def: OpId| found.is_constant.contains(&def) || found.is_expansion.contains(&def);
            if module.def_op(operand).is_some_and(is_found) {
                let copy = self.clone_expression(module, operand);
                found.copies.insert(Use { op, operand: i as u32 }, copy);
            }
        }
    }

    /// Whether the results are constant if all operands are.
    fn preserves_constants(&self, module: &Module, op: OpId) -> bool {
        match module.op(op).kind() {
            OpKind::Control(ControlOp::Call) => {
                let func = callee_name(module, op).and_then(|name| self.symbols.lookup(name));
                func.is_some_and(|func| !self.changing_funcs.contains(original_name(module, func)))
            }
            OpKind::Sdy(SdyOp::NamedComputation) => !self.changing.contains(&computation_name(module, op)),
            OpKind::Movement(MovementOp::BroadcastInDim | MovementOp::Reshape | MovementOp::Slice) => true,
            kind => kind.is_pure() && is_elementwise(module, op),
        }
    }

    /// Copies the expression that computes `value`, each op of it once, before its original.
    fn clone_expression(&mut self, module: &mut Module, value: ValueId) -> ValueId {
        let mut map = ValueMap::default();
        // Values to copy, each twice: to look at its operands, and to copy it after them.
        let mut stack = vec![(value, false)];
        while let Some((value, operands_done)) = stack.pop() {
            let Def::Result(op, _) = module.value(value).def() else { continue };
            if is_scalar(module, value) || map.contains_key(&value) {
                continue;
            }
            if !operands_done {
                stack.push((value, true));
                stack.extend(module.op(op).operands().iter().rev().map(|&v| (v, false)));
                continue;
            }
            let copy = module.clone_op(op, &mut map);
            module.insert_before(op, copy);
            if module.op(copy).kind() == ControlOp::Call {
                clone_callee(module, &mut self.symbols, copy);
            }
            // Looked up once: a constant may have very many uses.
            let groups = self.groups.entry(value).or_insert_with(|| group_users(module, value));
            for &user in groups.iter().rev() {
                let group = module.clone_op(user, &mut map);
                module.insert_before(op, group);
            }
        }
        map.get(&value).copied().unwrap_or(value)
    }
}

/// The ops of `region` and below, parents first, without those inside named computations.
fn collect(module: &Module, region: RegionId, out: &mut Vec<OpId>) {
    for &block in module.region(region).blocks() {
        for op in module.ops_in(block) {
            out.push(op);
            if module.op(op).kind() != SdyOp::NamedComputation {
                module.op(op).regions().iter().for_each(|&inner| collect(module, inner, out));
            }
        }
    }
}

fn is_scalar(module: &Module, value: ValueId) -> bool {
    module.ty(value).rank() == Some(0)
}

fn is_scalar_expansion(module: &Module, op: OpId) -> bool {
    let data = module.op(op);
    data.kind() == MovementOp::BroadcastInDim && data.operands().first().is_some_and(|&v| is_scalar(module, v))
}

fn computation_name(module: &Module, op: OpId) -> String {
    module.op(op).attr("name").and_then(|a| a.as_str()).unwrap_or_default().to_string()
}

fn enclosing_computation(module: &Module, op: OpId) -> Option<String> {
    let mut at = module.parent_op(op);
    while let Some(op) = at {
        if module.op(op).kind() == SdyOp::NamedComputation {
            return Some(computation_name(module, op));
        }
        at = module.parent_op(op);
    }
    None
}

fn group_users(module: &Module, value: ValueId) -> Vec<OpId> {
    let users = module.value(value).uses().iter().map(|u| u.op);
    users.filter(|&op| module.op(op).kind() == SdyOp::ShardingGroup).collect()
}

/// Erases `op`, with the sharding groups on it, if nothing else uses it.
fn erase_if_unused(module: &mut Module, op: OpId) {
    let results = module.op(op).results().to_vec();
    let users: Vec<OpId> = results.iter().flat_map(|&r| module.value(r).uses().iter().map(|u| u.op)).collect();
    if users.iter().all(|&user| module.op(user).kind() == SdyOp::ShardingGroup) {
        users.into_iter().for_each(|user| module.erase(user));
        module.erase(op);
    }
}
