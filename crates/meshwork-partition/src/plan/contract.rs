//! Contracts: what a program may communicate. Breaking one is an error that names the collective to blame and what to change.

use std::fmt;

use thiserror::Error;

use crate::plan::cause::Cause;
use crate::plan::explain::human_bytes;
use crate::plan::{Plan, PlannedCollective};

/// Limits on what a plan may communicate.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Contract {
    /// Only collectives caused in this region count: operations whose place (`model.py:12`) or traced name
    /// (`jit(step)/block_0/dot_general`) starts with it. `None`: all.
    pub region: Option<String>,
    /// Kinds that may be used, as `all-reduce`. `None`: all.
    pub allowed: Option<Vec<String>>,
    /// The most bytes a device may send in a run.
    pub max_bytes: Option<f64>,
    /// The most bytes of operand a single collective may have; what was combined is taken one by one.
    pub max_collective: Option<i64>,
    /// Whether only what the program asks for may communicate: collectives it writes, constraints, manual
    /// computations, and results with a placement of their own.
    pub nothing_implicit: bool,
}

/// The kinds of collectives a contract can allow.
pub const KINDS: [&str; 6] =
    ["all-gather", "all-reduce", "all-to-all", "collective-permute", "ragged-all-to-all", "reduce-scatter"];

/// Which limit a plan breaks.
#[derive(Clone, PartialEq, Debug)]
pub enum Limit {
    /// A kind that is not allowed.
    Kind {
        /// The kinds that are.
        allowed: Vec<String>,
    },
    /// A run sends too much.
    Bytes {
        /// The most it may send.
        limit: f64,
        /// What it sends.
        sent: f64,
    },
    /// A collective is too large.
    Collective {
        /// The most bytes of operand it may have.
        limit: i64,
    },
    /// A collective that the program does not ask for.
    Implicit,
}

/// A collective that breaks a contract: the most expensive one, if there are several.
#[derive(Clone, PartialEq, Error)]
pub struct ContractViolation {
    /// What it breaks.
    pub limit: Limit,
    /// The collective.
    pub collective: Box<PlannedCollective>,
    /// How many more break the same limit.
    pub others: usize,
}

meshwork_mesh::debug_as_display!(ContractViolation);

impl Plan {
    /// Holds the plan to `contract`.
    pub fn check(&self, contract: &Contract) -> Result<(), ContractViolation> {
        let inside: Vec<&PlannedCollective> = self.collectives.iter().filter(|c| contract.covers(c)).collect();
        if let Some(allowed) = &contract.allowed {
            let other = |c: &PlannedCollective| !allowed.iter().any(|k| k == c.collective.kind.name());
            violation(&inside, other, || Limit::Kind { allowed: allowed.clone() })?;
        }
        if contract.nothing_implicit {
            violation(&inside, |c| c.causes.iter().any(|cause| !cause.explicit), || Limit::Implicit)?;
        }
        if let Some(limit) = contract.max_collective {
            violation(&inside, |c| c.largest_operand() > limit as f64, || Limit::Collective { limit })?;
        }
        if let Some(limit) = contract.max_bytes {
            let sent: f64 = inside.iter().map(|c| c.sent()).sum();
            violation(&inside, |_| sent > limit, || Limit::Bytes { limit, sent })?;
        }
        Ok(())
    }
}

impl Contract {
    fn covers(&self, c: &PlannedCollective) -> bool {
        let Some(region) = &self.region else { return true };
        c.causes.iter().any(|cause| cause.place.starts_with(region) || cause.path.starts_with(region))
    }
}

/// An error about the most expensive of `collectives` that `breaks` the limit.
fn violation(
    collectives: &[&PlannedCollective],
    breaks: impl Fn(&PlannedCollective) -> bool,
    limit: impl Fn() -> Limit,
) -> Result<(), ContractViolation> {
    let guilty: Vec<&&PlannedCollective> = collectives.iter().filter(|c| breaks(c)).collect();
    // The first of the most expensive ones.
    match guilty.iter().rev().max_by(|a, b| a.sent().total_cmp(&b.sent())) {
        None => Ok(()),
        Some(worst) => {
            Err(ContractViolation { limit: limit(), collective: Box::new((**worst).clone()), others: guilty.len() - 1 })
        }
    }
}

impl ContractViolation {
    /// The cause that breaks the limit.
    fn cause(&self) -> Option<&Cause> {
        let implicit = self.collective.causes.iter().find(|c| !c.explicit);
        match self.limit {
            Limit::Implicit => implicit,
            Limit::Kind { .. } | Limit::Bytes { .. } | Limit::Collective { .. } => self.collective.causes.first(),
        }
    }
}

impl fmt::Display for ContractViolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let c = &self.collective.collective;
        let kind = c.kind.name();
        let what = format!("{kind} of {} over {}", bytes(c.operand_bytes as f64), self.collective.axes_text());
        match &self.limit {
            Limit::Kind { allowed } => write!(f, "the contract allows {}, not this {what}", allowed.join(", "))?,
            Limit::Bytes { limit, sent } => write!(
                f,
                "the contract allows {} sent per device and run, the plan sends {}; the largest part of it by this {what}",
                bytes(*limit),
                bytes(*sent)
            )?,
            Limit::Collective { limit } => {
                write!(f, "the contract allows collectives of at most {}, not this {what}", bytes(*limit as f64))?;
            }
            Limit::Implicit => write!(f, "the contract allows nothing implicit, but no one asked for this {what}")?,
        }
        if self.others > 0 && !matches!(self.limit, Limit::Bytes { .. }) {
            write!(f, " ({} more like it)", self.others)?;
        }
        writeln!(f)?;
        if let Some(cause) = self.cause() {
            let from = if cause.argument.is_empty() { String::new() } else { format!(", from {}", cause.argument) };
            writeln!(f, "  tensor: {}{from}", cause.tensor)?;
            let place = if cause.place.is_empty() { String::new() } else { format!(" at {}", cause.place) };
            let path = if cause.path.is_empty() { String::new() } else { format!(" ({})", cause.path) };
            writeln!(f, "  op: {}{place}{path}", cause.op)?;
            writeln!(f, "  why: {}", cause.reason)?;
            match &cause.annotation {
                Some(annotation) => writeln!(f, "  annotation to change: {annotation}")?,
                None => writeln!(f, "  annotation: none found; the placement follows from the program itself")?,
            }
        }
        Ok(())
    }
}

/// The exact number, and a short one beside it where it is long.
fn bytes(n: f64) -> String {
    if n < 1024.0 { human_bytes(n) } else { format!("{n:.0} B ({})", human_bytes(n)) }
}
