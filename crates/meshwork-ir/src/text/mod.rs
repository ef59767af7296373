//! MLIR text in and out.

mod print;

use std::fmt;

pub use print::{PrintOptions, print, print_op, print_with};

use crate::Attr;

/// Writes an attribute in its MLIR spelling.
pub(crate) fn write_attr(f: &mut dyn fmt::Write, attr: &Attr) -> fmt::Result {
    f.write_str(&print::attr_text(attr))
}
