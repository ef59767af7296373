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
    /// Where operands and the result are, in vectors of that number.
    places: [usize; 4],
}

impl Site {
    /// `run` on `vectors` vectors of `lanes` elements.
    pub fn new(run: Loop, lanes: usize, vectors: usize) -> Site {
        Site { run: run.best(), lanes, vectors, places: [0, 1, 1, 2] }
    }

    /// `run` on one vector of `lanes` elements: of an operand, perhaps another, and what is nearly the result.
    pub fn far(run: Loop, lanes: usize, two: bool) -> Site {
        let places = if two { [0, 2, 1, 3] } else { [0, 1, 1, 3] };
        Site { run: run.best(), lanes, vectors: 1, places }
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
            let [x, y, z, result] = site.places.map(at);
            (site.run)(result, [x, y, z], site.lanes);
        }
    }
}
