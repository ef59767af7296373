//! Peak memory of a per-device program: the most bytes alive at once, and what they are.

use std::collections::HashMap;

use meshwork_ir::{BlockId, Module, OpId, OpKind, Type, ValueId};

/// The most bytes a device needs at once.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Peak {
    /// Bytes alive at the peak.
    pub bytes: i64,
    /// The operation at which the peak is reached.
    pub at: String,
    /// The values alive then, largest first: bytes and what made them.
    pub alive: Vec<(i64, String)>,
}

/// Bytes of a value of type `ty`.
pub fn type_bytes(ty: &Type) -> i64 {
    match ty {
        Type::Tensor(t) => t.num_elements().unwrap_or(0) * t.elem.storage_bytes() as i64,
        Type::Tuple(parts) => parts.iter().map(type_bytes).sum(),
        _ => 0,
    }
}

/// The peak of function `func`. Values live from their operation to their last use; arguments and what a loop or
/// branch uses from outside live throughout it.
pub fn peak(module: &Module, func: OpId) -> Peak {
    let Some(body) = module.body_of(func, 0) else { return Peak::default() };
    let mut walk = Walk { module, peak: Peak::default() };
    let args: Vec<ValueId> = module.block(body).args().to_vec();
    walk.block(body, &args);
    walk.peak.alive.sort_by_key(|(bytes, _)| std::cmp::Reverse(*bytes));
    walk.peak
}

struct Walk<'m> {
    module: &'m Module,
    peak: Peak,
}

impl Walk<'_> {
    /// `outside`: values that stay alive while the block runs.
    fn block(&mut self, block: BlockId, outside: &[ValueId]) {
        let last_use = self.last_uses(block);
        let mut alive: Vec<ValueId> = outside.to_vec();
        for (i, op) in self.module.ops_in(block).enumerate() {
            let data = self.module.op(op);
            // Constants are part of the program, not of its working set, until they are used.
            let results = data.results();
            alive.extend_from_slice(results);
            let nested: Vec<BlockId> = data
                .regions()
                .iter()
                .flat_map(|&r| self.module.region(r).blocks().to_vec())
                .filter(|_| matches!(data.kind(), OpKind::While | OpKind::Case | OpKind::If))
                .collect();
            self.note(op, &alive);
            for inner in nested {
                // A loop's carried values are its results' buffers.
                self.block(inner, &alive);
            }
            alive.retain(|v| outside.contains(v) || last_use.get(v).is_some_and(|&last| last > i));
        }
    }

    /// Index of the operation of `block` at which each value is used last, directly or inside a region.
    fn last_uses(&self, block: BlockId) -> HashMap<ValueId, usize> {
        let mut last = HashMap::new();
        for (i, op) in self.module.ops_in(block).enumerate() {
            for inner in self.module.ops_below(op, meshwork_ir::Walk::PreOrder) {
                for &v in self.module.op(inner).operands() {
                    last.insert(v, i);
                }
            }
        }
        last
    }

    fn note(&mut self, op: OpId, alive: &[ValueId]) {
        let bytes = alive.iter().map(|&v| type_bytes(self.module.ty(v))).sum();
        if bytes > self.peak.bytes {
            let name = |v: ValueId| match self.module.def_op(v) {
                Some(def) => format!("{} : {}", self.module.describe(def), self.module.ty(v)),
                None => format!("argument : {}", self.module.ty(v)),
            };
            self.peak = Peak {
                bytes,
                at: self.module.describe(op),
                alive: alive.iter().map(|&v| (type_bytes(self.module.ty(v)), name(v))).collect(),
            };
        }
    }
}
