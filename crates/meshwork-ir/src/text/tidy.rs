//! One spelling for text that is kept but not interpreted: line breaks and comments do not survive.

/// `text` with each run of blanks and comments outside strings as one space, and none inside brackets' edges
/// or before a comma, as MLIR prints.
pub(super) fn tidy(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        if first == '"' {
            let len = string_len(rest);
            out.push_str(&rest[..len]);
            rest = &rest[len..];
        } else if first.is_ascii_whitespace() || rest.starts_with("//") {
            rest = skip_blanks(rest);
            let after_open = out.is_empty() || out.ends_with(['<', '(', '[', '{']);
            // `->` ends with a bracket that closes nothing; `- >` is not an arrow and must not become one.
            let before_close = rest.is_empty() || rest.starts_with(['>', ')', ']', '}', ',']);
            let before_close = before_close && !(out.ends_with('-') && rest.starts_with('>'));
            if !after_open && !before_close {
                out.push(' ');
            }
        } else {
            out.push(first);
            rest = &rest[first.len_utf8()..];
        }
    }
    out
}

/// Length of the string that `text` starts with, quotes included.
fn string_len(text: &str) -> usize {
    let bytes = text.as_bytes();
    let mut i = 1;
    while i < bytes.len() {
        match bytes[i] {
            b'"' => return i + 1,
            b'\\' => i += 2,
            _ => i += 1,
        }
    }
    bytes.len()
}

fn skip_blanks(mut text: &str) -> &str {
    loop {
        text = text.trim_ascii_start();
        if !text.starts_with("//") {
            return text;
        }
        text = text.find('\n').map_or("", |end| &text[end..]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blanks_and_comments_become_one_space() {
        assert_eq!(tidy("#d.x<\n  a = [ 1,\n 2 ],  // one, two\n  b\n>"), "#d.x<a = [1, 2], b>");
        assert_eq!(tidy("#d.x<\" a  // \\\" b\">"), "#d.x<\" a  // \\\" b\">");
        assert_eq!(tidy("(i32) -> i32"), "(i32) -> i32");
        assert_eq!(tidy("#d.x<a - >"), "#d.x<a - >");
        assert_eq!(tidy("\"open \\"), "\"open \\");
    }
}
