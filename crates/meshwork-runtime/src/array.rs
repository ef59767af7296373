//! Global arrays in shards: each device has a piece, and nobody need ever have the whole.
//!
//! All pieces have the extents of the largest; what lies past the end of the array is unspecified. Devices that hold
//! the same piece share its memory.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use meshwork_ir::{ElementType, Literal};
use meshwork_mesh::{Mesh, MeshRef, Sharding, ShardingError, slice_of};

use crate::exec::boxes::{At, BoxCopy};
use crate::executable::Shards;
use crate::memory::buffer::{Buffer, OutOfMemory};

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
        for device in 0..mesh.device_count() {
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

    /// The array that these pieces make up, one per device, each of the extents that all pieces have.
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
        if let Some((device, shard)) = shards.iter().enumerate().find(|(_, s)| s.len() != bytes) {
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

    /// What `device` holds, without what lies past the end.
    pub fn piece(&self, device: usize) -> Result<Literal, ArrayError> {
        let (_, lengths) = parts(&self.slice(device)?);
        let mut out = Literal::zeros(lengths.iter().copied(), self.elem);
        let zero = vec![0; lengths.len()];
        self.copy_out(device, &zero, &mut out);
        Ok(out)
    }

    /// All elements, as an array of the host.
    pub fn to_host(&self) -> Result<Literal, ArrayError> {
        let mut out = Literal::zeros(self.dims.iter().copied(), self.elem);
        for (device, slice) in self.different()? {
            self.copy_out(device, &parts(&slice).0, &mut out);
        }
        Ok(out)
    }

    /// Gives each different piece to `f` with its place, one after the other: never more than one is in memory
    /// besides the array.
    pub fn for_each_piece<E: From<ArrayError>>(
        &self,
        mut f: impl FnMut(&Slice, Literal) -> Result<(), E>,
    ) -> Result<(), E> {
        for (device, slice) in self.different()? {
            f(&slice, self.piece(device)?)?;
        }
        Ok(())
    }

    /// One device for each different, non-empty piece.
    fn different(&self) -> Result<Vec<(usize, Slice)>, ArrayError> {
        let mut seen = std::collections::HashSet::new();
        let mut out = vec![];
        for device in 0..self.shards.len() {
            let slice = self.slice(device)?;
            if slice.iter().all(|r| r.start < r.end) && seen.insert(slice.clone()) {
                out.push((device, slice));
            }
        }
        Ok(out)
    }

    fn copy_out(&self, device: usize, at: &[i64], out: &mut Literal) {
        let lengths: Vec<i64> = match self.slice(device) {
            Ok(slice) => parts(&slice).1,
            Err(_) => return,
        };
        let zero = vec![0; lengths.len()];
        let dims = out.dims().to_vec();
        let (from, to) = (At { dims: &self.local, start: &zero }, At { dims: &dims, start: at });
        let copy = BoxCopy::new(&from, &to, &lengths, self.elem.storage_bytes());
        if copy.bytes() > 0 {
            // SAFETY: the shard has the local extents and the literal its own; they are different memory.
            unsafe { copy.run(self.shards[device].as_ptr(), out.bytes_mut().as_mut_ptr()) };
        }
    }
}

fn alone(rank: usize) -> (Arc<Mesh>, Arc<Sharding>) {
    let mesh = Mesh::empty();
    let sharding = Sharding::replicated(MeshRef::from(mesh.clone()), rank);
    (Arc::new(mesh), Arc::new(sharding))
}

fn parts(slice: &Slice) -> (Vec<i64>, Vec<i64>) {
    slice.iter().map(|r| (r.start, (r.end - r.start).max(0))).unzip()
}
