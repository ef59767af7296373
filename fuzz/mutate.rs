//! Changes of programs that keep most of them readable: by tokens and lines instead of bytes.

/// Changes the text in `data[..size]` by one token or line; the new size. Bytes that are no text stay as they are.
pub fn tokens(data: &mut [u8], size: usize, most: usize, seed: u32) -> usize {
    let Ok(text) = std::str::from_utf8(&data[..size]) else { return size };
    let mut numbers = Numbers(u64::from(seed));
    let changed = match numbers.below(4) {
        0 => change_lines(text, &mut numbers),
        _ => change_token(text, &mut numbers),
    };
    let length = changed.len().min(most).min(data.len());
    data[..length].copy_from_slice(&changed.as_bytes()[..length]);
    length
}

/// Numbers at which sizes, offsets and indices go wrong.
const EXTREME: &[&str] = &["0", "1", "2", "3", "7", "-1", "64", "4096", "2147483648", "4611686018427387904", "9223372036854775807"];

/// Takes the place of one token by another one of the program, of the same kind if it can be.
fn change_token(text: &str, numbers: &mut Numbers) -> String {
    let all = split(text);
    if all.is_empty() {
        return text.into();
    }
    let at = &all[numbers.below(all.len())];
    let old = &text[at.clone()];
    let alike: Vec<&str> = all.iter().map(|r| &text[r.clone()]).filter(|t| kind(t) == kind(old) && *t != old).collect();
    let new = match kind(old) {
        Kind::Number if numbers.below(3) == 0 => EXTREME[numbers.below(EXTREME.len())],
        Kind::Mark if numbers.below(2) == 0 => "",
        _ if alike.is_empty() => return text.into(),
        _ => alike[numbers.below(alike.len())],
    };
    format!("{}{new}{}", &text[..at.start], &text[at.end..])
}

/// Leaves out a line, says one twice, or lets two change places.
fn change_lines(text: &str, numbers: &mut Numbers) -> String {
    let mut lines: Vec<&str> = text.lines().collect();
    if lines.is_empty() {
        return text.into();
    }
    let (at, other) = (numbers.below(lines.len()), numbers.below(lines.len()));
    match numbers.below(3) {
        0 => drop(lines.remove(at)),
        1 => lines.insert(other, lines[at]),
        _ => lines.swap(at, other),
    }
    lines.join("\n")
}

#[derive(PartialEq)]
enum Kind {
    Number,
    Value,
    Word,
    Mark,
}

fn kind(token: &str) -> Kind {
    match token.as_bytes().first() {
        Some(b'0'..=b'9' | b'-') if token != "->" => Kind::Number,
        Some(b'%' | b'@' | b'#' | b'^') => Kind::Value,
        Some(c) if c.is_ascii_alphabetic() => Kind::Word,
        _ => Kind::Mark,
    }
}

/// Where the tokens are: names, numbers, words and single marks.
fn split(text: &str) -> Vec<std::ops::Range<usize>> {
    let bytes = text.as_bytes();
    let (mut out, mut at) = (vec![], 0);
    while at < bytes.len() {
        let start = at;
        at += 1;
        let goes_on: fn(u8) -> bool = match bytes[start] {
            b'%' | b'@' | b'#' | b'^' => |c| c.is_ascii_alphanumeric() || matches!(c, b'_' | b'.' | b'$'),
            b'0'..=b'9' | b'-' => |c| c.is_ascii_digit() || matches!(c, b'.' | b'>'),
            c if c.is_ascii_alphabetic() => |c| c.is_ascii_alphabetic() || matches!(c, b'_' | b'.'),
            c if c.is_ascii_whitespace() || !c.is_ascii() => continue,
            _ => |_| false,
        };
        while at < bytes.len() && goes_on(bytes[at]) {
            at += 1;
        }
        out.push(start..at);
    }
    out
}

struct Numbers(u64);

impl Numbers {
    fn below(&mut self, n: usize) -> usize {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) % n.max(1) as u64) as usize
    }
}
