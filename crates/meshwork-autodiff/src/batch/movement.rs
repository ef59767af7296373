//! Slices, padding, and operands that may be scalars.

use meshwork_ir::{ElementType, ValueId};

use super::BatchError;
use super::rules::front;
use super::state::{Batch, Site};

/// `clamp` and `select`: an operand that is one number for the whole example stays so if it is not batched.
pub(super) fn with_scalars(b: &mut Batch<'_>, site: &Site) -> Result<(), BatchError> {
    let rank = b.dims(site.op.results()[0]).len();
    let mut operands = vec![];
    for (&old, &x) in site.op.operands().iter().zip(&site.xs) {
        let scalar = b.dims(old).is_empty() && rank > 0;
        operands.push(match (scalar, b.is_on(x)) {
            (true, false) => x,
            (true, true) => {
                let dims = b.dims(site.op.results()[0]);
                let wide: Vec<i64> = [b.size()].into_iter().chain(dims).collect();
                b.broadcast_in_dim(x, wide, &[0])?
            }
            (false, _) => b.lifted(x)?,
        });
    }
    // Both bounds of a clamp, or the two choices, have one shape or none.
    let results = b.same(site, &operands, |_| {});
    b.give(site, &results);
    Ok(())
}

pub(super) fn slice(b: &mut Batch<'_>, site: &Site) -> Result<(), BatchError> {
    let (x, size) = (b.lifted(site.xs[0])?, b.size());
    let results = b.same(site, &[x], |a| {
        front(a, "start_indices", 0, 0);
        front(a, "limit_indices", size, 0);
        front(a, "strides", 1, 0);
    });
    b.give(site, &results);
    Ok(())
}

pub(super) fn pad(b: &mut Batch<'_>, site: &Site) -> Result<(), BatchError> {
    let (x, value) = (b.lifted(site.xs[0])?, site.xs[1]);
    let zeros = |a: &mut meshwork_ir::AttrDict| {
        for name in ["edge_padding_low", "edge_padding_high", "interior_padding"] {
            front(a, name, 0, 0);
        }
    };
    if !b.is_on(value) {
        let results = b.same(site, &[x, value], zeros);
        b.give(site, &results);
        return Ok(());
    }
    // Pads with zeros, and puts each example's own value where the padding is.
    let elem = b.ty(x).elem().unwrap_or(ElementType::F32);
    let zero = b.scalar(elem, 0.0)?;
    let padded = b.same(site, &[x, zero], zeros)[0];
    let list = |name: &str| site.op.i64s(name).unwrap_or_default();
    let dims = b.dims(site.op.operands()[0]);
    let (inside, outside) = (b.splat(dims, ElementType::I1, 1.0)?, b.scalar(ElementType::I1, 0.0)?);
    let (low, high, interior) = (list("edge_padding_low"), list("edge_padding_high"), list("interior_padding"));
    let mask = b.pad(inside, outside, &low, &high, &interior)?;
    let mask = b.lifted(mask)?;
    let wide = b.dims(padded);
    let value = b.broadcast_in_dim(value, wide, &[0])?;
    let out = b.select(mask, padded, value)?;
    b.give(site, &[out]);
    Ok(())
}

/// The old `broadcast`, which puts new dimensions in front.
pub(super) fn broadcast(b: &mut Batch<'_>, site: &Site) -> Result<(), BatchError> {
    let x = b.lifted(site.xs[0])?;
    let result = b.dims(site.op.results()[0]);
    let new = (result.len() + 1 - b.dims(x).len()) as i64;
    let at: Vec<i64> = (0..b.dims(x).len() as i64).map(|d| if d == 0 { 0 } else { d + new }).collect();
    let wide: Vec<i64> = [b.size()].into_iter().chain(result).collect();
    let out = b.broadcast_in_dim(x, wide, &at)?;
    b.give(site, &[out]);
    Ok(())
}

/// An extent of an example: the same number for all.
pub(super) fn dimension_size(b: &mut Batch<'_>, site: &Site) -> Result<(), BatchError> {
    let dim = site.op.int("dimension").unwrap_or(0) as usize;
    let extent = b.dims(site.op.operands()[0]).get(dim).copied().unwrap_or(0);
    let out = b.scalar(ElementType::I32, extent as f64)?;
    b.replace(site.op.results()[0], out);
    Ok(())
}

/// Holds values together: each stays as it is.
pub(super) fn barrier(b: &mut Batch<'_>, site: &Site) -> Result<(), BatchError> {
    let held: Vec<ValueId> = b.optimization_barrier(&site.xs)?.to_vec();
    let on: Vec<bool> = site.xs.iter().map(|&x| b.is_on(x)).collect();
    b.replace_each(site.op.results(), &held, &on);
    Ok(())
}
