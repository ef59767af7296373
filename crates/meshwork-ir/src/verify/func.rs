//! Functions, calls and symbols.

use super::{Check, Context};
use crate::hash::HashMap;
use crate::infer::{bounds, too_many_bytes, type_list};
use crate::op::ControlOp;
use crate::{Attr, BlockId, DYNAMIC, Diagnostic, FunctionType, Module, OpId, OpKind, Type, ValueId};

fn func_type<'m>(cx: &Context<'m>, func: OpId) -> Option<&'m FunctionType> {
    match cx.module.op(func).attr("function_type") {
        Some(Attr::Type(Type::Function(t))) => Some(t),
        _ => None,
    }
}

fn types_of<'m>(module: &'m Module, values: &'m [ValueId]) -> impl Iterator<Item = &'m Type> + Clone {
    values.iter().map(|&v| module.ty(v))
}

/// What may see a symbol.
pub(crate) const VISIBILITIES: [&str; 3] = ["public", "private", "nested"];

/// A symbol is visible to one of three circles.
pub(super) fn visibility(cx: &Context, op: OpId) -> Check {
    match cx.module.op(op).attr("sym_visibility") {
        Some(attr) if !attr.as_str().is_some_and(|v| VISIBILITIES.contains(&v)) => {
            Err(cx.error(op, format_args!("has visibility {attr}, not one of {}", VISIBILITIES.join(", "))))
        }
        _ => Ok(()),
    }
}

/// A function: a name, a type, and a body that fits the type.
pub(super) fn func(cx: &Context, op: OpId) -> Check {
    let module = cx.module;
    let Some(name) = module.symbol_name(op) else { return Err(cx.error(op, "needs a name")) };
    visibility(cx, op)?;
    let Some(ty) = func_type(cx, op) else {
        return Err(cx.error(op, format_args!("@{name} needs a function type")));
    };
    for (list, count) in [("arg_attrs", ty.inputs.len()), ("res_attrs", ty.results.len())] {
        if let Some(attrs) = module.op(op).attr(list).and_then(Attr::as_array)
            && attrs.len() != count
        {
            return Err(cx.error(op, format_args!("@{name} has {} entries in {list} for {count} values", attrs.len())));
        }
    }
    for ty in ty.inputs.iter().chain(&ty.results) {
        legal_type(ty).map_err(|e| cx.error(op, format_args!("@{name} {e}")))?;
    }
    let Some(block) = module.body_of(op, 0) else { return Ok(()) };
    let args = types_of(module, module.block(block).args());
    if !args.clone().eq(&ty.inputs) {
        let detail = format!("@{name} takes {}, but its type is {ty}", type_list(args));
        return Err(cx.error(op, detail));
    }
    let ends = module.block(block).last().is_some_and(|last| {
        let last = module.op(last).kind();
        last.is_terminator() || last == OpKind::Unregistered
    });
    if !ends {
        return Err(cx.error(op, format_args!("@{name} must end with func.return")));
    }
    Ok(())
}

/// Rules of a type itself: bounds where extents are dynamic, futures of tensors.
fn legal_type(ty: &Type) -> Result<(), String> {
    match ty {
        Type::Tensor(t) if !t.fits() => Err(too_many_bytes(ty)),
        Type::Tensor(t) => {
            let Some(bounds) = bounds(t) else { return Ok(()) };
            if bounds.len() != t.rank() {
                return Err(format!("has {} bounds for the {} dimensions of {t}", bounds.len(), t.rank()));
            }
            match (0..t.rank()).find(|&d| t.dims[d] != DYNAMIC && bounds[d].is_some()) {
                Some(d) => Err(format!("has a bound for dimension {d} of {t}, which is static")),
                None => Ok(()),
            }
        }
        Type::Tuple(parts) => parts.iter().try_for_each(legal_type),
        Type::Opaque(text) => match text.strip_prefix("!stablehlo.future<").and_then(|t| t.strip_suffix('>')) {
            Some(inner) if !top_level(inner).all(|part| part.trim().starts_with("tensor<")) => {
                Err(format!("has {text}, but a future holds tensors"))
            }
            Some(_) => Ok(()),
            None if text.starts_with("!stablehlo.") => Err(format!("has the unknown type {text}")),
            None => Ok(()),
        },
        Type::Scalar(_) | Type::Token | Type::Function(_) | Type::None => Ok(()),
    }
}

/// The parts of `text` between commas that no bracket encloses.
fn top_level(text: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0;
    text.split(move |c: char| {
        depth += i32::from("<[({".contains(c)) - i32::from(">])}".contains(c));
        c == ',' && depth == 0
    })
}

/// `func.return`: the result types of the function around it.
pub(super) fn func_return(cx: &Context, op: OpId) -> Check {
    let module = cx.module;
    let Some(func) = module.parent_op(op).filter(|&p| module.op(p).kind() == OpKind::Control(ControlOp::Func)) else {
        return Err(cx.error(op, "must be directly in a func.func, not in a nested body"));
    };
    let Some(ty) = func_type(cx, func) else { return Ok(()) };
    let returned = types_of(module, module.op(op).operands());
    if !returned.clone().eq(&ty.results) {
        let (got, want) = (type_list(returned), type_list(&ty.results));
        let name = module.symbol_name(func).unwrap_or_default();
        return Err(cx.error(op, format_args!("returns {got}, but @{name} returns {want}")));
    }
    Ok(())
}

/// `func.call`: a function of that name with these types.
pub(super) fn call(cx: &Context, op: OpId) -> Check {
    let module = cx.module;
    let Some(callee) = module.op(op).attr("callee").and_then(Attr::as_symbol) else {
        return Err(cx.error(op, "needs attribute 'callee': the symbol of a function"));
    };
    match_signature(cx, op, callee)
}

/// Checks that `callee` is a function that takes the operands of `op` and returns its results.
pub(super) fn match_signature(cx: &Context, op: OpId, callee: &str) -> Check {
    let module = cx.module;
    let func = cx.symbols.get(callee).copied().filter(|&f| module.op(f).kind() == OpKind::Control(ControlOp::Func));
    let Some(ty) = func.and_then(|f| func_type(cx, f)) else {
        return Err(cx.error(op, format_args!("calls @{callee}, but there is no function of that name")));
    };
    let operands = types_of(module, module.op(op).operands());
    if !operands.clone().eq(&ty.inputs) {
        let (got, want) = (type_list(operands), type_list(&ty.inputs));
        return Err(cx.error(op, format_args!("calls @{callee} with {got}, but it takes {want}")));
    }
    let results = types_of(module, module.op(op).results());
    if !results.clone().eq(&ty.results) {
        let (got, want) = (type_list(results), type_list(&ty.results));
        return Err(cx.error(op, format_args!("expects {got} of @{callee}, but it returns {want}")));
    }
    Ok(())
}

/// No two operations of `block` define one symbol.
pub(super) fn unique_symbols(module: &Module, block: BlockId) -> Check {
    let mut seen: HashMap<&str, OpId> = HashMap::default();
    for op in module.ops_in(block) {
        let Some(name) = module.symbol_name(op) else { continue };
        if let Some(first) = seen.insert(name, op) {
            let mut e = Diagnostic::at(module.op(op), format!("redefinition of symbol @{name}"));
            e.notes.push((module.op(first).pos, "first defined here".into()));
            return Err(e);
        }
    }
    Ok(())
}
