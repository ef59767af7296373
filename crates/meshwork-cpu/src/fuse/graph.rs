//! The arithmetic of one box as a graph without repetitions, folded where the bounds of the box decide.

use meshwork_ir::ElementType;
use meshwork_ir::hash::HashMap;

use super::numbers::{Arithmetic, bits, is_float, lane, limits};
use super::range;
use crate::kernel::ir::{BinaryOp, Cmp, Combine, Ty, UnaryOp};
use crate::library::Number;
use crate::step::Buf;

/// Names a node: its place in the graph, after those it uses.
pub(crate) type Id = u32;

/// How far an array is moved when it runs: the number is not known before.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Moved {
    pub by: Number,
    /// Where each row is moved by a number of its own: bytes from one number to the next along each dimension of the domain, or each outer
    /// loop. Otherwise nothing.
    pub along: Vec<i64>,
    /// The number is taken for 0 below it, and for this above it.
    pub most: i64,
    /// Bytes.
    pub stride: i64,
}

/// An array of the box: the element at domain position `i` is at byte `offset + Σ i[d] * strides[d]` of the buffer, and
/// further on where it is moved.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Place {
    pub moved: Vec<Moved>,
    pub buf: Buf,
    pub elem: ElementType,
    pub offset: i64,
    pub strides: Vec<i64>,
    /// Whether each element of it that is wanted is at a place of its own, counted from there.
    pub picked: bool,
}

impl Place {
    /// Whether rows of it are moved by numbers of their own.
    pub fn is_listed(&self) -> bool {
        self.moved.iter().any(|m| !m.along.is_empty())
    }
}

/// What a node computes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Node {
    Const(u64),
    /// An element of place number `0`.
    Load(u32),
    /// The element `1` bytes after place number `0`.
    Pick(u32, Id),
    /// The value of position number `0`.
    Index(u32),
    Unary(UnaryOp, Id),
    Binary(BinaryOp, Id, Id),
    Compare(Cmp, Id, Id),
    Select(Id, Id, Id),
    Convert(Id),
    Bitcast(Id),
    Round(ElementType, Id),
    /// Over the dimensions of the row.
    Reduce(Combine, Id),
}

/// What is known of a node.
#[derive(Clone, Debug)]
pub(crate) struct Info {
    pub node: Node,
    pub ty: Ty,
    /// Dimensions of the domain that it depends on.
    pub mask: u32,
    /// Number of reductions one after the other that it waits for.
    pub level: u16,
    range: Option<(i64, i64)>,
    /// `coef * i[dim] + base`, for integers that are this.
    line: Option<super::affine::Lin>,
}

/// The graph of one box.
#[derive(Debug, Default)]
pub(crate) struct Graph {
    pub nodes: Vec<Info>,
    pub places: Vec<Place>,
    /// Coefficients per dimension of the domain, and base.
    pub positions: Vec<(Vec<i64>, i64)>,
    known: HashMap<(Node, Ty), Id>,
    /// Dimensions that reductions run over.
    pub row_mask: u32,
    /// The box: positions `lo..hi`.
    pub lo: Vec<i64>,
    pub hi: Vec<i64>,
}

impl Graph {
    /// Nothing yet, for the box `lo..hi`; reductions run over the dimensions of `row_mask`.
    pub fn new(lo: &[i64], hi: &[i64], row_mask: u32) -> Graph {
        Graph { lo: lo.to_vec(), hi: hi.to_vec(), row_mask, ..Graph::default() }
    }

    fn add(&mut self, info: Info) -> Id {
        if let Some(&id) = self.known.get(&(info.node, info.ty)) {
            return id;
        }
        let id = self.nodes.len() as Id;
        self.known.insert((info.node, info.ty), id);
        self.nodes.push(info);
        id
    }

    fn derived(&mut self, node: Node, ty: Ty, from: &[Id], range: Option<(i64, i64)>) -> Id {
        let mask = from.iter().fold(0, |m, &f| m | self.nodes[f as usize].mask);
        let level = from.iter().map(|&f| self.nodes[f as usize].level).max().unwrap_or(0);
        let range = range.filter(|r| limits(ty).is_some_and(|l| l.0 <= r.0 && r.1 <= l.1));
        self.add(Info { node, ty, mask, level, range, line: None })
    }

    pub fn ty(&self, id: Id) -> Ty {
        self.nodes[id as usize].ty
    }

    /// The number with these bits.
    pub fn constant(&mut self, ty: Ty, value: u64) -> Id {
        let kept = if bits(ty) == 64 { value } else { value & ((1 << bits(ty)) - 1) };
        let number = (!is_float(ty) && ty != Ty::U64).then(|| signed(ty, kept));
        let line = number.map(super::affine::Lin::at);
        let range = number.map(|n| (n, n));
        self.add(Info { node: Node::Const(kept), ty, mask: 0, level: 0, range, line })
    }

    /// An integer as a constant of any type.
    pub fn integer(&mut self, ty: Ty, value: i64) -> Id {
        let word = match ty {
            Ty::F32 => u64::from((value as f32).to_bits()),
            Ty::F64 => (value as f64).to_bits(),
            _ => value as u64,
        };
        self.constant(ty, word)
    }

    /// The element of `place`; `range` bounds it where that is known.
    pub fn load(&mut self, place: Place, range: Option<(i64, i64)>) -> Option<Id> {
        let ty = lane(place.elem)?;
        let mask = self.varies(&place);
        let number = self.place(place);
        Some(self.add(Info { node: Node::Load(number), ty, mask, level: 0, range, line: None }))
    }

    /// The element `at` bytes, which are inside, after `place`.
    pub fn pick(&mut self, place: Place, at: Id) -> Option<Id> {
        let ty = lane(place.elem)?;
        let mask = self.varies(&place);
        let number = self.place(place);
        let id = self.derived(Node::Pick(number, at), ty, &[at], None);
        self.nodes[id as usize].mask |= mask;
        Some(id)
    }

    /// The dimensions of the domain along which `place` varies.
    fn varies(&self, place: &Place) -> u32 {
        let moves = |d: usize| place.moved.iter().any(|m| m.along.get(d).is_some_and(|&s| s != 0));
        let along = |d: &usize| (place.strides[*d] != 0 || moves(*d)) && self.hi[*d] - self.lo[*d] > 1;
        (0..place.strides.len()).filter(along).fold(0, |mask, d| mask | 1 << d)
    }

    fn place(&mut self, place: Place) -> u32 {
        let known = self.places.iter().position(|p| *p == place);
        known.unwrap_or_else(|| {
            self.places.push(place);
            self.places.len() - 1
        }) as u32
    }

    /// The integer `x`, between 0 and `most`, which 32 bits hold.
    pub fn bounded(&mut self, x: Id, most: i64) -> Id {
        let narrow = bits(self.ty(x)) < 32;
        let x = if narrow { self.convert(Ty::I32, x) } else { x };
        let ty = self.ty(x);
        let range = self.nodes[x as usize].range;
        let mut inside = x;
        if range.is_none_or(|(low, _)| low < 0) {
            let zero = self.integer(ty, 0);
            inside = self.binary(BinaryOp::Maximum, inside, zero);
        }
        if range.is_none_or(|(_, high)| high > most) {
            let most = self.integer(ty, most);
            inside = self.binary(BinaryOp::Minimum, inside, most);
        }
        self.convert(Ty::I32, inside)
    }

    /// The number `coef * i[dim] + base`.
    pub fn position(&mut self, ty: Ty, line: super::affine::Lin) -> Id {
        let (low, high) = line.range(&self.lo, &self.hi);
        if low == high {
            return self.integer(ty, low);
        }
        // Small integers and floats are made from 32 or 64 bits, as the numbers need.
        let wide = if i32::try_from(low).is_ok() && i32::try_from(high).is_ok() { Ty::I32 } else { Ty::I64 };
        let native = ty == wide || (ty == Ty::I64 && wide == Ty::I32);
        let made = if native { ty } else { wide };
        let mut coefs = vec![0; self.lo.len()];
        coefs[line.dim as usize] = line.coef;
        let key = (coefs, line.base);
        let number = match self.positions.iter().position(|p| *p == key) {
            Some(i) => i,
            None => {
                self.positions.push(key);
                self.positions.len() - 1
            }
        };
        let node = Node::Index(number as u32);
        let mask = 1 << line.dim;
        let id = self.add(Info { node, ty: made, mask, level: 0, range: Some((low, high)), line: Some(line) });
        self.convert(ty, id)
    }

    /// Where the box would have to be cut for `compare` to be decided in each half.
    pub fn cut_of(&self, f: Cmp, x: Id, y: Id) -> Option<(usize, i64)> {
        let (a, b) = (self.nodes[x as usize].line?, self.nodes[y as usize].line?);
        let (line, limit, f) = match (a.coef, b.coef) {
            (0, 0) => return None,
            (_, 0) => (a, b.base, f),
            (0, _) => (b, a.base, mirrored(f)),
            _ => return None,
        };
        let limit = match f {
            Cmp::Lt | Cmp::Ge => limit,
            Cmp::Le | Cmp::Gt => limit + 1,
            Cmp::Eq | Cmp::Ne => return None,
        };
        let (d, at) = (line.dim as usize, line.crossing(limit));
        (self.lo[d] < at && at < self.hi[d]).then_some((d, at))
    }

    /// What a predicate is everywhere in the box.
    pub fn select_side(&self, p: Id) -> Option<bool> {
        self.nodes[p as usize].range.filter(|r| r.0 == r.1).map(|r| r.0 == 1)
    }

    /// Combines `x` over the dimensions of the row.
    pub fn reduce(&mut self, f: Combine, x: Id) -> Id {
        let id = self.derived(Node::Reduce(f, x), self.ty(x), &[x], None);
        let row = self.row_mask;
        let level = self.nodes[x as usize].level + 1;
        let info = &mut self.nodes[id as usize];
        info.mask &= !row;
        info.level = level;
        id
    }
}

impl Arithmetic for Graph {
    type Value = Id;

    fn ty(&self, id: Id) -> Ty {
        Graph::ty(self, id)
    }

    fn unary(&mut self, f: UnaryOp, x: Id) -> Id {
        let info = &self.nodes[x as usize];
        let ty = if f == UnaryOp::IsFinite { Ty::Pred } else { info.ty };
        if let (UnaryOp::Not, Ty::Pred, Some((a, b))) = (f, info.ty, info.range)
            && a == b
        {
            return self.integer(Ty::Pred, 1 - a);
        }
        self.derived(Node::Unary(f, x), ty, &[x], None)
    }

    fn binary(&mut self, f: BinaryOp, x: Id, y: Id) -> Id {
        let (a, b) = (&self.nodes[x as usize], &self.nodes[y as usize]);
        let ty = a.ty;
        if ty == Ty::Pred
            && let Some(id) = decided(f, (x, a.range), (y, b.range))
        {
            return match id {
                Ok(id) => id,
                Err(value) => self.integer(Ty::Pred, value),
            };
        }
        let (ra, rb) = (a.range, b.range);
        match f {
            BinaryOp::Add if ra == Some((0, 0)) => return y,
            BinaryOp::Add | BinaryOp::Subtract if rb == Some((0, 0)) => return x,
            _ => {}
        }
        let range = ra.zip(rb).and_then(|(p, q)| match f {
            BinaryOp::Add => range::combine(p, q, i64::checked_add),
            BinaryOp::Subtract => range::combine(p, q, i64::checked_sub),
            BinaryOp::Multiply => range::combine(p, q, i64::checked_mul),
            BinaryOp::Maximum => range::combine(p, q, |u, v| Some(u.max(v))),
            BinaryOp::Minimum => range::combine(p, q, |u, v| Some(u.min(v))),
            BinaryOp::Divide => range::divide(p, q),
            BinaryOp::Remainder => range::remainder(p, q),
            _ => None,
        });
        let line = match (f, a.line, b.line) {
            (BinaryOp::Add, Some(p), Some(q)) if q.coef == 0 => Some(p.scaled(1, q.base)),
            (BinaryOp::Add, Some(p), Some(q)) if p.coef == 0 => Some(q.scaled(1, p.base)),
            (BinaryOp::Subtract, Some(p), Some(q)) if q.coef == 0 => Some(p.scaled(1, -q.base)),
            (BinaryOp::Multiply, Some(p), Some(q)) if q.coef == 0 => Some(p.scaled(q.base, 0)),
            (BinaryOp::Multiply, Some(p), Some(q)) if p.coef == 0 => Some(q.scaled(p.base, 0)),
            _ => None,
        };
        if let (Some((low, high)), false) = (range, is_float(ty))
            && low == high
            && limits(ty).is_some_and(|l| l.0 <= low && high <= l.1)
        {
            return self.integer(ty, low);
        }
        let id = self.derived(Node::Binary(f, x, y), ty, &[x, y], range);
        let info = &mut self.nodes[id as usize];
        if info.range.is_some() {
            info.line = line;
        }
        id
    }

    /// A constant where the bounds decide it.
    fn compare(&mut self, f: Cmp, x: Id, y: Id) -> Id {
        let ranges = self.nodes[x as usize].range.zip(self.nodes[y as usize].range);
        let known = ranges.and_then(|(a, b)| range::compared(f, a, b));
        match known {
            Some(value) => self.integer(Ty::Pred, i64::from(value)),
            None => self.derived(Node::Compare(f, x, y), Ty::Pred, &[x, y], None),
        }
    }

    fn select(&mut self, p: Id, x: Id, y: Id) -> Id {
        match self.nodes[p as usize].range {
            Some((1, 1)) => x,
            Some((0, 0)) => y,
            _ if x == y => x,
            _ => self.derived(Node::Select(p, x, y), self.ty(x), &[p, x, y], None),
        }
    }

    fn convert(&mut self, ty: Ty, x: Id) -> Id {
        let info = &self.nodes[x as usize];
        if info.ty == ty {
            return x;
        }
        if let Some((low, high)) = info.range.filter(|r| r.0 == r.1)
            && (is_float(ty) || limits(ty).is_some_and(|l| l.0 <= low && high <= l.1))
        {
            return self.integer(ty, low);
        }
        if ty == Ty::Pred {
            let zero = self.integer(self.ty(x), 0);
            return self.compare(Cmp::Ne, x, zero);
        }
        let (range, line) = (info.range, info.line);
        let id = self.derived(Node::Convert(x), ty, &[x], range);
        let info = &mut self.nodes[id as usize];
        if info.range.is_some() {
            info.line = line;
        }
        id
    }

    fn bitcast(&mut self, ty: Ty, x: Id) -> Id {
        if self.ty(x) == ty { x } else { self.derived(Node::Bitcast(x), ty, &[x], None) }
    }

    fn round(&mut self, elem: ElementType, x: Id) -> Id {
        self.derived(Node::Round(elem, x), Ty::F32, &[x], None)
    }
}

/// A connective of which one side is known: the other side, or the truth value.
fn decided(f: BinaryOp, x: (Id, Option<(i64, i64)>), y: (Id, Option<(i64, i64)>)) -> Option<Result<Id, i64>> {
    let known = |r: Option<(i64, i64)>| r.filter(|r| r.0 == r.1).map(|r| r.0);
    match (f, known(x.1), known(y.1)) {
        (BinaryOp::And, Some(0), _) | (BinaryOp::And, _, Some(0)) => Some(Err(0)),
        (BinaryOp::And, Some(1), _) | (BinaryOp::Or, Some(0), _) | (BinaryOp::Xor, Some(0), _) => Some(Ok(y.0)),
        (BinaryOp::And, _, Some(1)) | (BinaryOp::Or, _, Some(0)) | (BinaryOp::Xor, _, Some(0)) => Some(Ok(x.0)),
        (BinaryOp::Or, Some(1), _) | (BinaryOp::Or, _, Some(1)) => Some(Err(1)),
        _ => None,
    }
}

fn mirrored(f: Cmp) -> Cmp {
    match f {
        Cmp::Lt => Cmp::Gt,
        Cmp::Le => Cmp::Ge,
        Cmp::Gt => Cmp::Lt,
        Cmp::Ge => Cmp::Le,
        Cmp::Eq | Cmp::Ne => f,
    }
}

fn signed(ty: Ty, word: u64) -> i64 {
    let unused = 64 - bits(ty);
    match ty {
        Ty::I8 | Ty::I16 | Ty::I32 | Ty::I64 => ((word << unused) as i64) >> unused,
        _ => word as i64,
    }
}
