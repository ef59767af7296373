//! The folder of a run: names of checkpoints in it, and what is cleaned up.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs;
use std::path::Path;

use meshwork_mesh::sort_by;

use super::disk;
use super::error::{Result, io};
use super::read::Checkpoint;

/// The name of a checkpoint. Names in order are saves in order: `turn` grows whenever a save is not of a later step
/// than the one before it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Name {
    pub turn: u64,
    pub step: u64,
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "step-{:08}", self.step)?;
        match self.turn {
            0 => Ok(()),
            turn => write!(f, ".{turn}"),
        }
    }
}

impl Name {
    fn parse(text: &str) -> Option<Name> {
        let name = text.strip_prefix("step-")?;
        let (step, turn) = match name.split_once('.') {
            Some((step, turn)) => (step, turn.parse().ok()?),
            None => (name, 0),
        };
        Some(Name { turn, step: step.parse().ok()? })
    }

    /// A name for a new checkpoint of `step`, after all that are there.
    pub(super) fn next(folder: &Path, step: u64) -> Result<Name> {
        Ok(match list(folder)?.first() {
            None => Name { turn: 0, step },
            Some(newest) if step > newest.step => Name { turn: newest.turn, step },
            Some(newest) => Name { turn: newest.turn + 1, step },
        })
    }
}

/// The folder of a save in progress.
pub(super) fn saving(token: &str, number: u64, step: u64) -> String {
    format!(".saving-{token}-{number}-{step:08}")
}

/// All checkpoints of a folder, the one saved last first; none if there is no folder.
pub(super) fn list(folder: &Path) -> Result<Vec<Name>> {
    let mut names: Vec<Name> = entries(folder)?.iter().filter_map(|name| Name::parse(name)).collect();
    sort_by(&mut names, |a, b| b.cmp(a));
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
            disk::remove_folder(&folder.join(name))?;
        }
    }
    Ok(())
}

/// Deletes what was saved before the last `keep` whole checkpoints, and earlier saves of the step of a whole one. First
/// a checkpoint loses its name, so that a half-deleted one is never found.
pub(super) fn prune(folder: &Path, keep: Option<usize>, token: &str) -> Result<()> {
    let old = superfluous(folder, keep)?;
    if old.is_empty() {
        return Ok(());
    }
    let gone = |name: &Name| folder.join(format!(".gone-{token}-{name}"));
    for name in &old {
        disk::rename(&folder.join(name.to_string()), &gone(name))?;
    }
    disk::sync_folder(folder)?;
    old.iter().try_for_each(|name| disk::remove_folder(&gone(name)))
}

/// What [`prune`] deletes. A checkpoint that cannot be read takes no place of one that can, and replaces none.
fn superfluous(folder: &Path, keep: Option<usize>) -> Result<Vec<Name>> {
    let mut names = list(folder)?;
    if keep.is_none() {
        let mut saves: BTreeMap<u64, usize> = BTreeMap::new();
        names.iter().for_each(|name| *saves.entry(name.step).or_default() += 1);
        names.retain(|name| saves[&name.step] > 1);
    }
    let mut whole = BTreeSet::new();
    let is_old = |name: &Name| {
        let is_old = keep.is_some_and(|keep| whole.len() >= keep) || whole.contains(&name.step);
        if !is_old && Checkpoint::open(folder.join(name.to_string())).is_ok() {
            whole.insert(name.step);
        }
        is_old
    };
    Ok(names.into_iter().filter(is_old).collect())
}
