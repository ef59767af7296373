//! Rules: the placements of whole trees, by path, by size or by a function.
//!
//! Wherever a placement goes, a [`Rule`] can go: for the arguments and results of a [`jit`](crate::jit), for what
//! enters a function ([`Jit::constrain`](crate::Jit::constrain)), for values inside one, named
//! ([`annotate`](crate::annotate)) or not ([`constrain`]).
//!
//! | | |
//! |---|---|
//! | [`Rule`] | the placement of each array of a tree by its path, shape and mesh |
//! | [`FsdpRule`] | one dimension over one axis, by size |
//! | [`TreePathRule`] | the first regular expression found in the path |
//! | [`ShardingRule`], [`Rule::by`] | a rule of one's own |
//! | [`Rule::and`] | two rules on one array: tensor parallel, then fully sharded |
//! | [`MeshHelper`] | a mesh, and functions with rules |
//! | [`match_sharding_rule`], [`match_rule_tree`], [`shard_tree`], [`gather_tree`] | a rule applied to arrays |
//! | [`lint`] | what a rule does to a tree: gaps, dead and shadowed patterns, bytes per device |
//!
//! ```
//! use meshwork::prelude::*;
//! use meshwork::rules::{FsdpRule, MeshHelper, TreePathRule};
//!
//! #[derive(Clone, Debug, Tree)]
//! struct Layer<T = Tensor> {
//!     w_in: T,
//!     w_out: T,
//! }
//!
//! let helper = MeshHelper::new(&[("fsdp", None), ("tp", Some(2))], 8)?;
//! // Columns then rows over `tp`, and what is left of each matrix over `fsdp`.
//! let rule = TreePathRule::new([("w_in$", P![_, "tp"]), ("w_out$", P!["tp"])])?;
//! let rule = Rule::from(rule).and(FsdpRule::new("fsdp").least(64));
//! let layer = Layer { w_in: Array::zeros([16, 32], F32), w_out: Array::zeros([32, 16], F32) };
//! let found = helper.match_rule::<Layer>(&rule, &layer)?;
//! assert_eq!(found[0].to_string(), r#"w_in f32[16, 32]: P!["fsdp", "tp"], 256 bytes per device"#);
//! assert_eq!(found[1].to_string(), r#"w_out f32[32, 16]: P!["tp", "fsdp"], 256 bytes per device"#);
//! # Ok::<(), meshwork::Error>(())
//! ```

mod apply;
mod helper;
mod lint;

pub use apply::{Matched, constrain, gather_tree, match_rule_tree, match_sharding_rule, shard_tree};
pub use helper::MeshHelper;
pub use lint::{Finding, Report, lint};

pub use crate::rule::{ByName, FsdpRule, Leaf, Policy, Rule, RuleError, ShardingRule, TreePathRule, Unmatched};
