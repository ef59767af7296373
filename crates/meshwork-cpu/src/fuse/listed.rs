//! Rows at places of their own, as a gather names them: where some rows of an array are is listed right before the kernel runs over
//! them, and they are fetched meanwhile.
//!
//! ```text
//! numbers  7  2  2  9 …   ──►   list  &x[7]  &x[2]  &x[2]  &x[9] …   ──►   kernel: y[i] = f(row i of the list)
//! ```

use meshwork_ir::ElementType;

use super::graph::Moved;
use super::nest::Loop;
use super::work::offset;
#[cfg(target_arch = "x86_64")]
use crate::kernel::interp::loops::wide;
use crate::kernel::ir::Call;
use crate::library::read_index;
use crate::step::{Frame, Scratch};

/// Rows at a time, and their bytes: they stay in the first-level cache until they are read.
const ROWS: usize = 64;
const LEAST_ROWS: usize = 8;
const BYTES: usize = 16 << 10;
/// Bytes of a row that are fetched before it is read; the processor sees itself how a longer one goes on.
const FETCHED: usize = 512;
const LINE: usize = 64;

/// Runs `with`, the kernel of `l`, on `call`, whose first row is number `row` of all outer loops, for some rows at a time.
///
/// # Safety
/// The arrays of the loop, and the numbers that they are moved by, are inside their buffers, which `frame` holds; `with` may be called on
/// these rows.
pub(super) unsafe fn run<const N: usize>(
    l: &Loop,
    frame: &Frame<'_>,
    row: i64,
    call: &Call<'_>,
    scratch: &mut Scratch,
    with: impl Fn(&Call<'_>, &mut Scratch),
) {
    let room = scratch.panels((ROWS + 1) * size_of::<*mut u8>() * l.arrays.len()).cast::<*mut u8>();
    let (mut ptrs, mut row_strides, mut index) = ([std::ptr::null_mut(); N], [0; N], [[0; 3]; N]);
    let bytes = |elem_bytes: i64| (call.n * elem_bytes as usize).min(FETCHED);
    let all: usize = l.arrays.iter().filter(|a| a.is_listed()).map(|a| bytes(a.elem_bytes)).sum();
    let rows = (BYTES / all.max(1)).clamp(LEAST_ROWS, ROWS);
    for first in (0..call.rows).step_by(rows) {
        let many = rows.min(call.rows - first);
        for (i, a) in l.arrays.iter().enumerate() {
            let step = call.row_strides[i];
            // SAFETY: rows of the call, and the room that was made for the lists.
            unsafe {
                ptrs[i] = call.ptrs[i].offset(first as isize * step);
                row_strides[i] = step;
                if !a.is_listed() {
                    continue;
                }
                let list = std::slice::from_raw_parts_mut(room.add(i * (ROWS + 1)), many + 1);
                let mut places = [0; ROWS];
                places.iter_mut().enumerate().for_each(|(r, place)| *place = r as isize * step);
                for moved in a.moved.iter().filter(|m| !m.along.is_empty()) {
                    let skipped = offset(&l.outer, row, &moved.along) as isize;
                    let by = moved.along.last().map_or(0, |&s| s as isize);
                    let numbers = frame.ptr(moved.by.buf).offset(moved.by.offset + skipped + first as isize * by);
                    move_rows(moved, numbers, by, &mut places[..many]);
                }
                let bytes = bytes(a.elem_bytes);
                for (row, &place) in list.iter_mut().zip(&places[..many]) {
                    *row = ptrs[i].wrapping_offset(place);
                    let mut at = 0;
                    while at < bytes {
                        fetch(row.wrapping_add(at));
                        at += LINE;
                    }
                }
                list[many] = list[0];
                (ptrs[i], row_strides[i]) = (list[0], list[1..].as_ptr().expose_provenance() as isize);
            }
        }
        for (at, &[start, row, step]) in index.iter_mut().zip(call.index) {
            *at = [start + first as i64 * row, row, step];
        }
        let block = Call {
            ptrs: &ptrs[..call.ptrs.len()],
            row_strides: &row_strides[..call.ptrs.len()],
            strides: call.strides,
            rows: many,
            n: call.n,
            index: &index[..call.index.len()],
        };
        with(&block, scratch);
    }
}

/// Moves each of `places` by a number of its own: the first is at `numbers`, the others `by` bytes apart.
///
/// # Safety
/// These numbers are there.
unsafe fn move_rows(moved: &Moved, numbers: *const u8, by: isize, places: &mut [isize]) {
    let (most, stride) = (moved.most, moved.stride as isize);
    #[cfg(target_arch = "x86_64")]
    if let (ElementType::I32, Ok(most), Ok(stride), true) =
        (moved.by.elem, u32::try_from(most), u32::try_from(stride), wide())
    {
        // SAFETY: AVX2 is there; the rest is the caller's. The same for steps that the compiler knows.
        return unsafe {
            match by {
                4 => move_narrow::<4>(most, stride, (numbers, by), places),
                8 => move_narrow::<8>(most, stride, (numbers, by), places),
                _ => move_narrow::<0>(most, stride, (numbers, by), places),
            }
        };
    }
    for (r, place) in places.iter_mut().enumerate() {
        // SAFETY: the caller's.
        let number = unsafe { read_index(numbers.offset(r as isize * by), moved.by.elem) };
        *place += number.clamp(0, most) as isize * stride;
    }
}

/// The same for numbers of 32 bits, `most` and `stride`, in the processor's longer vectors. `BY` is `by`, or 0.
///
/// # Safety
/// As [`move_rows`]; AVX2 is there.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn move_narrow<const BY: isize>(
    most: u32,
    stride: u32,
    (numbers, by): (*const u8, isize),
    places: &mut [isize],
) {
    let by = if BY == 0 { by } else { BY };
    for (r, place) in places.iter_mut().enumerate() {
        // SAFETY: the caller's.
        let number = unsafe { numbers.offset(r as isize * by).cast::<i32>().read_unaligned() };
        *place += (u64::from((number.max(0) as u32).min(most)) * u64::from(stride)) as isize;
    }
}

/// Asks for the line of memory at `at`.
fn fetch(at: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a hint, which has no effect where there is no memory.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(at.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}
