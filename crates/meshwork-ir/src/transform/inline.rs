//! `-inline`: replaces calls by the bodies of the functions they call.
//!
//! What is inlined is inlined into as well. Kept are calls that close a cycle, calls of functions without a
//! body or with several blocks, and calls or functions marked `no_inline`. A private function that was inlined and has
//! no use left is removed.

use super::{symbol_dce, symbols};
use crate::hash::{HashMap, HashSet};
use crate::op::ControlOp;
use crate::{
    Attr, BlockId, Diagnostic, Failed, Loc, LocKind, Module, OpId, OpKind, OpSpec, Pass, PassOptions, ValueId,
    ValueMap, Walk,
};

/// The pass.
pub const PASS: Pass =
    Pass { name: "inline", summary: "Replace calls by the bodies of the functions they call", options: &[], run };

fn run(module: &mut Module, _: &PassOptions, _: &mut Vec<Diagnostic>) -> Result<(), Failed> {
    inline_as_they_are(module);
    Ok(())
}

/// Inlines every call of `module` that can be, and that [has to be made](super::calls).
pub fn inline_calls(module: &mut Module) {
    super::calls::simplify(module);
    inline_as_they_are(module);
}

fn inline_as_they_are(module: &mut Module) {
    let calls = calls_to_inline(module);
    let inlined: HashSet<OpId> = calls.values().copied().collect();
    let goes = |module: &Module, func: OpId| {
        module.op(func).attr("sym_visibility").and_then(Attr::as_str) == Some("private") && inlined.contains(&func)
    };
    // Only functions that stay are inlined into, each body once for every call: a chain of calls costs what it is long.
    let mut stay: Vec<OpId> = module.funcs().filter(|&func| !goes(module, func)).collect();
    let mut met: HashSet<OpId> = stay.iter().copied().collect();
    while let Some(func) = stay.pop() {
        inline_into(module, func, &calls);
        let named = symbols::used_by(module, func);
        stay.extend(named.iter().filter_map(|name| module.func(name)).filter(|&func| met.insert(func)));
    }
    symbol_dce::remove_unused(module, |op| inlined.contains(&op));
}

/// The calls to inline, with their callees: all that can be, but those that close a cycle.
fn calls_to_inline(module: &Module) -> HashMap<OpId, OpId> {
    let functions = symbols::functions(module);
    let mut found = HashMap::default();
    // Functions on the path of the walk are `false`, finished ones `true`.
    let mut finished: HashMap<OpId, bool> = HashMap::default();
    for root in module.funcs() {
        let mut path = vec![];
        enter(module, &functions, root, &mut path, &mut finished);
        while let Some((func, calls)) = path.last_mut() {
            let Some((call, callee)) = calls.pop() else {
                finished.insert(*func, true);
                path.pop();
                continue;
            };
            match finished.get(&callee) {
                None => {
                    calls.push((call, callee));
                    enter(module, &functions, callee, &mut path, &mut finished);
                }
                Some(true) if inlinable_body(module, call, callee).is_some() => {
                    found.insert(call, callee);
                }
                Some(_) => {}
            }
        }
    }
    found
}

/// Inlines the calls of `func` that are among `calls`, and those that come in with the bodies of their callees.
fn inline_into(module: &mut Module, func: OpId, calls: &HashMap<OpId, OpId>) {
    // Each with the call that it is a copy of.
    let own = module.ops_below(func, Walk::PreOrder);
    let mut open: Vec<(OpId, OpId)> = own.into_iter().filter(|op| calls.contains_key(op)).map(|op| (op, op)).collect();
    while let Some((call, original)) = open.pop() {
        let callee = calls[&original];
        let Some(copies) = inline_call(module, call, callee) else { continue };
        let originals = module.body_of(callee, 0).map(|body| module.op_list(body)).unwrap_or_default();
        for (original, copy) in originals.into_iter().zip(copies) {
            let below = |op: OpId| module.ops_below(op, Walk::PreOrder);
            let pairs = below(copy).into_iter().zip(below(original));
            open.extend(pairs.filter(|(_, original)| calls.contains_key(original)));
        }
    }
}

/// Inlines every call and composite of `module` that can be, whether or not it is marked to be kept.
pub fn inline_all(module: &mut Module) {
    composites_to_calls(module);
    for op in module.all_ops(Walk::PreOrder) {
        module.op_mut(op).attrs.remove("no_inline");
    }
    inline_calls(module);
}

/// Moves the operations in the body of `op`, which runs once, to just before it. Gives the values that the body returns;
/// `None` if it has no body.
pub fn move_out_body(module: &mut Module, op: OpId) -> Option<Vec<ValueId>> {
    let body = module.body_of(op, 0)?;
    let arguments = module.block(body).args().to_vec();
    for (arg, value) in arguments.into_iter().zip(module.op(op).operands().to_vec()) {
        module.replace_all_uses(arg, value);
    }
    let terminator = module.terminator(body);
    for inner in module.op_list(body) {
        if Some(inner) != terminator {
            module.move_before(inner, op);
        }
    }
    Some(module.returned(body).to_vec())
}

/// Replaces `op` by its body, which runs once. Nothing happens if it has none.
pub fn open_body(module: &mut Module, op: OpId) {
    let Some(returned) = move_out_body(module, op) else { return };
    for (old, new) in module.op(op).results().to_vec().into_iter().zip(returned) {
        module.replace_all_uses(old, new);
    }
    module.erase(op);
}

/// Replaces every composite by a call of its decomposition.
pub fn composites_to_calls(module: &mut Module) {
    for op in module.all_ops(Walk::PreOrder) {
        if module.op(op).kind() == OpKind::Control(ControlOp::Composite) {
            composite_to_call(module, op);
        }
    }
}

/// A call of its decomposition in place of `composite`; `None` if it names none.
pub fn composite_to_call(module: &mut Module, composite: OpId) -> Option<OpId> {
    let data = module.op(composite);
    let callee = data.attr("decomposition")?.as_symbol()?.into();
    let mut spec = OpSpec::new(ControlOp::Call)
        .operands(data.operands().iter().copied())
        .results(data.results().iter().map(|&r| module.ty(r).clone()))
        .attr("callee", Attr::Symbol(callee))
        .loc(data.loc.clone());
    spec.pos = data.pos;
    if let Some(sharding) = data.attr("sdy.sharding") {
        spec.attrs.set("sdy.sharding", sharding.clone());
    }
    let results = data.results().to_vec();
    let call = module.push_before(composite, spec);
    for (old, new) in results.into_iter().zip(module.op(call).results().to_vec()) {
        module.replace_all_uses(old, new);
    }
    module.erase(composite);
    Some(call)
}

/// A function and its calls still to look at, last one first.
type Frame = (OpId, Vec<(OpId, OpId)>);

fn enter(
    module: &Module,
    functions: &symbols::Functions,
    func: OpId,
    path: &mut Vec<Frame>,
    finished: &mut HashMap<OpId, bool>,
) {
    if finished.contains_key(&func) {
        return;
    }
    finished.insert(func, false);
    let calls = module.ops_below(func, Walk::PreOrder).into_iter().rev();
    let calls = calls.filter(|&op| module.op(op).kind() == OpKind::Control(ControlOp::Call));
    let calls = calls.filter_map(|op| Some((op, *functions.get(module.op(op).attr("callee")?.as_symbol()?)?)));
    path.push((func, calls.collect()));
}

/// Replaces `call` by a copy of the body of `callee`, if that can be done, and gives the operations of the copy.
pub fn inline_call(module: &mut Module, call: OpId, callee: OpId) -> Option<Vec<OpId>> {
    let body = inlinable_body(module, call, callee)?;
    let mut copies = vec![];
    let arguments = module.block(body).args().iter().copied();
    let mut map: ValueMap = arguments.zip(module.op(call).operands().iter().copied()).collect();
    let terminator = module.terminator(body);
    let call_loc = module.op(call).loc.clone();
    for op in module.op_list(body) {
        if Some(op) != terminator {
            let copy = module.clone_op(op, &mut map);
            module.insert_before(call, copy);
            copies.push(copy);
            if call_loc.is_known() {
                set_call_site(module, copy, &call_loc);
            }
        }
    }
    let results = module.op(call).results().to_vec();
    let returned = module.returned(body).to_vec();
    for (result, value) in results.into_iter().zip(returned) {
        module.replace_all_uses(result, *map.get(&value).unwrap_or(&value));
    }
    module.erase(call);
    Some(copies)
}

fn inlinable_body(module: &Module, call: OpId, callee: OpId) -> Option<BlockId> {
    let (call_op, func) = (module.op(call), module.op(callee));
    if call_op.flag("no_inline") || func.flag("no_inline") {
        return None;
    }
    let region = module.region(*func.regions().first()?);
    let &[body] = region.blocks() else { return None };
    let fits = module.block(body).args().len() == call_op.operands().len()
        && module.terminator(body).is_some()
        && module.returned(body).len() == call_op.results().len();
    fits.then_some(body)
}

/// Marks `op` and what is nested in it as called from `caller`.
fn set_call_site(module: &mut Module, op: OpId, caller: &Loc) {
    for inner in module.ops_below(op, Walk::PreOrder) {
        let callee = module.op(inner).loc.clone();
        if callee.is_known() {
            module.op_mut(inner).loc = LocKind::CallSite { callee, caller: caller.clone() }.into();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text;

    /// Needs memory by its square if functions in between are inlined into, too.
    #[test]
    fn a_long_chain_of_calls_costs_what_it_is_long() {
        let count = 10_000;
        let mut source = String::from("func.func @main(%a: tensor<f32>) -> tensor<f32> {\n");
        for i in 0..count {
            source += &format!(
                "%s = stablehlo.sine %a : tensor<f32>\n%r = call @f{i}(%s) : (tensor<f32>) -> tensor<f32>\nreturn %r : tensor<f32>\n}}\n\
                 func.func private @f{i}(%a: tensor<f32>) -> tensor<f32> {{\n"
            );
        }
        source += "%r = stablehlo.sine %a : tensor<f32>\nreturn %r : tensor<f32>\n}";
        let mut module = text::parse(&source).expect("a program");
        inline_calls(&mut module);
        let main = module.entry().expect("main");
        assert_eq!((module.funcs().count(), module.ops_below(main, Walk::PreOrder).len()), (1, count + 3));
    }

    #[test]
    fn calls_in_regions_of_a_callee_are_inlined_and_cycles_stay() {
        let source = "
            func.func @main(%a: tensor<f32>, %p: tensor<i1>) -> tensor<f32> {
              %r = call @outer(%a, %p) : (tensor<f32>, tensor<i1>) -> tensor<f32>
              return %r : tensor<f32>
            }
            func.func private @outer(%a: tensor<f32>, %p: tensor<i1>) -> tensor<f32> {
              %r = \"stablehlo.if\"(%p) ({
                %x = func.call @inner(%a) : (tensor<f32>) -> tensor<f32>
                stablehlo.return %x : tensor<f32>
              }, {
                %x = func.call @outer(%a, %p) : (tensor<f32>, tensor<i1>) -> tensor<f32>
                stablehlo.return %x : tensor<f32>
              }) : (tensor<i1>) -> tensor<f32>
              return %r : tensor<f32>
            }
            func.func private @inner(%a: tensor<f32>) -> tensor<f32> {
              %r = stablehlo.sine %a : tensor<f32>
              return %r : tensor<f32>
            }";
        let mut module = text::parse(source).expect("a program");
        inline_calls(&mut module);
        let printed = text::print(&module);
        assert_eq!(printed.matches("stablehlo.sine").count(), 2, "{printed}");
        assert_eq!(printed.matches("call @outer").count(), 2, "{printed}");
        assert!(!printed.contains("@inner"), "{printed}");
    }
}
