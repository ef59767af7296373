//! Matrices of `bf16` times single vectors: as fast as the matrix streams from memory, because nothing of it is packed. The
//! sums are in `f32`.

use std::ops::Range;
use std::sync::Arc;

use meshwork_ir::ElementType;

use super::pack::Index;
use super::product::Product;
use super::subnormal::Subnormals;
use super::{Call, product_of, single};
use crate::compile::lower::Lower;
use crate::library::nest::{parts_of, piece};
use crate::library::num::Num;
use crate::step::{Fault, Frame, Scratch, Work};

/// `y[b][i] = Σ M[b][i, k] x[b][k]`.
#[derive(Debug)]
struct Narrow {
    product: Product<f32>,
    /// Whether the matrix is `A`.
    left: bool,
    /// Whether the matrix is contiguous along the sums; else its rows `i` are neighbors.
    along: bool,
    parts: usize,
}

/// Rows whose sums are written together.
const TOGETHER: usize = 16;

/// Rows of at most this many elements end before the processor has seen that it should read ahead in them, so the next ones are
/// asked for by name. Longer ones are read as fast without, and would push each other out of the nearest cache.
const SHORT_ROW: usize = 1536;

/// The same where rows are neighbors: their sums stay in the first-level cache.
const STRETCH: usize = 2048;

/// Adds the step of a product of a matrix of `bf16` and a vector; false if it is another one.
pub(super) fn lower(cx: &mut Lower<'_>, call: &Call<'_>) -> bool {
    let narrow = |elem| elem == ElementType::BF16;
    let (Some(a), Some(b), Some(out)) = (call.lhs.single(), call.rhs.single(), single(call.elem)) else {
        return false;
    };
    let product = product_of(call, a, b, out);
    let left = product.columns == 1 && narrow(call.lhs.view.elem);
    let right = product.rows == 1 && narrow(call.rhs.view.elem);
    if !left && !right {
        return false;
    }
    let (matrix, rows) = if left { (&product.a, product.rows) } else { (&product.b, product.columns) };
    let along = match (&matrix.outer, &matrix.depth) {
        (Index::Stride(_), Index::Stride(2)) => true,
        (Index::Stride(2), Index::Stride(_)) => false,
        _ => return false,
    };
    if rows * product.depth == 0 {
        return false;
    }
    let batch = matrix.batch.len();
    // Neighboring rows are read in lines as long as a part has rows: short ones are fetched badly.
    let most = if batch > 1 { batch } else { rows.div_ceil(if along { 64 } else { 512 }) };
    let parts = parts_of(batch * rows * product.depth * 2, 256 << 10, most);
    let c = cx.result(cx.module.op(call.op).results()[0]);
    let (name, reads) = (product.name(call.elem), vec![product.a.buf, product.b.buf]);
    let work = Narrow { product: Product { c, ..product }, left, along, parts };
    cx.step(call.op, name, Arc::new(work), reads, vec![c]);
    true
}

impl Narrow {
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
                        let at = matrix.offset(m.outer.at(start + i)).cast::<u16>();
                        std::slice::from_raw_parts(at, p.depth)
                    };
                    let full = count / 4 * 4;
                    for i in (0..full).step_by(4) {
                        let rows = std::array::from_fn(|r| row(i + r));
                        let four = if p.depth <= SHORT_ROW {
                            dots::<4, true>(rows, 4 * m.outer.step(), x)
                        } else {
                            dots::<4, false>(rows, 0, x)
                        };
                        sums[i..i + 4].copy_from_slice(&four);
                    }
                    for i in full..count {
                        [sums[i]] = dots::<1, false>([row(i)], 0, x);
                    }
                } else {
                    let line = |k: usize| {
                        let at = matrix.offset(m.outer.at(start) + m.depth.at(k)).cast::<u16>();
                        std::slice::from_raw_parts(at, count)
                    };
                    sums.fill(0.0);
                    let full = p.depth / 4 * 4;
                    for k in (0..full).step_by(4) {
                        let factors = std::array::from_fn(|r| x[k + r]);
                        add_lines::<4>(sums, std::array::from_fn(|r| line(k + r)), factors);
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

impl Work for Narrow {
    fn parts(&self) -> usize {
        self.parts
    }

    fn cost(&self) -> u64 {
        let p = &self.product;
        (p.a.batch.len() * p.rows * p.columns * p.depth * 2) as u64 / 15 + 50
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

/// The sums of rows of `bf16`, each as long as `x`, times `x`. How many rows there are does not change the sum of any. `AHEAD`: the
/// rows `far` bytes further are fetched meanwhile.
#[inline]
fn dots<const R: usize, const AHEAD: bool>(rows: [&[u16]; R], far: isize, x: &[f32]) -> [f32; R] {
    #[cfg(target_arch = "x86_64")]
    if super::has_fma() {
        // SAFETY: the processor has the instructions.
        return unsafe { dots_fma::<R, AHEAD>(rows, far, x) };
    }
    let _ = far;
    rows.map(|row| {
        let mut sums = [0.0f32; 8];
        for (i, (m, x)) in row.iter().zip(x).enumerate() {
            sums[i % 8] += widened(*m) * x;
        }
        sums.iter().sum()
    })
}

/// Adds lines of `bf16`, each as long as `sums`, times a factor each: one product after another.
#[inline]
fn add_lines<const R: usize>(sums: &mut [f32], lines: [&[u16]; R], factors: [f32; R]) {
    #[cfg(target_arch = "x86_64")]
    if super::has_fma() {
        // SAFETY: the processor has the instructions.
        return unsafe { add_lines_fma(sums, lines, factors) };
    }
    add_some::<R, false>(sums, lines, factors, 0);
}

/// [`add_lines`] from position `from` on.
#[inline(always)]
fn add_some<const R: usize, const FUSED: bool>(sums: &mut [f32], lines: [&[u16]; R], factors: [f32; R], from: usize) {
    for (i, sum) in sums.iter_mut().enumerate().skip(from) {
        for r in 0..R {
            *sum = sum.add_product::<FUSED>(factors[r], widened(lines[r][i]));
        }
    }
}

/// # Safety
/// The processor has AVX2 and FMA.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
unsafe fn add_lines_fma<const R: usize>(sums: &mut [f32], lines: [&[u16]; R], factors: [f32; R]) {
    use std::arch::x86_64::*;
    let full = sums.len() / 8 * 8;
    let factor = factors.map(|f| _mm256_set1_ps(f));
    for at in (0..full).step_by(8) {
        // SAFETY: eight elements from `at` on are inside the sums and every line, which are equally long.
        unsafe {
            let to = sums.as_mut_ptr().add(at);
            let mut sum = _mm256_loadu_ps(to);
            for r in 0..R {
                let bits = _mm_loadu_si128(lines[r].as_ptr().add(at).cast());
                let wide = _mm256_castsi256_ps(_mm256_slli_epi32::<16>(_mm256_cvtepu16_epi32(bits)));
                sum = _mm256_fmadd_ps(wide, factor[r], sum);
            }
            _mm256_storeu_ps(to, sum);
        }
    }
    add_some::<R, true>(sums, lines, factors, full);
}

#[inline(always)]
fn widened(bits: u16) -> f32 {
    f32::from_bits(u32::from(bits) << 16)
}

/// # Safety
/// The processor has AVX2 and FMA.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
unsafe fn dots_fma<const R: usize, const AHEAD: bool>(rows: [&[u16]; R], far: isize, x: &[f32]) -> [f32; R] {
    use std::arch::x86_64::*;
    let full = x.len() / 16 * 16;
    let mut sums = [[_mm256_setzero_ps(); 2]; R];
    for k in (0..full).step_by(16) {
        if AHEAD {
            // A line is 32 elements: half of the rows at each of its halves.
            let first = k / 16 % 2;
            for r in (first..R).step_by(2) {
                let line = rows[r].as_ptr().wrapping_add(k - 16 * first);
                _mm_prefetch::<_MM_HINT_T0>(line.wrapping_byte_offset(far).cast());
            }
        }
        for half in 0..2 {
            let at = k + 8 * half;
            // SAFETY: eight elements from `at` on are inside `x` and every row, which are equally long.
            unsafe {
                let v = _mm256_loadu_ps(x.as_ptr().add(at));
                for r in 0..R {
                    let bits = _mm_loadu_si128(rows[r].as_ptr().add(at).cast());
                    let wide = _mm256_castsi256_ps(_mm256_slli_epi32::<16>(_mm256_cvtepu16_epi32(bits)));
                    sums[r][half] = _mm256_fmadd_ps(wide, v, sums[r][half]);
                }
            }
        }
    }
    std::array::from_fn(|r| {
        let mut lanes = [0.0f32; 8];
        // SAFETY: the array has room for eight numbers.
        unsafe { _mm256_storeu_ps(lanes.as_mut_ptr(), _mm256_add_ps(sums[r][0], sums[r][1])) };
        let rest: f32 = rows[r][full..].iter().zip(&x[full..]).map(|(m, x)| widened(*m) * x).sum();
        let [a, b, c, d, e, f, g, h] = lanes;
        ((a + e) + (b + f)) + ((c + g) + (d + h)) + rest
    })
}
