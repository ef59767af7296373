//! Matrices of `bf16` and `f16` times single vectors: as fast as the matrix streams from memory, because nothing of it is packed.
//! So is a matrix of `f32` that the product takes as `bf16`. The sums are in `f32`.

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::Arc;

use meshwork_ir::ElementType;

use super::pack::Index;
use super::product::Product;
use super::subnormal::Subnormals;
use super::{Call, Factor, product_of, single};
use crate::compile::lower::Lower;
use crate::library::nest::{parts_of, piece};
use crate::library::num::{Bf16, Element, F16, Num, Rounded};
use crate::step::{Fault, Frame, Scratch, Work};

/// An element of a matrix as it is in memory.
trait Half: Copy + Send + Sync + std::fmt::Debug + 'static {
    /// The number that it is.
    fn widened(self) -> f32;

    /// Eight neighbors.
    ///
    /// # Safety
    /// They are valid; the processor has AVX2 and F16C.
    #[cfg(target_arch = "x86_64")]
    unsafe fn eight(from: *const Self) -> __m256;
}

/// An element of `bf16`.
#[derive(Clone, Copy, Debug)]
struct Brain(u16);

impl Half for Brain {
    #[inline(always)]
    fn widened(self) -> f32 {
        Bf16.load(self.0)
    }

    #[cfg(target_arch = "x86_64")]
    #[inline]
    #[target_feature(enable = "avx2,f16c")]
    unsafe fn eight(from: *const Brain) -> __m256 {
        // SAFETY: the caller's.
        let bits = unsafe { _mm_loadu_si128(from.cast()) };
        _mm256_castsi256_ps(_mm256_slli_epi32::<16>(_mm256_cvtepu16_epi32(bits)))
    }
}

/// An element of `f16`.
#[derive(Clone, Copy, Debug)]
struct Short(u16);

impl Half for Short {
    #[inline(always)]
    fn widened(self) -> f32 {
        F16.load(self.0)
    }

    #[cfg(target_arch = "x86_64")]
    #[inline]
    #[target_feature(enable = "avx2,f16c")]
    unsafe fn eight(from: *const Short) -> __m256 {
        // SAFETY: the caller's.
        _mm256_cvtph_ps(unsafe { _mm_loadu_si128(from.cast()) })
    }
}

/// An `f32` that is rounded to `bf16`.
impl Half for f32 {
    #[inline(always)]
    fn widened(self) -> f32 {
        Rounded.load(self)
    }

    #[cfg(target_arch = "x86_64")]
    #[inline]
    #[target_feature(enable = "avx2,f16c")]
    unsafe fn eight(from: *const f32) -> __m256 {
        // SAFETY: the caller's.
        let x = unsafe { _mm256_loadu_ps(from) };
        let bits = _mm256_castps_si256(x);
        let odd = _mm256_and_si256(_mm256_srli_epi32::<16>(bits), _mm256_set1_epi32(1));
        let up = _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7fff)), odd);
        let short = _mm256_and_si256(up, _mm256_set1_epi32(!0xffff));
        // What is not a number stays one.
        _mm256_blendv_ps(_mm256_castsi256_ps(short), x, _mm256_cmp_ps::<_CMP_UNORD_Q>(x, x))
    }
}

/// Whether the processor has the instructions of [`Half::eight`] and of fused products.
#[cfg(target_arch = "x86_64")]
#[inline]
fn has_eight() -> bool {
    super::has_fma() && std::arch::is_x86_feature_detected!("f16c")
}

/// `y[b][i] = Σ M[b][i, k] x[b][k]`.
#[derive(Debug)]
struct Narrow<H> {
    product: Product<f32>,
    /// Whether the matrix is `A`.
    left: bool,
    /// Whether the matrix is contiguous along the sums; else its rows `i` are neighbors.
    along: bool,
    parts: usize,
    elements: PhantomData<H>,
}

/// Rows whose sums are written together.
const TOGETHER: usize = 16;

/// Rows of at most this many elements end before the processor has seen that it should read ahead in them, so the next ones are
/// asked for by name. Longer ones are read as fast without, and would push each other out of the nearest cache.
const SHORT_ROW: usize = 1536;

/// The same where rows are neighbors: their sums stay in the first-level cache.
const STRETCH: usize = 2048;

/// Adds the step of a product of such a matrix and a vector; false if it is another one.
pub(super) fn lower(cx: &mut Lower<'_>, call: &Call<'_>) -> bool {
    let vectors = call.is_by_vector();
    let matrix = |right: bool| if right { &call.rhs } else { &call.lhs };
    [false, true].into_iter().zip(vectors).any(|(right, is_one)| {
        is_one
            && match matrix(right) {
                Factor { view, .. } if view.elem == ElementType::BF16 => lower_as::<Brain>(cx, call, right),
                Factor { view, .. } if view.elem == ElementType::F16 => lower_as::<Short>(cx, call, right),
                Factor { view, elem } if (view.elem, *elem) == (ElementType::F32, ElementType::BF16) => {
                    lower_as::<f32>(cx, call, right)
                }
                _ => false,
            }
    })
}

/// The same where elements are `H`, and the matrix is on the right or on the left.
fn lower_as<H: Half>(cx: &mut Lower<'_>, call: &Call<'_>, right: bool) -> bool {
    let (Some(a), Some(b), Some(out)) = (call.lhs.single(), call.rhs.single(), single(call.elem)) else {
        return false;
    };
    let product = product_of(call, a, b, out);
    let left = !right;
    let (matrix, rows) = if left { (&product.a, product.rows) } else { (&product.b, product.columns) };
    let size = size_of::<H>() as isize;
    let along = match (&matrix.outer, &matrix.depth) {
        (Index::Stride(_), Index::Stride(step)) if *step == size => true,
        (Index::Stride(step), Index::Stride(_)) if *step == size => false,
        _ => return false,
    };
    if rows * product.depth == 0 {
        return false;
    }
    let batch = matrix.batch.len();
    // Neighboring rows are read in lines as long as a part has rows: short ones are fetched badly.
    let most = if batch > 1 { batch } else { rows.div_ceil(if along { 64 } else { 512 }) };
    let parts = parts_of(batch * rows * product.depth * size_of::<H>(), 256 << 10, most);
    let c = cx.result(cx.module.op(call.op).results()[0]);
    let (name, reads) = (product.name(call.elem), vec![product.a.buf, product.b.buf]);
    let work = Narrow::<H> { product: Product { c, ..product }, left, along, parts, elements: PhantomData };
    cx.step(call.op, name, Arc::new(work), reads, vec![c]);
    true
}

impl<H: Half> Narrow<H> {
    fn rows(&self) -> usize {
        if self.left { self.product.rows } else { self.product.columns }
    }

    /// # Safety
    /// As [`Work::run`].
    unsafe fn range(&self, frame: &Frame<'_>, scratch: &mut Scratch, batch: usize, rows: Range<usize>) {
        let p = &self.product;
        let (m, v) = if self.left { (&p.a, &p.b) } else { (&p.b, &p.a) };
        let memory = scratch.get((p.depth + STRETCH) * size_of::<f32>()).cast::<f32>();
        // SAFETY: the trait's contract; there is room for the vector and a stretch of sums.
        unsafe {
            let sums = std::slice::from_raw_parts_mut(memory, STRETCH);
            let x = memory.add(STRETCH);
            let from = frame.ptr(v.buf).offset(v.batch[batch]).cast_const();
            v.packer.pack(from, (&v.outer, 0, 1), (&v.depth, 0, p.depth), x, 1);
            let x = std::slice::from_raw_parts(x, p.depth);
            let matrix = frame.ptr(m.buf).offset(m.batch[batch]).cast_const();
            let out = frame.ptr(p.c).add(batch * self.rows() * p.out_size);
            let together = if self.along { TOGETHER } else { STRETCH };
            for start in rows.clone().step_by(together) {
                let count = together.min(rows.end - start);
                let sums = &mut sums[..count];
                if self.along {
                    let row = |i: usize| {
                        let at = matrix.offset(m.outer.at(start + i)).cast::<H>();
                        std::slice::from_raw_parts(at, p.depth)
                    };
                    let full = count / 4 * 4;
                    for i in (0..full).step_by(4) {
                        let rows = std::array::from_fn(|r| row(i + r));
                        let four = if p.depth <= SHORT_ROW {
                            dots::<H, 4, true>(rows, 4 * m.outer.step(), x)
                        } else {
                            dots::<H, 4, false>(rows, 0, x)
                        };
                        sums[i..i + 4].copy_from_slice(&four);
                    }
                    for i in full..count {
                        [sums[i]] = dots::<H, 1, false>([row(i)], 0, x);
                    }
                } else {
                    let line = |k: usize| {
                        let at = matrix.offset(m.outer.at(start) + m.depth.at(k)).cast::<H>();
                        std::slice::from_raw_parts(at, count)
                    };
                    sums.fill(0.0);
                    let full = p.depth / 4 * 4;
                    for k in (0..full).step_by(4) {
                        let factors = std::array::from_fn(|r| x[k + r]);
                        add_lines::<H, 4>(sums, std::array::from_fn(|r| line(k + r)), factors);
                    }
                    for k in full..p.depth {
                        add_lines(sums, [line(k)], [x[k]]);
                    }
                }
                p.out.write(sums.as_ptr(), out.add(start * p.out_size), count);
            }
        }
    }
}

impl<H: Half> Work for Narrow<H> {
    fn parts(&self) -> usize {
        self.parts
    }

    fn cost(&self) -> u64 {
        let p = &self.product;
        (p.a.batch.len() * p.rows * p.columns * p.depth * size_of::<H>()) as u64 / 15 + 50
    }

    unsafe fn run(&self, frame: &Frame<'_>, scratch: &mut Scratch, part: usize) -> Result<(), Fault> {
        let _zero = Subnormals::are_zero();
        match self.product.a.batch.len() {
            // SAFETY: the trait's contract; parts are disjoint ranges of the result.
            1 => unsafe { self.range(frame, scratch, 0, piece(self.rows(), self.parts, part, TOGETHER)) },
            batch => {
                for b in piece(batch, self.parts, part, 1) {
                    // SAFETY: as above.
                    unsafe { self.range(frame, scratch, b, 0..self.rows()) };
                }
            }
        }
        Ok(())
    }
}

/// The sums of rows, each as long as `x`, times `x`. How many rows there are does not change the sum of any. `AHEAD`: the
/// rows `far` bytes further are fetched meanwhile.
#[inline]
fn dots<H: Half, const R: usize, const AHEAD: bool>(rows: [&[H]; R], far: isize, x: &[f32]) -> [f32; R] {
    #[cfg(target_arch = "x86_64")]
    if has_eight() {
        // SAFETY: the processor has the instructions.
        return unsafe { dots_fma::<H, R, AHEAD>(rows, far, x) };
    }
    let _ = far;
    rows.map(|row| {
        let mut sums = [0.0f32; 8];
        for (i, (m, x)) in row.iter().zip(x).enumerate() {
            sums[i % 8] += m.widened() * x;
        }
        sums.iter().sum()
    })
}

/// Adds lines, each as long as `sums`, times a factor each: one product after another.
#[inline]
fn add_lines<H: Half, const R: usize>(sums: &mut [f32], lines: [&[H]; R], factors: [f32; R]) {
    #[cfg(target_arch = "x86_64")]
    if has_eight() {
        // SAFETY: the processor has the instructions.
        return unsafe { add_lines_fma(sums, lines, factors) };
    }
    add_some::<H, R, false>(sums, lines, factors, 0);
}

/// [`add_lines`] from position `from` on.
#[inline(always)]
fn add_some<H: Half, const R: usize, const FUSED: bool>(
    sums: &mut [f32],
    lines: [&[H]; R],
    factors: [f32; R],
    from: usize,
) {
    for (i, sum) in sums.iter_mut().enumerate().skip(from) {
        for r in 0..R {
            *sum = sum.add_product::<FUSED>(factors[r], lines[r][i].widened());
        }
    }
}

/// # Safety
/// The processor has AVX2, FMA and F16C.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn add_lines_fma<H: Half, const R: usize>(sums: &mut [f32], lines: [&[H]; R], factors: [f32; R]) {
    let full = sums.len() / 8 * 8;
    let factor = factors.map(|f| _mm256_set1_ps(f));
    for at in (0..full).step_by(8) {
        // SAFETY: eight elements from `at` on are inside the sums and every line, which are equally long.
        unsafe {
            let to = sums.as_mut_ptr().add(at);
            let mut sum = _mm256_loadu_ps(to);
            for r in 0..R {
                sum = _mm256_fmadd_ps(H::eight(lines[r].as_ptr().add(at)), factor[r], sum);
            }
            _mm256_storeu_ps(to, sum);
        }
    }
    add_some::<H, R, true>(sums, lines, factors, full);
}

/// # Safety
/// The processor has AVX2, FMA and F16C.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn dots_fma<H: Half, const R: usize, const AHEAD: bool>(rows: [&[H]; R], far: isize, x: &[f32]) -> [f32; R] {
    let full = x.len() / 16 * 16;
    let mut sums = [[_mm256_setzero_ps(); 2]; R];
    for k in (0..full).step_by(16) {
        if AHEAD {
            // A line of memory is one or two times 16 elements, and each of its turns asks for as large a share of the rows.
            let turns = 4 / size_of::<H>();
            let turn = k / 16 % turns;
            for r in (turn..R).step_by(turns) {
                let line = rows[r].as_ptr().wrapping_add(k - 16 * turn);
                _mm_prefetch::<_MM_HINT_T0>(line.wrapping_byte_offset(far).cast());
            }
        }
        for half in 0..2 {
            let at = k + 8 * half;
            // SAFETY: eight elements from `at` on are inside `x` and every row, which are equally long.
            unsafe {
                let v = _mm256_loadu_ps(x.as_ptr().add(at));
                for r in 0..R {
                    sums[r][half] = _mm256_fmadd_ps(H::eight(rows[r].as_ptr().add(at)), v, sums[r][half]);
                }
            }
        }
    }
    std::array::from_fn(|r| {
        let mut lanes = [0.0f32; 8];
        // SAFETY: the array has room for eight numbers.
        unsafe { _mm256_storeu_ps(lanes.as_mut_ptr(), _mm256_add_ps(sums[r][0], sums[r][1])) };
        let rest: f32 = rows[r][full..].iter().zip(&x[full..]).map(|(m, x)| m.widened() * x).sum();
        let [a, b, c, d, e, f, g, h] = lanes;
        ((a + e) + (b + f)) + ((c + g) + (d + h)) + rest
    })
}
