//! Arrays piece by piece: where the elements are, and arrays that are born in pieces, never whole on the host.
//!
//! If several processes run the program, each makes the pieces of its own devices.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use meshwork_ir::{ElementType, Literal};
use meshwork_mesh::{Mesh, Sharding, slice_of};
use meshwork_runtime::{Array as Sharded, Buffer, Runtime};

use crate::array::{Array, Placement};
use crate::boxes::{At, Slice, copy};
use crate::error::{Error, Result};

/// Memory that a slice of an array lies in.
pub(crate) struct Stored<'a> {
    memory: Memory<'a>,
    /// Extents of that array.
    pub dims: Vec<i64>,
    /// Where in it the slice starts.
    pub start: Vec<i64>,
}

/// Memory of the host, or of a device.
enum Memory<'a> {
    Host(&'a [u8]),
    Device(Arc<Buffer>),
}

impl Stored<'_> {
    /// All of a literal.
    pub(crate) fn whole(literal: &Literal) -> Stored<'_> {
        let (dims, start) = (literal.dims().to_vec(), vec![0; literal.dims().len()]);
        Stored { memory: Memory::Host(literal.bytes()), dims, start }
    }

    /// The memory: a row-major array.
    pub(crate) fn bytes(&self) -> &[u8] {
        match &self.memory {
            Memory::Host(bytes) => bytes,
            Memory::Device(buffer) => buffer.as_slice(),
        }
    }
}

/// Devices of this process on a mesh of `count`.
pub(crate) fn local_devices(count: i64) -> Result<Range<i64>> {
    let runtime = Runtime::init()?;
    let here = match runtime.is_distributed() && count > 1 {
        true => runtime.local_devices_of(count as usize),
        false => 0..count as usize,
    };
    Ok(here.start as i64..here.end as i64)
}

impl Array {
    /// How the elements lie on devices, or are meant to; `None` if all are in one place.
    pub(crate) fn lies(&self) -> Option<(Arc<Mesh>, Arc<Sharding>)> {
        let lies = match self.sharded() {
            Some(devices) => Some((devices.mesh().clone(), devices.sharding().clone())),
            None => self.placement().map(|p| (p.mesh.clone(), Arc::new(p.sharding.clone()))),
        };
        lies.filter(|(mesh, _)| mesh.device_count() > 1)
    }

    /// The different pieces and the devices that hold them, in order of the first; no devices if it was never placed, so
    /// that all processes have it.
    pub(crate) fn holders(&self) -> Result<Vec<(Slice, Vec<usize>)>> {
        let Some((mesh, sharding)) = self.lies() else {
            return Ok(vec![(self.shape().iter().map(|&n| 0..n).collect(), vec![])]);
        };
        let mut holders: Vec<(Slice, Vec<usize>)> = vec![];
        let mut places = HashMap::new();
        for device in 0..mesh.device_count() {
            let what = || format!("array of shape {:?}", self.shape());
            let slice = slice_of(&sharding, &mesh, self.shape(), device)
                .map_err(|error| Error::Sharding { what: what(), error: Box::new(error) })?;
            let next = holders.len();
            let place = *places.entry(slice.clone()).or_insert(next);
            if place == next {
                holders.push((slice, vec![]));
            }
            holders[place].1.push(device as usize);
        }
        Ok(holders)
    }

    /// Where `slice`, which is that of `device` of this process, is in memory.
    pub(crate) fn stored(&self, device: usize, slice: &[Range<i64>]) -> Result<Stored<'_>> {
        if let Some(devices) = self.sharded()
            && let Some(shard) = devices.shards().get(device)
        {
            return Ok(Stored {
                memory: Memory::Device(shard.clone()),
                dims: devices.local_dims().to_vec(),
                start: vec![0; slice.len()],
            });
        }
        let host = self.literal()?;
        let start = slice.iter().map(|r| r.start).collect();
        Ok(Stored { memory: Memory::Host(host.bytes()), dims: host.dims().to_vec(), start })
    }

    /// An array whose shards are made one by one: `make` gets a device, its slice, the extents of the buffer, which may
    /// be larger and is zero, and the buffer. Devices that hold the same slice share it.
    pub(crate) fn on_mesh(
        dims: &[i64],
        elem: ElementType,
        placement: &Placement,
        mut make: impl FnMut(i64, &[Range<i64>], &[i64], &mut [u8]) -> Result<()>,
    ) -> Result<Array> {
        let Placement { mesh, sharding } = placement;
        let wrong = |error| Error::Sharding { what: format!("array of shape {dims:?}"), error: Box::new(error) };
        let local = sharding.local_shape(mesh, dims).map_err(wrong)?;
        let bytes = local.iter().product::<i64>() as usize * elem.storage_bytes();
        let memory = |e| Error::Devices(meshwork_runtime::array::ArrayError::Memory(e));
        let mut made: HashMap<Vec<Range<i64>>, Arc<Buffer>> = HashMap::new();
        let here = local_devices(mesh.device_count())?;
        let absent = Arc::new(Buffer::new(0).map_err(memory)?);
        let mut shards = vec![absent; mesh.device_count() as usize];
        for device in here {
            let slice = slice_of(sharding, mesh, dims, device).map_err(wrong)?;
            let shard = match made.get(&slice) {
                Some(shard) => shard.clone(),
                None => {
                    let mut buffer = Buffer::new(bytes).map_err(memory)?;
                    buffer.as_mut_slice().fill(0);
                    make(device, &slice, &local, buffer.as_mut_slice())?;
                    Arc::new(buffer)
                }
            };
            made.insert(slice, shard.clone());
            shards[device as usize] = shard;
        }
        let sharded = Sharded::from_shards(elem, dims, mesh, &Arc::new(sharding.clone()), shards);
        Ok(Array::from_devices(sharded.map_err(Error::Devices)?).with_placement(Some(placement.clone())))
    }
}

/// Copies a literal to the front of a buffer with extents `local`.
pub(crate) fn put(from: &Literal, local: &[i64], to: &mut [u8]) {
    let zero = vec![0; local.len()];
    let (at, to_at) = (At { dims: from.dims(), start: &zero }, At { dims: local, start: &zero });
    copy(from.bytes(), &at, to, &to_at, from.dims(), from.elem().storage_bytes());
}
