//! Donation: arguments whose memory the caller gives away, and the results that take it.
//!
//! Programs mark donated arguments as JAX does: `tf.aliasing_output` with the number of the result that takes the
//! memory, or `jax.buffer_donor` if none does.

use meshwork_ir::{Attr, Module, OpId};

/// The number of the result that takes an argument's memory.
const ALIAS: &str = "tf.aliasing_output";
/// An argument whose memory no particular result takes.
const DONOR: &str = "jax.buffer_donor";

/// An argument that is donated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Donation {
    /// The argument's number.
    pub argument: usize,
    /// The number of the result that takes its memory; `None` if any may.
    pub result: Option<usize>,
}

/// The donated arguments of `func`, in order.
pub(crate) fn of(module: &Module, func: OpId) -> Vec<Donation> {
    let donated = |argument: usize| {
        let alias = module.arg_attr(func, argument, ALIAS).and_then(Attr::as_int);
        let is_donor = module.arg_attr(func, argument, DONOR).is_some_and(|mark| *mark != Attr::Bool(false));
        let result = alias.and_then(|r| usize::try_from(r).ok());
        (alias.is_some() || is_donor).then_some(Donation { argument, result })
    };
    (0..module.func_type(func).inputs.len()).filter_map(donated).collect()
}

/// Marks the arguments of the entry of `local`, which `func` of `global` was split into. A result takes the memory of
/// an argument only if both have one type on a device.
pub(crate) fn carry(global: &Module, func: OpId, local: &mut Module) {
    let Some(entry) = local.entry() else { return };
    let ty = local.func_type(entry);
    for Donation { argument, result } in of(global, func) {
        match result.filter(|&r| ty.results.get(r) == ty.inputs.get(argument)) {
            Some(result) => local.set_arg_attr(entry, argument, ALIAS, Some(Attr::i32(result as i64))),
            None => local.set_arg_attr(entry, argument, DONOR, Some(Attr::Bool(true))),
        }
    }
}
