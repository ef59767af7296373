//! The text under construction.

use std::fmt;

use super::short::Short;

/// Text that grows at its end. The bytes behind the end are room: so a short piece is stored as a word or a few, with
/// whatever follows it, and the next one is written over what is too much.
#[derive(Default)]
pub(super) struct Out {
    bytes: Vec<u8>,
    end: usize,
}

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
    /// With memory for so many bytes.
    pub(super) fn with_capacity(bytes: usize) -> Out {
        Out { bytes: Vec::with_capacity(bytes + LINE + STEP), end: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.end
    }

    /// Room for `count` bytes and more.
    #[inline(always)]
    fn room(&mut self, count: usize) -> &mut [u8] {
        if self.bytes.len() - self.end < count {
            self.grow(count);
        }
        &mut self.bytes[self.end..]
    }

    /// Room is made in small steps: so it is in the cache when it is written to.
    #[cold]
    fn grow(&mut self, count: usize) {
        self.bytes.resize(self.end + count + STEP, 0);
    }

    /// A line behind the text. There is always room for it.
    #[inline(always)]
    pub(super) fn line(&mut self) -> Option<Line<'_>> {
        if self.bytes.len() < self.end + LINE {
            return self.line_in_new_room();
        }
        let bytes = self.bytes[self.end..].first_chunk_mut()?;
        Some(Line { bytes, end: 0, text: &mut self.end })
    }

    #[cold]
    fn line_in_new_room(&mut self) -> Option<Line<'_>> {
        self.grow(LINE);
        let bytes = self.bytes[self.end..].first_chunk_mut()?;
        Some(Line { bytes, end: 0, text: &mut self.end })
    }

    #[inline]
    pub(super) fn push_str(&mut self, text: &str) {
        self.push_bytes(text.as_bytes());
    }

    /// Appends what is left of a text: mostly nothing.
    #[inline(always)]
    pub(super) fn push_rest(&mut self, rest: &[u8]) {
        if !rest.is_empty() {
            self.push_bytes(rest);
        }
    }

    #[inline]
    fn push_bytes(&mut self, text: &[u8]) {
        self.room(text.len())[..text.len()].copy_from_slice(text);
        self.end += text.len();
    }

    #[inline]
    pub(super) fn push(&mut self, c: char) {
        match u8::try_from(c) {
            Ok(byte) if byte.is_ascii() => self.push_bytes(&[byte]),
            _ => self.push_str(c.encode_utf8(&mut [0; 4])),
        }
    }

    pub(super) fn push_spaces(&mut self, count: usize) {
        match SPACES.get(..count) {
            Some(spaces) => self.push_str(spaces),
            None => self.push_str(&" ".repeat(count)),
        }
    }

    /// Appends a decimal number. Recursion is five deep at most.
    pub(super) fn push_u64(&mut self, value: u64) {
        if value >= 10_000 {
            self.push_u64(value / 10_000);
            return self.push_bytes(&four_digits(value % 10_000).to_le_bytes());
        }
        let zeros = usize::from(value < 10) + usize::from(value < 100) + usize::from(value < 1000);
        self.push_bytes(&four_digits(value).to_le_bytes()[zeros..]);
    }

    /// Makes room for as many bytes more.
    pub(super) fn reserve(&mut self, bytes: usize) {
        self.room(bytes);
    }

    /// The text from a length on that it had before.
    pub(super) fn since(&self, length: usize) -> &str {
        std::str::from_utf8(&self.bytes[length..self.end]).unwrap_or_default()
    }

    /// Cuts the text to a length that it had before.
    pub(super) fn truncate(&mut self, length: usize) {
        self.end = length;
    }

    pub(super) fn into_string(mut self) -> String {
        self.bytes.truncate(self.end);
        // Only whole strings and characters were appended.
        String::from_utf8(self.bytes).unwrap_or_default()
    }
}

/// A line, or part of one, of pieces that are stored whole. Where it ends is less than 256, so that there is always room
/// for a piece and no need to look.
pub(super) struct Line<'o> {
    bytes: &'o mut [u8; LINE],
    end: u8,
    /// Where the text ends.
    text: &'o mut usize,
}

/// The room for a line.
const LINE: usize = 512;

/// How much room is made at once.
const STEP: usize = 1500;

impl Line<'_> {
    /// Appends the first `count` bytes of a piece of no more than 256 bytes.
    #[inline(always)]
    pub(super) fn put<const N: usize>(&mut self, piece: &[u8; N], count: u8) {
        let start = usize::from(self.end);
        self.bytes[start..start + N].copy_from_slice(piece);
        self.end = self.end.wrapping_add(count);
    }

    /// Makes it part of the text.
    #[inline(always)]
    pub(super) fn finish(self) {
        *self.text += usize::from(self.end);
    }

    /// Appends a short text.
    #[inline(always)]
    pub(super) fn put_short(&mut self, text: Short) {
        self.put(&text.bytes(), text.count());
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
    }

    #[test]
    fn characters_and_indents_of_every_width() {
        let mut out = Out::default();
        "aé→😀".chars().for_each(|c| out.push(c));
        out.push_spaces(70);
        assert_eq!(out.into_string(), format!("aé→😀{}", " ".repeat(70)));
    }
}
