//! Memory for code: written to pages of its own, which then become executable and are not written until the code is
//! dropped. Then others may have them, or the system has them back.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// Code that can be called as long as this lives.
#[derive(Debug)]
pub struct MachineCode {
    start: usize,
    bytes: usize,
}

impl MachineCode {
    /// The first instruction.
    pub fn start(&self) -> *const u8 {
        self.start as *const u8
    }
}

impl Drop for MachineCode {
    fn drop(&mut self) {
        ARENA.lock().unwrap_or_else(PoisonError::into_inner).give(self.start, self.bytes);
    }
}

/// Mappings, and the parts of them that hold no code, which are writable. All by address, with their sizes.
struct Arena {
    mapped: BTreeMap<usize, usize>,
    free: BTreeMap<usize, usize>,
}

const PAGE: usize = 4096;

/// Bytes mapped at a time.
const CHUNK: usize = 1 << 20;

static ARENA: Mutex<Arena> = Mutex::new(Arena { mapped: BTreeMap::new(), free: BTreeMap::new() });

/// Copies `code` to executable pages; `None` if the system refuses them. Each piece of code has its own pages, so
/// that no page is ever both writable and executable.
pub fn publish(code: &[u8]) -> Option<MachineCode> {
    let bytes = code.len().next_multiple_of(PAGE);
    let mut arena = ARENA.lock().unwrap_or_else(PoisonError::into_inner);
    let start = arena.take(bytes)?;
    // SAFETY: the range is mapped, writable, at least as long as the code, and nobody else's.
    unsafe { std::ptr::copy_nonoverlapping(code.as_ptr(), start as *mut u8, code.len()) };
    if !protect(start, bytes, libc::PROT_READ | libc::PROT_EXEC) {
        arena.give(start, bytes);
        return None;
    }
    Some(MachineCode { start, bytes })
}

/// Bytes of the pages that hold code.
pub fn in_use() -> usize {
    let arena = ARENA.lock().unwrap_or_else(PoisonError::into_inner);
    arena.mapped.values().sum::<usize>() - arena.free.values().sum::<usize>()
}

/// Whether the access to whole pages of a mapping could be changed.
fn protect(start: usize, bytes: usize, access: i32) -> bool {
    // SAFETY: the pages belong to a mapping of the arena. Code in them runs only while its `MachineCode` lives, and they
    // become writable only after that.
    unsafe { libc::mprotect(start as *mut libc::c_void, bytes, access) == 0 }
}

impl Arena {
    /// Writable pages.
    fn take(&mut self, bytes: usize) -> Option<usize> {
        let fit = self.free.iter().find(|&(_, &size)| size >= bytes).map(|(&start, &size)| (start, size));
        let (start, size) = fit.or_else(|| self.map(bytes.max(CHUNK)))?;
        self.free.remove(&start);
        if size > bytes {
            self.free.insert(start + bytes, size - bytes);
        }
        Some(start)
    }

    fn map(&mut self, size: usize) -> Option<(usize, usize)> {
        let (access, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: an anonymous mapping at an address of the system's choice touches no other memory.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), size, access, flags, -1, 0) };
        if start == libc::MAP_FAILED {
            return None;
        }
        self.mapped.insert(start as usize, size);
        Some((start as usize, size))
    }

    /// Takes pages back, and gives a mapping without code back to the system.
    fn give(&mut self, start: usize, bytes: usize) {
        if !protect(start, bytes, libc::PROT_READ | libc::PROT_WRITE) {
            // They stay as they are, and out of use.
            return;
        }
        let (mut start, mut end) = (start, start + bytes);
        let within = |at: usize, mapped: &BTreeMap<usize, usize>| mapped.range(..=at).next_back().map(|(&m, _)| m);
        let own = within(start, &self.mapped);
        let before = self.free.range(..start).next_back().map(|(&at, &size)| (at, at + size));
        if let Some((at, _)) = before.filter(|&(at, to)| to == start && within(at, &self.mapped) == own) {
            self.free.remove(&at);
            start = at;
        }
        if let Some(size) = self.free.get(&end).copied().filter(|_| within(end, &self.mapped) == own) {
            self.free.remove(&end);
            end += size;
        }
        if self.mapped.get(&start) == Some(&(end - start)) {
            self.mapped.remove(&start);
            // SAFETY: a whole mapping of the arena, in which no code is left.
            unsafe { libc::munmap(start as *mut libc::c_void, end - start) };
        } else {
            self.free.insert(start, end - start);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Code of several sizes, dropped in another order than it was made, leaves nothing behind. Other tests publish code
    /// at the same time, so the pages are counted here.
    #[test]
    fn pages_are_given_back_and_used_again() {
        let mut arena = Arena { mapped: BTreeMap::new(), free: BTreeMap::new() };
        let mut held: Vec<(usize, usize)> = vec![];
        let mut random = 1u64;
        for round in 0..4000 {
            random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let pick = (random >> 33) as usize;
            if held.len() < 300 && (round < 2000 || pick.is_multiple_of(3)) {
                let bytes = PAGE * (1 + pick % 7 * (pick % 50) / 7);
                let start = arena.take(bytes).unwrap();
                assert!(held.iter().all(|&(at, size)| start + bytes <= at || at + size <= start), "overlap");
                // SAFETY: the pages are writable and in nobody else's use.
                unsafe { std::ptr::write_bytes(start as *mut u8, 0xc3, bytes) };
                assert!(protect(start, bytes, libc::PROT_READ | libc::PROT_EXEC));
                held.push((start, bytes));
            } else if !held.is_empty() {
                let (start, bytes) = held.swap_remove(pick % held.len());
                arena.give(start, bytes);
            }
        }
        held.drain(..).for_each(|(start, bytes)| arena.give(start, bytes));
        assert!(arena.mapped.is_empty() && arena.free.is_empty(), "{:?} {:?}", arena.mapped, arena.free);
    }
}
