//! The coordinator: walks a program for all devices and shares the work out to threads.
//!
//! A section without communication is run in one of three ways:
//! - by the coordinator itself, if it is too little to hand out;
//! - *by device*: each device's section is one task, if that keeps the threads busy;
//! - *by part*: step after step, all parts of all devices are tasks.
//!
//! A step that some devices do for all runs by part on these alone; it is a section of its own, so all devices have done
//! what comes before.
//!
//! Loops and choices with communication are walked with the set of devices that are in them. The way chosen depends
//! on the number of threads, the results do not: a step's parts are the same in all of them.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, PoisonError};

use meshwork_ir::OpId;

use super::device::{Device, Loans};
use super::exchange::Transport;
use super::pool::Pool;
use super::tape::{Choice, Item, Line, Loop, Once, Section, Tape, Weight};
use super::wave::{Frames, Wave};
use crate::step::{Buf, Fault, Scratch};
use meshwork_runtime::profile::Recorder;

/// Work below this many nanoseconds is not worth handing out.
pub(crate) const ALONE_NS: u64 = 4_000;
/// Steps above this are cut in parts rather than left to one thread: parts balance better, and a section of such
/// steps gains nothing from staying in one core's cache.
const BIG_STEP_NS: u64 = 200_000;

/// Turns of a loop whose pointers are kept, at most.
const MOST_AHEAD: usize = 64;

/// Why a run stopped.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Stop {
    pub op: OpId,
    pub device: Option<usize>,
    pub fault: Fault,
}

/// Cancels what is in flight however a run fails: it refers to memory that is freed with the run.
struct UnderWay<'a>(&'a dyn Transport);

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.abandon();
    }
}

/// A run in progress.
pub(crate) struct Run<'a> {
    pub tape: &'a Tape,
    pub devices: &'a [Device],
    /// Those of this process.
    pub local: std::ops::Range<usize>,
    pub pool: &'a Pool,
    pub transport: &'a dyn Transport,
    pub recorder: Option<&'a Recorder>,
}

impl Run<'_> {
    /// Runs the whole program.
    ///
    /// # Safety
    /// The pointers of all devices are set as the plan says, and nothing else uses that memory.
    pub(crate) unsafe fn all(&self) -> Result<(), Stop> {
        let active: Vec<usize> = self.local.clone().collect();
        let mut scratch = Scratch::default();
        let under_way = UnderWay(self.transport);
        // SAFETY: the caller's promise is what all functions below rely on.
        unsafe { self.line(&self.tape.main, &active, &mut scratch)? };
        // All that was started has been awaited.
        std::mem::forget(under_way);
        Ok(())
    }

    /// Runs `line` on the devices in `active`, which are in ascending order.
    unsafe fn line(&self, line: &Line, active: &[usize], scratch: &mut Scratch) -> Result<(), Stop> {
        for section in &line.sections {
            let items = &line.items[section.range.clone()];
            // SAFETY: as for `all`.
            unsafe {
                if section.local {
                    self.section(section, items, active, scratch)?
                } else {
                    self.together(&items[0], active, scratch)?
                }
            }
        }
        Ok(())
    }

    /// Runs items without communication.
    unsafe fn section(
        &self,
        section: &Section,
        items: &[Item],
        active: &[usize],
        scratch: &mut Scratch,
    ) -> Result<(), Stop> {
        let (threads, count) = (self.pool.threads(), active.len());
        let Weight { cost, widest, steps, .. } = section.weight;
        let total = cost.saturating_mul(count as u64);
        // SAFETY: as for `all`, and each device is run by one thread or by its parts.
        unsafe {
            if threads == 1 || total < ALONE_NS {
                return self.alone(items, active, scratch);
            }
            let even = count % threads == 0 || count >= 3 * threads;
            let big = cost / steps.max(1) > BIG_STEP_NS && widest > BIG_STEP_NS;
            let splits = widest.saturating_mul(count as u64) >= ALONE_NS;
            if count > 1 && (!splits || (even && !big)) {
                return self.by_device(items, active, total);
            }
            for item in items {
                self.by_part(item, active, scratch)?;
            }
        }
        Ok(())
    }

    unsafe fn alone(&self, items: &[Item], active: &[usize], scratch: &mut Scratch) -> Result<(), Stop> {
        for &device in active {
            // SAFETY: this thread has the device alone.
            unsafe { self.guarded(items, &self.devices[device], scratch)? };
        }
        Ok(())
    }

    unsafe fn by_device(&self, items: &[Item], active: &[usize], cost: u64) -> Result<(), Stop> {
        let stops = Mutex::new(vec![]);
        self.pool.run(active.len(), cost, &|i, scratch| {
            // SAFETY: each device is one task, so one thread has it alone.
            if let Err(stop) = unsafe { self.guarded(items, &self.devices[active[i]], scratch) } {
                stops.lock().unwrap_or_else(PoisonError::into_inner).push(stop);
            }
        });
        first(stops)
    }

    unsafe fn by_part(&self, item: &Item, active: &[usize], scratch: &mut Scratch) -> Result<(), Stop> {
        let count = active.len() as u64;
        let weight = match item {
            Item::Step(number) => {
                let step = &self.tape.steps[*number as usize];
                let cost = step.cost.saturating_mul(count);
                if cost < ALONE_NS || step.parts * active.len() < 2 {
                    // SAFETY: this thread has the devices alone.
                    return unsafe { self.alone(std::slice::from_ref(item), active, scratch) };
                }
                return self.parts(*number, active, cost);
            }
            // SAFETY: as for `section`.
            Item::Exchange(_) | Item::Await(_) => return unsafe { self.together(item, active, scratch) },
            Item::Loop(l) => l.cond.weight.max(l.body.weight),
            Item::Choice(c) => c.branches.iter().fold(Weight::default(), |w, b| w.max(b.weight)),
        };
        // SAFETY: as for `section`.
        unsafe {
            if weight.widest.saturating_mul(count) >= ALONE_NS {
                return self.together(item, active, scratch);
            }
            match active.len() {
                1 => self.alone(std::slice::from_ref(item), active, scratch),
                _ => self.by_device(std::slice::from_ref(item), active, weight.cost.saturating_mul(count)),
            }
        }
    }

    /// All parts of a step on all devices.
    fn parts(&self, number: u32, active: &[usize], cost: u64) -> Result<(), Stop> {
        let step = &self.tape.steps[number as usize];
        let stops = Mutex::new(vec![]);
        self.pool.run(active.len() * step.parts, cost, &|task, scratch| {
            let device = &self.devices[active[task / step.parts]];
            let start = self.recorder.map(Recorder::now);
            // SAFETY: nothing changes pointers while a step runs, and parts write different bytes.
            let done = catch_unwind(AssertUnwindSafe(|| unsafe {
                step.work.run(&device.frame(), scratch, task % step.parts)
            }));
            if let (Some(recorder), Some(start)) = (self.recorder, start) {
                recorder.step(number, device.number, start);
            }
            if self.tape.has_awaits {
                self.transport.poll(&self.tape.exchanges, self.devices);
            }
            if let Err(fault) = flat(done) {
                let stop = Stop { op: step.op, device: Some(device.number), fault };
                stops.lock().unwrap_or_else(PoisonError::into_inner).push(stop);
            }
        });
        first(stops)
    }

    /// Runs one item with all its devices in step.
    unsafe fn together(&self, item: &Item, active: &[usize], scratch: &mut Scratch) -> Result<(), Stop> {
        // SAFETY: as for `all`.
        unsafe {
            match item {
                Item::Step(number) => match &self.tape.steps[*number as usize].once {
                    // Such steps stand where all devices are.
                    Some(leaders) => self.by_part(item, leaders, scratch),
                    None => self.by_part(item, active, scratch),
                },
                Item::Exchange(number) => {
                    let exchange = &self.tape.exchanges[*number as usize];
                    let start = self.recorder.map(Recorder::now);
                    let done = catch_unwind(AssertUnwindSafe(|| {
                        self.transport.exchange(exchange, self.devices, active, self.pool, scratch)
                    }));
                    if let (Some(recorder), Some(start)) = (self.recorder, start) {
                        active.iter().for_each(|&d| recorder.exchange(*number, d, start));
                    }
                    flat(done).map_err(|fault| Stop { op: exchange.op, device: None, fault })
                }
                Item::Await(number) => {
                    let exchange = &self.tape.exchanges[*number as usize];
                    let start = self.recorder.map(Recorder::now);
                    let done = catch_unwind(AssertUnwindSafe(|| {
                        self.transport.finish(&self.tape.exchanges, *number, self.devices, self.pool, scratch)
                    }));
                    if let (Some(recorder), Some(start)) = (self.recorder, start) {
                        active.iter().for_each(|&d| recorder.awaited(*number, d, start));
                    }
                    flat(done).map_err(|fault| Stop { op: exchange.op, device: None, fault })
                }
                Item::Loop(l) => match l.once.as_ref().filter(|once| once.active != active) {
                    // Such loops stand where all devices are.
                    Some(once) => {
                        self.by_part(item, &once.active, scratch)?;
                        self.hand_out(once);
                        Ok(())
                    }
                    None => self.loop_together(l, active, scratch),
                },
                Item::Choice(c) => self.choice_together(c, active, scratch),
            }
        }
    }

    /// Copies what leaders have computed to the other devices.
    ///
    /// # Safety
    /// No device runs anything.
    unsafe fn hand_out(&self, once: &Once) {
        let others: Vec<usize> = self.local.clone().filter(|&d| once.leader[d] != d).collect();
        let give = |d: usize| {
            for &(buf, bytes) in &once.results {
                // SAFETY: both are buffers of this size, of different devices.
                unsafe {
                    let (from, to) = (self.devices[once.leader[d]].ptr(buf), self.devices[d].ptr(buf));
                    if from != to {
                        std::ptr::copy_nonoverlapping(from, to, bytes);
                    }
                }
            }
        };
        let bytes: usize = once.results.iter().map(|r| r.1).sum();
        let cost = (bytes / 10 * others.len()) as u64;
        if cost < ALONE_NS {
            others.into_iter().for_each(give);
        } else {
            self.pool.run(others.len(), cost, &|i, _| give(others[i]));
        }
    }

    unsafe fn loop_together(&self, l: &Loop, active: &[usize], scratch: &mut Scratch) -> Result<(), Stop> {
        let mut going = active.to_vec();
        let mut ahead = Frames::default();
        // SAFETY: as for `all`; pointers change only while no step runs.
        unsafe {
            let mut loans: Vec<Loans> = self.devices.iter().map(|_| Loans::default()).collect();
            going.iter().for_each(|&d| loans[d] = self.devices[d].borrow(&l.borrows));
            loop {
                self.line(&l.cond, &going, scratch)?;
                let ended = |&d: &usize| self.devices[d].ptr(l.go_on).read() == 0;
                for d in going.iter().copied().filter(ended) {
                    if self.devices[d].give_back(&l.borrows, &mut loans[d]) {
                        let copies = l.borrows.iter().map(|b| Item::Step(b.copy));
                        copies.into_iter().try_for_each(|copy| self.by_part(&copy, &[d], scratch))?;
                    }
                }
                going.retain(|d| !ended(d));
                // In waves only the little steps are done now, and the pointers of the turn are kept for the others.
                let wave = l.wave.as_ref().filter(|_| going.len() == self.devices.len());
                if let (Some(all), true) = (&l.wave, wave.is_none() || ahead.len() == MOST_AHEAD) {
                    self.waves(all, &mut ahead)?;
                }
                match wave {
                    _ if going.is_empty() => return Ok(()),
                    Some(wave) => {
                        ahead.add(wave, self.devices);
                        for &number in &wave.little {
                            self.by_part(&Item::Step(number), &going, scratch)?;
                        }
                    }
                    None => self.line(&l.body, &going, scratch)?,
                }
                for &d in &going {
                    self.devices[d].trade(&l.trades);
                    self.devices[d].settle(&l.borrows, &mut loans[d]);
                }
                for &copy in &l.copies {
                    self.by_part(&Item::Step(copy), &going, scratch)?;
                }
            }
        }
    }

    /// Runs the turns that are still to be done.
    unsafe fn waves(&self, wave: &Wave, ahead: &mut Frames) -> Result<(), Stop> {
        if ahead.len() == 0 {
            return Ok(());
        }
        // SAFETY: as for `all`; the frames are those of the turns in order.
        let done = unsafe { wave.run(ahead, self.devices, self.pool, self.recorder) };
        ahead.clear();
        let op = |step: u32| self.tape.steps[step as usize].op;
        done.map_err(|s| Stop { op: op(s.step), device: Some(s.device), fault: s.fault })
    }

    unsafe fn choice_together(&self, c: &Choice, active: &[usize], scratch: &mut Scratch) -> Result<(), Stop> {
        // SAFETY: as for `all`.
        unsafe {
            let chosen: Vec<usize> = active.iter().map(|&d| chosen(c, &self.devices[d])).collect();
            for (b, branch) in c.branches.iter().enumerate() {
                let some: Vec<usize> = (0..active.len()).filter(|&i| chosen[i] == b).map(|i| active[i]).collect();
                if !some.is_empty() {
                    self.line(branch, &some, scratch)?;
                }
            }
        }
        Ok(())
    }

    /// [`items`](Run::items), with a panic as an error.
    unsafe fn guarded(&self, items: &[Item], device: &Device, scratch: &mut Scratch) -> Result<(), Stop> {
        // SAFETY: the caller has the device alone.
        let done = catch_unwind(AssertUnwindSafe(|| unsafe { self.items(items, device, scratch) }));
        let at = device.at() as usize;
        let op = || self.tape.steps[at].op;
        let stop = |op, fault| Stop { op, device: Some(device.number), fault };
        match done {
            Ok(Ok(())) => Ok(()),
            Ok(Err(fault)) => Err(stop(op(), fault)),
            Err(panic) => Err(stop(op(), panicked(panic.as_ref()))),
        }
    }

    /// All items on one device, by this thread.
    unsafe fn items(&self, items: &[Item], device: &Device, scratch: &mut Scratch) -> Result<(), Fault> {
        for item in items {
            match item {
                // SAFETY: this thread has the device alone.
                Item::Step(number) => unsafe { self.step(*number, device, scratch)? },
                // SAFETY: as above.
                Item::Loop(l) => unsafe {
                    let mut loans = device.borrow(&l.borrows);
                    let mut turns = 0;
                    loop {
                        if l.trips.is_none() {
                            self.items(&l.cond.items, device, scratch)?;
                        }
                        if l.trips.map_or_else(|| device.ptr(l.go_on).read() == 0, |trips| turns == trips) {
                            break;
                        }
                        turns += 1;
                        self.items(&l.body.items, device, scratch)?;
                        device.trade(&l.trades);
                        device.settle(&l.borrows, &mut loans);
                        for &copy in &l.copies {
                            self.step(copy, device, scratch)?;
                        }
                    }
                    if device.give_back(&l.borrows, &mut loans) {
                        l.borrows.iter().try_for_each(|b| self.step(b.copy, device, scratch))?;
                    }
                },
                // SAFETY: as above.
                Item::Choice(c) => unsafe {
                    self.items(&c.branches[chosen(c, device)].items, device, scratch)?;
                },
                Item::Exchange(_) | Item::Await(_) => {
                    return Err(Fault("communication inside a section of one device".into()));
                }
            }
        }
        Ok(())
    }

    #[inline]
    unsafe fn step(&self, number: u32, device: &Device, scratch: &mut Scratch) -> Result<(), Fault> {
        let step = &self.tape.steps[number as usize];
        device.begin(number);
        if step.parts == 1 && self.recorder.is_none() && !self.tape.has_awaits {
            // SAFETY: this thread has the device alone, and the plan gives the step valid buffers.
            return unsafe { step.work.run(&device.frame(), scratch, 0) };
        }
        // SAFETY: as above.
        unsafe { self.watched_step(number, device, scratch) }
    }

    /// A step of several parts, or one that is recorded, or during which messages arrive.
    #[inline(never)]
    unsafe fn watched_step(&self, number: u32, device: &Device, scratch: &mut Scratch) -> Result<(), Fault> {
        let step = &self.tape.steps[number as usize];
        let start = self.recorder.map(Recorder::now);
        for part in 0..step.parts {
            // SAFETY: this thread has the device alone, and the plan gives the step valid buffers.
            unsafe { step.work.run(&device.frame(), scratch, part)? };
            if self.tape.has_awaits {
                self.transport.poll(&self.tape.exchanges, self.devices);
            }
        }
        if let (Some(recorder), Some(start)) = (self.recorder, start) {
            recorder.step(number, device.number, start);
        }
        Ok(())
    }
}

/// The branch that a device takes.
unsafe fn chosen(c: &Choice, device: &Device) -> usize {
    let last = c.branches.len() - 1;
    // SAFETY: the index is an `i1` or an `i32`, written by an earlier step.
    unsafe {
        let index: Buf = c.index;
        if c.flag {
            usize::from(device.ptr(index).read() == 0).min(last)
        } else {
            let index = device.ptr(index).cast::<i32>().read();
            usize::try_from(index).map_or(last, |i| i.min(last))
        }
    }
}

impl Weight {
    fn max(self, other: Weight) -> Weight {
        if self.widest >= other.widest { self } else { other }
    }
}

/// The error of the lowest device, if there is one: the same on every run.
fn first(stops: Mutex<Vec<Stop>>) -> Result<(), Stop> {
    let stops = stops.into_inner().unwrap_or_else(PoisonError::into_inner);
    stops.into_iter().min_by_key(|stop| stop.device).map_or(Ok(()), Err)
}

pub(crate) fn flat(done: std::thread::Result<Result<(), Fault>>) -> Result<(), Fault> {
    match done {
        Ok(done) => done,
        Err(panic) => Err(panicked(panic.as_ref())),
    }
}

fn panicked(panic: &(dyn std::any::Any + Send)) -> Fault {
    let text = panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
    Fault(format!("it panicked: {}", text.unwrap_or("without a message")))
}
