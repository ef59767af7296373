//! Numbers that kernels compute with, and how elements of each type are read as one and written from one.

use meshwork_ir::{ElementType, float, scalar};
pub(crate) use rustfft::num_complex::Complex;

/// A type that kernels compute in.
pub(crate) trait Num: Copy + Default + PartialEq + Send + Sync + std::fmt::Debug + 'static {
    /// `self + a * b`; fused if `FUSED`, which is fast only where the processor has that instruction.
    fn add_product<const FUSED: bool>(self, a: Self, b: Self) -> Self;
    /// `self + other`.
    fn plus(self, other: Self) -> Self;
}

macro_rules! floats {
    ($($t:ty)*) => {$(
        impl Num for $t {
            #[inline(always)]
            fn add_product<const FUSED: bool>(self, a: Self, b: Self) -> Self {
                if FUSED { a.mul_add(b, self) } else { self + a * b }
            }
            #[inline(always)]
            fn plus(self, other: Self) -> Self {
                self + other
            }
        }
    )*};
}
floats!(f32 f64);

macro_rules! ints {
    ($($t:ty)*) => {$(
        impl Num for $t {
            #[inline(always)]
            fn add_product<const FUSED: bool>(self, a: Self, b: Self) -> Self {
                self.wrapping_add(a.wrapping_mul(b))
            }
            #[inline(always)]
            fn plus(self, other: Self) -> Self {
                self.wrapping_add(other)
            }
        }
    )*};
}
ints!(i32 i64);

macro_rules! complex {
    ($($t:ty)*) => {$(
        impl Num for Complex<$t> {
            #[inline(always)]
            fn add_product<const FUSED: bool>(self, a: Self, b: Self) -> Self {
                Complex {
                    re: self.re + (a.re * b.re - a.im * b.im),
                    im: self.im + (a.re * b.im + a.im * b.re),
                }
            }
            #[inline(always)]
            fn plus(self, other: Self) -> Self {
                Complex { re: self.re + other.re, im: self.im + other.im }
            }
        }
    )*};
}
complex!(f32 f64);

/// Reads elements of one type as `T`, and writes them.
pub(crate) trait Element<T>: Copy + Send + Sync + std::fmt::Debug + 'static {
    /// What is in memory.
    type Raw: Copy + Default;
    /// Whether that is the number itself.
    const SAME: bool = false;
    /// As a number.
    fn load(self, raw: Self::Raw) -> T;
    /// From a number, rounded or wrapped.
    fn store(self, value: T) -> Self::Raw;
}

/// Elements that are the number itself.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Same;

impl<T: Num> Element<T> for Same {
    type Raw = T;
    const SAME: bool = true;
    #[inline(always)]
    fn load(self, raw: T) -> T {
        raw
    }
    #[inline(always)]
    fn store(self, value: T) -> T {
        value
    }
}

/// `bf16` as `f32`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bf16;

impl Element<f32> for Bf16 {
    type Raw = u16;
    #[inline(always)]
    fn load(self, raw: u16) -> f32 {
        f32::from_bits(u32::from(raw) << 16)
    }
    #[inline(always)]
    fn store(self, value: f32) -> u16 {
        let bits = value.to_bits();
        // To nearest, ties to even; a NaN stays one.
        let rounded = (bits.wrapping_add(0x7FFF + ((bits >> 16) & 1)) >> 16) as u16;
        let nan = (bits >> 16) as u16 & 0x8000 | 0x7FC0;
        if value.is_nan() { nan } else { rounded }
    }
}

/// `f32` that is read rounded to `bf16`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rounded;

impl Element<f32> for Rounded {
    type Raw = f32;
    #[inline(always)]
    fn load(self, raw: f32) -> f32 {
        Bf16.load(Bf16.store(raw))
    }
    #[inline(always)]
    fn store(self, value: f32) -> f32 {
        value
    }
}

/// `f16` as `f32`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct F16;

impl Element<f32> for F16 {
    type Raw = u16;
    #[inline(always)]
    fn load(self, raw: u16) -> f32 {
        let sign = u32::from(raw & 0x8000) << 16;
        let magnitude = u32::from(raw & 0x7FFF);
        // Shifted into place, the exponent is off by 112. Subnormals are what is behind a one of theirs: nothing here is a
        // subnormal `f32`, which products of floats take as zero.
        let shifted = magnitude << 13;
        let least = 113 << 23;
        let normal = f32::from_bits(shifted + (112 << 23));
        let subnormal = f32::from_bits(shifted + least) - f32::from_bits(least);
        let special = f32::from_bits(shifted | 0x7F80_0000);
        let value = if magnitude < 0x400 { subnormal } else { normal };
        let value = if magnitude >= 0x7C00 { special } else { value };
        f32::from_bits(value.to_bits() | sign)
    }
    #[inline(always)]
    fn store(self, value: f32) -> u16 {
        let bits = value.to_bits();
        let (sign, magnitude) = ((bits >> 16) as u16 & 0x8000, bits & 0x7FFF_FFFF);
        let out = if magnitude > 0x7F80_0000 {
            0x7E00
        } else if magnitude >= 0x4780_0000 {
            0x7C00
        } else if magnitude < 0x3880_0000 {
            // Subnormal: adding 0.5 leaves the rounded value in the low bits.
            (f32::from_bits(magnitude) + 0.5).to_bits().wrapping_sub(0x3F00_0000) as u16
        } else {
            let odd = (magnitude >> 13) & 1;
            (magnitude.wrapping_add(0xC800_0FFF + odd) >> 13) as u16
        };
        sign | out
    }
}

/// Floats of at most eight bits as `f32`, by table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Narrow {
    elem: ElementType,
    table: &'static [f32; 256],
    /// Whether they are results of products, which are rounded to `f16` first: see `round_product`.
    through_half: bool,
}

impl Narrow {
    /// Elements of type `elem`.
    pub(crate) fn new(elem: ElementType) -> Narrow {
        use std::collections::HashMap;
        use std::sync::{LazyLock, Mutex, PoisonError};
        static TABLES: LazyLock<Mutex<HashMap<ElementType, &'static [f32; 256]>>> = LazyLock::new(Mutex::default);
        let mut tables = TABLES.lock().unwrap_or_else(PoisonError::into_inner);
        let make = || -> &'static [f32; 256] {
            Box::leak(Box::new(std::array::from_fn(|bits| float::decode(elem, bits as u64) as f32)))
        };
        Narrow { elem, table: tables.entry(elem).or_insert_with(make), through_half: false }
    }

    /// Elements of type `elem` that are results of products.
    pub(crate) fn of_products(elem: ElementType) -> Narrow {
        Narrow { through_half: scalar::is_through_half(elem), ..Narrow::new(elem) }
    }
}

impl Element<f32> for Narrow {
    type Raw = u8;
    #[inline(always)]
    fn load(self, raw: u8) -> f32 {
        self.table[raw as usize]
    }
    fn store(self, value: f32) -> u8 {
        let value = if self.through_half { F16.load(F16.store(value)) } else { value };
        float::encode(self.elem, f64::from(value)) as u8
    }
}

/// Integers of another width, wrapped.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cast<R>(pub std::marker::PhantomData<R>);

macro_rules! casts {
    ($($raw:ty => $($t:ty)*;)*) => {$($(
        impl Element<$t> for Cast<$raw> {
            type Raw = $raw;
            #[inline(always)]
            fn load(self, raw: $raw) -> $t {
                raw as $t
            }
            #[inline(always)]
            fn store(self, value: $t) -> $raw {
                value as $raw
            }
        }
    )*)*};
}
casts! { i8 => i32 i64; u8 => i32 i64; i16 => i32 i64; u16 => i32 i64; i32 => i64; u32 => i32 i64; u64 => i64; f32 => f64; }

/// `i1`: zero or one; anything but zero is true.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Truth;

macro_rules! truths {
    ($($t:ty)*) => {$(
        impl Element<$t> for Truth {
            type Raw = u8;
            #[inline(always)]
            fn load(self, raw: u8) -> $t {
                <$t>::from(raw != 0)
            }
            #[inline(always)]
            fn store(self, value: $t) -> u8 {
                u8::from(value != 0)
            }
        }
    )*};
}
truths!(i32 i64);

/// Sub-byte integers, which memory holds extended to a byte.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Nibble {
    /// Width in bits.
    pub bits: u32,
    /// Whether the top bit is a sign.
    pub signed: bool,
}

macro_rules! nibbles {
    ($($t:ty)*) => {$(
        impl Element<$t> for Nibble {
            type Raw = u8;
            #[inline(always)]
            fn load(self, raw: u8) -> $t {
                if self.signed { raw as i8 as $t } else { raw as $t }
            }
            #[inline(always)]
            fn store(self, value: $t) -> u8 {
                let unused = 8 - self.bits;
                let low = (value as u8) << unused;
                if self.signed { ((low as i8) >> unused) as u8 } else { low >> unused }
            }
        }
    )*};
}
nibbles!(i32 i64);

/// Runs `$body` with `$e` the [`Element`] of type `$elem` for numbers of type `f32`; `$other` for other types.
macro_rules! with_f32_element {
    ($elem:expr, $e:ident => $body:expr, else $other:expr) => {{
        use meshwork_ir::ElementType as E;
        use $crate::library::num::{Bf16, F16, Narrow, Same};
        match $elem {
            E::F32 | E::TF32 => {
                let $e = Same;
                $body
            }
            E::BF16 => {
                let $e = Bf16;
                $body
            }
            E::F16 => {
                let $e = F16;
                $body
            }
            elem if elem.is_float() && elem.bits() <= 8 => {
                let $e = Narrow::new(elem);
                $body
            }
            _ => $other,
        }
    }};
}

/// The same for integers and `i1` as `$t`, `i32` or `i64`.
macro_rules! with_int_element {
    ($elem:expr, $t:ident, $e:ident => $body:expr, else $other:expr) => {{
        use meshwork_ir::ElementType as E;
        use std::marker::PhantomData;
        use $crate::library::num::{Cast, Nibble, Truth};
        match $elem {
            E::I1 => {
                let $e = Truth;
                $body
            }
            E::I8 => {
                let $e = Cast::<i8>(PhantomData);
                $body
            }
            E::UI8 => {
                let $e = Cast::<u8>(PhantomData);
                $body
            }
            E::I16 => {
                let $e = Cast::<i16>(PhantomData);
                $body
            }
            E::UI16 => {
                let $e = Cast::<u16>(PhantomData);
                $body
            }
            E::UI32 => {
                let $e = Cast::<u32>(PhantomData);
                $body
            }
            E::I2 | E::I4 | E::UI2 | E::UI4 => {
                let $e = Nibble { bits: $elem.bits() as u32, signed: matches!($elem, E::I2 | E::I4) };
                $body
            }
            elem => $crate::library::num::with_wide_int!(elem, $t, $e => $body, else $other),
        }
    }};
}

/// The types that only some of `i32` and `i64` hold.
macro_rules! with_wide_int {
    ($elem:expr, i32, $e:ident => $body:expr, else $other:expr) => {
        match $elem {
            E::I32 => {
                let $e = $crate::library::num::Same;
                $body
            }
            _ => $other,
        }
    };
    ($elem:expr, i64, $e:ident => $body:expr, else $other:expr) => {
        match $elem {
            E::I32 => {
                let $e = Cast::<i32>(PhantomData);
                $body
            }
            E::I64 | E::Index => {
                let $e = $crate::library::num::Same;
                $body
            }
            E::UI64 => {
                let $e = Cast::<u64>(PhantomData);
                $body
            }
            _ => $other,
        }
    };
}

pub(crate) use {with_f32_element, with_int_element, with_wide_int};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_precision_rounds_as_the_table_of_formats() {
        for i in 0..=0xFFFFu32 {
            for low in [0u32, 1, 0x0FFF, 0x1000, 0x1001, 0x7FFF, 0x8000, 0x8001, 0xFFFF] {
                let value = f32::from_bits(i << 16 | low);
                let wide = f64::from(value);
                if !value.is_nan() {
                    assert_eq!(u64::from(Bf16.store(value)), float::encode(ElementType::BF16, wide), "{value:e}");
                    assert_eq!(u64::from(F16.store(value)), float::encode(ElementType::F16, wide), "{value:e}");
                } else {
                    assert!(Bf16.load(Bf16.store(value)).is_nan() && F16.load(F16.store(value)).is_nan());
                }
            }
            let (a, b) = (F16.load(i as u16), float::decode(ElementType::F16, u64::from(i)) as f32);
            assert!(a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan()), "{i:#x} {a:e} {b:e}");
        }
    }

    #[test]
    fn sub_byte_integers_wrap() {
        let e = Nibble { bits: 4, signed: true };
        assert_eq!((e.store(7i32), e.store(8i32), e.store(-9i32)), (7, 0xF8, 7));
        assert_eq!(Element::<i32>::load(e, 0xF8), -8);
        assert_eq!(Nibble { bits: 2, signed: false }.store(7i32), 3);
    }
}
