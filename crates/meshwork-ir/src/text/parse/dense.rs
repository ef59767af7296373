//! `dense<...>` and `dense_resource<...>` constants.
//!
//! The type stands after the elements, so the elements are skipped first and read when it is known. A splat stays
//! one element however large its type is; a list takes memory in proportion to its text.

use std::sync::Arc;

use super::super::lex::Number;
use super::{Parsed, Parser};
use crate::{Attr, Dense, DenseData, ElementClass, ElementType, TensorType, Type};

impl<'a> Parser<'a> {
    /// Reads `dense<...> : type` and returns it with the type.
    pub(super) fn dense(&mut self) -> Parsed<(Attr, Type)> {
        self.lex.skip();
        let at = self.lex.pos();
        self.lex.expect_word("dense")?;
        if self.lex.peek() != b'<' {
            return Err(self.lex.expected("'<'"));
        }
        let open = self.lex.pos();
        self.lex.skip_balanced()?;
        self.lex.expect(b':')?;
        let ty = self.ty()?;
        let end = self.lex.pos();
        let Type::Tensor(tensor) = &ty else {
            return match ty {
                Type::Opaque(_) => Ok((Attr::Opaque(self.expand_aliases(at)?), ty)),
                other => Err(self.error(at, format!("a dense constant cannot have type {other}"))),
            };
        };
        if !tensor.is_static() {
            return Err(self.error(at, format!("a dense constant needs known extents, found {ty}")));
        }
        self.lex.set_pos(open + 1);
        let data = self.elements(tensor)?;
        self.lex.set_pos(end);
        Ok((Attr::Dense(Arc::new(Dense { ty: tensor.clone(), data })), ty))
    }

    /// Reads `dense_resource<name> : type` and returns it with the type.
    pub(super) fn dense_resource(&mut self) -> Parsed<(Attr, Type)> {
        self.lex.skip();
        let at = self.lex.pos();
        self.lex.expect_word("dense_resource")?;
        self.lex.expect(b'<')?;
        let name = match self.lex.peek() {
            b'"' => self.lex.string()?.into_owned(),
            _ => match self.lex.eat_any_word() {
                Some(word) => word.to_string(),
                None => return Err(self.lex.expected("the name of a resource")),
            },
        };
        self.lex.expect(b'>')?;
        self.lex.expect(b':')?;
        let ty = self.ty()?;
        let Type::Tensor(tensor) = &ty else { return Ok((Attr::Opaque(self.expand_aliases(at)?), ty)) };
        let data = match self.resource(&name)? {
            Some(bytes) => self.blob(&bytes, tensor, at)?,
            None => DenseData::Resource(name.into()),
        };
        Ok((Attr::Dense(Arc::new(Dense { ty: tensor.clone(), data })), ty))
    }

    /// Reads the elements and the closing `>`.
    fn elements(&mut self, ty: &TensorType) -> Parsed<DenseData> {
        let at = self.lex.pos();
        let data = match self.lex.peek() {
            b'>' => {
                if ty.num_elements() != Some(0) {
                    return Err(self.error(at, format!("no elements are given for {ty}")));
                }
                DenseData::Full([].into())
            }
            b'"' => {
                let at = self.lex.pos();
                let text = self.lex.raw_string()?;
                let Some(bytes) = text.strip_prefix("0x").and_then(hex_bytes) else {
                    return Err(self.error(at, "expected elements as '0x' and pairs of hexadecimal digits"));
                };
                self.blob(&bytes, ty, at)?
            }
            b'[' => {
                let mut out = vec![];
                self.element_lists(ty, &mut out)?;
                DenseData::of_elements(&out, ty.elem)
            }
            _ => {
                let mut out = vec![];
                self.element_value(ty.elem, &mut out)?;
                DenseData::Splat(out.into())
            }
        };
        self.lex.expect(b'>')?;
        Ok(data)
    }

    /// Reads nested lists whose lengths must be the extents of `ty`.
    fn element_lists(&mut self, ty: &TensorType, out: &mut Vec<u8>) -> Parsed<()> {
        let at = self.lex.pos();
        // Number of items read so far in each open list.
        let mut open: Vec<i64> = vec![];
        loop {
            if self.lex.eat(b'[') {
                if open.len() == ty.rank() {
                    return Err(self.error(at, format!("lists nest deeper than the {} dimensions of {ty}", ty.rank())));
                }
                open.push(0);
                if self.lex.peek() != b']' {
                    continue;
                }
            } else {
                if open.len() != ty.rank() {
                    let here = self.lex.pos();
                    let message = format!("an element at nesting {} for {ty} of rank {}", open.len(), ty.rank());
                    return Err(self.error(here, message));
                }
                self.element_value(ty.elem, out)?;
                count(&mut open);
            }
            // Close as many lists as end here.
            loop {
                if self.lex.eat(b',') {
                    if self.lex.peek() == b']' {
                        return Err(self.lex.expected("an element after ','"));
                    }
                    break;
                }
                self.lex.expect(b']')?;
                let (depth, found) = (open.len() - 1, open.pop().unwrap_or(0));
                let want = ty.dims[depth];
                // An empty list stands for everything below it.
                if found != want && !(found == 0 && ty.num_elements() == Some(0)) {
                    let message = format!("{found} items are given for dimension {depth} of {ty}");
                    return Err(self.error(at, message));
                }
                if open.is_empty() {
                    return Ok(());
                }
                count(&mut open);
            }
        }
    }

    /// Reads one element and appends its bytes.
    fn element_value(&mut self, elem: ElementType, out: &mut Vec<u8>) -> Parsed<()> {
        let first = self.lex.peek();
        let at = self.lex.pos();
        match elem.class() {
            ElementClass::Complex => {
                self.lex.expect(b'(')?;
                self.float_element(elem.real_part(), out)?;
                self.lex.expect(b',')?;
                self.float_element(elem.real_part(), out)?;
                self.lex.expect(b')')
            }
            ElementClass::Float => self.float_element(elem, out),
            ElementClass::Bool if !first.is_ascii_digit() => {
                let value = match self.lex.eat_any_word() {
                    Some("true") => 1,
                    Some("false") => 0,
                    _ => {
                        self.lex.set_pos(at);
                        return Err(self.lex.expected("'true' or 'false'"));
                    }
                };
                out.push(value);
                Ok(())
            }
            ElementClass::Bool | ElementClass::Signed | ElementClass::Unsigned => {
                let value = match self.lex.number()? {
                    Number::Int(lit) => self.int_value(lit, elem, at)?,
                    Number::Float(_) => {
                        return Err(self.error(at, format!("expected an integer element for {elem}")));
                    }
                };
                out.extend_from_slice(&value.to_le_bytes()[..elem.storage_bytes()]);
                Ok(())
            }
        }
    }

    fn float_element(&mut self, elem: ElementType, out: &mut Vec<u8>) -> Parsed<()> {
        self.lex.skip();
        let at = self.lex.pos();
        let number = self.lex.number()?;
        let bits = self.float_bits(number, elem, at)?;
        out.extend_from_slice(&bits.to_le_bytes()[..elem.storage_bytes()]);
        Ok(())
    }

    /// Elements given as bytes: all of them, or one for all.
    fn blob(&mut self, bytes: &[u8], ty: &TensorType, at: usize) -> Parsed<DenseData> {
        let message = || format!("{} bytes of elements do not make a {ty}", bytes.len());
        DenseData::from_raw(bytes, ty).ok_or_else(|| self.error(at, message()))
    }
}

fn count(open: &mut [i64]) {
    if let Some(last) = open.last_mut() {
        *last += 1;
    }
}

/// Bytes from pairs of hexadecimal digits.
pub(super) fn hex_bytes(text: &str) -> Option<Vec<u8>> {
    let digit = |b: u8| match b {
        b'0'..=b'9' => Some(b - b'0'),
        b'a'..=b'f' => Some(b - b'a' + 10),
        b'A'..=b'F' => Some(b - b'A' + 10),
        _ => None,
    };
    if !text.len().is_multiple_of(2) {
        return None;
    }
    text.as_bytes().chunks_exact(2).map(|p| Some(digit(p[0])? << 4 | digit(p[1])?)).collect()
}
