//! Helpers shared by Meshwork's tests. A dev-dependency only.
#![forbid(unsafe_code)]
#![deny(missing_docs)]

#[cfg(feature = "arrays")]
mod arrays;
mod folder;
#[cfg(feature = "fuzz")]
pub mod fuzz;
#[cfg(feature = "generate")]
pub mod generate;
#[cfg(unix)]
pub mod hosts;
mod numbers;
pub mod ranks;
#[cfg(feature = "xla")]
pub mod xla;

#[cfg(feature = "arrays")]
pub use arrays::{half_wave, wave, wave_f32};
pub use folder::Folder;
pub use numbers::Numbers;
