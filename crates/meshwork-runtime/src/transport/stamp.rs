//! The header of every message: the program, run and operation it belongs to. An unexpected header shows that the processes
//! do different things, and which.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// Which message it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stamp {
    /// Digest of the program, or of the kind of call.
    pub plan: u64,
    /// The number of runs and calls before.
    pub run: u64,
    /// Which collective of the program.
    pub op: u64,
    /// Bytes that belong to it, without the header.
    pub bytes: u64,
    /// Whether it carries an error in place of data.
    pub refusal: bool,
}

/// Length of a stamp.
pub const STAMP: usize = 40;
const MAGIC: u32 = 0x4d57_4b31;

impl Stamp {
    pub(crate) fn write(&self, to: &mut [u8]) {
        let word = |i: usize| 8 * i..8 * i + 8;
        let head = u64::from(MAGIC) << 1 | u64::from(self.refusal);
        for (i, value) in [head, self.plan, self.run, self.op, self.bytes].into_iter().enumerate() {
            to[word(i)].copy_from_slice(&value.to_le_bytes());
        }
    }

    pub(crate) fn read(from: &[u8]) -> Option<Stamp> {
        let word = |i: usize| from.get(8 * i..8 * i + 8)?.try_into().ok().map(u64::from_le_bytes);
        let head = word(0)?;
        let stamp = Stamp { plan: word(1)?, run: word(2)?, op: word(3)?, bytes: word(4)?, refusal: head & 1 != 0 };
        (head >> 1 == u64::from(MAGIC)).then_some(stamp)
    }

    /// The operation of the sender, as text.
    pub fn describe(&self) -> String {
        let names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
        match names.as_ref().and_then(|n| n.get(&self.plan)?.upgrade()) {
            Some(ops) => {
                let op = ops.get(self.op as usize).map_or("an unknown operation", String::as_str);
                match self.bytes {
                    0 => format!("{op} (step {})", self.run),
                    bytes => format!("{op} (step {}, {bytes} bytes)", self.run),
                }
            }
            None => format!("another program ({:016x}, step {})", self.plan, self.run),
        }
    }
}

/// The operations of known programs, by digest.
static NAMES: Mutex<Option<HashMap<u64, Weak<Vec<String>>>>> = Mutex::new(None);

/// Registers the names of the operations of a program. They are known as long as the result lives.
pub fn name(plan: u64, ops: impl FnOnce() -> Vec<String>) -> Arc<Vec<String>> {
    let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
    let names = names.get_or_insert_with(HashMap::new);
    if let Some(known) = names.get(&plan).and_then(Weak::upgrade) {
        return known;
    }
    let ops = Arc::new(ops());
    if names.len() == names.capacity() {
        names.retain(|_, ops| ops.strong_count() > 0);
    }
    names.insert(plan, Arc::downgrade(&ops));
    ops
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_is_read_as_it_was_written_and_noise_is_none() {
        let stamp = Stamp { plan: 7, run: 1 << 40, op: 3, bytes: 9, refusal: true };
        let mut bytes = [0; STAMP];
        stamp.write(&mut bytes);
        assert_eq!(Stamp::read(&bytes), Some(stamp));
        assert_eq!(Stamp::read(&bytes[1..]), None);
        bytes[3] ^= 1;
        assert_eq!(Stamp::read(&bytes), None);
    }
}
