//! Several turns of a loop at once: each stretch of memory is taken some turns further while it is in a cache.
//!
//! See `README.md` beside this file.

mod plan;
mod run;
#[cfg(test)]
mod tests;

use std::ops::Range;
use std::sync::Arc;

use super::exchange::Move;
use crate::step::{Buf, Touch, Work};

pub(crate) use plan::{Grid, wave};
pub(crate) use run::Frames;

/// How the turns of a loop can be taken in another order than one after the other.
pub(crate) struct Wave {
    /// Steps of the body, by their numbers on the tape, that have no memory in common with the others: counters.
    pub little: Vec<u32>,
    /// Pieces of the work of one turn, in order of devices and memory.
    pub(crate) cells: Vec<Cell>,
    /// Buffers that share a piece of memory within a turn, which each device has for itself, and its size.
    pub(crate) temps: Vec<(Vec<Buf>, usize)>,
    /// How many cells further the next turn begins.
    skew: usize,
    /// Turns that are taken at once.
    depth: usize,
}

/// A piece of the work of a turn.
pub(crate) struct Cell {
    pub device: usize,
    /// Which item of the body it is of.
    pub item: usize,
    pub what: What,
    /// What it touches, on which devices.
    pub touches: Vec<(usize, Touch)>,
    /// Other cells that touch the same memory.
    pub after: Vec<After>,
}

pub(crate) enum What {
    /// Parts of a step, which has this number on the tape.
    Work { step: u32, work: Arc<dyn Work>, parts: Range<usize> },
    /// Bytes that come from another device, as part of an exchange of this number.
    Move { exchange: u32, bytes: Move },
}

/// A cell that must have done all turns before, and also the same if it comes earlier in the body.
#[derive(Clone, Copy)]
pub(crate) struct After {
    pub cell: u32,
    pub same: bool,
}
