//! A compiled program: planned once, run any number of times.

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use meshwork_ir::DeviceGrid;
use meshwork_ir::hash::HashMap;
use meshwork_ir::{Module, OpId, TensorType, Type};

use crate::check::check;
use crate::exec::crossing::build::Spread;
use crate::exec::crossing::overlap::overlap;
use crate::exec::device::{Device, NOWHERE};
use crate::exec::exchange::{InProcess, Transport};
use crate::exec::fallback::is_for_host;
use crate::exec::pool::Pool;
use crate::exec::processes::{Processes, Turn};
use crate::exec::run::{Run, Stop};
#[cfg(test)]
use crate::exec::tape::Item;
use crate::exec::tape::{Tape, tape};
use crate::memory::peer_args::PeerArg;
use crate::memory::plan::{Home, Own, Plan, plan};
use crate::memory::share::Leaders;
use crate::program::{BufInfo, Program};
use crate::step::Buf;
use meshwork_runtime::LoadError;
use meshwork_runtime::memory::buffer::{Buffer, OutOfMemory};
use meshwork_runtime::profile::{Names, Profile, Recorder, alone};
use meshwork_runtime::transport::world::world;
use meshwork_runtime::{RunError, Shards};

/// A program for all devices of a grid, with its plan.
pub struct DeviceProgram {
    module: Arc<Module>,
    program: Program,
    plan: Plan,
    tape: Tape,
    /// By buffer; all devices read the same.
    constants: Vec<Option<Arc<Buffer>>>,
    /// Per result, its size.
    result_bytes: Vec<usize>,
    /// Per result, the first result that is the same buffer, if it is not the first itself.
    repeats: Vec<Option<usize>>,
    /// Buffers whose pointers must be set before every run.
    moving: Vec<(Buf, Home)>,
    grid: DeviceGrid,
    pool: Arc<Pool>,
    /// The devices of this process.
    local: Range<usize>,
    processes: Option<Arc<Processes>>,
    idle: Mutex<Vec<State>>,
    /// Per argument: the devices of this process that are given one buffer.
    replicas: Vec<Option<Leaders>>,
}

/// Which devices of this process hold the same shard of an argument or a result, per argument and result: known from
/// their placements when a program is loaded. `None`, or no entry, if no two devices do.
#[derive(Clone, Debug, Default)]
pub struct Replication {
    /// Per argument.
    pub args: Vec<Option<Leaders>>,
    /// Per result.
    pub results: Vec<Option<Leaders>>,
}

/// Memory of a run, kept for the next.
struct State {
    devices: Vec<Device>,
    arenas: Vec<*mut u8>,
}

// SAFETY: the addresses are only compared and handed to devices.
unsafe impl Send for State {}

impl DeviceProgram {
    /// Plans the memory of `program`, which was compiled for `grid`. An argument that several devices of this process
    /// hold replicas of is read from one buffer and never overwritten, even if it is donated.
    pub fn new(
        mut program: Program,
        grid: DeviceGrid,
        pool: Arc<Pool>,
        replication: Replication,
    ) -> Result<DeviceProgram, LoadError> {
        let module = program.module.clone();
        let world = world().filter(|_| grid.len() > 1);
        let wrong = |(op, message): (OpId, String)| LoadError::unsupported(&module, op, message);
        let spread =
            world.map(|w| Spread { ranks: (0..grid.len()).map(|d| w.rank_of(d, grid.len())).collect(), rank: w.rank });
        if let Some(spread) = &spread {
            overlap(&mut program, spread);
        }
        for (donated, replicas) in program.donated.iter_mut().zip(&replication.args) {
            *donated &= replicas.is_none();
        }
        let plan = plan(&program, if world.is_some() { 1 } else { grid.len() }, &replication);
        let tape = tape(&program, &module, &plan, grid, spread.as_ref()).map_err(wrong)?;
        if cfg!(debug_assertions)
            && let Err(what) = check(&program, &plan, &tape)
        {
            panic!("the compiled program is wrong: {what}\n{program}");
        }
        let local = world.map_or(0..grid.len(), |w| w.local_devices(grid.len()));
        let processes = world.map(|w| Arc::new(Processes::new(w, &program, &tape, grid)));
        let memory = |e: OutOfMemory| LoadError::Invalid { op: "constants".into(), message: e.to_string() };
        let make = |info: &BufInfo| {
            let buffer = info.constant.as_ref().map(|c| Buffer::from_bytes(c.bytes())).transpose().map_err(memory)?;
            Ok(buffer.map(Arc::new))
        };
        let constants = program.bufs.iter().map(make).collect::<Result<_, LoadError>>()?;
        let mut traded = vec![false; plan.slots.len()];
        for &(to, from) in plan.turns.iter().flat_map(|t| &t.trades) {
            (traded[to], traded[from]) = (true, true);
        }
        let mut moving = vec![];
        for (slot, info) in plan.slots.iter().enumerate() {
            if traded[slot] || matches!(info.home, Home::Arg(_) | Home::Own(_) | Home::Shared(..) | Home::Peer(_)) {
                moving.extend(info.members.iter().map(|&b| (b, info.home)));
            }
        }
        let bytes = |t: &TensorType| t.dims.iter().product::<i64>() as usize * t.elem.storage_bytes();
        let result_bytes = result_types(&module).iter().map(bytes).collect();
        let mut first = HashMap::default();
        let repeat = |(i, &buf): (usize, &Buf)| Some(*first.entry(buf.0).or_insert(i)).filter(|&j| j != i);
        let repeats = program.main.results.iter().enumerate().map(repeat).collect();
        Ok(DeviceProgram {
            module,
            result_bytes,
            repeats,
            program,
            plan,
            tape,
            constants,
            moving,
            grid,
            pool,
            local,
            processes,
            idle: Mutex::default(),
            replicas: replication.args,
        })
    }

    /// Bytes that a device holds at once besides its arguments and the constants.
    pub fn peak_bytes(&self) -> usize {
        self.plan.peak_bytes()
    }

    /// Bytes that all devices hold at once besides their arguments and the constants.
    pub fn total_bytes(&self) -> usize {
        self.plan.total_bytes(self.grid.len())
    }

    /// How many of its loops are run in waves.
    #[cfg(test)]
    pub(crate) fn waves(&self) -> usize {
        let waves = |i: &Item| matches!(i, Item::Loop(l) if l.wave.is_some());
        self.tape.main.items.iter().filter(|&i| waves(i)).count()
    }

    /// The same with all loops turn by turn.
    #[cfg(test)]
    pub(crate) fn turn_by_turn(mut self) -> DeviceProgram {
        self.tape.main.items.iter_mut().for_each(|item| {
            if let Item::Loop(l) = item {
                l.wave = None;
            }
        });
        self
    }

    /// The devices it runs on.
    pub fn grid(&self) -> DeviceGrid {
        self.grid
    }

    /// Names of operations that run on the evaluator, and where they stand.
    pub fn fallbacks(&self) -> Vec<String> {
        let evaluated = self.program.fallbacks.iter().filter(|&&op| !is_for_host(&self.module, op));
        evaluated.map(|&op| self.module.describe(op)).collect()
    }

    /// How many arguments it takes.
    pub fn input_count(&self) -> usize {
        self.program.main.args.len()
    }

    /// Element type and extents of each argument on a device.
    pub fn inputs(&self) -> Vec<TensorType> {
        self.program.main.args.iter().map(|&b| self.ty(b)).collect()
    }

    /// Element type and extents of each result on a device; tuples flattened, tokens left out.
    pub fn outputs(&self) -> Vec<TensorType> {
        result_types(&self.module)
    }

    /// Per argument, whether it is donated: its memory becomes a result's if the caller hands over the only reference.
    pub fn donated(&self) -> &[bool] {
        &self.program.donated
    }

    fn ty(&self, buf: Buf) -> TensorType {
        let info = &self.program.bufs[buf.0 as usize];
        TensorType::new(info.dims.iter().copied(), info.elem)
    }

    /// Runs it. Arguments are read where they are; results are new buffers, or arguments that were handed through.
    pub fn run(&self, args: Vec<Shards>) -> Result<Vec<Shards>, RunError> {
        self.run_recorded(args, None)
    }

    /// Runs it and notes what runs when, on the devices of all processes: each of them calls this.
    pub fn run_profiled(&self, args: Vec<Shards>) -> Result<(Vec<Shards>, Profile), RunError> {
        let recorder = Recorder::new();
        let results = self.run_recorded(args, Some(&recorder))?;
        let profile = match &self.processes {
            None => recorder.finish(self, alone),
            Some(processes) => recorder.finish(self, |own| processes.share(own)),
        };
        Ok((results, profile?))
    }

    /// Where an operation stands, as profiles say it.
    fn place(&self, op: OpId) -> String {
        match (self.module.op(op).loc.source(), self.module.op(op).pos.line) {
            (Some((file, line, _)), _) => format!(" at {file}:{line}"),
            (None, 0) => String::new(),
            (None, line) => format!(" at line {line}"),
        }
    }

    /// Runs it, together with the other processes if there are any.
    fn run_recorded(&self, args: Vec<Shards>, recorder: Option<&Recorder>) -> Result<Vec<Shards>, RunError> {
        match &self.processes {
            None => self.run_here(args, None, recorder),
            Some(processes) => processes.run(|turn| self.run_here(args, Some(turn), recorder)),
        }
    }

    fn run_here(
        &self,
        mut args: Vec<Shards>,
        turn: Option<&Turn<'_>>,
        recorder: Option<&Recorder>,
    ) -> Result<Vec<Shards>, RunError> {
        self.check(&args)?;
        for (shards, replicas) in args.iter_mut().zip(&self.replicas) {
            if let Some(leader) = replicas {
                self.local.clone().filter(|&d| leader[d] != d).for_each(|d| shards[d] = shards[leader[d]].clone());
            }
        }
        let local = || self.local.clone();
        let mut owns: Vec<Vec<Option<Buffer>>> = Vec::with_capacity(local().len());
        let mut arenas: Vec<Buffer> = Vec::with_capacity(local().len());
        for device in local() {
            let start = recorder.map(Recorder::now);
            let mut bytes = self.plan.arena_bytes;
            let mut own = |own: &Own| {
                Ok(match own.arg {
                    None if self.keeper(own, device) != device => None,
                    None => {
                        bytes += own.bytes;
                        Some(Buffer::new(own.bytes)?)
                    }
                    Some(arg) => Some(take_over(&mut args[arg][device], own.bytes)?),
                })
            };
            owns.push(self.plan.owns.iter().map(&mut own).collect::<Result<_, OutOfMemory>>()?);
            arenas.push(Buffer::new(self.plan.arena_bytes)?);
            if let (Some(recorder), Some(start)) = (recorder, start) {
                recorder.allocated(device, bytes, start);
            }
        }
        let mut shared_arenas: Vec<Vec<Option<Buffer>>> = vec![];
        for shared in &self.plan.shared_arenas {
            let buffer = |(device, &leader): (usize, &usize)| {
                let start = recorder.map(Recorder::now);
                let buffer = (device == leader).then(|| Buffer::new(shared.bytes)).transpose()?;
                if let (Some(recorder), Some(start), true) = (recorder, start, device == leader) {
                    recorder.allocated(device, shared.bytes, start);
                }
                Ok(buffer)
            };
            shared_arenas.push(shared.leader.iter().enumerate().map(buffer).collect::<Result<_, OutOfMemory>>()?);
        }
        let start = |buffer: &Option<Buffer>| buffer.as_ref().map_or(NOWHERE, Buffer::as_ptr);
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut state = idle.unwrap_or_else(|| self.state());
        for (d, device) in state.devices[local()].iter().enumerate() {
            let number = device.number;
            let ptr = |home: Home| match home {
                Home::Nowhere => NOWHERE,
                // SAFETY: the offset is inside the arena.
                Home::Arena(offset) => unsafe { arenas[d].as_ptr().add(offset) },
                Home::Arg(i) => args[i][number].as_ptr(),
                Home::Peer(i) => args[self.plan.peer_args[i].arg][self.plan.peer_args[i].from[number]].as_ptr(),
                Home::Own(i) => start(&owns[self.keeper(&self.plan.owns[i], d)][i]),
                Home::Shared(i, offset) => {
                    let leader = self.plan.shared_arenas[i].leader[d];
                    // SAFETY: as above.
                    unsafe { start(&shared_arenas[i][leader]).add(offset) }
                }
                Home::Constant(buf) => self.constants[buf.0 as usize].as_ref().map_or(NOWHERE, |c| c.as_ptr()),
            };
            // SAFETY: nothing runs these devices now.
            unsafe {
                if state.arenas[d] == arenas[d].as_ptr() {
                    self.moving.iter().for_each(|&(buf, home)| device.set_ptr(buf, ptr(home)));
                } else {
                    for (b, &slot) in self.plan.slot_of.iter().enumerate() {
                        device.set_ptr(Buf(b as u32), ptr(self.plan.slots[slot].home));
                    }
                }
            }
            state.arenas[d] = arenas[d].as_ptr();
        }
        let run = Run {
            tape: &self.tape,
            devices: &state.devices,
            local: local(),
            pool: &self.pool,
            transport: turn.map_or(&InProcess as &dyn Transport, |t| t),
            recorder,
        };
        // SAFETY: the pointers are set as planned: arenas and own buffers belong to this run, arguments and constants
        // are kept alive by it and not written.
        let done = unsafe { run.all() };
        let results = match done {
            Ok(()) => self.results(&args, owns, &state.devices).map_err(RunError::from),
            Err(stop) => Err(self.error(&stop)),
        };
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(state);
        results
    }

    /// The device whose buffer `own` of `device` is: another one if a group has it together.
    fn keeper(&self, own: &Own, device: usize) -> usize {
        own.shared.map_or(device, |c| self.plan.shared_arenas[c].leader[device])
    }

    fn state(&self) -> State {
        let device = |d: usize| {
            let (replica, partition) = (d / self.grid.partitions, d % self.grid.partitions);
            Device::new(self.plan.slot_of.len(), d, replica as u32, partition as u32)
        };
        let devices = (0..self.grid.len()).map(device).collect();
        State { devices, arenas: vec![std::ptr::null_mut(); self.local.len()] }
    }

    fn results(
        &self,
        args: &[Shards],
        mut owns: Vec<Vec<Option<Buffer>>>,
        devices: &[Device],
    ) -> Result<Vec<Shards>, OutOfMemory> {
        let mut results: Vec<Shards> = Vec::with_capacity(self.repeats.len());
        for (i, &buf) in self.program.main.results.iter().enumerate() {
            let home = self.plan.slots[self.plan.slot_of[buf.0 as usize]].home;
            // A result may be the beginning of a larger buffer.
            let bytes = self.result_bytes.get(i).copied().unwrap_or(self.program.bufs[buf.0 as usize].bytes);
            let shards = match (home, self.repeats[i]) {
                (Home::Arg(i), _) => shared(&args[i], bytes)?,
                (Home::Peer(i), _) => {
                    let PeerArg { arg, from } = &self.plan.peer_args[i];
                    shared(&from.iter().map(|&d| args[*arg][d].clone()).collect(), bytes)?
                }
                (Home::Constant(c), _) => {
                    let all = self.constants[c.0 as usize].iter().flat_map(|c| vec![c.clone(); devices.len()]);
                    shared(&all.collect::<Shards>(), bytes)?
                }
                (_, Some(i)) => shared(&results[i], bytes)?,
                (Home::Own(own), _) if self.plan.owns[own].shared.is_some() => {
                    let mut whole: Vec<Option<Arc<Buffer>>> =
                        owns.iter_mut().map(|o| o[own].take().map(Arc::new)).collect();
                    whole.iter_mut().flatten().filter_map(Arc::get_mut).for_each(|b| b.truncate(bytes));
                    let keeper = |d: usize| self.keeper(&self.plan.owns[own], d);
                    (0..devices.len()).filter_map(|d| whole[keeper(d)].clone()).collect()
                }
                _ => {
                    let mut shards = vec![Buffer::absent()?; devices.len()];
                    for (device, owns) in devices[self.local.clone()].iter().zip(&mut owns) {
                        // SAFETY: the run is over.
                        let ptr = unsafe { device.ptr(buf) };
                        let is_it = |own: &Option<Buffer>| own.as_ref().is_some_and(|b| b.as_ptr() == ptr);
                        // Loops may have traded it for another.
                        let own = match home {
                            Home::Own(own) if is_it(&owns[own]) => Some(own),
                            _ => owns.iter().position(is_it),
                        };
                        if let Some(mut buffer) = own.and_then(|own| owns[own].take()) {
                            buffer.truncate(bytes);
                            shards[device.number] = Arc::new(buffer);
                        }
                    }
                    shards
                }
            };
            // One buffer for all devices that computed the same.
            let shards = match self.plan.equal_results.get(i).and_then(Option::as_ref) {
                Some(leader) if shards.len() == leader.len() => leader.iter().map(|&l| shards[l].clone()).collect(),
                _ => shards,
            };
            results.push(shards);
        }
        Ok(results)
    }

    fn check(&self, args: &[Shards]) -> Result<(), RunError> {
        let wanted = &self.program.main.args;
        if args.len() != wanted.len() {
            let message = format!("the program takes {} arguments, {} given", wanted.len(), args.len());
            return Err(RunError::Arguments(message));
        }
        for (i, (shards, &buf)) in args.iter().zip(wanted).enumerate() {
            let bytes = self.program.bufs[buf.0 as usize].bytes;
            if shards.len() != self.grid.len() {
                let message = format!("argument {i} is in {} pieces for {} devices", shards.len(), self.grid.len());
                return Err(RunError::Arguments(message));
            }
            let local = shards.iter().enumerate().skip(self.local.start).take(self.local.len());
            if let Some((d, shard)) = local.into_iter().find(|(_, s)| s.len() != bytes) {
                let message =
                    format!("argument {i} has {} bytes on device {d}, {} needs {bytes}", shard.len(), self.ty(buf));
                return Err(RunError::Arguments(message));
            }
        }
        Ok(())
    }

    fn error(&self, stop: &Stop) -> RunError {
        let device = stop.device.filter(|_| self.grid.len() > 1);
        let op = self.module.place(stop.op);
        // The evaluator names the operation itself.
        let text = stop.fault.to_string();
        let message = text.strip_prefix(&format!("{op}: ")).unwrap_or(&text).to_string();
        RunError::Failed { op, device, message }
    }
}

/// The types that the only function of a prepared module returns.
fn result_types(module: &Module) -> Vec<TensorType> {
    let declared = module.funcs().next().map_or(vec![], |func| module.func_type(func).results);
    let mut types = vec![];
    let mut todo: Vec<&Type> = declared.iter().rev().collect();
    while let Some(ty) = todo.pop() {
        match ty {
            Type::Tuple(parts) => todo.extend(parts.iter().rev()),
            ty => types.extend(ty.as_tensor().cloned()),
        }
    }
    types
}

/// These pieces, or copies of their first `bytes` bytes if they are longer.
fn shared(shards: &Shards, bytes: usize) -> Result<Shards, OutOfMemory> {
    let piece = |shard: &Arc<Buffer>| {
        if shard.len() == bytes || shard.is_empty() {
            Ok(shard.clone())
        } else {
            Ok(Arc::new(Buffer::from_bytes(&shard.as_slice()[..bytes.min(shard.len())])?))
        }
    };
    shards.iter().map(piece).collect()
}

/// The memory of a donated argument, or a copy if the caller still holds it.
fn take_over(shard: &mut Arc<Buffer>, bytes: usize) -> Result<Buffer, OutOfMemory> {
    match Arc::try_unwrap(std::mem::replace(shard, Buffer::absent()?)) {
        Ok(buffer) if buffer.len() >= bytes && !buffer.is_lent() => Ok(buffer),
        Ok(buffer) => copied(&buffer, bytes),
        Err(shared) => copied(&shared, bytes),
    }
}

fn copied(from: &Buffer, bytes: usize) -> Result<Buffer, OutOfMemory> {
    let mut buffer = Buffer::new(bytes.max(from.len()))?;
    buffer.as_mut_slice()[..from.len()].copy_from_slice(from.as_slice());
    Ok(buffer)
}

impl Names for DeviceProgram {
    fn step(&self, number: u32) -> String {
        let step = &self.tape.steps[number as usize];
        format!("{}{}", step.name, self.place(step.op))
    }

    fn exchange(&self, number: u32) -> String {
        let exchange = &self.tape.exchanges[number as usize];
        format!("{}{}", exchange.name, self.place(exchange.op))
    }

    fn groups(&self, number: u32) -> &[Vec<usize>] {
        &self.tape.exchanges[number as usize].together
    }
}

impl std::fmt::Debug for DeviceProgram {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (steps, exchanges) = (self.tape.steps.len(), self.tape.exchanges.len());
        write!(f, "DeviceProgram({steps} steps, {exchanges} exchanges, {} bytes)", self.peak_bytes())
    }
}
