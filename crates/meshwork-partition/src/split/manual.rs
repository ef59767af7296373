//! Manual computations: the body is already local along the manual axes; the other axes are split as elsewhere.

use meshwork_ir::groups::group_size;
use meshwork_ir::op::CollectiveOp;
use meshwork_ir::{Attr, Combine, OpId, OpKind, ValueId};
use meshwork_mesh::Sharding;
use meshwork_propagate::program;
use meshwork_propagate::rules::{RuleMode, RuleResult, sharding_rule};

use super::{Result, Splitter};
use crate::collective::{CollectiveKind, Peers, Site};
use crate::layout::atoms::AtomList;
use crate::layout::meshes::Relation;
use crate::layout::{DimLayout, Layout};
use crate::reshard::moves::Form;

impl Splitter<'_> {
    /// Splits a manual computation.
    pub fn manual_computation(&mut self, op: OpId) -> Result<()> {
        let Some(body) = self.src.body_of(op, 0) else { return self.unsupported(op, "it has no body") };
        let (ins, outs) = (self.shardings(op, "in_shardings"), self.shardings(op, "out_shardings"));
        let manual: AtomList = match self.src.op(op).attr("manual_axes") {
            Some(Attr::Axes(axes)) => match ins.first().or(outs.first()) {
                Some(sharding) => {
                    let relation = self.meshes.relation(sharding, self.atoms);
                    relation.atoms_of(axes.iter(), self.atoms).unwrap_or_default()
                }
                None => AtomList::new(),
            },
            _ => AtomList::new(),
        };
        let borders = ins.iter().chain(&outs);
        let other_order = borders
            .clone()
            .any(|s| matches!(&*self.meshes.relation(s, self.atoms), Relation::Other(o) if o.reordered.is_some()));
        if other_order && manual.len() < self.atoms.len() {
            let what = format!(
                "its mesh has another device order than the program's, {}; all axes would have to be manual",
                self.atoms.mesh()
            );
            return self.unsupported(op, what);
        }
        let operands = self.src.op(op).operands().to_vec();
        let args = self.src.block(body).args().to_vec();
        self.reason = "the manual computation takes it in this placement".into();
        let mut forms = vec![];
        for ((&v, &arg), sharding) in operands.iter().zip(&args).zip(&ins) {
            let layout = self.border(sharding, &manual, &self.extents(v), op)?;
            let value = self.get(v, &layout)?;
            let (value, _) = self.leave(value, Some(sharding));
            forms.push((arg, Form { value, layout: self.inside(&layout, &manual, arg) }));
        }
        let results = self.src.op(op).results().to_vec();
        let mut made = vec![];
        let outside = self.paths.manual.clone();
        self.paths.manual.extend(manual.iter().copied());
        let split = self.scoped(|s| {
            let here = s.local.block;
            for (arg, form) in forms {
                s.set(arg, form);
            }
            s.block(body)?;
            s.local.block = here;
            for ((&r, v), sharding) in results.iter().zip(s.src.returned(body).to_vec()).zip(&outs) {
                let layout = s.border(sharding, &manual, &s.extents(r), op)?;
                let local = s.inside(&layout, &manual, v);
                s.site = Site::Op(op);
                s.reason = "the manual computation returns it in this placement".into();
                let value = s.get(v, &local)?;
                let (value, _) = s.enter(value, Some(sharding), "the manual computation leaves it on other devices");
                made.push((r, Form { value, layout }));
            }
            Ok(())
        });
        self.paths.manual = outside;
        split?;
        for (r, form) in made {
            self.set(r, form);
        }
        Ok(())
    }

    /// The layout in which a value of `extents` crosses the border of a manual computation: as `sharding` says, but
    /// atoms that are not manual split a dimension only if they divide the manual shards. Otherwise the two sides would
    /// count its elements differently.
    fn border(&self, sharding: &Sharding, manual: &[u8], extents: &[i64], op: OpId) -> Result<Layout> {
        let layout = self.layout_of_sharding(sharding, extents, op)?;
        let lists: Vec<AtomList> = layout
            .dims
            .iter()
            .zip(extents)
            .map(|(frame, &n)| {
                let (mut held, mut free): (AtomList, AtomList) =
                    frame.atoms.iter().copied().partition(|a| manual.contains(a));
                let shard = n / self.atoms.product(&held);
                while !held.is_empty() && shard % self.atoms.product(&free) != 0 {
                    free.pop();
                }
                held.extend(free);
                held
            })
            .collect();
        Ok(Layout { partial: layout.partial, ..Layout::ordinary(extents, &lists, self.atoms) })
    }

    /// The placements of operands or results. Of one that needs its devices in another order the manual axes are kept:
    /// the others may be placed in any way.
    fn shardings(&self, op: OpId, name: &str) -> Vec<Sharding> {
        let Some(Attr::ShardingPerValue(list)) = self.src.op(op).attr(name) else { return vec![] };
        let fits = |s: &Sharding| match &*self.meshes.relation(s, self.atoms) {
            Relation::Other(other) => other.reordered.is_none(),
            Relation::Same | Relation::Single(_) | Relation::Foreign => true,
        };
        let manual = program::manual_axes(self.src, op);
        list.iter().map(|s| if fits(s) { s.clone() } else { program::only_manual_axes(s, manual) }).collect()
    }

    /// `layout` as the body of a manual computation sees it: without the manual atoms. `v` is the value inside.
    fn inside(&self, layout: &Layout, manual: &[u8], v: ValueId) -> Layout {
        let extents = self.extents(v);
        let dims = layout.dims.iter().zip(&extents).map(|(frame, &n)| {
            let free: AtomList = frame.atoms.iter().copied().filter(|a| !manual.contains(a)).collect();
            DimLayout::split(n, free, self.atoms)
        });
        let inside = Layout { dims: dims.collect(), partial: None };
        match &layout.partial {
            // Parts over manual axes are what the body works on; over the others it sees one value.
            Some((parts, combine)) => {
                inside.with_partial(parts.iter().copied().filter(|a| !manual.contains(a)).collect(), *combine)
            }
            None => inside,
        }
    }

    /// A collective that the program writes itself, inside a manual computation.
    pub fn explicit_collective(&mut self, op: OpId) -> Result<()> {
        let RuleResult::Rule(rule) = sharding_rule(self.src, op, RuleMode::Full) else { return self.whole(op) };
        let problem = self.problem(op, rule, None);
        let assignment = self.choose(&problem).assignment;
        let mut locals = vec![];
        for (&v, dims) in problem.operands.iter().zip(&problem.rule.operands) {
            let layout = problem.layout(dims, &self.extents(v), &assignment, self.atoms);
            locals.push(self.get(v, &layout)?);
        }
        let mut layouts = vec![];
        let mut types = vec![];
        for (&r, dims) in problem.results.iter().zip(&problem.rule.results) {
            let layout = problem.layout(dims, &self.extents(r), &assignment, self.atoms);
            types.push(self.local_type(r, &layout)?);
            layouts.push(layout);
        }
        let copy = self.copy(op, &locals, types)?;
        self.reason = "the program says so".into();
        let kind = self.collective_kind(op);
        for &operand in &locals {
            let bytes = self.local.bytes(operand);
            self.record(kind.clone(), self.explicit_peers(op), bytes, copy);
        }
        self.register(op, copy, layouts);
        Ok(())
    }

    fn collective_kind(&self, op: OpId) -> CollectiveKind {
        let combine = self.src.body_of(op, 0).and_then(|b| Combine::of_body(self.src, b)).unwrap_or(Combine::Add);
        let OpKind::Collective(kind) = self.src.op(op).kind() else { return CollectiveKind::AllReduce(combine) };
        match kind {
            CollectiveOp::AllGather => CollectiveKind::AllGather,
            CollectiveOp::ReduceScatter => CollectiveKind::ReduceScatter(combine),
            CollectiveOp::AllToAll => CollectiveKind::AllToAll,
            CollectiveOp::RaggedAllToAll => CollectiveKind::RaggedAllToAll,
            CollectiveOp::CollectivePermute | CollectiveOp::CollectiveBroadcast => CollectiveKind::Permute,
            CollectiveOp::AllReduce | CollectiveOp::CollectiveReduce | CollectiveOp::CrossReplicaSum => {
                CollectiveKind::AllReduce(combine)
            }
        }
    }

    /// Group size, axes and share of senders of a collective that names its devices.
    fn explicit_peers(&self, op: OpId) -> Peers {
        let devices = self.atoms.mesh().device_count() as f64;
        let pairs = self.src.op(op).i64s("source_target_pairs").unwrap_or_default();
        let sending = pairs.chunks_exact(2).filter(|p| p[0] != p[1]).count() as f64;
        let group = group_size(self.src, self.src.op(op)).unwrap_or(1);
        Peers::Given { group, atoms: self.atoms_of_groups(op), share: sending / devices }
    }

    /// The atoms that groups written as axes are over; none if they are lists of devices, or axes of a mesh in another order.
    fn atoms_of_groups(&self, op: OpId) -> AtomList {
        let Some(Attr::GroupAxes(groups)) = self.src.op(op).attr("replica_groups") else { return AtomList::new() };
        let parts = Sharding { unreduced: groups.axes.clone(), ..Sharding::new(groups.mesh.clone(), vec![]) };
        let relation = self.meshes.relation(&parts, self.atoms);
        match &*relation {
            Relation::Other(other) if other.reordered.is_some() => AtomList::new(),
            _ => relation.atoms_of(&groups.axes, self.atoms).unwrap_or_default(),
        }
    }
}
