//! Dots and convolutions: computed on shards; what is summed over split dimensions must be reduced right after.

use meshwork_ir::{Attr, Module, OpId};
use meshwork_mesh::{AxisList, AxisRef, Mesh, axis_list};
use meshwork_propagate::program::axes_without;

use super::Local;
use crate::export::rewrite::Problem;

/// Checks that a dot which sums over split dimensions is followed by the all-reduce over their axes.
pub fn check_dot(cx: &mut Local, module: &mut Module, op: OpId) -> Result<(), Problem> {
    let lhs = module.op(op).operands()[0];
    let contracted: Vec<usize> = match module.op(op).attr("dot_dimension_numbers") {
        Some(Attr::Dot(dims)) => dims.lhs_contract.iter().map(|&d| d as usize).collect(),
        _ => vec![cx.global_dims(lhs).len().saturating_sub(1)],
    };
    let Some((_, mesh)) = cx.split(lhs) else { return Ok(()) };
    let axes: Vec<AxisRef> = contracted.into_iter().flat_map(|d| cx.axes(lhs, d).to_vec()).collect();
    check_reduced(cx, module, op, axes, mesh)
}

/// The only use of the result of `op` combines its partial results over `axes`, unless they are declared partial.
pub(super) fn check_reduced(
    cx: &Local,
    module: &Module,
    op: OpId,
    axes: Vec<AxisRef>,
    mesh: &Mesh,
) -> Result<(), Problem> {
    let result = module.result(op);
    let mut axes = axes_without(&axes, cx.sharding(result).map_or(&[], |s| &s.unreduced), mesh);
    if axes.is_empty() {
        return Ok(());
    }
    axis_list::sort_and_merge(&mut axes, mesh);
    let found = match module.value(result).uses() {
        &[only] => match (module.op(only.op).attr("reduction_axes"), module.op(only.op).attr("reduce_scatter_axes")) {
            (Some(Attr::Axes(found)), _) => found.to_vec(),
            (_, Some(Attr::AxesPerDim(found))) => {
                let mut found = found.concat();
                axis_list::sort_and_merge(&mut found, mesh);
                found
            }
            _ => vec![],
        },
        _ => vec![],
    };
    if found == axes {
        Ok(())
    } else {
        Err(format!(
            "has partial results over axes {}, so that its only use must be an sdy.all_reduce over these; it is reduced over {}",
            AxisList(&axes),
            AxisList(&found)
        )
        .into())
    }
}

/// A convolution of shards: group counts shrink with the dimensions they group.
pub fn convolution(cx: &mut Local, module: &mut Module, op: OpId) -> Result<(), Problem> {
    let &[lhs, rhs] = module.op(op).operands() else { return Err("does not have two operands".into()) };
    let Some(Attr::Conv(dims)) = module.op(op).attr("dimension_numbers").cloned() else {
        return Err("has no dimension numbers".into());
    };
    let result = module.result(op);
    let Some((_, mesh)) = [lhs, rhs, result].into_iter().find_map(|v| cx.split(v)) else { return Ok(()) };
    let summed = std::iter::once(dims.kernel_input_feature).chain(dims.kernel_spatial.iter().copied());
    let mut axes: Vec<AxisRef> = vec![];
    for axis in summed.flat_map(|dim| cx.axes(rhs, dim as usize)) {
        if !axes.contains(axis) {
            axes.push(axis.clone());
        }
    }
    check_reduced(cx, module, op, axes, mesh)?;
    let by_features = axis_list::product(cx.axes(rhs, dims.kernel_output_feature as usize), mesh);
    let by_batches = axis_list::product(cx.axes(lhs, dims.input_batch as usize), mesh);
    for (name, shards) in [("feature_group_count", by_features), ("batch_group_count", by_batches)] {
        let count = module.op(op).int(name).unwrap_or(1);
        if count > 1 {
            let parts = shards.min(count);
            if count % parts != 0 {
                return Err(format!("{name} of {count} does not divide into {parts} shards").into());
            }
            module.op_mut(op).attrs.set(name, Attr::i64(count / parts));
        }
    }
    module.op_mut(op).attrs.remove(meshwork_propagate::program::SHARDING);
    Ok(())
}
