//! Between dimensions and factors: the placements of an op's tensors, seen along the factors of its rule.
//!
//! Per tensor and factor there is a list of axes, whether it is closed, whether the factor is the minor-most of
//! its dimension, and *overflow axes*: axes of the dimension that fit neither this factor nor a later one.
//!
//! Invariants: a factor that is not minor-most is split evenly by its axes; factors after one with overflow axes are
//! empty and closed.

use std::sync::Arc;

use meshwork_ir::attr::{FactorKind, OpShardingRule};
use meshwork_mesh::gcd;
use smallvec::SmallVec;

use crate::factors::{Axis, AxisList, Dim, MeshId, Placement, Prefix, prefix_status, product, push_merged};

/// A rule with the facts about it that propagation needs often.
#[derive(Debug)]
pub struct CompiledRule {
    /// The rule.
    pub rule: Arc<OpShardingRule>,
    /// Which factors are pass-through.
    pub pass_through: Vec<bool>,
    /// Which factors placements do not spread along.
    pub blocked: Vec<bool>,
}

impl CompiledRule {
    /// Prepares a rule.
    pub fn new(rule: Arc<OpShardingRule>) -> CompiledRule {
        let factors = 0..rule.factor_sizes.len();
        CompiledRule {
            pass_through: factors.clone().map(|f| rule.kind(f) == FactorKind::PassThrough).collect(),
            blocked: factors.map(|f| rule.blocked.contains(&f)).collect(),
            rule,
        }
    }

    /// Number of operands and results.
    pub fn num_tensors(&self) -> usize {
        self.rule.operands.len() + self.rule.results.len()
    }

    /// The factors of each dimension of tensor `index`, operands first.
    pub fn tensor(&self, index: usize) -> &[Vec<usize>] {
        let operands = self.rule.operands.len();
        if index < operands { &self.rule.operands[index] } else { &self.rule.results[index - operands] }
    }
}

/// How one factor is split in one tensor.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FactorSharding {
    /// The axes, major to minor.
    pub axes: AxisList,
    /// Axes of the dimension that no factor can take.
    pub overflow: SmallVec<[Axis; 1]>,
    /// Whether it may not be split further.
    pub closed: bool,
    /// Whether it is the last factor of its dimension, which may be split unevenly.
    pub minor_most: bool,
}

/// How the factors of one tensor are split.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TensorFactors {
    /// By factor; `None` for factors the tensor does not have.
    pub factors: SmallVec<[Option<FactorSharding>; 4]>,
    /// Axes that must hold copies.
    pub replicated: AxisList,
    /// Axes over which the tensor is partial.
    pub unreduced: AxisList,
}

impl TensorFactors {
    /// The axes of `factor`, if the tensor has it.
    pub fn axes(&self, factor: usize) -> Option<&AxisList> {
        Some(&self.factors[factor].as_ref()?.axes)
    }

    /// Replaces the axes of `factor` by longer ones that start with them.
    pub fn expand(&mut self, factor: usize, axes: &[Axis]) -> Expanded {
        match &mut self.factors[factor] {
            Some(sharding) if prefix_status(&sharding.axes, axes) == Prefix::Strict => {
                sharding.axes = axes.into();
                Expanded::Yes
            }
            _ => Expanded::No,
        }
    }

    fn project(&mut self, placement: Option<&Placement>, mapping: &[Vec<usize>], sizes: &[i64]) {
        self.factors.clear();
        self.factors.resize(sizes.len(), None);
        self.replicated = placement.map_or_else(AxisList::new, |p| p.replicated.clone());
        self.unreduced = placement.map_or_else(AxisList::new, |p| p.unreduced.clone());
        for (dim, factors) in mapping.iter().enumerate() {
            project_dim(placement.and_then(|p| p.dims.get(dim)), factors, sizes, &mut self.factors);
        }
    }

    /// The placement of the tensor: the axes of each dimension's factors in order.
    ///
    /// Stops within a dimension after overflow axes, and after a factor that is not fully split, because splitting a
    /// later one would need a strided layout.
    pub fn placement(
        &self,
        like: Option<&Placement>,
        mapping: &[Vec<usize>],
        sizes: &[i64],
        mesh: MeshId,
    ) -> Placement {
        let dims = mapping.iter().map(|factors| {
            let mut dim = Dim::default();
            for &factor in factors {
                let Some(sharding) = &self.factors[factor] else { break };
                dim.closed |= sharding.closed;
                append(&mut dim.axes, &sharding.axes);
                if !sharding.overflow.is_empty() {
                    append(&mut dim.axes, &sharding.overflow);
                    break;
                }
                if product(&sharding.axes) < sizes[factor] {
                    break;
                }
            }
            dim
        });
        Placement {
            mesh,
            dims: dims.collect(),
            replicated: self.replicated.clone(),
            unreduced: self.unreduced.clone(),
            reduction: like.map_or_else(Default::default, |p| p.reduction),
        }
    }
}

/// Whether something was extended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Expanded {
    /// It was.
    Yes,
    /// It was not.
    No,
}

fn append(list: &mut AxisList, axes: &[Axis]) {
    // Only the boundary between two factors can merge: lists are merged within.
    for (i, &axis) in axes.iter().enumerate() {
        if i == 0 {
            push_merged(list, axis);
        } else {
            list.push(axis);
        }
    }
}

/// Assigns the axes of one dimension to its factors, major to minor, splitting axes where factors end.
fn project_dim(dim: Option<&Dim>, factors: &[usize], sizes: &[i64], out: &mut [Option<FactorSharding>]) {
    let closed = dim.is_some_and(|d| d.closed);
    let mut rest = AxisStream { axes: dim.map_or(&[], |d| &d.axes), current: None };
    rest.advance();
    let mut overflowed = false;
    for (i, &factor) in factors.iter().enumerate() {
        let sharding = out[factor].get_or_insert_with(FactorSharding::default);
        sharding.minor_most = i + 1 == factors.len();
        if overflowed {
            sharding.closed = true;
            break;
        }
        sharding.closed = closed;
        if sharding.minor_most {
            rest.drain(|axis| push_merged(&mut sharding.axes, axis));
            break;
        }
        let mut size = sizes[factor];
        while let Some(axis) = rest.current {
            let shared = gcd(size, i64::from(axis.size));
            if axis.size != 1 && shared <= 1 {
                break;
            }
            // `shared` divides an axis size, so it fits.
            let taken = axis.with_size(shared.max(1) as u32);
            size /= shared.max(1);
            sharding.axes.push(taken);
            rest.take(taken);
        }
        if size > 1 && rest.current.is_some() {
            overflowed = true;
            rest.drain(|axis| match sharding.overflow.last_mut() {
                Some(last) if last.can_merge(axis) => last.size *= axis.size,
                _ => sharding.overflow.push(axis),
            });
        }
    }
}

/// The axes of a dimension that have no factor yet.
struct AxisStream<'a> {
    axes: &'a [Axis],
    current: Option<Axis>,
}

impl AxisStream<'_> {
    fn advance(&mut self) {
        self.current = self.axes.split_first().map(|(&first, rest)| {
            self.axes = rest;
            first
        });
    }

    /// Removes the major part `taken` of the current axis.
    fn take(&mut self, taken: Axis) {
        match self.current {
            Some(axis) if axis.size > taken.size => {
                self.current = Some(Axis { id: axis.id, pre: axis.pre * taken.size, size: axis.size / taken.size });
            }
            _ => self.advance(),
        }
    }

    fn drain(&mut self, mut give: impl FnMut(Axis)) {
        while let Some(axis) = self.current {
            give(axis);
            self.advance();
        }
    }
}

/// The tensors of an op along the factors of its rule, operands first.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Projection {
    /// Operands, then results.
    pub tensors: Vec<TensorFactors>,
    /// How many of them are operands.
    pub num_operands: usize,
}

impl Projection {
    /// Projects the placements of the tensors of `rule`; a tensor without one is open and empty.
    pub fn build<'p>(
        &mut self,
        rule: &CompiledRule,
        placements: impl IntoIterator<Item = Option<&'p Placement>>,
    ) -> &mut Self {
        self.num_operands = rule.rule.operands.len();
        self.tensors.resize_with(rule.num_tensors(), TensorFactors::default);
        for (i, placement) in placements.into_iter().enumerate().take(rule.num_tensors()) {
            self.tensors[i].project(placement, rule.tensor(i), &rule.rule.factor_sizes);
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::factors::Placements;
    use crate::rules::RuleBuilder;
    use meshwork_ir::Module;
    use meshwork_mesh::{Mesh, parse_sharding};

    fn split_rule(in_sizes: &[i64]) -> CompiledRule {
        // ([ij..])->([i, j, ..])
        let mut rule = RuleBuilder::new([1], [in_sizes.len()]);
        for (i, &size) in in_sizes.iter().enumerate() {
            let mut result = vec![None; 1];
            result[0] = Some(i);
            rule.pass(&[Some(0)], &result, size);
        }
        CompiledRule::new(Arc::new(rule.build()))
    }

    fn project(mesh: &str, sharding: &str, sizes: &[i64]) -> (Vec<(AxisList, Vec<Axis>)>, String) {
        let mesh: Mesh = meshwork_mesh::parse_mesh(mesh).expect("test mesh");
        let mut sharding = parse_sharding(sharding).expect("test sharding");
        sharding.mesh = mesh.into();
        let mut placements = Placements::of(&Module::new());
        let id = placements.import(&sharding).expect("test placement");
        let rule = split_rule(sizes);
        let mut projection = Projection::default();
        let placement = placements.get(id).clone();
        projection.build(&rule, [Some(&*placement), None]);
        let back = projection.tensors[0].placement(Some(&placement), rule.tensor(0), sizes, placement.mesh);
        let back = placements.intern(back);
        let factors = projection.tensors[0].factors.iter().flatten();
        let factors = factors.map(|f| (f.axes.clone(), f.overflow.to_vec())).collect();
        (factors, placements.export(back).dims[0].axes.iter().map(|a| a.to_string()).collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn an_axis_is_split_where_a_factor_ends() {
        let (factors, back) = project(r#"<["x"=4, "y"=2]>"#, r#"<@m, [{"x", "y"}]>"#, &[2, 4]);
        let axis = |id, pre, size| Axis { id, pre, size };
        assert_eq!(factors[0].0[..], [axis(0, 1, 2)]);
        assert_eq!(factors[1].0[..], [axis(0, 2, 2), axis(1, 1, 2)]);
        assert_eq!(back, r#""x" "y""#);
    }

    #[test]
    fn axes_that_fit_no_factor_overflow() {
        let (factors, back) = project(r#"<["x"=2, "y"=3]>"#, r#"<@m, [{"x", "y"}]>"#, &[4, 3]);
        let axis = |id, pre, size| Axis { id, pre, size };
        assert_eq!(factors[0].0[..], [axis(0, 1, 2)]);
        assert_eq!(factors[0].1[..], [axis(1, 1, 3)]);
        assert!(factors[1].0.is_empty());
        assert_eq!(back, r#""x" "y""#);
    }

    #[test]
    fn the_minor_most_factor_may_be_uneven() {
        let (factors, back) = project(r#"<["x"=2, "y"=4]>"#, r#"<@m, [{"x", "y"}]>"#, &[2, 3]);
        assert_eq!(factors[1].0[..], [Axis { id: 1, pre: 1, size: 4 }]);
        assert_eq!(back, r#""x" "y""#);
    }
}
