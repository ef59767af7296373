//! Gather and scatter: windows of a tensor at positions that are data.

use super::fault::Fault;
use super::index::{View, Walk, copy_box, extents, index_at, strides};
use super::value::allocate;
use meshwork_ir::Literal;
use meshwork_ir::attr::{GatherDims, ScatterDims};

/// Where one index vector stands in an index tensor, and which window corner it means.
///
/// Shared by both ops: gather reads the window, scatter combines into it.
struct Corners<'a> {
    indices: &'a Literal,
    /// Stride of the dimension of index components, 0 if there is none.
    component_stride: isize,
    /// Operand dimension of each component.
    map: &'a [i64],
    /// Operand dimension and position among the walked index dimensions of each batching dimension.
    batching: Vec<(usize, usize)>,
    /// Extents and view of the index tensor without the component dimension.
    dims: Vec<usize>,
    view: View,
}

impl<'a> Corners<'a> {
    fn new(
        indices: &'a Literal,
        vector_dim: i64,
        map: &'a [i64],
        operand_batching: &[i64],
        indices_batching: &[i64],
    ) -> Corners<'a> {
        let vector_dim = vector_dim as usize;
        let (all, mut dims) = (strides(indices.dims()), extents(indices.dims()));
        let mut walked = all.clone();
        let mut component_stride = 0;
        if vector_dim < dims.len() {
            component_stride = all[vector_dim];
            dims.remove(vector_dim);
            walked.remove(vector_dim);
        }
        let place = |d: i64| if (d as usize) > vector_dim { d as usize - 1 } else { d as usize };
        let batching = operand_batching.iter().zip(indices_batching).map(|(&o, &i)| (o as usize, place(i))).collect();
        Corners { indices, component_stride, map, batching, dims, view: View { offset: 0, strides: walked } }
    }

    fn walk(&self) -> Walk<1> {
        Walk::new(&self.dims, [&self.view])
    }

    /// The corner that the index vector at `at`, whose walked index is `index`, means.
    fn corner(&self, at: isize, index: &[usize], out: &mut [i64]) {
        out.fill(0);
        for (c, &d) in self.map.iter().enumerate() {
            out[d as usize] = index_at(self.indices, (at + c as isize * self.component_stride) as usize);
        }
        for &(operand, walked) in &self.batching {
            out[operand] = index[walked] as i64;
        }
    }
}

/// `stablehlo.gather`: windows whose corners are clamped so that they stay inside `x`.
pub(crate) fn gather(x: &Literal, indices: &Literal, dims: &GatherDims, sizes: &[i64]) -> Result<Literal, Fault> {
    let inside = |(&size, &n): (&i64, &i64)| (0..=n).contains(&size);
    if sizes.len() != x.dims().len() || !sizes.iter().zip(x.dims()).all(inside) {
        return Err(Fault::invalid(format!("slices of {sizes:?} do not fit in {}", x.ty())));
    }
    let corners = Corners::new(
        indices,
        dims.index_vector_dim,
        &dims.start_index_map,
        &dims.operand_batching_dims,
        &dims.start_indices_batching_dims,
    );
    let dropped = |d: &usize| {
        let d = *d as i64;
        dims.collapsed_slice_dims.contains(&d) || dims.operand_batching_dims.contains(&d)
    };
    let kept: Vec<usize> = (0..x.dims().len()).filter(|d| !dropped(d)).collect();
    let rank = corners.dims.len() + kept.len();
    let batch_dims: Vec<usize> = (0..rank).filter(|&d| !dims.offset_dims.contains(&(d as i64))).collect();
    let mut shape = vec![0; rank];
    for (i, &d) in batch_dims.iter().enumerate() {
        shape[d] = corners.dims[i] as i64;
    }
    for (&d, &o) in kept.iter().zip(&dims.offset_dims) {
        shape[o as usize] = sizes[d];
    }
    let mut out = allocate(&shape, x.elem())?;
    if out.is_empty() {
        return Ok(out);
    }
    let (x_strides, out_strides) = (strides(x.dims()), strides(&shape));
    let window: Vec<usize> = kept.iter().map(|&d| sizes[d] as usize).collect();
    let mut from = View { offset: 0, strides: kept.iter().map(|&d| x_strides[d]).collect() };
    let mut to = View { offset: 0, strides: dims.offset_dims.iter().map(|&d| out_strides[d as usize]).collect() };
    let mut corner = vec![0; x.dims().len()];
    let mut walk = corners.walk();
    while let Some([at]) = walk.next() {
        corners.corner(at, walk.index(), &mut corner);
        from.offset = 0;
        for d in 0..corner.len() {
            from.offset += corner[d].clamp(0, x.dims()[d] - sizes[d]) as isize * x_strides[d];
        }
        to.offset = walk.index().iter().zip(&batch_dims).map(|(&i, &d)| i as isize * out_strides[d]).sum();
        copy_box(&mut out, &to, x, &from, &window);
    }
    Ok(out)
}

/// Where each update of a scatter goes: calls `visit(position in the input, position in the updates)` for every
/// update element that lands inside the input, in row-major order of the updates.
pub(crate) fn scatter_positions(
    input_dims: &[i64],
    indices: &Literal,
    update_dims: &[i64],
    dims: &ScatterDims,
    mut visit: impl FnMut(usize, usize) -> Result<(), Fault>,
) -> Result<(), Fault> {
    let corners = Corners::new(
        indices,
        dims.index_vector_dim,
        &dims.scatter_dims_to_operand_dims,
        &dims.input_batching_dims,
        &dims.scatter_indices_batching_dims,
    );
    let dropped = |d: i64| dims.inserted_window_dims.contains(&d) || dims.input_batching_dims.contains(&d);
    let kept: Vec<usize> = (0..input_dims.len()).filter(|&d| !dropped(d as i64)).collect();
    let scatter_dims: Vec<usize> =
        (0..update_dims.len()).filter(|&d| !dims.update_window_dims.contains(&(d as i64))).collect();
    let (in_strides, update_strides) = (strides(input_dims), strides(update_dims));
    let window: Vec<usize> = dims.update_window_dims.iter().map(|&d| update_dims[d as usize] as usize).collect();
    let mut into = View { offset: 0, strides: kept.iter().map(|&d| in_strides[d]).collect() };
    let mut from =
        View { offset: 0, strides: dims.update_window_dims.iter().map(|&d| update_strides[d as usize]).collect() };
    let mut corner = vec![0; input_dims.len()];
    let mut walk = corners.walk();
    while let Some([at]) = walk.next() {
        corners.corner(at, walk.index(), &mut corner);
        // Positions that no window element can repair are skipped as a whole.
        let fixed_outside = (0..corner.len()).any(|d| !kept.contains(&d) && !(0..input_dims[d]).contains(&corner[d]));
        if fixed_outside {
            continue;
        }
        let far = corner.iter().zip(input_dims).any(|(&c, &n)| c.unsigned_abs() > n.unsigned_abs() + (1 << 40));
        if far {
            continue;
        }
        into.offset = corner.iter().zip(&in_strides).map(|(&c, &s)| c as isize * s).sum();
        from.offset = walk.index().iter().zip(&scatter_dims).map(|(&i, &d)| i as isize * update_strides[d]).sum();
        let mut inner = Walk::new(&window, [&into, &from]);
        while let Some([to, update]) = inner.next() {
            let inside = kept.iter().zip(inner.index()).all(|(&d, &i)| {
                let at = corner[d] + i as i64;
                (0..input_dims[d]).contains(&at)
            });
            if inside {
                visit(to as usize, update as usize)?;
            }
        }
    }
    Ok(())
}

/// `stablehlo.torch_index_select`: picks slices of `x` along `dim` by `indices`, sharing `batch_dims` leading
/// dimensions.
pub(crate) fn torch_index_select(
    x: &Literal,
    indices: &Literal,
    dim: usize,
    batch_dims: usize,
) -> Result<Literal, Fault> {
    let mut shape: Vec<i64> = x.dims()[..dim].to_vec();
    shape.extend(&indices.dims()[batch_dims..]);
    shape.extend(&x.dims()[dim + 1..]);
    let mut out = allocate(&shape, x.elem())?;
    let (x_strides, i_strides) = (strides(x.dims()), strides(indices.dims()));
    let picked = indices.dims().len() - batch_dims;
    let mut x_view = View { offset: 0, strides: vec![0; shape.len()] };
    let mut i_view = View { offset: 0, strides: vec![0; shape.len()] };
    for d in 0..shape.len() {
        if d < dim {
            x_view.strides[d] = x_strides[d];
            if d < batch_dims {
                i_view.strides[d] = i_strides[d];
            }
        } else if d < dim + picked {
            i_view.strides[d] = i_strides[d - dim + batch_dims];
        } else {
            x_view.strides[d] = x_strides[d - picked + 1];
        }
    }
    let limit = x.dims()[dim];
    let mut walk = Walk::new(&extents(&shape), [&x_view, &i_view]);
    let mut at = 0;
    while let Some([from, index]) = walk.next() {
        let i = index_at(indices, index as usize).clamp(0, (limit - 1).max(0));
        let from = (from + i as isize * x_strides[dim]) as usize;
        out.set_element(at, x.element(from));
        at += 1;
    }
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
    fn scatter_skips_what_lands_outside() {
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
