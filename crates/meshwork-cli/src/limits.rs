//! Options that hold a plan to limits: those of a contract, and lock files.

use meshwork_partition::plan::KINDS;
use meshwork_partition::{Contract, Lock};

use crate::fail::Failure;

/// Limits on what a plan sends.
#[derive(clap::Args)]
pub struct LimitArgs {
    /// Kinds of collectives the plan may use
    #[arg(long, value_name = "KIND,..", value_delimiter = ',', value_parser = clap::builder::PossibleValuesParser::new(KINDS))]
    allow: Option<Vec<String>>,
    /// The most bytes a device may send in a run
    #[arg(long, value_name = "N")]
    max_bytes: Option<u64>,
    /// The most bytes of operand a single collective may have
    #[arg(long, value_name = "N")]
    max_collective: Option<u32>,
}

impl LimitArgs {
    /// Whether any is given.
    pub fn any(&self) -> bool {
        self.allow.is_some() || self.max_bytes.is_some() || self.max_collective.is_some()
    }

    /// The contract that has these limits.
    pub fn contract(&self) -> Contract {
        Contract {
            allowed: self.allow.clone(),
            max_bytes: self.max_bytes.map(|n| n as f64),
            max_collective: self.max_collective.map(i64::from),
            ..Contract::default()
        }
    }
}

/// Reads the lock file at `path`.
pub fn read_lock(path: &str) -> Result<Lock, Failure> {
    let text = std::fs::read_to_string(path).map_err(|e| Failure::error(format!("cannot read {path}: {e}")))?;
    Lock::parse(&text).map_err(|e| Failure::error(format!("{path}: {e}")))
}
