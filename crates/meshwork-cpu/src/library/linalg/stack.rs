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

    /// Does one piece.
    ///
    /// # Safety
    /// Operands and results are as the routine expects them.
    unsafe fn run(&self, one: &One<'_>, piece: usize, scratch: &mut Scratch);
}

/// The routine on all matrices.
#[derive(Debug)]
pub(super) struct Stack<R> {
    pub routine: R,
    pub operands: Vec<Part>,
    pub results: Vec<Part>,
    pub count: usize,
}

impl<R: Routine> Work for Stack<R> {
    fn parts(&self) -> usize {
        let pieces = self.count * self.routine.pieces();
        parts_of(self.count.saturating_mul(self.routine.cost()), 20_000, pieces.max(1))
    }

    fn cost(&self) -> u64 {
        self.count.saturating_mul(self.routine.cost()) as u64
    }

    unsafe fn run(&self, frame: &Frame<'_>, scratch: &mut Scratch, part: usize) -> Result<(), Fault> {
        let pieces = self.routine.pieces();
        for i in piece(self.count * pieces, self.parts(), part, 1) {
            let one = One { frame, operands: &self.operands, results: &self.results, at: i / pieces };
            // SAFETY: the step was lowered for this routine.
            unsafe { self.routine.run(&one, i % pieces, scratch) };
        }
        Ok(())
    }
}
