//! Batching: turns a function of one example into a function of a batch, module to module.
//!
//! A value that depends on a batched argument gets the batch as new first dimension; others stay as they are. Each
//! operation is rewritten by one rule (`rules`), most of them by shifting dimension numbers. Invariants:
//! - a batched value has the type of the old value with the batch in front; an unbatched one has the old type;
//! - operations without a batched operand or capture are copied;
//! - an operation without a batched form runs in a loop over the batch (`one_by_one`): slower, but correct.
//!
//! | file | what |
//! |---|---|
//! | `state` | the values of the old function and their replacements |
//! | `spread` | which values will be batched, through loops and branches |
//! | `rules` | one entry per operation |
//! | `movement`, `index`, `contract`, `conv`, `reduce` | rules that need more than shifted numbers |
//! | `control` | loops, branches, computations with a body |
//! | `one_by_one` | the loop over the batch |

mod contract;
mod control;
mod conv;
mod index;
mod movement;
mod one_by_one;
mod reduce;
mod rules;
mod spread;
mod state;

use meshwork_ir::build::{BuildError, Builder};
use meshwork_ir::op::ControlOp;
use meshwork_ir::placement::{DimSharding, insert_dim};
use meshwork_ir::transform::dead::remove_dead;
use meshwork_ir::{Attr, AttrDict, BlockId, FuncSig, Module, OpId, OpKind, OpSpec, Type, ValueId};
use thiserror::Error;

use self::state::{Batch, Facts};
use crate::prepare::flatten;

/// How a function is batched.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BatchOptions {
    /// The number of examples.
    pub size: i64,
    /// For each argument the dimension that runs over the examples; `None` if all share it. Arguments beyond the end
    /// of the list are shared.
    pub in_axes: Vec<Option<usize>>,
    /// For each result the dimension that runs over the examples; `None` asserts that it is the same for all. Results
    /// beyond the end of the list have it first.
    pub out_axes: Vec<Option<usize>>,
    /// How shardings inside the function split the new dimension; the default leaves it to propagation.
    pub placement: DimSharding,
}

/// Why a program could not be batched.
#[derive(Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum BatchError {
    /// The module has no such function, or it has no body of one block.
    #[error("no function @{name} with a body of one block to batch")]
    NoFunction {
        /// The name asked for.
        name: String,
    },
    /// An axis that the argument or result does not have.
    #[error("cannot batch {what} of type {ty} along dimension {axis}: it has {} dimensions with the batch", .ty.dims().len() + 1)]
    Axis {
        /// Which argument or result.
        what: String,
        /// Its type without the batch.
        ty: Type,
        /// The dimension asked for.
        axis: usize,
    },
    /// A result that was said to be shared depends on a batched argument.
    #[error("result {index} depends on a batched argument, so it must be batched too: give it an out axis")]
    Shared {
        /// Which result.
        index: usize,
    },
    /// An operation that cannot be batched.
    #[error("cannot batch {op}: {why}")]
    NoRule {
        /// The operation and its location.
        op: String,
        /// What is missing, and what to do instead.
        why: String,
    },
    /// A batched operation could not be written down.
    #[error("a batched operation does not fit: {0}")]
    Build(#[from] BuildError),
}

meshwork_ir::debug_as_display!(BatchError);

impl BatchError {
    fn no_rule(module: &Module, op: OpId, why: impl Into<String>) -> BatchError {
        BatchError::NoRule { op: module.describe(op), why: why.into() }
    }
}

/// The function `func` of one example as a function of `options.size` of them.
///
/// In the new module the function of the same name takes batched arguments and returns batched results.
pub fn vmap(module: &Module, func: &str, options: &BatchOptions) -> Result<Module, BatchError> {
    let mut module = module.clone();
    let no_function = || BatchError::NoFunction { name: func.into() };
    let old = module.func(func).ok_or_else(no_function)?;
    if module.op(old).attr("sym_visibility").and_then(Attr::as_str) == Some("private") {
        module.op_mut(old).attrs.remove("sym_visibility");
    }
    flatten(&mut module);
    let blocks = module.op(old).regions().first().map_or(&[][..], |&r| module.region(r).blocks());
    let &[body] = blocks else { return Err(no_function()) };
    let args = module.block(body).args().to_vec();
    let returned = module.returned(body).to_vec();
    let axis_of = |i: usize| options.in_axes.get(i).copied().flatten();

    let mut inputs = vec![];
    for (i, &arg) in args.iter().enumerate() {
        let ty = module.ty(arg).clone();
        inputs.push(match axis_of(i) {
            Some(axis) => inserted(&ty, axis, options.size).ok_or_else(|| {
                let what = format!("argument {i} of @{func}");
                BatchError::Axis { what, ty: ty.clone(), axis }
            })?,
            None => ty,
        });
    }
    let ty = meshwork_ir::FunctionType { inputs, results: vec![] };
    let new = module.add_func(FuncSig { name: func.into(), ty, visibility: None });
    // `add_func` gives every function a block.
    let to = module.region(module.op(new).regions()[0]).blocks()[0];
    module.block_mut(to).arg_locs = module.block(body).arg_locs.clone();
    let mut facts = Facts::default();
    facts.old.extend(args.iter().enumerate().filter(|&(i, _)| axis_of(i).is_some()).map(|(_, &arg)| arg));
    spread::spread(&module, body, &mut facts.old);
    for (i, (&arg, given)) in args.iter().zip(module.block(to).args().to_vec()).enumerate() {
        match axis_of(i) {
            Some(axis) => {
                let value = moved(&mut Builder::at_end(&mut module, to), given, axis, 0)?;
                facts.replace_batched(arg, value);
            }
            None => facts.replace(arg, given),
        }
    }

    let ops = module.op_list(body);
    let mut batch = Batch::new(&mut module, to, options, &mut facts);
    batch.run(&ops)?;
    let mut results = vec![];
    for (i, &value) in returned.iter().enumerate() {
        let value = batch.now(value);
        match options.out_axes.get(i).copied().unwrap_or(Some(0)) {
            Some(axis) => {
                let value = batch.lifted(value)?;
                if axis >= batch.ty(value).dims().len() {
                    let what = format!("result {i} of @{func}");
                    return Err(BatchError::Axis { what, ty: batch.module().ty(returned[i]).clone(), axis });
                }
                results.push(moved(&mut batch, value, 0, axis)?);
            }
            None if batch.is_on(value) => return Err(BatchError::Shared { index: i }),
            None => results.push(value),
        }
    }
    finish(&mut module, old, new, &results, options);
    Ok(module)
}

/// Writes what `body`, a block of scalar operations, makes of `count` sets of arguments to the end of block `to`: each
/// of `args`, and of the results, is a row of `count`.
pub(crate) fn widen_block(
    module: &mut Module,
    body: BlockId,
    to: BlockId,
    args: &[ValueId],
    count: i64,
) -> Result<Vec<ValueId>, BatchError> {
    let options = BatchOptions { size: count, ..BatchOptions::default() };
    let mut facts = Facts::default();
    for (&old, &new) in module.block(body).args().iter().zip(args) {
        facts.replace_batched(old, new);
        facts.old.insert(old);
    }
    spread::spread(module, body, &mut facts.old);
    let (ops, returned) = (module.op_list(body), module.returned(body).to_vec());
    let mut batch = Batch::new(module, to, &options, &mut facts);
    batch.run(&ops)?;
    let mut out = vec![];
    for value in returned {
        let value = batch.now(value);
        out.push(batch.lifted(value)?);
    }
    Ok(out)
}

/// Puts the new function in place of the old one.
fn finish(module: &mut Module, old: OpId, new: OpId, results: &[ValueId], options: &BatchOptions) {
    // The new function was made with a block.
    let to = module.region(module.op(new).regions()[0]).blocks()[0];
    module.push(to, OpSpec::new(OpKind::Control(ControlOp::FuncReturn)).operands(results.iter().copied()));
    let mut ty = module.func_type(new);
    ty.results = results.iter().map(|&v| module.ty(v).clone()).collect();
    let data = module.op(old).clone();
    let function_type = module.op(new).attr("function_type").cloned();
    module.op_mut(new).attrs = data.attrs.clone();
    if let Some(attr) = function_type {
        module.op_mut(new).attrs.set("function_type", attr);
    }
    module.op_mut(new).loc = data.loc.clone();
    module.set_func_type(new, ty);
    for (name, axes, default) in [("arg_attrs", &options.in_axes, None), ("res_attrs", &options.out_axes, Some(0))] {
        let Some(Attr::Array(slots)) = module.op(new).attr(name).cloned() else { continue };
        let slots = slots.iter().enumerate().map(|(i, slot)| {
            let Attr::Dict(dict) = slot else { return slot.clone() };
            let mut dict: AttrDict = (**dict).clone();
            dict.remove("tf.aliasing_output");
            let axis = axes.get(i).copied().unwrap_or(default);
            if let (Some(axis), Some(Attr::Sharding(s))) = (axis, dict.get("sdy.sharding").cloned()) {
                dict.set("sdy.sharding", Attr::Sharding(insert_dim(&s, axis, &options.placement).into()));
            }
            Attr::Dict(dict.into())
        });
        let slots = Attr::Array(slots.collect());
        module.op_mut(new).attrs.set(name, slots);
    }
    module.erase(old);
    remove_dead(module);
}

/// `ty` with a dimension of extent `size` put in at `axis`.
fn inserted(ty: &Type, axis: usize, size: i64) -> Option<Type> {
    let t = ty.as_tensor().filter(|t| axis <= t.dims.len())?;
    let mut dims = t.dims.to_vec();
    dims.insert(axis, size);
    Some(t.with_dims(dims).into())
}

/// `x` with dimension `from` at `to`, the others in their order.
fn moved(b: &mut Builder<'_>, x: ValueId, from: usize, to: usize) -> Result<ValueId, BuildError> {
    if from == to {
        return Ok(x);
    }
    let mut order: Vec<i64> = (0..b.ty(x).dims().len() as i64).collect();
    let dim = order.remove(from);
    order.insert(to, dim);
    b.transpose(x, &order)
}
