//! MLIR text in and out.
//!
//! [`parse`] reads the pretty and the generic form of every operation in the table, and the generic form of any
//! other. Attributes and types that this crate has no data for are kept as their text. [`print()`] writes what
//! MLIR's own printer writes.

mod lex;
mod parse;
mod print;
mod tidy;

use std::fmt;

pub(crate) use parse::may_be_unknown;
pub use parse::{parse, parse_attr, parse_type};
pub use print::{PrintOptions, print, print_lines, print_op, print_with};
pub(crate) use print::{loc_text, quoted};

use crate::Attr;

/// Writes an attribute in its MLIR spelling.
pub(crate) fn write_attr(f: &mut dyn fmt::Write, attr: &Attr) -> fmt::Result {
    f.write_str(&print::attr_text(attr))
}
