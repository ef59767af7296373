//! Pretty forms of CHLO and `check` operations with a syntax of their own.

use super::op::Draft;
use super::{Parsed, Parser};
use crate::Attr;
use crate::op::form::{Key, TOP_K, ULPS};

impl<'a> Parser<'a> {
    /// `(%x, k = 8, is_stable = true) : type -> (type, type)`.
    pub(super) fn top_k(&mut self, draft: &mut Draft) -> Parsed<()> {
        self.lex.expect(b'(')?;
        self.operands_and_keys(draft, TOP_K)?;
        self.lex.expect(b')')?;
        self.attr_dict(draft)?;
        self.lex.expect(b':')?;
        let at = self.lex.pos();
        let ty = self.ty()?;
        self.operand_types(draft, &[ty], at)?;
        self.lex.expect_str("->")?;
        draft.spec.result_types = self.result_types()?.into_iter().collect();
        Ok(())
    }

    /// `(%inputs) inits (%inits) dimension=0 attributes {...} { ... } : (types) -> types`.
    pub(super) fn scan(&mut self, draft: &mut Draft) -> Parsed<()> {
        self.lex.expect(b'(')?;
        self.operands_in_parens(draft)?;
        let inputs = draft.spec.operands.len();
        self.lex.expect_word("inits")?;
        self.lex.expect(b'(')?;
        self.operands_in_parens(draft)?;
        let inits = draft.spec.operands.len() - inputs;
        self.lex.expect_word("dimension")?;
        self.lex.expect(b'=')?;
        let dimension = self.lex.int()?;
        self.attr_dict_with_keyword(draft)?;
        draft.set("dimension", Attr::i64(dimension));
        let op = self.begin(draft);
        self.region(op, vec![])?;
        self.colon_functional(draft)?;
        let Some(outputs) = draft.spec.result_types.len().checked_sub(inits) else {
            return Err(self.error(draft.at, format!("expected a result for each of the {inits} inits")));
        };
        draft.set("operandSegmentSizes", Attr::Opaque(format!("array<i32: {inputs}, {inits}>").into()));
        draft.set("resultSegmentSizes", Attr::Opaque(format!("array<i32: {outputs}, {inits}>").into()));
        Ok(())
    }

    /// `%a, dense<...> : type, tolerance = 0.1 {attrs}`.
    pub(super) fn expect_const(&mut self, draft: &mut Draft, keys: &[Key]) -> Parsed<()> {
        self.operand(draft)?;
        self.lex.expect(b',')?;
        let at = self.lex.pos();
        let (value, ty) = self.elements_attr()?;
        self.operand_types(draft, &[ty], at)?;
        draft.set("value", value);
        if !keys.is_empty() && self.lex.eat(b',') {
            self.keys(draft, keys, true)?;
        }
        self.attr_dict(draft)
    }

    /// `%a, %b, max_ulp_difference = 3, min_ulp_difference = 0 : {attrs} type, type`.
    pub(super) fn expect_close(&mut self, draft: &mut Draft) -> Parsed<()> {
        self.operands_and_keys(draft, ULPS)?;
        self.lex.expect(b':')?;
        self.attr_dict(draft)?;
        let at = self.lex.pos();
        let types = self.type_list()?;
        self.operand_types(draft, &types, at)
    }
}
