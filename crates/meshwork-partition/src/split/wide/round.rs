//! The elements that the arrays of a turn hold: a turn can be written for any of them.

use std::rc::Rc;

use meshwork_ir::ValueId;
use meshwork_ir::hash::HashMap;

use super::exchange::Tiles;
use super::reach::{Along, Spans, WideLoop};

/// Elements `from .. to` of a line, counted from the first one of a shard's block.
pub type Elements = (i64, i64);

/// A turn that is being written, on arrays that hold some elements of each line.
pub struct Round<'p> {
    pub plan: &'p WideLoop,
    /// By line, what arrays of the loop hold at the start of the turn.
    pub held: Vec<Elements>,
    /// By value of the turn, what its local array holds of that. Others are not written, or where they are read.
    pub spans: Spans,
    /// Local arrays of the turn.
    pub values: HashMap<ValueId, ValueId>,
    /// Arrays of the loop that are not one local array.
    pub tiles: HashMap<ValueId, Tiles>,
    /// Arrays from outside, in the order of the plan.
    pub outside: Vec<Outside>,
}

/// An array from outside the loop.
pub enum Outside {
    /// As one local array, which holds what arrays of the loop hold.
    Whole(ValueId),
    /// In pieces.
    Tiles(Rc<Tiles>),
}

impl<'p> Round<'p> {
    /// Turns on arrays that hold as much more than their blocks as `turns` turns reach.
    pub fn wide(plan: &'p WideLoop, turns: i64) -> Round<'p> {
        let held: Vec<Elements> =
            plan.lines.iter().map(|l| (-turns * l.reach.0, l.block + turns * l.reach.1)).collect();
        let spans = plan.spans.clone();
        let (values, tiles) = (HashMap::default(), HashMap::default());
        Round { plan, held, spans, values, tiles, outside: vec![] }
    }

    /// The elements that an array holds; along a whole dimension, all `extent` of them.
    pub fn elements(&self, along: Along, extent: i64) -> Elements {
        match along {
            Along::Whole => (0, extent),
            Along::Line { line, lo, hi } => (self.held[line].0 + lo, self.held[line].1 + hi),
        }
    }

    pub fn dims(&self, extents: &[i64], along: &[Along]) -> Vec<i64> {
        let length = |(a, n): (&Along, &i64)| {
            let (from, to) = self.elements(*a, *n);
            to - from
        };
        along.iter().zip(extents).map(length).collect()
    }

    /// What an array holds that has exactly `elements` of each line.
    pub fn exactly(&self, along: Along, elements: &[Elements]) -> Along {
        match along {
            Along::Whole => Along::Whole,
            Along::Line { line, .. } => {
                let (held, (from, to)) = (self.held[line], elements[line]);
                Along::Line { line, lo: from - held.0, hi: to - held.1 }
            }
        }
    }
}
