//! Operations: results, the generic form, and what all forms have in common.

use smallvec::SmallVec;

use super::types::Types;
use super::value::Named;
use super::{Located, Parsed, Parser};
use crate::op::form::name_sdy_cases;
use crate::{Attr, BlockId, Diagnostic, OpId, OpKind, OpSpec, Type, ValueId};

/// An operation while it is read.
pub(super) struct Draft {
    /// What is known of it.
    pub spec: OpSpec,
    /// Offset of its name.
    pub at: usize,
    /// Offset of each operand.
    pub operand_at: SmallVec<[usize; 4]>,
    /// The operation, if it had to be created early to hold regions.
    pub op: Option<OpId>,
}

/// `%x` or `%x:2` before the `=`.
struct ResultName<'a> {
    name: &'a str,
    at: usize,
    count: u32,
}

impl Draft {
    /// Sets an attribute of the operation itself.
    pub fn set(&mut self, name: &'static str, value: Attr) {
        self.spec.attrs.set(smol_str::SmolStr::new_static(name), value);
    }
}

impl<'a> Parser<'a> {
    /// Reads an operation and puts it at the end of `block`.
    pub(super) fn op(&mut self, block: BlockId) -> Parsed<OpId> {
        if let Some(last) = self.module.terminator(block) {
            let last = self.module.op(last);
            let message = format!("'{}' must be the last operation of its block", last.name());
            return Err(Diagnostic::error(last.pos, message));
        }
        let names = self.result_names()?;
        self.lex.skip();
        let at = self.lex.pos();
        let outer = std::mem::replace(&mut self.subject, names.first().map_or("", |n| n.name));
        let mut spec = OpSpec::new(OpKind::Unregistered);
        spec.pos = self.lex.text_pos(at);
        let mut draft = Draft { spec, at, operand_at: SmallVec::new(), op: None };
        match self.lex.byte(0) {
            b'"' => self.generic_op(&mut draft)?,
            _ => match self.lex.eat_any_word() {
                Some(word) => self.pretty_op(word, &mut draft)?,
                None => return Err(self.lex.expected("an operation")),
            },
        }
        if draft.spec.kind.is_terminator() && !draft.spec.result_types.is_empty() {
            return Err(self.error(at, format!("'{}' has no results", draft.spec.kind.name())));
        }
        let loc = self.optional_loc()?;
        let op = match draft.op {
            Some(op) => {
                let slot = self.module.op_mut(op);
                slot.attrs = draft.spec.attrs;
                self.module.add_results(op, draft.spec.result_types);
                op
            }
            None => self.module.create(draft.spec),
        };
        if let Some(loc) = loc {
            self.module.op_mut(op).loc = self.place_loc(loc, Located::Op(op));
        }
        self.module.append(block, op);
        self.bind_results(op, &names)?;
        self.subject = outer;
        Ok(op)
    }

    fn result_names(&mut self) -> Parsed<SmallVec<[ResultName<'a>; 2]>> {
        let mut names = SmallVec::new();
        if self.lex.peek() != b'%' {
            return Ok(names);
        }
        loop {
            self.lex.skip();
            let at = self.lex.pos();
            let Some(name) = self.lex.eat_sigil(b'%') else { return Err(self.lex.expected("a value such as '%0'")) };
            let mut count = 1;
            if self.lex.eat(b':') {
                let n = self.lex.int()?;
                count = u32::try_from(n)
                    .ok()
                    .filter(|&n| n > 0)
                    .ok_or_else(|| self.error(at, format!("{name}:{n} names {n} results; at least one is needed")))?;
            }
            names.push(ResultName { name, at, count });
            if !self.lex.eat(b',') {
                break;
            }
        }
        self.lex.expect(b'=')?;
        Ok(names)
    }

    fn bind_results(&mut self, op: OpId, names: &[ResultName<'a>]) -> Parsed<()> {
        if names.is_empty() {
            return Ok(());
        }
        let have = self.module.op(op).results().len();
        let named: u64 = names.iter().map(|n| u64::from(n.count)).sum();
        if named != have as u64 {
            let message = format!("'{}' has {have} results but {named} are named", self.module.op(op).name());
            return Err(self.error(names[0].at, message));
        }
        let mut first = 0;
        for n in names {
            let what = match n.count {
                1 => Named::One(self.module.op(op).results()[first as usize]),
                count => Named::Pack { op, first, count },
            };
            self.define(n.name, n.at, what)?;
            first += n.count;
        }
        Ok(())
    }

    /// Creates the operation before its types are known, to hold regions.
    pub(super) fn begin(&mut self, draft: &mut Draft) -> OpId {
        let spec = OpSpec {
            kind: draft.spec.kind,
            name: draft.spec.name.clone(),
            operands: draft.spec.operands.clone(),
            pos: draft.spec.pos,
            ..OpSpec::new(draft.spec.kind)
        };
        *draft.op.get_or_insert_with(|| self.module.create(spec))
    }

    /// Reads a use of a value as the next operand.
    pub(super) fn operand(&mut self, draft: &mut Draft) -> Parsed<()> {
        self.lex.skip();
        draft.operand_at.push(self.lex.pos());
        let value: ValueId = self.value_use()?;
        draft.spec.operands.push(value);
        Ok(())
    }

    /// Reads operands separated by commas up to `)`, which it takes; the `(` has been taken.
    pub(super) fn operands_in_parens(&mut self, draft: &mut Draft) -> Parsed<()> {
        self.list_until(b')', |p| p.operand(draft))
    }

    /// Checks the types written for the operands.
    pub(super) fn operand_types(&mut self, draft: &Draft, types: &[Type], at: usize) -> Parsed<()> {
        let operands = &draft.spec.operands;
        if operands.len() != types.len() {
            let message = format!("{} operands present, but types of {} are given", operands.len(), types.len());
            return Err(self.error(at, message));
        }
        for ((&value, ty), &at) in operands.iter().zip(types).zip(&draft.operand_at) {
            self.check_type(value, at, ty)?;
        }
        Ok(())
    }

    /// Reads `: (types) -> types`.
    pub(super) fn colon_functional(&mut self, draft: &mut Draft) -> Parsed<()> {
        self.lex.expect(b':')?;
        self.functional(draft)
    }

    /// Reads `(types) -> types`.
    pub(super) fn functional(&mut self, draft: &mut Draft) -> Parsed<()> {
        self.lex.skip();
        let at = self.lex.pos();
        let inputs: Types = self.paren_types()?;
        self.operand_types(draft, &inputs, at)?;
        self.lex.expect_str("->")?;
        draft.spec.result_types = self.result_types()?.into_iter().collect();
        Ok(())
    }

    /// Reads `{...}` if it is next.
    pub(super) fn attr_dict(&mut self, draft: &mut Draft) -> Parsed<()> {
        match self.lex.peek() {
            b'{' => self.dict_into(&mut draft.spec.attrs),
            _ => Ok(()),
        }
    }

    /// Reads `attributes {...}` if it is next.
    pub(super) fn attr_dict_with_keyword(&mut self, draft: &mut Draft) -> Parsed<()> {
        if self.lex.eat_word("attributes") { self.dict_into(&mut draft.spec.attrs) } else { Ok(()) }
    }

    /// `"dialect.op"(%a) <{props}> ({regions}) {attrs} : (types) -> types`.
    fn generic_op(&mut self, draft: &mut Draft) -> Parsed<()> {
        let name = self.lex.string()?;
        match OpKind::from_name(&name) {
            Some(kind) => draft.spec.kind = kind,
            None if super::foreign::may_be_unknown(&name) => draft.spec.name = name.as_ref().into(),
            None => return Err(self.error(draft.at, format!("'{name}' is not an operation"))),
        }
        self.lex.expect(b'(')?;
        self.generic_tail(draft)
    }

    /// The generic form from after the `(` of the operands on.
    pub(super) fn generic_tail(&mut self, draft: &mut Draft) -> Parsed<()> {
        self.operands_in_parens(draft)?;
        if self.lex.peek() == b'[' {
            let pos = self.lex.pos();
            let message = "successor blocks: control flow here is by regions".to_string();
            return Err(Diagnostic::unsupported(self.lex.text_pos(pos), message));
        }
        if self.lex.eat(b'<') {
            self.lex.skip();
            let at = self.lex.pos();
            match self.attr()? {
                Attr::Dict(dict) => draft.spec.attrs = (*dict).clone(),
                _ => return Err(self.error(at, "expected the properties of an operation as '{...}'")),
            }
            self.lex.expect(b'>')?;
        }
        if self.lex.eat(b'(') {
            let op = self.begin(draft);
            self.list_until(b')', |p| p.region(op, vec![]))?;
        }
        self.attr_dict(draft)?;
        name_sdy_cases(draft.spec.kind, &mut draft.spec.attrs);
        self.colon_functional(draft)
    }
}
