//! How bodies of reductions and scatters combine two elements, as loops over strided elements.

use meshwork_ir::{BlockId, ElementType, Module};

use super::num::{Bf16, Complex, Element, F16};
use super::picks::NOWHERE;
use crate::kernel::interp::loops::wide;
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

/// The smaller of two floats. Both choices are the same number but where neither is smaller: of zeros the bits of both then make
/// the negative one, and of a NaN and a number a NaN. Choices without branches are done in vectors, and of single numbers too
/// this is three instructions.
macro_rules! smaller {
    ($t:ty, $a:expr, $b:expr) => {{
        let (a, b): ($t, $t) = ($a, $b);
        let (first, second) = (if a < b { a } else { b }, if b < a { b } else { a });
        <$t>::from_bits(first.to_bits() | second.to_bits())
    }};
}

/// The greater of two floats, in the same way. The bits that a NaN and a number share need not be a NaN.
macro_rules! greater {
    ($t:ty, $a:expr, $b:expr) => {{
        let (a, b): ($t, $t) = ($a, $b);
        let (first, second) = (if a > b { a } else { b }, if b > a { b } else { a });
        let both = <$t>::from_bits(first.to_bits() & second.to_bits());
        if a.is_nan() || b.is_nan() { <$t>::NAN } else { both }
    }};
}

macro_rules! floats {
    ($($t:ty)*) => {$(
        binary!(Add, $t, |a, b| a + b);
        binary!(Mul, $t, |a, b| a * b);
        binary!(Max, $t, |a, b| greater!($t, a, b));
        binary!(Min, $t, |a, b| smaller!($t, a, b));
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

/// Folds lines of elements into one element each, in several lanes: sums are exact to a few roundings.
#[derive(Clone, Copy)]
pub(super) struct Line {
    /// Of lanes.
    fold: Fold,
    size: usize,
    /// What elements of two bytes are; their lanes are `f32`.
    half: Option<ElementType>,
}

/// Lanes of a [`Line`], and the longest stretch that one lane sums by itself.
const LANES: usize = 32;
const STRETCH: usize = 64 * LANES;

/// Room for lanes of any type.
type Room = [u64; 2 * LANES];

impl Line {
    /// `acc = acc ∘ x[0] ∘ x[1] ...` for `n` elements at a byte stride.
    ///
    /// # Safety
    /// All elements named are valid and the two sides do not overlap.
    pub(super) unsafe fn run(self, acc: *mut u8, x: *const u8, stride: isize, n: usize) {
        if n == 0 {
            return;
        }
        let (mut sum, mut first) = ([0; 2 * LANES], [0; 2 * LANES]);
        // SAFETY: the caller's; there is room for a lane.
        unsafe {
            self.range(&mut sum, x, stride, n);
            self.read(&mut first, acc, 0, 1);
            (self.fold)(first.as_mut_ptr().cast(), 0, sum.as_ptr().cast(), 0, 1);
            let value = f32::from_bits(first[0] as u32);
            match self.half {
                Some(ElementType::BF16) => acc.cast::<u16>().write_unaligned(Bf16.store(value)),
                Some(_) => acc.cast::<u16>().write_unaligned(F16.store(value)),
                None => std::ptr::copy_nonoverlapping(first.as_ptr().cast(), acc, self.size),
            }
        }
    }

    /// Elements to lanes.
    ///
    /// # Safety
    /// As [`run`](Line::run), for at most [`LANES`] elements.
    unsafe fn read(self, lanes: &mut Room, x: *const u8, stride: isize, n: usize) {
        let to = lanes.as_mut_ptr().cast::<u8>();
        for i in 0..n {
            // SAFETY: the caller's; there is room for the lanes.
            unsafe {
                let (x, to) = (x.offset(i as isize * stride), to.add(i * self.size));
                match self.half {
                    Some(ElementType::BF16) => to.cast::<f32>().write(Bf16.load(x.cast::<u16>().read_unaligned())),
                    Some(_) => to.cast::<f32>().write(F16.load(x.cast::<u16>().read_unaligned())),
                    None => std::ptr::copy_nonoverlapping(x, to, self.size),
                }
            }
        }
    }

    /// The fold of `n` elements, as the first lane. Halves the range down to stretches, so that errors of sums grow with the
    /// logarithm.
    ///
    /// # Safety
    /// As [`run`](Line::run).
    unsafe fn range(self, lanes: &mut Room, x: *const u8, stride: isize, n: usize) {
        let mut other = [0; 2 * LANES];
        let (acc, unit) = (lanes.as_mut_ptr().cast::<u8>(), self.size as isize);
        // SAFETY: in the whole function: the caller's; lanes of the two rooms, of which the latter half is folded into the former.
        unsafe {
            if n > STRETCH {
                let half = (n / 2).next_multiple_of(STRETCH).min(n - 1);
                self.range(lanes, x, stride, half);
                self.range(&mut other, x.offset(half as isize * stride), stride, n - half);
                return (self.fold)(acc, 0, other.as_ptr().cast(), 0, 1);
            }
            let mut width = LANES.min(n);
            self.read(lanes, x, stride, width);
            for i in (width..n).step_by(LANES) {
                let (x, count) = (x.offset(i as isize * stride), LANES.min(n - i));
                if self.half.is_some() {
                    self.read(&mut other, x, stride, count);
                    (self.fold)(acc, unit, other.as_ptr().cast(), unit, count);
                } else {
                    (self.fold)(acc, unit, x, stride, count);
                }
            }
            while width > 1 {
                let half = width.div_ceil(2);
                (self.fold)(acc, unit, acc.add(half * self.size).cast_const(), unit, width - half);
                width = half;
            }
        }
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

/// Folds runs of elements into places.
#[derive(Clone, Copy)]
pub(super) enum Scattered {
    /// By loops of their own.
    Loops(Runs),
    /// One run after the other, of elements of this size.
    Each(Fold, usize),
}

/// For each of `offsets`: `to[offset + k] = to[offset + k] ∘ x[k]` for the `n` elements of a run. Runs of `x` are `step` bytes
/// apart; those for [`NOWHERE`] are left out.
type Runs = unsafe fn(to: *mut u8, offsets: &[isize], x: *const u8, step: isize, n: usize);

impl Scattered {
    /// As [`Runs`].
    ///
    /// # Safety
    /// All elements named are valid and the two sides do not overlap.
    pub(super) unsafe fn run(self, to: *mut u8, offsets: &[isize], x: *const u8, step: isize, n: usize) {
        // SAFETY: the caller's.
        unsafe {
            match self {
                Scattered::Loops(runs) => runs(to, offsets, x, step, n),
                Scattered::Each(fold, size) => {
                    for (i, &offset) in offsets.iter().enumerate().filter(|(_, o)| **o != NOWHERE) {
                        fold(to.offset(offset), size as isize, x.offset(i as isize * step), size as isize, n);
                    }
                }
            }
        }
    }
}

/// [`Runs`] in the processor's longer vectors, with loops of their own for lengths that are worth it.
///
/// # Safety
/// As [`Scattered::run`]; what [`wide`] asks for is there.
#[cfg_attr(target_arch = "x86_64", target_feature(enable = "avx2,fma"))]
unsafe fn runs<T: Copy, O: Binary<T>>(to: *mut u8, offsets: &[isize], x: *const u8, step: isize, n: usize) {
    /// # Safety
    /// As [`Scattered::run`].
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
                while k + SHORT <= n {
                    together::<T, O, SHORT>(to.add(k), x.add(k));
                    k += SHORT;
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
    /// As [`Scattered::run`].
    #[inline(always)]
    unsafe fn fixed<T: Copy, O: Binary<T>, const N: usize>(to: *mut u8, offsets: &[isize], x: *const u8, step: isize) {
        for (i, &offset) in offsets.iter().enumerate() {
            let x = x.wrapping_offset(i as isize * step);
            // The processor's own prefetching stops at the end of a page.
            #[cfg(target_arch = "x86_64")]
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
    /// As [`Scattered::run`].
    #[inline(always)]
    unsafe fn together<T: Copy, O: Binary<T>, const N: usize>(to: *mut T, x: *const T) {
        // SAFETY: the caller's.
        unsafe {
            let (mut a, b) = (to.cast::<[T; N]>().read_unaligned(), x.cast::<[T; N]>().read_unaligned());
            for i in 0..N {
                a[i] = O::apply(a[i], b[i]);
            }
            to.cast::<[T; N]>().write_unaligned(a);
        }
    }
    const SHORT: usize = 4;
    const LONG: usize = 32;
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

/// `$make` for the element type and the function, if they go together.
macro_rules! with_type {
    ($elem:expr, $combine:expr, $make:ident) => {{
        macro_rules! integer {
            ($t:ty, $bits:ty) => {
                Some(match $combine {
                    Combine::Max => $make::<$t, Max>,
                    Combine::Min => $make::<$t, Min>,
                    Combine::Add => $make::<$bits, Add>,
                    Combine::Mul => $make::<$bits, Mul>,
                    Combine::And => $make::<$bits, And>,
                    Combine::Or => $make::<$bits, Or>,
                    Combine::Xor => $make::<$bits, Xor>,
                })
            };
        }
        macro_rules! arithmetic {
            ($t:ty) => {
                match $combine {
                    Combine::Add => Some($make::<$t, Add>),
                    Combine::Mul => Some($make::<$t, Mul>),
                    Combine::Max => Some($make::<$t, Max>),
                    Combine::Min => Some($make::<$t, Min>),
                    Combine::And | Combine::Or | Combine::Xor => None,
                }
            };
        }
        macro_rules! ring {
            ($t:ty) => {
                match $combine {
                    Combine::Add => Some($make::<$t, Add>),
                    Combine::Mul => Some($make::<$t, Mul>),
                    _ => None,
                }
            };
        }
        use ElementType as E;
        match $elem {
            // Truth values are bytes.
            E::I1 => Some(match $combine {
                Combine::Add | Combine::Max | Combine::Or => $make::<u8, Or>,
                Combine::Mul | Combine::Min | Combine::And => $make::<u8, And>,
                Combine::Xor => $make::<u8, Xor>,
            }),
            E::I8 => integer!(i8, u8),
            E::I16 => integer!(i16, u16),
            E::I32 => integer!(i32, u32),
            E::I64 | E::Index => integer!(i64, u64),
            E::UI8 => integer!(u8, u8),
            E::UI16 => integer!(u16, u16),
            E::UI32 => integer!(u32, u32),
            E::UI64 => integer!(u64, u64),
            E::F32 => arithmetic!(f32),
            E::F64 => arithmetic!(f64),
            E::BF16 => arithmetic!(Half<Bf16>),
            E::F16 => arithmetic!(Half<F16>),
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
    with_type!(elem, combine, fold)
}

/// The loop that computes running folds of elements of type `elem`, if there is one.
pub(super) fn running_of(elem: ElementType, combine: Combine) -> Option<Running> {
    with_type!(elem, combine, running)
}

/// What folds lines of elements of type `elem`, if there is such.
pub(super) fn line_of(elem: ElementType, combine: Combine) -> Option<Line> {
    let half = matches!(elem, ElementType::BF16 | ElementType::F16).then_some(elem);
    let lane = if half.is_some() { ElementType::F32 } else { elem };
    Some(Line { fold: fold_of(lane, combine)?, size: lane.storage_bytes(), half })
}

/// What folds runs into places, if there is such: the types and functions that most programs scatter with have loops.
pub(super) fn scattered_of(elem: ElementType, combine: Combine) -> Option<Scattered> {
    let each = Scattered::Each(fold_of(elem, combine)?, elem.storage_bytes());
    if cfg!(target_arch = "x86_64") && !wide() {
        return Some(each);
    }
    use ElementType as E;
    let runs: Runs = match (combine, elem) {
        (Combine::Add, E::F32) => runs::<f32, Add>,
        (Combine::Add, E::F64) => runs::<f64, Add>,
        (Combine::Add, E::BF16) => runs::<Half<Bf16>, Add>,
        (Combine::Add, E::I32 | E::UI32) => runs::<u32, Add>,
        (Combine::Add, E::I64 | E::UI64) => runs::<u64, Add>,
        (Combine::Add | Combine::Max | Combine::Or, E::I1) => runs::<u8, Or>,
        (Combine::Mul, E::F32) => runs::<f32, Mul>,
        (Combine::Mul, E::F64) => runs::<f64, Mul>,
        (Combine::Max, E::F32) => runs::<f32, Max>,
        (Combine::Max, E::F64) => runs::<f64, Max>,
        (Combine::Max, E::I32) => runs::<i32, Max>,
        (Combine::Max, E::I64) => runs::<i64, Max>,
        (Combine::Min, E::F32) => runs::<f32, Min>,
        (Combine::Min, E::F64) => runs::<f64, Min>,
        (Combine::Min, E::I32) => runs::<i32, Min>,
        (Combine::Min, E::I64) => runs::<i64, Min>,
        _ => return Some(each),
    };
    Some(Scattered::Loops(runs))
}
