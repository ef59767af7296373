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

/// The integers `name`, or `default` for each of `n` where it is absent.
pub(super) fn ints_or(op: &Op, name: &str, n: usize, default: i64) -> Result<Vec<i64>, String> {
    if op.attr(name).is_some() { ints(op, name) } else { Ok(vec![default; n]) }
}

/// The `n` booleans `name`, false where it is absent.
pub(super) fn flags(op: &Op, name: &str, n: usize) -> Result<Vec<bool>, String> {
    op.bools(name, n).ok_or_else(|| missing(op, name, &format!("a list of {n} booleans")))
}

/// What is said when `name` is not `kind`.
pub(super) fn missing(op: &Op, name: &str, kind: &str) -> String {
    format!("attribute '{name}' of {} is not {kind}", op.name())
}
