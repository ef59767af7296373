//! A linter for rules: what a rule does to a tree, and what looks wrong.

use std::fmt;

use meshwork_mesh::{Mesh, ceil_div};

use super::apply::{check_names, matched};
use super::{Leaf, Matched, Rule, RuleError, TreePathRule};
use crate::Array;
use crate::error::{Error, Result};
use crate::tree::{Tree, named_arrays};

/// A likely mistake in a rule.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Finding {
    /// No pattern is found in the path of an array.
    Unmatched {
        /// The array.
        path: String,
        /// The pattern nearest in spelling to a step of the path, if one is near.
        near: Option<String>,
    },
    /// A pattern is found in no path.
    Dead {
        /// Which pattern.
        index: usize,
        /// The pattern.
        pattern: String,
    },
    /// Every array that a pattern is found in is taken by an earlier one.
    Shadowed {
        /// Which pattern.
        index: usize,
        /// The pattern.
        pattern: String,
        /// The pattern that takes its first array.
        by: String,
        /// That array.
        path: String,
    },
    /// A pattern is found as a whole name in some paths, and inside a longer name in others: `w1` in `w10`.
    Unanchored {
        /// The pattern.
        pattern: String,
        /// A path where it is a whole name.
        whole: String,
        /// A path where it is inside a longer name.
        inside: String,
    },
    /// A large array is replicated.
    LargeReplicated {
        /// The array.
        path: String,
        /// Its bytes.
        bytes: i64,
    },
    /// A dimension is split into parts that do not divide it: the last ones are short or empty.
    Uneven {
        /// The array.
        path: String,
        /// The dimension.
        dim: usize,
        /// Its extent.
        extent: i64,
        /// The number of parts.
        parts: i64,
    },
    /// A name of a [`Rule::by_name`] that no array has.
    UnusedName {
        /// Which, and the paths of the arrays.
        why: String,
    },
    /// The placement is invalid: an axis that the mesh lacks, one used twice, too many dimensions.
    Invalid {
        /// The array.
        path: String,
        /// Why.
        why: String,
    },
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Finding::Unmatched { path, near: None } => write!(f, "unmatched: no pattern is found in {path}"),
            Finding::Unmatched { path, near: Some(near) } => {
                write!(f, "unmatched: no pattern is found in {path}; {near:?} comes near")
            }
            Finding::Dead { index, pattern } => write!(f, "dead: pattern {index}, {pattern:?}, is found in no path"),
            Finding::Shadowed { index, pattern, by, path } => {
                write!(
                    f,
                    "shadowed: pattern {index}, {pattern:?}, decides nothing; {path} is taken by {by:?} before it"
                )
            }
            Finding::Unanchored { pattern, whole, inside } => write!(
                f,
                "unanchored: {pattern:?} is meant for {whole} but also found in {inside}; anchor it, as in \
                 \"{pattern}$\" or \"\\b{pattern}\\b\""
            ),
            Finding::LargeReplicated { path, bytes } => {
                write!(f, "replicated: every device holds all {bytes} bytes of {path}")
            }
            Finding::Uneven { path, dim, extent, parts } => {
                let last = (extent - (parts - 1) * ceil_div(*extent, *parts)).max(0);
                write!(f, "uneven: dimension {dim} of {path}, {extent}, over {parts} parts leaves {last} for the last")
            }
            Finding::UnusedName { why } => write!(f, "dead: {why}"),
            Finding::Invalid { path, why } => write!(f, "invalid: {path}: {why}"),
        }
    }
}

/// What a rule does to a tree.
#[derive(Clone, PartialEq, Debug)]
pub struct Report {
    /// Likely mistakes.
    pub findings: Vec<Finding>,
    /// Each array with its placement; those without one are left out.
    pub leaves: Vec<Matched>,
    /// Bytes of all arrays together.
    pub total_bytes: i64,
    /// Bytes that a device holds of them.
    pub bytes_per_device: i64,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for leaf in &self.leaves {
            writeln!(f, "{leaf}")?;
        }
        writeln!(f, "{} bytes in all, {} per device", self.total_bytes, self.bytes_per_device)?;
        self.findings.iter().try_for_each(|finding| writeln!(f, "{finding}"))
    }
}

/// Arrays of this many bytes are large enough to ask why they are replicated.
const LARGE: i64 = 1 << 20;

/// Checks a rule against a tree: patterns that match nothing, decide nothing or probably match too much; arrays that
/// no pattern matches, that are large and replicated, or that do not divide; and the bytes per device.
///
/// ```
/// use meshwork::prelude::*;
/// use meshwork::rules::{TreePathRule, lint};
/// use std::collections::BTreeMap;
///
/// type Params = BTreeMap<String, Tensor>;
/// let names = ["w1", "w10", "bias"];
/// let params = names.iter().map(|n| (n.to_string(), Array::shape_only([8, 8], F32))).collect();
/// let rule = TreePathRule::new([("w1", P!["x"]), ("w10", P![_, "x"]), ("scale", P![])])?;
/// let report = lint::<Params>(&rule.into(), &params, &Mesh::linear("x", 4)?)?;
/// let text: Vec<String> = report.findings.iter().map(|f| f.to_string()).collect();
/// assert_eq!(text[0], "unmatched: no pattern is found in bias");
/// assert_eq!(text[1], "shadowed: pattern 1, \"w10\", decides nothing; w10 is taken by \"w1\" before it");
/// assert_eq!(text[2], "dead: pattern 2, \"scale\", is found in no path");
/// assert!(text[3].starts_with("unanchored: \"w1\" is meant for w1 but also found in w10"));
/// assert_eq!((report.total_bytes, report.bytes_per_device), (768, 128));
/// # Ok::<(), meshwork::Error>(())
/// ```
pub fn lint<T: Tree>(rule: &Rule, tree: &T::Host, mesh: &Mesh) -> Result<Report> {
    let arrays = named_arrays::<T>(tree);
    let mut report = Report { findings: vec![], leaves: vec![], total_bytes: 0, bytes_per_device: 0 };
    let mut patterns = vec![];
    collect_patterns(rule, &mut patterns);
    for (path, array) in &arrays {
        report.total_bytes += array.size() * array.dtype().storage_bytes() as i64;
        match matched(rule, path, array, mesh) {
            Ok(leaf) => {
                placement(&leaf, mesh, &mut report.findings);
                report.bytes_per_device += leaf.bytes_per_device;
                report.leaves.push(leaf);
            }
            Err(Error::Rule(RuleError::Unmatched { path, .. })) => {
                let near = patterns.iter().find_map(|p| nearest(p, &path));
                report.findings.push(Finding::Unmatched { path, near });
            }
            Err(e) => report.findings.push(Finding::Invalid { path: path.clone(), why: e.to_string() }),
        }
    }
    for rule in patterns {
        look_at_patterns(rule, &arrays, &mut report.findings);
    }
    if let Err(Error::Rule(e @ RuleError::UnusedName { .. })) = check_names(rule, &arrays) {
        report.findings.push(Finding::UnusedName { why: e.to_string() });
    }
    Ok(report)
}

fn collect_patterns<'a>(rule: &'a Rule, out: &mut Vec<&'a TreePathRule>) {
    match rule {
        Rule::Paths(paths) => out.push(paths),
        Rule::And(first, second) => {
            collect_patterns(first, out);
            collect_patterns(second, out);
        }
        Rule::Fields(_)
        | Rule::Free
        | Rule::All(_)
        | Rule::Policy(_)
        | Rule::Custom(_)
        | Rule::Names(_)
        | Rule::Fsdp(_) => {}
    }
}

fn placement(leaf: &Matched, mesh: &Mesh, findings: &mut Vec<Finding>) {
    let path = leaf.path.clone();
    let bytes = leaf.ty.dims.iter().product::<i64>() * leaf.ty.elem.storage_bytes() as i64;
    if leaf.spec.is_some() && leaf.sharding.has_no_axes() && bytes >= LARGE {
        findings.push(Finding::LargeReplicated { path: path.clone(), bytes });
    }
    for (dim, entry) in leaf.sharding.dims.iter().enumerate() {
        let (extent, parts) = (leaf.ty.dims[dim], entry.num_shards(mesh));
        if extent % parts != 0 {
            findings.push(Finding::Uneven { path: path.clone(), dim, extent, parts });
        }
    }
}

/// The pattern of `rule` that differs from a step of `path` by one letter.
fn nearest(rule: &TreePathRule, path: &str) -> Option<String> {
    let bare = |p: &str| p.trim_matches(['^', '$', '/']).to_string();
    let near = |a: &str, b: &str| {
        let prefix = a.bytes().zip(b.bytes()).take_while(|(x, y)| x == y).count();
        let (a, b) = (&a.as_bytes()[prefix..], &b.as_bytes()[prefix..]);
        let suffix = a.iter().rev().zip(b.iter().rev()).take_while(|(x, y)| x == y).count();
        prefix + suffix >= 2 && a.len().max(b.len()) - suffix <= 1
    };
    let steps: Vec<&str> = path.split('/').collect();
    rule.patterns()
        .find(|p| bare(p).rsplit('/').next().is_some_and(|p| steps.iter().any(|s| near(p, s))))
        .map(String::from)
}

/// A path, and which patterns are found where in it.
type Hits<'a> = (&'a str, Vec<(usize, std::ops::Range<usize>)>);

fn look_at_patterns(rule: &TreePathRule, arrays: &[(String, Array)], findings: &mut Vec<Finding>) {
    let patterns: Vec<&str> = rule.patterns().collect();
    let large = |(path, array): &&(String, Array)| !TreePathRule::is_scalar(&Leaf::new(path, array.ty()));
    let found: Vec<Hits<'_>> = arrays.iter().filter(large).map(|(path, _)| (path.as_str(), rule.found(path))).collect();
    for (index, &pattern) in patterns.iter().enumerate() {
        let pattern = pattern.to_string();
        let decides = found.iter().any(|(_, hits)| hits.first().is_some_and(|h| h.0 == index));
        let taken = found.iter().find(|(_, hits)| hits.iter().any(|h| h.0 == index));
        match taken {
            None => findings.push(Finding::Dead { index, pattern }),
            Some((path, hits)) if !decides => {
                let by = patterns[hits[0].0].to_string();
                findings.push(Finding::Shadowed { index, pattern, by, path: path.to_string() });
            }
            Some(_) => {}
        }
    }
    for (index, &pattern) in patterns.iter().enumerate() {
        let at = |whole: bool| {
            let hit =
                |(path, hits): &&Hits<'_>| hits.iter().any(|(i, range)| *i == index && is_whole(path, range) == whole);
            found.iter().find(hit).map(|(path, _)| path.to_string())
        };
        if let (Some(whole), Some(inside)) = (at(true), at(false)) {
            findings.push(Finding::Unanchored { pattern: pattern.to_string(), whole, inside });
        }
    }
}

/// Whether what was found neither starts nor ends inside a name.
fn is_whole(path: &str, range: &std::ops::Range<usize>) -> bool {
    let word = |c: char| c.is_alphanumeric() || c == '_';
    let cut = |a: Option<char>, b: Option<char>| a.is_some_and(word) && b.is_some_and(word);
    let (before, inside, after) = (&path[..range.start], &path[range.clone()], &path[range.end..]);
    !cut(before.chars().last(), inside.chars().next()) && !cut(inside.chars().last(), after.chars().next())
}
