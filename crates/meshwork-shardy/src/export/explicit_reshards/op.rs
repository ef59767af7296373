//! Making one op fit its rule: its tensors along the factors, the axes it computes along, the reshards around it.

use std::sync::Arc;

use meshwork_ir::attr::OpShardingRule;
use meshwork_ir::op::{ContractOp, MovementOp};
use meshwork_ir::{Module, OpId, OpKind};
use meshwork_mesh::{MeshRef, Sharding};
use meshwork_propagate::factors::{CompiledRule, MeshId, PlacementId, Projection};
use meshwork_propagate::program::sharding_of;
use meshwork_propagate::rules::{RuleMode, RuleResult, sharding_rule};

use super::common_mesh::common_mesh;
use super::{Context, Version, apply, common_axes, dot, reductions, reshape};

/// An op with its rule and placements. Lists of tensors have operands first.
pub struct Subject {
    /// The op.
    pub op: OpId,
    /// Its rule.
    pub rule: CompiledRule,
    /// What the tensors have.
    pub shardings: Vec<Option<Sharding>>,
    /// The same, with an unsplit placement for each tensor that has none.
    pub placements: Vec<PlacementId>,
    /// The placements along the factors of the rule.
    pub projection: Projection,
    /// The mesh it computes on.
    pub mesh: MeshId,
    /// The name of that mesh.
    pub mesh_ref: MeshRef,
    /// Number of elements of each tensor; 0 where it is not known.
    pub sizes: Vec<i64>,
}

/// Makes `op` fit its rule, if it has one that is not the user's own.
pub fn process(
    cx: &mut Context,
    module: &mut Module,
    op: OpId,
    shardings: &[Option<Sharding>],
    version: Version,
) -> Result<(), String> {
    let RuleResult::Rule(rule) = sharding_rule(module, op, RuleMode::Full) else { return Ok(()) };
    if rule.custom {
        return Ok(());
    }
    let Some(mesh_ref) = common_mesh(&cx.meshes, shardings) else { return Ok(()) };
    let kinds = reductions::kinds(module, op);
    let rule = if kinds.is_none() { without_reductions(&rule) } else { rule };
    let mut subject = subject(cx, module, op, rule, shardings, mesh_ref)?;
    let axes = match version {
        Version::Full => Some(fit(cx, module, &mut subject)?),
        Version::Minimal => {
            if matches!(module.op(op).kind(), OpKind::Contract(ContractOp::Dot | ContractOp::DotGeneral)) {
                dot::reshard_result(cx, module, &mut subject);
            }
            None
        }
    };
    match kinds {
        Some(kinds) => reductions::insert(cx, module, &subject, axes.as_deref(), &kinds),
        None => Ok(()),
    }
}

/// Makes `op` compute with these factors whole.
pub fn unsplit(cx: &mut Context, module: &mut Module, op: OpId, factors: &[usize]) -> Result<(), String> {
    let RuleResult::Rule(rule) = sharding_rule(module, op, RuleMode::Full) else { return Ok(()) };
    let tensors = module.op(op).operands().iter().chain(module.op(op).results());
    let shardings: Vec<Option<Sharding>> = tensors.map(|&v| sharding_of(module, v)).collect();
    let Some(mesh_ref) = common_mesh(&cx.meshes, &shardings) else { return Ok(()) };
    let mut subject = subject(cx, module, op, rule, &shardings, mesh_ref)?;
    let mut changed = vec![false; shardings.len()];
    for (tensor, changed) in subject.projection.tensors.iter_mut().zip(&mut changed) {
        for &factor in factors {
            if let Some(sharding) = &mut tensor.factors[factor] {
                *changed |= !sharding.axes.is_empty() || !sharding.overflow.is_empty();
                sharding.axes.clear();
                sharding.overflow.clear();
            }
        }
    }
    if changed.contains(&true) {
        apply::reshard_around(cx, module, &subject, &changed);
    }
    Ok(())
}

/// The rule of an op whose partial results no all-reduce can combine: what it reduces must be whole.
fn without_reductions(rule: &OpShardingRule) -> Arc<OpShardingRule> {
    let mut rule = rule.clone();
    rule.need_replication.append(&mut rule.reduction);
    rule.need_replication.sort_unstable();
    Arc::new(rule)
}

fn subject(
    cx: &mut Context,
    module: &Module,
    op: OpId,
    rule: Arc<OpShardingRule>,
    shardings: &[Option<Sharding>],
    mesh_ref: MeshRef,
) -> Result<Subject, String> {
    let rule = CompiledRule::new(rule);
    let mut placements = vec![];
    for (i, sharding) in shardings.iter().enumerate() {
        let missing = || Sharding::fully_closed(mesh_ref.clone(), rule.tensor(i).len());
        placements.push(cx.placements.import(&sharding.clone().unwrap_or_else(missing))?);
    }
    let on_mesh = cx.placements.import(&Sharding::fully_closed(mesh_ref.clone(), 0))?;
    let mut projection = Projection::default();
    let of_tensors: Vec<_> = placements.iter().map(|&id| cx.placements.get(id).clone()).collect();
    projection.build(&rule, of_tensors.iter().map(|p| Some(&**p)));
    let values = module.op(op).operands().iter().chain(module.op(op).results());
    let sizes = values.map(|&v| module.ty(v).as_tensor().and_then(|t| t.num_elements()).unwrap_or(0)).collect();
    Ok(Subject {
        op,
        rule,
        shardings: shardings.to_vec(),
        placements,
        projection,
        mesh: cx.placements.get(on_mesh).mesh,
        mesh_ref,
        sizes,
    })
}

/// Finds the axes that the op computes along and inserts the reshards; returns the axes of each factor.
fn fit(
    cx: &mut Context,
    module: &mut Module,
    subject: &mut Subject,
) -> Result<Vec<meshwork_propagate::factors::AxisList>, String> {
    let has_overflow =
        |t: &meshwork_propagate::factors::TensorFactors| t.factors.iter().flatten().any(|f| !f.overflow.is_empty());
    let mut changed: Vec<bool> = subject.projection.tensors.iter().map(has_overflow).collect();
    if module.op(subject.op).kind() == MovementOp::Reshape && changed.contains(&true) {
        let axes = reshape::redistribute(cx, subject);
        let differs = |i: usize| {
            let placed = subject.built_sharding(cx, i);
            !super::same_placement(Some(&placed), subject.shardings[i].as_ref())
        };
        let changed: Vec<bool> = (0..2).map(differs).collect();
        apply::reshard_around(cx, module, subject, &changed);
        return Ok(axes);
    }
    let axes = common_axes::find(
        &subject.projection,
        &subject.rule.rule,
        &subject.sizes,
        &name_ranks(cx.placements.mesh(subject.mesh)),
    );
    for (tensor, changed) in subject.projection.tensors.iter_mut().zip(&mut changed) {
        for (sharding, axes) in tensor.factors.iter_mut().zip(&axes) {
            let Some(sharding) = sharding else { continue };
            *changed |= sharding.axes != *axes || !sharding.overflow.is_empty();
            sharding.axes = axes.clone();
            sharding.overflow.clear();
        }
    }
    apply::reshard_around(cx, module, subject, &changed);
    Ok(axes)
}

/// For each axis of the mesh its place in the order of names.
fn name_ranks(mesh: &meshwork_mesh::Mesh) -> Vec<usize> {
    let rank = |name: &str| mesh.axes().iter().filter(|a| *a.name < *name).count();
    mesh.axes().iter().map(|a| rank(&a.name)).collect()
}

impl Subject {
    /// How many of the tensors are operands.
    pub fn num_operands(&self) -> usize {
        self.projection.num_operands
    }

    /// The placement of tensor `index` that its factors make.
    pub fn built_sharding(&self, cx: &mut Context, index: usize) -> Sharding {
        let like = cx.placements.get(self.placements[index]).clone();
        let sizes = &self.rule.rule.factor_sizes;
        let built = self.projection.tensors[index].placement(Some(&like), self.rule.tensor(index), sizes, self.mesh);
        let id = cx.placements.intern(built);
        cx.placements.export(id)
    }
}
