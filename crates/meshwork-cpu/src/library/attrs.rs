//! Attributes of an operation as the kernels need them, or an error that names the missing one.

use meshwork_ir::Op;

/// The non-negative integer `name`.
pub(super) fn index(op: &Op, name: &str) -> Result<usize, String> {
    op.int(name).and_then(|v| usize::try_from(v).ok()).ok_or_else(|| missing(op, name, "an index"))
}

/// The integers `name`.
pub(super) fn ints(op: &Op, name: &str) -> Result<Vec<i64>, String> {
    op.i64s(name).ok_or_else(|| missing(op, name, "a list of integers"))
}

/// What is said when `name` is not `kind`.
pub(super) fn missing(op: &Op, name: &str, kind: &str) -> String {
    format!("attribute '{name}' of {} is not {kind}", op.name())
}
