//! Global arrays: elements, on the host or in shards on devices, and their placement on a mesh.
//!
//! | file | what it is |
//! |---|---|
//! | `data` | where the elements are: host, devices, or both |
//! | `sharded` | the device side: one shard per device; cutting and joining |
//! | `stored` | arrays made and read shard by shard, never whole on the host |
//! | `pieces` | cutting and joining on the host, for the evaluator |
//! | `parts` | arrays over whose unreduced axes devices hold parts to be combined |
//! | `slices` | slices of arrays, and copies between them |
//! | `nested`, `arithmetic`, `print` | arrays from Rust's, with operators, as text |
//! | `npy`, `ndarrays`, `picture` | NumPy's files, the crate `ndarray`, pictures of placements |

mod arithmetic;
mod data;
#[cfg(feature = "ndarray")]
mod ndarrays;
mod nested;
mod npy;
mod parts;
mod picture;
pub mod pieces;
mod print;
mod sharded;
pub mod slices;
mod stored;

use std::ops::Range;
use std::panic::Location;
use std::sync::Arc;

pub use arithmetic::ArrayOperand;
use data::Data;
pub use data::Place;
use meshwork_ir::{ElementType, Literal, TensorType};
use meshwork_mesh::{Mesh, MeshRef, P, Sharding, slice_of, slices as slices_of};
pub use sharded::{Sharded, Shards, Split, local_devices};
use slices::{copy, lengths, starts};
pub use stored::Stored;
use stored::put;

use crate::boxes::Region;
use crate::element::Element;
use crate::error::{ArrayError, SourceLine, placing};
use crate::shape::Shape;

/// A global array: its elements, and its placement on a mesh if it has one. Cloning is cheap.
///
/// ```
/// use meshwork_mesh::{Mesh, P};
/// use meshwork_runtime::Array;
///
/// let mesh = Mesh::linear("x", 4)?;
/// let x = Array::from_fn([102], |i| i[0] as f32).shard(&mesh, P!["x"])?;
/// // 102 elements over 4 devices: blocks of 26, the last one short.
/// assert_eq!(x.shards()[3].slice, [78..102]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Array {
    ty: Arc<TensorType>,
    data: Option<Arc<Data>>,
    placement: Option<Arc<Placement>>,
}

/// A mesh, and the placement of an array on it.
#[derive(Clone, Debug, PartialEq)]
pub struct Placement {
    /// The mesh.
    pub mesh: Arc<Mesh>,
    /// Which axes split which dimension.
    pub sharding: Sharding,
}

/// What one device holds of an array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shard {
    /// The device.
    pub device: i64,
    /// Its part of the array, one range per dimension.
    pub slice: Vec<Range<i64>>,
}

impl Array {
    /// The array with these elements in row-major order.
    #[track_caller]
    pub fn from_vec<T: Element>(shape: impl Shape, elements: Vec<T>) -> Result<Array, ArrayError> {
        Array::from_slice(shape, &elements)
    }

    /// The array with these elements in row-major order.
    #[track_caller]
    pub fn from_slice<T: Element>(shape: impl Shape, elements: &[T]) -> Result<Array, ArrayError> {
        let (shape, at) = (shape.extents(), Location::caller());
        let mut bytes = vec![];
        T::write_all(elements, &mut bytes);
        let literal = Literal::from_bytes(shape.iter().copied(), T::TYPE, bytes);
        literal.map(Array::from_literal).ok_or_else(|| {
            let wanted = shape.iter().product();
            ArrayError::Count { given: elements.len(), shape: shape.to_vec(), wanted }.at(at)
        })
    }

    /// The array whose element at each index is `f` of it. Negative extents count as zero.
    pub fn from_fn<T: Element>(shape: impl Shape, mut f: impl FnMut(&[i64]) -> T) -> Array {
        let shape: Vec<i64> = shape.extents().iter().map(|&d| d.max(0)).collect();
        let mut literal = Literal::zeros(shape.iter().copied(), T::TYPE);
        let mut index = vec![0i64; shape.len()];
        let mut bytes = vec![];
        for i in 0..literal.len() {
            bytes.clear();
            f(&index).write(&mut bytes);
            literal.set_element(i, &bytes);
            for d in (0..shape.len()).rev() {
                index[d] += 1;
                if index[d] < shape[d] {
                    break;
                }
                index[d] = 0;
            }
        }
        Array::from_literal(literal)
    }

    /// A single element.
    pub fn scalar<T: Element>(value: T) -> Array {
        Array::from_literal(Literal::scalar(T::TYPE, value.scalar()))
    }

    /// All zeros. Negative extents count as zero.
    pub fn zeros(shape: impl Shape, dtype: ElementType) -> Array {
        Array::from_literal(Literal::zeros(shape.extents().iter().map(|&d| d.max(0)), dtype))
    }

    /// All `value`.
    pub fn full<T: Element>(shape: impl Shape, value: T) -> Array {
        Array::from_fn(shape, |_| value)
    }

    /// A shape and element type without elements: enough to lower and plan a program, not to run it.
    pub fn shape_only(shape: impl Shape, dtype: ElementType) -> Array {
        Array { ty: TensorType::new(shape.extents(), dtype).into(), data: None, placement: None }
    }

    /// The array with the elements of a literal.
    pub fn from_literal(literal: Literal) -> Array {
        let ty = TensorType::new(literal.dims().iter().copied(), literal.elem()).into();
        Array { ty, data: Some(Data::from_host(literal).into()), placement: None }
    }

    /// The array that workers' pieces make up: one per device of `mesh`, in order of device id, each of the shape of
    /// that device's slice. Of several processes each gives all of them, or those of its own devices.
    #[track_caller]
    pub fn from_shards(shape: impl Shape, mesh: &Mesh, spec: &P, pieces: &[Array]) -> Result<Array, ArrayError> {
        let at = Location::caller();
        Array::joined(&shape.extents(), mesh, spec, pieces).map_err(|e| e.at(at))
    }

    fn joined(shape: &[i64], mesh: &Mesh, spec: &P, pieces: &[Array]) -> Result<Array, ArrayError> {
        let sharding = place(spec, mesh, shape)?;
        let here = local_devices(mesh.device_count() as usize);
        let first = match pieces.len() as i64 {
            n if n == mesh.device_count() => 0,
            n if n == here.len() as i64 => here.start as i64,
            _ => return Err(ArrayError::Pieces { given: pieces.len(), wanted: mesh.device_count() }),
        };
        for (i, piece) in pieces.iter().enumerate() {
            let device = first + i as i64;
            let slice = slice_of(&sharding, mesh, shape, device).map_err(placing(shape))?;
            let wanted: Vec<i64> = slice.iter().map(|r| r.end - r.start).collect();
            if piece.shape() != wanted {
                return Err(ArrayError::Piece { piece: i, device, given: piece.shape().to_vec(), wanted });
            }
            if piece.dtype() != pieces[0].dtype() {
                return Err(ArrayError::ElementType { has: piece.dtype(), asked: pieces[0].dtype() });
            }
        }
        let elem = pieces.first().map_or(ElementType::F32, Array::dtype);
        let placement = Placement { mesh: Arc::new(mesh.clone()), sharding };
        Array::from_parts(shape, elem, &placement, |device, _, local, buffer| {
            put(pieces[(device - first) as usize].literal()?, local, buffer);
            Ok(())
        })
    }

    /// An array that is born on a mesh, block by block: `make` returns the elements of a slice, and is asked once for
    /// each block, however many devices hold a copy.
    ///
    /// ```
    /// use meshwork_mesh::{Mesh, P};
    /// use meshwork_runtime::Array;
    ///
    /// let mesh = Mesh::grid(("x", 2), ("y", 2))?;
    /// let mut made = 0;
    /// let x = Array::from_blocks([6, 2], &mesh, &P!["x"], |slice| {
    ///     made += 1;
    ///     Array::from_fn([slice[0].end - slice[0].start, 2], |i| (slice[0].start + i[0]) as f32)
    /// })?;
    /// assert_eq!(made, 2);
    /// assert_eq!(x.to_vec::<f32>()?[6..], [3.0, 3.0, 4.0, 4.0, 5.0, 5.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn from_blocks(
        shape: impl Shape,
        mesh: &Mesh,
        spec: &P,
        mut make: impl FnMut(&[Range<i64>]) -> Array,
    ) -> Result<Array, ArrayError> {
        let shape = &shape.extents()[..];
        let sharding = place(spec, mesh, shape)?;
        // The first block has the element type.
        let first = (local_devices(mesh.device_count() as usize).start as i64).min(mesh.device_count() - 1);
        let slice = slice_of(&sharding, mesh, shape, first).map_err(placing(shape))?;
        let mut ready = Some(make(&slice));
        let elem = ready.as_ref().map_or(ElementType::F32, Array::dtype);
        let placement = Placement { mesh: Arc::new(mesh.clone()), sharding };
        Array::on_mesh(shape, elem, &placement, |device, slice, local, buffer| {
            let block = ready.take().unwrap_or_else(|| make(slice));
            let wanted: Vec<i64> = slice.iter().map(|r| r.end - r.start).collect();
            if block.shape() != wanted {
                let (piece, given) = (device as usize, block.shape().to_vec());
                return Err(ArrayError::Piece { piece, device, given, wanted });
            }
            if block.dtype() != elem {
                return Err(ArrayError::ElementType { has: block.dtype(), asked: elem });
            }
            put(block.literal()?, local, buffer);
            Ok(())
        })
    }

    /// The array placed on a mesh.
    #[track_caller]
    pub fn shard(mut self, mesh: &Mesh, spec: impl AsRef<P>) -> Result<Array, ArrayError> {
        let at = Location::caller();
        let sharding = place(spec.as_ref(), mesh, self.shape()).map_err(|e| e.at(at))?;
        self.placement = Some(Placement { mesh: Arc::new(mesh.clone()), sharding }.into());
        Ok(self)
    }

    /// The array with this placement, which fits its shape, or with none.
    pub fn with_placement(mut self, placement: Option<Placement>) -> Array {
        self.placement = placement.map(Arc::new);
        self
    }

    /// The array with this placement, which fits its shape.
    pub fn placed(mut self, placement: Arc<Placement>) -> Array {
        self.placement = Some(placement);
        self
    }

    /// The same elements in memory of their own, where a clone shares it: to keep an array that is
    /// donated.
    #[track_caller]
    pub fn copy(&self) -> Result<Array, ArrayError> {
        let data = Some(Data::from_host(self.literal()?.clone()).into());
        Ok(Array { data, ..self.clone() })
    }

    /// The extents, outermost first.
    pub fn shape(&self) -> &[i64] {
        &self.ty.dims
    }

    /// The element type.
    pub fn dtype(&self) -> ElementType {
        self.ty.elem
    }

    /// The number of elements.
    pub fn size(&self) -> i64 {
        self.ty.dims.iter().product()
    }

    /// Shape and element type.
    pub fn ty(&self) -> &Arc<TensorType> {
        &self.ty
    }

    /// Where it lives, if it was placed.
    pub fn placement(&self) -> Option<&Placement> {
        self.placement.as_deref()
    }

    /// Its shape, element type and placement, without elements.
    pub fn outline(&self) -> Array {
        Array { data: None, ..self.clone() }
    }

    /// The elements; an error for an array that is [only a shape](Array::shape_only).
    #[track_caller]
    pub fn literal(&self) -> Result<&Literal, ArrayError> {
        let at = Location::caller();
        let host = || self.data()?.host()?.ok_or_else(|| self.is_abstract());
        host().map_err(|e| e.at(at))
    }

    /// An error for an array that is only a shape, or that was donated.
    pub fn check_present(&self) -> Result<(), ArrayError> {
        self.data().map(|_| ())
    }

    fn data(&self) -> Result<&Arc<Data>, ArrayError> {
        let data = self.data.as_ref().ok_or_else(|| self.is_abstract())?;
        match data.donated_at() {
            None => Ok(data),
            Some(at) => Err(ArrayError::Donated { shape: self.shape().to_vec(), at }),
        }
    }

    /// The same array with the elements of this one, which is donated to the call at `at`.
    pub fn donate(&self, at: SourceLine) -> Array {
        let data = self.data.as_ref().map(|data| Arc::new(data.donate(at)));
        Array { data, ..self.clone() }
    }

    /// The same elements under another owner: donating this array does not take them from that one.
    pub fn hold(&self) -> Array {
        let data = self.data.as_ref().map(|data| Arc::new(data.hold()));
        Array { data, ..self.clone() }
    }

    /// Tells arrays apart that do not share their elements.
    pub fn identity(&self) -> Option<*const ()> {
        self.data.as_ref().map(|data| Arc::as_ptr(data).cast())
    }

    fn is_abstract(&self) -> ArrayError {
        ArrayError::Abstract { shape: self.shape().to_vec() }
    }

    /// The array on devices in these shards.
    pub fn from_devices(sharded: Sharded) -> Array {
        let ty = sharded.ty().clone();
        Array { ty, data: Some(Data::from_devices(sharded).into()), placement: None }
    }

    /// Its shards as they are, if it is on devices.
    pub fn sharded(&self) -> Option<Sharded> {
        self.data.as_ref().and_then(|data| data.sharded())
    }

    /// Its shards on one device, or on a mesh: moved if nothing else holds this array.
    pub fn into_devices(mut self, place: Place<'_>) -> Result<Sharded, ArrayError> {
        self.check_present()?;
        let shards = match self.data.take().map(Arc::try_unwrap) {
            Some(Ok(data)) => data.into_devices(place)?,
            Some(Err(data)) => data.devices(place)?,
            None => None,
        };
        shards.ok_or_else(|| self.is_abstract())
    }

    /// As [`into_devices`](Array::into_devices), for an engine whose devices have memory of their own: `adopt` moves
    /// shards there. If others hold this array, they have it there from now on, so that it moves once.
    pub fn into_devices_by(
        mut self,
        place: Place<'_>,
        adopt: impl FnOnce(Sharded) -> Result<Sharded, ArrayError>,
    ) -> Result<Sharded, ArrayError> {
        self.check_present()?;
        let data = self.data.take();
        let none = || self.is_abstract();
        match data.map(Arc::try_unwrap) {
            Some(Ok(data)) => adopt(data.into_devices(place)?.ok_or_else(none)?),
            Some(Err(data)) => {
                let adopted = adopt(data.devices(place)?.ok_or_else(none)?)?;
                data.keep(&adopted);
                Ok(adopted)
            }
            None => Err(none()),
        }
    }

    /// The elements in row-major order; an error if they are of another type.
    #[track_caller]
    pub fn to_vec<T: Element>(&self) -> Result<Vec<T>, ArrayError> {
        if self.dtype() != T::TYPE {
            return Err(ArrayError::ElementType { has: self.dtype(), asked: T::TYPE }.at(Location::caller()));
        }
        Ok(T::read_all(self.literal()?.bytes()))
    }

    /// The elements in row-major order, converted; of complex numbers the real parts.
    #[track_caller]
    pub fn to_f64s(&self) -> Result<Vec<f64>, ArrayError> {
        Ok(self.literal()?.to_f64s())
    }

    /// The only element.
    #[track_caller]
    pub fn item<T: Element>(&self) -> Result<T, ArrayError> {
        match self.to_vec::<T>()?[..] {
            [one] => Ok(one),
            _ => Err(ArrayError::NotScalar { shape: self.shape().to_vec() }.at(Location::caller())),
        }
    }

    /// What each device holds, in order of position in the mesh; one device with everything if it is not placed.
    pub fn shards(&self) -> Vec<Shard> {
        let whole = || vec![Shard { device: 0, slice: self.shape().iter().map(|&n| 0..n).collect() }];
        match &self.placement {
            None => whole(),
            // The placement was checked against the shape when it was given.
            Some(p) => slices_of(&p.sharding, &p.mesh, self.shape())
                .map_or_else(|_| whole(), |all| all.map(|(device, slice)| Shard { device, slice }).collect()),
        }
    }

    /// The part that one device holds, padding cut off.
    pub fn shard_data(&self, device: i64) -> Result<Array, ArrayError> {
        let Some(p) = &self.placement else { return Ok(self.clone()) };
        let slice = slice_of(&p.sharding, &p.mesh, self.shape(), device).map_err(placing(self.shape()))?;
        let extents = lengths(&slice);
        let mut part = Literal::zeros(extents.iter().copied(), self.dtype());
        let zero = vec![0; extents.len()];
        let to = Region { dims: &extents, start: &zero };
        let size = self.dtype().storage_bytes();
        if p.sharding.unreduced.is_empty() {
            let from = Region { dims: self.shape(), start: &starts(&slice) };
            copy(self.literal()?.bytes(), &from, part.bytes_mut(), &to, &extents, size);
        } else {
            let devices = self.clone().into_devices(Some((&p.mesh, &Arc::new(p.sharding.clone()))))?;
            let from = Region { dims: devices.local_dims(), start: &zero };
            let shard = devices.shards()[device as usize].to_bytes()?;
            copy(&shard, &from, part.bytes_mut(), &to, &extents, size);
        }
        Ok(Array::from_literal(part))
    }

    /// Whether all elements of both are within `tolerance` of each other.
    pub fn all_close(&self, other: &Array, tolerance: f64) -> bool {
        match (self.to_f64s(), other.to_f64s()) {
            (Ok(a), Ok(b)) => {
                self.shape() == other.shape()
                    && a.iter().zip(&b).all(|(x, y)| x == y || (x - y).abs() <= tolerance || (x.is_nan() && y.is_nan()))
            }
            _ => false,
        }
    }
}

/// The sharding of an array of this shape that is placed so.
pub fn place(spec: &P, mesh: &Mesh, shape: &[i64]) -> Result<Sharding, ArrayError> {
    let what = || format!("{spec} for an array of shape {shape:?}");
    let sharding = spec.sharding(MeshRef::from(mesh.clone()), mesh, shape.len());
    sharding.map_err(|error| ArrayError::Placement { what: what(), error: error.into() })
}

impl<T: Element> From<Vec<T>> for Array {
    fn from(elements: Vec<T>) -> Array {
        Array::from(&elements[..])
    }
}

impl<T: Element> From<&[T]> for Array {
    fn from(elements: &[T]) -> Array {
        // As many as the shape says.
        Array::from_slice(elements.len(), elements).expect("an element for each position")
    }
}
