//! Gathers of parts of a value that loops do not change are one gather of all of it, before the first of the loops.
//!
//! ```text
//! for i in layers: x = f(x, all_gather(w[i]))              all = all_gather(w)
//! for i in layers: y = g(y, all_gather(w[i]))       ──►    for i in layers: x = f(x, all[i])
//!                                                          for i in layers: y = g(y, all[i])
//! ```
//!
//! That is done where less is sent, and where the device's memory, if its size is known, has room for all of it: without
//! room the parts are gathered when they are needed, and again when they are needed again.

use meshwork_ir::op::ControlOp;
use meshwork_ir::{Attr, BlockId, Def, Module, OpId, OpKind, Type, ValueId, ValueMap};
use meshwork_mesh::sort_by;

use super::accumulate::runs;
use super::linear::{dim_before, follow, rebuild};
use super::{Collective, CollectiveKind, Peers};
use crate::plan::memory::{peak_bytes, type_bytes};

/// A gather inside a loop of a part of `source`.
struct Part {
    /// Its number among the collectives.
    index: usize,
    /// The operations that lead from the source to what is gathered, first to last.
    chain: Vec<OpId>,
}

/// Gathers of parts of one value along one of its dimensions.
struct Whole {
    source: ValueId,
    dim: usize,
    peers: Peers,
    parts: Vec<Part>,
}

/// Gathers once what loops of `module` gather part by part, as far as `room` bytes of memory go.
pub fn gather_once(module: &mut Module, collectives: &mut [Collective], room: Option<f64>) {
    let mut wholes: Vec<Whole> = vec![];
    for (index, c) in collectives.iter().enumerate() {
        let Some((source, dim, chain)) = source_of(module, c) else { continue };
        let part = Part { index, chain };
        let same = |w: &&mut Whole| w.source == source && w.dim == dim && w.peers == c.peers;
        match wholes.iter_mut().find(same) {
            Some(whole) => whole.parts.push(part),
            None => wholes.push(Whole { source, dim, peers: c.peers.clone(), parts: vec![part] }),
        }
    }
    wholes.retain(|whole| spared(module, collectives, whole) > 0.0);
    if wholes.is_empty() {
        return;
    }
    // What spares most for the memory it takes comes first.
    let mut room =
        room.map(|room| room - module.entry().and_then(|f| peak_bytes(module, f)).map_or(0, |peak| peak.0) as f64);
    let worth = |w: &Whole| spared(module, collectives, w) / bytes_of(module, collectives, w).max(1.0);
    let mut order: Vec<(f64, Whole)> = wholes.into_iter().map(|w| (worth(&w), w)).collect();
    sort_by(&mut order, |a, b| b.0.total_cmp(&a.0));
    for (_, whole) in order {
        let bytes = bytes_of(module, collectives, &whole);
        if room.is_some_and(|room| bytes > room) {
            continue;
        }
        if gather_before_loops(module, collectives, &whole) {
            room = room.map(|room| room - bytes);
        }
    }
}

/// The value outside of loops that `c` gathers a part of in each round, the dimension of it that is gathered, and the way
/// from there to the part.
fn source_of(module: &Module, c: &Collective) -> Option<(ValueId, usize, Vec<OpId>)> {
    if c.kind != CollectiveKind::AllGather || !matches!(c.peers, Peers::Group(_)) {
        return None;
    }
    let &[operand] = module.op(c.emitted).operands() else { return None };
    let home = module.op(c.emitted).parent();
    let gathered = module.op(c.emitted).int("all_gather_dim")? as usize;
    let mut dim = gathered;
    let (mut at, mut chain) = (operand, vec![]);
    loop {
        if let Some(before) = same_before(module, at) {
            at = before;
            continue;
        }
        let is_inside = block_of(module, at).is_some_and(|block| runs_in_loop(module, block));
        let step = module.def_op(at).filter(|_| is_inside);
        let Some((op, before)) = step.and_then(|op| Some((op, dim_before(module, op, dim)?))) else { break };
        chain.push(op);
        (dim, at) = (before, module.op(op).operands()[0]);
    }
    chain.reverse();
    let leaves_loop = block_of(module, at) != home;
    (leaves_loop && follow(module, &chain, dim) == Some(gathered)).then_some((at, dim, chain))
}

/// What `v` is known to be from before or outside of a loop that hands it on unchanged.
fn same_before(module: &Module, v: ValueId) -> Option<ValueId> {
    let (op, index) = match module.value(v).def() {
        Def::Result(op, index) => (op, index as usize),
        Def::Arg(block, index) => (module.block_parent_op(block)?, index as usize),
    };
    if module.op(op).kind() != OpKind::Control(ControlOp::While) {
        return None;
    }
    let body = module.body_of(op, 1)?;
    let unchanged = module.returned(body).get(index) == module.block(body).args().get(index);
    if unchanged { module.op(op).operands().get(index).copied() } else { None }
}

fn block_of(module: &Module, v: ValueId) -> Option<BlockId> {
    match module.value(v).def() {
        Def::Result(op, _) => module.op(op).parent(),
        Def::Arg(block, _) => Some(block),
    }
}

/// Whether what stands in `block` is part of a loop.
fn runs_in_loop(module: &Module, block: BlockId) -> bool {
    let mut at = module.block_parent_op(block);
    while let Some(op) = at {
        if module.op(op).kind() == OpKind::Control(ControlOp::While) {
            return true;
        }
        at = module.parent_op(op);
    }
    false
}

/// How many devices gather.
fn group(module: &Module, c: &Collective) -> i64 {
    let d = module.op(c.emitted).int("all_gather_dim").unwrap_or(0) as usize;
    let (from, to) = (module.op(c.emitted).operands()[0], module.result(c.emitted));
    module.ty(to).dims()[d] / module.ty(from).dims()[d].max(1)
}

/// Bytes of all that is gathered.
fn bytes_of(module: &Module, collectives: &[Collective], whole: &Whole) -> f64 {
    let devices = group(module, &collectives[whole.parts[0].index]);
    (type_bytes(module.ty(whole.source)) * devices) as f64
}

/// Bytes that a device sends less if the whole is gathered at once.
fn spared(module: &Module, collectives: &[Collective], whole: &Whole) -> f64 {
    let sent = |p: &Part| collectives[p.index].wire_bytes * collectives[p.index].times as f64;
    let first = &collectives[whole.parts[0].index];
    let share = type_bytes(module.ty(whole.source)) as f64 / first.operand_bytes.max(1) as f64;
    let Some(block) = block_of(module, whole.source) else { return 0.0 };
    let at_once = first.wire_bytes * share * runs(module, module.block_parent_op(block)).0 as f64;
    whole.parts.iter().map(sent).sum::<f64>() - at_once
}

/// Gathers `whole` before the first loop that gathers a part of it, and cuts the parts out of the result.
fn gather_before_loops(module: &mut Module, collectives: &mut [Collective], whole: &Whole) -> bool {
    let Some(block) = block_of(module, whole.source) else { return false };
    let ancestors: Vec<OpId> =
        whole.parts.iter().filter_map(|part| ancestor_in(module, collectives[part.index].emitted, block)).collect();
    let Some(place) = module.ops_in(block).find(|op| ancestors.contains(op)) else { return false };
    if ancestors.len() < whole.parts.len() {
        return false;
    }
    let first = collectives[whole.parts[0].index].clone();
    let devices = group(module, &first);
    let (source, dim) = (whole.source, whole.dim);
    let Some(t) = module.ty(source).as_tensor().cloned() else { return false };
    let mut dims = t.dims.clone();
    dims[dim] *= devices;
    let operand = module.op(first.emitted).operands()[0];
    let gathered = module.clone_op(first.emitted, &mut ValueMap::from_iter([(operand, source)]));
    module.insert_before(place, gathered);
    module.op_mut(gathered).attrs.set("all_gather_dim", Attr::i64(dim as i64));
    let value = module.result(gathered);
    module.set_ty(value, Type::from(t.with_dims(dims)));
    let mut origins = vec![];
    for part in &whole.parts {
        let old = collectives[part.index].emitted;
        let Some((cut, _)) = rebuild(module, &part.chain, value, Some((dim, devices)), old) else { continue };
        module.replace_all_uses(module.result(old), cut);
        module.erase(old);
        origins.append(&mut collectives[part.index].origins);
    }
    let bytes = type_bytes(&t.into());
    let c = &mut collectives[whole.parts[0].index];
    c.wire_bytes = first.wire_bytes * bytes as f64 / first.operand_bytes.max(1) as f64;
    let each = c.wire_bytes / origins.len().max(1) as f64;
    origins.iter_mut().for_each(|origin| origin.wire_bytes = each);
    (c.emitted, c.operand_bytes, c.origins) = (gathered, bytes, origins);
    (c.times, c.times_unknown) = runs(module, module.parent_op(gathered));
    true
}

/// The operation of `block` that `op` is or stands in.
pub(super) fn ancestor_in(module: &Module, op: OpId, block: BlockId) -> Option<OpId> {
    let mut at = op;
    while module.op(at).parent() != Some(block) {
        at = module.parent_op(at)?;
    }
    Some(at)
}
