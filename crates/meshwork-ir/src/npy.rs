//! NumPy's `.npy` files: one array to bytes and back.
//!
//! NumPy has no name for some element types, so their bits travel in an integer array of the same width:
//!
//! | element type | dtype |
//! |---|---|
//! | `bf16` | `<u2` |
//! | `f8…`, `f6…`, `f4…`, `ui2`, `ui4` | `\|u1` |
//! | `i2`, `i4` | `\|i1` |
//! | `tf32` | `<f4` |
//!
//! [`read`] gives the type the file names; [`reinterpret`] turns it into the type a program expects.
//!
//! ```
//! use meshwork_ir::{ElementType, Literal, npy};
//! let x = Literal::from_bytes([2], ElementType::I8, vec![1, 255]).unwrap();
//! assert_eq!(npy::read(&npy::write(&x)), Ok(x));
//! ```

use thiserror::Error;

use crate::{ElementType, Literal};

/// Why a `.npy` file could not be read.
#[derive(Clone, PartialEq, Eq, Error)]
pub enum NpyError {
    /// The first bytes are not NumPy's.
    #[error("not a .npy file: it does not start with \\x93NUMPY")]
    Magic,
    /// A version of the format this reader does not know.
    #[error(".npy format version {0}.{1} is not known (1.0, 2.0 and 3.0 are)")]
    Version(u8, u8),
    /// The header is cut short or is not the dictionary it must be.
    #[error("malformed .npy header: {0}")]
    Header(String),
    /// A dtype without an element type of ours.
    #[error("dtype '{0}' has no StableHLO element type")]
    Dtype(String),
    /// More or fewer bytes than the shape needs.
    #[error("array of shape {shape:?} and dtype '{dtype}' needs {want} bytes of data, the file has {have}")]
    Length {
        /// Shape in the header.
        shape: Vec<i64>,
        /// Dtype in the header.
        dtype: String,
        /// Bytes it needs.
        want: u128,
        /// Bytes that follow the header.
        have: usize,
    },
}

meshwork_mesh::debug_as_display!(NpyError);

const MAGIC: &[u8] = b"\x93NUMPY";

/// The layout of an array in a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Layout {
    /// Element type.
    pub elem: ElementType,
    /// Extents.
    pub shape: Vec<i64>,
    /// Whether the first dimension is the innermost.
    pub fortran: bool,
    /// Whether numbers are big-endian.
    pub swap: bool,
    /// Where the elements start.
    pub start: usize,
    dtype: String,
}

impl Layout {
    /// Bytes of the elements; `None` if there are too many to count.
    pub fn bytes(&self) -> Option<u64> {
        self.shape.iter().try_fold(self.elem.storage_bytes() as u64, |n, &d| n.checked_mul(d as u64))
    }

    /// The error for a file that has `have` bytes of elements.
    pub fn wrong_length(&self, have: usize) -> NpyError {
        let want = self.bytes().map_or(u128::MAX, u128::from);
        NpyError::Length { shape: self.shape.clone(), dtype: self.dtype.clone(), want, have }
    }

    /// Brings elements as they are in the file, in their order, into the form of a literal.
    pub fn convert(&self, bytes: &mut [u8]) {
        if self.swap {
            let part = self.elem.real_part().storage_bytes();
            bytes.chunks_exact_mut(part).for_each(<[u8]>::reverse);
        }
        if self.elem == ElementType::I1 {
            bytes.iter_mut().for_each(|b| *b = u8::from(*b != 0));
        }
    }
}

/// Reads the header at the start of a file, of which `file` need not be more.
pub fn layout(file: &[u8]) -> Result<Layout, NpyError> {
    let rest = file.strip_prefix(MAGIC).ok_or(NpyError::Magic)?;
    let cut_short = || NpyError::Header("the file ends in it".into());
    let (&[major, minor], rest) = rest.split_first_chunk().ok_or_else(cut_short)?;
    let (length, rest) = match (major, minor) {
        (1, 0) => {
            let (len, rest) = rest.split_first_chunk().ok_or_else(cut_short)?;
            (u16::from_le_bytes(*len) as usize, rest)
        }
        (2 | 3, 0) => {
            let (len, rest) = rest.split_first_chunk().ok_or_else(cut_short)?;
            (u32::from_le_bytes(*len) as usize, rest)
        }
        _ => return Err(NpyError::Version(major, minor)),
    };
    let header = rest.get(..length).ok_or_else(cut_short)?;
    let header = std::str::from_utf8(header).map_err(|_| NpyError::Header("it is not UTF-8".into()))?;
    let header = parse_header(header)?;
    let (elem, swap) = element_of(&header.dtype).ok_or_else(|| NpyError::Dtype(header.dtype.clone()))?;
    let start = file.len() - rest.len() + length;
    Ok(Layout { elem, shape: header.shape, fortran: header.fortran, swap, start, dtype: header.dtype })
}

/// Reads an array. Fortran order and big-endian files are brought into row-major little-endian form.
pub fn read(file: &[u8]) -> Result<Literal, NpyError> {
    let layout = layout(file)?;
    let data = &file[layout.start..];
    if layout.bytes() != Some(data.len() as u64) {
        return Err(layout.wrong_length(data.len()));
    }
    let mut bytes = data.to_vec();
    layout.convert(&mut bytes);
    if layout.fortran {
        bytes = to_row_major(&bytes, &layout.shape, layout.elem.storage_bytes());
    }
    let (shape, elem) = (layout.shape.iter().copied(), layout.elem);
    Literal::from_bytes(shape, elem, bytes).ok_or_else(|| layout.wrong_length(data.len()))
}

/// Writes an array as version 1.0, row-major, little endian.
pub fn write(array: &Literal) -> Vec<u8> {
    let shape = match array.dims() {
        [] => String::new(),
        [one] => format!("{one},"),
        many => many.iter().map(i64::to_string).collect::<Vec<_>>().join(", "),
    };
    let mut header = format!("{{'descr': '{}', 'fortran_order': False, 'shape': ({shape}), }}", dtype_of(array.elem()));
    // The data starts at a multiple of 64 bytes; the header ends in a newline.
    let before = MAGIC.len() + 4 + header.len() + 1;
    header.push_str(&" ".repeat(before.next_multiple_of(64) - before));
    header.push('\n');
    let mut out = Vec::with_capacity(before + 64 + array.bytes().len());
    out.extend_from_slice(MAGIC);
    out.extend_from_slice(&[1, 0]);
    out.extend_from_slice(&(header.len() as u16).to_le_bytes());
    out.extend_from_slice(header.as_bytes());
    out.extend_from_slice(array.bytes());
    out
}

/// The array as an array of `elem`, if that is its type or its bits travel under its dtype; else the array back.
///
/// A sub-byte integer keeps its low bits, sign-extended for the signed ones.
pub fn reinterpret(array: Literal, elem: ElementType) -> Result<Literal, Literal> {
    if array.elem() == elem {
        return Ok(array);
    }
    if dtype_of(array.elem()) != dtype_of(elem) {
        return Err(array);
    }
    let mut bytes = array.bytes().to_vec();
    for b in &mut bytes {
        match elem {
            ElementType::UI2 => *b &= 0x3,
            ElementType::UI4 | ElementType::F4E2M1FN => *b &= 0xf,
            ElementType::F6E2M3FN | ElementType::F6E3M2FN => *b &= 0x3f,
            ElementType::I2 => *b = (((*b << 6) as i8) >> 6) as u8,
            ElementType::I4 => *b = (((*b << 4) as i8) >> 4) as u8,
            _ => break,
        }
    }
    Literal::from_bytes(array.dims().iter().copied(), elem, bytes).ok_or(array)
}

/// The dtype an element type travels under.
pub fn dtype_of(elem: ElementType) -> &'static str {
    use ElementType::*;
    match elem {
        I1 => "|b1",
        I2 | I4 | I8 => "|i1",
        I16 => "<i2",
        I32 => "<i4",
        I64 | Index => "<i8",
        UI2 | UI4 | UI8 => "|u1",
        UI16 | BF16 => "<u2",
        UI32 => "<u4",
        UI64 => "<u8",
        F4E2M1FN | F6E2M3FN | F6E3M2FN | F8E3M4 | F8E4M3 | F8E4M3FN | F8E4M3FNUZ | F8E4M3B11FNUZ | F8E5M2
        | F8E5M2FNUZ | F8E8M0FNU => "|u1",
        F16 => "<f2",
        TF32 | F32 => "<f4",
        F64 => "<f8",
        C64 => "<c8",
        C128 => "<c16",
    }
}

/// The element type of a dtype, and whether its bytes must be swapped.
fn element_of(dtype: &str) -> Option<(ElementType, bool)> {
    use ElementType::*;
    let order = dtype.chars().next()?;
    let name = dtype.strip_prefix(['<', '>', '|', '=']).unwrap_or(dtype);
    let elem = match name {
        "b1" => I1,
        "i1" => I8,
        "i2" => I16,
        "i4" => I32,
        "i8" => I64,
        // Void types: what NumPy writes for element types that an extension adds.
        "u1" | "V1" => UI8,
        "u2" | "V2" => UI16,
        "u4" => UI32,
        "u8" => UI64,
        "f2" => F16,
        "f4" => F32,
        "f8" => F64,
        "c8" => C64,
        "c16" => C128,
        _ => return None,
    };
    Some((elem, order == '>' && elem.storage_bytes() > 1))
}

struct Header {
    dtype: String,
    fortran: bool,
    shape: Vec<i64>,
}

/// Reads `{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }`, keys in any order.
fn parse_header(text: &str) -> Result<Header, NpyError> {
    let bad = |what: &str| NpyError::Header(format!("{what} in {}", text.trim()));
    let after = |key: &str| {
        let at = text.find(&format!("'{key}'")).ok_or_else(|| bad(&format!("no '{key}'")))?;
        let rest = text[at + key.len() + 2..].trim_start();
        rest.strip_prefix(':').map(str::trim_start).ok_or_else(|| bad(&format!("no ':' after '{key}'")))
    };
    let descr = after("descr")?;
    let dtype = match descr.strip_prefix('\'') {
        Some(rest) => rest.split('\'').next().unwrap_or_default().to_string(),
        // A list of fields: a record array.
        None => return Err(NpyError::Dtype(descr.split("],").next().unwrap_or_default().to_string() + "]")),
    };
    let order = after("fortran_order")?;
    let fortran = order.starts_with("True");
    if !fortran && !order.starts_with("False") {
        return Err(bad("'fortran_order' is neither True nor False"));
    }
    let inner = after("shape")?.strip_prefix('(').and_then(|s| s.split_once(')')).map(|(inner, _)| inner);
    let inner = inner.ok_or_else(|| bad("'shape' is not a tuple"))?;
    let mut shape = vec![];
    for part in inner.split(',').map(str::trim).filter(|p| !p.is_empty()) {
        let extent: i64 = part.parse().map_err(|_| bad("an extent is not a number"))?;
        if extent < 0 {
            return Err(bad("a negative extent"));
        }
        shape.push(extent);
    }
    Ok(Header { dtype, fortran, shape })
}

/// Row-major elements of a column-major array.
pub fn to_row_major(bytes: &[u8], shape: &[i64], size: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len());
    let mut index = vec![0i64; shape.len()];
    for _ in 0..bytes.len() / size {
        let at = index.iter().zip(shape).rev().fold(0, |at, (&i, &d)| at * d as usize + i as usize) * size;
        out.extend_from_slice(&bytes[at..at + size]);
        for d in (0..shape.len()).rev() {
            index[d] += 1;
            if index[d] < shape[d] {
                break;
            }
            index[d] = 0;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(header: &str, data: &[u8]) -> Vec<u8> {
        let mut out = b"\x93NUMPY\x01\x00".to_vec();
        out.extend_from_slice(&(header.len() as u16).to_le_bytes());
        out.extend_from_slice(header.as_bytes());
        out.extend_from_slice(data);
        out
    }

    #[test]
    fn every_element_type_comes_back() {
        for &elem in ElementType::ALL {
            for dims in [vec![], vec![0], vec![3], vec![2, 0], vec![2, 3]] {
                let x = Literal::zeros(dims, elem);
                let back = read(&write(&x)).unwrap();
                assert_eq!(reinterpret(back, elem), Ok(x));
            }
        }
    }

    #[test]
    fn data_starts_at_a_multiple_of_64() {
        let x = Literal::zeros([1, 2, 3, 4, 5], ElementType::F32);
        assert_eq!((write(&x).len() - x.bytes().len()) % 64, 0);
    }

    #[test]
    fn fortran_order_and_big_endian() {
        let f =
            file("{'descr': '>i2', 'fortran_order': True, 'shape': (2, 3), }\n", &[0, 1, 0, 4, 0, 2, 0, 5, 0, 3, 0, 6]);
        let x = read(&f).unwrap();
        assert_eq!((0..6).map(|i| x.get_i64(i)).collect::<Vec<_>>(), [1, 2, 3, 4, 5, 6]);
    }

    #[test]
    fn sub_byte_integers_are_extended() {
        let x = Literal::from_bytes([2], ElementType::I8, vec![0x0f, 0x07]).unwrap();
        let x = reinterpret(x, ElementType::I4).unwrap();
        assert_eq!((x.get_i64(0), x.get_i64(1)), (-1, 7));
    }

    #[test]
    fn other_types_are_not_reinterpreted() {
        let x = Literal::zeros([1], ElementType::F32);
        assert_eq!(reinterpret(x.clone(), ElementType::I32), Err(x));
    }

    #[test]
    fn malformed_files_are_errors() {
        assert_eq!(read(b"hello"), Err(NpyError::Magic));
        assert_eq!(read(b"\x93NUMPY\x09\x00"), Err(NpyError::Version(9, 0)));
        assert!(matches!(read(b"\x93NUMPY\x01\x00\xff\xff{"), Err(NpyError::Header(_))));
        let f = |h: &str, d: &[u8]| read(&file(h, d)).unwrap_err().to_string();
        assert_eq!(
            f("{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }", &[0; 8]),
            "array of shape [3] and dtype '<f4' needs 12 bytes of data, the file has 8"
        );
        assert_eq!(
            f("{'descr': '<U4', 'fortran_order': False, 'shape': (), }", &[]),
            "dtype '<U4' has no StableHLO element type"
        );
        assert_eq!(
            f("{'descr': '<f4', 'shape': (), }", &[]),
            "malformed .npy header: no 'fortran_order' in {'descr': '<f4', 'shape': (), }"
        );
        assert!(
            f("{'descr': '<f4', 'fortran_order': False, 'shape': (9223372036854775807, 9223372036854775807), }", &[])
                .contains("needs")
        );
    }
}
