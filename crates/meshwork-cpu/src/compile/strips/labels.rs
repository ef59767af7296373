//! How operations carry the axes of strips: which dimensions of operands and results run along them.

use meshwork_ir::attr::DotDims;
use meshwork_ir::op::{BodyOp, ContractOp, MovementOp};
use meshwork_ir::{Attr, Module, OpId, OpKind};

use crate::fuse::{is_arithmetic, reduce_kind, reduced_dims};

/// Per dimension of a value, the axis that it runs along.
pub(crate) type Labels = Vec<Option<u8>>;

/// The labels of an operation.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Carried {
    pub operands: Vec<Labels>,
    pub result: Labels,
    /// Whether it sums over an axis.
    pub sums: bool,
}

/// The dimension numbers of a product.
pub(super) fn dot_dims(module: &Module, op: OpId) -> Option<DotDims> {
    let data = module.op(op);
    match (data.kind(), data.attr("dot_dimension_numbers")) {
        (OpKind::Contract(ContractOp::DotGeneral), Some(Attr::Dot(dims))) => Some((**dims).clone()),
        (OpKind::Contract(ContractOp::Dot), _) => {
            let rank = module.ty(data.operands()[0]).dims().len() as i64;
            Some(DotDims { lhs_contract: vec![rank - 1], rhs_contract: vec![0], ..DotDims::default() })
        }
        _ => None,
    }
}

/// The dimensions of an operand of rank `rank` that are in neither list.
pub(super) fn free(rank: usize, batch: &[i64], contract: &[i64]) -> Vec<usize> {
    (0..rank).filter(|&d| !batch.contains(&(d as i64)) && !contract.contains(&(d as i64))).collect()
}

/// The labels of `op` if its operand `index` has `labels`; `None` if it cannot be done part by part.
pub(super) fn from_operand(module: &Module, op: OpId, index: usize, labels: &Labels) -> Option<Carried> {
    let data = module.op(op);
    let &[result] = data.results() else { return None };
    let (from, to) = (module.ty(data.operands()[index]).dims(), module.ty(result).dims());
    if let Some(dims) = dot_dims(module, op) {
        return dot_from_operand(module, op, index, labels, &dims);
    }
    let carried = match data.kind() {
        OpKind::Movement(MovementOp::Transpose) => {
            data.i64s("permutation")?.iter().map(|&d| labels[d as usize]).collect()
        }
        OpKind::Movement(MovementOp::BroadcastInDim) => {
            let mut carried = vec![None; to.len()];
            for (i, d) in data.i64s("broadcast_dimensions")?.into_iter().enumerate() {
                carried[d as usize] = labels[i];
            }
            carried
        }
        OpKind::Movement(MovementOp::Reshape) => reshaped(from, labels, to)?,
        OpKind::Body(BodyOp::Reduce) if index == 0 => {
            reduce_kind(module, op)?;
            let reduced = reduced_dims(module, op);
            if reduced.iter().any(|&d| labels[d].is_some()) {
                return None;
            }
            (0..from.len()).filter(|d| !reduced.contains(d)).map(|d| labels[d]).collect()
        }
        _ if is_arithmetic(module, op) && from == to => labels.clone(),
        _ => return None,
    };
    from_result(module, op, &carried).filter(|c| c.operands[index] == *labels)
}

/// The labels of `op` if its result has `labels`; `None` if it cannot be done part by part.
pub(super) fn from_result(module: &Module, op: OpId, labels: &Labels) -> Option<Carried> {
    let data = module.op(op);
    let &[result] = data.results() else { return None };
    let to = module.ty(result).dims();
    let dims_of = |i: usize| module.ty(data.operands()[i]).dims();
    let operands: Vec<Labels> = match data.kind() {
        OpKind::Contract(_) => {
            let dims = dot_dims(module, op)?;
            let mut at = labels.iter().copied();
            let batch: Labels = at.by_ref().take(dims.lhs_batch.len()).collect();
            let mut side = |rank: usize, own: &[i64], contract: &[i64]| {
                let mut labels = vec![None; rank];
                own.iter().zip(&batch).for_each(|(&d, &label)| labels[d as usize] = label);
                free(rank, own, contract).into_iter().for_each(|d| labels[d] = at.next().flatten());
                labels
            };
            let lhs = side(dims_of(0).len(), &dims.lhs_batch, &dims.lhs_contract);
            let rhs = side(dims_of(1).len(), &dims.rhs_batch, &dims.rhs_contract);
            vec![lhs, rhs]
        }
        OpKind::Movement(MovementOp::Transpose) => {
            let mut from = vec![None; labels.len()];
            data.i64s("permutation")?.iter().zip(labels).for_each(|(&d, &label)| from[d as usize] = label);
            vec![from]
        }
        OpKind::Movement(MovementOp::BroadcastInDim) => {
            let from = dims_of(0);
            let one = |(i, d): (usize, i64)| labels[d as usize].filter(|_| from[i] == to[d as usize]);
            vec![data.i64s("broadcast_dimensions")?.into_iter().enumerate().map(one).collect()]
        }
        OpKind::Movement(MovementOp::Reshape) => vec![reshaped(to, labels, dims_of(0))?],
        OpKind::Body(BodyOp::Reduce) => {
            reduce_kind(module, op)?;
            let reduced = reduced_dims(module, op);
            let mut kept = labels.iter();
            let one = |d: usize| if reduced.contains(&d) { None } else { kept.next().copied().flatten() };
            vec![(0..dims_of(0).len()).map(one).collect(), vec![]]
        }
        _ if is_arithmetic(module, op) => {
            let one = |i: usize| match dims_of(i) {
                dims if dims == to => Some(labels.clone()),
                [] => Some(vec![]),
                _ => None,
            };
            (0..data.operands().len()).map(one).collect::<Option<_>>()?
        }
        _ => return None,
    };
    Some(Carried { operands, result: labels.clone(), sums: false })
}

fn dot_from_operand(module: &Module, op: OpId, index: usize, labels: &Labels, dims: &DotDims) -> Option<Carried> {
    let data = module.op(op);
    let rank = |i: usize| module.ty(data.operands()[i]).dims().len();
    let (batch, contract) = ([&dims.lhs_batch, &dims.rhs_batch], [&dims.lhs_contract, &dims.rhs_contract]);
    let other = 1 - index;
    let pick = |list: &[i64]| list.iter().map(|&d| labels[d as usize]).collect::<Labels>();
    let (in_batch, in_depth) = (pick(batch[index]), pick(contract[index]));
    let own: Labels = free(rank(index), batch[index], contract[index]).into_iter().map(|d| labels[d]).collect();
    let opposite = vec![None; free(rank(other), batch[other], contract[other]).len()];
    let mut of_other = vec![None; rank(other)];
    for (list, from) in [(batch[other], &in_batch), (contract[other], &in_depth)] {
        list.iter().zip(from).for_each(|(&d, &label)| of_other[d as usize] = label);
    }
    let sides = if index == 0 { [own, opposite] } else { [opposite, own] };
    let operands = if index == 0 { vec![labels.clone(), of_other] } else { vec![of_other, labels.clone()] };
    let sums = in_depth.iter().any(Option::is_some);
    Some(Carried { operands, result: [in_batch, sides.concat()].concat(), sums })
}

/// The labels of a value of extents `to` that has the elements of one of extents `from`, with `labels`, in the same order.
fn reshaped(from: &[i64], labels: &Labels, to: &[i64]) -> Option<Labels> {
    let mut out = vec![None; to.len()];
    for (d, label) in labels.iter().enumerate() {
        let Some(label) = label else { continue };
        let before: i64 = from[..d].iter().product();
        let mut product = 1;
        let mut found = false;
        for (e, &n) in to.iter().enumerate() {
            if product == before && n == from[d] {
                out[e] = Some(*label);
                found = true;
                break;
            }
            product *= n;
        }
        if !found {
            return None;
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::reshaped;

    #[test]
    fn reshapes_keep_whole_dimensions() {
        let labels = vec![Some(0), None, Some(1)];
        assert_eq!(reshaped(&[2, 3, 5], &labels, &[2, 1, 3, 5]), Some(vec![Some(0), None, None, Some(1)]));
        assert_eq!(reshaped(&[2, 3, 5], &labels, &[6, 5]), None);
        assert_eq!(reshaped(&[2, 6, 5], &labels, &[2, 2, 3, 5]), Some(vec![Some(0), None, None, Some(1)]));
        assert_eq!(reshaped(&[3, 2, 5], &vec![Some(0), None, None], &[1, 3, 10]), Some(vec![None, Some(0), None]));
    }
}
