//! One save: every rank writes its file, rank 0 commits the checkpoint.
//!
//! The order of events and what a crash leaves at each moment are in the README beside this file.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::blocks::{BlockWriter, Extents};
use super::disk::{self, write_synced};
use super::error::{CheckpointError, Result};
use super::folder::{self, Name};
use super::index::{INDEX, Index};
use super::layout::{Layout, file_name, header};
use super::ranks::Ranks;
use crate::Array;
use meshwork_runtime::array::slices::lengths;
use meshwork_runtime::boxes::{BoxCopy, Region};

/// A save in progress: what the writing thread needs.
pub(super) struct Save {
    pub folder: PathBuf,
    pub ranks: Ranks,
    /// Saves of this run before.
    pub number: u64,
    pub step: u64,
    pub notes: BTreeMap<String, String>,
    pub layout: Layout,
    pub arrays: Vec<(String, Array)>,
    /// How many checkpoints stay.
    pub keep: Option<usize>,
}

impl Save {
    /// Saves, and returns when the checkpoint is complete. On failure the other ranks are notified.
    pub(super) fn run(self) -> Result<()> {
        let aside = self.folder.join(folder::saving(self.ranks.token(), self.number, self.step));
        let done = self.run_in(&aside);
        if let Err(error) = &done {
            // Told as well as can be: the other ranks have a deadline too.
            let note = aside.join(format!("failed-{:05}", self.ranks.rank()));
            let _ = write_aside(&note, error.to_string().as_bytes());
        }
        done
    }

    fn run_in(&self, aside: &Path) -> Result<()> {
        disk::make_folders(&self.folder)?;
        if self.ranks.rank() == 0 && self.number == 0 {
            folder::remove_leftovers(&self.folder, self.ranks.token())?;
        }
        let before = folder::list(&self.folder)?.first().copied();
        disk::make_folder(aside)?;
        let part = self.write_part(aside)?;
        write_aside(&aside.join(part_name(self.ranks.rank())), part.to_string().as_bytes())?;
        match self.ranks.rank() {
            0 => self.commit(aside),
            _ => self.wait_for_commit(aside, before),
        }
    }

    /// Writes this rank's file; what rank 0 needs to know of it.
    fn write_part(&self, aside: &Path) -> Result<Value> {
        let rank = self.ranks.rank();
        let head = header(&self.layout, rank);
        let mut out = BlockWriter::create(&aside.join(file_name(rank)), &head)?;
        for (leaf, (path, array)) in self.layout.leaves.iter().zip(&self.arrays) {
            for piece in leaf.pieces.iter().filter(|p| p.rank == rank) {
                let wrong = |e: crate::ArrayError| CheckpointError::Tree { folder: path.into(), what: e.to_string() };
                let stored = array.stored(piece.device, &piece.slice).map_err(wrong)?;
                let at = Region { dims: &stored.dims, start: &stored.start };
                let copy = BoxCopy::new(&at, &at, &lengths(&piece.slice), leaf.elem.storage_bytes());
                copy.runs(usize::MAX, &mut |from, _, length| out.write(&stored.bytes()[from..from + length]))?;
            }
        }
        let table_crc = out.finish()?;
        Ok(json!({ "layout_crc": self.layout.digest(), "table_crc": table_crc }))
    }

    /// Waits for the parts of all ranks and makes a checkpoint of them.
    fn commit(&self, aside: &Path) -> Result<()> {
        let mut parts = vec![];
        let mut patience = Patience::new(self.ranks.deadline);
        for rank in 0..self.ranks.size() {
            let part = loop {
                if let Ok(text) = fs::read(aside.join(part_name(rank))) {
                    break text;
                }
                self.check_failed(aside)?;
                let what = match (self.ranks.is_dead(rank), patience.sleep()) {
                    (true, _) => format!("rank {rank} has died before it had written its part"),
                    (false, false) => {
                        let limit = self.ranks.deadline.as_secs_f64();
                        format!("rank {rank} has not written its part within {limit} s")
                    }
                    (false, true) => continue,
                };
                // It may have died when it had done its part.
                if let Ok(text) = fs::read(aside.join(part_name(rank))) {
                    break text;
                }
                return Err(CheckpointError::Peer { step: self.step, what });
            };
            let part: Value = serde_json::from_slice(&part).unwrap_or_default();
            let crc = |key: &str| part[key].as_u64().map(|n| n as u32);
            let (Some(layout_crc), Some(table_crc)) = (crc("layout_crc"), crc("table_crc")) else {
                let what = format!("rank {rank} left a note that cannot be read");
                return Err(CheckpointError::Peer { step: self.step, what });
            };
            parts.push((layout_crc, table_crc));
        }
        let own = self.layout.digest();
        if let Some(rank) = parts.iter().position(|&(crc, _)| crc != own) {
            // The culprit is the one that differs from all others; between two, either may be it.
            let alone = parts.len() > 2 && parts.iter().filter(|p| p.0 == own).count() == 1;
            let (odd, others) = if alone { (0, "the others".to_string()) } else { (rank, "rank 0".into()) };
            let what = format!("rank {odd} saves another tree than {others}, or one with other placements");
            return Err(CheckpointError::Peer { step: self.step, what });
        }
        let mut files = vec![];
        for (rank, (_, table_crc)) in parts.into_iter().enumerate() {
            let head = header(&self.layout, rank);
            let (header, data) = (head.len() as u64, self.layout.data[rank]);
            let header_crc = crc32fast::hash(&head);
            files.push((file_name(rank), Extents { header, data, header_crc, table_crc }));
        }
        let index = Index { step: self.step, notes: self.notes.clone(), files, leaves: self.layout.leaves.clone() };
        write_synced(&aside.join(INDEX), index.text().as_bytes())?;
        for rank in 0..self.ranks.size() {
            disk::remove_file(&aside.join(part_name(rank)))?;
        }
        disk::sync_folder(aside)?;
        let name = Name::next(&self.folder, self.step)?;
        let place = self.folder.join(name.to_string());
        disk::rename(aside, &place)?;
        disk::sync_folder(&self.folder)?;
        folder::prune(&self.folder, self.keep, self.ranks.token())
    }

    /// Waits until rank 0 has given the folder its name, after `before`, and makes that last.
    fn wait_for_commit(&self, aside: &Path, before: Option<Name>) -> Result<()> {
        // A little longer than rank 0 waits for the others: it knows which of them is late.
        let mut patience = Patience::new(self.ranks.deadline + self.ranks.deadline / 4 + Duration::from_millis(200));
        while !self.is_committed(before)? {
            self.check_failed(aside)?;
            let what = match (self.ranks.is_dead(0), patience.sleep()) {
                (true, _) => "rank 0 has died before it had completed the checkpoint".to_string(),
                (false, false) => {
                    let limit = self.ranks.deadline.as_secs_f64();
                    format!("rank 0 has not completed the checkpoint within {limit} s")
                }
                (false, true) => continue,
            };
            self.check_failed(aside)?;
            if !self.is_committed(before)? {
                return Err(CheckpointError::Peer { step: self.step, what });
            }
        }
        disk::sync_folder(&self.folder)
    }

    /// Whether the save has become a checkpoint, the first after `before`. That its own folder is gone would not be
    /// enough: another job may have removed it.
    fn is_committed(&self, before: Option<Name>) -> Result<bool> {
        Ok(folder::list(&self.folder)?.first().is_some_and(|name| Some(*name) > before && name.step == self.step))
    }

    /// The error that another rank has left.
    fn check_failed(&self, aside: &Path) -> Result<()> {
        for rank in (0..self.ranks.size()).filter(|&rank| rank != self.ranks.rank()) {
            if let Ok(text) = fs::read(aside.join(format!("failed-{rank:05}"))) {
                let what = format!("rank {rank}: {}", String::from_utf8_lossy(&text));
                return Err(CheckpointError::Peer { step: self.step, what });
            }
        }
        Ok(())
    }
}

fn part_name(rank: usize) -> String {
    format!("part-{rank:05}.json")
}

/// Writes a file atomically.
fn write_aside(file: &Path, bytes: &[u8]) -> Result<()> {
    let aside = file.with_extension("tmp");
    write_synced(&aside, bytes)?;
    disk::rename(&aside, file)
}

/// Waiting that begins short and grows, up to a deadline.
struct Patience {
    end: Instant,
    next: Duration,
}

impl Patience {
    fn new(deadline: Duration) -> Patience {
        Patience { end: Instant::now() + deadline, next: Duration::from_micros(500) }
    }

    /// Sleeps; `false` if the time is over.
    fn sleep(&mut self) -> bool {
        std::thread::sleep(self.next);
        self.next = (self.next * 2).min(Duration::from_millis(20));
        Instant::now() < self.end
    }
}
