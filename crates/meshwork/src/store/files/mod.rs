//! Arrays in files: NumPy's `.npy` and `.npz`, and safetensors.

#[cfg(feature = "npz")]
mod npz;
#[cfg(feature = "safetensors")]
mod safetensors;

use std::path::Path;

#[cfg(feature = "npz")]
pub use npz::{load_npz, save_npz};
#[cfg(feature = "safetensors")]
pub use safetensors::{SafeTensors, load_tree, save_safetensors, save_tree};

use crate::error::Error;

/// Makes an error about a file.
fn file_error<E: std::fmt::Display>(path: &Path) -> impl Fn(E) -> Error {
    let path = path.display().to_string();
    move |e| Error::File { path: path.clone(), what: e.to_string() }
}
