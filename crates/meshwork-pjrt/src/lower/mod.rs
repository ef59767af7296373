//! Per-device programs as plugins want them: devices are replicas, named by number, and nothing is left of meshes.
//!
//! XLA leaves a program of replicas as it is, collectives included. Its partitioner does not run.

mod collectives;

use meshwork_ir::build::{BuildError, Builder};
use meshwork_ir::op::{SdyOp, SourceOp};
use meshwork_ir::{DeviceGrid, ElementType, Module, OpId, OpKind, Walk};

/// The attributes of arguments that plugins understand: whose memory the program may take.
const KEPT: [&str; 2] = ["tf.aliasing_output", "jax.buffer_donor"];

/// `program`, which each of `devices` devices runs, as a program of replicas. An error says what has no such form.
pub(crate) fn for_replicas(program: &Module, devices: usize) -> Result<Module, String> {
    let mut module = program.clone();
    module.attrs.retain(|name, _| name == "sym_name");
    let grid = DeviceGrid { replicas: 1, partitions: devices };
    for op in module.all_ops(Walk::PreOrder) {
        match module.op(op).kind() {
            OpKind::Source(SourceOp::PartitionId) => rename(&mut module, op, SourceOp::ReplicaId),
            // There is one replica of the per-device program.
            OpKind::Source(SourceOp::ReplicaId) => zero(&mut module, op).map_err(|e| e.to_string())?,
            OpKind::Sdy(SdyOp::Constant) => rename(&mut module, op, SourceOp::Constant),
            OpKind::Sdy(SdyOp::Mesh) => module.erase(op),
            OpKind::Check(_) => return Err(format!("{} is for the evaluator", module.describe(op))),
            OpKind::Collective(kind) => collectives::name_replicas(&mut module, op, kind, grid)?,
            _ => {}
        }
    }
    for func in module.funcs().collect::<Vec<_>>() {
        module.retain_slot_attrs(func, |name| KEPT.contains(&name));
    }
    Ok(module)
}

/// Makes `op` an operation of another kind that has no attributes but its value.
fn rename(module: &mut Module, op: OpId, kind: SourceOp) {
    module.set_kind(op, kind);
    module.op_mut(op).attrs.retain(|name, _| name == "value");
}

fn zero(module: &mut Module, op: OpId) -> Result<(), BuildError> {
    let value = Builder::before(module, op).splat([], ElementType::UI32, 0.0)?;
    module.replace_op(op, &[value]);
    Ok(())
}
