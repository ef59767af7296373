//! The `{-# ... #-}` section at the end of a file, which holds large constants.

use super::dense::hex_bytes;
use super::{Parsed, Parser};
use crate::hash::HashMap;

/// A resource as it is written: hexadecimal digits, the first four bytes an alignment.
#[derive(Clone, Copy)]
pub(super) struct Blob<'a> {
    digits: &'a str,
    at: usize,
}

impl<'a> Parser<'a> {
    /// The bytes of resource `name`; `None` if the file has none of that name.
    pub(super) fn resource(&mut self, name: &str) -> Parsed<Option<Vec<u8>>> {
        if self.resources.is_none() {
            let here = self.lex.pos();
            // The section stands after its uses. Text that only looks like it is left for the file's own turn.
            if let Some(start) = self.lex.src().rfind("{-#") {
                self.lex.set_pos(start);
                let _ = self.file_metadata();
            }
            self.resources.get_or_insert_default();
            self.lex.set_pos(here);
        }
        let Some(&blob) = self.resources.as_ref().and_then(|r| r.get(name)) else { return Ok(None) };
        match blob.digits.strip_prefix("0x").and_then(hex_bytes) {
            Some(bytes) if bytes.len() >= 4 => Ok(Some(bytes[4..].to_vec())),
            _ => Err(self.error(blob.at, format!("resource '{name}' is not '0x' followed by an alignment and bytes"))),
        }
    }

    /// Reads `{-# dialect_resources: { dialect: { name: "0x..." } }, external_resources: {...} #-}`.
    pub(super) fn file_metadata(&mut self) -> Parsed<()> {
        self.lex.expect_str("{-#")?;
        let mut found = HashMap::default();
        while !self.lex.eat_str("#-}") {
            let Some(section) = self.lex.eat_any_word() else {
                return Err(self.lex.expected("a section name or '#-}'"));
            };
            self.lex.expect(b':')?;
            self.lex.expect(b'{')?;
            self.list_until(b'}', |p| {
                p.resource_key()?;
                p.lex.expect(b':')?;
                p.lex.expect(b'{')?;
                p.list_until(b'}', |p| {
                    let name = p.resource_key()?;
                    p.lex.expect(b':')?;
                    p.lex.skip();
                    let at = p.lex.pos();
                    match p.lex.byte(0) {
                        b'"' => {
                            let digits = p.lex.raw_string()?;
                            if section == "dialect_resources" {
                                found.insert(name, Blob { digits, at });
                            }
                        }
                        // Values of other sections may be booleans, numbers or keywords.
                        _ if p.lex.eat_any_word().is_some() => {}
                        _ => drop(p.lex.int()?),
                    }
                    Ok(())
                })
            })?;
            self.lex.eat(b',');
        }
        self.resources = Some(found);
        Ok(())
    }

    fn resource_key(&mut self) -> Parsed<String> {
        match self.lex.peek() {
            b'"' => Ok(self.lex.string()?.into_owned()),
            _ => match self.lex.eat_any_word() {
                Some(word) => Ok(word.to_string()),
                None => Err(self.lex.expected("the name of a resource")),
            },
        }
    }
}
