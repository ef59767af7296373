//! An operation's attributes as VHLO spells them, made those of StableHLO.
//!
//! VHLO has no defaults, no structured attributes, no symbols, and stores lists of numbers as tensors.

use std::sync::Arc;

use super::names::ALGORITHM;
use crate::attr::{ChannelHandle, Field, Fields};
use crate::op::{BodyOp, ContractOp, ControlOp, DynamicOp, LinalgOp, MovementOp};
use crate::{Attr, AttrDict, Dense, ElementType, OpKind, Type};

/// The attributes of StableHLO's operation `kind`; the error says which one has no meaning.
pub(super) fn attrs(kind: OpKind, mut attrs: AttrDict) -> Result<AttrDict, String> {
    let no_layouts = ["operand_layouts", "result_layouts"].iter().all(|name| attrs.get(name).is_some_and(is_empty));
    attrs.retain(|name, attr| match name {
        "operand_layouts" | "result_layouts" => !no_layouts,
        _ => !is_default(kind, name, attr),
    });
    match kind {
        OpKind::Contract(ContractOp::DotGeneral) => {
            let dims = Attr::Dot(Arc::new(structured(&mut attrs)?));
            attrs.set("dot_dimension_numbers", dims);
            dot_algorithm(&mut attrs)?;
        }
        OpKind::Contract(ContractOp::Convolution) | OpKind::Dynamic(DynamicOp::Conv) => {
            let dims = Attr::Conv(Arc::new(structured(&mut attrs)?));
            attrs.set("dimension_numbers", dims);
            if kind == OpKind::Dynamic(DynamicOp::Conv) {
                attrs.remove("padding");
            }
        }
        OpKind::Movement(MovementOp::Gather) | OpKind::Dynamic(DynamicOp::Gather) => {
            let dims = Attr::Gather(Arc::new(structured(&mut attrs)?));
            attrs.set("dimension_numbers", dims);
        }
        OpKind::Body(BodyOp::Scatter) => {
            let dims = Attr::Scatter(Arc::new(structured(&mut attrs)?));
            attrs.set("scatter_dimension_numbers", dims);
        }
        OpKind::Collective(_) | OpKind::Token(_) => collective(&mut attrs)?,
        OpKind::Control(ControlOp::Call) => symbol(&mut attrs, "callee")?,
        OpKind::Control(ControlOp::Composite) => symbol(&mut attrs, "decomposition")?,
        OpKind::Control(ControlOp::CustomCall) => {
            if let Some(called) = attrs.remove("called_computations") {
                let called = called.as_array().unwrap_or_default().iter().map(to_symbol).collect::<Result<_, _>>()?;
                attrs.set("called_computations", Attr::Array(called));
            }
        }
        _ => {}
    }
    let names: Vec<_> = attrs.iter().filter(|(_, attr)| is_vector(attr)).map(|(name, _)| name.clone()).collect();
    for name in names.iter().filter(|name| *name != "value") {
        if let Some(attr) = attrs.get_mut(name)
            && let Attr::Dense(dense) = attr
        {
            *attr = as_array(dense)?;
        }
    }
    Ok(attrs)
}

/// A list of numbers as VHLO stores it.
fn is_vector(attr: &Attr) -> bool {
    matches!(attr, Attr::Dense(d) if d.ty.rank() == 1 && matches!(d.ty.elem, ElementType::I64 | ElementType::I1))
}

fn as_array(dense: &Dense) -> Result<Attr, String> {
    let values = integers(dense)?;
    Ok(match dense.ty.elem {
        ElementType::I1 => Attr::BoolArray(values.into_iter().map(|v| v != 0).collect()),
        _ => Attr::I64Array(values.into()),
    })
}

/// The elements of a list, of which no operation has very many.
fn integers(dense: &Dense) -> Result<Vec<i64>, String> {
    const LONGEST: i64 = 1 << 16;
    match dense.ty.num_elements() {
        Some(n) if n <= LONGEST => dense.to_i64s().ok_or_else(|| format!("{} is not a list of integers", dense.ty)),
        _ => Err(format!("a list of numbers of type {}", dense.ty)),
    }
}

fn is_empty(attr: &Attr) -> bool {
    match attr {
        Attr::Array(a) => a.is_empty(),
        Attr::Dict(d) => d.is_empty(),
        Attr::Str(s) => s.is_empty(),
        Attr::Dense(d) => d.ty.num_elements() == Some(0),
        _ => false,
    }
}

/// Whether every element of a tensor is `value`, and there is one.
fn is_all(attr: &Attr, value: i64) -> bool {
    matches!(attr, Attr::Dense(d) if d.splat_bytes().is_some_and(|one| {
        one.iter().enumerate().all(|(i, &byte)| byte == if i == 0 { value as u8 } else { 0 })
    }) && !is_empty(attr))
}

/// Whether StableHLO leaves the attribute out.
fn is_default(kind: OpKind, name: &str, attr: &Attr) -> bool {
    let no = || *attr == Attr::Bool(false);
    let zero = || attr.as_int() == Some(0);
    match name {
        "use_global_device_ids"
        | "has_dynamic_root"
        | "has_side_effect"
        | "indices_are_sorted"
        | "unique_indices"
        | "is_host_transfer"
        | "is_stable" => no(),
        "lower" => kind == OpKind::Linalg(LinalgOp::Cholesky) && no(),
        "channel_id" => !matches!(kind, OpKind::Token(_)) && zero(),
        "version" => zero(),
        "api_version" => attr.as_int() == Some(1),
        "dimension" => kind == OpKind::Body(BodyOp::Sort) && attr.as_int() == Some(-1),
        "sym_visibility"
        | "arg_attrs"
        | "res_attrs"
        | "backend_config"
        | "called_computations"
        | "output_operand_aliases"
        | "result_tilings"
        | "composite_attributes"
        | "infeed_config"
        | "outfeed_config"
        | "layout"
        | "known_expanding_dimensions"
        | "known_nonexpanding_dimensions" => is_empty(attr),
        "source_target_pairs" => matches!(kind, OpKind::Token(_)) && is_empty(attr),
        "compare_type" => attr.as_enum() == Some("NOTYPE"),
        "precision_config" => {
            attr.as_array().is_some_and(|a| a.iter().all(|precision| precision.as_enum() == Some("DEFAULT")))
        }
        "window_strides" | "lhs_dilation" | "rhs_dilation" | "base_dilations" | "window_dilations" => is_all(attr, 1),
        "padding" | "window_reversal" => is_all(attr, 0),
        "result_accuracy" => crate::attr::is_default(kind, name, attr),
        _ => false,
    }
}

/// Takes a list out of the dictionary; one that this version of the operation lacks is empty.
fn ints(attrs: &mut AttrDict, name: &str) -> Result<Vec<i64>, String> {
    match attrs.remove(name) {
        None => Ok(vec![]),
        Some(Attr::Dense(dense)) => integers(&dense),
        Some(other) => Err(format!("'{name}' is {other}, not a list of integers")),
    }
}

/// Takes a number out of the dictionary.
fn int(attrs: &mut AttrDict, name: &str) -> Result<i64, String> {
    let attr = attrs.remove(name);
    attr.as_ref().and_then(Attr::as_int).ok_or_else(|| format!("'{name}' is not an integer"))
}

/// Takes the fields of a structured attribute, which VHLO has one by one, out of the dictionary.
fn structured<T: Fields>(attrs: &mut AttrDict) -> Result<T, String> {
    let mut value = T::default();
    for (name, field) in value.fields() {
        match field {
            Field::Int(out) => *out = int(attrs, name)?,
            Field::Ints(out) => *out = ints(attrs, name)?,
        }
    }
    Ok(value)
}

/// All parts of an algorithm are given, or all are `none`.
fn dot_algorithm(attrs: &mut AttrDict) -> Result<(), String> {
    let parts: Vec<Option<Attr>> = ALGORITHM.iter().map(|name| attrs.remove(name)).collect();
    let absent = |part: &Option<Attr>| matches!(part, None | Some(Attr::Type(Type::None)));
    if parts.iter().all(absent) {
        return Ok(());
    }
    if parts.iter().any(absent) {
        return Err("an algorithm of which only some parts are given".into());
    }
    let field = |(name, part): (&&str, Option<Attr>)| match part {
        Some(Attr::Int(value, _)) => format!("{name} = {value}"),
        Some(other) => format!("{name} = {other}"),
        None => String::new(),
    };
    let fields: Vec<String> = ALGORITHM.iter().zip(parts).map(field).collect();
    attrs.set("algorithm", Attr::Opaque(format!("#stablehlo.dot_algorithm<{}>", fields.join(", ")).into()));
    Ok(())
}

/// Channels, and flags that mean something by being there.
fn collective(attrs: &mut AttrDict) -> Result<(), String> {
    if attrs.contains("channel_id") {
        let handle = int(attrs, "channel_id")?;
        let channel_type = if attrs.contains("channel_type") { int(attrs, "channel_type")? } else { 0 };
        attrs.set("channel_handle", Attr::Channel(ChannelHandle { handle, channel_type }));
    }
    for flag in ["use_global_device_ids", "has_dynamic_root"] {
        if attrs.contains(flag) {
            attrs.set(flag, Attr::Unit);
        }
    }
    Ok(())
}

fn symbol(attrs: &mut AttrDict, name: &str) -> Result<(), String> {
    if let Some(attr) = attrs.get_mut(name) {
        *attr = to_symbol(attr)?;
    }
    Ok(())
}

fn to_symbol(attr: &Attr) -> Result<Attr, String> {
    match attr {
        Attr::Str(name) => Ok(Attr::Symbol(name.as_ref().into())),
        other => Err(format!("{other} does not name a function")),
    }
}
