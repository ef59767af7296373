//! Memory from the operating system, kept for the next one who needs it.
//!
//! Pages of 2 MB are asked for, and what has been touched once is not given back while the cache is small: the first
//! touch of a page costs more than all the work on it. Invariant: all memory handed out is initialized, though with
//! unspecified contents.

use std::collections::BTreeMap;
use std::ptr::NonNull;
use std::sync::{Mutex, PoisonError};

/// Size of a large page, and the alignment of mappings.
pub(crate) const HUGE: usize = 2 << 20;
/// Pieces up to this size are cut from common mappings.
const SMALL: usize = 1 << 20;
/// Size of a common mapping.
const REGION: usize = 8 * HUGE;
/// Free memory beyond this is returned to the operating system.
const KEEP: usize = 6 << 30;
/// From one large buffer to the next, so that they do not start at the same place of their 4 KB pages: loads and
/// stores at equal places are taken for dependent by the processor.
const STAGGER: usize = 1088;

/// A piece of memory: 64-byte aligned, `size` bytes.
#[derive(Debug)]
pub(crate) struct Piece {
    pub ptr: NonNull<u8>,
    pub size: usize,
}

// SAFETY: a piece is a range of addresses with one owner.
unsafe impl Send for Piece {}

#[derive(Default)]
struct Cache {
    /// Free pieces by size.
    free: BTreeMap<usize, Vec<Piece>>,
    free_large: usize,
    /// What is left of the current common mapping.
    region: Option<(Piece, usize)>,
    count: usize,
}

static CACHE: Mutex<Option<Cache>> = Mutex::new(None);

/// The size that a request is rounded up to: few sizes, so that pieces fit again.
fn rounded(bytes: usize) -> usize {
    let bytes = bytes.max(64);
    if bytes > SMALL {
        // Room for the stagger, then whole pages in steps of an eighth.
        let step = (bytes.next_power_of_two() / 16).max(HUGE);
        return (bytes + 4096).next_multiple_of(step);
    }
    let step = (bytes.next_power_of_two() / 8).max(64);
    bytes.next_multiple_of(step)
}

/// Where pieces of no bytes are.
#[repr(align(64))]
struct Nowhere([u8; 64]);

static NOWHERE: Nowhere = Nowhere([0; 64]);

/// Memory of at least `bytes` bytes; `None` if there is none.
pub(crate) fn take(bytes: usize) -> Option<Piece> {
    if bytes == 0 {
        return Some(Piece { ptr: NonNull::from(&NOWHERE.0).cast(), size: 0 });
    }
    let size = rounded(bytes);
    let mut guard = CACHE.lock().unwrap_or_else(PoisonError::into_inner);
    let cache = guard.get_or_insert_with(Cache::default);
    let limit = if size > SMALL { size + size / 4 } else { size };
    let fit = cache.free.range_mut(size..=limit).find_map(|(_, pieces)| pieces.pop());
    if let Some(piece) = fit {
        if piece.size > SMALL {
            cache.free_large -= piece.size;
        }
        return Some(piece);
    }
    if size > SMALL {
        cache.count += 1;
        let stagger = cache.count * STAGGER % 4096;
        drop(guard);
        let whole = map(size)?;
        // SAFETY: `rounded` left room for the stagger.
        let ptr = unsafe { whole.ptr.add(stagger) };
        return Some(Piece { ptr, size });
    }
    if cache.region.as_ref().is_none_or(|(region, used)| used + size > region.size) {
        cache.region = Some((map(REGION)?, 0));
    }
    let (region, used) = cache.region.as_mut()?;
    // SAFETY: `used + size` is at most the size of the mapping.
    let ptr = unsafe { region.ptr.add(*used) };
    *used += size;
    Some(Piece { ptr, size })
}

/// Takes back what [`take`] gave.
pub(crate) fn give(piece: Piece) {
    if piece.size == 0 {
        return;
    }
    let mut guard = CACHE.lock().unwrap_or_else(PoisonError::into_inner);
    let cache = guard.get_or_insert_with(Cache::default);
    if piece.size > SMALL {
        if cache.free_large + piece.size > KEEP {
            drop(guard);
            let start = piece.ptr.as_ptr() as usize / HUGE * HUGE;
            // SAFETY: pieces of this size are whole mappings whose start is staggered by less than a page; nothing
            // else refers to it.
            unsafe { libc::munmap(start as *mut libc::c_void, piece.size) };
            return;
        }
        cache.free_large += piece.size;
    }
    cache.free.entry(piece.size).or_default().push(piece);
}

/// A mapping that starts at a multiple of the large page size. It is zero.
fn map(size: usize) -> Option<Piece> {
    let whole = size.checked_add(HUGE)?;
    let access = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: an anonymous mapping at an address of the system's choice touches no other memory.
    let start =
        unsafe { libc::mmap(std::ptr::null_mut(), whole, access, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0) };
    if start == libc::MAP_FAILED {
        return None;
    }
    let start = start as usize;
    let aligned = start.next_multiple_of(HUGE);
    let (before, after) = (aligned - start, start + whole - aligned - size);
    // SAFETY: the parts before and after the aligned piece belong to the mapping just made; the advice concerns only
    // the piece.
    unsafe {
        if before > 0 {
            libc::munmap(start as *mut libc::c_void, before);
        }
        if after > 0 {
            libc::munmap((aligned + size) as *mut libc::c_void, after);
        }
        libc::madvise(aligned as *mut libc::c_void, size, libc::MADV_HUGEPAGE);
    }
    NonNull::new(aligned as *mut u8).map(|ptr| Piece { ptr, size })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_aligned_distinct_and_reused() {
        for bytes in [0, 1, 64, 65, 5000, SMALL, SMALL + 1, 3 * HUGE] {
            let a = take(bytes).unwrap();
            let b = take(bytes).unwrap();
            for piece in [&a, &b] {
                assert_eq!(piece.ptr.as_ptr() as usize % 64, 0);
                assert!(piece.size >= bytes);
                // SAFETY: the piece is ours and initialized.
                unsafe { piece.ptr.as_ptr().write_bytes(7, bytes) };
            }
            let (from, to) = (a.ptr.as_ptr() as usize, b.ptr.as_ptr() as usize);
            assert!(from + bytes <= to || to + bytes <= from);
            give(a);
            give(b);
        }
    }
}
