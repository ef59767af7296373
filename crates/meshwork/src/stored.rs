//! Arrays piece by piece: where the elements are, and arrays that are born in pieces, never whole on the host.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use meshwork_ir::ElementType;
use meshwork_mesh::{Mesh, Sharding, slice_of};
use meshwork_runtime::{Array as Sharded, Buffer};

use crate::array::{Array, Placement};
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
    /// The memory: a row-major array.
    pub(crate) fn bytes(&self) -> &[u8] {
        match &self.memory {
            Memory::Host(bytes) => bytes,
            Memory::Device(buffer) => buffer.as_slice(),
        }
    }
}

impl Array {
    /// How the elements lie on devices, or are meant to; `None` if all are in one place.
    pub(crate) fn lies(&self) -> Option<(Arc<Mesh>, Arc<Sharding>)> {
        match self.sharded() {
            Some(devices) if devices.shards().len() == 1 => None,
            Some(devices) => Some((devices.mesh().clone(), devices.sharding().clone())),
            None => self.placement().map(|p| (p.mesh.clone(), Arc::new(p.sharding.clone()))),
        }
    }

    /// Where `slice`, which is that of `device`, is in memory.
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

    /// An array whose shards are made one by one: `make` gets the slice, the extents of the buffer, which may be larger
    /// and is zero, and the buffer. Devices that hold the same slice share it.
    pub(crate) fn on_mesh(
        dims: &[i64],
        elem: ElementType,
        placement: &Placement,
        mut make: impl FnMut(&[Range<i64>], &[i64], &mut Buffer) -> Result<()>,
    ) -> Result<Array> {
        let Placement { mesh, sharding } = placement;
        let wrong = |error| Error::Sharding { what: format!("array of shape {dims:?}"), error: Box::new(error) };
        let local = sharding.local_shape(mesh, dims).map_err(wrong)?;
        let bytes = local.iter().product::<i64>() as usize * elem.storage_bytes();
        let mut made: HashMap<Vec<Range<i64>>, Arc<Buffer>> = HashMap::new();
        let mut shards = vec![];
        for device in 0..mesh.device_count() {
            let slice = slice_of(sharding, mesh, dims, device).map_err(wrong)?;
            if let Some(shard) = made.get(&slice) {
                shards.push(shard.clone());
                continue;
            }
            let memory = |e| Error::Devices(meshwork_runtime::array::ArrayError::Memory(e));
            let mut buffer = Buffer::new(bytes).map_err(memory)?;
            buffer.as_mut_slice().fill(0);
            make(&slice, &local, &mut buffer)?;
            let shard = Arc::new(buffer);
            made.insert(slice, shard.clone());
            shards.push(shard);
        }
        let sharded = Sharded::from_shards(elem, dims, mesh, &Arc::new(sharding.clone()), shards);
        Ok(Array::from_devices(sharded.map_err(Error::Devices)?).with_placement(Some(placement.clone())))
    }
}
