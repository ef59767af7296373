//! Pretty forms that the op table gives: operands, `key = value` pairs, types.

use super::op::Draft;
use super::types::Types;
use super::{Parsed, Parser};
use crate::op::ControlOp;
use crate::op::form::{Axes, Count, Form, Key, KeyValue, OUT_SHARDING, Syntax, sdy_cases};
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
        match kind.info().form {
            Form::Own(syntax) => self.own(syntax, draft),
            Form::Generic => {
                Err(self.error(draft.at, format!("'{word}' is written in the generic form only: \"{word}\"(...)")))
            }
            Form::Same(count, keys) => {
                self.operands_and_keys(draft, keys)?;
                self.attr_dict(draft)?;
                self.lex.expect(b':')?;
                self.same_types(draft, count)
            }
            Form::Functional(_, keys) => {
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
            Form::Arrow(_) => self.arrow(draft),
            Form::Effect(_, keys) => {
                self.operands_and_keys(draft, keys)?;
                self.attr_dict(draft)?;
                self.lex.expect(b':')?;
                let at = self.lex.pos();
                let ty = self.ty()?;
                let types = Types::from_elem(ty, draft.spec.operands.len());
                self.operand_types(draft, &types, at)
            }
            Form::Against(keys) => self.expect_const(draft, keys),
            Form::Placed(keys) => {
                self.operand(draft)?;
                self.placed(draft, keys)
            }
            Form::Axes(name, axes) => {
                self.reduction(draft)?;
                let axes = match axes {
                    Axes::List => self.axes()?,
                    Axes::PerDim => self.axes_per_dim()?,
                    Axes::Moves => self.all_to_all_params()?,
                };
                draft.set(name, axes);
                self.operand(draft)?;
                self.placed(draft, OUT_SHARDING)
            }
        }
    }

    /// Reads a form that belongs to one operation.
    fn own(&mut self, syntax: Syntax, draft: &mut Draft) -> Parsed<()> {
        match syntax {
            Syntax::Module => self.nested_module(draft),
            Syntax::Func => self.func(draft),
            Syntax::Call => self.call(draft),
            Syntax::Return | Syntax::HloReturn => self.return_op(draft),
            Syntax::Complex => self.complex(draft),
            Syntax::Compare => self.compare(draft),
            Syntax::Select => self.select(draft),
            Syntax::Constant => self.constant(draft),
            Syntax::Slice => self.slice(draft),
            Syntax::Dot => self.dot(draft),
            Syntax::DotGeneral => self.dot_general(draft),
            Syntax::Convolution => self.convolution(draft),
            Syntax::Reduce => self.reduce(draft),
            Syntax::While => self.while_op(draft),
            Syntax::Composite => self.composite(draft),
            Syntax::CustomCall => self.custom_call(draft),
            Syntax::GetTupleElement => self.get_tuple_element(draft),
            Syntax::OptimizationBarrier => self.optimization_barrier(draft),
            Syntax::Tuple => self.tuple(draft),
            Syntax::TopK => self.top_k(draft),
            Syntax::Scan => self.scan(draft),
            Syntax::Mesh => self.mesh(draft),
            Syntax::Reshard => self.sharding_constraint(draft),
            Syntax::ManualComputation => self.manual_computation(draft),
            Syntax::NamedComputation => self.named_computation(draft),
            Syntax::ExpectClose => self.expect_close(draft),
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
        if comma { Err(self.lex.expected("no more after ','")) } else { Ok(()) }
    }

    /// Reads the value of a key and sets its attribute.
    pub(super) fn key_value(&mut self, draft: &mut Draft, k: &Key) -> Parsed<()> {
        self.lex.skip();
        let at = self.lex.pos();
        let value = match (self.lex.byte(0), k.value) {
            (b'#', _) => self.attr()?,
            (_, KeyValue::Number(elem)) => {
                let number = self.lex.number()?;
                self.typed_number(number, elem, at)?
            }
            (_, KeyValue::Ints) => Attr::I64Array(self.int_list()?.into()),
            (_, KeyValue::Bool) => match self.lex.eat_any_word() {
                Some("true") => Attr::Bool(true),
                Some("false") => Attr::Bool(false),
                _ => {
                    self.lex.set_pos(at);
                    return Err(self.lex.expected("'true' or 'false'"));
                }
            },
            (_, KeyValue::Str) => Attr::str(self.lex.string()?),
            (_, KeyValue::Enum(kind)) => self.enum_case(kind)?,
            (_, KeyValue::Format) => return self.exponent_mantissa(draft),
            (_, KeyValue::Sharding) => self.sharding()?,
            (_, KeyValue::SdyEnum(kind)) => match self.lex.eat_any_word() {
                Some(word) if sdy_cases(kind).contains(&word) => Attr::sdy_enum(kind, word),
                _ => {
                    self.lex.set_pos(at);
                    return Err(self.lex.expected(&format!("one of {}", sdy_cases(kind).join(", "))));
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
        let cases = crate::op::form::hlo_cases(kind);
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
    pub(super) fn same_types(&mut self, draft: &mut Draft, count: Count) -> Parsed<()> {
        let have = draft.spec.operands.len();
        if !count.fits(have) {
            let (Count::Exactly(n) | Count::AtLeast(n)) = count;
            return Err(self.error(draft.at, format!("'{}' has {have} operands, needs {n}", draft.spec.kind.name())));
        }
        if self.lex.peek() == b'(' {
            return self.one_result(draft);
        }
        let ty = self.ty()?;
        for i in 0..have {
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
