//! `sdy` attributes that are data, not placements: an op's sharding rule and all-to-all parameters.

use meshwork_mesh::AxisRef;

/// How an operation's dimensions relate, as factors: the contraction `([i, k], [k, j])->([i, j])`.
///
/// Invariants: every factor index is below `factor_sizes.len()`; each dimension lists at least one factor,
/// major to minor; factor sets are sorted and disjoint except that `blocked` may overlap any other.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct OpShardingRule {
    /// Extent of each factor.
    pub factor_sizes: Vec<i64>,
    /// Per operand, per dimension, the factors of that dimension, major to minor.
    pub operands: Vec<Vec<Vec<usize>>>,
    /// Per result, per dimension, the factors of that dimension, major to minor.
    pub results: Vec<Vec<Vec<usize>>>,
    /// Factors summed (or otherwise reduced) over.
    pub reduction: Vec<usize>,
    /// Factors that must not be split.
    pub need_replication: Vec<usize>,
    /// Factors whose splitting makes neighbors exchange data.
    pub permutation: Vec<usize>,
    /// Factors along which placements do not spread.
    pub blocked: Vec<usize>,
    /// Written by a user; kept, and exempt from explicit resharding.
    pub custom: bool,
}

/// What splitting along a factor entails.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum FactorKind {
    /// The same split everywhere, no communication.
    PassThrough,
    /// Results are partial and must be reduced.
    Reduction,
    /// Must be whole.
    NeedReplication,
    /// Neighbors exchange data.
    Permutation,
}

impl OpShardingRule {
    /// The kind of factor `factor`.
    pub fn kind(&self, factor: usize) -> FactorKind {
        if self.reduction.contains(&factor) {
            FactorKind::Reduction
        } else if self.need_replication.contains(&factor) {
            FactorKind::NeedReplication
        } else if self.permutation.contains(&factor) {
            FactorKind::Permutation
        } else {
            FactorKind::PassThrough
        }
    }

    /// Whether every factor has a size; the message says which has none.
    pub(crate) fn check(&self) -> Result<(), String> {
        let count = self.factor_sizes.len();
        let dims = self.operands.iter().chain(&self.results).flatten().flatten();
        let sets = [&self.reduction, &self.need_replication, &self.permutation, &self.blocked];
        match dims.chain(sets.into_iter().flatten()).find(|&&f| f >= count) {
            None => Ok(()),
            Some(&factor) => {
                let name = OpShardingRule::factor_name(factor);
                Err(format!("factor '{name}' is used, but sizes are given for {count} factors"))
            }
        }
    }

    /// The letter (or `z_1`, `z_2`, ...) that denotes factor `factor` in text.
    pub fn factor_name(factor: usize) -> String {
        match factor {
            0..=17 => char::from(b'i' + factor as u8).to_string(),
            _ => format!("z_{}", factor - 17),
        }
    }
}

/// One move of `sdy.all_to_all`: the axes leave dimension `src` and join dimension `tgt`.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct AllToAllParam {
    /// The axes that move.
    pub axes: Vec<AxisRef>,
    /// Dimension they leave.
    pub src: i64,
    /// Dimension they join.
    pub tgt: i64,
}
