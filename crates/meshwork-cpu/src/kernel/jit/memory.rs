//! Executable memory: code is written to fresh pages, which then become executable and are never written again.

use std::sync::{Mutex, PoisonError};

/// Code that can be called for the rest of the process.
#[derive(Clone, Copy, Debug)]
pub struct MachineCode(*const u8);

// SAFETY: the pages are never written after they are made executable, and never unmapped.
unsafe impl Send for MachineCode {}
// SAFETY: as above.
unsafe impl Sync for MachineCode {}

impl MachineCode {
    /// The first instruction.
    pub fn start(self) -> *const u8 {
        self.0
    }
}

/// Pages that are executable up to `used`; what follows in the last mapping is still writable.
struct Arena {
    /// Start of the mapping that has room, and how much of it there is and is used.
    base: *mut u8,
    size: usize,
    used: usize,
}

// SAFETY: the arena is only touched under its lock.
unsafe impl Send for Arena {}

const PAGE: usize = 4096;

/// Bytes mapped at a time.
const CHUNK: usize = 1 << 20;

static ARENA: Mutex<Arena> = Mutex::new(Arena { base: std::ptr::null_mut(), size: 0, used: 0 });

/// Copies `code` to executable pages; `None` if the system refuses them. Each piece of code has its own pages, so
/// that no page is ever both writable and executable.
pub fn publish(code: &[u8]) -> Option<MachineCode> {
    let bytes = code.len().next_multiple_of(PAGE);
    let mut arena = ARENA.lock().unwrap_or_else(PoisonError::into_inner);
    // SAFETY: an anonymous mapping of our own; the range that is written and then protected is inside it and was
    // not handed out before.
    unsafe {
        if arena.size - arena.used < bytes {
            let size = bytes.max(CHUNK);
            let (read, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
            let base = libc::mmap(std::ptr::null_mut(), size, read, flags, -1, 0);
            if base == libc::MAP_FAILED {
                return None;
            }
            *arena = Arena { base: base.cast(), size, used: 0 };
        }
        let start = arena.base.add(arena.used);
        std::ptr::copy_nonoverlapping(code.as_ptr(), start, code.len());
        if libc::mprotect(start.cast(), bytes, libc::PROT_READ | libc::PROT_EXEC) != 0 {
            return None;
        }
        arena.used += bytes;
        Some(MachineCode(start))
    }
}
