//! Reductions that are no row programs: over outer dimensions, over dimensions apart, over few very long rows.
//!
//! A reduction goes in stages, each into partial results in memory:
//! - innermost reduced dimensions first: rows, cut into pieces where there are few and long ones;
//! - then outer ones: accumulators that are one row of kept elements each, several of them where there is much to
//!   add, so that sums are of bounded length and parts are independent;
//! - last, partial results are combined as a balanced tree, and the initial value is added.
//!
//! How it is cut depends on the shape alone.

use std::sync::Arc;

use meshwork_ir::hash::{HashMap, HashSet};
use meshwork_ir::{OpId, ValueId};

use super::affine::{Lin, identity};
use super::boxes::straighten;
use super::build::{Builder, Stop};
use super::graph::{Graph, Id, Place};
use super::nest::{Loop, NoLoop, plan};
use super::numbers::{self, Arithmetic};
use super::range::Devices;
use super::survey::Scope;
use super::work::{Fused, Task};
use super::{reduce_kind, reduced_dims};
use crate::compile::Compiler;
use crate::kernel::ir::Combine;
use crate::library;
use crate::step::{Buf, View};
use meshwork_runtime::LoadError;

/// What a stage reduces.
#[derive(Clone, Debug)]
enum Source {
    /// A value, computed on the way.
    Value(ValueId),
    /// Partial results.
    View(View),
}

/// A piece of a long row has about this many elements.
const PIECE: i64 = 1 << 14;
/// Partial results of one element.
const MAX_PARTIALS: i64 = 32;
/// Rows that one accumulator takes in.
const ROWS_PER_SUM: i64 = 1024;
/// Elements of an accumulator that stays in the first-level cache.
const TILE: i64 = 2048;
/// Elements of reduced dimensions that make a row before a short dimension.
const LEAST_SIDE: i64 = 4;
/// Elements of outer reduced dimensions that make columns before a short reduced dimension.
const LEAST_ROW: i64 = 16;
/// A value that costs more additions is not computed once for each of several reductions.
const EXPENSIVE: u32 = 16;
/// One that costs more is stored by the loop that reduces it, if others need it.
const WORTH_A_STORE: u32 = 10;
/// Times that what is computed before a reduction is smaller than what is reduced.
const SMALL_TIMES: i64 = 64;
/// Innermost reduced dimensions of fewer elements are left for last.
const SHORT_INNER: i64 = 32;
/// A part of a stage costs at least this many nanoseconds.
const PART_NS: u64 = 20_000;

impl Compiler<'_> {
    /// Adds the steps of `op`, a reduction of a known kind.
    pub(crate) fn reduce_in_stages(&mut self, op: OpId) -> Result<(), LoadError> {
        let module = self.cx.module;
        let (Some(combine), data) = (reduce_kind(module, op), module.op(op)) else { return self.opaque(op) };
        let (operand, init) = (data.operands()[0], data.operands()[1]);
        self.force(init)?;
        let mut dims = module.ty(operand).dims().to_vec();
        let mut reduced = reduced_dims(module, op);
        if dims.contains(&0) || reduced.is_empty() || dims.len() > 30 {
            return self.opaque(op);
        }
        if self.is_stored(operand) {
            self.force(operand)?;
        }
        let tail = short_tail(&dims, &reduced);
        let now = first_reduced(&dims, &reduced, tail);
        let first = Stage { combine, op, dims: &dims, reduced: &now, tail };
        let mut kept = None;
        loop {
            let shared = self.shared_with_others(op, operand);
            match shared.iter().max() {
                // Nothing inside is shared as well, so there is nothing that it is better computed together with.
                Some(&(_, v)) if v == operand && shared.len() == 1 && !first.is_inner() => {
                    kept = Some(operand);
                    break;
                }
                Some(&(cost, v)) if cost > EXPENSIVE => self.force(v)?,
                _ => break,
            }
        }
        for small in self.small_inside(operand) {
            self.force(small)?;
        }
        let mut source = Source::Value(operand);
        loop {
            // Dimensions of one element need no reduction.
            if let Source::View(view) = &mut source {
                drop_ones(view, &mut dims, &mut reduced);
                if reduced.is_empty() {
                    break;
                }
            }
            let tail = short_tail(&dims, &reduced);
            let now = first_reduced(&dims, &reduced, tail);
            let stage = Stage { combine, op, dims: &dims, reduced: &now, tail };
            let next = match self.stage(&stage, &source, kept.take())? {
                Some(view) => view,
                None => return self.opaque(op),
            };
            if now.len() == reduced.len() && !stage.is_inner() {
                return self.finish(&stage, next, init);
            }
            // The stage may have left pieces in front.
            let kept: Vec<usize> = (0..dims.len()).filter(|d| !now.contains(d)).collect();
            let left = kept.iter().enumerate().filter(|(_, d)| reduced.contains(d)).map(|(i, _)| i + 1);
            reduced = [0].into_iter().chain(left).collect();
            dims = next.dims.clone();
            source = Source::View(next);
        }
        let Source::View(view) = source else { return self.opaque(op) };
        let mut lined = view;
        lined.dims.insert(0, 1);
        lined.strides.insert(0, 0);
        self.finish(&Stage { combine, op, dims: &dims, reduced: &reduced, tail: 0 }, lined, init)
    }

    /// The expensive values that `operand` is made of, itself among them, that others need too, each with its cost.
    fn shared_with_others(&self, op: OpId, operand: ValueId) -> Vec<(u32, ValueId)> {
        let module = self.cx.module;
        let scope = Scope { cx: &self.cx, stored: &self.fuse.stored, reductions: false, grid: self.grid };
        let size = |v: ValueId| module.ty(v).dims().iter().product::<i64>();
        let (mut costs, mut inside) = (HashMap::default(), HashSet::from_iter([op]));
        let mut found: Vec<(u32, ValueId)> = vec![];
        let mut work = vec![operand];
        while let Some(v) = work.pop() {
            let def = module.def_op(v).filter(|&op| self.cx.view(v).is_none() && super::is_fusible(module, op));
            let Some(def) = def.filter(|&def| inside.insert(def)) else { continue };
            work.extend(module.op(def).operands());
            let cost = scope.cost(v, &mut costs);
            if cost > WORTH_A_STORE && size(v) * 2 >= size(operand) && numbers::is_arithmetic(module, def) {
                found.push((cost, v));
            }
        }
        let others = |op: &OpId| !inside.contains(op) && !self.fuse.done.contains(op);
        let shared = |&(_, v): &(u32, ValueId)| module.value(v).uses().iter().any(|u| others(&u.op));
        found.retain(shared);
        found
    }

    /// What `operand` is made of that is small and to be stored: it is computed first, not at every element.
    fn small_inside(&self, operand: ValueId) -> Vec<ValueId> {
        let module = self.cx.module;
        let size = |v: ValueId| module.ty(v).dims().iter().product::<i64>();
        let (mut found, mut seen, mut work) = (vec![], HashSet::default(), vec![operand]);
        while let Some(v) = work.pop() {
            let def = module.def_op(v).filter(|&op| self.cx.view(v).is_none() && super::is_fusible(module, op));
            let Some(def) = def.filter(|_| seen.insert(v)) else { continue };
            if self.is_stored(v) && size(v) * SMALL_TIMES <= size(operand) {
                found.push(v);
            } else {
                work.extend(module.op(def).operands());
            }
        }
        found
    }

    /// Runs one stage; the partial results have one dimension more in front, over which they are still to be reduced. What it
    /// reduces is stored on the way if it is `kept`.
    fn stage(&mut self, stage: &Stage<'_>, source: &Source, kept: Option<ValueId>) -> Result<Option<View>, LoadError> {
        // Each round stores one more value, so there is an end.
        loop {
            let built = match (source, kept) {
                _ if stage.is_inner() => self.row_stage(stage, source),
                // Once it is in memory, it is read from there.
                (Source::Value(v), Some(kept)) if *v == kept && self.cx.view(kept).is_none() => {
                    self.column_stage(stage, source, Some(kept))
                }
                _ => self.column_stage(stage, source, None),
            };
            match built {
                Ok(view) => return Ok(Some(view)),
                Err(Trouble::Force(v)) if self.cx.view(v).is_none() => self.force(v)?,
                Err(_) => match source {
                    Source::Value(v) if self.cx.view(*v).is_none() => self.force(*v)?,
                    _ => return Ok(None),
                },
            }
        }
    }

    /// Reduces the innermost dimensions: one number per row, or per piece of a row. Positions of the tail are side by side.
    fn row_stage(&mut self, stage: &Stage<'_>, source: &Source) -> Result<View, Trouble> {
        let dims = stage.dims;
        let end = dims.len() - stage.tail;
        let k = end - inner_count(stage.reduced, end);
        let (rows, n) = (dims[..k].iter().product::<i64>(), dims[k..end].iter().product::<i64>());
        let beside: i64 = dims[end..].iter().product();
        let wanted = if rows >= super::MANY_ROWS { 1 } else { n / PIECE };
        let pieces = wanted.min(MAX_PARTIALS).min(dims[k]).max(1);
        let mut loops = vec![];
        let mut copies = vec![];
        let mut out: Option<View> = None;
        for p in 0..pieces {
            let (mut lo, mut hi) = (vec![0; dims.len()], dims.to_vec());
            (lo[k], hi[k]) = (dims[k] * p / pieces, dims[k] * (p + 1) / pieces);
            hi[end..].fill(1);
            let (mut graph, elements) = self.expression(source, dims, (Some(k), end), &lo, &hi)?;
            let view = match &out {
                Some(view) => view.clone(),
                None => {
                    let shape: Vec<i64> = [pieces].iter().chain(&dims[..k]).chain([&beside]).copied().collect();
                    let elem = graph.ty(elements[0]).elem();
                    View::dense(self.cx.buffer(elem, &shape), elem, &shape)
                }
            };
            let mut strides = view.strides[1..=k].to_vec();
            strides.resize(dims.len(), 0);
            let mut sums = vec![];
            for (at, &x) in elements.iter().enumerate() {
                let offset = p * view.strides[0] + at as i64 * view.elem.storage_bytes() as i64;
                let place = Place {
                    buf: view.buf,
                    elem: view.elem,
                    offset,
                    strides: strides.clone(),
                    moved: vec![],
                    picked: false,
                };
                sums.push((graph.reduce(stage.combine, x), place));
            }
            let mut straight = HashSet::default();
            let planned = loop {
                let l = plan(&graph, &sums, Some(k)).map_err(Trouble::from)?;
                match l.far_input().filter(|&p| straight.insert(p)) {
                    Some(p) => straighten(self, &mut graph, p, &mut copies),
                    None => break l,
                }
            };
            loops.push(planned);
            out = Some(view);
        }
        let Some(mut view) = out else { return Err(Trouble::Give) };
        for (from, to) in copies {
            library::copy::copy(&mut self.cx, stage.op, &from, &to);
        }
        view.dims = [pieces].iter().chain(&dims[..k]).chain(&dims[end..]).copied().collect();
        view.strides = View::dense(view.buf, view.elem, &view.dims).strides;
        self.add_reduction(stage, Fused::new(loops.clone()), &loops, &[view.buf], "rows");
        Ok(view)
    }

    /// Reduces outer dimensions into accumulators of kept elements; stores what it reduces if it is `also`.
    fn column_stage(&mut self, stage: &Stage<'_>, source: &Source, also: Option<ValueId>) -> Result<View, Trouble> {
        let dims = stage.dims;
        let kept: Vec<usize> = (0..dims.len()).filter(|d| !stage.reduced.contains(d)).collect();
        let mut k = dims.len();
        while k > 0 && !stage.reduced.contains(&(k - 1)) {
            k -= 1;
        }
        let whole = vec![0; dims.len()];
        let (mut graph, elements) = self.expression(source, dims, (Some(k), dims.len()), &whole, dims)?;
        let x = elements[0];
        let elem = graph.ty(x).elem();
        let shape: Vec<i64> = kept.iter().map(|&d| dims[d]).collect();
        let dense = View::dense(Buf(0), elem, &shape);
        let mut strides = vec![0; dims.len()];
        kept.iter().zip(&dense.strides).for_each(|(&d, &s)| strides[d] = s);
        // The buffer is made when it is known how many accumulators there are.
        let buf = Buf(u32::MAX);
        let place = Place { buf, elem, offset: 0, strides, moved: vec![], picked: false };
        let stored = also.map(|v| {
            let (elem, dims) = self.cx.shape(v);
            View::dense(self.cx.buffer(elem, &dims), elem, &dims)
        });
        let beside = stored.as_ref().map(|view| {
            let (elem, strides) = (view.elem, view.strides.clone());
            (x, Place { buf: view.buf, elem, offset: 0, strides, moved: vec![], picked: false })
        });
        let outputs = |sum: Id| beside.iter().cloned().chain([(sum, place.clone())]).collect::<Vec<_>>();
        let first = plan(&graph, &outputs(x), Some(k)).map_err(Trouble::from)?;
        let old = graph.load(place.clone(), None).ok_or(Trouble::Give)?;
        let sum = graph.binary(stage.combine.into(), old, x);
        let more = plan(&graph, &outputs(sum), Some(k)).map_err(Trouble::from)?.accumulating();
        let cuts = Cuts::new(&first, &more, &place).ok_or(Trouble::Give)?;
        let size: i64 = shape.iter().product::<i64>() * elem.storage_bytes() as i64;
        let (loops, parts, partials) = cuts.tasks(&first, &more, size);
        let whole: Vec<i64> = [partials].iter().chain(&shape).copied().collect();
        let view = View::dense(self.cx.buffer(elem, &whole), elem, &whole);
        let loops: Vec<Loop> = loops.into_iter().map(|l| l.with_buf(buf, view.buf)).collect();
        let work = Fused::with_parts(loops.clone(), parts);
        let to: Vec<Buf> = [view.buf].into_iter().chain(stored.iter().map(|v| v.buf)).collect();
        self.add_reduction(stage, work, &loops, &to, "columns");
        if let (Some(v), Some(stored)) = (also, stored) {
            self.cx.set_view(v, stored);
            self.fuse.done.extend(self.cx.module.def_op(v));
        }
        Ok(view)
    }

    /// Combines partial results along their first dimension and with the initial value.
    fn finish(&mut self, stage: &Stage<'_>, partials: View, init: ValueId) -> Result<(), LoadError> {
        let module = self.cx.module;
        let result = module.op(stage.op).results()[0];
        let (elem, shape) = self.cx.shape(result);
        let domain = partials.dims[1..].to_vec();
        let lo = vec![0; domain.len()];
        let mut builder = Builder::new(&self.cx, Devices::all(self.grid), &domain, None, &lo, &domain);
        let mut terms: Vec<Id> = vec![];
        for p in 0..partials.dims[0] {
            let offset = partials.offset + p * partials.strides[0];
            let strides = partials.strides[1..].to_vec();
            let place = Place { buf: partials.buf, elem: partials.elem, offset, strides, moved: vec![], picked: false };
            let missing = || LoadError::unsupported(module, stage.op, "partial results of this type");
            terms.push(builder.graph.load(place, None).ok_or_else(missing)?);
        }
        let f = stage.combine.into();
        while terms.len() > 1 {
            terms =
                terms.chunks(2).map(|c| if let &[a, b] = c { builder.graph.binary(f, a, b) } else { c[0] }).collect();
        }
        let start = builder.value(init, &[]).map_err(|_| LoadError::unsupported(module, stage.op, "its start"))?;
        let sum = builder.started(stage.combine, start, terms[0]);
        let graph = builder.graph;
        if partials.dims[0] == 1 && sum == terms[0] && partials.elem == elem && partials.offset == 0 {
            self.cx.set_view(result, View::dense(partials.buf, elem, &shape));
            return Ok(());
        }
        let out = self.cx.buffer(elem, &shape);
        let strides = View::dense(out, elem, &domain).strides;
        let place = Place { buf: out, elem, offset: 0, strides, moved: vec![], picked: false };
        let l = plan(&graph, &[(sum, place)], None)
            .map_err(|e| LoadError::unsupported(module, stage.op, format!("its last stage: {e:?}")))?;
        let loops = vec![l];
        self.add_reduction(stage, Fused::new(loops.clone()), &loops, &[out], "combine");
        self.cx.set_view(result, View::dense(out, elem, &shape));
        Ok(())
    }

    /// The graph of what a stage reduces, and its node for each position of the dimensions from `end` on.
    fn expression(
        &self,
        source: &Source,
        dims: &[i64],
        (split, end): (Option<usize>, usize),
        lo: &[i64],
        hi: &[i64],
    ) -> Result<(Graph, Vec<Id>), Trouble> {
        let mut builder = Builder::new(&self.cx, Devices::all(self.grid), dims, split, lo, hi);
        builder.cut_masks = false;
        let mut nodes = vec![];
        for number in 0..dims[end..].iter().product() {
            let mut map: Vec<Lin> = identity(dims.len());
            let at = coordinates(&dims[end..], number);
            at.iter().zip(&mut map[end..]).for_each(|(&i, l)| *l = Lin::at(i));
            nodes.push(match source {
                Source::Value(v) => match builder.value(*v, &map) {
                    Ok(id) => id,
                    Err(Stop::Force(v)) | Err(Stop::Cut { value: v, .. }) => return Err(Trouble::Force(v)),
                },
                Source::View(view) => {
                    let shift: i64 = at.iter().zip(&view.strides[end..]).map(|(i, s)| i * s).sum();
                    let mut strides = view.strides.clone();
                    strides[end..].fill(0);
                    let offset = view.offset + shift;
                    let place = Place { buf: view.buf, elem: view.elem, offset, strides, moved: vec![], picked: false };
                    builder.graph.load(place, None).ok_or(Trouble::Give)?
                }
            });
        }
        let has_reduce = builder.graph.nodes.iter().any(|n| n.level > 0);
        match (has_reduce, source) {
            // A reduction inside would need the same rows; it goes by itself.
            (true, Source::Value(v)) => Err(Trouble::Force(*v)),
            _ => Ok((builder.graph, nodes)),
        }
    }

    fn add_reduction(&mut self, stage: &Stage<'_>, work: Fused, loops: &[Loop], to: &[Buf], how: &str) {
        let mut reads: Vec<Buf> = vec![];
        for buf in loops.iter().flat_map(Loop::reads) {
            if !to.contains(&buf) && !reads.contains(&buf) {
                reads.push(buf);
            }
        }
        let dims = stage.dims.iter().map(i64::to_string).collect::<Vec<_>>().join("×");
        let name = format!("reduce {how} {dims}");
        self.cx.step(stage.op, name, Arc::new(work), reads, to.to_vec());
    }
}

struct Stage<'a> {
    combine: Combine,
    op: OpId,
    dims: &'a [i64],
    reduced: &'a [usize],
    /// Short dimensions behind the reduced ones.
    tail: usize,
}

/// How many dimensions behind the last reduced one are kept, if they are so short that rows of them take longer than their
/// elements side by side.
fn short_tail(dims: &[i64], reduced: &[usize]) -> usize {
    let Some(&last) = reduced.last() else { return 0 };
    let n: i64 = dims[last + 1 - inner_count(reduced, last + 1)..=last].iter().product();
    let kept: i64 = dims[last + 1..].iter().product();
    if kept > 1 && kept <= super::SMALL && n >= LEAST_SIDE { dims.len() - last - 1 } else { 0 }
}

/// Why a stage was not built.
enum Trouble {
    /// Store this value first.
    Force(ValueId),
    Give,
}

impl From<NoLoop> for Trouble {
    fn from(_: NoLoop) -> Trouble {
        Trouble::Give
    }
}

/// How many of the innermost dimensions are reduced.
fn inner_count(reduced: &[usize], rank: usize) -> usize {
    reduced.iter().rev().enumerate().take_while(|&(i, &d)| d + i + 1 == rank).count()
}

impl Stage<'_> {
    /// Whether it reduces rows.
    fn is_inner(&self) -> bool {
        inner_count(self.reduced, self.dims.len() - self.tail) > 0
    }
}

/// What the next stage reduces: the innermost dimensions, or those around them first if these are so short that rows of them
/// take longer than rows of what is kept.
fn first_reduced(dims: &[i64], reduced: &[usize], tail: usize) -> Vec<usize> {
    let suffix = inner_count(reduced, dims.len() - tail);
    let (outer, inner) = reduced.split_at(reduced.len() - suffix);
    let product = |list: &[usize]| list.iter().map(|&d| dims[d]).product::<i64>();
    let columns = tail == 0 && product(inner) < SHORT_INNER && product(outer) >= LEAST_ROW;
    if inner.is_empty() || columns { outer.to_vec() } else { inner.to_vec() }
}

fn drop_ones(view: &mut View, dims: &mut Vec<i64>, reduced: &mut Vec<usize>) {
    for d in (0..dims.len()).rev() {
        if dims[d] == 1 && reduced.contains(&d) {
            dims.remove(d);
            view.dims.remove(d);
            view.strides.remove(d);
            reduced.retain(|&r| r != d);
            reduced.iter_mut().filter(|r| **r > d).for_each(|r| *r -= 1);
        }
    }
}

/// How the loops of a column stage are cut.
struct Cuts {
    /// Which of the outer loops are reduced.
    reduced: Vec<bool>,
}

impl Cuts {
    fn new(first: &Loop, more: &Loop, place: &Place) -> Option<Cuts> {
        let out = first.arrays.last().filter(|a| a.buf == place.buf)?;
        (first.outer == more.outer && first.n == more.n)
            .then(|| Cuts { reduced: out.strides.iter().map(|&s| s == 0).collect() })
    }

    /// Loops, the tasks of each part, and the number of accumulators. `size` is the size of one in bytes.
    fn tasks(&self, first: &Loop, more: &Loop, size: i64) -> (Vec<Loop>, Vec<Vec<Task>>, i64) {
        let outer = &first.outer;
        let total: i64 = outer.iter().product();
        let cost = (total * first.n) as u64 * more.cost / 1000;
        let wanted = (cost / PART_NS).clamp(1, 64) as i64;
        let head = self.reduced.first().copied().unwrap_or(false);
        let length = outer.first().copied().unwrap_or(1);
        let tiles = if first.n > 2 * TILE { (first.n + TILE - 1) / TILE } else { 1 };
        let (partials, chunks) = if head {
            let for_accuracy = (total + ROWS_PER_SUM - 1) / ROWS_PER_SUM;
            let p = for_accuracy.max(wanted / tiles).clamp(1, MAX_PARTIALS).min(length);
            (p, p)
        } else {
            (1, wanted.min(length).max(1))
        };
        let mut loops = vec![];
        let mut parts: Vec<Vec<Task>> = vec![];
        for chunk in 0..chunks {
            let which = loops.len() as u32;
            let shift = if head { chunk * size } else { 0 };
            loops.push(first.shifted(shift));
            loops.push(more.shifted(shift));
            let (a, b) = (length * chunk / chunks, length * (chunk + 1) / chunks);
            let inner: i64 = outer.iter().skip(1).product();
            let runs = self.runs(outer, a * inner, b * inner);
            let step = if tiles > 1 { TILE } else { first.n.max(1) };
            let mut c = 0;
            while c < first.n {
                let cols = (c, (c + step).min(first.n));
                let task =
                    |&(is_first, rows): &(bool, (i64, i64))| Task { which: which + u32::from(!is_first), rows, cols };
                parts.push(runs.iter().map(task).collect());
                c += step;
            }
        }
        // Not more parts than pay.
        let per_part = (parts.len() as i64 + wanted - 1) / wanted;
        let parts = parts.chunks(per_part.max(1) as usize).map(|c| c.concat()).collect();
        (loops, parts, partials)
    }

    /// Rows `from..to`, whole steps of the outermost loop, in runs of those that come first to their accumulator and those
    /// that come later.
    fn runs(&self, outer: &[i64], from: i64, to: i64) -> Vec<(bool, (i64, i64))> {
        let Some(last) = self.reduced.iter().rposition(|&x| x) else { return vec![(true, (from, to))] };
        // Rows are equal while only loops inside the innermost reduced one move.
        let inner: i64 = outer[last + 1..].iter().product();
        let mut runs: Vec<(bool, (i64, i64))> = vec![];
        let mut at = coordinates(outer, from);
        loop {
            let first = at.iter().zip(outer).fold(0, |row, (i, n)| row * n + i);
            if first >= to {
                break;
            }
            match runs.last_mut() {
                // Nothing lies between.
                Some((true, range)) if range.1 == first => range.1 = first + inner,
                Some((_, range)) => {
                    let before = range.1;
                    runs.extend([(false, (before, first)), (true, (first, first + inner))]);
                }
                None => runs.push((true, (first, first + inner))),
            }
            // The next place of the kept loops; the reduced ones are where they start.
            let mut d = last;
            loop {
                if !self.reduced[d] {
                    at[d] += 1;
                    if at[d] < outer[d] || d == 0 {
                        break;
                    }
                    at[d] = 0;
                }
                if d == 0 {
                    at[0] = outer[0];
                    break;
                }
                d -= 1;
            }
        }
        if let Some(&(_, (_, end))) = runs.last()
            && end < to
        {
            runs.push((false, (end, to)));
        }
        runs
    }
}

fn coordinates(outer: &[i64], row: i64) -> Vec<i64> {
    let mut at = vec![0; outer.len()];
    let mut rest = row;
    for d in (0..outer.len()).rev() {
        at[d] = rest % outer[d];
        rest /= outer[d];
    }
    at
}
