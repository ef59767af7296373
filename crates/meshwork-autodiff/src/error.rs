//! Why a program could not be differentiated.

use meshwork_ir::build::BuildError;
use meshwork_ir::{Module, OpId, Type};
use thiserror::Error;

/// Why a program could not be differentiated.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum GradError {
    /// The module has no such function.
    #[error("no function @{name} to differentiate; the module has {known}")]
    NoFunction {
        /// The name asked for.
        name: String,
        /// The functions there are.
        known: String,
    },
    /// The function has no body of one block that ends in a return.
    #[error("function @{name} has no body of one block that returns, so it can not be differentiated")]
    NoBody {
        /// The function.
        name: String,
    },
    /// An argument number beyond the last argument.
    #[error("can not differentiate @{name} with respect to argument {index}: it has {count} arguments")]
    NoArgument {
        /// The function.
        name: String,
        /// The number asked for.
        index: usize,
        /// How many arguments there are.
        count: usize,
    },
    /// An argument that is not made of floats or complex numbers.
    #[error(
        "can not differentiate @{name} with respect to argument {index} of type {ty}: only arguments of static shape and float or complex elements have gradients"
    )]
    Argument {
        /// The function.
        name: String,
        /// The argument.
        index: usize,
        /// Its type.
        ty: Type,
    },
    /// The first result is not a float scalar.
    #[error("the gradient of @{name} needs a float scalar as first result, but it is {found}; use vjp or sum it first")]
    NotScalar {
        /// The function.
        name: String,
        /// The type of the first result, or `missing`.
        found: String,
    },
    /// An operation on the way from argument to result has no derivative here.
    #[error("no derivative of {op}: {why}")]
    NoRule {
        /// The operation and where it stands.
        op: String,
        /// What is missing, and what to do instead.
        why: String,
    },
    /// A derivative could not be written down.
    #[error("the derivative does not fit its operation: {0}")]
    Build(#[from] BuildError),
}

impl GradError {
    pub(crate) fn no_rule(module: &Module, op: OpId, why: impl Into<String>) -> GradError {
        GradError::NoRule { op: module.describe(op), why: why.into() }
    }
}
