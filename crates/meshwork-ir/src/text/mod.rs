//! MLIR text in and out.
//!
//! [`parse`] reads the pretty and the generic form of every operation in the table, and the generic form of any
//! other. Attributes and types that this crate has no data for are kept as their exact text.

mod lex;
mod parse;

mod print;

use std::fmt;

pub use print::{PrintOptions, print, print_op, print_with};

use crate::Attr;

pub use parse::{parse, parse_attr, parse_type};

/// Writes an attribute in its MLIR spelling.
pub(crate) fn write_attr(f: &mut dyn fmt::Write, attr: &Attr) -> fmt::Result {
    f.write_str(&print::attr_text(attr))
}
