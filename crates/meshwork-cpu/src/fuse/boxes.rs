//! The boxes of a group: parts of its domain in which every read is affine, and the loop of each.

use meshwork_ir::hash::HashSet;
use meshwork_ir::op::MovementOp;
use meshwork_ir::{OpKind, ValueId};

use super::affine::{self, Lin, identity};
use super::build::{Builder, Stop};
use super::graph::{Graph, Id, Place};
use super::group::Outcome;
use super::nest::{Array, Loop, NoLoop, plan};
use super::numbers;
use super::range::Devices;
use super::survey::Survey;
use crate::compile::Compiler;
use crate::step::{Buf, View};

/// Boxes of one group before values that cut it are stored.
const MAX_BOXES: usize = 64;
/// Boxes of one group before comparisons stop to cut it.
const MAX_MASK_BOXES: usize = 8;

/// What is computed, and where it goes.
pub(super) struct Job<'a> {
    pub survey: &'a Survey,
    pub outputs: &'a [ValueId],
    /// One per output.
    pub places: &'a [Place],
    /// The output that was asked for.
    pub root: ValueId,
}

/// Loops, and the pairs of buffers that may be one piece of memory for all of them.
#[derive(Default)]
pub(super) struct Boxes {
    pub loops: Vec<Loop>,
    pub pairs: Option<HashSet<(Buf, Buf)>>,
}

/// Positions `lo..hi` of the domain; those of the dimensions in `beside` are computed side by side in one loop over the others.
struct Piece {
    lo: Vec<i64>,
    hi: Vec<i64>,
    beside: u32,
    /// What may become more of them: none, once that was too much for one loop.
    may_join: u32,
}

/// Positions of a dimension that are side by side because it is short.
const MAX_STACK: i64 = 4;
/// A row of more bytes than a vector is not short.
const VECTOR_BYTES: i64 = 32;
/// An edge is at most one in so many positions of a dimension.
const THIN: i64 = 8;
/// Elements of an array that takes about as long as its edges.
const FEW_ELEMENTS: i64 = 2048;
/// The cost of an element, in additions, that outweighs a step of its own for what has edges.
const HEAVY: u32 = 40;
/// Elements of a loop for which that pays.
const LEAST_BESIDE: i64 = 8;

/// The positions of `lo..hi` in the dimensions of `mask`, in order; the others are at `lo`.
fn positions(lo: &[i64], hi: &[i64], mask: u32) -> Vec<Vec<i64>> {
    let mut out = vec![lo.to_vec()];
    for d in (0..lo.len()).filter(|d| mask >> d & 1 == 1) {
        let along = |at: Vec<i64>| {
            (lo[d]..hi[d]).map(move |i| {
                let mut at = at.clone();
                at[d] = i;
                at
            })
        };
        out = out.into_iter().flat_map(along).collect();
    }
    out
}

/// Why there are no loops.
pub(super) enum Halt {
    Outcome(Outcome),
    NoKernel,
}

impl From<Outcome> for Halt {
    fn from(outcome: Outcome) -> Halt {
        Halt::Outcome(outcome)
    }
}

impl Compiler<'_> {
    /// The sets of devices that have loops of their own: all together, or each by itself where something is sliced at
    /// a place that depends on the device.
    pub(super) fn kinds_of_devices(&self, survey: &Survey) -> Vec<Devices> {
        let module = self.cx.module;
        let all = Devices::all(self.grid);
        let differs = |&v: &ValueId| {
            let op = module.def_op(v).filter(|&op| module.op(op).kind() == OpKind::Movement(MovementOp::DynamicSlice));
            op.is_some_and(|op| !super::is_moved_slice(module, op) && affine::offsets(module, op, all).is_none())
        };
        if survey.inside.iter().any(differs) {
            (0..self.grid.partitions).map(|p| Devices::partition(self.grid, p)).collect()
        } else {
            vec![all]
        }
    }

    /// Adds the loops of `devices` to `built`, and what is to be copied before them to `copies`.
    pub(super) fn boxes(
        &mut self,
        job: &Job<'_>,
        devices: Devices,
        built: &mut Boxes,
        copies: &mut Vec<(View, View)>,
    ) -> Result<(), Halt> {
        let module = self.cx.module;
        let rank = job.survey.domain.len();
        let before = built.loops.len();
        // A copy is a step of all devices, which must then read the same places.
        let uniform = devices == Devices::all(self.grid);
        let mut work = vec![Piece {
            lo: vec![0; rank],
            hi: job.survey.domain.clone(),
            beside: job.survey.beside,
            may_join: u32::MAX,
        }];
        while let Some(piece) = work.pop() {
            let Piece { lo, hi, beside, may_join } = piece;
            let outer = job.survey.split.unwrap_or(rank);
            if (0..outer).any(|d| lo[d] >= hi[d]) {
                continue;
            }
            // What is side by side has one position in the loop.
            let one = |at: &[i64], to: i64| -> Vec<i64> {
                (0..rank).map(|d| if beside >> d & 1 == 1 { to } else { at[d] }).collect()
            };
            let (from, to) = (one(&lo, 0), one(&hi, 1));
            let mut builder = Builder::new(&self.cx, devices, &job.survey.domain, job.survey.split, &from, &to);
            builder.cut_masks = built.loops.len() - before + work.len() < MAX_MASK_BOXES;
            let mut nodes: Vec<(Id, Place)> = vec![];
            let mut stop = None;
            'outputs: for at in positions(&lo, &hi, beside) {
                for (&v, place) in job.outputs.iter().zip(job.places) {
                    let (mut map, mut place) = (identity(module.ty(v).dims().len()), place.clone());
                    for (d, &i) in at.iter().enumerate().filter(|&(d, _)| beside >> d & 1 == 1) {
                        map[d] = Lin::at(i);
                        place.offset += i * place.strides[d];
                        place.strides[d] = 0;
                    }
                    match builder.value(v, &map) {
                        Ok(id) => nodes.push((id, place)),
                        Err(s) => {
                            stop = Some(s);
                            break 'outputs;
                        }
                    }
                }
            }
            // How many positions of dimension `dim` would be side by side.
            let with = |dim: usize| -> i64 {
                (0..rank).filter(|&d| d == dim || beside >> d & 1 == 1).map(|d| hi[d] - lo[d]).product()
            };
            // Whether these elements, and inside each of them those of dimensions that are side by side already, are all neighbors in
            // memory, and there are enough rows of them.
            let is_interleaved = |dim: usize| {
                let of = |dims: std::ops::Range<usize>| -> i64 { dims.map(|d| hi[d] - lo[d]).product() };
                let inside = of(dim + 1..rank);
                let whole = (dim + 1..rank).all(|d| beside >> d & 1 == 1 || hi[d] - lo[d] == 1);
                let follow = |p: &Place| p.strides[dim] == inside * p.elem.storage_bytes() as i64;
                whole && job.places.iter().all(follow) && of(0..rank) >= super::MANY_INTERLEAVED * of(dim..rank)
            };
            let fits_beside = |dim: usize| {
                let whole: i64 = (0..rank).map(|d| hi[d] - lo[d]).product();
                let few = with(dim) * job.outputs.len() as i64
                    <= if is_interleaved(dim) { super::INTERLEAVED } else { super::SMALL };
                let long = whole / with(dim).max(1) >= LEAST_BESIDE || whole <= super::SMALL;
                job.survey.split.is_none() && (may_join & !beside) >> dim & 1 == 1 && few && long
            };
            let most_beside = |dim: usize| if is_interleaved(dim) { super::INTERLEAVED } else { MAX_STACK };
            match stop {
                None => {}
                Some(Stop::Force(v)) => return Err(Outcome::First(v).into()),
                Some(Stop::Cut { dim, at, value }) => {
                    // Pieces of a stack have much in common, unless they are themselves what is better side by side.
                    let inside: i64 = (dim + 1..rank).filter(|d| beside >> d & 1 == 0).map(|d| hi[d] - lo[d]).product();
                    let is_short = dim + 1 < rank && hi[rank - 1] - lo[rank - 1] <= MAX_STACK;
                    let large = is_short && inside <= super::INTERLEAVED && with(dim) * inside > super::INTERLEAVED;
                    if hi[dim] - lo[dim] <= most_beside(dim) && fits_beside(dim) && !large {
                        work.push(Piece { lo, hi, beside: beside | 1 << dim, may_join });
                        continue;
                    }
                    let thin = (at - lo[dim]).min(hi[dim] - at) * THIN <= hi[dim] - lo[dim];
                    if thin && self.is_edge(job, value) {
                        return Err(Outcome::First(value).into());
                    }
                    let in_row = job.survey.split.is_some_and(|k| dim >= k);
                    if in_row || built.loops.len() - before + work.len() >= MAX_BOXES {
                        return Err(if job.outputs.contains(&value) || value == job.root {
                            Outcome::WithoutReductions
                        } else {
                            Outcome::First(value)
                        }
                        .into());
                    }
                    let (mut middle_hi, mut middle_lo) = (hi.clone(), lo.clone());
                    middle_hi[dim] = at;
                    middle_lo[dim] = at;
                    work.push(Piece { lo: middle_lo, hi, beside, may_join });
                    work.push(Piece { lo, hi: middle_hi, beside, may_join });
                    continue;
                }
            }
            let mut graph = builder.graph;
            let mut straight: HashSet<u32> = HashSet::default();
            let planned = loop {
                let found = plan(&graph, &nodes, job.survey.split);
                let bad = match &found {
                    // What moves is copied by itself.
                    Err(NoLoop::Uneven(p)) if !graph.places[*p as usize].moved.is_empty() => {
                        let moves = |op| super::is_moved_slice(module, op) || super::is_row_pick(module, op);
                        let slice = |v: &&ValueId| module.def_op(**v).is_some_and(moves);
                        let value = job.survey.inside.iter().find(slice).filter(|v| !job.outputs.contains(v));
                        return Err(value.map_or(Outcome::WithoutReductions, |&v| Outcome::First(v)).into());
                    }
                    Err(NoLoop::Uneven(p)) if uniform => Some(*p),
                    Ok(l) if uniform => l.far_input(),
                    _ => None,
                };
                match bad.filter(|&p| straight.insert(p)) {
                    Some(p) => straighten(self, &mut graph, p, copies),
                    None => break found,
                }
            };
            let l = match planned {
                Ok(l) => l,
                Err(NoLoop::Kernel) => return Err(Halt::NoKernel),
                // One position after the other takes as many arrays less.
                Err(NoLoop::TooMany) if beside != job.survey.beside => {
                    work.push(Piece { lo, hi, beside: job.survey.beside, may_join: 0 });
                    continue;
                }
                Err(NoLoop::TooMany) => return Err(self.middle_of(job.survey, job.root).into()),
                Err(_) => return Err(Outcome::WithoutReductions.into()),
            };
            // Short rows of results that another dimension runs across: their elements would be written one by one.
            let across = |d: &usize| {
                (beside | l.row) >> d & 1 == 0
                    && (2..=super::INTERLEAVED).contains(&(hi[*d] - lo[*d]))
                    && is_interleaved(*d)
            };
            if let Some(dim) = (0..rank).find(across).filter(|&dim| fits_beside(dim)) {
                work.push(Piece { lo, hi, beside: beside | 1 << dim, may_join });
                continue;
            }
            // A row of a few elements takes as long as one of many.
            let dim = l.row.trailing_zeros() as usize;
            let widest = job.places.iter().map(|p| p.elem.storage_bytes() as i64).max().unwrap_or(1);
            let one = l.row.count_ones() == 1 && l.n > 1 && l.rows_to_join().is_none();
            let short = l.n <= MAX_STACK || l.n * widest <= VECTOR_BYTES;
            if one && short && l.n <= most_beside(dim) && fits_beside(dim) {
                work.push(Piece { lo, hi, beside: beside | l.row, may_join });
                continue;
            }
            let l = match l.rows_to_join().filter(|_| uniform) {
                Some(by) => l.joined(by, |i, a| repeat(self, &l, (i, a), by, copies)),
                None => l,
            };
            let here = in_place(&graph, &nodes, &l, job.survey.split.is_some());
            built.pairs = Some(match built.pairs.take() {
                None => here,
                Some(others) => merge(others, here, &built.loops, &l),
            });
            built.loops.push(l);
        }
        Ok(())
    }
}

impl Compiler<'_> {
    /// Whether `value`, which cuts the domain, is better stored first: what is computed from its edges takes as long as all of a
    /// small array.
    fn is_edge(&self, job: &Job<'_>, value: ValueId) -> bool {
        self.puts_edges(value)
            && value != job.root
            && !job.outputs.contains(&value)
            && self.is_edge_worth_a_step(job.survey)
    }

    /// Whether `value` puts edges on something.
    pub(super) fn puts_edges(&self, value: ValueId) -> bool {
        let module = self.cx.module;
        let kind = module.def_op(value).map(|op| module.op(op).kind());
        matches!(kind, Some(OpKind::Movement(MovementOp::Pad | MovementOp::Concatenate)))
    }

    /// Whether a box at the edge of `survey` would take longer than a step that puts the edge on first.
    pub(super) fn is_edge_worth_a_step(&self, survey: &Survey) -> bool {
        let module = self.cx.module;
        let ops = survey.inside.iter().filter_map(|&v| module.def_op(v));
        let cost: u32 = ops.map(|op| numbers::cost(module.op(op).kind())).sum();
        survey.domain.iter().product::<i64>() <= FEW_ELEMENTS && cost >= HEAVY
    }
}

/// Replaces place `p` of the graph by a dense copy of what the box reads of it.
pub(super) fn straighten(c: &mut Compiler<'_>, graph: &mut Graph, p: u32, copies: &mut Vec<(View, View)>) {
    let place = graph.places[p as usize].clone();
    let row = graph.row_mask;
    let extent = |d: usize| if place.strides[d] == 0 && row >> d & 1 == 0 { 1 } else { graph.hi[d] - graph.lo[d] };
    let dims: Vec<i64> = (0..place.strides.len()).map(extent).collect();
    let start: i64 = place.strides.iter().zip(&graph.lo).map(|(s, l)| s * l).sum();
    let from = View {
        buf: place.buf,
        elem: place.elem,
        dims: dims.clone(),
        offset: place.offset + start,
        strides: place.strides.clone(),
    };
    let buf = c.cx.buffer(place.elem, &dims);
    let to = View::dense(buf, place.elem, &dims);
    let strides: Vec<i64> = (0..dims.len()).map(|d| if dims[d] == 1 { 0 } else { to.strides[d] }).collect();
    let offset = -strides.iter().zip(&graph.lo).map(|(s, l)| s * l).sum::<i64>();
    graph.places[p as usize] = Place { buf, elem: place.elem, offset, strides, moved: vec![], picked: false };
    copies.push((from, to));
}

/// A buffer with `by` copies of the row of array `a`, which is number `i` of loop `l`.
fn repeat(c: &mut Compiler<'_>, l: &Loop, (i, a): (usize, &Array), by: i64, copies: &mut Vec<(View, View)>) -> Buf {
    let (elem, dims) = (l.kernel.body().args[i].elem, vec![by, l.n]);
    let buf = c.cx.buffer(elem, &dims);
    let to = View::dense(buf, elem, &dims);
    let from = View { buf: a.buf, elem, dims, offset: a.offset, strides: vec![0, a.step] };
    copies.push((from, to));
    buf
}

/// Pairs of buffers of which the loop reads each element of the first only where it writes the second.
fn in_place(graph: &Graph, outputs: &[(Id, Place)], l: &Loop, rows: bool) -> HashSet<(Buf, Buf)> {
    let last = outputs.iter().map(|(id, _)| graph.nodes[*id as usize].level).max().unwrap_or(0);
    let mut out = HashSet::default();
    for (id, to) in outputs {
        // In a row program what is stored before the last phase may still be read in a later one.
        if rows && (graph.nodes[*id as usize].level < last || outputs.len() > 1) {
            continue;
        }
        for &p in &l.inputs {
            let from = graph.places[p as usize].buf;
            let same = |q: &u32| {
                let place = &graph.places[*q as usize];
                let here = place.elem == to.elem && place.offset == to.offset && place.strides == to.strides;
                place.buf != from || (here && place.moved.is_empty() && !place.picked)
            };
            let moves = l.arrays.iter().flat_map(|a| &a.moved).any(|m| m.by.buf == from);
            if l.inputs.iter().all(same) && !moves {
                out.insert((from, to.buf));
            }
        }
    }
    out
}

/// Pairs that hold for the boxes before and for this one; a box that does not read a buffer allows any pair with it.
fn merge(before: HashSet<(Buf, Buf)>, here: HashSet<(Buf, Buf)>, loops: &[Loop], l: &Loop) -> HashSet<(Buf, Buf)> {
    let reads = |l: &Loop, buf: Buf| l.arrays[..l.inputs.len()].iter().any(|a| a.buf == buf);
    let mut out: HashSet<(Buf, Buf)> = before.iter().copied().filter(|p| here.contains(p) || !reads(l, p.0)).collect();
    out.extend(here.iter().copied().filter(|p| !loops.iter().any(|b| reads(b, p.0))));
    out
}
