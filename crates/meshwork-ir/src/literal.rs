//! A tensor in memory: extents, element type and row-major bytes.
//!
//! Storage: little endian; `i1` and types narrower than a byte take one byte each (sub-byte integers sign- or
//! zero-extended to that byte); complex numbers are the real part, then the imaginary part.

use crate::types::Dims;
use crate::{ElementType, TensorType, Type};

/// A tensor's value.
#[derive(Clone, PartialEq, Debug)]
pub struct Literal {
    dims: Dims,
    elem: ElementType,
    bytes: Vec<u8>,
}

impl Literal {
    /// The literal with these bytes; `None` if their number does not fit the type.
    pub fn from_bytes(dims: impl IntoIterator<Item = i64>, elem: ElementType, bytes: Vec<u8>) -> Option<Literal> {
        let dims: Dims = dims.into_iter().collect();
        let count = TensorType::new(dims.iter().copied(), elem).num_elements()?;
        let fits = usize::try_from(count).ok()?.checked_mul(elem.storage_bytes())? == bytes.len();
        fits.then_some(Literal { dims, elem, bytes })
    }

    /// All elements zero. The caller vouches that the extents are static and fit in memory.
    pub fn zeros(dims: impl IntoIterator<Item = i64>, elem: ElementType) -> Literal {
        let dims: Dims = dims.into_iter().collect();
        let count: i64 = dims.iter().product();
        Literal { dims, elem, bytes: vec![0; count as usize * elem.storage_bytes()] }
    }

    /// Extents.
    pub fn dims(&self) -> &[i64] {
        &self.dims
    }

    /// Element type.
    pub fn elem(&self) -> ElementType {
        self.elem
    }

    /// The tensor type.
    pub fn ty(&self) -> Type {
        Type::tensor(self.dims.iter().copied(), self.elem)
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        self.bytes.len() / self.elem.storage_bytes()
    }

    /// Whether there is no element.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The storage.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The storage, writable.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }

    /// Element `i` as stored.
    pub fn element(&self, i: usize) -> &[u8] {
        let size = self.elem.storage_bytes();
        &self.bytes[i * size..(i + 1) * size]
    }

    /// Writes element `i` as stored.
    pub fn set_element(&mut self, i: usize, bytes: &[u8]) {
        let size = self.elem.storage_bytes();
        self.bytes[i * size..(i + 1) * size].copy_from_slice(bytes);
    }

    /// The same elements under other extents of the same product.
    pub fn reshaped(self, dims: impl IntoIterator<Item = i64>) -> Option<Literal> {
        Literal::from_bytes(dims, self.elem, self.bytes)
    }

    /// Element `i` of an integer or `i1` literal as an `i64` (`ui64` by bit pattern).
    ///
    /// For floating point and complex elements the result is the low bits and means nothing.
    pub fn get_i64(&self, i: usize) -> i64 {
        let b = self.element(i);
        let mut wide = [0u8; 8];
        let n = b.len().min(8);
        wide[..n].copy_from_slice(&b[..n]);
        let raw = u64::from_le_bytes(wide);
        let unused = 64 - 8 * n as u32;
        match self.elem.class() {
            crate::ElementClass::Signed => ((raw << unused) as i64) >> unused,
            _ => raw as i64,
        }
    }
}
