//! Functions and other symbols: the attributes of a `func.func` operation.

use std::sync::Arc;

use super::*;
use crate::FunctionType;
use crate::op::ControlOp;

/// The parts of a function's signature; see [`Module::add_func`].
#[derive(Clone, Debug, Default)]
pub struct FuncSig {
    /// Symbol name without `@`.
    pub name: SmolStr,
    /// Argument and result types.
    pub ty: FunctionType,
    /// `public` or `private`, where written.
    pub visibility: Option<SmolStr>,
}

impl Module {
    /// Adds a function with one empty block to the end of the module.
    pub fn add_func(&mut self, sig: FuncSig) -> OpId {
        let ty = Arc::new(sig.ty);
        let mut spec = OpSpec::new(OpKind::Control(ControlOp::Func))
            .attr("sym_name", Attr::str(&sig.name))
            .attr("function_type", Attr::Type(Type::Function(ty.clone())));
        if let Some(v) = sig.visibility {
            spec = spec.attr("sym_visibility", Attr::str(v));
        }
        let func = self.push(self.body(), spec);
        self.add_body(func, ty.inputs.iter().cloned());
        func
    }

    /// All functions of the module in order.
    pub fn funcs(&self) -> impl Iterator<Item = OpId> {
        self.ops_in(self.body()).filter(|&op| self.op(op).kind == OpKind::Control(ControlOp::Func))
    }

    /// The top-level operation that defines symbol `name`.
    pub fn symbol(&self, name: &str) -> Option<OpId> {
        self.ops_in(self.body()).find(|&op| self.symbol_name(op) == Some(name))
    }

    /// The symbol that `op` defines.
    pub fn symbol_name(&self, op: OpId) -> Option<&str> {
        self.op(op).attr("sym_name")?.as_str()
    }

    /// The function called `name`.
    pub fn func(&self, name: &str) -> Option<OpId> {
        self.symbol(name).filter(|&op| self.op(op).kind == OpKind::Control(ControlOp::Func))
    }

    /// The entry function: `main`, or the only function there is.
    pub fn entry(&self) -> Option<OpId> {
        self.func("main").or_else(|| {
            let mut funcs = self.funcs();
            let only = funcs.next()?;
            funcs.next().is_none().then_some(only)
        })
    }

    /// The type of a `func.func`.
    pub fn func_type(&self, func: OpId) -> FunctionType {
        self.signature(func).cloned().unwrap_or_default()
    }

    fn signature(&self, func: OpId) -> Option<&FunctionType> {
        match self.op(func).attr("function_type") {
            Some(Attr::Type(Type::Function(t))) => Some(t),
            _ => None,
        }
    }

    /// Sets the type of a `func.func`.
    pub fn set_func_type(&mut self, func: OpId, ty: FunctionType) {
        self.op_mut(func).attrs.set("function_type", Attr::Type(Type::Function(Arc::new(ty))));
    }

    /// Changes the type of a `func.func`.
    pub fn edit_func_type(&mut self, func: OpId, edit: impl FnOnce(&mut FunctionType)) {
        if let Some(Attr::Type(Type::Function(ty))) = self.op_mut(func).attrs.get_mut("function_type") {
            edit(Arc::make_mut(ty));
        }
    }

    /// Attribute `name` of argument `index` of a `func.func`.
    pub fn arg_attr(&self, func: OpId, index: usize, name: &str) -> Option<&Attr> {
        self.slot_attr(func, "arg_attrs", index, name)
    }

    /// Attribute `name` of result `index` of a `func.func`.
    pub fn res_attr(&self, func: OpId, index: usize, name: &str) -> Option<&Attr> {
        self.slot_attr(func, "res_attrs", index, name)
    }

    /// Sets (or with `None` removes) an attribute of an argument.
    pub fn set_arg_attr(&mut self, func: OpId, index: usize, name: &str, value: Option<Attr>) {
        let count = self.signature(func).map_or(0, |ty| ty.inputs.len());
        self.set_slot_attr(func, "arg_attrs", count, index, name, value);
    }

    /// Sets (or with `None` removes) an attribute of a result.
    pub fn set_res_attr(&mut self, func: OpId, index: usize, name: &str, value: Option<Attr>) {
        let count = self.signature(func).map_or(0, |ty| ty.results.len());
        self.set_slot_attr(func, "res_attrs", count, index, name, value);
    }

    /// Keeps those attributes of arguments and results of a `func.func` whose names `keep` accepts.
    pub fn retain_slot_attrs(&mut self, func: OpId, mut keep: impl FnMut(&str) -> bool) {
        for list in ["arg_attrs", "res_attrs"] {
            let Some(Attr::Array(old)) = self.op_mut(func).attrs.remove(list) else { continue };
            let mut retain = |slot: &Attr| match slot {
                Attr::Dict(dict) => {
                    let mut dict = (**dict).clone();
                    dict.retain(|name, _| keep(name));
                    dict
                }
                _ => AttrDict::new(),
            };
            let slots: Vec<AttrDict> = old.iter().map(&mut retain).collect();
            if slots.iter().any(|slot| !slot.is_empty()) {
                let slots = slots.into_iter().map(|slot| Attr::Dict(Arc::new(slot)));
                self.op_mut(func).attrs.set(list, Attr::Array(slots.collect()));
            }
        }
    }

    fn slot_attr(&self, func: OpId, list: &str, index: usize, name: &str) -> Option<&Attr> {
        match self.op(func).attr(list)?.as_array()?.get(index)? {
            Attr::Dict(d) => d.get(name),
            _ => None,
        }
    }

    fn set_slot_attr(&mut self, func: OpId, list: &str, count: usize, index: usize, name: &str, value: Option<Attr>) {
        let attrs = &mut self.op_mut(func).attrs;
        // Taken out, so that the list is usually the only owner and one slot changes in place: functions may have
        // thousands of arguments.
        let mut slots: Arc<[Attr]> = match attrs.remove(list) {
            Some(Attr::Array(a)) if a.len() == count => a,
            other => {
                let old = other.iter().filter_map(Attr::as_array).flatten().cloned();
                old.chain(std::iter::repeat_with(|| Attr::Dict(Arc::default()))).take(count).collect()
            }
        };
        if Arc::get_mut(&mut slots).is_none() {
            slots = slots.iter().cloned().collect();
        }
        let Some(slot) = Arc::get_mut(&mut slots).and_then(|s| s.get_mut(index)) else { return };
        if !matches!(slot, Attr::Dict(_)) {
            *slot = Attr::Dict(Arc::default());
        }
        let Attr::Dict(dict) = slot else { return };
        let dict = Arc::make_mut(dict);
        let removed = value.is_none();
        match value {
            Some(v) => drop(dict.set(name, v)),
            None => drop(dict.remove(name)),
        }
        let is_empty = |slot: &Attr| matches!(slot, Attr::Dict(d) if d.is_empty());
        if !(removed && slots.iter().all(is_empty)) {
            attrs.set(list, Attr::Array(slots));
        }
    }
}
