//! Loops over complex numbers.

use meshwork_eval::scalar::ScalarOp;
use meshwork_eval::special::Cplx;
use meshwork_ir::op::{BinaryOp, MixedOp, UnaryOp};
use meshwork_ir::{ElementType, OpKind};

use crate::library::num::Complex;

/// `to[i] = f(a[i], b[i])` for `n` elements, with bytes from one element to the next; `b` is unused by functions of one
/// operand.
///
/// # Safety
/// All elements named are valid; the result overlaps an operand only element by element.
pub(super) type Loop = unsafe fn(to: *mut u8, step: isize, from: [*mut u8; 2], steps: [isize; 2], n: usize);

/// A function of two elements.
trait Function {
    type From: Copy;
    type To: Copy;
    fn of(a: Self::From, b: Self::From) -> Self::To;
}

/// # Safety
/// As [`Loop`].
unsafe fn each<F: Function>(to: *mut u8, step: isize, [a, b]: [*mut u8; 2], [p, q]: [isize; 2], n: usize) {
    let (to_unit, unit) = (size_of::<F::To>() as isize, size_of::<F::From>() as isize);
    // SAFETY: in the whole function: the caller's.
    unsafe {
        if step == to_unit && p == unit && q == unit {
            let (to, a, b) = (to.cast::<F::To>(), a.cast::<F::From>(), b.cast::<F::From>());
            for i in 0..n {
                to.add(i).write_unaligned(F::of(a.add(i).read_unaligned(), b.add(i).read_unaligned()));
            }
        } else {
            for i in 0..n as isize {
                let x = a.offset(i * p).cast::<F::From>().read_unaligned();
                let y = b.offset(i * q).cast::<F::From>().read_unaligned();
                to.offset(i * step).cast::<F::To>().write_unaligned(F::of(x, y));
            }
        }
    }
}

/// # Safety
/// As [`Loop`].
unsafe fn each_one<F: Function>(to: *mut u8, step: isize, [a, _]: [*mut u8; 2], [p, _]: [isize; 2], n: usize) {
    // SAFETY: the caller's; the second operand is the first again.
    unsafe { each::<F>(to, step, [a, a], [p, p], n) }
}

/// How long a vector is, without overflow on the way; infinite if one part is.
trait Length {
    fn of(x: Self, y: Self) -> Self;
}

impl Length for f32 {
    #[inline(always)]
    fn of(x: f32, y: f32) -> f32 {
        let (a, b) = (f64::from(x), f64::from(y));
        let length = (a * a + b * b).sqrt() as f32;
        if x.is_infinite() || y.is_infinite() { f32::INFINITY } else { length }
    }
}

impl Length for f64 {
    #[inline(always)]
    fn of(x: f64, y: f64) -> f64 {
        let square = x * x + y * y;
        if square.is_normal() { square.sqrt() } else { x.hypot(y) }
    }
}

macro_rules! functions {
    ($($t:ident, $other:ident, $module:ident;)*) => {$(
        mod $module {
            use super::*;
            macro_rules! function {
                ($name:ident, $from:ty, $to:ty, |$a:ident, $b:ident| $body:expr) => {
                    pub(super) struct $name;
                    impl Function for $name {
                        type From = $from;
                        type To = $to;
                        #[inline(always)]
                        fn of($a: $from, $b: $from) -> $to {
                            $body
                        }
                    }
                };
            }
            type Z = Complex<$t>;
            function!(Add, Z, Z, |a, b| Complex { re: a.re + b.re, im: a.im + b.im });
            function!(Subtract, Z, Z, |a, b| Complex { re: a.re - b.re, im: a.im - b.im });
            function!(Multiply, Z, Z, |a, b| {
                Complex { re: a.re * b.re - a.im * b.im, im: a.re * b.im + a.im * b.re }
            });
            function!(Divide, Z, Z, |a, b| {
                let scale = 1.0 / (b.re * b.re + b.im * b.im);
                let z = Complex { re: (a.re * b.re + a.im * b.im) * scale, im: (a.im * b.re - a.re * b.im) * scale };
                // Where the square is out of range, or a part has no number.
                if scale.is_normal() && (z.re + z.im).is_finite() { z } else { divide(a, b) }
            });
            function!(Negate, Z, Z, |a, _b| Complex { re: -a.re, im: -a.im });
            function!(Conj, Z, Z, |a, _b| Complex { re: a.re, im: -a.im });
            function!(Abs, Z, $t, |a, _b| Length::of(a.re, a.im));
            function!(Pair, $t, Z, |a, b| Complex { re: a, im: b });
            function!(Widen, $t, Z, |a, _b| Complex { re: a, im: 0.0 });
            function!(Other, Z, Complex<$other>, |a, _b| Complex { re: a.re as $other, im: a.im as $other });
            function!(Equal, Z, u8, |a, b| u8::from(a.re == b.re && a.im == b.im));
            function!(Unequal, Z, u8, |a, b| u8::from(a.re != b.re || a.im != b.im));

            #[cold]
            fn divide(a: Z, b: Z) -> Z {
                let z = Cplx::new(a.re.into(), a.im.into()) / Cplx::new(b.re.into(), b.im.into());
                Complex { re: z.re as $t, im: z.im as $t }
            }
        }
    )*};
}
functions! {
    f32, f64, single;
    f64, f32, double;
}

/// The loop for the operation `kind` between these types, if there is one.
pub(super) fn loop_of(kind: OpKind, direction: Option<&str>, op: &ScalarOp) -> Option<Loop> {
    use ElementType::{C64, C128, F32, F64};
    macro_rules! of {
        ($f:ident) => {
            match op.arg() {
                C64 | F32 => each::<single::$f> as Loop,
                _ => each::<double::$f> as Loop,
            }
        };
        (one $f:ident) => {
            match op.arg() {
                C64 | F32 => each_one::<single::$f> as Loop,
                _ => each_one::<double::$f> as Loop,
            }
        };
    }
    Some(match (kind, op.arg(), op.result()) {
        (OpKind::Binary(BinaryOp::Complex), F32 | F64, _) => of!(Pair),
        (OpKind::Mixed(MixedOp::Convert), F32, C64) | (OpKind::Mixed(MixedOp::Convert), F64, C128) => of!(one Widen),
        (OpKind::Mixed(MixedOp::Convert), C64, C128) | (OpKind::Mixed(MixedOp::Convert), C128, C64) => of!(one Other),
        (_, arg, _) if !arg.is_complex() => return None,
        (OpKind::Binary(BinaryOp::Add), ..) => of!(Add),
        (OpKind::Binary(BinaryOp::Subtract), ..) => of!(Subtract),
        (OpKind::Binary(BinaryOp::Multiply), ..) => of!(Multiply),
        (OpKind::Binary(BinaryOp::Divide), ..) => of!(Divide),
        (OpKind::Unary(UnaryOp::Negate), ..) => of!(one Negate),
        (OpKind::Unary(UnaryOp::Conj), ..) => of!(one Conj),
        (OpKind::Unary(UnaryOp::Abs), ..) => of!(one Abs),
        (OpKind::Mixed(MixedOp::Compare), ..) => match direction? {
            "EQ" => of!(Equal),
            "NE" => of!(Unequal),
            _ => return None,
        },
        _ => return None,
    })
}
