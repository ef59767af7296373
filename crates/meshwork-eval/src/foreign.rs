//! Custom calls that functions of this process answer, by the name of their target.

use std::sync::{PoisonError, RwLock};

use meshwork_ir::{AttrDict, Literal};

/// A call of a function that is no part of Meshwork.
#[derive(Clone, Copy, Debug)]
pub struct ForeignCall<'a> {
    /// The function's name.
    pub target: &'a str,
    /// Attributes of the operation.
    pub attrs: &'a AttrDict,
    /// Which device calls it.
    pub device: usize,
    /// What it is called with.
    pub operands: &'a [&'a Literal],
}

/// Makes the call and writes its results, which are zeros of the right shape. `None` if there is no such function.
pub type Foreign = fn(call: &ForeignCall<'_>, results: &mut [Literal]) -> Option<Result<(), String>>;

static FOREIGN: RwLock<Option<Foreign>> = RwLock::new(None);

/// Says who answers calls of functions that are not known here.
pub fn set_foreign(foreign: Foreign) {
    *FOREIGN.write().unwrap_or_else(PoisonError::into_inner) = Some(foreign);
}

/// The results of a call; `None` if nobody answers it.
pub(crate) fn call(call: &ForeignCall<'_>, mut results: Vec<Literal>) -> Option<Result<Vec<Literal>, String>> {
    let foreign = (*FOREIGN.read().unwrap_or_else(PoisonError::into_inner))?;
    let outcome = foreign(call, &mut results)?;
    Some(outcome.map(|()| results))
}
