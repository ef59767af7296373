//! The handle by which a program knows where it runs.

use std::ops::Range;
use std::time::Duration;

use meshwork_eval::scalar::{ScalarOp, apply};
use meshwork_ir::op::BinaryOp;
use meshwork_ir::{ElementType, Literal, OpKind};

use super::communicator::Communicator;
pub use super::world::ProcessError;
use super::world::{self, World};
use super::{calls, launcher};

/// The processes that run this program together: one, unless it was started by `mpirun` or the like. Cloning is free.
///
/// ```
/// use meshwork_runtime::Runtime;
///
/// let runtime = Runtime::init()?;
/// assert_eq!((runtime.rank(), runtime.size()), (0, 1));
/// assert_eq!(runtime.gather(0, b"here")?.unwrap(), [b"here"]);
/// # Ok::<(), meshwork_runtime::ProcessError>(())
/// ```
#[derive(Clone, Copy)]
pub struct Runtime {
    world: Option<&'static World>,
}

impl Runtime {
    /// Finds out where this process runs: on its own, or with others that `mpirun`, `srun` or another launcher of MPI
    /// programs has started. Repeated calls give the same. It is an error if the process was started as one of several
    /// and cannot reach them, for instance without the feature `mpi`.
    pub fn init() -> Result<Runtime, ProcessError> {
        let world = world::join().map_err(ProcessError::Broken)?;
        Ok(Runtime { world })
    }

    /// The number of this process.
    pub fn rank(&self) -> usize {
        self.world.map_or(0, |w| w.rank)
    }

    /// The number of processes.
    pub fn size(&self) -> usize {
        self.world.map_or(1, |w| w.size)
    }

    /// Whether there are other processes.
    pub fn is_distributed(&self) -> bool {
        self.world.is_some()
    }

    /// The number of devices of all processes together: as many as `MESHWORK_DEVICES_PER_RANK` (or
    /// [`set_devices_per_rank`](Runtime::set_devices_per_rank)) says for each, by default one.
    pub fn devices(&self) -> usize {
        self.size() * self.devices_per_rank()
    }

    /// The devices of this process, of [`devices`](Runtime::devices).
    pub fn local_devices(&self) -> Range<usize> {
        self.local_devices_of(self.devices())
    }

    /// The devices of this process on a mesh of `devices` devices: contiguous blocks in order of rank, the first ones
    /// one longer if the number is not divisible.
    pub fn local_devices_of(&self, devices: usize) -> Range<usize> {
        world::local_devices(self.rank(), self.size(), devices)
    }

    /// The process that has `device`, of a mesh of `devices` devices.
    pub fn rank_of(&self, device: usize, devices: usize) -> usize {
        self.world.map_or(0, |w| w.rank_of(device, devices))
    }

    /// The default number of devices per process.
    pub fn devices_per_rank(&self) -> usize {
        match self.world {
            Some(world) => world.devices_per_rank(),
            None => {
                let asked = std::env::var("MESHWORK_DEVICES_PER_RANK").ok();
                asked.and_then(|n| n.trim().parse().ok()).unwrap_or(1).max(1)
            }
        }
    }

    /// Sets the number of devices per process; it must be the same on all.
    pub fn set_devices_per_rank(&self, devices: usize) {
        if let Some(world) = self.world {
            world.set_devices_per_rank(devices);
        }
    }

    /// How long a process waits for another before it considers it lost: 60 seconds, or `MESHWORK_DEADLINE`.
    pub fn deadline(&self) -> Option<Duration> {
        self.world.map(World::deadline)
    }

    /// Sets the [`deadline`](Runtime::deadline).
    pub fn set_deadline(&self, deadline: Duration) {
        if let Some(world) = self.world {
            world.set_deadline(deadline);
        }
    }

    /// Whether another process is known to have died: immediately on this machine, on others only after a failure.
    pub fn is_dead(&self, rank: usize) -> bool {
        self.world.is_some_and(|w| rank < w.size && rank != w.rank && w.is_dead(rank))
    }

    /// What started this process.
    pub fn launcher(&self) -> Option<launcher::Launch> {
        launcher::launched()
    }

    /// Waits until all processes have reached it.
    pub fn barrier(&self) -> Result<(), ProcessError> {
        self.world.map_or(Ok(()), |w| calls::barrier(w, calls::Call::Barrier, w.next_run()))
    }

    /// All processes get the bytes of `root`; those of the others are ignored.
    pub fn broadcast(&self, root: usize, bytes: &[u8]) -> Result<Vec<u8>, ProcessError> {
        self.check_rank(root)?;
        self.world.map_or(Ok(bytes.to_vec()), |w| calls::broadcast(w, root, Ok(bytes)))
    }

    /// `root` gets the bytes of all, of any lengths, in order of rank; the others get nothing.
    pub fn gather(&self, root: usize, bytes: &[u8]) -> Result<Option<Vec<Vec<u8>>>, ProcessError> {
        self.check_rank(root)?;
        self.world.map_or(Ok(Some(vec![bytes.to_vec()])), |w| calls::gather(w, root, bytes))
    }

    /// All get the bytes of all, in order of rank.
    pub fn all_gather(&self, bytes: &[u8]) -> Result<Vec<Vec<u8>>, ProcessError> {
        self.world.map_or(Ok(vec![bytes.to_vec()]), |w| calls::all_gather(w, bytes))
    }

    /// Each process gets its part from `root`: one part per rank, of any lengths. What the others pass is ignored. If the
    /// number of parts differs from the number of ranks, all processes get that error.
    pub fn scatter(&self, root: usize, parts: &[Vec<u8>]) -> Result<Vec<u8>, ProcessError> {
        self.check_rank(root)?;
        let refusal = (self.rank() == root && parts.len() != self.size())
            .then(|| format!("scatter: rank {root} has {} parts for {} ranks", parts.len(), self.size()));
        let Some(world) = self.world else {
            return refusal.map_or_else(|| Ok(parts[0].clone()), |why| Err(ProcessError::Failed(why)));
        };
        let offers: Vec<calls::Offer<'_>> = match &refusal {
            Some(why) => vec![Err(why); world.size],
            None => parts.iter().map(|p| Ok(&p[..])).collect(),
        };
        calls::scatter(world, root, &offers)
    }

    /// All processes, with sends and receives that have tags, groups of processes, and more collectives.
    pub fn communicator(&self) -> Communicator {
        Communicator::of_processes(self.world)
    }

    /// Sends bytes to another process, or to itself, without waiting for it to receive them. Between two processes they
    /// arrive in the order in which they were sent.
    pub fn send(&self, to: usize, bytes: &[u8]) -> Result<(), ProcessError> {
        self.communicator().send(to, bytes)
    }

    /// Waits for the bytes that another process sends.
    pub fn receive(&self, from: usize) -> Result<Vec<u8>, ProcessError> {
        self.communicator().receive(from)
    }

    /// All processes get the combination, element by element and in order of rank, of the arrays that each has. They
    /// must have the same type and length; otherwise all processes get that error.
    pub fn all_reduce(&self, elem: ElementType, how: ReduceOp, bytes: &[u8]) -> Result<Vec<u8>, ProcessError> {
        let Some(world) = self.world else { return Ok(bytes.to_vec()) };
        let head = format!("{how:?} of {elem}");
        calls::all_reduce(world, &head, bytes, elem.storage_bytes(), |shares| combine_all(elem, how, shares))
    }

    pub(crate) fn check_rank(&self, rank: usize) -> Result<(), ProcessError> {
        if rank < self.size() {
            Ok(())
        } else {
            Err(ProcessError::Failed(format!("there is no rank {rank}, only {} processes", self.size())))
        }
    }
}

/// How [`all_reduce`](Runtime::all_reduce) combines two elements.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReduceOp {
    /// `a + b`.
    Sum,
    /// `a * b`.
    Product,
    /// The larger one; not a number if either is not.
    Max,
    /// The smaller one; not a number if either is not.
    Min,
}

/// Combines arrays of equal length in their order.
pub(super) fn combine_all(elem: ElementType, how: ReduceOp, arrays: &[Vec<u8>]) -> Result<Vec<u8>, String> {
    let kind = match how {
        ReduceOp::Sum => OpKind::Binary(BinaryOp::Add),
        ReduceOp::Product => OpKind::Binary(BinaryOp::Multiply),
        ReduceOp::Max => OpKind::Binary(BinaryOp::Maximum),
        ReduceOp::Min => OpKind::Binary(BinaryOp::Minimum),
    };
    let op = ScalarOp::new(kind, elem, elem).ok_or_else(|| format!("no {how:?} of {elem}"))?;
    let read = |bytes: &Vec<u8>| {
        let count = bytes.len() / elem.storage_bytes();
        let wrong = || format!("{} bytes are not an array of {elem}", bytes.len());
        Literal::from_bytes([count as i64], elem, bytes.clone()).ok_or_else(wrong)
    };
    let [first, rest @ ..] = arrays else { return Ok(vec![]) };
    let mut sum = read(first)?;
    for array in rest {
        let array = read(array)?;
        (0..sum.len()).for_each(|i| sum.set(i, apply(&op, &[sum.get(i), array.get(i)])));
    }
    Ok(sum.bytes().to_vec())
}

impl std::fmt::Debug for Runtime {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Runtime(rank {} of {})", self.rank(), self.size())
    }
}
