//! Element types: what one number of a tensor is, how wide it is, and its MLIR spelling.

use std::fmt;

macro_rules! element_types {
    ($($variant:ident $text:literal $class:ident $bits:literal),* $(,)?) => {
        /// The type of one element of a tensor.
        ///
        /// Integers without a sign in their MLIR spelling (`i32`) are signed in StableHLO.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
        #[allow(missing_docs)] // the variants are the MLIR spellings
        pub enum ElementType { $($variant),* }

        impl ElementType {
            /// Every element type, in declaration order.
            pub const ALL: &[ElementType] = &[$(ElementType::$variant),*];

            /// The MLIR spelling, `f32` or `complex<f64>`.
            pub fn text(self) -> &'static str {
                match self { $(ElementType::$variant => $text),* }
            }

            /// The class that decides which operations apply.
            pub const fn class(self) -> ElementClass {
                match self { $(ElementType::$variant => ElementClass::$class),* }
            }

            /// Width in bits as StableHLO counts it (4 for `i4`, 64 for `complex<f32>`).
            pub fn bits(self) -> usize {
                match self { $(ElementType::$variant => $bits),* }
            }

            /// The type spelled `text`, if there is one.
            pub fn from_text(text: &str) -> Option<Self> {
                Some(match text { $($text => ElementType::$variant,)* _ => return None })
            }
        }
    };
}

/// What kind of number an element is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ElementClass {
    /// `i1`.
    Bool,
    /// Two's complement integers.
    Signed,
    /// Unsigned integers.
    Unsigned,
    /// Floating point, of any width.
    Float,
    /// A pair of floats.
    Complex,
}

element_types! {
    I1 "i1" Bool 1,
    I2 "i2" Signed 2, I4 "i4" Signed 4, I8 "i8" Signed 8, I16 "i16" Signed 16,
    I32 "i32" Signed 32, I64 "i64" Signed 64, Index "index" Signed 64,
    UI2 "ui2" Unsigned 2, UI4 "ui4" Unsigned 4, UI8 "ui8" Unsigned 8, UI16 "ui16" Unsigned 16,
    UI32 "ui32" Unsigned 32, UI64 "ui64" Unsigned 64,
    F4E2M1FN "f4E2M1FN" Float 4, F6E2M3FN "f6E2M3FN" Float 6, F6E3M2FN "f6E3M2FN" Float 6,
    F8E3M4 "f8E3M4" Float 8, F8E4M3 "f8E4M3" Float 8, F8E4M3FN "f8E4M3FN" Float 8,
    F8E4M3FNUZ "f8E4M3FNUZ" Float 8, F8E4M3B11FNUZ "f8E4M3B11FNUZ" Float 8,
    F8E5M2 "f8E5M2" Float 8, F8E5M2FNUZ "f8E5M2FNUZ" Float 8, F8E8M0FNU "f8E8M0FNU" Float 8,
    BF16 "bf16" Float 16, F16 "f16" Float 16, TF32 "tf32" Float 19, F32 "f32" Float 32, F64 "f64" Float 64,
    C64 "complex<f32>" Complex 64, C128 "complex<f64>" Complex 128,
}

impl ElementType {
    /// Bytes one element takes in a [`Literal`](crate::Literal): types narrower than a byte take one.
    pub fn storage_bytes(self) -> usize {
        match self {
            ElementType::TF32 => 4,
            _ => self.bits().div_ceil(8),
        }
    }

    /// Signed or unsigned integer (not `i1`).
    pub fn is_integer(self) -> bool {
        matches!(self.class(), ElementClass::Signed | ElementClass::Unsigned)
    }

    /// Floating point of any width.
    pub fn is_float(self) -> bool {
        self.class() == ElementClass::Float
    }

    /// A pair of floats.
    pub fn is_complex(self) -> bool {
        self.class() == ElementClass::Complex
    }

    /// The type of the real part of a complex type; any other type itself.
    pub fn real_part(self) -> ElementType {
        match self {
            ElementType::C64 => ElementType::F32,
            ElementType::C128 => ElementType::F64,
            other => other,
        }
    }
}

impl fmt::Display for ElementType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spelling_parses_back() {
        for &ty in ElementType::ALL {
            assert_eq!(ElementType::from_text(ty.text()), Some(ty));
        }
    }
}
