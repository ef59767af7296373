//! Data in blocks, each with a checksum: written in sequence, read at any offset.

use std::fs::File;
use std::io::{BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use crc32fast::Hasher;

use super::disk::NewFile;
use super::error::{CheckpointError, Result, io};

/// Bytes of a block.
pub(super) const BLOCK: u64 = 4096;
/// Most bytes that are read at once.
const WINDOW: u64 = 1 << 20;

/// The number of blocks for `bytes` bytes.
pub(super) fn blocks(bytes: u64) -> u64 {
    bytes.div_ceil(BLOCK)
}

/// Writes data and counts up the checksums of its blocks.
pub(super) struct BlockWriter {
    out: BufWriter<NewFile>,
    file: PathBuf,
    crc: Hasher,
    filled: u64,
    table: Vec<u8>,
}

impl BlockWriter {
    /// A new file that starts with `header`, which no block covers.
    pub(super) fn create(file: &Path, header: &[u8]) -> Result<BlockWriter> {
        let mut out = BufWriter::with_capacity(1 << 18, NewFile::create(file).map_err(io(file))?);
        out.write_all(header).map_err(io(file))?;
        Ok(BlockWriter { out, file: file.to_path_buf(), crc: Hasher::new(), filled: 0, table: vec![] })
    }

    /// Appends data.
    pub(super) fn write(&mut self, mut bytes: &[u8]) -> Result<()> {
        self.out.write_all(bytes).map_err(io(&self.file))?;
        while !bytes.is_empty() {
            let (now, rest) = bytes.split_at(bytes.len().min((BLOCK - self.filled) as usize));
            self.crc.update(now);
            self.filled += now.len() as u64;
            bytes = rest;
            if self.filled == BLOCK {
                self.end_block();
            }
        }
        Ok(())
    }

    fn end_block(&mut self) {
        let crc = std::mem::replace(&mut self.crc, Hasher::new()).finalize();
        self.table.extend_from_slice(&crc.to_le_bytes());
        self.filled = 0;
    }

    /// Appends the table of checksums, brings all to the disk, and returns the checksum of the table.
    pub(super) fn finish(mut self) -> Result<u32> {
        if self.filled > 0 {
            self.end_block();
        }
        let fails = io(&self.file);
        self.out.write_all(&self.table).map_err(&fails)?;
        let file = self.out.into_inner().map_err(|e| fails(e.into_error()))?;
        file.sync().map_err(&fails)?;
        Ok(crc32fast::hash(&self.table))
    }
}

/// The offsets of the parts of a file, as the index has them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Extents {
    /// Bytes before the data.
    pub header: u64,
    /// Bytes of data.
    pub data: u64,
    /// Checksum of the header.
    pub header_crc: u32,
    /// Checksum of the table behind the data.
    pub table_crc: u32,
}

impl Extents {
    /// Bytes of the file.
    pub(super) fn length(&self) -> u64 {
        self.header + self.data + 4 * blocks(self.data)
    }
}

/// Reads checked data of a file.
pub(super) struct BlockReader {
    file: File,
    path: PathBuf,
    extents: Extents,
    table: Vec<u8>,
    /// Checked data, and where it starts.
    window: Vec<u8>,
    start: u64,
}

impl BlockReader {
    /// Opens a file if it is as long as the index says and its header and table are what was written.
    pub(super) fn open(path: &Path, extents: &Extents) -> Result<BlockReader> {
        check_header(path, extents)?;
        let mut file = File::open(path).map_err(io(path))?;
        let table = read_at(&mut file, path, extents.header + extents.data, 4 * blocks(extents.data))?;
        compare(path, || "the table of checksums".into(), crc32fast::hash(&table), extents.table_crc)?;
        let (extents, path) = (extents.clone(), path.to_path_buf());
        Ok(BlockReader { file, path, extents, table, window: vec![], start: 0 })
    }

    /// Reads data from `at` on into `out`, and returns how many bytes that took from the file.
    pub(super) fn read(&mut self, mut at: u64, mut out: &mut [u8]) -> Result<u64> {
        let mut taken = 0;
        if at.checked_add(out.len() as u64).is_none_or(|end| end > self.extents.data) {
            let wanted = at.saturating_add(out.len() as u64);
            return Err(CheckpointError::Length { file: self.path.clone(), has: self.extents.data, wanted });
        }
        while !out.is_empty() {
            let inside = at.checked_sub(self.start).filter(|&i| i < self.window.len() as u64);
            let Some(inside) = inside else {
                taken += self.fill(at, at + out.len() as u64)?;
                continue;
            };
            let have = &self.window[inside as usize..];
            let now = have.len().min(out.len());
            let (head, rest) = out.split_at_mut(now);
            head.copy_from_slice(&have[..now]);
            out = rest;
            at += now as u64;
        }
        Ok(taken)
    }

    /// Reads and checks the blocks from `at` towards `end`.
    fn fill(&mut self, at: u64, end: u64) -> Result<u64> {
        let start = at / BLOCK * BLOCK;
        let end = end.next_multiple_of(BLOCK).min(start + WINDOW).min(self.extents.data);
        self.window = read_at(&mut self.file, &self.path, self.extents.header + start, end - start)?;
        self.start = start;
        for (i, block) in self.window.chunks(BLOCK as usize).enumerate() {
            let number = start / BLOCK + i as u64;
            let wanted = self.table.chunks_exact(4).nth(number as usize).and_then(|c| c.try_into().ok());
            let from = number * BLOCK;
            let what = || format!("data bytes {from}..{}", from + block.len() as u64);
            let checked = compare(&self.path, what, crc32fast::hash(block), wanted.map_or(0, u32::from_le_bytes));
            if let Err(error) = checked {
                self.window.clear();
                return Err(error);
            }
        }
        Ok(end - start)
    }
}

/// Whether a file has its length and its header; the data is not read.
pub(super) fn check_header(path: &Path, extents: &Extents) -> Result<()> {
    let mut file = File::open(path).map_err(io(path))?;
    let has = file.metadata().map_err(io(path))?.len();
    if has != extents.length() {
        return Err(CheckpointError::Length { file: path.to_path_buf(), has, wanted: extents.length() });
    }
    let header = read_at(&mut file, path, 0, extents.header)?;
    compare(path, || "the header".into(), crc32fast::hash(&header), extents.header_crc)
}

fn read_at(file: &mut File, path: &Path, at: u64, length: u64) -> Result<Vec<u8>> {
    let mut bytes = vec![0; length as usize];
    let read = file.seek(SeekFrom::Start(at)).and_then(|_| file.read_exact(&mut bytes));
    read.map_err(io(path))?;
    Ok(bytes)
}

fn compare(file: &Path, what: impl FnOnce() -> String, has: u32, wanted: u32) -> Result<()> {
    if has == wanted {
        Ok(())
    } else {
        Err(CheckpointError::Checksum { file: file.to_path_buf(), what: what(), has, wanted })
    }
}
