//! Transformations that know nothing of any one dialect, under the names that MLIR's passes have.
//!
//! | pass | file |
//! |---|---|
//! | `-canonicalize` | `canonicalize` |
//! | `-cse` | `cse` |
//! | `-inline` | `inline` |
//! | `-symbol-dce` | `symbol_dce` |

pub mod calls;
pub mod canonicalize;
pub mod cse;
pub mod dead;
pub mod entry;
pub mod hoist;
pub mod inline;
pub mod symbol_dce;
pub mod symbols;
pub mod tokens;
pub mod tuples;

use crate::Pass;

/// The passes of this folder.
pub fn passes() -> Vec<Pass> {
    vec![canonicalize::PASS, cse::PASS, inline::PASS, symbol_dce::PASS]
}
