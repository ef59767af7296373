//! Small pieces of text: quoted strings, symbols, lists.

use std::fmt::{Display, Write};

use crate::{TensorType, Type};

/// Appends `item` as it displays.
pub(super) fn push_display(out: &mut String, item: impl Display) {
    // Writing to a string does not fail.
    let _ = write!(out, "{item}");
}

/// Appends a number.
pub(super) fn push_int(out: &mut String, value: impl itoa::Integer) {
    out.push_str(itoa::Buffer::new().format(value));
}

/// Appends a type.
pub(super) fn push_type(out: &mut String, ty: &Type) {
    let _ = ty.write(out);
}

/// Appends a tensor type.
pub(super) fn push_tensor_type(out: &mut String, ty: &TensorType) {
    let _ = ty.write(out);
}

/// Appends the items separated by commas.
pub(super) fn push_list<T>(out: &mut String, items: impl IntoIterator<Item = T>, mut item: impl FnMut(&mut String, T)) {
    for (i, x) in items.into_iter().enumerate() {
        if i > 0 {
            out.push_str(", ");
        }
        item(out, x);
    }
}

/// Appends `[1, 2]`.
pub(super) fn push_dims(out: &mut String, dims: &[i64]) {
    out.push('[');
    push_list(out, dims, |out, &d| match d {
        // Most are numbers of dimensions.
        0..=9 => out.push(char::from(b'0' + d as u8)),
        _ => push_int(out, d),
    });
    out.push(']');
}

/// Appends `text` in double quotes.
pub(super) fn push_quoted(out: &mut String, text: &str) {
    out.push('"');
    push_escaped(out, text);
    out.push('"');
}

/// Appends what stands between the quotes of a string.
pub(super) fn push_escaped(out: &mut String, text: &str) {
    let _ = meshwork_mesh::write_escaped(out, text);
}

/// Appends a name, in quotes unless it is an identifier.
pub(super) fn push_name(out: &mut String, name: &str) {
    let bare = meshwork_mesh::bare_identifier(name).is_some_and(|bare| bare.len() == name.len());
    if bare { out.push_str(name) } else { push_quoted(out, name) }
}

/// Appends `@name`, or `@outer::@inner` for a nested symbol.
pub(super) fn push_symbol(out: &mut String, symbol: &str) {
    if !symbol.as_bytes().contains(&b':') {
        out.push('@');
        return push_name(out, symbol);
    }
    for (i, part) in symbol.split("::@").enumerate() {
        out.push_str(if i > 0 { "::@" } else { "@" });
        push_name(out, part);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(f: impl FnOnce(&mut String)) -> String {
        let mut out = String::new();
        f(&mut out);
        out
    }

    #[test]
    fn strings_escape_all_but_printable_ascii() {
        assert_eq!(with(|o| push_quoted(o, "a\"\\\né~")), r#""a\22\\\0A\C3\A9~""#);
    }

    #[test]
    fn symbols_are_quoted_where_needed() {
        assert_eq!(with(|o| push_symbol(o, "a.b$1")), "@a.b$1");
        assert_eq!(with(|o| push_symbol(o, "1a")), "@\"1a\"");
        assert_eq!(with(|o| push_symbol(o, "m::@f g")), "@m::@\"f g\"");
    }
}
