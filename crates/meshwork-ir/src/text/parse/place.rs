//! Pretty forms of `sdy` operations.

use std::sync::Arc;

use meshwork_mesh::Cursor;

use super::op::Draft;
use super::{Parsed, Parser};
use crate::op::SdyOp;
use crate::op::form::{Key, sdy_cases};
use crate::{Attr, OpKind};

impl<'a> Parser<'a> {
    /// `@name = <["x"=2]>`.
    pub(super) fn mesh(&mut self, draft: &mut Draft) -> Parsed<()> {
        let name = self.lex.symbol()?;
        draft.set("sym_name", Attr::str(name));
        self.lex.expect(b'=')?;
        let mesh = match self.lex.peek() {
            b'#' => self.attr()?,
            _ => Attr::Mesh(Arc::new(self.with_cursor(Cursor::parse_mesh)?)),
        };
        draft.set("mesh", mesh);
        self.attr_dict(draft)
    }

    /// `<@mesh, [{"x"}]>`, or an attribute that says the same.
    pub(super) fn sharding(&mut self) -> Parsed<Attr> {
        let at = self.lex.pos();
        if self.lex.peek() != b'#' {
            return Ok(Attr::Sharding(Arc::new(self.with_cursor(Cursor::parse_sharding)?)));
        }
        match self.attr()? {
            attr @ Attr::Sharding(_) => Ok(attr),
            _ => Err(self.error(at, "expected a sharding")),
        }
    }

    /// `%a <@mesh, [{"x"}]> {attrs} : type`.
    pub(super) fn sharding_constraint(&mut self, draft: &mut Draft) -> Parsed<()> {
        self.operand(draft)?;
        let sharding = self.sharding()?;
        draft.set("sharding", sharding);
        self.placed(draft, &[])
    }

    /// The reduction of a collective that has one; a sum if it is left out.
    pub(super) fn reduction(&mut self, draft: &mut Draft) -> Parsed<()> {
        if matches!(draft.spec.kind, OpKind::Sdy(SdyOp::AllReduce | SdyOp::ReduceScatter))
            && let Some(word) = self.lex.peek_word()
        {
            let cases = sdy_cases("reduction_op");
            if !cases.contains(&word) {
                return Err(self.lex.expected(&format!("one of {}", cases.join(", "))));
            }
            self.lex.eat_any_word();
            draft.set("reduction_op", Attr::sdy_enum("reduction_op", word));
        }
        Ok(())
    }

    /// `key=value {attrs} : type` after the one operand; the keys are not separated by commas.
    pub(super) fn placed(&mut self, draft: &mut Draft, keys: &[Key]) -> Parsed<()> {
        for k in keys {
            if self.lex.eat_word(k.word) {
                self.lex.expect(b'=')?;
                self.key_value(draft, k)?;
            } else if !k.optional {
                return Err(self.lex.expected(&format!("'{}='", k.word)));
            }
        }
        self.attr_dict(draft)?;
        self.lex.expect(b':')?;
        let at = self.lex.pos();
        let ty = self.ty()?;
        self.operand_types(draft, std::slice::from_ref(&ty), at)?;
        if draft.spec.kind != OpKind::Sdy(SdyOp::ShardingGroup) {
            draft.spec.result_types.push(ty);
        }
        Ok(())
    }

    /// `(%a) in_shardings=[...] out_shardings=[...] manual_axes={...} (%x: type) {...} {attrs} : (types) -> types`.
    pub(super) fn manual_computation(&mut self, draft: &mut Draft) -> Parsed<()> {
        self.lex.expect(b'(')?;
        self.operands_in_parens(draft)?;
        for name in ["in_shardings", "out_shardings"] {
            self.lex.expect_word(name)?;
            self.lex.expect(b'=')?;
            let shardings = self.shardings()?;
            draft.set(name, shardings);
        }
        self.lex.expect_word("manual_axes")?;
        self.lex.expect(b'=')?;
        let axes = self.axes()?;
        draft.set("manual_axes", axes);
        self.body_and_types(draft)
    }

    /// `<"name">(%a) in_shardings=[...] out_shardings=[...] (%x: type) {...} {attrs} : (types) -> types`.
    pub(super) fn named_computation(&mut self, draft: &mut Draft) -> Parsed<()> {
        self.lex.expect(b'<')?;
        let name = self.lex.string()?;
        draft.set("name", Attr::str(name));
        self.lex.expect(b'>')?;
        self.lex.expect(b'(')?;
        self.operands_in_parens(draft)?;
        for name in ["in_shardings", "out_shardings"] {
            if self.lex.eat_word(name) {
                self.lex.expect(b'=')?;
                let shardings = self.shardings()?;
                draft.set(name, shardings);
            }
        }
        self.body_and_types(draft)
    }

    fn body_and_types(&mut self, draft: &mut Draft) -> Parsed<()> {
        self.lex.expect(b'(')?;
        let args = self.list_of(b')', Self::typed_arg)?;
        let op = self.begin(draft);
        self.region(op, args)?;
        self.attr_dict(draft)?;
        self.colon_functional(draft)
    }
}
