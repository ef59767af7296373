//! A body for a part of the arrays: what is known about the indices there is decided beforehand.
//!
//! In the middle of an array every test of an index is decided, and nothing of the borders is left. For the whole array tests
//! stay, but what is chosen where one holds is looked at under that condition: a neighbor that is read where it exists needs
//! no test of its own.

use std::collections::HashMap;

use meshwork_ir::op::{BinaryOp, UnaryOp};
use meshwork_ir::{Direction, ElementType};

use super::body::{Body, Id, Node};

/// Indices from `.0` to before `.1`, per dimension.
pub(crate) type Region = [(i64, i64); 3];

/// All indices of arrays with these extents.
pub(crate) fn whole(dims: [i64; 3]) -> Region {
    dims.map(|n| (0, n))
}

/// `body` for elements in `region`; `None` if it becomes too large.
pub(crate) fn fold(body: &Body, region: Region) -> Option<Body> {
    let mut folder = Folder { from: body, to: body.emptied(), done: HashMap::new() };
    let results = body.results.iter().map(|&id| folder.fold(id, region)).collect::<Option<Vec<Id>>>()?;
    folder.to.results = results;
    Some(folder.to)
}

/// The largest region in which every test of an index has one outcome, and all that is read is inside its array.
pub(crate) fn middle(body: &Body) -> Region {
    let mut cuts: [Vec<i64>; 3] = body.dims.map(|n| vec![0, n]);
    let mut cut = |index: &Node, at: i64| {
        if let &Node::Index { dim, offset, wraps } = index {
            let n = body.dims[dim];
            let here = at - offset;
            cuts[dim].push(here);
            if wraps {
                cuts[dim].extend([here - n, here + n, -offset, n - offset, -n - offset]);
            }
        }
    };
    for id in body.live() {
        match *body.node(id) {
            Node::Compare(_, a, b) => {
                for (x, bound) in [(a, b), (b, a)] {
                    if let Some(c) = body.integer(bound) {
                        cut(body.node(x), c);
                        cut(body.node(x), c + 1);
                    }
                }
            }
            Node::Held { input, at } => {
                for (d, &index) in at.iter().enumerate() {
                    cut(body.node(index), 0);
                    cut(body.node(index), body.inputs[input].dims[d]);
                }
            }
            Node::Index { offset, wraps: true, .. } => cut(body.node(id), offset),
            _ => {}
        }
    }
    let mut region = whole(body.dims);
    for (d, cuts) in cuts.iter_mut().enumerate() {
        cuts.retain(|&c| (0..=body.dims[d]).contains(&c));
        cuts.sort_unstable();
        let largest = cuts.windows(2).max_by_key(|w| w[1] - w[0]);
        region[d] = largest.map_or((0, body.dims[d]), |w| (w[0], w[1]));
    }
    region
}

struct Folder<'a> {
    from: &'a Body,
    to: Body,
    done: HashMap<(Id, Region), Id>,
}

impl Folder<'_> {
    fn fold(&mut self, id: Id, region: Region) -> Option<Id> {
        if let Some(&done) = self.done.get(&(id, region)) {
            return Some(done);
        }
        let elem = self.from.elem(id);
        let folded = match self.from.node(id).clone() {
            Node::Index { dim, offset, wraps } => {
                let (offset, wraps) = self.unwrapped(dim, offset, wraps, region);
                self.to.add(Node::Index { dim, offset, wraps }, elem)?
            }
            Node::Carried { array, offset, mut wraps } => {
                // The distance stays: the place beside an array holds what is at its other end.
                (0..3).for_each(|d| wraps[d] &= self.unwrapped(d, offset[d], wraps[d], region) != (offset[d], false));
                self.to.add(Node::Carried { array, offset, wraps }, elem)?
            }
            Node::Held { input, at } => {
                let mut there = [0; 3];
                for (to, from) in there.iter_mut().zip(at) {
                    *to = self.fold(from, region)?;
                }
                self.to.add(Node::Held { input, at: there }, elem)?
            }
            Node::Unary(f, a) => {
                let a = self.fold(a, region)?;
                match (f, self.truth(a)) {
                    (UnaryOp::Not, Some(known)) => self.to.truth(!known)?,
                    _ => self.to.add(Node::Unary(f, a), elem)?,
                }
            }
            Node::Binary(f, a, b) => {
                let (a, b) = (self.fold(a, region)?, self.fold(b, region)?);
                self.binary(f, a, b, elem)?
            }
            Node::Compare(order, a, b) => {
                let (a, b) = (self.fold(a, region)?, self.fold(b, region)?);
                match self.decided(order, a, b, region) {
                    Some(known) => self.to.truth(known)?,
                    None => self.to.add(Node::Compare(order, a, b), elem)?,
                }
            }
            Node::Select(c, a, b) => {
                let c = self.fold(c, region)?;
                match self.truth(c) {
                    Some(true) => self.fold(a, region)?,
                    Some(false) => self.fold(b, region)?,
                    None => {
                        let a = self.fold(a, self.narrowed(c, region))?;
                        let b = self.fold(b, region)?;
                        if a == b { a } else { self.to.add(Node::Select(c, a, b), elem)? }
                    }
                }
            }
            Node::Convert(a) => {
                let a = self.fold(a, region)?;
                self.to.add(Node::Convert(a), elem)?
            }
            node @ (Node::Const(_) | Node::Turn | Node::Scalar(_)) => self.to.add(node, elem)?,
        };
        self.done.insert((id, region), folded);
        Some(folded)
    }

    /// The truth value that a node of the new body is, if it is known.
    fn truth(&self, id: Id) -> Option<bool> {
        match *self.to.node(id) {
            Node::Const(bits) if self.to.elem(id) == ElementType::I1 => Some(bits != 0),
            _ => None,
        }
    }

    fn binary(&mut self, f: BinaryOp, a: Id, b: Id, elem: ElementType) -> Option<Id> {
        match (f, self.truth(a), self.truth(b)) {
            (BinaryOp::And, Some(true), _) | (BinaryOp::Or, Some(false), _) => Some(b),
            (BinaryOp::And, _, Some(true)) | (BinaryOp::Or, _, Some(false)) => Some(a),
            (BinaryOp::And, Some(false), _) | (BinaryOp::And, _, Some(false)) => self.to.truth(false),
            (BinaryOp::Or, Some(true), _) | (BinaryOp::Or, _, Some(true)) => self.to.truth(true),
            _ => self.to.add(Node::Binary(f, a, b), elem),
        }
    }

    /// An index whose way round is known in `region` without it.
    fn unwrapped(&self, dim: usize, offset: i64, wraps: bool, region: Region) -> (i64, bool) {
        let (n, (low, high)) = (self.from.dims[dim], region[dim]);
        let inside = |by: i64| low + by >= 0 && high + by <= n;
        match [offset, offset - n, offset + n].into_iter().find(|&by| inside(by)) {
            Some(by) if wraps => (by, false),
            _ => (offset, wraps),
        }
    }

    /// What an index is at least and at most in `region`.
    fn range(&self, id: Id, region: Region) -> Option<(i64, i64)> {
        match *self.to.node(id) {
            Node::Index { dim, offset, wraps: false } => Some((region[dim].0 + offset, region[dim].1 - 1 + offset)),
            Node::Index { dim, .. } => Some((0, self.from.dims[dim] - 1)),
            _ => self.to.integer(id).map(|c| (c, c)),
        }
    }

    fn decided(&self, order: Direction, a: Id, b: Id, region: Region) -> Option<bool> {
        let ((a0, a1), (b0, b1)) = (self.range(a, region)?, self.range(b, region)?);
        // What the first says if it holds, else whether the second does.
        let known = |yes: bool, no: bool| (yes || no).then_some(yes);
        let less = known(a1 < b0, a0 >= b1);
        let greater = known(a0 > b1, a1 <= b0);
        let equal = known(a0 == a1 && b0 == b1 && a0 == b0, a1 < b0 || a0 > b1);
        match order {
            Direction::Lt => less,
            Direction::Ge => less.map(|l| !l),
            Direction::Gt => greater,
            Direction::Le => greater.map(|g| !g),
            Direction::Eq => equal,
            Direction::Ne => equal.map(|e| !e),
        }
    }

    /// The part of `region` in which `test` can hold.
    fn narrowed(&self, test: Id, mut region: Region) -> Region {
        match *self.to.node(test) {
            Node::Binary(BinaryOp::And, a, b) => {
                region = self.narrowed(a, region);
                self.narrowed(b, region)
            }
            Node::Compare(order, a, b) => {
                let (index, bound, order) = match (self.to.integer(a), self.to.integer(b)) {
                    (None, Some(c)) => (a, c, order),
                    (Some(c), None) => (b, c, turned(order)),
                    _ => return region,
                };
                let &Node::Index { dim, offset, wraps: false } = self.to.node(index) else { return region };
                let (low, high) = &mut region[dim];
                let c = bound - offset;
                match order {
                    Direction::Lt => *high = c.min(*high),
                    Direction::Le => *high = (c + 1).min(*high),
                    Direction::Gt => *low = (c + 1).max(*low),
                    Direction::Ge => *low = c.max(*low),
                    Direction::Eq => (*low, *high) = (c.max(*low), (c + 1).min(*high)),
                    Direction::Ne => {}
                }
                region
            }
            _ => region,
        }
    }
}

/// The comparison with its sides exchanged.
fn turned(order: Direction) -> Direction {
    match order {
        Direction::Lt => Direction::Gt,
        Direction::Le => Direction::Ge,
        Direction::Gt => Direction::Lt,
        Direction::Ge => Direction::Le,
        same => same,
    }
}
