//! Elements as keys: numbers for comparison, and integers whose order is that of the elements.

use meshwork_ir::ElementType;

use super::num::{Bf16, Element};
#[cfg(target_arch = "x86_64")]
use crate::kernel::interp::loops::wide;

/// Reads an element as a number for comparisons with others of its type.
///
/// # Safety
/// The pointer is valid for an element.
pub(super) type Read = unsafe fn(*const u8) -> f64;

/// How elements of type `elem` are read as `f64`, where that keeps their order exactly.
pub(super) fn reader(elem: ElementType) -> Option<Read> {
    macro_rules! plain {
        ($t:ty) => {{
            /// # Safety
            /// As [`Read`].
            unsafe fn read(at: *const u8) -> f64 {
                // SAFETY: the caller's.
                f64::from(unsafe { at.cast::<$t>().read_unaligned() })
            }
            Some(read as Read)
        }};
    }
    macro_rules! half {
        ($e:expr) => {{
            /// # Safety
            /// As [`Read`].
            unsafe fn read(at: *const u8) -> f64 {
                // SAFETY: the caller's.
                f64::from($e.load(unsafe { at.cast::<u16>().read_unaligned() }))
            }
            Some(read as Read)
        }};
    }
    use ElementType::*;
    match elem {
        F32 => plain!(f32),
        F64 => plain!(f64),
        BF16 => half!(Bf16),
        F16 => half!(super::num::F16),
        I8 => plain!(i8),
        I16 => plain!(i16),
        I32 => plain!(i32),
        UI8 => plain!(u8),
        UI16 => plain!(u16),
        UI32 => plain!(u32),
        _ => None,
    }
}

/// The order of keys.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Order {
    /// Largest first.
    pub descending: bool,
    /// Zeros are equal, and so are NaNs (which are the largest); else floats are in IEEE 754's total order.
    pub canonical: bool,
}

/// An unsigned integer whose order is `order` of the elements of type `elem`.
///
/// # Safety
/// `at` is valid for an element.
#[inline(always)]
unsafe fn key(at: *const u8, elem: ElementType, order: Order) -> u64 {
    use ElementType::*;
    // SAFETY: the caller's.
    let bits = unsafe {
        match elem.storage_bytes() {
            1 => u64::from(*at),
            2 => u64::from(at.cast::<u16>().read_unaligned()),
            4 => u64::from(at.cast::<u32>().read_unaligned()),
            _ => at.cast::<u64>().read_unaligned(),
        }
    };
    let width = 8 * elem.storage_bytes() as u32;
    let sign = 1u64 << (width - 1);
    let all = u64::MAX >> (64 - width);
    let up = match elem {
        F32 | F64 | BF16 | F16 => {
            let infinity = match elem {
                F32 => 0x7F80_0000,
                F64 => 0x7FF0 << 48,
                BF16 => 0x7F80,
                _ => 0x7C00,
            };
            let magnitude = bits & !sign;
            let bits = match order.canonical {
                true if magnitude == 0 => 0,
                true if magnitude > infinity => infinity | infinity >> 1,
                _ => bits,
            };
            if bits & sign != 0 { !bits & all } else { bits | sign }
        }
        _ if elem.class() == meshwork_ir::ElementClass::Signed => bits ^ sign,
        _ => bits,
    };
    if order.descending { !up & all } else { up }
}

/// Writes the [`key`] of each of the elements, `step` bytes apart, to `to`.
///
/// # Safety
/// There are as many as keys.
pub(super) unsafe fn write_keys(from: *const u8, step: isize, elem: ElementType, order: Order, to: &mut [u64]) {
    /// # Safety
    /// As [`write_keys`].
    #[inline(always)]
    unsafe fn all(from: *const u8, step: isize, elem: ElementType, order: Order, to: &mut [u64]) {
        // With the type and the step known, the compiler makes one tight loop of it.
        macro_rules! of {
            ($elem:expr) => {{
                let size = $elem.storage_bytes() as isize;
                if step == size {
                    for (i, to) in to.iter_mut().enumerate() {
                        // SAFETY: the caller's.
                        *to = unsafe { key(from.offset(i as isize * size), $elem, order) };
                    }
                } else {
                    for (i, to) in to.iter_mut().enumerate() {
                        // SAFETY: the caller's.
                        *to = unsafe { key(from.offset(i as isize * step), $elem, order) };
                    }
                }
            }};
        }
        match elem {
            ElementType::F32 => of!(ElementType::F32),
            ElementType::F64 => of!(ElementType::F64),
            ElementType::I32 => of!(ElementType::I32),
            ElementType::UI32 => of!(ElementType::UI32),
            ElementType::I64 => of!(ElementType::I64),
            ElementType::BF16 => of!(ElementType::BF16),
            elem => of!(elem),
        }
    }
    /// The same in the processor's longer vectors.
    ///
    /// # Safety
    /// As [`write_keys`]; AVX2 is there.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2")]
    unsafe fn in_long_vectors(from: *const u8, step: isize, elem: ElementType, order: Order, to: &mut [u64]) {
        // SAFETY: the caller's.
        unsafe { all(from, step, elem, order, to) }
    }
    #[cfg(target_arch = "x86_64")]
    if wide() {
        // SAFETY: the caller's, and the processor has been asked.
        return unsafe { in_long_vectors(from, step, elem, order, to) };
    }
    // SAFETY: the caller's.
    unsafe { all(from, step, elem, order, to) }
}

/// Keys that are looked at together.
const TOGETHER: usize = 64;

/// The `count` smallest keys with their positions, in order; equal ones as they are.
///
/// # Safety
/// As [`write_keys`], for `n` elements.
pub(super) unsafe fn first_keys(
    (from, step, n): (*const u8, isize, usize),
    elem: ElementType,
    order: Order,
    count: usize,
    out: &mut Vec<(u64, u32)>,
) {
    out.clear();
    if count == 0 {
        return;
    }
    // What is not below the largest of `count` others is not among the first.
    let (mut bound, room) = (u64::MAX, 2 * count + 512);
    let cut = |out: &mut Vec<(u64, u32)>| {
        if out.len() > count {
            out.select_nth_unstable(count - 1);
            out.truncate(count);
        }
        out.iter().map(|k| k.0).max().unwrap_or(u64::MAX)
    };
    let mut keys = [0; TOGETHER];
    for first in (0..n).step_by(TOGETHER) {
        let keys = &mut keys[..TOGETHER.min(n - first)];
        // SAFETY: the caller's.
        unsafe { write_keys(from.offset(first as isize * step), step, elem, order, keys) };
        // Of most blocks nothing is below, which all comparisons together show soonest.
        let has_some = keys.iter().fold(false, |any, &key| any | (key < bound));
        if !has_some && out.len() >= count {
            continue;
        }
        for (i, &key) in keys.iter().enumerate() {
            if key < bound || out.len() < count {
                out.push((key, (first + i) as u32));
                if out.len() == room {
                    bound = cut(out);
                }
            }
        }
    }
    cut(out);
    out.sort_unstable();
}

/// Whether [`key`] orders this type.
pub(crate) fn has_key(elem: ElementType) -> bool {
    use ElementType::*;
    matches!(elem, F32 | F64 | BF16 | F16 | I1) || (elem.is_integer() && elem.bits() >= 8)
}

/// Positions `0..keys.len()` in the order of `keys`, equal ones as they are; `spare` is scratch space.
pub(super) fn sort_positions(keys: &[u64], narrow: bool, order: &mut Vec<u32>, spare: &mut Vec<u64>) {
    order.clear();
    if !narrow {
        let mut pairs: Vec<(u64, u32)> = keys.iter().zip(0..).map(|(&k, i)| (k, i)).collect();
        pairs.sort_unstable();
        order.extend(pairs.into_iter().map(|p| p.1));
        return;
    }
    // Key and position in one number.
    spare.clear();
    spare.extend(keys.iter().zip(0u64..).map(|(&k, i)| k << 32 | i));
    if keys.len() < 1 << 10 {
        spare.sort_unstable();
    } else {
        radix(spare);
    }
    order.extend(spare.iter().map(|&v| v as u32));
}

/// Sorts by the upper 32 bits, byte by byte from the lowest; stable.
fn radix(values: &mut Vec<u64>) {
    let mut counts = vec![[0usize; 256]; 4];
    for &v in values.iter() {
        for (digit, count) in counts.iter_mut().enumerate() {
            count[(v >> (32 + 8 * digit)) as u8 as usize] += 1;
        }
    }
    let mut other = vec![0u64; values.len()];
    for (digit, count) in counts.iter_mut().enumerate() {
        if count.contains(&values.len()) {
            continue;
        }
        let mut at = 0;
        for c in count.iter_mut() {
            at += std::mem::replace(c, at);
        }
        for &v in values.iter() {
            let slot = &mut count[(v >> (32 + 8 * digit)) as u8 as usize];
            other[*slot] = v;
            *slot += 1;
        }
        std::mem::swap(values, &mut other);
    }
}
