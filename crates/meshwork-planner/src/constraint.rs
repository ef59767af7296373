//! Constraints: what the user has decided already.
//!
//! ```text
//! fix PATTERN SPEC        fix wq$ -,model         these arguments are placed so
//! forbid PATTERN WHAT     forbid embed 0          this axis, or any axis on this dimension, does not split them
//! tie PATTERN PATTERN     tie wq$ wk$             all of these are placed alike
//! ```
//!
//! A pattern is a regular expression that is found anywhere in the name of an argument. A spec has one entry per dimension,
//! separated by commas: `-` for none, an axis, or several with `+`.

use std::fmt;

use meshwork_mesh::{AxisRef, P};
use meshwork_partition::{Contract, Lock};
use regex_lite::Regex;

use crate::error::PlannerError;

/// Something a plan has to keep to.
#[derive(Clone, PartialEq, Debug)]
pub enum Constraint {
    /// Arguments are placed so.
    Fix {
        /// Which.
        pattern: String,
        /// How.
        spec: P,
    },
    /// Arguments are not split so.
    Forbid {
        /// Which.
        pattern: String,
        /// How not.
        what: Forbidden,
    },
    /// Arguments of one rank are placed alike.
    Tie {
        /// Some of them.
        first: String,
        /// The others.
        second: String,
    },
    /// A device has no more memory than this, in bytes.
    Memory(i64),
    /// What the plan may communicate.
    Contract(Contract),
    /// Arguments stay placed as a lock file records.
    KeepLock {
        /// The lock file.
        lock: Lock,
        /// Those that need not.
        except: Option<String>,
    },
    /// Extents are divided evenly.
    EvenOnly,
}

/// What does not split an argument.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Forbidden {
    /// This axis, whatever dimension.
    Axis(String),
    /// Any axis on this dimension.
    Dim(usize),
}

impl From<&str> for Forbidden {
    fn from(text: &str) -> Forbidden {
        text.parse().map_or_else(|_| Forbidden::Axis(text.into()), Forbidden::Dim)
    }
}

impl From<usize> for Forbidden {
    fn from(dim: usize) -> Forbidden {
        Forbidden::Dim(dim)
    }
}

impl Constraint {
    /// A placement from text: `-,data+model` is `P![_, ["data", "model"]]`.
    ///
    /// ```
    /// # use meshwork_planner::Constraint;
    /// assert_eq!(Constraint::spec("-,data+model")?.to_string(), r#"P![_, ["data", "model"]]"#);
    /// # Ok::<(), meshwork_planner::PlannerError>(())
    /// ```
    pub fn spec(text: &str) -> Result<P, PlannerError> {
        let wrong = || PlannerError::Text { text: text.into(), wanted: "a placement, as -,data or data+model,-" };
        let dims = text.split(',').map(|entry| match entry.trim() {
            "-" | "_" => Ok(vec![]),
            "" => Err(wrong()),
            axes => axes
                .split('+')
                .map(|axis| if axis.trim().is_empty() { Err(wrong()) } else { Ok(AxisRef::full(axis.trim())) })
                .collect(),
        });
        Ok(P::of(dims.collect::<Result<_, _>>()?))
    }

    /// The pattern of the arguments it is about, if it is about some.
    pub(crate) fn patterns(&self) -> Vec<&str> {
        match self {
            Constraint::Fix { pattern, .. } | Constraint::Forbid { pattern, .. } => vec![pattern],
            Constraint::Tie { first, second } => vec![first, second],
            Constraint::KeepLock { except, .. } => except.iter().map(String::as_str).collect(),
            Constraint::Memory(_) | Constraint::Contract(_) | Constraint::EvenOnly => vec![],
        }
    }

    /// The arguments among `names` in which one of its patterns is found.
    pub(crate) fn matched(&self, names: &[String]) -> Result<Vec<usize>, PlannerError> {
        let mut found = vec![];
        for pattern in self.patterns() {
            let regex = Regex::new(pattern).map_err(|e| PlannerError::Pattern {
                constraint: self.to_string(),
                pattern: pattern.into(),
                why: e.to_string(),
            })?;
            let own: Vec<usize> = (0..names.len()).filter(|&i| regex.is_match(&names[i])).collect();
            if own.is_empty() {
                let first: Vec<&str> = names.iter().take(8).map(String::as_str).collect();
                let more = if names.len() > 8 { format!(" and {} more", names.len() - 8) } else { String::new() };
                let arguments = first.join(", ") + &more;
                return Err(PlannerError::Unmatched { constraint: self.to_string(), arguments });
            }
            found.extend(own);
        }
        found.sort_unstable();
        found.dedup();
        Ok(found)
    }
}

impl fmt::Display for Constraint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use meshwork_partition::plan::human_bytes;
        match self {
            Constraint::Fix { pattern, spec } => write!(f, "fix {pattern} {spec}"),
            Constraint::Forbid { pattern, what: Forbidden::Axis(axis) } => write!(f, "forbid {pattern} {axis}"),
            Constraint::Forbid { pattern, what: Forbidden::Dim(dim) } => write!(f, "forbid {pattern} {dim}"),
            Constraint::Tie { first, second } => write!(f, "tie {first} {second}"),
            Constraint::Memory(bytes) => write!(f, "memory {}", human_bytes(*bytes as f64)),
            Constraint::Contract(contract) => write!(f, "contract ({})", contract_text(contract)),
            Constraint::KeepLock { except: None, .. } => write!(f, "keep the lock file"),
            Constraint::KeepLock { except: Some(pattern), .. } => write!(f, "keep the lock file except {pattern}"),
            Constraint::EvenOnly => write!(f, "even splits only"),
        }
    }
}

/// What a contract asks for, in words.
fn contract_text(contract: &Contract) -> String {
    use meshwork_partition::plan::human_bytes;
    let mut parts = vec![];
    parts.extend(contract.region.as_ref().map(|region| format!("in {region}")));
    parts.extend(contract.allowed.as_ref().map(|kinds| match kinds.as_slice() {
        [] => "no collectives".into(),
        kinds => format!("only {}", kinds.join(", ")),
    }));
    parts.extend(contract.max_bytes.map(|bytes| format!("at most {} sent", human_bytes(bytes))));
    parts.extend(contract.max_collective.map(|bytes| format!("at most {} in a collective", human_bytes(bytes as f64))));
    parts.extend(contract.nothing_implicit.then(|| "nothing implicit".to_string()));
    parts.join("; ")
}

/// Bytes from text: `80GiB`, `1.5 GB`, `4096`.
///
/// ```
/// # use meshwork_planner::parse_bytes;
/// assert_eq!(parse_bytes("80GiB")?, 80 << 30);
/// assert_eq!(parse_bytes("1.5 kB")?, 1500);
/// # Ok::<(), meshwork_planner::PlannerError>(())
/// ```
pub fn parse_bytes(text: &str) -> Result<i64, PlannerError> {
    let wrong = || PlannerError::Text { text: text.into(), wanted: "a number of bytes, as 80GiB or 512MB" };
    let trimmed = text.trim();
    let end = trimmed.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(trimmed.len());
    let number: f64 = trimmed[..end].parse().map_err(|_| wrong())?;
    let unit = match trimmed[end..].trim() {
        "" | "B" => 1.0,
        "kB" | "KB" => 1e3,
        "MB" => 1e6,
        "GB" => 1e9,
        "TB" => 1e12,
        "KiB" => 1024.0,
        "MiB" => 1024f64.powi(2),
        "GiB" => 1024f64.powi(3),
        "TiB" => 1024f64.powi(4),
        _ => return Err(wrong()),
    };
    let bytes = number * unit;
    if (1.0..9e18).contains(&bytes) { Ok(bytes as i64) } else { Err(wrong()) }
}
