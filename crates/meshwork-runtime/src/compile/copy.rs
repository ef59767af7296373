//! Copies of strided views into dense buffers, for any element type.

use std::sync::Arc;

use meshwork_ir::ValueId;

use super::lower::Lower;
use crate::step::{Buf, Fault, Frame, Scratch, View, Work};

/// Adds a step that copies `from`, where `value` lies, to the dense buffer `to`.
pub(crate) fn strided(cx: &mut Lower<'_>, value: ValueId, from: &View, to: Buf) {
    let Some(op) = cx.module.def_op(value).or_else(|| owner(cx, value)) else { return };
    let work = Strided { from: from.clone(), to };
    cx.step(op, "copy".into(), Arc::new(work), vec![from.buf], vec![to]);
}

fn owner(cx: &Lower<'_>, value: ValueId) -> Option<meshwork_ir::OpId> {
    match cx.module.value(value).def() {
        meshwork_ir::Def::Arg(block, _) => cx.module.block_parent_op(block),
        meshwork_ir::Def::Result(op, _) => Some(op),
    }
}

#[derive(Debug)]
struct Strided {
    from: View,
    to: Buf,
}

impl Work for Strided {
    fn parts(&self) -> usize {
        1
    }

    fn cost(&self) -> u64 {
        self.from.len() as u64
    }

    unsafe fn run(&self, frame: &Frame<'_>, _: &mut Scratch, _: usize) -> Result<(), Fault> {
        let view = &self.from;
        if view.is_empty() {
            return Ok(());
        }
        let size = view.elem.storage_bytes();
        let mut index = vec![0i64; view.dims.len()];
        let mut at = view.offset as isize;
        let (from, to) = (frame.ptr(view.buf), frame.ptr(self.to));
        for i in 0..view.len() {
            // SAFETY: a view stays inside its buffer, and `to` holds as many elements as the view.
            unsafe { std::ptr::copy_nonoverlapping(from.offset(at), to.add(i * size), size) };
            for d in (0..index.len()).rev() {
                index[d] += 1;
                at += view.strides[d] as isize;
                if index[d] < view.dims[d] {
                    break;
                }
                at -= (view.strides[d] * view.dims[d]) as isize;
                index[d] = 0;
            }
        }
        Ok(())
    }
}
