//! Running cells: each thread sweeps over its share, some turns deep, and then helps the others.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

use super::{After, Cell, Wave, What};
use crate::exec::device::Device;
use crate::exec::pool::Pool;
use crate::exec::run::flat;
use crate::memory::place::ALIGN;
use crate::step::{Buf, Fault, Frame, Scratch};
use meshwork_runtime::profile::Recorder;

/// Looks at cells that are not ready before a thread lets others have the processor.
const LOOKS: u32 = 200;

/// Where the buffers of all devices are in the turns to come. Its memory is used again for the turns after these.
#[derive(Default)]
pub(crate) struct Frames {
    /// By turn and device.
    turns: Vec<Vec<Vec<*mut u8>>>,
    /// How many of these are to come.
    count: usize,
    /// What each device has within a turn.
    temps: Vec<Scratch>,
    /// Per cell: turns done, times two; one more while a thread is at it.
    done: Vec<AtomicU32>,
}

// SAFETY: the pointers are only used through frames, by whoever has the cell that they are for.
unsafe impl Sync for Frames {}

impl Frames {
    /// Adds a turn, with the buffers where they are now.
    ///
    /// # Safety
    /// Nothing changes the pointers meanwhile.
    pub(crate) unsafe fn add(&mut self, wave: &Wave, devices: &[Device]) {
        self.temps.resize_with(devices.len(), Scratch::default);
        let bytes = |t: &(Vec<Buf>, usize)| t.1.next_multiple_of(ALIGN);
        let total: usize = wave.temps.iter().map(bytes).sum();
        if self.turns.len() == self.count {
            self.turns.push(vec![vec![]; devices.len()]);
        }
        let turn = &mut self.turns[self.count];
        self.count += 1;
        for ((device, own), ptrs) in devices.iter().zip(&mut self.temps).zip(turn) {
            ptrs.clear();
            // SAFETY: the caller's promise.
            ptrs.extend_from_slice(unsafe { device.frame() }.ptrs);
            let (start, mut at) = (own.get(total), 0);
            for temp in &wave.temps {
                // SAFETY: there is room for all of them.
                temp.0.iter().for_each(|b| ptrs[b.0 as usize] = unsafe { start.add(at) });
                at += bytes(temp);
            }
        }
    }

    /// Forgets all turns.
    pub(crate) fn clear(&mut self) {
        self.count = 0;
    }

    /// How many turns there are.
    pub(crate) fn len(&self) -> usize {
        self.count
    }
}

/// The first failure of a cell.
pub(crate) struct Stopped {
    pub step: u32,
    pub device: usize,
    pub fault: Fault,
}

/// A number of turns under way.
struct Sweep<'a> {
    wave: &'a Wave,
    frames: &'a Frames,
    devices: &'a [Device],
    recorder: Option<&'a Recorder>,
    done: &'a [AtomicU32],
    /// Cells that have done all turns.
    complete: AtomicU32,
    stop: AtomicBool,
    stopped: Mutex<Option<Stopped>>,
}

impl Wave {
    /// Runs all turns of `frames`.
    ///
    /// # Safety
    /// The frames are as the plan says and nothing else uses that memory; there is one device per device of the wave.
    pub(crate) unsafe fn run(
        &self,
        frames: &mut Frames,
        devices: &[Device],
        pool: &Pool,
        recorder: Option<&Recorder>,
    ) -> Result<(), Stopped> {
        frames.done.clear();
        frames.done.resize_with(self.cells.len(), AtomicU32::default);
        let sweep = Sweep {
            wave: self,
            frames,
            devices,
            recorder,
            done: &frames.done,
            complete: AtomicU32::new(0),
            stop: AtomicBool::new(false),
            stopped: Mutex::new(None),
        };
        let threads = pool.threads();
        pool.run(threads, u64::MAX, &|thread, scratch| sweep.all(thread, threads, scratch));
        sweep.stopped.into_inner().unwrap_or_else(PoisonError::into_inner).map_or(Ok(()), Err)
    }
}

impl Sweep<'_> {
    /// All that one thread can do, until everything is done.
    fn all(&self, thread: usize, threads: usize, scratch: &mut Scratch) {
        let (cells, turns) = (self.wave.cells.len(), self.frames.len());
        let share = |i: usize| (cells * i / threads, cells * (i + 1) / threads);
        let blocks = turns.div_ceil(self.wave.depth).max(1);
        for block in 0..blocks {
            let (from, to) = ((turns * block / blocks) as u32, (turns * (block + 1) / blocks) as u32);
            let forward = |i: usize| (i + block).is_multiple_of(2);
            let mut idle = 0;
            self.sweep(share(thread), forward(thread), from, to, scratch);
            // What others must do first, or have not come to.
            while !self.is_over() && !self.has(share(thread), to) {
                let mut progress = self.pass(share(thread), to, scratch);
                for i in 1..threads {
                    if !progress {
                        let other = (thread + i) % threads;
                        progress = self.sweep(share(other), !forward(other), from, to, scratch);
                    }
                }
                idle = self.rest(progress, idle);
            }
        }
        let mut idle = 0;
        while !self.is_over() {
            let progress = self.pass((0, cells), turns as u32, scratch);
            idle = self.rest(progress, idle);
        }
    }

    fn is_over(&self) -> bool {
        self.stop.load(Ordering::Relaxed) || self.complete.load(Ordering::Acquire) as usize == self.wave.cells.len()
    }

    fn rest(&self, progress: bool, idle: u32) -> u32 {
        match (progress, idle) {
            (true, _) => return 0,
            (false, ..LOOKS) => std::hint::spin_loop(),
            (false, _) => std::thread::yield_now(),
        }
        idle.saturating_add(1)
    }

    /// Whether these cells have done `turns` turns.
    fn has(&self, share: (usize, usize), turns: u32) -> bool {
        self.done[share.0..share.1].iter().all(|d| d.load(Ordering::Relaxed) >> 1 >= turns)
    }

    /// Goes over a share with turn `from` in front and the others behind it, up to `to`. Whether something was done.
    fn sweep(&self, share: (usize, usize), forward: bool, from: u32, to: u32, scratch: &mut Scratch) -> bool {
        let (count, depth, skew) = (share.1 - share.0, (to - from) as usize, self.wave.skew);
        let mut progress = false;
        for front in 0..count + depth * skew {
            let turns = (0..depth).map(|turn| turn * skew).take_while(|&behind| behind <= front);
            for at in turns.map(|behind| front - behind).filter(|&at| at < count) {
                let cell = if forward { share.0 + at } else { share.1 - 1 - at };
                progress |= self.take(cell, to, scratch);
            }
        }
        progress
    }

    /// Takes every cell of a share one turn further, if it is ready. Whether something was done.
    fn pass(&self, share: (usize, usize), to: u32, scratch: &mut Scratch) -> bool {
        (share.0..share.1).filter(|&cell| self.take(cell, to, scratch)).count() > 0
    }

    /// Runs one turn of a cell, if it is ready and below `to`.
    fn take(&self, number: usize, to: u32, scratch: &mut Scratch) -> bool {
        let (cell, state) = (&self.wave.cells[number], &self.done[number]);
        let word = state.load(Ordering::Relaxed);
        let turn = word >> 1;
        if word & 1 == 1 || turn >= to || self.stop.load(Ordering::Relaxed) {
            return false;
        }
        // Acquire: what those cells wrote is seen, and what they read is no longer needed.
        let is_done = |a: &After| self.done[a.cell as usize].load(Ordering::Acquire) >> 1 >= turn + u32::from(a.same);
        if !cell.after.iter().all(is_done) {
            return false;
        }
        if state.compare_exchange(word, word + 1, Ordering::Acquire, Ordering::Relaxed).is_err() {
            return false;
        }
        let start = self.recorder.map(Recorder::now);
        // SAFETY: the cell is this thread's, and all that touch its memory have done the turns before and wait for it.
        let done = catch_unwind(AssertUnwindSafe(|| unsafe { self.run(cell, turn as usize, scratch) }));
        if let (Some(recorder), Some(start)) = (self.recorder, start) {
            match cell.what {
                What::Work { step, .. } => recorder.step(step, cell.device, start),
                What::Move { exchange, .. } => recorder.moved(exchange, cell.device, start),
            }
        }
        match flat(done) {
            Ok(()) => {
                state.store(word + 2, Ordering::Release);
                if turn as usize + 1 == self.frames.len() {
                    self.complete.fetch_add(1, Ordering::Release);
                }
            }
            Err(fault) => {
                let mut first = self.stopped.lock().unwrap_or_else(PoisonError::into_inner);
                if first.as_ref().is_none_or(|s| cell.device < s.device) {
                    let step = if let What::Work { step, .. } = cell.what { step } else { 0 };
                    *first = Some(Stopped { step, device: cell.device, fault });
                }
                self.stop.store(true, Ordering::Relaxed);
            }
        }
        true
    }

    /// One turn of a cell.
    ///
    /// # Safety
    /// Nothing else touches the memory of the cell in a way that matters.
    unsafe fn run(&self, cell: &Cell, turn: usize, scratch: &mut Scratch) -> Result<(), Fault> {
        let frames = &self.frames.turns[turn];
        match &cell.what {
            // SAFETY: the frames of this turn.
            What::Move { bytes, .. } => unsafe { bytes.run(|device, buf| frames[device][buf.0 as usize]) },
            What::Work { work, parts, .. } => {
                let device = &self.devices[cell.device];
                let (partition, replica) = (device.partition, device.replica);
                let frame = Frame { ptrs: &frames[cell.device], device: device.number, partition, replica };
                for part in parts.clone() {
                    // SAFETY: the caller's promise.
                    unsafe { work.run(&frame, scratch, part)? };
                }
            }
        }
        Ok(())
    }
}
