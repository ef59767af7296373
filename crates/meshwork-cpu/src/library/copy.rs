//! Copies between strided boxes of buffers: what materializes views, concatenates, pads and reverses.

use std::cmp::Reverse;
use std::sync::Arc;

use meshwork_ir::{Def, ElementType, OpId, ValueId};

use super::nest::{Nest, parts_of, piece, walk};
use super::transpose::{Planes, transpose_to};
use crate::compile::lower::Lower;
use crate::kernel::Stores;
use crate::step::{Bands, Buf, Fault, Frame, Scratch, Touch, View, Work};

/// One strided box of elements that is copied from a buffer to another.
#[derive(Clone, Debug)]
pub(crate) struct BoxCopy {
    from: Buf,
    to: Buf,
    from_offset: isize,
    to_offset: isize,
    /// Bytes of an element.
    size: usize,
    /// Operand 0 is `to`, operand 1 is `from`.
    nest: Nest<2>,
    how: How,
    /// Where the stores of a transposition go.
    stores: Stores,
    /// The dimension that is cut into parts, and how many there are.
    split: usize,
    parts: usize,
}

/// How the innermost loops run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum How {
    /// The innermost dimension is contiguous on both sides.
    Rows,
    /// The innermost dimension is contiguous in `to` and one element in `from`.
    Fill,
    /// The innermost dimension is contiguous in `to`, this one in `from`.
    Transpose(usize),
    /// The innermost dimension is contiguous in `to`, and backward in `from`.
    Flip,
    /// Element by element, along this dimension.
    Elements(usize),
}

impl BoxCopy {
    /// The copy of the elements that `from` shows to where `to` shows them. Both have the same extents and type.
    pub(crate) fn new(from: &View, to: &View) -> BoxCopy {
        let size = from.elem.storage_bytes();
        let nest = Nest::new(&to.dims, [&to.strides, &from.strides]);
        let inner = nest.dims.len().wrapping_sub(1);
        let unit = size as isize;
        let how = match nest.strides.last() {
            None => How::Rows,
            Some(&[t, f]) if t == unit && f == unit => How::Rows,
            // Each element several times is the line of them interleaved with itself.
            Some(&[t, 0]) if t == unit => match (0..inner).rev().find(|&d| nest.strides[d][1] == unit) {
                Some(d) if nest.dims[inner] <= INTERLEAVED => How::Transpose(d),
                _ => How::Fill,
            },
            Some(&[t, f]) if t == unit && f == -unit && inner > 0 && flip(nest.dims[inner], size).is_some() => {
                How::Flip
            }
            Some(&[t, _]) => match (0..inner).rev().find(|&d| nest.strides[d][1] == unit) {
                Some(d) if t == unit => How::Transpose(d),
                _ if nest.dims[inner] >= SHORT => How::Elements(inner),
                _ => How::Elements((0..=inner).max_by_key(|&d| nest.dims[d]).unwrap_or(inner)),
            },
        };
        let longest = |dims: &mut dyn Iterator<Item = usize>| dims.max_by_key(|&d| (nest.dims[d].min(64), Reverse(d)));
        let around = match how {
            How::Transpose(d) => longest(&mut (0..inner).filter(|&o| o != d)).filter(|&o| nest.dims[o] >= LEAST_AROUND),
            _ => None,
        };
        let split = match (how, around) {
            // Columns of `to` are rows of `from`: these are read from end to end.
            (How::Transpose(_), _) if nest.dims[inner] >= 32 * GRAIN => inner,
            // A piece of a plane may be less than a square of it.
            (_, Some(around)) => around,
            _ => longest(&mut (0..nest.dims.len())).unwrap_or(0),
        };
        let stores = if nest.len() * size * 2 >= PAST_BYTES { Stores::PastCaches } else { Stores::Cached };
        let most = nest.dims.get(split).map_or(1, |&n| n.div_ceil(if split == inner { GRAIN } else { 1 }));
        let parts = parts_of(nest.len() * size, PART_BYTES, most);
        let (from_offset, to_offset) = (from.offset as isize, to.offset as isize);
        BoxCopy { from: from.buf, to: to.buf, from_offset, to_offset, size, nest, how, stores, split, parts }
    }

    /// In how many parts it is done.
    pub(crate) fn parts(&self) -> usize {
        self.parts
    }

    /// Nanoseconds on one core, roughly.
    pub(crate) fn cost(&self) -> u64 {
        let bytes = (self.nest.len() * self.size) as u64;
        match self.how {
            How::Rows | How::Fill => 20 + bytes / 10,
            How::Transpose(_) | How::Flip => 20 + bytes / 5,
            How::Elements(_) => 20 + self.nest.len() as u64,
        }
    }

    /// How many bytes it copies, if they are one piece on both sides and one part.
    pub(crate) fn one_piece(&self) -> Option<usize> {
        let whole = self.how == How::Rows && self.nest.dims.len() <= 1 && self.parts == 1;
        whole.then(|| self.nest.len() * self.size)
    }

    /// What it reads and writes: all between the first and the last byte.
    fn touches(&self) -> [Touch; 2] {
        let reach = |buf: Buf, offset: isize, side: usize, written: bool| {
            let (mut low, mut high) = (offset, offset);
            for (&n, strides) in self.nest.dims.iter().zip(&self.nest.strides) {
                let last = (n as isize - 1) * strides[side];
                low += last.min(0);
                high += last.max(0);
            }
            Touch { buf, bytes: low as i64..high as i64 + self.size as i64, written }
        };
        [reach(self.to, self.to_offset, 0, true), reach(self.from, self.from_offset, 1, false)]
    }

    /// Copies one part between the buffers of `frame`.
    ///
    /// # Safety
    /// As [`Work::run`].
    pub(crate) unsafe fn run(&self, frame: &Frame<'_>, part: usize) {
        // SAFETY: the views are inside their buffers.
        unsafe {
            let from = frame.ptr(self.from).offset(self.from_offset);
            let to = frame.ptr(self.to).offset(self.to_offset);
            self.run_at(from, to, part);
        }
    }

    /// Copies one part from the box that starts at `from` to the one that starts at `to`.
    ///
    /// # Safety
    /// Both boxes are valid memory and do not overlap.
    pub(crate) unsafe fn run_at(&self, from: *const u8, to: *mut u8, part: usize) {
        if self.parts == 1 {
            if !self.nest.dims.contains(&0) {
                // SAFETY: the nest names elements of the boxes only.
                unsafe { self.copy(&self.nest.dims, from, to) }
            }
            return;
        }
        let mut dims = self.nest.dims.clone();
        let (mut from, mut to) = (from, to);
        if let Some(n) = dims.get_mut(self.split) {
            let range = piece(*n, self.parts, part, if *n >= self.parts * GRAIN { GRAIN } else { 1 });
            let [t, f] = self.nest.strides[self.split];
            // SAFETY: the first element of the range, or one past the end of a box whose range is empty.
            unsafe {
                from = from.offset(range.start as isize * f);
                to = to.offset(range.start as isize * t);
            }
            *n = range.len();
        }
        if dims.contains(&0) {
            return;
        }
        // SAFETY: `dims` and the strides name elements of the boxes only.
        unsafe { self.copy(&dims, from, to) }
    }

    /// # Safety
    /// All elements of `dims` at the nest's strides from `from` and `to` are valid and do not overlap.
    unsafe fn copy(&self, dims: &[usize], from: *const u8, to: *mut u8) {
        let strides = &self.nest.strides;
        let inner = dims.len().wrapping_sub(1);
        let n = dims.last().copied().unwrap_or(1);
        let outer = dims.len().saturating_sub(1);
        // SAFETY: in all arms: offsets of elements of the boxes.
        unsafe {
            match self.how {
                How::Rows => {
                    let bytes = n * self.size;
                    if let (4..=32, Some(last)) = (bytes, outer.checked_sub(1)) {
                        return walk(&dims[..last], &strides[..last], [0, 0], &mut |[t, f]| {
                            short_rows((from.offset(f), to.offset(t)), strides[last], dims[last], bytes);
                        });
                    }
                    walk(&dims[..outer], &strides[..outer], [0, 0], &mut |[t, f]| {
                        std::ptr::copy_nonoverlapping(from.offset(f), to.offset(t), bytes);
                    });
                }
                How::Fill => walk(&dims[..outer], &strides[..outer], [0, 0], &mut |[t, f]| {
                    fill(from.offset(f), to.offset(t), n, self.size);
                }),
                How::Flip => {
                    let Some(flip) = flip(n, self.size) else { return };
                    // The dimension around it is done in one go.
                    let (d, rest) = (outer - 1, outer - 1);
                    let [by_to, by_from] = strides[d];
                    walk(&dims[..rest], &strides[..rest], [0, 0], &mut |[t, f]| {
                        let (from, to) = (from.offset(f), to.offset(t));
                        let done = if [by_to, by_from] == [(n * self.size) as isize; 2] {
                            flip_blocks(from.sub((n - 1) * self.size), to, [dims[d], n, self.size])
                        } else {
                            0
                        };
                        let at = |by: isize| done as isize * by;
                        flip((from.offset(at(by_from)), by_from), (to.offset(at(by_to)), by_to), dims[d] - done);
                    });
                }
                How::Transpose(d) => {
                    let mut rest_dims = dims[..outer].to_vec();
                    let mut rest = strides[..outer].to_vec();
                    rest_dims.remove(d);
                    rest.remove(d);
                    let (rows, columns) = (dims[d], dims[inner]);
                    walk(&rest_dims, &rest, [0, 0], &mut |[t, f]| {
                        let planes = Planes {
                            from: from.offset(f),
                            from_stride: strides[inner][1],
                            to: to.offset(t),
                            to_stride: strides[d][0],
                        };
                        transpose_to(planes, rows, columns, self.size, self.stores);
                    });
                }
                How::Elements(d) => {
                    let ([ts, fs], n) = (strides[d], dims[d]);
                    let (mut rest_dims, mut rest) = (dims.to_vec(), strides.to_vec());
                    rest_dims.remove(d);
                    rest.remove(d);
                    walk(&rest_dims, &rest, [0, 0], &mut |[t, f]| {
                        let (to, from) = (to.offset(t), from.offset(f));
                        match self.size {
                            1 => elements::<1>(from, to, n, fs, ts),
                            2 => elements::<2>(from, to, n, fs, ts),
                            4 => elements::<4>(from, to, n, fs, ts),
                            8 => elements::<8>(from, to, n, fs, ts),
                            _ => elements::<16>(from, to, n, fs, ts),
                        }
                    });
                }
            }
        }
    }
}

/// Elements that are repeated up to so often are interleaved.
const INTERLEAVED: usize = 16;

/// Writes so many rows backward, from where the last elements of rows are to where the first ones are, each with the bytes from row to row.
///
/// # Safety
/// All elements are valid and do not overlap.
type Flip = unsafe fn((*const u8, isize), (*mut u8, isize), usize);

/// The loop for rows of `n` elements.
fn flip(n: usize, size: usize) -> Option<Flip> {
    /// # Safety
    /// As [`Flip`].
    unsafe fn rows<T: Copy, const N: usize>(from: (*const u8, isize), to: (*mut u8, isize), rows: usize) {
        for i in 0..rows as isize {
            // SAFETY: the caller's: the row begins with its last element.
            unsafe {
                let last = from.0.offset(i * from.1).cast::<T>();
                let mut row = last.sub(N - 1).cast::<[T; N]>().read_unaligned();
                row.reverse();
                to.0.offset(i * to.1).cast::<[T; N]>().write_unaligned(row);
            }
        }
    }
    macro_rules! choose {
        ($t:ty) => {
            match n {
                2 => Some(rows::<$t, 2>),
                3 => Some(rows::<$t, 3>),
                4 => Some(rows::<$t, 4>),
                8 => Some(rows::<$t, 8>),
                16 => Some(rows::<$t, 16>),
                _ => None,
            }
        };
    }
    match size {
        1 => choose!(u8),
        2 => choose!(u16),
        4 => choose!(u32),
        8 => choose!(u64),
        _ => None,
    }
}

/// Writes rows of `n` elements of `size` bytes backward, as many in one shuffle as fit 16 bytes; rows follow one another on both sides.
/// Returns how many were written: the last few are left, and all where there are no such shuffles or rows are longer.
///
/// # Safety
/// `rows` rows are valid on both sides and do not overlap.
unsafe fn flip_blocks(from: *const u8, to: *mut u8, [rows, n, size]: [usize; 3]) -> usize {
    /// # Safety
    /// As [`flip_blocks`], for rows of so many bytes together; AVX2 is there.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2")]
    unsafe fn blocks(from: *const u8, to: *mut u8, bytes: usize, block: usize, order: [u8; 16]) -> usize {
        use std::arch::x86_64::*;
        let mut at = 0;
        // SAFETY: in all blocks: inside the rows. What is behind a block of less than 16 bytes is written again.
        unsafe {
            let order = _mm_loadu_si128(order.as_ptr().cast());
            let twice = _mm256_broadcastsi128_si256(order);
            while block == 16 && at + 32 <= bytes {
                let v = _mm256_loadu_si256(from.add(at).cast());
                _mm256_storeu_si256(to.add(at).cast(), _mm256_shuffle_epi8(v, twice));
                at += 32;
            }
            while at + 16 <= bytes {
                let v = _mm_loadu_si128(from.add(at).cast());
                _mm_storeu_si128(to.add(at).cast(), _mm_shuffle_epi8(v, order));
                at += block;
            }
        }
        at
    }
    #[cfg(target_arch = "x86_64")]
    if n * size <= 16 && std::arch::is_x86_feature_detected!("avx2") {
        let (row, block) = (n * size, 16 / (n * size) * n * size);
        let order = std::array::from_fn(|byte| {
            let (element, part) = (byte % row / size, byte % size);
            if byte < block { (byte / row * row + (n - 1 - element) * size + part) as u8 } else { byte as u8 }
        });
        // SAFETY: AVX2 is there; the rest is the caller's.
        return unsafe { blocks(from, to, rows * row, block, order) } / row;
    }
    let _ = (from, to, rows, n, size);
    0
}

/// Copies `n` rows of 4 to 32 bytes, each by two pieces that may overlap. The places are of the first row on both sides, the strides from
/// row to row.
///
/// # Safety
/// All rows are valid on both sides and do not overlap.
unsafe fn short_rows((from, to): (*const u8, *mut u8), [by_to, by_from]: [isize; 2], n: usize, bytes: usize) {
    /// # Safety
    /// As [`short_rows`].
    #[inline(always)]
    unsafe fn ends<T>((from, to): (*const u8, *mut u8), [by_to, by_from]: [isize; 2], n: usize, last: usize) {
        for i in 0..n as isize {
            // SAFETY: the caller's.
            unsafe {
                let (from, to) = (from.offset(i * by_from), to.offset(i * by_to));
                let (a, b) = (from.cast::<T>().read_unaligned(), from.add(last).cast::<T>().read_unaligned());
                to.cast::<T>().write_unaligned(a);
                if last > 0 {
                    to.add(last).cast::<T>().write_unaligned(b);
                }
            }
        }
    }
    let (places, strides) = ((from, to), [by_to, by_from]);
    // SAFETY: the caller's.
    unsafe {
        match bytes {
            4 => ends::<u32>(places, strides, n, 0),
            5..8 => ends::<u32>(places, strides, n, bytes - 4),
            8 => ends::<u64>(places, strides, n, 0),
            9..16 => ends::<u64>(places, strides, n, bytes - 8),
            16 => ends::<u128>(places, strides, n, 0),
            _ => ends::<u128>(places, strides, n, bytes - 16),
        }
    }
}

/// Fewer elements are not worth a loop of their own.
const SHORT: usize = 8;

/// Planes of a transposition are cut if there are fewer of them along each dimension around.
const LEAST_AROUND: usize = 4;

/// Borders of parts are multiples of this many elements where there are enough.
const GRAIN: usize = 16;

/// A transposition that touches this many bytes leaves nothing useful in the caches.
const PAST_BYTES: usize = 48 << 20;

/// About how many bytes a part copies.
const PART_BYTES: usize = 1 << 17;

/// # Safety
/// `n` elements of `SIZE` bytes at these strides are valid on both sides and do not overlap.
#[inline(always)]
unsafe fn elements<const SIZE: usize>(from: *const u8, to: *mut u8, n: usize, fs: isize, ts: isize) {
    for i in 0..n as isize {
        // SAFETY: the caller's.
        unsafe {
            let value = from.offset(i * fs).cast::<[u8; SIZE]>().read_unaligned();
            to.offset(i * ts).cast::<[u8; SIZE]>().write_unaligned(value);
        }
    }
}

/// Writes the element at `from` `n` times.
///
/// # Safety
/// `from` is valid for an element, `to` for `n`.
unsafe fn fill(from: *const u8, to: *mut u8, n: usize, size: usize) {
    /// # Safety
    /// As [`fill`].
    unsafe fn of<T: Copy>(from: *const u8, to: *mut u8, n: usize) {
        // SAFETY: the caller's.
        unsafe {
            let value = from.cast::<T>().read_unaligned();
            for i in 0..n {
                to.cast::<T>().add(i).write_unaligned(value);
            }
        }
    }
    // SAFETY: the caller's.
    unsafe {
        match size {
            1 => std::ptr::write_bytes(to, *from, n),
            2 => of::<u16>(from, to, n),
            4 => of::<u32>(from, to, n),
            8 => of::<u64>(from, to, n),
            _ => of::<u128>(from, to, n),
        }
    }
}

/// Copies of several boxes, which do not overlap in what they write.
#[derive(Debug)]
pub(crate) struct Copies {
    boxes: Vec<BoxCopy>,
}

impl Copies {
    /// All of `boxes`; those without elements are left out.
    pub(crate) fn new(boxes: Vec<BoxCopy>) -> Copies {
        Copies { boxes: boxes.into_iter().filter(|b| b.nest.len() > 0).collect() }
    }
}

impl Work for Copies {
    fn parts(&self) -> usize {
        self.boxes.iter().map(BoxCopy::parts).sum::<usize>().clamp(1, 256)
    }

    fn cost(&self) -> u64 {
        self.boxes.iter().map(BoxCopy::cost).sum()
    }

    fn bands(&self, _: usize, bytes: usize) -> Option<Bands> {
        // Copies of a few rows, like the edges of an array, one by one.
        if self.boxes.len() > 64 || self.boxes.iter().map(|b| b.nest.len() * b.size).sum::<usize>() > bytes {
            return None;
        }
        let boxes: Vec<BoxCopy> = self.boxes.iter().map(|b| BoxCopy { parts: 1, ..b.clone() }).collect();
        let touches = boxes.iter().map(|b| b.touches().to_vec()).collect();
        Some(Bands { work: Arc::new(Copies { boxes }), touches })
    }

    unsafe fn run(&self, frame: &Frame<'_>, _: &mut Scratch, part: usize) -> Result<(), Fault> {
        let pieces = self.boxes.iter().flat_map(|b| (0..b.parts()).map(move |p| (b, p)));
        for (b, p) in pieces.skip(part).step_by(self.parts()) {
            // SAFETY: the trait's contract.
            unsafe { b.run(frame, p) };
        }
        Ok(())
    }
}

/// Adds a step that copies what `from` shows to where `to` shows it; `to` covers all of its buffer.
pub fn copy(cx: &mut Lower<'_>, op: OpId, from: &View, to: &View) {
    let work = Copies::new(vec![BoxCopy::new(from, to)]);
    let name = format!("copy {} {:?}", from.elem, from.dims);
    cx.step(op, name, Arc::new(work), vec![from.buf], vec![to.buf]);
}

/// A view of one element of `elem` at `offset` of `buf`, spread over `dims`.
pub fn spread(buf: Buf, offset: i64, elem: ElementType, dims: &[i64]) -> View {
    View { buf, elem, dims: dims.to_vec(), offset, strides: vec![0; dims.len()] }
}

/// The buffer of `value` if that is dense; else a new one, with a step that copies it there for `op`.
pub fn dense(cx: &mut Lower<'_>, op: OpId, value: ValueId) -> Result<Buf, String> {
    let view = view_of(cx, value)?;
    if view.is_dense() {
        return Ok(view.buf);
    }
    let buf = cx.buffer(view.elem, &view.dims);
    let to = View::dense(buf, view.elem, &view.dims);
    copy(cx, op, &view, &to);
    // Later operations of the same block can use it; those of other blocks may run without this one.
    let home = match cx.module.value(value).def() {
        Def::Arg(block, _) => Some(block),
        Def::Result(def, _) => cx.module.op(def).parent(),
    };
    if home.is_some() && home == cx.module.op(op).parent() {
        cx.set_view(value, to);
    }
    Ok(buf)
}

/// The layout of `value` in memory; an error if it has not been lowered.
pub(crate) fn view_of(cx: &Lower<'_>, value: ValueId) -> Result<View, String> {
    cx.view(value).cloned().ok_or_else(|| format!("value {} has no place in memory yet", value.index()))
}

#[cfg(test)]
mod tests {
    use crate::library::testing::check;

    /// Several parts of planes that are transposed, or of what is around them.
    #[test]
    fn axes_in_other_orders() {
        for elem in ["ui8", "i16", "f32", "f64"] {
            for (dims, order) in [
                ([6, 7, 9, 10, 12], [4, 3, 2, 1, 0]),
                ([9, 12, 10, 7, 6], [3, 1, 4, 0, 2]),
                ([40, 3, 1, 5, 70], [4, 1, 0, 3, 2]),
                ([5, 33, 2, 3, 90], [0, 4, 3, 2, 1]),
                ([1, 300, 1, 170, 1], [0, 3, 1, 2, 4]),
            ] {
                let list = |dims: [i64; 5]| dims.map(|n| n.to_string()).join("x");
                let (from, to) = (list(dims), list(order.map(|d: usize| dims[d])));
                check(
                    &format!(
                        "func.func @main(%x: tensor<{from}x{elem}>) -> tensor<{to}x{elem}> {{
                        %r = stablehlo.transpose %x, dims = {order:?} : (tensor<{from}x{elem}>) -> tensor<{to}x{elem}>
                        return %r : tensor<{to}x{elem}> }}"
                    ),
                    0.0,
                );
            }
        }
    }

    #[test]
    fn short_rows_repeated_flipped_and_cut() {
        for elem in ["ui8", "i16", "f32", "f64"] {
            for count in [2, 3, 4, 5, 8, 9, 16, 20] {
                for n in [1, 7, 70, 300] {
                    check(
                        &format!(
                            "func.func @main(%x: tensor<{n}x{elem}>) -> tensor<{n}x{count}x{elem}> {{
                            %r = stablehlo.broadcast_in_dim %x, dims = [0] : (tensor<{n}x{elem}>) -> tensor<{n}x{count}x{elem}>
                            return %r : tensor<{n}x{count}x{elem}> }}"
                        ),
                        0.0,
                    );
                    check(
                        &format!(
                            "func.func @main(%x: tensor<2x{n}x{count}x{elem}>) -> tensor<2x{n}x{count}x{elem}> {{
                            %r = stablehlo.reverse %x, dims = [2] : tensor<2x{n}x{count}x{elem}>
                            return %r : tensor<2x{n}x{count}x{elem}> }}"
                        ),
                        0.0,
                    );
                    check(
                        &format!(
                            "func.func @main(%x: tensor<{n}x{more}x{elem}>) -> tensor<{n}x{count}x{elem}> {{
                            %r = stablehlo.slice %x [0:{n}, 1:{more}] : (tensor<{n}x{more}x{elem}>) -> tensor<{n}x{count}x{elem}>
                            return %r : tensor<{n}x{count}x{elem}> }}",
                            more = count + 1
                        ),
                        0.0,
                    );
                }
            }
        }
    }
}
