//! `-split-input-file`: one text, several programs, cut at lines that start with `// -----`.

/// The programs of `text`. Each is preceded by as many empty lines as there are lines before it, so that positions in it are
/// positions in the whole text.
pub fn chunks(text: &str) -> Vec<String> {
    let mut chunks = vec![String::new()];
    for (lines_before, line) in text.split_inclusive('\n').enumerate() {
        if line.starts_with("// -----") {
            chunks.push("\n".repeat(lines_before + 1));
        } else if let Some(chunk) = chunks.last_mut() {
            chunk.push_str(line);
        }
    }
    chunks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_numbers_are_kept() {
        assert_eq!(chunks("a\n// -----\nb\n  // -----\n// -----\n"), ["a\n", "\n\nb\n  // -----\n", "\n\n\n\n\n"]);
        assert_eq!(chunks(""), [""]);
    }
}
