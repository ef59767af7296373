//! The folder of a run: names of checkpoints in it, and what is cleaned up.

use std::fmt;
use std::fs;
use std::path::Path;

use super::error::{Result, io};

/// The name of a checkpoint: its step, and how often that was saved before.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Name {
    pub step: u64,
    pub again: u64,
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "step-{:08}", self.step)?;
        match self.again {
            0 => Ok(()),
            again => write!(f, ".{again}"),
        }
    }
}

impl Name {
    fn parse(text: &str) -> Option<Name> {
        let (step, again) = match text.strip_prefix("step-")?.split_once('.') {
            Some((step, again)) => (step, again.parse().ok()?),
            None => (text.strip_prefix("step-")?, 0),
        };
        Some(Name { step: step.parse().ok()?, again })
    }

    /// A name for a new checkpoint of `step`.
    pub(super) fn next(folder: &Path, step: u64) -> Result<Name> {
        let taken = list(folder)?.into_iter().filter(|n| n.step == step).map(|n| n.again).max();
        Ok(Name { step, again: taken.map_or(0, |n| n + 1) })
    }
}

/// The folder of a save in progress.
pub(super) fn saving(token: &str, number: u64, step: u64) -> String {
    format!(".saving-{token}-{number}-{step:08}")
}

/// All checkpoints of a folder, newest first; none if there is no folder.
pub(super) fn list(folder: &Path) -> Result<Vec<Name>> {
    let mut names: Vec<Name> = entries(folder)?.iter().filter_map(|name| Name::parse(name)).collect();
    names.sort_unstable_by(|a, b| b.cmp(a));
    Ok(names)
}

fn entries(folder: &Path) -> Result<Vec<String>> {
    if !folder.exists() {
        return Ok(vec![]);
    }
    let mut names = vec![];
    for entry in fs::read_dir(folder).map_err(io(folder))? {
        names.extend(entry.map_err(io(folder))?.file_name().into_string().ok());
    }
    Ok(names)
}

/// Deletes unfinished saves of runs with other tokens.
pub(super) fn remove_leftovers(folder: &Path, token: &str) -> Result<()> {
    let own = format!(".saving-{token}-");
    for name in entries(folder)? {
        if (name.starts_with(".saving-") && !name.starts_with(&own)) || name.starts_with(".gone-") {
            let path = folder.join(name);
            fs::remove_dir_all(&path).map_err(io(&path))?;
        }
    }
    Ok(())
}

/// Deletes all but the `keep` newest steps, and older saves of the same step. First a checkpoint loses its name, so that
/// a half-deleted one is never found.
pub(super) fn prune(folder: &Path, keep: Option<usize>, token: &str) -> Result<()> {
    let mut steps = 0;
    let mut last = None;
    for name in list(folder)? {
        let is_again = last == Some(name.step);
        steps += usize::from(!is_again);
        last = Some(name.step);
        if !is_again && keep.is_none_or(|keep| steps <= keep) {
            continue;
        }
        let (old, gone) = (folder.join(name.to_string()), folder.join(format!(".gone-{token}-{name}")));
        fs::rename(&old, &gone).map_err(io(&old))?;
        fs::remove_dir_all(&gone).map_err(io(&gone))?;
    }
    Ok(())
}

/// Flushes the directory to disk.
pub(super) fn sync(folder: &Path) -> Result<()> {
    #[cfg(unix)]
    fs::File::open(folder).and_then(|f| f.sync_all()).map_err(io(folder))?;
    let _ = folder;
    Ok(())
}
