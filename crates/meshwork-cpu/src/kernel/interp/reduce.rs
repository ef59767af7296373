//! Reductions over a row, in the order that [`lanes`](crate::kernel::lanes) lays down.

use super::loops::{Loop, versions};
use super::scalar::Float;
use super::table::{by_bits, by_type, none};
use crate::kernel::ir::{Combine, Ty};
use crate::kernel::lanes::VECTOR;

/// Most accumulators there can be: vectors of bytes, four in flight.
pub const MOST: usize = 4 * VECTOR;

/// Accumulates a tile: `acc[i mod group] ⊕= x[i]` for whole groups, the rest vector by vector into the first ones.
/// The first pointer is the accumulators; the sources are the tile, and (as numbers) lanes and group.
pub fn accumulate(how: Combine, ty: Ty) -> Option<Loop> {
    reduction(how, ty).map(|r| r.accumulate)
}

/// `acc[i] ⊕= x[i]` for `n` accumulators: first pointer and first source.
pub fn fold(how: Combine, ty: Ty) -> Option<Loop> {
    reduction(how, ty).map(|r| r.fold)
}

struct Reduction {
    accumulate: Loop,
    fold: Loop,
}

macro_rules! reduce {
    ($t:ty, |$x:ident, $y:ident| $e:expr) => {{
        #[inline(always)]
        unsafe fn accumulate(acc: *mut u8, src: [*const u8; 3], n: usize) {
            let (lanes, group) = (src[1].addr(), src[2].addr());
            // SAFETY: the caller gives `group` accumulators and `n` elements of the tile.
            let (acc, x) = unsafe {
                (
                    std::slice::from_raw_parts_mut(acc.cast::<$t>(), group),
                    std::slice::from_raw_parts(src[0].cast::<$t>(), n),
                )
            };
            let groups = x.chunks_exact(group);
            let rest = groups.remainder();
            for chunk in groups {
                for (slot, &$y) in acc.iter_mut().zip(chunk) {
                    let $x = *slot;
                    *slot = $e;
                }
            }
            for chunk in rest.chunks(lanes) {
                for (slot, &$y) in acc.iter_mut().zip(chunk) {
                    let $x = *slot;
                    *slot = $e;
                }
            }
        }
        #[inline(always)]
        unsafe fn fold(acc: *mut u8, src: [*const u8; 3], n: usize) {
            // SAFETY: the caller gives `n` accumulators at both.
            let (acc, x) = unsafe {
                (
                    std::slice::from_raw_parts_mut(acc.cast::<$t>(), n),
                    std::slice::from_raw_parts(src[0].cast::<$t>(), n),
                )
            };
            for (slot, &$y) in acc.iter_mut().zip(x) {
                let $x = *slot;
                *slot = $e;
            }
        }
        Some(Reduction { accumulate: versions!(accumulate), fold: versions!(fold) })
    }};
}

fn reduction(how: Combine, ty: Ty) -> Option<Reduction> {
    macro_rules! ordered {
        ($t:ty) => {
            match how {
                Combine::Max => reduce!($t, |x, y| x.max(y)),
                _ => reduce!($t, |x, y| x.min(y)),
            }
        };
    }
    macro_rules! integer {
        ($t:ty) => {
            match how {
                Combine::Add => reduce!($t, |x, y| x.wrapping_add(y)),
                Combine::Mul => reduce!($t, |x, y| x.wrapping_mul(y)),
                Combine::And => reduce!($t, |x, y| x & y),
                Combine::Or => reduce!($t, |x, y| x | y),
                Combine::Xor => reduce!($t, |x, y| x ^ y),
                Combine::Max | Combine::Min => None,
            }
        };
    }
    macro_rules! float {
        ($t:ty) => {
            match how {
                Combine::Add => reduce!($t, |x, y| x + y),
                Combine::Mul => reduce!($t, |x, y| x * y),
                Combine::Max => reduce!($t, |x, y| x.larger(y)),
                Combine::Min => reduce!($t, |x, y| x.smaller(y)),
                Combine::And | Combine::Or | Combine::Xor => None,
            }
        };
    }
    if ty == Ty::Pred {
        return match how {
            Combine::Add | Combine::Or | Combine::Max => reduction(Combine::Or, Ty::U8),
            Combine::Mul | Combine::And | Combine::Min => reduction(Combine::And, Ty::U8),
            Combine::Xor => reduction(Combine::Xor, Ty::U8),
        };
    }
    match how {
        Combine::Max | Combine::Min if !matches!(ty, Ty::F32 | Ty::F64) => by_type!(ty, ordered, none, None),
        _ => by_bits!(ty, integer, float, None),
    }
}
