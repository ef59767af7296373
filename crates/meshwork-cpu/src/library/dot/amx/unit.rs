//! The matrix unit of the processor (AMX): eight registers of 16 rows by 64 bytes, and instructions that multiply them.
//!
//! A thread configures the registers with [`Tiles`], and releases them when it is done: no other code finds them in use.

use std::arch::asm;
use std::arch::x86_64::__cpuid_count;
use std::sync::LazyLock;

/// Rows of a tile.
pub(crate) const ROWS: usize = 16;

/// Bytes of a row.
pub(crate) const ROW: usize = 64;

/// Bytes of a tile.
pub(crate) const TILE: usize = ROWS * ROW;

/// Rows of `A` or columns of `B` in a panel: two tiles.
pub(crate) const PANEL: usize = 2 * ROWS;

/// Whether this process may use the unit, and AVX-512 as the packers need it.
pub(crate) fn is_available() -> bool {
    static FOUND: LazyLock<bool> = LazyLock::new(|| has_vectors() && has_unit() && is_permitted());
    #[cfg(test)]
    if crate::library::dot::WITHOUT.get() >= crate::library::dot::Without::Tiles {
        return false;
    }
    *FOUND
}

/// The extensions that `source` and `pack` are compiled for.
fn has_vectors() -> bool {
    std::arch::is_x86_feature_detected!("avx512f")
        && std::arch::is_x86_feature_detected!("avx512bw")
        && std::arch::is_x86_feature_detected!("avx512vl")
        && std::arch::is_x86_feature_detected!("avx512bf16")
        && std::arch::is_x86_feature_detected!("avx512vbmi")
}

/// Tiles, and their products of `bf16` and of bytes: bits 24, 22 and 25 of EDX in leaf 7.
fn has_unit() -> bool {
    const WANTED: u32 = 1 << 24 | 1 << 22 | 1 << 25;
    __cpuid_count(0, 0).eax >= 7 && __cpuid_count(7, 0).edx & WANTED == WANTED
}

/// Linux keeps the registers of a process only after it has asked for that.
#[cfg(target_os = "linux")]
fn is_permitted() -> bool {
    const ARCH_REQ_XCOMP_PERM: libc::c_long = 0x1023;
    const TILE_DATA: libc::c_long = 18;
    // SAFETY: the call takes two numbers and changes only what this process may save.
    unsafe { libc::syscall(libc::SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, TILE_DATA) == 0 }
}

#[cfg(not(target_os = "linux"))]
fn is_permitted() -> bool {
    false
}

/// The registers of this thread are configured as long as it lives: eight of 16 rows by 64 bytes.
pub(crate) struct Tiles {
    /// What one thread configured is no other's.
    _thread: std::marker::PhantomData<*mut ()>,
}

#[repr(C, align(64))]
struct Layout {
    palette: u8,
    start: u8,
    reserved: [u8; 14],
    row_bytes: [u16; 16],
    rows: [u8; 16],
}

static LAYOUT: Layout = Layout {
    palette: 1,
    start: 0,
    reserved: [0; 14],
    row_bytes: [64, 64, 64, 64, 64, 64, 64, 64, 0, 0, 0, 0, 0, 0, 0, 0],
    rows: [16, 16, 16, 16, 16, 16, 16, 16, 0, 0, 0, 0, 0, 0, 0, 0],
};

impl Tiles {
    /// Configures the registers.
    ///
    /// # Safety
    /// The unit [is available](is_available), and no other `Tiles` of this thread lives.
    pub(crate) unsafe fn configured() -> Tiles {
        // SAFETY: 64 bytes are read, which describe eight registers.
        unsafe { asm!("ldtilecfg [{}]", in(reg) &raw const LAYOUT, options(nostack, readonly, preserves_flags)) };
        Tiles { _thread: std::marker::PhantomData }
    }
}

impl Drop for Tiles {
    fn drop(&mut self) {
        // SAFETY: the unit is there, since it was configured.
        unsafe { asm!("tilerelease", options(nostack, nomem, preserves_flags)) };
    }
}

/// What the elements of a product are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// Pairs of `bf16`, summed in `f32`.
    Bf16,
    /// `f16` as sums of two `bf16`; see `split`.
    F16,
    /// Four bytes, summed in `i32`; whether those of `A` and of `B` are signed.
    Bytes { a: bool, b: bool },
}

impl Kind {
    /// Tiles along a depth of so many elements.
    pub(crate) fn tiles(self, depth: usize) -> usize {
        match self {
            Kind::Bf16 => depth.div_ceil(ROW / 2),
            // All products of two parts.
            Kind::F16 => 2 * depth.div_ceil(ROW / 4),
            Kind::Bytes { .. } => depth.div_ceil(ROW),
        }
    }
}

/// The sums of a panel of `A` and one of `B`: four tiles, those of the first rows before those of the last.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub(crate) struct Sums(pub [[[u32; ROWS]; ROWS]; 4]);

/// Panels of `A` and `B` to be multiplied.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Panels {
    /// Tiles of `A`, those of one depth side by side: `a_tiles` of them, 1 or 2.
    pub a: *const u8,
    pub a_tiles: usize,
    /// The same for `B`.
    pub b: *const u8,
    pub b_tiles: usize,
    /// Tiles along the depth.
    pub depth: usize,
    /// Whether the sums are added to what is there.
    pub add: bool,
}

/// Multiplies packed panels: `sums (+)= A B`. Terms are added in the order of the depth.
///
/// # Safety
/// [`Tiles`] are configured on this thread; the tiles named are valid, and so are those of `sums` that get sums.
#[inline]
pub(crate) unsafe fn multiply(kind: Kind, panels: &Panels, sums: *mut Sums) {
    // SAFETY: the caller's.
    unsafe {
        match kind {
            Kind::Bf16 | Kind::F16 => bf16(panels, sums),
            Kind::Bytes { a: true, b: true } => signed(panels, sums),
            Kind::Bytes { a: true, b: false } => signed_unsigned(panels, sums),
            Kind::Bytes { a: false, b: true } => unsigned_signed(panels, sums),
            Kind::Bytes { a: false, b: false } => unsigned(panels, sums),
        }
    }
}

/// One panel by another of the given numbers of tiles.
macro_rules! block {
    ($panels:ident, $sums:ident, [$($zero:literal)*], [$($load:literal)*], [$($step:expr,)*], [$($next:literal)*], [$($store:literal)*]) => {
        asm!(
            "test {add:e}, {add:e}",
            "jnz 3f",
            $($zero,)*
            "jmp 4f",
            "3:",
            $($load,)*
            "4:",
            "test {k}, {k}",
            "jz 5f",
            "2:",
            $($step,)*
            $($next,)*
            "dec {k}",
            "jnz 2b",
            "5:",
            $($store,)*
            a = inout(reg) $panels.a => _,
            b = inout(reg) $panels.b => _,
            k = inout(reg) $panels.depth => _,
            c = in(reg) $sums,
            s = in(reg) ROW,
            add = in(reg) u32::from($panels.add),
            out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
            out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
            options(nostack),
        )
    };
}

macro_rules! products {
    ($($name:ident $dot:literal;)*) => {$(
        /// # Safety
        /// As [`multiply`].
        unsafe fn $name(p: &Panels, sums: *mut Sums) {
            // SAFETY: the caller's; the registers named are configured.
            unsafe {
                match (p.a_tiles, p.b_tiles) {
                    (2, 2) => block!(
                        p, sums,
                        ["tilezero tmm0" "tilezero tmm1" "tilezero tmm2" "tilezero tmm3"],
                        ["tileloadd tmm0, [{c} + {s}*1]" "tileloadd tmm1, [{c} + {s}*1 + 1024]"
                         "tileloadd tmm2, [{c} + {s}*1 + 2048]" "tileloadd tmm3, [{c} + {s}*1 + 3072]"],
                        ["tileloadd tmm6, [{b} + {s}*1]",
                         "tileloadd tmm4, [{a} + {s}*1]",
                         "tileloadd tmm7, [{b} + {s}*1 + 1024]",
                         concat!($dot, " tmm0, tmm4, tmm6"),
                         "tileloadd tmm5, [{a} + {s}*1 + 1024]",
                         concat!($dot, " tmm1, tmm4, tmm7"),
                         concat!($dot, " tmm2, tmm5, tmm6"),
                         concat!($dot, " tmm3, tmm5, tmm7"),],
                        ["add {a}, 2048" "add {b}, 2048"],
                        ["tilestored [{c} + {s}*1], tmm0" "tilestored [{c} + {s}*1 + 1024], tmm1"
                         "tilestored [{c} + {s}*1 + 2048], tmm2" "tilestored [{c} + {s}*1 + 3072], tmm3"]
                    ),
                    (2, _) => block!(
                        p, sums,
                        ["tilezero tmm0" "tilezero tmm2"],
                        ["tileloadd tmm0, [{c} + {s}*1]" "tileloadd tmm2, [{c} + {s}*1 + 2048]"],
                        ["tileloadd tmm6, [{b} + {s}*1]",
                         "tileloadd tmm4, [{a} + {s}*1]",
                         concat!($dot, " tmm0, tmm4, tmm6"),
                         "tileloadd tmm5, [{a} + {s}*1 + 1024]",
                         concat!($dot, " tmm2, tmm5, tmm6"),],
                        ["add {a}, 2048" "add {b}, 1024"],
                        ["tilestored [{c} + {s}*1], tmm0" "tilestored [{c} + {s}*1 + 2048], tmm2"]
                    ),
                    (_, 2) => block!(
                        p, sums,
                        ["tilezero tmm0" "tilezero tmm1"],
                        ["tileloadd tmm0, [{c} + {s}*1]" "tileloadd tmm1, [{c} + {s}*1 + 1024]"],
                        ["tileloadd tmm4, [{a} + {s}*1]",
                         "tileloadd tmm6, [{b} + {s}*1]",
                         concat!($dot, " tmm0, tmm4, tmm6"),
                         "tileloadd tmm7, [{b} + {s}*1 + 1024]",
                         concat!($dot, " tmm1, tmm4, tmm7"),],
                        ["add {a}, 1024" "add {b}, 2048"],
                        ["tilestored [{c} + {s}*1], tmm0" "tilestored [{c} + {s}*1 + 1024], tmm1"]
                    ),
                    _ => block!(
                        p, sums,
                        ["tilezero tmm0"],
                        ["tileloadd tmm0, [{c} + {s}*1]"],
                        ["tileloadd tmm4, [{a} + {s}*1]",
                         "tileloadd tmm6, [{b} + {s}*1]",
                         concat!($dot, " tmm0, tmm4, tmm6"),],
                        ["add {a}, 1024" "add {b}, 1024"],
                        ["tilestored [{c} + {s}*1], tmm0"]
                    ),
                }
            }
        }
    )*};
}
products! {
    bf16 "tdpbf16ps";
    signed "tdpbssd";
    signed_unsigned "tdpbsud";
    unsigned_signed "tdpbusd";
    unsigned "tdpbuud";
}
