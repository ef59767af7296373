//! `.npz`: several named arrays in one zip archive.

use std::path::Path;

use meshwork_ir::{npy, npz};

use super::file_error;
use crate::Array;
use crate::error::Result;

/// Reads the arrays of a `.npz` file with their names, in the order in which they were saved.
pub fn load_npz(path: impl AsRef<Path>) -> Result<Vec<(String, Array)>> {
    let path = path.as_ref();
    let bytes = std::fs::read(path).map_err(file_error(path))?;
    let entries = npz::read(&bytes).map_err(file_error(path))?;
    let array = |e: npz::Entry| {
        let literal = npy::read(&e.bytes).map_err(|why| file_error(path)(format!("entry '{}': {why}", e.name)))?;
        Ok((e.name, Array::from_literal(literal)))
    };
    entries.into_iter().map(array).collect()
}

/// Writes named arrays to a `.npz` file, which NumPy reads.
///
/// ```
/// use meshwork::prelude::*;
///
/// let path = std::env::temp_dir().join("meshwork_doc.npz");
/// meshwork::save_npz(&path, &[("w", Array::from([1.0f32])), ("b", Array::from([2i32, 3]))])?;
/// let back = meshwork::load_npz(&path)?;
/// assert_eq!(back[1].0, "b");
/// assert_eq!(back[1].1.to_vec::<i32>()?, [2, 3]);
/// # std::fs::remove_file(path).unwrap();
/// # Ok::<(), meshwork::Error>(())
/// ```
pub fn save_npz<N: AsRef<str>>(path: impl AsRef<Path>, arrays: &[(N, Array)]) -> Result<()> {
    let path = path.as_ref();
    let mut entries = vec![];
    for (name, array) in arrays {
        entries.push(npz::Entry { name: name.as_ref().to_string(), bytes: npy::write(array.literal()?) });
    }
    let bytes = npz::write(&entries).map_err(file_error(path))?;
    std::fs::write(path, bytes).map_err(file_error(path))
}
