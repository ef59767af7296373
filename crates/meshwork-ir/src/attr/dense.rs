//! `dense<...>` constants: elements in row-major order, one value for all where they are equal.

use std::sync::Arc;

use smol_str::SmolStr;

use crate::{ElementType, Literal, TensorType};

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

impl Dense {
    /// Every element equal to `bytes`, one element in storage format.
    pub fn splat(ty: Arc<TensorType>, bytes: &[u8]) -> Dense {
        Dense { ty, data: DenseData::Splat(bytes.into()) }
    }

    /// The constant with the elements of `literal`; a splat if they are all equal by bits.
    pub fn from_literal(literal: &Literal) -> Dense {
        let size = literal.elem().storage_bytes();
        let bytes = literal.bytes();
        let ty = Arc::new(TensorType::new(literal.dims().iter().copied(), literal.elem()));
        let splat = bytes.len() >= size && bytes.chunks_exact(size).all(|c| c == &bytes[..size]);
        let data = if splat { DenseData::Splat(bytes[..size].into()) } else { DenseData::Full(bytes.into()) };
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
