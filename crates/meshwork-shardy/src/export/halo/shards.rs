//! Helpers around values of whole arrays that are split: padding them to even shards, cutting them back, and manual
//! computations on their shards.

use std::sync::Arc;

use meshwork_ir::op::SdyOp;
use meshwork_ir::{Attr, BlockId, Module, OpId, OpSpec, Type, ValueId};
use meshwork_mesh::{AxisRef, DimSharding, Mesh, Sharding, ceil_div};
use meshwork_propagate::program::set_sharding;

use crate::export::rewrite::{Problem, before, tensor};

/// The extents rounded up so that all shards are even.
pub fn even_dims(dims: &[i64], sharding: &Sharding, mesh: &Mesh) -> Vec<i64> {
    let even = |(&size, dim): (&i64, &DimSharding)| {
        let shards = dim.num_shards(mesh);
        ceil_div(size, shards) * shards
    };
    dims.iter().zip(&sharding.dims).map(even).collect()
}

/// The axes of a mesh of which parts are in `axes`, in mesh order.
pub fn whole_axes<'a>(axes: impl IntoIterator<Item = &'a AxisRef>, mesh: &Mesh) -> Vec<AxisRef> {
    let names: Vec<&str> = axes.into_iter().map(|a| &*a.name).collect();
    let used = mesh.axes().iter().filter(|a| names.contains(&&*a.name));
    used.map(|a| AxisRef::full(a.name.clone())).collect()
}

fn is_manual(axis: &AxisRef, manual: &[AxisRef]) -> bool {
    manual.iter().any(|m| m.name == axis.name)
}

/// The placement without the manual axes.
pub fn without_axes(sharding: &Sharding, manual: &[AxisRef]) -> Sharding {
    let keep = |axes: &[AxisRef]| axes.iter().filter(|a| !is_manual(a, manual)).cloned().collect();
    let dims = sharding.dims.iter().map(|dim| DimSharding { axes: keep(&dim.axes), ..dim.clone() });
    Sharding { dims: dims.collect(), ..sharding.clone() }
}

/// The extents of what is inside a manual computation over these axes.
pub fn inner_dims(dims: &[i64], sharding: &Sharding, manual: &[AxisRef], mesh: &Mesh) -> Vec<i64> {
    let shards =
        |dim: &DimSharding| dim.axes.iter().filter(|a| is_manual(a, manual)).map(|a| a.size(mesh)).product::<i64>();
    dims.iter().zip(&sharding.dims).map(|(size, dim)| size / shards(dim)).collect()
}

/// Pads `value` at its high end to `dims` in front of `op`, with `padding` or zero.
pub fn pad_high(
    module: &mut Module,
    op: OpId,
    value: ValueId,
    dims: &[i64],
    sharding: &Sharding,
    padding: Option<ValueId>,
) -> Result<ValueId, Problem> {
    let from = tensor(module, value)?;
    if from.dims[..] == *dims {
        return Ok(value);
    }
    let mut b = before(module, op);
    let padding = match padding {
        Some(padding) => padding,
        None => b.scalar(from.elem, 0.0)?,
    };
    let high: Vec<i64> = dims.iter().zip(&from.dims).map(|(new, old)| new - old).collect();
    let none = vec![0; high.len()];
    let padded = b.pad(value, padding, &none, &high, &none)?;
    set_sharding(module, padded, sharding.clone());
    Ok(padded)
}

/// Cuts `value` at its high end to `dims` in front of `op`.
pub fn cut_high(
    module: &mut Module,
    op: OpId,
    value: ValueId,
    dims: &[i64],
    sharding: &Sharding,
) -> Result<ValueId, Problem> {
    if module.ty(value).dims() == dims {
        return Ok(value);
    }
    let cut = before(module, op).slice(value, &vec![0; dims.len()], dims, &vec![1; dims.len()])?;
    set_sharding(module, cut, sharding.clone());
    Ok(cut)
}

/// A manual computation in front of `op` without a body yet; returns it, its result, and its empty block.
pub struct Manual {
    /// Its result.
    pub result: ValueId,
    /// Its body.
    pub body: BlockId,
    /// The arguments of the body.
    pub args: Vec<ValueId>,
}

/// Inserts a manual computation over `axes` in front of `op`.
pub fn manual_computation(
    module: &mut Module,
    op: OpId,
    operands: &[(ValueId, Sharding)],
    result: (Type, Sharding),
    axes: &[AxisRef],
    mesh: &Mesh,
) -> Result<Manual, Problem> {
    let mut inner = vec![];
    for (value, sharding) in operands {
        let ty = tensor(module, *value)?;
        inner.push(Type::from(ty.with_dims(inner_dims(&ty.dims, sharding, axes, mesh))));
    }
    let spec = OpSpec::new(SdyOp::ManualComputation)
        .operands(operands.iter().map(|(value, _)| *value))
        .results([result.0])
        .attr("in_shardings", Attr::ShardingPerValue(operands.iter().map(|(_, s)| s.clone()).collect()))
        .attr("out_shardings", Attr::ShardingPerValue(Arc::from([result.1])))
        .attr("manual_axes", Attr::Axes(axes.into()))
        .loc(module.op(op).loc.clone());
    let manual = module.push_before(op, spec);
    let body = module.add_body(manual, inner);
    Ok(Manual { result: module.result(manual), body, args: module.block(body).args().to_vec() })
}

/// Ends the body of a manual computation.
pub fn return_from(module: &mut Module, body: BlockId, value: ValueId, at: OpId) {
    let loc = module.op(at).loc.clone();
    module.push(body, OpSpec::new(SdyOp::Return).operands([value]).loc(loc));
}
