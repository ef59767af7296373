//! Replica groups of collectives over axes, and the collectives themselves with explicit types.

use std::sync::Arc;

use meshwork_ir::attr::GroupAxes;
use meshwork_ir::op::{BinaryOp, ControlOp};
use meshwork_ir::{Attr, Dense, DenseData, ElementType, Module, OpId, OpKind, OpSpec, TensorType, Type, ValueId};
use meshwork_mesh::{AxisRef, Mesh, MeshRef, Reduction, device_groups};

use super::Local;
use crate::export::rewrite::Problem;

/// Who takes part in a collective.
pub struct Groups<'a> {
    /// Over which axes.
    pub axes: &'a [AxisRef],
    /// Of which mesh.
    pub mesh: &'a Mesh,
    /// The name of that mesh.
    pub mesh_ref: &'a MeshRef,
}

/// The groups as a list of lists of devices, or by the names of the axes where they are whole.
fn attr(cx: &Local, groups: &Groups) -> Result<Attr, Problem> {
    if cx.groups_by_axes && groups.axes.iter().all(AxisRef::is_full) {
        let groups = GroupAxes { mesh: groups.mesh_ref.clone(), axes: groups.axes.to_vec() };
        return Ok(Attr::GroupAxes(groups.into()));
    }
    let ids = device_groups(groups.mesh, groups.axes).map_err(|e| e.to_string())?;
    let width = ids.first().map_or(0, Vec::len);
    Ok(matrix(ids.len(), width, ids.into_iter().flatten()))
}

/// A constant of two dimensions.
pub(crate) fn matrix(rows: usize, columns: usize, values: impl IntoIterator<Item = i64>) -> Attr {
    let bytes: Vec<u8> = values.into_iter().flat_map(i64::to_le_bytes).collect();
    let ty = TensorType::new([rows as i64, columns as i64], ElementType::I64);
    let is_splat = bytes.len() >= 8 && bytes.chunks_exact(8).all(|c| c == &bytes[..8]);
    let data = if is_splat { DenseData::Splat(bytes[..8].into()) } else { DenseData::Full(bytes.into()) };
    Attr::Dense(Arc::new(Dense { ty: Arc::new(ty), data }))
}

/// Whether a collective names devices by their global ids.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Ids {
    /// It says so.
    Global,
    /// It has no such attribute.
    Unsaid,
}

/// Inserts a collective in front of `at`; the group size goes into `result` by the caller.
pub fn collective(
    cx: &mut Local,
    module: &mut Module,
    at: OpId,
    spec: OpSpec,
    result: Type,
    groups: &Groups,
    ids: Ids,
) -> Result<OpId, Problem> {
    let replica_groups = attr(cx, groups)?;
    let mut spec = spec
        .results([result])
        .attr("replica_groups", replica_groups)
        .attr("channel_handle", cx.channels.take())
        .loc(module.op(at).loc.clone());
    if ids == Ids::Global {
        spec = spec.attr("use_global_device_ids", Attr::Unit);
    }
    Ok(module.push_before(at, spec))
}

/// Gives a reducing collective its body.
pub fn add_reduction(module: &mut Module, op: OpId, operand: ValueId, reduction: Reduction) {
    let elem = module.ty(operand).elem().unwrap_or(ElementType::F32);
    let scalar = || Type::tensor([], elem);
    let body = module.add_body(op, [scalar(), scalar()]);
    let args = module.block(body).args().to_vec();
    let kind = match reduction {
        Reduction::Sum => OpKind::Binary(BinaryOp::Add),
        Reduction::Max => OpKind::Binary(BinaryOp::Maximum),
        Reduction::Min => OpKind::Binary(BinaryOp::Minimum),
    };
    let loc = module.op(op).loc.clone();
    let combine = module.push(body, OpSpec::new(kind).operands(args).results([scalar()]).loc(loc.clone()));
    let value = module.result(combine);
    module.push(body, OpSpec::new(ControlOp::HloReturn).operands([value]).loc(loc));
}
