//! By path: ordered regular expressions, the first that is found decides.

use std::fmt;

use meshwork_mesh::Mesh;
use regex_lite::Regex;

use super::{Leaf, Rule, RuleError};
use crate::spec::P;

/// What happens to an array that no pattern matches.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Unmatched {
    /// It is an error that names the path.
    #[default]
    Error,
    /// It is copied to every device.
    Replicate,
    /// Propagation decides.
    Free,
}

/// Places arrays by their paths: `layers/1/w`. The first pattern that is *found anywhere* in the path decides, so one
/// rule for parameters also places the state of an optimizer, whose paths contain those of the parameters. Scalars and
/// arrays of one element are replicated before any pattern is tried.
///
/// Patterns are not anchored: `w1` is also found in `w10`. [`lint`](crate::rules::lint) reports that; `/w1$` or `\bw1\b` avoid
/// it.
///
/// ```
/// use meshwork::prelude::*;
/// use meshwork::rules::{Leaf, TreePathRule, Unmatched};
///
/// let mesh = Mesh::linear("tp", 2)?;
/// let rule = TreePathRule::new([("attention/q$", P![_, "tp"]), ("embed", P!["tp"])])?;
/// let place = |rule: &TreePathRule, path: &str| {
///     Rule::from(rule.clone()).spec(&Leaf { path, shape: &[4, 4], dtype: F32 }, &mesh)
/// };
/// assert_eq!(place(&rule, "optimizer/mean/layers/0/attention/q")?, Some(P![_, "tp"]));
/// assert!(place(&rule, "bias").unwrap_err().to_string().starts_with("no pattern is found in the path \"bias\""));
/// assert_eq!(place(&rule.unmatched(Unmatched::Replicate), "bias")?, Some(P![]));
/// # Ok::<(), meshwork::Error>(())
/// ```
#[derive(Clone)]
pub struct TreePathRule {
    rules: Vec<(Regex, Rule)>,
    unmatched: Unmatched,
}

impl TreePathRule {
    /// Patterns with their rules, in order: a [`P`](struct@crate::P), or another rule.
    pub fn new<R: Into<Rule>>(rules: impl IntoIterator<Item = (&'static str, R)>) -> Result<TreePathRule, RuleError> {
        TreePathRule::from_patterns(rules.into_iter().map(|(pattern, rule)| (pattern.to_string(), rule.into())))
    }

    /// Patterns that are made at run time.
    pub fn from_patterns(rules: impl IntoIterator<Item = (String, Rule)>) -> Result<TreePathRule, RuleError> {
        let mut out = vec![];
        for (index, (pattern, rule)) in rules.into_iter().enumerate() {
            match Regex::new(&pattern) {
                Ok(regex) => out.push((regex, rule)),
                Err(e) => return Err(RuleError::Pattern { index, pattern, why: e.to_string() }),
            }
        }
        Ok(TreePathRule { rules: out, unmatched: Unmatched::Error })
    }

    /// What becomes of arrays that no pattern matches: by default an error.
    pub fn unmatched(mut self, unmatched: Unmatched) -> TreePathRule {
        self.unmatched = unmatched;
        self
    }

    /// The patterns, in order.
    pub fn patterns(&self) -> impl Iterator<Item = &str> {
        self.rules.iter().map(|(regex, _)| regex.as_str())
    }

    /// The rules whose patterns are found in a path, in order, each with where: the first decides.
    pub fn found(&self, path: &str) -> Vec<(usize, std::ops::Range<usize>)> {
        let find = |(i, (regex, _)): (usize, &(Regex, Rule))| Some((i, regex.find(path)?.range()));
        self.rules.iter().enumerate().filter_map(find).collect()
    }

    /// Whether an array is so small that it is copied before any pattern is tried.
    pub fn is_scalar(leaf: &Leaf<'_>) -> bool {
        leaf.shape.is_empty() || leaf.size() == 1
    }

    /// See [`Rule::check_names`].
    pub(super) fn check_names(&self, paths: &[&str]) -> Result<(), RuleError> {
        let decides = |path: &str| self.rules.iter().position(|(regex, _)| regex.is_match(path));
        self.rules.iter().enumerate().try_for_each(|(i, (_, rule))| {
            let own: Vec<&str> = paths.iter().copied().filter(|path| decides(path) == Some(i)).collect();
            rule.check_names(&own)
        })
    }

    pub(super) fn spec(&self, leaf: &Leaf<'_>, mesh: &Mesh) -> Result<Option<P>, RuleError> {
        if TreePathRule::is_scalar(leaf) {
            return Ok(Some(P::replicated()));
        }
        match (self.rules.iter().find(|(regex, _)| regex.is_match(leaf.path)), self.unmatched) {
            (Some((_, rule)), _) => rule.spec(leaf, mesh),
            (None, Unmatched::Replicate) => Ok(Some(P::replicated())),
            (None, Unmatched::Free) => Ok(None),
            (None, Unmatched::Error) => Err(RuleError::Unmatched {
                path: leaf.path.to_string(),
                shape: leaf.shape.to_vec(),
                patterns: self.patterns().map(String::from).collect(),
            }),
        }
    }
}

impl fmt::Debug for TreePathRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rules: Vec<(&str, &Rule)> = self.rules.iter().map(|(regex, rule)| (regex.as_str(), rule)).collect();
        write!(f, "TreePathRule({rules:?}, unmatched: {:?})", self.unmatched)
    }
}
