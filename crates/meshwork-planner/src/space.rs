//! The space of a search: for each site and mesh axis, which dimension the axis splits, or that it splits none.

use std::sync::Arc;

use meshwork_ir::build::add_mesh;
use meshwork_ir::op::SdyOp;
use meshwork_ir::{Attr, Module, OpId, OpKind, OpSpec};
use meshwork_mesh::{AxisRef, DimSharding, Mesh, Sharding};

use crate::site::{Members, Site, SiteKind};

/// What a mesh axis does to the arrays of a site.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub enum Choice {
    /// As propagation finds.
    #[default]
    Free,
    /// Splits this dimension.
    Dim(u8),
    /// Splits none: each device along it holds the same.
    Whole,
}

/// One choice for each site and axis, axes of a site together.
pub type Assignment = Vec<Choice>;

/// A program as it is compiled for judging, with the members of each site in it.
#[derive(Clone)]
pub struct View {
    /// The program, calls inlined, its mesh declared.
    pub module: Module,
    /// By site.
    pub members: Vec<Members>,
}

/// What can be decided.
pub struct Space {
    /// The mesh.
    pub mesh: Mesh,
    /// What the program calls it.
    pub mesh_name: String,
    /// The sites.
    pub sites: Vec<Site>,
    /// Placements that are given, by site.
    pub fixed: Vec<Option<Sharding>>,
    /// By site and axis, what may be chosen; the first is what nothing more is said about.
    pub domains: Vec<Vec<Vec<Choice>>>,
    /// Whether splits have to be even.
    pub even_only: bool,
}

impl Space {
    /// Number of mesh axes.
    pub fn axes(&self) -> usize {
        self.mesh.axes().len()
    }

    /// The size of axis `axis`.
    pub fn size(&self, axis: usize) -> i64 {
        self.mesh.axes()[axis].size
    }

    /// Nothing decided.
    pub fn nothing(&self) -> Assignment {
        self.domains.iter().flatten().map(|domain| domain[0]).collect()
    }

    /// How many sites something is said about that is not given.
    pub fn annotated(&self, assignment: &[Choice]) -> usize {
        let is_said = |s: &usize| {
            let said = self.choices(assignment, *s).iter().zip(&self.domains[*s]);
            said.into_iter().any(|(choice, domain)| *choice != domain[0])
        };
        (0..self.sites.len()).filter(is_said).count()
    }

    /// The choices of `site`.
    pub fn choices<'a>(&self, assignment: &'a [Choice], site: usize) -> &'a [Choice] {
        &assignment[site * self.axes()..][..self.axes()]
    }

    /// Whether the axes on each dimension are not more than its extent, or divide it where splits have to be even.
    pub fn fits(&self, assignment: &[Choice]) -> bool {
        (0..self.sites.len()).all(|s| {
            let choices = self.choices(assignment, s);
            self.sites[s].dims().iter().enumerate().all(|(d, &extent)| {
                let on = choices.iter().enumerate().filter(|(_, c)| **c == Choice::Dim(d as u8));
                let parts: i64 = on.map(|(a, _)| self.size(a)).product();
                parts == 1 || (parts <= extent && (!self.even_only || extent % parts == 0))
            })
        })
    }

    /// How many assignments there are for arguments, products left free; saturates.
    pub fn argument_assignments(&self) -> u64 {
        let arguments = self.sites.iter().zip(&self.domains).filter(|(site, _)| site.kind != SiteKind::Product);
        arguments.flat_map(|(_, axes)| axes).fold(1, |n: u64, domain| n.saturating_mul(domain.len() as u64))
    }

    /// The annotation that the choices of a site amount to, if any: closed if every axis is decided; else open, with the axes
    /// that split nothing marked as replicated.
    pub fn sharding(&self, assignment: &[Choice], site: usize) -> Option<Sharding> {
        if let Some(fixed) = &self.fixed[site] {
            return Some(fixed.clone());
        }
        let choices = self.choices(assignment, site);
        if choices.iter().all(|&c| c == Choice::Free) {
            return None;
        }
        let axis = |a: usize| AxisRef::full(self.mesh.axes()[a].name.clone());
        let on = |wanted: Choice| (0..choices.len()).filter(move |&a| choices[a] == wanted).map(axis);
        let closed = !choices.contains(&Choice::Free);
        let dims = (0..self.sites[site].dims().len()).map(|d| DimSharding {
            axes: on(Choice::Dim(d as u8)).collect(),
            is_closed: closed,
            priority: None,
        });
        let mut sharding = Sharding::new(self.mesh_name.as_str(), dims);
        if !closed {
            sharding.replicated = on(Choice::Whole).collect();
        }
        Some(sharding)
    }
}

/// The results that take the place of annotated arguments.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Results {
    /// Are annotated as well.
    Annotated,
    /// Are left to propagation.
    Free,
}

/// `view` with the annotations that `assignment` amounts to.
pub fn annotate(view: &View, space: &Space, assignment: &[Choice], results: Results) -> Module {
    let mut module = view.module.clone();
    let Some(func) = module.entry() else { return module };
    for (site, members) in view.members.iter().enumerate() {
        let Some(sharding) = space.sharding(assignment, site) else { continue };
        let attr = Attr::Sharding(Arc::new(sharding));
        for &i in &members.arguments {
            module.set_arg_attr(func, i, "sdy.sharding", Some(attr.clone()));
        }
        if results == Results::Annotated {
            for &r in &members.results {
                module.set_res_attr(func, r, "sdy.sharding", Some(attr.clone()));
            }
        }
        for &v in &members.values {
            let Some(op) = module.def_op(v) else { continue };
            let spec = OpSpec::new(OpKind::Sdy(SdyOp::ShardingConstraint)).operands([v]);
            let spec = spec.results([module.ty(v).clone()]).loc(module.op(op).loc.clone());
            let constraint = module.create(spec.attr("sharding", attr.clone()));
            module.insert_after(op, constraint);
            let constrained = module.result(constraint);
            module.replace_uses_if(v, constrained, |_, used| used.op != constraint);
        }
    }
    module
}

/// Makes `mesh` the only mesh of `module`. Gives what the program calls it.
pub fn declare_mesh(module: &mut Module, mesh: &Mesh) -> String {
    let meshes = module.ops_in(module.body()).filter(|&op| module.op(op).kind() == SdyOp::Mesh);
    let found: Vec<(OpId, String)> =
        meshes.map(|op| (op, module.symbol_name(op).unwrap_or_default().to_string())).collect();
    let Some((op, name)) = found.into_iter().next() else {
        add_mesh(module, "mesh", mesh.clone());
        return "mesh".into();
    };
    module.op_mut(op).attrs.set("mesh", Attr::Mesh(Arc::new(mesh.clone())));
    name
}
