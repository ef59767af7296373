//! Why an operation's types do not fit together.

use smol_str::SmolStr;
use thiserror::Error;

use crate::Type;

/// What is wrong with the operands, attributes, bodies or declared results of an operation.
#[derive(Clone, PartialEq, Error)]
pub enum InferError {
    /// The number of operands is wrong.
    #[error("'{op}' op takes {expected}, but has {got}")]
    OperandCount {
        /// Name of the operation.
        op: &'static str,
        /// What it takes, in words.
        expected: SmolStr,
        /// How many there are.
        got: usize,
    },
    /// An operand has a type the operation does not take.
    #[error("'{op}' op operand {index} ({name}) must be {expected}, but is {got}")]
    OperandType {
        /// Name of the operation.
        op: &'static str,
        /// Position of the operand.
        index: usize,
        /// What the operand is called.
        name: &'static str,
        /// What it may be, in words.
        expected: SmolStr,
        /// What it is.
        got: Type,
    },
    /// The number of declared results is wrong.
    #[error("'{op}' op has {expected} result(s), but {got} are declared")]
    ResultCount {
        /// Name of the operation.
        op: &'static str,
        /// How many it has.
        expected: usize,
        /// How many are declared.
        got: usize,
    },
    /// A declared result type is not what the operands and attributes give.
    #[error("'{op}' op result {index} must be {expected}, but is declared as {got}")]
    ResultType {
        /// Name of the operation.
        op: &'static str,
        /// Position of the result.
        index: usize,
        /// What it may be.
        expected: SmolStr,
        /// What is declared.
        got: Type,
    },
    /// The result type does not follow from the operands and was not given.
    #[error("'{op}' op result {index} does not follow from its operands: its type has to be given")]
    NeedsResultType {
        /// Name of the operation.
        op: &'static str,
        /// Position of the result.
        index: usize,
    },
    /// An attribute is missing or of the wrong kind.
    #[error("'{op}' op needs attribute '{attr}': {expected}")]
    MissingAttr {
        /// Name of the operation.
        op: &'static str,
        /// Name of the attribute.
        attr: &'static str,
        /// What it should be.
        expected: &'static str,
    },
    /// An attribute has a value that does not fit.
    #[error("'{op}' op attribute '{attr}' {detail}")]
    Attr {
        /// Name of the operation.
        op: &'static str,
        /// Name of the attribute.
        attr: &'static str,
        /// What is wrong with it, with numbers.
        detail: String,
    },
    /// Operands and attributes do not fit together.
    #[error("'{op}' op {detail}")]
    Mismatch {
        /// Name of the operation.
        op: &'static str,
        /// What does not fit, with names, shapes and numbers.
        detail: String,
    },
    /// A body takes or returns the wrong values.
    #[error("'{op}' op {body} {detail}")]
    Body {
        /// Name of the operation.
        op: &'static str,
        /// What the body is called.
        body: &'static str,
        /// What is wrong with it, with types.
        detail: String,
    },
}

meshwork_mesh::debug_as_display!(InferError);
