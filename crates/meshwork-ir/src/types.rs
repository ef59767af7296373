//! Types of values: tensors, tokens, tuples, functions, and foreign types kept as text.

use std::fmt::{self, Write};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use smallvec::SmallVec;
use smol_str::SmolStr;

use crate::ElementType;

/// Extents of a tensor, outermost first.
pub type Dims = SmallVec<[i64; 4]>;

/// The extent written `?`: not known until the program runs.
pub const DYNAMIC: i64 = i64::MIN;

/// A ranked tensor type.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TensorType {
    /// Extents; [`DYNAMIC`] for `?`.
    pub dims: Dims,
    /// What one element is.
    pub elem: ElementType,
    /// The encoding attribute after the element type, if any, as its exact text.
    pub encoding: Option<SmolStr>,
}

/// Equal types hash equally. Encodings are rare, so they are left out.
impl Hash for TensorType {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.dims.iter().for_each(|&d| state.write_i64(d));
        state.write_u64((self.dims.len() as u64) << 8 | self.elem as u64);
    }
}

/// The bytes of a tensor, at most. Sums and products of a few extents then stay far from the end of 64 bits.
pub const MOST_BYTES: i64 = 1 << 56;

impl TensorType {
    /// A tensor type without encoding.
    pub fn new(dims: impl IntoIterator<Item = i64>, elem: ElementType) -> Self {
        let mut own = Dims::new();
        dims.into_iter().for_each(|d| own.push(d));
        TensorType { dims: own, elem, encoding: None }
    }

    /// Number of dimensions.
    pub fn rank(&self) -> usize {
        self.dims.len()
    }

    /// Number of elements, `None` if an extent is dynamic or the product overflows.
    pub fn num_elements(&self) -> Option<i64> {
        if self.dims.contains(&DYNAMIC) {
            return None;
        }
        // An extent of zero makes the product zero however large the others are.
        if self.dims.contains(&0) {
            return Some(0);
        }
        self.dims.iter().try_fold(1i64, |n, &d| n.checked_mul(d))
    }

    /// Whether its known extents and its bytes are numbers to compute with: at most [`MOST_BYTES`].
    pub fn fits(&self) -> bool {
        let mut extents = self.dims.iter().filter(|&&d| d > 0);
        let bytes = extents.try_fold(self.elem.storage_bytes() as i64, |n, &d| n.checked_mul(d));
        bytes.is_some_and(|n| n <= MOST_BYTES)
    }

    /// Whether every extent is known.
    pub fn is_static(&self) -> bool {
        !self.dims.contains(&DYNAMIC)
    }

    /// The same element type and encoding with other extents.
    pub fn with_dims(&self, dims: impl IntoIterator<Item = i64>) -> Self {
        TensorType { dims: dims.into_iter().collect(), elem: self.elem, encoding: self.encoding.clone() }
    }

    /// The same extents with another element type.
    pub fn with_elem(&self, elem: ElementType) -> Self {
        TensorType { elem, ..self.clone() }
    }
}

/// A function type `(inputs) -> (results)`.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct FunctionType {
    /// Argument types.
    pub inputs: Vec<Type>,
    /// Result types.
    pub results: Vec<Type>,
}

/// The type of a value or a typed attribute. Cheap to clone.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Type {
    /// `tensor<2x3xf32>`.
    Tensor(Arc<TensorType>),
    /// A bare scalar type, `i64` or `f32`: types of attributes, not of StableHLO values.
    Scalar(ElementType),
    /// `!stablehlo.token`.
    Token,
    /// `tuple<...>`.
    Tuple(Arc<[Type]>),
    /// A function type.
    Function(Arc<FunctionType>),
    /// `none`.
    None,
    /// A type this crate does not interpret, kept as its exact text.
    Opaque(SmolStr),
}

impl Type {
    /// A tensor type without encoding.
    pub fn tensor(dims: impl IntoIterator<Item = i64>, elem: ElementType) -> Type {
        Type::Tensor(Arc::new(TensorType::new(dims, elem)))
    }

    /// The tensor type, if it is one.
    pub fn as_tensor(&self) -> Option<&TensorType> {
        match self {
            Type::Tensor(t) => Some(t),
            _ => None,
        }
    }

    /// Rank of a tensor, `None` for any other type.
    pub fn rank(&self) -> Option<usize> {
        self.as_tensor().map(TensorType::rank)
    }

    /// Extents of a tensor; empty for any other type.
    pub fn dims(&self) -> &[i64] {
        self.as_tensor().map_or(&[], |t| &t.dims)
    }

    /// Element type of a tensor.
    pub fn elem(&self) -> Option<ElementType> {
        self.as_tensor().map(|t| t.elem)
    }
}

impl From<TensorType> for Type {
    fn from(t: TensorType) -> Type {
        Type::Tensor(Arc::new(t))
    }
}

// Types are half of a printed program, so the printer writes them to its string directly; `Display` is the same text.

impl TensorType {
    pub(crate) fn write(&self, out: &mut impl Write) -> fmt::Result {
        out.write_str("tensor<")?;
        for &d in &self.dims {
            match d {
                DYNAMIC => out.write_char('?')?,
                _ => out.write_str(itoa::Buffer::new().format(d))?,
            }
            out.write_char('x')?;
        }
        out.write_str(self.elem.text())?;
        if let Some(encoding) = &self.encoding {
            out.write_str(", ")?;
            out.write_str(encoding)?;
        }
        out.write_char('>')
    }
}

impl FunctionType {
    fn write(&self, out: &mut impl Write) -> fmt::Result {
        out.write_char('(')?;
        write_list(out, &self.inputs)?;
        out.write_str(") -> ")?;
        // One result needs no parentheses, unless it is a function type itself.
        if let [only] = &self.results[..]
            && !matches!(only, Type::Function(_))
        {
            return only.write(out);
        }
        out.write_char('(')?;
        write_list(out, &self.results)?;
        out.write_char(')')
    }
}

impl Type {
    pub(crate) fn write(&self, out: &mut impl Write) -> fmt::Result {
        match self {
            Type::Tensor(t) => t.write(out),
            Type::Scalar(e) => out.write_str(e.text()),
            Type::Token => out.write_str("!stablehlo.token"),
            Type::Tuple(parts) => {
                out.write_str("tuple<")?;
                write_list(out, parts)?;
                out.write_char('>')
            }
            Type::Function(t) => t.write(out),
            Type::None => out.write_str("none"),
            Type::Opaque(text) => out.write_str(text),
        }
    }
}

fn write_list(out: &mut impl Write, types: &[Type]) -> fmt::Result {
    for (i, t) in types.iter().enumerate() {
        if i > 0 {
            out.write_str(", ")?;
        }
        t.write(out)?;
    }
    Ok(())
}

impl fmt::Display for TensorType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(f)
    }
}

impl fmt::Display for FunctionType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(f)
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prints_as_mlir() {
        let t = Type::tensor([2, DYNAMIC], ElementType::F32);
        assert_eq!(t.to_string(), "tensor<2x?xf32>");
        let f = FunctionType { inputs: vec![t.clone()], results: vec![t.clone(), Type::Token] };
        assert_eq!(f.to_string(), "(tensor<2x?xf32>) -> (tensor<2x?xf32>, !stablehlo.token)");
    }

    #[test]
    fn element_count_of_empty_and_huge() {
        assert_eq!(TensorType::new([], ElementType::F32).num_elements(), Some(1));
        assert_eq!(TensorType::new([0, i64::MAX, 3], ElementType::F32).num_elements(), Some(0));
        assert_eq!(TensorType::new([i64::MAX, 2], ElementType::F32).num_elements(), None);
    }
}
