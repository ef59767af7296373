//! The walk over a stack of matrices, strip by strip.

use super::tile::{Home, Tile};
use crate::library::nest::{Nest, piece, walk};
use crate::step::{Buf, Fault, Frame, Scratch, Work};

/// An operand: where its parts are.
#[derive(Clone, Debug)]
pub(crate) struct Input {
    pub buf: Buf,
    pub offset: isize,
    /// Bytes from one position of each axis to the next.
    pub steps: Vec<isize>,
}

/// A result.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub buf: Buf,
    /// Bytes from one position of each axis to the next.
    pub steps: Vec<isize>,
    pub ending: Ending,
}

/// How a part of a result gets to its place.
#[derive(Clone, Debug)]
pub(crate) enum Ending {
    /// The steps write it there.
    Direct,
    /// It is copied: the inner buffer and the loops of each kind of strip.
    Copy(Vec<(Buf, Nest<2>)>, usize),
    /// It is added, as `count` numbers of `size` bytes; the inner buffer of each kind of strip. The chunks of the rows have
    /// sums of their own, `chunk` bytes apart.
    Add { from: Vec<Buf>, count: usize, size: usize, chunk: usize },
}

/// A group of steps over a stack of matrices.
#[derive(Clone, Debug)]
pub(crate) struct StripWork {
    /// Extents of the axes of the stack, and of those of the rows.
    pub stack: Vec<usize>,
    pub rows: Vec<usize>,
    /// Positions of the last axis in a strip.
    pub height: usize,
    /// For full strips and, if there are any, for those that end the last axis.
    pub tiles: Vec<Tile>,
    pub inputs: Vec<Input>,
    pub results: Vec<Target>,
    /// Parts of the stack, and of the strips of a matrix.
    pub stack_parts: usize,
    pub chunks: usize,
}

/// Bytes for the position along each axis.
const POSITION: usize = 64;

impl StripWork {
    fn axes(&self) -> usize {
        self.stack.len() + self.rows.len()
    }

    fn matrices(&self) -> usize {
        self.stack.iter().product()
    }

    /// Rows outside the last axis, full strips of that axis, and whether some are left.
    fn counts(&self) -> (usize, usize, usize) {
        let (last, outer) = self.rows.split_last().map_or((1, &[][..]), |(&last, outer)| (last, outer));
        (outer.iter().product(), last / self.height, usize::from(!last.is_multiple_of(self.height)))
    }

    /// All strips of a matrix: full ones first.
    pub(crate) fn strips(&self) -> usize {
        let (outer, full, rest) = self.counts();
        outer * (full + rest)
    }

    /// The kind of strip `number`, and its place: position of each axis of the rows in `at`.
    fn place(&self, number: usize, at: &mut [usize]) -> usize {
        let (outer, full, _) = self.counts();
        let (kind, mut rest, last) = match number.checked_sub(outer * full) {
            None => (0, number / full, number % full),
            Some(left) => (1, left, full),
        };
        let Some((strip, others)) = at.split_last_mut() else { return kind };
        *strip = last * self.height;
        for (position, &extent) in others.iter_mut().zip(&self.rows).rev() {
            *position = rest % extent;
            rest /= extent;
        }
        kind
    }
}

fn offset(steps: &[isize], at: &[usize]) -> isize {
    steps.iter().zip(at).map(|(step, &i)| step * i as isize).sum()
}

impl Work for StripWork {
    fn parts(&self) -> usize {
        self.stack_parts * self.chunks
    }

    fn cost(&self) -> u64 {
        let (outer, full, rest) = self.counts();
        let costs: Vec<(u64, u64)> = self.tiles.iter().map(Tile::costs).collect();
        let kinds = [full, rest];
        let each: u64 = costs.iter().zip(kinds).map(|(c, n)| c.1 * (outer * n) as u64).sum();
        let once: u64 = costs.iter().map(|c| c.0).sum::<u64>() * self.chunks as u64;
        self.matrices() as u64 * (once + each)
    }

    unsafe fn run(&self, frame: &Frame<'_>, scratch: &mut Scratch, part: usize) -> Result<(), Fault> {
        let (stack_part, chunk) = (part / self.chunks, part % self.chunks);
        let (axes, own) = (self.axes(), self.tiles.iter().map(|t| t.bytes).max().unwrap_or(0));
        let table = self.tiles.iter().map(|t| t.homes.len()).max().unwrap_or(0);
        let table_bytes = (table * size_of::<*mut u8>()).next_multiple_of(64);
        let mut at = [0usize; MAX_AXES];
        let at = &mut at[..axes];
        let memory = scratch.strips(own + axes * POSITION + table_bytes);
        // SAFETY: the memory is as large, and every area is aligned.
        let (positions, pointers) = unsafe {
            let positions = memory.add(own);
            let pointers = positions.add(axes * POSITION).cast::<*mut u8>();
            (positions, std::slice::from_raw_parts_mut(pointers, table))
        };
        for matrix in piece(self.matrices(), self.stack_parts, stack_part, 1) {
            let mut rest = matrix;
            for (position, &extent) in at.iter_mut().zip(&self.stack).rev() {
                *position = rest % extent;
                rest /= extent;
            }
            at[self.stack.len()..].fill(0);
            for result in &self.results {
                if let Ending::Add { count, size, chunk: apart, .. } = result.ending {
                    let to =
                        frame.ptr(result.buf).wrapping_add(chunk * apart).wrapping_offset(offset(&result.steps, at));
                    // SAFETY: the sums of this matrix and chunk, which no other part writes.
                    unsafe { to.write_bytes(0, count * size) };
                }
            }
            let mut ready = None;
            for strip in piece(self.strips(), self.chunks, chunk, 1) {
                let kind = self.place(strip, &mut at[self.stack.len()..]);
                let tile = &self.tiles[kind];
                for (pointer, home) in pointers.iter_mut().zip(&tile.homes) {
                    *pointer = match *home {
                        Home::Own(byte) => memory.wrapping_add(byte),
                        Home::Input(i) => {
                            let input = &self.inputs[i];
                            frame.ptr(input.buf).wrapping_offset(input.offset + offset(&input.steps, at))
                        }
                        Home::Position(axis) => positions.wrapping_add(axis * POSITION),
                        Home::Result(i) => {
                            let result = &self.results[i];
                            frame.ptr(result.buf).wrapping_offset(offset(&result.steps, at))
                        }
                        Home::Outer(buf) => frame.ptr(buf),
                        Home::Nowhere => memory,
                    };
                }
                // SAFETY: in the whole block: the areas above; parts of operands and results are inside them; steps get
                // what they were built for.
                unsafe {
                    for (axis, &position) in at.iter().enumerate() {
                        positions.add(axis * POSITION).cast::<i32>().write(position as i32);
                    }
                    let inner = Frame { ptrs: pointers, ..*frame };
                    if ready != Some(kind) {
                        Tile::run(&tile.once, &inner, scratch)?;
                        ready = Some(kind);
                    }
                    Tile::run(&tile.each, &inner, scratch)?;
                    for result in &self.results {
                        self.end(result, frame, &inner, (kind, chunk, &*at));
                    }
                }
            }
        }
        Ok(())
    }
}

impl StripWork {
    /// Brings a part of a result to its place.
    ///
    /// # Safety
    /// The strip at `at` has been computed in `inner`.
    unsafe fn end(&self, result: &Target, frame: &Frame<'_>, inner: &Frame<'_>, place: (usize, usize, &[usize])) {
        let (kind, chunk, at) = place;
        let to = frame.ptr(result.buf).wrapping_offset(offset(&result.steps, at));
        match &result.ending {
            Ending::Direct => {}
            Ending::Copy(kinds, size) => {
                let (from, nest) = &kinds[kind];
                let from = inner.ptr(*from).cast_const();
                let run = nest.strides.last().is_some_and(|s| *s == [*size as isize; 2]);
                let (inner_dims, bytes) = match nest.dims.last() {
                    Some(&n) if run => (nest.dims.len() - 1, n * size),
                    _ => (nest.dims.len(), *size),
                };
                // SAFETY: the loops stay inside the part and its place.
                let mut copy = |[to_at, from_at]: [isize; 2]| unsafe {
                    std::ptr::copy_nonoverlapping(from.offset(from_at), to.offset(to_at), bytes);
                };
                if inner_dims == 0 {
                    copy([0, 0]);
                } else {
                    walk(&nest.dims[..inner_dims], &nest.strides[..inner_dims], [0, 0], &mut copy);
                }
            }
            Ending::Add { from, count, size, chunk: apart } => {
                let (from, to) = (inner.ptr(from[kind]).cast_const(), to.wrapping_add(chunk * apart));
                // SAFETY: both have `count` numbers.
                unsafe {
                    match size {
                        4 => add::<f32>(from.cast(), to.cast(), *count),
                        _ => add::<f64>(from.cast(), to.cast(), *count),
                    }
                }
            }
        }
    }
}

/// Most axes of a group.
pub(crate) const MAX_AXES: usize = 8;

/// # Safety
/// Both are valid for `n` numbers.
unsafe fn add<T: Copy + std::ops::AddAssign>(from: *const T, to: *mut T, n: usize) {
    // SAFETY: the caller's.
    let (from, to) = unsafe { (std::slice::from_raw_parts(from, n), std::slice::from_raw_parts_mut(to, n)) };
    for (to, &from) in to.iter_mut().zip(from) {
        *to += from;
    }
}
