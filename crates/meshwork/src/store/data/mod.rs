//! Data loading: the pieces of a batch that processes have loaded as one global array, and back.
//!
//! ```
//! use meshwork::data::GlobalBatch;
//! use meshwork::prelude::*;
//!
//! // Two processes have loaded 3 and 2 rows; the batch is 8.
//! let (first, second) = (Array::from([1.0f32, 2.0, 3.0]), Array::from([4.0f32, 5.0]));
//! let mesh = Mesh::grid(("data", 2), ("model", 2))?;
//! let batch = GlobalBatch::new(&mesh).over(&["data"]).rows(8).assemble(&[first, second])?;
//! assert_eq!(batch.array.to_vec::<f32>()?, [1.0, 2.0, 3.0, 4.0, 5.0, 0.0, 0.0, 0.0]);
//! assert_eq!(batch.array.shards()[2].slice, [4..8]);
//! assert_eq!(batch.mask.to_vec::<f32>()?, [1.0, 1.0, 1.0, 1.0, 1.0, 0.0, 0.0, 0.0]);
//! assert_eq!(batch.pieces()?[1].to_vec::<f32>()?, [4.0, 5.0]);
//! # Ok::<(), meshwork::Error>(())
//! ```
//!
//! Under `mpirun`, each process calls [`assemble_local`](GlobalBatch::assemble_local) with what it has loaded, and gets
//! its rows of a result back with [`local_piece_of`](Batch::local_piece_of).

mod exchange;
mod tree;

pub use tree::{BatchTree, local_data_to_global_array};

use std::collections::HashMap;
use std::ops::Range;

use meshwork_ir::{ElementType, Literal};
use meshwork_mesh::{AxisRef, Mesh, slice_of};
use meshwork_runtime::Runtime;

use crate::error::{ArrayError, Error, Result};
use crate::spec::P;
use exchange::Exchange;
use meshwork_runtime::array::place;
use meshwork_runtime::array::slices::{Slice, copy, lengths, overlap};
use meshwork_runtime::array::{Stored, local_devices};
use meshwork_runtime::boxes::Region;
use meshwork_runtime::{Array, Placement};

/// How pieces become a batch.
#[derive(Clone, Debug)]
pub struct GlobalBatch {
    mesh: Mesh,
    dim: usize,
    axes: Option<Vec<String>>,
    rows: Option<i64>,
}

/// A batch over the mesh.
#[derive(Clone, Debug)]
pub struct Batch {
    /// The pieces one after the other in the order of the processes, then zeros.
    pub array: Array,
    /// 1 for a row that was given, 0 for one that fills the batch up; placed like the rows.
    pub mask: Array,
    /// Rows of each piece.
    pub lengths: Vec<i64>,
    dim: usize,
}

/// The shape and placement of a batch.
struct Outline {
    shape: Vec<i64>,
    lengths: Vec<i64>,
    array: P,
    mask: P,
}

impl GlobalBatch {
    /// Along the first dimension, over all axes of the mesh.
    pub fn new(mesh: &Mesh) -> GlobalBatch {
        GlobalBatch { mesh: mesh.clone(), dim: 0, axes: None, rows: None }
    }

    /// Along dimension `dim`.
    pub fn along(mut self, dim: usize) -> GlobalBatch {
        self.dim = dim;
        self
    }

    /// Over these axes only, major to minor; over the others the batch is copied.
    pub fn over(mut self, axes: &[&str]) -> GlobalBatch {
        self.axes = Some(axes.iter().map(ToString::to_string).collect());
        self
    }

    /// Fills a batch that is too short up to `rows` rows, so that one program serves all batches. More are an error.
    pub fn rows(mut self, rows: i64) -> GlobalBatch {
        self.rows = Some(rows);
        self
    }

    /// The batch that the pieces of all processes make up, in their order. They may have different numbers of rows,
    /// and none. The order of the mesh's devices does not matter.
    pub fn assemble(&self, pieces: &[Array]) -> Result<Batch> {
        let types: Vec<(Vec<i64>, ElementType)> = pieces.iter().map(|p| (p.shape().to_vec(), p.dtype())).collect();
        let outline = self.outline(&types)?;
        let placement = self.place(&outline.array, &outline.shape)?;
        let held = rows_of(&outline, self.dim);
        let elem = types[0].1;
        let array = Array::on_mesh(&outline.shape, elem, &placement, |_, slice, local, buffer| {
            for (piece, held) in pieces.iter().zip(&held) {
                let Some(both) = overlap(slice, held) else { continue };
                let start = |base: &[Range<i64>]| both.iter().zip(base).map(|(r, b)| r.start - b.start).collect();
                let (from, to): (Vec<i64>, Vec<i64>) = (start(held), start(slice));
                let (from, to) = (Region { dims: piece.shape(), start: &from }, Region { dims: local, start: &to });
                copy(piece.literal()?.bytes(), &from, buffer, &to, &lengths(&both), elem.storage_bytes());
            }
            Ok::<(), Error>(())
        })?;
        self.batch(array, outline)
    }

    /// The batch that the `local` piece of this process and those of all others make up, in the order of ranks: as
    /// [`assemble`](GlobalBatch::assemble), each process giving its own. All call it. Rows that are already where their
    /// devices are do not travel.
    pub fn assemble_local(&self, local: &Array) -> Result<Batch> {
        let runtime = Runtime::init()?;
        let types = tell_types(&runtime, local)?;
        let outline = self.outline(&types)?;
        let placement = self.place(&outline.array, &outline.shape)?;
        let (mesh, count) = (&placement.mesh, placement.mesh.device_count());
        let mut wanted: Vec<Vec<Slice>> = vec![vec![]; runtime.size()];
        for device in 0..count {
            let slice =
                slice_of(&placement.sharding, mesh, &outline.shape, device).map_err(misplaced(&outline.shape))?;
            // An array of one device is with all.
            let ranks = if count > 1 {
                vec![runtime.rank_of(device as usize, count as usize)]
            } else {
                (0..runtime.size()).collect()
            };
            for rank in ranks {
                if !wanted[rank].contains(&slice) {
                    wanted[rank].push(slice.clone());
                }
            }
        }
        let elem = types[0].1;
        let pieces =
            rows_of(&outline, self.dim).into_iter().enumerate().map(|(rank, rows)| (rows, vec![rank])).collect();
        let exchange = Exchange { pieces, wanted, element: elem.storage_bytes() };
        let own = local.literal()?;
        let blocks = exchange.run(&runtime, |_| Ok(Stored::whole(own)))?;
        let blocks: HashMap<&Slice, Vec<u8>> = exchange.wanted[runtime.rank()].iter().zip(blocks).collect();
        let array = Array::on_mesh(&outline.shape, elem, &placement, |_, slice, dims, buffer| {
            if let Some(block) = blocks.get(&slice.to_vec()) {
                let (extents, zero) = (lengths(slice), vec![0; dims.len()]);
                let (from, to) = (Region { dims: &extents, start: &zero }, Region { dims, start: &zero });
                copy(block, &from, buffer, &to, &extents, elem.storage_bytes());
            }
            Ok::<(), Error>(())
        })?;
        self.batch(array, outline)
    }

    /// Shapes and placements of the batch that pieces of these types make up.
    fn outline(&self, types: &[(Vec<i64>, ElementType)]) -> Result<Outline> {
        let Some((first, elem)) = types.first() else { return Err(invalid("there are no pieces")) };
        let dim = self.dim;
        if dim >= first.len() {
            return Err(invalid(format!("pieces of shape {first:?} have no dimension {dim}")));
        }
        let mut lengths = vec![];
        for (i, (shape, other)) in types.iter().enumerate() {
            let fits = |(d, (a, b)): (usize, (&i64, &i64))| d == dim || a == b;
            if shape.len() != first.len() || !shape.iter().zip(first).enumerate().all(fits) {
                return Err(invalid(format!(
                    "piece {i} has shape {shape:?} and piece 0 {first:?}; only dimension {dim} may differ"
                )));
            }
            if other != elem {
                return Err(ArrayError::ElementType { has: *other, asked: *elem }.into());
            }
            lengths.push(shape[dim]);
        }
        let given: i64 = lengths.iter().sum();
        let rows = self.rows.unwrap_or(given);
        if given > rows {
            return Err(invalid(format!("the pieces have {lengths:?} rows, {given} in all; the batch has {rows}")));
        }
        let mut shape = first.clone();
        shape[dim] = rows;
        let names: Vec<String> = match &self.axes {
            Some(axes) => axes.clone(),
            None => self.mesh.axes().iter().map(|a| a.name.to_string()).collect(),
        };
        let over: Vec<AxisRef> = names.iter().map(|n| n.as_str().into()).collect();
        let mut dims = vec![vec![]; dim];
        dims.push(over.clone());
        Ok(Outline { shape, lengths, array: P::of(dims), mask: P::of(vec![over]) })
    }

    fn place(&self, spec: &P, shape: &[i64]) -> Result<Placement> {
        Ok(Placement { mesh: self.mesh.clone().into(), sharding: place(spec, &self.mesh, shape)? })
    }

    fn batch(&self, array: Array, outline: Outline) -> Result<Batch> {
        let given: i64 = outline.lengths.iter().sum();
        let mask = Array::from_fn([outline.shape[self.dim]], |i| if i[0] < given { 1.0f32 } else { 0.0 });
        Ok(Batch { array, mask: mask.shard(&self.mesh, outline.mask)?, lengths: outline.lengths, dim: self.dim })
    }
}

impl Batch {
    /// The pieces again, without what filled the batch up.
    pub fn pieces(&self) -> Result<Vec<Array>> {
        self.pieces_of(&self.array)
    }

    /// The pieces of another array with the same rows, such as what a model made of the batch.
    pub fn pieces_of(&self, array: &Array) -> Result<Vec<Array>> {
        let slices = self.slices_of(array)?;
        let literal = array.literal()?;
        let size = literal.elem().storage_bytes();
        let mut out = vec![];
        for slice in slices {
            let start: Vec<i64> = slice.iter().map(|r| r.start).collect();
            let (extents, zero) = (lengths(&slice), vec![0; slice.len()]);
            let mut bytes = vec![0; extents.iter().product::<i64>() as usize * size];
            let (from, to) = (Region { dims: array.shape(), start: &start }, Region { dims: &extents, start: &zero });
            copy(literal.bytes(), &from, &mut bytes, &to, &extents, size);
            out.push(Array::from_literal(filled(extents, literal.elem(), bytes)?));
        }
        Ok(out)
    }

    /// The piece of this process again. All call it; rows that are here do not travel.
    pub fn local_piece(&self) -> Result<Array> {
        self.local_piece_of(&self.array)
    }

    /// The piece of this process of another array with the same rows. All call it.
    pub fn local_piece_of(&self, array: &Array) -> Result<Array> {
        let runtime = Runtime::init()?;
        let slices = self.slices_of(array)?;
        if slices.len() != runtime.size() {
            let (pieces, ranks) = (slices.len(), runtime.size());
            return Err(invalid(format!("the batch was made of {pieces} pieces, and there are {ranks} processes")));
        }
        array.check_present()?;
        let holders = array.holders()?;
        let count = array.split().map_or(1, |(mesh, _)| mesh.device_count());
        let here = local_devices(count as usize);
        let ranks = |devices: &[usize]| -> Vec<usize> {
            if devices.is_empty() {
                (0..runtime.size()).collect()
            } else {
                devices.iter().map(|&d| runtime.rank_of(d, count as usize)).collect()
            }
        };
        let pieces = holders.iter().map(|(slice, devices)| (slice.clone(), ranks(devices))).collect();
        let wanted = slices.into_iter().map(|slice| vec![slice]).collect();
        let exchange = Exchange { pieces, wanted, element: array.dtype().storage_bytes() };
        let mut out = exchange.run(&runtime, |piece| {
            let (slice, devices) = &holders[piece];
            let device = devices.iter().copied().find(|&d| here.contains(&d));
            Ok(array.stored(device.unwrap_or(0), slice)?)
        })?;
        let extents = lengths(&exchange.wanted[runtime.rank()][0]);
        Ok(Array::from_literal(filled(extents, array.dtype(), out.swap_remove(0))?))
    }

    /// Where each piece is in an array with the rows of the batch.
    fn slices_of(&self, array: &Array) -> Result<Vec<Slice>> {
        let rows = self.mask.shape()[0];
        if array.shape().get(self.dim) != Some(&rows) {
            return Err(invalid(format!(
                "an array of shape {:?} does not have the {rows} rows of the batch along dimension {}",
                array.shape(),
                self.dim
            )));
        }
        Ok(ranges(&self.lengths).map(|rows| along(array.shape(), self.dim, rows)).collect())
    }
}

/// The error for pieces that do not form a batch.
fn invalid(message: impl Into<String>) -> Error {
    Error::Invalid { what: "batch", message: message.into() }
}

/// Consecutive ranges of these lengths.
fn ranges(lengths: &[i64]) -> impl Iterator<Item = Range<i64>> {
    lengths.iter().scan(0, |end, &length| {
        *end += length;
        Some(*end - length..*end)
    })
}

/// The whole array, but this range of one dimension.
fn along(shape: &[i64], dim: usize, rows: Range<i64>) -> Slice {
    let mut slice: Slice = shape.iter().map(|&n| 0..n).collect();
    slice[dim] = rows;
    slice
}

/// Where each piece is in the batch.
fn rows_of(outline: &Outline, dim: usize) -> Vec<Slice> {
    ranges(&outline.lengths).map(|rows| along(&outline.shape, dim, rows)).collect()
}

/// Shape and element type of the pieces of all processes; the same error on all if one has none.
fn tell_types(runtime: &Runtime, local: &Array) -> Result<Vec<(Vec<i64>, ElementType)>> {
    let dims: Vec<String> = local.shape().iter().map(ToString::to_string).collect();
    let own = match local.check_present() {
        Ok(()) => format!("{} {}", local.dtype(), dims.join(" ")),
        Err(error) => format!("! {error}"),
    };
    let mut types = vec![];
    for (rank, text) in runtime.all_gather(own.as_bytes())?.iter().enumerate() {
        let text = String::from_utf8_lossy(text);
        let mut words = text.split(' ');
        let Some(elem) = words.next().and_then(ElementType::from_text) else {
            return Err(invalid(format!("rank {rank}: {}", text.trim_start_matches("! "))));
        };
        types.push((words.filter_map(|w| w.parse().ok()).collect(), elem));
    }
    Ok(types)
}

fn misplaced(shape: &[i64]) -> impl Fn(meshwork_mesh::ShardingError) -> Error + use<> {
    let what = format!("batch of shape {shape:?}");
    move |error| Error::Sharding { what: what.clone(), error: Box::new(error) }
}

fn filled(shape: Vec<i64>, elem: ElementType, bytes: Vec<u8>) -> Result<Literal> {
    let given = bytes.len() / elem.storage_bytes().max(1);
    let wanted = shape.iter().product();
    Literal::from_bytes(shape.iter().copied(), elem, bytes)
        .ok_or_else(|| ArrayError::Count { given, shape, wanted }.into())
}
