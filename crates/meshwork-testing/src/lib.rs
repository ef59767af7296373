//! Helpers shared by Meshwork's tests. A dev-dependency only.
#![forbid(unsafe_code)]
#![deny(missing_docs)]

#[cfg(feature = "arrays")]
mod arrays;
mod dice;
mod folder;
#[cfg(feature = "generate")]
pub mod generate;
pub mod ranks;

#[cfg(feature = "arrays")]
pub use arrays::{half_wave, wave, wave_f32};
pub use dice::Dice;
pub use folder::Folder;
