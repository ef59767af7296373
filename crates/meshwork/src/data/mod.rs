//! Data: what each process has loaded of a batch, as one global array, and back.
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

use meshwork_ir::Literal;
use meshwork_mesh::{AxisRef, Mesh};

use crate::Array;
use crate::error::{ArrayError, Error, Result};
use crate::spec::P;

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
        let Some(first) = pieces.first() else { return Err(Error::Jit("a batch of no pieces".into())) };
        let dim = self.dim;
        if dim >= first.shape().len() {
            return Err(Error::Jit(format!("pieces of shape {:?} have no dimension {dim}", first.shape())));
        }
        let mut lengths = vec![];
        for (i, piece) in pieces.iter().enumerate() {
            let fits = |(d, (a, b)): (usize, (&i64, &i64))| d == dim || a == b;
            let same = piece.shape().len() == first.shape().len();
            if !same || !piece.shape().iter().zip(first.shape()).enumerate().all(fits) {
                let (a, b) = (piece.shape(), first.shape());
                return Err(Error::Jit(format!(
                    "piece {i} has shape {a:?} and piece 0 {b:?}; only dimension {dim} may differ"
                )));
            }
            if piece.dtype() != first.dtype() {
                return Err(ArrayError::ElementType { has: piece.dtype(), asked: first.dtype() }.into());
            }
            lengths.push(piece.shape()[dim]);
        }
        let given: i64 = lengths.iter().sum();
        let rows = self.rows.unwrap_or(given);
        if given > rows {
            return Err(Error::Jit(format!("the pieces have {lengths:?} rows, {given} in all; the batch has {rows}")));
        }
        let mut shape = first.shape().to_vec();
        shape[dim] = rows;
        let names: Vec<String> = match &self.axes {
            Some(axes) => axes.clone(),
            None => self.mesh.axes().iter().map(|a| a.name.to_string()).collect(),
        };
        let over: Vec<AxisRef> = names.iter().map(|n| n.as_str().into()).collect();
        let mut dims = vec![vec![]; dim];
        dims.push(over.clone());
        let array = Array::from_literal(joined(pieces, &shape, dim)?).shard(&self.mesh, P::of(dims))?;
        let mask = Array::from_fn([rows], |i| if i[0] < given { 1.0f32 } else { 0.0 });
        Ok(Batch { array, mask: mask.shard(&self.mesh, P::of(vec![over]))?, lengths, dim })
    }
}

impl Batch {
    /// The pieces again, without what filled the batch up.
    pub fn pieces(&self) -> Result<Vec<Array>> {
        self.pieces_of(&self.array)
    }

    /// The pieces of another array with the same rows, such as what a model made of the batch.
    pub fn pieces_of(&self, array: &Array) -> Result<Vec<Array>> {
        let rows = self.mask.shape()[0];
        if array.shape().get(self.dim) != Some(&rows) {
            return Err(Error::Jit(format!(
                "an array of shape {:?} does not have the {rows} rows of the batch along dimension {}",
                array.shape(),
                self.dim
            )));
        }
        let literal = array.literal()?;
        let (outer, inner) = around(array.shape(), self.dim, literal.elem().storage_bytes());
        let mut start = 0;
        let mut out = vec![];
        for &length in &self.lengths {
            let mut shape = array.shape().to_vec();
            shape[self.dim] = length;
            let mut bytes = Vec::with_capacity(outer * length as usize * inner);
            for o in 0..outer {
                let from = (o * rows as usize + start) * inner;
                bytes.extend_from_slice(&literal.bytes()[from..from + length as usize * inner]);
            }
            start += length as usize;
            out.push(Array::from_literal(filled(shape, literal, bytes)?));
        }
        Ok(out)
    }
}

/// How often a dimension is run through, and the bytes of one of its rows.
fn around(shape: &[i64], dim: usize, element: usize) -> (usize, usize) {
    let count = |dims: &[i64]| dims.iter().product::<i64>() as usize;
    (count(&shape[..dim]), count(&shape[dim + 1..]) * element)
}

fn filled(shape: Vec<i64>, like: &Literal, bytes: Vec<u8>) -> Result<Literal> {
    let given = bytes.len() / like.elem().storage_bytes().max(1);
    let wanted = shape.iter().product();
    Literal::from_bytes(shape.iter().copied(), like.elem(), bytes)
        .ok_or_else(|| ArrayError::Count { given, shape, wanted }.into())
}

/// Pieces one after the other along `dim`, filled up with zeros to `shape`.
fn joined(pieces: &[Array], shape: &[i64], dim: usize) -> Result<Literal> {
    let first = pieces[0].literal()?;
    let (outer, inner) = around(shape, dim, first.elem().storage_bytes());
    let whole = shape[dim] as usize * inner;
    let mut bytes = vec![0u8; outer * whole];
    let mut start = 0;
    for piece in pieces {
        let (literal, length) = (piece.literal()?, piece.shape()[dim] as usize * inner);
        for o in 0..outer {
            let to = o * whole + start;
            bytes[to..to + length].copy_from_slice(&literal.bytes()[o * length..(o + 1) * length]);
        }
        start += length;
    }
    filled(shape.to_vec(), first, bytes)
}
