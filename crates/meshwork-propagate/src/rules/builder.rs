//! Building one op sharding rule: factors with sizes, and the dimensions each one runs along.

use meshwork_ir::attr::{FactorKind, OpShardingRule};
use meshwork_ir::{Module, OpId, Type, ValueId};

/// The dimension of one tensor that a factor runs along, if any.
pub(super) type Dim = Option<usize>;

/// What splitting along a factor entails, and whether placements spread along it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Factor {
    kind: FactorKind,
    blocked: bool,
}

/// The same split everywhere, no communication.
pub(super) const PASS: Factor = Factor { kind: FactorKind::PassThrough, blocked: false };
/// Results are partial and must be reduced.
pub(super) const REDUCE: Factor = Factor { kind: FactorKind::Reduction, blocked: false };
/// Must be whole.
pub(super) const REPLICATE: Factor = Factor { kind: FactorKind::NeedReplication, blocked: false };
/// Must be whole, and placements do not spread along it.
pub(super) const REPLICATE_BLOCKED: Factor = Factor { kind: FactorKind::NeedReplication, blocked: true };
/// Neighbors exchange data.
pub(super) const PERMUTE: Factor = Factor { kind: FactorKind::Permutation, blocked: false };

impl Factor {
    /// The same, with placements kept from spreading along it.
    pub(super) fn blocked(self) -> Factor {
        Factor { blocked: true, ..self }
    }
}

/// Builds an [`OpShardingRule`] factor by factor; factor indices follow the order of the calls.
///
/// ```
/// use meshwork_propagate::rules::RuleBuilder;
/// // A matrix product of 8x16 and 16x32.
/// let mut rule = RuleBuilder::new([2, 2], [2]);
/// rule.pass(&[Some(0), None], &[Some(0)], 8);
/// rule.pass(&[None, Some(1)], &[Some(1)], 32);
/// rule.reduce(&[Some(1), Some(0)], &[None], 16);
/// let rule = rule.build();
/// assert_eq!(rule.operands, [[[0], [2]], [[2], [1]]]);
/// assert_eq!(rule.reduction, [2]);
/// ```
#[derive(Clone, Debug)]
pub struct RuleBuilder {
    rule: OpShardingRule,
}

impl RuleBuilder {
    /// A rule without factors for tensors of these ranks; tokens count as rank 0.
    pub fn new(operand_ranks: impl IntoIterator<Item = usize>, result_ranks: impl IntoIterator<Item = usize>) -> Self {
        let tensors = |ranks: Vec<usize>| ranks.into_iter().map(|rank| vec![vec![]; rank]).collect();
        RuleBuilder {
            rule: OpShardingRule {
                operands: tensors(operand_ranks.into_iter().collect()),
                results: tensors(result_ranks.into_iter().collect()),
                ..OpShardingRule::default()
            },
        }
    }

    /// A rule without factors for the operands and results of `op`.
    pub fn for_op(module: &Module, op: OpId) -> Self {
        let rank = |&v: &ValueId| module.ty(v).rank().unwrap_or(0);
        Self::new(module.op(op).operands().iter().map(rank), module.op(op).results().iter().map(rank))
    }

    /// The rule of an identity on `operands` tensors of type `ty`.
    pub fn identity(ty: &Type, operands: usize) -> OpShardingRule {
        let dims = ty.dims();
        let mut rule = Self::new(vec![dims.len(); operands], [dims.len()]);
        rule.pointwise(dims);
        rule.build()
    }

    /// A pass-through factor along one dimension of each tensor.
    pub fn pass(&mut self, operands: &[Option<usize>], results: &[Option<usize>], size: i64) -> &mut Self {
        self.factor(operands, results, size, PASS)
    }

    /// A factor that the op reduces over, along one dimension of each tensor.
    pub fn reduce(&mut self, operands: &[Option<usize>], results: &[Option<usize>], size: i64) -> &mut Self {
        self.factor(operands, results, size, REDUCE)
    }

    /// A factor along one dimension of each tensor. A dimension that has factors already takes no more of size 1.
    pub(super) fn factor(&mut self, operands: &[Dim], results: &[Dim], size: i64, factor: Factor) -> &mut Self {
        let index = self.reserve(size, factor);
        let tensors = self.rule.operands.iter_mut().zip(operands).chain(self.rule.results.iter_mut().zip(results));
        for (tensor, dim) in tensors {
            let Some(factors) = dim.and_then(|d| tensor.get_mut(d)) else { continue };
            if size != 1 || factors.is_empty() {
                factors.push(index);
            }
        }
        self
    }

    /// A factor along dimension `dim` of every tensor that has one.
    pub(super) fn everywhere(&mut self, dim: usize, size: i64, factor: Factor) -> &mut Self {
        let index = self.reserve(size, factor);
        map_dim(&mut self.rule.operands, dim, index);
        map_dim(&mut self.rule.results, dim, index);
        self
    }

    /// A factor along dimension `dim` of every operand.
    pub(super) fn operands(&mut self, dim: usize, size: i64, factor: Factor) -> &mut Self {
        let index = self.reserve(size, factor);
        map_dim(&mut self.rule.operands, dim, index);
        self
    }

    /// A factor along dimension `dim` of every result.
    pub(super) fn results(&mut self, dim: usize, size: i64, factor: Factor) -> &mut Self {
        let index = self.reserve(size, factor);
        map_dim(&mut self.rule.results, dim, index);
        self
    }

    /// One pass-through factor per dimension of `shape`, the same in every tensor that is not a scalar.
    pub fn pointwise(&mut self, shape: &[i64]) -> &mut Self {
        self.pointwise_by(shape, |_| Some(PASS))
    }

    /// The same with a choice per dimension; `None` leaves it out.
    pub(super) fn pointwise_by(&mut self, shape: &[i64], factor: impl Fn(usize) -> Option<Factor>) -> &mut Self {
        for (dim, &size) in shape.iter().enumerate() {
            if let Some(factor) = factor(dim) {
                self.everywhere(dim, size, factor);
            }
        }
        self
    }

    /// Pass-through factors where both shapes agree, `mismatch` factors of the first's size where they do not.
    pub(super) fn pointwise_or(&mut self, first: &[i64], second: &[i64], mismatch: Factor) -> &mut Self {
        for (dim, (&a, &b)) in first.iter().zip(second).enumerate() {
            self.everywhere(dim, a, if a == b { PASS } else { mismatch });
        }
        self
    }

    fn reserve(&mut self, size: i64, factor: Factor) -> usize {
        let index = self.rule.factor_sizes.len();
        self.rule.factor_sizes.push(size);
        if factor.blocked {
            self.rule.blocked.push(index);
        }
        match factor.kind {
            FactorKind::PassThrough => {}
            FactorKind::Reduction => self.rule.reduction.push(index),
            FactorKind::NeedReplication => self.rule.need_replication.push(index),
            FactorKind::Permutation => self.rule.permutation.push(index),
        }
        index
    }

    /// The rule. Each dimension without a factor gets one of its own, of size 1.
    pub fn build(mut self) -> OpShardingRule {
        let sizes = &mut self.rule.factor_sizes;
        for dim in self.rule.operands.iter_mut().chain(&mut self.rule.results).flatten() {
            if dim.is_empty() {
                dim.push(sizes.len());
                sizes.push(1);
            }
        }
        self.rule
    }
}

fn map_dim(tensors: &mut [Vec<Vec<usize>>], dim: usize, factor: usize) {
    for tensor in tensors {
        // Scalars have no dimensions.
        if let Some(factors) = tensor.get_mut(dim) {
            factors.push(factor);
        }
    }
}
