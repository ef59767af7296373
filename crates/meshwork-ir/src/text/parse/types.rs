//! Types.

use std::sync::Arc;

use smallvec::SmallVec;

use super::{Parsed, Parser};
use crate::types::Dims;
use crate::{DYNAMIC, Diagnostic, ElementType, FunctionType, TensorType, Type};

/// A list of types; short ones need no allocation.
pub(super) type Types = SmallVec<[Type; 4]>;

/// What stands between `tensor<` and `>`.
enum Element {
    Known(ElementType),
    /// A type that tensors of this crate do not have.
    Foreign,
}

impl<'a> Parser<'a> {
    /// Reads a type.
    pub(super) fn ty(&mut self) -> Parsed<Type> {
        match self.lex.peek() {
            b'(' => self.nested(Self::function_type).map(|t| Type::Function(Arc::new(t))),
            b'!' => self.dialect_type(),
            _ => {
                let at = self.lex.pos();
                match self.lex.peek_word() {
                    Some("tensor") => self.tensor_type(),
                    Some(word) => self.named_type(word, at),
                    None => Err(self.lex.expected("a type")),
                }
            }
        }
    }

    /// Whether a type other than a function type starts here.
    pub(super) fn at_named_type(&mut self) -> bool {
        match self.lex.peek_word() {
            Some(word) => is_builtin_type(word),
            None => self.lex.peek() == b'!',
        }
    }

    fn named_type(&mut self, word: &'a str, at: usize) -> Parsed<Type> {
        if !is_builtin_type(word) {
            return Err(self.lex.expected("a type"));
        }
        self.lex.set_pos(at + word.len());
        if let Some(elem) = ElementType::from_text(word) {
            return Ok(Type::Scalar(elem));
        }
        match word {
            "none" => Ok(Type::None),
            "tuple" => {
                self.lex.expect(b'<')?;
                let parts: Vec<Type> = self.nested(|p| p.list_of(b'>', Self::ty))?;
                Ok(Type::Tuple(parts.into()))
            }
            "complex" => {
                self.lex.expect(b'<')?;
                let part = self.nested(Self::ty)?;
                self.lex.expect(b'>')?;
                Ok(match part {
                    Type::Scalar(ElementType::F32) => Type::Scalar(ElementType::C64),
                    Type::Scalar(ElementType::F64) => Type::Scalar(ElementType::C128),
                    other => Type::Opaque(format!("complex<{other}>").into()),
                })
            }
            "memref" | "vector" => self.opaque_type(at),
            // Integer widths and signs that have no element type here.
            _ => Ok(Type::Opaque(word.into())),
        }
    }

    /// Skips the `<...>` body at the offset and keeps everything from `at` as text.
    fn opaque_type(&mut self, at: usize) -> Parsed<Type> {
        if self.lex.byte(0) == b'<' {
            self.lex.skip_balanced()?;
        }
        let text = self.expand_aliases(at)?;
        Ok(Type::Opaque(text))
    }

    fn dialect_type(&mut self) -> Parsed<Type> {
        let at = self.lex.pos();
        self.lex.set_pos(at + 1);
        let Some(name) = self.lex.name_here() else { return Err(self.lex.expected("a type name right after '!'")) };
        if name == "stablehlo.token" {
            return Ok(Type::Token);
        }
        if let Some(kind) = name.strip_prefix("stablehlo.").filter(|&kind| kind != "future") {
            return Err(self.error(at, format!("StableHLO has no type '{kind}'")));
        }
        if name.starts_with("quant.") {
            if self.lex.byte(0) == b'<' {
                self.lex.skip_balanced()?;
            }
            return Err(self.quantized(at));
        }
        if !name.contains('.') && self.lex.byte(0) != b'<' {
            let Some(alias) = self.type_aliases.get(name) else {
                return Err(self.error(at, format!("type alias '!{name}' is not defined before")));
            };
            let (ty, bytes) = (alias.value.clone(), alias.bytes);
            self.charge_alias(bytes, at)?;
            return Ok(ty);
        }
        self.opaque_type(at)
    }

    fn quantized(&mut self, at: usize) -> Diagnostic {
        let text: String = self.lex.text_from(at).chars().take(80).collect();
        let whose = match self.subject {
            "" => String::new(),
            subject => format!(" (in the types of {subject})"),
        };
        Diagnostic::unsupported(self.lex.text_pos(at), format!("quantized type {text}{whose}"))
    }

    fn tensor_type(&mut self) -> Parsed<Type> {
        let at = self.lex.pos();
        if let Some(text) = self.plain_angle_text(at) {
            if let Some(ty) = self.tensor_types.get(text) {
                self.lex.set_pos(at + text.len());
                return Ok(ty.clone());
            }
            let ty = self.new_tensor_type(at)?;
            self.tensor_types.insert(text, ty.clone());
            return Ok(ty);
        }
        self.new_tensor_type(at)
    }

    /// The text `word<...>` at `at` if no alias, string or arrow in it could change where it ends or what it means.
    fn plain_angle_text(&self, at: usize) -> Option<&'a str> {
        let text = &self.lex.src()[at..];
        let mut open = 0usize;
        for (i, b) in text.bytes().enumerate() {
            match b {
                b'<' => open += 1,
                b'>' => {
                    open = open.checked_sub(1)?;
                    if open == 0 {
                        return Some(&text[..=i]);
                    }
                }
                b'"' | b'!' | b'#' | b'/' | b'-' | b'\n' => return None,
                _ => {}
            }
        }
        None
    }

    fn new_tensor_type(&mut self, at: usize) -> Parsed<Type> {
        self.lex.set_pos(at + "tensor".len());
        self.lex.expect(b'<')?;
        if self.lex.eat(b'*') {
            self.lex.set_pos(at + "tensor".len());
            return self.opaque_type(at);
        }
        let dims = self.dims_x()?;
        let element = self.nested(Self::element)?;
        let mut encoding = None;
        if self.lex.eat(b',') {
            self.lex.skip();
            let start = self.lex.pos();
            let attr = self.nested(Self::attr)?;
            // An alias is replaced by what it stands for; any other text is kept.
            let text = self.lex.text_from(start);
            let is_alias = text.starts_with('#') && !text.contains(['.', '<']);
            encoding = Some(if is_alias { attr.to_string().into() } else { self.expand_aliases(start)? });
        }
        self.lex.expect(b'>')?;
        match element {
            Element::Known(elem) => Ok(TensorType { dims, elem, encoding }.into()),
            Element::Foreign => Ok(Type::Opaque(self.expand_aliases(at)?)),
        }
    }

    /// Extents, each followed by `x`.
    fn dims_x(&mut self) -> Parsed<Dims> {
        let mut dims = Dims::new();
        loop {
            let at = {
                self.lex.skip();
                self.lex.pos()
            };
            if self.lex.eat(b'?') {
                dims.push(DYNAMIC);
            } else if self.lex.byte(0).is_ascii_digit() {
                // `0x2` is an extent of zero, not a hexadecimal number.
                let digits = self.lex.src()[at..].bytes().take_while(u8::is_ascii_digit).count();
                let extent = self.lex.src()[at..at + digits].parse::<i64>();
                dims.push(extent.map_err(|_| self.error(at, "this extent does not fit in 64 bits"))?);
                self.lex.set_pos(at + digits);
            } else {
                return Ok(dims);
            }
            if !self.lex.eat(b'x') {
                return Err(self.lex.expected("'x' after an extent"));
            }
        }
    }

    fn element(&mut self) -> Parsed<Element> {
        Ok(match self.ty()? {
            Type::Scalar(elem) => Element::Known(elem),
            _ => Element::Foreign,
        })
    }

    /// Reads `(types) -> types`.
    pub(super) fn function_type(&mut self) -> Parsed<FunctionType> {
        let inputs = self.paren_types()?.into_vec();
        self.lex.expect_str("->")?;
        Ok(FunctionType { inputs, results: self.result_types()?.into_vec() })
    }

    /// Reads `(type, type)`.
    pub(super) fn paren_types(&mut self) -> Parsed<Types> {
        self.lex.expect(b'(')?;
        self.list_of(b')', Self::ty)
    }

    /// Reads what follows an arrow: `type` or `(type, type)`.
    pub(super) fn result_types(&mut self) -> Parsed<Types> {
        match self.lex.peek() {
            b'(' => self.nested(Self::paren_types),
            _ => Ok(Types::from_elem(self.ty()?, 1)),
        }
    }

    /// Reads `type, type, ...`; at least one.
    pub(super) fn type_list(&mut self) -> Parsed<Types> {
        let mut types = Types::from_elem(self.ty()?, 1);
        while self.lex.eat(b',') {
            types.push(self.ty()?);
        }
        Ok(types)
    }
}

fn is_builtin_type(word: &str) -> bool {
    let is_int = |text: &str| {
        text.strip_prefix('i').is_some_and(|w| !w.is_empty() && w.len() < 8 && w.bytes().all(|b| b.is_ascii_digit()))
    };
    ElementType::from_text(word).is_some()
        || matches!(word, "tensor" | "tuple" | "complex" | "memref" | "vector" | "none" | "f80" | "f128")
        || is_int(word)
        || word.strip_prefix(['s', 'u']).is_some_and(is_int)
}
