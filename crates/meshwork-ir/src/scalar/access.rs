//! Elements of a [`Literal`] as [`Scalar`]s.

use super::{Scalar, round, wrap_signed, wrap_unsigned};
use crate::{ElementClass, ElementType, Literal, float};

/// The bytes of `N` from position `at`.
#[inline]
fn bytes_at<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut out = [0; N];
    out.copy_from_slice(&bytes[at..at + N]);
    out
}

impl Literal {
    /// Element `i` in row-major order.
    #[inline]
    pub fn get(&self, i: usize) -> Scalar {
        let b = self.bytes();
        match self.elem() {
            ElementType::I1 => Scalar::Bool(b[i] != 0),
            ElementType::F32 => Scalar::Float(f64::from(f32::from_le_bytes(bytes_at(b, 4 * i)))),
            ElementType::F64 => Scalar::Float(f64::from_le_bytes(bytes_at(b, 8 * i))),
            ElementType::I32 => Scalar::Int(i64::from(i32::from_le_bytes(bytes_at(b, 4 * i)))),
            ElementType::I64 | ElementType::Index => Scalar::Int(i64::from_le_bytes(bytes_at(b, 8 * i))),
            ElementType::C64 => Scalar::Complex(
                f64::from(f32::from_le_bytes(bytes_at(b, 8 * i))),
                f64::from(f32::from_le_bytes(bytes_at(b, 8 * i + 4))),
            ),
            ElementType::C128 => {
                Scalar::Complex(f64::from_le_bytes(bytes_at(b, 16 * i)), f64::from_le_bytes(bytes_at(b, 16 * i + 8)))
            }
            elem => match elem.class() {
                ElementClass::Signed => Scalar::Int(wrap_signed(self.raw(i) as i64, elem.bits())),
                ElementClass::Unsigned => Scalar::UInt(wrap_unsigned(self.raw(i), elem.bits())),
                _ => Scalar::Float(float::decode(elem, self.raw(i))),
            },
        }
    }

    /// The storage of element `i`, zero-extended; for element types of at most 64 bits.
    #[inline]
    fn raw(&self, i: usize) -> u64 {
        let size = self.elem().storage_bytes();
        let mut wide = [0; 8];
        wide[..size].copy_from_slice(&self.bytes()[i * size..(i + 1) * size]);
        u64::from_le_bytes(wide)
    }

    /// Writes element `i`, converted to the literal's element type as `stablehlo.convert` does.
    #[inline]
    pub fn set(&mut self, i: usize, value: Scalar) {
        let elem = self.elem();
        let value = value.cast_to(elem);
        let b = self.bytes_mut();
        match (elem, value) {
            (_, Scalar::Bool(v)) => b[i] = u8::from(v),
            (ElementType::F32, Scalar::Float(v)) => b[4 * i..4 * i + 4].copy_from_slice(&(v as f32).to_le_bytes()),
            (_, Scalar::Float(v)) => {
                let size = elem.storage_bytes();
                b[i * size..(i + 1) * size].copy_from_slice(&float::encode(elem, v).to_le_bytes()[..size]);
            }
            (_, Scalar::Int(v)) => {
                let size = elem.storage_bytes();
                b[i * size..(i + 1) * size].copy_from_slice(&v.to_le_bytes()[..size]);
            }
            (_, Scalar::UInt(v)) => {
                let size = elem.storage_bytes();
                b[i * size..(i + 1) * size].copy_from_slice(&v.to_le_bytes()[..size]);
            }
            (ElementType::C64, Scalar::Complex(re, im)) => {
                b[8 * i..8 * i + 4].copy_from_slice(&(re as f32).to_le_bytes());
                b[8 * i + 4..8 * i + 8].copy_from_slice(&(im as f32).to_le_bytes());
            }
            (_, Scalar::Complex(re, im)) => {
                b[16 * i..16 * i + 8].copy_from_slice(&re.to_le_bytes());
                b[16 * i + 8..16 * i + 16].copy_from_slice(&im.to_le_bytes());
            }
        }
    }

    /// A tensor of rank 0.
    pub fn scalar(elem: ElementType, value: Scalar) -> Literal {
        let mut out = Literal::zeros([], elem);
        out.set(0, value);
        out
    }

    /// The literal with these elements, each converted to `elem`; `None` if their number does not fit `dims`.
    pub fn from_scalars(
        dims: impl IntoIterator<Item = i64>,
        elem: ElementType,
        values: impl IntoIterator<Item = Scalar>,
    ) -> Option<Literal> {
        let values: Vec<Scalar> = values.into_iter().collect();
        let mut out = Literal::zeros([values.len() as i64], elem);
        for (i, &v) in values.iter().enumerate() {
            out.set(i, v);
        }
        out.reshaped(dims)
    }

    /// The literal with these numbers, each converted to `elem`; `None` if their number does not fit `dims`.
    pub fn from_f64s(dims: impl IntoIterator<Item = i64>, elem: ElementType, values: &[f64]) -> Option<Literal> {
        Literal::from_scalars(dims, elem, values.iter().map(|&v| Scalar::Float(v)))
    }

    /// The literal with these numbers, each converted to `elem`; `None` if their number does not fit `dims`.
    pub fn from_i64s(dims: impl IntoIterator<Item = i64>, elem: ElementType, values: &[i64]) -> Option<Literal> {
        Literal::from_scalars(dims, elem, values.iter().map(|&v| Scalar::Int(v)))
    }

    /// All elements in row-major order.
    pub fn scalars(&self) -> impl ExactSizeIterator<Item = Scalar> {
        (0..self.len()).map(|i| self.get(i))
    }

    /// All elements as floats; of complex numbers the real parts.
    pub fn to_f64s(&self) -> Vec<f64> {
        self.scalars().map(Scalar::as_f64).collect()
    }

    /// All elements as integers; floats are truncated.
    pub fn to_i64s(&self) -> Vec<i64> {
        self.scalars().map(Scalar::as_i64).collect()
    }
}

impl Scalar {
    /// The value as `elem` holds it: wrapped or rounded, and converted if it is of another class.
    #[inline]
    pub fn cast_to(self, elem: ElementType) -> Scalar {
        match (self, elem.class()) {
            (Scalar::Bool(_), ElementClass::Bool) => self,
            (Scalar::Int(v), ElementClass::Signed) => Scalar::Int(wrap_signed(v, elem.bits())),
            (Scalar::UInt(v), ElementClass::Unsigned) => Scalar::UInt(wrap_unsigned(v, elem.bits())),
            (Scalar::Float(v), ElementClass::Float) => Scalar::Float(round(elem, v)),
            (Scalar::Complex(re, im), ElementClass::Complex) => Scalar::Complex(round(elem, re), round(elem, im)),
            _ => super::convert::convert(self, elem),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_keeps_small_numbers() {
        for &elem in ElementType::ALL {
            let mut x = Literal::zeros([3], elem);
            x.set(1, Scalar::from_i64(elem, 1));
            assert_eq!(x.get(1), Scalar::from_i64(elem, 1), "{elem}");
            assert_eq!(x.get(1).as_f64(), 1.0, "{elem}");
            if elem != ElementType::F8E8M0FNU {
                assert_eq!(x.to_f64s(), [0.0, 1.0, 0.0], "{elem}");
            }
        }
    }

    #[test]
    fn narrow_integers_wrap_and_extend() {
        let x = Literal::from_i64s([4], ElementType::I4, &[7, 8, -8, 17]).unwrap();
        assert_eq!(x.to_i64s(), [7, -8, -8, 1]);
        assert_eq!(x.bytes(), [7, 0xF8, 0xF8, 1]);
        let x = Literal::from_i64s([2], ElementType::UI2, &[5, -1]).unwrap();
        assert_eq!(x.to_i64s(), [1, 3]);
    }

    #[test]
    fn wrong_count_is_refused() {
        assert_eq!(Literal::from_f64s([2, 2], ElementType::F32, &[1.0]), None);
        assert_eq!(Literal::from_f64s([0, 2], ElementType::F32, &[]).unwrap().len(), 0);
    }
}
