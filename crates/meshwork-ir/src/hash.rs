//! Hash maps and sets with a quicker hash than the standard one, and a table of things that are stored elsewhere.

pub(crate) use foldhash::fast::FixedState;
pub use foldhash::fast::RandomState;

/// A map.
pub type HashMap<K, V> = std::collections::HashMap<K, V, RandomState>;

/// A set.
pub type HashSet<K> = std::collections::HashSet<K, RandomState>;

/// The hash of some numbers, after something with hash `start`.
#[inline]
pub(crate) fn hash_numbers(start: u64, numbers: &[i64]) -> u64 {
    let fold = |hash: u64, number: u64| {
        let wide = u128::from(hash ^ number) * 0x9e37_79b9_7f4a_7c15;
        wide as u64 ^ (wide >> 64) as u64
    };
    numbers.iter().fold(fold(start ^ 0x243f_6a88_85a3_08d3, numbers.len() as u64), |hash, &n| fold(hash, n as u64))
}

/// Finds the positions of items of a list by hash. Half of the slots are free, so that a search is short.
#[derive(Clone, Debug, Default)]
pub(crate) struct Table {
    /// Position plus one; zero where there is none. As many as a power of two, or none.
    slots: Vec<u32>,
}

impl Table {
    /// The position of the item with this hash that `is` it.
    #[inline]
    pub(crate) fn find(&self, hash: u64, is: impl Fn(usize) -> bool) -> Option<usize> {
        let mask = self.slots.len().checked_sub(1)?;
        let mut at = hash as usize & mask;
        loop {
            match self.slots[at] {
                0 => return None,
                slot if is(slot as usize - 1) => return Some(slot as usize - 1),
                _ => at = (at + 1) & mask,
            }
        }
    }

    /// Takes in the last of `items`; the others are in it.
    pub(crate) fn add_last<T>(&mut self, items: &[T], hash: impl Fn(&T) -> u64) {
        let full = 2 * items.len() > self.slots.len();
        if full {
            self.slots = vec![0; (4 * items.len()).next_power_of_two()];
        }
        let mask = self.slots.len() - 1;
        let first = if full { 0 } else { items.len() - 1 };
        for (i, item) in items.iter().enumerate().skip(first) {
            let mut at = hash(item) as usize & mask;
            while self.slots[at] != 0 {
                at = (at + 1) & mask;
            }
            self.slots[at] = i as u32 + 1;
        }
    }
}
