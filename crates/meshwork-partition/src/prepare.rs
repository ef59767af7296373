//! Index algebra on the global program: slices of slices and slices of padding become one operation each.
//!
//! A slice of a pad is a pad with smaller, possibly negative amounts; a slice of a slice is a slice. What is left moves
//! elements once, by exactly the distance they move. Rows that are cut out and put back keep their dimension (`units`).

use meshwork_ir::op::MovementOp;
use meshwork_ir::transform::cse;
use meshwork_ir::transform::dead::remove_dead;
use meshwork_ir::transform::hoist::hoist;
use meshwork_ir::{Attr, Module, OpId, OpKind, OpSpec, ValueId, Walk};

use crate::plan::memory::type_bytes;
use crate::units::keep_unit_dims;

/// Rewrites `module` so that shifts are single operations. Placements stay on the values that remain.
pub fn prepare(module: &mut Module) {
    // Inlined helpers often compute the same thing: rolls of one array share their halo.
    cse::eliminate(module);
    let mut todo: Vec<OpId> = module.all_ops(Walk::PreOrder);
    todo.retain(|&op| module.op(op).kind() == MovementOp::Slice);
    while let Some(op) = todo.pop() {
        while let Some(source) = source_of(module, op) {
            let again = match module.op(source).kind() {
                OpKind::Movement(MovementOp::Slice) => merge_slices(module, op, source),
                OpKind::Movement(MovementOp::Concatenate) => merge_concatenate(module, op, source, &mut todo),
                OpKind::Movement(MovementOp::Pad) => {
                    merge_pad(module, op, source);
                    false
                }
                _ => false,
            };
            if !again {
                break;
            }
        }
    }
    keep_unit_dims(module);
    hoist(module, does_not_grow);
    remove_dead(module);
    cse::eliminate(module);
}

/// Whether the result of `op` takes at most the memory of its operands. A larger one is cheaper to recompute in each
/// round than to keep.
fn does_not_grow(module: &Module, op: OpId) -> bool {
    let bytes = |values: &[ValueId]| values.iter().map(|&v| type_bytes(module.ty(v))).sum::<i64>();
    bytes(module.op(op).operands()) >= bytes(module.op(op).results())
}

/// `op` slices `source`, a concatenation: makes it a slice of the only piece it touches, or replaces it by a
/// concatenation of slices, which are added to `todo`.
fn merge_concatenate(module: &mut Module, op: OpId, source: OpId, todo: &mut Vec<OpId>) -> bool {
    if !unit_strides(module, op) {
        return false;
    }
    let dim = module.op(source).int("dimension").unwrap_or(0) as usize;
    let starts = module.op(op).i64s("start_indices").unwrap_or_default();
    let limits = module.op(op).i64s("limit_indices").unwrap_or_default();
    let mut touched: Vec<(ValueId, i64, i64)> = vec![];
    let mut at = 0;
    for &piece in module.op(source).operands() {
        let n = module.ty(piece).dims()[dim];
        let (lo, hi) = ((starts[dim] - at).max(0), (limits[dim] - at).min(n));
        if lo < hi {
            touched.push((piece, lo, hi));
        }
        at += n;
    }
    let bounds = |lo: i64, hi: i64| {
        let (mut s, mut l) = (starts.clone(), limits.clone());
        (s[dim], l[dim]) = (lo, hi);
        [("start_indices", Attr::i64s(s)), ("limit_indices", Attr::i64s(l))]
    };
    if let [(piece, lo, hi)] = touched[..] {
        for (name, value) in bounds(lo, hi) {
            module.op_mut(op).attrs.set(name, value);
        }
        module.set_operand(op, 0, piece);
        return true;
    }
    if touched.is_empty() || touched.len() == module.op(source).operands().len() {
        return false;
    }
    let result = module.op(op).results()[0];
    let ty = module.ty(result).clone();
    let like = module.op(op).clone();
    let mut parts = vec![];
    for (piece, lo, hi) in touched {
        let Some(t) = ty.as_tensor() else { return false };
        let mut dims = t.dims.clone();
        dims[dim] = hi - lo;
        let mut spec = OpSpec::new(MovementOp::Slice).operands([piece]).results([t.with_dims(dims).into()]);
        (spec.attrs, spec.loc, spec.pos) = (like.attrs.clone(), like.loc.clone(), like.pos);
        for (name, value) in bounds(lo, hi) {
            spec.attrs.set(name, value);
        }
        let part = module.push_before(op, spec);
        parts.push(module.result(part));
        todo.push(part);
    }
    let mut spec = OpSpec::new(MovementOp::Concatenate).operands(parts).results([ty]);
    (spec.attrs, spec.loc, spec.pos) = (like.attrs.clone(), like.loc.clone(), like.pos);
    spec.attrs.retain(|name, _| !OpKind::Movement(MovementOp::Slice).own_attrs().contains(&name));
    let joined = module.push_before(op, spec.attr("dimension", Attr::i64(dim as i64)));
    module.replace_op(op, &[module.result(joined)]);
    false
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
        module.replace_op(op, &[operands[0]]);
        return;
    }
    let zeros = Attr::i64s(vec![0; extents.len()]);
    let mut spec = OpSpec::new(MovementOp::Pad).operands(operands).results([module.ty(result).clone()]);
    spec.attrs = module.op(op).attrs.clone();
    spec.attrs.retain(|name, _| !OpKind::Movement(MovementOp::Slice).own_attrs().contains(&name));
    spec.loc = module.op(op).loc.clone();
    spec.pos = module.op(op).pos;
    let spec = spec
        .attr("edge_padding_low", Attr::i64s(new_low))
        .attr("edge_padding_high", Attr::i64s(new_high))
        .attr("interior_padding", zeros);
    let pad = module.push_before(op, spec);
    module.replace_op(op, &[module.result(pad)]);
}
