//! Temporary folders.

use std::path::{Path, PathBuf};

/// A path for temporary files, removed on drop.
pub struct Folder(PathBuf);

impl Folder {
    /// A path that does not exist yet; `name` has to be unique among the tests of the process.
    pub fn unused(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("meshwork_{name}_{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        Folder(path)
    }

    /// An empty folder; `name` has to be unique among the tests of the process.
    pub fn new(name: &str) -> Folder {
        let folder = Folder::unused(name);
        std::fs::create_dir_all(&folder.0).expect("a temporary folder can be created");
        folder
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
