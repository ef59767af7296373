//! The memory of a module that is gone, for the next one of the thread.
//!
//! Programs are traced, changed and dropped one after the other, and each fills arenas of some hundred kilobytes.
//! Memory that goes back to the system has to be cleared by it page by page before it can be used again. What
//! operations share goes on as well.

use std::cell::Cell;

use super::shared::Shared;
use super::{Block, Module, Op, Region, Value};

/// The arenas of a module.
#[derive(Default)]
pub(super) struct Arenas {
    pub(super) ops: Vec<Op>,
    pub(super) blocks: Vec<Block>,
    pub(super) regions: Vec<Region>,
    pub(super) values: Vec<Value>,
    pub(super) shared: Shared,
}

/// Larger arenas are not kept: 16 MB of operations.
const MOST_OPS: usize = 1 << 17;

thread_local! {
    static SPARE: Cell<Option<Arenas>> = const { Cell::new(None) };
}

/// Empty arenas.
pub(super) fn take() -> Arenas {
    SPARE.try_with(Cell::take).ok().flatten().unwrap_or_default()
}

impl Drop for Module {
    fn drop(&mut self) {
        if self.ops.capacity() > MOST_OPS {
            return;
        }
        let mut arenas = Arenas {
            ops: std::mem::take(&mut self.ops),
            blocks: std::mem::take(&mut self.blocks),
            regions: std::mem::take(&mut self.regions),
            values: std::mem::take(&mut self.values),
            shared: std::mem::take(&mut self.shared),
        };
        arenas.ops.clear();
        arenas.blocks.clear();
        arenas.regions.clear();
        arenas.values.clear();
        // Where the thread is about to end there is nothing to keep it for.
        let _ = SPARE.try_with(|spare| {
            let mut kept = match spare.take() {
                Some(other) if other.ops.capacity() > arenas.ops.capacity() => std::mem::replace(&mut arenas, other),
                other => other.unwrap_or_default(),
            };
            if arenas.shared.is_empty() {
                std::mem::swap(&mut arenas.shared, &mut kept.shared);
            }
            spare.set(Some(arenas));
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::op::TokenOp;
    use crate::{OpKind, OpSpec};

    #[test]
    fn a_module_in_used_memory_is_empty() {
        let mut module = Module::new();
        let body = module.body();
        for _ in 0..100 {
            module.push(body, OpSpec::new(OpKind::Token(TokenOp::CreateToken)));
        }
        drop(module);
        let module = Module::new();
        assert!(module.ops.capacity() >= 100);
        assert_eq!((module.op_slots(), module.value_slots(), module.op_list(module.body()).len()), (0, 0, 0));
    }
}
