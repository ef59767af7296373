//! From values of full shape to those of shards and back: what stands between becomes a manual computation.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use meshwork_ir::hash::{HashMap, HashSet};
use meshwork_ir::op::{SdyOp, SourceOp};
use meshwork_ir::{Attr, BlockId, Diagnostic, Module, OpId, OpKind, OpSpec, ValueId, ValueMap, Walk};
use meshwork_mesh::{AxisRef, Mesh, MeshRef, Sharding, sort_by_key};

use super::{Placed, target};
use crate::program::sharding_of;

/// What strings said about values.
type Read = HashMap<ValueId, Placed>;

/// Makes manual computations in all blocks of `module`.
pub(super) fn outline(module: &mut Module, mesh: &Arc<Mesh>, read: &Read) -> Result<(), Diagnostic> {
    let borders = |module: &Module, op| is_entry(module, op) || is_exit(module, op);
    let mut blocks: Vec<BlockId> = vec![];
    for op in module.all_ops(Walk::PostOrder) {
        let block = module.op(op).parent().filter(|b| !blocks.contains(b));
        blocks.extend(block.filter(|_| borders(module, op)));
    }
    for block in blocks {
        while let Some(region) = Region::find(module, block)? {
            region.outline(module, mesh, read)?;
        }
    }
    Ok(())
}

fn is_entry(module: &Module, op: OpId) -> bool {
    target(module, op) == Some("SPMDFullToShardShape")
}

fn is_exit(module: &Module, op: OpId) -> bool {
    target(module, op) == Some("SPMDShardToFullShape")
}

/// The operations of a block that work on shards together, in order, with those at the borders.
struct Region {
    ops: Vec<OpId>,
}

impl Region {
    /// A region of `block`, if there is one.
    fn find(module: &Module, block: BlockId) -> Result<Option<Region>, Diagnostic> {
        let ops = module.op_list(block);
        let at: HashMap<OpId, usize> = ops.iter().enumerate().map(|(i, &op)| (op, i)).collect();
        // Which operation of this block makes a value that `op`, or something in it, reads.
        let sources = |op: OpId| -> BTreeSet<usize> {
            let reads = module.ops_below(op, Walk::PreOrder);
            let reads = reads.iter().flat_map(|&inner| module.op(inner).operands().to_vec());
            reads.filter_map(|v| at.get(&module.def_op(v)?).copied()).collect()
        };
        let reads: Vec<BTreeSet<usize>> = ops.iter().map(|&op| sources(op)).collect();
        let Some(first) = ops.iter().position(|&op| is_entry(module, op) || is_exit(module, op)) else {
            return Ok(None);
        };
        // From any member: to what it reads, unless it enters here, and to what reads it, unless it leaves here. Constants
        // belong to all who use them.
        let mut members = BTreeSet::new();
        let mut todo = vec![first];
        while let Some(i) = todo.pop() {
            if !members.insert(i) {
                continue;
            }
            if !is_entry(module, ops[i]) {
                let local = |&j: &usize| !is_exit(module, ops[j]) && !is_source(module, ops[j]);
                let depends = |&j: &usize| is_entry(module, ops[j]) || !only_global(module, &ops, &reads, j);
                todo.extend(reads[i].iter().copied().filter(local).filter(depends));
            }
            if !is_exit(module, ops[i]) {
                let users = (i + 1..ops.len()).filter(|&j| reads[j].contains(&i));
                for j in users {
                    if module.op(ops[j]).kind().is_terminator() {
                        let what =
                            "a value of the shape of a shard leaves its block; @SPMDShardToFullShape must come before";
                        return Err(Diagnostic::error(module.op(ops[j]).pos, what));
                    }
                    todo.push(j);
                }
            }
        }
        Ok(Some(Region { ops: members.into_iter().map(|i| ops[i]).collect() }))
    }

    /// Moves the operations into a manual computation.
    fn outline(self, module: &mut Module, mesh: &Arc<Mesh>, read: &Read) -> Result<(), Diagnostic> {
        let (entries, rest): (Vec<OpId>, Vec<OpId>) = self.ops.iter().partition(|&&op| is_entry(module, op));
        let (exits, inside): (Vec<OpId>, Vec<OpId>) = rest.into_iter().partition(|&op| is_exit(module, op));
        let manual = self.manual_axes(module, mesh, read, &entries, &exits)?;
        let at = self.position(module, &exits);
        let mesh = MeshRef::Inline(mesh.clone());
        let mut operands: Vec<ValueId> = entries.iter().map(|&op| module.op(op).operands()[0]).collect();
        let mut ins = vec![];
        for (&op, &v) in entries.iter().zip(&operands) {
            let sharding = full_sharding(module, read, v).ok_or_else(|| no_placement(module, op))?;
            ins.push(sharding);
        }
        // What comes in without a border is the same on all devices.
        let mut captured: BTreeMap<ValueId, Option<ValueId>> = BTreeMap::new();
        let own: HashSet<OpId> = self.ops.iter().copied().collect();
        for &op in &inside {
            for inner in module.ops_below(op, Walk::PreOrder) {
                for &v in module.op(inner).operands() {
                    let here = match module.def_op(v) {
                        Some(def) => own.contains(&def) || module.is_inside(def, op),
                        None => owner(module, v).is_some_and(|o| module.is_inside(o, op)),
                    };
                    if !here {
                        captured.insert(v, None);
                    }
                }
            }
        }
        let constants: Vec<ValueId> =
            captured.keys().copied().filter(|&v| module.def_op(v).is_some_and(|op| is_source(module, op))).collect();
        captured.retain(|v, _| !constants.contains(v));
        for &v in captured.keys() {
            operands.push(v);
            ins.push(Sharding::fully_open(&mesh, module.ty(v).rank().unwrap_or(0)));
        }
        let outs: Option<Vec<Sharding>> =
            exits.iter().map(|&op| read.get(&module.result(op))?.sharding.clone()).collect();
        let outs = outs.ok_or_else(|| no_placement(module, exits[0]))?;
        let mut types: Vec<_> = entries.iter().map(|&op| module.ty(module.result(op)).clone()).collect();
        types.extend(captured.keys().map(|&v| module.ty(v).clone()));
        let results: Vec<_> = exits.iter().map(|&op| module.ty(module.result(op)).clone()).collect();
        let mut spec = OpSpec::new(SdyOp::ManualComputation)
            .operands(operands)
            .results(results)
            .attr("in_shardings", Attr::ShardingPerValue(ins.into()))
            .attr("out_shardings", Attr::ShardingPerValue(outs.into()))
            .attr("manual_axes", Attr::Axes(manual.into()))
            .loc(module.op(self.ops[0]).loc.clone());
        spec.pos = module.op(self.ops[0]).pos;
        let made = match at {
            Some(before) => module.push_before(before, spec),
            None => return Err(no_placement(module, self.ops[0])),
        };
        self.check_order(module, made)?;
        let body = module.add_body(made, types);
        let args = module.block(body).args().to_vec();
        for v in constants {
            let Some(def) = module.def_op(v) else { continue };
            let copy = module.clone_op(def, &mut ValueMap::default());
            module.append(body, copy);
            let copied = module.result(copy);
            let inside: HashSet<OpId> = inside.iter().copied().collect();
            module.replace_uses_if(v, copied, |module, u| {
                inside.iter().any(|&op| u.op == op || module.is_inside(u.op, op))
            });
        }
        for (&v, &arg) in captured.keys().zip(&args[entries.len()..]) {
            let inside: HashSet<OpId> = inside.iter().copied().collect();
            module
                .replace_uses_if(v, arg, |module, u| inside.iter().any(|&op| u.op == op || module.is_inside(u.op, op)));
        }
        for &op in &inside {
            module.detach(op);
            module.append(body, op);
        }
        let returned: Vec<ValueId> = exits.iter().map(|&op| module.op(op).operands()[0]).collect();
        module.push(body, OpSpec::new(SdyOp::Return).operands(returned));
        for (&op, result) in exits.iter().zip(module.op(made).results().to_vec()) {
            module.replace_op(op, &[result]);
        }
        for (&op, &arg) in entries.iter().zip(&args) {
            module.replace_op(op, &[arg]);
        }
        Ok(())
    }

    /// The axes that are manual inside and not outside.
    fn manual_axes(
        &self,
        module: &Module,
        mesh: &Mesh,
        read: &Read,
        entries: &[OpId],
        exits: &[OpId],
    ) -> Result<Vec<AxisRef>, Diagnostic> {
        let of = |v: ValueId| read.get(&v).map(|p| p.manual.clone());
        let mut found: Option<Vec<AxisRef>> = None;
        let borders = entries.iter().map(|&op| (op, module.op(op).operands()[0], module.result(op)));
        // From a full value to one of shards: at exits the other way round.
        let borders = borders.chain(exits.iter().map(|&op| (op, module.result(op), module.op(op).operands()[0])));
        for (op, full, shard) in borders {
            let Some(inside) = of(shard) else { continue };
            let outside = of(full).unwrap_or_default();
            let mut axes: Vec<AxisRef> = inside.into_iter().filter(|a| !outside.contains(a)).collect();
            sort_by_key(&mut axes, |a| mesh.axis_index(&a.name));
            if found.as_ref().is_some_and(|known| *known != axes) {
                let what = "a computation on shards has values over other manual axes than this one";
                return Err(Diagnostic::error(module.op(op).pos, what));
            }
            found = Some(axes);
        }
        // Without a word all axes are manual.
        Ok(found.unwrap_or_else(|| mesh.axes().iter().map(|a| AxisRef::full(a.name.clone())).collect()))
    }

    /// The first operation that needs a result: the computation goes before it. Else before its last exit.
    fn position(&self, module: &Module, exits: &[OpId]) -> Option<OpId> {
        let block = module.op(self.ops[0]).parent()?;
        let ops = module.op_list(block);
        let results: HashSet<ValueId> = exits.iter().map(|&op| module.result(op)).collect();
        let needs = |op: OpId| {
            let reads = module.ops_below(op, Walk::PreOrder);
            reads.iter().any(|&inner| module.op(inner).operands().iter().any(|v| results.contains(v)))
        };
        ops.into_iter().find(|&op| needs(op) || module.op(op).kind().is_terminator())
    }

    /// An error if something that the computation takes is made after `made`.
    fn check_order(&self, module: &Module, made: OpId) -> Result<(), Diagnostic> {
        let block = module.op(made).parent();
        let before: HashSet<OpId> =
            block.map_or(vec![], |b| module.op_list(b)).into_iter().take_while(|&op| op != made).collect();
        let late =
            module.op(made).operands().iter().find(|&&v| {
                module.def_op(v).is_some_and(|def| module.op(def).parent() == block && !before.contains(&def))
            });
        match late {
            None => Ok(()),
            Some(_) => {
                let what = "a computation on shards takes a value that depends on one of its own results";
                Err(Diagnostic::error(module.op(made).pos, what))
            }
        }
    }
}

/// Operations whose results are the same wherever they stand.
fn is_source(module: &Module, op: OpId) -> bool {
    let kind = module.op(op).kind();
    matches!(kind, OpKind::Source(SourceOp::Constant | SourceOp::Iota) | OpKind::Sdy(SdyOp::Constant))
}

/// Whether operation `i` of `ops` is used outside of shards too, or reads only what is: it stays where it is.
fn only_global(module: &Module, ops: &[OpId], reads: &[BTreeSet<usize>], i: usize) -> bool {
    let mut todo = vec![i];
    let mut seen = BTreeSet::new();
    while let Some(j) = todo.pop() {
        if is_entry(module, ops[j]) {
            return false;
        }
        if seen.insert(j) && !is_exit(module, ops[j]) {
            todo.extend(reads[j].iter().copied());
        }
    }
    // It does not depend on a shard. Where all that reads it ends in an exit it is local; else it is global.
    let (mut todo, mut seen) = (vec![i], BTreeSet::new());
    while let Some(j) = todo.pop() {
        if !seen.insert(j) || is_exit(module, ops[j]) {
            continue;
        }
        let users: Vec<usize> = (j + 1..ops.len()).filter(|&k| reads[k].contains(&j)).collect();
        if users.iter().any(|&k| is_entry(module, ops[k]) || module.op(ops[k]).kind().is_terminator()) {
            return true;
        }
        todo.extend(users);
    }
    false
}

/// The operation whose region has `v` as an argument.
fn owner(module: &Module, v: ValueId) -> Option<OpId> {
    match module.value(v).def() {
        meshwork_ir::Def::Arg(block, _) => module.block_parent_op(block),
        meshwork_ir::Def::Result(op, _) => Some(op),
    }
}

fn full_sharding(module: &Module, read: &Read, v: ValueId) -> Option<Sharding> {
    read.get(&v).and_then(|p| p.sharding.clone()).or_else(|| sharding_of(module, v))
}

fn no_placement(module: &Module, op: OpId) -> Diagnostic {
    Diagnostic::error(module.op(op).pos, "a border between full shapes and those of shards has no sharding")
}
