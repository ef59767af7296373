//! One operation on the reference evaluator: it becomes a little module of its own.

use std::sync::Arc;

use meshwork_ir::{ElementType, FuncSig, FunctionType, Literal, Module, OpId, OpKind, OpSpec, Type, ValueId, ValueMap};

use super::CompileError;
use super::block::captured;
use super::lower::Lower;
use crate::step::{Buf, Fault, Frame, Scratch, Work};

/// Adds a step that evaluates `op`, whose operands (and what its regions use from outside) are dense.
pub(crate) fn lower(cx: &mut Lower<'_>, op: OpId) -> Result<(), CompileError> {
    let source = cx.module;
    let unsupported = |what: String| CompileError::unsupported(source, op, what);
    let mut inputs: Vec<ValueId> = vec![];
    for &v in source.op(op).operands().iter().chain(&captured(source, op)) {
        if source.ty(v).as_tensor().is_none() {
            return Err(unsupported(format!("an operand of type {}", source.ty(v))));
        }
        if !inputs.contains(&v) {
            inputs.push(v);
        }
    }
    let results = source.op(op).results().to_vec();
    let types = |values: &[ValueId]| values.iter().map(|&v| source.ty(v).clone()).collect::<Vec<Type>>();
    let mut module = Module::new();
    let ty = FunctionType { inputs: types(&inputs), results: types(&results) };
    let func = module.add_func(FuncSig { name: "main".into(), ty, visibility: None });
    let Some(body) = module.body_of(func, 0) else { return Err(unsupported("a function without a body".into())) };
    let args = module.block(body).args().to_vec();
    let mut map: ValueMap = inputs.iter().copied().zip(args).collect();
    let copy = module.import_op(source, op, body, &mut map).map_err(unsupported)?;
    let returned = module.op(copy).results().to_vec();
    module.push(body, OpSpec::new(OpKind::FuncReturn).operands(returned));

    let mut reads = vec![];
    for &v in &inputs {
        let (elem, dims) = cx.shape(v);
        let buf = cx
            .view(v)
            .map(|view| view.buf)
            .ok_or_else(|| CompileError::invalid(source, op, "an operand is missing"))?;
        reads.push(Place { buf, elem, dims });
    }
    let mut writes = vec![];
    for &v in &results {
        let (elem, dims) = cx.shape(v);
        writes.push(Place { buf: cx.result(v), elem, dims });
    }
    let name = format!("{} (evaluator)", source.op(op).name().trim_start_matches("stablehlo."));
    let (from, to) = (reads.iter().map(|p| p.buf).collect(), writes.iter().map(|p| p.buf).collect());
    cx.fallbacks.push(op);
    cx.step(op, name, Arc::new(Evaluate { module, reads, writes }), from, to);
    Ok(())
}

#[derive(Debug)]
struct Place {
    buf: Buf,
    elem: ElementType,
    dims: Vec<i64>,
}

impl Place {
    fn bytes(&self) -> usize {
        self.dims.iter().product::<i64>() as usize * self.elem.storage_bytes()
    }
}

#[derive(Debug)]
struct Evaluate {
    module: Module,
    reads: Vec<Place>,
    writes: Vec<Place>,
}

impl Work for Evaluate {
    fn parts(&self) -> usize {
        1
    }

    fn cost(&self) -> u64 {
        100_000
    }

    unsafe fn run(&self, frame: &Frame<'_>, _: &mut Scratch, _: usize) -> Result<(), Fault> {
        let mut args = vec![];
        for place in &self.reads {
            // SAFETY: the buffer is dense and holds the value, so that many bytes are there and written.
            let bytes = unsafe { std::slice::from_raw_parts(frame.ptr(place.buf), place.bytes()) }.to_vec();
            let literal = Literal::from_bytes(place.dims.iter().copied(), place.elem, bytes);
            args.push(literal.ok_or_else(|| Fault("an operand does not fit its type".into()))?);
        }
        let results = meshwork_ir::eval::run(&self.module, None, &args).map_err(|e| Fault(e.to_string()))?;
        for (place, result) in self.writes.iter().zip(&results) {
            if result.bytes().len() != place.bytes() {
                return Err(Fault(format!("a result has type {} instead of {:?}", result.ty(), place.dims)));
            }
            // SAFETY: the buffer holds that many bytes and belongs to this step while it runs.
            unsafe { std::ptr::copy_nonoverlapping(result.bytes().as_ptr(), frame.ptr(place.buf), place.bytes()) };
        }
        Ok(())
    }
}
