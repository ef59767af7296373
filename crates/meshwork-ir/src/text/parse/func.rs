//! Modules, functions, calls and returns.

use std::sync::Arc;

use super::op::Draft;
use super::region::Arg;
use super::{Located, Parsed, Parser};
use crate::op::ControlOp;
use crate::{Attr, AttrDict, FunctionType, OpKind, OpSpec, Type};

impl<'a> Parser<'a> {
    /// Reads `module @name attributes {...} { ... }` as the module itself.
    pub(super) fn top_module(&mut self) -> Parsed<()> {
        self.lex.eat_any_word();
        if self.lex.peek() == b'@' {
            self.module.name = Some(self.lex.symbol()?.as_ref().into());
        }
        if self.lex.eat_word("attributes") {
            let mut attrs = AttrDict::new();
            self.dict_into(&mut attrs)?;
            self.module.attrs = attrs;
        }
        self.lex.skip();
        let open = self.lex.pos();
        self.lex.expect(b'{')?;
        let body = self.module.body();
        while !self.lex.eat(b'}') {
            if self.lex.at_end() {
                let place = self.lex.text_pos(open);
                let message =
                    format!("'}}' that closes the module's '{{' at line {}, column {}", place.line, place.col);
                return Err(self.lex.expected(&message));
            }
            self.op(body)?;
        }
        if let Some(loc) = self.optional_loc()? {
            self.module.loc = self.place_loc(loc, Located::Module);
        }
        Ok(())
    }

    /// Turns the module read so far into an operation of the body, because more operations follow it.
    pub(super) fn wrap_module(&mut self) {
        let mut spec = OpSpec::new(OpKind::Control(ControlOp::Module));
        spec.attrs = std::mem::take(&mut self.module.attrs);
        if let Some(name) = self.module.name.take() {
            spec.attrs.set("sym_name", Attr::str(&name));
        }
        spec.loc = std::mem::take(&mut self.module.loc);
        let op = self.module.create(spec);
        for (target, ..) in &mut self.later_locs {
            if matches!(target, Located::Module) {
                *target = Located::Op(op);
            }
        }
        let inner = self.module.add_body(op, []);
        self.module.splice_block(self.module.body(), inner);
        self.module.append(self.module.body(), op);
    }

    /// Makes a generic `"builtin.module"` that is alone at the top the module itself.
    pub(super) fn unwrap_module(&mut self) {
        let Some(op) = self.module.unwrap_single() else { return };
        for (target, ..) in &mut self.later_locs {
            if matches!(target, Located::Op(o) if *o == op) {
                *target = Located::Module;
            }
        }
    }

    /// A module nested in another.
    pub(super) fn nested_module(&mut self, draft: &mut Draft) -> Parsed<()> {
        if self.lex.peek() == b'@' {
            let name = self.lex.symbol()?;
            draft.set("sym_name", Attr::str(name));
        }
        self.attr_dict_with_keyword(draft)?;
        let op = self.begin(draft);
        self.region(op, vec![])?;
        if self.module.body_of(op, 0).is_none() {
            let region = self.module.op(op).regions()[0];
            self.module.add_block(region, []);
        }
        Ok(())
    }

    /// `func.func public @f(%x: type {attrs}) -> (type {attrs}) attributes {...} { ... }`.
    pub(super) fn func(&mut self, draft: &mut Draft) -> Parsed<()> {
        if let Some(word @ ("public" | "private" | "nested")) = self.lex.peek_word() {
            self.lex.eat_any_word();
            draft.set("sym_visibility", Attr::str(word));
        }
        let name = self.lex.symbol()?;
        draft.set("sym_name", Attr::str(name));
        self.lex.expect(b'(')?;
        let (mut args, mut ty, mut arg_attrs) = (vec![], FunctionType::default(), vec![]);
        self.list_until(b')', |p| {
            let mut dict = AttrDict::new();
            if p.lex.peek() == b'%' {
                let mut arg = p.typed_arg()?;
                if p.lex.peek() == b'{' {
                    p.dict_into(&mut dict)?;
                    arg.loc = p.optional_loc()?;
                }
                ty.inputs.push(arg.ty.clone());
                args.push(arg);
            } else {
                ty.inputs.push(p.ty()?);
                if p.lex.peek() == b'{' {
                    p.dict_into(&mut dict)?;
                }
                p.optional_loc()?;
            }
            arg_attrs.push(dict);
            Ok(())
        })?;
        let mut res_attrs = vec![];
        if self.lex.eat_str("->") {
            if self.lex.eat(b'(') {
                self.list_until(b')', |p| {
                    ty.results.push(p.ty()?);
                    let mut dict = AttrDict::new();
                    if p.lex.peek() == b'{' {
                        p.dict_into(&mut dict)?;
                    }
                    res_attrs.push(dict);
                    Ok(())
                })?;
            } else {
                ty.results.push(self.ty()?);
            }
        }
        self.attr_dict_with_keyword(draft)?;
        let named = args.len();
        if named != 0 && named != ty.inputs.len() {
            return Err(self.error(draft.at, "either all arguments of a function have names or none"));
        }
        draft.set("function_type", Attr::Type(Type::Function(Arc::new(ty))));
        set_slots(draft, "arg_attrs", arg_attrs);
        set_slots(draft, "res_attrs", res_attrs);
        self.func_body(draft, args)
    }

    fn func_body(&mut self, draft: &mut Draft, args: Vec<Arg<'a>>) -> Parsed<()> {
        let op = self.begin(draft);
        if self.lex.peek() != b'{' {
            self.module.add_region(op);
            return Ok(());
        }
        let open = self.lex.pos();
        self.region(op, args)?;
        match self.module.body_of(op, 0) {
            Some(_) => Ok(()),
            None => Err(self.error(open, "expected a function body with at least a return")),
        }
    }

    /// `call @f(%x) {attrs} : (types) -> types`.
    pub(super) fn call(&mut self, draft: &mut Draft) -> Parsed<()> {
        let callee = self.symbol_ref()?;
        draft.set("callee", Attr::Symbol(callee));
        self.lex.expect(b'(')?;
        self.operands_in_parens(draft)?;
        self.attr_dict(draft)?;
        self.colon_functional(draft)
    }

    /// `return {attrs} %x, %y {attrs} : types`; the dialects differ in where the attributes stand.
    pub(super) fn return_op(&mut self, draft: &mut Draft) -> Parsed<()> {
        self.attr_dict(draft)?;
        if self.lex.peek() == b'%' {
            self.operand(draft)?;
            while self.lex.eat(b',') {
                self.operand(draft)?;
            }
        }
        self.attr_dict(draft)?;
        if draft.spec.operands.is_empty() {
            return Ok(());
        }
        self.lex.expect(b':')?;
        let at = self.lex.pos();
        let types = self.type_list()?;
        self.operand_types(draft, &types, at)
    }
}

/// Stores one dictionary per argument or result, unless all are empty.
fn set_slots(draft: &mut Draft, name: &'static str, slots: Vec<AttrDict>) {
    if slots.iter().any(|d| !d.is_empty()) {
        draft.set(name, Attr::Array(slots.into_iter().map(|d| Attr::Dict(d.into())).collect()));
    }
}
