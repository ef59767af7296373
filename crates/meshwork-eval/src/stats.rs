//! What a run cost: collectives, their bytes, and the most memory held at once.
//!
//! Figures are those of device 0. Groups of one device communicate nothing and are left out. Wire bytes are what a
//! device sends under the ring model, with `g` devices in a group and `B` operand bytes:
//!
//! | collective | wire bytes |
//! |---|---|
//! | all-reduce | `2 (g-1)/g B` |
//! | all-gather | `(g-1) B` |
//! | reduce-scatter, all-to-all | `(g-1)/g B` |
//! | collective-permute | `B` times the share of devices that send |
//! | collective-broadcast, collective-reduce | `(g-1)/g B` |

use std::collections::BTreeMap;

/// The cost of a run on device 0.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Stats {
    /// By kind, spelled as XLA does: `all-reduce`.
    pub collectives: BTreeMap<&'static str, CollectiveStats>,
    /// The most bytes of tensors alive at once.
    pub peak_bytes: u64,
}

/// All collectives of one kind.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct CollectiveStats {
    /// How many were executed.
    pub count: u64,
    /// Bytes of their operands.
    pub operand_bytes: u64,
    /// Bytes sent under the ring model.
    pub wire_bytes: f64,
}

impl Stats {
    pub(crate) fn count(&mut self, kind: &'static str, operand_bytes: u64, wire_bytes: f64) {
        let entry = self.collectives.entry(kind).or_default();
        entry.count += 1;
        entry.operand_bytes += operand_bytes;
        entry.wire_bytes += wire_bytes;
    }

    pub(crate) fn merge(&mut self, other: &Stats) {
        for (kind, more) in &other.collectives {
            let entry = self.collectives.entry(kind).or_default();
            entry.count += more.count;
            entry.operand_bytes += more.operand_bytes;
            entry.wire_bytes += more.wire_bytes;
        }
    }
}
