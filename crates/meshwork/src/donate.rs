//! Donation: arguments whose memory results may take.
//!
//! A donated argument is marked in the program as JAX does: `tf.aliasing_output` with the number of the result that
//! takes its place, where one of the same type and placement exists, else `jax.buffer_donor`. Engines read the marks of
//! the program that they run.

use std::collections::BTreeSet;

use meshwork_ir::{Attr, Module, OpId};

const ALIAS: &str = "tf.aliasing_output";
const DONOR: &str = "jax.buffer_donor";

/// Marks the arguments `donated` of `func`.
pub(crate) fn mark(module: &mut Module, func: OpId, donated: &[usize]) {
    let ty = module.func_type(func);
    let mut taken = BTreeSet::new();
    for &arg in donated {
        let placed = module.arg_attr(func, arg, "sdy.sharding").cloned();
        let fits = |r: &usize| {
            !taken.contains(r)
                && ty.results[*r] == ty.inputs[arg]
                && module.res_attr(func, *r, "sdy.sharding").is_none_or(|s| Some(s) == placed.as_ref())
        };
        let result = (0..ty.results.len()).find(fits);
        match result {
            Some(result) => {
                taken.insert(result);
                module.set_arg_attr(func, arg, ALIAS, Some(Attr::i32(result as i64)));
            }
            None => module.set_arg_attr(func, arg, DONOR, Some(Attr::Bool(true))),
        }
    }
}

/// Carries the marks of a program over to the one that it was split into, whose types are those of a device.
pub(crate) fn carry(from: &Module, to: &mut Module) {
    let (Some(old), Some(new)) = (from.entry(), to.entry()) else { return };
    let ty = to.func_type(new);
    for arg in 0..ty.inputs.len() {
        let alias = from.arg_attr(old, arg, ALIAS).and_then(Attr::as_int);
        let fits = alias.filter(|&r| ty.results.get(r as usize) == Some(&ty.inputs[arg]));
        if let Some(result) = fits {
            to.set_arg_attr(new, arg, ALIAS, Some(Attr::i32(result)));
        } else if alias.is_some() || from.arg_attr(old, arg, DONOR).is_some() {
            to.set_arg_attr(new, arg, DONOR, Some(Attr::Bool(true)));
        }
    }
}
