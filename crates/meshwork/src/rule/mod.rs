//! A rule: the placement of each array of a tree by its path, its shape and the mesh.

mod error;
mod fsdp;
mod list;
mod path;

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use meshwork_ir::{ElementType, TensorType};
use meshwork_mesh::Mesh;

pub use error::RuleError;
pub use fsdp::FsdpRule;
pub use list::Rules;
pub use path::{TreePathRule, Unmatched};

use crate::spec::P;

/// The placement of an array by its path and shape.
pub type Policy = dyn Fn(&str, &[i64]) -> Option<P> + Send + Sync;

/// How the arrays of one argument or result are placed.
#[derive(Clone)]
pub enum Rule {
    /// As propagation finds best.
    Free,
    /// The same for all.
    All(P),
    /// By path and shape: `None` leaves it to propagation.
    Policy(Arc<Policy>),
    /// As a rule of the user says; see [`ShardingRule`].
    Custom(Arc<dyn ShardingRule>),
    /// By the last step of the path.
    Names(Arc<ByName>),
    /// One dimension over one axis, by size.
    Fsdp(FsdpRule),
    /// By the first pattern that is found in the path.
    Paths(TreePathRule),
    /// What the first says, and what the second adds to it.
    And(Arc<Rule>, Arc<Rule>),
    /// By the first step of the path, which the chosen rule does not see.
    Fields(Arc<[(String, Rule)]>),
}

/// A rule of one's own: the placement of an array by its path, shape and element type, and by the mesh. [`Rule::by`] makes it one
/// that goes wherever a placement goes. A function of a [`Leaf`] is one too.
///
/// ```
/// use meshwork::prelude::*;
/// use meshwork::rules::{Leaf, RuleError, ShardingRule};
///
/// /// The last dimension over an axis, if it divides.
/// struct Columns(&'static str);
///
/// impl ShardingRule for Columns {
///     fn place(&self, leaf: &Leaf<'_>, mesh: &Mesh) -> Result<Option<P>, RuleError> {
///         let Some(size) = mesh.axis_size(self.0) else {
///             return Err(RuleError::Other { path: leaf.path.into(), why: format!("the mesh has no axis {:?}", self.0) });
///         };
///         let last = leaf.shape.last().filter(|&n| n % size == 0);
///         Ok(Some(last.map_or(P![], |_| P![].with_axis(leaf.shape.len() - 1, self.0))))
///     }
/// }
///
/// let f = jit(|w: Tensor, n: Tensor| (w * 2.0, n)).on(&Mesh::linear("x", 2)?);
/// // Floats by columns; integers, such as positions, are copied.
/// let floats = Rule::by(|leaf: &Leaf<'_>| (leaf.dtype == F32).then(|| P![_, "x"]));
/// let f = f.in_shardings((Rule::by(Columns("x")), floats));
/// let (w, _) = f.call((&Array::zeros([3, 4], F32), &Array::zeros([3, 4], I32)))?;
/// assert_eq!(w.shards()[1].slice, [0..3, 2..4]);
/// # Ok::<(), meshwork::Error>(())
/// ```
pub trait ShardingRule: Send + Sync {
    /// The placement of an array on `mesh`; `None` leaves it to propagation.
    fn place(&self, leaf: &Leaf<'_>, mesh: &Mesh) -> Result<Option<P>, RuleError>;

    /// What it adds to a placement that another rule has given the array; see [`Rule::and`]. Its own axes behind those of each
    /// dimension, unless it knows better.
    fn refine(&self, base: &P, leaf: &Leaf<'_>, mesh: &Mesh) -> Result<P, RuleError> {
        Ok(self.place(leaf, mesh)?.map_or(base.clone(), |more| base.merge(&more)))
    }
}

impl<F: Fn(&Leaf<'_>) -> Option<P> + Send + Sync> ShardingRule for F {
    fn place(&self, leaf: &Leaf<'_>, _: &Mesh) -> Result<Option<P>, RuleError> {
        Ok(self(leaf))
    }
}

/// Placements by the last step of a path; made by [`Rule::by_name`].
pub struct ByName {
    names: Vec<(String, P)>,
    others: P,
}

impl ByName {
    fn of(&self, path: &str) -> &P {
        let start = path.bytes().rposition(|b| b == b'/').map_or(0, |at| at + 1);
        let last = &path[start..];
        self.names.iter().find(|(name, _)| name == last).map_or(&self.others, |(_, spec)| spec)
    }

    /// The names, with their numbers, that none of these paths ends with.
    pub(crate) fn unused<'a>(&'a self, paths: &'a [&str]) -> impl Iterator<Item = (usize, &'a str)> {
        // Most names are those of one of the first arrays.
        let ends_with = |path: &str, name: &str| {
            path.strip_suffix(name).is_some_and(|before| before.is_empty() || before.ends_with('/'))
        };
        let names = self.names.iter().map(|(name, _)| name.as_str()).enumerate();
        names.filter(move |(_, name)| !paths.iter().any(|path| ends_with(path, name)))
    }
}

/// An array of a tree, as rules see it.
#[derive(Clone, Copy, Debug)]
pub struct Leaf<'a> {
    /// The steps to it, joined by `/`; empty for a tree that is an array.
    pub path: &'a str,
    /// Its extents.
    pub shape: &'a [i64],
    /// Its element type.
    pub dtype: ElementType,
}

impl<'a> Leaf<'a> {
    /// The array of type `ty` at `path`.
    pub fn new(path: &'a str, ty: &'a TensorType) -> Leaf<'a> {
        Leaf { path, shape: &ty.dims, dtype: ty.elem }
    }

    /// The number of elements.
    pub fn size(&self) -> i64 {
        self.shape.iter().product()
    }
}

impl Rule {
    /// The placement of an array on `mesh`; `None` leaves it to propagation.
    pub fn spec(&self, leaf: &Leaf<'_>, mesh: &Mesh) -> Result<Option<P>, RuleError> {
        Ok(self.placement(leaf, mesh)?.map(Cow::into_owned))
    }

    /// [`spec`](Rule::spec), borrowed where the rule holds it.
    pub(crate) fn placement(&self, leaf: &Leaf<'_>, mesh: &Mesh) -> Result<Option<Cow<'_, P>>, RuleError> {
        let held = match self {
            Rule::All(p) => p,
            Rule::Names(rule) => rule.of(leaf.path),
            _ => return Ok(self.made(leaf, mesh)?.map(|p| Cow::Owned(p.for_rank(leaf.shape.len())))),
        };
        Ok(Some(if held.is_elided() { Cow::Owned(held.for_rank(leaf.shape.len())) } else { Cow::Borrowed(held) }))
    }

    /// The placement that a rule makes for an array.
    fn made(&self, leaf: &Leaf<'_>, mesh: &Mesh) -> Result<Option<P>, RuleError> {
        match self {
            Rule::Free => Ok(None),
            Rule::All(_) | Rule::Names(_) => self.spec(leaf, mesh),
            Rule::Policy(f) => Ok(f(leaf.path, leaf.shape)),
            Rule::Custom(rule) => rule.place(leaf, mesh),
            Rule::Fsdp(rule) => rule.refine(&P::replicated(), leaf, mesh).map(Some),
            Rule::Paths(rule) => rule.spec(leaf, mesh),
            Rule::Fields(fields) => {
                let (step, inside) = leaf.path.split_once('/').unwrap_or((leaf.path, ""));
                match fields.iter().find(|(name, _)| name == step) {
                    Some((_, rule)) => rule.spec(&Leaf { path: inside, ..*leaf }, mesh),
                    None => Err(RuleError::NoField {
                        path: leaf.path.to_string(),
                        fields: fields.iter().map(|(name, _)| name.clone()).collect(),
                    }),
                }
            }
            Rule::And(first, second) => match (first.spec(leaf, mesh)?, &**second) {
                (None, second) => second.spec(leaf, mesh),
                (Some(base), second) => second.refine(base, leaf, mesh).map(Some),
            },
        }
    }

    /// Checks that every name of a [`by_name`](Rule::by_name) is that of an array, where `paths` are the paths of all
    /// arrays that the rule places: one that is misspelt would place nothing.
    pub fn check_names(&self, paths: &[&str]) -> Result<(), RuleError> {
        if paths.is_empty() {
            return Ok(());
        }
        match self {
            Rule::Free | Rule::All(_) | Rule::Policy(_) | Rule::Custom(_) | Rule::Fsdp(_) => Ok(()),
            Rule::Names(rule) => match rule.unused(paths).next() {
                None => Ok(()),
                Some((_, name)) => Err(RuleError::UnusedName {
                    name: name.to_string(),
                    paths: paths.iter().map(ToString::to_string).collect(),
                }),
            },
            Rule::Paths(rule) => rule.check_names(paths),
            Rule::And(first, second) => first.check_names(paths).and_then(|()| second.check_names(paths)),
            Rule::Fields(fields) => fields.iter().try_for_each(|(field, rule)| {
                let steps = paths.iter().map(|path| path.split_once('/').unwrap_or((*path, "")));
                let inside = steps.filter(|(step, _)| step == field).map(|(_, inside)| inside);
                rule.check_names(&inside.collect::<Vec<_>>())
            }),
        }
    }

    /// Whether [`check_names`](Rule::check_names) has anything to check.
    pub(crate) fn has_names(&self) -> bool {
        match self {
            Rule::Free | Rule::All(_) | Rule::Policy(_) | Rule::Custom(_) | Rule::Fsdp(_) => false,
            Rule::Names(_) | Rule::Paths(_) => true,
            Rule::And(first, second) => first.has_names() || second.has_names(),
            Rule::Fields(fields) => fields.iter().any(|(_, rule)| rule.has_names()),
        }
    }

    /// What this rule makes of an array that is already placed like `base`.
    fn refine(&self, base: P, leaf: &Leaf<'_>, mesh: &Mesh) -> Result<P, RuleError> {
        match self {
            Rule::Fsdp(rule) => rule.refine(&base, leaf, mesh),
            Rule::Custom(rule) => Ok(rule.refine(&base, leaf, mesh)?.for_rank(leaf.shape.len())),
            Rule::And(first, second) => second.refine(first.refine(base, leaf, mesh)?, leaf, mesh),
            Rule::Free | Rule::All(_) | Rule::Policy(_) | Rule::Names(_) | Rule::Paths(_) | Rule::Fields(_) => {
                Ok(self.spec(leaf, mesh)?.map_or(base.clone(), |more| base.merge(&more)))
            }
        }
    }

    /// This rule, and on the same array another one: its axes are added to those of each dimension, minor to them. A
    /// [`FsdpRule`] takes a dimension that this rule leaves whole if one divides, else splits one further.
    ///
    /// An axis that both put on one array is an error when the array is placed, except that a [`FsdpRule`] leaves an
    /// array alone that is split over its axis already.
    pub fn and(self, other: impl Into<Rule>) -> Rule {
        Rule::And(Arc::new(self), Arc::new(other.into()))
    }

    /// A rule for each member of a tuple.
    pub fn tuple<const N: usize>(rules: [Rule; N]) -> Rule {
        Rule::Fields(rules.into_iter().enumerate().map(|(i, rule)| (i.to_string(), rule)).collect())
    }

    /// A rule for each field of a struct or entry of a map; one that is not named is an error.
    pub fn fields<const N: usize>(rules: [(&str, Rule); N]) -> Rule {
        Rule::Fields(rules.into_iter().map(|(name, rule)| (name.to_string(), rule)).collect())
    }

    /// By a function of the path and the shape; with the element type, [`by`](Rule::by) a function of a [`Leaf`]. It sees scalars
    /// too.
    pub fn policy(f: impl Fn(&str, &[i64]) -> Option<P> + Send + Sync + 'static) -> Rule {
        Rule::Policy(Arc::new(f))
    }

    /// By a rule of one's own, or a function of a [`Leaf`].
    pub fn by(rule: impl ShardingRule + 'static) -> Rule {
        Rule::Custom(Arc::new(rule))
    }

    /// By the last step of the path: the first pair with that name. Others are replicated. A name that no array of the
    /// tree has is an error.
    ///
    /// ```
    /// use meshwork::prelude::*;
    ///
    /// let mesh = Mesh::linear("x", 2)?;
    /// let rule = Rule::by_name([("wieght", P!["x"])]);
    /// let params = [("weight".to_string(), Array::zeros([4], F32))].into_iter().collect();
    /// let f = jit(|p: std::collections::BTreeMap<String, Tensor>| p["weight"].sum_all());
    /// let error = f.on(&mesh).in_shardings([rule]).call(&params).unwrap_err().to_string();
    /// assert!(error.starts_with(r#"by_name places "wieght", but no array has this name; there are "weight""#));
    /// # Ok::<(), meshwork::Error>(())
    /// ```
    pub fn by_name<const N: usize>(names: [(&str, P); N]) -> Rule {
        let names = names.into_iter().map(|(name, spec)| (name.to_string(), spec)).collect();
        Rule::Names(Arc::new(ByName { names, others: P::replicated() }))
    }
}

impl From<P> for Rule {
    fn from(spec: P) -> Rule {
        Rule::All(spec)
    }
}

impl From<FsdpRule> for Rule {
    fn from(rule: FsdpRule) -> Rule {
        Rule::Fsdp(rule)
    }
}

impl From<TreePathRule> for Rule {
    fn from(rule: TreePathRule) -> Rule {
        Rule::Paths(rule)
    }
}

impl From<&Rule> for Rule {
    fn from(rule: &Rule) -> Rule {
        rule.clone()
    }
}

impl fmt::Debug for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Rule::Free => f.write_str("Free"),
            Rule::All(p) => write!(f, "All({p})"),
            Rule::Policy(_) => f.write_str("Policy(..)"),
            Rule::Custom(_) => f.write_str("Custom(..)"),
            Rule::Names(rule) => f.debug_map().entries(rule.names.iter().map(|(name, spec)| (name, spec))).finish(),
            Rule::Fsdp(rule) => write!(f, "{rule:?}"),
            Rule::Paths(rule) => write!(f, "{rule:?}"),
            Rule::Fields(fields) => write!(f, "Fields({fields:?})"),
            Rule::And(first, second) => write!(f, "{first:?}.and({second:?})"),
        }
    }
}
