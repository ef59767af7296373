//! Functions and the calls between them: their order, and copies of them.
//!
//! Functions are visited in the order of a depth-first walk over the calls, which starts at each function in
//! turn. Callees come before callers; reversed, callers come before callees.

use meshwork_ir::hash::{HashMap, HashSet};
use meshwork_ir::op::ControlOp;
use meshwork_ir::{Attr, Diagnostic, Failed, Module, OpId, ValueMap, Walk};

/// Attribute of a copied function: the name of the function it is a copy of.
pub const ORIGINAL_NAME: &str = "sdy.original_func_name";

/// How deep calls may nest.
const MAX_DEPTH: usize = 1000;

/// Gives new top-level symbols names of their own.
///
/// One counter serves all names, so that the names are those that MLIR's symbol table finds.
pub struct Symbols {
    by_name: HashMap<String, OpId>,
    counter: u32,
}

impl Symbols {
    /// The symbols that `module` defines.
    pub fn of(module: &Module) -> Symbols {
        let named = module.ops_in(module.body()).filter_map(|op| Some((module.symbol_name(op)?.to_string(), op)));
        Symbols { by_name: named.collect(), counter: 0 }
    }

    /// The operation that defines `name`.
    pub fn lookup(&self, name: &str) -> Option<OpId> {
        self.by_name.get(name).copied()
    }

    /// Registers `op`, appending it to the module if it is not in a block yet, and renames it if another has
    /// its name. Returns its final name.
    pub fn insert(&mut self, module: &mut Module, op: OpId) -> String {
        if module.op(op).parent().is_none() {
            module.append(module.body(), op);
        }
        let wanted = module.symbol_name(op).unwrap_or_default().to_string();
        let mut name = wanted.clone();
        while self.by_name.get(&name).is_some_and(|&other| other != op) {
            name = format!("{wanted}_{}", self.counter);
            self.counter += 1;
        }
        if name != wanted {
            module.op_mut(op).attrs.set("sym_name", Attr::str(&name));
        }
        self.by_name.insert(name.clone(), op);
        name
    }
}

/// The name of the function that `call` calls.
pub fn callee_name(module: &Module, call: OpId) -> Option<&str> {
    module.op(call).attr("callee")?.as_symbol()
}

/// Makes `call` call the function called `name`.
pub fn set_callee(module: &mut Module, call: OpId, name: &str) {
    module.op_mut(call).attrs.set("callee", Attr::Symbol(name.into()));
}

/// All `func.call` operations below `op`, what is nested first.
pub fn calls_below(module: &Module, op: OpId) -> Vec<OpId> {
    let mut ops = module.ops_below(op, Walk::PostOrder);
    ops.retain(|&op| module.op(op).kind() == ControlOp::Call);
    ops
}

/// The functions with a body, and what each calls.
struct CallGraph {
    funcs: Vec<OpId>,
    callees: HashMap<OpId, Vec<OpId>>,
}

impl CallGraph {
    fn of(module: &Module) -> CallGraph {
        let funcs: Vec<OpId> = module.funcs().filter(|&f| module.body_of(f, 0).is_some()).collect();
        let by_name: HashMap<&str, OpId> = funcs.iter().filter_map(|&f| Some((module.symbol_name(f)?, f))).collect();
        let callees = |&func: &OpId| {
            // Calls in program order, each callee once.
            let mut seen = HashSet::default();
            let calls = module.ops_below(func, Walk::PreOrder).into_iter();
            let calls = calls.filter(|&op| module.op(op).kind() == ControlOp::Call);
            let callees = calls.filter_map(|call| by_name.get(callee_name(module, call)?).copied());
            (func, callees.filter(|&c| seen.insert(c)).collect())
        };
        CallGraph { callees: funcs.iter().map(callees).collect(), funcs }
    }

    /// The functions, callees first; or a function that calls itself in the end, or calls too deeply.
    fn post_order(&self) -> Result<Vec<OpId>, BadCalls> {
        let (mut order, mut entered) = (vec![], HashSet::default());
        // The functions being visited, each with the number of callees seen.
        let mut path: Vec<(OpId, usize)> = vec![];
        let mut on_path = HashSet::default();
        for &root in &self.funcs {
            if entered.insert(root) {
                path.push((root, 0));
                on_path.insert(root);
            }
            while let Some((func, next)) = path.last_mut() {
                let func = *func;
                match self.callees[&func].get(*next) {
                    Some(&callee) => {
                        *next += 1;
                        if on_path.contains(&callee) {
                            return Err(BadCalls::Recursive(callee));
                        }
                        if entered.insert(callee) {
                            path.push((callee, 0));
                            on_path.insert(callee);
                        }
                        if path.len() > MAX_DEPTH {
                            return Err(BadCalls::TooDeep(callee));
                        }
                    }
                    None => {
                        path.pop();
                        on_path.remove(&func);
                        order.push(func);
                    }
                }
            }
        }
        Ok(order)
    }
}

enum BadCalls {
    Recursive(OpId),
    TooDeep(OpId),
}

/// The functions with a body, callees before callers. Fails on recursion and on calls of what is not defined.
pub fn funcs_callees_first(module: &Module, diags: &mut Vec<Diagnostic>) -> Result<Vec<OpId>, Failed> {
    let symbols = Symbols::of(module);
    for op in module.all_ops(Walk::PreOrder) {
        if module.op(op).kind() == ControlOp::Call {
            callee(module, &symbols, op, diags)?;
        }
    }
    CallGraph::of(module).post_order().map_err(|bad| {
        let (func, what) = match bad {
            BadCalls::Recursive(func) => (func, "calls itself, directly or through others".to_string()),
            BadCalls::TooDeep(func) => (func, format!("is called through more than {MAX_DEPTH} others")),
        };
        let name = module.symbol_name(func).unwrap_or_default();
        let message = format!("@{name} {what}; such calls cannot be placed");
        diags.push(Diagnostic::at(module.op(func), message));
        Failed
    })
}

/// The function that `call` calls; reports an error if there is none.
pub fn callee(module: &Module, symbols: &Symbols, call: OpId, diags: &mut Vec<Diagnostic>) -> Result<OpId, Failed> {
    let name = callee_name(module, call).unwrap_or_default();
    let func = symbols.lookup(name).filter(|&op| module.op(op).kind() == ControlOp::Func);
    func.ok_or_else(|| {
        diags.push(Diagnostic::at(module.op(call), format!("call of @{name}, which is not defined")));
        Failed
    })
}

/// The name of the function that `func` is a copy of, or its own.
pub fn original_name(module: &Module, func: OpId) -> &str {
    let copied = module.op(func).attr(ORIGINAL_NAME).and_then(Attr::as_str);
    copied.or_else(|| module.symbol_name(func)).unwrap_or_default()
}

/// Copies `func`, and for each call in the copy the function it calls. The copy is detached and keeps its
/// name until it is inserted; copies of callees are inserted.
///
/// There must be no recursion; see [`funcs_callees_first`].
pub fn clone_func(module: &mut Module, symbols: &mut Symbols, func: OpId) -> OpId {
    let copy = module.clone_op(func, &mut ValueMap::default());
    let original = Attr::str(original_name(module, func));
    module.op_mut(copy).attrs.set(ORIGINAL_NAME, original);
    for call in calls_below(module, copy) {
        clone_callee(module, symbols, call);
    }
    copy
}

/// Makes `call` call a copy of its callee.
pub fn clone_callee(module: &mut Module, symbols: &mut Symbols, call: OpId) {
    let Some(func) = callee_name(module, call).and_then(|name| symbols.lookup(name)) else { return };
    let copy = clone_func(module, symbols, func);
    let name = symbols.insert(module, copy);
    set_callee(module, call, &name);
}
