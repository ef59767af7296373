//! Functions and nested modules.

use super::attr::push_dict;
use super::write::{push_symbol, push_type};
use super::{BlockLabel, Printer};
use crate::verify::VISIBILITIES;
use crate::{Attr, AttrDict, FunctionType, Op, Type, ValueId};

impl<'m> Printer<'m> {
    /// `func.func private @f(%arg0: tensor<f32> {a}) -> (tensor<f32> {b}) attributes {c} {...}`.
    pub(super) fn func(&mut self, op: &'m Op) -> Option<()> {
        let name = op.attr("sym_name")?.as_str()?;
        let Attr::Type(Type::Function(ty)) = op.attr("function_type")? else { return None };
        let &[region] = op.regions() else { return None };
        if !(op.operands().is_empty() && op.results().is_empty()) {
            return None;
        }
        let entry = self.module.region(region).blocks().first().copied();
        let args = entry.map_or(&[][..], |entry| self.module.block(entry).args());
        let fits = |(&arg, ty): (&ValueId, &Type)| self.module.ty(arg) == ty;
        if entry.is_some() && !(args.len() == ty.inputs.len() && args.iter().zip(&ty.inputs).all(fits)) {
            return None;
        }
        self.names.announce(self.module, region);
        self.out.push_str("func.func ");
        if let Some(visibility) = op.attr("sym_visibility") {
            self.out.push_str(visibility.as_str().filter(|v| VISIBILITIES.contains(v))?);
            self.out.push(' ');
        }
        push_symbol(&mut self.out, name);
        let arg_attrs = slot_attrs(op, "arg_attrs", ty.inputs.len())?;
        self.out.push('(');
        for (i, input) in ty.inputs.iter().enumerate() {
            self.out.push_str(if i > 0 { ", " } else { "" });
            match args.get(i) {
                Some(&arg) => {
                    self.value(arg);
                    self.out.push_str(": ");
                    self.ty(arg);
                }
                None => push_type(&mut self.out, input),
            }
            self.slot(slot_dict(arg_attrs, i)?);
            if let Some(block) = entry {
                self.arg_loc(block, i);
            }
        }
        self.out.push(')');
        self.func_results(op, ty)?;
        let shown = op.attrs.iter().map(|(n, a)| (n.as_str(), a)).filter(|(n, _)| {
            !matches!(*n, "sym_name" | "function_type" | "sym_visibility" | "arg_attrs" | "res_attrs")
        });
        self.attr_list(" attributes {", shown, "}");
        if entry.is_some() {
            self.out.push(' ');
            self.region(region, BlockLabel::Hidden);
        }
        Some(())
    }

    fn func_results(&mut self, op: &Op, ty: &FunctionType) -> Option<()> {
        if ty.results.is_empty() {
            return Some(());
        }
        let attrs = slot_attrs(op, "res_attrs", ty.results.len())?;
        let plain = slot_dict(attrs, 0)?.is_empty() && !matches!(ty.results[0], Type::Function(_));
        let parentheses = ty.results.len() > 1 || !plain;
        self.out.push_str(if parentheses { " -> (" } else { " -> " });
        for (i, result) in ty.results.iter().enumerate() {
            self.out.push_str(if i > 0 { ", " } else { "" });
            push_type(&mut self.out, result);
            self.slot(slot_dict(attrs, i)?);
        }
        if parentheses {
            self.out.push(')');
        }
        Some(())
    }

    /// The attributes of an argument or result, unless there are none.
    fn slot(&mut self, dict: &AttrDict) {
        if !dict.is_empty() {
            self.out.push(' ');
            push_dict(&mut self.out, dict);
        }
    }

    /// A module inside the module.
    pub(super) fn nested_module(&mut self, op: &'m Op) -> Option<()> {
        let &[region] = op.regions() else { return None };
        if !(op.operands().is_empty() && op.results().is_empty()) || self.module.region(region).blocks().len() != 1 {
            return None;
        }
        let name = match op.attr("sym_name") {
            Some(name) => Some(name.as_str()?),
            None => None,
        };
        let others = op.attrs.iter().map(|(n, a)| (n.as_str(), a)).filter(|(n, _)| *n != "sym_name");
        self.module_header(name, others);
        self.out.push(' ');
        self.region(region, BlockLabel::Hidden);
        Some(())
    }
}

/// The dictionaries of a list like `arg_attrs`: empty if there are none, `None` if they are not one per slot.
fn slot_attrs<'m>(op: &'m Op, list: &str, count: usize) -> Option<&'m [Attr]> {
    match op.attr(list) {
        Some(Attr::Array(slots)) if slots.len() == count => Some(slots),
        Some(_) => None,
        None => Some(&[]),
    }
}

/// The dictionary at `index`, an empty one if there is no list.
fn slot_dict(slots: &[Attr], index: usize) -> Option<&AttrDict> {
    static NONE: AttrDict = AttrDict::new();
    match slots.get(index) {
        Some(Attr::Dict(dict)) => Some(dict),
        Some(_) => None,
        None => Some(&NONE),
    }
}
