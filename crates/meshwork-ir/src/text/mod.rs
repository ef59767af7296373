//! MLIR text in and out.

use std::fmt;

use crate::Attr;

/// Writes an attribute in its MLIR spelling.
pub(crate) fn write_attr(f: &mut dyn fmt::Write, attr: &Attr) -> fmt::Result {
    write!(f, "{attr:?}")
}
