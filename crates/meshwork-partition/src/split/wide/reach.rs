//! How far the elements that one turn of a loop reads lie outside a block, value by value.
//!
//! A line is what the split dimensions of a loop's arrays have in common: shard `t` owns elements `t * block ..` of it. Along a line a local
//! array of the turn holds elements `t * block - front + lo .. (t + 1) * block + back + hi`, where `front` and `back` are what
//! the loop's arrays hold more than their block at the start of a turn. So `lo` and `-hi` are what is lost on the way.

use meshwork_ir::hash::HashMap;
use meshwork_ir::op::{MovementOp, SdyOp, SourceOp};
use meshwork_ir::{Attr, BlockId, Def, OpId, OpKind, ValueId};

use super::super::Splitter;
use super::super::flow::trip_count;
use super::links::{Link, Source};
use crate::layout::Layout;
use crate::layout::atoms::{AtomList, Atoms};

/// What a local array holds along a dimension.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Along {
    /// All of it.
    Whole,
    /// Elements of a line; see the first lines of this file.
    Line { line: usize, lo: i64, hi: i64 },
}

impl Along {
    /// The same line, as much of it as the loop's arrays hold at the start of a turn.
    pub fn full(self) -> Along {
        match self {
            Along::Whole => Along::Whole,
            Along::Line { line, .. } => Along::Line { line, lo: 0, hi: 0 },
        }
    }
}

/// By value of the turn, what its local array holds.
pub type Spans = HashMap<ValueId, Vec<Along>>;

/// A dimension that arrays of the loop share.
#[derive(Clone, PartialEq, Debug)]
pub struct Line {
    /// What splits it.
    pub atoms: AtomList,
    /// Elements that a shard owns.
    pub block: i64,
    /// The extent of the first array that has it.
    pub extent: i64,
    /// Whether element `extent` is element 0 again: some operation rotates it.
    pub is_ring: bool,
    /// What a turn loses in front and behind.
    pub reach: (i64, i64),
}

impl Line {
    /// How many of the first elements of its block each shard has: on a ring the last ones of the last block are the first of all again.
    pub fn inside(&self, atoms: &Atoms) -> i64 {
        let places = self.block * atoms.product(&self.atoms);
        if self.is_ring { self.block - (places - self.extent) } else { self.block }
    }
}

/// A loop that can exchange halos once in several turns.
pub struct WideLoop {
    pub op: OpId,
    pub body: BlockId,
    /// How often it runs.
    pub turns: i64,
    /// Of its results.
    pub layouts: Vec<Layout>,
    pub lines: Vec<Line>,
    pub spans: Spans,
    /// Arguments of the body that it hands on as they are, and what they are outside.
    pub unchanged: HashMap<ValueId, ValueId>,
    /// Arrays from outside the loop that are read along lines, as far as arrays of the loop reach.
    pub outside: Vec<(ValueId, Vec<Along>)>,
}

impl WideLoop {
    /// After how many turns at most halos are as long as a block.
    pub fn deepest(&self) -> i64 {
        let reaches = self.lines.iter().flat_map(|l| [(l.block, l.reach.0), (l.block, l.reach.1)]);
        reaches.filter(|(_, reach)| *reach > 0).map(|(block, reach)| block / reach).min().unwrap_or(0)
    }

    /// The share of the work that is done again if halos are exchanged every `turns` turns.
    pub fn repeated(&self, turns: i64) -> f64 {
        let longer = |l: &Line| 1.0 + (turns * (l.reach.0 + l.reach.1)) as f64 / l.block.max(1) as f64;
        self.lines.iter().map(longer).product::<f64>() - 1.0
    }

    /// What is known outside the loop as `v`.
    pub fn outer(&self, v: ValueId) -> ValueId {
        self.unchanged.get(&v).copied().unwrap_or(v)
    }
}

/// Follows a turn of the loop `op`. `None` if it cannot exchange halos less often than in every turn.
pub fn reach(s: &mut Splitter<'_>, op: OpId) -> Option<WideLoop> {
    let turns = trip_count(s.src, op)?;
    let body = s.src.body_of(op, 1)?;
    let (args, returned) = (s.src.block(body).args().to_vec(), s.src.returned(body).to_vec());
    let (operands, results) = (s.src.op(op).operands().to_vec(), s.src.op(op).results().to_vec());
    let layouts: Vec<Layout> = results.iter().map(|&r| s.placed(r)).collect();
    let arrays = |v: &ValueId| s.src.ty(*v).as_tensor().is_some_and(|t| t.is_static());
    if turns < 2 || layouts.iter().any(|l| l.partial.is_some()) || !results.iter().all(arrays) {
        return None;
    }
    let mut plan = WideLoop {
        op,
        body,
        turns,
        layouts,
        lines: vec![],
        spans: Spans::default(),
        unchanged: HashMap::default(),
        outside: vec![],
    };
    for (i, &arg) in args.iter().enumerate() {
        if returned.get(i) == Some(&arg) {
            plan.unchanged.insert(arg, operands[i]);
            continue;
        }
        let extents = s.extents(results[i]);
        let layout = plan.layouts[i].clone();
        let along = layout.dims.iter().zip(extents.iter()).map(|(frame, &n)| {
            if !frame.is_split() {
                return Along::Whole;
            }
            let known = plan.lines.iter().position(|l| l.atoms == frame.atoms);
            let line = known.unwrap_or_else(|| {
                let atoms = frame.atoms.clone();
                plan.lines.push(Line { atoms, block: frame.block, extent: n, is_ring: false, reach: (0, 0) });
                plan.lines.len() - 1
            });
            plan.lines[line].block = plan.lines[line].block.max(frame.block);
            Along::Line { line, lo: 0, hi: 0 }
        });
        let along: Vec<Along> = along.collect();
        plan.spans.insert(arg, along);
    }
    if plan.lines.is_empty() || plan.lines.iter().any(|l| l.block == 0) {
        return None;
    }
    for inner in s.src.op_list(body).into_iter().filter(|&o| !s.src.op(o).kind().is_terminator()) {
        follow(s, &mut plan, inner)?;
    }
    for (i, &v) in returned.iter().enumerate() {
        let Some(wanted) = plan.spans.get(&args[i]).cloned() else { continue };
        let Some(own) = plan.spans.get(&v).cloned() else {
            ask_outside(s, &mut plan, v, &wanted)?;
            continue;
        };
        for (own, wanted) in own.iter().zip(&wanted) {
            match (*own, *wanted) {
                (Along::Line { line, lo, hi }, Along::Line { line: other, .. }) if line == other => {
                    let reach = &mut plan.lines[line].reach;
                    *reach = (reach.0.max(lo), reach.1.max(-hi));
                }
                (Along::Whole, Along::Whole) => {}
                _ => return None,
            }
        }
    }
    let reaches = plan.lines.iter().any(|l| l.reach != (0, 0));
    (reaches && fits(s, &plan)).then_some(plan)
}

/// Whether all arrays fit on their lines: what is exchanged onto the blocks, and on rings what is rotated between the ends.
fn fits(s: &Splitter<'_>, plan: &WideLoop) -> bool {
    let extents = |v: ValueId, along: &[Along]| {
        let dims = s.src.ty(v).dims().to_vec();
        along
            .iter()
            .zip(dims)
            .filter_map(|(a, n)| match a {
                Along::Line { line, .. } => Some((*line, n)),
                Along::Whole => None,
            })
            .collect::<Vec<(usize, i64)>>()
    };
    let stored = s.src.block(plan.body).args().iter().filter_map(|arg| Some((*arg, plan.spans.get(arg)?)));
    let stored = stored.chain(plan.outside.iter().map(|(v, along)| (*v, along)));
    let stored: Vec<(usize, i64)> = stored.flat_map(|(v, along)| extents(v, along)).collect();
    let on_blocks = stored.iter().all(|&(line, n)| {
        let line = &plan.lines[line];
        n <= line.block * s.atoms.product(&line.atoms) && (!line.is_ring || n == line.extent)
    });
    let on_rings = plan
        .spans
        .iter()
        .flat_map(|(v, along)| extents(*v, along))
        .all(|(line, n)| !plan.lines[line].is_ring || n <= plan.lines[line].extent);
    on_blocks && on_rings
}

/// Notes what the results of `op` hold.
fn follow(s: &mut Splitter<'_>, plan: &mut WideLoop, op: OpId) -> Option<()> {
    let results = s.src.op(op).results().to_vec();
    let &result = results.first()?;
    if is_made_anywhere(s, plan, result) {
        return Some(());
    }
    let rank = s.src.ty(result).as_tensor().filter(|t| t.is_static())?.dims.len();
    let sources = s.links(op, &plan.spans, &plan.lines)?;
    if let Some(rotation) = s.rotation(op, &plan.spans, &plan.lines)
        && s.src.op(op).kind() == MovementOp::Concatenate
        && let Some(Along::Line { line, .. }) = plan.spans[&rotation.source].get(rotation.dim)
    {
        plan.lines[*line].is_ring = true;
    }
    // Arrays from outside are where their placement has them, if nothing else says where.
    let none_inside = sources.iter().all(|(v, _)| !plan.spans.contains_key(v));
    let mut along: Vec<Option<Along>> = vec![None; rank];
    for (v, links) in &sources {
        let own = match plan.spans.get(v) {
            Some(own) => own.clone(),
            None if none_inside => by_placement(s, plan, plan.outer(*v)),
            None => continue,
        };
        for (own, link) in own.iter().zip(links) {
            match (*own, *link) {
                (Along::Line { line, lo, hi }, Link::Reads { dim, first, last }) => {
                    let mine = Along::Line { line, lo: lo - first, hi: hi - last };
                    along[dim] = Some(meet(along[dim], mine)?);
                }
                (Along::Line { .. }, Link::All) => return None,
                (Along::Whole, Link::Reads { dim, .. }) => along[dim] = Some(meet(along[dim], Along::Whole)?),
                (Along::Whole, Link::All) => {}
            }
        }
    }
    // What is spread along a new dimension is spread as its placement says.
    let placed = by_placement(s, plan, result);
    let spread = s.src.op(op).kind() == MovementOp::BroadcastInDim;
    let taken = |along: &[Option<Along>], a: Along| along.iter().any(|b| b.map(Along::full) == Some(a));
    for d in 0..rank {
        if along[d].is_none() {
            let new = if spread && !taken(&along, placed[d]) { placed[d] } else { Along::Whole };
            along[d] = Some(new);
        }
    }
    let mut along: Vec<Along> = along.into_iter().flatten().collect();
    // Arrays from outside reach as far as those of the loop; what can be made anywhere reaches everywhere.
    for (v, links) in &sources {
        if plan.spans.contains_key(v) {
            continue;
        }
        if !is_free(s, plan, *v, 0) {
            for link in links {
                if let Link::Reads { dim, first, last } = *link
                    && let Along::Line { line, lo, hi } = along[dim]
                {
                    along[dim] = Along::Line { line, lo: lo.max(-first), hi: hi.min(-last) };
                }
            }
        }
        let wanted = wanted_of(&along, links);
        ask_outside(s, plan, *v, &wanted)?;
    }
    if matches!(s.src.op(op).kind(), OpKind::Sdy(SdyOp::ShardingConstraint | SdyOp::Reshard)) {
        let line = |a: &Along| a.full();
        if !placed.iter().copied().eq(along.iter().map(line)) {
            return None;
        }
    }
    for &r in &results {
        plan.spans.insert(r, along.clone());
    }
    Some(())
}

/// What both hold; `None` if they are not along the same.
fn meet(a: Option<Along>, b: Along) -> Option<Along> {
    match (a, b) {
        (None, b) => Some(b),
        (Some(Along::Whole), Along::Whole) => Some(Along::Whole),
        (Some(Along::Line { line, lo, hi }), Along::Line { line: other, lo: l, hi: h }) if line == other => {
            Some(Along::Line { line, lo: lo.max(l), hi: hi.min(h) })
        }
        _ => None,
    }
}

/// What an operand has to hold for a result that holds `along`.
pub fn wanted_of(along: &[Along], links: &[Link]) -> Vec<Along> {
    let of = |link: &Link| match *link {
        Link::All => Along::Whole,
        Link::Reads { dim, first, last } => match along[dim] {
            Along::Whole => Along::Whole,
            Along::Line { line, lo, hi } => Along::Line { line, lo: lo + first, hi: hi + last },
        },
    };
    links.iter().map(of).collect()
}

/// The lines that the placement of `v` puts it on.
fn by_placement(s: &mut Splitter<'_>, plan: &WideLoop, v: ValueId) -> Vec<Along> {
    let layout = s.want(v);
    let of = |atoms: &AtomList| match plan.lines.iter().position(|l| l.atoms == *atoms) {
        Some(line) => Along::Line { line, lo: 0, hi: 0 },
        None => Along::Whole,
    };
    layout.dims.iter().map(|frame| of(&frame.atoms)).collect()
}

/// Whether `v` is from outside the loop.
pub fn is_outside(s: &Splitter<'_>, plan: &WideLoop, v: ValueId) -> bool {
    plan.unchanged.contains_key(&v)
        || match s.src.value(v).def() {
            Def::Result(op, _) => !s.src.is_inside(op, plan.op) || is_list(s, v),
            Def::Arg(block, _) => s.src.block_parent_op(block).is_none_or(|p| !s.src.is_inside(p, plan.op)),
        }
}

/// Whether `v` is a constant with different elements.
fn is_list(s: &Splitter<'_>, v: ValueId) -> bool {
    let Some(op) = s.src.def_op(v) else { return false };
    let data = s.src.op(op);
    matches!(data.kind(), OpKind::Source(SourceOp::Constant) | OpKind::Sdy(SdyOp::Constant))
        && !matches!(data.attr("value"), Some(Attr::Dense(dense)) if dense.splat_bytes().is_some())
}

/// Whether an array of the turn is not computed where it stands, but made wherever it is read.
fn is_made_anywhere(s: &Splitter<'_>, plan: &WideLoop, v: ValueId) -> bool {
    if plan.spans.contains_key(&v) {
        return false;
    }
    if is_outside(s, plan, v) {
        return true;
    }
    let Some(op) = s.src.def_op(v) else { return false };
    let data = s.src.op(op);
    let from = |v: &ValueId| s.src.ty(*v).rank() == Some(0) || is_made_anywhere(s, plan, *v);
    match data.kind() {
        OpKind::Source(SourceOp::Constant | SourceOp::Iota) | OpKind::Sdy(SdyOp::Constant) => true,
        OpKind::Movement(MovementOp::BroadcastInDim) | OpKind::Unary(_) | OpKind::Binary(_) | OpKind::Mixed(_) => {
            s.src.ty(v).rank() != Some(0) && data.operands().iter().all(from)
        }
        _ => false,
    }
}

/// Whether `v` is made of nothing but numbers, so that no device has to send any of it.
pub fn is_free(s: &Splitter<'_>, plan: &WideLoop, v: ValueId, depth: usize) -> bool {
    let v = plan.outer(v);
    if s.src.ty(v).rank() == Some(0) {
        return true;
    }
    let Some(op) = s.src.def_op(v).filter(|_| depth < 16 && !is_list(s, v)) else { return false };
    let data = s.src.op(op);
    match data.kind() {
        OpKind::Source(SourceOp::Constant | SourceOp::Iota) | OpKind::Sdy(SdyOp::Constant) => true,
        OpKind::Movement(MovementOp::BroadcastInDim) | OpKind::Unary(_) | OpKind::Binary(_) | OpKind::Mixed(_) => {
            data.operands().iter().all(|&v| is_free(s, plan, v, depth + 1))
        }
        _ => false,
    }
}

/// Notes which arrays from outside are needed to make `v` so. `None` if it cannot be.
fn ask_outside(s: &mut Splitter<'_>, plan: &mut WideLoop, v: ValueId, wanted: &[Along]) -> Option<()> {
    if s.src.ty(v).rank() == Some(0) || plan.spans.contains_key(&v) || is_free(s, plan, v, 0) {
        return Some(());
    }
    if is_outside(s, plan, v) {
        let full: Vec<Along> = wanted.iter().map(|a| a.full()).collect();
        let entry = (plan.outer(v), full);
        if !plan.outside.contains(&entry) {
            plan.outside.push(entry);
        }
        return Some(());
    }
    // Made of others that are: element by element, or spread.
    let op = s.src.def_op(v)?;
    for (operand, links) in s.links(op, &plan.spans, &plan.lines)? as Vec<Source> {
        ask_outside(s, plan, operand, &wanted_of(wanted, &links))?;
    }
    Some(())
}
