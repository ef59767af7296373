//! Elements as keys: numbers for comparison, and integers whose order is that of the elements.

use std::ops::{BitAnd, BitXor};

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

/// What the bits of an element mean for its order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Class {
    Unsigned,
    Signed,
    /// A sign and a magnitude, in which numbers above this are NaN.
    Float(u64),
}

/// The size of elements in bytes, and their class.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Kind {
    size: usize,
    class: Class,
}

impl Kind {
    fn of(elem: ElementType) -> Kind {
        let class = match elem {
            ElementType::F32 => Class::Float(0x7F80_0000),
            ElementType::F64 => Class::Float(0x7FF0 << 48),
            ElementType::BF16 => Class::Float(0x7F80),
            ElementType::F16 => Class::Float(0x7C00),
            _ if elem.class() == meshwork_ir::ElementClass::Signed => Class::Signed,
            _ => Class::Unsigned,
        };
        Kind { size: elem.storage_bytes(), class }
    }
}

/// An integer that holds keys.
trait Word: Copy + Ord + Default + Into<u64> + BitAnd<Output = Self> + BitXor<Output = Self> {
    const MAX: Self;
    /// The lower bits of `value`.
    fn of(value: u64) -> Self;
}

macro_rules! words {
    ($($t:ty)*) => {$(
        impl Word for $t {
            const MAX: $t = <$t>::MAX;
            #[inline(always)]
            fn of(value: u64) -> $t {
                value as $t
            }
        }
    )*};
}
words!(u32 u64);

/// An unsigned integer of as many bits as the elements have, whose order is `order` of theirs.
///
/// # Safety
/// `at` is valid for an element, which is not larger than `W`.
#[inline(always)]
unsafe fn key<W: Word>(at: *const u8, kind: Kind, order: Order) -> W {
    // SAFETY: the caller's.
    let bits = W::of(unsafe {
        match kind.size {
            1 => u64::from(*at),
            2 => u64::from(at.cast::<u16>().read_unaligned()),
            4 => u64::from(at.cast::<u32>().read_unaligned()),
            _ => at.cast::<u64>().read_unaligned(),
        }
    });
    let width = 8 * kind.size as u32;
    let (sign, all) = (W::of(1 << (width - 1)), W::of(u64::MAX >> (64 - width)));
    let up = match kind.class {
        Class::Float(infinity) => {
            let magnitude = bits & (sign ^ all);
            let bits = match order.canonical {
                true if magnitude == W::of(0) => W::of(0),
                true if magnitude > W::of(infinity) => W::of(infinity | infinity >> 1),
                _ => bits,
            };
            // Below zero, larger magnitudes come first.
            bits ^ if bits & sign == W::of(0) { sign } else { all }
        }
        Class::Signed => bits ^ sign,
        Class::Unsigned => bits,
    };
    if order.descending { up ^ all } else { up }
}

/// Writes the [`key`] of each of the elements, `step` bytes apart, to `to`.
///
/// # Safety
/// There are as many as keys, and none is larger than `W`.
#[inline(always)]
unsafe fn all_keys<W: Word>(from: *const u8, step: isize, kind: Kind, order: Order, to: &mut [W]) {
    // With all of this known, the compiler makes one tight loop of it.
    macro_rules! of {
        ($kind:expr, $canonical:literal) => {{
            let (kind, order) = ($kind, Order { canonical: $canonical, ..order });
            let size = kind.size as isize;
            if step == size {
                for (i, to) in to.iter_mut().enumerate() {
                    // SAFETY: the caller's.
                    *to = unsafe { key(from.offset(i as isize * size), kind, order) };
                }
            } else {
                for (i, to) in to.iter_mut().enumerate() {
                    // SAFETY: the caller's.
                    *to = unsafe { key(from.offset(i as isize * step), kind, order) };
                }
            }
        }};
        ($kind:expr) => {
            if order.canonical { of!($kind, true) } else { of!($kind, false) }
        };
    }
    match kind {
        Kind { size: 4, class: Class::Float(_) } => of!(Kind { size: 4, class: Class::Float(0x7F80_0000) }),
        Kind { size: 8, class: Class::Float(_) } => of!(Kind { size: 8, class: Class::Float(0x7FF0 << 48) }),
        Kind { size: 4, class: Class::Signed } => of!(Kind { size: 4, class: Class::Signed }),
        Kind { size: 4, class: Class::Unsigned } => of!(Kind { size: 4, class: Class::Unsigned }),
        Kind { size: 8, class: Class::Signed } => of!(Kind { size: 8, class: Class::Signed }),
        Kind { size: 2, .. } => of!(Kind { size: 2, ..kind }),
        kind => of!(kind),
    }
}

/// Writes the [`key`] of each of the elements, `step` bytes apart, to `to`.
///
/// # Safety
/// There are as many as keys.
pub(super) unsafe fn write_keys(from: *const u8, step: isize, elem: ElementType, order: Order, to: &mut [u64]) {
    /// The same in the processor's longer vectors.
    ///
    /// # Safety
    /// As [`write_keys`]; AVX2 is there.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2")]
    unsafe fn in_long_vectors(from: *const u8, step: isize, kind: Kind, order: Order, to: &mut [u64]) {
        // SAFETY: the caller's.
        unsafe { all_keys(from, step, kind, order, to) }
    }
    let kind = Kind::of(elem);
    #[cfg(target_arch = "x86_64")]
    if wide() {
        // SAFETY: the caller's, and the processor has been asked.
        return unsafe { in_long_vectors(from, step, kind, order, to) };
    }
    // SAFETY: the caller's.
    unsafe { all_keys(from, step, kind, order, to) }
}

/// Keys that are made at a time, and those of them that are looked at together.
const TOGETHER: usize = 64;
const GROUP: usize = 16;

/// Elements in a line: the first one, bytes from one to the next, how many.
type Line = (*const u8, isize, usize);

/// The `count` smallest keys with their positions, in order; equal ones as they are.
///
/// # Safety
/// As [`write_keys`], for the elements of `line`.
pub(super) unsafe fn first_keys(line: Line, elem: ElementType, order: Order, count: usize, out: &mut Vec<(u64, u32)>) {
    /// The same in the processor's longer vectors.
    ///
    /// # Safety
    /// As [`first_keys`]; AVX2 is there.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2")]
    unsafe fn in_long_vectors<W: Word>(line: Line, kind: Kind, order: Order, count: usize, out: &mut Vec<(u64, u32)>) {
        // SAFETY: the caller's.
        unsafe { scan::<W>(line, kind, order, count, out) }
    }
    out.clear();
    if count == 0 {
        return;
    }
    out.reserve(count);
    let kind = Kind::of(elem);
    // SAFETY: the caller's, and the processor has been asked.
    unsafe {
        match kind.size <= 4 {
            #[cfg(target_arch = "x86_64")]
            true if wide() => in_long_vectors::<u32>(line, kind, order, count, out),
            #[cfg(target_arch = "x86_64")]
            false if wide() => in_long_vectors::<u64>(line, kind, order, count, out),
            true => scan::<u32>(line, kind, order, count, out),
            false => scan::<u64>(line, kind, order, count, out),
        }
    }
    keep_first(out, count);
    out.sort_unstable();
}

/// Leaves the `count` smallest, in any order.
fn keep_first(out: &mut Vec<(u64, u32)>, count: usize) {
    if out.len() > count {
        out.select_nth_unstable(count - 1);
        out.truncate(count);
    }
}

/// So few are kept in order.
const MOST_INSERTED: usize = 16;

/// Puts `pair` behind those of `sorted` that are not larger, of which `count` are kept.
#[inline(always)]
fn insert(sorted: &mut Vec<(u64, u32)>, pair: (u64, u32), count: usize) {
    if sorted.len() < count {
        sorted.push(pair);
    }
    let mut at = sorted.len() - 1;
    while at > 0 && sorted[at - 1].0 > pair.0 {
        sorted[at] = sorted[at - 1];
        at -= 1;
    }
    sorted[at] = pair;
}

/// Finds the `count` smallest keys with their positions, and perhaps some more.
///
/// # Safety
/// As [`first_keys`].
#[inline(always)]
unsafe fn scan<W: Word>((from, step, n): Line, kind: Kind, order: Order, count: usize, out: &mut Vec<(u64, u32)>) {
    // What is not below the largest of `count` others is not among the first.
    let (mut bound, room) = (W::MAX, 2 * count + 64);
    let mut keys = [W::default(); TOGETHER];
    for first in (0..n).step_by(TOGETHER) {
        let keys = &mut keys[..TOGETHER.min(n - first)];
        // SAFETY: the caller's.
        unsafe { all_keys(from.offset(first as isize * step), step, kind, order, keys) };
        for (group, keys) in keys.chunks(GROUP).enumerate() {
            // Of most groups nothing is below, which all comparisons together show soonest.
            let is_below = |any: bool, &key: &W| any | (key < bound);
            let has_some = match <&[W; GROUP]>::try_from(keys) {
                Ok(keys) => keys.iter().fold(false, is_below),
                Err(_) => true,
            };
            if !has_some && out.len() >= count {
                continue;
            }
            for (i, &key) in keys.iter().enumerate() {
                if key < bound || out.len() < count {
                    let pair = (key.into(), (first + group * GROUP + i) as u32);
                    if count <= MOST_INSERTED {
                        insert(out, pair, count);
                        bound = if out.len() == count { W::of(out[count - 1].0) } else { W::MAX };
                        continue;
                    }
                    out.push(pair);
                    if out.len() == room {
                        keep_first(out, count);
                        bound = out.iter().map(|k| k.0).max().map_or(W::MAX, W::of);
                    }
                }
            }
        }
    }
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
