//! The gradient of pooling: each window's source goes to the element that the window selects. Where channels are innermost,
//! all channels of a window are done at once.

use std::sync::Arc;

use meshwork_ir::op::MixedOp;
use meshwork_ir::{BlockId, ElementType, Module, OpId, OpKind};

use super::combine::{Body, Fold, fold_of, recognise};
use super::copy::view_of;
use super::key::{Read, reader};
use super::nest::{parts_of, piece};
use super::window::{Dim, windows};
use crate::compile::lower::Lower;
use crate::kernel::ir::Combine;
use crate::step::{Buf, Fault, Frame, Scratch, View, Work};

/// The arrays and the windows over them.
#[derive(Clone, Debug)]
struct Windows {
    x: (Buf, isize),
    source: (Buf, isize),
    source_strides: Vec<isize>,
    init: (Buf, isize),
    out: Buf,
    elem: ElementType,
    dims: Vec<Dim>,
    /// Byte strides of the result.
    strides: Vec<isize>,
    parts: usize,
}

impl Windows {
    fn taps(&self) -> u64 {
        self.dims.iter().map(|d| (d.out * d.size) as u64).product()
    }

    /// Where window number `window` is: its position, and the byte of its source.
    fn place(&self, window: usize, at: &mut [i64]) -> isize {
        let (mut rest, mut from) = (window, 0);
        for (d, dim) in self.dims.iter().enumerate().rev() {
            at[d] = (rest % dim.out as usize) as i64;
            rest /= dim.out as usize;
            from += at[d] as isize * self.source_strides[d];
        }
        from
    }

    /// The elements of the window at `at` that are inside, in order, from dimension `d` on.
    fn taps_at(&self, d: usize, at: &[i64], (x, out): (isize, isize), found: &mut Taps) {
        let Some(dim) = self.dims.get(d) else { return found.push((x, out)) };
        for w in 0..dim.size {
            if let Some(p) = dim.tap(at[d], w) {
                self.taps_at(d + 1, at, (x + p as isize * dim.x, out + p as isize * self.strides[d]), found);
            }
        }
    }
}

/// Gives each window's source to the first of its largest elements, channel by channel.
#[derive(Debug)]
struct Channels {
    /// The dimensions of all arrays but the channels.
    on: Windows,
    channels: usize,
}

/// A window: where its elements are in the input and in the result.
type Taps = Vec<(isize, isize)>;

impl Work for Channels {
    fn parts(&self) -> usize {
        self.on.parts
    }

    fn cost(&self) -> u64 {
        self.on.taps() * self.channels as u64 / 2
    }

    unsafe fn run(&self, frame: &Frame<'_>, scratch: &mut Scratch, part: usize) -> Result<(), Fault> {
        // SAFETY: the trait's contract.
        unsafe {
            match self.on.elem {
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
        let on = &self.on;
        let mine = piece(on.dims[0].n as usize, on.parts, part, 1);
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
            let out = frame.ptr(on.out);
            let init = frame.ptr(on.init.0).offset(on.init.1).cast::<T>().read();
            let slab = on.strides[0] as usize / size;
            std::slice::from_raw_parts_mut(out.cast::<T>().add(mine.start * slab), mine.len() * slab).fill(init);
            let x = frame.ptr(on.x.0).offset(on.x.1).cast_const();
            let source = frame.ptr(on.source.0).offset(on.source.1).cast_const();
            let each: usize = on.dims[1..].iter().map(|d| d.out as usize).product();
            let mut at = vec![0i64; on.dims.len()];
            let mut taps: Taps = vec![];
            for window in mine.start * each..mine.end * each {
                let from = on.place(window, &mut at);
                taps.clear();
                on.taps_at(0, &at, (0, 0), &mut taps);
                let source = std::slice::from_raw_parts(source.offset(from).cast::<T>(), self.channels);
                let (best, which) = (&mut *best, &mut *which);
                Window { taps: &taps, x, out, source, best, which }.run();
            }
        }
    }
}

/// One window of all channels.
struct Window<'a, T> {
    taps: &'a [(isize, isize)],
    x: *const u8,
    out: *mut u8,
    source: &'a [T],
    /// The largest element so far and its tap, per channel.
    best: &'a mut [T],
    which: &'a mut [u32],
}

impl<T: Copy + PartialOrd + std::ops::Add<Output = T>> Window<'_, T> {
    /// # Safety
    /// There are as many elements as in `source` at each tap, those of the result being this thread's.
    unsafe fn run(self) {
        #[cfg(target_arch = "x86_64")]
        if std::arch::is_x86_feature_detected!("avx2") {
            // SAFETY: the processor has it; the caller's promise.
            return unsafe { self.wide() };
        }
        // SAFETY: the caller's promise.
        unsafe { self.select() }
    }

    /// [`select`](Window::select) with vectors of 32 bytes.
    ///
    /// # Safety
    /// As for [`run`](Window::run), on a processor with AVX2.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2")]
    unsafe fn wide(self) {
        // SAFETY: the caller's promise.
        unsafe { self.select() }
    }

    /// # Safety
    /// As for [`run`](Window::run).
    #[inline(always)]
    unsafe fn select(self) {
        let Window { taps, x, out, source, best, which } = self;
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
}

/// Gives each window's source to the first of its largest elements, window after window of a row.
#[derive(Debug)]
struct Rows {
    on: Windows,
    /// The last dimension of all arrays, the byte strides of the result and of the sources along it.
    last: Dim,
    strides: [isize; 2],
    /// The elements of a window that is inside as a whole, from its first one.
    taps: Taps,
}

impl Work for Rows {
    fn parts(&self) -> usize {
        self.on.parts
    }

    fn cost(&self) -> u64 {
        self.on.taps() * (self.last.out * self.last.size) as u64
    }

    unsafe fn run(&self, frame: &Frame<'_>, _: &mut Scratch, part: usize) -> Result<(), Fault> {
        // SAFETY: the trait's contract.
        unsafe {
            match self.on.elem {
                ElementType::F64 => self.typed::<f64>(frame, part),
                _ => self.typed::<f32>(frame, part),
            }
        }
        Ok(())
    }
}

impl Rows {
    /// # Safety
    /// As for [`Work::run`]; elements are of type `T`.
    unsafe fn typed<T: Copy + PartialOrd + std::ops::Add<Output = T>>(&self, frame: &Frame<'_>, part: usize) {
        // Parts divide the first dimension, whose windows are single elements.
        let (on, last) = (&self.on, &self.last);
        let mine = piece(on.dims[0].n as usize, on.parts, part, 1);
        let slab = on.strides[0] as usize / size_of::<T>();
        let each: usize = on.dims[1..].iter().map(|d| d.out as usize).product();
        let (first, end) = (last.inside(0), last.inside(last.size - 1));
        let inside = first.0.max(end.0)..first.1.min(end.1);
        let mut at = vec![0i64; on.dims.len()];
        let mut taps: Taps = vec![];
        // SAFETY: in the whole function: elements of the tensors; this part's slab of the result.
        unsafe {
            let out = frame.ptr(on.out);
            let init = frame.ptr(on.init.0).offset(on.init.1).cast::<T>().read();
            std::slice::from_raw_parts_mut(out.cast::<T>().add(mine.start * slab), mine.len() * slab).fill(init);
            let x = frame.ptr(on.x.0).offset(on.x.1).cast_const();
            let source = frame.ptr(on.source.0).offset(on.source.1).cast_const();
            for row in mine.start * each..mine.end * each {
                let source = source.offset(on.place(row, &mut at));
                let is_whole =
                    on.dims.iter().zip(&at).all(|(d, &at)| [0, d.size - 1].iter().all(|&w| d.tap(at, w).is_some()));
                // Where the row's first element would be.
                let mut corner = (-(last.low as isize) * last.x, -(last.low as isize) * self.strides[0]);
                for (d, dim) in on.dims.iter().enumerate() {
                    let p = (at[d] * dim.stride - dim.low) as isize;
                    corner = (corner.0 + p * dim.x, corner.1 + p * on.strides[d]);
                }
                let mut outer: Option<Taps> = None;
                for w in 0..last.out {
                    let by = (w * last.stride) as isize;
                    let place = if is_whole && inside.contains(&w) {
                        best::<T>(x, (corner.0 + by * last.x, corner.1 + by * self.strides[0]), &self.taps)
                    } else {
                        let outer = outer.get_or_insert_with(|| {
                            let mut found = vec![];
                            on.taps_at(0, &at, (0, 0), &mut found);
                            found
                        });
                        taps.clear();
                        for &(x, to) in outer.iter() {
                            let along = (0..last.size).filter_map(|i| last.tap(w, i)).map(|p| p as isize);
                            taps.extend(along.map(|p| (x + p * last.x, to + p * self.strides[0])));
                        }
                        best::<T>(x, (0, 0), &taps)
                    };
                    if let Some(place) = place {
                        let to = out.offset(place).cast::<T>();
                        to.write(to.read() + source.offset(w as isize * self.strides[1]).cast::<T>().read());
                    }
                }
            }
        }
    }
}

/// Where in the result the first of the largest elements is among `taps` from `corner` on.
///
/// # Safety
/// These are elements of `x`.
#[inline(always)]
unsafe fn best<T: Copy + PartialOrd>(x: *const u8, corner: (isize, isize), taps: &[(isize, isize)]) -> Option<isize> {
    let (&(at, place), rest) = taps.split_first()?;
    // SAFETY: the caller's promise.
    let (mut best, mut place) = (unsafe { x.offset(corner.0 + at).cast::<T>().read() }, place);
    for &(at, to) in rest {
        // SAFETY: as above.
        let value = unsafe { x.offset(corner.0 + at).cast::<T>().read() };
        // Negated, so that a number that is none is given up and taken.
        #[allow(clippy::neg_cmp_op_on_partial_ord)]
        let takes = !(best >= value);
        best = if takes { value } else { best };
        place = if takes { to } else { place };
    }
    Some(corner.1 + place)
}

/// Gives each window's source to the element that the window selects.
struct Select {
    on: Windows,
    read: Read,
    keep: fn(f64, f64) -> bool,
    fold: Fold,
}

impl std::fmt::Debug for Select {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Select {:?}", self.on.dims)
    }
}

impl Work for Select {
    fn parts(&self) -> usize {
        self.on.parts
    }

    fn cost(&self) -> u64 {
        3 * self.on.taps()
    }

    unsafe fn run(&self, frame: &Frame<'_>, _: &mut Scratch, part: usize) -> Result<(), Fault> {
        // Parts divide the first dimension; with more than one part its windows are single elements.
        let on = &self.on;
        let Some(first) = on.dims.first() else { return Ok(()) };
        // Strides do not say that there are no elements.
        if on.dims.iter().any(|d| d.n == 0) {
            return Ok(());
        }
        let mine = piece(first.n as usize, on.parts, part, 1);
        let (row, size) = (on.strides[0] as usize, on.elem.storage_bytes());
        // SAFETY: in the whole function: elements of the tensors; this part's slab of the result.
        unsafe {
            let out = frame.ptr(on.out);
            let init = frame.ptr(on.init.0).offset(on.init.1).cast_const();
            for i in (mine.start * row..mine.end * row).step_by(size) {
                std::ptr::copy_nonoverlapping(init, out.add(i), size);
            }
            let x = frame.ptr(on.x.0).offset(on.x.1).cast_const();
            let source = frame.ptr(on.source.0).offset(on.source.1).cast_const();
            let rank = on.dims.len();
            let mut at = vec![0i64; rank];
            let total: usize = on.dims.iter().map(|d| d.out as usize).product();
            let windows = if on.parts == 1 {
                0..total
            } else {
                let each = total / (first.out as usize).max(1);
                mine.start * each..mine.end * each
            };
            let mut tap = vec![0i64; rank];
            for window in windows {
                let from = on.place(window, &mut at);
                let mut best: Option<(f64, isize)> = None;
                tap.fill(0);
                'taps: loop {
                    let mut place = Some((0isize, 0isize));
                    for d in 0..rank {
                        place = place
                            .zip(on.dims[d].tap(at[d], tap[d]))
                            .map(|((px, po), p)| (px + p as isize * on.dims[d].x, po + p as isize * on.strides[d]));
                    }
                    if let Some((px, po)) = place {
                        let value = (self.read)(x.offset(px));
                        if !best.is_some_and(|(b, _)| (self.keep)(b, value)) {
                            best = Some((value, po));
                        }
                    }
                    for d in (0..rank).rev() {
                        tap[d] += 1;
                        if tap[d] < on.dims[d].size {
                            continue 'taps;
                        }
                        tap[d] = 0;
                    }
                    break;
                }
                if let Some((_, place)) = best {
                    (self.fold)(out.offset(place), 0, source.offset(from), 0, 1);
                }
            }
        }
        Ok(())
    }
}

/// The step for channels, if they are innermost in all arrays, and windows do not join neighbors of the first dimension.
fn by_channels(on: &Windows) -> Option<Channels> {
    let (last, first) = (on.dims.last()?, on.dims.first()?);
    let size = on.elem.storage_bytes() as isize;
    let float = matches!(on.elem, ElementType::F32 | ElementType::F64);
    let inner = last.is_plain() && last.x == size && on.source_strides.last() == Some(&size);
    if !float || !inner || !first.is_plain() || on.dims.len() < 2 || last.n < 4 || on.dims.iter().any(|d| d.n == 0) {
        return None;
    }
    let channels = last.n as usize;
    let mut on = on.clone();
    on.dims.pop();
    on.strides.pop();
    on.source_strides.pop();
    Some(Channels { on, channels })
}

/// The step for rows of windows, if windows do not join neighbors of the first dimension.
fn by_rows(on: &Windows) -> Option<Rows> {
    let float = matches!(on.elem, ElementType::F32 | ElementType::F64);
    let known = on.dims.iter().all(|d| d.base == 1 && d.n > 0);
    if !float || !known || on.dims.len() < 2 || !on.dims[0].is_plain() {
        return None;
    }
    let mut on = on.clone();
    // Planes after one another are divided like the first dimension.
    while on.dims.len() > 2
        && on.dims[1].is_plain()
        && on.dims[0].x == on.dims[1].x * on.dims[1].n as isize
        && on.source_strides[0] == on.source_strides[1] * on.dims[1].n as isize
    {
        let planes = on.dims[0].n * on.dims[1].n;
        on.dims[1].n = planes;
        on.dims[1].out = planes;
        on.dims.remove(0);
        on.strides.remove(0);
        on.source_strides.remove(0);
    }
    let last = on.dims.pop()?;
    let strides = [on.strides.pop()?, on.source_strides.pop()?];
    on.parts = parts_of(
        on.dims.iter().map(|d| d.n as usize).product::<usize>() * last.n as usize,
        1 << 13,
        on.dims[0].n as usize,
    );
    let mut taps = vec![(0, 0)];
    for (dim, to) in on.dims.iter().zip(&on.strides).chain([(&last, &strides[0])]) {
        let along = |(x, out): (isize, isize)| {
            (0..dim.size).map(move |w| (w * dim.dilation) as isize).map(move |p| (x + p * dim.x, out + p * to))
        };
        taps = taps.into_iter().flat_map(along).collect();
    }
    Some(Rows { on, last, strides, taps })
}

/// How a window chooses among its elements.
struct Keep {
    /// Whether the first of two stays chosen.
    keep: fn(f64, f64) -> bool,
    /// Whether that is: the first of the largest.
    largest: bool,
}

/// How a body that compares its two arguments in order keeps the first.
fn recognise_select(module: &Module, block: BlockId) -> Option<Keep> {
    let (&[a, b], &[out]) = (module.block(block).args(), module.returned(block)) else { return None };
    let op = module.op(module.def_op(out)?);
    let natural = op.enum_value("compare_type") != Some("TOTALORDER");
    if op.kind() != OpKind::Mixed(MixedOp::Compare) || op.operands() != [a, b] || !natural {
        return None;
    }
    let direction = op.enum_value("comparison_direction")?;
    let keep: fn(f64, f64) -> bool = match direction {
        "GE" => |a, b| a >= b,
        "GT" => |a, b| a > b,
        "LE" => |a, b| a <= b,
        "LT" => |a, b| a < b,
        _ => return None,
    };
    Some(Keep { keep, largest: direction == "GE" })
}

/// `stablehlo.select_and_scatter` with simple bodies.
pub(super) fn lower(cx: &mut Lower<'_>, op: OpId) -> Result<bool, String> {
    let data = cx.module.op(op);
    let &[operand, source, init] = data.operands() else { return Ok(false) };
    let body = |i: usize| cx.module.body_of(op, i);
    let Some(keep) = body(0).and_then(|b| recognise_select(cx.module, b)) else { return Ok(false) };
    let Some(Body::Fold(combine)) = body(1).and_then(|b| recognise(cx.module, b)) else { return Ok(false) };
    let (x, source, init) = (view_of(cx, operand)?, view_of(cx, source)?, view_of(cx, init)?);
    let (Some(read), Some(fold)) = (reader(x.elem), fold_of(x.elem, combine)) else { return Ok(false) };
    if source.elem != x.elem || x.dims.is_empty() {
        return Ok(false);
    }
    let dims = windows(data, &x, &View::dense(Buf(0), x.elem, &source.dims))?;
    let buf = cx.result(data.results()[0]);
    let out = View::dense(buf, x.elem, &x.dims);
    let parts = if dims[0].is_plain() { parts_of(x.len(), 1 << 13, dims[0].n.max(1) as usize) } else { 1 };
    let strides = |list: &[i64]| list.iter().map(|&s| s as isize).collect();
    let on = Windows {
        x: (x.buf, x.offset as isize),
        source: (source.buf, source.offset as isize),
        source_strides: strides(&source.strides),
        init: (init.buf, init.offset as isize),
        out: buf,
        elem: x.elem,
        dims,
        strides: strides(&out.strides),
        parts,
    };
    let adds_to_largest = combine == Combine::Add && keep.largest;
    let (channels, rows) = if adds_to_largest { (by_channels(&on), by_rows(&on)) } else { (None, None) };
    let (of, work): (_, Arc<dyn Work>) = match (channels, rows) {
        (Some(channels), _) => (" channels", Arc::new(channels)),
        (None, Some(rows)) => (" rows", Arc::new(rows)),
        (None, None) => ("", Arc::new(Select { on, read, keep: keep.keep, fold })),
    };
    let name = format!("select and scatter{of} {} {:?}", x.elem, x.dims);
    cx.step(op, name, work, vec![x.buf, source.buf, init.buf], vec![buf]);
    Ok(true)
}

#[cfg(test)]
mod tests {
    use crate::library::testing::check;

    /// The scatter of `s` to the elements of `x` that windows select.
    fn source(elem: &str, x: &str, s: &str, window: &str, direction: &str) -> String {
        format!(
            "func.func @main(%a: tensor<{x}x{elem}>, %s: tensor<{s}x{elem}>, %i: tensor<{elem}>) -> tensor<{x}x{elem}> {{
            %r = \"stablehlo.select_and_scatter\"(%a, %s, %i) <{{{window}}}> ({{
            ^bb0(%p: tensor<{elem}>, %q: tensor<{elem}>):
                %c = stablehlo.compare {direction}, %p, %q : (tensor<{elem}>, tensor<{elem}>) -> tensor<i1>
                stablehlo.return %c : tensor<i1>
            }}, {{
            ^bb0(%p: tensor<{elem}>, %q: tensor<{elem}>):
                %c = stablehlo.add %p, %q : tensor<{elem}>
                stablehlo.return %c : tensor<{elem}>
            }}) : (tensor<{x}x{elem}>, tensor<{s}x{elem}>, tensor<{elem}>) -> tensor<{x}x{elem}>
            return %r : tensor<{x}x{elem}> }}"
        )
    }

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
            let steps = check(&source(elem, x, s, window, "GE"), 1e-6);
            assert!(steps.iter().any(|s| s.starts_with("select and scatter channels")), "{steps:?}");
        }
    }
    #[test]
    fn rows_of_windows() {
        for (elem, x, s, window) in [
            ("f32", "3x6x8", "3x3x4", "window_dimensions = array<i64: 1, 2, 2>, window_strides = array<i64: 1, 2, 2>"),
            (
                "f64",
                "2x1x7x5",
                "2x1x7x5",
                "window_dimensions = array<i64: 1, 1, 3, 3>, padding = dense<[[0, 0], [0, 0], [1, 1], [1, 1]]> : tensor<4x2xi64>",
            ),
            (
                "f32",
                "2x3x9x11",
                "2x3x3x5",
                "window_dimensions = array<i64: 1, 1, 3, 2>, window_strides = array<i64: 1, 1, 2, 2>, window_dilations = array<i64: 1, 1, 2, 2>",
            ),
            (
                "f32",
                "5x13",
                "5x7",
                "window_dimensions = array<i64: 1, 3>, window_strides = array<i64: 1, 2>, padding = dense<[[0, 0], [1, 1]]> : tensor<2x2xi64>",
            ),
            ("f32", "1x0x8", "1x0x4", "window_dimensions = array<i64: 1, 1, 2>, window_strides = array<i64: 1, 1, 2>"),
            (
                "f32",
                "130x3x64x3",
                "130x3x32x1",
                "window_dimensions = array<i64: 1, 1, 2, 3>, window_strides = array<i64: 1, 1, 2, 3>",
            ),
        ] {
            let steps = check(&source(elem, x, s, window, "GE"), 1e-6);
            let is_empty = x.contains("x0x");
            assert!(is_empty || steps.iter().any(|s| s.starts_with("select and scatter rows")), "{steps:?}");
        }
    }

    #[test]
    fn selects_and_scatters() {
        for (elem, x, s, window) in [
            ("f32", "3x6x8", "3x3x4", "window_dimensions = array<i64: 1, 2, 2>, window_strides = array<i64: 1, 2, 2>"),
            (
                "f32",
                "3x6x8",
                "3x6x8",
                "window_dimensions = array<i64: 1, 3, 3>, padding = dense<[[0, 0], [1, 1], [1, 1]]> : tensor<3x2xi64>",
            ),
            ("bf16", "3x6x8", "2x5x7", "window_dimensions = array<i64: 2, 2, 2>"),
            (
                "i32",
                "60x60x8",
                "60x30x4",
                "window_dimensions = array<i64: 1, 2, 2>, window_strides = array<i64: 1, 2, 2>",
            ),
        ] {
            for direction in ["GE", "LT"] {
                check(&source(elem, x, s, window, direction), 0.0);
            }
        }
    }
}
