//! What a fused loop would take in: values computed on the way, at which positions, from which arrays in memory.

use meshwork_ir::DeviceGrid;
use meshwork_ir::hash::{HashMap, HashSet};
use meshwork_ir::op::{BodyOp, MixedOp, MovementOp, SourceOp};
use meshwork_ir::{Attr, ElementType, OpId, OpKind, ValueId};

use super::affine::{self, Map, identity};
use super::range::Devices;
use super::{numbers, row_reduce};
use crate::compile::lower::Lower;
use crate::step::Buf;

/// A set of values that one loop computes.
#[derive(Clone, Debug)]
pub(crate) struct Survey {
    /// Extents of the domain.
    pub domain: Vec<i64>,
    /// From which dimension on the domain is the row, if there are reductions.
    pub split: Option<usize>,
    /// Positions at which each value is wanted, those in memory too.
    pub maps: HashMap<ValueId, Vec<Map>>,
    /// Values computed in the loop, in the order in which they were met.
    pub inside: Vec<ValueId>,
    /// Buffers read.
    pub leaves: HashSet<Buf>,
    /// Values to be stored that are computed here: wanted whole, or once per row.
    pub joined: Vec<ValueId>,
    /// Dimensions whose positions are best computed side by side: they have a small reduction in common.
    pub beside: u32,
    /// The first of these.
    small: Option<ValueId>,
}

/// `Err` names a value that must be in memory first.
pub(crate) type Found = Result<Survey, ValueId>;

/// What the survey looks at.
pub(crate) struct Scope<'a, 'm> {
    pub cx: &'a Lower<'m>,
    /// Values that must be stored sooner or later.
    pub stored: &'a [bool],
    /// Whether reductions may become part of the loop.
    pub reductions: bool,
    /// The devices that the program is for.
    pub grid: DeviceGrid,
}

/// What storing and loading a value costs, in additions, where the alternative is to compute it at several positions.
const AGAIN: u32 = 16;

/// Values that the predicate of a select may be made of to count as one of positions.
const MAX_POSITIONAL: usize = 32;

/// Partitions that may have loops of their own, because they slice at different places.
const MAX_OWN_LOOPS: usize = 16;

/// Values in one loop.
pub(crate) const MAX_INSIDE: usize = 400;

/// Positions of one value: concatenations of concatenations double them.
const MAX_MAPS: usize = 64;

#[cfg(test)]
thread_local! {
    /// Surveys made by this thread.
    pub(crate) static SURVEYS: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

impl Scope<'_, '_> {
    /// The survey of `roots`: each has the extents of the domain, or those of its rows.
    pub fn survey(&self, domain: &[i64], split: Option<usize>, roots: &[ValueId]) -> Found {
        #[cfg(test)]
        SURVEYS.set(SURVEYS.get() + 1);
        let mut s = Survey {
            domain: domain.to_vec(),
            split,
            maps: HashMap::default(),
            inside: vec![],
            leaves: HashSet::default(),
            joined: vec![],
            beside: 0,
            small: None,
        };
        let mut rows: Vec<(ValueId, usize)> = vec![];
        for &root in roots {
            let rank = self.cx.module.ty(root).dims().len();
            s.joined.push(root);
            self.visit(&mut s, &mut rows, root, identity(rank))?;
        }
        // Row programs have nothing side by side.
        if let (Some(_), Some(value)) = (s.split, s.small) {
            return Err(value);
        }
        // What was taken for one number per row must be that.
        if let Some(&(value, _)) = rows.iter().find(|&&(_, k)| s.split != Some(k)) {
            return Err(value);
        }
        match self.too_often(&s) {
            Some(value) => Err(value),
            None => Ok(s),
        }
    }

    fn visit(&self, s: &mut Survey, rows: &mut Vec<(ValueId, usize)>, start: ValueId, map: Map) -> Result<(), ValueId> {
        let mut work = vec![(start, map)];
        while let Some((value, map)) = work.pop() {
            let module = self.cx.module;
            let seen = s.maps.entry(value).or_default();
            if seen.contains(&map) {
                continue;
            }
            let first = seen.is_empty();
            seen.push(map.clone());
            let often = seen.len() > MAX_MAPS;
            if let Some(view) = self.cx.view(value) {
                s.leaves.insert(view.buf);
                continue;
            }
            let Some(op) = module.def_op(value).filter(|_| !often) else { return Err(value) };
            if first {
                s.inside.push(value);
                if s.inside.len() > MAX_INSIDE {
                    return Err(self.middle(s).unwrap_or(value));
                }
            }
            let joined = s.joined.contains(&value);
            if joined || self.stored[value.index()] {
                let dims = module.ty(value).dims();
                let straight = map == identity(dims.len());
                let row = dims.len() < s.domain.len() && *dims == s.domain[..dims.len()];
                if !straight || !(row || dims == s.domain) {
                    return Err(value);
                }
                if !joined {
                    s.joined.push(value);
                    if row && s.split != Some(dims.len()) {
                        rows.push((value, dims.len()));
                    }
                }
            }
            let data = module.op(op);
            if super::is_moved_slice(module, op) {
                // The array and where it is sliced are in memory first.
                if let Some(&first) = data.operands().iter().find(|&&v| self.cx.view(v).is_none()) {
                    return Err(first);
                }
                s.leaves.extend(self.cx.view(data.operands()[0]).map(|view| view.buf));
                continue;
            }
            if super::is_row_pick(module, op) {
                if let Some(&first) = data.operands().iter().find(|&&v| self.cx.view(v).is_none()) {
                    return Err(first);
                }
                s.leaves.extend(data.operands().iter().filter_map(|&v| self.cx.view(v)).map(|view| view.buf));
                continue;
            }
            if super::is_pick(module, op) {
                let (&[from, indices], Some(Attr::Gather(numbers))) = (data.operands(), data.attr("dimension_numbers"))
                else {
                    return Err(value);
                };
                s.leaves.insert(self.cx.view(from).ok_or(from)?.buf);
                let ranks = [from, indices].map(|v| module.ty(v).dims().len());
                let pick = super::Pick::new(numbers, ranks[0], ranks[1], &map);
                work.extend((0..numbers.start_index_map.len()).map(|c| (indices, pick.read(c))));
                continue;
            }
            if super::is_small_reduce(module, op) {
                s.beside = self.beside(s, &map).ok_or(value)?;
                s.small = s.small.or((s.beside != 0).then_some(value));
                let reads = super::small_reads(module, op, &map);
                work.extend(reads.into_iter().rev().map(|read| (data.operands()[0], read)));
                work.push((data.operands()[1], vec![]));
                continue;
            }
            if data.kind() == OpKind::Body(BodyOp::Reduce) {
                let input = data.operands()[0];
                let k = row_reduce(module, op).ok_or(value)?;
                let fits = self.reductions
                    && module.ty(input).dims() == s.domain
                    && map == identity(k)
                    && s.split.is_none_or(|split| split == k);
                if !fits {
                    return Err(value);
                }
                s.split = Some(k);
                work.push((data.operands()[1], vec![]));
                work.push((input, identity(s.domain.len())));
                continue;
            }
            work.extend(self.reads(op, &map, &s.domain)?);
        }
        Ok(())
    }

    /// The dimensions of the domain that an expression at `map` does not depend on. `None` if there are too many positions to
    /// compute them side by side: then the expression is better stored.
    fn beside(&self, s: &Survey, map: &Map) -> Option<u32> {
        let free = |&d: &usize| s.domain[d] > 1 && !map.iter().any(|l| l.coef != 0 && l.dim as usize == d);
        let free: Vec<usize> = (0..s.domain.len()).filter(free).collect();
        let mask = free.iter().fold(s.beside, |mask, d| mask | 1 << d);
        let positions: i64 = (0..s.domain.len()).filter(|d| mask >> d & 1 == 1).map(|d| s.domain[d]).product();
        // All from some dimension on.
        let is_inner = mask != 0 && mask + (1 << mask.trailing_zeros()) == 1 << s.domain.len();
        let many = s.domain.iter().product::<i64>() >= super::MANY_INTERLEAVED * positions;
        let most = if is_inner && many { super::INTERLEAVED } else { super::SMALL };
        let few = positions * s.joined.len() as i64 <= most;
        (free.is_empty() || (s.split.is_none() && few)).then_some(mask)
    }

    /// A value in the middle of what has been met: a place to cut a group that is too large.
    fn middle(&self, s: &Survey) -> Option<ValueId> {
        let whole = |v: &&ValueId| {
            let op = self.cx.module.def_op(**v);
            self.cx.module.ty(**v).dims() == s.domain
                && op.is_some_and(|op| numbers::is_arithmetic(self.cx.module, op))
                && !s.joined.contains(v)
        };
        let fitting: Vec<&ValueId> = s.inside.iter().filter(whole).collect();
        fitting.get(fitting.len() / 2).map(|&&v| v)
    }

    /// A value that is wanted at several positions and more expensive to compute at each than to store and load.
    fn too_often(&self, s: &Survey) -> Option<ValueId> {
        let mut costs = HashMap::default();
        let mut expensive: Vec<(u32, ValueId)> = vec![];
        let whole: i64 = s.domain.iter().product();
        for &value in &s.inside {
            // A number that takes long to compute is computed once, not with every row.
            let number = self.cx.module.ty(value).dims().is_empty() && whole >= 256 && !s.joined.contains(&value);
            if number && self.cost(value, &mut costs) >= 4 {
                return Some(value);
            }
            let times = positions(&s.maps[&value], self.cx.module.ty(value).dims()) as u32;
            // The bounds of a box mostly decide a mask of positions, and what it chooses from is then read in place.
            let mask = self.cx.module.ty(value).elem() == Some(ElementType::I1) && self.is_positional(value);
            if times > 1 && !mask && !s.joined.contains(&value) {
                let cost = self.cost(value, &mut costs);
                if cost.saturating_mul(times - 1) > AGAIN + times {
                    expensive.push((cost, value));
                }
            }
        }
        // The most expensive first: what it is made of may then be cheap enough.
        expensive.into_iter().max().map(|(_, v)| v)
    }

    /// Whether `value` depends on the position only, so that the bounds of a box mostly decide it.
    fn is_positional(&self, value: ValueId) -> bool {
        let module = self.cx.module;
        let mut work = vec![value];
        let mut seen = HashSet::default();
        while let Some(v) = work.pop() {
            if !seen.insert(v) {
                continue;
            }
            match (self.cx.view(v), module.def_op(v)) {
                (Some(view), _) if view.strides.iter().any(|&s| s != 0) => return false,
                (Some(_), _) => {}
                (None, None) => return false,
                (None, Some(op)) => {
                    let kind = module.op(op).kind();
                    if kind != OpKind::Source(SourceOp::Iota)
                        && !super::is_renaming(kind)
                        && !numbers::is_arithmetic(module, op)
                    {
                        return false;
                    }
                    work.extend(module.op(op).operands());
                }
            }
            if seen.len() > MAX_POSITIONAL {
                return false;
            }
        }
        true
    }

    /// Cost of one element of `value` from what is in memory.
    pub fn cost(&self, value: ValueId, known: &mut HashMap<ValueId, u32>) -> u32 {
        if let Some(&c) = known.get(&value) {
            return c;
        }
        let module = self.cx.module;
        let cost = match (self.cx.view(value), module.def_op(value)) {
            (Some(view), _) => u32::from(view.strides.iter().any(|&s| s != 0)),
            (None, None) => 1,
            (None, Some(op)) => {
                let data = module.op(op);
                let own = if numbers::is_arithmetic(module, op) { numbers::cost(data.kind()) } else { 0 };
                match data.kind() {
                    // Of several alternatives one is computed.
                    OpKind::Movement(MovementOp::Pad | MovementOp::Concatenate) => {
                        data.operands().iter().map(|&v| self.cost(v, known)).max().unwrap_or(0)
                    }
                    // Where it starts is known when it is compiled.
                    OpKind::Movement(MovementOp::DynamicSlice) => self.cost(data.operands()[0], known),
                    OpKind::Mixed(MixedOp::Select) if self.is_positional(data.operands()[0]) => {
                        let sides = data.operands()[1..].iter().map(|&v| self.cost(v, known));
                        sides.max().unwrap_or(0).saturating_add(1)
                    }
                    OpKind::Body(BodyOp::Reduce) if super::is_small_reduce(module, op) => {
                        let shape = module.ty(data.operands()[0]).dims();
                        let count: i64 = super::reduced_dims(module, op).iter().map(|&d| shape[d]).product();
                        self.cost(data.operands()[0], known).saturating_add(1).saturating_mul(count as u32)
                    }
                    OpKind::Body(BodyOp::Reduce) => 1000,
                    OpKind::Movement(MovementOp::Gather) if super::is_row_pick(module, op) => 2,
                    OpKind::Movement(MovementOp::Gather) => {
                        let places = data.operands().get(1).map_or(0, |&v| self.cost(v, known));
                        places.saturating_mul(2).saturating_add(super::PICK_COST)
                    }
                    _ => data.operands().iter().fold(own, |c, &v| c.saturating_add(self.cost(v, known))),
                }
            }
        };
        known.insert(value, cost);
        cost
    }

    /// What `op` reads for its result at `map`: all alternatives of a padding or concatenation that the domain meets. `Err`
    /// names an operand that has to be in memory because its elements are renamed in a way that strides of a box cannot say.
    fn reads(&self, op: OpId, map: &Map, domain: &[i64]) -> Result<Vec<(ValueId, Map)>, ValueId> {
        let module = self.cx.module;
        let data = module.op(op);
        let at = |v: ValueId, map: &Map| if module.ty(v).dims().is_empty() { (v, vec![]) } else { (v, map.clone()) };
        Ok(match data.kind() {
            kind if super::is_renaming(kind) => {
                let from = data.operands()[0];
                // In memory it is another view of the same bytes.
                let first = if self.cx.view(from).is_some() { data.results()[0] } else { from };
                vec![(from, affine::renamed(module, op, map).ok_or(first)?)]
            }
            OpKind::Source(SourceOp::Iota) => vec![],
            // Where it is on one device says what goes with what on all.
            OpKind::Movement(MovementOp::DynamicSlice) => {
                let few = self.grid.partitions <= MAX_OWN_LOOPS;
                let starts = affine::offsets(module, op, Devices::partition(self.grid, 0)).filter(|_| few);
                let starts = starts.ok_or(data.results()[0])?;
                vec![(data.operands()[0], map.iter().zip(starts).map(|(l, start)| l.scaled(1, start)).collect())]
            }
            OpKind::Movement(MovementOp::Pad) => {
                let low = data.i64s("edge_padding_low").unwrap_or_default();
                let inner = map.iter().zip(&low).map(|(l, &s)| l.scaled(1, -s)).collect();
                vec![(data.operands()[0], inner), (data.operands()[1], vec![])]
            }
            OpKind::Movement(MovementOp::Concatenate) => {
                let dim = data.int("dimension").unwrap_or(0) as usize;
                let (low, high) = map[dim].range(&vec![0; domain.len()], domain);
                let mut start = 0;
                let mut out = vec![];
                for &part in data.operands() {
                    let extent = module.ty(part).dims()[dim];
                    if extent > 0 && low < start + extent && high >= start {
                        let mut inner = map.clone();
                        inner[dim] = inner[dim].scaled(1, -start);
                        out.push((part, inner));
                    }
                    start += extent;
                }
                out
            }
            OpKind::Movement(MovementOp::DynamicUpdateSlice) | OpKind::Body(BodyOp::Scatter) => {
                let Some(w) = affine::window(module, op) else { return Err(data.operands()[0]) };
                let mut inner = vec![affine::Lin::at(0); w.update_dims.iter().flatten().count()];
                for (d, &to) in w.update_dims.iter().enumerate() {
                    if let Some(to) = to {
                        inner[to] = map[d].scaled(1, -w.start[d]);
                    }
                }
                vec![(w.target, map.clone()), (w.update, inner)]
            }
            _ => data.operands().iter().map(|&v| at(v, map)).collect(),
        })
    }
}

/// At how many positions an element is wanted; what goes round at the rim of the array counts with where it comes from.
fn positions(maps: &[Map], dims: &[i64]) -> usize {
    let round = |map: &Map| -> Vec<(u8, i64, i64)> {
        // Fixed coordinates are of different elements, each computed once.
        let base = |l: &affine::Lin, n: i64| if l.coef == 0 { 0 } else { l.base.rem_euclid(n.max(1)) };
        map.iter().zip(dims).map(|(l, &n)| (l.dim, l.coef, base(l, n))).collect()
    };
    maps.iter().map(round).collect::<HashSet<_>>().len()
}
