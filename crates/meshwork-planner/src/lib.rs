//! Searches for the shardings of a program: which arrays to split over which axes of which mesh, so that the exact plan
//! takes the least time and fits into memory.
//!
//! [`Planner`] is the way in; the README beside this file explains decisions, seeds, moves and the judge.
#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod bound;
mod colours;
mod constraint;
mod cut;
mod error;
mod evaluate;
mod found;
mod judge;
mod meshes;
mod model;
mod moves;
pub mod network;
mod planner;
mod problem;
mod propose;
mod report;
mod scale;
mod search;
mod seeds;
mod site;
mod space;
mod what_if;

pub use constraint::{Constraint, Forbidden, parse_bytes};
pub use error::PlannerError;
pub use evaluate::Improvement;
pub use found::{ArrayPlace, Candidate, Difference, Found, Other, PlacedArray, Reason};
pub use judge::{Verdict, judge};
pub use model::{Model, Proposal};
pub use planner::Planner;
pub use report::{mesh_text, verdict_json, verdict_text};
pub use scale::scale_batch;
pub use space::Choice;
pub use what_if::{Case, Outcome, what_if};
