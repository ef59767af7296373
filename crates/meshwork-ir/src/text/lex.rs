//! Tokens of MLIR text, read on demand from a byte offset.
//!
//! There is no token list: the grammar always knows what may come next, so each reader skips white space and
//! comments, looks at one byte and takes what it wants. A failed `eat` leaves the offset after the white space.
//! All marks that matter are ASCII, so byte offsets reached this way are always character boundaries.

use std::borrow::Cow;

use meshwork_mesh::{bare_identifier, unescape};

use crate::{Diagnostic, TextPos};

/// A place in a text.
pub(crate) struct Lexer<'a> {
    src: &'a str,
    bytes: &'a [u8],
    pos: usize,
    /// The start of the line asked for last: offset and line number. Lines are asked for in order, so that
    /// counting newlines costs one pass over the text.
    line: (usize, u32),
}

/// An integer as it is written: sign and magnitude.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct IntLit {
    pub negative: bool,
    pub magnitude: u64,
    pub hex: bool,
}

/// A number as it is written.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Number {
    Int(IntLit),
    Float(f64),
}

impl IntLit {
    /// The value, if it fits.
    pub fn to_i64(self) -> Option<i64> {
        if self.negative {
            (self.magnitude <= 1 << 63).then_some((self.magnitude as i64).wrapping_neg())
        } else {
            i64::try_from(self.magnitude).ok()
        }
    }
}

/// Bytes of names after `%` and `^`.
fn is_suffix(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$' | b'.' | b'-')
}

impl<'a> Lexer<'a> {
    pub fn new(src: &'a str) -> Self {
        Lexer { src, bytes: src.as_bytes(), pos: 0, line: (0, 1) }
    }

    pub fn src(&self) -> &'a str {
        self.src
    }

    /// The offset reached.
    pub fn pos(&self) -> usize {
        self.pos
    }

    /// Goes to an offset that this lexer (or one over the same text) has reached before.
    pub fn set_pos(&mut self, pos: usize) {
        self.pos = pos;
    }

    /// The text from `start` to here.
    pub fn text_from(&self, start: usize) -> &'a str {
        self.src.get(start..self.pos).unwrap_or("")
    }

    /// Line and column of `at`.
    pub fn text_pos(&mut self, at: usize) -> TextPos {
        let at = at.min(self.bytes.len());
        if at < self.line.0 {
            self.line = (0, 1);
        }
        let (start, line) = self.line;
        let passed = &self.bytes[start..at];
        if let Some(last) = passed.iter().rposition(|&b| b == b'\n') {
            let count = passed[..=last].iter().filter(|&&b| b == b'\n').count();
            self.line = (start + last + 1, line.saturating_add(u32::try_from(count).unwrap_or(u32::MAX)));
        }
        let (start, line) = self.line;
        TextPos { line, col: u32::try_from(at - start + 1).unwrap_or(u32::MAX) }
    }

    /// An error at offset `at`.
    pub fn error(&mut self, at: usize, message: impl Into<String>) -> Diagnostic {
        Diagnostic::error(self.text_pos(at), message)
    }

    /// The error that `what` was expected at the next token.
    pub fn expected(&mut self, what: &str) -> Diagnostic {
        self.skip();
        let found = self.describe_next();
        self.error(self.pos, format!("expected {what}, found {found}"))
    }

    fn describe_next(&self) -> String {
        let rest = &self.src[self.pos.min(self.src.len())..];
        let Some(first) = rest.chars().next() else { return "the end of the text".into() };
        let named = matches!(first, '%' | '@' | '#' | '!' | '^') || first.is_ascii_alphanumeric() || first == '_';
        let len = if named {
            1 + rest.bytes().skip(1).take(40).take_while(|&b| is_suffix(b)).count()
        } else {
            first.len_utf8()
        };
        format!("'{}'", rest[..len].escape_debug())
    }

    /// Skips white space and comments.
    pub fn skip(&mut self) {
        while let Some(&b) = self.bytes.get(self.pos) {
            match b {
                b' ' | b'\n' | b'\t' | b'\r' => self.pos += 1,
                b'/' if self.bytes.get(self.pos + 1) == Some(&b'/') => {
                    let rest = &self.bytes[self.pos..];
                    self.pos += rest.iter().position(|&b| b == b'\n').unwrap_or(rest.len());
                }
                _ => return,
            }
        }
    }

    /// The first byte of the next token; 0 at the end.
    pub fn peek(&mut self) -> u8 {
        self.skip();
        self.byte(0)
    }

    /// The byte `ahead` of the offset, without skipping; 0 past the end.
    pub fn byte(&self, ahead: usize) -> u8 {
        self.bytes.get(self.pos + ahead).copied().unwrap_or(0)
    }

    pub fn at_end(&mut self) -> bool {
        self.skip();
        self.pos >= self.bytes.len()
    }

    /// Takes a mark if it is next.
    pub fn eat(&mut self, mark: u8) -> bool {
        let found = self.peek() == mark;
        self.pos += usize::from(found);
        found
    }

    /// Takes a mark.
    pub fn expect(&mut self, mark: u8) -> Result<(), Diagnostic> {
        if self.eat(mark) { Ok(()) } else { Err(self.expected(&format!("'{}'", mark as char))) }
    }

    /// Takes a mark of several bytes, `->` or `::`, if it is next.
    pub fn eat_str(&mut self, mark: &str) -> bool {
        self.skip();
        let found = self.bytes[self.pos..].starts_with(mark.as_bytes());
        self.pos += if found { mark.len() } else { 0 };
        found
    }

    /// Takes a mark of several bytes.
    pub fn expect_str(&mut self, mark: &str) -> Result<(), Diagnostic> {
        if self.eat_str(mark) { Ok(()) } else { Err(self.expected(&format!("'{mark}'"))) }
    }

    /// The keyword that is next, not taken.
    pub fn peek_word(&mut self) -> Option<&'a str> {
        self.skip();
        bare_identifier(self.src.get(self.pos..)?)
    }

    /// Takes a keyword if one is next.
    pub fn eat_any_word(&mut self) -> Option<&'a str> {
        let word = self.peek_word()?;
        self.pos += word.len();
        Some(word)
    }

    /// Takes this keyword if it is next.
    pub fn eat_word(&mut self, word: &str) -> bool {
        let found = self.peek_word() == Some(word);
        self.pos += if found { word.len() } else { 0 };
        found
    }

    /// Takes this keyword.
    pub fn expect_word(&mut self, word: &str) -> Result<(), Diagnostic> {
        if self.eat_word(word) { Ok(()) } else { Err(self.expected(&format!("'{word}'"))) }
    }

    /// The name directly at the offset, as after `#`, `!` or `@`: a letter or `_`, then letters, digits, `_$.`.
    pub fn name_here(&mut self) -> Option<&'a str> {
        let name = bare_identifier(self.src.get(self.pos..)?)?;
        self.pos += name.len();
        Some(name)
    }

    /// Takes `%name` or `^name` (given by its sigil) and returns it with the sigil.
    pub fn eat_sigil(&mut self, sigil: u8) -> Option<&'a str> {
        if self.peek() != sigil {
            return None;
        }
        let rest = &self.bytes[self.pos + 1..];
        let len = match rest.first() {
            Some(b) if b.is_ascii_digit() => rest.iter().take_while(|b| b.is_ascii_digit()).count(),
            _ => rest.iter().take_while(|&&b| is_suffix(b)).count(),
        };
        if len == 0 {
            return None;
        }
        let name = &self.src[self.pos..self.pos + 1 + len];
        self.pos += name.len();
        Some(name)
    }

    /// Reads an integer.
    pub fn int(&mut self) -> Result<i64, Diagnostic> {
        self.skip();
        let at = self.pos;
        match self.number()? {
            Number::Int(lit) => lit.to_i64().ok_or_else(|| self.error(at, "integer does not fit in 64 bits")),
            Number::Float(_) => Err(self.error(at, format!("expected an integer, found '{}'", self.text_from(at)))),
        }
    }

    /// Reads a number with an optional minus.
    pub fn number(&mut self) -> Result<Number, Diagnostic> {
        self.skip();
        let at = self.pos;
        let negative = self.eat(b'-');
        if negative {
            self.skip();
        }
        let start = self.pos;
        if !self.byte(0).is_ascii_digit() {
            self.pos = at;
            return Err(self.expected("a number"));
        }
        if self.byte(0) == b'0' && self.byte(1) == b'x' && self.byte(2).is_ascii_hexdigit() {
            self.pos += 2;
            let mut magnitude = 0u64;
            while let Some(digit) = (self.byte(0) as char).to_digit(16) {
                if magnitude >> 60 != 0 {
                    return Err(self.error(at, "hexadecimal integer does not fit in 64 bits"));
                }
                magnitude = magnitude << 4 | u64::from(digit);
                self.pos += 1;
            }
            return Ok(Number::Int(IntLit { negative, magnitude, hex: true }));
        }
        let mut magnitude = Some(0u64);
        while self.byte(0).is_ascii_digit() {
            let digit = u64::from(self.byte(0) - b'0');
            magnitude = magnitude.and_then(|m| m.checked_mul(10)?.checked_add(digit));
            self.pos += 1;
        }
        if self.byte(0) != b'.' {
            let magnitude = magnitude.ok_or_else(|| self.error(at, "integer does not fit in 64 bits"))?;
            return Ok(Number::Int(IntLit { negative, magnitude, hex: false }));
        }
        self.pos += 1;
        self.eat_digits();
        if matches!(self.byte(0), b'e' | b'E') {
            let sign = usize::from(matches!(self.byte(1), b'+' | b'-'));
            if self.byte(1 + sign).is_ascii_digit() {
                self.pos += 1 + sign;
                self.eat_digits();
            }
        }
        match self.text_from(start).parse::<f64>() {
            Ok(v) => Ok(Number::Float(if negative { -v } else { v })),
            Err(_) => Err(self.error(at, format!("'{}' is not a floating-point number", self.text_from(at)))),
        }
    }

    fn eat_digits(&mut self) {
        while self.byte(0).is_ascii_digit() {
            self.pos += 1;
        }
    }

    /// Takes a string in double quotes and returns what is between them, escapes not replaced.
    pub fn raw_string(&mut self) -> Result<&'a str, Diagnostic> {
        if self.peek() != b'"' {
            return Err(self.expected("a string in double quotes"));
        }
        let start = self.pos + 1;
        let mut at = start;
        loop {
            match self.bytes.get(at) {
                Some(b'"') => break,
                Some(b'\\') => at += 2,
                None | Some(b'\n') => {
                    let start = self.pos;
                    return Err(self.error(start, "this string has no closing '\"' on its line"));
                }
                Some(_) => at += 1,
            }
        }
        self.pos = at + 1;
        Ok(&self.src[start..at])
    }

    /// Reads a string in double quotes; its bytes are not UTF-8 in the `Err` case of the inner result.
    pub fn string_bytes(&mut self) -> Result<Result<Cow<'a, str>, Vec<u8>>, Diagnostic> {
        let raw = self.raw_string()?;
        if !raw.contains('\\') {
            return Ok(Ok(Cow::Borrowed(raw)));
        }
        let end = self.pos;
        let mut out = Vec::with_capacity(raw.len());
        let mut rest = raw.as_bytes();
        while let Some((&b, tail)) = rest.split_first() {
            if b != b'\\' {
                out.push(b);
                rest = tail;
                continue;
            }
            let (byte, len) = unescape(tail).ok_or_else(|| {
                self.error(
                    end - 1 - rest.len(),
                    "unknown escape in string; escapes are \\n, \\t, \\\", \\\\ and two hex digits",
                )
            })?;
            out.push(byte);
            rest = &tail[len..];
        }
        Ok(String::from_utf8(out).map(Cow::Owned).map_err(|e| e.into_bytes()))
    }

    /// Reads a string in double quotes that must be UTF-8.
    pub fn string(&mut self) -> Result<Cow<'a, str>, Diagnostic> {
        self.skip();
        let at = self.pos;
        self.string_bytes()?.map_err(|_| self.error(at, "this string is not UTF-8"))
    }

    /// Reads `@name` or `@"name"`, without the `@`.
    pub fn symbol(&mut self) -> Result<Cow<'a, str>, Diagnostic> {
        if self.peek() != b'@' {
            return Err(self.expected("a symbol such as '@main'"));
        }
        self.pos += 1;
        if self.byte(0) == b'"' {
            return self.string();
        }
        match self.name_here() {
            Some(name) => Ok(Cow::Borrowed(name)),
            None => Err(self.expected("a name right after '@'")),
        }
    }

    /// Skips a balanced body that starts with the bracket at the offset; stops after the closing one.
    pub fn skip_balanced(&mut self) -> Result<(), Diagnostic> {
        let start = self.pos;
        let mut open: Vec<u8> = vec![];
        loop {
            let Some(&b) = self.bytes.get(self.pos) else {
                return Err(self.error(start, format!("'{}' is never closed", self.bytes[start] as char)));
            };
            match b {
                b'<' => open.push(b'>'),
                b'[' => open.push(b']'),
                b'(' => open.push(b')'),
                b'{' => open.push(b'}'),
                b'-' if self.byte(1) == b'>' => self.pos += 1,
                b'"' => {
                    self.raw_string()?;
                    continue;
                }
                b'/' if self.byte(1) == b'/' => {
                    self.skip();
                    continue;
                }
                b'>' | b']' | b')' | b'}' => {
                    if open.pop() != Some(b) {
                        let at = self.pos;
                        return Err(self.error(at, format!("'{}' does not match what is open", b as char)));
                    }
                    if open.is_empty() {
                        self.pos += 1;
                        return Ok(());
                    }
                }
                _ => {}
            }
            self.pos += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers() {
        let read = |text| Lexer::new(text).number();
        assert_eq!(read("-12").unwrap(), Number::Int(IntLit { negative: true, magnitude: 12, hex: false }));
        assert_eq!(read("0xfF").unwrap(), Number::Int(IntLit { negative: false, magnitude: 255, hex: true }));
        assert_eq!(read("0x").unwrap(), Number::Int(IntLit { negative: false, magnitude: 0, hex: false }));
        assert_eq!(read("1.5e-1").unwrap(), Number::Float(0.15));
        assert_eq!(read("-2.").unwrap(), Number::Float(-2.0));
        assert!(read("99999999999999999999").is_err());
        assert!(read("x").is_err());
    }

    #[test]
    fn positions_count_lines_once_and_go_back() {
        let mut lex = Lexer::new("a\nbc\n d");
        assert_eq!(lex.text_pos(6), TextPos { line: 3, col: 2 });
        assert_eq!(lex.text_pos(3), TextPos { line: 2, col: 2 });
        assert_eq!(lex.text_pos(99), TextPos { line: 3, col: 3 });
    }

    #[test]
    fn strings() {
        assert_eq!(Lexer::new(r#""a\0Ab\"""#).string().unwrap(), "a\nb\"");
        assert!(Lexer::new(r#""\FF""#).string().is_err());
        assert!(Lexer::new("\"a\nb\"").string().is_err());
        assert!(Lexer::new("\"a\\").string().is_err());
    }

    #[test]
    fn balanced_bodies_know_strings_and_arrows() {
        let mut lex = Lexer::new(r#"<(a) -> [b, ">"]> tail"#);
        lex.skip_balanced().unwrap();
        assert_eq!(lex.byte(1), b't');
        assert!(Lexer::new("<(>)").skip_balanced().is_err());
    }
}
