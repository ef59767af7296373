//! Lock files: the plan in a small, stable text that is kept beside the program and compared in CI.
//!
//! A lock says what a reviewer wants to know and nothing that changes without reason: no line numbers, no times, no
//! order of collectives. One line a fact, so that a changed annotation is a diff of a few lines. Bytes of a collective
//! are what a device sends for it once.
//!
//! ```text
//! meshwork plan 1
//! mesh: x=4
//! argument 0: f32[8,64] [{"x"}, {}]
//! result 0: f32[8,64] [{"x"}, {}]
//! collective all-reduce x, dot_general f32[64,64], 24576 B: 2
//! sent all-reduce: 49152 B in 2
//! peak: 81920 B
//! ```

use std::collections::BTreeMap;
use std::fmt;

use thiserror::Error;

use crate::plan::Plan;
use crate::plan::cause::{dims_text, short_type};

const HEADER: &str = "meshwork plan 1";

/// A plan as a lock file keeps it: facts in order, each a name and a value.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Lock {
    facts: Vec<(String, String)>,
}

/// A lock file that cannot be read.
#[derive(Clone, PartialEq, Eq, Error)]
pub enum LockError {
    /// The first line is not what a lock file starts with.
    #[error("line 1 is '{0}'; a lock file starts with '{HEADER}'")]
    Header(String),
    /// A line without a name and a value.
    #[error("line {line}: '{text}' is not 'NAME: VALUE'")]
    Fact {
        /// Number of the line.
        line: usize,
        /// What stands there.
        text: String,
    },
}

meshwork_mesh::debug_as_display!(LockError);

impl Lock {
    /// What a lock file keeps of `plan`.
    pub fn of(plan: &Plan) -> Lock {
        let axes: Vec<String> = plan.mesh.axes().iter().map(|a| format!("{}={}", a.name, a.size)).collect();
        let mut facts = vec![("mesh".to_string(), axes.join(" "))];
        for (word, list) in [("argument", &plan.arguments), ("result", &plan.results)] {
            for (i, border) in list.iter().enumerate() {
                facts.push((
                    format!("{word} {i}"),
                    format!("{} {}", short_type(&border.ty), dims_text(&border.sharding)),
                ));
            }
        }
        let mut counts: BTreeMap<String, (i64, bool)> = BTreeMap::new();
        for planned in &plan.collectives {
            let (kind, axes) = (planned.collective.kind.name(), planned.axes_text());
            // What was combined is listed separately, so that combining more or less does not show here.
            for cause in &planned.causes {
                let name =
                    format!("collective {kind} {axes}, {} {}, {:.0} B", cause.op, cause.tensor, cause.wire_bytes);
                let entry = counts.entry(name).or_default();
                entry.0 += planned.collective.times;
                entry.1 |= planned.collective.times_unknown;
            }
        }
        for (name, (count, unknown)) in counts {
            facts.push((name, format!("{count}{}", if unknown { "+" } else { "" })));
        }
        for (kind, total) in plan.totals() {
            facts.push((format!("sent {kind}"), format!("{:.0} B in {}", total.wire_bytes, total.count)));
        }
        facts.push(("peak".into(), format!("{} B", plan.peak.bytes)));
        Lock { facts }
    }

    /// The facts in order, each a name and a value.
    pub fn facts(&self) -> &[(String, String)] {
        &self.facts
    }

    /// Reads a lock file. Empty lines and lines that start with `#` are skipped.
    pub fn parse(text: &str) -> Result<Lock, LockError> {
        let mut lines = text.lines().enumerate().filter(|(_, l)| !l.trim().is_empty() && !l.starts_with('#'));
        let first = lines.next().map_or("", |(_, line)| line.trim());
        if first != HEADER {
            return Err(LockError::Header(first.into()));
        }
        let facts = lines.map(|(i, line)| match line.rsplit_once(": ") {
            Some((name, value)) => Ok((name.trim().to_string(), value.trim().to_string())),
            None => Err(LockError::Fact { line: i + 1, text: line.into() }),
        });
        Ok(Lock { facts: facts.collect::<Result<_, _>>()? })
    }

    /// What differs from `self`, the recorded plan, in `now`. Empty if nothing does.
    pub fn changes(&self, now: &Lock) -> Vec<Change> {
        let find = |facts: &[(String, String)], name: &str| {
            facts.iter().find(|(n, _)| n == name).map(|(_, value)| value.clone())
        };
        let mut out = vec![];
        for (name, was) in &self.facts {
            match find(&now.facts, name) {
                Some(is) if is == *was => {}
                is => out.push(Change { name: name.clone(), was: Some(was.clone()), is }),
            }
        }
        for (name, is) in &now.facts {
            if find(&self.facts, name).is_none() {
                out.push(Change { name: name.clone(), was: None, is: Some(is.clone()) });
            }
        }
        out
    }
}

impl fmt::Display for Lock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{HEADER}")?;
        for (name, value) in &self.facts {
            writeln!(f, "{name}: {value}")?;
        }
        Ok(())
    }
}

/// A fact that is not what it was.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Change {
    /// Its name.
    pub name: String,
    /// Its recorded value; `None` if it is new.
    pub was: Option<String>,
    /// Its value now; `None` if it is gone.
    pub is: Option<String>,
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.was, &self.is) {
            (Some(was), Some(is)) => write!(f, "~ {}: {was} -> {is}", self.name),
            (Some(was), None) => write!(f, "- {}: {was}", self.name),
            (None, Some(is)) => write!(f, "+ {}: {is}", self.name),
            (None, None) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "meshwork plan 1\nmesh: x=4\nargument 0: f32[8] [{\"x\"}]\ncollective all-gather x, add f32[8], 8 B: 3\npeak: 64 B\n";

    #[test]
    fn a_lock_reads_back() {
        let lock = Lock::parse(TEXT).unwrap();
        assert_eq!(lock.to_string(), TEXT);
        assert_eq!(lock.changes(&lock), []);
    }

    #[test]
    fn changes_are_distinguished() {
        let before = Lock::parse(TEXT).unwrap();
        let after = TEXT.replace("[{\"x\"}]", "[{}]").replace("all-gather", "all-to-all").replace("64 B", "96 B");
        let changes = before.changes(&Lock::parse(&after).unwrap());
        let said: Vec<String> = changes.iter().map(ToString::to_string).collect();
        assert_eq!(
            said,
            [
                "~ argument 0: f32[8] [{\"x\"}] -> f32[8] [{}]",
                "- collective all-gather x, add f32[8], 8 B: 3",
                "~ peak: 64 B -> 96 B",
                "+ collective all-to-all x, add f32[8], 8 B: 3",
            ]
        );
    }

    #[test]
    fn what_is_not_a_lock_is_an_error() {
        assert_eq!(
            Lock::parse("module {}").unwrap_err().to_string(),
            "line 1 is 'module {}'; a lock file starts with 'meshwork plan 1'"
        );
        assert_eq!(
            Lock::parse("meshwork plan 1\nnonsense\n").unwrap_err().to_string(),
            "line 2: 'nonsense' is not 'NAME: VALUE'"
        );
    }
}
