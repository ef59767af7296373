//! Why a program could not be differentiated.

use meshwork_ir::build::BuildError;
use meshwork_ir::{Module, OpId, Type};
use thiserror::Error;

/// Why a program could not be differentiated.
#[derive(Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum GradError {
    /// The module has no such function.
    #[error("no function @{name} to differentiate; the module has {known}")]
    NoFunction {
        /// The name asked for.
        name: String,
        /// The functions of the module.
        known: String,
    },
    /// The function has no body of one block that ends in a return.
    #[error("cannot differentiate @{name}: its body is not one block that ends in a return")]
    NoBody {
        /// The function.
        name: String,
    },
    /// An argument number beyond the last argument.
    #[error("cannot differentiate @{name} with respect to argument {index}: it has {count} arguments")]
    NoArgument {
        /// The function.
        name: String,
        /// The number asked for.
        index: usize,
        /// The number of arguments.
        count: usize,
    },
    /// An argument that is not made of floats or complex numbers.
    #[error(
        "cannot differentiate @{name} with respect to argument {index} of type {ty}: gradients need a static shape and float or complex elements"
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
    #[error(
        "the gradient of @{name} needs a float scalar as its first result, got {found}; use vjp, or sum the result first"
    )]
    NotScalar {
        /// The function.
        name: String,
        /// The type of the first result, or `missing`.
        found: String,
    },
    /// An operation between argument and result has no derivative rule.
    #[error("no derivative of {op}: {why}")]
    NoRule {
        /// The operation and its location.
        op: String,
        /// What is missing, and what to do instead.
        why: String,
    },
    /// A derivative could not be built.
    #[error("the derivative does not fit its operation: {0}")]
    Build(#[from] BuildError),
}

meshwork_ir::debug_as_display!(GradError);

impl GradError {
    pub(crate) fn no_rule(module: &Module, op: OpId, why: impl Into<String>) -> GradError {
        GradError::NoRule { op: module.describe(op), why: why.into() }
    }
}
