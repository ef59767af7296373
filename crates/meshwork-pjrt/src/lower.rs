//! Per-device programs as plugins want them: devices are replicas, named by number, and nothing is left of meshes.
//!
//! XLA leaves a program of replicas as it is, collectives included. Its partitioner does not run.

use meshwork_ir::attr::Dense;
use meshwork_ir::build::{BuildError, Builder, Direction, Groups};
use meshwork_ir::groups::{device_groups, device_pairs};
use meshwork_ir::op::{CollectiveOp, SdyOp, SourceOp};
use meshwork_ir::{Attr, DeviceGrid, ElementType, Literal, Module, OpId, OpKind, OpSpec, ValueId, Walk};

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
            OpKind::Collective(kind) => collective(&mut module, op, kind, grid)?,
            _ => {}
        }
    }
    for func in module.funcs().collect::<Vec<_>>() {
        module.retain_slot_attrs(func, |name| KEPT.contains(&name));
    }
    Ok(module)
}

/// Replaces `op`, which makes one value, by an operation of another kind with the same attributes.
fn rename(module: &mut Module, op: OpId, kind: SourceOp) {
    let mut spec = OpSpec::new(kind).results([module.ty(module.result(op)).clone()]);
    if let Some(value) = module.op(op).attr("value").cloned() {
        spec = spec.attr("value", value);
    }
    let made = module.push_before(op, spec);
    replace(module, op, module.result(made));
}

fn zero(module: &mut Module, op: OpId) -> Result<(), BuildError> {
    let value = Builder::before(module, op).splat([], ElementType::UI32, 0.0)?;
    replace(module, op, value);
    Ok(())
}

fn replace(module: &mut Module, op: OpId, value: ValueId) {
    let old = module.result(op);
    module.replace_all_uses(old, value);
    module.erase(op);
}

/// Makes the groups of a collective name replicas, or replaces it by others that plugins have.
fn collective(module: &mut Module, op: OpId, kind: CollectiveOp, grid: DeviceGrid) -> Result<(), String> {
    if kind == CollectiveOp::CollectivePermute {
        let pairs = device_pairs(module.op(op), grid)?;
        let ids = pairs.iter().flat_map(|&(from, to)| [from as i64, to as i64]).collect::<Vec<_>>();
        set_matrix(module, op, "source_target_pairs", &ids, 2);
    } else {
        let groups = device_groups(module.op(op), grid)?;
        let width = groups.first().map_or(0, Vec::len);
        if kind == CollectiveOp::CollectiveBroadcast {
            return broadcast(module, op, &groups, grid.partitions).map_err(|e| e.to_string());
        }
        if groups.iter().any(|g| g.len() != width) || groups.len() * width != grid.partitions {
            return Err(format!("{} does not take every device into a group of one size", module.describe(op)));
        }
        let ids: Vec<i64> = groups.iter().flatten().map(|&d| d as i64).collect();
        set_matrix(module, op, "replica_groups", &ids, width);
    }
    let attrs = &mut module.op_mut(op).attrs;
    attrs.remove("channel_handle");
    attrs.remove("use_global_device_ids");
    Ok(())
}

fn set_matrix(module: &mut Module, op: OpId, name: &str, ids: &[i64], columns: usize) {
    let rows = ids.len() / columns.max(1);
    let bytes = ids.iter().flat_map(|id| id.to_le_bytes()).collect();
    if let Some(matrix) = Literal::from_bytes([rows as i64, columns as i64], ElementType::I64, bytes) {
        module.op_mut(op).attrs.set(name, Attr::Dense(Dense::from_literal(&matrix).into()));
    }
}

/// Every device gets the operands of all, and takes that of the first device of its group; zeros if it is in none.
fn broadcast(module: &mut Module, op: OpId, groups: &[Vec<usize>], devices: usize) -> Result<(), BuildError> {
    let x = module.op(op).operands()[0];
    let ty = module.ty(x).clone();
    let dims = ty.dims().to_vec();
    let elem = ty.as_tensor().map_or(ElementType::F32, |t| t.elem);
    let root = |d: usize| groups.iter().find(|g| g.contains(&d)).map_or(-1, |g| g[0] as i32);
    let roots = (0..devices).flat_map(|d| root(d).to_le_bytes()).collect();
    let mut b = Builder::before(module, op);
    let row = b.reshape(x, [&[1], &dims[..]].concat())?;
    let all = b.all_gather(row, 0, &Groups::replicas(vec![(0..devices as i64).collect()]))?;
    let roots = Literal::from_bytes([devices as i64], ElementType::I32, roots);
    let roots = b.constant(&roots.expect("four bytes for each device"))?;
    let here = b.replica_id()?;
    let own = b.dynamic_slice(roots, &[here], &[1])?;
    let own = b.reshape(own, [])?;
    let none = b.scalar(ElementType::I32, 0.0)?;
    let mut starts = vec![own];
    starts.extend(dims.iter().map(|_| none));
    let found = b.dynamic_slice(all, &starts, &[&[1], &dims[..]].concat())?;
    let found = b.reshape(found, dims.iter().copied())?;
    let is_there = b.compare(Direction::Ge, own, none)?;
    let nothing = b.splat(dims.iter().copied(), elem, 0.0)?;
    let value = b.select(is_there, found, nothing)?;
    replace(module, op, value);
    Ok(())
}
