//! Inserting reshards around an op: operands before it, results after it.

use meshwork_ir::Module;
use meshwork_mesh::Sharding;
use meshwork_propagate::program::{set_sharding, sharding_of};

use super::Context;
use super::op::Subject;
use crate::export::cursor::Cursor;

/// Reshards the operands that changed to what the op computes with, and the results that changed back to what their
/// users see. Tensors on a mesh in another device order are resharded too.
pub fn reshard_around(cx: &mut Context, module: &mut Module, subject: &Subject, changed: &[bool]) {
    let needs: Vec<bool> = (0..changed.len()).map(|i| changed[i] || is_reordered(cx, subject, i)).collect();
    let (op, operands) = (subject.op, subject.num_operands());
    let mut at = Cursor::Before(op);
    for i in (0..operands).filter(|&i| needs[i]) {
        let sharding = subject.built_sharding(cx, i);
        let reshard = at.reshard(module, module.op(op).operands()[i], sharding);
        module.set_operand(op, i, reshard);
    }
    let mut at = Cursor::After(op);
    for i in (operands..changed.len()).filter(|&i| needs[i]) {
        let result = module.op(op).results()[i - operands];
        let rank = module.ty(result).rank().unwrap_or(0);
        let seen = sharding_of(module, result);
        let seen = seen.unwrap_or_else(|| Sharding::fully_closed(subject.mesh_ref.clone(), rank));
        let reshard = at.reshard(module, result, seen);
        module.replace_uses_if(result, reshard, |m, u| m.op(u.op).results().first() != Some(&reshard));
        let sharding = subject.built_sharding(cx, i);
        set_sharding(module, result, sharding);
    }
}

/// Whether the tensor is split over the devices in another order than that of the op's mesh.
fn is_reordered(cx: &Context, subject: &Subject, index: usize) -> bool {
    let Some(sharding) = subject.shardings[index].as_ref().filter(|s| !s.is_fully_replicated()) else { return false };
    let ids = cx.meshes.mesh(sharding).and_then(|mesh| mesh.device_ids());
    ids != cx.placements.mesh(subject.mesh).device_ids()
}
