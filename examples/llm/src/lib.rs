//! A model of the Llama family, from the files that Hugging Face's libraries write to text, on any number of devices.
//!
//! | | |
//! |---|---|
//! | `config.rs` | `config.json`: the extents of the model and what its architecture adds |
//! | `files.rs` | safetensors files, mapped, one or several |
//! | `weights.rs` | which weights there are, how they are placed, reading them |
//! | `rope.rs` | positions as rotations |
//! | `model.rs` | the model on some tokens, with a cache of keys and values |
//! | `sample.rs` | a token from scores |
//! | `generate.rs` | token after token |
#![deny(missing_docs)]

mod config;
mod error;
mod files;
mod generate;
mod model;
mod rope;
mod sample;
mod weights;

pub use config::Config;
pub use error::{Error, Result};
pub use files::Files;
pub use generate::{Session, Speed};
pub use model::{Block, Llama};
pub use rope::Rope;
pub use sample::Sampling;
