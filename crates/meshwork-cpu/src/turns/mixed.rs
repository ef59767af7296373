//! Values of a turn with lanes, of which something wants single lanes: a vector and each of its elements, as in `x[:, None] - x[None]`.
//!
//! A carry is in the state, where its lanes are as good as numbers. What a turn computes is written to a row of the state, and
//! read from there in the next stage (`code`).

use meshwork_ir::op::{BodyOp, ContractOp};
use meshwork_ir::{Def, Module, OpId, OpKind, ValueId};

use super::code::{Element, Place};
use super::elements::Expansion;
use super::expand::Expand;
use super::limit::is_outside;
use crate::fuse::Arithmetic;

/// Lanes that are read one by one: more are more than a tile of the interpreter, which runs calls that compiled code cannot do.
const MOST_LANES: i64 = 1024;

impl Expansion<'_, '_> {
    /// The dimension along which `value`, wanted without lanes and made by `op`, is computed: what varies from lane to lane is not
    /// computed lane by lane.
    pub(super) fn spread_from(&self, op: OpId, value: ValueId, lane: Option<usize>) -> Option<usize> {
        let computes = match self.module().op(op).kind() {
            OpKind::Unary(_) | OpKind::Binary(_) | OpKind::Mixed(_) => true,
            OpKind::Body(f) => f == BodyOp::Reduce,
            OpKind::Contract(f) => f == ContractOp::DotGeneral,
            _ => false,
        };
        let own = if lane.is_none() { self.lane_of(self.dims(value)) } else { None };
        own.filter(|_| computes && self.lanes <= MOST_LANES && self.varies(op))
    }

    /// Whether what `op` makes follows from a carry or an array with lanes.
    fn varies(&self, op: OpId) -> bool {
        let module = self.module();
        let mut seen = vec![];
        let mut open = vec![op];
        while let Some(op) = open.pop() {
            if seen.contains(&op) {
                continue;
            }
            seen.push(op);
            for &v in module.op(op).operands() {
                let has_lanes = self.lane_of(module.ty(v).dims()).is_some();
                match module.value(v).def() {
                    Def::Result(def, _) if !is_outside(module, v, self.turns.op) => open.push(def),
                    Def::Result(def, _) => {
                        if has_lanes && !is_fixed(module, def) {
                            return true;
                        }
                    }
                    Def::Arg(..) if has_lanes => return true,
                    Def::Arg(..) => {}
                }
            }
        }
        false
    }

    /// What is computed with lanes along `own`, as numbers.
    pub(super) fn as_numbers(&mut self, value: ValueId, own: usize) -> Option<Vec<Element>> {
        let elements = self.value(value, Some(own))?;
        let mut lists = vec![];
        for &element in elements.iter() {
            let (elem, row) = (self.code.ty(element).elem(), self.state.len());
            self.state.push((elem, true));
            lists.push(self.code.spread(element, row, elem, self.lanes as usize)?);
        }
        Some(self.in_order(value, own, |element, lane| lists[element][lane]))
    }

    /// The lanes of carry `i`, the argument `value`, as numbers.
    pub(super) fn carried_numbers(&mut self, value: ValueId, i: usize, own: usize) -> Option<Vec<Element>> {
        if self.lanes > MOST_LANES {
            return None;
        }
        self.value(value, Some(own))?;
        let first = self.carries.iter().find(|c| c.0 == i)?.1;
        let elem = self.elem(value)?;
        let places = self.in_order(value, own, |element, lane| Place::Lane(first + element, lane));
        places.into_iter().map(|place| self.code.load(place, elem, false)).collect()
    }

    /// What `of` says of each element and lane, in row-major order of the dimensions of `value`.
    fn in_order<T>(&self, value: ValueId, own: usize, of: impl Fn(usize, usize) -> T) -> Vec<T> {
        let dims = self.dims(value);
        let inner: i64 = dims[own + 1..].iter().product();
        let count: i64 = dims.iter().product();
        let at = |i: i64| {
            let (outer, lane) = (i / inner / dims[own], i / inner % dims[own]);
            of((outer * inner + i % inner) as usize, lane as usize)
        };
        (0..count).map(at).collect()
    }
}

/// Whether `op` always makes the same.
fn is_fixed(module: &Module, op: OpId) -> bool {
    matches!(module.op(op).kind(), OpKind::Source(_))
}
