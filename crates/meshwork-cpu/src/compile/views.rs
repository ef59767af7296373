//! Ops that only rename elements, as strides over the memory of their operand.

use meshwork_ir::op::{MovementOp, UnaryOp};
use meshwork_ir::{ElementType, Module, OpId, OpKind};

use crate::step::View;

/// The layout of the result of `op` in memory if its operand has the layout `from`; `None` for other ops, or if strides
/// cannot express it.
pub(crate) fn view_of(module: &Module, op: OpId, from: &View) -> Option<View> {
    let data = module.op(op);
    let ty = module.ty(*data.results().first()?).as_tensor()?;
    let dims: Vec<i64> = ty.dims.to_vec();
    let mut to = View { dims, strides: vec![], elem: ty.elem, ..from.clone() };
    match data.kind() {
        OpKind::Movement(MovementOp::Slice) => {
            let (start, step) = (data.i64s("start_indices")?, data.i64s("strides")?);
            to.offset += start.iter().zip(&from.strides).map(|(i, s)| i * s).sum::<i64>();
            to.strides = step.iter().zip(&from.strides).map(|(k, s)| k * s).collect();
        }
        OpKind::Movement(MovementOp::Reverse) => {
            to.strides = from.strides.clone();
            for d in data.i64s("dimensions")? {
                let d = d as usize;
                to.offset += (from.dims[d] - 1).max(0) * from.strides[d];
                to.strides[d] = -from.strides[d];
            }
        }
        OpKind::Movement(MovementOp::Transpose) => {
            to.strides = data.i64s("permutation")?.iter().map(|&d| from.strides[d as usize]).collect();
        }
        OpKind::Movement(MovementOp::BroadcastInDim) => {
            to.strides = vec![0; to.dims.len()];
            for (i, d) in data.i64s("broadcast_dimensions")?.into_iter().enumerate() {
                if from.dims[i] == to.dims[d as usize] {
                    to.strides[d as usize] = from.strides[i];
                }
            }
        }
        OpKind::Movement(MovementOp::Broadcast) => {
            let new = data.i64s("broadcast_sizes")?.len();
            to.strides = [&vec![0; new][..], &from.strides].concat();
        }
        // Parts of complex numbers stand side by side.
        OpKind::Unary(UnaryOp::Real | UnaryOp::Imag) if from.elem.is_complex() => {
            to.strides = from.strides.clone();
            if data.kind() == OpKind::Unary(UnaryOp::Imag) {
                to.offset += ty.elem.storage_bytes() as i64;
            }
        }
        OpKind::Movement(MovementOp::Reshape) => to.strides = reshaped(from, &to.dims)?,
        OpKind::Movement(MovementOp::BitcastConvert) => {
            // Parts side by side are complex numbers.
            if ty.elem.is_complex() && ty.elem.real_part() == from.elem {
                let (&step, strides) = from.strides.split_last()?;
                let adjacent = from.dims.last() == Some(&2) && step == from.elem.storage_bytes() as i64;
                to.strides = strides.to_vec();
                return adjacent.then_some(to);
            }
            // Types that are stored wider than they are differ in the bits that fill the byte.
            let whole = |e: ElementType| e.bits() == 8 * e.storage_bytes();
            if from.elem != ty.elem && !(whole(from.elem) && from.elem.bits() == ty.elem.bits()) {
                return None;
            }
            to.strides = from.strides.clone();
        }
        _ => return None,
    }
    Some(to)
}

/// Strides that make `dims` of the elements of `from` in row-major order.
fn reshaped(from: &View, dims: &[i64]) -> Option<Vec<i64>> {
    if from.is_empty() {
        return Some(vec![0; dims.len()]);
    }
    // Extents above one, innermost first: each group of target dimensions must fill a run of source dimensions
    // that follow each other without gaps.
    let source: Vec<(i64, i64)> =
        from.dims.iter().zip(&from.strides).rev().filter(|&(&n, _)| n > 1).map(|(&n, &s)| (n, s)).collect();
    let mut merged: Vec<(i64, i64)> = vec![];
    for (n, s) in source {
        match merged.last_mut() {
            Some((count, step)) if *count * *step == s => *count *= n,
            _ => merged.push((n, s)),
        }
    }
    let mut strides = vec![0; dims.len()];
    let mut runs = merged.into_iter();
    let mut run = (1, 0);
    for d in (0..dims.len()).rev() {
        if dims[d] == 1 {
            continue;
        }
        if run.0 == 1 {
            run = runs.next()?;
        }
        if run.0 % dims[d] != 0 {
            return None;
        }
        strides[d] = run.1;
        run = (run.0 / dims[d], run.1 * dims[d]);
    }
    Some(strides)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::step::Buf;
    use meshwork_ir::ElementType;

    #[test]
    fn reshape_of_strided_views() {
        let dense = View::dense(Buf(0), ElementType::F32, &[2, 3, 4]);
        assert_eq!(reshaped(&dense, &[6, 4]), Some(vec![16, 4]));
        assert_eq!(reshaped(&dense, &[24, 1]), Some(vec![4, 0]));
        let row = View { dims: vec![2, 4], strides: vec![48, 4], ..dense.clone() };
        assert_eq!(reshaped(&row, &[8]), None);
        assert_eq!(reshaped(&row, &[2, 2, 2]), Some(vec![48, 8, 4]));
        let splat = View { strides: vec![0, 0, 0], ..dense };
        assert_eq!(reshaped(&splat, &[24]), Some(vec![0]));
    }
}
