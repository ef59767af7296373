//! Loops and branches: traced once, run as often as the data require.

mod associative;
mod switch;

use std::panic::Location;
use std::sync::Arc;

use meshwork_ir::build::OpenOp;
use meshwork_ir::op::ControlOp;
use meshwork_ir::{OpKind, OpSpec, TensorType, Type, ValueId};

use crate::Int;
use crate::element::Operand;
use crate::error::fail;
use crate::ops::{full, zeros};
use crate::trace::{pinned, with_top};
use crate::tree::{Path, Tree, leaves, replace};
use crate::{ElementType, Tensor};

pub use associative::associative_scan;
pub use switch::{fori_loop, map, switch};

/// An operation whose bodies are being traced.
struct Open {
    name: &'static str,
    op: OpenOp,
}

impl Open {
    /// Starts an operation with these operands; bodies follow.
    #[track_caller]
    fn new(name: &'static str, kind: OpKind, operands: &[Tensor]) -> Open {
        let op = with_top(name, |trace| {
            let values: Vec<ValueId> = operands.iter().map(|t| trace.resolve(name, t)).collect();
            trace.build(name, |b| Ok(b.open(OpSpec::new(kind).operands(values))))
        });
        Open { name, op }
    }

    /// Starts a body that takes tensors of these types.
    #[track_caller]
    fn begin(&self, types: &[Arc<TensorType>]) -> Vec<Tensor> {
        with_top(self.name, |trace| {
            let types = types.iter().map(|t| Type::Tensor(t.clone()));
            let block = trace.build(self.name, |b| Ok(b.begin_body(&self.op, types)));
            trace.open(block);
            let args = trace.module.block(block).args().to_vec();
            args.into_iter().map(|v| trace.tensor(self.name, v)).collect::<Vec<_>>()
        })
    }

    /// Ends the body, which returns these tensors.
    #[track_caller]
    fn end(&self, returned: &[Tensor]) {
        with_top(self.name, |trace| {
            let values: Vec<ValueId> = returned.iter().map(|t| trace.resolve(self.name, t)).collect();
            let block = trace.block();
            trace.build(self.name, |b| {
                b.end_body(&self.op, block, values);
                Ok(())
            });
            trace.close();
        });
    }

    /// Inserts the operation and returns its results.
    #[track_caller]
    fn close(self) -> Vec<Tensor> {
        with_top(self.name, |trace| {
            let values = trace.build(self.name, |b| b.close(self.op));
            values.into_iter().map(|v| trace.tensor(self.name, v)).collect()
        })
    }

    /// Erases the operation.
    #[track_caller]
    fn discard(self) {
        with_top(self.name, |trace| {
            trace.build(self.name, |b| {
                b.discard(self.op);
                Ok(())
            });
        });
    }
}

fn types(tensors: &[Tensor]) -> Vec<Arc<TensorType>> {
    tensors.iter().map(|t| t.ty.clone()).collect()
}

/// Checks that a body returns what it takes.
#[track_caller]
fn same_state<S: Tree>(name: &str, before: &S, after: &S) -> Vec<Tensor> {
    let list = |s: &S| {
        let mut out: Vec<(String, Tensor)> = vec![];
        s.tensors(&mut Path::default(), &mut |p, t| out.push((p.to_string(), t.clone())));
        out
    };
    let (a, b) = (list(before), list(after));
    if a.len() != b.len() {
        fail(name, format!("the body takes a state of {} tensors and returns one of {}", a.len(), b.len()));
    }
    for ((path, x), (_, y)) in a.iter().zip(&b) {
        if x.ty != y.ty {
            let at = if path.is_empty() { String::new() } else { format!(" at {path}") };
            fail(name, format!("the body takes {}{at} and returns {} there", x.describe(), y.describe()));
        }
    }
    b.into_iter().map(|(_, t)| t).collect()
}

/// Runs `body` on the state while `cond` holds of it. Both are traced once.
///
/// ```
/// use meshwork::prelude::*;
///
/// // Halve until below one.
/// let f = jit(|x: Tensor| while_loop(x, |x| x.ge(1.0), |x| x * 0.5));
/// assert_eq!(f.call(&Array::scalar(10.0f32))?.item::<f32>()?, 0.625);
/// # Ok::<(), meshwork::Error>(())
/// ```
#[track_caller]
pub fn while_loop<S: Tree>(init: S, cond: impl FnOnce(&S) -> Tensor, body: impl FnOnce(S) -> S) -> S {
    run_while("while_loop", init, cond, body)
}

#[track_caller]
fn run_while<S: Tree>(name: &'static str, init: S, cond: impl FnOnce(&S) -> Tensor, body: impl FnOnce(S) -> S) -> S {
    let inits = leaves(&init);
    let types = types(&inits);
    let op = Open::new(name, OpKind::Control(ControlOp::While), &inits);
    let args = op.begin(&types);
    let holds = cond(&replace(&init, &args));
    if holds.dtype() != ElementType::I1 || holds.rank() != 0 {
        fail(name, format!("the condition is {}; it must be an i1 scalar", holds.describe()));
    }
    op.end(&[holds]);
    let args = op.begin(&types);
    let state = body(replace(&init, &args));
    let returned = same_state(name, &replace(&init, &args), &state);
    op.end(&returned);
    let results = op.close();
    replace(&state, &results)
}

/// Runs `body` for each number of a range that is known while tracing; `body` gets the number as an `i32` scalar and
/// the state, and returns the next state. It is traced once.
///
/// ```
/// use meshwork::prelude::*;
///
/// let f = jit(|x: Tensor| for_loop(0..10, x, |i, x| x + i.to(F32)));
/// assert_eq!(f.call(&Array::scalar(0.0f32))?.item::<f32>()?, 45.0);
/// # Ok::<(), meshwork::Error>(())
/// ```
#[track_caller]
pub fn for_loop<S: Tree>(range: std::ops::Range<impl Int>, init: S, body: impl FnOnce(Tensor, S) -> S) -> S {
    let range = range.start.int()..range.end.int();
    if i32::try_from(range.start).is_err() || i32::try_from(range.end).is_err() {
        fail("for_loop", format!("the range {range:?} does not fit in i32"));
    }
    let start = full((), ElementType::I32, range.start);
    let (end, at) = (range.end, Location::caller());
    let (_, state) = run_while(
        "for_loop",
        (start, init),
        |(i, _)| pinned(at, || i.lt(end)),
        |(i, state)| {
            let next = pinned(at, || &i + 1);
            (next, body(i, state))
        },
    );
    state
}

/// Runs `body` over the slices of `xs` along their first dimension: `body` gets the carried state and a slice, and
/// returns the next state and an output. The outputs come back stacked along a new first dimension.
///
/// ```
/// use meshwork::prelude::*;
///
/// let cumulative = jit(|x: Tensor| scan(zeros((), F32), x, |sum, x| {
///     let sum = sum + x;
///     (sum.clone(), sum)
/// }));
/// let (total, sums) = cumulative.call(&Array::from([1.0f32, 2.0, 3.0]))?;
/// assert_eq!(total.item::<f32>()?, 6.0);
/// assert_eq!(sums.to_vec::<f32>()?, [1.0, 3.0, 6.0]);
/// # Ok::<(), meshwork::Error>(())
/// ```
#[track_caller]
pub fn scan<C: Tree, X: Tree, Y: Tree>(init: C, xs: X, body: impl Fn(C, X) -> (C, Y)) -> (C, Y) {
    let inputs = leaves(&xs);
    let lengths: Vec<i64> = inputs.iter().map(|x| x.shape().first().copied().unwrap_or(-1)).collect();
    let length = match lengths.first() {
        Some(&n) if n >= 0 && lengths.iter().all(|&m| m == n) => n,
        Some(_) => fail("scan", format!("the inputs have first extents {lengths:?}, which must be equal (-1: scalar)")),
        None => fail("scan", "there is no input to scan over; use for_loop"),
    };
    // The outputs' types are those of the body: found by tracing it into a body that is thrown away.
    let (shapes, structure) = outputs_of(&init, &xs, &inputs, &body);
    let buffers: Vec<Tensor> = {
        let mut out = vec![];
        for ty in &shapes {
            let dims: Vec<i64> = std::iter::once(length).chain(ty.dims.iter().copied()).collect();
            out.push(zeros(dims, ty.elem));
        }
        out
    };
    let at = Location::caller();
    let (carry, buffers) = for_loop(0..length, (init, buffers), |i, (carry, buffers)| {
        let (carry, y) = body(carry, pinned(at, || slice_inputs(&xs, &inputs, &i)));
        (carry, pinned(at, || write_outputs(&buffers, &leaves(&y), &i)))
    });
    (carry, replace(&structure, &buffers))
}

fn slice_inputs<X: Tree>(xs: &X, inputs: &[Tensor], i: &Tensor) -> X {
    let mut slices = vec![];
    for x in inputs {
        slices.push(x.slice(crate::s![i]));
    }
    replace(xs, &slices)
}

fn write_outputs(buffers: &[Tensor], outputs: &[Tensor], i: &Tensor) -> Vec<Tensor> {
    let mut next = vec![];
    for (buffer, y) in buffers.iter().zip(outputs) {
        let mut starts = vec![i.clone()];
        starts.resize(buffer.rank(), full((), ElementType::I32, 0));
        next.push(buffer.dynamic_update_slice(&y.expand_dims(0), &starts));
    }
    next
}

/// The types and the structure of what one step of a scan returns.
#[track_caller]
fn outputs_of<C: Tree, X: Tree, Y: Tree>(
    init: &C,
    xs: &X,
    inputs: &[Tensor],
    body: &impl Fn(C, X) -> (C, Y),
) -> (Vec<Arc<TensorType>>, Y) {
    let carried = leaves(init);
    let mut all = types(&carried);
    for x in inputs {
        all.push(Arc::new(TensorType::new(x.shape()[1..].iter().copied(), x.dtype())));
    }
    let op = Open::new("scan", OpKind::Control(ControlOp::While), &[]);
    let args = op.begin(&all);
    let (carry, x) = args.split_at(carried.len());
    let (_, y) = body(replace(init, carry), replace(xs, x));
    op.end(&[]);
    op.discard();
    (types(&leaves(&y)), y)
}

/// What `yes` returns if the scalar `pred` holds, else what `no` returns. Both are traced, one is run.
///
/// ```
/// use meshwork::prelude::*;
///
/// let f = jit(|x: Tensor| cond(x.gt(0.0), || x.sqrt(), || -&x));
/// assert_eq!(f.call(&Array::scalar(9.0f32))?.item::<f32>()?, 3.0);
/// assert_eq!(f.call(&Array::scalar(-9.0f32))?.item::<f32>()?, 9.0);
/// # Ok::<(), meshwork::Error>(())
/// ```
#[track_caller]
pub fn cond<S: Tree>(pred: impl Into<Operand>, yes: impl FnOnce() -> S, no: impl FnOnce() -> S) -> S {
    let pred = pred.into().tensor("cond", ElementType::I1);
    if pred.dtype() != ElementType::I1 || pred.rank() != 0 {
        fail("cond", format!("the condition is {}; it must be an i1 scalar", pred.describe()));
    }
    let op = Open::new("cond", OpKind::Control(ControlOp::If), &[pred]);
    op.begin(&[]);
    let first = yes();
    let kinds = types(&leaves(&first));
    op.end(&leaves(&first));
    op.begin(&[]);
    let second = leaves(&no());
    if types(&second) != kinds {
        fail("cond", format!("one branch returns {:?}, the other {second:?}", leaves(&first)));
    }
    op.end(&second);
    let results = op.close();
    replace(&first, &results)
}
