//! Stacks of products of small matrices, side by side: one in each lane of a vector.
//!
//! Rows of a few elements are too short for vectors, and a tile costs more to set up than to compute. Here every element is a vector
//! of the same place in [`LANES`] matrices. No lane depends on another, so a product has the same bits wherever it stands.

use std::ops::Range;

use super::micro::Tile;
use super::product::{Product, Side};
use super::subnormal::Subnormals;
use crate::library::nest::{parts_of, piece};
use crate::library::transpose::{Planes, transpose};
use crate::step::{Fault, Frame, Scratch, Work};

/// Matrices side by side.
const LANES: usize = 16;

/// Most products of two numbers in one of matrices: larger matrices fill tiles.
const MOST_TERMS: usize = 512;

/// Most elements of a matrix: this many vectors stay in the first-level cache.
const MOST_ELEMENTS: usize = 128;

/// Whether a stack of `batch` products, of `rows × depth` and `depth × columns` elements, is worth it.
pub(super) fn is_stack(batch: usize, [rows, columns, depth]: [usize; 3]) -> bool {
    batch >= LANES
        && (1..=MOST_TERMS).contains(&(rows * columns * depth))
        && [rows * columns, rows * depth, depth * columns].into_iter().all(|n| n <= MOST_ELEMENTS)
}

/// How the elements of an operand's matrices get into lanes.
#[derive(Clone, Debug)]
enum Lanes {
    /// A matrix fills the memory from this offset on without gaps: it is transposed as it is.
    Dense(isize),
    /// The element of each lane is read from its place; byte offsets of elements.
    Single(Box<[isize]>),
    /// Elements are converted first.
    Packed,
}

/// One operand: how it is read, and in which vector element `outer, depth` is.
#[derive(Clone, Debug)]
struct Matrix {
    lanes: Lanes,
    slot: Box<[u8]>,
}

impl Matrix {
    fn new<T: Tile>(side: &Side<T>, outer: usize, depth: usize) -> Matrix {
        let all = || (0..outer).flat_map(|i| (0..depth).map(move |k| (i, k)));
        if !side.same {
            return Matrix { lanes: Lanes::Packed, slot: all().map(|(i, k)| (k * outer + i) as u8).collect() };
        }
        let at: Box<[isize]> = all().map(|(i, k)| side.outer.at(i) + side.depth.at(k)).collect();
        let start = at.iter().copied().min().unwrap_or(0);
        let places: Vec<isize> = at.iter().map(|o| (o - start) / size_of::<T>() as isize).collect();
        let mut taken = vec![false; at.len()];
        for &place in &places {
            if let Some(taken) = taken.get_mut(place as usize) {
                *taken = true;
            }
        }
        match taken.iter().all(|&t| t) {
            true => Matrix { lanes: Lanes::Dense(start), slot: places.iter().map(|&p| p as u8).collect() },
            false => Matrix { lanes: Lanes::Single(at), slot: (0..places.len() as u8).collect() },
        }
    }

    /// Reads the matrices `which` of `side` into the lanes of `to`; `room` is for as many numbers.
    ///
    /// # Safety
    /// As [`Work::run`].
    unsafe fn read<T: Tile>(
        &self,
        side: &Side<T>,
        frame: &Frame<'_>,
        which: Range<usize>,
        [outer, depth]: [usize; 2],
        to: &mut [[T; LANES]],
        room: *mut T,
    ) {
        let (count, n, size) = (which.len(), to.len(), size_of::<T>());
        let batch = &side.batch[which];
        let step = if count > 1 { batch[1] - batch[0] } else { 0 };
        let regular = batch.iter().enumerate().all(|(l, at)| *at == batch[0] + l as isize * step);
        if count < LANES {
            to.fill([T::default(); LANES]);
        }
        // SAFETY: in the whole block: the trait's contract; elements of matrices that the stack has.
        unsafe {
            let from = frame.ptr(side.buf).cast_const();
            let lanes = |from: *const u8, from_stride: isize, to: &mut [[T; LANES]]| {
                let to = to.as_mut_ptr().cast();
                transpose(Planes { from, from_stride, to, to_stride: (LANES * size) as isize }, n, count, size);
            };
            match &self.lanes {
                Lanes::Dense(start) if regular => lanes(from.offset(batch[0] + start), step, to),
                Lanes::Packed => {
                    for (l, at) in batch.iter().enumerate() {
                        let inner = (&side.depth, 0, depth);
                        side.packer.pack(from.offset(*at), (&side.outer, 0, outer), inner, room.add(l * n), outer);
                    }
                    lanes(room.cast_const().cast(), (n * size) as isize, to);
                }
                Lanes::Single(at) if regular && step == size as isize && count == LANES => {
                    for (to, at) in to.iter_mut().zip(at) {
                        *to = from.offset(batch[0] + at).cast::<[T; LANES]>().read_unaligned();
                    }
                }
                single => {
                    for (e, to) in to.iter_mut().enumerate() {
                        let at = match single {
                            Lanes::Single(at) => at[e],
                            Lanes::Dense(start) => start + (e * size) as isize,
                            Lanes::Packed => 0,
                        };
                        for (to, batch) in to.iter_mut().zip(batch) {
                            *to = from.offset(batch + at).cast::<T>().read_unaligned();
                        }
                    }
                }
            }
        }
    }
}

/// A stack of small products.
#[derive(Debug)]
pub(super) struct Stacked<T: Tile> {
    product: Product<T>,
    a: Matrix,
    b: Matrix,
    parts: usize,
}

impl<T: Tile> Stacked<T> {
    /// The product as this kind of work, if it is one.
    pub(super) fn new(product: &Product<T>) -> Option<Stacked<T>> {
        let p = product;
        let batch = p.a.batch.len();
        if !is_stack(batch, [p.rows, p.columns, p.depth]) || !p.dense || p.accumulate {
            return None;
        }
        let bytes = batch * (p.rows * p.depth + p.depth * p.columns + p.rows * p.columns) * size_of::<T>();
        Some(Stacked {
            a: Matrix::new(&p.a, p.rows, p.depth),
            b: Matrix::new(&p.b, p.columns, p.depth),
            parts: parts_of(bytes, 128 << 10, batch.div_ceil(LANES)),
            product: product.clone(),
        })
    }
}

impl<T: Tile> Work for Stacked<T> {
    fn parts(&self) -> usize {
        self.parts
    }

    fn cost(&self) -> u64 {
        let p = &self.product;
        let elements = p.rows * p.depth + p.depth * p.columns + p.rows * p.columns;
        (p.a.batch.len() * (elements + p.rows * p.columns * p.depth / 8)) as u64 / 4 + 50
    }

    unsafe fn run(&self, frame: &Frame<'_>, scratch: &mut Scratch, part: usize) -> Result<(), Fault> {
        let _zero = Subnormals::are_zero();
        let p = &self.product;
        let [a, b, c] = [p.rows * p.depth, p.columns * p.depth, p.rows * p.columns];
        let room = a.max(b).max(c);
        let memory = scratch.get((a + b + c + room) * size_of::<[T; LANES]>()).cast::<[T; LANES]>();
        // SAFETY: the memory is as long and aligned to 64 bytes, and every pattern of bytes is a number.
        let (vectors, room) = unsafe { (std::slice::from_raw_parts_mut(memory, a + b + c), memory.add(a + b + c)) };
        let (x, rest) = vectors.split_at_mut(a);
        let (y, z) = rest.split_at_mut(b);
        let all = piece(p.a.batch.len(), self.parts, part, LANES);
        for start in all.clone().step_by(LANES) {
            let which = start..all.end.min(start + LANES);
            let count = which.len();
            // SAFETY: the trait's contract; parts are disjoint ranges of the result.
            unsafe {
                self.a.read(&p.a, frame, which.clone(), [p.rows, p.depth], x, room.cast());
                self.b.read(&p.b, frame, which, [p.columns, p.depth], y, room.cast());
                let matrices = Matrices { x, x_slot: &self.a.slot, y, y_slot: &self.b.slot, z, depth: p.depth };
                matrices.multiply();
                let to = frame.ptr(p.c).add(start * c * p.out_size);
                let dense = if p.out_same { to } else { room.cast() };
                let size = size_of::<T>();
                let (from_stride, to_stride) = ((LANES * size) as isize, (c * size) as isize);
                let planes = Planes { from: z.as_ptr().cast(), from_stride, to: dense, to_stride };
                transpose(planes, count, c, size);
                if !p.out_same {
                    p.out.write(dense.cast_const().cast(), to, count * c);
                }
            }
        }
        Ok(())
    }
}

/// Matrices in lanes: `z[i, j] = Σ x[i, k] y[k, j]`.
struct Matrices<'a, T> {
    x: &'a [[T; LANES]],
    x_slot: &'a [u8],
    y: &'a [[T; LANES]],
    y_slot: &'a [u8],
    z: &'a mut [[T; LANES]],
    depth: usize,
}

impl<T: Tile> Matrices<'_, T> {
    fn multiply(self) {
        #[cfg(target_arch = "x86_64")]
        if super::has_fma() {
            // SAFETY: the processor has these instructions.
            return unsafe { self.multiply_fused() };
        }
        self.each::<false>();
    }

    /// # Safety
    /// The processor has AVX2 and FMA.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,fma")]
    unsafe fn multiply_fused(self) {
        self.each::<true>();
    }

    #[inline(always)]
    fn each<const FUSED: bool>(self) {
        let mut z = self.z.iter_mut();
        for row in self.x_slot.chunks_exact(self.depth) {
            for column in self.y_slot.chunks_exact(self.depth) {
                let mut sum = [T::default(); LANES];
                for (&i, &j) in row.iter().zip(column) {
                    let (x, y) = (&self.x[i as usize], &self.y[j as usize]);
                    for l in 0..LANES {
                        sum[l] = sum[l].add_product::<FUSED>(x[l], y[l]);
                    }
                }
                if let Some(z) = z.next() {
                    *z = sum;
                }
            }
        }
    }
}
