//! A position in bytecode: numbers, bytes and nested sections, each checked against what is left.

use crate::{Diagnostic, TextPos};

/// The result of reading something.
pub(super) type Read<T> = Result<T, Diagnostic>;

/// An error at byte `at` of the file.
pub(super) fn error(at: usize, message: impl std::fmt::Display) -> Diagnostic {
    Diagnostic::error(TextPos::default(), format!("MLIR bytecode, byte {at}: {message}"))
}

/// Something legal at byte `at` of the file that is not supported.
pub(super) fn unsupported(at: usize, message: impl std::fmt::Display) -> Diagnostic {
    Diagnostic::unsupported(TextPos::default(), format!("MLIR bytecode, byte {at}: {message}"))
}

/// The bytes of a piece of the file that are left to read.
#[derive(Clone, Copy)]
pub(super) struct Cursor<'a> {
    rest: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    /// All of `bytes`, which start at byte `at` of the file.
    pub fn new(bytes: &'a [u8], at: usize) -> Self {
        Cursor { rest: bytes, at }
    }

    /// Offset in the file.
    pub fn at(&self) -> usize {
        self.at
    }

    /// Number of bytes left.
    pub fn left(&self) -> usize {
        self.rest.len()
    }

    /// An error here.
    pub fn error(&self, message: impl std::fmt::Display) -> Diagnostic {
        error(self.at, message)
    }

    /// An error unless everything has been read.
    pub fn end(&self, what: &str) -> Read<()> {
        match self.left() {
            0 => Ok(()),
            n => Err(self.error(format_args!("{n} bytes more than expected at the end of {what}"))),
        }
    }

    /// The next `count` bytes.
    pub fn take(&mut self, count: usize) -> Read<&'a [u8]> {
        let Some((head, rest)) = self.rest.split_at_checked(count) else {
            return Err(self.error(format_args!("{count} bytes expected, {} are left", self.left())));
        };
        self.rest = rest;
        self.at += count;
        Ok(head)
    }

    /// One byte.
    pub fn byte(&mut self) -> Read<u8> {
        Ok(self.take(1)?[0])
    }

    /// A number of one to nine bytes.
    pub fn varint(&mut self) -> Read<u64> {
        let first = self.byte()?;
        let more = first.trailing_zeros() as usize;
        let mut wide = [0; 8];
        if more == 8 {
            wide.copy_from_slice(self.take(8)?);
            return Ok(u64::from_le_bytes(wide));
        }
        wide[0] = first;
        wide[1..=more].copy_from_slice(self.take(more)?);
        Ok(u64::from_le_bytes(wide) >> (more + 1))
    }

    /// A number with a sign.
    pub fn signed(&mut self) -> Read<i64> {
        let raw = self.varint()?;
        Ok((raw >> 1) as i64 ^ -((raw & 1) as i64))
    }

    /// A number and a flag in its lowest bit.
    pub fn flagged(&mut self) -> Read<(u64, bool)> {
        let raw = self.varint()?;
        Ok((raw >> 1, raw & 1 != 0))
    }

    /// A number that fits in memory.
    pub fn index(&mut self) -> Read<usize> {
        let value = self.varint()?;
        self.fit(value)
    }

    /// A number and a flag; it is the number of something in a table.
    pub fn flagged_index(&mut self) -> Read<(usize, bool)> {
        let (value, flag) = self.flagged()?;
        Ok((self.fit(value)?, flag))
    }

    fn fit(&self, value: u64) -> Read<usize> {
        usize::try_from(value).map_err(|_| self.error(format_args!("{value} is too large a number here")))
    }

    /// How many items follow, each of at least one byte.
    pub fn count(&mut self) -> Read<usize> {
        let value = self.index()?;
        self.check_count(value)
    }

    /// `count`, if that many items of at least one byte can follow.
    pub fn check_count(&self, count: usize) -> Read<usize> {
        if count > self.left() {
            return Err(self.error(format_args!("{count} items expected, {} bytes are left", self.left())));
        }
        Ok(count)
    }

    /// Items that `item` reads, their number first.
    pub fn list<T>(&mut self, mut item: impl FnMut(&mut Self) -> Read<T>) -> Read<Vec<T>> {
        let count = self.count()?;
        let mut items = Vec::with_capacity(count.min(1 << 12));
        for _ in 0..count {
            items.push(item(self)?);
        }
        Ok(items)
    }

    /// A list of numbers with signs.
    pub fn signed_list(&mut self) -> Read<Vec<i64>> {
        self.list(Self::signed)
    }

    /// Bytes, their number first.
    pub fn blob(&mut self) -> Read<&'a [u8]> {
        let count = self.index()?;
        self.take(count)
    }

    /// A section: its number and contents.
    pub fn section(&mut self) -> Read<(u8, Cursor<'a>)> {
        let id = self.byte()?;
        let length = self.index()?;
        if id & 0x80 != 0 {
            self.align()?;
        }
        let at = self.at;
        Ok((id & 0x7f, Cursor::new(self.take(length)?, at)))
    }

    /// Skips the padding before something that is aligned.
    pub fn align(&mut self) -> Read<()> {
        const PADDING: u8 = 0xcb;
        let alignment = self.index()?;
        if !alignment.is_power_of_two() {
            return Err(self.error(format_args!("an alignment of {alignment} is not a power of two")));
        }
        while !self.at.is_multiple_of(alignment) {
            if self.byte()? != PADDING {
                return Err(self.error("expected padding"));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cursor(bytes: &[u8]) -> Cursor<'_> {
        Cursor::new(bytes, 0)
    }

    #[test]
    fn zeros_of_the_first_byte_count_the_others() {
        assert_eq!(cursor(&[0x03]).varint().unwrap(), 1);
        assert_eq!(cursor(&[0xff]).varint().unwrap(), 127);
        assert_eq!(cursor(&[0x02, 0x02]).varint().unwrap(), 128);
        assert_eq!(cursor(&[0, 1, 2, 3, 4, 5, 6, 7, 8]).varint().unwrap(), 0x0807_0605_0403_0201);
        assert_eq!(cursor(&[0x80, 0, 0, 0, 0, 0, 0, 0x80]).varint().unwrap(), 1 << 55);
        assert_eq!(cursor(&[0x07]).signed().unwrap(), -2);
    }

    #[test]
    fn short_input_is_an_error_with_its_place() {
        let message = cursor(&[0x02]).varint().unwrap_err().to_string();
        assert_eq!(message, "error: MLIR bytecode, byte 1: 1 bytes expected, 0 are left");
        assert!(cursor(&[0xff, 0]).count().is_err());
        assert!(cursor(&[]).byte().is_err());
    }
}
