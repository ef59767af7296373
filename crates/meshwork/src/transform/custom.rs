//! Functions with a derivative of the user's own.

use std::sync::Arc;

use meshwork_autodiff::{CUSTOM, Custom, RULE, add_rule};
use meshwork_ir::op::SdyOp;
use meshwork_ir::{Attr, Module, OpKind, OpSpec, TensorType, Type, ValueId};

use super::grad::differentiable;
use super::linear::traced;
use crate::Tensor;
use crate::error::fail;
use crate::trace::{self, with_top};
use crate::tree::{Tree, leaves, replace};

/// `f(x)`, whose cotangent is `rule(x, y, dy)`: from the argument, the result and a cotangent of the result to the one of
/// the argument.
///
/// Neither may capture tensors: what they need is in `x`. The rule is traced when a gradient asks for it; it may call
/// `f` again, and derivatives of the derivative go through it. [`jvp`](crate::jvp) transposes it.
///
/// ```
/// use meshwork::prelude::*;
/// use meshwork::custom_vjp;
///
/// // Rounds, and passes gradients straight through.
/// let f = |x: Tensor| custom_vjp(|x: Tensor| x.round(), |_, _, dy| dy, x);
/// let slope = jit(move |x: Tensor| grad(|x: Tensor| (f(x) * 3.0).sum_all(), x));
/// assert_eq!(slope.call(&Array::from([0.2f32, 1.7]))?.to_vec::<f32>()?, [3.0, 3.0]);
/// # Ok::<(), meshwork::Error>(())
/// ```
#[track_caller]
pub fn custom_vjp<A: Tree + 'static, B: Tree + 'static>(
    f: impl FnOnce(A) -> B,
    rule: impl Fn(A, B, B) -> A + 'static,
    x: A,
) -> B {
    custom("custom_vjp", Custom::Vjp, f, move |x, y, list| leaves(&rule(x, copy(&y), fill(&y, list))), x)
}

/// `f(x)`, whose tangent is `rule(x, y, dx)`: from the argument, the result and a tangent of the argument, in which it
/// is linear, to the one of the result.
///
/// Neither may capture tensors: what they need is in `x`. The rule is traced when a derivative asks for it, and
/// transposed for gradients.
///
/// ```
/// use meshwork::prelude::*;
/// use meshwork::custom_jvp;
///
/// // The logarithm of 1 + exp(x) with a slope that does not overflow.
/// let f = |x: Tensor| custom_jvp(|x: Tensor| x.exp().log1p(), |x, _, dx| x.sigmoid() * dx, x);
/// let slope = jit(move |x: Tensor| grad(|x: Tensor| f(x).sum_all(), x));
/// assert_eq!(slope.call(&Array::from([0.0f32, 1e5]))?.to_vec::<f32>()?, [0.5, 1.0]);
/// # Ok::<(), meshwork::Error>(())
/// ```
#[track_caller]
pub fn custom_jvp<A: Tree + 'static, B: Tree + 'static>(
    f: impl FnOnce(A) -> B,
    rule: impl Fn(A, B, A) -> B + 'static,
    x: A,
) -> B {
    custom("custom_jvp", Custom::Jvp, f, move |x, y, list| leaves(&rule(copy(&x), y, fill(&x, list))), x)
}

#[track_caller]
fn custom<A: Tree + 'static, B: Tree + 'static>(
    op: &'static str,
    kind: Custom,
    f: impl FnOnce(A) -> B,
    rule: impl Fn(A, B, &[Tensor]) -> Vec<Tensor> + 'static,
    x: A,
) -> B {
    if !with_top(op, |trace| trace.is_inner()) {
        // Only traces on top of others are differentiated.
        return f(x);
    }
    let inputs = leaves(&x);
    let (out, module, captures) = traced(op, &inputs, |t| f(replace(&x, t)));
    if let Some(captured) = captures.first() {
        fail(op, format!("the function captures {}; make it part of its argument", captured.describe()));
    }
    let results = leaves(&out);
    let Some(from) = module.entry().and_then(|f| module.body_of(f, 0)) else { return out };
    let shape = copy(&out);
    let number = add_rule(kind, move |xs, ys| {
        let linear = if kind == Custom::Jvp { xs } else { ys };
        let wanted = if kind == Custom::Jvp { ys } else { xs };
        rule_module(op, [xs, ys, linear], wanted, &|[xs, ys, list]| rule(replace(&x, xs), replace(&shape, ys), list))
    });
    let results = with_top(op, |trace| {
        let values: Vec<ValueId> = inputs.iter().map(|t| trace.resolve(op, t)).collect();
        let spec = OpSpec::new(OpKind::Sdy(SdyOp::NamedComputation))
            .operands(values)
            .results(results.iter().map(|t| Type::Tensor(t.ty.clone())))
            .attr("name", Attr::str(CUSTOM))
            .attr(RULE, Attr::i64(number));
        trace.wrap(op, spec, &module, module.block(from).args())
    });
    replace(&out, &results)
}

/// Traces a rule of operands, results, and what it is linear in: of the last, and of what it returns, the floats count.
fn rule_module(
    op: &'static str,
    types: [&[Type]; 3],
    wanted: &[Type],
    rule: &dyn Fn([&[Tensor]; 3]) -> Vec<Tensor>,
) -> Result<Module, String> {
    let tensors = |list: &[Type]| -> Vec<Arc<TensorType>> {
        list.iter().filter_map(|ty| if let Type::Tensor(t) = ty { Some(t.clone()) } else { None }).collect()
    };
    let [xs, ys, linear] = types.map(tensors);
    let moves = |ty: &Arc<TensorType>| ty.elem.is_float() || ty.elem.is_complex();
    let all: Vec<&Arc<TensorType>> = xs.iter().chain(&ys).chain(linear.iter().filter(|t| moves(t))).collect();
    let (guard, args) = trace::start(all.into_iter(), trace::placing(op));
    let (x, rest) = args.split_at(xs.len());
    let (y, moving) = rest.split_at(ys.len());
    let returned = rule([x, y, moving]);
    let wanted: Vec<Arc<TensorType>> = tensors(wanted);
    if returned.len() != wanted.len() || returned.iter().zip(&wanted).any(|(r, w)| moves(w) && r.ty != *w) {
        return Err(format!("the rule of {op} returns {returned:?}, where {wanted:?} are needed"));
    }
    let floats: Vec<Tensor> = returned.into_iter().filter(differentiable).collect();
    let finished = trace::finish(guard, op, &floats);
    match finished.captures.first() {
        Some(captured) => {
            Err(format!("the rule of {op} captures {}; make it part of the argument", captured.describe()))
        }
        None => Ok(finished.module),
    }
}

fn copy<T: Tree>(tree: &T) -> T {
    tree.map(&mut Tensor::clone)
}

/// The tree with its floats replaced by those of `list`, and zeros elsewhere.
#[track_caller]
fn fill<T: Tree>(tree: &T, list: &[Tensor]) -> T {
    let mut next = list.iter();
    tree.map(&mut |t| match differentiable(t) {
        true => next.next().cloned().unwrap_or_else(|| t.clone()),
        false => t.zeros_like(),
    })
}
