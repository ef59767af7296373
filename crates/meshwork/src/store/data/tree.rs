//! Trees of batches: all arrays have the same rows.

use super::{Batch, GlobalBatch, invalid};
use crate::error::{Error, Result};
use crate::tree::{HostTree, map_arrays, named_arrays};
use meshwork_mesh::Mesh;
use meshwork_runtime::Array;

/// A tree of arrays over the mesh with the same rows. Made by [`GlobalBatch::assemble_tree`] and
/// [`GlobalBatch::assemble_local_tree`].
#[derive(Clone, Debug)]
pub struct BatchTree<H> {
    /// The arrays.
    pub tree: H,
    /// 1 for a row that was given, 0 for one that fills the batch up; placed like the rows.
    pub mask: Array,
    /// Rows of each piece.
    pub lengths: Vec<i64>,
}

/// A tree of what this process has loaded, and all others with theirs, as a tree of global arrays: along dimension `dim`, over these
/// axes of the mesh or over all of them. All processes call it, and may have different numbers of rows. [`GlobalBatch`] also fills
/// short batches up.
///
/// ```
/// use meshwork::data::local_data_to_global_array;
/// use meshwork::prelude::*;
///
/// let mesh = Mesh::grid(("dp", 2), ("tp", 2))?;
/// let loaded = (Array::zeros([6, 3], F32), Array::zeros([6], I32));
/// let (x, y) = local_data_to_global_array(&loaded, &mesh, 0, Some(&["dp"]))?;
/// assert_eq!((x.shards()[2].slice.clone(), y.shards()[2].slice.clone()), (vec![3..6, 0..3], vec![3..6]));
/// # Ok::<(), meshwork::Error>(())
/// ```
pub fn local_data_to_global_array<H: HostTree>(tree: &H, mesh: &Mesh, dim: usize, axes: Option<&[&str]>) -> Result<H> {
    let batch = GlobalBatch::new(mesh).along(dim);
    let batch = axes.map_or(batch.clone(), |axes| batch.over(axes));
    Ok(batch.assemble_local_tree(tree)?.tree)
}

impl GlobalBatch {
    /// As [`assemble`](GlobalBatch::assemble), for the trees of all processes in their order.
    ///
    /// ```
    /// use meshwork::data::GlobalBatch;
    /// use meshwork::prelude::*;
    ///
    /// let piece = |rows: i64| (Array::full([rows, 4], 1.0f32), vec![Array::zeros([rows], I32)]);
    /// let batch = GlobalBatch::new(&Mesh::linear("data", 2)?).rows(8).assemble_tree(&[piece(3), piece(2)])?;
    /// assert_eq!((batch.tree.0.shape(), batch.tree.1[0].shape()), (&[8, 4][..], &[8][..]));
    /// assert_eq!(batch.mask.to_vec::<f32>()?.iter().sum::<f32>(), 5.0);
    /// # Ok::<(), meshwork::Error>(())
    /// ```
    pub fn assemble_tree<H: HostTree>(&self, pieces: &[H]) -> Result<BatchTree<H>> {
        let Some(first) = pieces.first() else { return Err(invalid("there are no pieces")) };
        let all: Vec<Vec<(String, Array)>> = pieces.iter().map(named_arrays::<H::Tree>).collect();
        let paths = |arrays: &[(String, Array)]| arrays.iter().map(|(path, _)| path.clone()).collect::<Vec<_>>();
        let own = paths(&all[0]);
        if let Some(i) = all.iter().position(|arrays| paths(arrays) != own) {
            return Err(invalid(format!("piece {i} has the arrays {:?} and piece 0 {own:?}", paths(&all[i]))));
        }
        let mut number = 0;
        self.of_tree(first, |_| {
            number += 1;
            let members: Vec<Array> = all.iter().map(|arrays| arrays[number - 1].1.clone()).collect();
            self.assemble(&members)
        })
    }

    /// As [`assemble_local`](GlobalBatch::assemble_local), for a tree. All processes call it with trees of the same structure.
    pub fn assemble_local_tree<H: HostTree>(&self, local: &H) -> Result<BatchTree<H>> {
        self.of_tree(local, |array| self.assemble_local(array))
    }

    fn of_tree<H: HostTree>(
        &self,
        like: &H,
        mut assemble: impl FnMut(&Array) -> Result<Batch>,
    ) -> Result<BatchTree<H>> {
        let mut first: Option<(String, Batch)> = None;
        let tree = map_arrays::<H::Tree, Error>(like, |path, array| {
            let batch = assemble(array)?;
            let (known, other) = first.get_or_insert_with(|| (path.to_string(), batch.clone()));
            if other.lengths != batch.lengths {
                let (one, two) = (&other.lengths, &batch.lengths);
                return Err(invalid(format!("{known:?} has {one:?} rows, and {path:?} {two:?}")));
            }
            Ok(batch.array)
        })?;
        let Some((_, Batch { mask, lengths, .. })) = first else { return Err(invalid("the tree has no arrays")) };
        Ok(BatchTree { tree, mask, lengths })
    }
}
