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

use meshwork_ir::{OpId, ValueId};

use super::affine::{Lin, identity};
use super::build::{Builder, Stop};
use super::graph::{Graph, Id, Place};
use super::nest::{Loop, NoLoop, plan};
use super::range::Devices;
use super::work::{Fused, Task};
use super::{reduce_kind, reduced_dims};
use crate::compile::Compiler;
use crate::kernel::ir::Combine;
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
        let mut source = Source::Value(operand);
        loop {
            // Dimensions of one element need no reduction.
            if let Source::View(view) = &mut source {
                drop_ones(view, &mut dims, &mut reduced);
                if reduced.is_empty() {
                    break;
                }
            }
            let stage = Stage { combine, op, dims: &dims, reduced: &reduced };
            let next = match self.stage(&stage, &source)? {
                Some(view) => view,
                None => return self.opaque(op),
            };
            let kept: Vec<usize> = (0..dims.len()).filter(|d| !reduced.contains(d)).collect();
            let done = next.dims.len() == kept.len() + 1 && !is_inner(&reduced, dims.len());
            if done {
                return self.finish(&stage, next, init);
            }
            // The stage took the innermost reduced dimensions and may have left pieces in front.
            let suffix = inner_count(&reduced, dims.len());
            reduced.truncate(reduced.len() - suffix);
            reduced.iter_mut().for_each(|d| *d += 1);
            reduced.insert(0, 0);
            dims = next.dims.clone();
            source = Source::View(next);
        }
        let Source::View(view) = source else { return self.opaque(op) };
        let mut lined = view;
        lined.dims.insert(0, 1);
        lined.strides.insert(0, 0);
        self.finish(&Stage { combine, op, dims: &dims, reduced: &reduced }, lined, init)
    }

    /// Runs one stage; the partial results have one dimension more in front, over which they are still to be reduced.
    fn stage(&mut self, stage: &Stage<'_>, source: &Source) -> Result<Option<View>, LoadError> {
        // Each round stores one more value, so there is an end.
        loop {
            let built = if is_inner(stage.reduced, stage.dims.len()) {
                self.row_stage(stage, source)
            } else {
                self.column_stage(stage, source)
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

    /// Reduces the innermost dimensions: one number per row, or per piece of a row.
    fn row_stage(&mut self, stage: &Stage<'_>, source: &Source) -> Result<View, Trouble> {
        let dims = stage.dims;
        let k = dims.len() - inner_count(stage.reduced, dims.len());
        let (rows, n) = (dims[..k].iter().product::<i64>(), dims[k..].iter().product::<i64>());
        let wanted = if rows >= super::MANY_ROWS { 1 } else { n / PIECE };
        let pieces = wanted.min(MAX_PARTIALS).min(dims[k]).max(1);
        let mut loops = vec![];
        let mut out: Option<View> = None;
        for p in 0..pieces {
            let (mut lo, mut hi) = (vec![0; dims.len()], dims.to_vec());
            (lo[k], hi[k]) = (dims[k] * p / pieces, dims[k] * (p + 1) / pieces);
            let (mut graph, x) = self.expression(source, dims, Some(k), &lo, &hi)?;
            let sum = graph.reduce(stage.combine, x);
            let view = match &out {
                Some(view) => view.clone(),
                None => {
                    let shape: Vec<i64> = [pieces].iter().chain(&dims[..k]).copied().collect();
                    let elem = graph.ty(x).elem();
                    View::dense(self.cx.buffer(elem, &shape), elem, &shape)
                }
            };
            let mut strides = view.strides[1..].to_vec();
            strides.resize(dims.len(), 0);
            let place = Place { buf: view.buf, elem: view.elem, offset: p * view.strides[0], strides };
            loops.push(plan(&graph, &[(sum, place)], Some(k)).map_err(Trouble::from)?);
            out = Some(view);
        }
        let Some(view) = out else { return Err(Trouble::Give) };
        self.add_reduction(stage, Fused::new(loops.clone()), &loops, view.buf, "rows");
        Ok(view)
    }

    /// Reduces outer dimensions into accumulators of kept elements.
    fn column_stage(&mut self, stage: &Stage<'_>, source: &Source) -> Result<View, Trouble> {
        let dims = stage.dims;
        let kept: Vec<usize> = (0..dims.len()).filter(|d| !stage.reduced.contains(d)).collect();
        let mut k = dims.len();
        while k > 0 && !stage.reduced.contains(&(k - 1)) {
            k -= 1;
        }
        let (mut graph, x) = self.expression(source, dims, Some(k), &vec![0; dims.len()], dims)?;
        let elem = graph.ty(x).elem();
        let shape: Vec<i64> = kept.iter().map(|&d| dims[d]).collect();
        let dense = View::dense(Buf(0), elem, &shape);
        let mut strides = vec![0; dims.len()];
        kept.iter().zip(&dense.strides).for_each(|(&d, &s)| strides[d] = s);
        // The buffer is made when it is known how many accumulators there are.
        let buf = Buf(u32::MAX);
        let place = Place { buf, elem, offset: 0, strides };
        let first = plan(&graph, &[(x, place.clone())], Some(k)).map_err(Trouble::from)?;
        let old = graph.load(place.clone(), None).ok_or(Trouble::Give)?;
        let sum = graph.binary(stage.combine.into(), old, x);
        let more = plan(&graph, &[(sum, place.clone())], Some(k)).map_err(Trouble::from)?.accumulating();
        let cuts = Cuts::new(&first, &more, &place).ok_or(Trouble::Give)?;
        let size: i64 = shape.iter().product::<i64>() * elem.storage_bytes() as i64;
        let (loops, parts, partials) = cuts.tasks(&first, &more, size);
        let whole: Vec<i64> = [partials].iter().chain(&shape).copied().collect();
        let view = View::dense(self.cx.buffer(elem, &whole), elem, &whole);
        let loops: Vec<Loop> = loops.into_iter().map(|l| l.with_buf(buf, view.buf)).collect();
        let work = Fused::with_parts(loops.clone(), parts);
        self.add_reduction(stage, work, &loops, view.buf, "columns");
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
            let place =
                Place { buf: partials.buf, elem: partials.elem, offset, strides: partials.strides[1..].to_vec() };
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
        let place = Place { buf: out, elem, offset: 0, strides: View::dense(out, elem, &domain).strides };
        let l = plan(&graph, &[(sum, place)], None)
            .map_err(|e| LoadError::unsupported(module, stage.op, format!("its last stage: {e:?}")))?;
        let loops = vec![l];
        self.add_reduction(stage, Fused::new(loops.clone()), &loops, out, "combine");
        self.cx.set_view(result, View::dense(out, elem, &shape));
        Ok(())
    }

    /// The graph of what a stage reduces, and its node.
    fn expression(
        &self,
        source: &Source,
        dims: &[i64],
        split: Option<usize>,
        lo: &[i64],
        hi: &[i64],
    ) -> Result<(Graph, Id), Trouble> {
        let mut builder = Builder::new(&self.cx, Devices::all(self.grid), dims, split, lo, hi);
        builder.cut_masks = false;
        let map: Vec<Lin> = identity(dims.len());
        let node = match source {
            Source::Value(v) => match builder.value(*v, &map) {
                Ok(id) => id,
                Err(Stop::Force(v)) | Err(Stop::Cut { value: v, .. }) => return Err(Trouble::Force(v)),
            },
            Source::View(view) => {
                let place =
                    Place { buf: view.buf, elem: view.elem, offset: view.offset, strides: view.strides.clone() };
                builder.graph.load(place, None).ok_or(Trouble::Give)?
            }
        };
        let has_reduce = builder.graph.nodes.iter().any(|n| n.level > 0);
        match (has_reduce, source) {
            // A reduction inside would need the same rows; it goes by itself.
            (true, Source::Value(v)) => Err(Trouble::Force(*v)),
            _ => Ok((builder.graph, node)),
        }
    }

    fn add_reduction(&mut self, stage: &Stage<'_>, work: Fused, loops: &[Loop], to: Buf, how: &str) {
        let mut reads: Vec<Buf> = vec![];
        for a in loops.iter().flat_map(|l| &l.arrays[..l.inputs.len()]) {
            if a.buf != to && !reads.contains(&a.buf) {
                reads.push(a.buf);
            }
        }
        let dims = stage.dims.iter().map(i64::to_string).collect::<Vec<_>>().join("×");
        let name = format!("reduce {how} {dims}");
        self.cx.step(stage.op, name, Arc::new(work), reads, vec![to]);
    }
}

struct Stage<'a> {
    combine: Combine,
    op: OpId,
    dims: &'a [i64],
    reduced: &'a [usize],
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

fn is_inner(reduced: &[usize], rank: usize) -> bool {
    inner_count(reduced, rank) > 0
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

    /// Rows `from..to` in runs of those that come first to their accumulator and those that come later.
    fn runs(&self, outer: &[i64], from: i64, to: i64) -> Vec<(bool, (i64, i64))> {
        let mut runs: Vec<(bool, (i64, i64))> = vec![];
        // Within a run of the innermost reduced loop only the first row can be first.
        let start: Vec<i64> = coordinates(outer, from);
        let mut r = from;
        while r < to {
            let at = coordinates(outer, r);
            let is_first = (0..outer.len()).all(|d| !self.reduced[d] || at[d] == if d == 0 { start[0] } else { 0 });
            // Rows are equal while only loops inside the innermost reduced one move.
            let inner: i64 = match self.reduced.iter().rposition(|&x| x) {
                Some(d) => outer[d + 1..].iter().product(),
                None => to - r,
            };
            let end = (r + (inner - r % inner.max(1)).max(1)).min(to);
            match runs.last_mut() {
                Some((f, range)) if *f == is_first => range.1 = end,
                _ => runs.push((is_first, (r, end))),
            }
            r = end;
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
