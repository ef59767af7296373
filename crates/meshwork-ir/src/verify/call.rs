//! Operations that name functions, meshes or targets: custom calls, composites, asynchronous operations, and the
//! parallel runs of StableHLO's tests.

use super::func::match_signature;
use super::{Check, Context};
use crate::infer::{duplicate, type_list};
use crate::op::{CollectiveOp, MovementOp};
use crate::transform::symbols;
use crate::{Attr, FunctionType, OpId, OpKind, Type};

/// `composite`: a namespaced name and a function that says what it means.
pub(super) fn composite(cx: &Context, op: OpId) -> Check {
    let data = cx.module.op(op);
    let name = data.attr("name").and_then(Attr::as_str).unwrap_or_default();
    if !is_namespaced(name) {
        return Err(cx.error(op, format_args!("attribute 'name' must be like my_dialect.my_op, but is \"{name}\"")));
    }
    match data.attr("decomposition").and_then(Attr::as_symbol) {
        Some(callee) => match_signature(cx, op, callee),
        None => Err(cx.error(op, "needs attribute 'decomposition': the symbol of a function")),
    }
}

/// Whether `name` is an identifier, then one or more words after dots.
fn is_namespaced(name: &str) -> bool {
    let mut parts = name.split('.');
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let first = parts.next().unwrap_or_default();
    let rest: Vec<&str> = parts.collect();
    first.starts_with(|c: char| c.is_ascii_alphabetic())
        && first.chars().all(word)
        && !rest.is_empty()
        && rest.iter().all(|p| !p.is_empty() && p.chars().all(|c| word(c) || c == '$'))
}

/// `custom_call`: a target, layouts that fit, aliases that exist, a configuration of the right kind.
pub(super) fn custom_call(cx: &Context, op: OpId) -> Check {
    let data = cx.module.op(op);
    if data.attr("call_target_name").and_then(Attr::as_str).is_none() {
        return Err(cx.error(op, "needs attribute 'call_target_name': a string"));
    }
    let operands: Vec<&Type> = data.operands().iter().map(|&v| cx.module.ty(v)).collect();
    let results: Vec<&Type> = data.results().iter().map(|&v| cx.module.ty(v)).collect();
    match (data.attr("operand_layouts"), data.attr("result_layouts")) {
        (None, None) => {}
        (Some(first), Some(second)) => {
            layouts(cx, op, "operand", &operands, first)?;
            match results[..] {
                [Type::Tuple(parts)] => layouts(cx, op, "result", &parts.iter().collect::<Vec<_>>(), second)?,
                _ => layouts(cx, op, "result", &results, second)?,
            }
        }
        _ => return Err(cx.error(op, "must have both operand_layouts and result_layouts, or neither")),
    }
    for alias in data.attr("output_operand_aliases").and_then(Attr::as_array).unwrap_or(&[]) {
        if let Attr::Opaque(text) = alias {
            check_alias(cx, op, text, &operands, &results)?;
        }
    }
    let typed = match data.attr("api_version") {
        Some(Attr::Int(v, _)) => *v == 4,
        Some(other) => other.as_enum() == Some("API_VERSION_TYPED_FFI"),
        None => false,
    };
    match (data.attr("backend_config"), typed) {
        (None | Some(Attr::Dict(_)), true) | (None | Some(Attr::Str(_)), false) => Ok(()),
        (Some(other), true) => Err(cx.error(
            op,
            format_args!("attribute 'backend_config' must be a dictionary for the typed API, but is {other}"),
        )),
        (Some(other), false) => Err(cx.error(
            op,
            format_args!("attribute 'backend_config' must be a string for this api_version, but is {other}"),
        )),
    }
}

/// One layout per value: the dimensions of a tensor from minor to major, nothing for other values.
fn layouts(cx: &Context, op: OpId, side: &str, types: &[&Type], attr: &Attr) -> Check {
    let list = attr.as_array().unwrap_or(&[]);
    if list.len() != types.len() {
        let detail = format!("has {} {side} layouts for {} {side}(s)", list.len(), types.len());
        return Err(cx.error(op, detail));
    }
    for (i, (ty, layout)) in types.iter().zip(list).enumerate() {
        let order = layout_order(layout);
        let fits = match ty {
            Type::Tuple(_) => false,
            Type::Tensor(t) => {
                let in_range = order.iter().all(|&d| d >= 0 && (d as usize) < t.rank());
                order.len() == t.rank() && in_range && duplicate(order.iter().copied()).is_none()
            }
            _ => order.is_empty(),
        };
        if !fits {
            return Err(cx.error(op, format_args!("{side} {i} is {ty}, for which {layout} is not a layout")));
        }
    }
    Ok(())
}

/// The dimensions that a layout lists; no tensor has more than a constant of that many elements.
fn layout_order(layout: &Attr) -> Vec<i64> {
    match layout {
        Attr::Dense(d) if d.ty.num_elements().is_none_or(|n| n > 1 << 16) => vec![-1],
        other => other.as_i64s().unwrap_or_default(),
    }
}

/// An alias names parts of an operand and of the results that have one type.
fn check_alias(cx: &Context, op: OpId, text: &str, operands: &[&Type], results: &[&Type]) -> Check {
    let number_list = |name: &str| -> Vec<i64> {
        let rest = text.find(name).map_or("", |at| &text[at + name.len()..]);
        let inner = rest.split_once('[').and_then(|(_, r)| r.split_once(']')).map_or("", |(inner, _)| inner);
        inner.split(',').filter_map(|d| d.trim().parse().ok()).collect()
    };
    let index = text.find("operand_index").map_or("", |at| &text[at + "operand_index".len()..]);
    let digits: String = index
        .chars()
        .skip_while(|c| !c.is_ascii_digit() && *c != '-')
        .take_while(|c| c.is_ascii_digit() || *c == '-')
        .collect();
    let operand = digits.parse::<usize>().ok().and_then(|i| operands.get(i).copied());
    let Some(operand) = operand else {
        return Err(
            cx.error(op, format_args!("aliases operand {digits}, but has {} operand(s): {text}", operands.len()))
        );
    };
    let packed = Type::Tuple(results.iter().map(|&t| t.clone()).collect());
    let output = match results {
        [only] => only,
        _ => &packed,
    };
    let (from, into) =
        (part(operand, &number_list("operand_tuple_indices")), part(output, &number_list("output_tuple_indices")));
    match (from, into) {
        (Some(a), Some(b)) if a == b => Ok(()),
        (Some(a), Some(b)) => {
            Err(cx.error(op, format_args!("aliases an operand part of type {a} with a result part of type {b}")))
        }
        _ => Err(cx.error(op, format_args!("aliases a tuple part that does not exist: {text}"))),
    }
}

/// The part of a nested tuple at `path`.
fn part<'t>(ty: &'t Type, path: &[i64]) -> Option<&'t Type> {
    path.iter().try_fold(ty, |ty, &i| match ty {
        Type::Tuple(parts) => parts.get(usize::try_from(i).ok()?),
        _ => None,
    })
}

/// `async_start`: one collective or slice in its body; the result is a future of what it returns.
pub(super) fn async_start(cx: &Context, op: OpId) -> Check {
    let module = cx.module;
    let Some(block) = module.body_of(op, 0) else { return Ok(()) };
    let ops: Vec<OpId> = module.ops_in(block).take(3).collect();
    let [inner, _] = ops[..] else {
        return Err(cx.error(op, "must have one operation and a return in its body"));
    };
    let allowed = match module.op(inner).kind() {
        OpKind::Collective(op) => match op {
            CollectiveOp::AllGather
            | CollectiveOp::AllReduce
            | CollectiveOp::AllToAll
            | CollectiveOp::CollectiveBroadcast
            | CollectiveOp::CollectivePermute
            | CollectiveOp::CollectiveReduce
            | CollectiveOp::ReduceScatter => true,
            CollectiveOp::CrossReplicaSum | CollectiveOp::RaggedAllToAll => false,
        },
        OpKind::Movement(op) => {
            matches!(op, MovementOp::DynamicSlice | MovementOp::DynamicUpdateSlice | MovementOp::Slice)
        }
        _ => false,
    };
    if !allowed {
        let name = module.op(inner).name();
        return Err(cx.error(op, format_args!("can run a collective or slice, but its body has {name}")));
    }
    let operands = module.op(op).operands().iter().map(|&v| module.ty(v));
    let args = module.block(block).args().iter().map(|&v| module.ty(v));
    if !operands.clone().eq(args.clone()) {
        return Err(
            cx.error(op, format_args!("passes {} to a body that takes {}", type_list(operands), type_list(args)))
        );
    }
    let returns = module.returned(block).iter().map(|&v| module.ty(v));
    let future: Vec<String> = returns.map(Type::to_string).collect();
    let want = format!("!stablehlo.future<{}>", future.join(", "));
    match module.op(op).results() {
        [r] if same_text(&module.ty(*r).to_string(), &want) => Ok(()),
        results => {
            let got = type_list(results.iter().map(|&v| module.ty(v)));
            Err(cx.error(op, format_args!("gives {want}, but is declared as {got}")))
        }
    }
}

/// `async_done`: the tensor inside a future.
pub(super) fn async_done(cx: &Context, op: OpId) -> Check {
    let module = cx.module;
    let (&[operand], &[result]) = (module.op(op).operands(), module.op(op).results()) else {
        return Err(cx.error(op, "takes one future and gives one tensor"));
    };
    let want = format!("!stablehlo.future<{}>", module.ty(result));
    let got = module.ty(operand).to_string();
    if same_text(&got, &want) {
        Ok(())
    } else {
        Err(cx.error(op, format_args!("gives {} out of {got}", module.ty(result))))
    }
}

/// Equal but for blanks: futures are kept as text.
fn same_text(a: &str, b: &str) -> bool {
    a.chars().filter(|c| !c.is_whitespace()).eq(b.chars().filter(|c| !c.is_whitespace()))
}

/// Replica groups given as axes name a mesh that exists.
pub(super) fn group_mesh(cx: &Context, op: OpId) -> Check {
    let Some(attr) = cx.module.op(op).attr("replica_groups") else { return Ok(()) };
    let mut missing = None;
    symbols::in_attr(attr, &mut |name| missing = Some(name.to_owned()).filter(|_| !cx.symbols.contains_key(name)));
    match missing {
        None => Ok(()),
        Some(name) => {
            Err(cx.error(op, format_args!("attribute 'replica_groups' names mesh @{name}, which is not defined")))
        }
    }
}

/// `interpreter.run_parallel`: a grid of programs that together take the operands and give the results.
pub(super) fn run_parallel(cx: &Context, op: OpId) -> Check {
    let data = cx.module.op(op);
    let rows: Vec<&[Attr]> =
        data.attr("programs").and_then(Attr::as_array).unwrap_or(&[]).iter().filter_map(Attr::as_array).collect();
    let Some(first) = rows.first().filter(|row| !row.is_empty()) else {
        return Err(cx.error(op, "needs attribute 'programs': a grid of functions"));
    };
    if let Some(row) = rows.iter().find(|row| row.len() != first.len()) {
        let detail = format!("attribute 'programs' has rows of {} and {} functions", first.len(), row.len());
        return Err(cx.error(op, detail));
    }
    let (mut args, mut results) = (0, 0);
    for program in rows.iter().copied().flatten() {
        let ty = function(cx, op, program)?;
        args += ty.inputs.len();
        results += ty.results.len();
    }
    if args != data.operands().len() || results != data.results().len() {
        return Err(cx.error(
            op,
            format_args!(
                "has {} operands and {} results, but its programs take {args} and give {results}",
                data.operands().len(),
                data.results().len()
            ),
        ));
    }
    let Some(queue) = data.attr("infeed").and_then(Attr::as_array) else { return Ok(()) };
    if queue.is_empty() {
        return Err(cx.error(op, "attribute 'infeed' is empty: leave it out"));
    }
    for feed in queue {
        let ty = function(cx, op, feed)?;
        if !matches!(ty.results[..], [Type::Tensor(_)]) {
            return Err(cx.error(
                op,
                format_args!("infeed {feed} must return one tensor, but returns {}", type_list(&ty.results)),
            ));
        }
    }
    Ok(())
}

/// The type of the function that `attr` names.
fn function<'m>(cx: &Context<'m>, op: OpId, attr: &Attr) -> Result<&'m FunctionType, crate::Diagnostic> {
    let func = attr.as_symbol().and_then(|name| cx.symbols.get(name)).copied();
    match func.and_then(|f| cx.module.op(f).attr("function_type")) {
        Some(Attr::Type(Type::Function(ty))) => Ok(ty),
        _ => Err(cx.error(op, format_args!("names {attr}, but there is no function of that name"))),
    }
}
