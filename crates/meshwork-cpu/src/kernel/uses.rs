//! Where the values of a phase are last used, and whether memory is written before that.

use super::ir::{Op, Phase, Val};

/// The uses of the values of one phase.
pub struct Uses {
    /// Per value, the position of its last use, also by way of bitcasts; its own position if there is none.
    pub last: Vec<usize>,
    /// Per position, how many ops before it write memory.
    writes: Vec<usize>,
}

impl Uses {
    /// Those of `phase`, in one pass: bodies have thousands of ops.
    pub fn of(phase: &Phase) -> Uses {
        let mut last: Vec<usize> = (0..phase.ops.len()).collect();
        let mut roots: Vec<Val> = vec![];
        let mut writes = vec![0];
        for (at, op) in phase.ops.iter().enumerate() {
            if let Op::Bitcast(_, a) = *op {
                roots.push(roots[usize::from(a)]);
            } else {
                roots.push(at as Val);
                op.operands().for_each(|a| last[usize::from(roots[usize::from(a)])] = at);
            }
            let is_write = matches!(op, Op::Store(..) | Op::StoreAt(..) | Op::StoreTemp(..));
            writes.push(writes[at] + usize::from(is_write));
        }
        Uses { last, writes }
    }

    /// Whether something is written between op `at` and the last use of its value.
    pub fn overwritten(&self, at: usize) -> bool {
        self.writes[self.last[at]] > self.writes[at]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::ir::{Extent, Ty};

    #[test]
    fn a_use_by_way_of_a_bitcast_counts() {
        let ops = vec![
            Op::Load(0),
            Op::Bitcast(Ty::I32, 0),
            Op::Load(1),
            Op::Store(2, 2),
            Op::Convert(Ty::F32, 1),
            Op::Store(2, 4),
        ];
        let uses = Uses::of(&Phase { extent: Extent::Row, ops });
        assert_eq!(uses.last, [4, 1, 3, 3, 5, 5]);
        assert!(uses.overwritten(0), "the store comes before the use of the bitcast");
        assert!(!uses.overwritten(2), "the store is its use");
        assert!(!uses.overwritten(4));
    }
}
