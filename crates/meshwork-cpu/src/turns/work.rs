//! The step of a loop: its state in scratch memory, chunk after chunk of its lanes.

use std::sync::Arc;

use meshwork_ir::ElementType;

use super::code::Place;
use super::expand::{offsets, rest};
use crate::kernel::Kernel;
use crate::kernel::ir::{Call, Op};
use crate::step::{Buf, Fault, Frame, Scratch, View, Work};

/// Bytes of state that a chunk keeps in the first-level cache.
pub(super) const STATE_BYTES: usize = 16 << 10;
/// Lanes of a chunk are a multiple of this, or of the second number if their state does not fit.
const GRAIN: usize = 64;
const SMALL_GRAIN: usize = 16;
/// Turns of a loop between two looks at whether it goes on.
const TURNS_AT_ONCE: u64 = 2;
/// A part costs at least this many nanoseconds.
const PART_NS: f64 = 20_000.0;
const MAX_PARTS: usize = 64;
/// Lanes of a chunk whose operations hide how long each of them takes.
const ENOUGH_LANES: usize = 256;

/// A carry: where it comes from, where it goes, its lanes, and its first row of the state.
#[derive(Debug)]
pub(super) struct Carry {
    pub from: View,
    pub to: Option<View>,
    pub lane: Option<usize>,
    pub row: usize,
}

/// An array that only some of its elements are written in.
#[derive(Debug)]
pub(super) struct Copied {
    pub from: View,
    pub to: View,
}

/// An array that never changes and whose lanes are not side by side: lane 0 is `offset` bytes into a buffer. A row of the state
/// holds the lanes of a chunk.
#[derive(Debug)]
pub(super) struct Fixed {
    pub buf: Buf,
    pub offset: i64,
    pub per_lane: i64,
    pub elem: ElementType,
    pub row: usize,
}

/// Turns until a number that is known when the loop starts: those whose number, `base + step × turn`, is below `end`.
#[derive(Debug)]
pub(super) struct Until {
    pub end: View,
    pub base: i64,
    pub step: i64,
}

impl Until {
    /// How many turns there are, at most `trips`.
    ///
    /// # Safety
    /// The buffer is valid.
    unsafe fn turns(&self, frame: &Frame<'_>, trips: u64) -> u64 {
        // SAFETY: the view has one element.
        let end = unsafe {
            let at = frame.ptr(self.end.buf).offset(self.end.offset as isize);
            match self.end.elem {
                ElementType::I64 => at.cast::<i64>().read_unaligned(),
                _ => i64::from(at.cast::<i32>().read_unaligned()),
            }
        };
        let (room, step) = (i128::from(end) - i128::from(self.base), i128::from(self.step));
        let turns = (room + step - 1).div_euclid(step).clamp(0, i128::from(trips));
        u64::try_from(turns).unwrap_or(trips)
    }
}

/// How a loop ends.
#[derive(Debug)]
pub(super) enum End {
    /// After a number of turns that is always the same.
    Known,
    /// At a number.
    Until(Until),
    /// When no lane of a chunk went on in the last turn, which this row of the state tells.
    Open(usize),
}

/// What a loop works on.
pub(super) struct Data {
    /// Rows of the state, with the type and whether it has lanes.
    pub state: Vec<(ElementType, bool)>,
    pub carries: Vec<Carry>,
    pub copied: Vec<Copied>,
    pub fixed: Vec<Fixed>,
}

impl Copied {
    /// Copies it.
    ///
    /// # Safety
    /// Both buffers are valid, and nobody else writes to where it goes.
    pub unsafe fn run(&self, frame: &Frame<'_>) {
        let Copied { from, to } = self;
        let size = from.elem.storage_bytes();
        // SAFETY: elements of both views, of which there are as many, and `to` is dense.
        unsafe {
            if from.is_dense() {
                let there = frame.ptr(from.buf).offset(from.offset as isize);
                return std::ptr::copy(there, frame.ptr(to.buf), from.len() * size);
            }
            if from.strides.iter().all(|&s| s == 0) {
                let one = frame.ptr(from.buf).offset(from.offset as isize);
                return spread((one, 0), (frame.ptr(to.buf), size as isize), from.len(), size);
            }
            let places = offsets(&from.dims, &from.strides, from.offset).into_iter();
            for (from_byte, to_byte) in places.zip((0..).step_by(size)) {
                let (from, to) = (frame.ptr(from.buf).offset(from_byte as isize), frame.ptr(to.buf).add(to_byte));
                std::ptr::copy(from, to, size);
            }
        }
    }
}

/// All turns of a loop.
#[derive(Debug)]
pub(super) struct Rows {
    kernel: Arc<Kernel>,
    places: Vec<Place>,
    index: Vec<[i64; 3]>,
    trips: u64,
    lanes: usize,
    /// Lanes of a chunk.
    chunk: usize,
    parts: usize,
    /// Byte of each row of the state, and of its end.
    rows: Vec<usize>,
    carries: Vec<Carry>,
    copied: Vec<Copied>,
    fixed: Vec<Fixed>,
    end: End,
    cost: u64,
}

impl Rows {
    pub fn new(
        kernel: Arc<Kernel>,
        places: Vec<Place>,
        index: Vec<[i64; 3]>,
        (trips, end): (u64, End),
        lanes: i64,
        data: Data,
        turn_ns: f64,
    ) -> Rows {
        let Data { state, carries, copied, fixed } = data;
        let lanes = lanes as usize;
        let per_lane: usize = state.iter().filter(|s| s.1).map(|s| s.0.storage_bytes()).sum();
        let grain = if per_lane * GRAIN > 2 * STATE_BYTES { SMALL_GRAIN } else { GRAIN };
        let most = (STATE_BYTES / per_lane.max(1) / grain).max(1) * grain;
        let cost = trips as f64 * turn_ns;
        // What is not written whole is copied first, and outputs without lanes are written by every part: by one, then.
        let outputs = places.iter().zip(&kernel.body().args).filter(|(_, arg)| arg.output);
        let is_shared = |place: &Place| matches!(place, Place::Buf { per_lane: 0, .. });
        let is_one = !copied.is_empty() || outputs.into_iter().any(|(place, _)| is_shared(place));
        // Every turn of a chunk waits for the one before, so few lanes leave the processor idle.
        let many = MAX_PARTS.min(lanes / ENOUGH_LANES).max(2);
        let wanted = if is_one { 1 } else { ((cost / PART_NS) as usize).clamp(1, many) };
        let even = lanes.div_ceil(wanted).next_multiple_of(grain).min(most);
        // What is in the memory of the result would be updated by each chunk again, and what combines lanes needs all of them.
        let mut ops = kernel.body().phases.iter().flat_map(|p| &p.ops);
        let is_mixed = places.iter().any(|place| matches!(place, Place::Lane(..)));
        let is_whole =
            is_mixed || !matches!(end, End::Open(_)) && ops.any(|op| matches!(op, Op::StoreAt(..) | Op::Reduce(..)));
        let chunk = if is_whole { lanes.max(1) } else { even.min(lanes.max(1)) };
        let chunks = lanes.div_ceil(chunk);
        let mut rows = vec![0];
        for (elem, lanes) in state {
            let bytes = if lanes { elem.storage_bytes() * chunk } else { elem.storage_bytes() };
            rows.push((rows[rows.len() - 1] + bytes).next_multiple_of(64));
        }
        let parts = chunks.min(wanted);
        let cost = cost as u64 + 1;
        Rows { kernel, places, index, trips, lanes, chunk, parts, rows, carries, copied, fixed, end, cost }
    }

    /// Copies carries between memory and the state, for `n` lanes from `first` on.
    ///
    /// # Safety
    /// The buffers are valid, and `state` is as large as the rows say.
    unsafe fn moved(&self, frame: &Frame<'_>, state: *mut u8, (first, n): (usize, usize), back: bool) {
        for carry in &self.carries {
            let view = match (back, &carry.to) {
                (false, _) => &carry.from,
                (true, Some(to)) => to,
                (true, None) => continue,
            };
            // All chunks end with the same values of what has no lanes.
            if back && carry.lane.is_none() && first > 0 {
                continue;
            }
            let size = view.elem.storage_bytes();
            let (count, stride) = carry.lane.map_or((1, 0), |d| (n, view.strides[d] as isize));
            let start = carry.lane.map_or(0, |d| first as i64 * view.strides[d]);
            let rest = rest(&view.dims, carry.lane);
            for (row, offset) in offsets(&rest, &view.strides, view.offset + start).into_iter().enumerate() {
                // SAFETY: elements of the view, and of the carry's rows.
                unsafe {
                    let there = frame.ptr(view.buf).offset(offset as isize);
                    let here = state.add(self.rows[carry.row + row]);
                    let (here, there) = ((here, size as isize), (there, stride));
                    let (from, to) = if back { (here, there) } else { (there, here) };
                    spread(from, to, count, size);
                }
            }
        }
    }
}

/// Bytes of the rows of `state` that have lanes.
pub(super) fn state_bytes(state: &[(ElementType, bool)], lanes: i64) -> usize {
    state.iter().filter(|s| s.1).map(|s| s.0.storage_bytes() * lanes as usize).sum()
}

/// Copies `count` elements of `size` bytes, given by their start and the bytes from one to the next.
///
/// # Safety
/// All of them are there, and the two do not overlap.
unsafe fn spread(from: (*mut u8, isize), to: (*mut u8, isize), count: usize, size: usize) {
    // SAFETY: the caller's.
    unsafe {
        if from.1 == size as isize && to.1 == size as isize {
            return std::ptr::copy_nonoverlapping(from.0, to.0, count * size);
        }
        for i in 0..count as isize {
            let (from, to) = (from.0.offset(i * from.1), to.0.offset(i * to.1));
            match size {
                4 => to.cast::<u32>().write(from.cast::<u32>().read()),
                8 => to.cast::<u64>().write(from.cast::<u64>().read()),
                _ => std::ptr::copy_nonoverlapping(from, to, size),
            }
        }
    }
}

impl Work for Rows {
    fn parts(&self) -> usize {
        self.parts
    }

    fn cost(&self) -> u64 {
        self.cost
    }

    unsafe fn run(&self, frame: &Frame<'_>, scratch: &mut Scratch, part: usize) -> Result<(), Fault> {
        // SAFETY: there is one part if anything is copied.
        self.copied.iter().for_each(|c| unsafe { c.run(frame) });
        let turns = match &self.end {
            End::Known => self.trips,
            // SAFETY: the buffers are valid by the contract of steps.
            End::Until(until) => unsafe { until.turns(frame, self.trips) },
            End::Open(_) => TURNS_AT_ONCE,
        };
        let state = scratch.panels(self.rows[self.rows.len() - 1].max(64));
        let chunks = self.lanes.div_ceil(self.chunk);
        let mine = chunks * part / self.parts..chunks * (part + 1) / self.parts;
        let mut ptrs = vec![std::ptr::null_mut(); self.places.len()];
        let per_turn = |place: &Place| if let Place::Buf { per_turn, .. } = place { *per_turn as isize } else { 0 };
        let row_strides: Vec<isize> = self.places.iter().map(per_turn).collect();
        let sizes = self.kernel.body().args.iter().map(|a| a.elem.storage_bytes() as isize);
        let per_lane = |(place, size): (&Place, isize)| match place {
            Place::State(_) | Place::Lane(..) => size,
            Place::Buf { per_lane, .. } => *per_lane as isize,
        };
        let strides: Vec<isize> = self.places.iter().zip(sizes).map(per_lane).collect();
        for chunk in mine {
            let first = chunk * self.chunk;
            let n = self.chunk.min(self.lanes - first);
            // SAFETY: the buffers are valid by the contract of steps, the state has just been made, and lanes of
            // different chunks are different elements.
            unsafe {
                self.moved(frame, state, (first, n), false);
                for f in &self.fixed {
                    let (from, size) = (f.offset + first as i64 * f.per_lane, f.elem.storage_bytes());
                    let there = (frame.ptr(f.buf).offset(from as isize), f.per_lane as isize);
                    spread(there, (state.add(self.rows[f.row]), size as isize), n, size);
                }
                for ((ptr, place), arg) in ptrs.iter_mut().zip(&self.places).zip(&self.kernel.body().args) {
                    *ptr = match *place {
                        Place::State(row) => state.add(self.rows[row]),
                        Place::Lane(row, lane) => state.add(self.rows[row] + lane * arg.elem.storage_bytes()),
                        Place::Buf { buf, offset, per_lane, .. } => {
                            frame.ptr(buf).offset((offset + first as i64 * per_lane) as isize)
                        }
                    };
                }
                let index: Vec<[i64; 3]> =
                    self.index.iter().map(|&[start, turn, lane]| [start + first as i64 * lane, turn, lane]).collect();
                let call = Call {
                    ptrs: &ptrs,
                    row_strides: &row_strides,
                    strides: &strides,
                    rows: turns as usize,
                    n,
                    index: &index,
                };
                match self.end {
                    End::Open(row) => loop {
                        self.kernel.run(&call, scratch);
                        if state.add(self.rows[row]).read() == 0 {
                            break;
                        }
                    },
                    End::Known | End::Until(_) if turns == 0 => {}
                    End::Known | End::Until(_) => self.kernel.run(&call, scratch),
                }
                self.moved(frame, state, (first, n), true);
            }
        }
        Ok(())
    }
}
