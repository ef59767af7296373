//! When the values of a per-device program are alive, in times: one for each operation, in the order in which they run.

use meshwork_ir::hash::HashMap;
use meshwork_ir::{Module, OpId, ValueId};
use meshwork_mesh::sort_by_key;

use crate::plan::memory::{Watch, argument_bytes, type_bytes, visit};

/// From when to when a value is alive, both times included.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Life {
    /// The value.
    pub value: ValueId,
    /// Its bytes.
    pub bytes: i64,
    /// When it is made.
    pub start: usize,
    /// Its last use.
    pub end: usize,
}

/// The values of a program, and when they are alive.
pub struct Lives {
    /// The operations in the order in which they run, those of a loop's body behind the loop.
    pub ops: Vec<OpId>,
    /// Everything that is not alive throughout.
    pub all: Vec<Life>,
    /// Bytes of the arguments.
    always: i64,
    starts: HashMap<ValueId, usize>,
}

impl Lives {
    /// The lives of the values of function `func`.
    pub fn of(module: &Module, func: OpId) -> Option<Lives> {
        let body = module.body_of(func, 0)?;
        let always = argument_bytes(module, body);
        let mut lives = Lives { ops: vec![], all: vec![], always, starts: HashMap::default() };
        visit(module, body, &mut lives);
        let end = lives.ops.len().checked_sub(1)?;
        for (value, start) in std::mem::take(&mut lives.starts) {
            lives.all.push(Life { value, bytes: type_bytes(module.ty(value)), start, end });
        }
        sort_by_key(&mut lives.all, |life| (life.start, life.value));
        Some(lives)
    }

    /// The first time at which the most bytes are alive, and how many.
    pub fn peak(&self) -> (usize, i64) {
        let mut changes = vec![0; self.ops.len() + 1];
        for life in &self.all {
            changes[life.start] += life.bytes;
            changes[life.end + 1] -= life.bytes;
        }
        let (mut alive, mut peak) = (self.always, (0, i64::MIN));
        for (time, change) in changes[..self.ops.len()].iter().enumerate() {
            alive += change;
            if alive > peak.1 {
                peak = (time, alive);
            }
        }
        peak
    }
}

impl Watch for Lives {
    fn comes(&mut self, _: &Module, v: ValueId) {
        self.starts.insert(v, self.ops.len());
    }

    fn reached(&mut self, op: OpId) {
        self.ops.push(op);
    }

    fn goes(&mut self, module: &Module, v: ValueId) {
        if let Some(start) = self.starts.remove(&v) {
            let end = self.ops.len().saturating_sub(1).max(start);
            self.all.push(Life { value: v, bytes: type_bytes(module.ty(v)), start, end });
        }
    }
}
