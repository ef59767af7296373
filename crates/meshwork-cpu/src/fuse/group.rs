//! Forming groups and adding their steps: what is computed together with a value that must now be in memory.

use std::sync::Arc;

use meshwork_ir::hash::{HashMap, HashSet};
use meshwork_ir::op::{BodyOp, MovementOp, SourceOp};
use meshwork_ir::{BlockId, OpId, OpKind, ValueId, Walk};

use super::boxes::{Boxes, Halt, Job};
use super::graph::Place;
use super::nest::Loop;
use super::survey::{MAX_INSIDE, Scope, Survey};
use super::work::{Fused, MAX_ARRAYS, PerDevice};
use super::{is_fusible, is_moved_slice, is_pick, is_renaming, is_row_pick, numbers, reduce_kind, row_reduce};
use crate::compile::{Compiler, captured};
use crate::library;
use crate::library::dot::converted;
use crate::program::Node;
use crate::step::{Buf, Step, View, Work};
use meshwork_runtime::LoadError;

/// What fusion remembers while blocks are lowered.
#[derive(Debug, Default)]
pub(crate) struct State {
    /// Per value, whether it must be stored: something other than a fused loop reads it.
    pub(super) stored: Vec<bool>,
    /// Per value in memory now or later: the values to be stored that are computed from it.
    readers: HashMap<ValueId, Vec<ValueId>>,
    /// Per value that is computed inside a loop: the values, in memory now or later, that it is computed from.
    sources: HashMap<ValueId, Vec<ValueId>>,
    /// Numbers to be stored, by block.
    numbers: HashMap<BlockId, Vec<ValueId>>,
    /// Per value, how many ops it is away from memory.
    pub(super) depth: Vec<u16>,
    /// Ops that are part of a step already.
    pub(super) done: HashSet<OpId>,
    /// The values that are being stored: each for the sake of the one before it.
    forcing: Vec<ValueId>,
}

/// Sources of one value that are remembered.
const MAX_SOURCES: usize = 12;
/// A value further from memory than this is stored.
const MAX_DEPTH: u16 = 120;
/// Values stored by one loop.
pub(super) const MAX_OUTPUTS: usize = 12;
/// Values that are tried for one loop beside what is asked for.
const MAX_TRIES: usize = 4 * MAX_OUTPUTS;

impl Compiler<'_> {
    /// Finds out which values of `block` must be stored, before its ops are lowered.
    pub(crate) fn enter(&mut self, block: BlockId) {
        let module = self.cx.module;
        self.fuse.stored.resize(module.value_slots(), false);
        self.fuse.depth.resize(module.value_slots(), 0);
        for op in module.ops_in(block) {
            if is_pick(module, op) {
                // The array is in memory, its places are computed on the way.
                self.store(module.op(op).operands()[0]);
                continue;
            }
            if is_fusible(module, op) && !is_moved_slice(module, op) && !is_row_pick(module, op) {
                continue;
            }
            let mut wanted = module.op(op).operands().to_vec();
            if reduce_kind(module, op).is_some() {
                // What it reduces is computed on the way.
                wanted.remove(0);
            }
            wanted.extend(captured(module, op));
            for v in wanted {
                self.store(converted(module, op, v).unwrap_or(v));
            }
        }
        self.spread_values(block).into_iter().for_each(|v| self.store(v));
    }

    /// Whether `value` is to be stored, whoever else needs it.
    pub(crate) fn is_stored(&self, value: ValueId) -> bool {
        self.fuse.stored[value.index()]
    }

    /// Marks `value`, or what it only renames, as to be stored.
    fn store(&mut self, value: ValueId) {
        let module = self.cx.module;
        let mut value = value;
        while let Some(op) = module.def_op(value) {
            let kind = module.op(op).kind();
            if !is_renaming(kind) || kind == OpKind::Movement(MovementOp::Slice) || !is_fusible(module, op) {
                break;
            }
            value = module.op(op).operands()[0];
        }
        self.fuse.stored[value.index()] = true;
    }

    /// Takes note of a fusible op; it is computed when its result is wanted.
    pub(crate) fn postpone(&mut self, op: OpId) -> Result<(), LoadError> {
        let module = self.cx.module;
        let data = module.op(op);
        let below = data.operands().iter().filter(|&&v| self.cx.view(v).is_none());
        let depth = below.map(|v| self.fuse.depth[v.index()]).max().map_or(0, |d| d + 1);
        let result = data.results()[0];
        self.fuse.depth[result.index()] = depth;
        if depth >= MAX_DEPTH {
            self.fuse.stored[result.index()] = true;
        }
        self.note_sources(op, result);
        if depth >= MAX_DEPTH { self.force(result) } else { Ok(()) }
    }

    /// Remembers what `result` is computed from, to find later what goes well together.
    fn note_sources(&mut self, op: OpId, result: ValueId) {
        let module = self.cx.module;
        let count = |dims: &[i64]| dims.iter().product::<i64>();
        // A number that is broadcast takes the memory of a number: many read it, and need not be computed together.
        let size = |v: ValueId| match self.cx.view(v) {
            Some(view) => count(&self.cx.bufs[view.buf.0 as usize].dims),
            None => count(module.ty(v).dims()),
        };
        let mut sources: Vec<ValueId> = vec![];
        for &v in module.op(op).operands() {
            match self.fuse.sources.get(&v).filter(|_| !self.fuse.stored[v.index()]) {
                Some(before) => sources.extend(before),
                None => sources.push(v),
            }
        }
        sources.sort_unstable();
        sources.dedup();
        sources.truncate(MAX_SOURCES);
        if self.fuse.stored[result.index()] {
            if module.ty(result).dims().is_empty() {
                if let Some(block) = module.op(op).parent() {
                    self.fuse.numbers.entry(block).or_default().push(result);
                }
            } else {
                for &v in sources.iter().filter(|&&v| size(v) * 8 >= count(module.ty(result).dims())) {
                    self.fuse.readers.entry(v).or_default().push(result);
                }
            }
        }
        self.fuse.sources.insert(result, sources);
    }

    /// Values of the same block to be stored that might be computed together with those of `survey`, in program order.
    /// The step of a branch or a loop may not run, so it computes nothing for the blocks around it.
    fn companions(&self, survey: &Survey, value: ValueId) -> Vec<ValueId> {
        let module = self.cx.module;
        let block = |v: ValueId| module.def_op(v).and_then(|op| module.op(op).parent());
        let here = block(value);
        let mut out: Vec<ValueId> = if survey.domain.is_empty() {
            here.and_then(|b| self.fuse.numbers.get(&b)).cloned().unwrap_or_default()
        } else {
            survey.maps.keys().filter_map(|v| self.fuse.readers.get(v)).flatten().copied().collect()
        };
        out.retain(|&v| self.cx.view(v).is_none() && block(v) == here);
        out.sort_unstable();
        out.dedup();
        out
    }

    /// Computes what is still wanted of slices, at places that are data, of the array that `writer` overwrites.
    pub(crate) fn finish_slices(&mut self, writer: OpId) -> Result<(), LoadError> {
        let module = self.cx.module;
        // What branches and loops before it sliced, they have used.
        let around: Vec<BlockId> =
            std::iter::successors(module.op(writer).parent(), |&b| module.op(module.block_parent_op(b)?).parent())
                .collect();
        let in_reach = |op: OpId| module.op(op).parent().is_some_and(|block| around.contains(&block));
        let target = module.op(writer).operands()[0];
        let users: Vec<OpId> = module.value(target).uses().iter().map(|u| u.op).collect();
        let reads_anywhere = |op: OpId| is_moved_slice(module, op) || is_pick(module, op) || is_row_pick(module, op);
        for op in users.into_iter().filter(|&op| reads_anywhere(op) && in_reach(op)) {
            let result = module.op(op).results()[0];
            let seen = self.fuse.sources.contains_key(&result) && self.cx.view(result).is_none();
            if seen && module.value(result).uses().iter().any(|u| !self.fuse.done.contains(&u.op)) {
                self.force(result)?;
            }
        }
        Ok(())
    }

    /// Stores `value` in memory, in any way that strides can say.
    pub(crate) fn force(&mut self, value: ValueId) -> Result<(), LoadError> {
        let module = self.cx.module;
        if self.cx.view(value).is_some() {
            return Ok(());
        }
        let Some(op) = module.def_op(value).filter(|&op| is_fusible(module, op)) else {
            let what = module.def_op(value).map_or("block argument".into(), |op| module.describe(op));
            return Err(LoadError::Invalid { op: what, message: "it is used before it is computed".into() });
        };
        let kind = module.op(op).kind();
        let operand = module.op(op).operands().first().copied();
        if let Some(operand) = operand.filter(|_| is_renaming(kind)) {
            let lazy = self.cx.view(operand).is_none();
            if kind != OpKind::Movement(MovementOp::Slice) || !lazy || self.fuse.stored[operand.index()] {
                return self.rename(op);
            }
        }
        // A slice of what is in memory is only a copy, and the library has one for all devices.
        if kind == OpKind::Movement(MovementOp::DynamicSlice) && operand.is_some_and(|v| self.cx.view(v).is_some()) {
            return self.opaque(op);
        }
        // So is a gather of rows, or one whose array and places are in memory.
        if is_row_pick(module, op) {
            module.op(op).operands().iter().try_for_each(|&v| self.force(v))?;
            return self.opaque(op);
        }
        let there = |&v: &ValueId| self.cx.view(v).is_some();
        if kind == OpKind::Movement(MovementOp::Gather) && module.op(op).operands().iter().all(there) {
            return self.opaque(op);
        }
        self.fuse.forcing.push(value);
        let done = self.force_alone(op, value);
        self.fuse.forcing.pop();
        done
    }

    /// Stores the result `value` of `op`, after what has to be stored first.
    fn force_alone(&mut self, op: OpId, value: ValueId) -> Result<(), LoadError> {
        // Each round stores one more value, so there is an end.
        loop {
            match self.group(value, true)? {
                Outcome::Done => return Ok(()),
                Outcome::First(other) if self.is_stuck(other) => break,
                Outcome::First(other) => self.force(other)?,
                Outcome::WithoutReductions => break,
            }
        }
        loop {
            match self.group(value, false)? {
                Outcome::Done => return Ok(()),
                Outcome::First(other) if self.is_stuck(other) => return self.opaque(op),
                Outcome::First(other) => self.force(other)?,
                Outcome::WithoutReductions => return self.opaque(op),
            }
        }
    }

    /// Whether `other` cannot be stored first, or is: it may be what is stored for its sake.
    fn is_stuck(&self, other: ValueId) -> bool {
        self.fuse.forcing.contains(&other) || self.cx.view(other).is_some()
    }

    /// The domain of the loop that computes `value`: its own, or that of a reduction that it is made of.
    fn domain_of(&self, value: ValueId) -> (Vec<i64>, Option<usize>) {
        let module = self.cx.module;
        let dims = module.ty(value).dims();
        let mut work = vec![value];
        let mut seen = HashSet::default();
        while let Some(v) = work.pop() {
            if self.cx.view(v).is_some() || module.ty(v).dims() != dims || !seen.insert(v) {
                continue;
            }
            let Some(op) = module.def_op(v) else { continue };
            if let Some(k) = row_reduce(module, op) {
                return (module.ty(module.op(op).operands()[0]).dims().to_vec(), Some(k));
            }
            if numbers::is_arithmetic(module, op) {
                work.extend(module.op(op).operands());
            }
        }
        (dims.to_vec(), None)
    }

    /// Tries to add the step that computes `value` and what goes well with it.
    fn group(&mut self, value: ValueId, reductions: bool) -> Result<Outcome, LoadError> {
        let module = self.cx.module;
        let def = module.def_op(value);
        let is_reduce = def.is_some_and(|op| module.op(op).kind() == OpKind::Body(BodyOp::Reduce));
        let (domain, split) =
            if reductions || is_reduce { self.domain_of(value) } else { (module.ty(value).dims().to_vec(), None) };
        let scope =
            Scope { cx: &self.cx, stored: &self.fuse.stored, reductions: reductions || is_reduce, grid: self.grid };
        let mut survey = match scope.survey(&domain, split, &[value]) {
            Ok(survey) => survey,
            Err(first) => return Ok(Outcome::First(first)),
        };
        let mut alone: Option<Survey> = None;
        let mut tries = 0;
        for other in self.companions(&survey, value) {
            if survey.joined.len() >= MAX_OUTPUTS || survey.inside.len() * 2 > MAX_INSIDE || tries == MAX_TRIES {
                break;
            }
            let dims = module.ty(other).dims();
            let fits = dims == domain || survey.split.is_some_and(|k| *dims == domain[..k]);
            if !fits || survey.joined.contains(&other) {
                continue;
            }
            tries += 1;
            let mut roots = survey.joined.clone();
            roots.push(other);
            let scope = Scope { cx: &self.cx, stored: &self.fuse.stored, reductions, grid: self.grid };
            let Ok(both) = scope.survey(&domain, survey.split, &roots) else { continue };
            let own = scope.survey(&domain, survey.split, &[other]);
            let has_edges = self.puts_edges(value) && own.as_ref().is_ok_and(|a| self.is_edge_worth_a_step(a));
            let related = own.is_ok_and(|a| !has_edges && self.related(&survey, &a));
            if related && both.leaves.len() + both.joined.len() < MAX_ARRAYS / 3 {
                alone.get_or_insert(std::mem::replace(&mut survey, both));
            }
        }
        let outputs = self.outputs(&survey, value);
        let outcome = self.add_step(&survey, &outputs, value)?;
        // What was joined may be what this is stored for: too much for one loop, and not to be stored first.
        let stuck = match outcome {
            Outcome::Done => false,
            Outcome::First(other) => self.is_stuck(other),
            Outcome::WithoutReductions => !reductions,
        };
        match alone {
            Some(alone) if stuck => {
                let outputs = self.outputs(&alone, value);
                self.add_step(&alone, &outputs, value)
            }
            _ => Ok(outcome),
        }
    }

    /// Whether two loops read or compute something in common that is worth sharing.
    fn related(&self, a: &Survey, b: &Survey) -> bool {
        if a.domain.is_empty() {
            return true;
        }
        let whole: i64 = a.domain.iter().product();
        let large = |buf: &&Buf| self.cx.bufs[buf.0 as usize].dims.iter().product::<i64>() * 8 >= whole;
        b.leaves.iter().filter(large).any(|l| a.leaves.contains(l)) || b.inside.iter().any(|v| a.inside.contains(v))
    }

    fn add_step(&mut self, survey: &Survey, outputs: &[ValueId], root: ValueId) -> Result<Outcome, LoadError> {
        let module = self.cx.module;
        let rank = survey.domain.len();
        let bufs: Vec<Buf> = outputs
            .iter()
            .map(|&v| {
                let (elem, dims) = self.cx.shape(v);
                self.cx.buffer(elem, &dims)
            })
            .collect();
        let places: Vec<Place> = outputs
            .iter()
            .zip(&bufs)
            .map(|(&v, &buf)| {
                let (elem, dims) = self.cx.shape(v);
                let mut strides = View::dense(buf, elem, &dims).strides;
                strides.resize(rank, 0);
                Place { buf, elem, offset: 0, strides, moved: vec![], picked: false }
            })
            .collect();
        let job = Job { survey, outputs, places: &places, root };
        let mut copies: Vec<(View, View)> = vec![];
        let mut boxes = Boxes::default();
        let mut works: Vec<Fused> = vec![];
        for device in self.kinds_of_devices(survey) {
            let from = boxes.loops.len();
            match self.boxes(&job, device, &mut boxes, &mut copies) {
                Ok(()) => works.push(Fused::new(boxes.loops[from..].to_vec())),
                Err(Halt::Outcome(outcome)) => return Ok(outcome),
                Err(Halt::NoKernel) => return self.give_up(survey, root),
            }
        }
        let Boxes { loops, pairs } = boxes;
        for (&v, &buf) in outputs.iter().zip(&bufs) {
            let (elem, dims) = self.cx.shape(v);
            self.cx.set_view(v, View::dense(buf, elem, &dims));
        }
        let op = module.def_op(root).ok_or_else(|| LoadError::Invalid {
            op: "block argument".into(),
            message: "it cannot be computed".into(),
        })?;
        for (from, to) in copies {
            library::copy::copy(&mut self.cx, op, &from, &to);
        }
        self.fuse.done.extend(survey.inside.iter().filter_map(|&v| module.def_op(v)));
        if loops.is_empty() {
            return Ok(Outcome::Done);
        }
        let mut reads: Vec<Buf> = vec![];
        for buf in loops.iter().flat_map(Loop::reads) {
            if !reads.contains(&buf) {
                reads.push(buf);
            }
        }
        let whole = |&(from, to): &(Buf, Buf)| {
            let (from, to) = (&self.cx.bufs[from.0 as usize], &self.cx.bufs[to.0 as usize]);
            from.bytes == to.bytes && from.constant.is_none()
        };
        let mut in_place: Vec<(Buf, Buf)> = pairs.unwrap_or_default().into_iter().filter(whole).collect();
        in_place.sort_unstable();
        let name = self.name(survey, &loops);
        let work: Arc<dyn Work> = match works.len() {
            1 => Arc::new(works.remove(0)),
            _ => Arc::new(PerDevice::new(works)),
        };
        self.cx.nodes.push(Node::Step(Step { work, reads, writes: bufs, in_place, op, name }));
        Ok(Outcome::Done)
    }

    /// Computes every op of a group by itself, for want of a kernel.
    fn give_up(&mut self, survey: &Survey, root: ValueId) -> Result<Outcome, LoadError> {
        let module = self.cx.module;
        let Some(block) = module.def_op(root).and_then(|op| module.op(op).parent()) else {
            return Ok(Outcome::First(root));
        };
        let inside: HashSet<OpId> = survey.inside.iter().filter_map(|&v| module.def_op(v)).collect();
        for op in module.ops_below_block(block, Walk::PreOrder).into_iter().filter(|op| inside.contains(op)) {
            if self.cx.view(module.op(op).results()[0]).is_some() {
                continue;
            }
            let kind = module.op(op).kind();
            if is_renaming(kind) { self.rename(op)? } else { self.opaque(op)? }
        }
        Ok(Outcome::Done)
    }

    pub(super) fn middle_of(&self, survey: &Survey, root: ValueId) -> Outcome {
        let module = self.cx.module;
        let whole = |v: &&ValueId| {
            **v != root
                && module.ty(**v).dims() == survey.domain
                && module.def_op(**v).is_some_and(|op| numbers::is_arithmetic(module, op))
        };
        let fitting: Vec<&ValueId> = survey.inside.iter().filter(whole).collect();
        fitting.get(fitting.len() / 2).map_or(Outcome::WithoutReductions, |&&v| Outcome::First(v))
    }

    fn name(&self, survey: &Survey, loops: &[Loop]) -> String {
        let module = self.cx.module;
        let mut names: Vec<&str> = vec![];
        for &v in survey.inside.iter().rev() {
            let Some(op) = module.def_op(v) else { continue };
            let kind = module.op(op).kind();
            let short = kind.name().rsplit('.').next().unwrap_or_default();
            let plain = is_renaming(kind) || kind == OpKind::Source(SourceOp::Constant);
            if !plain && !names.contains(&short) {
                names.push(short);
            }
        }
        if names.is_empty() {
            names.push("copy");
        }
        let extra = names.len().saturating_sub(6);
        names.truncate(6);
        let more = if extra > 0 { format!("·+{extra}") } else { String::new() };
        let dims = survey.domain.iter().map(i64::to_string).collect::<Vec<_>>().join("×");
        let boxes = if loops.len() > 1 { format!(" in {} boxes", loops.len()) } else { String::new() };
        let rows = if survey.split.is_some() { "rows" } else { "fused" };
        format!("{rows} {}{more} {dims}{boxes}", names.join("·"))
    }
}

/// What became of a try to form a group.
pub(super) enum Outcome {
    Done,
    /// Store this value first.
    First(ValueId),
    /// Not with reductions in the loop.
    WithoutReductions,
}
