//! Attributes and dictionaries of attributes.

use super::dense::push_dense;
use super::float::push_float;
use super::structs::{push_conv_attr, push_struct};
use super::write::{
    push_display, push_int, push_list, push_name, push_quoted, push_symbol, push_tensor_type, push_type,
};
use crate::op::form::sdy_cases;
use crate::{Attr, AttrDict, ElementClass, ElementType, float};

/// Where a number's type is written.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum NumberType {
    /// Always: `1 : i64`.
    Shown,
    /// Except for `i64` and `f64`, as in arrays: `[1, 2 : i32]`.
    Usual,
    /// Never, where the operation's syntax fixes it.
    Hidden,
}

/// Appends an attribute with its type.
pub(super) fn push_attr(out: &mut String, attr: &Attr) {
    push_attr_as(out, attr, NumberType::Shown);
}

/// Appends an attribute.
pub(super) fn push_attr_as(out: &mut String, attr: &Attr, number_type: NumberType) {
    match attr {
        Attr::Unit => out.push_str("unit"),
        Attr::Bool(b) => out.push_str(if *b { "true" } else { "false" }),
        Attr::Int(v, ElementType::I1) => out.push_str(if *v != 0 { "true" } else { "false" }),
        Attr::Int(v, ty) => {
            match ty.class() {
                ElementClass::Unsigned => push_int(out, *v as u64),
                _ => push_int(out, *v),
            }
            push_number_type(out, *ty, number_type, *ty == ElementType::I64);
        }
        Attr::Float(v, ty) => {
            let hex = push_float(out, *ty, float::encode(*ty, *v));
            push_number_type(out, *ty, number_type, *ty == ElementType::F64 && !hex);
        }
        Attr::Str(s) => push_quoted(out, s),
        Attr::Type(ty) => push_type(out, ty),
        Attr::Symbol(s) => push_symbol(out, s),
        Attr::Array(items) => {
            out.push('[');
            push_list(out, items.iter(), |out, a| push_attr_as(out, a, NumberType::Usual));
            out.push(']');
        }
        Attr::Dict(d) => push_dict(out, d),
        Attr::Dense(d) => {
            push_dense(out, d);
            out.push_str(" : ");
            push_tensor_type(out, &d.ty);
        }
        Attr::I64Array(items) => {
            out.push_str(if items.is_empty() { "array<i64" } else { "array<i64: " });
            push_list(out, items.iter(), |out, &v| push_int(out, v));
            out.push('>');
        }
        Attr::BoolArray(items) => {
            out.push_str(if items.is_empty() { "array<i1" } else { "array<i1: " });
            push_list(out, items.iter(), |out, &b| out.push_str(if b { "true" } else { "false" }));
            out.push('>');
        }
        Attr::Enum(e) if e.dialect == "sdy" => {
            // MLIR spells these enums by their number.
            let cases = sdy_cases(&e.kind);
            push_int(out, cases.iter().position(|c| *c == e.value).unwrap_or(0) as u64);
            push_number_type(out, ElementType::I32, number_type, false);
        }
        Attr::Enum(e) => {
            for part in ["#", &e.dialect, "<", &e.kind, " ", &e.value, ">"] {
                out.push_str(part);
            }
        }
        Attr::Dot(_) | Attr::Gather(_) | Attr::Scatter(_) | Attr::Channel(_) => push_struct(out, attr),
        Attr::Conv(c) => push_conv_attr(out, c),
        Attr::Mesh(_) | Attr::Sharding(_) | Attr::ShardingPerValue(_) => {
            out.push_str(match attr {
                Attr::Mesh(_) => "#sdy.mesh",
                Attr::Sharding(_) => "#sdy.sharding",
                _ => "#sdy.sharding_per_value",
            });
            super::sdy::push_stripped(out, attr);
        }
        Attr::ShardingRule(rule) => super::sdy::push_rule(out, rule),
        Attr::Axes(_) | Attr::AxesPerDim(_) | Attr::AllToAll(_) => {
            out.push_str(match attr {
                Attr::Axes(_) => "#sdy<axis_ref_list",
                Attr::AxesPerDim(_) => "#sdy<list_of_axis_ref_lists",
                _ => "#sdy<all_to_all_param_list",
            });
            super::sdy::push_stripped(out, attr);
            out.push('>');
        }
        Attr::GroupAxes(groups) => push_display(out, groups),
        Attr::Opaque(text) => out.push_str(text),
    }
}

fn push_number_type(out: &mut String, ty: ElementType, number_type: NumberType, usual: bool) {
    let shown = match number_type {
        NumberType::Shown => true,
        NumberType::Usual => !usual,
        NumberType::Hidden => false,
    };
    if shown {
        out.push_str(" : ");
        out.push_str(ty.text());
    }
}

/// Appends `{a = 1 : i64, b}`.
pub(super) fn push_dict(out: &mut String, dict: &AttrDict) {
    out.push('{');
    push_list(out, dict.iter(), |out, (name, attr)| push_named(out, name, attr));
    out.push('}');
}

/// Appends `name = value`, or the name alone for a unit attribute.
pub(super) fn push_named(out: &mut String, name: &str, attr: &Attr) {
    push_name(out, name);
    match attr {
        Attr::Unit => {}
        // `manual_axes`, `sdy.func_manual_axes` and so on are spelled as another kind of attribute.
        Attr::Axes(_) if name.ends_with("manual_axes") => {
            out.push_str(" = #sdy<manual_axes");
            super::sdy::push_stripped(out, attr);
            out.push('>');
        }
        _ => {
            out.push_str(" = ");
            push_attr(out, attr);
        }
    }
}
