//! Simplifications of `sdy` operations, for `-canonicalize` and the export pipeline.
//!
//! | file | simplifies |
//! |---|---|
//! | `manual` | manual computations with unused arguments, without manual axes, or empty |
//! | `reshard` | reshards of reshards, and reshards that another has done already |
//! | `collective` | collectives that do nothing, or undo or continue one another |

pub mod collective;
pub mod manual;
pub mod reshard;

use meshwork_ir::transform::canonicalize::{PATTERNS, Pattern, apply};
use meshwork_ir::{Diagnostic, Failed, Module, OpKind, Pass, PassOptions};

/// `-canonicalize` with the patterns of all dialects.
pub const PASS: Pass =
    Pass { name: "canonicalize", summary: "Simplify operations one by one until nothing changes", options: &[], run };

fn run(module: &mut Module, _: &PassOptions, _: &mut Vec<Diagnostic>) -> Result<(), Failed> {
    let all: Vec<(OpKind, Pattern)> =
        [PATTERNS, manual::PATTERNS, reshard::CSE_PATTERNS, reshard::PATTERNS, collective::PATTERNS].concat();
    apply(module, &all);
    Ok(())
}
