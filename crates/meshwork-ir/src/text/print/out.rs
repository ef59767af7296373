//! The text under construction.

use std::fmt;

/// Text that grows at its end. Kept as bytes, so that short pieces are stores of one word.
#[derive(Default)]
pub(super) struct Out(Vec<u8>);

/// The numbers from 00 to 99.
const PAIRS: [[u8; 2]; 100] = {
    let mut pairs = [[0; 2]; 100];
    let mut i = 0;
    while i < 100 {
        pairs[i] = [b'0' + i as u8 / 10, b'0' + i as u8 % 10];
        i += 1;
    }
    pairs
};

/// As deep as most programs indent, and more.
const SPACES: &str = "                                                                ";

impl Out {
    pub(super) fn with_capacity(bytes: usize) -> Out {
        Out(Vec::with_capacity(bytes))
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    #[inline]
    pub(super) fn push_str(&mut self, text: &str) {
        self.0.extend_from_slice(text.as_bytes());
    }

    #[inline]
    pub(super) fn push(&mut self, c: char) {
        match u8::try_from(c) {
            Ok(byte) if byte.is_ascii() => self.0.push(byte),
            _ => self.push_str(c.encode_utf8(&mut [0; 4])),
        }
    }

    #[inline]
    pub(super) fn push_spaces(&mut self, count: usize) {
        if count <= 8 {
            let wanted = self.0.len() + count;
            self.0.extend_from_slice(b"        ");
            return self.0.truncate(wanted);
        }
        match SPACES.get(..count) {
            Some(spaces) => self.push_str(spaces),
            None => self.0.resize(self.0.len() + count, b' '),
        }
    }

    /// Appends a decimal number. Recursion is five deep at most.
    #[inline]
    pub(super) fn push_u64(&mut self, value: u64) {
        if value < 10 {
            return self.0.push(b'0' + value as u8);
        }
        if value >= 10_000 {
            return self.push_long(value);
        }
        let digits = four_digits(value);
        let zeros = usize::from(value < 100) + usize::from(value < 1000);
        // All four bytes are stored, and those behind the number taken back.
        self.0.extend_from_slice(&(digits >> (8 * zeros)).to_le_bytes());
        self.0.truncate(self.0.len() - zeros);
    }

    /// Appends a short text.
    #[inline]
    pub(super) fn push_short(&mut self, text: Short) {
        let wanted = self.0.len() + usize::from(text.0[7]);
        self.0.extend_from_slice(&text.0);
        self.0.truncate(wanted);
    }

    /// Appends the first `count` bytes of a text that goes on behind them.
    #[inline]
    pub(super) fn push_start(&mut self, text: &[u8], count: usize) {
        let wanted = self.0.len() + count;
        // A copy of a known length needs no loop; what is too much is taken back.
        match text.first_chunk::<32>() {
            Some(chunk) if count <= 32 => {
                self.0.extend_from_slice(chunk);
                self.0.truncate(wanted);
            }
            _ => self.0.extend_from_slice(&text[..count.min(text.len())]),
        }
    }

    fn push_long(&mut self, value: u64) {
        self.push_u64(value / 10_000);
        self.0.extend_from_slice(&four_digits(value % 10_000).to_le_bytes());
    }

    /// Makes room for as many bytes more.
    pub(super) fn reserve(&mut self, bytes: usize) {
        self.0.reserve(bytes);
    }

    /// The text from a length on that it had before.
    pub(super) fn since(&self, length: usize) -> &str {
        std::str::from_utf8(&self.0[length..]).unwrap_or_default()
    }

    /// Cuts the text to a length that it had before.
    pub(super) fn truncate(&mut self, length: usize) {
        self.0.truncate(length);
    }

    pub(super) fn into_string(self) -> String {
        // Only whole strings and characters were appended.
        String::from_utf8(self.0).unwrap_or_default()
    }
}

/// Up to seven bytes of ASCII, and their number in the last byte, or a place in a list.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Short([u8; 8]);

/// The last byte of a [`Short`] that is a place.
const PLACE: u8 = 8;

impl Short {
    /// No text.
    pub(super) const NONE: Short = Short([0; 8]);

    /// `%` and a number below 1,000,000; no text for others.
    #[inline]
    pub(super) fn value(number: u32) -> Short {
        if number >= 10_000 {
            return Short::name("", "", number);
        }
        let zeros = u32::from(number < 10) + u32::from(number < 100) + u32::from(number < 1000);
        let digits = u64::from(four_digits(number.into()) >> (8 * zeros));
        Short((u64::from(5 - zeros) << 56 | digits << 8 | u64::from(b'%')).to_le_bytes())
    }

    /// `%arg` and a number below 1000.
    pub(super) fn arg(number: u32) -> Short {
        let zeros = 1 + u32::from(number < 10) + u32::from(number < 100);
        let digits = u64::from(four_digits(number.into()) >> (8 * zeros));
        let base = u64::from(u32::from_le_bytes(*b"%arg"));
        Short((u64::from(8 - zeros) << 56 | digits << 32 | base).to_le_bytes())
    }

    /// `%`, a base name and a number with what stands before it; no text if it is too long.
    pub(super) fn name(base: &str, before: &str, number: u32) -> Short {
        let mut digits = 1;
        while digits < 10 && number >= 10u32.pow(digits) {
            digits += 1;
        }
        let text = base.bytes().chain(before.bytes());
        let count = 1 + base.len() + before.len() + digits as usize;
        if count > 7 {
            return Short::NONE;
        }
        let mut bytes = [b'%', 0, 0, 0, 0, 0, 0, count as u8];
        bytes[1..].iter_mut().zip(text).for_each(|(slot, byte)| *slot = byte);
        let mut rest = number;
        for slot in bytes[count - digits as usize..count].iter_mut().rev() {
            *slot = b'0' + (rest % 10) as u8;
            rest /= 10;
        }
        Short(bytes)
    }

    /// `%` and a base name; no text if it is too long.
    pub(super) fn base(base: &str) -> Short {
        let mut bytes = [b'%', 0, 0, 0, 0, 0, 0, base.len() as u8 + 1];
        match bytes[1..7].get_mut(..base.len()) {
            Some(slots) => slots.copy_from_slice(base.as_bytes()),
            None => return Short::NONE,
        }
        Short(bytes)
    }

    /// No text, but a place in a list.
    pub(super) fn place(place: u32) -> Short {
        let [a, b, c, d] = place.to_le_bytes();
        Short([a, b, c, d, 0, 0, 0, PLACE])
    }

    /// The place that it stands for, if it does.
    pub(super) fn as_place(self) -> Option<usize> {
        let [a, b, c, d, .., kind] = self.0;
        (kind == PLACE).then_some(u32::from_le_bytes([a, b, c, d]) as usize)
    }

    /// Whether it is a text.
    #[inline]
    pub(super) fn is_text(self) -> bool {
        (1..8).contains(&self.0[7])
    }
}

/// The decimal digits of a number below 10,000, the first in the lowest byte.
fn four_digits(value: u64) -> u32 {
    let ([a, b], [c, d]) = (PAIRS[(value / 100) as usize % 100], PAIRS[(value % 100) as usize]);
    u32::from_le_bytes([a, b, c, d])
}

impl fmt::Write for Out {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.push_str(text);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_every_length() {
        for n in [0, 9, 10, 99, 100, 1000, 9999, 10_000, 99_999, 100_001, 123_456_789, u64::MAX] {
            let mut out = Out::default();
            out.push_u64(n);
            assert_eq!(out.into_string(), n.to_string());
        }
        for n in [0, 9, 10, 99, 100, 999, 1000, 9999] {
            let mut out = Out::default();
            out.push_short(Short::value(n));
            assert_eq!(out.into_string(), format!("%{n}"));
        }
        assert_eq!(Short::value(1_000_000), Short::NONE);
    }

    #[test]
    fn texts_of_seven_bytes_are_short() {
        for (short, text) in [
            (Short::value(10_000), "%10000"),
            (Short::value(999_999), "%999999"),
            (Short::name("arg", "", 0), "%arg0"),
            (Short::arg(0), "%arg0"),
            (Short::arg(10), "%arg10"),
            (Short::arg(999), "%arg999"),
            (Short::name("arg", "", 123), "%arg123"),
            (Short::name("cst", "_", 10), "%cst_10"),
            (Short::base("cst"), "%cst"),
            (Short::base("values"), "%values"),
        ] {
            let mut out = Out::default();
            assert!(short.is_text());
            out.push_short(short);
            assert_eq!(out.into_string(), text);
        }
        assert_eq!(Short::name("arg", "", 1234), Short::NONE);
        assert_eq!(Short::base("indices"), Short::NONE);
        assert_eq!((Short::place(7).as_place(), Short::place(7).is_text()), (Some(7), false));
    }

    #[test]
    fn characters_and_indents_of_every_width() {
        let mut out = Out::default();
        "aé→😀".chars().for_each(|c| out.push(c));
        out.push_spaces(70);
        assert_eq!(out.into_string(), format!("aé→😀{}", " ".repeat(70)));
    }
}
