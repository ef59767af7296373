//! Checks sharding groups, unites groups that share a value, and numbers them from zero.

use meshwork_ir::hash::{HashMap, HashSet};
use meshwork_ir::op::SdyOp;
use meshwork_ir::{Attr, Diagnostic, Failed, Module, OpId, ValueId, Walk};

/// Checks sharding groups, unites those that share a value, and numbers them from zero.
pub fn import_sharding_groups(module: &mut Module, diags: &mut Vec<Diagnostic>) -> Result<(), Failed> {
    let mut groups = module.all_ops(Walk::PreOrder);
    groups.retain(|&op| module.op(op).kind() == SdyOp::ShardingGroup);
    check(module, &groups, diags)?;
    let new_ids = unite(module, &groups);
    let mut seen: HashSet<(ValueId, i64)> = HashSet::default();
    for op in groups {
        let (value, id) = (module.op(op).operands()[0], group_id(module, op));
        let new = new_ids[&id];
        if seen.insert((value, new)) {
            module.op_mut(op).attrs.set("group_id", Attr::i64(new));
        } else {
            module.erase(op);
        }
    }
    Ok(())
}

fn group_id(module: &Module, group: OpId) -> i64 {
    module.op(group).int("group_id").unwrap_or(0)
}

/// All members of a group are in the same manual computation, or in none, and have one shape.
fn check(module: &Module, groups: &[OpId], diags: &mut Vec<Diagnostic>) -> Result<(), Failed> {
    let mut first_of: HashMap<i64, OpId> = HashMap::default();
    for &op in groups {
        let id = group_id(module, op);
        let first = *first_of.entry(id).or_insert(op);
        let shape = |op: OpId| module.op(op).operands().first().map(|&v| module.ty(v).dims().to_vec());
        let problem = if manual_parent(module, first) != manual_parent(module, op) {
            format!("sharding group {id} has members both inside and outside a manual computation")
        } else if shape(first) != shape(op) {
            let (a, b) = (shape(first).unwrap_or_default(), shape(op).unwrap_or_default());
            format!("sharding group {id} has members of shapes {a:?} and {b:?}; they cannot share a placement")
        } else {
            continue;
        };
        let mut error = Diagnostic::at(module.op(op), problem);
        error.notes.push((module.op(first).pos, format!("first member of group {id}")));
        diags.push(error);
        return Err(Failed);
    }
    Ok(())
}

fn manual_parent(module: &Module, op: OpId) -> Option<OpId> {
    let mut at = module.parent_op(op);
    while let Some(op) = at {
        if module.op(op).kind() == SdyOp::ManualComputation {
            return Some(op);
        }
        at = module.parent_op(op);
    }
    None
}

/// The new id of each old one. Groups that share a value become one, led by the first of that value; leaders are
/// numbered in the order in which their ids first appear, value by value.
fn unite(module: &Module, groups: &[OpId]) -> HashMap<i64, i64> {
    let mut values: Vec<ValueId> = vec![];
    let mut ids_of: HashMap<ValueId, Vec<i64>> = HashMap::default();
    for &op in groups {
        let value = module.op(op).operands()[0];
        let ids = ids_of.entry(value).or_default();
        if ids.is_empty() {
            values.push(value);
        }
        ids.push(group_id(module, op));
    }
    let (mut order, mut leader): (Vec<i64>, HashMap<i64, i64>) = (vec![], HashMap::default());
    for value in values {
        let ids = &ids_of[&value];
        for &id in ids {
            leader.entry(id).or_insert_with(|| {
                order.push(id);
                id
            });
            let (first, other) = (find(&mut leader, ids[0]), find(&mut leader, id));
            leader.insert(other, first);
        }
    }
    let leaders = order.iter().filter(|&id| leader[id] == *id);
    let index: HashMap<i64, i64> = leaders.copied().zip(0..).collect();
    order.into_iter().map(|id| (id, index[&find(&mut leader, id)])).collect()
}

fn find(leader: &mut HashMap<i64, i64>, id: i64) -> i64 {
    let mut root = id;
    while leader[&root] != root {
        root = leader[&root];
    }
    // Every id visited now points at the root.
    let mut at = id;
    while let Some(next) = leader.insert(at, root).filter(|&next| next != root) {
        at = next;
    }
    root
}
