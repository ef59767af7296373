//! Data movement: slices, pads, concatenation, transposes, broadcasts, reversal, iota.
//!
//! Each function gives one box copy its strides; extents come from a verified program.

use super::fault::Fault;
use super::index::{View, copy_box, extents, strides};
use super::value::{allocate, filled};
use meshwork_ir::Scalar;
use meshwork_ir::{ElementType, Literal};

/// `x[start : limit : stride]` per dimension.
pub(crate) fn slice(x: &Literal, start: &[i64], limit: &[i64], stride: &[i64]) -> Result<Literal, Fault> {
    let rank = x.dims().len();
    let lengths = [start.len(), limit.len(), stride.len()];
    let inside = |d: usize| 0 <= start[d] && start[d] <= limit[d] && limit[d] <= x.dims()[d] && stride[d] > 0;
    if lengths != [rank; 3] || !(0..rank).all(inside) {
        return Err(Fault::invalid(format!("{start:?} to {limit:?} by {stride:?} is no slice of {}", x.ty())));
    }
    let dims: Vec<i64> = (0..start.len()).map(|d| div_ceil(limit[d] - start[d], stride[d])).collect();
    let mut from = View::at(x.dims(), start);
    for (s, &by) in from.strides.iter_mut().zip(stride) {
        *s *= by as isize;
    }
    let mut out = allocate(&dims, x.elem())?;
    copy_box(&mut out, &View::whole(&dims), x, &from, &extents(&dims));
    Ok(out)
}

/// `a / b` rounded up, for `a >= 0` and `b > 0`.
fn div_ceil(a: i64, b: i64) -> i64 {
    (a + b - 1) / b
}

/// The box of extents `sizes` at `start`, moved so that it stays inside `x`.
pub(crate) fn dynamic_slice(x: &Literal, start: &[i64], sizes: &[i64]) -> Result<Literal, Fault> {
    let start = clamp_start(x.dims(), start, sizes);
    let mut out = allocate(sizes, x.elem())?;
    copy_box(&mut out, &View::whole(sizes), x, &View::at(x.dims(), &start), &extents(sizes));
    Ok(out)
}

/// Writes `update` over the box at `start`, moved so that it stays inside `x`.
pub(crate) fn dynamic_update_slice(x: &mut Literal, update: &Literal, start: &[i64]) {
    let start = clamp_start(x.dims(), start, update.dims());
    let to = View::at(x.dims(), &start);
    copy_box(x, &to, update, &View::whole(update.dims()), &extents(update.dims()));
}

fn clamp_start(dims: &[i64], start: &[i64], sizes: &[i64]) -> Vec<i64> {
    (0..dims.len()).map(|d| start[d].min(dims[d] - sizes[d]).max(0)).collect()
}

/// Puts `low` and `high` elements of `value` before and after each dimension and `interior` ones between
/// neighbours. Negative `low` and `high` cut elements off.
pub(crate) fn pad(x: &Literal, value: &Literal, low: &[i64], high: &[i64], interior: &[i64]) -> Result<Literal, Fault> {
    let rank = x.dims().len();
    // Far beyond any tensor, and small enough that sums do not overflow.
    let sane = |v: &i64| v.unsigned_abs() < 1 << 40;
    let lengths = [low.len(), high.len(), interior.len()];
    if lengths != [rank; 3] || ![low, high, interior].concat().iter().all(sane) || interior.iter().any(|&n| n < 0) {
        return Err(Fault::invalid(format!("{} can not be padded by {low:?}, {high:?}, {interior:?}", x.ty())));
    }
    let mut dims = vec![];
    // Elements [first, last) of each dimension land inside the result.
    let (mut first, mut count, mut start) = (vec![], vec![], vec![]);
    for d in 0..rank {
        let (n, step) = (x.dims()[d], interior[d] + 1);
        let size = low[d] + (n + (n - 1).max(0) * interior[d]) + high[d];
        if size < 0 {
            return Err(Fault::invalid(format!("padding makes dimension {d} {size} long")));
        }
        let lo = div_ceil((-low[d]).max(0), step);
        // Index i stands at low + i * step, which must be below size.
        let hi = div_ceil((size - low[d]).max(0), step).min(n);
        first.push(lo);
        count.push((hi - lo).max(0));
        start.push(low[d] + lo * step);
        dims.push(size);
    }
    let mut out = filled(&dims, value)?;
    let mut to = View::at(&dims, &start);
    for (stride, &between) in to.strides.iter_mut().zip(interior) {
        *stride *= (between + 1) as isize;
    }
    if !count.contains(&0) {
        copy_box(&mut out, &to, x, &View::at(x.dims(), &first), &extents(&count));
    }
    Ok(out)
}

/// The operands one after the other along `dim`.
pub(crate) fn concatenate(parts: &[&Literal], dim: usize) -> Result<Literal, Fault> {
    let mut dims = parts[0].dims().to_vec();
    dims[dim] = parts.iter().map(|p| p.dims()[dim]).sum();
    let mut out = allocate(&dims, parts[0].elem())?;
    let mut start = vec![0; dims.len()];
    for part in parts {
        copy_box(&mut out, &View::at(&dims, &start), part, &View::whole(part.dims()), &extents(part.dims()));
        start[dim] += part.dims()[dim];
    }
    Ok(out)
}

/// Dimension `d` of the result is dimension `permutation[d]` of `x`.
pub(crate) fn transpose(x: &Literal, permutation: &[i64]) -> Result<Literal, Fault> {
    let dims: Vec<i64> = permutation.iter().map(|&p| x.dims()[p as usize]).collect();
    let source = strides(x.dims());
    let from = View { offset: 0, strides: permutation.iter().map(|&p| source[p as usize]).collect() };
    let mut out = allocate(&dims, x.elem())?;
    copy_box(&mut out, &View::whole(&dims), x, &from, &extents(&dims));
    Ok(out)
}

/// Dimension `d` of `x` runs along dimension `map[d]` of the result; extents of one are repeated.
pub(crate) fn broadcast_in_dim(x: &Literal, dims: &[i64], map: &[i64]) -> Result<Literal, Fault> {
    let fits = |(d, &to): (usize, &i64)| match dims.get(to as usize) {
        Some(&n) => x.dims()[d] == 1 || x.dims()[d] == n,
        None => false,
    };
    if map.len() != x.dims().len() || !map.iter().enumerate().all(fits) {
        return Err(Fault::invalid(format!("{} does not spread over {dims:?} along dimensions {map:?}", x.ty())));
    }
    if x.len() == 1 {
        return filled(dims, x);
    }
    let source = strides(x.dims());
    let mut from = View { offset: 0, strides: vec![0; dims.len()] };
    for (d, &to) in map.iter().enumerate() {
        if x.dims()[d] != 1 {
            from.strides[to as usize] = source[d];
        }
    }
    let mut out = allocate(dims, x.elem())?;
    copy_box(&mut out, &View::whole(dims), x, &from, &extents(dims));
    Ok(out)
}

/// Reverses the order of elements along `dimensions`.
pub(crate) fn reverse(x: &Literal, dimensions: &[i64]) -> Result<Literal, Fault> {
    let mut out = allocate(x.dims(), x.elem())?;
    if x.is_empty() {
        return Ok(out);
    }
    let mut from = View::whole(x.dims());
    for &d in dimensions {
        let d = d as usize;
        from.offset += from.strides[d] * (x.dims()[d] as isize - 1);
        from.strides[d] = -from.strides[d];
    }
    copy_box(&mut out, &View::whole(x.dims()), x, &from, &extents(x.dims()));
    Ok(out)
}

/// Each element is its index along `dim`.
pub(crate) fn iota(dims: &[i64], elem: ElementType, dim: usize) -> Result<Literal, Fault> {
    let Some(&n) = dims.get(dim) else {
        return Err(Fault::invalid(format!("there is no dimension {dim} in {dims:?}")));
    };
    let mut line = allocate(&[n], elem)?;
    for i in 0..n {
        let value = match elem.class() {
            meshwork_ir::ElementClass::Bool => Scalar::Bool(i != 0),
            meshwork_ir::ElementClass::Signed => Scalar::Int(i),
            meshwork_ir::ElementClass::Unsigned => Scalar::UInt(i as u64),
            meshwork_ir::ElementClass::Float => Scalar::Float(i as f64),
            meshwork_ir::ElementClass::Complex => Scalar::Complex(i as f64, 0.0),
        };
        line.set(i as usize, value);
    }
    match dims.len() {
        1 => Ok(line),
        _ => broadcast_in_dim(&line, dims, &[dim as i64]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::tests::i64s;

    #[test]
    fn slice_with_strides_and_of_nothing() {
        let x = i64s(&[2, 5], &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
        assert_eq!(slice(&x, &[0, 1], &[2, 5], &[1, 2]).unwrap(), i64s(&[2, 2], &[1, 3, 6, 8]));
        assert_eq!(slice(&x, &[0, 2], &[2, 2], &[1, 1]).unwrap(), i64s(&[2, 0], &[]));
    }

    #[test]
    fn dynamic_slices_stay_inside() {
        let mut x = i64s(&[5], &[0, 1, 2, 3, 4]);
        assert_eq!(dynamic_slice(&x, &[9], &[2]).unwrap(), i64s(&[2], &[3, 4]));
        assert_eq!(dynamic_slice(&x, &[-9], &[2]).unwrap(), i64s(&[2], &[0, 1]));
        dynamic_update_slice(&mut x, &i64s(&[2], &[7, 8]), &[4]);
        assert_eq!(x, i64s(&[5], &[0, 1, 2, 7, 8]));
    }

    #[test]
    fn pad_low_high_interior_and_negative() {
        let (x, v) = (i64s(&[3], &[1, 2, 3]), i64s(&[], &[0]));
        assert_eq!(pad(&x, &v, &[1], &[2], &[1]).unwrap(), i64s(&[8], &[0, 1, 0, 2, 0, 3, 0, 0]));
        assert_eq!(pad(&x, &v, &[-1], &[-1], &[1]).unwrap(), i64s(&[3], &[0, 2, 0]));
        assert_eq!(pad(&x, &v, &[-3], &[1], &[0]).unwrap(), i64s(&[1], &[0]));
        assert_eq!(pad(&i64s(&[0], &[]), &v, &[1], &[1], &[4]).unwrap(), i64s(&[2], &[0, 0]));
        assert!(pad(&x, &v, &[-3], &[-1], &[0]).is_err());
    }

    #[test]
    fn concatenate_with_an_empty_part() {
        let (a, b, c) = (i64s(&[2, 1], &[1, 2]), i64s(&[2, 0], &[]), i64s(&[2, 2], &[3, 4, 5, 6]));
        assert_eq!(concatenate(&[&a, &b, &c], 1).unwrap(), i64s(&[2, 3], &[1, 3, 4, 2, 5, 6]));
    }

    #[test]
    fn transpose_prime_sizes() {
        let x = i64s(&[2, 3], &[0, 1, 2, 3, 4, 5]);
        assert_eq!(transpose(&x, &[1, 0]).unwrap(), i64s(&[3, 2], &[0, 3, 1, 4, 2, 5]));
        assert_eq!(transpose(&i64s(&[], &[7]), &[]).unwrap(), i64s(&[], &[7]));
    }

    #[test]
    fn broadcast_repeats_ones_and_new_dimensions() {
        let x = i64s(&[1, 2], &[5, 6]);
        assert_eq!(broadcast_in_dim(&x, &[2, 3], &[1, 0]).unwrap(), i64s(&[2, 3], &[5, 5, 5, 6, 6, 6]));
        assert_eq!(broadcast_in_dim(&i64s(&[], &[1]), &[0, 3], &[]).unwrap(), i64s(&[0, 3], &[]));
    }

    #[test]
    fn reverse_two_dimensions() {
        let x = i64s(&[2, 3], &[0, 1, 2, 3, 4, 5]);
        assert_eq!(reverse(&x, &[0, 1]).unwrap(), i64s(&[2, 3], &[5, 4, 3, 2, 1, 0]));
        assert_eq!(reverse(&i64s(&[0], &[]), &[0]).unwrap(), i64s(&[0], &[]));
    }

    #[test]
    fn iota_counts_along_one_dimension() {
        assert_eq!(iota(&[2, 3], ElementType::I64, 0).unwrap(), i64s(&[2, 3], &[0, 0, 0, 1, 1, 1]));
        assert_eq!(iota(&[0], ElementType::I64, 0).unwrap(), i64s(&[0], &[]));
    }
}
