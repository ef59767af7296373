//! The device side of an array: one shard per device.
//!
//! All shards have the extents of the largest; what is past the end of the array is unspecified. Devices that hold the
//! same slice share its buffer, unless they hold parts of it to be combined. If several processes run the program, each has the shards of its own devices, and the
//! others are absent; an array on one device is whole in every process that has it.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::Arc;

use meshwork_ir::{ElementType, Literal, TensorType};
use meshwork_mesh::{Mesh, MeshRef, Sharding, slice_of, sort_by_key};

use super::parts::{Parts, fill};
use super::slices::{Slice, copy, lengths, starts};
use crate::boxes::Region;
use crate::device::DeviceBuffer;
use crate::error::{ArrayError, placing};
use crate::memory::buffer::Buffer;
use crate::transport::calls;
use crate::transport::world::{World, world};

/// The shards of one array in host memory, one buffer per device in order of device number. Devices with equal shards
/// may share one; those of other processes are [absent](Buffer::absent).
pub type Shards = Vec<Arc<Buffer>>;

/// What all arrays of one type have in common that are split in the same way over the same mesh.
#[derive(Debug)]
pub struct Split {
    ty: Arc<TensorType>,
    local: Vec<i64>,
    mesh: Arc<Mesh>,
    sharding: Arc<Sharding>,
}

impl Split {
    /// Arrays of type `ty`, split so over `mesh`.
    pub fn new(ty: Arc<TensorType>, mesh: &Arc<Mesh>, sharding: &Arc<Sharding>) -> Result<Arc<Split>, ArrayError> {
        let local = sharding.local_shape(mesh, &ty.dims).map_err(placing(&ty.dims))?;
        Ok(Arc::new(Split { ty, local, mesh: mesh.clone(), sharding: sharding.clone() }))
    }

    /// Arrays of type `ty` on one device.
    pub fn single(ty: Arc<TensorType>) -> Result<Arc<Split>, ArrayError> {
        let mesh = Mesh::empty();
        let sharding = Sharding::replicated(MeshRef::from(mesh.clone()), ty.dims.len());
        Split::new(ty, &Arc::new(mesh), &Arc::new(sharding))
    }

    /// Size of every shard.
    fn bytes(&self) -> usize {
        self.local.iter().product::<i64>() as usize * self.ty.elem.storage_bytes()
    }
}

/// An array in shards on the devices of a mesh. Cloning shares the buffers.
///
/// ```
/// use meshwork_ir::{ElementType, Literal};
/// use meshwork_runtime::array::Sharded;
///
/// let x = Literal::from_f64s([5], ElementType::F32, &[1.0, 2.0, 3.0, 4.0, 5.0]).unwrap();
/// let whole = Sharded::single(&x)?;
/// assert_eq!(whole.to_host()?, x);
/// # Ok::<(), meshwork_runtime::ArrayError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Sharded {
    split: Arc<Split>,
    shards: Vec<Arc<dyn DeviceBuffer>>,
}

impl Sharded {
    /// The array on one device.
    pub fn single(host: &Literal) -> Result<Sharded, ArrayError> {
        Sharded::from_single(host.elem(), host.dims(), Arc::new(Buffer::from_bytes(host.bytes())?))
    }

    /// The array on one device that has these bytes.
    pub fn from_single(elem: ElementType, dims: &[i64], shard: Arc<dyn DeviceBuffer>) -> Result<Sharded, ArrayError> {
        let ty = TensorType::new(dims.iter().copied(), elem);
        Sharded::from_shards(&Split::single(ty.into())?, vec![shard])
    }

    /// An array of the host, cut into shards.
    pub fn from_host(host: &Literal, mesh: &Arc<Mesh>, sharding: &Arc<Sharding>) -> Result<Sharded, ArrayError> {
        let (dims, size) = (host.dims(), host.elem().storage_bytes());
        let parts = Parts::of(sharding, mesh, host.elem())?;
        Sharded::build(host.elem(), dims, mesh, sharding, |device, slice, local, buffer| {
            if let Some(neutral) = parts.neutral(device) {
                fill(buffer, neutral);
                return Ok(());
            }
            let (start, zero) = (starts(slice), vec![0; local.len()]);
            let (from, to) = (Region { dims, start: &start }, Region { dims: local, start: &zero });
            copy(host.bytes(), &from, buffer, &to, &lengths(slice), size);
            Ok(())
        })
    }

    /// An array whose shards are filled by `make`, each different one once. It gets the device, its slice, the extents
    /// of the buffer, and the buffer, which is zero if it is larger than the slice.
    pub fn build<E: From<ArrayError>>(
        elem: ElementType,
        dims: &[i64],
        mesh: &Arc<Mesh>,
        sharding: &Arc<Sharding>,
        mut make: impl FnMut(i64, &[Range<i64>], &[i64], &mut [u8]) -> Result<(), E>,
    ) -> Result<Sharded, E> {
        let memory = |e| E::from(ArrayError::Memory(e));
        let split = Split::new(TensorType::new(dims.iter().copied(), elem).into(), mesh, sharding)?;
        let (local, bytes) = (&split.local, split.bytes());
        let absent = Buffer::absent().map_err(memory)?;
        let mut shards: Vec<Arc<dyn DeviceBuffer>> = vec![absent; mesh.device_count() as usize];
        let parts = Parts::of(sharding, mesh, elem)?;
        let mut made: HashMap<(Slice, usize), Arc<dyn DeviceBuffer>> = HashMap::new();
        for device in local_devices(shards.len()) {
            let slice = slice_of(sharding, mesh, dims, device as i64).map_err(placing(dims))?;
            let key = (slice, parts.index(device as i64));
            let slice = &key.0;
            let shard = match made.get(&key) {
                Some(shard) => shard.clone(),
                None => {
                    let mut buffer = Buffer::new(bytes).map_err(memory)?;
                    if slice.iter().zip(local).any(|(r, &n)| r.end - r.start < n) {
                        buffer.as_mut_slice().fill(0);
                    }
                    make(device as i64, slice, local, buffer.as_mut_slice())?;
                    Arc::new(buffer)
                }
            };
            made.insert(key, shard.clone());
            shards[device] = shard;
        }
        Ok(Sharded { split, shards })
    }

    /// The array that these shards make up, one per device, each of the extents that all shards have. Those of devices
    /// of other processes are not looked at.
    pub fn from_shards(split: &Arc<Split>, shards: Vec<Arc<dyn DeviceBuffer>>) -> Result<Sharded, ArrayError> {
        let (bytes, devices) = (split.bytes(), split.mesh.device_count());
        if shards.len() as i64 != devices {
            return Err(ArrayError::Pieces { given: shards.len(), wanted: devices });
        }
        if let Some(device) = local_devices(shards.len()).find(|&d| shards[d].size() != bytes) {
            return Err(ArrayError::ShardSize { device, given: shards[device].size(), wanted: bytes });
        }
        Ok(Sharded { split: split.clone(), shards })
    }

    /// What it has in common with all arrays of its type that are split in the same way.
    pub fn split(&self) -> &Arc<Split> {
        &self.split
    }

    /// Type of the whole array.
    pub fn ty(&self) -> &Arc<TensorType> {
        &self.split.ty
    }

    /// Element type.
    pub fn elem(&self) -> ElementType {
        self.split.ty.elem
    }

    /// Global extents.
    pub fn dims(&self) -> &[i64] {
        &self.split.ty.dims
    }

    /// Extents of every shard.
    pub fn local_dims(&self) -> &[i64] {
        &self.split.local
    }

    /// The mesh.
    pub fn mesh(&self) -> &Arc<Mesh> {
        &self.split.mesh
    }

    /// How it is split.
    pub fn sharding(&self) -> &Arc<Sharding> {
        &self.split.sharding
    }

    /// The shards, one per device.
    pub fn shards(&self) -> &[Arc<dyn DeviceBuffer>] {
        &self.shards
    }

    /// Gives up the shards, so that an engine may be their only owner.
    pub fn into_shards(self) -> Vec<Arc<dyn DeviceBuffer>> {
        self.shards
    }

    /// The shards in host memory: the buffers themselves if they are there, else copies. Those of other processes are
    /// absent.
    pub fn into_host_shards(self) -> Result<Shards, ArrayError> {
        self.shards.into_iter().map(|shard| shard.into_host()).collect()
    }

    /// All elements, as an array of the host. If they are spread over processes, all must call it, and all get them.
    pub fn to_host(&self) -> Result<Literal, ArrayError> {
        let mut out = Literal::zeros(self.dims().iter().copied(), self.elem());
        if let Some(world) = world().filter(|_| self.shards.len() > 1) {
            self.gather(world, &mut out)?;
            return Ok(out);
        }
        let parts = self.parts()?;
        for (slice, devices) in self.holders(&parts)? {
            self.copy_out(&self.shards[devices[0]].to_bytes()?, &slice, devices[0], &parts, &mut out);
        }
        Ok(out)
    }

    /// Every process gets every shard: its own from its devices, the others from the lowest device that has them.
    fn gather(&self, world: &World, out: &mut Literal) -> Result<(), ArrayError> {
        let count = self.shards.len();
        let bytes = self.split.bytes();
        let parts = self.parts()?;
        let holders = self.holders(&parts)?;
        let ranks = |devices: &[usize]| devices.iter().map(|&d| world.rank_of(d, count)).collect::<Vec<_>>();
        let missing = |devices: &[usize]| {
            let have = ranks(devices);
            (0..world.size).filter(|r| !have.contains(r)).collect::<Vec<_>>()
        };
        // Only what needs others counts as a call that all make.
        let is_local = holders.iter().all(|(_, devices)| missing(devices).is_empty());
        let run = if is_local { 0 } else { world.next_run() };
        let here = local_devices(count);
        let mut stage = vec![];
        for (slice, devices) in &holders {
            let (own, owner) = (devices.iter().find(|d| here.contains(d)), world.rank_of(devices[0], count));
            if let Some(&own) = own {
                let (to, contents) = (missing(devices), self.shards[own].to_bytes()?);
                if owner == world.rank && !to.is_empty() {
                    calls::give(world, run, &to, &contents)?;
                }
                self.copy_out(&contents, slice, own, &parts, out);
            } else {
                stage.resize(bytes, 0);
                calls::take(world, run, owner, &mut stage)?;
                self.copy_out(&stage, slice, devices[0], &parts, out);
            }
        }
        Ok(())
    }

    /// Whether all elements can be read without other processes.
    pub fn is_whole_here(&self) -> bool {
        let here = local_devices(self.shards.len());
        let holders = || self.parts().and_then(|parts| self.holders(&parts));
        here.len() == self.shards.len()
            || holders().is_ok_and(|all| all.iter().all(|(_, devices)| devices.iter().any(|d| here.contains(d))))
    }

    /// Which devices hold parts.
    fn parts(&self) -> Result<Parts, ArrayError> {
        Parts::of(self.sharding(), self.mesh(), self.elem())
    }

    /// Each different, non-empty slice, or part of one, and the devices that hold it; first parts first.
    fn holders(&self, parts: &Parts) -> Result<Vec<(Slice, Vec<usize>)>, ArrayError> {
        let mut pieces = vec![];
        for (slice, devices) in holders(self.dims(), self.mesh(), self.sharding())? {
            if slice.iter().all(|r| r.start < r.end) {
                let mut by_part: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
                devices.into_iter().for_each(|d| by_part.entry(parts.index(d as i64)).or_default().push(d));
                pieces.extend(by_part.into_values().map(|devices| (slice.clone(), devices)));
            }
        }
        sort_by_key(&mut pieces, |(_, devices)| parts.index(devices[0] as i64));
        Ok(pieces)
    }

    /// Copies what `device` holds of `slice` to its place in `out`, combined with the parts that came before.
    fn copy_out(&self, shard: &[u8], slice: &Slice, device: usize, parts: &Parts, out: &mut Literal) {
        let (dims, start, zero) = (out.dims().to_vec(), starts(slice), vec![0; slice.len()]);
        let (local, whole) = (Region { dims: self.local_dims(), start: &zero }, Region { dims: &dims, start: &start });
        let (lengths, size) = (lengths(slice), self.elem().storage_bytes());
        let mut sum = Cow::Borrowed(shard);
        if parts.index(device as i64) > 0 {
            copy(out.bytes(), &whole, sum.to_mut(), &local, &lengths, size);
            parts.combine(sum.to_mut(), shard);
        }
        copy(&sum, &local, out.bytes_mut(), &whole, &lengths, size);
    }
}

/// The different slices of an array and the devices that hold each, in order of the first device.
pub(super) fn holders(dims: &[i64], mesh: &Mesh, sharding: &Sharding) -> Result<Vec<(Slice, Vec<usize>)>, ArrayError> {
    let mut holders: Vec<(Slice, Vec<usize>)> = vec![];
    let mut known: HashMap<Slice, usize> = HashMap::new();
    for device in 0..mesh.device_count() {
        let slice = slice_of(sharding, mesh, dims, device).map_err(placing(dims))?;
        let at = *known.entry(slice.clone()).or_insert_with(|| {
            holders.push((slice, vec![]));
            holders.len() - 1
        });
        holders[at].1.push(device as usize);
    }
    Ok(holders)
}

/// The devices of this process on a mesh of `devices`; all, if it is one or the process is on its own.
pub fn local_devices(devices: usize) -> Range<usize> {
    world().filter(|_| devices > 1).map_or(0..devices, |w| w.local_devices(devices))
}
