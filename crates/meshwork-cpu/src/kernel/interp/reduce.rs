//! Reductions over a row, in the order that [`lanes`](crate::kernel::lanes) lays down.

use super::loops::{Loop, versions};
use super::scalar::Float;
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
    macro_rules! integer {
        ($t:ty) => {
            match how {
                Combine::Add => reduce!($t, |x, y| x.wrapping_add(y)),
                Combine::Mul => reduce!($t, |x, y| x.wrapping_mul(y)),
                Combine::Max => reduce!($t, |x, y| x.max(y)),
                Combine::Min => reduce!($t, |x, y| x.min(y)),
                Combine::And => reduce!($t, |x, y| x & y),
                Combine::Or => reduce!($t, |x, y| x | y),
                Combine::Xor => reduce!($t, |x, y| x ^ y),
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
    match ty {
        Ty::Pred => match how {
            Combine::Add | Combine::Or | Combine::Max => reduce!(u8, |x, y| x | y),
            Combine::Mul | Combine::And | Combine::Min => reduce!(u8, |x, y| x & y),
            Combine::Xor => reduce!(u8, |x, y| x ^ y),
        },
        Ty::I8 => integer!(i8),
        Ty::U8 => integer!(u8),
        Ty::I16 => integer!(i16),
        Ty::U16 => integer!(u16),
        Ty::I32 => integer!(i32),
        Ty::U32 => integer!(u32),
        Ty::I64 => integer!(i64),
        Ty::U64 => integer!(u64),
        Ty::F32 => float!(f32),
        Ty::F64 => float!(f64),
    }
}
