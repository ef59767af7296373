//! The gradient of pooling where channels are innermost: all channels of a window at once.

use std::sync::Arc;

use meshwork_ir::{ElementType, OpId};

use super::nest::piece;
use super::window::Dim;
use crate::compile::lower::Lower;
use crate::step::{Buf, Fault, Frame, Scratch, Work};

/// Gives each window's source to the first of its largest elements, channel by channel.
#[derive(Debug)]
struct Channels {
    x: (Buf, isize),
    source: (Buf, isize),
    source_strides: Vec<isize>,
    init: (Buf, isize),
    out: Buf,
    elem: ElementType,
    /// All but the channels.
    dims: Vec<Dim>,
    /// Byte strides of the result.
    strides: Vec<isize>,
    channels: usize,
    parts: usize,
}

/// A window: where its elements are in the input and in the result.
type Taps = Vec<(isize, isize)>;

impl Work for Channels {
    fn parts(&self) -> usize {
        self.parts
    }

    fn cost(&self) -> u64 {
        self.dims.iter().map(|d| (d.out * d.size) as u64).product::<u64>() * self.channels as u64 / 2
    }

    unsafe fn run(&self, frame: &Frame<'_>, scratch: &mut Scratch, part: usize) -> Result<(), Fault> {
        // SAFETY: the trait's contract.
        unsafe {
            match self.elem {
                ElementType::F64 => self.typed::<f64>(frame, scratch, part),
                _ => self.typed::<f32>(frame, scratch, part),
            }
        }
        Ok(())
    }
}

impl Channels {
    /// # Safety
    /// As for [`Work::run`]; elements are of type `T`.
    unsafe fn typed<T: Copy + PartialOrd + std::ops::Add<Output = T>>(
        &self,
        frame: &Frame<'_>,
        scratch: &mut Scratch,
        part: usize,
    ) {
        // Parts divide the first dimension, whose windows are single elements.
        let first = &self.dims[0];
        let mine = piece(first.n as usize, self.parts, part, 1);
        let size = size_of::<T>();
        let wide = self.channels * size;
        // SAFETY: in the whole function: elements of the tensors, this part's slab of the result, and scratch that is large
        // enough.
        unsafe {
            let best = scratch.get(wide.next_multiple_of(64) + self.channels * 4).cast::<T>();
            let which = best.cast::<u8>().add(wide.next_multiple_of(64)).cast::<u32>();
            let (best, which) = (
                std::slice::from_raw_parts_mut(best, self.channels),
                std::slice::from_raw_parts_mut(which, self.channels),
            );
            let out = frame.ptr(self.out);
            let init = frame.ptr(self.init.0).offset(self.init.1).cast::<T>().read();
            let slab = self.strides[0] as usize / size;
            std::slice::from_raw_parts_mut(out.cast::<T>().add(mine.start * slab), mine.len() * slab).fill(init);
            let x = frame.ptr(self.x.0).offset(self.x.1).cast_const();
            let source = frame.ptr(self.source.0).offset(self.source.1).cast_const();
            let each: usize = self.dims[1..].iter().map(|d| d.out as usize).product();
            let mut at = vec![0i64; self.dims.len()];
            let mut taps: Taps = vec![];
            for window in mine.start * each..mine.end * each {
                let mut rest = window;
                let mut from = 0isize;
                for (d, dim) in self.dims.iter().enumerate().rev() {
                    at[d] = (rest % dim.out as usize) as i64;
                    rest /= dim.out as usize;
                    from += at[d] as isize * self.source_strides[d];
                }
                taps.clear();
                self.taps(0, &at, (0, 0), &mut taps);
                let source = std::slice::from_raw_parts(source.offset(from).cast::<T>(), self.channels);
                one(&taps, x, out, source, best, which);
            }
        }
    }

    /// The elements of the window at `at` that are inside, in order.
    fn taps(&self, d: usize, at: &[i64], (x, out): (isize, isize), found: &mut Taps) {
        let Some(dim) = self.dims.get(d) else { return found.push((x, out)) };
        for w in 0..dim.size {
            if let Some(p) = dim.tap(at[d], w) {
                self.taps(d + 1, at, (x + p as isize * dim.x, out + p as isize * self.strides[d]), found);
            }
        }
    }
}

/// One window.
///
/// # Safety
/// There are as many elements as in `source` at each tap, those of the result being this thread's.
unsafe fn one<T: Copy + PartialOrd + std::ops::Add<Output = T>>(
    taps: &[(isize, isize)],
    x: *const u8,
    out: *mut u8,
    source: &[T],
    best: &mut [T],
    which: &mut [u32],
) {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has it; the caller's promise.
        return unsafe { wide(taps, x, out, source, best, which) };
    }
    // SAFETY: the caller's promise.
    unsafe { window(taps, x, out, source, best, which) }
}

/// [`window`] with vectors of 32 bytes.
///
/// # Safety
/// As for [`one`], on a processor with AVX2.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn wide<T: Copy + PartialOrd + std::ops::Add<Output = T>>(
    taps: &[(isize, isize)],
    x: *const u8,
    out: *mut u8,
    source: &[T],
    best: &mut [T],
    which: &mut [u32],
) {
    // SAFETY: the caller's promise.
    unsafe { window(taps, x, out, source, best, which) }
}

/// # Safety
/// As for [`one`].
#[inline(always)]
unsafe fn window<T: Copy + PartialOrd + std::ops::Add<Output = T>>(
    taps: &[(isize, isize)],
    x: *const u8,
    out: *mut u8,
    source: &[T],
    best: &mut [T],
    which: &mut [u32],
) {
    let n = source.len();
    for (t, &(at, _)) in taps.iter().enumerate() {
        // SAFETY: the caller's promise.
        let x = unsafe { std::slice::from_raw_parts(x.offset(at).cast::<T>(), n) };
        if t == 0 {
            best.copy_from_slice(x);
            which.fill(0);
            continue;
        }
        for ((best, which), &value) in best.iter_mut().zip(which.iter_mut()).zip(x) {
            // Negated, so that a number that is none is given up and taken.
            #[allow(clippy::neg_cmp_op_on_partial_ord)]
            let takes = !(*best >= value);
            *best = if takes { value } else { *best };
            *which = if takes { t as u32 } else { *which };
        }
    }
    for (t, &(_, at)) in taps.iter().enumerate() {
        // SAFETY: the caller's promise.
        let out = unsafe { std::slice::from_raw_parts_mut(out.offset(at).cast::<T>(), n) };
        for ((out, &which), &source) in out.iter_mut().zip(which.iter()).zip(source) {
            let sum = *out + source;
            *out = if which == t as u32 { sum } else { *out };
        }
    }
}

/// What the step is made of.
pub(super) struct Parts {
    pub x: (Buf, isize),
    pub source: (Buf, isize),
    pub source_strides: Vec<isize>,
    pub init: (Buf, isize),
    pub out: Buf,
    pub elem: ElementType,
    pub dims: Vec<Dim>,
    pub strides: Vec<isize>,
    pub parts: usize,
}

/// Adds the step if channels are innermost in all arrays, and windows do not join neighbors of the first dimension.
pub(super) fn lower(cx: &mut Lower<'_>, op: OpId, p: &Parts) -> bool {
    let (Some(last), Some(first)) = (p.dims.last(), p.dims.first()) else { return false };
    let size = p.elem.storage_bytes() as isize;
    let float = matches!(p.elem, ElementType::F32 | ElementType::F64);
    let inner = last.is_plain() && last.x == size && p.source_strides.last() == Some(&size);
    if !float || !inner || !first.is_plain() || p.dims.len() < 2 || last.n < 4 || p.dims.iter().any(|d| d.n == 0) {
        return false;
    }
    let rank = p.dims.len() - 1;
    let work = Channels {
        x: p.x,
        source: p.source,
        source_strides: p.source_strides[..rank].to_vec(),
        init: p.init,
        out: p.out,
        elem: p.elem,
        dims: p.dims[..rank].to_vec(),
        strides: p.strides[..rank].to_vec(),
        channels: last.n as usize,
        parts: p.parts,
    };
    let extents: Vec<i64> = p.dims.iter().map(|d| d.n).collect();
    let name = format!("select and scatter channels {} {extents:?}", p.elem);
    cx.step(op, name, Arc::new(work), vec![p.x.0, p.source.0, p.init.0], vec![p.out]);
    true
}

#[cfg(test)]
mod tests {
    use crate::library::testing::check;

    #[test]
    fn channels_of_windows() {
        for (elem, x, s, window) in [
            (
                "f32",
                "3x6x8x9",
                "3x3x4x9",
                "window_dimensions = array<i64: 1, 2, 2, 1>, window_strides = array<i64: 1, 2, 2, 1>",
            ),
            (
                "f64",
                "3x6x8x16",
                "3x3x4x16",
                "window_dimensions = array<i64: 1, 3, 3, 1>, window_strides = array<i64: 1, 2, 2, 1>, padding = dense<[[0, 0], [0, 1], [0, 1], [0, 0]]> : tensor<4x2xi64>",
            ),
        ] {
            let steps = check(
                &format!(
                    "func.func @main(%a: tensor<{x}x{elem}>, %s: tensor<{s}x{elem}>, %i: tensor<{elem}>) -> tensor<{x}x{elem}> {{
                    %r = \"stablehlo.select_and_scatter\"(%a, %s, %i) <{{{window}}}> ({{
                    ^bb0(%p: tensor<{elem}>, %q: tensor<{elem}>):
                        %c = stablehlo.compare GE, %p, %q : (tensor<{elem}>, tensor<{elem}>) -> tensor<i1>
                        stablehlo.return %c : tensor<i1>
                    }}, {{
                    ^bb0(%p: tensor<{elem}>, %q: tensor<{elem}>):
                        %c = stablehlo.add %p, %q : tensor<{elem}>
                        stablehlo.return %c : tensor<{elem}>
                    }}) : (tensor<{x}x{elem}>, tensor<{s}x{elem}>, tensor<{elem}>) -> tensor<{x}x{elem}>
                    return %r : tensor<{x}x{elem}> }}"
                ),
                1e-6,
            );
            assert!(steps.iter().any(|s| s.starts_with("select and scatter channels")), "{steps:?}");
        }
    }
}
