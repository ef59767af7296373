//! Attributes of MLIR itself: numbers, strings, arrays, dictionaries, symbols.

use meshwork_mesh::bare_identifier;
use smol_str::SmolStr;

use super::super::lex::{IntLit, Number};
use super::{Parsed, Parser};
use crate::{Attr, AttrDict, ElementClass, ElementType, Type, float};

impl<'a> Parser<'a> {
    /// Reads an attribute.
    pub(super) fn attr(&mut self) -> Parsed<Attr> {
        self.nested(Self::attr_inner)
    }

    fn attr_inner(&mut self) -> Parsed<Attr> {
        let first = self.lex.peek();
        let at = self.lex.pos();
        match first {
            b'"' => self.string_attr(at),
            b'0'..=b'9' | b'-' => self.number_attr(at),
            b'[' => {
                self.lex.eat(b'[');
                let items: Vec<Attr> = self.list_of(b']', Self::attr)?;
                Ok(Attr::Array(items.into()))
            }
            b'{' => {
                let mut dict = AttrDict::new();
                self.dict_into(&mut dict)?;
                Ok(Attr::Dict(dict.into()))
            }
            b'@' => Ok(Attr::Symbol(self.symbol_ref()?)),
            b'#' => self.hash_attr(at),
            b'!' | b'(' => Ok(Attr::Type(self.ty()?)),
            _ => match self.lex.peek_word() {
                Some(word) => self.word_attr(word, at),
                None => Err(self.lex.expected("an attribute")),
            },
        }
    }

    fn word_attr(&mut self, word: &'a str, at: usize) -> Parsed<Attr> {
        let after = at + word.len();
        match word {
            "true" | "false" => {
                self.lex.set_pos(after);
                Ok(Attr::Bool(word == "true"))
            }
            "unit" => {
                self.lex.set_pos(after);
                Ok(Attr::Unit)
            }
            "dense" => self.dense().map(|(attr, _)| attr),
            "dense_resource" => self.dense_resource().map(|(attr, _)| attr),
            "array" => self.array_attr(at),
            "loc" => {
                self.lex.set_pos(after);
                self.lex.expect(b'(')?;
                self.loc_body()?;
                self.lex.expect(b')')?;
                Ok(Attr::Opaque(self.expand_aliases(at)?))
            }
            "affine_map" | "affine_set" | "strided" | "distinct" => {
                self.lex.set_pos(after);
                if self.lex.byte(0) == b'[' {
                    self.lex.skip_balanced()?;
                }
                if self.lex.byte(0) != b'<' {
                    return Err(self.lex.expected("'<'"));
                }
                self.lex.skip_balanced()?;
                Ok(Attr::Opaque(self.expand_aliases(at)?))
            }
            "sparse" | "opaque" => {
                self.lex.set_pos(after);
                if self.lex.byte(0) != b'<' {
                    return Err(self.lex.expected("'<'"));
                }
                self.lex.skip_balanced()?;
                self.lex.expect(b':')?;
                self.ty()?;
                Ok(Attr::Opaque(self.expand_aliases(at)?))
            }
            _ if self.at_named_type() => Ok(Attr::Type(self.ty()?)),
            _ => Err(self.lex.expected("an attribute")),
        }
    }

    fn string_attr(&mut self, at: usize) -> Parsed<Attr> {
        let text = self.lex.string_bytes()?;
        // A string with a type, or of bytes that are no text, is kept as it is written.
        let end = self.lex.pos();
        if self.lex.eat(b':') {
            self.ty()?;
            return Ok(Attr::Opaque(self.expand_aliases(at)?));
        }
        self.lex.set_pos(end);
        match text {
            Ok(text) => Ok(Attr::Str(text.as_ref().into())),
            Err(_) => Ok(Attr::Opaque(self.lex.text_from(at).into())),
        }
    }

    fn number_attr(&mut self, at: usize) -> Parsed<Attr> {
        let number = self.lex.number()?;
        let end = self.lex.pos();
        let ty = if self.lex.eat(b':') {
            self.ty()?
        } else {
            self.lex.set_pos(end);
            match number {
                Number::Int(_) => Type::Scalar(ElementType::I64),
                Number::Float(_) => Type::Scalar(ElementType::F64),
            }
        };
        match ty {
            Type::Scalar(elem) if !elem.is_complex() => self.typed_number(number, elem, at),
            Type::Opaque(_) => Ok(Attr::Opaque(self.expand_aliases(at)?)),
            other => Err(self.error(at, format!("a number cannot have type {other}"))),
        }
    }

    /// The attribute of a number written at `at` for type `elem`.
    pub(super) fn typed_number(&mut self, number: Number, elem: ElementType, at: usize) -> Parsed<Attr> {
        match (number, elem.class()) {
            (Number::Int(lit), ElementClass::Bool) => self.int_value(lit, elem, at).map(|v| Attr::Bool(v != 0)),
            (Number::Int(lit), ElementClass::Signed | ElementClass::Unsigned) => {
                Ok(Attr::Int(self.int_value(lit, elem, at)?, elem))
            }
            (number, ElementClass::Float) => {
                let bits = self.float_bits(number, elem, at)?;
                Ok(Attr::Float(float::decode(elem, bits), elem))
            }
            _ => Err(self.error(at, format!("this number does not suit type {elem}"))),
        }
    }

    /// An integer of type `elem`: sign-extended if signed, by bit pattern if unsigned, 0 or 1 if `i1`.
    pub(super) fn int_value(&mut self, lit: IntLit, elem: ElementType, at: usize) -> Parsed<i64> {
        let bits = elem.bits() as u32;
        let limit = if bits == 64 { u64::MAX } else { (1 << bits) - 1 };
        let sign = 1u64 << (bits - 1);
        let fits = match (lit.negative, elem.class()) {
            (true, ElementClass::Unsigned) => lit.magnitude == 0,
            (true, _) => lit.magnitude <= sign,
            (false, _) => lit.magnitude <= limit,
        };
        if !fits {
            let text = self.lex.text_from(at);
            let text: String = text.split(':').next().unwrap_or(text).trim_end().chars().take(40).collect();
            return Err(self.error(at, format!("{text} is out of range for {elem}")));
        }
        let raw = if lit.negative { lit.magnitude.wrapping_neg() & limit } else { lit.magnitude };
        Ok(match elem.class() {
            ElementClass::Signed if raw & sign != 0 => (raw | !limit) as i64,
            _ => raw as i64,
        })
    }

    /// The bit pattern of a floating-point number; hexadecimal integers are the pattern itself.
    pub(super) fn float_bits(&mut self, number: Number, elem: ElementType, at: usize) -> Parsed<u64> {
        let bits = elem.real_part().bits();
        match number {
            Number::Float(v) => Ok(float::encode(elem, v)),
            Number::Int(IntLit { hex: true, negative: false, magnitude }) => {
                if bits < 64 && magnitude >> bits != 0 {
                    Err(self.error(at, format!("this bit pattern is wider than {elem}")))
                } else {
                    Ok(magnitude)
                }
            }
            Number::Int(_) => {
                Err(self
                    .error(at, format!("expected a number with a point or a bit pattern in hexadecimal for {elem}")))
            }
        }
    }

    /// Reads `{a = 1, b}` into `dict`; a name that is there already is an error.
    pub(super) fn dict_into(&mut self, dict: &mut AttrDict) -> Parsed<()> {
        self.lex.expect(b'{')?;
        self.list_until(b'}', |p| {
            p.lex.skip();
            let at = p.lex.pos();
            let name: SmolStr = match p.lex.byte(0) {
                b'"' => p.lex.string()?.as_ref().into(),
                _ => match p.lex.eat_any_word() {
                    Some(word) => word.into(),
                    None => return Err(p.lex.expected("an attribute name")),
                },
            };
            let value = if p.lex.eat(b'=') { p.attr()? } else { Attr::Unit };
            match dict.set(name, value) {
                None => Ok(()),
                Some(_) => {
                    let name = p.lex.src()[at..].split(['=', ',', '}']).next().unwrap_or("").trim().to_string();
                    Err(p.error(at, format!("attribute {name} is given twice")))
                }
            }
        })
    }

    /// Reads `@name` or `@outer::@inner`, without the first `@`.
    pub(super) fn symbol_ref(&mut self) -> Parsed<SmolStr> {
        let mut text: SmolStr = self.lex.symbol()?.as_ref().into();
        while self.lex.peek() == b':' && self.lex.byte(1) == b':' {
            self.lex.expect_str("::")?;
            let inner = self.lex.symbol()?;
            text = format!("{text}::@{inner}").into();
        }
        Ok(text)
    }

    /// `array<i64: 1, 2>`.
    fn array_attr(&mut self, at: usize) -> Parsed<Attr> {
        self.lex.eat_word("array");
        self.lex.expect(b'<')?;
        let elem = match self.ty()? {
            Type::Scalar(elem) if !elem.is_complex() => elem,
            other => return Err(self.error(at, format!("an array attribute cannot have elements of type {other}"))),
        };
        let mut ints = vec![];
        let mut bools = vec![];
        if self.lex.eat(b':') {
            self.list_until(b'>', |p| {
                p.lex.skip();
                let at = p.lex.pos();
                if elem == ElementType::I1 {
                    let value = match p.lex.peek_word() {
                        Some(word @ ("true" | "false")) => {
                            p.lex.eat_word(word);
                            word == "true"
                        }
                        _ => p.lex.int()? != 0,
                    };
                    bools.push(value);
                    return Ok(());
                }
                let number = p.lex.number()?;
                if let Attr::Int(value, _) = p.typed_number(number, elem, at)? {
                    ints.push(value);
                }
                Ok(())
            })?;
        } else {
            self.lex.expect(b'>')?;
        }
        Ok(match elem {
            ElementType::I64 => Attr::I64Array(ints.into()),
            ElementType::I1 => Attr::BoolArray(bools.into()),
            _ => Attr::Opaque(self.expand_aliases(at)?),
        })
    }

    /// Reads `[1, 2]`.
    pub(super) fn int_list(&mut self) -> Parsed<Vec<i64>> {
        self.lex.expect(b'[')?;
        self.list_of(b']', |p| p.lex.int())
    }

    /// The text from `at` to here, with the aliases in it replaced by what they stand for.
    pub(super) fn expand_aliases(&mut self, at: usize) -> Parsed<SmolStr> {
        let text = self.lex.text_from(at);
        if self.attr_aliases.is_empty() && self.type_aliases.is_empty() && self.loc_aliases.is_empty() {
            return Ok(crate::text::tidy::tidy(text).into());
        }
        let mut out = String::new();
        let mut done = 0;
        let mut in_string = false;
        let bytes = text.as_bytes();
        let mut i = 0;
        while i < bytes.len() {
            let sigil = bytes[i];
            match sigil {
                b'\\' if in_string => i += 1,
                b'"' => in_string = !in_string,
                b'#' | b'!' if !in_string => {
                    let len = bare_identifier(&text[i + 1..]).map_or(0, str::len);
                    let name = &text[i + 1..i + 1 + len];
                    if let Some((meaning, bytes)) = self.alias_text(sigil, name) {
                        self.charge_alias(bytes, at + i)?;
                        out.push_str(&text[done..i]);
                        out.push_str(&meaning);
                        done = i + 1 + len;
                    }
                    i += len;
                }
                _ => {}
            }
            i += 1;
        }
        out.push_str(&text[done..]);
        Ok(crate::text::tidy::tidy(&out).into())
    }

    fn alias_text(&self, sigil: u8, name: &str) -> Option<(String, usize)> {
        match sigil {
            b'!' => self.type_aliases.get(name).map(|a| (a.value.to_string(), a.bytes)),
            _ => self.attr_aliases.get(name).map(|a| (a.value.to_string(), a.bytes)),
        }
    }
}
