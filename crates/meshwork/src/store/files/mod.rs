//! Arrays in files: NumPy's `.npy` and `.npz`, and safetensors.

#[cfg(feature = "npz")]
mod npz;
#[cfg(feature = "safetensors")]
mod safetensors;

#[cfg(feature = "npz")]
pub use npz::{load_npz, save_npz};
#[cfg(feature = "safetensors")]
pub use safetensors::{SafeTensors, load_tree, save_safetensors, save_tree};

/// Makes an error about a file.
#[cfg(any(feature = "npz", feature = "safetensors"))]
fn file_error<E: std::fmt::Display>(path: &std::path::Path) -> impl Fn(E) -> crate::Error {
    let path = path.display().to_string();
    move |e| crate::Error::File { path: path.clone(), what: e.to_string() }
}
