//! Index algebra on the global program: cuts of cuts and cuts of padding become one operation each.
//!
//! A slice of a pad is a pad with smaller, possibly negative amounts; a slice of a slice is a slice. What is left moves
//! elements once, by exactly the distance they move.

use meshwork_ir::transform::dead::remove_dead;
use meshwork_ir::{Attr, Module, OpId, OpKind, OpSpec, Walk};

/// Rewrites `module` so that shifts are single operations. Placements stay on the values that remain.
pub fn prepare(module: &mut Module) {
    for op in module.all_ops(Walk::PreOrder) {
        if module.op(op).kind() == OpKind::Slice {
            while let Some(source) = source_of(module, op) {
                let done = match module.op(source).kind() {
                    OpKind::Slice => merge_slices(module, op, source),
                    OpKind::Pad => {
                        merge_pad(module, op, source);
                        false
                    }
                    _ => false,
                };
                if !done {
                    break;
                }
            }
        }
    }
    remove_dead(module);
}

fn source_of(module: &Module, op: OpId) -> Option<OpId> {
    if module.is_erased(op) { None } else { module.def_op(*module.op(op).operands().first()?) }
}

fn unit_strides(module: &Module, op: OpId) -> bool {
    module.op(op).i64s("strides").is_some_and(|s| s.iter().all(|&s| s == 1))
}

/// `op` slices `source`, a slice: makes `op` slice what `source` slices.
fn merge_slices(module: &mut Module, op: OpId, source: OpId) -> bool {
    let read = |module: &Module, op: OpId, name: &str| module.op(op).i64s(name).unwrap_or_default();
    if !unit_strides(module, source) {
        return false;
    }
    let inner = read(module, source, "start_indices");
    for name in ["start_indices", "limit_indices"] {
        let outer = read(module, op, name);
        let sum = outer.iter().zip(&inner).map(|(a, b)| a + b);
        let sum = Attr::i64s(sum);
        module.op_mut(op).attrs.set(name, sum);
    }
    let operand = module.op(source).operands()[0];
    module.set_operand(op, 0, operand);
    true
}

/// `op` slices `source`, a pad: replaces `op` by one pad.
fn merge_pad(module: &mut Module, op: OpId, source: OpId) {
    let read = |op: OpId, name: &str| module.op(op).i64s(name).unwrap_or_default();
    let plain = read(source, "interior_padding").iter().all(|&i| i == 0) && unit_strides(module, op);
    if !plain {
        return;
    }
    let extents = module.ty(module.op(source).operands()[0]).dims().to_vec();
    let (low, starts, limits) =
        (read(source, "edge_padding_low"), read(op, "start_indices"), read(op, "limit_indices"));
    let new_low: Vec<i64> = low.iter().zip(&starts).map(|(l, s)| l - s).collect();
    let new_high: Vec<i64> = limits.iter().zip(&low).zip(&extents).map(|((limit, l), n)| limit - l - n).collect();
    let (operands, result) = (module.op(source).operands().to_vec(), module.op(op).results()[0]);
    if new_low.iter().chain(&new_high).all(|&a| a == 0) {
        module.replace_all_uses(result, operands[0]);
        module.erase(op);
        return;
    }
    let zeros = Attr::i64s(vec![0; extents.len()]);
    let mut spec = OpSpec::new(OpKind::Pad).operands(operands).results([module.ty(result).clone()]);
    spec.attrs = module.op(op).attrs.clone();
    spec.attrs.retain(|name, _| !OpKind::Slice.own_attrs().contains(&name));
    spec.loc = module.op(op).loc.clone();
    spec.pos = module.op(op).pos;
    let spec = spec
        .attr("edge_padding_low", Attr::i64s(new_low))
        .attr("edge_padding_high", Attr::i64s(new_high))
        .attr("interior_padding", zeros);
    let pad = module.push_before(op, spec);
    let padded = module.result(pad);
    module.replace_all_uses(result, padded);
    module.erase(op);
}
