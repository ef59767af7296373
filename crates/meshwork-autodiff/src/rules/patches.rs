//! Products over sliding windows, and cumulative products with them: the windows are laid out side by side, so that
//! the slope of each element is the product of the others in its window.

use meshwork_ir::attr::{GatherDims, ScatterDims};
use meshwork_ir::build::Window;
use meshwork_ir::{ElementType, Type, ValueId};

use super::reduce::{Side, products};
use crate::GradError;
use crate::reverse::Reverse;

/// The cotangent of `x` of a product over windows that starts from `init`.
pub(super) fn product(
    r: &mut Reverse<'_>,
    x: ValueId,
    init: ValueId,
    ct: ValueId,
    window: &Window,
) -> Result<ValueId, GradError> {
    let rank = r.rank(x);
    let (low, high): (Vec<i64>, Vec<i64>) = window.padding.iter().copied().unzip();
    let holes: Vec<i64> = window.base_dilations.iter().map(|d| d - 1).collect();
    let line = r.pad(x, init, &low, &high, &holes)?;
    let out = r.dims(ct);
    let count: i64 = window.sizes.iter().product();
    let laid_out: Vec<i64> = out.iter().copied().chain([count]).collect();
    let positions = positions(r, &out, window)?;

    let every: Vec<i64> = (0..rank as i64).collect();
    let take = GatherDims {
        collapsed_slice_dims: every.clone(),
        start_index_map: every.clone(),
        index_vector_dim: 2 * rank as i64,
        ..GatherDims::default()
    };
    let patches = r.gather(line, positions, take, &vec![1; rank])?;
    let shape = r.dims(patches);
    let patches = r.reshape(patches, laid_out.iter().copied())?;
    let (before, after) = (products(r, patches, count, Side::Before)?, products(r, patches, count, Side::After)?);
    let others = r.multiply(before, after)?;
    let ct = match r.splat_value(init) {
        Some(1.0) => ct,
        _ => {
            let init = r.broadcast_in_dim(init, out.iter().copied(), &[])?;
            r.multiply(ct, init)?
        }
    };
    let wide = r.broadcast_in_dim(ct, laid_out, &every)?;
    let given = r.multiply(wide, others)?;
    let given = r.reshape(given, shape)?;
    let put = ScatterDims {
        inserted_window_dims: every.clone(),
        scatter_dims_to_operand_dims: every,
        index_vector_dim: 2 * rank as i64,
        ..ScatterDims::default()
    };
    let zeros = r.zeros_like(line)?;
    let given = r.scatter(&[zeros], positions, &[given], put, |b, a| Ok([b.add(a[0], a[1])?]))?[0];
    super::movement::unpad(r, given, &low, &high, &holes).map_err(GradError::from)
}

/// For each result and each element of its window, the position in the padded operand: result dimensions, window
/// dimensions, components.
pub(super) fn positions(r: &mut Reverse<'_>, out: &[i64], window: &Window) -> Result<ValueId, GradError> {
    let rank = out.len();
    let dims: Vec<i64> = out.iter().chain(&window.sizes).copied().collect();
    let ty = Type::tensor(dims.iter().copied(), ElementType::I32);
    let mut components = vec![];
    for d in 0..rank {
        let (start, inside) = (r.iota(ty.clone(), d as i64)?, r.iota(ty.clone(), (rank + d) as i64)?);
        let start = r.scale(start, window.strides[d] as f64)?;
        let inside = r.scale(inside, window.window_dilations[d] as f64)?;
        let position = r.add(start, inside)?;
        components.push(r.reshape(position, dims.iter().copied().chain([1]))?);
    }
    Ok(r.concatenate(&components, 2 * rank as i64)?)
}
