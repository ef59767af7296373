//! Operations without a kernel, and what a program asks of its host: the reference evaluator on a device's buffers.

use std::sync::Arc;

use meshwork_eval::{EvalError, SingleOp};
use meshwork_ir::{Literal, Module, OpId, OpKind, Type, ValueId};

use crate::compile::lower::Lower;
use crate::step::{Buf, Fault, Frame, Scratch, View, Work};

/// One operation, run by the evaluator on copies of its operands.
#[derive(Debug)]
struct Fallback {
    op: SingleOp,
    args: Vec<View>,
    results: Vec<(Buf, usize)>,
    cost: u64,
}

/// Adds a step that runs `op` on the evaluator, and says so in [`Lower::fallbacks`]. All its operands and all values
/// that its regions take from outside must have views; its tensor results get dense buffers.
pub fn lower(l: &mut Lower<'_>, op: OpId) -> Result<(), EvalError> {
    let module = l.module;
    let single = SingleOp::new(module, op)?;
    let mut args = vec![];
    for &value in single.inputs().iter().filter(|&&v| is_tensor(module.ty(v))) {
        let missing = || EvalError::invalid(module, op, format!("a {} it needs was not lowered", module.ty(value)));
        args.push(l.view(value).ok_or_else(missing)?.clone());
    }
    let tensors = |values: &[ValueId]| values.iter().copied().filter(|&v| is_tensor(module.ty(v))).collect::<Vec<_>>();
    let outputs = tensors(module.op(op).results());
    for &value in single.inputs().iter().chain(module.op(op).results()) {
        let ty = module.ty(value);
        if !(ty.as_tensor().is_some_and(|t| t.is_static()) || *ty == Type::Token) {
            return Err(EvalError::unsupported(module, op, format!("a value of type {ty}")));
        }
    }
    let results: Vec<(Buf, usize)> = outputs
        .iter()
        .map(|&v| {
            let buf = l.result(v);
            (buf, l.bufs[buf.0 as usize].bytes)
        })
        .collect();
    let elements: usize = args.iter().map(View::len).sum::<usize>() + results.iter().map(|r| r.1).sum::<usize>();
    let reads = args.iter().map(|v| v.buf).collect();
    let writes = results.iter().map(|r| r.0).collect();
    let by = if is_for_host(module, op) { "host" } else { "evaluator" };
    let name = format!("{by} {}", module.op(op).name());
    let work = Fallback { op: single, args, results, cost: 2000 + 20 * elements as u64 };
    l.fallbacks.push(op);
    l.step(op, name, Arc::new(work), reads, writes);
    Ok(())
}

/// Custom calls that compute.
const ROUTINES: &[&str] = &["ApproxTopK", "ProductOfElementaryHouseholderReflectors", "Qr", "TopK", "mhlo.topk"];

/// Whether `op` is for the host by its nature: a check of a test program, or a function of the surrounding process.
pub fn is_for_host(module: &Module, op: OpId) -> bool {
    let data = module.op(op);
    let routine = |target: &str| target.starts_with("lapack_") || ROUTINES.contains(&target);
    matches!(data.kind(), OpKind::Check(_)) || data.call_target().is_some_and(|target| !routine(target))
}

fn is_tensor(ty: &Type) -> bool {
    ty.as_tensor().is_some()
}

impl Work for Fallback {
    fn parts(&self) -> usize {
        1
    }

    fn cost(&self) -> u64 {
        self.cost
    }

    fn is_uniform(&self) -> bool {
        // It may ask for the number of the device.
        false
    }

    unsafe fn run(&self, frame: &Frame<'_>, _: &mut Scratch, _: usize) -> Result<(), Fault> {
        // SAFETY: the step names the buffers of all its views as read, so they are valid and nothing writes them.
        let args = self.args.iter().map(|view| unsafe { read(frame, view) }).collect::<Option<Vec<_>>>();
        let args = args.ok_or_else(|| Fault("an operand has impossible extents".into()))?;
        let results = self.op.run(args, frame.replica, frame.partition).map_err(|e| Fault(e.to_string()))?;
        for (literal, &(buf, bytes)) in results.iter().zip(&self.results) {
            if literal.bytes().len() != bytes {
                return Err(Fault(format!("a result of {} bytes where {bytes} are planned", literal.bytes().len())));
            }
            // SAFETY: the step names `buf` as written, so it is valid for its planned size and nothing else uses it.
            unsafe { std::ptr::copy_nonoverlapping(literal.bytes().as_ptr(), frame.ptr(buf), bytes) };
        }
        Ok(())
    }
}

/// The elements of a view as a literal.
///
/// # Safety
/// The view is inside its buffer, which is valid and not written meanwhile.
pub unsafe fn read(frame: &Frame<'_>, view: &View) -> Option<Literal> {
    let size = view.elem.storage_bytes();
    let base = frame.ptr(view.buf).cast_const();
    let mut bytes = Vec::with_capacity(view.len() * size);
    if view.is_dense() {
        if !view.is_empty() {
            // SAFETY: a dense view is `len * size` bytes from the start of the buffer.
            bytes.extend_from_slice(unsafe { std::slice::from_raw_parts(base, view.len() * size) });
        }
        return Literal::from_bytes(view.dims.iter().copied(), view.elem, bytes);
    }
    let mut index = vec![0i64; view.dims.len()];
    let mut at = view.offset;
    for _ in 0..view.len() {
        // SAFETY: `at` is the byte of an element of the view.
        bytes.extend_from_slice(unsafe { std::slice::from_raw_parts(base.offset(at as isize), size) });
        for d in (0..index.len()).rev() {
            index[d] += 1;
            at += view.strides[d];
            if index[d] < view.dims[d] {
                break;
            }
            at -= view.strides[d] * view.dims[d];
            index[d] = 0;
        }
    }
    Literal::from_bytes(view.dims.iter().copied(), view.elem, bytes)
}
