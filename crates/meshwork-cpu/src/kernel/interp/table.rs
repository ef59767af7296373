//! Which loop computes an operation on a type.

use meshwork_eval::special;
use meshwork_ir::ElementType;

use super::circle;
use super::loops::{Loop, loop1, loop2, loop3};
use super::scalar::{Float, Int, from_bf16, from_f16, to_bf16, to_f16};
use crate::kernel::ir::{BinaryOp, Cmp, Ty, UnaryOp};

/// Expands `$integer!(type)` or `$float!(type)` for the Rust type that holds `$ty`; preds are bytes that are 0 or 1.
macro_rules! by_type {
    ($ty:expr, $integer:ident, $float:ident, $pred:expr) => {
        match $ty {
            Ty::I8 => $integer!(i8),
            Ty::U8 => $integer!(u8),
            Ty::I16 => $integer!(i16),
            Ty::U16 => $integer!(u16),
            Ty::I32 => $integer!(i32),
            Ty::U32 => $integer!(u32),
            Ty::I64 => $integer!(i64),
            Ty::U64 => $integer!(u64),
            Ty::F32 => $float!(f32),
            Ty::F64 => $float!(f64),
            Ty::Pred => $pred,
        }
    };
}

/// As `by_type`, for what treats integers with and without a sign alike: one loop serves both.
macro_rules! by_bits {
    ($ty:expr, $integer:ident, $float:ident, $pred:expr) => {
        match $ty {
            Ty::I8 | Ty::U8 => $integer!(u8),
            Ty::I16 | Ty::U16 => $integer!(u16),
            Ty::I32 | Ty::U32 => $integer!(u32),
            Ty::I64 | Ty::U64 => $integer!(u64),
            Ty::F32 => $float!(f32),
            Ty::F64 => $float!(f64),
            Ty::Pred => $pred,
        }
    };
}

/// Has no loop.
macro_rules! none {
    ($t:ty) => {
        None
    };
}
pub(super) use {by_bits, by_type, none};

/// A function of one value of type `ty`; `None` unless [`check::unary`](crate::kernel::check::unary) has it.
pub fn unary(f: UnaryOp, ty: Ty) -> Option<Loop> {
    match (f, ty) {
        (UnaryOp::Sine, Ty::F64) => return Some(circle::sines()),
        (UnaryOp::Cosine, Ty::F64) => return Some(circle::cosines()),
        (UnaryOp::Tan | UnaryOp::ChloTan, Ty::F64) => return Some(circle::tangents()),
        _ => {}
    }
    macro_rules! integer {
        ($t:ty) => {
            match f {
                UnaryOp::Negate => Some(loop1!($t => $t, |x| x.wrapping_neg())),
                UnaryOp::Not => Some(loop1!($t => $t, |x| !x)),
                UnaryOp::Popcnt => Some(loop1!($t => $t, |x| x.count_ones() as $t)),
                UnaryOp::CountLeadingZeros => Some(loop1!($t => $t, |x| x.leading_zeros() as $t)),
                _ => None,
            }
        };
    }
    macro_rules! float {
        ($t:ty) => {
            match f {
                UnaryOp::Negate => Some(loop1!($t => $t, |x| -x)),
                UnaryOp::Abs => Some(loop1!($t => $t, |x| x.abs())),
                UnaryOp::Sign => Some(loop1!($t => $t, |x| x.sign())),
                UnaryOp::Sqrt => Some(loop1!($t => $t, |x| x.sqrt())),
                UnaryOp::Floor => Some(loop1!($t => $t, |x| x.floor())),
                UnaryOp::Ceil => Some(loop1!($t => $t, |x| x.ceil())),
                UnaryOp::RoundNearestEven => Some(loop1!($t => $t, |x| x.round_ties_even())),
                UnaryOp::RoundNearestAfz => Some(loop1!($t => $t, |x| x.round())),
                UnaryOp::IsFinite => Some(loop1!($t => u8, |x| u8::from(x.abs() < <$t>::INFINITY))),
                // The rest by way of f64, as the reference does.
                UnaryOp::Rsqrt => Some(loop1!($t => $t, |x| (1.0 / f64::from(x).sqrt()) as $t)),
                UnaryOp::Cbrt => Some(loop1!($t => $t, |x| f64::from(x).cbrt() as $t)),
                UnaryOp::Exponential => Some(loop1!($t => $t, |x| f64::from(x).exp() as $t)),
                UnaryOp::ExponentialMinusOne => Some(loop1!($t => $t, |x| f64::from(x).exp_m1() as $t)),
                UnaryOp::Log => Some(loop1!($t => $t, |x| f64::from(x).ln() as $t)),
                UnaryOp::LogPlusOne => Some(loop1!($t => $t, |x| f64::from(x).ln_1p() as $t)),
                UnaryOp::Tanh => Some(loop1!($t => $t, |x| f64::from(x).tanh() as $t)),
                UnaryOp::Logistic => Some(loop1!($t => $t, |x| (1.0 / (1.0 + (-f64::from(x)).exp())) as $t)),
                UnaryOp::Sine => Some(loop1!($t => $t, |x| f64::from(x).sin() as $t)),
                UnaryOp::Cosine => Some(loop1!($t => $t, |x| f64::from(x).cos() as $t)),
                UnaryOp::Tan | UnaryOp::ChloTan => Some(loop1!($t => $t, |x| f64::from(x).tan() as $t)),
                UnaryOp::Erf => Some(loop1!($t => $t, |x| special::erf(x.into()) as $t)),
                UnaryOp::Erfc => Some(loop1!($t => $t, |x| special::erfc(x.into()) as $t)),
                UnaryOp::ErfInv => Some(loop1!($t => $t, |x| special::erf_inv(x.into()) as $t)),
                UnaryOp::IsInf => Some(loop1!($t => u8, |x| u8::from(x.abs() == <$t>::INFINITY))),
                UnaryOp::IsNegInf => Some(loop1!($t => u8, |x| u8::from(x == <$t>::NEG_INFINITY))),
                UnaryOp::IsPosInf => Some(loop1!($t => u8, |x| u8::from(x == <$t>::INFINITY))),
                UnaryOp::Acos => Some(loop1!($t => $t, |x| f64::from(x).acos() as $t)),
                UnaryOp::Acosh => Some(loop1!($t => $t, |x| special::acosh(x.into()) as $t)),
                UnaryOp::Asin => Some(loop1!($t => $t, |x| f64::from(x).asin() as $t)),
                UnaryOp::Asinh => Some(loop1!($t => $t, |x| special::asinh(x.into()) as $t)),
                UnaryOp::Atan => Some(loop1!($t => $t, |x| f64::from(x).atan() as $t)),
                UnaryOp::Atanh => Some(loop1!($t => $t, |x| special::atanh(x.into()) as $t)),
                UnaryOp::BesselI1e => Some(loop1!($t => $t, |x| special::bessel_i1e(x.into()) as $t)),
                UnaryOp::Cosh => Some(loop1!($t => $t, |x| f64::from(x).cosh() as $t)),
                UnaryOp::Digamma => Some(loop1!($t => $t, |x| special::digamma(x.into()) as $t)),
                UnaryOp::Lgamma => Some(loop1!($t => $t, |x| special::lgamma(x.into()) as $t)),
                UnaryOp::Sinh => Some(loop1!($t => $t, |x| f64::from(x).sinh() as $t)),
                _ => None,
            }
        };
    }
    macro_rules! signed {
        ($t:ty) => {
            match f {
                UnaryOp::Abs => Some(loop1!($t => $t, |x| x.wrapping_abs())),
                _ => Some(loop1!($t => $t, |x| x.signum())),
            }
        };
    }
    macro_rules! unsigned {
        ($t:ty) => {
            match f {
                UnaryOp::Abs => Some(loop1!($t => $t, |x| x)),
                _ => Some(loop1!($t => $t, |x| <$t>::from(x != 0))),
            }
        };
    }
    match (f, ty) {
        (UnaryOp::Not, Ty::Pred) => Some(loop1!(u8 => u8, |x| x ^ 1)),
        (UnaryOp::Abs | UnaryOp::Sign, Ty::I8) => signed!(i8),
        (UnaryOp::Abs | UnaryOp::Sign, Ty::I16) => signed!(i16),
        (UnaryOp::Abs | UnaryOp::Sign, Ty::I32) => signed!(i32),
        (UnaryOp::Abs | UnaryOp::Sign, Ty::I64) => signed!(i64),
        (UnaryOp::Abs | UnaryOp::Sign, Ty::U8) => unsigned!(u8),
        (UnaryOp::Abs | UnaryOp::Sign, Ty::U16) => unsigned!(u16),
        (UnaryOp::Abs | UnaryOp::Sign, Ty::U32) => unsigned!(u32),
        (UnaryOp::Abs | UnaryOp::Sign, Ty::U64) => unsigned!(u64),
        _ => by_bits!(ty, integer, float, None),
    }
}

/// A function of two values of type `ty`; `None` unless [`check::binary`](crate::kernel::check::binary) has it.
pub fn binary(f: BinaryOp, ty: Ty) -> Option<Loop> {
    macro_rules! ordered {
        ($t:ty) => {
            Some(match f {
                BinaryOp::Divide => loop2!($t, $t => $t, |x, y| x.div(y)),
                BinaryOp::Remainder => loop2!($t, $t => $t, |x, y| x.rem(y)),
                BinaryOp::Maximum => loop2!($t, $t => $t, |x, y| x.max(y)),
                BinaryOp::Minimum => loop2!($t, $t => $t, |x, y| x.min(y)),
                BinaryOp::Power => loop2!($t, $t => $t, |x, y| Int::pow(x, y)),
                _ => return None,
            })
        };
    }
    macro_rules! integer {
        ($t:ty) => {
            Some(match f {
                BinaryOp::Add => loop2!($t, $t => $t, |x, y| x.wrapping_add(y)),
                BinaryOp::Subtract => loop2!($t, $t => $t, |x, y| x.wrapping_sub(y)),
                BinaryOp::Multiply => loop2!($t, $t => $t, |x, y| x.wrapping_mul(y)),
                BinaryOp::And => loop2!($t, $t => $t, |x, y| x & y),
                BinaryOp::Or => loop2!($t, $t => $t, |x, y| x | y),
                BinaryOp::Xor => loop2!($t, $t => $t, |x, y| x ^ y),
                BinaryOp::ShiftLeft => loop2!($t, $t => $t, |x, y| x.shl(y)),
                BinaryOp::ShiftRightArithmetic => loop2!($t, $t => $t, |x, y| x.shr_arith(y)),
                BinaryOp::ShiftRightLogical => loop2!($t, $t => $t, |x, y| x.shr_logic(y)),
                _ => return None,
            })
        };
    }
    macro_rules! float {
        ($t:ty) => {
            Some(match f {
                BinaryOp::Add => loop2!($t, $t => $t, |x, y| x + y),
                BinaryOp::Subtract => loop2!($t, $t => $t, |x, y| x - y),
                BinaryOp::Multiply => loop2!($t, $t => $t, |x, y| x * y),
                BinaryOp::Divide => loop2!($t, $t => $t, |x, y| x / y),
                BinaryOp::Remainder => loop2!($t, $t => $t, |x, y| x % y),
                BinaryOp::Maximum => loop2!($t, $t => $t, |x, y| x.larger(y)),
                BinaryOp::Minimum => loop2!($t, $t => $t, |x, y| x.smaller(y)),
                BinaryOp::Power => loop2!($t, $t => $t, |x, y| f64::from(x).powf(y.into()) as $t),
                BinaryOp::Atan2 => loop2!($t, $t => $t, |x, y| f64::from(x).atan2(y.into()) as $t),
                BinaryOp::Polygamma => loop2!($t, $t => $t, |x, y| special::polygamma(x.into(), y.into()) as $t),
                BinaryOp::Zeta => loop2!($t, $t => $t, |x, y| special::zeta(x.into(), y.into()) as $t),
                BinaryOp::NextAfter => loop2!($t, $t => $t, |x, y| x.next_to(y)),
                _ => return None,
            })
        };
    }
    if ty == Ty::Pred {
        return match f {
            BinaryOp::Add | BinaryOp::Or | BinaryOp::Maximum => binary(BinaryOp::Or, Ty::U8),
            BinaryOp::Multiply | BinaryOp::And | BinaryOp::Minimum => binary(BinaryOp::And, Ty::U8),
            BinaryOp::Xor => binary(BinaryOp::Xor, Ty::U8),
            _ => None,
        };
    }
    match f {
        BinaryOp::Mulhi => match ty {
            Ty::I16 => Some(loop2!(i16, i16 => i16, |x, y| ((i32::from(x) * i32::from(y)) >> 16) as i16)),
            Ty::U64 => Some(loop2!(u64, u64 => u64, |x, y| ((u128::from(x) * u128::from(y)) >> 64) as u64)),
            Ty::U16 => Some(loop2!(u16, u16 => u16, |x, y| ((u32::from(x) * u32::from(y)) >> 16) as u16)),
            Ty::I32 => Some(loop2!(i32, i32 => i32, |x, y| ((i64::from(x) * i64::from(y)) >> 32) as i32)),
            Ty::U32 => Some(loop2!(u32, u32 => u32, |x, y| ((u64::from(x) * u64::from(y)) >> 32) as u32)),
            _ => None,
        },
        BinaryOp::Divide | BinaryOp::Remainder | BinaryOp::Maximum | BinaryOp::Minimum | BinaryOp::Power
            if !matches!(ty, Ty::F32 | Ty::F64) =>
        {
            by_type!(ty, ordered, none, None)
        }
        _ => by_bits!(ty, integer, float, None),
    }
}

/// A comparison of two values of type `ty`.
pub fn compare(f: Cmp, ty: Ty) -> Loop {
    macro_rules! equal {
        ($t:ty) => {
            match f {
                Cmp::Eq => loop2!($t, $t => u8, |x, y| u8::from(x == y)),
                _ => loop2!($t, $t => u8, |x, y| u8::from(x != y)),
            }
        };
    }
    macro_rules! ordered {
        ($t:ty) => {
            match f {
                Cmp::Lt => loop2!($t, $t => u8, |x, y| u8::from(x < y)),
                Cmp::Le => loop2!($t, $t => u8, |x, y| u8::from(x <= y)),
                Cmp::Gt => loop2!($t, $t => u8, |x, y| u8::from(x > y)),
                _ => loop2!($t, $t => u8, |x, y| u8::from(x >= y)),
            }
        };
    }
    match f {
        Cmp::Eq | Cmp::Ne => by_bits!(ty, equal, equal, compare(f, Ty::U8)),
        _ => by_type!(ty, ordered, ordered, compare(f, Ty::U8)),
    }
}

/// A choice between values of `size` bytes.
pub fn select(size: usize) -> Loop {
    macro_rules! any {
        ($t:ty) => {
            loop3!(u8, $t, $t => $t, |p, x, y| if p != 0 { x } else { y })
        };
    }
    match size {
        1 => any!(u8),
        2 => any!(u16),
        4 => any!(u32),
        _ => any!(u64),
    }
}

/// `x * y + z`.
pub fn mul_add(ty: Ty) -> Option<Loop> {
    macro_rules! integer {
        ($t:ty) => {
            Some(loop3!($t, $t, $t => $t, |x, y, z| x.wrapping_mul(y).wrapping_add(z)))
        };
    }
    macro_rules! float {
        ($t:ty) => {
            Some(loop3!($t, $t, $t => $t, |x, y, z| x.mul_add(y, z)))
        };
    }
    by_bits!(ty, integer, float, None)
}

/// A conversion as `stablehlo.convert` has it.
pub fn convert(from: Ty, to: Ty) -> Loop {
    macro_rules! pair {
        ($from:ty, $to:ty) => {
            loop1!($from => $to, |x| x as $to)
        };
    }
    macro_rules! from {
        ($from:ty, $by:ident) => {{
            macro_rules! to {
                ($to:ty) => {
                    pair!($from, $to)
                };
            }
            $by!(to, to, to, loop1!($from => u8, |x| u8::from(x != 0 as $from)))
        }};
    }
    // Integers are cut or extended by their own sign; that of the result does not matter.
    macro_rules! integer {
        ($t:ty) => {
            from!($t, by_bits)
        };
    }
    macro_rules! float {
        ($t:ty) => {
            from!($t, by_type)
        };
    }
    by_type!(from, integer, float, convert(Ty::U8, to))
}

/// Elements in memory to lanes; `None` where they are the same.
pub fn load(elem: ElementType) -> Option<Loop> {
    match elem {
        ElementType::I1 => Some(loop1!(u8 => u8, |x| u8::from(x != 0))),
        ElementType::BF16 => Some(loop1!(u16 => f32, |x| from_bf16(x))),
        ElementType::F16 => Some(loop1!(u16 => f32, |x| from_f16(x))),
        _ => None,
    }
}

/// Lanes to elements in memory; `None` where they are the same.
pub fn store(elem: ElementType) -> Option<Loop> {
    match elem {
        ElementType::BF16 => Some(loop1!(f32 => u16, |x| to_bf16(x))),
        ElementType::F16 => Some(loop1!(f32 => u16, |x| to_f16(x))),
        _ => None,
    }
}

/// An `f32` rounded to what `elem` holds.
pub fn round(elem: ElementType) -> Option<Loop> {
    macro_rules! by_code {
        ($($name:ident),*) => {
            match elem {
                ElementType::BF16 => Some(loop1!(f32 => f32, |x| from_bf16(to_bf16(x)))),
                ElementType::F16 => Some(loop1!(f32 => f32, |x| from_f16(to_f16(x)))),
                ElementType::F32 | ElementType::F64 => Some(loop1!(f32 => f32, |x| x)),
                $(ElementType::$name => Some(loop1!(f32 => f32, |x| round_by_code(ElementType::$name, x))),)*
                _ => None,
            }
        };
    }
    by_code!(
        F4E2M1FN,
        F6E2M3FN,
        F6E3M2FN,
        F8E3M4,
        F8E4M3,
        F8E4M3FN,
        F8E4M3FNUZ,
        F8E4M3B11FNUZ,
        F8E5M2,
        F8E5M2FNUZ,
        F8E8M0FNU,
        TF32
    )
}

fn round_by_code(elem: ElementType, x: f32) -> f32 {
    meshwork_ir::float::decode(elem, meshwork_ir::float::encode(elem, x.into())) as f32
}

/// The same element `n` times, and every `stride`-th byte position gathered or scattered, by element size.
pub mod copy {
    macro_rules! by_size {
        ($size:expr, $body:ident) => {
            match $size {
                1 => $body!(u8),
                2 => $body!(u16),
                4 => $body!(u32),
                _ => $body!(u64),
            }
        };
    }

    /// Repeats the first of `n` elements of `size` bytes at `tile`.
    ///
    /// # Safety
    /// `tile` has room for `n` aligned elements, and the first is there.
    pub unsafe fn fill(tile: *mut u8, size: usize, n: usize) {
        macro_rules! body {
            ($t:ty) => {{
                // SAFETY: the caller's promise.
                let tile = unsafe { std::slice::from_raw_parts_mut(tile.cast::<$t>(), n.max(1)) };
                let first = tile[0];
                tile.fill(first);
            }};
        }
        by_size!(size, body)
    }

    /// Reads `n` elements of `size` bytes, `stride` bytes apart.
    ///
    /// # Safety
    /// They are there, and `tile` has room for them apart from them.
    pub unsafe fn gather(tile: *mut u8, from: *const u8, stride: isize, size: usize, n: usize) {
        macro_rules! body {
            ($t:ty) => {
                for i in 0..n {
                    // SAFETY: the caller's promise.
                    unsafe { *tile.cast::<$t>().add(i) = *from.offset(stride * i as isize).cast::<$t>() }
                }
            };
        }
        by_size!(size, body)
    }

    /// Writes `n` elements of `size` bytes `stride` bytes apart.
    ///
    /// # Safety
    /// There is room for them, and `tile` holds them.
    pub unsafe fn scatter(to: *mut u8, tile: *const u8, stride: isize, size: usize, n: usize) {
        macro_rules! body {
            ($t:ty) => {
                for i in 0..n {
                    // SAFETY: the caller's promise.
                    unsafe { *to.offset(stride * i as isize).cast::<$t>() = *tile.cast::<$t>().add(i) }
                }
            };
        }
        by_size!(size, body)
    }
}
