//! Products in which rows form groups of different sizes: written out as one product per group, of the rows that belong
//! to it, all others zero.

use meshwork_ir::attr::DotDims;
use meshwork_ir::build::Direction;
use meshwork_ir::{Attr, ElementType, Type, ValueId};

use super::expand::through;
use crate::GradError;
use crate::reverse::{Reverse, Site};

/// The dimension numbers of a ragged product.
struct Dims {
    dot: DotDims,
    ragged: i64,
    group: Option<i64>,
}

pub(super) fn rule(r: &mut Reverse<'_>, site: &Site) -> Result<(), GradError> {
    let Some(dims) = read(site) else {
        return Err(GradError::no_rule(r.module(), site.id, "its dimension numbers cannot be read"));
    };
    let (lhs, rhs, sizes) = (site.x(0), site.x(1), site.x(2));
    if dims.dot.lhs_batch.contains(&dims.ragged) {
        return through(r, site, |r| Ok(vec![r.dot_general(lhs, rhs, dims.dot.clone())?]));
    }
    let &[groups] = &r.dims(sizes)[..] else {
        return Err(GradError::no_rule(r.module(), site.id, "its group sizes are not a list"));
    };
    let contracted = dims.dot.lhs_contract.contains(&dims.ragged);
    through(r, site, |r| {
        let zeros = r.zeros_like(lhs)?;
        let mut start = r.index(0)?;
        let mut parts: Vec<ValueId> = vec![];
        for group in 0..groups {
            let size = r.slice(sizes, &[group], &[group + 1], &[1])?;
            let size = r.reshape(size, [])?;
            let size = r.cast(size, ElementType::I32)?;
            let end = r.add(start, size)?;
            let inside = between(r, lhs, dims.ragged, start, end)?;
            let rows = r.select(inside, lhs, zeros)?;
            let (matrix, dot) = group_matrix(r, rhs, &dims, group)?;
            let product = r.dot_general(rows, matrix, dot)?;
            parts.push(if contracted {
                let shape: Vec<i64> = [1].into_iter().chain(r.dims(product)).collect();
                r.reshape(product, shape)?
            } else {
                product
            });
            start = end;
        }
        let out = match (contracted, parts.split_first()) {
            (true, Some(_)) => r.concatenate(&parts, 0)?,
            (false, Some((&first, rest))) => {
                let mut sum = first;
                for &part in rest {
                    sum = r.add(sum, part)?;
                }
                sum
            }
            (_, None) => r.zeros_like(site.y())?,
        };
        let elem = r.elem(site.y());
        Ok(vec![r.cast(out, elem)?])
    })
}

/// Where the position along `dim` is at least `start` and below `end`, in the shape of `x`.
fn between(r: &mut Reverse<'_>, x: ValueId, dim: i64, start: ValueId, end: ValueId) -> Result<ValueId, GradError> {
    let shape = r.dims(x);
    let at = r.iota(Type::tensor(shape.iter().copied(), ElementType::I32), dim)?;
    let start = r.broadcast_in_dim(start, shape.iter().copied(), &[])?;
    let end = r.broadcast_in_dim(end, shape, &[])?;
    let (from, to) = (r.compare(Direction::Ge, at, start)?, r.compare(Direction::Lt, at, end)?);
    Ok(r.and(from, to)?)
}

/// The matrix of one group, and the dimension numbers without the group dimension.
fn group_matrix(r: &mut Reverse<'_>, rhs: ValueId, dims: &Dims, group: i64) -> Result<(ValueId, DotDims), GradError> {
    let Some(d) = dims.group else { return Ok((rhs, dims.dot.clone())) };
    let mut shape = r.dims(rhs);
    let (mut from, mut to) = (vec![0; shape.len()], shape.clone());
    (from[d as usize], to[d as usize]) = (group, group + 1);
    let matrix = r.slice(rhs, &from, &to, &vec![1; shape.len()])?;
    shape.remove(d as usize);
    let matrix = r.reshape(matrix, shape)?;
    let lowered = |list: &[i64]| list.iter().map(|&e| if e > d { e - 1 } else { e }).collect();
    let (rhs_batch, rhs_contract) = (lowered(&dims.dot.rhs_batch), lowered(&dims.dot.rhs_contract));
    Ok((matrix, DotDims { rhs_batch, rhs_contract, ..dims.dot.clone() }))
}

fn read(site: &Site) -> Option<Dims> {
    let Some(Attr::Opaque(text)) = site.op.attr("ragged_dot_dimension_numbers") else { return None };
    let list = |name: &str| -> Option<Vec<i64>> {
        let Some((_, rest)) = text.split_once(name) else { return Some(vec![]) };
        let (inside, _) = rest.split_once('[')?.1.split_once(']')?;
        inside.split(',').map(str::trim).filter(|n| !n.is_empty()).map(|n| n.parse().ok()).collect()
    };
    Some(Dims {
        dot: DotDims {
            lhs_batch: list("lhs_batching_dimensions")?,
            rhs_batch: list("rhs_batching_dimensions")?,
            lhs_contract: list("lhs_contracting_dimensions")?,
            rhs_contract: list("rhs_contracting_dimensions")?,
        },
        ragged: *list("lhs_ragged_dimensions")?.first()?,
        group: list("rhs_group_dimensions")?.first().copied(),
    })
}
