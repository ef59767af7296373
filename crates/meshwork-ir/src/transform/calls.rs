//! Calls that need not be made, so that a program whose calls branch at every level stays as small as its text.
//!
//! Functions are looked at callees first. A call of a function that only hands on its arguments is replaced by them. A call
//! of a function without effects is removed if nothing uses its results, and merged with an equal one before it.

use super::dead;
use super::symbols::{Functions, functions};
use crate::hash::{HashMap, HashSet};
use crate::op::ControlOp;
use crate::{Attr, BlockId, Module, OpId, OpKind, ValueId, Walk};

/// What is known of a function.
#[derive(Clone, Default)]
struct Known {
    /// Which argument each result is, if that is all it does.
    forwards: Option<Vec<usize>>,
    is_pure: bool,
}

/// Removes calls that need not be made. Functions and calls with attributes of their arguments or results stay.
pub fn simplify(module: &mut Module) {
    let functions = functions(module);
    let mut known: HashMap<OpId, Known> = HashMap::default();
    for func in callees_first(module, &functions) {
        let mut equal: HashMap<(BlockId, OpId, Vec<ValueId>), OpId> = HashMap::default();
        for (call, callee) in calls(module, &functions, func) {
            let Some(of) = known.get(&callee).filter(|_| is_plain(module, call) && is_plain(module, callee)) else {
                continue;
            };
            let operands = module.op(call).operands().to_vec();
            let values = match &of.forwards {
                Some(args) => args.iter().map(|&i| operands[i]).collect(),
                None if of.is_pure => {
                    let Some(block) = module.op(call).parent() else { continue };
                    let first = *equal.entry((block, callee, operands)).or_insert(call);
                    if first == call {
                        continue;
                    }
                    module.op(first).results().to_vec()
                }
                None => continue,
            };
            module.replace_op(call, &values);
        }
        for (call, callee) in calls(module, &functions, func).into_iter().rev() {
            let unused = module.op(call).results().iter().all(|&r| module.value(r).uses().is_empty());
            if unused && known.get(&callee).is_some_and(|k| k.is_pure) {
                module.erase(call);
            }
        }
        let found = Known { forwards: forwards(module, func), is_pure: is_pure(module, &functions, func, &known) };
        known.insert(func, found);
    }
}

/// How many operations `func` has when all calls are replaced by what they call, or a call that closes a cycle.
pub fn size(module: &Module, func: OpId) -> Result<u64, OpId> {
    let functions = functions(module);
    // `None` while its callees are counted.
    let mut sizes: HashMap<OpId, Option<u64>> = [(func, None)].into_iter().collect();
    let mut path = vec![func];
    while let Some(&at) = path.last() {
        let mut total = module.ops_below(at, Walk::PreOrder).len() as u64;
        let mut missing = None;
        for (call, callee) in calls(module, &functions, at) {
            match sizes.get(&callee) {
                Some(Some(size)) => total = total.saturating_add(*size),
                Some(None) => return Err(call),
                None => missing = Some(callee),
            }
        }
        sizes.insert(at, missing.is_none().then_some(total));
        match missing {
            None => drop(path.pop()),
            Some(next) => {
                sizes.insert(next, None);
                path.push(next);
            }
        }
    }
    Ok(sizes[&func].unwrap_or(0))
}

/// The calls in `func` and what they call, in order.
fn calls(module: &Module, functions: &Functions, func: OpId) -> Vec<(OpId, OpId)> {
    let callee = |op: OpId| match module.op(op).kind() {
        OpKind::Control(ControlOp::Call) => module.op(op).attr("callee"),
        OpKind::Control(ControlOp::Composite) => module.op(op).attr("decomposition"),
        _ => None,
    };
    let ops = module.ops_below(func, Walk::PreOrder).into_iter();
    ops.filter_map(|op| Some((op, *functions.get(callee(op)?.as_symbol()?)?))).collect()
}

fn callees_first(module: &Module, functions: &Functions) -> Vec<OpId> {
    let mut order = vec![];
    let (mut entered, mut left) = (HashSet::default(), HashSet::default());
    for root in module.funcs() {
        let mut path = vec![root];
        while let Some(&at) = path.last() {
            if entered.insert(at) {
                path.extend(calls(module, functions, at).into_iter().map(|c| c.1).filter(|c| !entered.contains(c)));
                continue;
            }
            path.pop();
            if left.insert(at) {
                order.push(at);
            }
        }
    }
    order
}

fn is_plain(module: &Module, op: OpId) -> bool {
    let data = module.op(op);
    ["arg_attrs", "res_attrs"].iter().all(|&name| match data.attr(name) {
        None => true,
        Some(attr) => attr.as_array().is_some_and(|all| all.iter().all(|a| matches!(a, Attr::Dict(d) if d.is_empty()))),
    }) && data.kind() != OpKind::Control(ControlOp::Composite)
}

fn forwards(module: &Module, func: OpId) -> Option<Vec<usize>> {
    let body = module.body_of(func, 0)?;
    let end = module.terminator(body)?;
    if module.op_list(body) != [end] {
        return None;
    }
    let args = module.block(body).args();
    module.returned(body).iter().map(|v| args.iter().position(|a| a == v)).collect()
}

fn is_pure(module: &Module, functions: &Functions, func: OpId, known: &HashMap<OpId, Known>) -> bool {
    let inner: HashMap<OpId, OpId> = calls(module, functions, func).into_iter().collect();
    let pure = |op: OpId| {
        let kind = module.op(op).kind();
        match inner.get(&op) {
            Some(callee) => known.get(callee).is_some_and(|k| k.is_pure),
            None => op == func || kind.is_terminator() || dead::is_effect_free(module, op),
        }
    };
    module.body_of(func, 0).is_some() && module.ops_below(func, Walk::PreOrder).into_iter().all(pure)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::parse;

    /// A tree of calls, `depth` deep, with two calls on each level and `leaf` at the end.
    fn tree(depth: usize, level: &str, leaf: &str) -> Module {
        let mut text = String::new();
        for i in 0..depth {
            let (name, next) = (if i == 0 { "main".into() } else { format!("f{i}") }, format!("f{}", i + 1));
            let level = level.replace("@next", &format!("@{next}"));
            text += &format!("func.func @{name}(%a: tensor<f32>) -> tensor<f32> {{\n{level}\n}}\n");
        }
        text += &format!("func.func @f{depth}(%a: tensor<f32>) -> tensor<f32> {{\n{leaf}\n}}\n");
        parse(&text).unwrap()
    }

    fn sizes(level: &str, leaf: &str) -> u64 {
        let mut module = tree(70, level, leaf);
        let main = module.func("main").unwrap();
        assert_eq!(size(&module, main), Ok(u64::MAX));
        simplify(&mut module);
        assert!(crate::verify::verify(&module).is_empty());
        size(&module, main).unwrap()
    }

    #[test]
    fn trees_of_calls_stay_small() {
        let call = "= func.call @next";
        let ty = ": (tensor<f32>) -> tensor<f32>";
        let nothing = "return %a : tensor<f32>";
        let sine = "%0 = stablehlo.sine %a : tensor<f32>\nreturn %0 : tensor<f32>";
        let chain = format!("%0 {call}(%a) {ty}\n%1 {call}(%0) {ty}\nreturn %1 : tensor<f32>");
        assert!(sizes(&chain, nothing) < 10);
        let equal = format!(
            "%0 {call}(%a) {ty}\n%1 {call}(%a) {ty}\n%2 = stablehlo.add %0, %1 : tensor<f32>\nreturn %2 : tensor<f32>"
        );
        assert!(sizes(&equal, sine) < 70 * 5);
        let unused = format!("%0 {call}(%a) {ty}\n%1 {call}(%0) {ty}\nreturn %a : tensor<f32>");
        assert!(sizes(&unused, sine) < 10);
    }

    #[test]
    fn a_cycle_is_named() {
        let module = parse(
            "func.func @main(%a: tensor<f32>) -> tensor<f32> {
               %0 = func.call @f(%a) : (tensor<f32>) -> tensor<f32>
               return %0 : tensor<f32> }
             func.func @f(%a: tensor<f32>) -> tensor<f32> {
               %0 = func.call @main(%a) : (tensor<f32>) -> tensor<f32>
               return %0 : tensor<f32> }",
        )
        .unwrap();
        assert!(size(&module, module.func("main").unwrap()).is_err());
    }
}
