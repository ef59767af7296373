//! Placements for every value of a program: op sharding rules as factors, and propagation along them.
//!
//! Given a module in which some values have an `sdy.sharding`, propagation finds one for every other value, in
//! the order that Shardy works in, so that both find the same. See the README for the states and invariants.
#![forbid(unsafe_code)]
#![deny(missing_docs)]

pub mod calls;
pub mod canonicalize;
pub mod edges;
pub mod export;
pub mod import;
pub mod manual;
pub mod meshes;
pub mod properties;
pub mod replica_groups;
pub mod values;
pub mod walker;

use meshwork_ir::Pass;

/// All passes of this crate, in the order of a typical run.
pub fn passes() -> Vec<Pass> {
    [&[canonicalize::PASS], import::PASSES, export::PASSES].concat()
}
