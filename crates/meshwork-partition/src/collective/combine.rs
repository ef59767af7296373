//! Combining collectives: several of one kind and one group, none of which depends on another, become one.
//!
//! An all-reduce takes several operands as they are. The others move their operands flattened and behind each other, which
//! copies them: that pays for small ones only. What each element meets on its way is the same, so results are the same.
//!
//! What is combined stands equally deep among collectives. Small sums that no other collective waits for, as some of those of gradients, are combined with
//! deeper ones as well: each by itself would keep the links busy for its latency.
//!
//! How large sums may get depends on what combining saves: the latency of a group that spans nodes may be a hundred microseconds. What is
//! gathered stays small: combined, it would be there earlier than it is needed, and not become a ring.

use meshwork_ir::hash::{HashMap, HashSet};
use meshwork_ir::op::MovementOp;
use meshwork_ir::transform::dead::is_effect_free;
use meshwork_ir::{Attr, BlockId, ElementType, Module, OpId, OpSpec, Type, ValueId, Walk};

use crate::collective::{Collective, CollectiveKind, Peers};
use crate::layout::atoms::Atoms;
use crate::plan::Machine;

/// Collectives are combined up to this many bytes of operands, if nothing else is asked for and no levels are known. At 50 GB/s this many bytes
/// take some 80 times as long as the latency that combining saves: more would gain nothing and cost memory.
pub const DEFAULT_COMBINE_BYTES: i64 = 4 << 20;

/// Collectives that are copied for it are combined up to this many bytes: copying them twice takes a few microseconds, as
/// long as the latency that combining saves.
const MOST_COPIED_BYTES: i64 = 32 << 10;

/// On machines whose levels are known, sums are combined until their bytes take this many times as long as their latency: what is
/// larger gains less than a part in so many, and has to wait for its last operand.
const LATENCIES: f64 = 8.0;

/// Sums are combined with deeper ones until their bytes take this many times as long as their latency: the first waits for the last.
const LATENCIES_ACROSS: f64 = 0.5;

/// How often bytes that are copied for it pass through memory: they are read and written before it and behind it.
const COPIES: f64 = 4.0;

/// How many bytes collectives are combined up to.
pub struct Limit<'a> {
    /// At least these; 0 combines none.
    pub bytes: i64,
    /// The machine, if its levels are known, and the mesh.
    pub network: Option<(&'a Machine, &'a Atoms)>,
}

impl Limit<'_> {
    /// The bytes for collectives like `c`.
    fn of(&self, c: &Collective) -> Bytes {
        let least = if is_copied(&c.kind) { self.bytes.min(MOST_COPIED_BYTES) } else { self.bytes };
        let is_sum = matches!(c.kind, CollectiveKind::AllReduce(_) | CollectiveKind::ReduceScatter(_));
        let (Some((machine, atoms)), Peers::Group(group)) = (self.network, &c.peers) else {
            return Bytes { together: least, across: 0 };
        };
        if !is_sum || self.bytes == 0 {
            return Bytes { together: least, across: 0 };
        }
        let axes = atoms.to_axes(group);
        let seconds = |bytes: f64| machine.axes_seconds(&c.kind, &axes, atoms.mesh(), bytes);
        let (latency, many) = (seconds(0.0), 1e9);
        let as_latency = latency * many / (seconds(many) - latency).max(1e-9);
        // Copying takes no longer than half of what is saved.
        let speed = machine.device.memory_gigabytes_per_second * 1e9;
        let copied = if is_copied(&c.kind) { latency / 2.0 * speed / COPIES } else { f64::INFINITY };
        let together = least.max((LATENCIES * as_latency).min(copied) as i64);
        let across = if is_copied(&c.kind) { 0 } else { (LATENCIES_ACROSS * as_latency) as i64 };
        Bytes { together, across }
    }
}

/// How many bytes collectives may have together.
#[derive(Clone, Copy)]
struct Bytes {
    /// If they stand equally deep.
    together: i64,
    /// If one is deeper than another, and no other collective waits for them.
    across: i64,
}

/// What collectives must agree in to be combined, beside kind and peers: element type, how often they run, and how many
/// candidates stand before them on a path.
type Key = (&'static str, ElementType, i64, bool, usize);

/// Collectives that may become one.
struct Set {
    kind: CollectiveKind,
    peers: Peers,
    limit: Bytes,
    /// Indices of collectives, cut where they get too many bytes.
    chunks: Vec<Vec<usize>>,
}

/// Operations that do what `members` did, in order and not yet in a block.
struct Joint {
    ops: Vec<OpId>,
    members: Vec<OpId>,
}

/// Combines independent collectives of one kind and group in `block`, up to `limit`.
pub fn combine(
    module: &mut Module,
    block: BlockId,
    collectives: &mut [Collective],
    by_op: &HashMap<OpId, usize>,
    limit: &Limit<'_>,
) {
    let ops = module.op_list(block);
    let chunks = chunks(module, &ops, collectives, by_op, limit);
    if chunks.is_empty() {
        return;
    }
    let mut merged = vec![];
    for chunk in &chunks {
        let members: Vec<OpId> = chunk.iter().map(|&i| collectives[i].emitted).collect();
        let mut total = collectives[chunk[0]].clone();
        let (emitted, ops) = join(module, &members, &total.kind);
        total.emitted = emitted;
        for &i in &chunk[1..] {
            total.operand_bytes += collectives[i].operand_bytes;
            total.wire_bytes += collectives[i].wire_bytes;
            total.origins.extend(collectives[i].origins.clone());
        }
        collectives[chunk[0]] = total;
        merged.push(Joint { ops, members });
    }
    reorder(module, block, &ops, &merged);
    for op in merged.into_iter().flat_map(|joint| joint.members) {
        module.erase(op);
    }
}

/// Candidates that may become one, at least two together. Candidates of one key have equally many candidates before
/// them, so none depends on another, and combining several sets cannot close a circle.
fn chunks(
    module: &Module,
    ops: &[OpId],
    collectives: &[Collective],
    by_op: &HashMap<OpId, usize>,
    limit: &Limit<'_>,
) -> Vec<Vec<usize>> {
    let mut depth: HashMap<ValueId, usize> = HashMap::default();
    let mut sets: Vec<Set> = vec![];
    let mut open: HashMap<Key, Vec<usize>> = HashMap::default();
    for &op in ops {
        let before = inputs(module, op).filter_map(|v| depth.get(&v)).max().copied().unwrap_or(0);
        let candidate = by_op.get(&op).and_then(|&i| Some((i, key(module, &collectives[i], before)?)));
        let after = before + usize::from(candidate.is_some());
        depth.extend(module.op(op).results().iter().map(|&r| (r, after)));
        let Some((index, key)) = candidate else { continue };
        let c = &collectives[index];
        let same_group = open.entry(key).or_default();
        let set = same_group.iter().copied().find(|&s| sets[s].kind == c.kind && sets[s].peers == c.peers);
        let set = set.unwrap_or_else(|| {
            sets.push(Set { kind: c.kind.clone(), peers: c.peers.clone(), limit: limit.of(c), chunks: vec![] });
            same_group.push(sets.len() - 1);
            sets.len() - 1
        });
        let limit = sets[set].limit.together;
        match sets[set].chunks.last_mut() {
            Some(list) if bytes(collectives, list) + c.operand_bytes <= limit => list.push(index),
            _ => sets[set].chunks.push(vec![index]),
        }
    }
    across(module, ops, collectives, by_op, sets).into_iter().filter(|list| list.len() > 1).collect()
}

/// The chunks of `sets`, small ones that nothing waits for together with deeper ones. Nothing leads from these to another candidate, so
/// this closes no circle either.
fn across(
    module: &Module,
    ops: &[OpId],
    collectives: &[Collective],
    by_op: &HashMap<OpId, usize>,
    sets: Vec<Set>,
) -> Vec<Vec<usize>> {
    if sets.iter().all(|set| set.limit.across == 0) {
        return sets.into_iter().flat_map(|set| set.chunks).collect();
    }
    let needed = needed(module, ops, by_op);
    // Of the lists those that others may join.
    let (mut out, mut open): (Vec<Vec<usize>>, Vec<usize>) = (vec![], vec![]);
    for (limit, list) in
        sets.into_iter().flat_map(|set| set.chunks.into_iter().map(move |list| (set.limit.across, list)))
    {
        let fits = |others: &[usize]| bytes(collectives, others) + bytes(collectives, &list) <= limit;
        if !fits(&[]) || list.iter().any(|&i| needed.contains(&collectives[i].emitted)) {
            out.push(list);
            continue;
        }
        let alike = |&other: &usize| {
            let (a, b) = (&collectives[out[other][0]], &collectives[list[0]]);
            a.kind == b.kind && a.peers == b.peers && key(module, a, 0) == key(module, b, 0)
        };
        match open.iter().position(alike) {
            Some(at) if fits(&out[open[at]]) => out[open[at]].extend(list),
            at => {
                match at {
                    Some(at) => open[at] = out.len(),
                    None => open.push(out.len()),
                }
                out.push(list);
            }
        }
    }
    out
}

/// Of `ops`, those that a collective depends on.
fn needed(module: &Module, ops: &[OpId], by_op: &HashMap<OpId, usize>) -> HashSet<OpId> {
    let (mut found, mut values): (HashSet<OpId>, HashSet<ValueId>) = (HashSet::default(), HashSet::default());
    for &op in ops.iter().rev() {
        let is_needed = module.op(op).results().iter().any(|r| values.contains(r));
        if is_needed {
            found.insert(op);
        }
        if is_needed || by_op.contains_key(&op) {
            values.extend(inputs(module, op));
        }
    }
    found
}

/// Bytes of the operands of collectives.
fn bytes(collectives: &[Collective], list: &[usize]) -> i64 {
    list.iter().map(|&i| collectives[i].operand_bytes).sum()
}

/// Whether combining copies the operands.
fn is_copied(kind: &CollectiveKind) -> bool {
    !matches!(kind, CollectiveKind::AllReduce(_))
}

fn key(module: &Module, c: &Collective, depth: usize) -> Option<Key> {
    let element = module.ty(*module.op(c.emitted).operands().first()?).elem()?;
    match (&c.kind, &c.peers) {
        // The program's own stay as they are.
        (_, Peers::Given { .. }) | (CollectiveKind::AllToAll | CollectiveKind::RaggedAllToAll, _) => None,
        _ => Some((c.kind.name(), element, c.times, c.times_unknown, depth)),
    }
}

/// Operands of `op`, and what its regions use.
fn inputs<'m>(module: &'m Module, op: OpId) -> impl Iterator<Item = ValueId> + 'm {
    let below = if module.op(op).regions().is_empty() { vec![op] } else { module.ops_below(op, Walk::PreOrder) };
    below.into_iter().flat_map(|inner| module.op(inner).operands().iter().copied())
}

/// Operations, not yet in a block, that do what `members` do, and the collective among them. Uses are redirected.
fn join(module: &mut Module, members: &[OpId], kind: &CollectiveKind) -> (OpId, Vec<OpId>) {
    let operands: Vec<ValueId> = members.iter().flat_map(|&op| module.op(op).operands().to_vec()).collect();
    let results: Vec<ValueId> = members.iter().flat_map(|&op| module.op(op).results().to_vec()).collect();
    let mut writer = Writer { module, like: members[0], ops: vec![] };
    let (emitted, new) = match kind {
        CollectiveKind::AllReduce(_) => writer.together(&operands),
        CollectiveKind::Permute => writer.permute(&operands, &results),
        CollectiveKind::AllGather => writer.gather(&operands, &results),
        CollectiveKind::ReduceScatter(_) => writer.scatter(&operands, &results),
        CollectiveKind::AllToAll | CollectiveKind::RaggedAllToAll => return (members[0], vec![]),
    };
    let ops = writer.ops;
    for (old, new) in results.into_iter().zip(new) {
        module.replace_all_uses(old, new);
    }
    (emitted, ops)
}

/// Creates operations in order, with the place of `like` in the program.
struct Writer<'m> {
    module: &'m mut Module,
    like: OpId,
    ops: Vec<OpId>,
}

impl Writer<'_> {
    fn create(&mut self, mut spec: OpSpec) -> OpId {
        let like = self.module.op(self.like);
        (spec.loc, spec.pos) = (like.loc.clone(), like.pos);
        let op = self.module.create(spec);
        self.ops.push(op);
        op
    }

    /// The collective itself, with the body and attributes of the first member.
    fn collective(&mut self, operands: Vec<ValueId>, results: Vec<Type>, attrs: &[(&str, i64)]) -> OpId {
        let first = self.module.op(self.like);
        let mut spec = OpSpec::new(first.kind()).operands(operands).results(results);
        spec.attrs = first.attrs.clone();
        for (name, value) in attrs {
            spec.attrs.set(*name, Attr::i64(*value));
        }
        let body = first.regions().first().copied();
        let op = self.create(spec);
        if let Some(body) = body {
            let region = self.module.add_region(op);
            self.module.move_blocks(body, region);
        }
        op
    }

    fn value(&mut self, spec: OpSpec) -> ValueId {
        let op = self.create(spec);
        self.module.result(op)
    }

    fn dims(&self, v: ValueId) -> Vec<i64> {
        self.module.ty(v).dims().to_vec()
    }

    fn ty(&self, like: ValueId, dims: &[i64]) -> Type {
        let elem = self.module.ty(like).elem().unwrap_or(ElementType::F32);
        Type::tensor(dims.iter().copied(), elem)
    }

    fn reshape(&mut self, v: ValueId, dims: &[i64]) -> ValueId {
        if self.dims(v) == dims {
            return v;
        }
        let ty = self.ty(v, dims);
        self.value(OpSpec::new(MovementOp::Reshape).operands([v]).results([ty]))
    }

    /// Moves dimension `from` to stand at `to`.
    fn move_dim(&mut self, v: ValueId, from: usize, to: usize) -> ValueId {
        if from == to {
            return v;
        }
        let dims = self.dims(v);
        let mut order: Vec<i64> = (0..dims.len() as i64).collect();
        let moved = order.remove(from);
        order.insert(to, moved);
        let ty = self.ty(v, &order.iter().map(|&d| dims[d as usize]).collect::<Vec<_>>());
        let spec = OpSpec::new(MovementOp::Transpose).operands([v]).results([ty]);
        self.value(spec.attr("permutation", Attr::i64s(order)))
    }

    /// Matrices of equally many rows beside each other.
    fn beside(&mut self, parts: Vec<ValueId>) -> ValueId {
        let rows = self.dims(parts[0])[0];
        let columns: i64 = parts.iter().map(|&p| self.dims(p)[1]).sum();
        let ty = self.ty(parts[0], &[rows, columns]);
        self.value(OpSpec::new(MovementOp::Concatenate).operands(parts).results([ty]).attr("dimension", Attr::i64(1)))
    }

    /// The columns of a matrix cut into pieces of these widths.
    fn apart(&mut self, v: ValueId, widths: &[i64]) -> Vec<ValueId> {
        let rows = self.dims(v)[0];
        let mut at = 0;
        let mut out = vec![];
        for &width in widths {
            let ty = self.ty(v, &[rows, width]);
            let spec = OpSpec::new(MovementOp::Slice).operands([v]).results([ty]);
            let spec =
                spec.attr("start_indices", Attr::i64s([0, at])).attr("limit_indices", Attr::i64s([rows, at + width]));
            out.push(self.value(spec.attr("strides", Attr::i64s([1, 1]))));
            at += width;
        }
        out
    }

    /// One collective of several operands.
    fn together(&mut self, operands: &[ValueId]) -> (OpId, Vec<ValueId>) {
        let types = operands.iter().map(|&v| self.module.ty(v).clone()).collect();
        let op = self.collective(operands.to_vec(), types, &[]);
        (op, self.module.op(op).results().to_vec())
    }

    fn permute(&mut self, operands: &[ValueId], results: &[ValueId]) -> (OpId, Vec<ValueId>) {
        let widths: Vec<i64> = operands.iter().map(|&v| self.dims(v).iter().product()).collect();
        let parts = operands.iter().zip(&widths).map(|(&v, &n)| self.reshape(v, &[1, n])).collect();
        let whole = self.beside(parts);
        let ty = self.module.ty(whole).clone();
        let op = self.collective(vec![whole], vec![ty], &[]);
        let pieces = self.apart(self.module.result(op), &widths);
        let shapes: Vec<Vec<i64>> = results.iter().map(|&r| self.dims(r)).collect();
        (op, pieces.into_iter().zip(&shapes).map(|(v, dims)| self.reshape(v, dims)).collect())
    }

    fn gather(&mut self, operands: &[ValueId], results: &[ValueId]) -> (OpId, Vec<ValueId>) {
        let widths: Vec<i64> = operands.iter().map(|&v| self.dims(v).iter().product()).collect();
        let dims: Vec<usize> = self.member_dims(results, "all_gather_dim");
        let group = self.dims(results[0])[dims[0]] / self.dims(operands[0])[dims[0]];
        let parts = operands.iter().zip(&widths).map(|(&v, &n)| self.reshape(v, &[1, n])).collect();
        let whole = self.beside(parts);
        let columns: i64 = widths.iter().sum();
        let ty = self.ty(whole, &[group, columns]);
        let op = self.collective(vec![whole], vec![ty], &[("all_gather_dim", 0)]);
        let pieces = self.apart(self.module.result(op), &widths);
        let mut out = vec![];
        for (i, piece) in pieces.into_iter().enumerate() {
            let piece = self.reshape(piece, &[&[group], &self.dims(operands[i])[..]].concat());
            let piece = self.move_dim(piece, 0, dims[i]);
            let dims = self.dims(results[i]);
            out.push(self.reshape(piece, &dims));
        }
        (op, out)
    }

    fn scatter(&mut self, operands: &[ValueId], results: &[ValueId]) -> (OpId, Vec<ValueId>) {
        let widths: Vec<i64> = results.iter().map(|&v| self.dims(v).iter().product()).collect();
        let dims: Vec<usize> = self.member_dims(results, "scatter_dimension");
        let group = self.dims(operands[0])[dims[0]] / self.dims(results[0])[dims[0]];
        let mut parts = vec![];
        for (i, &v) in operands.iter().enumerate() {
            let mut cut = self.dims(results[i]);
            cut.insert(dims[i], group);
            let part = self.reshape(v, &cut);
            let part = self.move_dim(part, dims[i], 0);
            parts.push(self.reshape(part, &[group, widths[i]]));
        }
        let whole = self.beside(parts);
        let columns: i64 = widths.iter().sum();
        let ty = self.ty(whole, &[1, columns]);
        let op = self.collective(vec![whole], vec![ty], &[("scatter_dimension", 0)]);
        let pieces = self.apart(self.module.result(op), &widths);
        let shapes: Vec<Vec<i64>> = results.iter().map(|&r| self.dims(r)).collect();
        (op, pieces.into_iter().zip(&shapes).map(|(v, dims)| self.reshape(v, dims)).collect())
    }

    /// The dimension that each member works along.
    fn member_dims(&self, results: &[ValueId], name: &str) -> Vec<usize> {
        let member = |r: &ValueId| self.module.def_op(*r).and_then(|op| self.module.op(op).int(name)).unwrap_or(0);
        results.iter().map(|r| member(r).max(0) as usize).collect()
    }
}

/// Puts each joint operation where the last of its members stood, and what depends on it after it.
fn reorder(module: &mut Module, block: BlockId, ops: &[OpId], merged: &[Joint]) {
    let Some(end) = module.terminator(block) else { return };
    let joint_of = merged.iter().enumerate().flat_map(|(i, joint)| joint.members.iter().map(move |&m| (m, i)));
    let mut order = Order {
        joint_of: joint_of.collect(),
        to_come: merged.iter().map(|joint| joint.members.len()).collect(),
        missing: merged.iter().flat_map(|j| &j.ops).flat_map(|&op| module.op(op).results().to_vec()).collect(),
        effect_waits: false,
        merged,
        end,
    };
    let mut delayed: Vec<OpId> = vec![];
    for &op in ops.iter().filter(|&&op| op != end) {
        match order.place(module, op) {
            Placed::Waits => delayed.push(op),
            Placed::Done => {}
            Placed::Releases => {
                let mut again = true;
                while again {
                    (again, order.effect_waits) = (false, false);
                    for op in std::mem::take(&mut delayed) {
                        match order.place(module, op) {
                            Placed::Waits => delayed.push(op),
                            Placed::Done => {}
                            Placed::Releases => again = true,
                        }
                    }
                }
            }
        }
    }
}

/// A block being put in order.
struct Order<'a> {
    joint_of: HashMap<OpId, usize>,
    /// Members of each joint operation that have not come yet.
    to_come: Vec<usize>,
    /// Values that are not computed yet, among those that were moved back.
    missing: HashSet<ValueId>,
    /// Whether an operation with effects waits: others keep behind it.
    effect_waits: bool,
    merged: &'a [Joint],
    end: OpId,
}

enum Placed {
    /// Something it needs is missing.
    Waits,
    Done,
    /// Done, and a joint operation with it: others may be able to go now.
    Releases,
}

impl Order<'_> {
    fn place(&mut self, module: &mut Module, op: OpId) -> Placed {
        let kind = module.op(op).kind();
        let has_effect = !kind.is_pure() && !kind.is_collective() && !is_effect_free(module, op);
        if inputs(module, op).any(|v| self.missing.contains(&v)) || (has_effect && self.effect_waits) {
            self.effect_waits |= has_effect;
            self.missing.extend(module.op(op).results().iter().copied());
            return Placed::Waits;
        }
        let Some(&i) = self.joint_of.get(&op) else {
            self.emit(module, op);
            return Placed::Done;
        };
        self.to_come[i] -= 1;
        if self.to_come[i] > 0 {
            return Placed::Done;
        }
        let joint = &self.merged[i];
        joint.ops.iter().for_each(|&op| self.emit(module, op));
        Placed::Releases
    }

    fn emit(&mut self, module: &mut Module, op: OpId) {
        for v in module.op(op).results() {
            self.missing.remove(v);
        }
        module.detach(op);
        module.insert_before(self.end, op);
    }
}

#[cfg(test)]
mod tests {
    use meshwork_ir::{Combine, text};
    use meshwork_mesh::Mesh;

    use super::*;

    #[test]
    fn sums_with_a_long_latency_are_combined_further() {
        let h100 = Machine::named("h100").expect("it is known");
        let mesh = Mesh::grid(("data", 256), ("model", 8)).expect("a mesh");
        let atoms = Atoms::cut(&mesh, &h100.links, []);
        let module = text::parse("func.func @main() { return }").expect("a program");
        let emitted = module.op_ids().next().expect("an operation");
        let limit = |kind: CollectiveKind, axis: usize, bytes: i64, network| {
            let peers = Peers::Group((0..atoms.len() as u8).filter(|&a| atoms.info(a).axis == axis).collect());
            let (times, times_unknown, origins) = (1, false, vec![]);
            let c =
                Collective { kind, peers, operand_bytes: 4, wire_bytes: 4.0, times, times_unknown, emitted, origins };
            Limit { bytes, network }.of(&c).together
        };
        let (sum, scatter) = (CollectiveKind::AllReduce(Combine::Add), CollectiveKind::ReduceScatter(Combine::Add));
        let known = Some((&h100, &atoms));
        // Between 256 nodes: 2 · 64 us, and 22.5 GB/s.
        let far = limit(sum.clone(), 0, 1 << 22, known) as f64;
        assert!((far / (8.0 * 128e-6 * 22.5e9) - 1.0).abs() < 0.02, "{far}");
        // Inside a node: 2 · 9 us, and about 200 GB/s.
        let near = limit(sum.clone(), 1, 1 << 22, known) as f64;
        assert!((near / (8.0 * 18e-6 * 206e9) - 1.0).abs() < 0.02, "{near}");
        assert!(limit(scatter.clone(), 0, 1 << 22, known) > 20 << 20);
        // What is gathered, what is not to be combined, and machines without levels.
        assert_eq!(limit(CollectiveKind::AllGather, 0, 1 << 22, known), MOST_COPIED_BYTES);
        assert_eq!((limit(sum.clone(), 0, 0, known), limit(scatter, 0, 0, known)), (0, 0));
        assert_eq!(limit(sum, 0, 1 << 22, None), 1 << 22);
    }

    /// A chain of sums over `model`, and a sum of each of them over `data`, on which nothing depends.
    fn beside_a_chain(elements: i64) -> Vec<usize> {
        let h100 = Machine::named("h100").expect("it is known");
        let mesh = Mesh::grid(("data", 256), ("model", 8)).expect("a mesh");
        let atoms = Atoms::cut(&mesh, &h100.links, []);
        let x = format!("tensor<{elements}xf32>");
        let sum = |to: String, of: String| {
            format!(
                "%{to} = \"stablehlo.all_reduce\"(%{of}) <{{replica_groups = dense<[[0]]> : tensor<1x1xi64>}}> ({{
                   ^bb0(%l: tensor<f32>, %r: tensor<f32>):
                   %s = stablehlo.add %l, %r : tensor<f32>
                   stablehlo.return %s : tensor<f32>
                 }}) : ({x}) -> {x}\n"
            )
        };
        let chain = |i: usize| {
            sum(format!("m{}", i + 1), format!("m{i}"))
                + &format!("%n{i} = stablehlo.negate %m{} : {x}\n", i + 1)
                + &sum(format!("d{i}"), format!("n{i}"))
        };
        let body: String = (0..3).map(chain).collect();
        let text =
            format!("func.func @main(%m0: {x}) -> ({x}, {x}, {x}) {{ {body} return %d0, %d1, %d2 : {x}, {x}, {x} }}");
        let mut module = text::parse(&text).unwrap_or_else(|d| panic!("{}", d.render("test", &text)));
        let body = module.entry().and_then(|func| module.body_of(func, 0)).expect("a body");
        let is_sum = |op: &OpId| module.op(*op).kind().is_collective();
        let sums: Vec<OpId> = module.op_list(body).into_iter().filter(is_sum).collect();
        let mut collectives: Vec<Collective> = sums
            .iter()
            .enumerate()
            .map(|(i, &emitted)| Collective {
                kind: CollectiveKind::AllReduce(Combine::Add),
                peers: Peers::Group((0..atoms.len() as u8).filter(|&a| atoms.info(a).axis == (i + 1) % 2).collect()),
                operand_bytes: 4 * elements,
                wire_bytes: 4.0,
                times: 1,
                times_unknown: false,
                emitted,
                origins: vec![],
            })
            .collect();
        let by_op = sums.iter().enumerate().map(|(i, &op)| (op, i)).collect();
        let limit = Limit { bytes: 1 << 22, network: Some((&h100, &atoms)) };
        combine(&mut module, body, &mut collectives, &by_op, &limit);
        assert_eq!(meshwork_ir::verify::verify(&module), [], "{}", text::print(&module));
        let is_sum = |op: &OpId| module.op(*op).kind().is_collective();
        let left = module.op_list(body).into_iter().filter(is_sum);
        left.map(|op| module.op(op).operands().len()).collect()
    }

    #[test]
    fn small_sums_that_nothing_waits_for_are_combined_over_a_chain() {
        assert_eq!(beside_a_chain(64), [1, 1, 1, 3]);
        // Half of 2 · 64 us at 22.5 GB/s are 1.4 MB: not two of 0.8 MB.
        assert_eq!(beside_a_chain(200_000), [1, 1, 1, 1, 1, 1]);
    }
}
