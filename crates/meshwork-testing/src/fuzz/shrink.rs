//! Making a failing program smaller while it fails in the same way.

use std::sync::Arc;

use meshwork_ir::op::{ControlOp, SdyOp, SourceOp};
use meshwork_ir::transform::dead::remove_dead;
use meshwork_ir::transform::symbol_dce;
use meshwork_ir::{Attr, Dense, Literal, Module, OpId, OpKind, OpSpec, Type, ValueId, Walk};

use super::check::{Case, Precision};

/// The smallest program found that `fails` still holds for. Tries at most `budget` programs.
pub fn shrink(case: &Case, mut budget: usize, fails: impl Fn(&Case) -> bool) -> Case {
    let mut best = case.clone();
    loop {
        let mut changed = false;
        let mut at = 0;
        while let Some(smaller) = nth_change(&best, at) {
            if budget == 0 {
                return best;
            }
            budget -= 1;
            match smaller.filter(|c| fails(c)) {
                Some(smaller) => (best, changed) = (smaller, true),
                None => at += 1,
            }
        }
        if !changed {
            return best;
        }
    }
}

/// The change number `n`; `Some(None)` if it does not apply, `None` if there are no more.
fn nth_change(case: &Case, n: usize) -> Option<Option<Case>> {
    let mut case = case.clone();
    let mut module = std::mem::take(&mut case.module);
    let entry = module.entry()?;
    let ty = module.func_type(entry);
    let (results, arguments) = (ty.results.len(), ty.inputs.len());
    let mut n = n;
    let mut within = |count: usize| {
        if n < count {
            Some(n)
        } else {
            n -= count;
            None
        }
    };
    if let Some(i) = within(results) {
        if let Precision::Errors(errors) = &mut case.precision {
            errors.remove(i);
        }
        return Some((results > 1).then(|| Case { module: without_result(module, entry, i), ..case }));
    }
    if let Some(i) = within(arguments) {
        let had = module.arg_attr(entry, i, "sdy.sharding").is_some();
        module.set_arg_attr(entry, i, "sdy.sharding", None);
        return Some(had.then_some(Case { module, ..case }));
    }
    if let Some(i) = within(results) {
        let had = module.res_attr(entry, i, "sdy.sharding").is_some();
        module.set_res_attr(entry, i, "sdy.sharding", None);
        return Some(had.then_some(Case { module, ..case }));
    }
    if let Some(i) = within(arguments) {
        case.args.remove(i);
        return Some(without_argument(module, entry, i).map(|module| Case { module, ..case }));
    }
    let ops: Vec<OpId> = module.all_ops(Walk::PreOrder).into_iter().rev().collect();
    let ways = 3;
    let i = within(ops.len() * ways)?;
    Some(without_op(module, ops[i / ways], i % ways).map(|module| Case { module, ..case }))
}

fn without_result(mut module: Module, entry: OpId, index: usize) -> Module {
    let Some(body) = module.body_of(entry, 0) else { return module };
    let Some(back) = module.terminator(body) else { return module };
    let mut returned = module.returned(body).to_vec();
    returned.remove(index);
    module.set_operands(back, returned);
    let count = module.func_type(entry).results.len();
    for i in index..count {
        let next = module.res_attr(entry, i + 1, "sdy.sharding").cloned();
        module.set_res_attr(entry, i, "sdy.sharding", next);
    }
    module.edit_func_type(entry, |ty| drop(ty.results.remove(index)));
    cleaned(module)
}

fn without_argument(mut module: Module, entry: OpId, index: usize) -> Option<Module> {
    let body = module.body_of(entry, 0)?;
    let arg = module.block(body).args()[index];
    if !module.value(arg).uses().is_empty() {
        return None;
    }
    let count = module.func_type(entry).inputs.len();
    for i in index..count {
        let next = module.arg_attr(entry, i + 1, "sdy.sharding").cloned();
        module.set_arg_attr(entry, i, "sdy.sharding", next);
    }
    module.remove_block_arg(body, index);
    module.edit_func_type(entry, |ty| drop(ty.inputs.remove(index)));
    Some(module)
}

/// Replaces the results of `op`: by values of the same types before it, by operands, or by constants.
fn without_op(mut module: Module, op: OpId, way: usize) -> Option<Module> {
    let data = module.op(op).clone();
    let is_kept =
        matches!(data.kind(), OpKind::Control(ControlOp::Func | ControlOp::Module) | OpKind::Sdy(SdyOp::Mesh))
            || data.kind().is_terminator()
            || data.results().is_empty()
            || (data.operands().is_empty() && data.regions().is_empty());
    // A loop without its counter may never end.
    let in_loop = module.parent_op(op).is_some_and(|p| module.op(p).kind() == ControlOp::While);
    let counts = in_loop && data.results().iter().any(|&r| module.ty(r).rank() == Some(0));
    if is_kept || counts {
        return None;
    }
    for (i, &r) in data.results().iter().enumerate() {
        let ty = module.ty(r).clone();
        let same = |v: &ValueId| *module.ty(*v) == ty;
        let new = match way {
            0 => data.operands().get(i).copied().filter(same).or_else(|| data.operands().iter().copied().find(same))?,
            1 => {
                let entry = module.entry().and_then(|f| module.body_of(f, 0))?;
                let mut at = data.parent();
                while at.is_some_and(|b| b != entry) {
                    at = module.block_parent_op(at?).and_then(|p| module.op(p).parent());
                }
                let inside_manual =
                    module.parent_op(op).is_some_and(|p| module.op(p).kind() == SdyOp::ManualComputation);
                at.filter(|_| !inside_manual)?;
                module.block(entry).args().iter().copied().find(same)?
            }
            _ => zeros(&mut module, op, &ty)?,
        };
        module.replace_all_uses(r, new);
    }
    module.erase(op);
    Some(cleaned(module))
}

fn zeros(module: &mut Module, before: OpId, ty: &Type) -> Option<ValueId> {
    let t = ty.as_tensor()?;
    let literal = Literal::zeros(t.dims.iter().copied(), t.elem);
    let value = Attr::Dense(Arc::new(Dense::from_literal(&literal)));
    let spec = OpSpec::new(SourceOp::Constant).results([ty.clone()]).attr("value", value);
    let op = module.push_before(before, spec);
    Some(module.result(op))
}

fn cleaned(mut module: Module) -> Module {
    remove_dead(&mut module);
    symbol_dce::remove_unused(&mut module, |_| true);
    module
}
