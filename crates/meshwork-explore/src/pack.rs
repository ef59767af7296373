//! Data as text that is harmless inside a page: JSON, deflated, in base64.

use serde_json::Value;

/// A low level that still looks back lazily: the highest takes eight times as long for a sixth less.
const LEVEL: u8 = 4;

/// The JSON of `data`, deflated, in base64. Nothing in that alphabet means anything to HTML.
pub fn pack(data: &Value) -> String {
    let text = data.to_string();
    base64(&miniz_oxide::deflate::compress_to_vec(text.as_bytes(), LEVEL))
}

/// Text in a place where HTML has text or a quoted attribute.
pub fn attribute(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c if c.is_control() => out.push(' '),
            c => out.push(c),
        }
    }
    out
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let of = |i: usize| u32::from(chunk.get(i).copied().unwrap_or(0));
        let word = of(0) << 16 | of(1) << 8 | of(2);
        for i in 0..4 {
            let digit = DIGITS[(word >> (18 - 6 * i)) as usize & 63];
            out.push(if i <= chunk.len() { digit as char } else { '=' });
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_of_all_lengths() {
        let of = |text: &str| base64(text.as_bytes());
        assert_eq!([of(""), of("M"), of("Me"), of("Mes"), of("Mesh")], ["", "TQ==", "TWU=", "TWVz", "TWVzaA=="]);
    }

    #[test]
    fn marks_of_html_are_escaped() {
        assert_eq!(attribute("</title>\"'&\n"), "&lt;/title&gt;&quot;&#39;&amp; ");
    }
}
