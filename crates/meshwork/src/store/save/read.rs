//! Reading a checkpoint: its contents, and its arrays on any mesh.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

use meshwork_ir::{ElementType, Literal};

use super::blocks::{self, BlockReader};
use super::error::{CheckpointError, Result};
use super::index::{INDEX, Index};
use super::layout::Leaf;
use crate::Array;
use crate::error::{ArrayError, Error};
use crate::tree::{HostTree, map_arrays, named_arrays};
use meshwork_runtime::array::slices::{Slice, lengths, overlap};
use meshwork_runtime::boxes::{BoxCopy, Region};

/// Files that are open at once.
const OPEN: usize = 32;

/// One checkpoint, found by [`Checkpoints`](super::Checkpoints). Its index is read and its files have the right length;
/// arrays are read, and their checksums compared, when they are asked for.
pub struct Checkpoint {
    folder: PathBuf,
    index: Index,
    skipped: Vec<String>,
    open: RefCell<BTreeMap<usize, BlockReader>>,
    taken: Cell<u64>,
}

impl Checkpoint {
    /// Opens the checkpoint of a folder, whose index names it.
    pub fn open(folder: impl AsRef<Path>) -> Result<Checkpoint> {
        let folder = folder.as_ref().to_path_buf();
        let index = Index::read(&folder.join(INDEX))?;
        for (name, extents) in &index.files {
            blocks::check_header(&folder.join(name), extents)?;
        }
        let (skipped, open, taken) = (vec![], RefCell::default(), Cell::new(0));
        Ok(Checkpoint { folder, index, skipped, open, taken })
    }

    pub(super) fn skipping(mut self, skipped: Vec<String>) -> Checkpoint {
        self.skipped = skipped;
        self
    }

    /// The step it was saved at.
    pub fn step(&self) -> u64 {
        self.index.step
    }

    /// What was noted with it.
    pub fn notes(&self) -> &BTreeMap<String, String> {
        &self.index.notes
    }

    /// Its folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Newer checkpoints that could not be used, and why, newest first.
    pub fn skipped(&self) -> &[String] {
        &self.skipped
    }

    /// Path, element type and shape of each array.
    pub fn arrays(&self) -> impl Iterator<Item = (&str, ElementType, &[i64])> {
        self.index.leaves.iter().map(|leaf| (leaf.path.as_str(), leaf.elem, &leaf.dims[..]))
    }

    /// Bytes of data that were read from files so far.
    pub fn bytes_read(&self) -> u64 {
        self.taken.get()
    }

    /// The tree, each array of the type and placed like the one in `like`, whose elements are not used. Of each array
    /// those parts are read that devices of this process hold.
    pub fn restore<H: HostTree>(&self, like: &H) -> Result<H, Error> {
        self.restore_part("", like)
    }

    /// A part of the tree that was saved: what is under `path`.
    pub fn restore_part<H: HostTree>(&self, path: &str, like: &H) -> Result<H, Error> {
        let full = |inside: &str| match (path, inside) {
            ("", path) | (path, "") => path.to_string(),
            (path, inside) => format!("{path}/{inside}"),
        };
        let asked: Vec<String> = named_arrays::<H::Tree>(like).iter().map(|(inside, _)| full(inside)).collect();
        let below = |leaf: &&Leaf| match leaf.path.strip_prefix(path) {
            Some(rest) => path.is_empty() || rest.is_empty() || rest.starts_with('/'),
            None => false,
        };
        let more: Vec<&str> = self
            .index
            .leaves
            .iter()
            .filter(below)
            .map(|l| &l.path[..])
            .filter(|p| !asked.iter().any(|a| a == p))
            .collect();
        if !more.is_empty() {
            let what = format!("it has arrays that the tree asked for has not: {}", some(&more));
            return Err(self.wrong(what).into());
        }
        map_arrays::<H::Tree, Error>(like, |inside, old| self.array(&full(inside), old))
    }

    /// One array, of the type and placed like `like`, whose elements are not used.
    pub fn array(&self, path: &str, like: &Array) -> Result<Array, Error> {
        let leaf = self.leaf(path)?;
        if leaf.dims != like.shape() || leaf.elem != like.dtype() {
            let (has, asked) = (format!("{}{:?}", leaf.elem, leaf.dims), format!("{}{:?}", like.dtype(), like.shape()));
            return Err(self.wrong(format!("array {path:?} was saved as {has}, not {asked}")).into());
        }
        match like.placement() {
            None => self.slice(path, &leaf.dims.iter().map(|&n| 0..n).collect::<Slice>()),
            Some(placement) => Array::on_mesh(&leaf.dims, leaf.elem, placement, |_, slice, local, buffer| {
                Ok(self.fill(leaf, slice, local, buffer)?)
            }),
        }
    }

    /// A part of an array, and of the files nothing but that part and the blocks around it.
    pub fn slice(&self, path: &str, slice: &[Range<i64>]) -> Result<Array, Error> {
        let leaf = self.leaf(path)?;
        let fits = slice.len() == leaf.dims.len()
            && slice.iter().zip(&leaf.dims).all(|(r, &n)| 0 <= r.start && r.start <= r.end && r.end <= n);
        if !fits {
            let what = format!("{slice:?} is not a part of {path:?}, which has shape {:?}", leaf.dims);
            return Err(self.wrong(what).into());
        }
        let dims = lengths(slice);
        let mut bytes = vec![0; leaf.bytes(&slice.to_vec()) as usize];
        self.fill(leaf, slice, &dims, &mut bytes)?;
        let given = bytes.len();
        let literal = Literal::from_bytes(dims.iter().copied(), leaf.elem, bytes);
        let wanted = dims.iter().product();
        literal.map(Array::from_literal).ok_or_else(|| ArrayError::Count { given, shape: dims, wanted }.into())
    }

    /// Reads all data of all files and compares every checksum.
    pub fn verify(&self) -> Result<()> {
        let mut buffer = vec![0; 1 << 16];
        for (file, (_, extents)) in self.index.files.iter().enumerate() {
            let mut at = 0;
            while at < extents.data {
                let now = (extents.data - at).min(buffer.len() as u64);
                self.read(file, at, &mut buffer[..now as usize])?;
                at += now;
            }
            self.with_reader(file, |_| Ok(()))?;
        }
        Ok(())
    }

    /// Reads `slice` of an array to the front of a buffer with extents `local`.
    fn fill(&self, leaf: &Leaf, slice: &[Range<i64>], local: &[i64], out: &mut [u8]) -> Result<()> {
        for piece in &leaf.pieces {
            let Some(both) = overlap(slice, &piece.slice) else { continue };
            let start =
                |base: &[Range<i64>]| -> Vec<i64> { both.iter().zip(base).map(|(r, b)| r.start - b.start).collect() };
            let (from, to) = (start(&piece.slice), start(slice));
            let stored = lengths(&piece.slice);
            let from = Region { dims: &stored, start: &from };
            let copy =
                BoxCopy::new(&from, &Region { dims: local, start: &to }, &lengths(&both), leaf.elem.storage_bytes());
            copy.runs(usize::MAX, &mut |from, to, length| {
                self.read(piece.rank, piece.offset + from as u64, &mut out[to..to + length])
            })?;
        }
        Ok(())
    }

    fn read(&self, file: usize, at: u64, out: &mut [u8]) -> Result<()> {
        let taken = self.with_reader(file, |reader| reader.read(at, out))?;
        self.taken.set(self.taken.get() + taken);
        Ok(())
    }

    fn with_reader<R>(&self, file: usize, f: impl FnOnce(&mut BlockReader) -> Result<R>) -> Result<R> {
        let mut open = self.open.borrow_mut();
        if let Some(reader) = open.get_mut(&file) {
            return f(reader);
        }
        if open.len() >= OPEN {
            open.clear();
        }
        let (name, extents) = &self.index.files[file];
        let mut reader = BlockReader::open(&self.folder.join(name), extents)?;
        let out = f(&mut reader);
        open.insert(file, reader);
        out
    }

    fn leaf(&self, path: &str) -> Result<&Leaf> {
        let found = self.index.leaves.iter().find(|leaf| leaf.path == path);
        found.ok_or_else(|| {
            let paths: Vec<&str> = self.index.leaves.iter().map(|l| &l.path[..]).collect();
            self.wrong(format!("there is no array {path:?}; it has {}", some(&paths)))
        })
    }

    fn wrong(&self, what: String) -> CheckpointError {
        CheckpointError::Tree { folder: self.folder.clone(), what }
    }
}

/// A few of many names.
fn some(names: &[&str]) -> String {
    let shown = names.iter().take(8).map(|n| format!("{n:?}")).collect::<Vec<_>>().join(", ");
    if names.len() > 8 { format!("{shown} and {} more", names.len() - 8) } else { shown }
}
