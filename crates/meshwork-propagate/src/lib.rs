//! Placements for every value of a program: op sharding rules as factors, and propagation along them.
//!
//! Given a module in which some values have an `sdy.sharding`, propagation finds one for every other value, in
//! the order that Shardy works in, so that both find the same. See the README for the states and invariants.
#![forbid(unsafe_code)]
#![deny(missing_docs)]

pub mod aggressive;
pub mod axis;
pub mod basic;
pub mod calls;
pub mod canonicalize;
mod dead;
pub mod debug;
mod driver;
pub mod edges;
pub mod export;
pub mod factor;
mod flow;
pub mod groups;
pub mod import;
pub mod manual;
pub mod meshes;
pub mod op_priority;
mod pass;
pub mod pipeline;
mod place;
pub mod placement;
pub mod projection;
pub mod properties;
pub mod replica_groups;
pub mod rules;
pub mod state;
pub mod user_priority;
pub mod values;
mod visit;
pub mod walker;
pub mod why;

use meshwork_ir::Pass;

pub use pass::{KeepRules, Level, Options, Record, populate_rules, propagate, remove_rules};
pub use place::{Provenance, import, place, place_imported, place_imported_traced, place_traced};

/// All passes of this crate, in the order of a typical run.
pub fn passes() -> Vec<Pass> {
    [&[canonicalize::PASS], import::PASSES, pass::PASSES, export::PASSES, pipeline::PASSES].concat()
}
