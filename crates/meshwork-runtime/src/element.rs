//! Rust numeric types as elements of arrays.

use meshwork_ir::{ElementType, Scalar};

/// A Rust number that can be an element of an array.
pub trait Element: Copy + 'static {
    /// The element type.
    const TYPE: ElementType;
    /// The number in the general form.
    fn scalar(self) -> Scalar;
    /// The number from its little-endian bytes, as many as the type has.
    fn from_bytes(bytes: &[u8]) -> Self;
    /// Appends its little-endian bytes.
    fn write(self, out: &mut Vec<u8>);
}

macro_rules! elements {
    ($($ty:ty: $elem:ident $form:ident as $wide:ty),* $(,)?) => {
        $(
            impl Element for $ty {
                const TYPE: ElementType = ElementType::$elem;

                fn scalar(self) -> Scalar {
                    Scalar::$form(self as $wide)
                }

                fn from_bytes(bytes: &[u8]) -> Self {
                    let mut own = [0; std::mem::size_of::<$ty>()];
                    own.copy_from_slice(bytes);
                    <$ty>::from_le_bytes(own)
                }

                fn write(self, out: &mut Vec<u8>) {
                    out.extend(self.to_le_bytes());
                }
            }
        )*
    };
}

elements! {
    f32: F32 Float as f64, f64: F64 Float as f64,
    i8: I8 Int as i64, i16: I16 Int as i64, i32: I32 Int as i64, i64: I64 Int as i64,
    u8: UI8 UInt as u64, u16: UI16 UInt as u64, u32: UI32 UInt as u64, u64: UI64 UInt as u64,
}

macro_rules! halves {
    ($($ty:ty: $elem:ident),*) => {
        $(
            impl Element for $ty {
                const TYPE: ElementType = ElementType::$elem;

                fn scalar(self) -> Scalar {
                    Scalar::Float(self.to_f64())
                }

                fn from_bytes(bytes: &[u8]) -> Self {
                    <$ty>::from_le_bytes([bytes[0], bytes[1]])
                }

                fn write(self, out: &mut Vec<u8>) {
                    out.extend(self.to_le_bytes());
                }
            }
        )*
    };
}

halves! { half::f16: F16, half::bf16: BF16 }

impl Element for bool {
    const TYPE: ElementType = ElementType::I1;

    fn scalar(self) -> Scalar {
        Scalar::Bool(self)
    }

    fn from_bytes(bytes: &[u8]) -> Self {
        bytes[0] != 0
    }

    fn write(self, out: &mut Vec<u8>) {
        out.push(u8::from(self));
    }
}
