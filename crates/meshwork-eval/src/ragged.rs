//! `chlo.ragged_dot`: a product in which consecutive rows of one dimension form groups of different sizes.
//!
//! The ragged dimension of the left operand decides:
//! - a free dimension: each group of rows is multiplied by its own matrix of the right operand;
//! - a contracted dimension: each group has its own product, stacked along a new first dimension;
//! - a batch dimension: groups make no difference.

use super::contract::dot_general;
use super::fault::Fault;
use super::index::indices_of;
use super::movement::{dynamic_update_slice, part_along};
use super::value::allocate;
use meshwork_ir::attr::DotDims;
use meshwork_ir::{Attr, Literal, Op, TensorType};

/// The dimension numbers, as far as they go beyond a dot product's.
struct RaggedDims {
    dot: DotDims,
    ragged: i64,
    group: Option<i64>,
}

fn dimension_numbers(op: &Op) -> Result<RaggedDims, Fault> {
    let bad = || super::attrs::missing("ragged_dot_dimension_numbers", "#chlo.ragged_dot<...>");
    let Some(Attr::Opaque(text)) = op.attr("ragged_dot_dimension_numbers") else { return Err(bad()) };
    let list = |name: &str| -> Result<Vec<i64>, Fault> {
        let Some((_, rest)) = text.split_once(name) else { return Ok(vec![]) };
        let (_, rest) = rest.split_once('[').ok_or_else(bad)?;
        let (inside, _) = rest.split_once(']').ok_or_else(bad)?;
        let numbers = inside.split(',').map(str::trim).filter(|n| !n.is_empty());
        numbers.map(|n| n.parse().map_err(|_| bad())).collect()
    };
    Ok(RaggedDims {
        dot: DotDims {
            lhs_batch: list("lhs_batching_dimensions")?,
            rhs_batch: list("rhs_batching_dimensions")?,
            lhs_contract: list("lhs_contracting_dimensions")?,
            rhs_contract: list("rhs_contracting_dimensions")?,
        },
        ragged: *list("lhs_ragged_dimensions")?.first().ok_or_else(bad)?,
        group: list("rhs_group_dimensions")?.first().copied(),
    })
}

/// The rows of one group along `dim`, cut off at the end of `x`.
fn part(x: &Literal, dim: i64, start: i64, size: i64) -> Result<Literal, Fault> {
    let end = x.dims()[dim as usize];
    let start = start.min(end);
    part_along(x, dim as usize, start, size.min(end - start))
}

/// Evaluates the op on left operand, right operand and group sizes.
pub(crate) fn ragged_dot(op: &Op, args: &[&Literal], result: &TensorType) -> Result<Literal, Fault> {
    let &[lhs, rhs, sizes] = args else {
        return Err(Fault::invalid(format!("{} operands where 3 are needed", args.len())));
    };
    let dims = dimension_numbers(op)?;
    if dims.dot.lhs_batch.contains(&dims.ragged) {
        return dot_general(lhs, rhs, &dims.dot, result.elem);
    }
    if sizes.dims().len() != 1 {
        return Err(Fault::unsupported(format!("group sizes of type {}, of rank other than 1", sizes.ty())));
    }
    let contracted = dims.dot.lhs_contract.iter().position(|&d| d == dims.ragged);
    let mut out = allocate(&result.dims, result.elem)?;
    let mut start = 0;
    for (group, size) in indices_of(sizes).into_iter().enumerate() {
        let rows = part(lhs, dims.ragged, start, size)?;
        let mut at = vec![0; result.dims.len()];
        let product = match contracted {
            Some(i) => {
                at[0] = group as i64;
                let columns = part(rhs, dims.dot.rhs_contract[i], start, size)?;
                let product = dot_general(&rows, &columns, &dims.dot, result.elem)?;
                let stacked: Vec<i64> = std::iter::once(1).chain(product.dims().iter().copied()).collect();
                product.reshaped(stacked).ok_or_else(|| Fault::invalid("a product does not stack"))?
            }
            None => {
                let free =
                    (0..dims.ragged).filter(|d| !dims.dot.lhs_batch.contains(d) && !dims.dot.lhs_contract.contains(d));
                at[dims.dot.lhs_batch.len() + free.count()] = start;
                let (matrix, dot) = group_matrix(rhs, &dims, group as i64)?;
                dot_general(&rows, &matrix, &dot, result.elem)?
            }
        };
        dynamic_update_slice(&mut out, &product, &at)?;
        start += size;
    }
    Ok(out)
}

/// The matrix of one group, and the dimension numbers without the group dimension.
fn group_matrix(rhs: &Literal, dims: &RaggedDims, group: i64) -> Result<(Literal, DotDims), Fault> {
    let Some(group_dim) = dims.group else { return Ok((rhs.clone(), dims.dot.clone())) };
    let matrix = part(rhs, group_dim, group, 1)?;
    let mut shape = matrix.dims().to_vec();
    shape.remove(group_dim as usize);
    let matrix = matrix.reshaped(shape).ok_or_else(|| Fault::invalid("a group has no matrix"))?;
    let lowered = |list: &[i64]| list.iter().map(|&d| if d > group_dim { d - 1 } else { d }).collect();
    let dot = DotDims {
        rhs_batch: lowered(&dims.dot.rhs_batch),
        rhs_contract: lowered(&dims.dot.rhs_contract),
        ..dims.dot.clone()
    };
    Ok((matrix, dot))
}
