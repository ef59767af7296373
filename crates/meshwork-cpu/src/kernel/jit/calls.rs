//! Calls of the interpreter's loops, for operations that have no instructions here.

use crate::kernel::interp::loops::{Loop, MapFn};
use crate::kernel::lanes::VECTOR;

/// A loop, and the vectors that it is called on.
#[derive(Debug)]
pub struct Site {
    run: MapFn,
    /// Elements of a vector.
    lanes: usize,
    /// How many there are.
    vectors: usize,
}

impl Site {
    /// `run` on `vectors` vectors of `lanes` elements.
    pub fn new(run: Loop, lanes: usize, vectors: usize) -> Site {
        Site { run: run.best(), lanes, vectors }
    }

    /// Vectors in the frame: those of both operands, and those of the result.
    pub fn slots(vectors: usize) -> usize {
        3 * vectors
    }
}

/// Calls the loop of `site` on the vectors at `slots`: first operands, second operands, results.
///
/// # Safety
/// There is room for all of them.
pub unsafe extern "sysv64" fn call(site: &Site, slots: *mut u8) {
    let count = site.vectors;
    for i in 0..count {
        // SAFETY: the caller's promise; a vector has room for its lanes.
        unsafe {
            let at = |k: usize| slots.add(VECTOR * (k * count + i));
            (site.run)(at(2), [at(0), at(1), at(1)], site.lanes);
        }
    }
}
