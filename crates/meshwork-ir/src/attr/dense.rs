//! `dense<...>` constants: elements in row-major order, one value for all where they are equal.

use std::sync::Arc;

use smol_str::SmolStr;

use crate::{ElementClass, ElementType, Literal, TensorType};

/// A dense constant and its type.
#[derive(Clone, PartialEq, Debug)]
pub struct Dense {
    /// Type of the constant. Its dims are static.
    pub ty: Arc<TensorType>,
    /// The elements.
    pub data: DenseData,
}

/// The elements of a [`Dense`], in the storage format of [`Literal`].
#[derive(Clone, PartialEq, Debug)]
pub enum DenseData {
    /// Every element is this one.
    Splat(Arc<[u8]>),
    /// All elements, row-major.
    Full(Arc<[u8]>),
    /// `dense_resource<name>`: elements stored at the end of the file under this name.
    /// The parser replaces it by the bytes where the file has them.
    Resource(SmolStr),
}

impl DenseData {
    /// These elements, in storage format; a splat if they are all equal by bits.
    pub fn of_elements(bytes: &[u8], elem: ElementType) -> DenseData {
        let size = elem.storage_bytes();
        match bytes.get(..size) {
            Some(first) if bytes.chunks_exact(size).all(|c| c == first) => DenseData::Splat(first.into()),
            _ => DenseData::Full(bytes.into()),
        }
    }

    /// The elements of a constant of type `ty` from the bytes that MLIR stores: all of them, or one for all.
    /// `None` if their number does not fit the type.
    pub(crate) fn from_raw(bytes: &[u8], ty: &TensorType) -> Option<DenseData> {
        let size = ty.elem.storage_bytes();
        let count = ty.num_elements().and_then(|n| usize::try_from(n).ok());
        let whole = |bytes: &[u8]| -> Vec<u8> { bytes.iter().map(|&b| one_byte(b, ty.elem)).collect() };
        if count.and_then(|n| n.checked_mul(size)) == Some(bytes.len()) {
            return Some(if ty.elem.bits() >= 8 {
                DenseData::of_elements(bytes, ty.elem)
            } else {
                DenseData::of_elements(&whole(bytes), ty.elem)
            });
        }
        if bytes.len() == size {
            return Some(DenseData::Splat(whole(bytes).into()));
        }
        let count = count.filter(|n| ty.elem == ElementType::I1 && n.div_ceil(8) == bytes.len())?;
        // Older producers write eight booleans to a byte.
        let unpacked: Vec<u8> = (0..count).map(|i| bytes[i / 8] >> (i % 8) & 1).collect();
        Some(DenseData::of_elements(&unpacked, ty.elem))
    }
}

/// A byte as MLIR stores it in the storage format of literals: booleans are 0 or 1, narrow integers fill their byte.
fn one_byte(byte: u8, elem: ElementType) -> u8 {
    let bits = elem.bits();
    match elem.class() {
        ElementClass::Bool => u8::from(byte != 0),
        _ if bits >= 8 => byte,
        ElementClass::Signed => ((byte << (8 - bits)) as i8 >> (8 - bits)) as u8,
        _ => byte & ((1 << bits) - 1),
    }
}

impl Dense {
    /// Every element equal to `bytes`, one element in storage format.
    pub fn splat(ty: Arc<TensorType>, bytes: &[u8]) -> Dense {
        Dense { ty, data: DenseData::Splat(bytes.into()) }
    }

    /// The constant with the elements of `literal`; a splat if they are all equal by bits.
    pub fn from_literal(literal: &Literal) -> Dense {
        let ty = Arc::new(TensorType::new(literal.dims().iter().copied(), literal.elem()));
        let data = DenseData::of_elements(literal.bytes(), literal.elem());
        Dense { ty, data }
    }

    /// One `i64` per element for integer constants; `None` for other types or a missing resource.
    pub fn to_i64s(&self) -> Option<Vec<i64>> {
        if !(self.ty.elem.is_integer() || self.ty.elem == ElementType::I1) {
            return None;
        }
        let literal = self.to_literal()?;
        Some((0..literal.len()).map(|i| literal.get_i64(i)).collect())
    }

    /// All elements spelled out; `None` for a missing resource or a dynamic type.
    pub fn to_literal(&self) -> Option<Literal> {
        let n = self.ty.num_elements()? as usize;
        let bytes = match &self.data {
            DenseData::Full(b) => b.to_vec(),
            DenseData::Splat(b) => b.repeat(n),
            DenseData::Resource(_) => return None,
        };
        Literal::from_bytes(self.ty.dims.iter().copied(), self.ty.elem, bytes)
    }

    /// The one element all others equal, if the constant is stored as a splat.
    pub fn splat_bytes(&self) -> Option<&[u8]> {
        match &self.data {
            DenseData::Splat(b) => Some(b),
            _ => None,
        }
    }
}
