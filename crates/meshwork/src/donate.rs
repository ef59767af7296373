//! Donation: arguments whose memory results may take.
//!
//! A donated argument is marked in the program as JAX does: `tf.aliasing_output` with the number of the result that
//! takes its place, where one of the same type and placement exists, else `jax.buffer_donor`. Engines read the marks of
//! the program that they run.

use std::collections::{BTreeSet, HashMap};

use meshwork_ir::{Attr, Module, OpId};

use crate::Array;
use crate::error::{At, JitError, Result};
use crate::jit::NamedArray;

const ALIAS: &str = "tf.aliasing_output";
const DONOR: &str = "jax.buffer_donor";

/// Marks the arguments `donated` of `func`.
pub(crate) fn mark(module: &mut Module, func: OpId, donated: &[usize]) {
    if donated.is_empty() {
        return;
    }
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

/// The arrays that a call at `at` works on. Donated arrays lose their elements to it.
pub(crate) fn take_inputs(leaves: Vec<NamedArray>, donated: &[usize], at: At) -> Result<Vec<Array>> {
    let mut owners: HashMap<*const (), &str> = HashMap::new();
    if !donated.is_empty() {
        // A donated array cannot be another argument as well.
        let is_donated = |i: usize| donated.binary_search(&i).is_ok();
        let given = leaves.iter().enumerate();
        for (i, (path, array)) in given.clone().filter(|(i, _)| is_donated(*i)).chain(given) {
            let Some(identity) = array.identity() else { continue };
            match owners.get(&identity) {
                None if is_donated(i) => drop(owners.insert(identity, path)),
                Some(owner) if **owner != **path => {
                    return Err(JitError::DonatedTwice { donated: owner.to_string(), other: path.to_string() }.into());
                }
                _ => {}
            }
        }
    }
    let mut next = donated.iter().peekable();
    let give = |(i, (_, array)): (usize, NamedArray)| match next.next_if(|&&d| d == i) {
        Some(_) => array.donate(at),
        None => array,
    };
    Ok(leaves.into_iter().enumerate().map(give).collect())
}
