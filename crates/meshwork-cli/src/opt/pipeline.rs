//! Pass options (`a=1 b={x y}`) and the text of `-pass-pipeline`.

use meshwork_ir::PassOptions;

/// Reads `key=value` pairs separated by blanks. Values may be quoted or in braces; a key alone is a flag.
pub fn options(text: &str) -> Result<PassOptions, String> {
    let mut out = PassOptions::default();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        let key_end = rest.find(|c: char| c == '=' || c.is_whitespace()).unwrap_or(rest.len());
        let (key, after) = rest.split_at(key_end);
        if key.is_empty() {
            return Err(format!("an option without a name in '{text}'"));
        }
        let value;
        (value, rest) = match after.strip_prefix('=') {
            Some(after) => take_value(after)?,
            None => ("", after),
        };
        out.0.insert(key.to_string(), value.to_string());
        rest = rest.trim_start();
    }
    Ok(out)
}

/// The value at the start of `text` without its quotes or braces, and what follows it.
fn take_value(text: &str) -> Result<(&str, &str), String> {
    let unclosed = |mark: char| format!("no closing {mark} in '{text}'");
    match text.chars().next() {
        Some(quote @ ('\'' | '"')) => text[1..].split_once(quote).ok_or_else(|| unclosed(quote)),
        Some('{') => {
            let end = matching_brace(text).ok_or_else(|| unclosed('}'))?;
            Ok((&text[1..end], &text[end + 1..]))
        }
        _ => Ok(text.split_at(text.find(char::is_whitespace).unwrap_or(text.len()))),
    }
}

/// Where the brace that `text` starts with is closed.
fn matching_brace(text: &str) -> Option<usize> {
    let mut depth = 0usize;
    for (i, c) in text.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth = depth.checked_sub(1)?,
            _ => {}
        }
        if depth == 0 {
            return Some(i);
        }
    }
    None
}

/// Reads `builtin.module(a,func.func(b{x=1}))` into passes in order, each with its option text.
///
/// What a pass is nested under does not matter: every pass works on the whole module.
pub fn parse(text: &str) -> Result<Vec<(String, String)>, String> {
    let mut out = vec![];
    let mut depth = 0usize;
    let mut rest = text.trim();
    while !rest.is_empty() {
        let end = rest.find(['(', ')', ',', '{']).unwrap_or(rest.len());
        let name = rest[..end].trim();
        let mut options = "";
        rest = rest[end..].trim_start();
        if rest.starts_with('{') {
            let close = matching_brace(rest).ok_or_else(|| format!("no closing }} in the pipeline '{text}'"))?;
            options = &rest[1..close];
            rest = rest[close + 1..].trim_start();
        }
        if let Some(inner) = rest.strip_prefix('(') {
            depth += 1;
            rest = inner;
            continue;
        }
        if !name.is_empty() {
            out.push((name.to_string(), options.to_string()));
        }
        if let Some(after) = rest.strip_prefix(')') {
            depth = depth.checked_sub(1).ok_or_else(|| format!("one ) too many in the pipeline '{text}'"))?;
            rest = after;
        } else if let Some(after) = rest.strip_prefix(',') {
            rest = after;
        }
    }
    match depth {
        0 => Ok(out),
        _ => Err(format!("no closing ) in the pipeline '{text}'")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(text: &str) -> Vec<(String, String)> {
        options(text).unwrap().0.into_iter().collect()
    }

    #[test]
    fn option_values() {
        let pair = |k: &str, v: &str| (k.to_string(), v.to_string());
        assert_eq!(pairs(""), []);
        assert_eq!(pairs("x=1"), [pair("x", "1")]);
        assert_eq!(pairs(" a=1  b "), [pair("a", "1"), pair("b", "")]);
        assert_eq!(pairs("f='p=0, q=1' g=2"), [pair("f", "p=0, q=1"), pair("g", "2")]);
        assert_eq!(pairs("f={p={1} q} g=x,y"), [pair("f", "p={1} q"), pair("g", "x,y")]);
        assert_eq!(options("=1").unwrap_err(), "an option without a name in '=1'");
        assert_eq!(options("a='b").unwrap_err(), "no closing ' in ''b'");
    }

    #[test]
    fn pipelines() {
        let names =
            |text: &str| parse(text).map(|p| p.into_iter().map(|(n, o)| format!("{n}:{o}")).collect::<Vec<_>>());
        assert_eq!(names("builtin.module(a,func.func(b{x=1,2}),c)").unwrap(), ["a:", "b:x=1,2", "c:"]);
        assert_eq!(names("a").unwrap(), ["a:"]);
        assert_eq!(names("m(a").unwrap_err(), "no closing ) in the pipeline 'm(a'");
        assert_eq!(names("a)").unwrap_err(), "one ) too many in the pipeline 'a)'");
        assert_eq!(names("a{").unwrap_err(), "no closing } in the pipeline 'a{'");
    }
}
