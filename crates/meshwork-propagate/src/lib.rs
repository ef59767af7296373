//! Placements for every value of a program: op sharding rules as factors, and propagation along them.
//!
//! Given a module in which some values have an `sdy.sharding`, [`place`](place()) finds one for every other value, in
//! the order that Shardy works in, so that both find the same. See the README for the states and invariants.
//!
//! [`import`](import()), [`propagate`] and the steps of [`settle`] are its parts. [`rules`] says how the dimensions of
//! an op relate, [`program`] where placements are stored, [`factors`] how they are computed with, and [`why`] where
//! each one came from.
#![forbid(unsafe_code)]
#![deny(missing_docs)]

pub mod factors;
pub mod import;
mod place;
pub mod program;
mod propagation;
pub mod rules;
pub mod settle;
pub mod why;

pub use place::{Provenance, import, place, place_imported, place_imported_traced};
pub use propagation::{KeepRules, Level, Options, Record, Strategy, populate_rules, propagate, remove_rules};
