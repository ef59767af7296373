//! Merges equal constants, and equal broadcasts of one scalar, with equal placements in one region.

use std::collections::HashMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};

use meshwork_ir::op::{MovementOp, SdyOp, SourceOp};
use meshwork_ir::{
    Attr, BlockId, DenseData, Diagnostic, Failed, Module, Op, OpId, OpKind, Pass, PassOptions, RegionId, Walk,
};

/// The pass.
pub const PASS: Pass = Pass {
    name: "sdy-constant-or-scalar-merger",
    summary: "Merge equal constants and broadcasts of one scalar with equal placements",
    options: &[],
    run,
};

fn run(module: &mut Module, _: &PassOptions, _: &mut Vec<Diagnostic>) -> Result<(), Failed> {
    // Ops with one hash, to be compared in full.
    let mut seen: HashMap<u64, Vec<OpId>> = HashMap::new();
    let mut duplicates = vec![];
    for op in module.all_ops(Walk::PostOrder) {
        if !is_mergeable(module, op) {
            continue;
        }
        let same_hash = seen.entry(hash(module, op)).or_default();
        match same_hash.iter().find(|&&first| is_same(module, first, op)) {
            Some(&first) => {
                module.replace_all_uses(module.result(op), module.result(first));
                duplicates.push(op);
            }
            None => same_hash.push(op),
        }
    }
    module.erase_all(&duplicates);
    Ok(())
}

fn is_mergeable(module: &Module, op: OpId) -> bool {
    let data = module.op(op);
    match data.kind() {
        OpKind::Sdy(SdyOp::Constant) | OpKind::Source(SourceOp::Constant) => data.results().len() == 1,
        OpKind::Movement(MovementOp::BroadcastInDim) => {
            data.operands().first().is_some_and(|&v| module.ty(v).rank() == Some(0))
        }
        _ => false,
    }
}

fn region(module: &Module, op: OpId) -> Option<RegionId> {
    module.op(op).parent().and_then(|block: BlockId| module.block(block).parent())
}

fn is_same(module: &Module, first: OpId, second: OpId) -> bool {
    let (a, b) = (module.op(first), module.op(second));
    a.kind() == b.kind()
        && a.operands() == b.operands()
        && region(module, first) == region(module, second)
        && module.ty(a.results()[0]) == module.ty(b.results()[0])
        && a.attrs == b.attrs
}

/// Equal for equal ops. Different for constants of different elements, of which there may be many.
fn hash(module: &Module, op: OpId) -> u64 {
    let mut hasher = DefaultHasher::new();
    let data: &Op = module.op(op);
    (data.kind(), data.operands(), region(module, op), module.ty(data.results()[0])).hash(&mut hasher);
    if let Some(Attr::Dense(dense)) = data.attr("value") {
        match &dense.data {
            DenseData::Splat(bytes) | DenseData::Full(bytes) => bytes.hash(&mut hasher),
            DenseData::Resource(name) => name.hash(&mut hasher),
        }
    }
    hasher.finish()
}
