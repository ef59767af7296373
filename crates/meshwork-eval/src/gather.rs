//! Gather and scatter: windows of a tensor at positions that are data.

use super::fault::Fault;
use super::index::{each_index, index_at, position};
use super::value::allocate;
use meshwork_ir::Literal;
use meshwork_ir::attr::{GatherDims, ScatterDims};

/// How an index tensor names window corners; shared by both ops.
struct Corners<'a> {
    indices: &'a Literal,
    /// The dimension of the index tensor that holds the components of one index.
    vector_dim: usize,
    /// Operand dimension of each component.
    map: &'a [i64],
    operand_batching: &'a [i64],
    indices_batching: &'a [i64],
}

impl Corners<'_> {
    /// The corner in an operand of this rank that the index at `batch` means.
    fn at(&self, batch: &[i64], rank: usize) -> Vec<i64> {
        let mut corner = vec![0; rank];
        for (component, &d) in self.map.iter().enumerate() {
            let mut at = batch.to_vec();
            if self.vector_dim < self.indices.dims().len() {
                at.insert(self.vector_dim, component as i64);
            }
            corner[d as usize] = index_at(self.indices, position(self.indices.dims(), &at));
        }
        for (&o, &i) in self.operand_batching.iter().zip(self.indices_batching) {
            let i = i as usize;
            corner[o as usize] = batch[if i > self.vector_dim { i - 1 } else { i }];
        }
        corner
    }
}

/// Of an index into a gather's result or a scatter's updates, the part outside the window dimensions.
fn outside(index: &[i64], window: &[i64]) -> Vec<i64> {
    (0..index.len()).filter(|&d| !window.contains(&(d as i64))).map(|d| index[d]).collect()
}

/// The dimensions below `rank` that are in neither list.
fn others(rank: usize, a: &[i64], b: &[i64]) -> Vec<usize> {
    (0..rank).filter(|&d| !a.contains(&(d as i64)) && !b.contains(&(d as i64))).collect()
}

/// `stablehlo.gather`: windows whose corners are clamped so that they stay inside `x`.
pub(crate) fn gather(x: &Literal, indices: &Literal, dims: &GatherDims, sizes: &[i64]) -> Result<Literal, Fault> {
    let inside = |(&size, &n): (&i64, &i64)| (0..=n).contains(&size);
    let rank = x.dims().len();
    if sizes.len() != rank || !sizes.iter().zip(x.dims()).all(inside) {
        return Err(Fault::invalid(format!("slices of {sizes:?} do not fit in {}", x.ty())));
    }
    let corners = Corners {
        indices,
        vector_dim: dims.index_vector_dim as usize,
        map: &dims.start_index_map,
        operand_batching: &dims.operand_batching_dims,
        indices_batching: &dims.start_indices_batching_dims,
    };
    let kept = others(rank, &dims.collapsed_slice_dims, &dims.operand_batching_dims);
    let mut batch = indices.dims().to_vec();
    if corners.vector_dim < batch.len() {
        batch.remove(corners.vector_dim);
    }
    let mut batch = batch.into_iter();
    let mut shape = vec![];
    for d in 0..(batch.len() + kept.len()) as i64 {
        shape.push(match dims.offset_dims.iter().position(|&o| o == d) {
            Some(i) => sizes[kept[i]],
            None => batch.next().ok_or_else(|| Fault::invalid("offset_dims do not fit the slices"))?,
        });
    }
    let mut out = allocate(&shape, x.elem())?;
    each_index(&shape, |at, index| {
        let corner = corners.at(&outside(index, &dims.offset_dims), rank);
        let mut from: Vec<i64> = (0..rank).map(|d| corner[d].clamp(0, x.dims()[d] - sizes[d])).collect();
        kept.iter().zip(&dims.offset_dims).for_each(|(&d, &o)| from[d] += index[o as usize]);
        out.set_element(at, x.element(position(x.dims(), &from)));
        Ok(())
    })?;
    Ok(out)
}

/// Where each update of a scatter goes: calls `visit(position in the input, position in the updates)` for every
/// update element that is inside the input, window after window.
pub(crate) fn scatter_positions(
    input_dims: &[i64],
    indices: &Literal,
    update_dims: &[i64],
    dims: &ScatterDims,
    mut visit: impl FnMut(usize, usize) -> Result<(), Fault>,
) -> Result<(), Fault> {
    let corners = Corners {
        indices,
        vector_dim: dims.index_vector_dim as usize,
        map: &dims.scatter_dims_to_operand_dims,
        operand_batching: &dims.input_batching_dims,
        indices_batching: &dims.scatter_indices_batching_dims,
    };
    let kept = others(input_dims.len(), &dims.inserted_window_dims, &dims.input_batching_dims);
    // Window after window, as the engine and XLA do it: the last one stays where several replace an element.
    let window = |d: &usize| dims.update_window_dims.contains(&(*d as i64));
    let (inner, mut order): (Vec<usize>, Vec<usize>) = (0..update_dims.len()).partition(window);
    order.extend(inner);
    let extents: Vec<i64> = order.iter().map(|&d| update_dims[d]).collect();
    let mut index = vec![0; order.len()];
    each_index(&extents, |_, walked| {
        order.iter().zip(walked).for_each(|(&d, &i)| index[d] = i);
        let at = position(update_dims, &index);
        let mut to = corners.at(&outside(&index, &dims.update_window_dims), input_dims.len());
        for (&d, &w) in kept.iter().zip(&dims.update_window_dims) {
            to[d] = to[d].saturating_add(index[w as usize]);
        }
        let inside = to.iter().zip(input_dims).all(|(i, n)| (0..*n).contains(i));
        if inside { visit(position(input_dims, &to), at) } else { Ok(()) }
    })
}

/// `stablehlo.torch_index_select`: picks slices of `x` along `dim` by `indices`, sharing `batch_dims` leading
/// dimensions.
pub(crate) fn torch_index_select(
    x: &Literal,
    indices: &Literal,
    dim: usize,
    batch_dims: usize,
) -> Result<Literal, Fault> {
    let picked = indices.dims().len() - batch_dims;
    let shape = [&x.dims()[..dim], &indices.dims()[batch_dims..], &x.dims()[dim + 1..]].concat();
    let mut out = allocate(&shape, x.elem())?;
    each_index(&shape, |at, index| {
        let which = [&index[..batch_dims], &index[dim..dim + picked]].concat();
        let i = index_at(indices, position(indices.dims(), &which)).clamp(0, (x.dims()[dim] - 1).max(0));
        let from = [&index[..dim], &[i], &index[dim + picked..]].concat();
        out.set_element(at, x.element(position(x.dims(), &from)));
        Ok(())
    })?;
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::tests::i64s;

    fn rows() -> GatherDims {
        GatherDims {
            offset_dims: vec![1],
            collapsed_slice_dims: vec![0],
            start_index_map: vec![0],
            index_vector_dim: 1,
            ..GatherDims::default()
        }
    }

    #[test]
    fn gather_rows_clamps_indices() {
        let x = i64s(&[3, 2], &[0, 1, 10, 11, 20, 21]);
        let i = i64s(&[3, 1], &[2, -5, 99]);
        assert_eq!(gather(&x, &i, &rows(), &[1, 2]).unwrap(), i64s(&[3, 2], &[20, 21, 0, 1, 20, 21]));
        let none = gather(&x, &i64s(&[0, 1], &[]), &rows(), &[1, 2]).unwrap();
        assert_eq!(none, i64s(&[0, 2], &[]));
    }

    #[test]
    fn gather_with_batching_dimension() {
        let x = i64s(&[2, 3], &[0, 1, 2, 10, 11, 12]);
        let dims = GatherDims {
            collapsed_slice_dims: vec![1],
            operand_batching_dims: vec![0],
            start_indices_batching_dims: vec![0],
            start_index_map: vec![1],
            index_vector_dim: 1,
            ..GatherDims::default()
        };
        assert_eq!(gather(&x, &i64s(&[2, 1], &[2, 1]), &dims, &[1, 1]).unwrap(), i64s(&[2], &[2, 11]));
    }

    #[test]
    fn scatter_skips_updates_outside() {
        let dims = ScatterDims {
            update_window_dims: vec![1],
            scatter_dims_to_operand_dims: vec![0],
            index_vector_dim: 1,
            ..ScatterDims::default()
        };
        let mut seen = vec![];
        let indices = i64s(&[3, 1], &[3, -1, i64::MIN]);
        scatter_positions(&[5], &indices, &[3, 3], &dims, |to, from| {
            seen.push((to, from));
            Ok(())
        })
        .unwrap();
        assert_eq!(seen, [(3, 0), (4, 1), (0, 4), (1, 5)]);
    }

    #[test]
    fn index_select_along_the_middle() {
        let x = i64s(&[2, 3], &[0, 1, 2, 3, 4, 5]);
        let picked = torch_index_select(&x, &i64s(&[2], &[2, 0]), 1, 0).unwrap();
        assert_eq!(picked, i64s(&[2, 2], &[2, 0, 5, 3]));
    }
}
