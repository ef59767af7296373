//! Operations that pick or place slices at computed positions.

use smol_str::format_smolstr;

use super::check::{Elems, dim, dims_agree, shapes_agree};
use super::reduce::{accumulator, reducer};
use super::{Inferred, OpTypes, Wrong};
use crate::attr::{GatherDims, ScatterDims};
use crate::{Attr, DYNAMIC, Dims, TensorType};

/// Checks the index operands from `from` on: one integer scalar per dimension, all of one type.
fn start_indices(t: &OpTypes, from: usize, rank: usize) -> Result<(), Wrong> {
    let count = t.operands.len() - from;
    if count != rank {
        return Err(t.mismatch(format!("has {count} start indices for an operand of rank {rank}")));
    }
    for i in from..t.operands.len() {
        t.scalar_of(i, "start_indices", Elems::INT)?;
        if t.operands.id(i) != t.operands.id(from) {
            let expected = format_smolstr!("of the type of the first start index, {}", t.operands[from]);
            return Err(t.bad_operand(i, "start_indices", expected));
        }
    }
    Ok(())
}

/// `dynamic_slice`.
pub(super) fn dynamic_slice(t: &OpTypes) -> Inferred {
    t.at_least(1)?;
    let x = t.tensor(0, "operand")?;
    let sizes = t.ints_of("slice_sizes", x.rank(), "operand dimension")?;
    start_indices(t, 1, x.rank())?;
    slice_sizes_fit(t, &sizes, x)?;
    Ok(t.result(&sizes, x.elem).into())
}

fn slice_sizes_fit(t: &OpTypes, sizes: &[i64], x: &TensorType) -> Result<(), Wrong> {
    for (d, (&size, &full)) in sizes.iter().zip(&x.dims).enumerate() {
        if size < 0 || full != DYNAMIC && size > full {
            let detail = format!("takes {size} of dimension {d}, which has size {}; operand is {x}", dim(full));
            return Err(t.bad_attr("slice_sizes", detail));
        }
    }
    Ok(())
}

/// `dynamic_update_slice`.
pub(super) fn dynamic_update_slice(t: &OpTypes) -> Inferred {
    t.at_least(2)?;
    let x = t.tensor(0, "operand")?;
    let update = t.tensor(1, "update")?;
    let fits = update.elem == x.elem
        && update.rank() == x.rank()
        && update.dims.iter().zip(&x.dims).all(|(&u, &d)| u == DYNAMIC || d == DYNAMIC || u <= d);
    if !fits {
        return Err(t.bad_operand(
            1,
            "update",
            format_smolstr!("of the operand's rank and element type and no larger, {x}"),
        ));
    }
    start_indices(t, 2, x.rank())?;
    Ok(t.same(0).into())
}

fn gather_dims<'a>(t: &OpTypes<'a>) -> Result<&'a GatherDims, Wrong> {
    match t.attrs.get("dimension_numbers") {
        Some(Attr::Gather(g)) => Ok(g),
        _ => Err(t.missing("dimension_numbers", "#stablehlo.gather<...>")),
    }
}

/// `gather`.
pub(super) fn gather(t: &OpTypes) -> Inferred {
    t.operand_count(2)?;
    let x = t.tensor(0, "operand")?;
    let sizes = t.ints("slice_sizes")?;
    gather_with(t, x, sizes.len(), Some(&sizes))
}

/// `dynamic_gather`: the slice sizes are an operand.
pub(super) fn dynamic_gather(t: &OpTypes) -> Inferred {
    t.operand_count(3)?;
    let x = t.tensor(0, "operand")?;
    let sizes = t.tensor_of(2, "slice_sizes", Elems::INT)?;
    if sizes.rank() != 1 || !sizes.is_static() {
        return Err(t.bad_operand(2, "slice_sizes", "a one-dimensional integer tensor of static size"));
    }
    gather_with(t, x, sizes.dims[0] as usize, t.constant(2).as_deref())
}

fn gather_with(t: &OpTypes, x: &TensorType, size_count: usize, sizes: Option<&[i64]>) -> Inferred {
    let g = gather_dims(t)?;
    let indices = t.tensor_of(1, "start_indices", Elems::INT)?;
    let implied = g.offset_dims.len() + g.collapsed_slice_dims.len() + g.operand_batching_dims.len();
    if implied != x.rank() {
        return Err(t.mismatch(format!(
            "names {} offset, {} collapsed and {} batching dimensions for an operand of rank {}",
            g.offset_dims.len(),
            g.collapsed_slice_dims.len(),
            g.operand_batching_dims.len(),
            x.rank()
        )));
    }
    let vector = index_vector(t, g.index_vector_dim, indices, &g.start_index_map, "start_index_map")?;
    t.sorted("offset_dims", &g.offset_dims)?;
    let batch_rank = indices.rank() - usize::from(vector < indices.rank());
    t.distinct_dims("offset_dims", &g.offset_dims, batch_rank + g.offset_dims.len())?;
    t.disjoint("collapsed_slice_dims", &g.collapsed_slice_dims, "operand_batching_dims", &g.operand_batching_dims)?;
    t.sorted("collapsed_slice_dims", &g.collapsed_slice_dims)?;
    t.dims_in_range("collapsed_slice_dims", &g.collapsed_slice_dims, x.rank())?;
    t.sorted("operand_batching_dims", &g.operand_batching_dims)?;
    t.dims_in_range("operand_batching_dims", &g.operand_batching_dims, x.rank())?;
    let batching = Batching {
        operand: ("operand_batching_dims", &g.operand_batching_dims),
        indices: ("start_indices_batching_dims", &g.start_indices_batching_dims),
    };
    batching.check(t, &x.dims, &indices.dims, g.index_vector_dim)?;
    t.disjoint("start_index_map", &g.start_index_map, "operand_batching_dims", &g.operand_batching_dims)?;
    t.dims_in_range("start_index_map", &g.start_index_map, x.rank())?;
    if size_count != x.rank() {
        let detail = format!("has {size_count} entries, but needs {}, one per operand dimension", x.rank());
        return Err(t.bad_attr("slice_sizes", detail));
    }
    if let Some(sizes) = sizes {
        slice_sizes_fit(t, sizes, x)?;
        for &d in g.collapsed_slice_dims.iter().chain(&g.operand_batching_dims) {
            if sizes[d as usize] > 1 {
                let detail = format!(
                    "is {} in dimension {d}, which is collapsed or batching and so must be 1",
                    sizes[d as usize]
                );
                return Err(t.bad_attr("slice_sizes", detail));
            }
        }
    }
    Ok(t.result(&gather_shape(g, x.rank(), indices, sizes), x.elem).into())
}

/// The result shape of a gather whose numbers have been checked.
fn gather_shape(g: &GatherDims, rank: usize, indices: &TensorType, sizes: Option<&[i64]>) -> Dims {
    let kept = (0..rank as i64).filter(|d| !g.collapsed_slice_dims.contains(d) && !g.operand_batching_dims.contains(d));
    let mut offsets = kept.map(|d| sizes.map_or(DYNAMIC, |s| s[d as usize]));
    let mut batch = (0..indices.rank()).filter(|&d| d as i64 != g.index_vector_dim).map(|d| indices.dims[d]);
    let batch_rank = indices.rank() - usize::from((g.index_vector_dim as usize) < indices.rank());
    (0..batch_rank + g.offset_dims.len())
        .filter_map(|d| if g.offset_dims.contains(&(d as i64)) { offsets.next() } else { batch.next() })
        .collect()
}

/// Checks the dimension of the indices that holds the components of one index; returns it.
fn index_vector(
    t: &OpTypes,
    vector: i64,
    indices: &TensorType,
    map: &[i64],
    map_name: &'static str,
) -> Result<usize, Wrong> {
    let rank = indices.rank();
    let Some(at) = usize::try_from(vector).ok().filter(|&v| v <= rank) else {
        return Err(t.bad_attr("index_vector_dim", format!("is {vector}, but must be from 0 to {rank}")));
    };
    let components = if at == rank { 1 } else { indices.dims[at] };
    if components != DYNAMIC && components != map.len() as i64 {
        let detail = format!("has {} entries for indices of {components} component(s), {indices}", map.len());
        return Err(t.bad_attr(map_name, detail));
    }
    Ok(at)
}

/// Paired batching dimensions of an operand and its indices.
struct Batching<'a> {
    operand: (&'static str, &'a [i64]),
    indices: (&'static str, &'a [i64]),
}

impl Batching<'_> {
    fn check(&self, t: &OpTypes, operand: &[i64], indices: &[i64], vector: i64) -> Result<(), Wrong> {
        let ((operand_name, operand_dims), (name, dims)) = (self.operand, self.indices);
        t.distinct_dims(name, dims, indices.len())?;
        if dims.contains(&vector) {
            return Err(t.bad_attr(name, format!("lists {vector}, which is index_vector_dim")));
        }
        if operand_dims.len() != dims.len() {
            let detail = format!("has {} entries, but {operand_name} has {}", dims.len(), operand_dims.len());
            return Err(t.bad_attr(name, detail));
        }
        for (&o, &i) in operand_dims.iter().zip(dims) {
            let (a, b) = (operand[o as usize], indices[i as usize]);
            if !dims_agree(a, b) {
                let detail = format!("pairs operand dimension {o} of size {a} with index dimension {i} of size {b}");
                return Err(t.bad_attr(name, detail));
            }
        }
        Ok(())
    }
}

/// `scatter`: inputs, indices, updates; the body combines.
pub(super) fn scatter(t: &OpTypes) -> Inferred {
    t.at_least(3)?;
    let n = (t.operands.len() - 1) / 2;
    if t.operands.len() != 2 * n + 1 {
        return Err(t.mismatch(format!(
            "needs as many inputs as updates around its indices, but has {} operands",
            t.operands.len()
        )));
    }
    let Some(Attr::Scatter(s)) = t.attrs.get("scatter_dimension_numbers") else {
        let expected = "#stablehlo.scatter<...>";
        return Err(t.missing("scatter_dimension_numbers", expected));
    };
    let inputs: Vec<&TensorType> = (0..n).map(|i| t.tensor(i, "inputs")).collect::<Result<_, _>>()?;
    let indices = t.tensor_of(n, "scatter_indices", Elems::PRED_INT.or(Elems::INDEX))?;
    let updates = t.tensors(n + 1, "updates")?;
    one_shape(t, 0, "inputs", &inputs)?;
    one_shape(t, n + 1, "updates", &updates)?;
    let inits: Vec<TensorType> = updates.iter().map(|u| TensorType::new([], u.elem)).collect();
    if !t.regions.is_empty() {
        reducer(t, 0, "update_computation", &inputs, &inits.iter().collect::<Vec<_>>(), &[])?;
    }
    scatter_numbers(t, s, inputs[0], indices, updates[0])?;
    Ok(inputs.iter().enumerate().map(|(i, x)| t.result_like(x, accumulator(t, 0, i, x))).collect())
}

/// Checks that operands from `from` on have the shape of the first of them.
fn one_shape(t: &OpTypes, from: usize, name: &'static str, types: &[&TensorType]) -> Result<(), Wrong> {
    match types.iter().position(|x| !shapes_agree(&x.dims, &types[0].dims)) {
        Some(i) => Err(t.bad_operand(from + i, name, format_smolstr!("of the shape of the first, {}", types[0]))),
        None => Ok(()),
    }
}

fn scatter_numbers(
    t: &OpTypes,
    s: &ScatterDims,
    x: &TensorType,
    indices: &TensorType,
    update: &TensorType,
) -> Result<(), Wrong> {
    let vector =
        index_vector(t, s.index_vector_dim, indices, &s.scatter_dims_to_operand_dims, "scatter_dims_to_operand_dims")?;
    let batch: Dims = (0..indices.rank()).filter(|&d| d != vector).map(|d| indices.dims[d]).collect();
    let update_rank = batch.len() + s.update_window_dims.len();
    if update.rank() != update_rank {
        let detail = format!(
            "needs updates of rank {update_rank} ({} index and {} window dimensions), but they are {update}",
            batch.len(),
            s.update_window_dims.len()
        );
        return Err(t.mismatch(detail));
    }
    let implied = s.update_window_dims.len() + s.inserted_window_dims.len() + s.input_batching_dims.len();
    if implied != x.rank() {
        return Err(t.mismatch(format!(
            "names {} window, {} inserted and {} batching dimensions for inputs of rank {}",
            s.update_window_dims.len(),
            s.inserted_window_dims.len(),
            s.input_batching_dims.len(),
            x.rank()
        )));
    }
    t.sorted("update_window_dims", &s.update_window_dims)?;
    t.distinct_dims("update_window_dims", &s.update_window_dims, update.rank())?;
    t.disjoint("inserted_window_dims", &s.inserted_window_dims, "input_batching_dims", &s.input_batching_dims)?;
    t.sorted("inserted_window_dims", &s.inserted_window_dims)?;
    t.dims_in_range("inserted_window_dims", &s.inserted_window_dims, x.rank())?;
    t.sorted("input_batching_dims", &s.input_batching_dims)?;
    t.dims_in_range("input_batching_dims", &s.input_batching_dims, x.rank())?;
    let batching = Batching {
        operand: ("input_batching_dims", &s.input_batching_dims),
        indices: ("scatter_indices_batching_dims", &s.scatter_indices_batching_dims),
    };
    batching.check(t, &x.dims, &indices.dims, s.index_vector_dim)?;
    let map = &s.scatter_dims_to_operand_dims;
    t.disjoint("scatter_dims_to_operand_dims", map, "input_batching_dims", &s.input_batching_dims)?;
    t.dims_in_range("scatter_dims_to_operand_dims", map, x.rank())?;
    scatter_sizes(t, s, x, &batch, update)
}

/// Window extents do not exceed the input's, index extents are those of the indices.
fn scatter_sizes(
    t: &OpTypes,
    s: &ScatterDims,
    x: &TensorType,
    batch: &[i64],
    update: &TensorType,
) -> Result<(), Wrong> {
    let kept =
        (0..x.rank() as i64).filter(|d| !s.inserted_window_dims.contains(d) && !s.input_batching_dims.contains(d));
    for (d, &u) in kept.zip(&s.update_window_dims) {
        let (full, size) = (x.dims[d as usize], update.dims[u as usize]);
        if full != DYNAMIC && size != DYNAMIC && size > full {
            let detail =
                format!("places a window of {size} (updates dimension {u}) into input dimension {d} of size {full}");
            return Err(t.mismatch(detail));
        }
    }
    let rest = (0..update.rank()).filter(|&u| !s.update_window_dims.contains(&(u as i64)));
    for (u, &size) in rest.zip(batch) {
        if !dims_agree(update.dims[u], size) {
            let detail = format!("has updates dimension {u} of size {} where the indices have {size}", update.dims[u]);
            return Err(t.mismatch(detail));
        }
    }
    Ok(())
}
