//! Diagnostics: what is wrong with a program, where, and how bad.

use std::fmt;

use crate::{Op, TextPos};

/// How bad a diagnostic is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub enum Severity {
    /// Extra information on the diagnostic before it.
    Note,
    /// Information.
    Remark,
    /// Suspicious.
    Warning,
    /// Wrong.
    Error,
    /// Legal, but beyond what Meshwork does: a dynamic shape, a quantized type.
    Unsupported,
}

/// One message about one place of a program.
#[derive(Clone, PartialEq, Eq)]
pub struct Diagnostic {
    /// How bad it is.
    pub severity: Severity,
    /// Where in the text; line 0 when the program did not come from text.
    pub pos: TextPos,
    /// What is wrong, with names and numbers.
    pub message: String,
    /// Notes on it, each at its own place.
    pub notes: Vec<(TextPos, String)>,
}

meshwork_mesh::debug_as_display!(Diagnostic);

impl Diagnostic {
    /// An error at `pos`.
    pub fn error(pos: TextPos, message: impl Into<String>) -> Diagnostic {
        Diagnostic { severity: Severity::Error, pos, message: message.into(), notes: vec![] }
    }

    /// An error about `op`: at its place in the text or, if it did not come from text, naming its source.
    pub fn at(op: &Op, message: impl Into<String>) -> Diagnostic {
        let message = message.into();
        match op.loc.source() {
            Some((file, line, col)) if op.pos.line == 0 => {
                Diagnostic::error(op.pos, format!("{message} ({file}:{line}:{col})"))
            }
            _ => Diagnostic::error(op.pos, message),
        }
    }

    /// A warning at `pos`.
    pub fn warning(pos: TextPos, message: impl Into<String>) -> Diagnostic {
        Diagnostic { severity: Severity::Warning, ..Diagnostic::error(pos, message) }
    }

    /// Something legal that is not supported, at `pos`.
    pub fn unsupported(pos: TextPos, message: impl Into<String>) -> Diagnostic {
        Diagnostic { severity: Severity::Unsupported, ..Diagnostic::error(pos, message) }
    }

    /// The message with the line it is about and a caret under the column.
    pub fn render(&self, file: &str, source: &str) -> String {
        let mut out = render_one(file, source, self.pos, self.severity, &self.message);
        for (pos, note) in &self.notes {
            out.push_str(&render_one(file, source, *pos, Severity::Note, note));
        }
        out
    }
}

const LONGEST_MESSAGE: usize = 2000;

fn render_one(file: &str, source: &str, pos: TextPos, severity: Severity, message: &str) -> String {
    let message = shortened(message);
    if pos.line == 0 {
        return format!("{file}: {severity}: {message}\n");
    }
    let mut out = format!("{file}:{}:{}: {severity}: {message}\n", pos.line, pos.col);
    if let Some(line) = source.lines().nth(pos.line as usize - 1) {
        // Long lines (dense constants) are cut around the column.
        let col = (pos.col.max(1) as usize - 1).min(line.len());
        let start = line.char_indices().map(|(i, _)| i).take_while(|&i| i + 60 <= col).last().unwrap_or(0);
        let shown: String = line[start..].chars().take(120).collect();
        let pad: String = line[start..]
            .char_indices()
            .take_while(|(i, _)| start + i < col)
            .map(|(_, c)| if c == '\t' { '\t' } else { ' ' })
            .collect();
        out.push_str(&format!("  {shown}\n  {pad}^\n"));
    }
    out
}

/// A message that quotes a name of a million letters is cut.
fn shortened(message: &str) -> std::borrow::Cow<'_, str> {
    match message.char_indices().nth(LONGEST_MESSAGE) {
        Some((end, _)) => format!("{}...", &message[..end]).into(),
        None => message.into(),
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Severity::Note => "note",
            Severity::Remark => "remark",
            Severity::Warning => "warning",
            Severity::Error => "error",
            Severity::Unsupported => "not supported",
        })
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.pos.line > 0 {
            write!(f, "{}:{}: ", self.pos.line, self.pos.col)?;
        }
        write!(f, "{}: {}", self.severity, self.message)
    }
}

impl std::error::Error for Diagnostic {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn caret_stands_under_the_column() {
        let d = Diagnostic::error(TextPos { line: 2, col: 3 }, "no");
        assert_eq!(d.render("f", "a\n\tbc\n"), "f:2:3: error: no\n  \tbc\n  \t ^\n");
    }
}
