//! Locations, written in place.

use super::out::Out;
use super::write::{push_list, push_quoted};
use crate::{Loc, LocKind};

/// Appends `loc(...)`.
pub(super) fn push_loc(out: &mut Out, loc: &Loc) {
    out.push_str("loc(");
    push_inner(out, loc);
    out.push(')');
}

// Recursion is as deep as locations nest, which the parser bounds.
fn push_inner(out: &mut Out, loc: &Loc) {
    match loc.0.as_deref() {
        None => out.push_str("unknown"),
        Some(LocKind::File { file, line, col }) => {
            push_quoted(out, file);
            out.push(':');
            out.push_u64((*line).into());
            out.push(':');
            out.push_u64((*col).into());
        }
        Some(LocKind::Name { name, child }) => {
            push_quoted(out, name);
            if let Some(child) = child.as_ref().filter(|c| c.0.is_some()) {
                out.push('(');
                push_inner(out, child);
                out.push(')');
            }
        }
        Some(LocKind::CallSite { callee, caller }) => {
            out.push_str("callsite(");
            push_inner(out, callee);
            out.push_str(" at ");
            push_inner(out, caller);
            out.push(')');
        }
        Some(LocKind::Fused(parts, metadata)) => {
            out.push_str("fused");
            if let Some(text) = metadata {
                out.push('<');
                out.push_str(text);
                out.push('>');
            }
            out.push('[');
            push_list(out, parts, push_inner);
            out.push(']');
        }
        Some(LocKind::Opaque(text)) => out.push_str(text),
    }
}
