//! Exchange between devices: groups, pairs, and the shapes that come back.

use smol_str::format_smolstr;

use super::check::{dense_ints, dims_agree, duplicate};
use super::elementwise::same_type;
use super::reduce::{accumulator, reducer};
use super::{Elems, Inferred, OpTypes, ResultTypes, Wrong};
use crate::{Attr, DYNAMIC, Dense, ElementType, TensorType, Type};

/// What the ids of one `replica_groups` must satisfy.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Groups {
    /// All groups have one size: no id is -1.
    Even,
    /// Short groups are filled up with -1.
    Ragged,
    /// Not all devices need to be in a group.
    Partial,
}

/// Checks `replica_groups`; returns the group size where it is known and even.
fn groups(t: &OpTypes, rule: Groups) -> Result<Option<i64>, Wrong> {
    const ATTR: &str = "replica_groups";
    let dense = match t.attrs.get(ATTR) {
        Some(Attr::Dense(d)) => d,
        // That the mesh exists is checked elsewhere.
        Some(Attr::GroupAxes(axes)) => {
            let size = axes.mesh_in(t.module).map(|mesh| axes.size_on(mesh)).transpose();
            return size.map_err(|why| t.bad_attr(ATTR, why));
        }
        Some(Attr::Opaque(_)) => return Ok(None),
        _ => {
            return Err(t.missing(ATTR, "a constant of shape groups x ids"));
        }
    };
    let (2, Some(ids)) = (dense.ty.rank(), dense_ints(dense)) else {
        return Err(t.bad_attr(ATTR, format!("must be an integer constant of rank 2, but is of type {}", dense.ty)));
    };
    if t.flag("use_global_device_ids") && ids.is_empty() {
        return Err(t.bad_attr(ATTR, "must not be empty with use_global_device_ids"));
    }
    let mut present: Vec<i64> = ids.iter().copied().filter(|&id| id != -1).collect();
    if rule != Groups::Ragged && present.len() != ids.len() {
        return Err(t.bad_attr(ATTR, "has the id -1, but all groups must have one size here"));
    }
    present.sort_unstable();
    if let Some(w) = present.windows(2).find(|w| w[0] == w[1]) {
        return Err(t.bad_attr(ATTR, format!("lists id {} twice", w[0])));
    }
    if let Some(&id) = present.first().filter(|&&id| id < 0) {
        return Err(t.bad_attr(ATTR, format!("has the negative id {id}")));
    }
    if rule != Groups::Partial
        && let Some(missing) = (0..).zip(&present).find(|(want, got)| want != *got)
    {
        return Err(t.bad_attr(ATTR, format!("lists {} ids, but id {} is not among them", present.len(), missing.0)));
    }
    Ok(Some(dense.ty.dims[1]).filter(|_| rule != Groups::Ragged && dense.ty.dims[0] > 0))
}

/// The size of groups that are axes of a mesh: they say what becomes of the dimension that grows or shrinks.
fn by_axes(t: &OpTypes, size: Option<i64>) -> Option<i64> {
    size.filter(|_| matches!(t.attrs.get("replica_groups"), Some(Attr::GroupAxes(_))))
}

/// `use_global_device_ids` needs a channel id of at least `least`.
fn global_ids(t: &OpTypes, least: i64) -> Result<(), Wrong> {
    let channel = match t.attrs.get("channel_handle") {
        Some(Attr::Channel(c)) => c.handle,
        _ => 0,
    };
    if t.flag("use_global_device_ids") && channel < least {
        Err(t.bad_attr(
            "channel_handle",
            format!("must be at least {least} with use_global_device_ids, but is {channel}"),
        ))
    } else {
        Ok(())
    }
}

/// The scalar body that combines elements of all `operands`.
fn combiner(t: &OpTypes, operands: &[&TensorType]) -> Result<Option<ElementType>, Wrong> {
    if t.regions.is_empty() {
        return Ok(None);
    }
    for x in operands {
        let scalar = TensorType::new([], x.elem);
        reducer(t, 0, "computation", &[x], &[&scalar], &[])?;
    }
    Ok(operands.first().map(|x| accumulator(t, 0, 0, x)))
}

/// `all_gather`: one dimension grows by the group size.
pub(super) fn all_gather(t: &OpTypes) -> Inferred {
    t.at_least(1)?;
    let size = groups(t, Groups::Even)?;
    global_ids(t, 0)?;
    let mut out = vec![];
    for (i, x) in t.tensors(0, "operands")?.into_iter().enumerate() {
        let along = t.dim_attr("all_gather_dim", x.rank())?;
        if x.dims[along] == 0 {
            return Err(t.bad_operand(i, "operands", format_smolstr!("of non-zero size in dimension {along}")));
        }
        let mut dims = x.dims.clone();
        dims[along] = match t.given(i).and_then(Type::as_tensor) {
            Some(w) if w.rank() == x.rank() => {
                let (from, to) = (x.dims[along], w.dims[along]);
                if from != DYNAMIC && to != DYNAMIC {
                    if to % from != 0 {
                        let expected = format_smolstr!("a multiple of {from} in dimension {along}");
                        return Err(t.bad_result(i, expected));
                    }
                    if let Some(n) = by_axes(t, size).filter(|&n| to / from != n) {
                        let expected = format_smolstr!("{n} times {from} in dimension {along}, for groups of {n}");
                        return Err(t.bad_result(i, expected));
                    }
                }
                to
            }
            Some(_) => DYNAMIC,
            None => grown(t, x.dims[along], size, i)?,
        };
        out.push(t.result(&dims, x.elem));
    }
    Ok(ResultTypes::Several(out))
}

fn grown(t: &OpTypes, size: i64, by: Option<i64>, index: usize) -> Result<i64, Wrong> {
    match by {
        Some(n) if size != DYNAMIC => size.checked_mul(n).ok_or_else(|| t.mismatch("gathers more than 2^63 elements")),
        Some(_) => Ok(DYNAMIC),
        None => Err(t.needs_result(index)),
    }
}

/// `all_reduce`.
pub(super) fn all_reduce(t: &OpTypes) -> Inferred {
    t.at_least(1)?;
    groups(t, Groups::Ragged)?;
    global_ids(t, 1)?;
    let operands = t.tensors(0, "operands")?;
    let elem = combiner(t, &operands)?;
    Ok(operands.iter().map(|x| t.result_like(x, elem.unwrap_or(x.elem))).collect())
}

/// `cross-replica-sum`.
pub(super) fn cross_replica_sum(t: &OpTypes) -> Inferred {
    groups(t, Groups::Ragged)?;
    same_type(t, 1, Elems::ANY)
}

/// `reduce_scatter`: one dimension shrinks by the group size.
pub(super) fn reduce_scatter(t: &OpTypes) -> Inferred {
    t.operand_count(1)?;
    let size = groups(t, Groups::Even)?;
    global_ids(t, 1)?;
    let x = t.tensor(0, "operand")?;
    let along = t.dim_attr("scatter_dimension", x.rank())?;
    let elem = combiner(t, &[x])?.unwrap_or(x.elem);
    let mut dims = x.dims.clone();
    let from = dims[along];
    dims[along] = match t.given(0).and_then(Type::as_tensor) {
        Some(w) if w.rank() == x.rank() => w.dims[along],
        Some(_) => DYNAMIC,
        None => match size {
            Some(n) if from != DYNAMIC && n > 0 && from % n == 0 => from / n,
            Some(n) => return Err(t.mismatch(format!("splits dimension {along} of size {from} over {n} devices"))),
            None => return Err(t.needs_result(0)),
        },
    };
    let to = dims[along];
    if from == 0 || to == 0 || from != DYNAMIC && to != DYNAMIC && from % to != 0 {
        return Err(t.mismatch(format!("splits dimension {along} of size {from} into parts of size {to}")));
    }
    if from != DYNAMIC
        && to != DYNAMIC
        && let Some(n) = by_axes(t, size).filter(|&n| from / to != n)
    {
        return Err(
            t.mismatch(format!("splits dimension {along} of size {from} into parts of size {to} over groups of {n}"))
        );
    }
    Ok(t.result(&dims, elem).into())
}

/// `all_to_all`: one dimension is split, another grows.
pub(super) fn all_to_all(t: &OpTypes) -> Inferred {
    t.at_least(1)?;
    let count = t.int("split_count")?;
    if count < 1 {
        return Err(t.bad_attr("split_count", format!("must be positive, but is {count}")));
    }
    // Axes are compared with it when groups are formed: programs that are rewritten, not run, may have any.
    let size = groups(t, Groups::Even)?;
    if matches!(t.attrs.get("replica_groups"), Some(Attr::Dense(_))) && size != Some(count) {
        let size = size.map_or("no groups".into(), |n| format!("groups of {n}"));
        return Err(t.bad_attr("replica_groups", format!("has {size}, but split_count is {count}")));
    }
    let mut out = vec![];
    for x in t.tensors(0, "operands")? {
        let (split, concat) = (t.dim_attr("split_dimension", x.rank())?, t.dim_attr("concat_dimension", x.rank())?);
        let mut dims = x.dims.clone();
        if dims[split] != DYNAMIC {
            if dims[split] % count != 0 {
                return Err(t.mismatch(format!("splits dimension {split} of {x} into {count} parts")));
            }
            dims[split] /= count;
        }
        if dims[concat] != DYNAMIC {
            dims[concat] =
                dims[concat].checked_mul(count).ok_or_else(|| t.mismatch("makes a dimension beyond 2^63"))?;
        }
        out.push(t.result(&dims, x.elem));
    }
    Ok(ResultTypes::Several(out))
}

/// `ragged_all_to_all`: rows of one length become rows of another; the table has a length per sender, receiver and row.
pub(super) fn ragged_all_to_all(t: &OpTypes) -> Inferred {
    t.operand_count(2)?;
    let size = groups(t, Groups::Even)?;
    let (x, sizes) = (t.tensor(0, "operand")?, t.tensor(1, "sizes")?);
    if x.rank() != 2 {
        return Err(t.bad_operand(0, "operand", "a tensor of rows, of rank 2"));
    }
    let rows = x.dims[0];
    let is_table = matches!(sizes.dims[..], [a, b, c] if a == b && c == rows && size.is_none_or(|n| n == a));
    if !is_table || !matches!(sizes.elem, ElementType::I32 | ElementType::I64) {
        let n = size.map_or("N".into(), |n| n.to_string());
        let expected = format_smolstr!("tensor<{n}x{n}x{rows}xi32>, a length per sender, receiver and row");
        return Err(t.bad_operand(1, "sizes", expected));
    }
    let wanted = t.wanted_tensor(0, Elems::ANY)?;
    match wanted.dims[..] {
        [have, _] if have == rows && wanted.elem == x.elem => Ok(t.declared(0)?.into()),
        _ => Err(t.mismatch(format!("makes {wanted} of {x}: both must have {rows} rows of {}", x.elem))),
    }
}

/// The operands that carry data: all but a dynamic root.
fn data<'a>(t: &OpTypes<'a>) -> Result<Vec<&'a TensorType>, Wrong> {
    if !t.flag("has_dynamic_root") {
        t.at_least(1)?;
        return t.tensors(0, "operands");
    }
    t.at_least(2)?;
    let n = t.operands.len() - 1;
    match &t.operands[n] {
        Type::Tensor(r) if r.elem == ElementType::I32 && r.dims[..] == [n as i64] => {}
        _ => return Err(t.bad_operand(n, "root", format_smolstr!("tensor<{n}xi32>, one root per operand"))),
    }
    (0..n).map(|i| t.tensor(i, "operands")).collect()
}

/// `collective_broadcast`.
pub(super) fn collective_broadcast(t: &OpTypes) -> Inferred {
    groups(t, Groups::Partial)?;
    let n = data(t)?.len();
    Ok((0..n).map(|i| t.same(i)).collect())
}

/// `collective_reduce`.
pub(super) fn collective_reduce(t: &OpTypes) -> Inferred {
    groups(t, Groups::Ragged)?;
    global_ids(t, 1)?;
    let operands = data(t)?;
    let elem = combiner(t, &operands)?;
    Ok(operands.iter().map(|x| t.result_like(x, elem.unwrap_or(x.elem))).collect())
}

/// `collective_permute`: each device sends to at most one and hears from at most one.
pub(super) fn collective_permute(t: &OpTypes) -> Inferred {
    const ATTR: &str = "source_target_pairs";
    let pairs = match t.attrs.get(ATTR) {
        Some(Attr::Dense(d)) => source_target_pairs(t, d)?,
        _ => return Err(t.missing(ATTR, "a constant of shape Nx2")),
    };
    if let Some(id) = pairs.iter().find(|&&id| id < 0) {
        return Err(t.bad_attr(ATTR, format!("has the negative id {id}")));
    }
    for (side, offset) in [("source", 0), ("target", 1)] {
        if let Some(id) = duplicate(pairs.iter().skip(offset).step_by(2).copied()) {
            return Err(t.bad_attr(ATTR, format!("lists {side} {id} twice")));
        }
    }
    same_type(t, 1, Elems::ANY)
}

fn source_target_pairs(t: &OpTypes, dense: &Dense) -> Result<Vec<i64>, Wrong> {
    let shape_fits = dense.ty.rank() == 2 && dims_agree(dense.ty.dims[1], 2);
    match dense_ints(dense) {
        Some(ids) if shape_fits => Ok(ids),
        _ => {
            let detail = format!("must be pairs of integers, a constant of shape Nx2, but is of type {}", dense.ty);
            Err(t.bad_attr("source_target_pairs", detail))
        }
    }
}
