//! Small pieces of text: integers, quoted strings, symbols, lists.

use super::out::Out;
use crate::types::DYNAMIC;
use crate::{FunctionType, TensorType, Type};

/// Appends a decimal number with its sign.
pub(super) fn push_i64(out: &mut Out, value: i64) {
    if value < 0 {
        out.push('-');
    }
    out.push_u64(value.unsigned_abs());
}

/// Appends the items separated by commas.
pub(super) fn push_list<T>(out: &mut Out, items: impl IntoIterator<Item = T>, mut item: impl FnMut(&mut Out, T)) {
    for (i, x) in items.into_iter().enumerate() {
        if i > 0 {
            out.push_str(", ");
        }
        item(out, x);
    }
}

/// Appends `[1, 2]`.
pub(super) fn push_dims(out: &mut Out, dims: &[i64]) {
    out.push('[');
    push_list(out, dims, |out, &d| push_i64(out, d));
    out.push(']');
}

/// Appends `text` in double quotes; what is not printable ASCII as `\` and two hexadecimal digits.
pub(super) fn push_quoted(out: &mut Out, text: &str) {
    out.push('"');
    let plain = |b: u8| (b' '..=b'~').contains(&b) && b != b'"' && b != b'\\';
    let mut rest = text;
    while let Some(stop) = rest.bytes().position(|b| !plain(b)) {
        out.push_str(&rest[..stop]);
        let Some(odd) = rest[stop..].chars().next() else { break };
        let mut buffer = [0; 4];
        for &b in odd.encode_utf8(&mut buffer).as_bytes() {
            out.push('\\');
            if b == b'\\' {
                out.push('\\');
            } else {
                out.push(char::from(b"0123456789ABCDEF"[usize::from(b >> 4)]));
                out.push(char::from(b"0123456789ABCDEF"[usize::from(b & 15)]));
            }
        }
        rest = &rest[stop + odd.len_utf8()..];
    }
    out.push_str(rest);
    out.push('"');
}

/// Appends a name, in quotes unless it is an identifier.
pub(super) fn push_name(out: &mut Out, name: &str) {
    let bytes = name.as_bytes();
    let bare = bytes.first().is_some_and(|b| b.is_ascii_alphabetic() || *b == b'_')
        && bytes.iter().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'$' | b'.'));
    match bare {
        true => out.push_str(name),
        false => push_quoted(out, name),
    }
}

/// Appends `@name`, or `@outer::@inner` for a nested symbol.
pub(super) fn push_symbol(out: &mut Out, symbol: &str) {
    if !symbol.as_bytes().contains(&b':') {
        out.push('@');
        return push_name(out, symbol);
    }
    for (i, part) in symbol.split("::@").enumerate() {
        out.push_str(if i > 0 { "::@" } else { "@" });
        push_name(out, part);
    }
}

/// Appends a type.
pub(super) fn push_type(out: &mut Out, ty: &Type) {
    match ty {
        Type::Tensor(t) => push_tensor(out, t),
        Type::Scalar(e) => out.push_str(e.text()),
        Type::Token => out.push_str("!stablehlo.token"),
        Type::Tuple(parts) => {
            out.push_str("tuple<");
            push_list(out, parts.iter(), push_type);
            out.push('>');
        }
        Type::Function(f) => push_function_type(out, f),
        Type::None => out.push_str("none"),
        Type::Opaque(text) => out.push_str(text),
    }
}

fn push_tensor(out: &mut Out, ty: &TensorType) {
    out.push_str("tensor<");
    for &d in &ty.dims {
        match d {
            DYNAMIC => out.push('?'),
            _ => push_i64(out, d),
        }
        out.push('x');
    }
    out.push_str(ty.elem.text());
    if let Some(encoding) = &ty.encoding {
        out.push_str(", ");
        out.push_str(encoding);
    }
    out.push('>');
}

fn push_function_type(out: &mut Out, ty: &FunctionType) {
    out.push('(');
    push_list(out, &ty.inputs, push_type);
    out.push_str(") -> ");
    push_results(out, ty.results.iter());
}

/// Appends result types: in parentheses unless there is exactly one that is no function type.
pub(super) fn push_results<'t>(out: &mut Out, types: impl ExactSizeIterator<Item = &'t Type> + Clone) {
    let mut first = types.clone();
    if let (1, Some(only)) = (types.len(), first.next())
        && !matches!(only, Type::Function(_))
    {
        return push_type(out, only);
    }
    out.push('(');
    push_list(out, types, push_type);
    out.push(')');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(f: impl FnOnce(&mut Out)) -> String {
        let mut out = Out::default();
        f(&mut out);
        out.into_string()
    }

    #[test]
    fn integers_at_their_limits() {
        assert_eq!(with(|o| push_i64(o, i64::MIN)), i64::MIN.to_string());
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
