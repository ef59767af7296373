//! `-symbol-dce`: removes private functions and meshes that nothing live names.

use smol_str::SmolStr;

use super::symbols;
use crate::hash::{HashMap, HashSet};
use crate::{Diagnostic, Failed, Module, OpId, Pass, PassOptions};

/// The pass.
pub const PASS: Pass =
    Pass { name: "symbol-dce", summary: "Remove private symbols that nothing uses", options: &[], run };

fn run(module: &mut Module, _: &PassOptions, _: &mut Vec<Diagnostic>) -> Result<(), Failed> {
    remove_unused(module, |_| true);
    Ok(())
}

/// Removes the private top-level symbols among `candidates` that no other live operation names.
pub fn remove_unused(module: &mut Module, candidates: impl Fn(OpId) -> bool) {
    let top = module.op_list(module.body());
    let by_name: HashMap<SmolStr, OpId> =
        top.iter().filter_map(|&op| Some((SmolStr::from(module.symbol_name(op)?), op))).collect();
    let removable = |op: OpId| {
        let data = module.op(op);
        data.attr("sym_visibility").and_then(|v| v.as_str()) == Some("private") && candidates(op)
    };
    let mut live: HashSet<OpId> = HashSet::default();
    let mut work: Vec<OpId> = top.iter().copied().filter(|&op| !removable(op)).collect();
    for (_, attr) in module.attrs.iter() {
        symbols::in_attr(attr, &mut |name| work.extend(by_name.get(name)));
    }
    while let Some(op) = work.pop() {
        if live.insert(op) {
            work.extend(symbols::used_by(module, op).iter().filter_map(|name| by_name.get(name)));
        }
    }
    for op in top {
        if !live.contains(&op) {
            module.erase(op);
        }
    }
}
