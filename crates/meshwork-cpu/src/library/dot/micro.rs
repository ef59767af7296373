//! The innermost loops of a matrix product: a small tile of `C` in registers, grown over the depth.

use crate::library::num::{Complex, Num};

/// One call of a micro-kernel: `C[rows × columns] (+)= A[rows × depth] B[depth × columns]`.
///
/// Strides are in numbers of type `T`. `A` is read in full panels of `height` rows (rows beyond `rows` are computed and
/// thrown away), `B` in full panels of `width` columns.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Micro<T: Packed> {
    /// Terms of each sum.
    pub depth: usize,
    /// Element `(i, k)` is at `i * a_row + k * a_step`; one of the two strides is 1.
    pub a: *const T,
    pub a_row: isize,
    pub a_step: isize,
    /// Element `(k, j)` is at `k * b_step + j`.
    pub b: *const T,
    pub b_step: isize,
    /// Element `(i, j)` is at `i * c_row + j`.
    pub c: *mut T::Sum,
    pub c_row: isize,
    /// Rows that are computed: at most those of the [`Shape`].
    pub height: usize,
    /// Columns of the [`Shape`].
    pub width: usize,
    /// Rows and columns that are written.
    pub rows: usize,
    pub columns: usize,
    /// Whether the sums are added to what `C` holds.
    pub add: bool,
}

/// The size of a micro-kernel's tile.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Shape {
    /// Most rows.
    pub rows: usize,
    /// Columns: the width of a panel of `B`.
    pub columns: usize,
}

/// What operands are packed as for a micro-kernel: a number, or several neighbors along the depth side by side.
pub(crate) trait Packed: Copy + Default + Send + Sync + std::fmt::Debug + 'static {
    /// What the products are summed in.
    type Sum: Num;

    /// Elements of the depth that one holds.
    const TERMS: usize = 1;

    /// Whether the micro-kernel works at about the processor's speed.
    const FAST: bool;

    /// The tile for a product of `rows` and `columns` on this processor.
    fn shape(rows: usize, columns: usize) -> Shape;

    /// Computes one tile.
    ///
    /// # Safety
    /// All elements that `call` names are valid, and `C` overlaps nothing else; its shape is one that
    /// [`shape`](Packed::shape) gives on this processor.
    unsafe fn micro(call: &Micro<Self>);
}

/// A number type with a micro-kernel.
pub(crate) trait Tile: Num + Packed<Sum = Self> {
    /// Rows and columns of the tiles that [`shape`](Packed::shape) gives, which panels have: those worth a loop of their own.
    const WIDTHS: &'static [usize];

    /// `Σ a[k] x[k]` over `n` neighbors each.
    ///
    /// # Safety
    /// Both are valid for `n` numbers.
    unsafe fn dot(a: *const Self, x: *const Self, n: usize) -> Self {
        // SAFETY: the caller's.
        (0..n).fold(Self::default(), |sum, k| unsafe { sum.add_product::<false>(*a.add(k), *x.add(k)) })
    }

    /// `Σ a[r * row + k] x[k]` over `n` neighbors each, for four rows `r`.
    ///
    /// # Safety
    /// All are valid for `n` numbers.
    unsafe fn dots(a: *const Self, row: isize, x: *const Self, n: usize) -> [Self; 4] {
        // SAFETY: the caller's.
        std::array::from_fn(|r| unsafe { Self::dot(a.offset(r as isize * row), x, n) })
    }

    /// [`dots`](Tile::dots) of `fours` times four rows.
    ///
    /// # Safety
    /// As there; `y` is valid for as many numbers, and overlaps none.
    unsafe fn many_dots((a, row): (*const Self, isize), x: *const Self, n: usize, y: *mut Self, fours: usize) {
        for i in 0..fours {
            // SAFETY: the caller's.
            unsafe {
                let sums = Self::dots(a.offset(4 * i as isize * row), row, x, n);
                y.add(4 * i).cast::<[Self; 4]>().write_unaligned(sums);
            }
        }
    }

    /// `y[i] += Σ m[c][i] x[c]` over `n` neighbors each.
    ///
    /// # Safety
    /// All are valid for `n` numbers, and `y` overlaps none.
    unsafe fn add_columns(y: *mut Self, m: [*const Self; 4], x: [Self; 4], n: usize) {
        for i in 0..n {
            // SAFETY: the caller's.
            unsafe { *y.add(i) = (0..4).fold(*y.add(i), |sum, c| sum.add_product::<false>(*m[c].add(i), x[c])) };
        }
    }

    /// `out[i] = Σ x[i + dx] w[i + dw]` over `taps` of byte offsets `[dx, dw]`, or with `w[dw]` for all `i`; it does
    /// as many of `n` as suit it and gives their number.
    ///
    /// # Safety
    /// All elements named are valid, and `out` overlaps none.
    unsafe fn sum_taps(
        taps: &[[isize; 2]],
        xw: (*const u8, *const u8),
        one_weight: bool,
        out: *mut Self,
        n: usize,
    ) -> usize {
        let _ = (taps, xw, one_weight, out, n);
        0
    }
}

impl<T: Packed> Micro<T> {
    /// The same with operands of another type.
    #[cfg(target_arch = "x86_64")]
    #[inline]
    pub(super) fn cast<U: Packed<Sum = T::Sum>>(&self) -> Micro<U> {
        let &Micro { depth, a, a_row, a_step, b, b_step, c, c_row, height, width, rows, columns, add } = self;
        let (a, b) = (a.cast(), b.cast());
        Micro { depth, a, a_row, a_step, b, b_step, c, c_row, height, width, rows, columns, add }
    }

    /// Writes or adds a finished tile.
    ///
    /// # Safety
    /// As [`Packed::micro`].
    #[inline(always)]
    pub(crate) unsafe fn finish<const NR: usize>(&self, tile: &[[T::Sum; NR]]) {
        for (i, row) in tile.iter().enumerate().take(self.rows) {
            // SAFETY: the caller's.
            unsafe {
                let c = self.c.offset(i as isize * self.c_row);
                for (j, &v) in row.iter().enumerate().take(self.columns) {
                    let sum = if self.add { (*c.add(j)).plus(v) } else { v };
                    c.add(j).write(sum);
                }
            }
        }
    }
}

/// The micro-kernel in plain code: for number types without one of their own, and other processors.
///
/// # Safety
/// As [`Packed::micro`]; `call.height <= MR`.
#[inline(always)]
pub(crate) unsafe fn plain<T: Tile, const MR: usize, const NR: usize, const FUSED: bool>(call: &Micro<T>) {
    let mut tile = [[T::default(); NR]; MR];
    for k in 0..call.depth as isize {
        // SAFETY: the caller's.
        unsafe {
            let b = call.b.offset(k * call.b_step).cast::<[T; NR]>().read_unaligned();
            for (i, sums) in tile.iter_mut().enumerate().take(call.height) {
                let a = *call.a.offset(i as isize * call.a_row + k * call.a_step);
                for j in 0..NR {
                    sums[j] = sums[j].add_product::<FUSED>(a, b[j]);
                }
            }
        }
    }
    // SAFETY: the caller's.
    unsafe { call.finish(&tile) }
}

macro_rules! plain_tiles {
    ($($t:ty, $mr:literal x $nr:literal;)*) => {$(
        impl Tile for $t {
            const WIDTHS: &'static [usize] = &[$mr, $nr];
        }

        impl Packed for $t {
            type Sum = $t;
            const FAST: bool = false;

            fn shape(_: usize, _: usize) -> Shape {
                Shape { rows: $mr, columns: $nr }
            }

            unsafe fn micro(call: &Micro<$t>) {
                #[cfg(target_arch = "x86_64")]
                {
                    /// # Safety
                    /// As `Packed::micro`, and AVX2 is there.
                    #[target_feature(enable = "avx2")]
                    unsafe fn wide(call: &Micro<$t>) {
                        // SAFETY: the caller's.
                        unsafe { plain::<$t, $mr, $nr, false>(call) }
                    }
                    if std::arch::is_x86_feature_detected!("avx2") {
                        // SAFETY: AVX2 is there; the rest is the caller's.
                        return unsafe { wide(call) };
                    }
                }
                // SAFETY: the caller's.
                unsafe { plain::<$t, $mr, $nr, false>(call) }
            }
        }
    )*};
}
plain_tiles! { i32, 4 x 16; i64, 4 x 8; }

/// The micro-kernel of complex numbers: the rows of `B`, real and imaginary parts in turn, times the real parts of `A` and
/// times its imaginary parts, put together at the end.
macro_rules! complex_tiles {
    ($($t:ty, $mr:literal x $nr:literal, $kernel:ident;)*) => {$(
        impl Tile for Complex<$t> {
            const WIDTHS: &'static [usize] = &[$mr, 2 * $mr, $nr, 2 * $nr];
        }

        impl Packed for Complex<$t> {
            type Sum = Complex<$t>;
            const FAST: bool = false;

            fn shape(_: usize, _: usize) -> Shape {
                #[cfg(target_arch = "x86_64")]
                if super::has_avx512() {
                    return Shape { rows: 2 * $mr, columns: 2 * $nr };
                }
                Shape { rows: $mr, columns: $nr }
            }

            unsafe fn micro(call: &Micro<Complex<$t>>) {
                /// # Safety
                /// As `Packed::micro`.
                #[inline(always)]
                unsafe fn parts<const FUSED: bool>(call: &Micro<Complex<$t>>) {
                    let mut by_real = [[<$t>::default(); 2 * $nr]; $mr];
                    let mut by_imaginary = [[<$t>::default(); 2 * $nr]; $mr];
                    for k in 0..call.depth as isize {
                        // SAFETY: the caller's.
                        unsafe {
                            let b = call.b.offset(k * call.b_step).cast::<[$t; 2 * $nr]>().read_unaligned();
                            for i in 0..$mr {
                                // Rows beyond the last are the last again, and thrown away.
                                let row = i.min(call.height - 1) as isize;
                                let a = *call.a.offset(row * call.a_row + k * call.a_step);
                                for j in 0..2 * $nr {
                                    by_real[i][j] = by_real[i][j].add_product::<FUSED>(a.re, b[j]);
                                    by_imaginary[i][j] = by_imaginary[i][j].add_product::<FUSED>(a.im, b[j]);
                                }
                            }
                        }
                    }
                    let sum = |i: usize, j: usize| Complex {
                        re: by_real[i][2 * j] - by_imaginary[i][2 * j + 1],
                        im: by_real[i][2 * j + 1] + by_imaginary[i][2 * j],
                    };
                    let tile: [[Complex<$t>; $nr]; $mr] = std::array::from_fn(|i| std::array::from_fn(|j| sum(i, j)));
                    // SAFETY: the caller's.
                    unsafe { call.finish(&tile) }
                }
                #[cfg(target_arch = "x86_64")]
                {
                    /// # Safety
                    /// As `Packed::micro`, and AVX2 and FMA are there.
                    #[target_feature(enable = "avx2,fma")]
                    unsafe fn wide(call: &Micro<Complex<$t>>) {
                        // SAFETY: the caller's.
                        unsafe { parts::<true>(call) }
                    }
                    if call.width > $nr {
                        // SAFETY: such a shape is given only where AVX-512 is there; the rest is the caller's.
                        return unsafe { super::complex::$kernel(call) };
                    }
                    if super::has_fma() && call.depth >= LONG_SUM {
                        // SAFETY: AVX2 and FMA are there; the rest is the caller's.
                        return unsafe { wide(call) };
                    }
                }
                // SAFETY: the caller's.
                unsafe { parts::<false>(call) }
            }
        }
    )*};
}
/// Sums of complex products that are shorter are rounded after every product, as others do it: real and imaginary parts often
/// cancel, and what is left would differ in many places.
pub(super) const LONG_SUM: usize = 32;
complex_tiles! { f32, 3 x 8, tile_c64; f64, 3 x 4, tile_c128; }

macro_rules! float_tiles {
    ($($t:ty, $mr:literal x $nr:literal, $kernel:ident $dot:ident $dots:ident $many:ident $columns:ident $taps:ident;)*) => {$(
        impl Packed for $t {
            type Sum = $t;
            const FAST: bool = true;

            fn shape(rows: usize, columns: usize) -> Shape {
                #[cfg(target_arch = "x86_64")]
                if super::has_avx512() {
                    // Many rows where there are few columns. Few rows at a time, so that `B` is read in place, once.
                    if rows > 6 && columns <= $nr {
                        return Shape { rows: 14, columns: $nr };
                    }
                    if (7..=14).contains(&rows) || (rows > 14 && columns <= 2 * $nr) {
                        return Shape { rows: 14, columns: 2 * $nr };
                    }
                    if columns > 2 * $nr {
                        return Shape { rows: 6, columns: 4 * $nr };
                    }
                }
                let _ = (rows, columns);
                Shape { rows: $mr, columns: $nr }
            }

            #[inline]
            unsafe fn micro(call: &Micro<$t>) {
                #[cfg(target_arch = "x86_64")]
                if call.width > $nr || call.height > $mr {
                    // SAFETY: such a shape is given only where AVX-512 is there; the rest is the caller's.
                    return unsafe { super::avx512::$kernel(call) };
                } else if super::has_fma() {
                    // SAFETY: AVX2 and FMA are there; the rest is the caller's.
                    return unsafe { super::avx2::$kernel(call) };
                }
                // SAFETY: the caller's.
                unsafe { plain::<$t, $mr, $nr, false>(call) }
            }
        }

        impl Tile for $t {
            const WIDTHS: &'static [usize] = &[$mr, 14, $nr, 2 * $nr, 4 * $nr];

            #[cfg(target_arch = "x86_64")]
            #[inline]
            unsafe fn dot(a: *const $t, x: *const $t, n: usize) -> $t {
                if super::has_fma() {
                    // SAFETY: AVX2 and FMA are there; the rest is the caller's.
                    unsafe { super::avx2::$dot(a, x, n) }
                } else {
                    // SAFETY: the caller's.
                    (0..n).fold(0.0, |sum, k| unsafe { sum + *a.add(k) * *x.add(k) })
                }
            }

            #[cfg(target_arch = "x86_64")]
            #[inline]
            unsafe fn dots(a: *const $t, row: isize, x: *const $t, n: usize) -> [$t; 4] {
                if super::has_fma() {
                    // SAFETY: AVX2 and FMA are there; the rest is the caller's.
                    return unsafe { super::avx2::$dots(a, row, x, n) };
                }
                // SAFETY: the caller's.
                std::array::from_fn(|r| unsafe { Self::dot(a.offset(r as isize * row), x, n) })
            }

            #[cfg(target_arch = "x86_64")]
            #[inline]
            unsafe fn many_dots((a, row): (*const $t, isize), x: *const $t, n: usize, y: *mut $t, fours: usize) {
                if super::has_fma() {
                    // SAFETY: AVX2 and FMA are there; the rest is the caller's.
                    return unsafe { super::avx2::$many((a, row), x, n, y, fours) };
                }
                for i in 0..fours {
                    // SAFETY: the caller's.
                    unsafe {
                        let sums = Self::dots(a.offset(4 * i as isize * row), row, x, n);
                        y.add(4 * i).cast::<[$t; 4]>().write_unaligned(sums);
                    }
                }
            }

            #[cfg(target_arch = "x86_64")]
            #[inline]
            unsafe fn add_columns(y: *mut $t, m: [*const $t; 4], x: [$t; 4], n: usize) {
                if super::has_fma() {
                    // SAFETY: AVX2 and FMA are there; the rest is the caller's.
                    return unsafe { super::avx2::$columns(y, m, x, n) };
                }
                for i in 0..n {
                    // SAFETY: the caller's.
                    unsafe { *y.add(i) += (0..4).map(|c| *m[c].add(i) * x[c]).sum::<$t>() };
                }
            }

            #[cfg(target_arch = "x86_64")]
            #[inline]
            unsafe fn sum_taps(
                taps: &[[isize; 2]],
                xw: (*const u8, *const u8),
                one_weight: bool,
                out: *mut $t,
                n: usize,
            ) -> usize {
                if super::has_fma() {
                    // SAFETY: AVX2 and FMA are there; the rest is the caller's.
                    unsafe { super::avx2::$taps(taps, xw, one_weight, out, n) }
                } else {
                    0
                }
            }
        }
    )*};
}
float_tiles! { f32, 6 x 16, tile_f32 dot_f32 dots_f32 many_f32 columns_f32 taps_f32; f64, 6 x 8, tile_f64 dot_f64 dots_f64 many_f64 columns_f64 taps_f64; }
