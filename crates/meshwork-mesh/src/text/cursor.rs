//! A position in a text, and the tokens of MLIR that sharding text is made of.
//!
//! The cursor borrows the whole text, so that a reader of a larger language can hand over at any offset and
//! take back [`Cursor::position`]. Every token skips white space and `//` comments before it. A failed
//! `eat` leaves the cursor before the token.

use thiserror::Error;

/// Where and why a text could not be read.
#[derive(Clone, PartialEq, Eq, Error)]
#[error("at byte {offset}: {message}")]
pub struct ParseError {
    /// Byte offset in the text of the cursor.
    pub offset: usize,
    /// What was expected, and what was found.
    pub message: String,
}

crate::debug_as_display!(ParseError);

impl ParseError {
    /// Line and column of the error in the text that was read, both from 1, columns in characters.
    pub fn line_column(&self, text: &str) -> (usize, usize) {
        let before = text.get(..self.offset.min(text.len())).unwrap_or(text);
        let line = before.bytes().filter(|&byte| byte == b'\n').count() + 1;
        let start = before.rfind('\n').map_or(0, |newline| newline + 1);
        (line, before[start..].chars().count() + 1)
    }
}

/// A position in a text.
///
/// ```
/// use meshwork_mesh::Cursor;
/// let text = r#"sdy.mesh @m = <["x"=2]> // two devices"#;
/// let mut cursor = Cursor::at(text, 14);
/// let mesh = cursor.parse_mesh()?;
/// assert_eq!((mesh.device_count(), cursor.position()), (2, 23));
/// # Ok::<(), meshwork_mesh::ParseError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Cursor<'a> {
    text: &'a str,
    position: usize,
}

impl<'a> Cursor<'a> {
    /// At the start of a text.
    pub fn new(text: &'a str) -> Self {
        Self { text, position: 0 }
    }

    /// At a byte offset of a text; past its end or inside a character counts as the end.
    pub fn at(text: &'a str, position: usize) -> Self {
        let position = if text.is_char_boundary(position) { position } else { text.len() };
        Self { text, position }
    }

    /// The byte offset reached.
    pub fn position(&self) -> usize {
        self.position
    }

    /// The rest of the text.
    pub fn rest(&self) -> &'a str {
        &self.text[self.position..]
    }

    /// Skips white space and comments.
    pub fn skip_trivia(&mut self) {
        loop {
            let rest = self.rest();
            let trimmed = rest.trim_start_matches([' ', '\t', '\n', '\r']);
            self.position += rest.len() - trimmed.len();
            if !trimmed.starts_with("//") {
                return;
            }
            self.position += trimmed.find('\n').unwrap_or(trimmed.len());
        }
    }

    /// The first character of the next token.
    pub fn peek(&mut self) -> Option<char> {
        self.skip_trivia();
        self.rest().chars().next()
    }

    /// Takes a punctuation mark if it is next.
    pub fn eat(&mut self, mark: char) -> bool {
        let found = self.peek() == Some(mark);
        if found {
            self.position += mark.len_utf8();
        }
        found
    }

    /// Takes a punctuation mark.
    pub fn expect(&mut self, mark: char) -> Result<(), ParseError> {
        if self.eat(mark) { Ok(()) } else { Err(self.expected(&format!("'{mark}'"))) }
    }

    /// Requires that nothing but white space and comments is left.
    pub fn expect_end(&mut self) -> Result<(), ParseError> {
        if self.peek().is_none() { Ok(()) } else { Err(self.expected("end of text")) }
    }

    /// Takes a keyword if one is next: a letter or `_`, then letters, digits, `_`, `$` and `.`.
    pub fn eat_any_keyword(&mut self) -> Option<&'a str> {
        self.skip_trivia();
        let word = bare_identifier(self.rest())?;
        self.position += word.len();
        Some(word)
    }

    /// Takes this keyword if it is next.
    pub fn eat_keyword(&mut self, keyword: &str) -> bool {
        self.skip_trivia();
        let found = bare_identifier(self.rest()) == Some(keyword);
        if found {
            self.position += keyword.len();
        }
        found
    }

    /// Takes this keyword.
    pub fn expect_keyword(&mut self, keyword: &str) -> Result<(), ParseError> {
        if self.eat_keyword(keyword) { Ok(()) } else { Err(self.expected(&format!("'{keyword}'"))) }
    }

    /// Takes the name of an attribute, such as `#sdy.mesh`, if it is next.
    pub fn eat_attribute(&mut self, name: &str) -> bool {
        self.skip_trivia();
        let rest = self.rest().strip_prefix('#');
        let found = rest.and_then(bare_identifier) == Some(name);
        if found {
            self.position += 1 + name.len();
        }
        found
    }

    /// Reads an integer, decimal or hexadecimal, with an optional minus.
    pub fn parse_integer(&mut self) -> Result<i64, ParseError> {
        let start = {
            self.skip_trivia();
            self.position
        };
        let negative = self.eat('-');
        self.skip_trivia();
        let rest = self.rest();
        let (digits, radix, prefix) = match rest.strip_prefix("0x") {
            Some(hex) if hex.starts_with(|c: char| c.is_ascii_hexdigit()) => (hex, 16, 2),
            _ => (rest, 10, 0),
        };
        let length = digits.find(|c: char| !c.is_digit(radix)).unwrap_or(digits.len());
        if length == 0 {
            return Err(self.expected("integer value"));
        }
        let value = i128::from_str_radix(&digits[..length], radix).unwrap_or(i128::MAX);
        let value = if negative { -value } else { value };
        let value = i64::try_from(value).map_err(|_| ParseError {
            offset: start,
            message: format!("integer value too large: {}", &digits[..length]),
        })?;
        self.position += prefix + length;
        Ok(value)
    }

    /// Reads a string in double quotes, with MLIR's escapes: `\"`, `\\`, `\n`, `\t` and two hex digits.
    pub fn parse_string(&mut self) -> Result<String, ParseError> {
        if self.peek() != Some('"') {
            return Err(self.expected("string"));
        }
        let start = self.position;
        let fail = |message: &str| ParseError { offset: start, message: message.to_owned() };
        let source = self.text.as_bytes();
        let mut bytes = Vec::new();
        let mut at = start + 1;
        loop {
            match source.get(at) {
                Some(b'"') => break,
                Some(b'\\') => {
                    let (byte, length) =
                        unescape(&source[at + 1..]).ok_or_else(|| fail("unknown escape in string literal"))?;
                    bytes.push(byte);
                    at += 1 + length;
                }
                None | Some(b'\n') => return Err(fail("expected '\"' in string literal")),
                Some(&byte) => {
                    bytes.push(byte);
                    at += 1;
                }
            }
        }
        self.position = at + 1;
        String::from_utf8(bytes).map_err(|_| fail("string literal is not UTF-8"))
    }

    /// Reads `@name` or `@"name"`, without the `@`.
    pub fn parse_symbol(&mut self) -> Result<String, ParseError> {
        if !self.eat('@') {
            return Err(self.expected("symbol such as '@mesh'"));
        }
        if self.rest().starts_with('"') {
            return self.parse_string();
        }
        let name = bare_identifier(self.rest());
        let name = name.ok_or_else(|| self.error("expected a name right after '@'"))?;
        self.position += name.len();
        Ok(name.to_owned())
    }

    /// Reads items separated by commas between two marks; possibly none.
    pub fn parse_list<T>(
        &mut self,
        open: char,
        close: char,
        item: impl FnMut(&mut Self) -> Result<T, ParseError>,
    ) -> Result<Vec<T>, ParseError> {
        self.expect(open)?;
        if self.eat(close) {
            return Ok(Vec::new());
        }
        let items = self.parse_items(item)?;
        self.expect(close)?;
        Ok(items)
    }

    /// Reads items separated by commas; at least one.
    pub fn parse_items<T>(
        &mut self,
        mut item: impl FnMut(&mut Self) -> Result<T, ParseError>,
    ) -> Result<Vec<T>, ParseError> {
        let mut items = vec![item(self)?];
        while self.eat(',') {
            items.push(item(self)?);
        }
        Ok(items)
    }

    /// An error at the cursor.
    pub fn error(&self, message: impl Into<String>) -> ParseError {
        ParseError { offset: self.position, message: message.into() }
    }

    /// The error that something else was expected at the next token.
    pub fn expected(&mut self, what: &str) -> ParseError {
        match self.peek() {
            Some(found) => self.error(format!("expected {what}, found '{}'", found.escape_debug())),
            None => self.error(format!("expected {what}, found the end of the text")),
        }
    }
}

/// The identifier that a text starts with.
pub fn bare_identifier(text: &str) -> Option<&str> {
    /// What may stand in an identifier.
    const INSIDE: [bool; 256] = {
        let mut inside = [false; 256];
        let mut b = 0;
        while b < 256 {
            inside[b] = (b as u8).is_ascii_alphanumeric() || matches!(b as u8, b'_' | b'$' | b'.');
            b += 1;
        }
        inside
    };
    text.bytes().next().filter(|&b| b.is_ascii_alphabetic() || b == b'_')?;
    Some(&text[..text.bytes().position(|b| !INSIDE[usize::from(b)]).unwrap_or(text.len())])
}

/// The byte that the escape after a backslash encodes, and the length of the escape.
pub fn unescape(rest: &[u8]) -> Option<(u8, usize)> {
    match rest {
        [mark @ (b'"' | b'\\'), ..] => Some((*mark, 1)),
        [b'n', ..] => Some((b'\n', 1)),
        [b't', ..] => Some((b'\t', 1)),
        [high, low, ..] => {
            let digit = |byte: u8| (byte as char).to_digit(16);
            Some(((digit(*high)? * 16 + digit(*low)?) as u8, 2))
        }
        _ => None,
    }
}
