//! Locations: `loc("file":1:2)` and its variants.

use std::sync::Arc;

use super::{Located, Parsed, Parser};
use crate::{Loc, LocKind};

/// A location as it is read.
pub(super) enum ReadLoc<'a> {
    Known(Loc),
    /// An alias, written at this offset, that is defined further down.
    Later(&'a str, usize),
}

impl<'a> Parser<'a> {
    /// Reads `loc(...)` if it is next.
    pub(super) fn optional_loc(&mut self) -> Parsed<Option<ReadLoc<'a>>> {
        if self.lex.peek() != b'l' || !self.lex.eat_word("loc") {
            return Ok(None);
        }
        self.lex.expect(b'(')?;
        self.lex.skip();
        let at = self.lex.pos();
        if self.lex.byte(0) == b'#' {
            self.lex.set_pos(at + 1);
            if let Some(name) = self.lex.name_here()
                && !name.contains('.')
                && self.lex.eat(b')')
            {
                return if self.loc_aliases.contains_key(name) {
                    Ok(Some(ReadLoc::Known(self.loc_alias(name, at)?)))
                } else {
                    Ok(Some(ReadLoc::Later(name, at)))
                };
            }
            self.lex.set_pos(at);
        }
        let loc = self.loc_body()?;
        self.lex.expect(b')')?;
        Ok(Some(ReadLoc::Known(loc)))
    }

    /// The location that was read for `target`; one that is not known yet is filled in at the end of the file.
    pub(super) fn place_loc(&mut self, loc: ReadLoc<'a>, target: Located) -> Loc {
        match loc {
            ReadLoc::Known(loc) => loc,
            ReadLoc::Later(name, at) => {
                self.later_locs.push((target, name, at));
                Loc::unknown()
            }
        }
    }

    /// The location that `#name` stands for.
    pub(super) fn loc_alias(&mut self, name: &str, at: usize) -> Parsed<Loc> {
        let Some(alias) = self.loc_aliases.get(name) else {
            return Err(self.error(at, format!("location alias '#{name}' is not defined")));
        };
        let (loc, bytes) = (alias.value.clone(), alias.bytes);
        self.charge_alias(bytes, at)?;
        Ok(loc)
    }

    /// Reads what stands between the parentheses of `loc(...)`.
    pub(super) fn loc_body(&mut self) -> Parsed<Loc> {
        self.nested(Self::loc_inner)
    }

    fn loc_inner(&mut self) -> Parsed<Loc> {
        let first = self.lex.peek();
        let at = self.lex.pos();
        let kind = match first {
            b'"' => self.named_loc(at)?,
            b'#' => {
                self.lex.set_pos(at + 1);
                let name = self.lex.name_here().unwrap_or("");
                if !name.is_empty() && !name.contains('.') && self.lex.byte(0) != b'<' {
                    return self.loc_alias(name, at);
                }
                if self.lex.byte(0) == b'<' {
                    self.lex.skip_balanced()?;
                }
                LocKind::Opaque(self.expand_aliases(at)?.as_str().into())
            }
            _ => match self.lex.eat_any_word() {
                Some("unknown") => return Ok(Loc::unknown()),
                Some("loc") => {
                    self.lex.expect(b'(')?;
                    let inner = self.loc_body()?;
                    self.lex.expect(b')')?;
                    return Ok(inner);
                }
                Some("callsite") => {
                    self.lex.expect(b'(')?;
                    let callee = self.loc_body()?;
                    self.lex.expect_word("at")?;
                    let caller = self.loc_body()?;
                    self.lex.expect(b')')?;
                    LocKind::CallSite { callee, caller }
                }
                Some("fused") => {
                    let mut metadata = None;
                    if self.lex.eat(b'<') {
                        self.lex.skip();
                        metadata = Some(self.attr()?.to_string().into());
                        self.lex.expect(b'>')?;
                    }
                    self.lex.expect(b'[')?;
                    LocKind::Fused(self.list_of(b']', Self::loc_body)?, metadata)
                }
                _ => {
                    self.lex.set_pos(at);
                    return Err(self.lex.expected("a location"));
                }
            },
        };
        Ok(kind.into())
    }

    /// `"file":1:2`, `"file":1:2 to 3:4`, `"name"` or `"name"(location)`.
    fn named_loc(&mut self, at: usize) -> Parsed<LocKind> {
        let raw = self.lex.raw_string()?;
        if self.lex.peek() != b':' {
            self.lex.set_pos(at);
            let name: Arc<str> = self.lex.string()?.as_ref().into();
            let mut child = None;
            if self.lex.eat(b'(') {
                child = Some(self.loc_body()?);
                self.lex.expect(b')')?;
            }
            return Ok(LocKind::Name { name, child });
        }
        self.lex.expect(b':')?;
        let line = self.lex.int()?;
        self.lex.expect(b':')?;
        let col = self.lex.int()?;
        let fit = |p: &mut Self, line: i64, col: i64| match (u32::try_from(line), u32::try_from(col)) {
            (Ok(line), Ok(col)) => Ok((line, col)),
            _ => Err(p.error(at, format!("line {line}, column {col} is not a place in a file"))),
        };
        let mut to = None;
        if self.lex.eat_word("to") {
            let end_line = if self.lex.peek() == b':' { line } else { self.lex.int()? };
            self.lex.expect(b':')?;
            let end_col = self.lex.int()?;
            to = Some(fit(self, end_line, end_col)?);
        }
        let (line, col) = fit(self, line, col)?;
        let file = match self.files.get(raw) {
            Some(file) => file.clone(),
            None => {
                let end = self.lex.pos();
                self.lex.set_pos(at);
                let file: Arc<str> = self.lex.string()?.as_ref().into();
                self.lex.set_pos(end);
                self.files.insert(raw, file.clone());
                file
            }
        };
        Ok(LocKind::File { file, line, col, to })
    }
}
