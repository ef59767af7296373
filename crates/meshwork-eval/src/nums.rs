//! Whole tensors as vectors of one wide number type, for the ops that compute with every element many times.

use super::fault::Fault;
use super::value::allocate;
use meshwork_ir::Scalar;
use meshwork_ir::{ElementClass, ElementType, Literal};

/// A complex number as a pair.
pub(crate) type C = (f64, f64);

/// The same in single precision.
pub(crate) type C32 = (f32, f32);

/// `sum + a * b` in complex numbers, every step rounded.
pub(crate) fn c32_add_product(sum: C32, a: C32, b: C32) -> C32 {
    (sum.0 + (a.0 * b.0 - a.1 * b.1), sum.1 + (a.0 * b.1 + a.1 * b.0))
}

/// `sum + a * b` in complex numbers.
pub(crate) fn c_add_product(sum: C, a: C, b: C) -> C {
    (sum.0 + (a.0 * b.0 - a.1 * b.1), sum.1 + (a.0 * b.1 + a.1 * b.0))
}

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

/// All elements as `f32`, rounded.
pub(crate) fn to_f32(x: &Literal) -> Vec<f32> {
    to_f64(x).into_iter().map(|v| v as f32).collect()
}

/// All elements as complex numbers of `f32`, rounded.
pub(crate) fn to_complex32(x: &Literal) -> Vec<C32> {
    to_complex(x).into_iter().map(|(re, im)| (re as f32, im as f32)).collect()
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

/// The arithmetic in which products of two tensors are summed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Arithmetic {
    /// Integers, wrapping around.
    Int,
    /// Floats of at most 32 bits: every product and every sum is rounded to `f32`.
    Single,
    /// Wider floats.
    Double,
    /// Complex numbers of `f32`.
    ComplexSingle,
    /// Complex numbers of `f64`.
    ComplexDouble,
}

impl Arithmetic {
    /// The arithmetic for these operand and result types.
    pub(crate) fn of(types: [ElementType; 3]) -> Arithmetic {
        let wide = types.iter().any(|t| matches!(t, ElementType::F64 | ElementType::C128));
        if types.iter().any(|t| t.is_complex()) {
            if wide { Arithmetic::ComplexDouble } else { Arithmetic::ComplexSingle }
        } else if types.iter().any(|t| t.is_float()) {
            if wide { Arithmetic::Double } else { Arithmetic::Single }
        } else {
            Arithmetic::Int
        }
    }
}

/// An op that sums products of elements of two tensors, in any number type.
pub(crate) trait SumOfProducts {
    /// The elements of the result, each started at `zero` and grown by `add(sum, a, b)`.
    fn sums<T: Copy>(&self, lhs: &[T], rhs: &[T], zero: T, add: impl Fn(T, T, T) -> T) -> Vec<T>;

    /// The result as a tensor of type `elem`.
    fn evaluate(&self, lhs: &Literal, rhs: &Literal, dims: &[i64], elem: ElementType) -> Result<Literal, Fault> {
        // Finds out that the result is too large before anything is computed.
        drop(allocate(dims, elem)?);
        match Arithmetic::of([lhs.elem(), rhs.elem(), elem]) {
            Arithmetic::Int => {
                let add = |o: i64, a: i64, b: i64| o.wrapping_add(a.wrapping_mul(b));
                from_i64(dims, elem, &self.sums(&to_i64(lhs), &to_i64(rhs), 0, add))
            }
            Arithmetic::Single => {
                let sums = self.sums(&to_f32(lhs), &to_f32(rhs), 0.0, |o: f32, a: f32, b: f32| o + a * b);
                from_f64(dims, elem, &sums.into_iter().map(f64::from).collect::<Vec<_>>())
            }
            Arithmetic::Double => {
                let sums = self.sums(&to_f64(lhs), &to_f64(rhs), 0.0, |o: f64, a: f64, b: f64| o + a * b);
                from_f64(dims, elem, &sums)
            }
            Arithmetic::ComplexSingle => {
                let sums = self.sums(&to_complex32(lhs), &to_complex32(rhs), (0.0, 0.0), c32_add_product);
                let sums: Vec<C> = sums.into_iter().map(|(re, im)| (f64::from(re), f64::from(im))).collect();
                from_complex(dims, elem, &sums)
            }
            Arithmetic::ComplexDouble => {
                from_complex(dims, elem, &self.sums(&to_complex(lhs), &to_complex(rhs), (0.0, 0.0), c_add_product))
            }
        }
    }
}
