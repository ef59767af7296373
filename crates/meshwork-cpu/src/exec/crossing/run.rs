//! Running a collective over processes.

use super::{Crossing, Item, Local, Parcel, Part, Reduction, Round, Source, Target};
use crate::exec::combine::Combiner;
use crate::exec::device::Device;
use crate::exec::pool::Pool;
use crate::step::{Buf, Fault, Scratch};
use meshwork_runtime::memory::buffer::Buffer;
use meshwork_runtime::transport::link::Lane;
use meshwork_runtime::transport::stamp::Stamp;
use meshwork_runtime::transport::swap::{Mail, Swap};
use meshwork_runtime::transport::world::{ProcessError, World};

/// Bytes that are combined over all contributions before the next: they stay in the first-level cache.
const BLOCK: usize = 8 << 10;
/// Bytes of a task for a thread.
const TASK: usize = 128 << 10;
/// Looks in vain for the messages of one collective before those of others are looked at.
const LOOKS: u32 = 64;

/// A collective under way, while something is done for it.
struct Cross<'a> {
    plan: &'a Crossing,
    devices: &'a [Device],
    /// The devices that take part.
    active: &'a [usize],
    /// Of each group: whether its devices take part. Empty if all do.
    live: &'a [bool],
    stage: *mut u8,
    /// Threads that help, if they are free.
    pool: Option<&'a Pool>,
}

/// A collective that has been started and not ended.
///
/// Its messages are read from and written to buffers of devices: whoever has one ends it, or [abandons](Pending::abandon)
/// it, before these buffers are used for something else.
pub(crate) struct Pending {
    /// The number of the collective in its program.
    pub number: u32,
    active: Vec<usize>,
    live: Vec<bool>,
    stage: Buffer,
    leg: Leg,
    /// Absent once all has been done, or something went wrong.
    mail: Option<Mail>,
    fault: Option<Fault>,
}

/// Which round of messages is under way.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Leg {
    First,
    Second,
}

// SAFETY: threads of the pool work on different bytes of the buffers and the stage.
unsafe impl Sync for Cross<'_> {}

impl Crossing {
    /// Does the collective for the devices in `active`, which are here.
    ///
    /// # Safety
    /// All devices in `active` are at the collective, and nothing else uses the buffers it names.
    pub(crate) unsafe fn run(
        &self,
        world: &World,
        stamp: Stamp,
        devices: &[Device],
        active: &[usize],
        pool: &Pool,
        scratch: &mut Scratch,
    ) -> Result<(), Fault> {
        let live = self.live(active)?;
        if let Some((ragged, spread)) = &self.ragged {
            let swap = Swap::begin(world, stamp, Lane::Common).map_err(lost)?;
            // SAFETY: the caller's promise.
            return unsafe { ragged.cross(swap, devices, spread, |group| live.is_empty() || live[group]) };
        }
        let stage = Buffer::new(self.stage_bytes).map_err(|e| Fault(e.to_string()))?;
        let cross = Cross { plan: self, devices, active, live: &live, stage: stage.as_ptr(), pool: Some(pool) };
        let mut swap = Swap::begin(world, stamp, Lane::Common).map_err(lost)?;
        // SAFETY: the caller's promise; the stage outlives the swap.
        unsafe {
            cross.post(&self.first, &mut swap, scratch)?;
            swap.wait().map_err(lost)?;
            cross.between(&mut swap, scratch)?;
            swap.wait().map_err(lost)?;
            cross.end(swap);
        }
        Ok(())
    }

    /// Starts the collective for the devices in `active`, which are here.
    ///
    /// # Safety
    /// All devices in `active` are at the collective. Until it has ended, nothing writes its operands or uses its results.
    pub(crate) unsafe fn start(
        &self,
        world: &World,
        (stamp, channel): (Stamp, u8),
        devices: &[Device],
        active: &[usize],
        pool: &Pool,
        scratch: &mut Scratch,
    ) -> Result<Pending, Fault> {
        let live = self.live(active)?;
        let stage = Buffer::new(self.stage_bytes).map_err(|e| Fault(e.to_string()))?;
        let cross = Cross { plan: self, devices, active, live: &live, stage: stage.as_ptr(), pool: Some(pool) };
        let mut swap = Swap::begin(world, stamp, Lane::Channel(channel)).map_err(lost)?;
        // SAFETY: the caller's promise; the stage is kept with the messages.
        unsafe { cross.post(&self.first, &mut swap, scratch)? };
        let mail = Some(swap.leave());
        let (number, active) = (self.number, active.to_vec());
        Ok(Pending { number, active, live, stage, leg: Leg::First, mail, fault: None })
    }

    /// Of each group: whether its devices are in `active`; empty if all are.
    fn live(&self, active: &[usize]) -> Result<Vec<bool>, Fault> {
        let mut live = vec![];
        if active.len() != self.devices {
            for group in &self.groups {
                let here = group.iter().filter(|d| active.binary_search(d).is_ok()).count();
                if here != 0 && here != group.len() {
                    let absent: Vec<String> =
                        group.iter().filter(|d| active.binary_search(d).is_err()).map(usize::to_string).collect();
                    let absent = absent.join(", ");
                    return Err(Fault(format!("devices {absent} do not reach it, though others of their group do")));
                }
                live.push(here > 0);
            }
        }
        Ok(live)
    }
}

impl Pending {
    /// Lets messages move, unless something else moves messages now; combines and sends on what has come. What goes wrong
    /// is reported at the end.
    ///
    /// # Safety
    /// As for [`Crossing::start`] with this `plan` and these `devices`.
    pub(crate) unsafe fn poll(&mut self, world: &World, plan: &Crossing, devices: &[Device]) {
        let Some(swap) = Swap::try_resume(world, &mut self.mail) else { return };
        // The threads of the pool are at other work.
        // SAFETY: the caller's promise.
        if let Err(fault) = unsafe { self.advance(swap, plan, devices, None, &mut Scratch::default()) } {
            self.fault = Some(fault);
        }
    }

    /// Waits until all is done; `meanwhile` is called now and then.
    ///
    /// # Safety
    /// As for [`Crossing::start`] with this `plan` and these `devices`.
    pub(crate) unsafe fn finish(
        mut self,
        world: &World,
        plan: &Crossing,
        devices: &[Device],
        (pool, scratch): (&Pool, &mut Scratch),
        meanwhile: impl Fn(),
    ) -> Result<(), Fault> {
        while let Some(mail) = self.mail.take() {
            let mut swap = Swap::resume(world, mail);
            if swap.wait_a_little(LOOKS).map_err(lost)? {
                // SAFETY: the caller's promise.
                unsafe { self.advance(swap, plan, devices, Some(pool), scratch)? }
            } else {
                self.mail = Some(swap.leave());
                meanwhile();
            }
        }
        self.fault.take().map_or(Ok(()), Err)
    }

    /// Goes as far as it can without waiting.
    unsafe fn advance(
        &mut self,
        mut swap: Swap<'_>,
        plan: &Crossing,
        devices: &[Device],
        pool: Option<&Pool>,
        scratch: &mut Scratch,
    ) -> Result<(), Fault> {
        let (active, live, stage) = (&self.active[..], &self.live[..], self.stage.as_ptr());
        let cross = Cross { plan, devices, active, live, stage, pool };
        loop {
            if swap.is_open().map_err(lost)? {
                self.mail = Some(swap.leave());
                return Ok(());
            }
            // SAFETY: by the contract of `Crossing::start`.
            unsafe {
                match self.leg {
                    Leg::First => cross.between(&mut swap, scratch)?,
                    Leg::Second => {
                        cross.end(swap);
                        return Ok(());
                    }
                }
            }
            self.leg = Leg::Second;
        }
    }

    /// Takes back what is under way.
    pub(crate) fn abandon(self, world: &World) {
        if let Some(mail) = self.mail {
            drop(Swap::resume(world, mail));
        }
    }
}

fn lost(e: ProcessError) -> Fault {
    Fault(e.to_string())
}

impl Cross<'_> {
    /// The first round has come: combines, and sends what the second has.
    unsafe fn between(&self, swap: &mut Swap<'_>, scratch: &mut Scratch) -> Result<(), Fault> {
        // SAFETY: by the contract of `Crossing::run`; each round ends before its memory is used for something else.
        unsafe {
            self.take(&self.plan.first, swap);
            for reduction in self.plan.reductions.iter().filter(|r| self.is_live(r.group)) {
                self.reduce(reduction, scratch)?;
            }
            swap.next();
            self.post(&self.plan.second, swap, scratch)
        }
    }

    /// The second round has come.
    unsafe fn end(&self, swap: Swap<'_>) {
        // SAFETY: by the contract of `Crossing::run`.
        unsafe {
            self.take(&self.plan.second, &swap);
            self.locals(&self.plan.shares);
        }
        swap.done();
    }

    fn is_live(&self, group: usize) -> bool {
        self.live.is_empty() || self.live[group]
    }

    /// Bytes in the cover of a parcel, and in all; none if nothing of it takes part.
    fn weight<T>(&self, parcel: &Parcel<T>) -> Option<(usize, u64)> {
        let bytes = |items: &[Item<T>]| {
            let live = items.iter().filter(|i| self.is_live(i.group));
            live.fold((0, 0), |(n, sum), i| (n + 1, sum + i.bytes))
        };
        let ((a, short), (b, long)) = (bytes(&parcel.short), bytes(&parcel.long));
        (a + b > 0).then_some((short, (short + long) as u64))
    }

    unsafe fn ptr(&self, device: usize, buf: Buf) -> *mut u8 {
        // SAFETY: nothing changes pointers during a collective.
        unsafe { self.devices[device].ptr(buf) }
    }

    /// Begins a round, and does what is done meanwhile.
    unsafe fn post(&self, round: &Round, swap: &mut Swap<'_>, scratch: &mut Scratch) -> Result<(), Fault> {
        let live = |group: usize| self.is_live(group);
        // By the contract of `Crossing::run`: what is received goes to the stage or to a result, which
        // nothing reads until the round is over; what is sent is in the stage or in a buffer that is not written.
        for parcel in &round.receives {
            let Some((inline, total)) = self.weight(parcel) else { continue };
            swap.expect(parcel.peer, inline, Some(total)).map_err(lost)?;
            for item in parcel.long.iter().filter(|i| live(i.group)) {
                // SAFETY: see above.
                unsafe { swap.receive(parcel.peer, self.landing(&item.what), item.bytes).map_err(lost)? };
            }
        }
        for parcel in &round.sends {
            let Some((inline, total)) = self.weight(parcel) else { continue };
            let mut filled = Ok(());
            let fill = |cover: &mut [u8]| {
                let mut at = 0;
                for item in parcel.short.iter().filter(|i| live(i.group)) {
                    // SAFETY: see above.
                    let ready = unsafe { self.ready(&item.what, item.bytes, scratch) };
                    match ready {
                        // SAFETY: the cover has room for all short items.
                        Ok(from) => unsafe { from.copy_to_nonoverlapping(cover[at..].as_mut_ptr(), item.bytes) },
                        Err(e) => filled = Err(e),
                    }
                    at += item.bytes;
                }
            };
            swap.cover(parcel.peer, inline, total, fill).map_err(lost)?;
            filled?;
            for item in parcel.long.iter().filter(|i| live(i.group)) {
                // SAFETY: see above.
                unsafe {
                    let from = self.ready(&item.what, item.bytes, scratch)?;
                    swap.send(parcel.peer, from, item.bytes).map_err(lost)?;
                }
            }
        }
        // SAFETY: see above.
        unsafe {
            self.locals(&round.locals);
            for &(device, buf, bytes) in round.zeros.iter().filter(|z| self.active.binary_search(&z.0).is_ok()) {
                self.ptr(device, buf).write_bytes(0, bytes);
            }
        }
        Ok(())
    }

    /// Puts what has come in a round where it is wanted.
    unsafe fn take(&self, round: &Round, swap: &Swap<'_>) {
        let live = |group: usize| self.is_live(group);
        for parcel in &round.receives {
            let mut at = 0;
            let inline = swap.inline(parcel.peer);
            for item in parcel.short.iter().filter(|i| live(i.group)) {
                let from = inline[at..at + item.bytes].as_ptr();
                at += item.bytes;
                if item.what.to.is_empty() {
                    // SAFETY: by the contract of `Crossing::run`.
                    unsafe { self.stage.add(item.what.stage).copy_from_nonoverlapping(from, item.bytes) }
                } else {
                    // SAFETY: as above.
                    unsafe { self.deliver(&item.what, from) }
                }
            }
            for item in parcel.long.iter().filter(|i| live(i.group) && !i.what.to.is_empty()) {
                // SAFETY: as above.
                unsafe { self.deliver(&item.what, self.landing(&item.what)) };
            }
        }
    }

    unsafe fn locals(&self, locals: &[Local]) {
        let copy = |local: &Local| {
            if self.is_live(local.group) {
                // SAFETY: operands and results are different buffers as large as their shapes.
                unsafe { local.what.run(self.ptr(local.from.0, local.from.1), self.ptr(local.to.0, local.to.1)) };
            }
        };
        let bytes: usize = locals.iter().map(|l| l.what.bytes()).sum();
        match self.pool.filter(|_| bytes >= TASK) {
            None => locals.iter().for_each(copy),
            Some(pool) => pool.run(locals.len(), bytes as u64 / 10, &|i, _| copy(&locals[i])),
        }
    }

    /// Where a long piece is received.
    unsafe fn landing(&self, target: &Target) -> *mut u8 {
        // SAFETY: offsets are in the buffer or the stage.
        unsafe {
            match target.to.first().and_then(|(d, buf, unpack)| Some((*d, *buf, unpack.span()?))) {
                Some((device, buf, span)) => self.ptr(device, buf).add(span.1),
                None => self.stage.add(target.stage),
            }
        }
    }

    /// Copies a piece that has come to where it is wanted, unless it is there.
    unsafe fn deliver(&self, target: &Target, from: *const u8) {
        for (device, buf, unpack) in &target.to {
            // SAFETY: the piece is dense and as long as the copy says; it is not part of the target, or just there.
            unsafe {
                let to = self.ptr(*device, *buf);
                if unpack.span().is_none_or(|span| to.add(span.1).cast_const() != from) {
                    unpack.run(from, to);
                }
            }
        }
    }

    /// Makes a piece ready: where it is, dense.
    unsafe fn ready(&self, source: &Source, bytes: usize, scratch: &mut Scratch) -> Result<*mut u8, Fault> {
        // SAFETY: by the contract of `Crossing::run`.
        unsafe {
            if let (&[device], Some(span)) = (&source.devices[..], source.pack.span()) {
                return Ok(self.ptr(device, source.buf).add(span.0));
            }
            let to = self.stage.add(source.stage);
            let operand = |i: usize| self.ptr(source.devices[i], source.buf);
            if source.devices.len() == 1 {
                source.pack.run(operand(0), to);
                return Ok(to);
            }
            let combiner = &self.plan.combiners[source.combiner];
            let Some(span) = source.pack.span() else {
                // Made dense one after the other, and added.
                source.pack.run(operand(0), to);
                let other = Buffer::new(bytes).map_err(|e| Fault(e.to_string()))?;
                for i in 1..source.devices.len() {
                    source.pack.run(operand(i), other.as_ptr());
                    self.combine(combiner, to, &[to, other.as_ptr()], (bytes, source.size), scratch)?;
                }
                return Ok(to);
            };
            let parts: Vec<*mut u8> = (0..source.devices.len()).map(|i| operand(i).add(span.0)).collect();
            self.combine(combiner, to, &parts, (bytes, source.size), scratch)?;
            Ok(to)
        }
    }

    unsafe fn reduce(&self, r: &Reduction, scratch: &mut Scratch) -> Result<(), Fault> {
        // SAFETY: by the contract of `Crossing::run`.
        unsafe {
            let mut parts = vec![];
            for part in &r.parts {
                parts.push(match part {
                    Part::Here(source) => self.ready(source, r.bytes, scratch)?,
                    Part::Stage(at) => self.stage.add(*at),
                });
            }
            let result = self.ptr(r.to.0, r.to.1);
            let to = r.unpack.span().map_or(self.stage.add(r.stage), |span| result.add(span.1));
            self.combine(&self.plan.combiners[r.combiner], to, &parts, (r.bytes, r.size), scratch)?;
            if r.unpack.span().is_none() {
                r.unpack.run(to, result);
            }
        }
        Ok(())
    }

    /// [`combine`], by several threads if it is much.
    unsafe fn combine(
        &self,
        combiner: &Combiner,
        to: *mut u8,
        parts: &[*mut u8],
        (bytes, size): (usize, usize),
        scratch: &mut Scratch,
    ) -> Result<(), Fault> {
        let Some(pool) = self.pool.filter(|p| bytes >= 2 * TASK && p.threads() > 1) else {
            // SAFETY: the contract is the same.
            return unsafe { combine(combiner, to, parts, (bytes, size), scratch) };
        };
        let arrays = Arrays { to, parts };
        pool.try_run(bytes.div_ceil(TASK), bytes as u64 / 10, &|task, scratch| {
            // SAFETY: tasks have different ranges of all arrays.
            unsafe { arrays.task(combiner, task, (bytes, size), scratch) }
        })
    }
}

/// What is combined.
struct Arrays<'a> {
    to: *mut u8,
    parts: &'a [*mut u8],
}

// SAFETY: threads work on different ranges.
unsafe impl Sync for Arrays<'_> {}

impl Arrays<'_> {
    unsafe fn task(
        &self,
        combiner: &Combiner,
        task: usize,
        (bytes, size): (usize, usize),
        scratch: &mut Scratch,
    ) -> Result<(), Fault> {
        let at = task * TASK;
        // SAFETY: the range is in all arrays.
        unsafe {
            let parts: Vec<*mut u8> = self.parts.iter().map(|p| p.add(at)).collect();
            combine(combiner, self.to.add(at), &parts, (TASK.min(bytes - at), size), scratch)
        }
    }
}

/// Combines dense arrays in order. `to` may be one of them.
///
/// # Safety
/// All have `bytes` bytes, and those that are not the same do not overlap.
unsafe fn combine(
    combiner: &Combiner,
    to: *mut u8,
    parts: &[*mut u8],
    (bytes, size): (usize, usize),
    scratch: &mut Scratch,
) -> Result<(), Fault> {
    let late = parts.iter().skip(1).any(|&p| p == to);
    // Aligned for all elements.
    let mut block = if late { vec![0u128; BLOCK / size_of::<u128>()] } else { vec![] };
    for at in (0..bytes).step_by(BLOCK) {
        let length = BLOCK.min(bytes - at);
        // SAFETY: the range is in all arrays. A target that is also a later part is written only at the end.
        unsafe {
            let target = to.add(at);
            let sum = if late { block.as_mut_ptr().cast() } else { target };
            match parts {
                [only] => std::ptr::copy(only.add(at), target, length),
                _ => combiner.run(sum, parts, at, length / size, scratch)?,
            }
            if late {
                target.copy_from_nonoverlapping(sum, length);
            }
        }
    }
    Ok(())
}
