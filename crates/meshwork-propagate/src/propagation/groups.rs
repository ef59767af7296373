//! Sharding groups: values that have the same placement at every moment.

use std::collections::BTreeMap;
use std::sync::Arc;

use meshwork_ir::hash::HashMap;
use meshwork_ir::op::SdyOp;
use meshwork_ir::{Attr, Def, Diagnostic, Module, OpSpec, Use, ValueId, Walk};
use meshwork_mesh::Sharding;

use crate::program::{owning_op, set_sharding, sharding_of};

/// The groups of a module.
#[derive(Debug, Default)]
pub struct Groups {
    members: Vec<Vec<ValueId>>,
    group_of: HashMap<ValueId, usize>,
}

impl Groups {
    /// Reads the groups of `module` and gives the members of each the same placement to start with.
    ///
    /// If they disagree, an open constraint is put after each member and takes its place in the group.
    pub fn sync(module: &mut Module, diagnostics: &mut Vec<Diagnostic>) -> Result<Groups, Diagnostic> {
        let mut by_id: BTreeMap<i64, Vec<ValueId>> = BTreeMap::new();
        let mut id_of: HashMap<ValueId, i64> = HashMap::default();
        for op in module.all_ops(Walk::PreOrder) {
            let data = module.op(op);
            if data.kind() != SdyOp::ShardingGroup {
                continue;
            }
            let (Some(id), Some(&value)) = (data.int("group_id"), data.operands().first()) else { continue };
            if *id_of.entry(value).or_insert(id) != id {
                let message = format!(
                    "'sdy.sharding_group' op puts a value into group {id} that is in group {} already; run \
                     sdy-sharding-group-import first, which merges such groups",
                    id_of[&value]
                );
                return Err(Diagnostic::at(data, message));
            }
            by_id.entry(id).or_default().push(value);
        }
        let mut groups = Groups::default();
        for (id, mut members) in by_id {
            let (common, agree) = common_sharding(module, &members);
            match (common, agree) {
                (Some(sharding), Agreement::Yes) => {
                    for &member in &members {
                        set_sharding(module, member, sharding.clone());
                    }
                }
                (Some(sharding), Agreement::No) => {
                    diagnostics.push(disagreement(module, id, members[0]));
                    let open = Sharding::fully_open(sharding.mesh.clone(), sharding.rank());
                    for member in &mut members {
                        *member = constrain(module, *member, open.clone());
                    }
                }
                (None, _) => {}
            }
            for &member in &members {
                groups.group_of.insert(member, groups.members.len());
            }
            groups.members.push(members);
        }
        Ok(groups)
    }

    /// The values in the group of `value`, itself included; empty if it is in none.
    pub fn members(&self, value: ValueId) -> &[ValueId] {
        self.group_of.get(&value).map_or(&[], |&g| &self.members[g])
    }
}

enum Agreement {
    Yes,
    No,
}

fn common_sharding(module: &Module, members: &[ValueId]) -> (Option<Sharding>, Agreement) {
    if let [only] = members {
        return (sharding_of(module, *only), Agreement::Yes);
    }
    let mut common: Option<Sharding> = None;
    for &member in members {
        match sharding_of(module, member).filter(|s| !s.is_fully_open()) {
            None => {}
            Some(s) if common.is_none() => common = Some(s),
            Some(s) if common.as_ref() != Some(&s) => return (common, Agreement::No),
            Some(_) => {}
        }
    }
    (common, Agreement::Yes)
}

fn disagreement(module: &Module, id: i64, first: ValueId) -> Diagnostic {
    let pos = owning_op(module, first).map_or_else(Default::default, |op| module.op(op).pos);
    Diagnostic::warning(
        pos,
        format!(
            "the values of sharding group {id} have different shardings to begin with; they agree from here on \
             through open constraints. Give them one sharding, or take them out of the group"
        ),
    )
}

/// Puts a constraint right after `value`, which all its other uses then go through.
fn constrain(module: &mut Module, value: ValueId, sharding: Sharding) -> ValueId {
    let spec = OpSpec::new(SdyOp::ShardingConstraint)
        .operands([value])
        .results([module.ty(value).clone()])
        .attr("sharding", Attr::Sharding(Arc::new(sharding)));
    let op = match module.value(value).def() {
        Def::Result(def, _) => module.push_after(def, spec),
        Def::Arg(block, _) => {
            let op = module.create(spec);
            module.prepend(block, op);
            op
        }
    };
    let constrained = module.result(op);
    module.replace_uses_if(value, constrained, |_, u: Use| u.op != op);
    constrained
}
