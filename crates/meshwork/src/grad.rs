//! Gradients of functions of tensors: traced apart, differentiated as a module, and put in place.

use meshwork_autodiff::GradOptions;
use meshwork_ir::{BlockId, Module, OpSpec, ValueId, ValueMap};

use crate::Tensor;
use crate::error::fail;
use crate::trace::{self, with_top};
use crate::tree::{Tree, leaves, replace};

/// The gradient of the scalar that `f` returns, at `x`: a tree like `x`.
///
/// It is used inside of a traced function. Tensors that `f` captures are held fixed. The gradient is that of the
/// global program: under data parallelism it is the gradient of the loss over the whole batch, however the mesh looks.
/// Integers have a gradient of zero.
///
/// ```
/// use meshwork::prelude::*;
///
/// let slope = jit(|x: Tensor| grad(|x: Tensor| x.pow(3.0).sum_all(), x));
/// assert_eq!(slope.call(&Array::from([1.0f32, 2.0]))?.to_vec::<f32>()?, [3.0, 12.0]);
/// # Ok::<(), meshwork::Error>(())
/// ```
#[track_caller]
pub fn grad<A: Tree>(f: impl FnOnce(A) -> Tensor, x: A) -> A {
    value_and_grad(f, x).1
}

/// The scalar that `f` returns, and its gradient at `x`.
///
/// ```
/// use meshwork::prelude::*;
///
/// let f = jit(|w: Tensor, x: Tensor| value_and_grad(|w: Tensor| (w * &x).sum_all(), w));
/// let (value, gradient) = f.call((&Array::from([1.0f32, 2.0]), &Array::from([3.0f32, 4.0])))?;
/// assert_eq!(value.item::<f32>()?, 11.0);
/// assert_eq!(gradient.to_vec::<f32>()?, [3.0, 4.0]);
/// # Ok::<(), meshwork::Error>(())
/// ```
#[track_caller]
pub fn value_and_grad<A: Tree>(f: impl FnOnce(A) -> Tensor, x: A) -> (Tensor, A) {
    let (value, (), gradient) = value_and_grad_aux(|x| (f(x), ()), x);
    (value, gradient)
}

/// The scalar that `f` returns, what it returns beside it, and the gradient of the scalar at `x`.
#[track_caller]
pub fn value_and_grad_aux<A: Tree, B: Tree>(f: impl FnOnce(A) -> (Tensor, B), x: A) -> (Tensor, B, A) {
    let inputs = leaves(&x);
    let types: Vec<_> = inputs.iter().map(|t| t.ty.clone()).collect();
    let (guard, tensors) = trace::start(&types, trace::placing("grad"));
    let (value, aux) = f(replace(&x, &tensors));
    if value.rank() != 0 || !value.dtype().is_float() {
        fail("grad", format!("the function returns a {}; it has to be a scalar of floats", value.describe()));
    }
    let mut results = vec![value];
    results.extend(leaves(&aux));
    let finished = trace::finish(guard, "grad", &results);
    let wrt: Vec<usize> = (0..inputs.len()).filter(|&i| differentiable(&inputs[i])).collect();
    let options = GradOptions { wrt: wrt.clone(), keep_value: true };
    let module = match meshwork_autodiff::grad(&finished.module, "main", &options) {
        Ok(module) => module,
        Err(e) => fail("grad", e.to_string()),
    };
    let args: Vec<Tensor> = inputs.iter().cloned().chain(finished.captures).collect();
    let out = inline(&module, &args);
    // The value, a gradient for each of `wrt`, then what else was returned.
    let (head, rest) = out.split_at(1 + wrt.len());
    let mut gradients = vec![];
    for (i, input) in inputs.iter().enumerate() {
        match wrt.iter().position(|&w| w == i) {
            Some(at) => gradients.push(head[1 + at].clone()),
            None => gradients.push(input.zeros_like()),
        }
    }
    (head[0].clone(), replace(&aux, rest), replace(&x, &gradients))
}

fn differentiable(x: &Tensor) -> bool {
    x.dtype().is_float() || x.dtype().is_complex()
}

/// The operations of the entry function of `module` at the end of the current trace.
#[track_caller]
fn inline(module: &Module, args: &[Tensor]) -> Vec<Tensor> {
    with_top("grad", |trace| {
        let values: Vec<ValueId> = args.iter().map(|t| trace.resolve("grad", t)).collect();
        let Some(from) = module.entry().and_then(|f| module.body_of(f, 0)) else { return vec![] };
        let mut map: ValueMap = module.block(from).args().iter().copied().zip(values).collect();
        let to = trace.block();
        copy(module, from, &mut trace.module, to, &mut map);
        let returned: Vec<ValueId> = module.returned(from).iter().map(|v| map[v]).collect();
        returned.into_iter().map(|v| trace.tensor("grad", v)).collect()
    })
}

/// Copies the operations of block `from` of one module to the end of a block of another; of a function's block, all
/// but the return. Recursion is as deep as loops and branches nest.
fn copy(source: &Module, from: BlockId, target: &mut Module, to: BlockId, map: &mut ValueMap) {
    for id in source.op_list(from) {
        let op = source.op(id);
        if op.kind() == meshwork_ir::OpKind::FuncReturn {
            continue;
        }
        let mut spec = OpSpec::new(op.kind())
            .operands(op.operands().iter().map(|v| map[v]))
            .results(op.results().iter().map(|&v| source.ty(v).clone()))
            .loc(op.loc.clone());
        spec.attrs = op.attrs.clone();
        let new = target.create(spec);
        for (&old, &result) in op.results().iter().zip(&target.op(new).results().to_vec()) {
            map.insert(old, result);
        }
        for &region in op.regions() {
            let region_copy = target.add_region(new);
            for &block in source.region(region).blocks() {
                let args = source.block(block).args();
                let inner = target.add_block(region_copy, args.iter().map(|&a| source.ty(a).clone()));
                map.extend(args.iter().copied().zip(target.block(inner).args().to_vec()));
                copy(source, block, target, inner, map);
            }
        }
        target.append(to, new);
    }
}
