//! Rematerialization: less memory for more arithmetic.

use meshwork_autodiff::CHECKPOINT;
use meshwork_ir::op::SdyOp;
use meshwork_ir::{Attr, OpKind, OpSpec, Type, ValueId};

use super::linear::traced;
use crate::Tensor;
use crate::trace::with_top;
use crate::tree::{Tree, leaves, replace};

/// `f(x)`, of which a gradient keeps nothing but `x` and what `f` captures: what its derivative needs is computed again
/// in the backward pass.
///
/// Without it, every value that a derivative needs stays in memory from the forward to the backward pass. With it around
/// each block of a deep model, what stays are the inputs of the blocks, at the price of running each block twice.
/// Where no gradient is taken it changes nothing.
///
/// ```
/// use meshwork::prelude::*;
///
/// let block = |x: Tensor| x.sin().cos().exp();
/// let f = jit(move |x: Tensor| grad(|x: Tensor| checkpoint(block, x).sum_all(), x));
/// let g = jit(move |x: Tensor| grad(|x: Tensor| block(x).sum_all(), x));
/// let x = Array::from([0.5f32, 1.5]);
/// assert_eq!(f.call(&x)?.to_vec::<f32>()?, g.call(&x)?.to_vec::<f32>()?);
/// assert!(f.lower(&x)?.text().contains("optimization_barrier"));
/// # Ok::<(), meshwork::Error>(())
/// ```
#[track_caller]
pub fn checkpoint<A: Tree, B: Tree>(f: impl FnOnce(A) -> B, x: A) -> B {
    let inputs = leaves(&x);
    let (out, module, captures) = traced("checkpoint", &inputs, |t| f(replace(&x, t)));
    let Some(from) = module.entry().and_then(|f| module.body_of(f, 0)) else { return out };
    let args: Vec<Tensor> = inputs.into_iter().chain(captures).collect();
    let results = leaves(&out);
    let results = with_top("checkpoint", |trace| {
        let values: Vec<ValueId> = args.iter().map(|t| trace.resolve("checkpoint", t)).collect();
        let spec = OpSpec::new(OpKind::Sdy(SdyOp::NamedComputation))
            .operands(values)
            .results(results.iter().map(|t| Type::Tensor(t.ty.clone())))
            .attr("name", Attr::str(CHECKPOINT));
        trace.wrap("checkpoint", spec, &module, module.block(from).args())
    });
    replace(&out, &results)
}
