//! One visit of one op: from the placements of its tensors to those they should have.
//!
//! Visits are remembered: what a visit does depends only on what [`Visit`] holds, and programs repeat themselves.

use std::collections::hash_map::Entry;
use std::rc::Rc;
use std::sync::Arc;

use meshwork_ir::attr::OpShardingRule;
use meshwork_ir::hash::HashMap;
use meshwork_ir::{Dims, Type};
use smallvec::SmallVec;

use super::factor::{Directions, OpTraits, Strategy};
use super::{aggressive, basic};
use crate::factors::{CompiledRule, MeshId, PlacementId, Placements, Projection};
use crate::rules::{RuleBuilder, RuleMode};

/// An interned rule.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct RuleId(u32);

/// The rules in use, each one once.
#[derive(Default)]
pub struct Rules {
    list: Vec<CompiledRule>,
    ids: HashMap<Arc<OpShardingRule>, RuleId>,
    /// Rules of identities by shape and number of operands.
    identities: HashMap<(Dims, usize), RuleId>,
}

impl Rules {
    /// The rule `id`.
    pub fn get(&self, id: RuleId) -> &CompiledRule {
        &self.list[id.0 as usize]
    }

    /// The id of a rule.
    pub fn intern(&mut self, rule: Arc<OpShardingRule>) -> RuleId {
        match self.ids.entry(rule) {
            Entry::Occupied(entry) => *entry.get(),
            Entry::Vacant(entry) => {
                let id = RuleId(self.list.len() as u32);
                self.list.push(CompiledRule::new(entry.key().clone()));
                *entry.insert(id)
            }
        }
    }

    /// The rule of an identity on `operands` operands of type `ty`.
    pub fn identity(&mut self, ty: &Type, operands: usize) -> RuleId {
        let key = (Dims::from(ty.dims()), operands);
        if let Some(&rule) = self.identities.get(&key) {
            return rule;
        }
        let rule = self.intern(Arc::new(RuleBuilder::identity(ty, operands)));
        self.identities.insert(key, rule);
        rule
    }
}

/// Whether an op works element by element.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Nature {
    /// It does.
    Elementwise,
    /// It does not.
    Other,
}

/// The placements of an op's tensors, operands first.
pub type TensorPlacements = SmallVec<[Option<PlacementId>; 4]>;

/// Everything that a visit depends on.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Visit {
    /// The rule of the op.
    pub rule: RuleId,
    /// How placements move.
    pub strategy: Strategy,
    /// Which way they may move.
    pub directions: Directions,
    /// Whether it is elementwise.
    pub nature: Nature,
    /// Whether axes may be cut.
    pub mode: RuleMode,
    /// The placements before.
    pub placements: TensorPlacements,
}

/// The updates of one visit: tensor, new placement.
pub type Updates = Rc<[(usize, PlacementId)]>;

/// Computes visits and remembers them.
#[derive(Default)]
pub struct Visitor {
    /// The rules in use.
    pub rules: Rules,
    memo: HashMap<Visit, Updates>,
    projection: Projection,
}

impl Visitor {
    /// Forgets all visits, because placement ids mean something else now.
    pub fn forget(&mut self) {
        self.memo.clear();
    }

    /// What a visit changes.
    pub fn updates(&mut self, placements: &mut Placements, visit: &Visit) -> Updates {
        if let Some(updates) = self.memo.get(visit) {
            return updates.clone();
        }
        let updates: Updates = self.compute(placements, visit).into();
        self.memo.insert(visit.clone(), updates.clone());
        updates
    }

    /// The tensors along their factors before and after a visit, and the mesh they share.
    pub fn explain(&mut self, placements: &mut Placements, visit: &Visit) -> Option<(Projection, &Projection, MeshId)> {
        let mesh = self.project(placements, visit)?;
        let before = self.projection.clone();
        self.compute(placements, visit);
        Some((before, &self.projection, mesh))
    }

    /// Projects the placements of a visit. `None` if the tensors share no mesh, or do not fit the rule.
    fn project(&mut self, placements: &Placements, visit: &Visit) -> Option<MeshId> {
        let rule = self.rules.get(visit.rule);
        let mesh = placements.common_mesh(visit.placements.iter().flatten().copied())?;
        let rank_fits = |(i, p): (usize, &Option<PlacementId>)| {
            p.is_none_or(|p| placements.get(p).dims.len() == rule.tensor(i).len())
        };
        if visit.placements.len() != rule.num_tensors() || !visit.placements.iter().enumerate().all(rank_fits) {
            return None;
        }
        self.projection.build(rule, visit.placements.iter().map(|p| p.map(|p| &**placements.get(p))));
        Some(mesh)
    }

    fn compute(&mut self, placements: &mut Placements, visit: &Visit) -> Vec<(usize, PlacementId)> {
        let Some(mesh) = self.project(placements, visit) else { return vec![] };
        let rule = self.rules.get(visit.rule);
        let sizes: SmallVec<[u32; 4]> =
            placements.mesh(mesh).axes().iter().map(|a| u32::try_from(a.size).unwrap_or(u32::MAX)).collect();
        let traits = OpTraits {
            elementwise: visit.nature == Nature::Elementwise,
            whole_axes_only: (visit.mode == RuleMode::Conservative).then_some(&sizes[..]),
        };
        let mut updated: SmallVec<[bool; 8]> = SmallVec::from_elem(false, rule.num_tensors());
        let propagate = match visit.strategy {
            Strategy::Basic => basic::propagate,
            Strategy::Aggressive => aggressive::propagate,
        };
        propagate(&mut self.projection, rule, visit.directions, traits, &mut updated);
        let mut updates = vec![];
        for (i, tensor) in self.projection.tensors.iter().enumerate().filter(|&(i, _)| updated[i]) {
            let old = visit.placements[i].map(|p| placements.get(p).clone());
            let new = tensor.placement(old.as_deref(), rule.tensor(i), &rule.rule.factor_sizes, mesh);
            if old.is_none() && new.has_no_axes() {
                continue;
            }
            let new = placements.intern(new);
            if visit.placements[i] != Some(new) {
                updates.push((i, new));
            }
        }
        updates
    }
}
