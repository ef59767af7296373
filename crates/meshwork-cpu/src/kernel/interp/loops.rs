//! Loops over tiles: one instruction applied to all elements of a tile, compiled for the vector units at hand.

/// A loop: writes `n` elements at the first pointer from those at the others; unused pointers are ignored.
pub type MapFn = unsafe fn(*mut u8, [*const u8; 3], usize);

/// One loop in two compilations.
#[derive(Clone, Copy)]
pub struct Loop {
    /// For any processor of the target.
    pub plain: MapFn,
    /// With AVX2, FMA and F16C.
    pub wide: MapFn,
}

impl Loop {
    /// The one to call on this processor.
    pub fn best(self) -> MapFn {
        if wide() { self.wide } else { self.plain }
    }
}

/// Whether this processor has what the wide compilations need.
pub fn wide() -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        std::arch::is_x86_feature_detected!("avx2")
            && std::arch::is_x86_feature_detected!("fma")
            && std::arch::is_x86_feature_detected!("f16c")
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        false
    }
}

/// `loop1!(A => R, |x| expr)`: a loop over one operand. The operand and the result must not overlap.
macro_rules! loop1 {
    ($a:ty => $r:ty, |$x:ident| $e:expr) => {{
        #[inline(always)]
        unsafe fn body(dst: *mut u8, src: [*const u8; 3], n: usize) {
            // SAFETY: the caller gives `n` aligned elements at each pointer, the result apart from the operands.
            let (d, x) = unsafe {
                (std::slice::from_raw_parts_mut(dst.cast::<$r>(), n), std::slice::from_raw_parts(src[0].cast::<$a>(), n))
            };
            for (d, &$x) in d.iter_mut().zip(x) {
                *d = $e;
            }
        }
        $crate::kernel::interp::loops::versions!(body)
    }};
}

/// `loop2!(A, B => R, |x, y| expr)`: a loop over two operands.
macro_rules! loop2 {
    ($a:ty, $b:ty => $r:ty, |$x:ident, $y:ident| $e:expr) => {{
        #[inline(always)]
        unsafe fn body(dst: *mut u8, src: [*const u8; 3], n: usize) {
            // SAFETY: the caller gives `n` aligned elements at each pointer, the result apart from the operands.
            let (d, x, y) = unsafe {
                (
                    std::slice::from_raw_parts_mut(dst.cast::<$r>(), n),
                    std::slice::from_raw_parts(src[0].cast::<$a>(), n),
                    std::slice::from_raw_parts(src[1].cast::<$b>(), n),
                )
            };
            for ((d, &$x), &$y) in d.iter_mut().zip(x).zip(y) {
                *d = $e;
            }
        }
        $crate::kernel::interp::loops::versions!(body)
    }};
}

/// `loop3!(A, B, C => R, |x, y, z| expr)`: a loop over three operands.
macro_rules! loop3 {
    ($a:ty, $b:ty, $c:ty => $r:ty, |$x:ident, $y:ident, $z:ident| $e:expr) => {{
        #[inline(always)]
        unsafe fn body(dst: *mut u8, src: [*const u8; 3], n: usize) {
            // SAFETY: the caller gives `n` aligned elements at each pointer, the result apart from the operands.
            let (d, x, y, z) = unsafe {
                (
                    std::slice::from_raw_parts_mut(dst.cast::<$r>(), n),
                    std::slice::from_raw_parts(src[0].cast::<$a>(), n),
                    std::slice::from_raw_parts(src[1].cast::<$b>(), n),
                    std::slice::from_raw_parts(src[2].cast::<$c>(), n),
                )
            };
            for (((d, &$x), &$y), &$z) in d.iter_mut().zip(x).zip(y).zip(z) {
                *d = $e;
            }
        }
        $crate::kernel::interp::loops::versions!(body)
    }};
}

/// The two compilations of a loop.
macro_rules! versions {
    ($body:ident) => {{
        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = "avx2,fma,f16c")]
        unsafe fn wide(dst: *mut u8, src: [*const u8; 3], n: usize) {
            // SAFETY: the caller's promise.
            unsafe { $body(dst, src, n) }
        }
        #[cfg(not(target_arch = "x86_64"))]
        use $body as wide;
        $crate::kernel::interp::loops::Loop { plain: $body, wide }
    }};
}

pub(crate) use {loop1, loop2, loop3, versions};
