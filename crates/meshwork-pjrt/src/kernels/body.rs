//! What one turn of a loop computes for one element of each carried array, as a graph of scalars.
//!
//! Arrays have three dimensions here, `s`, `y` and `x`: a vector has `x` alone, a matrix rows `s` and columns `x`.
//! The element that is computed is at `i`; a node says where it reads relative to that.

use std::collections::HashMap;

use meshwork_ir::op::{BinaryOp, UnaryOp};
use meshwork_ir::{Direction, ElementType, ValueId};

/// A node of a body.
pub(crate) type Id = usize;

/// Nodes of a body that still becomes a kernel.
const MOST_NODES: usize = 4096;

/// A scalar.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Node {
    /// A number, by its bits.
    Const(u64),
    /// `i[dim] + offset`, brought back into the extent of the dimension if it wraps.
    Index { dim: usize, offset: i64, wraps: bool },
    /// The counter of the loop.
    Turn,
    /// The one element of an input.
    Scalar(usize),
    /// The element of a carried array at `i + offset`, in dimensions that wrap from the other end.
    Carried { array: usize, offset: [i64; 3], wraps: [bool; 3] },
    /// The element of an input at these indices.
    Held { input: usize, at: [Id; 3] },
    /// A function of one number.
    Unary(UnaryOp, Id),
    /// A function of two numbers.
    Binary(BinaryOp, Id, Id),
    /// A comparison.
    Compare(Direction, Id, Id),
    /// The second if the first holds, else the third.
    Select(Id, Id, Id),
    /// The number in the type of this node.
    Convert(Id),
}

/// An input of a kernel that a loop does not change.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Input {
    /// The value, of the loop's body or from outside of it.
    pub value: ValueId,
    pub dims: [i64; 3],
    pub elem: ElementType,
}

/// One turn of a loop.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Body {
    /// The extents of all carried arrays.
    pub dims: [i64; 3],
    /// The element types of the carried arrays.
    pub carried: Vec<ElementType>,
    pub inputs: Vec<Input>,
    nodes: Vec<(Node, ElementType)>,
    numbers: HashMap<(Node, ElementType), Id>,
    /// The next element of each carried array.
    pub results: Vec<Id>,
}

impl Body {
    /// A body without results.
    pub fn new(dims: [i64; 3], carried: Vec<ElementType>) -> Body {
        Body { dims, carried, inputs: vec![], nodes: vec![], numbers: HashMap::new(), results: vec![] }
    }

    /// The same arrays and inputs without nodes.
    pub fn emptied(&self) -> Body {
        Body { inputs: self.inputs.clone(), ..Body::new(self.dims, self.carried.clone()) }
    }

    /// Adds a node unless there is one like it; `None` if the body has become too large.
    pub fn add(&mut self, node: Node, elem: ElementType) -> Option<Id> {
        let key = (node, elem);
        if let Some(&id) = self.numbers.get(&key) {
            return Some(id);
        }
        let id = self.nodes.len();
        self.numbers.insert(key.clone(), id);
        self.nodes.push(key);
        (id < MOST_NODES).then_some(id)
    }

    /// A truth value.
    pub fn truth(&mut self, value: bool) -> Option<Id> {
        self.add(Node::Const(value.into()), ElementType::I1)
    }

    pub fn node(&self, id: Id) -> &Node {
        &self.nodes[id].0
    }

    pub fn elem(&self, id: Id) -> ElementType {
        self.nodes[id].1
    }

    /// Operands of a node.
    pub fn operands(&self, id: Id) -> Vec<Id> {
        match *self.node(id) {
            Node::Unary(_, a) | Node::Convert(a) => vec![a],
            Node::Binary(_, a, b) | Node::Compare(_, a, b) => vec![a, b],
            Node::Select(a, b, c) => vec![a, b, c],
            Node::Held { at, .. } => at.to_vec(),
            _ => vec![],
        }
    }

    /// The nodes that results depend on, operands first.
    pub fn live(&self) -> Vec<Id> {
        // Operands are added before what uses them.
        let mut is_live = vec![false; self.nodes.len()];
        self.results.iter().for_each(|&id| is_live[id] = true);
        for id in (0..self.nodes.len()).rev() {
            if is_live[id] {
                self.operands(id).into_iter().for_each(|o| is_live[o] = true);
            }
        }
        (0..self.nodes.len()).filter(|&id| is_live[id]).collect()
    }

    /// The integer that a node is, if it is a constant one.
    pub fn integer(&self, id: Id) -> Option<i64> {
        let &Node::Const(bits) = self.node(id) else { return None };
        let elem = self.elem(id);
        let unused = 64 - elem.bits().min(64) as u32;
        match elem {
            ElementType::I1 => Some(bits as i64),
            e if e.is_integer() && matches!(e.class(), meshwork_ir::ElementClass::Signed) => {
                Some((bits << unused) as i64 >> unused)
            }
            e if e.is_integer() => i64::try_from(bits).ok(),
            _ => None,
        }
    }

    /// How far the carried arrays are read before and behind `i`, per dimension.
    pub fn reach(&self) -> [(i64, i64); 3] {
        let mut reach = [(0, 0); 3];
        for id in self.live() {
            if let Node::Carried { offset, .. } = self.node(id) {
                for (r, &o) in reach.iter_mut().zip(offset) {
                    *r = (r.0.max(-o), r.1.max(o));
                }
            }
        }
        reach
    }

    /// Which dimensions are read beyond their ends, from the other one.
    pub fn periodic(&self) -> [bool; 3] {
        let mut periodic = [false; 3];
        for id in self.live() {
            if let Node::Carried { wraps, .. } = self.node(id) {
                (0..3).for_each(|d| periodic[d] |= wraps[d]);
            }
        }
        periodic
    }
}
