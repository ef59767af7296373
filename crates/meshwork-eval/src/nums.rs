//! Whole tensors as vectors of one number type, for the ops that compute with every element many times.

use std::ops::{Add, Mul, Sub};

use super::fault::Fault;
use super::special::Cplx;
use super::value::allocate;
use meshwork_ir::scalar::round_product;
use meshwork_ir::{ElementType, Literal, Scalar};

/// All elements as complex numbers.
pub(crate) fn to_complex(x: &Literal) -> Vec<Cplx> {
    x.scalars().map(|s| s.as_complex().into()).collect()
}

/// A tensor of these elements, each converted to `elem`.
pub(crate) fn tensor(
    dims: &[i64],
    elem: ElementType,
    values: impl IntoIterator<Item = Scalar>,
) -> Result<Literal, Fault> {
    let mut out = allocate(dims, elem)?;
    values.into_iter().enumerate().for_each(|(i, v)| out.set(i, v));
    Ok(out)
}

/// A tensor of floats, each rounded to `elem`.
pub(crate) fn from_f64(dims: &[i64], elem: ElementType, values: &[f64]) -> Result<Literal, Fault> {
    tensor(dims, elem, values.iter().map(|&v| Scalar::Float(v)))
}

/// A tensor of complex numbers; a real `elem` drops the imaginary parts.
pub(crate) fn from_complex(dims: &[i64], elem: ElementType, values: &[Cplx]) -> Result<Literal, Fault> {
    tensor(dims, elem, values.iter().map(|&v| v.into()))
}

/// An op that sums products of elements of two tensors.
pub(crate) trait SumOfProducts {
    /// The elements of the result, each started at `zero` and grown by `add(sum, a, b)`.
    fn sums<T: Copy>(&self, lhs: &[T], rhs: &[T], zero: T, add: impl Fn(T, T, T) -> T) -> Vec<T>;

    /// The result as a tensor of type `elem`. Integers wrap around; every product and every sum of floats is rounded
    /// to `f32`, or to `f64` if an operand or the result is that wide, and the result as [`round_product`] says.
    fn evaluate(&self, lhs: &Literal, rhs: &Literal, dims: &[i64], elem: ElementType) -> Result<Literal, Fault> {
        // Finds out that the result is too large before anything is computed.
        drop(allocate(dims, elem)?);
        let types = [lhs.elem(), rhs.elem(), elem];
        let wide = types.iter().any(|t| matches!(t, ElementType::F64 | ElementType::C128));
        if types.iter().any(|t| t.is_complex()) {
            let parts = |x: &Literal| x.scalars().map(Scalar::as_complex).collect::<Vec<_>>();
            let (lhs, rhs) = (parts(lhs), parts(rhs));
            let sums = if wide {
                self.sums(&lhs, &rhs, (0.0, 0.0), add_product)
            } else {
                let narrow = |x: Vec<(f64, f64)>| x.into_iter().map(|c| (c.0 as f32, c.1 as f32)).collect::<Vec<_>>();
                let sums = self.sums(&narrow(lhs), &narrow(rhs), (0.0, 0.0), add_product);
                sums.into_iter().map(|c| (f64::from(c.0), f64::from(c.1))).collect()
            };
            tensor(dims, elem, sums.into_iter().map(|(re, im)| Scalar::Complex(re, im)))
        } else if types.iter().any(|t| t.is_float()) {
            let (lhs, rhs) = (lhs.to_f64s(), rhs.to_f64s());
            let sums = if wide {
                self.sums(&lhs, &rhs, 0.0, |sum, a, b| sum + a * b)
            } else {
                let narrow = |x: Vec<f64>| x.into_iter().map(|v| v as f32).collect::<Vec<_>>();
                let sums = self.sums(&narrow(lhs), &narrow(rhs), 0.0, |sum: f32, a, b| sum + a * b);
                sums.into_iter().map(f64::from).collect()
            };
            let rounded: Vec<f64> = sums.iter().map(|&v| round_product(elem, v)).collect();
            from_f64(dims, elem, &rounded)
        } else {
            let add = |sum: i64, a: i64, b: i64| sum.wrapping_add(a.wrapping_mul(b));
            let sums = self.sums(&lhs.to_i64s(), &rhs.to_i64s(), 0, add);
            tensor(dims, elem, sums.into_iter().map(Scalar::Int))
        }
    }
}

/// `sum + a * b` of complex numbers, every step rounded.
fn add_product<T: Copy + Add<Output = T> + Sub<Output = T> + Mul<Output = T>>(
    sum: (T, T),
    a: (T, T),
    b: (T, T),
) -> (T, T) {
    (sum.0 + (a.0 * b.0 - a.1 * b.1), sum.1 + (a.0 * b.1 + a.1 * b.0))
}
