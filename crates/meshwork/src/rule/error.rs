//! Why a rule has no placement for an array.

use thiserror::Error;

/// Why a rule has no placement for an array.
#[derive(Clone, PartialEq, Eq, Error)]
pub enum RuleError {
    /// A pattern is not a regular expression.
    #[error("the pattern {pattern:?} of rule {index} is not a regular expression: {why}")]
    Pattern {
        /// Which rule.
        index: usize,
        /// Its pattern.
        pattern: String,
        /// What is wrong with it.
        why: String,
    },
    /// No pattern is found in a path.
    #[error(
        "no pattern is found in the path {path:?} of an array of shape {shape:?}; tried {patterns:?}. Add a pattern for \
         it, or .unmatched(Unmatched::Replicate)"
    )]
    Unmatched {
        /// The path.
        path: String,
        /// The shape of the array.
        shape: Vec<i64>,
        /// The patterns.
        patterns: Vec<String>,
    },
    /// A name that no array has.
    #[error("by_name places {name:?}, but no array has this name; there are {}", some(.paths))]
    UnusedName {
        /// The name.
        name: String,
        /// The paths of the arrays.
        paths: Vec<String>,
    },
    /// No rule for a field.
    #[error("there are rules for the fields {fields:?}, but none for {path:?}")]
    NoField {
        /// The path.
        path: String,
        /// The fields that there are rules for.
        fields: Vec<String>,
    },
    /// What a rule of the user says.
    #[error("no placement for {path:?}: {why}")]
    Other {
        /// The path.
        path: String,
        /// Why it has none.
        why: String,
    },
    /// The mesh lacks the axis of a rule.
    #[error("the mesh has no axis {axis:?}; it has {has:?}")]
    UnknownAxis {
        /// The axis of the rule.
        axis: String,
        /// The axes of the mesh.
        has: Vec<String>,
    },
    /// The number of parts of a rule is not one that the mesh can make.
    #[error(
        "a rule is for {parts} parts over the axis {axis:?}, which has {size} devices; give a multiple of it, or none"
    )]
    Parts {
        /// The axis.
        axis: String,
        /// The number of parts given.
        parts: i64,
        /// The size of the axis.
        size: i64,
    },
}

meshwork_mesh::debug_as_display!(RuleError);

/// A few of many paths, in quotes.
fn some(paths: &[String]) -> String {
    let shown = paths.iter().take(8).map(|p| format!("{p:?}")).collect::<Vec<_>>().join(", ");
    if paths.len() > 8 { format!("{shown} and {} more", paths.len() - 8) } else { shown }
}
