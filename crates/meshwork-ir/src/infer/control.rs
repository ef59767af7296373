//! Control flow, tuples, tokens and calls to the outside.

use smol_str::format_smolstr;

use super::check::{Elems, types_agree};
use super::elementwise::most_specific;
use super::reduce::predicate;
use super::{Inferred, OpTypes, ResultType, Types, Wrong, type_list};
use crate::attr::ChannelHandle;
use crate::op::TokenOp;
use crate::{Attr, DYNAMIC, ElementType, TensorType, Type};

/// `if` and `case`: the types that the branches return, where an extent is known to all of them.
pub(super) fn branches(t: &OpTypes, elem: ElementType) -> Inferred {
    t.operand_count(1)?;
    let index = t.tensor(0, "index")?;
    if index.rank() != 0 || index.elem != elem {
        return Err(t.bad_operand(0, "index", format_smolstr!("tensor<{elem}>")));
    }
    if t.regions.is_empty() {
        return Err(t.bad_body("branch 0", "is missing"));
    }
    let mut out: Option<Types> = None;
    for i in 0..t.regions.len() {
        let args = t.args(i, "branch")?.len();
        if args > 0 {
            return Err(t.bad_body("branch", format!("{i} must take no arguments, but takes {args}")));
        }
        let returns = t.returns(i, "branch")?;
        match &mut out {
            None => out = Some(returns.iter().cloned().collect()),
            Some(first) => {
                if first.len() != returns.len() || !first.iter().zip(returns.iter()).all(|(a, b)| types_agree(a, b)) {
                    let detail = format!(
                        "{i} returns {}, but branch 0 returns {}",
                        type_list(returns.iter()),
                        type_list(first.iter())
                    );
                    return Err(t.bad_body("branch", detail));
                }
                for (a, b) in first.iter_mut().zip(returns.iter()) {
                    *a = least_specific(a, b);
                }
            }
        }
    }
    Ok(out.unwrap_or_default().into_iter().map(ResultType::New).collect())
}

/// Of two types that agree, the extents that both know.
fn least_specific(a: &Type, b: &Type) -> Type {
    match (a, b) {
        (Type::Tensor(x), Type::Tensor(y)) if x != y => {
            let dims = x.dims.iter().zip(&y.dims).map(|(&p, &q)| if p == q { p } else { DYNAMIC });
            TensorType { dims: dims.collect(), elem: x.elem, encoding: x.encoding.clone() }.into()
        }
        _ => a.clone(),
    }
}

/// `while`: the operands' types all the way round.
pub(super) fn while_loop(t: &OpTypes) -> Inferred {
    for (i, name) in [(0, "cond"), (1, "body")] {
        let args = t.args(i, name)?;
        if !args.agree(t.operands) {
            let (got, want) = (type_list(args.iter()), type_list(t.operands.iter()));
            return Err(t.bad_body(name, format!("takes {got}, but the loop carries {want}")));
        }
    }
    let returns = t.returns(1, "body")?;
    if !returns.agree(t.operands) {
        let (got, want) = (type_list(returns.iter()), type_list(t.operands.iter()));
        return Err(t.bad_body("body", format!("returns {got}, but the loop carries {want}")));
    }
    predicate(t, 0, "cond")?;
    Ok(t.operands.same())
}

/// Results have the operands' types: `optimization_barrier`.
pub(super) fn pass_through(t: &OpTypes) -> Inferred {
    let types = t.operands.iter().enumerate().map(|(i, ty)| match t.given(i) {
        Some(w) if types_agree(ty, w) => most_specific(ty, w).into(),
        _ => t.same(i),
    });
    Ok(types.collect())
}

/// Whatever result types are declared: custom calls and operations of other dialects.
pub(super) fn declared(t: &OpTypes) -> Inferred {
    Ok(t.wanted.iter().map(|&id| ResultType::Known(id)).collect())
}

/// A token out of tokens.
pub(super) fn after_all(t: &OpTypes) -> Inferred {
    for i in 0..t.operands.len() {
        token(t, i)?;
    }
    Ok(Type::Token.into())
}

/// `create_token`.
pub(super) fn create_token(t: &OpTypes) -> Inferred {
    t.operand_count(0)?;
    Ok(Type::Token.into())
}

fn token(t: &OpTypes, index: usize) -> Result<(), Wrong> {
    match t.operands.get(index) {
        Some(Type::Token) => Ok(()),
        _ => Err(t.bad_operand(index, "token", "a token")),
    }
}

/// `outfeed`: values, then a token.
pub(super) fn outfeed(t: &OpTypes) -> Inferred {
    t.at_least(1)?;
    for i in 0..t.operands.len() - 1 {
        t.tensor(i, "inputs")?;
    }
    token(t, t.operands.len() - 1)?;
    Ok(Type::Token.into())
}

/// `send`: values, then a token, over a channel to a device or the host.
pub(super) fn send(t: &OpTypes) -> Inferred {
    let out = outfeed(t)?;
    channel(t, 2)?;
    Ok(out)
}

/// The channel type fits `is_host_transfer`; `host` is the type for transfers with the host.
fn channel(t: &OpTypes, host: i64) -> Result<(), Wrong> {
    let Some(Attr::Channel(ChannelHandle { channel_type, .. })) = t.attrs.get("channel_handle") else {
        let expected = "#stablehlo.channel_handle<...>";
        return Err(t.missing("channel_handle", expected));
    };
    let want = if t.flag("is_host_transfer") { host } else { 1 };
    if *channel_type == want {
        Ok(())
    } else {
        let side = if want == 1 { "between devices" } else { "with the host" };
        Err(t.bad_attr("channel_handle", format!("has type {channel_type}, but a transfer {side} needs type {want}")))
    }
}

/// `infeed` and `recv`: a token in; declared tensors and a token out.
pub(super) fn receive(t: &OpTypes) -> Inferred {
    t.operand_count(1)?;
    token(t, 0)?;
    if t.kind == crate::OpKind::Token(TokenOp::Recv) {
        channel(t, 3)?;
    }
    let Some(tensors) = t.wanted.len().checked_sub(1) else { return Err(t.needs_result(0)) };
    for i in 0..tensors {
        t.wanted_tensor(i, Elems::ANY)?;
        super::source::static_result(t, i)?;
    }
    if *t.wanted(tensors)? != Type::Token {
        return Err(t.bad_result(tensors, "a token"));
    }
    infeed_layout(t, tensors)?;
    declared(t)
}

/// The `layout` of an infeed: one list of integers per tensor.
fn infeed_layout(t: &OpTypes, tensors: usize) -> Result<(), Wrong> {
    let Some(attr) = t.attrs.get("layout") else { return Ok(()) };
    let Some(layouts) = attr.as_array() else {
        return Err(t.bad_attr("layout", format!("must be a list of lists of integers, but is {attr}")));
    };
    if layouts.len() != tensors {
        return Err(t.bad_attr("layout", format!("has {} entries for {tensors} tensor(s)", layouts.len())));
    }
    let integers = |a: &Attr| a.as_array().is_some_and(|l| l.iter().all(|i| i.as_int().is_some()));
    match layouts.iter().find(|l| !integers(l)) {
        Some(bad) => Err(t.bad_attr("layout", format!("must be a list of lists of integers, but has {bad}"))),
        None => Ok(()),
    }
}

/// `tuple`.
pub(super) fn tuple(t: &OpTypes) -> Inferred {
    Ok(Type::Tuple(t.operands.iter().cloned().collect()).into())
}

/// `get_tuple_element`.
pub(super) fn get_tuple_element(t: &OpTypes) -> Inferred {
    t.operand_count(1)?;
    let Type::Tuple(parts) = &t.operands[0] else {
        return Err(t.bad_operand(0, "operand", "a tuple"));
    };
    let index = t.int("index")?;
    match usize::try_from(index).ok().and_then(|i| parts.get(i)) {
        Some(part) => Ok(part.clone().into()),
        None => Err(t.bad_attr("index", format!("is {index}, but the tuple has {} parts", parts.len()))),
    }
}
