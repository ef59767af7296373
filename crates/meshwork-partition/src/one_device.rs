//! Programs for one device: nothing is split, and placements say nothing.

use std::sync::Arc;

use meshwork_ir::groups::inline_mesh;
use meshwork_ir::op::{SdyOp, SourceOp};
use meshwork_ir::transform::inline::{inline_all, open_body};
use meshwork_ir::{Module, OpId, OpKind, Type, ValueId, Walk};
use meshwork_mesh::{Mesh, Sharding};
use meshwork_propagate::Provenance;
use meshwork_propagate::why::Trace;

use crate::compile::{Causes, CompileError, CompileOptions, Compiled, argument_label, borders, entry_of, result_label};
use crate::plan::{flops, memory};
use crate::{Plan, donation};

/// The program as it is, for the one device of `mesh` or of no mesh.
pub(crate) fn for_one_device(
    module: Module,
    mesh: Option<(String, Mesh)>,
    options: &CompileOptions,
) -> Result<Compiled, CompileError> {
    let entry = entry_of(&module)?;
    let (name, mesh) = mesh.map_or((None, None), |(name, mesh)| (Some(name), Some(mesh)));
    let name = name.as_deref().unwrap_or("mesh");
    let whole = |ty: &Type| Arc::new(Sharding::replicated(name, ty.dims().len()));
    let shardings = |types: &[Type]| types.iter().map(whole).collect::<Vec<_>>();
    let ty = module.func_type(entry);
    let plan = Plan {
        mesh: mesh.clone().unwrap_or_else(Mesh::empty),
        arguments: borders(&ty.inputs, shardings(&ty.inputs), |i| argument_label(&module, entry, i)),
        results: borders(&ty.results, shardings(&ty.results), |i| result_label(&module, entry, i)),
        collectives: vec![],
        peak: memory::peak(&module, entry),
        flops: flops::flops(&module, entry),
    };
    let donation = donation::of(&module, entry);
    let provenance = match options.causes {
        Causes::Operations => None,
        Causes::Annotations => Some(Provenance { module: module.clone(), trace: Trace::default() }),
    };
    let placed = module.clone();
    let (module, mesh) = (Arc::new(module), mesh.map(Arc::new));
    Ok(Compiled { module, plan, mesh, donation, provenance, placed, warnings: vec![] })
}

/// `module` in which calls are inlined, and which has neither placements nor computations for the devices of a mesh.
pub(crate) fn without_placements(module: &Module) -> Module {
    let mut out = module.clone();
    inline_all(&mut out);
    for op in out.all_ops(Walk::PreOrder) {
        out.op_mut(op).attrs.remove("sdy.sharding");
        inline_mesh(module, &mut out.op_mut(op).attrs);
        if let OpKind::Sdy(kind) = out.op(op).kind() {
            lower(&mut out, op, kind);
        }
    }
    for func in out.funcs().collect::<Vec<_>>() {
        out.retain_slot_attrs(func, |name| name != "sdy.sharding");
    }
    out
}

/// Replaces an operation on placements by what it does on one device.
fn lower(module: &mut Module, op: OpId, kind: SdyOp) {
    let same: Vec<ValueId> = match kind {
        SdyOp::ManualComputation | SdyOp::NamedComputation => {
            open_body(module, op);
            return;
        }
        SdyOp::Constant => {
            module.set_kind(op, SourceOp::Constant);
            return;
        }
        SdyOp::ShardingConstraint
        | SdyOp::Reshard
        | SdyOp::AllGather
        | SdyOp::AllSlice
        | SdyOp::AllToAll
        | SdyOp::AllReduce
        | SdyOp::ReduceScatter
        | SdyOp::ReplicatedToUnreduced
        | SdyOp::ShardedToUnreduced
        | SdyOp::CollectivePermute
        | SdyOp::DataFlowEdge
        | SdyOp::FuncDataFlowEdge
        | SdyOp::PropagationBarrier => module.op(op).operands().to_vec(),
        SdyOp::ShardingGroup | SdyOp::Mesh => vec![],
        // It goes with the computation that it ends.
        SdyOp::Return => return,
    };
    module.replace_op(op, &same);
}
