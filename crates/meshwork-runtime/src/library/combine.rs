//! How bodies of reductions and scatters combine two elements, as loops over strided elements.

use meshwork_ir::{BlockId, ElementType, Module, OpKind};

use super::num::{Bf16, Complex, Element, F16};
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
    Some(Body::Fold(match data.kind() {
        OpKind::Add => Combine::Add,
        OpKind::Multiply => Combine::Mul,
        OpKind::Maximum => Combine::Max,
        OpKind::Minimum => Combine::Min,
        OpKind::And => Combine::And,
        OpKind::Or => Combine::Or,
        OpKind::Xor => Combine::Xor,
        _ => return None,
    }))
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

macro_rules! ints {
    ($($t:ty)*) => {$(
        binary!(Add, $t, |a, b| a.wrapping_add(b));
        binary!(Mul, $t, |a, b| a.wrapping_mul(b));
        binary!(Max, $t, |a, b| a.max(b));
        binary!(Min, $t, |a, b| a.min(b));
        binary!(And, $t, |a, b| a & b);
        binary!(Or, $t, |a, b| a | b);
        binary!(Xor, $t, |a, b| a ^ b);
    )*};
}
ints!(i8 i16 i32 i64 u8 u16 u32 u64);

macro_rules! floats {
    ($($t:ty)*) => {$(
        binary!(Add, $t, |a, b| a + b);
        binary!(Mul, $t, |a, b| a * b);
        binary!(Max, $t, |a, b| {
            let second = b > a || b.is_nan() || (a == b && a.is_sign_negative());
            if second && !a.is_nan() { b } else { a }
        });
        binary!(Min, $t, |a, b| {
            let second = b < a || b.is_nan() || (a == b && b.is_sign_negative());
            if second && !a.is_nan() { b } else { a }
        });
    )*};
}
floats!(f32 f64);

/// A truth value in a byte.
#[derive(Clone, Copy)]
#[repr(transparent)]
struct Bool(u8);
binary!(Add, Bool, |a, b| Bool(a.0 | b.0));
binary!(Mul, Bool, |a, b| Bool(a.0 & b.0));
binary!(Max, Bool, |a, b| Bool(a.0 | b.0));
binary!(Min, Bool, |a, b| Bool(a.0 & b.0));
binary!(And, Bool, |a, b| Bool(a.0 & b.0));
binary!(Or, Bool, |a, b| Bool(a.0 | b.0));
binary!(Xor, Bool, |a, b| Bool(a.0 ^ b.0));

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

/// The loop that combines elements of type `elem`, if there is one.
pub(super) fn fold_of(elem: ElementType, combine: Combine) -> Option<Fold> {
    macro_rules! all {
        ($t:ty) => {
            Some(match combine {
                Combine::Add => fold::<$t, Add>,
                Combine::Mul => fold::<$t, Mul>,
                Combine::Max => fold::<$t, Max>,
                Combine::Min => fold::<$t, Min>,
                Combine::And => fold::<$t, And>,
                Combine::Or => fold::<$t, Or>,
                Combine::Xor => fold::<$t, Xor>,
            })
        };
    }
    macro_rules! arithmetic {
        ($t:ty) => {
            match combine {
                Combine::Add => Some(fold::<$t, Add>),
                Combine::Mul => Some(fold::<$t, Mul>),
                Combine::Max => Some(fold::<$t, Max>),
                Combine::Min => Some(fold::<$t, Min>),
                Combine::And | Combine::Or | Combine::Xor => None,
            }
        };
    }
    macro_rules! ring {
        ($t:ty) => {
            match combine {
                Combine::Add => Some(fold::<$t, Add>),
                Combine::Mul => Some(fold::<$t, Mul>),
                _ => None,
            }
        };
    }
    use ElementType::*;
    match elem {
        I1 => all!(Bool),
        I8 => all!(i8),
        I16 => all!(i16),
        I32 => all!(i32),
        I64 | Index => all!(i64),
        UI8 => all!(u8),
        UI16 => all!(u16),
        UI32 => all!(u32),
        UI64 => all!(u64),
        F32 => arithmetic!(f32),
        F64 => arithmetic!(f64),
        BF16 => arithmetic!(Half<Bf16>),
        F16 => arithmetic!(Half<super::num::F16>),
        C64 => ring!(Complex<f32>),
        C128 => ring!(Complex<f64>),
        I2 | I4 | UI2 | UI4 | F4E2M1FN | F6E2M3FN | F6E3M2FN | F8E3M4 | F8E4M3 | F8E4M3FN | F8E4M3FNUZ
        | F8E4M3B11FNUZ | F8E5M2 | F8E5M2FNUZ | F8E8M0FNU | TF32 => None,
    }
}
