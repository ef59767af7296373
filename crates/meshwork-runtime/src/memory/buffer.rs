//! A buffer: bytes with one owner, given back to the cache when it is dropped.

use std::fmt;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::sync::{Arc, OnceLock};

use super::pages::{self, Piece};
use super::usage;

/// Aligned memory of a certain size with unspecified contents at first.
pub struct Buffer {
    piece: ManuallyDrop<Piece>,
    bytes: usize,
    /// For memory of someone else: called when the buffer is dropped.
    lent: Option<Box<dyn FnOnce() + Send>>,
}

// SAFETY: a buffer owns its bytes; shared references only read them, except through `as_ptr`, whose users vouch for
// what they do.
unsafe impl Sync for Buffer {}

/// There is no memory left.
#[derive(Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no memory for {bytes} bytes")]
pub struct OutOfMemory {
    /// How many were asked for.
    pub bytes: usize,
}

meshwork_mesh::debug_as_display!(OutOfMemory);

impl Buffer {
    /// A buffer of `bytes` bytes; it has an address even if that is 0.
    pub fn new(bytes: usize) -> Result<Buffer, OutOfMemory> {
        let piece = pages::take(bytes).ok_or(OutOfMemory { bytes })?;
        usage::add(bytes);
        Ok(Buffer { piece: ManuallyDrop::new(piece), bytes, lent: None })
    }

    /// A buffer with these contents.
    pub fn from_bytes(bytes: &[u8]) -> Result<Buffer, OutOfMemory> {
        let mut buffer = Buffer::new(bytes.len())?;
        buffer.as_mut_slice().copy_from_slice(bytes);
        Ok(buffer)
    }

    /// A buffer over memory of someone else, who is told by `release` when it is dropped; `None` for a null address.
    ///
    /// # Safety
    ///
    /// Until then the memory stays where it is and nobody writes to it, neither its owner nor whoever holds the buffer.
    pub unsafe fn lent(start: *mut u8, bytes: usize, release: Box<dyn FnOnce() + Send>) -> Option<Buffer> {
        let piece = Piece { ptr: NonNull::new(start)?, size: bytes };
        usage::add(bytes);
        Some(Buffer { piece: ManuallyDrop::new(piece), bytes, lent: Some(release) })
    }

    /// Whether the memory is someone else's, and may not be written.
    pub fn is_lent(&self) -> bool {
        self.lent.is_some()
    }

    /// Stands for a piece that another process has: no bytes.
    pub fn absent() -> Result<Arc<Buffer>, OutOfMemory> {
        static ABSENT: OnceLock<Arc<Buffer>> = OnceLock::new();
        if ABSENT.get().is_none() {
            let _ = ABSENT.set(Arc::new(Buffer::new(0)?));
        }
        ABSENT.get().cloned().ok_or(OutOfMemory { bytes: 0 })
    }

    /// Size in bytes.
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// Whether it holds no byte.
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// Makes it `bytes` bytes long if it is longer.
    pub fn truncate(&mut self, bytes: usize) {
        usage::subtract(self.bytes.saturating_sub(bytes));
        self.bytes = self.bytes.min(bytes);
    }

    /// Its address, 64-byte aligned unless the memory is lent. Writing through it needs exclusive use of the buffer.
    pub fn as_ptr(&self) -> *mut u8 {
        self.piece.ptr.as_ptr()
    }

    /// Its contents.
    pub fn as_slice(&self) -> &[u8] {
        // SAFETY: the piece has at least `bytes` bytes, all initialized.
        unsafe { std::slice::from_raw_parts(self.as_ptr(), self.bytes) }
    }

    /// Its contents, writable.
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        // SAFETY: as above, and the reference is exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.as_ptr(), self.bytes) }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        usage::subtract(self.bytes);
        match self.lent.take() {
            Some(release) => release(),
            // SAFETY: it is not used again.
            None => pages::give(unsafe { ManuallyDrop::take(&mut self.piece) }),
        }
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer({} bytes)", self.bytes)
    }
}
