//! Traces: programs under construction, in a stack per thread.
//!
//! - Operations go to the end of the innermost open block of the topmost trace.
//! - A tensor belongs to the trace and block it was made in. It can be used while that block is open. A tensor of an
//!   outer trace is captured: it becomes an additional argument of the inner trace's function.
//! - A trace leaves the stack when its guard is dropped, also by unwinding.

pub(crate) mod compose;
mod constants;
pub(crate) mod inline;

use std::cell::RefCell;
use std::panic::Location;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use meshwork_ir::build::{BuildError, Builder};
use meshwork_ir::op::{ControlOp, SdyOp};
use meshwork_ir::{Attr, BlockId, FuncSig, FunctionType, Loc, Module, OpId, OpKind, OpSpec, TensorType, Type, ValueId};
use meshwork_mesh::{AxisRef, Mesh, Sharding};

use self::constants::Constants;
use crate::Tensor;
use crate::annotate::Annotations;
use crate::error::{At, fail_at};
use crate::manual::ManualAxis;
use crate::spec::MESH;

/// How placements in the program are treated.
#[derive(Clone, Debug)]
pub(crate) enum Placing {
    /// There is no mesh: a placement is an error.
    NoMesh,
    /// One device: placements are ignored. Manual regions are for the devices of the mesh, if there is one.
    Ignored(Option<Arc<Mesh>>),
    /// On this mesh.
    On(Arc<Mesh>),
}

/// A program under construction.
pub(crate) struct Trace {
    id: u64,
    /// The traces below it in the stack.
    outer: Vec<u64>,
    /// The line of the user's program that called for the trace, and the one that is being traced.
    pub(crate) called_at: &'static Location<'static>,
    at: &'static Location<'static>,
    /// If set, the line that all operations are attributed to: library code that runs on behalf of the user.
    pin: Option<&'static Location<'static>>,
    pub(crate) module: Module,
    pub(crate) func: OpId,
    open: Vec<BlockId>,
    captures: Vec<(Tensor, ValueId)>,
    pub(crate) placing: Placing,
    /// The axes along which the program is written for single devices, outermost first.
    pub(crate) manual: Vec<ManualAxis>,
    /// Placements of named values.
    pub(crate) annotations: Rc<Annotations>,
    /// Whether there has been a trace on top of it, or parts of another program were inlined into it.
    pub(crate) was_below: bool,
    constants: Constants,
}

thread_local! {
    static STACK: RefCell<Vec<Trace>> = const { RefCell::new(vec![]) };
}

/// The id of the next trace, shared by all threads: a tensor from another thread belongs to no trace of this one.
static NEXT: AtomicU64 = AtomicU64::new(0);

/// A trace on the stack; dropping it abandons the trace.
pub(crate) struct Guard {
    finished: bool,
}

impl Drop for Guard {
    fn drop(&mut self) {
        if !self.finished {
            pop();
        }
    }
}

/// Takes the topmost trace. With the last one, derivatives that the programs brought along are forgotten.
fn pop() -> Option<Trace> {
    let (trace, empty) = STACK.with_borrow_mut(|stack| (stack.pop(), stack.is_empty()));
    if empty {
        meshwork_autodiff::clear_rules();
    }
    trace
}

/// A finished trace: a module whose `main` still lacks its return.
pub(crate) struct Finished {
    pub(crate) module: Module,
    pub(crate) func: OpId,
    /// Tensors of outer traces, each the value of an additional argument after the given ones.
    pub(crate) captures: Vec<Tensor>,
    /// Whether there was a trace on top of it, or parts of another program were inlined into it.
    pub(crate) was_below: bool,
}

/// Starts a trace of a function with arguments of these types, and returns them as tensors.
#[track_caller]
pub(crate) fn start<'t>(
    types: impl ExactSizeIterator<Item = &'t Arc<TensorType>>,
    placing: Placing,
) -> (Guard, Vec<Tensor>) {
    let id = NEXT.fetch_add(1, Ordering::Relaxed);
    let mut module = Module::new();
    // Most programs have some operations for each argument.
    module.reserve_ops(8 * types.len() + 32);
    let inputs = types.map(|t| Type::Tensor(t.clone())).collect();
    let ty = FunctionType { inputs, results: vec![] };
    let func = module.add_func(FuncSig { name: "main".into(), ty, visibility: None });
    // `add_func` gives every function a block.
    let block = module.region(module.op(func).regions()[0]).blocks()[0];
    let tensor = |&value: &ValueId| match module.ty(value) {
        Type::Tensor(ty) => Tensor { trace: id, block, value, ty: ty.clone() },
        // All arguments are tensors.
        ty => unreachable!("an argument of type {ty}"),
    };
    let tensors = module.block(block).args().iter().map(tensor).collect();
    let at = Location::caller();
    STACK.with_borrow_mut(|stack| {
        stack.iter_mut().for_each(|t| t.was_below = true);
        let outer = stack.iter().map(|t| t.id).collect();
        let called_at = stack.last().map_or(at, |t| t.called_at);
        let annotations = stack.last().map(|t| t.annotations.clone()).unwrap_or_default();
        let manual = stack.last().map(|t| t.manual.clone()).unwrap_or_default();
        stack.push(Trace {
            id,
            outer,
            called_at,
            at,
            pin: None,
            module,
            func,
            open: vec![block],
            captures: vec![],
            placing,
            manual,
            annotations,
            was_below: false,
            constants: Constants::default(),
        });
    });
    (Guard { finished: false }, tensors)
}

/// Ends the topmost trace, which returns `results`.
#[track_caller]
pub(crate) fn finish(mut guard: Guard, op: &str, results: &[Tensor]) -> Finished {
    let values = with_top(op, |trace| results.iter().map(|t| trace.resolve(op, t)).collect::<Vec<_>>());
    guard.finished = true;
    let Some(mut trace) = pop() else {
        // The guard keeps its trace on the stack.
        unreachable!("a guarded trace is on the stack")
    };
    let (func, block) = (trace.func, trace.open[0]);
    trace.module.push(block, OpSpec::new(OpKind::Control(ControlOp::FuncReturn)).operands(values));
    let captured = trace.captures.iter().map(|(tensor, _)| Type::Tensor(tensor.ty.clone()));
    trace.module.edit_func_type(func, |ty| {
        ty.inputs.extend(captured);
        ty.results = results.iter().map(|t| Type::Tensor(t.ty.clone())).collect();
    });
    let captures = trace.captures.into_iter().map(|(outer, _)| outer).collect();
    Finished { module: trace.module, func, captures, was_below: trace.was_below }
}

/// How the topmost trace treats placements.
#[track_caller]
pub(crate) fn placing(op: &str) -> Placing {
    with_top(op, |trace| trace.placing.clone())
}

/// Runs `work` on the topmost trace, attributed to the caller's line. `work` must not call user code.
#[track_caller]
pub(crate) fn with_top<R>(op: &str, work: impl FnOnce(&mut Trace) -> R) -> R {
    let at = Location::caller();
    STACK.with_borrow_mut(|stack| {
        let Some(trace) = stack.last_mut() else { no_trace(op, at) };
        trace.at = trace.pin.unwrap_or(at);
        work(trace)
    })
}

/// No `jit` would return an error.
#[cold]
fn no_trace(op: &str, at: &'static Location<'static>) -> ! {
    panic!("{op}: there is no trace: tensors exist only inside a function that jit traces\n  at {}", At(at))
}

/// The line that operations are attributed to, if it is not that of their callers.
pub(crate) fn pin() -> Option<&'static Location<'static>> {
    STACK.with(|stack| stack.try_borrow().ok()?.last()?.pin)
}

/// Runs library code that calls operations, with all of them attributed to the line that called the traced function.
/// Traces on top of the current one, as of a function whose gradient is taken, have their own lines.
pub(crate) fn on_behalf_of_caller<R>(work: impl FnOnce() -> R) -> R {
    match STACK.with_borrow(|stack| stack.last().map(|trace| trace.called_at)) {
        Some(at) => pinned(at, work),
        None => work(),
    }
}

/// Runs library code that calls operations from closures, with all of them attributed to `at`.
pub(crate) fn pinned<R>(at: &'static Location<'static>, work: impl FnOnce() -> R) -> R {
    let set = |pin| STACK.with_borrow_mut(|s| s.last_mut().and_then(|t| std::mem::replace(&mut t.pin, pin)));
    let before = set(Some(at));
    let out = work();
    set(before);
    out
}

impl Trace {
    /// The value of `tensor` in this trace.
    #[inline]
    pub(crate) fn resolve(&mut self, op: &str, tensor: &Tensor) -> ValueId {
        if tensor.trace == self.id && tensor.block == self.block() {
            tensor.value
        } else {
            self.resolve_outer(op, tensor)
        }
    }

    /// The values of `tensors` in this trace.
    #[inline]
    pub(crate) fn resolve_all<const N: usize>(&mut self, op: &str, tensors: &[&Tensor; N]) -> [ValueId; N] {
        let (id, block) = (self.id, self.block());
        let mut values = tensors.map(|t| t.value);
        for (value, tensor) in values.iter_mut().zip(tensors) {
            if tensor.trace != id || tensor.block != block {
                *value = self.resolve_outer(op, tensor);
            }
        }
        values
    }

    /// The value of a tensor that was not made in the innermost block.
    fn resolve_outer(&mut self, op: &str, tensor: &Tensor) -> ValueId {
        if tensor.trace == self.id {
            if !self.open.contains(&tensor.block) {
                self.fail(
                    op,
                    format!(
                        "{} was made inside a loop body or branch that has ended; return it from the body to use \
                         it outside",
                        tensor.describe()
                    ),
                );
            }
            return tensor.value;
        }
        if !self.outer.contains(&tensor.trace) {
            self.fail(
                op,
                format!(
                    "{} belongs to another trace, which has ended; pass it to this function as an argument or return \
                     it from the other",
                    tensor.describe()
                ),
            );
        }
        let known = |(outer, _): &&(Tensor, ValueId)| outer.trace == tensor.trace && outer.value == tensor.value;
        if let Some((_, value)) = self.captures.iter().find(known) {
            return *value;
        }
        let value = self.module.add_block_arg(self.open[0], Type::Tensor(tensor.ty.clone()));
        self.captures.push((tensor.clone(), value));
        value
    }

    pub(crate) fn fail(&self, op: &str, message: impl Into<String>) -> ! {
        fail_at(op, message, self.at)
    }

    /// The location of the line that is being traced.
    pub(crate) fn loc(&self) -> Loc {
        Loc::Rust(self.at)
    }

    /// The innermost open block.
    #[inline]
    pub(crate) fn block(&self) -> BlockId {
        // The function's own block is open as long as the trace lives.
        self.open[self.open.len() - 1]
    }

    /// Declares the mesh in the module, if it is not yet: shardings of manual regions refer to it.
    pub(crate) fn declare(&mut self, mesh: &Arc<Mesh>) {
        declare_mesh(&mut self.module, mesh);
    }

    /// The first axis of `sharding` that is manual here, and so cannot split anything.
    pub(crate) fn manual_axis(&self, sharding: &Sharding) -> Option<AxisRef> {
        let manual = |a: &&AxisRef| self.manual.iter().any(|m| *m.name == *a.name);
        sharding.dims.iter().flat_map(|d| &d.axes).find(manual).cloned()
    }

    /// Opens a block: operations go into it until it is closed.
    pub(crate) fn open(&mut self, block: BlockId) {
        self.open.push(block);
    }

    /// Closes the innermost block.
    pub(crate) fn close(&mut self) {
        self.open.pop();
    }

    /// A value of the innermost block as a tensor.
    pub(crate) fn tensor(&self, op: &str, value: ValueId) -> Tensor {
        let ty = self.tensor_type(op, value).clone();
        Tensor { trace: self.id, block: self.block(), value, ty }
    }

    /// The type of a value that is a tensor.
    pub(crate) fn tensor_type(&self, op: &str, value: ValueId) -> &Arc<TensorType> {
        self.as_tensor(op, self.module.ty(value))
    }

    fn as_tensor<'t>(&self, op: &str, ty: &'t Type) -> &'t Arc<TensorType> {
        match ty {
            Type::Tensor(ty) => ty,
            ty => self.fail(op, format!("a value of type {ty} is not a tensor")),
        }
    }

    /// Whether there is a trace below it.
    pub(crate) fn is_inner(&self) -> bool {
        !self.outer.is_empty()
    }

    /// Builds operations with a [`Builder`] at the end of the innermost block.
    pub(crate) fn build<R>(&mut self, op: &str, build: impl FnOnce(&mut Builder<'_>) -> Result<R, BuildError>) -> R {
        let (loc, block) = (self.loc(), self.block());
        let mut builder = Builder::at_end(&mut self.module, block).with_loc(loc);
        match build(&mut builder) {
            Ok(out) => out,
            Err(e) => self.wrong(op, &e),
        }
    }

    #[cold]
    fn wrong(&self, op: &str, e: &BuildError) -> ! {
        self.fail(op, e.error.to_string())
    }
}

/// Declares `mesh` in the module, under the name that shardings use, if it is not yet.
pub(crate) fn declare_mesh(module: &mut Module, mesh: &Arc<Mesh>) {
    if module.symbol(MESH).is_some() {
        return;
    }
    let spec =
        OpSpec::new(OpKind::Sdy(SdyOp::Mesh)).attr("sym_name", Attr::str(MESH)).attr("mesh", Attr::Mesh(mesh.clone()));
    let op = module.create(spec);
    module.prepend(module.body(), op);
}
