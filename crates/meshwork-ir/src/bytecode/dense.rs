//! Elements of constants, and numbers of a known type.

use std::sync::Arc;

use super::cursor::{Cursor, Read};
use crate::{Attr, Dense, DenseData, ElementClass, ElementType, TensorType, Type, float};

/// The number of type `elem` at the cursor.
pub(super) fn number(c: &mut Cursor<'_>, elem: ElementType) -> Read<Attr> {
    let bits = bits(c, elem.bits())?;
    let unused = 64 - elem.bits().min(64) as u32;
    Ok(match elem.class() {
        ElementClass::Bool => Attr::Bool(bits & 1 != 0),
        ElementClass::Signed => Attr::Int(((bits << unused) as i64) >> unused, elem),
        ElementClass::Unsigned => Attr::Int((bits << unused >> unused) as i64, elem),
        ElementClass::Float => Attr::Float(float::decode(elem, bits << unused >> unused), elem),
        ElementClass::Complex => return Err(c.error(format_args!("a number of type {elem}"))),
    })
}

/// A number of this many bits, at most 64.
fn bits(c: &mut Cursor<'_>, width: usize) -> Read<u64> {
    if width <= 8 { c.byte().map(u64::from) } else { c.signed().map(|v| v as u64) }
}

/// An `f64`.
pub(super) fn double(c: &mut Cursor<'_>) -> Read<f64> {
    Ok(f64::from_bits(bits(c, 64)?))
}

/// The constant of type `ty` whose elements are the next bytes.
pub(super) fn dense(c: &mut Cursor<'_>, ty: &Type) -> Read<Attr> {
    let here = *c;
    let bytes = c.blob()?;
    let Type::Tensor(ty) = ty else { return Err(here.error(format_args!("elements of type {ty}"))) };
    match data(bytes, ty) {
        Some(data) => Ok(Attr::Dense(Arc::new(Dense { ty: ty.clone(), data }))),
        None => Err(here.error(format_args!("{} bytes of elements do not make a {ty}", bytes.len()))),
    }
}

/// Elements of a constant: all of them, or one for all; booleans are eight to a byte.
pub(super) fn data(bytes: &[u8], ty: &TensorType) -> Option<DenseData> {
    let count = usize::try_from(ty.num_elements()?).ok()?;
    if ty.elem != ElementType::I1 || count < 2 || bytes.len() != count.div_ceil(8) {
        return DenseData::from_raw(bytes, ty);
    }
    if bytes == [0xff] {
        return Some(DenseData::Splat([1].into()));
    }
    let unpacked: Vec<u8> = (0..count).map(|i| bytes[i / 8] >> (i % 8) & 1).collect();
    DenseData::from_raw(&unpacked, ty)
}

/// `array<elem: ...>` of these bytes.
pub(super) fn array(c: &Cursor<'_>, elem: ElementType, count: usize, bytes: &[u8]) -> Read<Attr> {
    let size = if elem == ElementType::I1 { 1 } else { elem.bits().div_ceil(8) };
    if elem.is_complex() || count.checked_mul(size) != Some(bytes.len()) {
        return Err(c.error(format_args!("{} bytes do not make {count} elements of type {elem}", bytes.len())));
    }
    let wide = |chunk: &[u8]| {
        let mut wide = [0; 8];
        wide[..size].copy_from_slice(chunk);
        u64::from_le_bytes(wide)
    };
    Ok(match elem {
        ElementType::I64 => Attr::I64Array(bytes.chunks_exact(size).map(|c| wide(c) as i64).collect()),
        ElementType::I1 => Attr::BoolArray(bytes.iter().map(|&b| b != 0).collect()),
        _ => {
            // Arrays of other types are kept as text.
            let unused = 64 - elem.bits() as u32;
            let one = |chunk: &[u8]| match elem.class() {
                ElementClass::Float => Attr::Float(float::decode(elem, wide(chunk)), elem).to_string(),
                ElementClass::Signed => (((wide(chunk) << unused) as i64) >> unused).to_string(),
                _ => wide(chunk).to_string(),
            };
            let one = |chunk: &[u8]| one(chunk).split(" : ").next().unwrap_or_default().to_string();
            let items: Vec<String> = bytes.chunks_exact(size).map(one).collect();
            let colon = if items.is_empty() { "" } else { ": " };
            Attr::Opaque(format!("array<{elem}{colon}{}>", items.join(", ")).into())
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bools(count: i64, bytes: &[u8]) -> Option<Vec<u8>> {
        let ty = TensorType::new([count], ElementType::I1);
        let data = data(bytes, &ty)?;
        Some(Dense { ty: Arc::new(ty), data }.to_literal()?.bytes().to_vec())
    }

    #[test]
    fn booleans_are_packed_unless_there_is_one() {
        assert_eq!(bools(3, &[0b101]), Some(vec![1, 0, 1]));
        assert_eq!(bools(3, &[0xff]), Some(vec![1, 1, 1]));
        assert_eq!(bools(9, &[0, 1]), Some(vec![0, 0, 0, 0, 0, 0, 0, 0, 1]));
        assert_eq!(bools(9, &[0xff]), Some(vec![1; 9]));
        assert_eq!(bools(9, &[0]), Some(vec![0; 9]));
        assert_eq!(bools(1, &[1]), Some(vec![1]));
        assert_eq!(bools(0, &[]), Some(vec![]));
        assert_eq!(bools(9, &[0, 1, 2]), None);
    }
}
