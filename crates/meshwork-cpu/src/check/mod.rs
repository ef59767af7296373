//! Checks that a tape with planned memory computes what its program means.
//!
//! See `README.md` beside this file.

mod state;
#[cfg(test)]
mod tests;
mod walk;
mod waves;

use crate::exec::tape::Tape;
use crate::memory::plan::Plan;
use crate::program::Program;

/// What is wrong with `tape`, which was made of `program` as `plan` says.
pub(crate) fn check(program: &Program, plan: &Plan, tape: &Tape) -> Result<(), String> {
    walk::Walk::new(program, plan, tape)?.all()
}
