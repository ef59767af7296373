//! Functions that the standard library lacks: complex elementary functions and special functions.
//!
//! All are computed in `f64`; each file states the accuracy it aims at and holds reference values.

#![allow(clippy::excessive_precision, reason = "constants and reference values are given to 20 digits")]

mod bessel;
mod cinverse;
mod clog;
mod cplx;
mod ctrig;
mod erf;
mod exact;
mod gamma;
mod hyperbolic;
mod zeta;

pub use bessel::bessel_i1e;
pub use cplx::Cplx;
pub use erf::{erf, erf_inv, erfc};
pub use gamma::{digamma, lgamma};
pub use hyperbolic::{acosh, asinh, atanh};
pub use zeta::{polygamma, zeta};

/// Fails unless `got` is `want` up to a relative error.
#[cfg(test)]
pub(crate) fn assert_near(got: f64, want: f64, relative: f64) {
    assert!((got - want).abs() <= want.abs() * relative, "got {got:e}, want {want:e}");
}
