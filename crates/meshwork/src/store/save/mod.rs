//! Checkpoints: trees of arrays on disk, written by any number of processes and read by any other number.
//!
//! ```
//! use meshwork::prelude::*;
//! use meshwork::save::Checkpoints;
//!
//! let folder = std::env::temp_dir().join(format!("meshwork_doc_save_{}", std::process::id()));
//! let two = Mesh::linear("x", 2)?;
//! let w = Array::from_fn([6, 2], |i| (2 * i[0] + i[1]) as f32).shard(&two, P!["x"])?;
//!
//! let mut saves = Checkpoints::open(&folder)?.keep(3);
//! saves.save(100, &(w, Array::scalar(0.5f32)), &[("seed", "7")])?;
//! // … the program goes on while a thread writes …
//!
//! // Another program, another mesh. What is asked for is a tree of the same shapes, placed as they should be.
//! let three = Mesh::linear("y", 3)?;
//! let like = (Array::shape_only([6, 2], F32).shard(&three, P!["y"])?, Array::shape_only((), F32));
//! let found = saves.latest()?.expect("a checkpoint");
//! let (w, _) = found.restore(&like)?;
//! assert_eq!((found.step(), found.notes()["seed"].as_str()), (100, "7"));
//! assert_eq!(w.shard_data(2)?.to_vec::<f32>()?, [8.0, 9.0, 10.0, 11.0]);
//! # std::fs::remove_dir_all(folder).unwrap();
//! # Ok::<(), meshwork::Error>(())
//! ```
//!
//! A crash at any moment leaves the last complete checkpoint. Damage is found by checksums and named with the file.
//! The design is in `README.md` beside this file.

mod blocks;
mod disk;
mod error;
mod folder;
mod index;
mod layout;
mod ranks;
mod read;
mod write;

#[cfg(test)]
mod crash;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use std::time::Duration;

pub use error::CheckpointError;
pub use read::Checkpoint;

use crate::error::Error;
use crate::tree::{HostTree, named_arrays};
use error::io;
use ranks::Ranks;
use write::Save;

/// The checkpoints of one run in one folder. One job writes to a folder at a time.
pub struct Checkpoints {
    folder: PathBuf,
    ranks: Ranks,
    keep: Option<usize>,
    saves: u64,
    running: Option<(u64, JoinHandle<Result<(), CheckpointError>>)>,
}

impl Checkpoints {
    /// In this folder, which is made when something is saved. If several processes run the program, all open, save,
    /// look for and restore checkpoints together, in a folder that all of them see.
    pub fn open(folder: impl AsRef<Path>) -> Result<Checkpoints, Error> {
        Ok(Checkpoints::of(folder.as_ref(), Ranks::join()?))
    }

    fn of(folder: &Path, ranks: Ranks) -> Checkpoints {
        Checkpoints { folder: folder.to_path_buf(), ranks, keep: None, saves: 0, running: None }
    }

    /// Keeps the `count` that were saved last, at least one, whatever their steps are: a run that goes back to an earlier
    /// step keeps what it saves. An old one is deleted when a newer one is complete. Damaged ones do not count.
    pub fn keep(mut self, count: usize) -> Checkpoints {
        self.keep = Some(count.max(1));
        self
    }

    /// How long to wait for the parts of other processes; by default that of the [`Runtime`](crate::Runtime).
    pub fn deadline(mut self, deadline: Duration) -> Checkpoints {
        self.ranks.deadline = deadline;
        self
    }

    /// Begins to save a tree with notes, and returns: a thread writes it. Waits for the save before, and returns its
    /// error if it had one.
    ///
    /// The arrays may be used and donated meanwhile; what is saved is what they are now.
    pub fn save<H: HostTree>(&mut self, step: u64, tree: &H, notes: &[(&str, &str)]) -> Result<(), Error> {
        self.wait()?;
        let arrays = named_arrays::<H::Tree>(tree);
        arrays.iter().try_for_each(|(_, array)| array.check_present())?;
        let arrays: Vec<_> = arrays.into_iter().map(|(path, array)| (path, array.hold())).collect();
        let layout = layout::layout(&arrays, &self.ranks)?;
        let notes = notes.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
        let save = Save {
            folder: self.folder.clone(),
            ranks: self.ranks.clone(),
            number: self.saves,
            step,
            notes,
            layout,
            arrays,
            keep: self.keep,
        };
        self.saves += 1;
        let thread = std::thread::Builder::new().name("checkpoint".into()).spawn(move || save.run());
        self.running = Some((step, thread.map_err(io(&self.folder))?));
        Ok(())
    }

    /// Waits until the last save is complete, on all processes.
    pub fn wait(&mut self) -> Result<(), Error> {
        let Some((step, thread)) = self.running.take() else { return Ok(()) };
        let panicked = |_| CheckpointError::Peer { step, what: "the thread that saves has panicked".into() };
        Ok(thread.join().map_err(panicked)??)
    }

    /// Whether a save is in progress.
    pub fn is_saving(&self) -> bool {
        self.running.as_ref().is_some_and(|(_, thread)| !thread.is_finished())
    }

    /// The steps that have been saved, the last first, whether they are damaged or not.
    pub fn steps(&self) -> Result<Vec<u64>, Error> {
        let mut met = BTreeSet::new();
        Ok(folder::list(&self.folder)?.iter().map(|name| name.step).filter(|&step| met.insert(step)).collect())
    }

    /// The checkpoint that was saved last and is whole: its index, and the lengths and headers of its files. Newer ones
    /// that are not are [named](Checkpoint::skipped). None if nothing was ever saved; an error if nothing of it can be used.
    pub fn latest(&mut self) -> Result<Option<Checkpoint>, Error> {
        self.wait()?;
        Ok(self.newest(|_| Ok(()))?.map(|(found, ())| found))
    }

    /// The newest checkpoint that can be read, and the tree in it, placed like `like`: as [`latest`](Self::latest) and
    /// [`restore`](Checkpoint::restore), but where restoring finds damaged data the one before is taken. A tree of
    /// other shapes is an error.
    pub fn resume<H: HostTree>(&mut self, like: &H) -> Result<Option<(Checkpoint, H)>, Error> {
        self.wait()?;
        self.newest(|found| found.restore(like))
    }

    /// The newest checkpoint that `read` can use, with what it made of it.
    fn newest<R>(&self, read: impl Fn(&Checkpoint) -> Result<R, Error>) -> Result<Option<(Checkpoint, R)>, Error> {
        let mut skipped = vec![];
        let names: Vec<String> = folder::list(&self.folder)?.iter().map(ToString::to_string).collect();
        // Rank 0 knows best what is there: it has made it.
        let names = self.ranks.broadcast_from_first(names.join("\n"))?;
        for folder in names.lines().map(|name| self.folder.join(name)) {
            let opened = Checkpoint::open(&folder).map_err(Error::from);
            match self.ranks.agree(&folder, opened.and_then(|found| read(&found).map(|out| (found, out))))? {
                Ok((found, out)) => return Ok(Some((found.skipping(skipped), out))),
                Err(damage) => skipped.push(damage),
            }
        }
        if skipped.is_empty() {
            Ok(None)
        } else {
            Err(CheckpointError::None { folder: self.folder.clone(), skipped }.into())
        }
    }

    /// The checkpoint of a step.
    pub fn at(&mut self, step: u64) -> Result<Checkpoint, Error> {
        self.wait()?;
        let names = folder::list(&self.folder)?;
        let name = names.iter().find(|name| name.step == step).copied();
        let name = name.unwrap_or(folder::Name { turn: 0, step });
        Ok(Checkpoint::open(self.folder.join(name.to_string()))?)
    }
}

impl Drop for Checkpoints {
    /// Waits for the last save. Its error would be lost here, so it is written to standard error; call
    /// [`wait`](Checkpoints::wait) to have it.
    fn drop(&mut self) {
        if let Err(error) = self.wait() {
            eprintln!("a checkpoint was not saved: {error}");
        }
    }
}
