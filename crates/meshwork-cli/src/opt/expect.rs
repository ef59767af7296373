//! `-verify-diagnostics`: diagnostics must be the ones that comments in the text announce.
//!
//! A comment is `expected-error {{text}}` (or `warning`, `note`, `remark`) at the end of a line. It expects a
//! diagnostic of that kind whose message contains the text, on its own line or, after `@+N`, `@-N`, `@above`,
//! `@below` or `@unknown`, elsewhere. In `expected-error-re` the parts between inner `{{` and `}}` are regular
//! expressions. Every expectation must be met once, and every error, warning and remark must be expected. A note
//! that belongs to an expected diagnostic may go unannounced.

use std::sync::LazyLock;

use meshwork_ir::{Diagnostic, Severity, TextPos};
use regex_lite::Regex;

/// One announced diagnostic.
struct Expected {
    severity: Severity,
    /// The line it must be on; 0 for none.
    line: u32,
    /// Where the comment is.
    comment: TextPos,
    text: String,
    regex: Option<Regex>,
    met: bool,
}

/// What differs between the announced and the actual diagnostics; empty if nothing does.
pub fn check(text: &str, diagnostics: &[Diagnostic]) -> Vec<Diagnostic> {
    let (mut expected, mut complaints) = announced(text);
    for d in diagnostics {
        let severity = if d.severity == Severity::Unsupported { Severity::Error } else { d.severity };
        if !meet(&mut expected, severity, d.pos, &d.message) {
            let message = format!("unexpected {severity}: {}", d.message);
            complaints.push(Diagnostic { notes: vec![], ..Diagnostic::error(d.pos, message) });
        }
        for (pos, note) in &d.notes {
            meet(&mut expected, Severity::Note, *pos, note);
        }
    }
    let missing = expected.iter().filter(|e| !e.met);
    complaints.extend(missing.map(|e| {
        let place = match e.line {
            0 => "without a line".to_string(),
            line => format!("on line {line}"),
        };
        Diagnostic::error(e.comment, format!("expected {} \"{}\" {place} was not produced", e.severity, e.text))
    }));
    complaints
}

/// Marks the first open expectation that the diagnostic meets.
fn meet(expected: &mut [Expected], severity: Severity, pos: TextPos, message: &str) -> bool {
    let fits = |e: &&mut Expected| {
        !e.met
            && e.severity == severity
            && e.line == pos.line
            && e.regex.as_ref().map_or_else(|| message.contains(&e.text), |r| r.is_match(message))
    };
    match expected.iter_mut().find(fits) {
        Some(e) => {
            e.met = true;
            true
        }
        None => false,
    }
}

/// All expectations in the text, and complaints about malformed ones.
fn announced(text: &str) -> (Vec<Expected>, Vec<Diagnostic>) {
    static COMMENT: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r"expected-(error|note|remark|warning)(-re)? *(@([+-][0-9]+|above|below|unknown))? *\{\{(.*)\}\}$")
            .expect("a constant pattern that the tests compile")
    });
    let mut expected: Vec<Expected> = vec![];
    let mut complaints = vec![];
    let mut above = 0;
    // Expectations of `@below`, which wait for the next line without a comment.
    let mut waiting: Vec<usize> = vec![];
    for (i, line) in text.lines().enumerate() {
        let number = i as u32 + 1;
        let Some(found) = COMMENT.captures(line.trim_end()) else {
            waiting.drain(..).for_each(|k| expected[k].line = number);
            above = number;
            continue;
        };
        let severity = match &found[1] {
            "error" => Severity::Error,
            "warning" => Severity::Warning,
            "remark" => Severity::Remark,
            _ => Severity::Note,
        };
        let comment = TextPos { line: number, col: found.get(0).map_or(1, |m| m.start() as u32 + 1) };
        let text = found[5].to_string();
        let regex = match found.get(2).map(|_| pattern(&text)) {
            None => None,
            Some(Ok(regex)) => Some(regex),
            Some(Err(e)) => {
                complaints.push(Diagnostic::error(comment, e));
                continue;
            }
        };
        let line = match found.get(4).map(|m| m.as_str()) {
            None => number,
            Some("unknown") => 0,
            Some("above") => above,
            Some("below") => {
                waiting.push(expected.len());
                number
            }
            Some(offset) => offset.parse().map_or(0, |n: i64| (i64::from(number) + n).clamp(0, u32::MAX.into()) as u32),
        };
        expected.push(Expected { severity, line, comment, text, regex, met: false });
    }
    (expected, complaints)
}

/// The pattern of an `-re` comment: plain text with regular expressions between `{{` and `}}`.
fn pattern(text: &str) -> Result<Regex, String> {
    let mut out = String::new();
    let mut rest = text;
    while let Some((plain, after)) = rest.split_once("{{") {
        let (regex, tail) = after.split_once("}}").ok_or_else(|| format!("no closing }}}} after {{{{{after}"))?;
        out.push_str(&regex_lite::escape(plain));
        out.push_str(&format!("(?:{regex})"));
        rest = tail;
    }
    out.push_str(&regex_lite::escape(rest));
    Regex::new(&out).map_err(|e| format!("bad regular expression in {{{{{text}}}}}: {e}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(line: u32, message: &str) -> Diagnostic {
        Diagnostic::error(TextPos { line, col: 1 }, message)
    }

    fn complaints(text: &str, diagnostics: &[Diagnostic]) -> Vec<String> {
        check(text, diagnostics).into_iter().map(|d| d.to_string()).collect()
    }

    #[test]
    fn places() {
        for (text, line) in [
            ("x // expected-error {{bad}}", 1),
            ("// expected-error @+2 {{bad}}\n\nx", 3),
            ("x\n// expected-error@-1 {{bad}}", 1),
            ("x\n// expected-note@above {{n}}\n// expected-error@above {{bad}}", 1),
            ("// expected-error@below {{bad}}\n// expected-note@below {{n}}\nx", 3),
            ("// expected-error @unknown {{bad}}", 0),
        ] {
            let mut d = error(line, "a bad thing");
            d.notes.push((d.pos, "n".into()));
            assert_eq!(complaints(text, &[d]), [] as [&str; 0], "{text}");
            assert_eq!(complaints(text, &[error(line + 7, "bad")]).len(), 2 + text.matches("note").count(), "{text}");
        }
    }

    #[test]
    fn missing_unexpected_and_wrong_kind() {
        assert_eq!(
            complaints("// expected-error {{a}}", &[]),
            ["1:4: error: expected error \"a\" on line 1 was not produced"]
        );
        assert_eq!(complaints("x", &[error(1, "a")]), ["1:1: error: unexpected error: a"]);
        assert_eq!(complaints("// expected-warning {{a}}", &[error(1, "a")]).len(), 2);
        assert_eq!(complaints("// expected-error {{a}}", &[error(1, "a"), error(1, "a")]).len(), 1);
    }

    #[test]
    fn regular_expressions() {
        let text = "// expected-error-re {{dim {{[0-9]+}} (of) 3}}";
        assert_eq!(complaints(text, &[error(1, "dim 12 (of) 3")]), [] as [&str; 0]);
        assert_eq!(complaints(text, &[error(1, "dim x (of) 3")]).len(), 2);
        assert!(complaints("// expected-error-re {{a{{(}}}}", &[])[0].contains("bad regular expression"));
    }

    #[test]
    fn unsupported_counts_as_error_and_notes_may_be_silent() {
        let mut d = Diagnostic::unsupported(TextPos { line: 1, col: 1 }, "dynamic");
        d.notes.push((TextPos { line: 1, col: 1 }, "here".into()));
        assert_eq!(complaints("// expected-error {{dynamic}}", &[d]), [] as [&str; 0]);
    }
}
