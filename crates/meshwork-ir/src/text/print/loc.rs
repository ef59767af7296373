//! Locations, written in place.

use super::write::{push_display, push_list, push_quoted};
use crate::{Loc, LocKind};

/// Appends `loc(...)`.
pub(super) fn push_loc(out: &mut String, loc: &Loc) {
    out.push_str("loc(");
    push_inner(out, loc);
    out.push(')');
}

// Recursion is as deep as locations nest, which the parser bounds.
fn push_inner(out: &mut String, loc: &Loc) {
    let kind = match loc {
        Loc::Unknown => return out.push_str("unknown"),
        Loc::Rust(at) => return push_file(out, at.file(), at.line(), at.column()),
        Loc::Of(kind) => &**kind,
    };
    match kind {
        LocKind::File { file, line, col, to } => {
            push_file(out, file, *line, *col);
            match to {
                None => {}
                Some((end, col)) if end == line => push_display(out, format_args!(" to :{col}")),
                Some((end, col)) => push_display(out, format_args!(" to {end}:{col}")),
            }
        }
        LocKind::Name { name, child } => {
            push_quoted(out, name);
            if let Some(child) = child.as_ref().filter(|c| c.is_known()) {
                out.push('(');
                push_inner(out, child);
                out.push(')');
            }
        }
        LocKind::CallSite { callee, caller } => {
            out.push_str("callsite(");
            push_inner(out, callee);
            out.push_str(" at ");
            push_inner(out, caller);
            out.push(')');
        }
        LocKind::Fused(parts, metadata) => {
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
        LocKind::Opaque(text) => out.push_str(text),
    }
}

fn push_file(out: &mut String, file: &str, line: u32, col: u32) {
    push_quoted(out, file);
    push_display(out, format_args!(":{line}:{col}"));
}
