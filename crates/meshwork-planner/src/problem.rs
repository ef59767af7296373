//! A program on one mesh as a problem: its sites, their domains under the constraints, and what compiling needs.

use std::collections::BTreeMap;

use meshwork_ir::op::SdyOp;
use meshwork_ir::transform::inline::inline_all;
use meshwork_ir::transform::tuples;
use meshwork_ir::{Attr, Module, OpId, OpKind, Walk};
use meshwork_mesh::{Mesh, Sharding, parse_sharding};
use meshwork_partition::mesh_of;
use meshwork_propagate::import::{has_gspmd, import_gspmd};

use crate::colours::{Census, Colours, census};
use crate::constraint::{Constraint, Forbidden};
use crate::error::PlannerError;
use crate::found::dims as dims_text;
use crate::site::{Layers, Members, Site, SiteKind, argument_names, sites};
use crate::space::{Choice, Space, View, declare_mesh};

/// What becomes of the annotations that a program has.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Annotated {
    /// Closed ones hold, open ones are where the search starts.
    #[default]
    Kept,
    /// They are dropped.
    Dropped,
}

/// A program in the form in which it is searched.
pub struct Base {
    /// Calls inlined.
    pub module: Module,
    /// The names of its arguments.
    pub names: Vec<String>,
    func: OpId,
    annotated: Annotated,
}

/// A problem: a program on a mesh.
pub struct Problem {
    /// The space.
    pub space: Space,
    /// The program.
    pub whole: View,
    /// What colours take part in.
    pub census: Census,
    /// Whether the annotations that the program had were dropped.
    pub is_fresh: bool,
}

impl Base {
    /// The form of `module` in which it is searched.
    pub fn of(module: &Module, annotated: Annotated) -> Result<Base, PlannerError> {
        let mut base = module.clone();
        if has_gspmd(&base) {
            let mut diagnostics = vec![];
            if import_gspmd(&mut base, &mut diagnostics).is_err() {
                let text: Vec<String> = diagnostics.iter().map(ToString::to_string).collect();
                return Err(PlannerError::Compile(text.join("; ")));
            }
        }
        tuples::forward(&mut base);
        inline_all(&mut base);
        if annotated == Annotated::Dropped {
            drop_annotations(&mut base);
        }
        let func = base.entry().ok_or(PlannerError::NoEntry)?;
        let names = argument_names(&base, func);
        Ok(Base { module: base, names, func, annotated })
    }

    /// The mesh that the program brings.
    pub fn mesh(&self) -> Option<Mesh> {
        mesh_of(&self.module).map(|(_, mesh)| mesh)
    }

    /// The annotation of argument `i`.
    fn annotation(&self, i: usize) -> Option<&Sharding> {
        self.module.arg_attr(self.func, i, "sdy.sharding").and_then(Attr::as_sharding)
    }

    fn has_annotations(&self) -> bool {
        let constraint = |op: OpId| {
            self.module.op(op).kind() == SdyOp::ShardingConstraint || self.module.op(op).attr("sdy.sharding").is_some()
        };
        (0..self.names.len()).any(|i| self.annotation(i).is_some()) || self.module.op_ids().any(constraint)
    }

    /// The problem on `mesh`.
    pub fn on(&self, mesh: &Mesh, constraints: &[Constraint], layers: Layers) -> Result<Problem, PlannerError> {
        if let Some(own) = self.mesh().filter(|own| own != mesh && self.has_annotations()) {
            return Err(PlannerError::OtherMesh { own: own.to_string(), wanted: mesh.to_string() });
        }
        let mut module = self.module.clone();
        let mesh_name = declare_mesh(&mut module, mesh);
        let given = self.given(constraints, mesh, &mesh_name)?;
        let mut colours = Colours::of(&module);
        let (sites, members) = sites(&module, &mut colours, layers, &given.class);
        let census = census(&module, &colours);
        let even_only = constraints.contains(&Constraint::EvenOnly);
        let fixed: Vec<Option<Sharding>> =
            members.iter().map(|m| m.arguments.first().and_then(|&i| given.fixed[i].clone())).collect();
        let domains = (0..sites.len())
            .map(|s| domains(&sites[s], &members[s], mesh, fixed[s].is_some(), even_only, &given))
            .collect();
        let space = Space { mesh: mesh.clone(), mesh_name, sites, fixed, domains, even_only };
        let is_fresh = self.annotated == Annotated::Dropped;
        Ok(Problem { space, whole: View { module, members }, census, is_fresh })
    }

    /// What the constraints and the program's own annotations say about each argument.
    fn given(&self, constraints: &[Constraint], mesh: &Mesh, mesh_name: &str) -> Result<Given, PlannerError> {
        let count = self.names.len();
        let mut given = Given {
            fixed: vec![None; count],
            by: vec![String::new(); count],
            forbidden: vec![vec![]; count],
            class: vec![String::new(); count],
        };
        let rank = |i: usize| self.module.func_type(self.func).inputs[i].rank().unwrap_or(0);
        for i in 0..count {
            if let Some(own) = self.annotation(i) {
                given.class[i] = own.to_string();
                if own.dims.iter().all(|d| d.is_closed) && !own.dims.is_empty() {
                    given.fixed[i] = Some(own.clone());
                    given.by[i] = "its annotation".into();
                }
            }
        }
        for constraint in constraints {
            let matched = constraint.matched(&self.names)?;
            let misfit = |why: String| PlannerError::Misfit { constraint: constraint.to_string(), why };
            match constraint {
                Constraint::Fix { spec, .. } => {
                    for &i in matched.iter().filter(|&&i| rank(i) > 0) {
                        let sharding = spec
                            .sharding(mesh_name.into(), mesh, rank(i))
                            .map_err(|e| misfit(format!("{}: {e}", self.names[i])))?;
                        given.fix(i, sharding, constraint, &self.names)?;
                    }
                }
                Constraint::Forbid { what, .. } => {
                    match what {
                        Forbidden::Axis(axis) if mesh.axis_index(axis).is_none() => {
                            return Err(misfit(format!("{mesh} has no axis {axis}")));
                        }
                        Forbidden::Dim(d) if matched.iter().all(|&i| *d >= rank(i)) => {
                            let most = matched.iter().map(|&i| rank(i)).max().unwrap_or(0);
                            let first = &self.names[matched[0]];
                            return Err(misfit(format!("{first} has {most} dimensions, counted from 0")));
                        }
                        _ => {}
                    }
                    for &i in &matched {
                        given.class[i] += &format!(";{what:?}");
                        given.forbidden[i].push(what.clone());
                    }
                }
                Constraint::KeepLock { lock, .. } => self.keep(lock, &matched, constraint, mesh_name, &mut given)?,
                Constraint::Tie { .. } | Constraint::Memory(_) | Constraint::Contract(_) | Constraint::EvenOnly => {}
            }
        }
        for constraint in constraints {
            match constraint {
                Constraint::Tie { .. } => self.tie(constraint, &mut given)?,
                Constraint::Forbid { what, .. } => {
                    let matched = constraint.matched(&self.names)?;
                    given.check_forbidden(what, &matched, constraint, &self.names)?;
                }
                Constraint::EvenOnly => self.check_even(&given, constraint, mesh)?,
                _ => {}
            }
        }
        Ok(given)
    }

    /// It is an error if an argument is placed so that its parts are not equal.
    fn check_even(&self, given: &Given, constraint: &Constraint, mesh: &Mesh) -> Result<(), PlannerError> {
        let types = &self.module.func_type(self.func).inputs;
        for (i, sharding) in given.fixed.iter().enumerate() {
            for (dim, &extent) in sharding.iter().flat_map(|s| &s.dims).zip(types[i].dims()) {
                let parts: i64 = dim.axes.iter().map(|axis| axis.size(mesh)).product();
                if parts > 1 && extent % parts != 0 {
                    let why =
                        format!("{extent} elements make no {parts} equal parts: {}", given.placed(i, &self.names));
                    return Err(PlannerError::Misfit { constraint: constraint.to_string(), why });
                }
            }
        }
        Ok(())
    }

    /// Puts the arguments of a tie into one class, whatever their types and colours, with those that they were tied to before. What is
    /// fixed for one of them is for all.
    fn tie(&self, constraint: &Constraint, given: &mut Given) -> Result<(), PlannerError> {
        let matched = constraint.matched(&self.names)?;
        let rank = |i: usize| self.module.func_type(self.func).inputs[i].rank().unwrap_or(0);
        let ranks: Vec<usize> = matched.iter().map(|&i| rank(i)).collect();
        if ranks.windows(2).any(|pair| pair[0] != pair[1]) {
            let why = format!("the arguments have different ranks: {ranks:?}");
            return Err(PlannerError::Misfit { constraint: constraint.to_string(), why });
        }
        let before: Vec<String> =
            matched.iter().map(|&i| given.class[i].clone()).filter(|c| c.starts_with('=')).collect();
        let tied: Vec<usize> =
            (0..given.class.len()).filter(|i| matched.contains(i) || before.contains(&given.class[*i])).collect();
        let fixed = tied.iter().find_map(|&i| given.fixed[i].clone());
        for &i in &tied {
            if let Some(sharding) = &fixed {
                given.fix(i, sharding.clone(), constraint, &self.names)?;
            }
            given.class[i] = format!("={constraint}");
        }
        Ok(())
    }

    /// Fixes all arguments but those `except` as `lock` records them.
    fn keep(
        &self,
        lock: &meshwork_partition::Lock,
        except: &[usize],
        constraint: &Constraint,
        mesh_name: &str,
        given: &mut Given,
    ) -> Result<(), PlannerError> {
        let facts: BTreeMap<&str, &str> = lock.facts().iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
        for i in (0..self.names.len()).filter(|i| !except.contains(i)) {
            let misfit = |why: String| PlannerError::Misfit { constraint: constraint.to_string(), why };
            let Some(fact) = facts.get(format!("argument {i}").as_str()) else {
                return Err(misfit(format!("the lock file has no argument {i}")));
            };
            let dims = fact.split_once(' ').map_or("[]", |(_, dims)| dims);
            let sharding = parse_sharding(&format!("<@{mesh_name}, {dims}>"))
                .map_err(|e| misfit(format!("argument {i}: '{fact}': {e}")))?;
            if !sharding.dims.is_empty() {
                given.fix(i, sharding.closed(), constraint, &self.names)?;
            }
        }
        Ok(())
    }
}

struct Given {
    /// By argument.
    fixed: Vec<Option<Sharding>>,
    /// What fixed it.
    by: Vec<String>,
    forbidden: Vec<Vec<Forbidden>>,
    /// Arguments about which the same is said have equal ones.
    class: Vec<String>,
}

impl Given {
    /// Places argument `i` so. It is an error if something else places it in another way.
    fn fix(
        &mut self,
        i: usize,
        sharding: Sharding,
        constraint: &Constraint,
        names: &[String],
    ) -> Result<(), PlannerError> {
        match &self.fixed[i] {
            Some(other) if other.dims.iter().map(|d| &d.axes).ne(sharding.dims.iter().map(|d| &d.axes)) => {
                Err(self.contradiction(i, constraint, names))
            }
            Some(_) => Ok(()),
            None => {
                self.class[i] += &format!(";{sharding}");
                self.by[i] = constraint.to_string();
                self.fixed[i] = Some(sharding);
                Ok(())
            }
        }
    }

    /// It is an error if one of `matched` is placed as it must not be.
    fn check_forbidden(
        &self,
        what: &Forbidden,
        matched: &[usize],
        constraint: &Constraint,
        names: &[String],
    ) -> Result<(), PlannerError> {
        let breaks = |sharding: &Sharding| match what {
            Forbidden::Axis(axis) => sharding.dim_axes().any(|own| *own.name == **axis),
            Forbidden::Dim(d) => sharding.dims.get(*d).is_some_and(|dim| !dim.axes.is_empty()),
        };
        match matched.iter().find(|&&i| self.fixed[i].as_ref().is_some_and(breaks)) {
            Some(&i) => Err(self.contradiction(i, constraint, names)),
            None => Ok(()),
        }
    }

    fn contradiction(&self, i: usize, constraint: &Constraint, names: &[String]) -> PlannerError {
        PlannerError::Misfit { constraint: constraint.to_string(), why: self.placed(i, names) }
    }

    /// Says how argument `i` is placed, and that this and something else cannot both be.
    fn placed(&self, i: usize, names: &[String]) -> String {
        let placed = self.fixed[i].as_ref().map_or(String::new(), dims_text);
        format!("{} is placed as {placed} by {}; leave out one of the two", names[i], self.by[i])
    }
}

/// What may be chosen for `site` along each axis.
fn domains(
    site: &Site,
    members: &Members,
    mesh: &Mesh,
    is_fixed: bool,
    even_only: bool,
    given: &Given,
) -> Vec<Vec<Choice>> {
    let forbidden: Vec<&Forbidden> = members.arguments.iter().flat_map(|&i| &given.forbidden[i]).collect();
    let axes = mesh.axes().iter().map(|axis| {
        let mut domain = vec![Choice::Free];
        if is_fixed {
            return domain;
        }
        let is_forbidden = |what: &Forbidden| matches!(what, Forbidden::Axis(name) if **name == *axis.name);
        if forbidden.iter().any(|what| is_forbidden(what)) {
            // Left free, propagation could split it.
            return vec![Choice::Whole];
        }
        for (d, &extent) in site.dims().iter().enumerate() {
            let fits = extent >= axis.size && axis.size > 1 && (!even_only || extent % axis.size == 0);
            if fits && !forbidden.iter().any(|what| **what == Forbidden::Dim(d)) {
                domain.push(Choice::Dim(d as u8));
            }
        }
        if forbidden.iter().any(|what| matches!(what, Forbidden::Dim(_))) {
            // Left free, propagation could split that dimension.
            domain[0] = Choice::Whole;
        } else if site.kind != SiteKind::Product {
            domain.push(Choice::Whole);
        }
        domain
    });
    axes.collect()
}

/// Takes the placements out of a program.
fn drop_annotations(module: &mut Module) {
    for op in module.all_ops(Walk::PreOrder) {
        module.op_mut(op).attrs.remove("sdy.sharding");
        if module.op(op).kind() == OpKind::Sdy(SdyOp::ShardingConstraint) {
            let operand = module.op(op).operands()[0];
            module.replace_op(op, &[operand]);
        }
    }
    for func in module.funcs().collect::<Vec<_>>() {
        module.retain_slot_attrs(func, |name| name != "sdy.sharding");
    }
}
