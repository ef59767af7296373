//! How bodies of reductions and scatters combine two elements, as loops over strided elements.

use meshwork_ir::{BlockId, ElementType, Module};

use super::num::{Bf16, Complex, Element, F16};
use super::picks::NOWHERE;
use crate::kernel::interp::loops::wide;
use crate::kernel::interp::scalar::Float;
use crate::kernel::ir::Combine;

/// What a body of two arguments does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Body {
    /// It returns the first argument.
    First,
    /// It returns the second argument.
    Second,
    /// It combines both.
    Fold(Combine),
}

/// What the body `block` does, if it is as simple as that.
pub(super) fn recognise(module: &Module, block: BlockId) -> Option<Body> {
    let args = module.block(block).args();
    let (&[a, b], &[out]) = (args, module.returned(block)) else { return None };
    if out == a || out == b {
        return Some(if out == a { Body::First } else { Body::Second });
    }
    let op = module.def_op(out)?;
    let data = module.op(op);
    let same_type = module.ty(out).elem() == module.ty(a).elem() && module.ty(a).elem() == module.ty(b).elem();
    if data.parent() != Some(block) || !same_type || !(data.operands() == [a, b] || data.operands() == [b, a]) {
        return None;
    }
    Combine::of(data.kind()).map(Body::Fold)
}

/// `acc[i] = acc[i] ∘ x[i]` for `n` elements at byte strides; with a stride of 0 all go into one, in order.
///
/// # Safety
/// All elements named are valid and the two sides do not overlap.
pub(super) type Fold = unsafe fn(acc: *mut u8, acc_stride: isize, x: *const u8, x_stride: isize, n: usize);

/// A function of two elements of type `T`.
trait Binary<T> {
    fn apply(a: T, b: T) -> T;
}

struct Add;
struct Mul;
struct Max;
struct Min;
struct And;
struct Or;
struct Xor;

macro_rules! binary {
    ($op:ident, $t:ty, |$a:ident, $b:ident| $body:expr) => {
        impl Binary<$t> for $op {
            #[inline(always)]
            fn apply($a: $t, $b: $t) -> $t {
                $body
            }
        }
    };
}

macro_rules! ordered {
    ($($t:ty)*) => {$(
        binary!(Max, $t, |a, b| a.max(b));
        binary!(Min, $t, |a, b| a.min(b));
    )*};
}
ordered!(i8 i16 i32 i64 u8 u16 u32 u64);

/// Of integers with and without a sign, whose bits these functions treat alike.
macro_rules! wrapping {
    ($($t:ty)*) => {$(
        binary!(Add, $t, |a, b| a.wrapping_add(b));
        binary!(Mul, $t, |a, b| a.wrapping_mul(b));
        binary!(And, $t, |a, b| a & b);
        binary!(Or, $t, |a, b| a | b);
        binary!(Xor, $t, |a, b| a ^ b);
    )*};
}
wrapping!(u8 u16 u32 u64);

/// The extreme of two floats, which is `$other` unless they are equal or the first is a NaN: of zeros, whose bits alone may
/// differ, `$sign` of the bits is taken, with `$all` for other numbers.
macro_rules! extreme {
    ($t:ty, $a:ident, $b:ident, $other:ident, $sign:tt, $all:expr) => {{
        let bits = if $a == $b { $a.to_bits() } else { $all };
        let number = <$t>::from_bits($other.to_bits() $sign bits);
        if $a.is_nan() { $a.quiet() } else { number }
    }};
}

macro_rules! floats {
    ($($t:ty)*) => {$(
        binary!(Add, $t, |a, b| a + b);
        binary!(Mul, $t, |a, b| a * b);
        // Choices without branches are done in vectors.
        binary!(Max, $t, |a, b| {
            let other = if a > b { a } else { b };
            extreme!($t, a, b, other, &, !0)
        });
        binary!(Min, $t, |a, b| {
            let other = if a < b { a } else { b };
            extreme!($t, a, b, other, |, 0)
        });
    )*};
}
floats!(f32 f64);

/// A float of two bytes, rounded after each operation.
#[derive(Clone, Copy)]
#[repr(transparent)]
struct Half<E>(u16, std::marker::PhantomData<E>);

macro_rules! halves {
    ($e:ident: $($op:ident)*) => {$(
        binary!($op, Half<$e>, |a, b| {
            let value = <$op as Binary<f32>>::apply($e.load(a.0), $e.load(b.0));
            Half($e.store(value), std::marker::PhantomData)
        });
    )*};
}
halves!(Bf16: Add Mul Max Min);
halves!(F16: Add Mul Max Min);

macro_rules! complexes {
    ($($t:ty)*) => {$(
        binary!(Add, Complex<$t>, |a, b| Complex { re: a.re + b.re, im: a.im + b.im });
        binary!(Mul, Complex<$t>, |a, b| {
            Complex { re: a.re * b.re - a.im * b.im, im: a.re * b.im + a.im * b.re }
        });
    )*};
}
complexes!(f32 f64);

/// # Safety
/// As [`Fold`].
unsafe fn fold<T: Copy, O: Binary<T>>(acc: *mut u8, acc_stride: isize, x: *const u8, x_stride: isize, n: usize) {
    let unit = size_of::<T>() as isize;
    // SAFETY: the caller's.
    unsafe {
        if acc_stride == unit && x_stride == unit {
            let (acc, x) = (acc.cast::<T>(), x.cast::<T>());
            for i in 0..n {
                acc.add(i).write_unaligned(O::apply(acc.add(i).read_unaligned(), x.add(i).read_unaligned()));
            }
        } else if acc_stride == 0 {
            let mut sum = acc.cast::<T>().read_unaligned();
            for i in 0..n as isize {
                sum = O::apply(sum, x.offset(i * x_stride).cast::<T>().read_unaligned());
            }
            acc.cast::<T>().write_unaligned(sum);
        } else {
            for i in 0..n as isize {
                let acc = acc.offset(i * acc_stride).cast::<T>();
                let x = x.offset(i * x_stride).cast::<T>().read_unaligned();
                acc.write_unaligned(O::apply(acc.read_unaligned(), x));
            }
        }
    }
}

/// `acc = acc ∘ x[0] ∘ x[1] ...` for `n` elements at a byte stride, in several lanes: fast, and sums are exact to a
/// few roundings.
///
/// # Safety
/// All elements named are valid and the two sides do not overlap.
pub(super) type Line = unsafe fn(acc: *mut u8, x: *const u8, stride: isize, n: usize);

/// Lanes of a [`Line`], and the longest stretch that one lane sums by itself.
const LANES: usize = 16;
const STRETCH: usize = 64 * LANES;

/// # Safety
/// As [`Line`].
unsafe fn line<T: Copy, E: Lane<T>, O: Binary<T>>(acc: *mut u8, x: *const u8, stride: isize, n: usize) {
    // SAFETY: the caller's.
    let read = |i: usize| -> T { E::load(unsafe { x.offset(i as isize * stride).cast::<E::Raw>().read_unaligned() }) };
    if n == 0 {
        return;
    }
    /// Halves the range down to stretches, so that errors of sums grow with the logarithm.
    fn range<T: Copy, O: Binary<T>>(read: &impl Fn(usize) -> T, from: usize, n: usize) -> T {
        if n > STRETCH {
            let half = (n / 2).next_multiple_of(STRETCH).min(n - 1);
            return O::apply(range::<T, O>(read, from, half), range::<T, O>(read, from + half, n - half));
        }
        if n < LANES {
            return (from + 1..from + n).fold(read(from), |sum, i| O::apply(sum, read(i)));
        }
        let mut lanes: [T; LANES] = std::array::from_fn(|l| read(from + l));
        let full = n / LANES * LANES;
        for i in (LANES..full).step_by(LANES) {
            for l in 0..LANES {
                lanes[l] = O::apply(lanes[l], read(from + i + l));
            }
        }
        for i in full..n {
            lanes[i - full] = O::apply(lanes[i - full], read(from + i));
        }
        let mut width = LANES;
        while width > 1 {
            width /= 2;
            for l in 0..width {
                lanes[l] = O::apply(lanes[l], lanes[l + width]);
            }
        }
        lanes[0]
    }
    let sum = if stride == size_of::<E::Raw>() as isize {
        // SAFETY: the caller's; the same with a stride that the compiler knows.
        range::<T, O>(&|i| E::load(unsafe { x.cast::<E::Raw>().add(i).read_unaligned() }), 0, n)
    } else {
        range::<T, O>(&read, 0, n)
    };
    // SAFETY: the caller's.
    unsafe {
        let acc = acc.cast::<E::Raw>();
        acc.write_unaligned(E::store(O::apply(E::load(acc.read_unaligned()), sum)));
    }
}

/// Lines of elements in memory: the first element, bytes from one element of a line to the next, bytes from one line to the
/// next.
pub(super) type Lines<P> = (P, isize, isize);

/// `to[k] = init ∘ x[0] ∘ ... ∘ x[k]` for the `n` elements of each of `lines` lines.
///
/// # Safety
/// All elements named are valid and the two sides do not overlap.
pub(super) type Running = unsafe fn(to: Lines<*mut u8>, x: Lines<*const u8>, init: *const u8, n: usize, lines: usize);

/// # Safety
/// As [`Running`].
unsafe fn running<T: Copy, O: Binary<T>>(
    to: Lines<*mut u8>,
    x: Lines<*const u8>,
    init: *const u8,
    n: usize,
    lines: usize,
) {
    /// `WIDTH` lines side by side, since each waits for its last sum.
    ///
    /// # Safety
    /// As [`Running`].
    #[inline(always)]
    unsafe fn some<T: Copy, O: Binary<T>, const WIDTH: usize>(
        to: Lines<*mut u8>,
        x: Lines<*const u8>,
        init: T,
        n: usize,
    ) {
        let mut sums = [init; WIDTH];
        for k in 0..n as isize {
            for (line, sum) in sums.iter_mut().enumerate() {
                let line = line as isize;
                // SAFETY: the caller's.
                unsafe {
                    *sum = O::apply(*sum, x.0.offset(k * x.1 + line * x.2).cast::<T>().read_unaligned());
                    to.0.offset(k * to.1 + line * to.2).cast::<T>().write_unaligned(*sum);
                }
            }
        }
    }
    let unit = size_of::<T>() as isize;
    let mut line = 0;
    while line < lines {
        // SAFETY: the caller's.
        unsafe {
            let at = line as isize;
            let (to, x) = ((to.0.offset(at * to.2), to.1, to.2), (x.0.offset(at * x.2), x.1, x.2));
            let init = init.cast::<T>().read_unaligned();
            line += match lines - line {
                16.. if to.2 == unit && x.2 == unit => {
                    some::<T, O, 16>((to.0, to.1, unit), (x.0, x.1, unit), init, n);
                    16
                }
                // Few enough that lines of a power of two stay in the cache together.
                4.. if to.1 == unit && x.1 == unit => {
                    some::<T, O, 4>((to.0, unit, to.2), (x.0, unit, x.2), init, n);
                    4
                }
                4.. => {
                    some::<T, O, 4>(to, x, init, n);
                    4
                }
                _ => {
                    some::<T, O, 1>(to, x, init, n);
                    1
                }
            };
        }
    }
}

/// For each of `offsets`: `to[offset + k] = to[offset + k] ∘ x[k]` for the `n` elements of a run. Runs of `x` are `step` bytes
/// apart; those for [`NOWHERE`] are left out.
///
/// # Safety
/// All elements named are valid and the two sides do not overlap.
pub(super) type Scattered = unsafe fn(to: *mut u8, offsets: &[isize], x: *const u8, step: isize, n: usize);

/// # Safety
/// As [`Scattered`].
unsafe fn scattered<T: Copy, O: Binary<T>>(to: *mut u8, offsets: &[isize], x: *const u8, step: isize, n: usize) {
    /// # Safety
    /// As [`Scattered`].
    #[inline(always)]
    unsafe fn some<T: Copy, O: Binary<T>>(to: *mut u8, offsets: &[isize], x: *const u8, step: isize, n: usize) {
        for (i, &offset) in offsets.iter().enumerate() {
            if offset == NOWHERE {
                continue;
            }
            // SAFETY: the caller's.
            unsafe {
                let (to, x) = (to.offset(offset).cast::<T>(), x.offset(i as isize * step).cast::<T>());
                let mut k = 0;
                while k + LONG <= n {
                    together::<T, O, LONG>(to.add(k), x.add(k));
                    k += LONG;
                }
                while k + LANES <= n {
                    together::<T, O, LANES>(to.add(k), x.add(k));
                    k += LANES;
                }
                if k + LANES / 2 <= n {
                    together::<T, O, { LANES / 2 }>(to.add(k), x.add(k));
                    k += LANES / 2;
                }
                while k < n {
                    together::<T, O, 1>(to.add(k), x.add(k));
                    k += 1;
                }
            }
        }
    }
    /// Runs of `N` elements.
    ///
    /// # Safety
    /// As [`Scattered`].
    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    unsafe fn fixed<T: Copy, O: Binary<T>, const N: usize>(to: *mut u8, offsets: &[isize], x: *const u8, step: isize) {
        for (i, &offset) in offsets.iter().enumerate() {
            let x = x.wrapping_offset(i as isize * step);
            // The processor's own prefetching stops at the end of a page.
            if size_of::<[T; N]>() >= 64 {
                // SAFETY: a hint, which has no effect where there is no memory.
                unsafe {
                    std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(x.wrapping_add(2048).cast());
                }
            }
            if offset != NOWHERE {
                // SAFETY: the caller's.
                unsafe { together::<T, O, N>(to.offset(offset).cast(), x.cast()) }
            }
        }
    }
    /// Folds neighbors: all are read before any is written, so that they can be in one vector.
    ///
    /// # Safety
    /// As [`Scattered`].
    #[inline(always)]
    unsafe fn together<T: Copy, O: Binary<T>, const N: usize>(to: *mut T, x: *const T) {
        // SAFETY: the caller's.
        unsafe {
            let (a, b) = (to.cast::<[T; N]>().read_unaligned(), x.cast::<[T; N]>().read_unaligned());
            to.cast::<[T; N]>().write_unaligned(std::array::from_fn(|i| O::apply(a[i], b[i])));
        }
    }
    const LANES: usize = 8;
    const LONG: usize = 32;
    /// In the processor's longer vectors, with loops of their own for lengths that are worth it.
    ///
    /// # Safety
    /// As [`Scattered`]; AVX2 and FMA are there.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,fma")]
    unsafe fn in_long_vectors<T: Copy, O: Binary<T>>(
        to: *mut u8,
        offsets: &[isize],
        x: *const u8,
        step: isize,
        n: usize,
    ) {
        let unit = size_of::<T>() as isize;
        // SAFETY: the caller's; the same for lengths and steps that the compiler knows.
        unsafe {
            match n {
                1 if step == unit => fixed::<T, O, 1>(to, offsets, x, unit),
                1 => fixed::<T, O, 1>(to, offsets, x, step),
                2 => fixed::<T, O, 2>(to, offsets, x, step),
                3 => fixed::<T, O, 3>(to, offsets, x, step),
                4 => fixed::<T, O, 4>(to, offsets, x, step),
                8 => fixed::<T, O, 8>(to, offsets, x, step),
                16 => fixed::<T, O, 16>(to, offsets, x, step),
                n => some::<T, O>(to, offsets, x, step, n),
            }
        }
    }
    #[cfg(target_arch = "x86_64")]
    if wide() {
        // SAFETY: the caller's, and the processor has been asked.
        return unsafe { in_long_vectors::<T, O>(to, offsets, x, step, n) };
    }
    // SAFETY: the caller's.
    unsafe { some::<T, O>(to, offsets, x, step, n) }
}

/// Elements that fold as numbers of type `T`.
trait Lane<T> {
    type Raw: Copy;
    fn load(raw: Self::Raw) -> T;
    fn store(value: T) -> Self::Raw;
}

/// As they are.
struct Plain;

impl<T: Copy> Lane<T> for Plain {
    type Raw = T;
    #[inline(always)]
    fn load(raw: T) -> T {
        raw
    }
    #[inline(always)]
    fn store(value: T) -> T {
        value
    }
}

macro_rules! wider {
    ($($e:ident)*) => {$(
        impl Lane<f32> for $e {
            type Raw = u16;
            #[inline(always)]
            fn load(raw: u16) -> f32 {
                Element::<f32>::load($e, raw)
            }
            #[inline(always)]
            fn store(value: f32) -> u16 {
                Element::<f32>::store($e, value)
            }
        }
    )*};
}
wider!(Bf16 F16);

/// One loop of [`Fold`] for a type and a function.
macro_rules! fold_one {
    ($t:ty, $wide:ty, $e:ty, $op:ty) => {
        fold::<$t, $op>
    };
}

/// One loop of [`Running`].
macro_rules! running_one {
    ($t:ty, $wide:ty, $e:ty, $op:ty) => {
        running::<$t, $op>
    };
}

/// One loop of [`Scattered`].
macro_rules! scattered_one {
    ($t:ty, $wide:ty, $e:ty, $op:ty) => {
        scattered::<$t, $op>
    };
}

/// One loop of [`Line`].
macro_rules! line_one {
    ($t:ty, $wide:ty, $e:ty, $op:ty) => {
        line::<$wide, $e, $op>
    };
}

/// `$make` for the element type and the function, if they go together: the type of elements, the type they fold in,
/// and how they are read as such.
macro_rules! with_type {
    ($elem:expr, $combine:expr, $make:ident) => {{
        macro_rules! integer {
            ($t:ty, $bits:ty) => {
                Some(match $combine {
                    Combine::Max => $make!($t, $t, Plain, Max),
                    Combine::Min => $make!($t, $t, Plain, Min),
                    Combine::Add => $make!($bits, $bits, Plain, Add),
                    Combine::Mul => $make!($bits, $bits, Plain, Mul),
                    Combine::And => $make!($bits, $bits, Plain, And),
                    Combine::Or => $make!($bits, $bits, Plain, Or),
                    Combine::Xor => $make!($bits, $bits, Plain, Xor),
                })
            };
        }
        macro_rules! arithmetic {
            ($t:ty, $wide:ty, $e:ty) => {
                match $combine {
                    Combine::Add => Some($make!($t, $wide, $e, Add)),
                    Combine::Mul => Some($make!($t, $wide, $e, Mul)),
                    Combine::Max => Some($make!($t, $wide, $e, Max)),
                    Combine::Min => Some($make!($t, $wide, $e, Min)),
                    Combine::And | Combine::Or | Combine::Xor => None,
                }
            };
        }
        macro_rules! ring {
            ($t:ty) => {
                match $combine {
                    Combine::Add => Some($make!($t, $t, Plain, Add)),
                    Combine::Mul => Some($make!($t, $t, Plain, Mul)),
                    _ => None,
                }
            };
        }
        use ElementType as E;
        match $elem {
            // Truth values are bytes.
            E::I1 => Some(match $combine {
                Combine::Add | Combine::Max | Combine::Or => $make!(u8, u8, Plain, Or),
                Combine::Mul | Combine::Min | Combine::And => $make!(u8, u8, Plain, And),
                Combine::Xor => $make!(u8, u8, Plain, Xor),
            }),
            E::I8 => integer!(i8, u8),
            E::I16 => integer!(i16, u16),
            E::I32 => integer!(i32, u32),
            E::I64 | E::Index => integer!(i64, u64),
            E::UI8 => integer!(u8, u8),
            E::UI16 => integer!(u16, u16),
            E::UI32 => integer!(u32, u32),
            E::UI64 => integer!(u64, u64),
            E::F32 => arithmetic!(f32, f32, Plain),
            E::F64 => arithmetic!(f64, f64, Plain),
            E::BF16 => arithmetic!(Half<Bf16>, f32, Bf16),
            E::F16 => arithmetic!(Half<F16>, f32, F16),
            E::C64 => ring!(Complex<f32>),
            E::C128 => ring!(Complex<f64>),
            E::I2
            | E::I4
            | E::UI2
            | E::UI4
            | E::F4E2M1FN
            | E::F6E2M3FN
            | E::F6E3M2FN
            | E::F8E3M4
            | E::F8E4M3
            | E::F8E4M3FN
            | E::F8E4M3FNUZ
            | E::F8E4M3B11FNUZ
            | E::F8E5M2
            | E::F8E5M2FNUZ
            | E::F8E8M0FNU
            | E::TF32 => None,
        }
    }};
}

/// The loop that combines elements of type `elem`, if there is one.
pub(super) fn fold_of(elem: ElementType, combine: Combine) -> Option<Fold> {
    with_type!(elem, combine, fold_one)
}

/// The loop that computes running folds of elements of type `elem`, if there is one.
pub(super) fn running_of(elem: ElementType, combine: Combine) -> Option<Running> {
    with_type!(elem, combine, running_one)
}

/// The loop that folds lines of elements of type `elem`, if there is one.
pub(super) fn line_of(elem: ElementType, combine: Combine) -> Option<Line> {
    with_type!(elem, combine, line_one)
}

/// The loop that folds runs into places, if there is one.
pub(super) fn scattered_of(elem: ElementType, combine: Combine) -> Option<Scattered> {
    with_type!(elem, combine, scattered_one)
}
