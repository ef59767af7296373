//! The file operations of a save. All that a save changes on disk goes through here, so that tests can record it and
//! lose power after each operation.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::error::{Result, io};

/// A change of the disk, or a request to make earlier ones last.
#[derive(Clone, Copy, Debug)]
// Only tests read what changes.
#[cfg_attr(not(test), allow(dead_code))]
pub(super) enum Change<'a> {
    MakeFolder(&'a Path),
    MakeFile(&'a Path),
    /// At the end of the file.
    Write(&'a Path, &'a [u8]),
    SyncFile(&'a Path),
    SyncFolder(&'a Path),
    Rename(&'a Path, &'a Path),
    RemoveFile(&'a Path),
    RemoveFolder(&'a Path),
}

#[cfg(not(test))]
fn change<R>(_: Change<'_>, work: impl FnOnce() -> io::Result<R>) -> io::Result<R> {
    work()
}

#[cfg(test)]
use super::crash::recorded as change;

/// Makes a folder in one that exists. It lasts when that one is synced.
pub(super) fn make_folder(path: &Path) -> Result<()> {
    match change(Change::MakeFolder(path), || fs::create_dir(path)) {
        // By another rank.
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
        made => made.map_err(io(path)),
    }
}

/// Makes a folder and those around it that are missing, to last.
pub(super) fn make_folders(path: &Path) -> Result<()> {
    let missing: Vec<&Path> = path.ancestors().take_while(|at| !at.as_os_str().is_empty() && !at.is_dir()).collect();
    for folder in missing.into_iter().rev() {
        make_folder(folder)?;
        let around = folder.parent().filter(|p| !p.as_os_str().is_empty());
        sync_folder(around.unwrap_or(Path::new(".")))?;
    }
    Ok(())
}

/// Makes the names in a folder last.
pub(super) fn sync_folder(folder: &Path) -> Result<()> {
    #[cfg(unix)]
    change(Change::SyncFolder(folder), || File::open(folder)?.sync_all()).map_err(io(folder))?;
    let _ = folder;
    Ok(())
}

/// Gives a file or folder another name in the same folder.
pub(super) fn rename(from: &Path, to: &Path) -> Result<()> {
    change(Change::Rename(from, to), || fs::rename(from, to)).map_err(io(to))
}

pub(super) fn remove_file(path: &Path) -> Result<()> {
    change(Change::RemoveFile(path), || fs::remove_file(path)).map_err(io(path))
}

/// Removes a folder of a save, with the files in it.
pub(super) fn remove_folder(path: &Path) -> Result<()> {
    for entry in fs::read_dir(path).map_err(io(path))? {
        let entry = entry.map_err(io(path))?;
        match entry.file_type().map_err(io(path))?.is_dir() {
            true => remove_folder(&entry.path())?,
            false => remove_file(&entry.path())?,
        }
    }
    change(Change::RemoveFolder(path), || fs::remove_dir(path)).map_err(io(path))
}

/// Writes a whole file. Its bytes last; its name does when the folder is synced.
pub(super) fn write_synced(path: &Path, bytes: &[u8]) -> Result<()> {
    let mut file = NewFile::create(path).map_err(io(path))?;
    file.write_all(bytes).and_then(|()| file.sync()).map_err(io(path))
}

/// A file that is being written.
pub(super) struct NewFile {
    file: File,
    path: PathBuf,
}

impl NewFile {
    pub(super) fn create(path: &Path) -> io::Result<NewFile> {
        let file = change(Change::MakeFile(path), || File::create(path))?;
        Ok(NewFile { file, path: path.to_path_buf() })
    }

    /// Makes the bytes last.
    pub(super) fn sync(&self) -> io::Result<()> {
        change(Change::SyncFile(&self.path), || self.file.sync_all())
    }
}

impl Write for NewFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        change(Change::Write(&self.path, bytes), || self.file.write_all(bytes))?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
