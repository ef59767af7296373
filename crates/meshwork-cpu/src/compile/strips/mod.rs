//! Groups of operations that are run strip by strip: a few rows of a large intermediate matrix at a time.
//!
//! See `README.md` beside this file.

mod find;
mod height;
mod labels;
mod lower;
mod outline;
mod phases;
mod pull;
#[cfg(test)]
mod tests;

use meshwork_ir::hash::HashMap;
use meshwork_ir::transform::dead;
use meshwork_ir::{BlockId, Module, OpId, Walk};

use labels::Labels;

/// The axes that strips are cut along: first those of a stack of matrices, then those of their rows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Axes {
    /// Extents, all above 1.
    pub extents: Vec<i64>,
    /// How many are of the stack.
    pub stack: usize,
}

impl Axes {
    /// The axis whose positions a strip has several of.
    fn last(&self) -> usize {
        self.extents.len() - 1
    }

    /// Whether a value with these labels has a part for each position.
    fn all_in(&self, labels: &Labels) -> bool {
        (0..self.extents.len()).all(|a| labels.contains(&Some(a as u8)))
    }
}

/// A group that is run strip by strip. It stands in the module as one `sdy.named_computation`: its operands and results are
/// whole arrays, the arguments of its regions are parts of them. The first region is for a full strip; the second, if
/// there is one, for the last strip of the rows.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Strips {
    pub axes: Axes,
    /// Positions of the last axis in a strip.
    pub height: i64,
    /// The arguments of the regions.
    pub arguments: Vec<Argument>,
    pub outputs: Vec<Output>,
}

/// An argument of a region.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Argument {
    /// A part of the next operand, which is cut in these dimensions.
    Part(Labels),
    /// Where the strip begins along an axis, an `i32`.
    Position(u8),
}

/// A result of a group.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Output {
    /// Which of its dimensions are cut.
    pub labels: Labels,
    /// Whether it is the sum of what the strips give.
    pub sums: bool,
}

/// When groups are formed, and how large strips are.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Limits {
    /// Bytes of the product that a group begins with.
    pub least_bytes: i64,
    /// Bytes of a large value from which on it is computed again rather than kept for a later phase.
    pub recomputed_bytes: i64,
    /// Bytes of a strip of one large value: a few of them fit the second-level cache.
    pub strip_bytes: i64,
    /// Fewer rows read the other operand of a product too often, more are no faster.
    pub fewest_rows: i64,
    pub most_rows: i64,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            least_bytes: 48 << 20,
            recomputed_bytes: 48 << 20,
            strip_bytes: 512 << 10,
            fewest_rows: 16,
            most_rows: 120,
        }
    }
}

/// Finds the groups of a prepared function and puts one operation in the place of each.
pub(crate) fn outline(module: &mut Module, func: OpId, limits: &Limits) -> HashMap<OpId, Strips> {
    let mut out = HashMap::default();
    let has_large = |module: &Module, block: BlockId| module.ops_in(block).any(|op| find::is_seed(module, op, limits));
    let mut blocks: Vec<BlockId> = module.body_of(func, 0).into_iter().collect();
    for op in module.ops_below(func, Walk::PreOrder).into_iter().skip(1) {
        blocks.extend((0..module.op(op).regions().len()).filter_map(|i| module.body_of(op, i)));
    }
    for block in blocks {
        if has_large(module, block) {
            outline_block(module, block, limits, &mut out);
        }
    }
    if !out.is_empty() {
        dead::remove_dead(module);
    }
    out
}

fn outline_block(module: &mut Module, block: BlockId, limits: &Limits, out: &mut HashMap<OpId, Strips>) {
    for component in find::components(module, block, limits) {
        // Later phases first: what they compute again is no longer asked of earlier ones.
        let phases = phases::of(module, block, &component, limits);
        for phase in phases.into_iter().rev() {
            if let Some((op, strips)) = outline::phase(module, &component, &phase, limits) {
                out.insert(op, strips);
            }
        }
    }
}
