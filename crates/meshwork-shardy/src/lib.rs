//! Shardy's passes and pipelines, under its names and with its options, for `meshwork opt`.
//!
//! Nothing that places, splits or runs a program for a user goes through here; see the README.
#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod calls;
mod canonicalize;
mod debug;
mod export;
mod import;
pub mod pipeline;
mod propagation;

use meshwork_ir::Pass;

/// All passes of this crate, in the order of a typical run.
pub fn passes() -> Vec<Pass> {
    [&[canonicalize::PASS], import::PASSES, propagation::PASSES, export::PASSES, pipeline::PASSES].concat()
}
