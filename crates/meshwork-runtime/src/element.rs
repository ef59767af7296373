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

    /// Appends the little-endian bytes of all `elements`.
    fn write_all(elements: &[Self], out: &mut Vec<u8>) {
        out.reserve(elements.len() * Self::TYPE.storage_bytes());
        elements.iter().for_each(|e| e.write(out));
    }

    /// The numbers from their little-endian bytes.
    fn read_all(bytes: &[u8]) -> Vec<Self> {
        bytes.chunks_exact(Self::TYPE.storage_bytes()).map(Self::from_bytes).collect()
    }
}

/// As [`Element::write_all`] and [`Element::read_all`], for numbers that are in memory as they are written.
macro_rules! in_bulk {
    () => {
        #[cfg(target_endian = "little")]
        fn write_all(elements: &[Self], out: &mut Vec<u8>) {
            // SAFETY: a number has no padding, so all its bytes may be read.
            let bytes = unsafe { std::slice::from_raw_parts(elements.as_ptr().cast(), size_of_val(elements)) };
            out.extend_from_slice(bytes);
        }

        #[cfg(target_endian = "little")]
        fn read_all(bytes: &[u8]) -> Vec<Self> {
            let n = bytes.len() / size_of::<Self>();
            let mut out = Vec::with_capacity(n);
            // SAFETY: there is room for `n` numbers, and any bytes are a number.
            unsafe {
                let to = out.as_mut_ptr() as *mut u8;
                std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, n * size_of::<Self>());
                out.set_len(n);
            }
            out
        }
    };
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

                in_bulk!();
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

                in_bulk!();
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
