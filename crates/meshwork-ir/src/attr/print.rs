//! Attributes as MLIR text.

use std::fmt;

use super::Attr;

impl fmt::Display for Attr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        crate::text::write_attr(f, self)
    }
}
