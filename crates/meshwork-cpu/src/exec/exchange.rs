//! Communication: devices read the buffers of their peers in place.
//!
//! What is to be done is a list of tasks, each with targets of its own, found once. A reduction goes over the members
//! of a group in their order, so its result is the same on every run and on every device of the group. What a group
//! has together is written once, for its first member.

use std::collections::hash_map::Entry;
use std::mem::MaybeUninit;
use std::ops::Range;

use meshwork_ir::hash::HashMap;
use meshwork_ir::{Module, OpId};

use super::combine::Combiner;
use super::crossing::Crossing;
use super::device::Device;
use super::pool::Pool;
use super::ragged::Ragged;
use crate::memory::plan::Plan;
use crate::program::{Collective, CollectiveKind, Ends, Program, Reducer};
use crate::step::{Buf, Fault, Scratch};
use meshwork_runtime::boxes::{BoxCopy, Region};
use meshwork_runtime::stream;

/// Bytes of a task, about: long enough to be worth handing out, short enough to balance.
const TASK_BYTES: usize = 128 << 10;
/// Bytes that are reduced and then copied to all targets before the next: they stay in the caches of a core.
const BLOCK_BYTES: usize = 32 << 10;
/// Exchanges that read and write more than this on all devices together write past the caches, which would not hold it.
const STREAM_BYTES: usize = 40 << 20;
/// Bytes that are reduced in the nearest cache before they are written past it.
const STREAM_BLOCK: usize = 16 << 10;

/// A collective, ready to run.
pub(crate) struct Exchange {
    pub op: OpId,
    pub name: String,
    /// Nanoseconds per device.
    pub cost: u64,
    tasks: Vec<Task>,
    /// Devices that must all take part, or none of them.
    pub together: Vec<Vec<usize>>,
    reductions: Vec<Reduction>,
    /// If it moves pieces of lengths that are data.
    ragged: Option<Ragged>,
    /// Whether it writes past the caches.
    stream: bool,
    /// What this process does for it, if the devices are spread over several.
    pub crossing: Option<Crossing>,
}

/// How the arrays of a group are combined.
struct Reduction {
    combiner: Combiner,
    /// How many arrays.
    members: usize,
    /// Bytes of an element.
    size: usize,
}

enum Task {
    Copy {
        from: Place,
        to: Place,
        what: BoxCopy,
    },
    Zero {
        to: Place,
        range: Range<usize>,
    },
    /// The box of all members of a group goes, combined, to the targets.
    Reduce {
        /// Its number among the reductions.
        how: usize,
        from: Vec<Place>,
        to: Vec<Place>,
        what: BoxCopy,
    },
    /// A device gets pieces from all members of its group.
    Receive {
        device: usize,
        /// Its group and its place in it.
        group: usize,
        member: usize,
    },
}

/// A buffer of a device.
#[derive(Clone, Copy)]
struct Place {
    device: usize,
    buf: Buf,
}

/// Bytes of a buffer of a device.
#[derive(Clone, Debug)]
pub(crate) struct Piece {
    pub device: usize,
    pub buf: Buf,
    pub bytes: Range<i64>,
}

/// Bytes that go from one device to another, or zeros.
#[derive(Clone, Debug)]
pub(crate) struct Move {
    pub from: Option<Piece>,
    pub to: Piece,
    what: BoxCopy,
}

impl Move {
    /// Moves them; `ptr` gives the address of a buffer of a device.
    ///
    /// # Safety
    /// The buffers are as the exchange expects them, and nothing else writes these bytes, or reads those that are written.
    pub(crate) unsafe fn run(&self, ptr: impl Fn(usize, Buf) -> *mut u8) {
        let to = ptr(self.to.device, self.to.buf);
        match &self.from {
            // SAFETY: the caller's promise.
            Some(from) => unsafe { self.what.run(ptr(from.device, from.buf), to) },
            None => {
                let range = &self.to.bytes;
                // SAFETY: the caller's promise.
                unsafe { to.add(range.start as usize).write_bytes(0, (range.end - range.start) as usize) }
            }
        }
    }
}

/// Where devices of other processes would be reached: the one seam between the executor and its surroundings.
pub(crate) trait Transport: Send + Sync {
    /// Does `exchange` for the devices in `active`, of all `devices`.
    fn exchange(
        &self,
        exchange: &Exchange,
        devices: &[Device],
        active: &[usize],
        pool: &Pool,
        scratch: &mut Scratch,
    ) -> Result<(), Fault>;

    /// Waits for the end of the exchange of this number, which only started.
    fn finish(&self, _: &[Exchange], _: u32, _: &[Device], _: &Pool, _: &mut Scratch) -> Result<(), Fault> {
        Ok(())
    }

    /// Lets what is under way move; for any thread between two pieces of work.
    fn poll(&self, _: &[Exchange], _: &[Device]) {}

    /// Takes back what is under way: the run has failed.
    fn abandon(&self) {}
}

/// All devices are in this process.
pub(crate) struct InProcess;

impl Exchange {
    /// Finds what `c` has to do on `devices` devices.
    pub(crate) fn new(
        c: &Collective,
        program: &Program,
        module: &Module,
        plan: &Plan,
        devices: usize,
    ) -> Result<Exchange, String> {
        let mut exchange = Exchange {
            op: c.op,
            name: c.name.clone(),
            cost: 0,
            tasks: vec![],
            together: c.groups.iter().map(|g| g.iter().map(|&d| d as usize).collect()).collect(),
            reductions: vec![],
            ragged: None,
            stream: false,
            crossing: None,
        };
        let (mut traffic, mut touched) = (0, 0);
        for (i, Ends { operand, start, result, elem, from: from_dims, to: to_dims }) in
            c.ends(program, module).enumerate()
        {
            if plan.is_peer_arg(result) {
                continue;
            }
            let (from, to) = (&program.bufs[operand.0 as usize], &program.bufs[result.0 as usize]);
            let first = plan.is_shared(result) || matches!(c.kind, CollectiveKind::Reduce(_));
            let size = elem.storage_bytes();
            let shape = Shape { operand, start, result, from: &from_dims, to: &to_dims, size, first };
            let copies = if first { c.groups.len() } else { devices };
            let read: usize = from_dims.iter().product::<i64>().max(0) as usize * size * devices;
            touched += read + to.bytes * copies;
            traffic += from.bytes + to.bytes * copies / devices;
            let groups = exchange.together.clone();
            match &c.kind {
                CollectiveKind::AllReduce(reducer)
                | CollectiveKind::Reduce(reducer)
                | CollectiveKind::ReduceScatter { reducer, .. } => {
                    let dim = match c.kind {
                        CollectiveKind::ReduceScatter { dim, .. } => Some(dim),
                        _ => None,
                    };
                    // Groups may differ in size.
                    let mut of_size = HashMap::default();
                    for members in groups.iter().map(Vec::len) {
                        if let Entry::Vacant(place) = of_size.entry(members) {
                            place.insert(exchange.reductions.len());
                            let combiner = Combiner::new(reducer, elem, members, module)?;
                            exchange.reductions.push(Reduction { combiner, members, size });
                        }
                    }
                    if !matches!(reducer, Reducer::Combine(_)) {
                        traffic *= 100;
                    }
                    groups.iter().for_each(|g| exchange.reduce(of_size[&g.len()], g, &shape, dim));
                    if matches!(c.kind, CollectiveKind::Reduce(_)) {
                        let others = (0..devices).filter(|&d| groups.iter().all(|g| g[0] != d));
                        others.for_each(|d| exchange.zero(d, result, to.bytes));
                    }
                }
                CollectiveKind::AllGather { dim } => {
                    groups.iter().for_each(|g| exchange.all_to_all(g, &shape, None, *dim));
                }
                CollectiveKind::AllToAll { split_dim, concat_dim, .. } => {
                    groups.iter().for_each(|g| exchange.all_to_all(g, &shape, Some(*split_dim), *concat_dim));
                }
                CollectiveKind::RaggedAllToAll => {
                    exchange.ragged = Ragged::new(c, program, &from_dims, &to_dims, size);
                    for (group, members) in groups.iter().enumerate() {
                        let tasks = members.iter().enumerate();
                        exchange.tasks.extend(tasks.map(|(member, &device)| Task::Receive { device, group, member }));
                    }
                }
                CollectiveKind::Broadcast => {
                    for g in &groups {
                        shape.targets(g).iter().for_each(|&d| exchange.whole(g[0], d, &shape));
                    }
                    let idle = (0..devices).filter(|d| !groups.iter().any(|g| g.contains(d)));
                    idle.for_each(|d| exchange.zero(d, result, to.bytes));
                }
                CollectiveKind::Permute { pairs } => {
                    let mut silent = vec![true; devices];
                    for &(a, b) in pairs {
                        exchange.whole(a as usize, b as usize, &shape);
                        silent[b as usize] = false;
                        if i == 0 && a != b {
                            exchange.together.push(vec![a as usize, b as usize]);
                        }
                    }
                    (0..devices).filter(|&d| silent[d]).for_each(|d| exchange.zero(d, result, to.bytes));
                }
            }
        }
        exchange.stream = touched > STREAM_BYTES;
        if exchange.stream {
            exchange.reductions.iter_mut().for_each(|r| r.combiner.prepare_stream(r.members));
        }
        exchange.cost = 30 + traffic as u64 / 10;
        Ok(exchange)
    }

    /// What it moves, if it combines nothing.
    pub(crate) fn moves(&self) -> Option<Vec<Move>> {
        let part = |place: &Place, bytes: Range<usize>| Piece {
            device: place.device,
            buf: place.buf,
            bytes: bytes.start as i64..bytes.end as i64,
        };
        let one = |task: &Task| match task {
            Task::Copy { from, to, what } => {
                let (read, written) = what.reach();
                Some(Move { from: Some(part(from, read)), to: part(to, written), what: what.clone() })
            }
            Task::Zero { to, range } => {
                Some(Move { from: None, to: part(to, range.clone()), what: BoxCopy::default() })
            }
            Task::Reduce { .. } | Task::Receive { .. } => None,
        };
        if self.crossing.is_some() || self.stream { None } else { self.tasks.iter().map(one).collect() }
    }

    /// `to` gets all of what `from` has.
    fn whole(&mut self, from: usize, to: usize, shape: &Shape<'_>) {
        let start = vec![0; shape.from.len()];
        let at = Region { dims: shape.from, start: &start };
        self.copy(from, to, shape, BoxCopy::new(&at, &at, shape.from, shape.size));
    }

    fn copy(&mut self, from: usize, to: usize, shape: &Shape<'_>, what: BoxCopy) {
        let (from, to) = (Place { device: from, buf: shape.operand }, Place { device: to, buf: shape.result });
        let mut pieces = vec![];
        what.later(shape.start).pieces(TASK_BYTES, &mut pieces);
        let pieces = pieces.into_iter().filter(|p| p.bytes() > 0);
        self.tasks.extend(pieces.map(|what| Task::Copy { from, to, what }));
    }

    fn zero(&mut self, device: usize, buf: Buf, bytes: usize) {
        let to = Place { device, buf };
        let starts = (0..bytes).step_by(TASK_BYTES);
        self.tasks.extend(starts.map(|at| Task::Zero { to, range: at..bytes.min(at + TASK_BYTES) }));
    }

    /// Each member gets a part of every member, one after the other along `concat`: all of it, or its own share along
    /// `split`.
    fn all_to_all(&mut self, group: &[usize], shape: &Shape<'_>, split: Option<usize>, concat: usize) {
        let mut lengths = shape.from.to_vec();
        if let Some(split) = split {
            lengths[split] /= group.len() as i64;
        }
        for (i, &from) in group.iter().enumerate() {
            for (j, &to) in shape.targets(group).iter().enumerate() {
                let (mut start, mut target) = (vec![0; lengths.len()], vec![0; lengths.len()]);
                if let Some(split) = split {
                    start[split] = j as i64 * lengths[split];
                }
                target[concat] = i as i64 * lengths[concat];
                let (a, b) = (Region { dims: shape.from, start: &start }, Region { dims: shape.to, start: &target });
                self.copy(from, to, shape, BoxCopy::new(&a, &b, &lengths, shape.size));
            }
        }
    }

    /// All members get the combination of all, or of their share along `dim`.
    fn reduce(&mut self, how: usize, group: &[usize], shape: &Shape<'_>, dim: Option<usize>) {
        let from: Vec<Place> = group.iter().map(|&device| Place { device, buf: shape.operand }).collect();
        let target = |device: usize| Place { device, buf: shape.result };
        let zero = vec![0; shape.from.len()];
        let mut add = |what: BoxCopy, to: Vec<Place>| {
            let mut pieces = vec![];
            what.later(shape.start).pieces(TASK_BYTES, &mut pieces);
            let pieces = pieces.into_iter().filter(|p| p.bytes() > 0);
            let task = |what| Task::Reduce { how, from: from.clone(), to: to.clone(), what };
            self.tasks.extend(pieces.map(task));
        };
        let Some(dim) = dim else {
            let at = Region { dims: shape.from, start: &zero };
            add(
                BoxCopy::new(&at, &at, shape.from, shape.size),
                shape.targets(group).iter().map(|&d| target(d)).collect(),
            );
            return;
        };
        for (i, &device) in group.iter().enumerate() {
            let mut start = zero.clone();
            start[dim] = i as i64 * shape.to[dim];
            let (a, b) = (Region { dims: shape.from, start: &start }, Region { dims: shape.to, start: &zero });
            add(BoxCopy::new(&a, &b, shape.to, shape.size), vec![target(device)]);
        }
    }

    /// Some devices of a group are here and others are not: which.
    fn torn(&self, active: &[usize]) -> Option<Fault> {
        let here = |d: &&usize| active.binary_search(d).is_ok();
        let group = self.together.iter().find(|g| {
            let count = g.iter().filter(here).count();
            count != 0 && count != g.len()
        })?;
        let absent: Vec<String> = group.iter().filter(|d| !here(d)).map(usize::to_string).collect();
        Some(Fault(format!("devices {} do not reach it, though others of their group do", absent.join(", "))))
    }

    /// Does one task.
    ///
    /// # Safety
    /// All devices of the task are at the exchange, and nothing else uses the buffers it names.
    unsafe fn run(&self, task: &Task, devices: &[Device], scratch: &mut Scratch) -> Result<(), Fault> {
        // SAFETY: nothing changes pointers during an exchange.
        let ptr = |place: &Place| unsafe { devices[place.device].ptr(place.buf) };
        match task {
            // SAFETY: operands and results are different buffers as large as their shapes.
            Task::Copy { from, to, what } if self.stream => unsafe { what.stream(ptr(from), ptr(to)) },
            // SAFETY: as above.
            Task::Copy { from, to, what } => unsafe { what.run(ptr(from), ptr(to)) },
            Task::Receive { group, member, .. } => {
                if let Some(ragged) = &self.ragged {
                    // SAFETY: the caller's promise.
                    unsafe { ragged.receive(devices, *group, *member)? }
                }
            }
            // SAFETY: the range is inside the result.
            Task::Zero { to, range } => unsafe { ptr(to).add(range.start).write_bytes(0, range.len()) },
            Task::Reduce { how, from, to, what } => {
                let Reduction { combiner, size, .. } = &self.reductions[*how];
                let size = *size;
                let sources: Vec<*mut u8> = from.iter().map(ptr).collect();
                let targets: Vec<*mut u8> = to.iter().map(ptr).collect();
                let [first, others @ ..] = &targets[..] else { return Ok(()) };
                // In place, the lines to be written are in the caches already.
                if self.stream && sources.first() != Some(first) {
                    if let (Some((read, write)), []) = (what.span(), others) {
                        // SAFETY: no operand of the run is the target.
                        let done =
                            unsafe { combiner.stream(first.add(write), &sources, read, what.bytes() / size, scratch) };
                        if done {
                            return Ok(());
                        }
                    }
                    let mut block = Block([const { MaybeUninit::uninit() }; STREAM_BLOCK]);
                    let block = block.0.as_mut_ptr().cast::<u8>();
                    return what.runs(STREAM_BLOCK, &mut |read, write, bytes| {
                        // SAFETY: the block has room for the run; no operand of it is a target.
                        unsafe {
                            combiner.run(block, &sources, read, bytes / size, scratch)?;
                            targets.iter().for_each(|to| stream::copy(block, to.add(write), bytes));
                        }
                        Ok(())
                    });
                }
                debug_assert!(sources.iter().skip(1).all(|s| s != first), "only the first operand is a target");
                let longest = if others.is_empty() { TASK_BYTES } else { BLOCK_BYTES };
                what.runs(longest, &mut |read, write, bytes| {
                    // SAFETY: the first target may be the first operand; that of another device is another buffer.
                    // All operands of this run are read before any other target is written.
                    unsafe {
                        let first = first.add(write);
                        combiner.run(first, &sources, read, bytes / size, scratch)?;
                        for other in others {
                            std::ptr::copy_nonoverlapping(first, other.add(write), bytes);
                        }
                    }
                    Ok(())
                })?;
            }
        }
        Ok(())
    }
}

impl Task {
    fn device(&self) -> usize {
        match self {
            Task::Copy { to, .. } | Task::Zero { to, .. } => to.device,
            Task::Reduce { to, .. } => to[0].device,
            Task::Receive { device, .. } => *device,
        }
    }
}

impl Transport for InProcess {
    fn exchange(
        &self,
        exchange: &Exchange,
        devices: &[Device],
        active: &[usize],
        pool: &Pool,
        scratch: &mut Scratch,
    ) -> Result<(), Fault> {
        let all = active.len() == devices.len();
        if !all && let Some(fault) = exchange.torn(active) {
            return Err(fault);
        }
        let cost = exchange.cost * active.len() as u64;
        let skip = |task: &Task| !all && active.binary_search(&task.device()).is_err();
        if cost < super::run::ALONE_NS {
            for task in exchange.tasks.iter().filter(|t| !skip(t)) {
                // SAFETY: all devices of the group are at this exchange, and this thread runs all of them.
                unsafe { exchange.run(task, devices, scratch)? };
            }
            return Ok(());
        }
        pool.try_run(exchange.tasks.len(), cost, &|i, scratch| {
            let task = &exchange.tasks[i];
            if skip(task) {
                return Ok(());
            }
            // SAFETY: as above, and tasks write different bytes.
            unsafe { exchange.run(task, devices, scratch) }
        })
    }
}

/// Room for a part of a reduction.
#[repr(align(64))]
struct Block([MaybeUninit<u8>; STREAM_BLOCK]);

struct Shape<'a> {
    operand: Buf,
    /// Where it starts in its buffer.
    start: usize,
    result: Buf,
    from: &'a [i64],
    to: &'a [i64],
    /// Bytes of an element.
    size: usize,
    /// Whether only the first member of a group is written for: the others have its result too, or none.
    first: bool,
}

impl Shape<'_> {
    /// The members of `group` for whom the result is written.
    fn targets<'g>(&self, group: &'g [usize]) -> &'g [usize] {
        if self.first { &group[..1.min(group.len())] } else { group }
    }
}
