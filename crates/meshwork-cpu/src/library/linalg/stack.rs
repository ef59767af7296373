//! A routine of linear algebra on each matrix of a stack, as work in parts.

use std::fmt;

use crate::library::nest::{parts_of, piece};
use crate::step::{Buf, Fault, Frame, Scratch, Work};

/// One operand or result: a stack of things of `bytes` bytes each.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    pub buf: Buf,
    pub bytes: usize,
}

/// One matrix of each operand and result of a routine.
pub(super) struct One<'a> {
    frame: &'a Frame<'a>,
    operands: &'a [Part],
    results: &'a [Part],
    at: usize,
}

impl One<'_> {
    /// Operand `i`.
    ///
    /// # Safety
    /// Its elements are of type `E`.
    pub(super) unsafe fn operand<E>(&self, i: usize) -> &[E] {
        let part = self.operands[i];
        if part.bytes == 0 {
            return &[];
        }
        // SAFETY: one thing of the stack, which the step reads.
        unsafe { std::slice::from_raw_parts(self.start(part).cast(), part.bytes / size_of::<E>()) }
    }

    /// Result `i`.
    ///
    /// # Safety
    /// Its elements are of type `E`, and no other slice of it is alive.
    #[allow(clippy::mut_from_ref)]
    pub(super) unsafe fn result<E>(&self, i: usize) -> &mut [E] {
        let part = self.results[i];
        if part.bytes == 0 {
            return &mut [];
        }
        // SAFETY: one thing of the stack, which the step writes.
        unsafe { std::slice::from_raw_parts_mut(self.start(part).cast(), part.bytes / size_of::<E>()) }
    }

    /// The first element of result `i`, of which each piece writes its own part.
    pub(super) fn result_start<E>(&self, i: usize) -> *mut E {
        self.start(self.results[i]).cast()
    }

    fn start(&self, part: Part) -> *mut u8 {
        // SAFETY: inside the buffer.
        unsafe { self.frame.ptr(part.buf).add(self.at * part.bytes) }
    }

    /// How many results there are.
    pub(super) fn results(&self) -> usize {
        self.results.len()
    }
}

/// What is done with one matrix of each operand.
pub(super) trait Routine: Send + Sync + fmt::Debug + 'static {
    /// Nanoseconds for one matrix on one core, roughly.
    fn cost(&self) -> usize;

    /// In how many independent pieces one matrix is done.
    fn pieces(&self) -> usize {
        1
    }

    /// How many matrices are done side by side, in the lanes of vectors: then one is one piece. 1 if none are.
    fn lanes(&self) -> usize {
        1
    }

    /// Does neighboring matrices, at most as many as there are [`lanes`](Routine::lanes).
    ///
    /// # Safety
    /// As [`run`](Routine::run).
    unsafe fn run_lanes(&self, ones: &[One<'_>], scratch: &mut Scratch) {
        // SAFETY: the caller's.
        ones.iter().for_each(|one| unsafe { self.run(one, 0, scratch) });
    }

    /// Does one piece.
    ///
    /// # Safety
    /// Operands and results are as the routine expects them.
    unsafe fn run(&self, one: &One<'_>, piece: usize, scratch: &mut Scratch);
}

/// The routine on all matrices.
#[derive(Debug)]
pub(super) struct Stack {
    pub routine: Box<dyn Routine>,
    pub operands: Vec<Part>,
    pub results: Vec<Part>,
    pub count: usize,
}

/// Times that a matrix in a lane is done faster than alone, roughly.
const FASTER: usize = 4;

impl Stack {
    /// Matrices that are done side by side; too few are done one by one.
    fn lanes(&self) -> usize {
        if 2 * self.count >= self.routine.lanes() { self.routine.lanes() } else { 1 }
    }

    /// Pieces that do not depend on each other.
    fn pieces(&self) -> usize {
        match self.lanes() {
            1 => self.count * self.routine.pieces(),
            lanes => self.count.div_ceil(lanes),
        }
    }
}

impl Work for Stack {
    fn parts(&self) -> usize {
        parts_of(self.cost() as usize, 20_000, self.pieces().max(1))
    }

    fn cost(&self) -> u64 {
        let all = self.count.saturating_mul(self.routine.cost());
        (if self.lanes() > 1 { all / FASTER } else { all }) as u64
    }

    unsafe fn run(&self, frame: &Frame<'_>, scratch: &mut Scratch, part: usize) -> Result<(), Fault> {
        let (lanes, pieces) = (self.lanes(), self.routine.pieces());
        let one = |at: usize| One { frame, operands: &self.operands, results: &self.results, at };
        for i in piece(self.pieces(), self.parts(), part, 1) {
            if lanes > 1 {
                let ones: Vec<One<'_>> = (i * lanes..self.count.min((i + 1) * lanes)).map(one).collect();
                // SAFETY: the step was lowered for this routine.
                unsafe { self.routine.run_lanes(&ones, scratch) };
            } else {
                // SAFETY: the step was lowered for this routine.
                unsafe { self.routine.run(&one(i / pieces), i % pieces, scratch) };
            }
        }
        Ok(())
    }
}
