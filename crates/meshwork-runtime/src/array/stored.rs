//! Arrays shard by shard: where the elements are, and arrays that are made in shards, never whole on the host.
//!
//! If several processes run the program, each makes the shards of its own devices.

use std::ops::Range;
use std::sync::Arc;

use meshwork_ir::{ElementType, Literal};
use meshwork_mesh::{Mesh, Sharding};

use super::parts::{Parts, fill};
use super::sharded::{Sharded, holders};
use super::slices::{Slice, copy};
use super::{Array, Placement};
use crate::boxes::Region;
use crate::error::ArrayError;
use crate::memory::Buffer;

/// The memory that holds a slice of an array.
pub struct Stored<'a> {
    memory: Memory<'a>,
    /// Extents of that array.
    pub dims: Vec<i64>,
    /// Where in it the slice starts.
    pub start: Vec<i64>,
}

/// Memory of the host, or of a device that is in host memory.
enum Memory<'a> {
    Host(&'a [u8]),
    Device(Arc<Buffer>),
}

impl Stored<'_> {
    /// All of a literal.
    pub fn whole(literal: &Literal) -> Stored<'_> {
        let (dims, start) = (literal.dims().to_vec(), vec![0; literal.dims().len()]);
        Stored { memory: Memory::Host(literal.bytes()), dims, start }
    }

    /// The memory: a row-major array.
    pub fn bytes(&self) -> &[u8] {
        match &self.memory {
            Memory::Host(bytes) => bytes,
            Memory::Device(buffer) => buffer.as_slice(),
        }
    }
}

impl Array {
    /// How the elements are, or are meant to be, split over devices; `None` if all are in one place.
    pub fn split(&self) -> Option<(Arc<Mesh>, Arc<Sharding>)> {
        let split = match self.sharded() {
            Some(devices) => Some((devices.mesh().clone(), devices.sharding().clone())),
            None => self.placement().map(|p| (p.mesh.clone(), Arc::new(p.sharding.clone()))),
        };
        split.filter(|(mesh, _)| mesh.device_count() > 1)
    }

    /// The different slices and the devices that hold them, in order of the first; no devices if it was never placed, so
    /// that all processes have it.
    pub fn holders(&self) -> Result<Vec<(Slice, Vec<usize>)>, ArrayError> {
        match self.split() {
            Some((_, sharding)) if !sharding.unreduced.is_empty() => {
                Err(ArrayError::InParts { shape: self.shape().to_vec(), sharding: sharding.to_string() })
            }
            Some((mesh, sharding)) => holders(self.shape(), &mesh, &sharding),
            None => Ok(vec![(self.shape().iter().map(|&n| 0..n).collect(), vec![])]),
        }
    }

    /// Where `slice`, which is that of `device` of this process, is in memory.
    pub fn stored(&self, device: usize, slice: &[Range<i64>]) -> Result<Stored<'_>, ArrayError> {
        if let Some(devices) = self.sharded()
            && let Some(shard) = devices.shards().get(device)
        {
            return Ok(Stored {
                memory: Memory::Device(shard.clone().into_host()?),
                dims: devices.local_dims().to_vec(),
                start: vec![0; slice.len()],
            });
        }
        let host = self.literal()?;
        let start = slice.iter().map(|r| r.start).collect();
        Ok(Stored { memory: Memory::Host(host.bytes()), dims: host.dims().to_vec(), start })
    }

    /// An array whose shards are made one by one: `make` gets a device, its slice, the extents of the buffer, which may
    /// be larger, and the buffer, which is zero. Devices that hold the same slice share it; of one in parts, the first
    /// part has all and the others change nothing.
    pub fn on_mesh<E: From<ArrayError>>(
        dims: &[i64],
        elem: ElementType,
        placement: &Placement,
        mut make: impl FnMut(i64, &[Range<i64>], &[i64], &mut [u8]) -> Result<(), E>,
    ) -> Result<Array, E> {
        let parts = Parts::of(&placement.sharding, &placement.mesh, elem)?;
        Array::from_parts(dims, elem, placement, |device, slice, local, buffer| match parts.neutral(device) {
            Some(neutral) => {
                fill(buffer, neutral);
                Ok(())
            }
            None => make(device, slice, local, buffer),
        })
    }

    /// As [`on_mesh`](Array::on_mesh), but `make` is asked for every part of a slice.
    pub(super) fn from_parts<E: From<ArrayError>>(
        dims: &[i64],
        elem: ElementType,
        placement: &Placement,
        mut make: impl FnMut(i64, &[Range<i64>], &[i64], &mut [u8]) -> Result<(), E>,
    ) -> Result<Array, E> {
        let (mesh, sharding) = (&placement.mesh, Arc::new(placement.sharding.clone()));
        let sharded = Sharded::build(elem, dims, mesh, &sharding, |device, slice, local, buffer| {
            buffer.fill(0);
            make(device, slice, local, buffer)
        })?;
        Ok(Array::from_devices(sharded).with_placement(Some(placement.clone())))
    }
}

/// Copies a literal to the front of a buffer with extents `local`.
pub fn put(from: &Literal, local: &[i64], to: &mut [u8]) {
    let zero = vec![0; local.len()];
    let (at, to_at) = (Region { dims: from.dims(), start: &zero }, Region { dims: local, start: &zero });
    copy(from.bytes(), &at, to, &to_at, from.dims(), from.elem().storage_bytes());
}
