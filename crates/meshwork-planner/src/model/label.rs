//! The labels of an operation: which factor of its sharding rule each mesh axis splits, and what becomes of partial results.

use meshwork_ir::attr::{FactorKind, OpShardingRule};
use meshwork_mesh::sort_by;

use super::place::Place;
use super::price::Axes;

/// One way to compute an operation.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Label {
    /// Where each operand is wanted.
    pub(super) operands: Vec<Place>,
    /// Where each result is.
    pub(super) results: Vec<Place>,
    /// Seconds for computing and for combining partial results.
    pub(super) seconds: f64,
}

/// What is needed to list the labels of an operation.
pub(super) struct Work<'a> {
    pub(super) rule: &'a OpShardingRule,
    /// Whether partial results can be added up.
    pub(super) combines: bool,
    pub(super) result_dims: Vec<&'a [i64]>,
    pub(super) operand_bytes: Vec<f64>,
    pub(super) result_bytes: Vec<f64>,
    /// Seconds of a part: given the number of parts, and the bytes of operands and of results that it touches.
    pub(super) seconds: &'a dyn Fn(f64, f64, f64) -> f64,
}

/// What one axis does.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Use {
    Nothing,
    /// Splits a factor; if that is summed over, every device gets the sum.
    Split(usize),
    /// Splits a factor that is summed over; of the sum a part along this dimension stays on each device.
    Scatter(usize, usize),
}

/// Labels above which those with scattered sums, and then the slowest, are left out.
const MOST_LABELS: usize = 160;

/// The labels of an operation, all of them if they are not too many.
pub(super) fn labels(work: &Work, axes: &Axes) -> Vec<Label> {
    let mut found = list(work, axes, true);
    if found.len() > MOST_LABELS {
        found = list(work, axes, false);
    }
    if found.len() > MOST_LABELS {
        sort_by(&mut found, |a, b| a.seconds.total_cmp(&b.seconds));
        found.truncate(MOST_LABELS);
    }
    found
}

fn list(work: &Work, axes: &Axes, scatter: bool) -> Vec<Label> {
    let mut uses = vec![Use::Nothing];
    for factor in (0..work.rule.factor_sizes.len()).filter(|&f| work.rule.factor_sizes[f] > 1) {
        match work.rule.kind(factor) {
            FactorKind::NeedReplication => {}
            FactorKind::PassThrough | FactorKind::Permutation => uses.push(Use::Split(factor)),
            FactorKind::Reduction if work.combines => {
                uses.push(Use::Split(factor));
                let rank = work.result_dims.first().map_or(0, |dims| dims.len());
                if scatter {
                    uses.extend((0..rank).map(|d| Use::Scatter(factor, d)));
                }
            }
            FactorKind::Reduction => {}
        }
    }
    let mut chosen = vec![Use::Nothing; axes.len()];
    let mut found: Vec<Label> = vec![];
    extend(work, axes, &uses, 0, &mut chosen, &mut found);
    found
}

fn extend(work: &Work, axes: &Axes, uses: &[Use], axis: usize, chosen: &mut Vec<Use>, found: &mut Vec<Label>) {
    if axis == axes.len() {
        if let Some(label) = label(work, axes, chosen)
            && !found.iter().any(|other| other.operands == label.operands && other.results == label.results)
        {
            found.push(label);
        }
        return;
    }
    // An axis of one device does nothing.
    let uses_here = if axes.sizes[axis] > 1 { uses } else { &uses[..1] };
    for &what in uses_here {
        chosen[axis] = what;
        extend(work, axes, uses, axis + 1, chosen, found);
    }
    chosen[axis] = Use::Nothing;
}

fn factor(what: Use) -> Option<usize> {
    match what {
        Use::Nothing => None,
        Use::Split(factor) | Use::Scatter(factor, _) => Some(factor),
    }
}

/// The label in which each axis does this, if it can be.
fn label(work: &Work, axes: &Axes, chosen: &[Use]) -> Option<Label> {
    let rule = work.rule;
    let parts = |f: usize| -> i64 {
        chosen.iter().zip(&axes.sizes).filter(|(what, _)| factor(**what) == Some(f)).map(|(_, size)| *size).product()
    };
    if (0..rule.factor_sizes.len()).any(|f| parts(f) > rule.factor_sizes[f].max(1)) {
        return None;
    }
    let places = |tensors: &[Vec<Vec<usize>>]| -> Option<Vec<Place>> {
        tensors.iter().map(|dims| place(dims, rule, chosen, &parts)).collect()
    };
    let operands = places(&rule.operands)?;
    let partial = places(&rule.results)?;
    let mut results = partial.clone();
    let (mut scattered, mut summed) = (vec![], vec![]);
    for (axis, what) in chosen.iter().enumerate() {
        match *what {
            Use::Scatter(_, d) => {
                results.iter_mut().for_each(|place| *place = place.with(axis, d));
                scattered.push(axis);
            }
            Use::Split(f) if rule.kind(f) == FactorKind::Reduction => summed.push(axis),
            Use::Split(_) | Use::Nothing => {}
        }
    }
    if !results.iter().zip(&work.result_dims).all(|(place, dims)| place.fits(dims, &axes.sizes)) {
        return None;
    }
    let held = |places: &[Place], bytes: &[f64]| -> f64 {
        places.iter().zip(bytes).map(|(place, bytes)| bytes / place.parts(&axes.sizes)).sum()
    };
    let all: f64 =
        chosen.iter().zip(&axes.sizes).filter(|(w, _)| **w != Use::Nothing).map(|(_, s)| *s as f64).product();
    let results_held = held(&partial, &work.result_bytes);
    let mut seconds = (work.seconds)(all, held(&operands, &work.operand_bytes), results_held);
    seconds += axes.combine(&scattered, &summed, results_held);
    for (axis, what) in chosen.iter().enumerate() {
        if let Some(f) = factor(*what).filter(|&f| rule.kind(f) == FactorKind::Permutation) {
            // A slice of what is held comes from the neighbours.
            let slices = (rule.factor_sizes[f] as f64 / parts(f) as f64).max(1.0);
            seconds += axes.neighbours(axis, held(&operands, &work.operand_bytes) / slices);
        }
    }
    Some(Label { operands, results, seconds })
}

/// Where a tensor is whose dimensions have these factors. None if a split of its factors is not one of its dimensions: before a
/// minor factor is split, those before it have to be split in full.
fn place(dims: &[Vec<usize>], rule: &OpShardingRule, chosen: &[Use], parts: &dyn Fn(usize) -> i64) -> Option<Place> {
    let mut place = Place::WHOLE;
    for (d, factors) in dims.iter().enumerate() {
        let mut full = true;
        for &f in factors.iter().filter(|&&f| rule.factor_sizes[f] > 1) {
            let split = parts(f);
            if split > 1 && !full {
                return None;
            }
            full &= split == rule.factor_sizes[f];
            for (axis, _) in chosen.iter().enumerate().filter(|(_, what)| factor(**what) == Some(f)) {
                place = place.with(axis, d);
            }
        }
    }
    Some(place)
}
