//! Choosing axes for the factors of an op whose tensors disagree, greedily by weight.
//!
//! A candidate gives a factor a prefix of the axes that split it in some tensor. Its weight is, in this order: the
//! elements of the tensors that are split so already, the kind of the factor, how much further the factor gets
//! split, and the candidate itself.
//!
//! A factor that follows another one in some dimension waits until that one is split completely, because a split
//! of it alone would need a strided layout.

use std::cmp::Ordering;

use meshwork_ir::attr::{FactorKind, OpShardingRule};
use meshwork_propagate::factors::{Axis, AxisList, Prefix, Projection, prefix_status, product};

struct Candidate {
    factor: usize,
    axes: AxisList,
    elements: i64,
    kind: u8,
    split: i64,
}

impl Candidate {
    fn cmp(&self, other: &Candidate, name_ranks: &[usize]) -> Ordering {
        let weight = |c: &Candidate| (c.elements, c.kind, c.split, c.factor, c.axes.len());
        let key = |a: &Axis| (name_ranks.get(usize::from(a.id)).copied(), a.pre, a.size);
        weight(self).cmp(&weight(other)).then_with(|| self.axes.iter().map(key).cmp(other.axes.iter().map(key)))
    }
}

/// The axes of each factor. `sizes` are the numbers of elements of the tensors; `name_ranks` orders axes by name.
pub fn choose(projection: &Projection, rule: &OpShardingRule, sizes: &[i64], name_ranks: &[usize]) -> Vec<AxisList> {
    let mut chosen: Vec<AxisList> = vec![AxisList::new(); rule.factor_sizes.len()];
    let mut waits_for = dependencies(rule);
    let mut candidates = candidates(projection, rule, sizes);
    loop {
        let ready = candidates.iter().filter(|c| waits_for[c.factor].is_empty());
        let Some(best) = ready.max_by(|a, b| a.cmp(b, name_ranks)) else { return chosen };
        let (factor, axes) = (best.factor, best.axes.clone());
        if product(&axes) == rule.factor_sizes[factor] {
            waits_for.iter_mut().for_each(|list| list.retain(|&f| f != factor));
        }
        chosen[factor] = axes.clone();
        candidates.retain_mut(|candidate| {
            if candidate.factor == factor {
                candidate.split = product(&candidate.axes) / product(&axes);
                return prefix_status(&axes, &candidate.axes) == Prefix::Strict;
            }
            let cut = truncate_without_overlap(&mut candidate.axes, &axes);
            // A candidate that was not cut competes with its full split again, whatever its factor already has.
            let start: &[Axis] = if cut { &chosen[candidate.factor] } else { &[] };
            candidate.split = product(&candidate.axes) / product(start);
            !cut || candidate.axes != chosen[candidate.factor]
        });
    }
}

/// For each factor, those that come right before it in some dimension.
fn dependencies(rule: &OpShardingRule) -> Vec<Vec<usize>> {
    let mut waits_for = vec![vec![]; rule.factor_sizes.len()];
    for factors in rule.operands.iter().chain(&rule.results).flatten() {
        for pair in factors.windows(2) {
            waits_for[pair[1]].push(pair[0]);
        }
    }
    waits_for
}

fn candidates(projection: &Projection, rule: &OpShardingRule, sizes: &[i64]) -> Vec<Candidate> {
    let mut candidates: Vec<Candidate> = vec![];
    let splits = || {
        let tensors = projection.tensors.iter().zip(sizes);
        tensors.flat_map(|(tensor, &size)| {
            let factors = tensor.factors.iter().enumerate();
            factors.filter_map(move |(factor, sharding)| Some((factor, &sharding.as_ref()?.axes, size)))
        })
    };
    for (factor, axes, _) in splits() {
        for count in 1..=axes.len() {
            let axes: AxisList = axes[..count].into();
            if !candidates.iter().any(|c| c.factor == factor && c.axes == axes) {
                let (kind, split) = (precedence(rule.kind(factor)), product(&axes));
                candidates.push(Candidate { factor, axes, elements: 0, kind, split });
            }
        }
    }
    for candidate in &mut candidates {
        let starts_so = |&(factor, axes, _): &(usize, &AxisList, i64)| {
            factor == candidate.factor && prefix_status(&candidate.axes, axes) != Prefix::No
        };
        candidate.elements = splits().filter(starts_so).fold(0i64, |sum, (_, _, size)| sum.saturating_add(size));
    }
    candidates
}

fn precedence(kind: FactorKind) -> u8 {
    match kind {
        FactorKind::PassThrough => 3,
        FactorKind::Reduction => 2,
        FactorKind::Permutation => 1,
        FactorKind::NeedReplication => 0,
    }
}

/// Cuts `axes` to its longest prefix that does not overlap with `others`; returns whether it was cut.
pub fn truncate_without_overlap(axes: &mut AxisList, others: &[Axis]) -> bool {
    for i in 0..axes.len() {
        let prefix = axes[i].prefix_without_overlaps(others);
        if prefix != Some(axes[i]) {
            axes.truncate(i);
            axes.extend(prefix);
            return true;
        }
    }
    false
}
