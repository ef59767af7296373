//! A fused step: loops over boxes, cut into parts by shape alone.

use std::sync::Arc;

use meshwork_ir::ElementType;

use crate::kernel::ir::{Access, BinaryOp, Call, Extent, Op};
use crate::kernel::{Backend, Kernel, Prepared, Stores};
use crate::step::{Apart, Bands, Buf, Fault, Frame, Scratch, Work};

use super::graph::Moved;
use super::interleaved;
use super::listed;
use super::nest::{Array, Counter, Loop, PANEL_BYTES, PANEL_COLUMNS};
use crate::library::transpose::{Planes, transpose};

/// A range of rows, and of elements of each, of one loop.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Task {
    pub which: u32,
    pub rows: (i64, i64),
    pub cols: (i64, i64),
}

/// A fused step: loops that together compute a group of values.
#[derive(Debug)]
pub struct Fused {
    loops: Vec<Loop>,
    /// How each loop is run where a task is all of it.
    ways: Vec<Way>,
    parts: Vec<Vec<Task>>,
    cost: u64,
}

/// How a task is run. In long loops over short rows most of the time would go into describing each call.
#[derive(Debug)]
enum Way {
    /// By calls that are described each time.
    Calls,
    /// By a few calls, of which all but the pointers is here.
    Known(Box<[Known]>),
    /// It is one element.
    Element,
    /// It is one element of more arithmetic: by a kernel of its own, whose code runs once.
    Once(Arc<Kernel>, Prepared),
    /// It adds this to an integer of so many bytes.
    Count(i64, u64),
}

/// A call of a kernel, and how many bytes after its start each array begins there.
#[derive(Debug)]
struct Known {
    call: Prepared,
    offsets: Box<[isize]>,
}

/// Calls of a task that are described once.
const MOST_KNOWN: usize = 4;
/// Calls of the interpreter that take as long as one of machine code.
const MOST_INTERPRETED: usize = 16;

impl Way {
    /// How the tasks of the only part are run. Where there are more, each takes long.
    fn of_all(loops: &[Loop], parts: &[Vec<Task>]) -> Vec<Way> {
        match parts {
            [tasks] => tasks.iter().map(|task| Way::of(&loops[task.which as usize], task)).collect(),
            _ => vec![],
        }
    }

    fn of(l: &Loop, task: &Task) -> Way {
        if l.past.is_some() || !l.interleaved.is_empty() || l.is_listed() || l.arrays.iter().any(|a| a.across) {
            return Way::Calls;
        }
        if l.n == 1 && l.outer.is_empty() && l.kernel.single().is_some() {
            return counted(l).map_or_else(|| Way::of_one(l), |by| Way::Count(l.arrays[0].elem_bytes, by));
        }
        let strides: Vec<isize> = l.arrays.iter().map(|a| a.step as isize).collect();
        let row_strides: Vec<isize> = l.arrays.iter().map(|a| a.strides.last().map_or(0, |&s| s as isize)).collect();
        let (strides, row_strides, n) = (&strides[..], &row_strides[..], (task.cols.1 - task.cols.0) as usize);
        let known = |(row, rows): (i64, i64)| {
            let start = |strides: &[i64], step: i64| offset(&l.outer, row, strides) + task.cols.0 * step;
            let counter =
                |c: &Counter| [c.base + start(&c.strides, c.step), c.strides.last().map_or(0, |&s| s), c.step];
            let index: Vec<[i64; 3]> = l.counters.iter().map(counter).collect();
            let call = Call { ptrs: &[], row_strides, strides, rows: rows as usize, n, index: &index };
            let offsets = l.arrays.iter().map(|a| start(&a.strides, a.step) as isize).collect();
            Some(Known { call: l.kernel.prepared(&call)?, offsets })
        };
        let calls: Vec<(i64, i64)> = calls(&l.outer, task.rows).take(MOST_KNOWN + 1).collect();
        let known = if calls.len() > MOST_KNOWN { None } else { calls.into_iter().map(known).collect() };
        known.map_or(Way::Calls, Way::Known)
    }
}

impl Way {
    /// How the only element of `l` is computed.
    fn of_one(l: &Loop) -> Way {
        if l.kernel.single().is_none_or(|single| single.calls() <= MOST_INTERPRETED) {
            return Way::Element;
        }
        let mut body = l.kernel.body().clone();
        body.args.iter_mut().for_each(|arg| arg.access = Access::Fixed);
        body.phases.iter_mut().for_each(|phase| phase.extent = Extent::Once);
        let zeros = vec![0; l.arrays.len()];
        let index: Vec<[i64; 3]> = l.counters.iter().map(|c| [c.base, 0, 0]).collect();
        let call = Call { ptrs: &[], row_strides: &zeros, strides: &zeros, rows: 1, n: 1, index: &index };
        let known = |kernel: Arc<Kernel>| {
            let call = kernel.prepared(&call).filter(|_| kernel.backend() == Backend::Compiled)?;
            Some(Way::Once(kernel, call))
        };
        Kernel::cached(body, Stores::Cached).ok().and_then(known).unwrap_or(Way::Element)
    }
}

/// The first row of each call over rows `rows` (counted through all outer loops), and how many it has.
fn calls(outer: &[i64], rows: (i64, i64)) -> impl Iterator<Item = (i64, i64)> {
    let inner = outer.last().copied().unwrap_or(1);
    let mut r = rows.0;
    std::iter::from_fn(move || {
        if r >= rows.1 {
            return None;
        }
        let first = if inner > 0 { r % inner } else { 0 };
        let many = (inner - first).min(rows.1 - r);
        r += many;
        Some((r - many, many))
    })
}

/// Where row `row` starts, with a step for each outer loop.
pub(super) fn offset(outer: &[i64], row: i64, steps: &[i64]) -> i64 {
    let mut rest = row;
    let mut sum = 0;
    for (&n, &step) in outer.iter().zip(steps).rev() {
        sum += rest % n * step;
        rest /= n;
    }
    sum
}

/// What is added, if `l` adds a constant to an integer.
fn counted(l: &Loop) -> Option<u64> {
    let [phase] = &l.kernel.body().phases[..] else { return None };
    let ([_, _], [from, to]) = (&l.arrays[..], &l.kernel.body().args[..]) else { return None };
    let is_plain = from.elem == to.elem && matches!(from.elem, ElementType::I32 | ElementType::I64);
    match phase.ops[..] {
        [Op::Load(0), Op::Const(_, by), Op::Binary(BinaryOp::Add, 0, 1), Op::Store(1, 2)]
        | [Op::Const(_, by), Op::Load(0), Op::Binary(BinaryOp::Add, 1, 0), Op::Store(1, 2)] => is_plain.then_some(by),
        _ => None,
    }
}

/// A part costs at least this many nanoseconds, if the whole does.
const PART_NS: u64 = 20_000;
const MAX_PARTS: u64 = 64;
/// Rows are cut at multiples of this many elements.
const GRAIN: i64 = 64;
/// Arrays of one loop.
pub(crate) const MAX_ARRAYS: usize = 64;
const FEW_ARRAYS: usize = 6;

/// `a / b` rounded up, for positive numbers.
fn up(a: i64, b: i64) -> i64 {
    (a + b - 1) / b
}

impl Fused {
    /// Loops cut as given.
    pub(crate) fn with_parts(loops: Vec<Loop>, parts: Vec<Vec<Task>>) -> Fused {
        let one = |t: &Task| {
            let l = &loops[t.which as usize];
            (t.rows.1 - t.rows.0) as u64 * ((t.cols.1 - t.cols.0) as u64 * l.cost / 1000 + 2)
        };
        let cost = parts.iter().flatten().map(one).sum::<u64>().max(1);
        let ways = Way::of_all(&loops, &parts);
        Fused { loops, ways, parts, cost }
    }

    /// Cuts `loops` into parts.
    pub(crate) fn new(loops: Vec<Loop>) -> Fused {
        let loops: Vec<Loop> = loops.into_iter().map(Loop::past_caches).collect();
        let cost_of = |l: &Loop| l.outer.iter().product::<i64>() as u64 * (l.n as u64 * l.cost / 1000 + 2);
        let cost: u64 = loops.iter().map(cost_of).sum();
        let target = (cost / (cost / PART_NS).clamp(1, MAX_PARTS)).max(1);
        let mut parts: Vec<Vec<Task>> = vec![vec![]];
        let mut filled = 0;
        for (which, l) in loops.iter().enumerate() {
            let rows: i64 = l.outer.iter().product();
            if rows == 0 || (l.n == 0 && l.divisible) {
                continue;
            }
            let pieces = (cost_of(l) / target).max(1) as i64;
            let turned = l.divisible && l.arrays.iter().any(|a| a.across) && l.n >= pieces * PANEL_COLUMNS / 2;
            let (row_step, col_step) = if (rows >= pieces && !turned) || !l.divisible {
                (up(rows, pieces.min(rows)), l.n.max(1))
            } else if turned {
                (rows, up(up(l.n, pieces), PANEL_COLUMNS) * PANEL_COLUMNS)
            } else {
                (1, up(up(l.n, up(pieces, rows)), GRAIN) * GRAIN)
            };
            let piece_cost = cost_of(l) / pieces as u64;
            let mut r = 0;
            while r < rows {
                let mut c = 0;
                loop {
                    if filled > 0 && filled + piece_cost / 2 > target {
                        parts.push(vec![]);
                        filled = 0;
                    }
                    let (r1, c1) = ((r + row_step).min(rows), (c + col_step).min(l.n));
                    if let Some(part) = parts.last_mut() {
                        part.push(Task { which: which as u32, rows: (r, r1), cols: (c, c1) });
                    }
                    filled += piece_cost.max(1);
                    c = c1;
                    if c >= l.n {
                        break;
                    }
                }
                r += row_step;
            }
        }
        let ways = Way::of_all(&loops, &parts);
        Fused { loops, ways, parts, cost: cost.max(1) }
    }

    /// The same that also stores what it writes to `from` in `to`, `moved` by numbers that are known when it runs; `None` if what
    /// it writes there is not final when it is stored.
    pub(crate) fn also_storing(&self, from: Buf, to: Buf, moved: &[Moved]) -> Option<Fused> {
        let mut loops = vec![];
        for l in &self.loops {
            let inputs = l.inputs.len();
            if l.past.is_some() || !l.interleaved.is_empty() || l.arrays[..inputs].iter().any(|a| a.buf == from) {
                return None;
            }
            let (mut body, mut arrays) = (l.kernel.body().clone(), l.arrays.clone());
            for i in (inputs..l.arrays.len()).filter(|&i| l.arrays[i].buf == from) {
                let number = body.args.len() as u16;
                body.args.push(body.args[i]);
                for phase in &mut body.phases {
                    let stores = phase.ops.iter().filter_map(|op| match *op {
                        Op::Store(arg, v) if usize::from(arg) == i => Some(Op::Store(number, v)),
                        _ => None,
                    });
                    let stores: Vec<Op> = stores.collect();
                    phase.ops.extend(stores);
                }
                arrays.push(Array { buf: to, moved: moved.to_vec(), ..l.arrays[i].clone() });
            }
            let kernel = Kernel::cached(body, Stores::Cached).ok()?;
            if arrays.len() > MAX_ARRAYS || kernel.backend() != l.kernel.backend() {
                return None;
            }
            loops.push(Loop { kernel, arrays, ..l.clone() });
        }
        let ways = Way::of_all(&loops, &self.parts);
        self.is_whole().then(|| Fused { loops, ways, parts: self.parts.clone(), cost: self.cost })
    }

    /// The loops that read nothing `late`, and the others; `None` if some loop needs another.
    fn by_reads(&self, late: &dyn Fn(Buf) -> bool) -> Option<(Fused, Fused)> {
        let (others, early) = self.loops.iter().cloned().partition(|l| l.reads().any(late));
        self.is_whole().then(|| (Fused::new(early), Fused::new(others)))
    }

    /// Whether every loop is done once, as a whole: those that accumulate are not, some rows are left to another loop.
    fn is_whole(&self) -> bool {
        let size = |r: (i64, i64)| r.1 - r.0;
        let mut done = vec![0; self.loops.len()];
        self.parts.iter().flatten().for_each(|t| done[t.which as usize] += size(t.rows) * size(t.cols));
        self.loops.iter().zip(done).all(|(l, done)| l.outer.iter().product::<i64>() * l.n == done)
    }
}

impl Work for Fused {
    fn parts(&self) -> usize {
        self.parts.len()
    }

    fn cost(&self) -> u64 {
        self.cost
    }

    fn fused(&self) -> Option<&Fused> {
        Some(self)
    }

    fn bands(&self, _: usize, bytes: usize) -> Option<Bands> {
        if self.is_whole() { super::bands::bands(&self.loops, bytes) } else { None }
    }

    fn apart(&self, late: &dyn Fn(Buf) -> bool) -> Option<Apart> {
        let (early, others) = self.by_reads(late)?;
        let (early_reads, late_reads) = (reads([&early]), reads([&others]));
        let is_cut = !early.loops.is_empty() && !others.loops.is_empty();
        is_cut.then(|| Apart { early: Arc::new(early), early_reads, late: Arc::new(others), late_reads })
    }

    #[inline]
    unsafe fn run(&self, frame: &Frame<'_>, scratch: &mut Scratch, part: usize) -> Result<(), Fault> {
        for (i, task) in self.parts[part].iter().enumerate() {
            let l = &self.loops[task.which as usize];
            // SAFETY: in all arms: passed on from the caller; the loop's arrays are inside their buffers.
            unsafe {
                match (self.ways.get(i), l.kernel.single()) {
                    (Some(Way::Known(calls)), _) => {
                        for Known { call, offsets } in calls {
                            let starts = l.arrays.iter().zip(offsets).map(|(a, &by)| a.start(frame).offset(by));
                            l.kernel.run_prepared(call, starts, scratch);
                        }
                    }
                    (Some(Way::Once(kernel, call)), _) => {
                        kernel.run_prepared(call, l.arrays.iter().map(|a| a.start(frame)), scratch);
                    }
                    (Some(Way::Element), Some(single)) => single.run(l.arrays.iter().map(|a| a.start(frame)), scratch),
                    (Some(&Way::Count(4, by)), _) => {
                        let [from, to] = [0, 1].map(|i| l.arrays[i].start(frame).cast::<u32>());
                        to.write(from.read().wrapping_add(by as u32));
                    }
                    (Some(&Way::Count(_, by)), _) => {
                        let [from, to] = [0, 1].map(|i| l.arrays[i].start(frame).cast::<u64>());
                        to.write(from.read().wrapping_add(by));
                    }
                    _ => run_rows(l, frame, scratch, task.rows, task.cols),
                }
            }
        }
        Ok(())
    }
}

/// The buffers that these read, each once.
fn reads<'a>(works: impl IntoIterator<Item = &'a Fused>) -> Vec<Buf> {
    let mut out = vec![];
    for buf in works.into_iter().flat_map(|work| work.loops.iter().flat_map(Loop::reads)) {
        if !out.contains(&buf) {
            out.push(buf);
        }
    }
    out
}

/// Another [`Fused`] for each partition.
#[derive(Debug)]
pub(crate) struct PerDevice {
    works: Vec<Fused>,
}

impl PerDevice {
    /// What each partition does.
    pub fn new(works: Vec<Fused>) -> PerDevice {
        PerDevice { works }
    }
}

impl Work for PerDevice {
    fn parts(&self) -> usize {
        self.works.iter().map(Fused::parts).max().unwrap_or(1)
    }

    fn cost(&self) -> u64 {
        self.works.iter().map(Fused::cost).max().unwrap_or(1)
    }

    fn is_uniform(&self) -> bool {
        false
    }

    fn apart(&self, late: &dyn Fn(Buf) -> bool) -> Option<Apart> {
        let cut: Option<Vec<(Fused, Fused)>> = self.works.iter().map(|work| work.by_reads(late)).collect();
        let (early, others): (Vec<Fused>, Vec<Fused>) = cut?.into_iter().unzip();
        let (early_reads, late_reads) = (reads(&early), reads(&others));
        let any = |works: &[Fused]| works.iter().any(|work| !work.loops.is_empty());
        let is_cut = any(&early) && any(&others);
        let (early, late) = (PerDevice::new(early), PerDevice::new(others));
        is_cut.then(|| Apart { early: Arc::new(early), early_reads, late: Arc::new(late), late_reads })
    }

    fn bands(&self, partition: usize, bytes: usize) -> Option<Bands> {
        self.works.get(partition)?.bands(partition, bytes)
    }

    unsafe fn run(&self, frame: &Frame<'_>, scratch: &mut Scratch, part: usize) -> Result<(), Fault> {
        let work = &self.works[frame.partition as usize];
        if part < work.parts() {
            // SAFETY: passed on from the caller.
            unsafe { work.run(frame, scratch, part)? };
        }
        Ok(())
    }
}

/// Runs the kernel of `l` over rows `rows` (counted through all outer loops) and elements `cols` of each.
///
/// # Safety
/// The arrays of the loop are inside their buffers, which `frame` holds as [`Work::run`] says.
pub(crate) unsafe fn run_rows(l: &Loop, frame: &Frame<'_>, scratch: &mut Scratch, rows: (i64, i64), cols: (i64, i64)) {
    // Most loops have few arrays, and clearing room for many takes longer than a short loop.
    match l.arrays.len().max(l.counters.len()) {
        // SAFETY: the same contract.
        ..=FEW_ARRAYS => unsafe { run_with::<FEW_ARRAYS>(l, frame, scratch, rows, cols) },
        // SAFETY: as above.
        _ => unsafe { run_with::<MAX_ARRAYS>(l, frame, scratch, rows, cols) },
    }
}

/// [`run_rows`] with room for `N` arrays and counters.
///
/// # Safety
/// As for [`run_rows`]; the loop has no more of either.
unsafe fn run_with<const N: usize>(
    l: &Loop,
    frame: &Frame<'_>,
    scratch: &mut Scratch,
    rows: (i64, i64),
    cols: (i64, i64),
) {
    let mut ptrs = [std::ptr::null_mut::<u8>(); N];
    let mut row_strides = [0isize; N];
    let mut strides = [0isize; N];
    let mut index = [[0i64; 3]; N];
    let (count, counters) = (l.arrays.len(), l.counters.len());
    for (i, a) in l.arrays.iter().enumerate() {
        strides[i] = a.step as isize;
        row_strides[i] = a.strides.last().copied().unwrap_or(0) as isize;
    }
    for (row, many) in calls(&l.outer, rows) {
        let at = |steps: &[i64]| offset(&l.outer, row, steps);
        for (i, a) in l.arrays.iter().enumerate() {
            let byte = at(&a.strides) + cols.0 * a.step;
            // SAFETY: the nest keeps every array inside its buffer.
            ptrs[i] = unsafe { a.start(frame).offset(byte as isize) };
        }
        for (i, c) in l.counters.iter().enumerate() {
            let row = c.strides.last().copied().unwrap_or(0);
            index[i] = [c.base + at(&c.strides) + cols.0 * c.step, row, c.step];
        }
        let call = Call {
            ptrs: &ptrs[..count],
            row_strides: &row_strides[..count],
            strides: &strides[..count],
            rows: many as usize,
            n: (cols.1 - cols.0) as usize,
            index: &index[..counters],
        };
        // SAFETY: as above; the call covers `many` rows of the box.
        unsafe {
            if l.arrays.iter().any(|a| a.across) {
                run_turned::<N>(l, &call, scratch)
            } else if l.is_listed() {
                listed::run::<N>(l, frame, row, &call, scratch, |call, scratch| run_call(l, call, scratch))
            } else if !l.interleaved.is_empty() {
                interleaved::run::<N>(l, &call, scratch, |call, scratch| run_call(l, call, scratch))
            } else {
                run_call(l, &call, scratch)
            }
        }
    }
}

/// Runs the kernel of `l` on one call.
///
/// # Safety
/// As for [`Kernel::run`](crate::kernel::Kernel::run).
unsafe fn run_call(l: &Loop, call: &Call<'_>, scratch: &mut Scratch) {
    let kernel = l.past.as_ref().filter(|_| is_fit_for_past(call, l)).unwrap_or(&l.kernel);
    // SAFETY: the caller's promise; stores past the caches are aligned.
    unsafe { kernel.run(call, scratch) };
}

/// The same if some inputs are transposed: blocks of their rows are turned first.
///
/// # Safety
/// As for [`Kernel::run`](crate::kernel::Kernel::run) with the strides that the arrays have.
unsafe fn run_turned<const N: usize>(l: &Loop, call: &Call<'_>, scratch: &mut Scratch) {
    let (rows, n) = (call.rows as i64, call.n as i64);
    let columns = if l.divisible { PANEL_COLUMNS.min(n) } else { n }.max(1);
    let across = || l.arrays.iter().filter(|a| a.across);
    let (count, widest) = (across().count() as i64, across().map(|a| a.elem_bytes).max().unwrap_or(1));
    // A line more than a row, so that rows do not all start at the same place of the caches.
    let pitch = (columns * widest + 63) / 64 * 64 + 64;
    // Whole lines of what is across.
    let high = (PANEL_BYTES / (count * pitch)).clamp(1, rows.max(1));
    let high = if high > 64 { high / 64 * 64 } else { high };
    let room = scratch.panels((count * high * pitch) as usize);
    let (mut ptrs, mut row_strides, mut strides) = ([std::ptr::null_mut(); N], [0; N], [0; N]);
    let mut index = [[0; 3]; N];
    for r in (0..rows).step_by(high as usize) {
        for c in (0..n).step_by(columns as usize) {
            let (many, wide) = (high.min(rows - r), columns.min(n - c));
            let mut panel = room;
            for (i, a) in l.arrays.iter().enumerate() {
                let (row, step) = (call.row_strides[i], call.strides[i]);
                // SAFETY: elements of the call, and of the room that was made for the panels.
                unsafe {
                    ptrs[i] = call.ptrs[i].offset(r as isize * row + c as isize * step);
                    (row_strides[i], strides[i]) = (row, step);
                    if a.across {
                        turn((ptrs[i], step), (panel, pitch as isize), (many, wide), a.elem_bytes);
                        (ptrs[i], row_strides[i], strides[i]) = (panel, pitch as isize, a.elem_bytes as isize);
                        panel = panel.add((high * pitch) as usize);
                    }
                }
            }
            for (at, &[start, row, step]) in index.iter_mut().zip(call.index) {
                *at = [start + r * row + c * step, row, step];
            }
            let block = Call {
                ptrs: &ptrs[..call.ptrs.len()],
                row_strides: &row_strides[..call.ptrs.len()],
                strides: &strides[..call.ptrs.len()],
                rows: many as usize,
                n: wide as usize,
                index: &index[..call.index.len()],
            };
            // SAFETY: the caller's promise, for a part of the call.
            unsafe { run_call(l, &block, scratch) };
        }
    }
}

/// Turns `rows × columns` elements: row `i` of `to` gets element `i` of each row of `from`, both given by their start and
/// the bytes from row to row.
///
/// # Safety
/// All these elements are there, and the two do not overlap.
unsafe fn turn(from: (*const u8, isize), to: (*mut u8, isize), (rows, columns): (i64, i64), size: i64) {
    // A few rows of `from` at a time: they may all be at the same place of the first-level cache, which has 8 ways.
    let strip = (32 / size).max(4);
    for c in (0..columns).step_by(strip as usize) {
        // SAFETY: a part of what the caller vouches for.
        unsafe {
            let (from_start, to_start) = (from.0.offset(c as isize * from.1), to.0.offset((c * size) as isize));
            let planes = Planes { from: from_start, from_stride: from.1, to: to_start, to_stride: to.1 };
            transpose(planes, rows as usize, strip.min(columns - c) as usize, size as usize);
        }
    }
}

/// Whether stores of this call may go past the caches: whole vectors are aligned, and nothing is written where it was
/// just read.
fn is_fit_for_past(call: &Call<'_>, l: &Loop) -> bool {
    let (inputs, outputs) = call.ptrs.split_at(l.inputs.len());
    let aligned =
        |i: usize| call.ptrs[i].addr().is_multiple_of(32) && (call.rows == 1 || call.row_strides[i] % 32 == 0);
    (l.inputs.len()..call.ptrs.len()).all(aligned) && !outputs.iter().any(|out| inputs.contains(out))
}
