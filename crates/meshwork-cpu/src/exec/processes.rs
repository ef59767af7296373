//! Running a program together with other processes: the transport between them, and what they agree on.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use meshwork_ir::DeviceGrid;
use meshwork_ir::text;

use super::crossing::run::Pending;
use super::device::Device;
use super::exchange::{Exchange, Transport};
use super::pool::Pool;
use super::tape::Tape;
use crate::program::{Collective, CollectiveKind, Node, Program, Reducer};
use crate::step::{Fault, Scratch};
use meshwork_runtime::RunError;
use meshwork_runtime::profile::OwnRecord;
use meshwork_runtime::transport::calls::{self, Call};
use meshwork_runtime::transport::stamp;
use meshwork_runtime::transport::world::{self, ProcessError, World};

/// A program as the processes know it.
pub(crate) struct Processes {
    world: &'static World,
    /// Digest of the program and the number of devices.
    plan: u64,
    /// The names of its operations, which other processes may be told.
    _names: Arc<Vec<String>>,
    /// Whether it is known to be the same everywhere.
    compared: AtomicBool,
    /// Whether a run can fail in one process alone: then all say at the end that it went well.
    can_fail: bool,
}

/// A run of a program.
pub(crate) struct Turn<'a> {
    processes: &'a Processes,
    run: u64,
    /// Collectives that have been started and not awaited.
    pending: Mutex<Vec<Pending>>,
    /// How many.
    open: AtomicUsize,
    began: Instant,
    /// Nanoseconds after the beginning before which nothing needs to look at them.
    next_look: AtomicU64,
}

/// How often the clocks of processes are compared.
const CLOCKS: usize = 9;
/// Nanoseconds between two looks at what is under way.
const LOOK_NS: u64 = 20_000;

impl Processes {
    pub(crate) fn new(world: &'static World, program: &Program, tape: &Tape, grid: DeviceGrid) -> Processes {
        let mut hasher = DefaultHasher::new();
        (text::print(&program.module), grid.replicas, grid.partitions).hash(&mut hasher);
        // What a step costs decides the order of collectives; on another kind of machine it may cost more.
        order(&program.main.nodes, &mut hasher);
        let plan = hasher.finish();
        let module = &program.module;
        let describe = |e: &Exchange| format!("{} ({})", e.name, module.place(e.op));
        let names = stamp::name(plan, || tape.exchanges.iter().map(describe).collect());
        let can_fail = !program.fallbacks.is_empty() || program.can_part() || may_fail(&program.main.nodes);
        Processes { world, plan, _names: names, compared: AtomicBool::new(false), can_fail }
    }

    /// Runs the program: `here` does this process's part.
    pub(crate) fn run<T>(&self, here: impl FnOnce(&Turn<'_>) -> Result<T, RunError>) -> Result<T, RunError> {
        let _turn = self.world.turn();
        if !self.compared.load(Ordering::Relaxed) {
            self.compare()?;
            self.compared.store(true, Ordering::Relaxed);
        }
        let turn = Turn {
            processes: self,
            run: self.world.next_run(),
            pending: Mutex::default(),
            open: AtomicUsize::new(0),
            began: Instant::now(),
            next_look: AtomicU64::new(0),
        };
        let done = here(&turn).and_then(|done| {
            if self.can_fail {
                calls::barrier(self.world, Call::Agree, turn.run)?;
            }
            Ok(done)
        });
        done.map_err(|error| self.settle(turn.run, error))
    }

    /// What all processes have noted of a run, with what their clocks show after some barriers.
    pub(crate) fn share(&self, own: &OwnRecord<'_>) -> Result<Vec<Vec<u8>>, ProcessError> {
        let _turn = self.world.turn();
        let mut clocks = vec![];
        for _ in 0..CLOCKS {
            calls::barrier(self.world, Call::Barrier, self.world.next_run())?;
            clocks.push(own.now());
        }
        calls::all_gather(self.world, &own.bytes(&clocks))
    }

    /// All processes have the same program, or learn who has not.
    fn compare(&self) -> Result<(), ProcessError> {
        let mine = self.plan.to_le_bytes();
        let all = calls::exchange_all(self.world, Call::Compare, &vec![Ok(&mine[..]); self.world.size])?;
        // The program that most processes have is the right one; of two equally frequent ones that of the lowest.
        let votes = |p: &Vec<u8>| all.iter().filter(|q| *q == p).count();
        let common = all.iter().rev().max_by_key(|p| votes(p)).cloned().unwrap_or_default();
        let others: Vec<String> = (0..all.len()).filter(|&r| all[r] != common).map(|r| r.to_string()).collect();
        match others.len() {
            0 => Ok(()),
            1 => Err(ProcessError::Failed(format!("rank {} runs another program than the others", others[0]))),
            _ => Err(ProcessError::Failed(format!("ranks {} run other programs than the others", others.join(", ")))),
        }
    }

    /// A run has failed here or elsewhere: all processes give the same error.
    fn settle(&self, run: u64, error: RunError) -> RunError {
        // What failed here counts even if others were quicker: the lowest process in which it failed is to be named.
        let was_told = matches!(error, RunError::Processes(ProcessError::Failed(_)));
        let here = !was_told || !self.world.failed_elsewhere(run);
        match self.world.settle(run, &error.to_string(), here) {
            Err(broken @ ProcessError::Broken(_)) => match error {
                // It names the operation.
                RunError::Failed { .. } => error,
                _ => broken.into(),
            },
            Err(failed) => failed.into(),
            Ok(Some((rank, message))) if !here || rank < self.world.rank => RunError::Elsewhere { rank, message },
            Ok(_) => error,
        }
    }
}

/// In which order collectives start and end.
fn order(nodes: &[Node], hasher: &mut DefaultHasher) {
    for node in nodes {
        match node {
            Node::Step(_) => {}
            Node::Collective(c) => (&c.results, c.channel).hash(hasher),
            Node::Await(a) => a.results.hash(hasher),
            Node::While(w) => {
                order(&w.cond.nodes, hasher);
                order(&w.body.nodes, hasher);
            }
            Node::Case(case) => case.branches.iter().for_each(|b| order(&b.nodes, hasher)),
        }
    }
}

/// Whether a collective may fail: its reduction has a body of its own, or its pieces have lengths that are data.
fn may_fail(nodes: &[Node]) -> bool {
    nodes.iter().any(|node| match node {
        Node::Step(_) | Node::Await(_) => false,
        Node::Collective(Collective { kind, .. }) => matches!(
            kind,
            CollectiveKind::RaggedAllToAll
                | CollectiveKind::AllReduce(Reducer::Body(_))
                | CollectiveKind::Reduce(Reducer::Body(_))
                | CollectiveKind::ReduceScatter { reducer: Reducer::Body(_), .. }
        ),
        Node::While(w) => may_fail(&w.cond.nodes) || may_fail(&w.body.nodes),
        Node::Case(case) => case.branches.iter().any(|b| may_fail(&b.nodes)),
    })
}

impl Transport for Turn<'_> {
    fn exchange(
        &self,
        exchange: &Exchange,
        devices: &[Device],
        active: &[usize],
        pool: &Pool,
        scratch: &mut Scratch,
    ) -> Result<(), Fault> {
        let Some(crossing) = &exchange.crossing else {
            return Err(Fault("it was compiled for one process".into()));
        };
        let stamp = world::stamp(self.processes.plan, self.run, u64::from(crossing.number), 0);
        let world = self.processes.world;
        let Some(channel) = crossing.channel else {
            // SAFETY: the coordinator brings all active devices here, and nothing else runs.
            return unsafe { crossing.run(world, stamp, devices, active, pool, scratch) };
        };
        // SAFETY: as above; until it is awaited the buffers stay as they are by the plan, which has it end there.
        let started = unsafe { crossing.start(world, (stamp, channel), devices, active, pool, scratch)? };
        self.pending().push(started);
        self.open.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn finish(
        &self,
        exchanges: &[Exchange],
        number: u32,
        devices: &[Device],
        pool: &Pool,
        scratch: &mut Scratch,
    ) -> Result<(), Fault> {
        let Some(crossing) = &exchanges[number as usize].crossing else { return Ok(()) };
        let started = {
            let mut pending = self.pending();
            let at = pending.iter().position(|v| v.number == crossing.number);
            at.map(|at| pending.remove(at))
        };
        let Some(started) = started else { return Err(Fault("it is awaited, but was not started".into())) };
        self.open.fetch_sub(1, Ordering::Relaxed);
        let others = || self.poll(exchanges, devices);
        // SAFETY: as when it was started.
        unsafe { started.finish(self.processes.world, crossing, devices, (pool, scratch), others) }
    }

    fn poll(&self, exchanges: &[Exchange], devices: &[Device]) {
        if self.open.load(Ordering::Relaxed) == 0 {
            return;
        }
        let now = self.began.elapsed().as_nanos() as u64;
        if now < self.next_look.load(Ordering::Relaxed) {
            return;
        }
        // One thread is enough.
        let Ok(mut pending) = self.pending.try_lock() else { return };
        for started in pending.iter_mut() {
            if let Some(crossing) = &exchanges[started.number as usize].crossing {
                // SAFETY: as when it was started.
                unsafe { started.poll(self.processes.world, crossing, devices) };
            }
        }
        self.next_look.store(self.began.elapsed().as_nanos() as u64 + LOOK_NS, Ordering::Relaxed);
    }

    fn abandon(&self) {
        self.open.store(0, Ordering::Relaxed);
        self.pending().drain(..).for_each(|started| started.abandon(self.processes.world));
    }
}

impl Turn<'_> {
    fn pending(&self) -> MutexGuard<'_, Vec<Pending>> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
