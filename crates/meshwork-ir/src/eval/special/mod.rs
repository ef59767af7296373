//! Functions that the standard library lacks: complex elementary functions and special functions.
//!
//! All are computed in `f64`; each file states the accuracy it aims at and holds reference values.

mod cplx;

pub use cplx::Cplx;
