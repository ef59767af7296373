//! The placements of arguments and results, as rules give them, in the program.

use std::sync::Arc;

use meshwork_ir::{Attr, AttrDict, Module, OpId};
use meshwork_mesh::{Mesh, Sharding};

use super::{Donated, Jit, NamedArray};
use crate::Tensor;
use crate::error::{Error, JitError, Result};
use crate::function::Function;
use crate::rule::{Leaf, Rule};
use crate::spec::{MESH, P};

impl<A, F: Function<A>> Jit<F, A> {
    /// The placements that arguments, by number, are held to inside the program.
    pub(super) fn constraints_of(&self, leaves: &[NamedArray], mesh: Option<&Mesh>) -> Result<Vec<(usize, P)>> {
        let Some(rules) = self.constraints.as_ref().filter(|_| !self.single) else { return Ok(vec![]) };
        self.check_count("constrain", rules.len())?;
        let Some(mesh) = mesh else {
            return Err(JitError::NoMesh { options: "constrain needs" }.into());
        };
        check_names(rules, leaves)?;
        let mut constraints = vec![];
        for (i, (path, array)) in leaves.iter().enumerate() {
            let (rule, inside) = rule_for(rules, path);
            constraints.extend(rule.spec(&Leaf::new(inside, array.ty()), mesh)?.map(|spec| (i, spec)));
        }
        Ok(constraints)
    }

    /// The numbers of the arrays of donated arguments.
    pub(super) fn donated_of(&self, leaves: &[NamedArray]) -> Result<Vec<usize>> {
        if matches!(&self.donated, Donated::Arguments(numbers) | Donated::Members(numbers) if numbers.is_empty()) {
            return Ok(vec![]);
        }
        // The number of the argument or member that an array is part of.
        let number = |path: &str| match &self.donated {
            Donated::Arguments(_) => member(path).0,
            Donated::Members(_) => Some(member(member(path).1).0.unwrap_or(0)),
        };
        let (numbers, count) = match &self.donated {
            Donated::Arguments(numbers) => (numbers, F::COUNT),
            Donated::Members(numbers) => {
                let last = leaves.iter().filter_map(|(path, _)| number(path)).max();
                (numbers, last.map_or(0, |n| n + 1))
            }
        };
        if let Some(&number) = numbers.iter().find(|&&n| n >= count) {
            return Err(JitError::DonatedNumber { number, count }.into());
        }
        let given = |(_, (path, _)): &(usize, &NamedArray)| number(path).is_some_and(|n| numbers.contains(&n));
        Ok(leaves.iter().enumerate().filter(given).map(|(i, _)| i).collect())
    }

    pub(super) fn check_count(&self, option: &'static str, given: usize) -> Result<()> {
        if given == F::COUNT {
            return Ok(());
        }
        Err(JitError::RuleCount { option, given, wanted: F::COUNT, of: "arguments" }.into())
    }

    /// Writes the placements of arguments and results into the program.
    pub(super) fn place(
        &self,
        module: &mut Module,
        func: OpId,
        leaves: &[NamedArray],
        results: &[(String, Tensor)],
        mesh: &Mesh,
    ) -> Result<()> {
        let mut slots = Slots { mesh, placed: vec![] };
        self.place_arguments(module, func, leaves, &mut slots)?;
        self.place_results(module, func, results, &mut slots)
    }

    fn place_arguments(
        &self,
        module: &mut Module,
        func: OpId,
        leaves: &[NamedArray],
        placements: &mut Slots<'_>,
    ) -> Result<()> {
        if let Some(rules) = &self.ins {
            self.check_count("in_shardings", rules.len())?;
            check_names(rules, leaves)?;
        }
        let none = Attr::Dict(Arc::default());
        let mut slots = Vec::with_capacity(leaves.len());
        let mut placed = false;
        for (path, array) in leaves {
            let sharding = match &self.ins {
                None => array.placement().map(|p| {
                    // Another mesh over the same devices comes with the placement.
                    let mesh = if *p.mesh == *placements.mesh { MESH.into() } else { p.mesh.clone().into() };
                    slot(Sharding { mesh, ..p.sharding.clone() })
                }),
                Some(rules) => {
                    let (rule, inside) = rule_for(rules, path);
                    placements.by_rule("argument", path, rule, &Leaf::new(inside, array.ty()))?
                }
            };
            placed |= sharding.is_some();
            slots.push(sharding.unwrap_or_else(|| none.clone()));
        }
        if placed {
            module.op_mut(func).attrs.set("arg_attrs", Attr::Array(slots.into()));
        }
        Ok(())
    }

    fn place_results(
        &self,
        module: &mut Module,
        func: OpId,
        results: &[(String, Tensor)],
        placements: &mut Slots<'_>,
    ) -> Result<()> {
        let Some(rules) = &self.outs else { return Ok(()) };
        let members = results.iter().filter_map(|(path, _)| member(path).0).max();
        let count = members.map_or(1, |m| m + 1);
        if rules.len() != 1 && rules.len() != count {
            return Err(JitError::RuleCount {
                option: "out_shardings",
                given: rules.len(),
                wanted: count,
                of: "results",
            }
            .into());
        }
        for (number, rule) in rules.iter().enumerate().filter(|(_, rule)| rule.has_names()) {
            let inside = |path| if rules.len() == 1 { Some(path) } else { inside_of(number, path) };
            rule.check_names(&results.iter().filter_map(|(path, _)| inside(path)).collect::<Vec<_>>())?;
        }
        let none = Attr::Dict(Arc::default());
        let mut slots = Vec::with_capacity(results.len());
        let mut any = false;
        for (path, tensor) in results {
            let (rule, inside) = if rules.len() > 1 { rule_for(rules, path) } else { (&rules[0], path.as_str()) };
            let placed = placements.by_rule("result", path, rule, &Leaf::new(inside, &tensor.ty))?;
            any |= placed.is_some();
            slots.push(placed.unwrap_or_else(|| none.clone()));
        }
        if any {
            module.op_mut(func).attrs.set("res_attrs", Attr::Array(slots.into()));
        }
        Ok(())
    }
}

/// Every name that a rule has is that of an array of its argument.
fn check_names(rules: &[Rule], leaves: &[NamedArray]) -> Result<()> {
    for (number, rule) in rules.iter().enumerate().filter(|(_, rule)| rule.has_names()) {
        rule.check_names(&leaves.iter().filter_map(|(path, _)| inside_of(number, path)).collect::<Vec<_>>())?;
    }
    Ok(())
}

/// The path inside member `number`, if `path` leads there.
fn inside_of(number: usize, path: &str) -> Option<&str> {
    let (own, inside) = member(path);
    (own == Some(number)).then_some(inside)
}

/// The number that `path` starts with, and the path inside that member.
fn member(path: &str) -> (Option<usize>, &str) {
    match path.as_bytes() {
        // Most functions have few arguments.
        &[digit @ b'0'..=b'9', b'/', ..] => (Some(usize::from(digit - b'0')), &path[2..]),
        _ => {
            let (number, inside) = path.split_once('/').unwrap_or((path, ""));
            (number.parse().ok(), inside)
        }
    }
}

/// The rule for the array at `path`, which starts with the number of its argument, and the path inside that.
fn rule_for<'a>(rules: &'a [Rule], path: &'a str) -> (&'a Rule, &'a str) {
    let (number, inside) = member(path);
    (number.and_then(|n| rules.get(n)).unwrap_or(&Rule::Free), inside)
}

/// The attributes of an argument or result that is placed so.
fn slot(sharding: Sharding) -> Attr {
    let dict: AttrDict = [("sdy.sharding", Attr::Sharding(sharding.into()))].into_iter().collect();
    Attr::Dict(dict.into())
}

/// The attributes of arguments and results on a mesh. Most of them share a few placements, so each is made once.
struct Slots<'m> {
    mesh: &'m Mesh,
    placed: Vec<(P, usize, Attr)>,
}

impl Slots<'_> {
    /// The attributes of an array that `rule` places, if it does.
    fn by_rule(&mut self, kind: &str, path: &str, rule: &Rule, leaf: &Leaf<'_>) -> Result<Option<Attr>> {
        let Some(spec) = rule.placement(leaf, self.mesh)? else { return Ok(None) };
        let rank = leaf.shape.len();
        if let Some((_, _, slot)) = self.placed.iter().find(|(p, r, _)| *r == rank && *p == *spec) {
            return Ok(Some(slot.clone()));
        }
        let sharding = spec.sharding(MESH.into(), self.mesh, rank).map_err(|error| {
            let space = if path.is_empty() { "" } else { " " };
            let what = format!("{spec} for {kind}{space}{path} of shape {:?}", leaf.shape);
            Error::Sharding { what, error: error.into() }
        })?;
        let slot = slot(sharding);
        self.placed.push((spec.into_owned(), rank, slot.clone()));
        Ok(Some(slot))
    }
}
