//! Arrays in files: NumPy's `.npy` and `.npz`, and safetensors.

#[cfg(feature = "npz")]
mod npz;
#[cfg(feature = "safetensors")]
mod safetensors;

use std::path::Path;

use meshwork_ir::npy;

#[cfg(feature = "npz")]
pub use npz::{load_npz, save_npz};
#[cfg(feature = "safetensors")]
pub use safetensors::{SafeTensors, load_tree, save_safetensors, save_tree};

use crate::Array;
use crate::error::{Error, Result};

impl Array {
    /// Reads a `.npy` file. Element types that NumPy has no name for come as integers of their width.
    pub fn load_npy(path: impl AsRef<Path>) -> Result<Array> {
        let path = path.as_ref();
        let bytes = std::fs::read(path).map_err(file_error(path))?;
        npy::read(&bytes).map(Array::from_literal).map_err(file_error(path))
    }

    /// Writes a `.npy` file.
    ///
    /// ```
    /// use meshwork::prelude::*;
    ///
    /// let path = std::env::temp_dir().join("meshwork_doc.npy");
    /// Array::from([1.0f32, 2.0]).save_npy(&path)?;
    /// assert_eq!(Array::load_npy(&path)?.to_vec::<f32>()?, [1.0, 2.0]);
    /// # std::fs::remove_file(path).unwrap();
    /// # Ok::<(), meshwork::Error>(())
    /// ```
    pub fn save_npy(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        std::fs::write(path, npy::write(self.literal()?)).map_err(file_error(path))
    }
}

/// What went wrong with a file.
fn file_error<E: std::fmt::Display>(path: &Path) -> impl Fn(E) -> Error {
    let path = path.display().to_string();
    move |e| Error::File { path: path.clone(), what: e.to_string() }
}
