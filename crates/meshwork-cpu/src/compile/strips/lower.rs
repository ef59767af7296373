//! Lowering a group: the steps of its regions, and where their operands and results are.

use std::sync::Arc;

use meshwork_ir::{BlockId, ElementType, OpId, OpKind, ValueId};

use super::labels::Labels;
use super::{Argument, Strips};
use crate::compile::Compiler;
use crate::compile::lower::Lower;
use crate::fuse::is_renaming;
use crate::library::dot::{double, single};
use crate::library::nest::Nest;
use crate::library::strips::{Ending, Home, Input, StripWork, SumChunks, Target, Tile};
use crate::program::{BufInfo, Node};
use crate::step::{Buf, Step, View};
use meshwork_runtime::LoadError;

/// Parts of a group that are enough for any machine.
const PARTS: usize = 48;

/// Strips that a part has at least, so that what is done once per part is worth it.
const STRIPS_PER_PART: usize = 4;

/// Matrices from which on rows are not divided into chunks with sums of their own.
const MANY_MATRICES: usize = 16;

/// The steps of a region before its buffers have places.
struct Inner {
    steps: Vec<Step>,
    bufs: Vec<BufInfo>,
    arguments: Vec<Buf>,
    results: Vec<Buf>,
}

impl Compiler<'_> {
    /// Adds the steps of the group that `op` stands for.
    pub(crate) fn strips(&mut self, op: OpId, strips: &Strips) -> Result<(), LoadError> {
        let module = self.cx.module;
        let operands = module.op(op).operands().to_vec();
        let views = operands.iter().map(|&v| self.view(v)).collect::<Result<Vec<View>, _>>()?;
        let mut inners = vec![];
        for i in 0..module.op(op).regions().len() {
            let block = module.body_of(op, i).ok_or_else(|| LoadError::invalid(module, op, "a region is empty"))?;
            inners.push(self.inner(op, block, strips, &views)?);
        }
        let extents = |axes: &[i64]| axes.iter().map(|&n| n as usize).collect::<Vec<usize>>();
        let (stack, rows) = strips.axes.extents.split_at(strips.axes.stack);
        let axes = strips.axes.extents.len();
        let step_along = |labels: &Labels, strides: &[i64]| -> Vec<isize> {
            let along =
                |axis: usize| labels.iter().position(|l| *l == Some(axis as u8)).map_or(0, |d| strides[d] as isize);
            (0..axes).map(along).collect()
        };
        let parts = strips.arguments.iter().filter_map(|a| match a {
            Argument::Part(labels) => Some(labels),
            Argument::Position(_) => None,
        });
        let inputs: Vec<Input> = parts
            .zip(&views)
            .map(|(labels, v)| Input { buf: v.buf, offset: v.offset as isize, steps: step_along(labels, &v.strides) })
            .collect();
        let mut work = StripWork {
            stack: extents(stack),
            rows: extents(rows),
            height: strips.height as usize,
            tiles: vec![],
            inputs,
            results: vec![],
            stack_parts: 1,
            chunks: 1,
        };
        let (matrices, count) = (work.stack.iter().product::<usize>(), work.strips());
        let sums = strips.outputs.iter().any(|o| o.sums);
        let wanted = if sums { MANY_MATRICES } else { PARTS };
        work.chunks = wanted.div_ceil(matrices.max(1)).min(count / STRIPS_PER_PART).max(1);
        work.stack_parts = matrices.min((4 * PARTS / work.chunks).max(1));
        let mut reads: Vec<Buf> = views.iter().map(|v| v.buf).collect();
        let (mut writes, mut after) = (vec![], vec![]);
        let mut homes: Vec<Vec<Home>> = inners.iter().map(|inner| vec![Home::Nowhere; inner.bufs.len()]).collect();
        let mut kept: Vec<Vec<Buf>> = vec![vec![]; inners.len()];
        for (inner, homes) in inners.iter().zip(&mut homes) {
            let mut part = 0;
            for (argument, buf) in strips.arguments.iter().zip(&inner.arguments) {
                homes[buf.0 as usize] = match argument {
                    Argument::Part(_) => {
                        part += 1;
                        Home::Input(part - 1)
                    }
                    Argument::Position(axis) => Home::Position(usize::from(*axis)),
                };
            }
            for (home, info) in homes.iter_mut().zip(&inner.bufs) {
                if let Some(literal) = &info.constant {
                    let buf = self.cx.constant(literal.clone());
                    reads.push(buf);
                    *home = Home::Outer(buf);
                }
            }
        }
        let returned = self.part_dims(op);
        for (i, (output, &value)) in strips.outputs.iter().zip(module.op(op).results()).enumerate() {
            let (elem, dims) = self.cx.shape(value);
            let buf = self.cx.result(value);
            let whole = View::dense(buf, elem, &dims);
            let from: Vec<Buf> = inners.iter().map(|inner| inner.results[i]).collect();
            kept.iter_mut().zip(&from).for_each(|(kept, &b)| kept.push(b));
            if output.sums {
                let wide = if elem == ElementType::F64 { elem } else { ElementType::F32 };
                let steps = step_along(&output.labels, &View::dense(buf, wide, &dims).strides);
                let size = wide.storage_bytes();
                let each = dims.iter().product::<i64>() as usize;
                let to = if work.chunks == 1 && wide == elem { buf } else { self.cx.temp(each * size * work.chunks) };
                if to != buf {
                    after.push((to, buf, elem, each));
                }
                writes.push(to);
                let ending = Ending::Add { from, count: each / matrices.max(1), size, chunk: each * size };
                work.results.push(Target { buf: to, steps, ending });
                continue;
            }
            writes.push(buf);
            let steps = step_along(&output.labels, &whole.strides);
            let unique = |(k, b): (usize, &Buf)| {
                let inner = &inners[k];
                let others = inner.results.iter().filter(|r| *r == b).count();
                others == 1 && homes[k][b.0 as usize] == Home::Nowhere
            };
            let copies: Vec<(Buf, Nest<2>)> = from
                .iter()
                .enumerate()
                .map(|(k, &b)| {
                    let dims = &returned[k][i];
                    (b, Nest::new(dims, [&whole.strides, &View::dense(b, elem, dims).strides]))
                })
                .collect();
            let size = elem.storage_bytes();
            let is_run = |nest: &Nest<2>| match (&nest.dims[..], &nest.strides[..]) {
                ([], _) => true,
                ([_], [step]) => *step == [size as isize; 2],
                _ => false,
            };
            let direct = copies.iter().all(|(_, nest)| is_run(nest)) && from.iter().enumerate().all(unique);
            if direct {
                from.iter().zip(&mut homes).for_each(|(b, homes)| homes[b.0 as usize] = Home::Result(i));
            }
            let ending = if direct { Ending::Direct } else { Ending::Copy(copies, size) };
            work.results.push(Target { buf, steps, ending });
        }
        let rows_of = |labels: &Labels| labels.iter().flatten().any(|&a| usize::from(a) >= strips.axes.stack);
        for ((inner, homes), kept) in inners.into_iter().zip(homes).zip(kept) {
            let varies = |a: &Argument| match a {
                Argument::Part(labels) => rows_of(labels),
                Argument::Position(axis) => usize::from(*axis) >= strips.axes.stack,
            };
            let varying = strips.arguments.iter().zip(&inner.arguments).filter(|(a, _)| varies(a)).map(|(_, &b)| b);
            let varying: Vec<Buf> = varying.collect();
            work.tiles.push(Tile::new(inner.steps, &inner.bufs, homes, &varying, &kept));
        }
        reads.sort_unstable();
        reads.dedup();
        let name = self.name_of_strips(op, strips);
        self.cx.step(op, name, Arc::new(work.clone()), reads, writes);
        for (from, to, elem, count) in after {
            self.add_chunks(op, (from, to), elem, (work.chunks, count));
        }
        Ok(())
    }

    /// Extents of what each region returns.
    fn part_dims(&self, op: OpId) -> Vec<Vec<Vec<i64>>> {
        let module = self.cx.module;
        let blocks = (0..module.op(op).regions().len()).filter_map(|i| module.body_of(op, i));
        let dims = |&v: &ValueId| module.ty(v).dims().to_vec();
        blocks.map(|block| module.returned(block).iter().map(dims).collect()).collect()
    }

    /// The steps of region `block`, over buffers of their own.
    fn inner(&mut self, op: OpId, block: BlockId, strips: &Strips, views: &[View]) -> Result<Inner, LoadError> {
        let module = self.cx.module;
        let fresh = Lower::new(module, self.cx.devices);
        let outer = std::mem::replace(&mut self.cx, fresh);
        let outer_fuse = std::mem::take(&mut self.fuse);
        let done = self.inner_steps(block, strips, views);
        self.fuse = outer_fuse;
        let inner = std::mem::replace(&mut self.cx, outer);
        let (arguments, results) = done?;
        if let Some(&fallback) = inner.fallbacks.first() {
            return Err(LoadError::unsupported(module, fallback, "an operation in strips"));
        }
        let step = |node: Node| match node {
            Node::Step(step) => Ok(step),
            _ => Err(LoadError::invalid(module, op, "strips contain more than steps")),
        };
        let steps = inner.nodes.into_iter().map(step).collect::<Result<_, _>>()?;
        Ok(Inner { steps, bufs: inner.bufs, arguments, results })
    }

    fn inner_steps(
        &mut self,
        block: BlockId,
        strips: &Strips,
        views: &[View],
    ) -> Result<(Vec<Buf>, Vec<Buf>), LoadError> {
        let module = self.cx.module;
        let mut operand = views.iter();
        let mut arguments = vec![];
        for (&arg, argument) in module.block(block).args().iter().zip(&strips.arguments) {
            let (elem, dims) = self.cx.shape(arg);
            let buf = self.cx.buffer(elem, &dims);
            let mut view = View::dense(buf, elem, &dims);
            if let Argument::Part(labels) = argument
                && let Some(whole) = operand.next()
            {
                view.strides = whole.strides.clone();
                let changes = labels.iter().flatten().any(|&a| usize::from(a) >= strips.axes.stack);
                if !changes {
                    self.cx.lasting.insert(buf);
                }
            }
            self.cx.set_view(arg, view);
            arguments.push(buf);
        }
        self.enter(block);
        for op in module.ops_in(block) {
            self.op(op)?;
        }
        let results = module.returned(block).to_vec();
        let results = results.into_iter().map(|v| self.dense(v)).collect::<Result<_, _>>()?;
        Ok((arguments, results))
    }

    /// Adds up the sums of the chunks.
    fn add_chunks(&mut self, op: OpId, (from, to): (Buf, Buf), elem: ElementType, (chunks, count): (usize, usize)) {
        let size = elem.storage_bytes();
        let name = format!("sum of {chunks} chunks {elem} {count}");
        if elem == ElementType::F64 {
            if let Some(elements) = double(elem) {
                let work = SumChunks { from, to, chunks, count, elements, size };
                self.cx.step(op, name, Arc::new(work), vec![from], vec![to]);
            }
        } else if let Some(elements) = single(elem) {
            let work = SumChunks { from, to, chunks, count, elements, size };
            self.cx.step(op, name, Arc::new(work), vec![from], vec![to]);
        }
    }

    /// What profiles call the group.
    fn name_of_strips(&self, op: OpId, strips: &Strips) -> String {
        let module = self.cx.module;
        let mut names: Vec<&str> = vec![];
        let body = module.body_of(op, 0);
        for inner in body.into_iter().flat_map(|block| module.ops_in(block)) {
            let kind = module.op(inner).kind();
            let short = kind.name().rsplit('.').next().unwrap_or_default();
            let plain = is_renaming(kind) || matches!(kind, OpKind::Source(_) | OpKind::Sdy(_));
            if !plain && names.last() != Some(&short) && (short == "dot_general" || !names.contains(&short)) {
                names.push(short);
            }
        }
        let extra = names.len().saturating_sub(8);
        names.truncate(8);
        let more = if extra > 0 { format!("·+{extra}") } else { String::new() };
        let dims = strips.axes.extents.iter().map(i64::to_string).collect::<Vec<_>>().join("×");
        format!("strips {}{more} {dims} by {} rows", names.join("·"), strips.height)
    }
}
