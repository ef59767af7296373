//! Own kernels for loops of stencils: see the README of this folder.

mod body;
mod call;
mod driver;
mod emit;
mod fold;
mod plan;
mod read;
mod scalar;
mod writer;

#[cfg(test)]
mod emulate;
#[cfg(test)]
mod tests;

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use meshwork_ir::build::Builder;
use meshwork_ir::op::ControlOp;
use meshwork_ir::{
    Attr, AttrDict, Def, Dense, DenseData, ElementType, Module, OpId, OpKind, TensorType, Type, ValueId, ValueMap, Walk,
};

use crate::rewrite::{Counter, counter_of};
use body::Body;
use call::Numbers;
pub(crate) use call::{TARGET, register};
pub(crate) use plan::Wish;
use read::Carry;

/// Operations in the body of a loop that is looked at.
const MOST_OPS: usize = 512;

/// The names of the functions of a module of kernels.
const FUNCTIONS: [&str; 2] = ["full", "rest"];

/// Replaces loops of `module` by calls of kernels. Says of each what runs instead.
pub(crate) fn replace_loops(module: &mut Module, wish: Wish) -> Vec<String> {
    let mut notes = vec![];
    for op in module.all_ops(Walk::PostOrder) {
        if !module.is_erased(op) && module.op(op).kind() == OpKind::Control(ControlOp::While) {
            notes.extend(replace(module, op, wish));
        }
    }
    notes
}

/// A kernel for a loop.
pub(crate) struct Kernel {
    body: Body,
    text: String,
    numbers: Numbers,
}

fn replace(module: &mut Module, op: OpId, wish: Wish) -> Option<String> {
    let counter = counter_of(module, op)?;
    let carries = carries(module, op, counter.index)?;
    let body = read::read(module, op, &carries)?;
    let kernel = kernel(&body, &counter, wish)?;
    let values = build(module, op, &carries, &counter, &kernel)?;
    let elems: Vec<&str> = kernel.body.carried.iter().map(|e| e.text()).collect();
    let dims: Vec<String> =
        module.ty(*arrays_of(module, op, &carries).first()?).dims().iter().map(i64::to_string).collect();
    module.replace_op(op, &values);
    Some(format!(
        "a loop of {} turns over {} of {} is an own kernel, {} turns at a time",
        counter.turns,
        elems.join(", "),
        dims.join(" x "),
        kernel.numbers.steps
    ))
}

/// What each argument of the body is; `None` if a scalar other than the counter changes.
fn carries(module: &Module, op: OpId, counter: usize) -> Option<Vec<Carry>> {
    let block = module.body_of(op, 1)?;
    if module.op_list(block).len() > MOST_OPS {
        return None;
    }
    let (args, returned) = (module.block(block).args(), module.returned(block));
    let mut arrays = 0;
    let mut carry = |k: usize| match k {
        _ if k == counter => Some(Carry::Counter),
        _ if returned.get(k) == args.get(k) => Some(Carry::Fixed),
        _ if module.ty(args[k]).dims().is_empty() => None,
        _ => {
            arrays += 1;
            Some(Carry::Array(arrays - 1))
        }
    };
    (0..args.len()).map(&mut carry).collect()
}

/// The kernel that does the turns of a loop with this body.
pub(crate) fn kernel(body: &Body, counter: &Counter, wish: Wish) -> Option<Kernel> {
    if counter.turns < 2 {
        return None;
    }
    let body = fold::fold(body, fold::whole(body.dims))?;
    let full = plan::plan(&body, counter.turns, wish)?;
    let middle = fold::fold(&body, full.middle)?;
    let steps = full.steps as u64;
    let (passes, left) = (counter.turns / steps, counter.turns % steps);
    let rest = if left > 0 {
        Some(plan::plan(&body, left, Wish { steps: Some(left) }).filter(|p| p.steps == left as i64)?)
    } else {
        None
    };
    let plans: Vec<_> = FUNCTIONS.into_iter().zip(std::iter::once(&full).chain(&rest)).collect();
    let text = emit::module(&plans, [&body, &middle], counter.step)?;
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    let numbers = Numbers {
        arrays: body.carried.len() as i64,
        steps: steps as i64,
        passes: passes as i64,
        blocks: full.blocks(),
        rest_blocks: rest.map_or(0, |rest| rest.blocks()),
        start: counter.start,
        step: counter.step,
        key: hasher.finish() as i64,
    };
    Some(Kernel { body, text, numbers })
}

/// The values that the loop would have, from a call of the kernel before it.
fn build(module: &mut Module, op: OpId, carries: &[Carry], counter: &Counter, kernel: &Kernel) -> Option<Vec<ValueId>> {
    let operands = module.op(op).operands().to_vec();
    let arrays = arrays_of(module, op, carries);
    let mut map = ValueMap::new();
    let block = module.body_of(op, 1)?;
    for (&arg, &operand) in module.block(block).args().iter().zip(&operands) {
        map.insert(arg, operand);
    }
    let mut args = arrays.clone();
    for input in &kernel.body.inputs {
        args.push(hoisted(module, op, input.value, &mut map));
    }
    let types: Vec<Type> = arrays.iter().map(|&v| module.ty(v).clone()).collect();
    // Passes write in turn to the results and to memory beside them.
    let copies = if kernel.numbers.total() > 1 { 2 } else { 1 };
    let results: Vec<Type> = types.iter().cycle().take(copies * types.len()).cloned().collect();
    let layouts = |types: &mut dyn Iterator<Item = Type>| Attr::Array(types.map(|ty| row_major(&ty)).collect());
    let operand_layouts = layouts(&mut args.iter().map(|&v| module.ty(v).clone()));
    let result_layouts = layouts(&mut results.iter().cloned());
    let mut config = AttrDict::new();
    config.set("numbers", Attr::i64s(kernel.numbers.to_list()));
    config.set("ptx", Attr::str(&kernel.text));
    let mut b = Builder::before(module, op);
    let made = b.custom_call(TARGET, &args, results).ok()?;
    let total = counter.start + counter.step * counter.turns as i64;
    let mut values = vec![];
    let mut next = made.iter();
    for (k, carry) in carries.iter().enumerate() {
        values.push(match carry {
            Carry::Fixed => operands[k],
            Carry::Array(_) => *next.next()?,
            Carry::Counter => {
                let elem = b.ty(operands[k]).elem()?;
                b.splat([], elem, total as f64).ok()?
            }
        });
    }
    let call = module.def_op(made[0])?;
    let attrs = &mut module.op_mut(call).attrs;
    attrs.set("api_version", Attr::i32(4));
    attrs.set("operand_layouts", operand_layouts);
    attrs.set("result_layouts", result_layouts);
    attrs.set("backend_config", Attr::Dict(Arc::new(config)));
    Some(values)
}

/// What the carried arrays of the loop `op` start as.
fn arrays_of(module: &Module, op: OpId, carries: &[Carry]) -> Vec<ValueId> {
    let is_array = |carry: &Carry| matches!(carry, Carry::Array(_));
    module.op(op).operands().iter().zip(carries).filter(|(_, carry)| is_array(carry)).map(|(&v, _)| v).collect()
}

/// The layout of an array whose last dimension is dense.
fn row_major(ty: &Type) -> Attr {
    let rank = ty.dims().len() as i64;
    let order: Vec<u8> = (0..rank).rev().flat_map(i64::to_le_bytes).collect();
    let ty = Arc::new(TensorType::new([rank], ElementType::Index));
    Attr::Dense(Arc::new(Dense { ty, data: DenseData::Full(order.into()) }))
}

/// A value that no turn changes, before the loop `op`.
fn hoisted(module: &mut Module, op: OpId, value: ValueId, map: &mut ValueMap) -> ValueId {
    if let Some(&done) = map.get(&value) {
        return done;
    }
    let body = module.body_of(op, 1);
    let def = match module.value(value).def() {
        Def::Arg(..) => None,
        _ => module.def_op(value).filter(|&def| module.op(def).parent() == body),
    };
    let Some(def) = def else { return value };
    for operand in module.op(def).operands().to_vec() {
        let before = hoisted(module, op, operand, map);
        map.insert(operand, before);
    }
    let copy = module.clone_op(def, map);
    module.insert_before(op, copy);
    map.get(&value).copied().unwrap_or(value)
}
