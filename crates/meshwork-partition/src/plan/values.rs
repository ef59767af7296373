//! The values of the global program with their final placements.

use std::sync::Arc;

use meshwork_ir::hash::HashMap;
use meshwork_ir::op::{ControlOp, SdyOp};
use meshwork_ir::{Module, OpId, OpKind, Type, ValueId, Walk};
use meshwork_mesh::{Mesh, Sharding};
use meshwork_propagate::program::sharding_of;

use crate::compile::Compiled;
use crate::plan::cause::{argument_name, place_of, short_name};
use crate::plan::memory::runs_regions;
use crate::plan::ops::PlannedOp;

/// A value of the global program.
#[derive(Clone, PartialEq, Debug)]
pub struct PlacedValue {
    /// The value in the placed program.
    pub value: ValueId,
    /// What it is: `dot_general at line 7`, `argument 1 (w)`.
    pub name: String,
    /// Its global type.
    pub ty: Type,
    /// How it is on the devices; `None` if nothing was said, and every device has all of it.
    pub sharding: Option<Arc<Sharding>>,
    /// The line of the program's text; 0 if it has none.
    pub line: u32,
}

/// The tensors of the entry function: arguments first, then results of operations in program order.
pub fn values(compiled: &Compiled) -> Vec<PlacedValue> {
    let module = &compiled.placed;
    let Some(func) = module.entry() else { return vec![] };
    let args = module.body_of(func, 0).map_or(&[][..], |body| module.block(body).args());
    let arguments = args.iter().enumerate().map(|(i, &value)| PlacedValue {
        value,
        name: argument_name(module, value).unwrap_or_default(),
        ty: module.ty(value).clone(),
        sharding: compiled.plan.arguments.get(i).map(|border| border.sharding.clone()),
        line: module.op(func).pos.line,
    });
    let is_part = |op: &OpId| {
        module.parent_op(*op).is_some_and(|parent| {
            let kind = module.op(parent).kind();
            runs_regions(kind)
                || matches!(
                    kind,
                    OpKind::Control(ControlOp::Func) | OpKind::Sdy(SdyOp::ManualComputation | SdyOp::NamedComputation)
                )
        })
    };
    let results = module.ops_below(func, Walk::PreOrder).into_iter().filter(is_part).flat_map(|op| {
        let data = module.op(op);
        let place = place_of(module, op);
        let name =
            if place.is_empty() { short_name(data.name()) } else { format!("{} at {place}", short_name(data.name())) };
        data.results().iter().filter(|&&v| module.ty(v).as_tensor().is_some()).map(move |&value| PlacedValue {
            value,
            name: name.clone(),
            ty: module.ty(value).clone(),
            sharding: sharding_of(module, value).map(Arc::new),
            line: data.pos.line,
        })
    });
    arguments.chain(results).collect()
}

/// For each of `ops`, the value that its first result is a block of: one that the same operation of the program makes, with
/// blocks of that type.
pub(super) fn values_of_ops(compiled: &Compiled, ops: &[PlannedOp], values: &[PlacedValue]) -> Vec<Option<usize>> {
    let (placed, local, mesh) = (&compiled.placed, &*compiled.module, &compiled.plan.mesh);
    let mut by_place: HashMap<Written<'_>, Vec<(usize, Type)>> = HashMap::default();
    for (i, v) in values.iter().enumerate() {
        if let Some(op) = placed.def_op(v.value)
            && let Some(key) = key(placed, op)
        {
            by_place.entry(key).or_default().push((i, block_type(v, mesh)));
        }
    }
    let find = |op: &PlannedOp| {
        let ty = local.ty(op.results.first()?.value);
        by_place.get(&key(local, op.op)?)?.iter().find(|(_, block)| block == ty).map(|(i, _)| *i)
    };
    ops.iter().map(find).collect()
}

/// Where an operation was written, as file, line and column: in the program's text, which has no name, or else in the user's file.
type Written<'m> = (&'m str, u32, u32);

fn key(module: &Module, op: OpId) -> Option<Written<'_>> {
    let data = module.op(op);
    match data.pos.line {
        0 => data.loc.source(),
        line => Some(("", line, data.pos.col)),
    }
}

fn block_type(v: &PlacedValue, mesh: &Mesh) -> Type {
    let local = || {
        let tensor = v.ty.as_tensor()?;
        let dims = v.sharding.as_ref()?.local_shape(mesh, &tensor.dims).ok()?;
        Some(Type::tensor(dims, tensor.elem))
    };
    local().unwrap_or_else(|| v.ty.clone())
}
