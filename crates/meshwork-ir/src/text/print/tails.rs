//! Ends of operations that stand in the text already.
//!
//! What follows the operands of most operations depends on their kind, types and attributes only. Programs repeat
//! themselves, and equal types and attributes of a module are mostly one object: so the end of an operation is often
//! a copy of an earlier one. Objects are told apart by their addresses, which they keep while the module is printed.

use std::ops::Range;
use std::sync::Arc;

use super::Printer;
use crate::{Module, Op, OpKind, Type};

/// How many ends are remembered. A power of two.
const SLOTS: usize = 64;

/// What the end of an operation depends on.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
struct Key {
    kind: u32,
    attrs: usize,
    /// Of up to three operands and the result.
    types: [usize; 4],
}

impl Key {
    /// The key of `op`, which applies `inner`. `None` for operations of many operands or of other types than tensors.
    fn of(module: &Module, op: &Op, inner: Option<OpKind>) -> Option<Key> {
        let &[result] = op.results() else { return None };
        if op.operands().len() > 3 {
            return None;
        }
        let address = |value| match module.ty(value) {
            Type::Tensor(ty) => Some(Arc::as_ptr(ty) as usize),
            _ => None,
        };
        let mut types = [0; 4];
        for (slot, &value) in types.iter_mut().zip(op.operands()) {
            *slot = address(value)?;
        }
        types[3] = address(result)?;
        let kind = op.kind() as u32 | inner.map_or(0, |kind| kind as u32 + 1) << 16;
        Some(Key { kind, attrs: op.attrs.address(), types })
    }

    fn slot(&self) -> usize {
        let [a, b, c, result] = self.types;
        // Objects are some words apart.
        let mixed = self.attrs ^ a ^ b.rotate_left(3) ^ c.rotate_left(6) ^ result.rotate_left(9);
        ((mixed >> 4) ^ (mixed >> 12)).wrapping_add(self.kind as usize * 5) % SLOTS
    }
}

/// Where ends of operations stand in the text.
pub(super) struct Tails([(Key, u32, u32); SLOTS]);

impl Tails {
    pub(super) fn new() -> Tails {
        Tails([(Key::default(), 0, 0); SLOTS])
    }

    /// Forgets all, for the text has been cut.
    pub(super) fn clear(&mut self) {
        self.0.fill((Key::default(), 0, 0));
    }

    fn get(&self, key: &Key) -> Option<Range<usize>> {
        let (known, start, end) = &self.0[key.slot()];
        (known == key && end > start).then_some(*start as usize..*end as usize)
    }
}

impl<'m> Printer<'m> {
    /// Appends what `write` writes for the end of `op`, which applies `inner`: no names of values.
    pub(super) fn tail(
        &mut self,
        op: &'m Op,
        inner: Option<OpKind>,
        write: impl FnOnce(&mut Self) -> Option<()>,
    ) -> Option<()> {
        let Some(key) = Key::of(self.module, op, inner) else { return write(self) };
        if let Some(range) = self.tails.get(&key) {
            self.out.push_again(range);
            return Some(());
        }
        let start = self.out.len();
        write(self)?;
        if let (Ok(start), Ok(end)) = (u32::try_from(start), u32::try_from(self.out.len())) {
            self.tails.0[key.slot()] = (key, start, end);
            self.newest = end as usize;
        }
        Some(())
    }
}
