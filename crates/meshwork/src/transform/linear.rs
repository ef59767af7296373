//! Derivatives as linear maps: `vjp` from cotangents of results, `jvp` from tangents of arguments.

use std::collections::HashSet;
use std::panic::Location;

use meshwork_autodiff::GradOptions;
use meshwork_ir::{Module, OpId, ValueId, ValueMap};

use super::grad::differentiable;
use crate::Tensor;
use crate::error::{fail, fail_at};
use crate::trace::inline::{body_ops, inline};
use crate::trace::{self, pinned, with_top};
use crate::tree::{Tree, leaves, replace};

/// `f(x)`, and the function that takes a cotangent of it, a tree like `f(x)`, to the one of `x`: the product of the
/// cotangent with the derivative of `f` at `x`.
///
/// What the derivative needs from the forward pass is computed once, however often the returned function is called.
/// Integers have a cotangent of zero, and what is given for an integer result is not used.
///
/// ```
/// use meshwork::prelude::*;
///
/// let f = jit(|x: Tensor, dy: Tensor| {
///     let (y, back) = vjp(|x: Tensor| x.sin(), x);
///     (y, back(dy))
/// });
/// let (y, dx) = f.call((&Array::from([0.0f32, 1.0]), &Array::from([2.0f32, 3.0])))?;
/// assert!(y.all_close(&Array::from([0.0f32, 0.841471]), 1e-6));
/// assert!(dx.all_close(&Array::from([2.0f32, 1.620907]), 1e-6));
/// # Ok::<(), meshwork::Error>(())
/// ```
#[track_caller]
pub fn vjp<A: Tree, B: Tree>(f: impl FnOnce(A) -> B, x: A) -> (B, impl Fn(B) -> A) {
    let inputs = leaves(&x);
    let (out, module, captures) = traced("vjp", &inputs, |t| f(replace(&x, t)));
    let wrt: Vec<usize> = (0..inputs.len()).filter(|&i| differentiable(&inputs[i])).collect();
    let options = GradOptions { wrt: wrt.clone(), keep_value: true };
    let module = meshwork_autodiff::vjp(&module, "main", &options).unwrap_or_else(|e| fail("vjp", e.to_string()));
    let args: Vec<Tensor> = inputs.iter().cloned().chain(captures).collect();
    let (pullback, results) = Pullback::new(module, &args, leaves(&out).len());
    let (y, at) = (replace(&out, &results), Location::caller());
    let back = move |ct: B| {
        let given = leaves(&ct);
        let fits = given.len() == results.len() && given.iter().zip(&results).all(|(g, e)| g.ty == e.ty);
        if !fits {
            fail_at("vjp", format!("the cotangent is {given:?}, the result of the function {results:?}"), at);
        }
        let seeds: Vec<Tensor> = given.into_iter().filter(differentiable).collect();
        let found = pinned(at, || pullback.apply(&seeds));
        let mut out = vec![];
        let mut next = found.into_iter();
        for (i, input) in inputs.iter().enumerate() {
            if wrt.contains(&i) { out.extend(next.next()) } else { out.push(pinned(at, || input.zeros_like())) }
        }
        replace(&x, &out)
    };
    (y, back)
}

/// `f(x)`, and how it changes when `x` moves along `dx`, a tree like `x`: the product of the derivative of `f` at `x`
/// with the tangent `dx`. Integers do not move.
///
/// ```
/// use meshwork::prelude::*;
///
/// let f = jit(|x: Tensor, dx: Tensor| jvp(|x: Tensor| x.pow(2.0), x, dx));
/// let (y, dy) = f.call((&Array::from([3.0f32, 4.0]), &Array::from([1.0f32, 0.5])))?;
/// assert_eq!(y.to_vec::<f32>()?, [9.0, 16.0]);
/// assert_eq!(dy.to_vec::<f32>()?, [6.0, 4.0]);
/// # Ok::<(), meshwork::Error>(())
/// ```
#[track_caller]
pub fn jvp<A: Tree, B: Tree>(f: impl FnOnce(A) -> B, x: A, dx: A) -> (B, B) {
    let (inputs, tangents) = (leaves(&x), leaves(&dx));
    if tangents.len() != inputs.len() || tangents.iter().zip(&inputs).any(|(t, i)| t.ty != i.ty) {
        fail("jvp", format!("the tangent is {tangents:?}, the argument of the function {inputs:?}"));
    }
    let (out, module, captures) = traced("jvp", &inputs, |t| f(replace(&x, t)));
    let wrt: Vec<usize> = (0..inputs.len()).filter(|&i| differentiable(&inputs[i])).collect();
    let options = GradOptions { wrt: wrt.clone(), keep_value: true };
    let module = meshwork_autodiff::jvp(&module, "main", &options).unwrap_or_else(|e| fail("jvp", e.to_string()));
    let moved = wrt.iter().map(|&i| tangents[i].clone());
    let args: Vec<Tensor> = inputs.iter().cloned().chain(captures).chain(moved).collect();
    let all = inline("jvp", &module, &args);
    let count = leaves(&out).len();
    let (values, rates) = all.split_at(count);
    let mut next = rates.iter();
    let mut out_rates = vec![];
    for value in values {
        if differentiable(value) { out_rates.extend(next.next().cloned()) } else { out_rates.push(value.zeros_like()) }
    }
    (replace(&out, values), replace(&out, &out_rates))
}

/// Traces a function of `inputs` apart: what it returns, its module, and what it captured.
#[track_caller]
pub(crate) fn traced<B: Tree>(op: &str, inputs: &[Tensor], f: impl FnOnce(&[Tensor]) -> B) -> (B, Module, Vec<Tensor>) {
    let (guard, tensors) = trace::start(inputs.iter().map(|t| &t.ty), trace::placing(op));
    let out = f(&tensors);
    let finished = trace::finish(guard, op, &leaves(&out));
    (out, finished.module, finished.captures)
}

/// A module whose last arguments, the cotangents, are not known yet: what does not depend on them is in place.
struct Pullback {
    module: Module,
    /// Operations that depend on the cotangents.
    rest: Vec<OpId>,
    cotangents: Vec<ValueId>,
    /// What the module's values are in the trace, where they are known.
    known: Vec<(ValueId, Tensor)>,
    /// The gradients that the module returns.
    gradients: Vec<ValueId>,
}

impl Pullback {
    /// Puts in place what is known of `module`, which returns `count` results and then gradients; also returns the
    /// results.
    #[track_caller]
    fn new(module: Module, args: &[Tensor], count: usize) -> (Pullback, Vec<Tensor>) {
        let Some(body) = module.entry().and_then(|f| module.body_of(f, 0)) else {
            fail("vjp", "the function has no body")
        };
        let (first, cotangents) = module.block(body).args().split_at(args.len());
        let mut late: HashSet<ValueId> = cotangents.iter().copied().collect();
        let (mut early, mut rest) = (vec![], vec![]);
        for op in body_ops(&module, body) {
            let below = module.ops_below(op, meshwork_ir::Walk::PreOrder);
            if below.iter().any(|&inner| module.op(inner).operands().iter().any(|v| late.contains(v))) {
                late.extend(module.op(op).results());
                rest.push(op);
            } else {
                early.push(op);
            }
        }
        let (known, results) = with_top("vjp", |trace| {
            let values: Vec<ValueId> = args.iter().map(|t| trace.resolve("vjp", t)).collect();
            let mut map: ValueMap = first.iter().copied().zip(values).collect();
            let to = trace.block();
            trace.copy("vjp", &module, &early, to, &mut map);
            let outer: Vec<ValueId> = early.iter().flat_map(|&op| module.op(op).results()).copied().collect();
            let known: Vec<(ValueId, Tensor)> = first
                .iter()
                .chain(&outer)
                .filter(|&&v| module.ty(v).as_tensor().is_some())
                .map(|&v| (v, trace.tensor("vjp", map[&v])))
                .collect();
            let results = module.returned(body)[..count].iter().map(|v| trace.tensor("vjp", map[v]));
            let results: Vec<Tensor> = results.collect();
            (known, results)
        });
        let (gradients, cotangents) = (module.returned(body)[count..].to_vec(), cotangents.to_vec());
        (Pullback { rest, cotangents, known, gradients, module }, results)
    }

    /// The gradients for these cotangents.
    #[track_caller]
    fn apply(&self, seeds: &[Tensor]) -> Vec<Tensor> {
        let used: HashSet<ValueId> = self
            .rest
            .iter()
            .flat_map(|&op| self.module.ops_below(op, meshwork_ir::Walk::PreOrder))
            .flat_map(|op| self.module.op(op).operands())
            .chain(&self.gradients)
            .copied()
            .collect();
        with_top("vjp", |trace| {
            let mut map: ValueMap =
                self.cotangents.iter().copied().zip(seeds.iter().map(|t| trace.resolve("vjp", t))).collect();
            for (value, tensor) in self.known.iter().filter(|(v, _)| used.contains(v)) {
                map.insert(*value, trace.resolve("vjp", tensor));
            }
            let to = trace.block();
            trace.copy("vjp", &self.module, &self.rest, to, &mut map);
            self.gradients.iter().map(|v| trace.tensor("vjp", map[v])).collect()
        })
    }
}
