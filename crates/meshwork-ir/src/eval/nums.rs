//! Whole tensors as vectors of one wide number type, for the ops that compute with every element many times.

use super::fault::Fault;
use super::scalar::Scalar;
use super::value::allocate;
use crate::{ElementClass, ElementType, Literal};

/// A complex number as a pair.
pub(crate) type C = (f64, f64);

/// `a * b` of complex numbers.
pub(crate) fn c_mul(a: C, b: C) -> C {
    (a.0 * b.0 - a.1 * b.1, a.0 * b.1 + a.1 * b.0)
}

/// All elements as `f64`; integers are converted, complex numbers lose their imaginary part.
pub(crate) fn to_f64(x: &Literal) -> Vec<f64> {
    match x.elem() {
        ElementType::F32 => {
            x.bytes().chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]]) as f64).collect()
        }
        ElementType::F64 => x
            .bytes()
            .chunks_exact(8)
            .map(|b| f64::from_le_bytes([b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7]]))
            .collect(),
        ElementType::BF16 => {
            x.bytes().chunks_exact(2).map(|b| half::bf16::from_le_bytes([b[0], b[1]]).to_f64()).collect()
        }
        _ => (0..x.len())
            .map(|i| match x.get(i) {
                Scalar::Bool(b) => f64::from(u8::from(b)),
                Scalar::Int(v) => v as f64,
                Scalar::UInt(v) => v as f64,
                Scalar::Float(v) | Scalar::Complex(v, _) => v,
            })
            .collect(),
    }
}

/// All elements of an integer or `i1` tensor; unsigned 64-bit values by bit pattern.
pub(crate) fn to_i64(x: &Literal) -> Vec<i64> {
    (0..x.len()).map(|i| x.get_i64(i)).collect()
}

/// All elements as complex numbers.
pub(crate) fn to_complex(x: &Literal) -> Vec<C> {
    match x.elem().class() {
        ElementClass::Complex => (0..x.len())
            .map(|i| match x.get(i) {
                Scalar::Complex(re, im) => (re, im),
                _ => (0.0, 0.0),
            })
            .collect(),
        _ => to_f64(x).into_iter().map(|v| (v, 0.0)).collect(),
    }
}

/// A float (or complex, with zero imaginary part) tensor from `f64` values, each rounded to the element type.
pub(crate) fn from_f64(dims: &[i64], elem: ElementType, values: &[f64]) -> Result<Literal, Fault> {
    let mut out = allocate(dims, elem)?;
    match elem {
        ElementType::F32 => {
            for (chunk, v) in out.bytes_mut().chunks_exact_mut(4).zip(values) {
                chunk.copy_from_slice(&(*v as f32).to_le_bytes());
            }
        }
        ElementType::F64 => {
            for (chunk, v) in out.bytes_mut().chunks_exact_mut(8).zip(values) {
                chunk.copy_from_slice(&v.to_le_bytes());
            }
        }
        _ if elem.is_complex() => {
            for (i, &v) in values.iter().enumerate() {
                out.set(i, Scalar::Complex(v, 0.0));
            }
        }
        _ => {
            for (i, &v) in values.iter().enumerate() {
                out.set(i, Scalar::Float(v));
            }
        }
    }
    Ok(out)
}

/// An integer tensor from wide values, each wrapped to the element type; for `i1` anything but zero is true.
pub(crate) fn from_i64(dims: &[i64], elem: ElementType, values: &[i64]) -> Result<Literal, Fault> {
    let mut out = allocate(dims, elem)?;
    for (i, &v) in values.iter().enumerate() {
        let v = match elem.class() {
            ElementClass::Bool => Scalar::Bool(v != 0),
            ElementClass::Unsigned => {
                Scalar::UInt(if elem.bits() < 64 { v as u64 & ((1 << elem.bits()) - 1) } else { v as u64 })
            }
            _ => {
                let unused = 64 - elem.bits() as u32;
                Scalar::Int((v << unused) >> unused)
            }
        };
        out.set(i, v);
    }
    Ok(out)
}

/// A complex tensor.
pub(crate) fn from_complex(dims: &[i64], elem: ElementType, values: &[C]) -> Result<Literal, Fault> {
    let mut out = allocate(dims, elem)?;
    for (i, &(re, im)) in values.iter().enumerate() {
        out.set(i, Scalar::Complex(re, im));
    }
    Ok(out)
}
