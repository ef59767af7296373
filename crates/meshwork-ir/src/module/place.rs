//! The name and source position of an operation, for messages that outlive the module.

use std::fmt;

use super::{Module, OpId};
use crate::{Diagnostic, Severity, TextPos};

/// An operation's name and place.
///
/// Shown, it names both: `'stablehlo.add' at line 3, column 8`.
#[derive(Clone, PartialEq, Eq)]
pub struct OpPlace(Box<Parts>);

#[derive(Clone, PartialEq, Eq)]
struct Parts {
    name: String,
    /// `file:line:column` of the user's own source, where the program records it.
    source: Option<String>,
    pos: TextPos,
}

impl OpPlace {
    /// Its position in the program's text; line 0 if the program did not come from text.
    pub fn pos(&self) -> TextPos {
        self.0.pos
    }

    /// `message` about the operation, at its place in the text.
    pub fn diagnostic(&self, severity: Severity, message: impl fmt::Display) -> Diagnostic {
        let Parts { name, source, pos } = &*self.0;
        let message = match source {
            Some(source) => format!("{name} at {source}: {message}"),
            None => format!("{name}: {message}"),
        };
        Diagnostic { severity, ..Diagnostic::error(*pos, message) }
    }
}

impl Module {
    /// Name and place of `op`.
    pub fn place(&self, op: OpId) -> OpPlace {
        let op = self.op(op);
        let source = op.loc.source().map(|(file, line, col)| format!("{file}:{line}:{col}"));
        OpPlace(Box::new(Parts { name: format!("'{}'", op.name()), source, pos: op.pos }))
    }

    /// Name and place of `op` in words.
    pub fn describe(&self, op: OpId) -> String {
        self.place(op).to_string()
    }
}

/// Something without a position in a text.
impl From<&str> for OpPlace {
    fn from(name: &str) -> OpPlace {
        OpPlace(Box::new(Parts { name: name.into(), source: None, pos: TextPos::default() }))
    }
}

impl fmt::Display for OpPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Parts { name, source, pos } = &*self.0;
        match (source, pos.line) {
            (Some(source), _) => write!(f, "{name} at {source}"),
            (None, 0) => f.write_str(name),
            (None, line) => write!(f, "{name} at line {line}, column {}", pos.col),
        }
    }
}

impl fmt::Debug for OpPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.to_string(), f)
    }
}
