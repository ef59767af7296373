//! Pretty forms, as the op table gives them.
//!
//! `None` means that the operation has no pretty form or does not fit it (a missing attribute, a type the form
//! cannot express); the caller then discards what has been written and prints the generic form.

use super::Printer;
use super::attr::{NumberType, push_attr, push_attr_as};
use super::sdy::{push_sharding, push_stripped};
use super::write::{push_dims, push_int, push_quoted};
use crate::attr::is_default;
use crate::op::form::{Count, Form, Key, KeyValue, OUT_SHARDING, Syntax, sdy_cases};
use crate::{Attr, ElementType, Op, OpKind, ValueId};

/// How a key stands between other text.
#[derive(Clone, Copy)]
pub(super) enum KeyStyle {
    /// `, key = value`.
    Comma,
    /// ` key = value`.
    Space,
    /// ` key=value`.
    Tight,
}

impl<'m> Printer<'m> {
    /// Prints `op` in its pretty form, name included.
    pub(super) fn pretty(&mut self, op: &'m Op) -> Option<()> {
        let info = op.kind().info();
        match info.form {
            Form::Own(Syntax::Func) => return self.func(op),
            Form::Own(Syntax::Module) => return self.nested_module(op),
            _ => {}
        }
        self.out.push_str(match op.kind() {
            OpKind::Control(_) if self.in_func => info.name.strip_prefix("func.").unwrap_or(info.name),
            OpKind::Unregistered => op.name(),
            _ => info.name,
        });
        match info.form {
            Form::Own(syntax) => self.own(syntax, op),
            Form::Generic => self.broadcasting(op),
            Form::Same(count, keys) => self.same(op, count, keys),
            Form::Functional(count, keys) => self.functional(op, count, keys),
            Form::Arrow(count) => self.arrow(op, count),
            Form::Source(keys) => self.source(op, keys),
            Form::Effect(count, keys) => self.effect(op, count, keys),
            Form::Against(keys) => self.against(op, keys),
            Form::Placed(keys) => {
                self.operand_list(op, Count::Exactly(1))?;
                self.keys(op, keys, KeyStyle::Tight)?;
                self.tail_one_type(op, keys, &[])
            }
            Form::Axes(name, _) => self.axes(op, name),
        }
    }

    fn same(&mut self, op: &'m Op, count: Count, keys: &[Key]) -> Option<()> {
        self.operand_list(op, count)?;
        self.keys(op, keys, KeyStyle::Comma)?;
        self.tail_same(op, keys)
    }

    fn functional(&mut self, op: &'m Op, count: Count, keys: &[Key]) -> Option<()> {
        self.operand_list(op, count)?;
        self.keys(op, keys, KeyStyle::Comma)?;
        self.dict_but(op, keys, &[]);
        self.out.push_str(" : ");
        self.functional_type(op);
        Some(())
    }

    fn arrow(&mut self, op: &'m Op, count: Count) -> Option<()> {
        self.operand_list(op, count)?;
        let &[result] = op.results() else { return None };
        self.dict(op, &[]);
        self.out.push_str(" : ");
        self.types(op.operands());
        self.out.push_str(" -> ");
        self.ty(result);
        Some(())
    }

    fn source(&mut self, op: &'m Op, keys: &[Key]) -> Option<()> {
        let &[result] = op.results() else { return None };
        self.keys(op, keys, KeyStyle::Space)?;
        self.dict_but(op, keys, &[]);
        self.out.push_str(" : ");
        self.ty(result);
        Some(())
    }

    fn effect(&mut self, op: &'m Op, count: Count, keys: &[Key]) -> Option<()> {
        let (first, rest) = op.operands().split_first()?;
        if !op.results().is_empty() || !self.all_of_type(rest, *first) {
            return None;
        }
        self.operand_list(op, count)?;
        self.keys(op, keys, KeyStyle::Comma)?;
        self.tail_one_type(op, keys, &[])
    }

    fn against(&mut self, op: &'m Op, keys: &[Key]) -> Option<()> {
        let (value @ Attr::Dense(dense), &[operand]) = (op.attr("value")?, op.operands()) else { return None };
        if self.module.ty(operand).as_tensor() != Some(&dense.ty) {
            return None;
        }
        self.operand_list(op, Count::Exactly(1))?;
        self.out.push_str(", ");
        push_attr(&mut self.out, value);
        self.keys(op, keys, KeyStyle::Comma)?;
        self.dict(op, &["value", "tolerance"]);
        Some(())
    }

    fn axes(&mut self, op: &'m Op, name: &str) -> Option<()> {
        if let Some(attr) = op.attr("reduction_op")
            && !is_default(op.kind(), "reduction_op", attr)
        {
            self.out.push(' ');
            self.out.push_str(sdy_case(attr, "reduction_op")?);
        }
        let axes @ (Attr::Axes(_) | Attr::AxesPerDim(_) | Attr::AllToAll(_)) = op.attr(name)? else { return None };
        self.out.push(' ');
        push_stripped(&mut self.out, axes);
        self.operand_list(op, Count::Exactly(1))?;
        self.keys(op, OUT_SHARDING, KeyStyle::Tight)?;
        self.tail_one_type(op, OUT_SHARDING, &["reduction_op", name])
    }

    /// The broadcasting operations of CHLO are not in the table but have a pretty form.
    fn broadcasting(&mut self, op: &'m Op) -> Option<()> {
        let known = op.kind() == OpKind::Unregistered && op.name().starts_with("chlo.broadcast_");
        if !known || op.results().len() != 1 || !op.regions().is_empty() {
            return None;
        }
        self.operand_list(op, Count::AtLeast(0))?;
        self.tail_functional(op, &[]);
        Some(())
    }

    // Parts that several forms share. Each writes the space that goes before it.

    /// The operands, as many as `count` says.
    #[inline(always)]
    pub(super) fn operand_list(&mut self, op: &Op, count: Count) -> Option<()> {
        if !count.fits(op.operands().len()) {
            return None;
        }
        self.out.push(' ');
        self.operands(op.operands());
        Some(())
    }

    /// The attributes that have a key.
    #[inline(always)]
    pub(super) fn keys(&mut self, op: &'m Op, keys: &[Key], style: KeyStyle) -> Option<()> {
        for key in keys {
            self.key(op, key, style)?;
        }
        Some(())
    }

    #[inline(never)]
    fn key(&mut self, op: &'m Op, key: &Key, style: KeyStyle) -> Option<()> {
        match op.attr(key.attr) {
            Some(attr) if key.optional && is_default(op.kind(), key.attr, attr) => Some(()),
            None if key.optional => Some(()),
            None => None,
            Some(attr) => {
                match style {
                    KeyStyle::Comma => self.out.push_str(", "),
                    KeyStyle::Space | KeyStyle::Tight => self.out.push(' '),
                }
                self.out.push_str(key.word);
                match style {
                    KeyStyle::Comma | KeyStyle::Space => self.out.push_str(" = "),
                    KeyStyle::Tight => self.out.push('='),
                }
                self.key_value(op, key.value, attr)
            }
        }
    }

    fn key_value(&mut self, op: &'m Op, value: KeyValue, attr: &Attr) -> Option<()> {
        let out = &mut self.out;
        match (value, attr) {
            (KeyValue::Number(ty), Attr::Int(_, t) | Attr::Float(_, t)) if *t == ty => {
                push_attr_as(out, attr, NumberType::Hidden);
            }
            (KeyValue::Bool, Attr::Bool(_)) => push_attr(out, attr),
            (KeyValue::Ints, Attr::I64Array(items)) => push_dims(out, items),
            (KeyValue::Str, Attr::Str(text)) => push_quoted(out, text),
            (KeyValue::Enum(_), Attr::Enum(case)) => out.push_str(&case.value),
            (KeyValue::Format, _) => {
                let width = |name| match op.attr(name)? {
                    // Negative widths are wrong, but the generic form can still say them.
                    Attr::Int(bits @ 0.., ElementType::I32) => Some(*bits),
                    _ => None,
                };
                out.push('e');
                push_int(out, width("exponent_bits")?);
                out.push('m');
                push_int(out, width("mantissa_bits")?);
            }
            (KeyValue::Sharding, Attr::Sharding(sharding)) => push_sharding(out, sharding),
            (KeyValue::SdyEnum(kind), _) => out.push_str(sdy_case(attr, kind)?),
            _ => return None,
        }
        Some(())
    }

    /// Other attributes than `hidden`, without those that have their default value.
    pub(super) fn dict(&mut self, op: &'m Op, hidden: &[&str]) {
        self.dict_but(op, &[], hidden);
    }

    /// Other attributes than those of `keys` and `hidden`, without those that have their default value.
    #[inline(always)]
    fn dict_but(&mut self, op: &'m Op, keys: &[Key], hidden: &[&str]) {
        // Keys that are not optional have been written.
        if !op.attrs.is_empty() && op.attrs.len() > keys.iter().filter(|key| !key.optional).count() {
            self.other_attrs(op, keys, hidden);
        }
    }

    #[inline(never)]
    fn other_attrs(&mut self, op: &'m Op, keys: &[Key], hidden: &[&str]) {
        let spelled = |name: &str| keys.iter().any(|key| key.attr == name || key.spells_too(name));
        let shown = |(name, attr): &(&str, &Attr)| {
            !(hidden.contains(name) || spelled(name) || is_default(op.kind(), name, attr))
        };
        self.attr_list(" {", op.attrs.iter().map(|(n, a)| (n.as_str(), a)).filter(shown), "}");
    }

    /// ` {...} : (operand types) -> result types`.
    pub(super) fn tail_functional(&mut self, op: &'m Op, hidden: &[&str]) {
        self.dict(op, hidden);
        self.out.push_str(" : ");
        self.functional_type(op);
    }

    /// ` {...} : type` if all operands have the type of the only result, else with a functional type.
    #[inline(always)]
    fn tail_same(&mut self, op: &'m Op, keys: &[Key]) -> Option<()> {
        let &[result] = op.results() else { return None };
        self.dict_but(op, keys, &[]);
        self.out.push_str(" : ");
        if self.all_of_type(op.operands(), result) {
            self.ty(result);
        } else {
            self.functional_type(op);
        }
        Some(())
    }

    /// ` {...} : type`, the type of the operands and of the results if there are any.
    pub(super) fn tail_one_type(&mut self, op: &'m Op, keys: &[Key], more: &[&str]) -> Option<()> {
        if !op.results().is_empty() && !self.same_types(op.operands(), op.results()) {
            return None;
        }
        self.dict_but(op, keys, more);
        self.out.push_str(" : ");
        self.ty(*op.operands().first()?);
        Some(())
    }

    pub(super) fn same_types(&self, a: &[ValueId], b: &[ValueId]) -> bool {
        a.iter().map(|&v| self.module.type_id(v)).eq(b.iter().map(|&v| self.module.type_id(v)))
    }

    /// Whether all these values have the type of `other`.
    #[inline]
    pub(super) fn all_of_type(&self, values: &[ValueId], other: ValueId) -> bool {
        let ty = self.module.type_id(other);
        values.iter().all(|&v| self.module.type_id(v) == ty)
    }
}

impl Key {
    /// Whether the key spells this attribute beside its own: a format has two.
    fn spells_too(&self, name: &str) -> bool {
        matches!(self.value, KeyValue::Format) && name == "mantissa_bits"
    }
}

/// The case of `sdy` enum `kind`, held by name or by number.
fn sdy_case<'a>(attr: &'a Attr, kind: &str) -> Option<&'a str> {
    match attr {
        Attr::Enum(e) => Some(&e.value),
        Attr::Int(i, ElementType::I32) => sdy_cases(kind).get(usize::try_from(*i).ok()?).copied(),
        _ => None,
    }
}
