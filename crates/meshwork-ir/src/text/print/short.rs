//! Texts of a few bytes in one word: names of values, mostly.

/// Up to seven bytes of ASCII, the first in the lowest byte, and their number in the highest. With the highest bit set
/// it is no text but may stand for a place in a list.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Short(u64);

/// The text without its number.
const TEXT: u64 = u64::MAX >> 8;

impl Short {
    /// No text.
    pub(super) const NONE: Short = Short(0b11 << 62);

    /// A text; none if it is too long.
    pub(super) const fn new(text: &str) -> Short {
        let bytes = text.as_bytes();
        if bytes.len() > 7 {
            return Short::NONE;
        }
        let mut word = (bytes.len() as u64) << 56;
        let mut i = 0;
        while i < bytes.len() {
            word |= (bytes[i] as u64) << (8 * i);
            i += 1;
        }
        Short(word)
    }

    /// This text and another one behind it; none if one of them is none or they get too long.
    pub(super) fn join(self, other: Short) -> Short {
        let (before, count) = (u32::from(self.count()), u32::from(self.count()) + u32::from(other.count()));
        match count <= 7 {
            true => Short(self.0 & TEXT | (other.0 & TEXT) << (8 * before) | u64::from(count) << 56),
            false => Short::NONE,
        }
    }

    /// This text and a number behind it; none if there is none or it gets too long.
    pub(super) fn and(self, number: u32) -> Short {
        let (mut digits, mut count, mut rest) = (0, 0, number);
        loop {
            digits = digits << 8 | u64::from(u32::from(b'0') + rest % 10);
            count += 1;
            rest /= 10;
            if rest == 0 {
                break;
            }
        }
        match count <= 7 {
            true => self.join(Short(digits | count << 56)),
            false => Short::NONE,
        }
    }

    /// A text that ends with a number, with the next one, if that has as many digits.
    fn carry(self) -> Option<Short> {
        let mut word = self.is_text().then_some(self.0)?;
        let mut at = 8 * u32::from(self.count()).checked_sub(1)?;
        while (word >> at) as u8 == b'9' {
            word -= 9 << at;
            at = at.checked_sub(8)?;
        }
        ((word >> at) as u8).is_ascii_digit().then_some(Short(word + (1 << at)))
    }

    /// No text, but a place in a list.
    pub(super) fn place(place: u32) -> Short {
        Short(u64::from(place) | 1 << 63)
    }

    /// The place that it stands for, if it does.
    pub(super) fn as_place(self) -> Option<usize> {
        (!self.is_text() && self != Short::NONE).then_some(self.0 as u32 as usize)
    }

    /// Whether it is a text.
    #[inline(always)]
    pub(super) fn is_text(self) -> bool {
        self.0 >> 63 == 0
    }

    /// The bytes of the text and what is behind it in the word.
    #[inline(always)]
    pub(super) fn bytes(self) -> [u8; 8] {
        self.0.to_le_bytes()
    }

    /// The number of bytes of the text.
    #[inline(always)]
    pub(super) fn count(self) -> u8 {
        (self.0 >> 56) as u8
    }
}

/// The names `%0`, `%1` and so on, or with another base, one after the other.
#[derive(Clone, Copy)]
pub(super) struct Counter {
    base: Short,
    /// The next name.
    name: Short,
    /// What makes the last digit of a name one more, and how often that can be done before others change.
    step: u64,
    left: u32,
    /// The number of the name when none is left.
    last: u32,
}

impl Counter {
    /// From `number` on, behind `base`.
    pub(super) fn new(base: Short, number: u32) -> Counter {
        let name = base.and(number);
        match name.is_text() {
            true => {
                let (step, left) = (1 << (8 * (name.count() - 1)), 9 - number % 10);
                Counter { base, name, step, left, last: number + left }
            }
            false => Counter { base, name, step: 0, left: 0, last: number },
        }
    }

    /// The next name and its number; the name is none if it is long.
    pub(super) fn take(&mut self) -> (Short, u32) {
        let (name, number) = (self.name, self.last - self.left);
        if self.take_short().is_none() {
            *self = match name.carry() {
                Some(name) => Counter { name, left: 9, last: number + 10, ..*self },
                None => Counter::new(self.base, number + 1),
            };
        }
        (name, number)
    }

    /// The next name, unless only [`take`](Counter::take) can give it.
    #[inline(always)]
    pub(super) fn take_short(&mut self) -> Option<Short> {
        if self.left == 0 {
            return None;
        }
        let name = self.name;
        self.name.0 += self.step;
        self.left -= 1;
        Some(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(short: Short) -> Option<String> {
        short.is_text().then(|| String::from_utf8_lossy(&short.bytes()[..short.count().into()]).into_owned())
    }

    #[test]
    fn texts_of_seven_bytes_are_short() {
        for (short, expected) in [
            (Short::new("%cst"), "%cst"),
            (Short::new("%values"), "%values"),
            (Short::new("%").and(0), "%0"),
            (Short::new("%").and(999_999), "%999999"),
            (Short::new("%arg").and(10), "%arg10"),
            (Short::new("%cst").join(Short::new("_42")), "%cst_42"),
        ] {
            assert_eq!(text(short).as_deref(), Some(expected));
        }
        for none in
            [Short::new("%indices"), Short::new("%").and(1_000_000), Short::new("%values").join(Short::new("_"))]
        {
            assert_eq!(none, Short::NONE);
        }
        assert_eq!(Short::new("%").and(u32::MAX), Short::NONE);
        assert_eq!((Short::place(7).as_place(), text(Short::place(7))), (Some(7), None));
    }

    #[test]
    fn a_counter_gives_all_numbers() {
        for start in [0, 7, 95, 9_990, 999_985] {
            let mut counter = Counter::new(Short::new("%"), start);
            for n in start..start + 30 {
                assert_eq!(counter.take(), (Short::new("%").and(n), n));
            }
        }
    }
}
