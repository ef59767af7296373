//! Pretty forms that the table says: operands, `key = value` pairs, types.

use super::form::{Form, Key, Val, form};
use super::op::Draft;
use super::types::Types;
use super::{Parsed, Parser};
use crate::op::ControlOp;
use crate::{Attr, OpKind, Type};

impl<'a> Parser<'a> {
    /// Reads the rest of an operation whose name is `word`.
    pub(super) fn pretty_op(&mut self, word: &'a str, draft: &mut Draft) -> Parsed<()> {
        let kind = match word {
            "return" => Some(OpKind::Control(ControlOp::FuncReturn)),
            "call" => Some(OpKind::Control(ControlOp::Call)),
            "module" => Some(OpKind::Control(ControlOp::Module)),
            _ => OpKind::from_name(word),
        };
        let Some(kind) = kind else { return self.foreign_op(word, draft) };
        draft.spec.kind = kind;
        if self.subject.is_empty() {
            self.subject = word;
        }
        match form(kind) {
            Form::Own(read) => read(self, draft),
            Form::GenericOnly => {
                Err(self.error(draft.at, format!("'{word}' is written in the generic form only: \"{word}\"(...)")))
            }
            Form::Same(count, keys) => {
                self.operands_and_keys(draft, keys)?;
                self.attr_dict(draft)?;
                self.lex.expect(b':')?;
                self.same_types(draft, count)
            }
            Form::Functional(keys) => {
                self.operands_and_keys(draft, keys)?;
                self.attr_dict(draft)?;
                self.colon_functional(draft)
            }
            Form::Source(keys) => {
                self.keys(draft, keys, !keys.is_empty())?;
                self.attr_dict(draft)?;
                self.lex.expect(b':')?;
                draft.spec.result_types.push(self.ty()?);
                Ok(())
            }
            Form::Arrow => self.arrow(draft),
            Form::Effect(keys) => {
                self.operands_and_keys(draft, keys)?;
                self.attr_dict(draft)?;
                self.lex.expect(b':')?;
                let at = self.lex.pos();
                let ty = self.ty()?;
                let types = Types::from_elem(ty, draft.spec.operands.len());
                self.operand_types(draft, &types, at)
            }
            Form::Placed(keys) => {
                self.operand(draft)?;
                self.placed(draft, keys)
            }
        }
    }

    /// Reads `%a, %b, key = value, ...`; operands and keys may both be missing.
    pub(super) fn operands_and_keys(&mut self, draft: &mut Draft, keys: &[Key]) -> Parsed<()> {
        let comma = self.operands_and_comma(draft)?;
        self.keys(draft, keys, comma)
    }

    /// Reads `%a, %b` and the comma after it; returns whether there is one.
    pub(super) fn operands_and_comma(&mut self, draft: &mut Draft) -> Parsed<bool> {
        if self.lex.peek() != b'%' {
            return Ok(false);
        }
        loop {
            self.operand(draft)?;
            if !self.lex.eat(b',') {
                return Ok(false);
            }
            if self.lex.peek() != b'%' {
                return Ok(true);
            }
        }
    }

    /// Reads `key = value` pairs in order. `comma` says that one has been taken, so a key must follow.
    pub(super) fn keys(&mut self, draft: &mut Draft, keys: &[Key], mut comma: bool) -> Parsed<()> {
        for k in keys {
            if comma && self.lex.eat_word(k.word) {
                self.lex.expect(b'=')?;
                self.key_value(draft, k)?;
                comma = self.lex.eat(b',');
            } else if !k.optional {
                let before = if comma { "" } else { ", " };
                return Err(self.lex.expected(&format!("'{before}{} ='", k.word)));
            }
        }
        match comma {
            true => Err(self.lex.expected("no more after ','")),
            false => Ok(()),
        }
    }

    /// Reads the value of a key and sets its attribute.
    pub(super) fn key_value(&mut self, draft: &mut Draft, k: &Key) -> Parsed<()> {
        self.lex.skip();
        let at = self.lex.pos();
        let value = match (self.lex.byte(0), k.value) {
            (b'#', _) => self.attr()?,
            (_, Val::Number(elem)) => {
                let number = self.lex.number()?;
                self.typed_number(number, elem, at)?
            }
            (_, Val::Ints) => Attr::I64Array(self.int_list()?.into()),
            (_, Val::Bool) => match self.lex.eat_any_word() {
                Some("true") => Attr::Bool(true),
                Some("false") => Attr::Bool(false),
                _ => {
                    self.lex.set_pos(at);
                    return Err(self.lex.expected("'true' or 'false'"));
                }
            },
            (_, Val::Str) => Attr::str(self.lex.string()?),
            (_, Val::Enum(kind)) => self.enum_case(kind)?,
            (_, Val::Format) => return self.exponent_mantissa(draft),
            (_, Val::Sharding) => self.sharding()?,
            (_, Val::SdyEnum(kind, cases)) => match self.lex.eat_any_word() {
                Some(word) if cases.contains(&word) => super::place::sdy_enum(kind, word),
                _ => {
                    self.lex.set_pos(at);
                    return Err(self.lex.expected(&format!("one of {}", cases.join(", "))));
                }
            },
        };
        draft.set(k.attr, value);
        Ok(())
    }

    /// Reads a case of StableHLO enum `kind`.
    pub(super) fn enum_case(&mut self, kind: &str) -> Parsed<Attr> {
        if self.lex.peek() == b'#' {
            return self.attr();
        }
        let cases = super::dialect::hlo_cases(kind);
        match self.lex.peek_word() {
            Some(word) if cases.contains(&word) => {
                self.lex.eat_any_word();
                Ok(Attr::hlo_enum(kind, word))
            }
            _ => Err(self.lex.expected(&format!("one of {}", cases.join(", ")))),
        }
    }

    /// `e8m7`.
    fn exponent_mantissa(&mut self, draft: &mut Draft) -> Parsed<()> {
        let word = self.lex.peek_word().unwrap_or("");
        let parts = word.strip_prefix('e').and_then(|w| w.split_once('m'));
        let number = |text: &str| text.parse::<i32>().ok().filter(|_| text.bytes().all(|b| b.is_ascii_digit()));
        match parts.and_then(|(e, m)| Some((number(e)?, number(m)?))) {
            Some((exponent, mantissa)) => {
                self.lex.eat_any_word();
                draft.set("exponent_bits", Attr::i32(exponent.into()));
                draft.set("mantissa_bits", Attr::i32(mantissa.into()));
                Ok(())
            }
            None => Err(self.lex.expected("exponent and mantissa widths such as 'e8m7'")),
        }
    }

    /// Reads one type for `count` operands and the result, or a functional type.
    pub(super) fn same_types(&mut self, draft: &mut Draft, count: usize) -> Parsed<()> {
        let have = draft.spec.operands.len();
        if have != count {
            return Err(
                self.error(draft.at, format!("'{}' has {have} operands, needs {count}", draft.spec.kind.name()))
            );
        }
        if self.lex.peek() == b'(' {
            return self.one_result(draft);
        }
        let ty = self.ty()?;
        for i in 0..count {
            self.check_type(draft.spec.operands[i], draft.operand_at[i], &ty)?;
        }
        draft.spec.result_types.push(ty);
        Ok(())
    }

    /// Reads a functional type with one result.
    pub(super) fn one_result(&mut self, draft: &mut Draft) -> Parsed<()> {
        let at = self.lex.pos();
        self.functional(draft)?;
        match draft.spec.result_types.len() {
            1 => Ok(()),
            n => Err(self.error(at, format!("'{}' has one result, types of {n} are given", draft.spec.kind.name()))),
        }
    }

    fn arrow(&mut self, draft: &mut Draft) -> Parsed<()> {
        self.operands_and_keys(draft, &[])?;
        self.attr_dict(draft)?;
        self.lex.expect(b':')?;
        let at = self.lex.pos();
        let types = self.type_list()?;
        self.operand_types(draft, &types, at)?;
        self.lex.expect_str("->")?;
        let result: Type = self.ty()?;
        draft.spec.result_types.push(result);
        Ok(())
    }
}
