//! Data movement: slices, pads, concatenation, transposes, broadcasts, reversal, iota.
//!
//! Each function says where an element of the result comes from, or where one of the operand goes.

use super::fault::Fault;
use super::index::{each_index, position};
use super::value::{allocate, filled};
use meshwork_ir::{ElementType, Literal, Scalar};

/// The tensor of extents `dims` whose element at `index` is that of `x` at the index that `source(index, ..)` writes.
fn pick(x: &Literal, dims: &[i64], source: impl Fn(&[i64], &mut [i64])) -> Result<Literal, Fault> {
    let mut out = allocate(dims, x.elem())?;
    let mut from = vec![0; x.dims().len()];
    each_index(dims, |at, index| {
        source(index, &mut from);
        out.set_element(at, x.element(position(x.dims(), &from)));
        Ok(())
    })?;
    Ok(out)
}

/// `x[start : limit : stride]` per dimension.
pub(crate) fn slice(x: &Literal, start: &[i64], limit: &[i64], stride: &[i64]) -> Result<Literal, Fault> {
    let rank = x.dims().len();
    let lengths = [start.len(), limit.len(), stride.len()];
    let inside = |d: usize| 0 <= start[d] && start[d] <= limit[d] && limit[d] <= x.dims()[d] && stride[d] > 0;
    if lengths != [rank; 3] || !(0..rank).all(inside) {
        return Err(Fault::invalid(format!("{start:?} to {limit:?} by {stride:?} is not a slice of {}", x.ty())));
    }
    let dims: Vec<i64> = (0..rank).map(|d| (limit[d] - start[d] + stride[d] - 1) / stride[d]).collect();
    pick(x, &dims, |index, from| (0..rank).for_each(|d| from[d] = start[d] + index[d] * stride[d]))
}

/// The part of extents `sizes` at `start`.
pub(crate) fn part(x: &Literal, start: &[i64], sizes: &[i64]) -> Result<Literal, Fault> {
    let limit: Vec<i64> = start.iter().zip(sizes).map(|(s, n)| s + n).collect();
    slice(x, start, &limit, &vec![1; start.len()])
}

/// The part of length `size` at `start` along dimension `dim`.
pub(crate) fn part_along(x: &Literal, dim: usize, start: i64, size: i64) -> Result<Literal, Fault> {
    let (mut starts, mut sizes) = (vec![0; x.dims().len()], x.dims().to_vec());
    (starts[dim], sizes[dim]) = (start, size);
    part(x, &starts, &sizes)
}

/// The part of extents `sizes` at `start`, moved so that it stays inside `x`.
pub(crate) fn dynamic_slice(x: &Literal, start: &[i64], sizes: &[i64]) -> Result<Literal, Fault> {
    part(x, &clamp_start(x.dims(), start, sizes), sizes)
}

/// `x` with `update` written over the part at `start`, moved so that it stays inside.
pub(crate) fn dynamic_update_slice(x: &mut Literal, update: &Literal, start: &[i64]) -> Result<(), Fault> {
    let dims = x.dims().to_vec();
    let start = clamp_start(&dims, start, update.dims());
    each_index(update.dims(), |at, index| {
        let to: Vec<i64> = index.iter().zip(&start).map(|(i, s)| i + s).collect();
        x.set_element(position(&dims, &to), update.element(at));
        Ok(())
    })
}

fn clamp_start(dims: &[i64], start: &[i64], sizes: &[i64]) -> Vec<i64> {
    (0..dims.len()).map(|d| start[d].min(dims[d] - sizes[d]).max(0)).collect()
}

/// Puts `low` and `high` elements of `value` before and after each dimension and `interior` ones between
/// neighbors. Negative `low` and `high` cut elements off.
pub(crate) fn pad(x: &Literal, value: &Literal, low: &[i64], high: &[i64], interior: &[i64]) -> Result<Literal, Fault> {
    let rank = x.dims().len();
    // Far beyond any tensor, and small enough that sums do not overflow.
    let sane = |v: &i64| v.unsigned_abs() < 1 << 40;
    let lengths = [low.len(), high.len(), interior.len()];
    if lengths != [rank; 3] || ![low, high, interior].concat().iter().all(sane) || interior.iter().any(|&n| n < 0) {
        return Err(Fault::invalid(format!("{} cannot be padded by {low:?}, {high:?}, {interior:?}", x.ty())));
    }
    let extent = |d: usize| low[d] + x.dims()[d] + (x.dims()[d] - 1).max(0) * interior[d] + high[d];
    let dims: Vec<i64> = (0..rank).map(extent).collect();
    if let Some(d) = dims.iter().position(|&n| n < 0) {
        return Err(Fault::invalid(format!("padding makes dimension {d} {} long", dims[d])));
    }
    let mut out = filled(&dims, value)?;
    each_index(x.dims(), |at, index| {
        let to: Vec<i64> = (0..rank).map(|d| low[d] + index[d] * (interior[d] + 1)).collect();
        if to.iter().zip(&dims).all(|(i, n)| (0..*n).contains(i)) {
            out.set_element(position(&dims, &to), x.element(at));
        }
        Ok(())
    })?;
    Ok(out)
}

/// The operands one after the other along `dim`.
pub(crate) fn concatenate(parts: &[&Literal], dim: usize) -> Result<Literal, Fault> {
    let mut dims = parts[0].dims().to_vec();
    dims[dim] = parts.iter().map(|p| p.dims()[dim]).sum();
    let mut out = allocate(&dims, parts[0].elem())?;
    let mut start = vec![0; dims.len()];
    for part in parts {
        dynamic_update_slice(&mut out, part, &start)?;
        start[dim] += part.dims()[dim];
    }
    Ok(out)
}

/// Dimension `d` of the result is dimension `permutation[d]` of `x`.
pub(crate) fn transpose(x: &Literal, permutation: &[i64]) -> Result<Literal, Fault> {
    let dims: Vec<i64> = permutation.iter().map(|&p| x.dims()[p as usize]).collect();
    pick(x, &dims, |index, from| permutation.iter().zip(index).for_each(|(&p, &i)| from[p as usize] = i))
}

/// Dimension `d` of `x` runs along dimension `map[d]` of the result; extents of one are repeated.
pub(crate) fn broadcast_in_dim(x: &Literal, dims: &[i64], map: &[i64]) -> Result<Literal, Fault> {
    let fits = |(d, &to): (usize, &i64)| match dims.get(to as usize) {
        Some(&n) => x.dims()[d] == 1 || x.dims()[d] == n,
        None => false,
    };
    if map.len() != x.dims().len() || !map.iter().enumerate().all(fits) {
        return Err(Fault::invalid(format!("{} does not broadcast to {dims:?} along dimensions {map:?}", x.ty())));
    }
    pick(x, dims, |index, from| {
        for (d, &to) in map.iter().enumerate() {
            from[d] = if x.dims()[d] == 1 { 0 } else { index[to as usize] };
        }
    })
}

/// Reverses the order of elements along `dimensions`.
pub(crate) fn reverse(x: &Literal, dimensions: &[i64]) -> Result<Literal, Fault> {
    pick(x, x.dims(), |index, from| {
        from.copy_from_slice(index);
        dimensions.iter().for_each(|&d| from[d as usize] = x.dims()[d as usize] - 1 - index[d as usize]);
    })
}

/// Each element is its index along `dim`.
pub(crate) fn iota(dims: &[i64], elem: ElementType, dim: usize) -> Result<Literal, Fault> {
    if dim >= dims.len() {
        return Err(Fault::invalid(format!("there is no dimension {dim} in {dims:?}")));
    }
    let mut out = allocate(dims, elem)?;
    each_index(dims, |at, index| {
        out.set(at, Scalar::Int(index[dim]));
        Ok(())
    })?;
    Ok(out)
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
        dynamic_update_slice(&mut x, &i64s(&[2], &[7, 8]), &[4]).unwrap();
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
