//! Loops that data decides, over a few numbers and over tables, as one routine.
//!
//! Carries of a few numbers are scalars of the routine, others are tables (`machine`, `tables`); loops and choices inside are loops
//! and jumps of the routine (`control`). A loop whose arrays have more than a few elements that are computed stays a loop.

mod code;
mod control;
mod machine;
mod tables;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use meshwork_ir::OpId;

use super::expand::{Expand, offsets};
use super::work::Copied;
use crate::compile::lower::Lower;
use crate::kernel::ir::Ty;
use crate::kernel::routine::Routine;
use crate::program::Node;
use crate::step::{Buf, Fault, Frame, Scratch, Step, View, Work};
use code::Number;
use machine::Machine;

/// Operations that a step of an ordinary loop is worth.
const OPS_A_STEP: f64 = 130.0;
/// Nanoseconds that a loop is thought to take at least if data decides how often it turns.
const OPEN_NS: u64 = 50_000;

/// All turns of a loop.
#[derive(Debug)]
struct Turning {
    routine: Routine,
    places: Vec<(Buf, i64)>,
    copied: Vec<Copied>,
    cost: u64,
}

impl Work for Turning {
    fn parts(&self) -> usize {
        1
    }

    fn cost(&self) -> u64 {
        self.cost
    }

    unsafe fn run(&self, frame: &Frame<'_>, scratch: &mut Scratch, _: usize) -> Result<(), Fault> {
        // SAFETY: there is one part; places of a routine are inside the buffers that the step names.
        unsafe {
            self.copied.iter().for_each(|c| c.run(frame));
            let ptrs = self.places.iter().map(|&(buf, offset)| frame.ptr(buf).offset(offset as isize));
            self.routine.run(ptrs, scratch);
        }
        Ok(())
    }
}

/// Makes the loop `op` one step, if it is small enough. Its operands and what it captures are in memory.
pub(super) fn lower(cx: &mut Lower<'_>, op: OpId) -> bool {
    if !crate::kernel::jit_is_available() || !control::is_plain(cx.module, op) {
        return false;
    }
    let bufs = cx.bufs.len();
    let done = written(cx, op).is_some();
    if !done {
        cx.bufs.truncate(bufs);
    }
    done
}

fn written(cx: &mut Lower<'_>, op: OpId) -> Option<()> {
    let module = cx.module;
    let data = module.op(op);
    let mut m = Machine::new(cx, op);
    m.control(op)?;
    let worth = control::steps(module, module.body_of(op, 0)?) + control::steps(module, module.body_of(op, 1)?);
    let mut results: Vec<(usize, View)> = vec![];
    let mut copied: Vec<Copied> = vec![];
    for (i, &result) in data.results().iter().enumerate() {
        let is_used = !module.value(result).uses().is_empty();
        if let Some(table) = m.table(result) {
            let to = m.tables[table].view.clone();
            copied.push(Copied { from: m.cx.view(data.operands()[i])?.clone(), to: to.clone() });
            results.push((i, to));
        } else if is_used && m.resolved(result) != result {
            let view = m.cx.view(data.operands()[i])?.clone();
            m.cx.set_view(result, view);
        } else if is_used {
            let (elem, dims) = m.cx.shape(result);
            let view = View::dense(m.cx.buffer(elem, &dims), elem, &dims);
            let numbers = m.value(result, None)?;
            for (offset, &number) in offsets(&dims, &view.strides, 0).into_iter().zip(numbers.iter()) {
                m.code.store((view.buf, 0), elem, Number::Const(Ty::I32, offset as u64), number)?;
            }
            results.push((i, view));
        }
    }
    let (ops, cost, additions) = (m.code.len(), m.cost, m.additions);
    let least = if m.is_open { OPEN_NS } else { 100 };
    if additions.max(ops as u64) as f64 > worth * OPS_A_STEP {
        return None;
    }
    let Machine { code, reads, tables, .. } = m;
    let places = code.places.clone();
    let (body, flow) = code.finish();
    let routine = Routine::new(&body, &flow)?;
    let mut writes: Vec<Buf> = results.iter().map(|(_, view)| view.buf).collect();
    writes.extend(tables.iter().map(|t| t.view.buf).filter(|buf| !results.iter().any(|(_, v)| v.buf == *buf)));
    let loaded = reads.clone();
    let mut reads = reads;
    for Copied { from, .. } in &copied {
        if !reads.contains(&from.buf) {
            reads.push(from.buf);
        }
    }
    // A table may be updated where it comes from.
    let mut in_place = vec![];
    for Copied { from, to } in &copied {
        let whole = cx.bufs[from.buf.0 as usize].bytes == cx.bufs[to.buf.0 as usize].bytes;
        let once = copied.iter().filter(|c| c.from.buf == from.buf).count() == 1;
        if from.is_dense() && whole && once && !loaded.contains(&from.buf) {
            in_place.push((from.buf, to.buf));
        }
    }
    for (i, view) in results {
        cx.set_view(data.results()[i], view);
    }
    let work = Turning { routine, places, copied, cost: least.max(cost / 3) };
    let name = format!("routine of {ops} operations");
    cx.nodes.push(Node::Step(Step { work: Arc::new(work), reads, writes, in_place, op, name }));
    Some(())
}
