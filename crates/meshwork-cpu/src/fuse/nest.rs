//! Loop nests: which dimensions of a box are one, which one is the row, and where each array starts and steps.

use std::sync::Arc;

use super::graph::{Graph, Id, Moved, Node, Place};
use super::interleaved::{self, Interleaved};
use super::packed;
use super::phases::{self, Output};
use super::work::MAX_ARRAYS;
use crate::kernel::ir::{Access, Arg};
use crate::kernel::{Kernel, Stores, widest};
use crate::step::{Buf, Frame};
use meshwork_ir::ElementType;
use meshwork_ir::hash::HashMap;

/// One array of a loop.
#[derive(Clone, Debug)]
pub(crate) struct Array {
    pub buf: Buf,
    pub offset: i64,
    /// Bytes per step of each outer dimension.
    pub strides: Vec<i64>,
    /// Bytes per element of the row.
    pub step: i64,
    pub elem_bytes: i64,
    pub moved: Vec<Moved>,
    /// Whether each element is at a place of its own.
    pub picked: bool,
    /// Its elements are neighbors from row to row, not along the row: rows are turned on the way, some at a time.
    pub across: bool,
}

/// A number that counts along the loops.
#[derive(Clone, Debug)]
pub(crate) struct Counter {
    pub base: i64,
    pub strides: Vec<i64>,
    pub step: i64,
}

/// A kernel with all it needs to run over one box.
#[derive(Clone, Debug)]
pub(crate) struct Loop {
    pub kernel: Arc<Kernel>,
    /// The same with stores past the caches, for rows that are aligned, where it pays.
    pub past: Option<Arc<Kernel>>,
    /// Inputs, then outputs.
    pub arrays: Vec<Array>,
    /// The places of the graph that the inputs are.
    pub inputs: Vec<u32>,
    /// Arrays whose elements are moved in groups.
    pub interleaved: Vec<Interleaved>,
    pub counters: Vec<Counter>,
    /// Extents around the row, outermost first.
    pub outer: Vec<i64>,
    /// Elements of a row.
    pub n: i64,
    /// Dimensions of the domain that the row runs over.
    pub row: u32,
    /// Whether a row may be cut: nothing is carried along it.
    pub divisible: bool,
    /// Rough cost of an element in picoseconds.
    pub cost: u64,
}

impl Loop {
    /// The same with stores past the caches, if it touches more than these hold.
    pub fn past_caches(mut self) -> Loop {
        let rows: i64 = self.outer.iter().product();
        let moves = |a: &&Array| a.step != 0 && (rows == 1 || !a.repeats());
        let bytes: i64 = self.arrays.iter().filter(moves).map(|a| a.elem_bytes * rows * self.n).sum();
        // The end of a row waits for what was stored past the caches before it. Long rows do not mind.
        let ends_well = |a: &Array| {
            let row = a.elem_bytes * self.n;
            rows == 1 || row % VECTOR_BYTES == 0 || row >= LONG_BYTES
        };
        let pays = |a: &Array| a.step == a.elem_bytes && ends_well(a);
        let writes = self.arrays[self.inputs.len()..].iter().any(pays);
        if writes && bytes >= PAST_BYTES {
            self.past = Kernel::cached(self.kernel.body().clone(), Stores::PastCaches).ok();
        }
        self
    }

    /// The same for outputs that all rows are added to.
    pub fn accumulating(mut self) -> Loop {
        if let Ok(kernel) = Kernel::cached(self.kernel.body().clone(), Stores::Accumulated) {
            self.kernel = kernel;
        }
        self
    }

    /// The same with its output `bytes` further on, where it is also an input there too.
    pub fn shifted(&self, bytes: i64) -> Loop {
        let mut l = self.clone();
        let to = l.arrays.last().map(|a| a.buf);
        l.arrays.iter_mut().filter(|a| Some(a.buf) == to).for_each(|a| a.offset += bytes);
        l
    }

    /// The same with buffer `to` for `from`.
    pub fn with_buf(mut self, from: Buf, to: Buf) -> Loop {
        self.arrays.iter_mut().filter(|a| a.buf == from).for_each(|a| a.buf = to);
        self
    }

    /// Whether rows of an array are at places of their own.
    pub fn is_listed(&self) -> bool {
        self.arrays.iter().any(Array::is_listed)
    }

    /// How many rows are better one: they are short, and every array goes on from one to the next or, like a bias,
    /// starts again.
    pub fn rows_to_join(&self) -> Option<i64> {
        let &rows = self.outer.last()?;
        let short = (2..SHORT_ROW).contains(&self.n) && rows * self.n >= MANY_ELEMENTS;
        if !short || !self.divisible || !self.counters.is_empty() || self.is_listed() {
            return None;
        }
        let even = |a: &Array| a.step == a.elem_bytes;
        let goes_on = |a: &Array| even(a) && a.strides.last() == Some(&(self.n * a.step));
        let (inputs, outputs) = self.arrays.split_at(self.inputs.len());
        let again = |a: &Array| even(a) && a.repeats() && a.moved.is_empty();
        let fit = outputs.iter().all(goes_on) && inputs.iter().all(|a| goes_on(a) || again(a));
        let joined = (1..=JOINED_ROW / self.n).rev().find(|by| rows % by == 0);
        joined.filter(|&by| fit && by >= 4)
    }

    /// The same with `by` rows as one; `copy` gives the buffer in which what repeats stands so often.
    pub fn joined(&self, by: i64, mut copy: impl FnMut(usize, &Array) -> Buf) -> Loop {
        let mut l = self.clone();
        l.n *= by;
        l.outer.iter_mut().next_back().into_iter().for_each(|rows| *rows /= by);
        for (i, a) in l.arrays.iter_mut().enumerate() {
            if a.repeats() {
                (a.buf, a.offset) = (copy(i, &self.arrays[i]), 0);
            }
            a.strides.iter_mut().next_back().into_iter().for_each(|s| *s *= by);
        }
        l
    }

    /// An input, by its place, whose elements along the row are far apart, and which is worth being copied first.
    pub fn far_input(&self) -> Option<u32> {
        let rows: i64 = self.outer.iter().product();
        if self.arrays[self.inputs.len()..].iter().any(|a| a.step != a.elem_bytes && a.step != 0) {
            return None;
        }
        // Its elements are neighbors when the kernel reads them.
        let moved = |i: usize| self.arrays[i].across || self.interleaved.iter().any(|c| c.arrays().any(|j| j == i));
        let far =
            |a: &&(usize, &Array)| !moved(a.0) && a.1.step.abs() >= FAR_BYTES && self.n >= 8 && rows * self.n >= 2048;
        let inputs = self.arrays.iter().enumerate().take(self.inputs.len()).collect::<Vec<_>>();
        // What the rows read again and again is worth it however near its elements are.
        let often = |a: &&(usize, &Array)| {
            let times: i64 = self.outer.iter().zip(&a.1.strides).filter(|&(_, &s)| s == 0).map(|(&n, _)| n).product();
            !moved(a.0) && a.1.step != 0 && a.1.step != a.1.elem_bytes && self.n >= 8 && times >= OFTEN
        };
        inputs.iter().find(|a| (far(a) || often(a)) && a.1.moved.is_empty()).map(|&(i, _)| self.inputs[i])
    }

    /// The buffers that it reads.
    pub fn reads(&self) -> impl Iterator<Item = Buf> {
        let inputs = &self.arrays[..self.inputs.len()];
        inputs.iter().flat_map(|a| std::iter::once(a.buf).chain(a.moved.iter().map(|m| m.by.buf)))
    }
}

impl Array {
    /// Where it starts, but for what its rows are moved by.
    ///
    /// # Safety
    /// The buffers of the array and of the numbers that it is moved by are valid.
    #[inline]
    pub unsafe fn start(&self, frame: &Frame<'_>) -> *mut u8 {
        let mut at = self.offset;
        for moved in self.moved.iter().filter(|m| m.along.is_empty()) {
            // SAFETY: the caller's.
            at += unsafe { moved.by.get(frame) }.clamp(0, moved.most) * moved.stride;
        }
        // SAFETY: inside the buffer.
        unsafe { frame.ptr(self.buf).offset(at as isize) }
    }

    /// Whether every row is the same.
    fn repeats(&self) -> bool {
        self.strides.iter().all(|&s| s == 0) && !self.is_listed()
    }

    /// Whether each row is at a place of its own.
    pub fn is_listed(&self) -> bool {
        self.moved.iter().any(|m| !m.along.is_empty())
    }
}

/// Rows shorter than this are joined to about `JOINED_ROW` elements, if there are that many.
const SHORT_ROW: i64 = 64;
const JOINED_ROW: i64 = 1024;
const MANY_ELEMENTS: i64 = 1 << 14;
/// A loop that touches this many bytes leaves nothing useful in the caches.
const PAST_BYTES: i64 = 48 << 20;
/// Rows of whole vectors, and those that are long.
const VECTOR_BYTES: i64 = 32;
const LONG_BYTES: i64 = 4096;
/// Bytes of turned rows at a time: they stay in a second-level cache of 1 MB. The higher a panel is, the longer are the
/// pieces that are read in one go.
pub(crate) const PANEL_BYTES: i64 = 600 << 10;
/// So many elements of each row are turned at a time, if it can be cut.
pub(crate) const PANEL_COLUMNS: i64 = 128;
/// Fewer rows than this are not worth it.
const PANEL_LEAST_ROWS: i64 = 16;
/// Rows that read the same elements.
const OFTEN: i64 = 16;
/// Elements of a row further apart than this are on different cache lines.
const FAR_BYTES: i64 = 64;

/// Why there is no loop.
#[derive(Debug)]
pub(crate) enum NoLoop {
    /// This place (a number of the graph) does not run evenly along the row.
    Uneven(u32),
    /// The outputs do not run evenly along the row.
    UnevenOutput,
    /// No such kernel exists.
    Kernel,
    /// It would read, write or count along more arrays than a loop can.
    TooMany,
}

/// The shape of a nest: groups of dimensions of the domain that are one loop each, and the row among them.
struct Shape {
    outer: Vec<Vec<usize>>,
    row: Vec<usize>,
}

/// The loop that computes `outputs` over the box of `graph`. Dimensions from `split` on must form the row.
pub(crate) fn plan(graph: &Graph, outputs: &[(Id, Place)], split: Option<usize>) -> Result<Loop, NoLoop> {
    let live = live_nodes(graph, outputs);
    let mut places: Vec<u32> = vec![];
    let mut positions: Vec<u32> = vec![];
    for (info, _) in graph.nodes.iter().zip(&live).filter(|&(_, &l)| l) {
        match info.node {
            Node::Load(p) | Node::Pick(p, _) if !places.contains(&p) => places.push(p),
            Node::Index(p) if !positions.contains(&p) => positions.push(p),
            _ => {}
        }
    }
    // Before a kernel is made, which takes long for so much.
    if places.len() + outputs.len() > MAX_ARRAYS || positions.len() > MAX_ARRAYS {
        return Err(NoLoop::TooMany);
    }
    let inputs: Vec<&Place> = places.iter().map(|&p| &graph.places[p as usize]).collect();
    let counters: Vec<&(Vec<i64>, i64)> = positions.iter().map(|&p| &graph.positions[p as usize]).collect();
    let extent = |d: usize| graph.hi[d] - graph.lo[d];
    let all: Vec<&[i64]> = (inputs.iter().map(|p| &p.strides[..]))
        .chain(outputs.iter().map(|(_, p)| &p.strides[..]))
        .chain(counters.iter().map(|c| &c.0[..]))
        .chain(inputs.iter().flat_map(|p| &p.moved).map(|m| &m.along[..]).filter(|along| !along.is_empty()))
        .collect();
    // Places whose rows are moved one by one.
    let listed: Vec<u32> = places.iter().copied().filter(|&p| graph.places[p as usize].is_listed()).collect();
    let moves = |p: &u32, row: &[usize]| {
        let moved = &graph.places[*p as usize].moved;
        row.iter().any(|&d| moved.iter().any(|m| m.along.get(d).is_some_and(|&s| s != 0)))
    };
    let wide = |range: std::ops::Range<usize>| range.filter(|&d| extent(d) > 1).collect::<Vec<usize>>();
    let rank = graph.lo.len();
    let shape = match split {
        Some(k) => {
            let row = merged(&wide(k..rank), &all, &extent);
            if row.len() > 1 {
                let uneven = |p: &Place| merged(&wide(k..rank), &[&p.strides], &extent).len() > 1;
                let bad = places.iter().find(|&&p| uneven(&graph.places[p as usize]));
                return Err(bad.map_or(NoLoop::UnevenOutput, |&p| NoLoop::Uneven(p)));
            }
            Shape { outer: merged(&wide(0..k), &all, &extent), row: row.into_iter().next().unwrap_or_default() }
        }
        None => {
            let mut groups = merged(&wide(0..rank), &all, &extent);
            let fits = |row: &[usize]| !listed.iter().any(|p| moves(p, row));
            let best = best_row(&groups, &inputs, outputs, &extent, &fits);
            let row = if groups.is_empty() { vec![] } else { groups.remove(best) };
            Shape { outer: groups, row }
        }
    };
    let empty = split.is_some_and(|k| (k..rank).any(|d| extent(d) == 0));
    let n: i64 = if empty { 0 } else { shape.row.iter().map(|&d| extent(d)).product() };
    let is_row = |p: &&u32| {
        let place = &graph.places[**p as usize];
        let step = shape.row.last().map_or(0, |&d| place.strides[d]);
        !moves(p, &shape.row) && step == place.elem.storage_bytes() as i64 && n >= super::LEAST_ROW
    };
    if let Some(&p) = listed.iter().find(|p| !is_row(p)) {
        return Err(NoLoop::Uneven(p));
    }
    let step_of = |strides: &[i64]| shape.row.last().map_or(0, |&d| strides[d]);
    let strides_of =
        |strides: &[i64]| -> Vec<i64> { shape.outer.iter().map(|g| g.last().map_or(0, |&d| strides[d])).collect() };
    let start_of = |strides: &[i64]| strides.iter().zip(&graph.lo).map(|(s, l)| s * l).sum::<i64>();
    let row_mask = shape.row.iter().fold(0u32, |m, &d| m | 1 << d);
    let moved_of = |m: &Moved| {
        let mut moved = m.clone();
        if !m.along.is_empty() {
            moved.by.offset += start_of(&m.along) as isize;
            moved.along = strides_of(&m.along);
        }
        moved
    };
    let array = |p: &Place| Array {
        buf: p.buf,
        offset: p.offset + start_of(&p.strides),
        strides: strides_of(&p.strides),
        step: if p.picked {
            // The places say it.
            0
        } else if n == 1 && split.is_none() {
            p.elem.storage_bytes() as i64
        } else {
            step_of(&p.strides)
        },
        elem_bytes: p.elem.storage_bytes() as i64,
        moved: p.moved.iter().map(moved_of).collect(),
        picked: p.picked,
        across: false,
    };
    let divisible = !graph.nodes.iter().zip(&live).any(|(i, &l)| l && matches!(i.node, Node::Reduce(..)));
    let mut arrays: Vec<Array> = inputs.iter().map(|p| array(p)).collect();
    let written: Vec<Array> = outputs.iter().map(|(_, p)| array(p)).collect();
    let rows = shape.outer.last().map_or(1, |g| g.iter().map(|&d| extent(d)).product());
    if written.iter().all(|a| a.step == a.elem_bytes || (a.step == 0 && !divisible)) {
        arrays.iter_mut().for_each(|a| a.across = is_across(a, rows, n, divisible));
    }
    arrays.extend(written);
    let mut interleaved = if divisible { interleaved::find(&arrays, inputs.len(), n) } else { vec![] };
    // Rows of all arrays are found in one way.
    if let Some(&p) = listed.first().filter(|_| !interleaved.is_empty() || arrays.iter().any(|a| a.across)) {
        return Err(NoLoop::Uneven(p));
    }
    let grouped: Vec<usize> = interleaved.iter().flat_map(Interleaved::arrays).collect();
    let arg = |i: usize, a: &Array, elem: ElementType, output: bool| {
        let access = match a.step {
            _ if a.is_listed() => Access::Listed,
            0 => Access::Zero,
            s if s == a.elem_bytes || a.across || grouped.contains(&i) => Access::Unit,
            s if s == 2 * a.elem_bytes && (a.elem_bytes >= 4 || !output) => Access::Pair,
            s if s == 3 * a.elem_bytes && a.elem_bytes <= 4 && !output => Access::Triple,
            _ => Access::Strided,
        };
        Arg { elem, access, output }
    };
    let elems = inputs.iter().map(|p| (p.elem, false)).chain(outputs.iter().map(|(_, p)| (p.elem, true)));
    let args = arrays.iter().zip(elems).enumerate().map(|(i, (a, (elem, output)))| arg(i, a, elem, output));
    let args: Vec<Arg> = args.collect();
    let row_level = |p: &Place| split.is_some_and(|k| (k..rank).all(|d| p.strides[d] == 0 || extent(d) == 1));
    let outs: Vec<Output> = outputs
        .iter()
        .enumerate()
        .map(|(i, (id, p))| Output { node: *id, arg: (inputs.len() + i) as u16, once: row_level(p) })
        .collect();
    // Places vary along the row as their arrays do.
    let mut along: Vec<i64> = vec![];
    let mut steps = HashMap::default();
    for (&p, a) in places.iter().zip(&arrays) {
        let step = step_of(&graph.places[p as usize].strides);
        if a.picked && step != 0 {
            let at = along.iter().position(|&s| s == step).unwrap_or(along.len());
            if at == along.len() {
                along.push(step);
            }
            steps.insert(p, (positions.len() + at) as u8);
        }
    }
    if positions.len() + along.len() > MAX_ARRAYS {
        return Err(NoLoop::TooMany);
    }
    let input_args = places.iter().enumerate().map(|(i, &p)| (p, i as u16)).collect();
    let slots = positions.iter().enumerate().map(|(i, &p)| (p, i as u8)).collect();
    let job =
        phases::Job { graph, live: &live, row_mask, n, outputs: &outs, inputs: input_args, counters: slots, steps };
    let (mut body, ops_cost) = phases::body(&job, args);
    let bytes: i64 = arrays.iter().map(|a| if a.step == 0 { 0 } else { a.elem_bytes }).sum();
    let widest = if interleaved.is_empty() { None } else { widest(&body) };
    let words = packed::find(&interleaved, &arrays, &body.args, widest.unwrap_or(1));
    if let Some(packed) = packed::pack(&body, &words).filter(|_| !words.is_empty()) {
        body = packed;
        interleaved.retain(|group| !words.iter().any(|w| w.is(group)));
        let is_gone = |i: usize| words.iter().any(|w| w.replaces(i));
        interleaved =
            interleaved.into_iter().map(|g| g.renumbered(|i| i - (0..i).filter(|&j| is_gone(j)).count())).collect();
        for word in &words {
            arrays[word.first()].elem_bytes = word.bytes();
        }
        let mut numbers = 0..;
        places.retain(|_| numbers.next().is_some_and(|i| !is_gone(i)));
        let mut numbers = 0..;
        arrays.retain(|_| numbers.next().is_some_and(|i| !is_gone(i)));
    }
    // Pairs that are left a kernel reads by itself.
    let pairs =
        |group: &Interleaved| group.arrays().all(|i| i < places.len() && arrays[i].step == 2 * arrays[i].elem_bytes);
    for i in interleaved.iter().filter(|g| pairs(g)).flat_map(Interleaved::arrays) {
        body.args[i].access = Access::Pair;
    }
    interleaved.retain(|group| !pairs(group));
    let kernel = Kernel::cached(body, Stores::Cached).map_err(|_| NoLoop::Kernel)?;
    let counters =
        counters.iter().map(|(c, base)| Counter { base: base + start_of(c), strides: strides_of(c), step: step_of(c) });
    let counters =
        counters.chain(along.iter().map(|&step| Counter { base: 0, strides: vec![0; shape.outer.len()], step }));
    Ok(Loop {
        kernel,
        past: None,
        arrays,
        inputs: places,
        interleaved,
        counters: counters.collect(),
        outer: shape.outer.iter().map(|g| g.iter().map(|&d| extent(d)).product()).collect(),
        n,
        row: row_mask,
        divisible,
        cost: 40 * bytes as u64 + 100 * u64::from(ops_cost) + 20,
    })
}

/// Whether rows of `a` are better transposed than read with a stride: `rows` of them are side by side. What cannot be cut must fit
/// the room for it with whole rows.
fn is_across(a: &Array, rows: i64, n: i64, divisible: bool) -> bool {
    let beside = a.strides.last() == Some(&a.elem_bytes) && a.step.abs() >= FAR_BYTES;
    let fits = divisible || PANEL_LEAST_ROWS * n * a.elem_bytes <= PANEL_BYTES;
    beside && fits && rows >= PANEL_LEAST_ROWS && n >= 8
}

/// Which nodes the outputs need.
fn live_nodes(graph: &Graph, outputs: &[(Id, Place)]) -> Vec<bool> {
    let mut live = vec![false; graph.nodes.len()];
    outputs.iter().for_each(|(id, _)| live[*id as usize] = true);
    for id in (0..graph.nodes.len()).rev() {
        if live[id] {
            operands(&graph.nodes[id].node).iter().flatten().for_each(|&o| live[o as usize] = true);
        }
    }
    live
}

/// The nodes that a node uses.
pub(crate) fn operands(node: &Node) -> [Option<Id>; 3] {
    match *node {
        Node::Const(_) | Node::Load(_) | Node::Index(_) => [None; 3],
        Node::Unary(_, x)
        | Node::Convert(x)
        | Node::Bitcast(x)
        | Node::Round(_, x)
        | Node::Reduce(_, x)
        | Node::Pick(_, x) => [Some(x), None, None],
        Node::Binary(_, x, y) | Node::Compare(_, x, y) => [Some(x), Some(y), None],
        Node::Select(p, x, y) => [Some(p), Some(x), Some(y)],
    }
}

/// Neighboring dimensions that all arrays run through as if they were one.
fn merged(dims: &[usize], all: &[&[i64]], extent: &dyn Fn(usize) -> i64) -> Vec<Vec<usize>> {
    let mut groups: Vec<Vec<usize>> = vec![];
    for &d in dims {
        match groups.last_mut() {
            Some(group) if all.iter().all(|s| group.last().is_some_and(|&g| s[g] == s[d] * extent(d))) => group.push(d),
            _ => groups.push(vec![d]),
        }
    }
    groups
}

/// The loop along which most arrays have neighboring elements; the innermost one that is not short where it makes no difference.
fn best_row(
    groups: &[Vec<usize>],
    inputs: &[&Place],
    outputs: &[(Id, Place)],
    extent: &dyn Fn(usize) -> i64,
    fits: &dyn Fn(&[usize]) -> bool,
) -> usize {
    let score = |g: &Vec<usize>| {
        let (Some(&d), n) = (g.last(), g.iter().map(|&d| extent(d)).product::<i64>()) else { return 0 };
        let near = |p: &Place, unit: i64| match p.strides[d] {
            s if s == p.elem.storage_bytes() as i64 => unit,
            s if s == 2 * p.elem.storage_bytes() as i64 => unit - 1,
            0 => 1,
            _ => 0,
        };
        let sum: i64 =
            inputs.iter().map(|p| near(p, 2)).sum::<i64>() + outputs.iter().map(|(_, p)| near(p, 3)).sum::<i64>();
        sum * n.min(16)
    };
    let length = |g: &Vec<usize>| g.iter().map(|&d| extent(d)).product::<i64>().min(16);
    (0..groups.len()).max_by_key(|&i| (fits(&groups[i]), score(&groups[i]), length(&groups[i]), i)).unwrap_or(0)
}
