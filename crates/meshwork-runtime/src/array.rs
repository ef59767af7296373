//! Global arrays in shards: each device has a piece, and nobody need ever have the whole.
//!
//! All pieces have the extents of the largest; what lies past the end of the array is unspecified. Devices that hold
//! the same piece share its memory. If several processes run the program, each has the pieces of its own devices, and
//! the others are absent; an array of one device is whole in every process that has it.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use meshwork_ir::{ElementType, Literal};
use meshwork_mesh::{Mesh, MeshRef, Sharding, ShardingError, slice_of};

use crate::boxes::{At, BoxCopy};
use crate::memory::buffer::{Buffer, OutOfMemory};
use crate::transport::calls;
use crate::transport::world::{ProcessError, World, world};

/// The pieces of one array, one per device in order of device number. Devices with equal pieces may share one; those
/// of other processes are [absent](Buffer::absent).
pub type Shards = Vec<Arc<Buffer>>;

/// A global array, in shards on the devices of a mesh. Cloning shares the shards.
///
/// ```
/// use meshwork_ir::{ElementType, Literal};
/// use meshwork_mesh::{Mesh, Sharding};
/// use meshwork_runtime::Array;
///
/// let x = Literal::from_f64s([5], ElementType::F32, &[1.0, 2.0, 3.0, 4.0, 5.0]).unwrap();
/// let whole = Array::single(&x)?;
/// assert_eq!(whole.to_host()?, x);
/// # Ok::<(), meshwork_runtime::array::ArrayError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Array {
    elem: ElementType,
    dims: Vec<i64>,
    local: Vec<i64>,
    mesh: Arc<Mesh>,
    sharding: Arc<Sharding>,
    shards: Shards,
}

/// Why there is no such array.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum ArrayError {
    /// The sharding does not fit the array or the mesh.
    #[error(transparent)]
    Sharding(#[from] ShardingError),
    /// There is no memory for it.
    #[error(transparent)]
    Memory(#[from] OutOfMemory),
    /// The pieces given do not make it up.
    #[error("{0}")]
    Pieces(String),
    /// The piece is in another process.
    #[error("the piece of device {device} is on rank {rank}, not here; gather the array, or ask that rank")]
    Remote {
        /// The device.
        device: usize,
        /// Its process.
        rank: usize,
    },
    /// The processes could not do it together.
    #[error(transparent)]
    Processes(#[from] ProcessError),
}

/// Ranges of a device's piece, one per dimension.
pub type Slice = Vec<Range<i64>>;

impl Array {
    /// The array on one device.
    pub fn single(host: &Literal) -> Result<Array, ArrayError> {
        let (mesh, sharding) = alone(host.dims().len());
        let shards = vec![Arc::new(Buffer::from_bytes(host.bytes())?)];
        let dims = host.dims().to_vec();
        Ok(Array { elem: host.elem(), local: dims.clone(), dims, mesh, sharding, shards })
    }

    /// An array of the host, cut into shards.
    pub fn from_host(host: &Literal, mesh: &Arc<Mesh>, sharding: &Arc<Sharding>) -> Result<Array, ArrayError> {
        let (dims, size) = (host.dims(), host.elem().storage_bytes());
        Array::born(host.elem(), dims, mesh, sharding, |slice, local, buffer| {
            let (start, lengths) = parts(slice);
            let zero = vec![0; lengths.len()];
            let (from, to) = (At { dims, start: &start }, At { dims: local, start: &zero });
            // SAFETY: the literal and the buffer have the extents given, and are different memory.
            unsafe { BoxCopy::new(&from, &to, &lengths, size).run(host.bytes().as_ptr(), buffer.as_ptr()) };
        })
    }

    /// The array whose element at each index is what `f` writes for it; every piece is made where it is needed.
    pub fn from_fn(
        elem: ElementType,
        dims: &[i64],
        mesh: &Arc<Mesh>,
        sharding: &Arc<Sharding>,
        mut f: impl FnMut(&[i64], &mut [u8]),
    ) -> Result<Array, ArrayError> {
        let size = elem.storage_bytes();
        Array::born(elem, dims, mesh, sharding, |slice, local, buffer| {
            let (mut index, lengths) = parts(slice);
            if lengths.contains(&0) {
                return;
            }
            let bytes = buffer.as_mut_slice();
            loop {
                let at = (0..index.len()).fold(0, |o, d| o * local[d] + index[d] - slice[d].start) as usize * size;
                f(&index, &mut bytes[at..at + size]);
                let next = (0..index.len()).rev().find(|&d| index[d] + 1 < slice[d].end);
                let Some(next) = next else { return };
                index[next] += 1;
                (next + 1..index.len()).for_each(|d| index[d] = slice[d].start);
            }
        })
    }

    /// An array whose pieces are made by `make`, once for each different one.
    fn born(
        elem: ElementType,
        dims: &[i64],
        mesh: &Arc<Mesh>,
        sharding: &Arc<Sharding>,
        mut make: impl FnMut(&Slice, &[i64], &mut Buffer),
    ) -> Result<Array, ArrayError> {
        let local = sharding.local_shape(mesh, dims)?;
        let bytes = local.iter().product::<i64>() as usize * elem.storage_bytes();
        let mut made: HashMap<Slice, Arc<Buffer>> = HashMap::new();
        let mut shards = vec![];
        let here = local_devices(mesh.device_count() as usize);
        for device in 0..mesh.device_count() {
            if !here.contains(&(device as usize)) {
                shards.push(Buffer::absent()?);
                continue;
            }
            let slice = slice_of(sharding, mesh, dims, device)?;
            if let Some(shard) = made.get(&slice) {
                shards.push(shard.clone());
                continue;
            }
            let mut buffer = Buffer::new(bytes)?;
            if slice.iter().zip(&local).any(|(r, &n)| r.end - r.start < n) {
                buffer.as_mut_slice().fill(0);
            }
            make(&slice, &local, &mut buffer);
            let shard = Arc::new(buffer);
            made.insert(slice, shard.clone());
            shards.push(shard);
        }
        let (mesh, sharding) = (mesh.clone(), sharding.clone());
        Ok(Array { elem, dims: dims.to_vec(), local, mesh, sharding, shards })
    }

    /// The array that these pieces make up, one per device, each of the extents that all pieces have. Those of devices
    /// of other processes are not looked at.
    pub fn from_shards(
        elem: ElementType,
        dims: &[i64],
        mesh: &Arc<Mesh>,
        sharding: &Arc<Sharding>,
        shards: Shards,
    ) -> Result<Array, ArrayError> {
        let local = sharding.local_shape(mesh, dims)?;
        let bytes = local.iter().product::<i64>() as usize * elem.storage_bytes();
        if shards.len() as i64 != mesh.device_count() {
            let message = format!("{} pieces for {} devices", shards.len(), mesh.device_count());
            return Err(ArrayError::Pieces(message));
        }
        let here = local_devices(shards.len());
        if let Some(device) = here.clone().find(|&d| shards[d].len() != bytes) {
            let shard = &shards[device];
            let message = format!("the piece of device {device} has {} bytes, {bytes} are needed", shard.len());
            return Err(ArrayError::Pieces(message));
        }
        let (mesh, sharding) = (mesh.clone(), sharding.clone());
        Ok(Array { elem, dims: dims.to_vec(), local, mesh, sharding, shards })
    }

    /// The array of one device that has these bytes.
    pub fn from_single(elem: ElementType, dims: &[i64], shard: Arc<Buffer>) -> Result<Array, ArrayError> {
        let (mesh, sharding) = alone(dims.len());
        Array::from_shards(elem, dims, &mesh, &sharding, vec![shard])
    }

    /// Element type.
    pub fn elem(&self) -> ElementType {
        self.elem
    }

    /// Global extents.
    pub fn dims(&self) -> &[i64] {
        &self.dims
    }

    /// Extents of every piece.
    pub fn local_dims(&self) -> &[i64] {
        &self.local
    }

    /// The mesh.
    pub fn mesh(&self) -> &Arc<Mesh> {
        &self.mesh
    }

    /// How it is split.
    pub fn sharding(&self) -> &Arc<Sharding> {
        &self.sharding
    }

    /// The devices whose pieces are in this process.
    pub fn local_devices(&self) -> Range<usize> {
        local_devices(self.shards.len())
    }

    /// The pieces of this process: device, slice, and elements without what lies past the end. Nothing is communicated.
    pub fn local_shards(&self) -> Result<Vec<(usize, Slice, Literal)>, ArrayError> {
        self.local_devices().map(|d| Ok((d, self.slice(d)?, self.piece(d)?))).collect()
    }

    /// The pieces.
    pub fn shards(&self) -> &Shards {
        &self.shards
    }

    /// Hands over the pieces: what a donating call wants.
    pub fn into_shards(self) -> Shards {
        self.shards
    }

    /// Which part of the array `device` holds.
    pub fn slice(&self, device: usize) -> Result<Slice, ArrayError> {
        Ok(slice_of(&self.sharding, &self.mesh, &self.dims, device as i64)?)
    }

    /// What `device`, which must be of this process, holds, without what lies past the end.
    pub fn piece(&self, device: usize) -> Result<Literal, ArrayError> {
        if let Some(world) = world()
            && !self.local_devices().contains(&device)
        {
            return Err(ArrayError::Remote { device, rank: world.rank_of(device, self.shards.len()) });
        }
        let (_, lengths) = parts(&self.slice(device)?);
        let mut out = Literal::zeros(lengths.iter().copied(), self.elem);
        let zero = vec![0; lengths.len()];
        self.copy_out(device, &zero, &mut out);
        Ok(out)
    }

    /// All elements, as an array of the host. If they are spread over processes, all must call it, and all get them.
    pub fn to_host(&self) -> Result<Literal, ArrayError> {
        let mut out = Literal::zeros(self.dims.iter().copied(), self.elem);
        if let Some(world) = world().filter(|_| self.shards.len() > 1) {
            self.gather_out(world, &mut out)?;
            return Ok(out);
        }
        for (device, slice) in self.different()? {
            self.copy_out(device, &parts(&slice).0, &mut out);
        }
        Ok(out)
    }

    /// Every process gets every piece: its own from its devices, the others from the lowest device that has them.
    fn gather_out(&self, world: &World, out: &mut Literal) -> Result<(), ArrayError> {
        let count = self.shards.len();
        let bytes = self.local.iter().product::<i64>() as usize * self.elem.storage_bytes();
        let holders = self.holders()?;
        let ranks = |devices: &[usize]| devices.iter().map(|&d| world.rank_of(d, count)).collect::<Vec<_>>();
        let missing = |devices: &[usize]| {
            let have = ranks(devices);
            (0..world.size).filter(|r| !have.contains(r)).collect::<Vec<_>>()
        };
        // Only what needs others counts as a call that all make.
        let run = match holders.iter().all(|(_, devices)| missing(devices).is_empty()) {
            true => 0,
            false => world.next_run(),
        };
        let here = self.local_devices();
        let mut stage = None;
        for (slice, devices) in &holders {
            let (own, owner) = (devices.iter().find(|d| here.contains(d)), world.rank_of(devices[0], count));
            let start = parts(slice).0;
            if let Some(&own) = own {
                let to = missing(devices);
                if owner == world.rank && !to.is_empty() {
                    calls::give(world, run, &to, self.shards[own].as_slice())?;
                }
                self.copy_out(own, &start, out);
            } else {
                let buffer = match &mut stage {
                    Some(buffer) => buffer,
                    empty => empty.insert(Buffer::new(bytes)?),
                };
                calls::take(world, run, owner, buffer.as_mut_slice())?;
                self.copy_from(buffer, slice, &start, out);
            }
        }
        Ok(())
    }

    /// Whether all elements can be read without other processes.
    pub fn is_whole_here(&self) -> bool {
        let here = self.local_devices();
        here.len() == self.shards.len()
            || self.holders().is_ok_and(|all| all.iter().all(|(_, devices)| devices.iter().any(|d| here.contains(d))))
    }

    /// Each different, non-empty piece and the devices that hold it.
    fn holders(&self) -> Result<Vec<(Slice, Vec<usize>)>, ArrayError> {
        let mut holders: Vec<(Slice, Vec<usize>)> = vec![];
        let mut known: HashMap<Slice, usize> = HashMap::new();
        for device in 0..self.shards.len() {
            let slice = self.slice(device)?;
            if slice.iter().any(|r| r.start >= r.end) {
                continue;
            }
            let at = *known.entry(slice.clone()).or_insert_with(|| {
                holders.push((slice, vec![]));
                holders.len() - 1
            });
            holders[at].1.push(device);
        }
        Ok(holders)
    }

    /// Gives each different piece to `f` with its place, one after the other: never more than one is in memory
    /// besides the array. Of several processes that hold a piece, that of the lowest device gives it.
    pub fn for_each_piece<E: From<ArrayError>>(
        &self,
        mut f: impl FnMut(&Slice, Literal) -> Result<(), E>,
    ) -> Result<(), E> {
        let here = self.local_devices();
        for (device, slice) in self.different()?.into_iter().filter(|(d, _)| here.contains(d)) {
            f(&slice, self.piece(device)?)?;
        }
        Ok(())
    }

    /// One device for each different, non-empty piece.
    fn different(&self) -> Result<Vec<(usize, Slice)>, ArrayError> {
        Ok(self.holders()?.into_iter().map(|(slice, devices)| (devices[0], slice)).collect())
    }

    fn copy_out(&self, device: usize, at: &[i64], out: &mut Literal) {
        if let Ok(slice) = self.slice(device) {
            self.copy_from(&self.shards[device], &slice, at, out);
        }
    }

    /// Copies the piece for `slice` to `at` in `out`.
    fn copy_from(&self, shard: &Buffer, slice: &Slice, at: &[i64], out: &mut Literal) {
        let lengths = parts(slice).1;
        let zero = vec![0; lengths.len()];
        let dims = out.dims().to_vec();
        let (from, to) = (At { dims: &self.local, start: &zero }, At { dims: &dims, start: at });
        let copy = BoxCopy::new(&from, &to, &lengths, self.elem.storage_bytes());
        if copy.bytes() > 0 {
            // SAFETY: the shard has the local extents and the literal its own; they are different memory.
            unsafe { copy.run(shard.as_ptr(), out.bytes_mut().as_mut_ptr()) };
        }
    }
}

/// The devices of this process on a mesh of `devices`; all, if it is one or the process is on its own.
fn local_devices(devices: usize) -> Range<usize> {
    world().filter(|_| devices > 1).map_or(0..devices, |w| w.local_devices(devices))
}

fn alone(rank: usize) -> (Arc<Mesh>, Arc<Sharding>) {
    let mesh = Mesh::empty();
    let sharding = Sharding::replicated(MeshRef::from(mesh.clone()), rank);
    (Arc::new(mesh), Arc::new(sharding))
}

fn parts(slice: &Slice) -> (Vec<i64>, Vec<i64>) {
    slice.iter().map(|r| (r.start, (r.end - r.start).max(0))).unzip()
}
