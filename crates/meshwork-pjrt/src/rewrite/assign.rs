//! Arrays of which a part is assigned: a choice, element by element.

use meshwork_ir::attr::ScatterDims;
use meshwork_ir::build::{BuildError, Builder};
use meshwork_ir::op::{BodyOp, MovementOp};
use meshwork_ir::{Attr, Module, OpId, OpKind, ValueId};

use super::constants::integers;
use super::shift::{Growth, grow, is_work_on_parts, mask};

/// The array, the part and where it starts, if `op` replaces a part of an array at a place that is known.
pub(crate) fn assigned_part(module: &Module, op: OpId) -> Option<(ValueId, ValueId, Vec<i64>)> {
    match module.op(op).kind() {
        OpKind::Movement(MovementOp::DynamicUpdateSlice) => updated_slice(module, op),
        OpKind::Body(BodyOp::Scatter) => scattered_part(module, op),
        _ => None,
    }
}

/// `dynamic_update_slice` or a scatter that replaces a large part at a place that is known.
pub(super) fn assignment(module: &mut Module, op: OpId) -> bool {
    assigned_part(module, op).is_some_and(|(x, part, starts)| assign(module, op, x, part, starts))
}

fn updated_slice(module: &Module, op: OpId) -> Option<(ValueId, ValueId, Vec<i64>)> {
    let &[x, part, ref starts @ ..] = module.op(op).operands() else { return None };
    let starts: Option<Vec<i64>> = starts.iter().map(|&s| Some(*integers(module, s)?.first()?)).collect();
    let (dims, sizes) = (module.ty(x).dims(), module.ty(part).dims());
    let clamped = starts?.iter().zip(dims.iter().zip(sizes)).map(|(&s, (&n, &size))| s.clamp(0, n - size)).collect();
    Some((x, part, clamped))
}

/// A scatter of one part that replaces what is there.
fn scattered_part(module: &Module, op: OpId) -> Option<(ValueId, ValueId, Vec<i64>)> {
    let data = module.op(op);
    let (&[x, indices, part], Some(Attr::Scatter(numbers))) = (data.operands(), data.attr("scatter_dimension_numbers"))
    else {
        return None;
    };
    let (dims, sizes) = (module.ty(x).dims(), module.ty(part).dims());
    let body = module.body_of(op, 0);
    let replaces =
        body.is_some_and(|body| module.block(body).args().get(1).is_some_and(|&new| module.returned(body) == [new]));
    let one_part = is_one_part(numbers, dims.len()) && module.ty(indices).dims().len() == 1;
    let places = integers(module, indices).filter(|_| replaces && one_part && sizes.len() == dims.len())?;
    let mut starts = vec![0; dims.len()];
    for (&dim, &place) in numbers.scatter_dims_to_operand_dims.iter().zip(&places) {
        starts[dim as usize] = place;
    }
    // A part that does not fit is not written at all.
    let fits = starts.iter().zip(dims.iter().zip(sizes)).all(|(&s, (&n, &size))| s >= 0 && s + size <= n);
    fits.then_some((x, part, starts))
}

fn is_one_part(numbers: &ScatterDims, rank: usize) -> bool {
    numbers.update_window_dims.len() == rank
        && numbers.inserted_window_dims.is_empty()
        && numbers.input_batching_dims.is_empty()
        && numbers.index_vector_dim == 0
}

/// A part of the result, with slices of one array before and behind it that are where they were in the array.
pub(super) fn concatenate(module: &mut Module, op: OpId) -> bool {
    let Some(found) = between_slices(module, op) else { return false };
    let Between { part, at, base, offset, dim } = found;
    let result = module.ty(module.op(op).results()[0]).dims().to_vec();
    let mut starts = vec![0; result.len()];
    starts[dim] = at;
    let whole = offset.iter().all(|&o| o == 0) && module.ty(base).dims() == result;
    let growth = growth_of(module.ty(part).dims(), &result, &starts);
    if !is_large(module.ty(part).dims(), &result) || !is_work_on_parts(module, op, part, &growth) {
        return false;
    }
    let base = if whole {
        base
    } else {
        let limit: Vec<i64> = offset.iter().zip(&result).map(|(o, n)| o + n).collect();
        match Builder::before(module, op).slice(base, &offset, &limit, &vec![1; result.len()]) {
            Ok(base) => base,
            Err(_) => return false,
        }
    };
    assign(module, op, base, part, starts)
}

/// A concatenation of a part and slices of an array.
struct Between {
    part: ValueId,
    /// Where the part starts in the result.
    at: i64,
    base: ValueId,
    /// Where the first element of the result would be in the array.
    offset: Vec<i64>,
    dim: usize,
}

fn between_slices(module: &Module, op: OpId) -> Option<Between> {
    let data = module.op(op);
    let dim = data.int("dimension")? as usize;
    let result = module.ty(data.results()[0]).dims();
    let largest = data.operands().iter().copied().max_by_key(|&v| module.ty(v).dims()[dim])?;
    let (mut at, mut place, mut base, mut count) = (0, None, None, 0);
    for &v in data.operands() {
        let size = module.ty(v).dims()[dim];
        if v == largest {
            count += 1;
            place = Some(at);
        } else {
            let slice = module.op(module.def_op(v)?);
            if slice.kind() != OpKind::Movement(MovementOp::Slice) || slice.i64s("strides")?.iter().any(|&s| s != 1) {
                return None;
            }
            let mut offset = slice.i64s("start_indices")?;
            offset[dim] -= at;
            let here = (slice.operands()[0], offset);
            if base.get_or_insert_with(|| here.clone()) != &here {
                return None;
            }
        }
        at += size;
    }
    let (base, offset) = base?;
    let inside =
        offset.iter().zip(module.ty(base).dims().iter().zip(result)).all(|(&o, (&n, &r))| o >= 0 && o + r <= n);
    (count == 1 && inside).then_some(Between { part: largest, at: place?, base, offset, dim })
}

/// A part with a border of one value around it.
pub(super) fn pad(module: &mut Module, op: OpId) -> bool {
    let data = module.op(op);
    let (&[part, value], &[result]) = (data.operands(), data.results()) else { return false };
    let lists = [data.i64s("edge_padding_low"), data.i64s("edge_padding_high"), data.i64s("interior_padding")];
    let [Some(low), Some(high), Some(interior)] = lists else { return false };
    let growth = Growth { low, high };
    let shrinks = growth.low.iter().chain(&growth.high).any(|&n| n < 0);
    let total = module.ty(result).dims().to_vec();
    if shrinks
        || interior.iter().any(|&n| n != 0)
        || !is_large(module.ty(part).dims(), &total)
        || !is_work_on_parts(module, op, part, &growth)
    {
        return false;
    }
    if let Some(user) = only_user(module, op) {
        let built = combine(module, user, (result, part), value, &growth);
        return replace(module, user, built);
    }
    let built = build(module, op, part, &growth, |b| {
        let ty = b.ty(result).clone();
        b.broadcast_as(value, ty, &[])
    });
    replace(module, op, built)
}

/// The operation of two operands that alone uses the result of `op`, if that is all that becomes of it.
fn only_user(module: &Module, op: OpId) -> Option<OpId> {
    let &[used] = module.value(module.op(op).results()[0]).uses() else { return None };
    let data = module.op(used.op);
    let is_binary = matches!(data.kind(), OpKind::Binary(_)) && data.operands()[0] != data.operands()[1];
    (is_binary && data.parent() == module.op(op).parent()).then_some(used.op)
}

/// What `user` makes of its other operand and `part` with a border of `value`, which it knows as `padded`: a choice between
/// its results, which XLA fuses where it does not fuse the result of a choice.
fn combine(
    module: &mut Module,
    user: OpId,
    (padded, part): (ValueId, ValueId),
    value: ValueId,
    growth: &Growth,
) -> Result<ValueId, BuildError> {
    let dims = module.ty(part).dims().to_vec();
    let grown = grow(module, user, part, growth)?;
    let (kind, operands) = (module.op(user).kind(), module.op(user).operands().to_vec());
    let mut b = Builder::before(module, user);
    let ty = b.ty(padded).clone();
    let border = b.broadcast_as(value, ty, &[])?;
    let with = |inside: ValueId| operands.iter().map(|&v| if v == padded { inside } else { v }).collect::<Vec<_>>();
    let (inside, around) = (b.apply(kind, &with(grown))?, b.apply(kind, &with(border))?);
    match mask(&mut b, &dims, growth)? {
        Some(mask) => b.select(mask, inside, around),
        None => Ok(inside),
    }
}

fn growth_of(part: &[i64], whole: &[i64], starts: &[i64]) -> Growth {
    let high = (0..whole.len()).map(|d| whole[d] - part[d] - starts[d]).collect();
    Growth { low: starts.to_vec(), high }
}

/// Whether the part is most of the array: a small one is written in place.
fn is_large(part: &[i64], whole: &[i64]) -> bool {
    let count = |dims: &[i64]| dims.iter().map(|&n| n as f64).product::<f64>();
    count(part) > 0.0 && 2.0 * count(part) >= count(whole)
}

/// Replaces `op` by `x` with `part` in place of what starts at `starts`.
fn assign(module: &mut Module, op: OpId, x: ValueId, part: ValueId, starts: Vec<i64>) -> bool {
    let dims = module.ty(x).dims().to_vec();
    if module.ty(part) == module.ty(x) {
        return replace(module, op, Ok(part));
    }
    let growth = growth_of(module.ty(part).dims(), &dims, &starts);
    if !is_large(module.ty(part).dims(), &dims) || !is_work_on_parts(module, op, part, &growth) {
        return false;
    }
    let built = build(module, op, part, &growth, |_| Ok(x));
    replace(module, op, built)
}

fn build(
    module: &mut Module,
    op: OpId,
    part: ValueId,
    growth: &Growth,
    around: impl FnOnce(&mut Builder<'_>) -> Result<ValueId, BuildError>,
) -> Result<ValueId, BuildError> {
    let dims = module.ty(part).dims().to_vec();
    let grown = grow(module, op, part, growth)?;
    let mut b = Builder::before(module, op);
    let around = around(&mut b)?;
    match mask(&mut b, &dims, growth)? {
        Some(mask) => b.select(mask, grown, around),
        None => Ok(grown),
    }
}

/// What was begun in vain has no use and goes with other dead operations.
fn replace(module: &mut Module, op: OpId, built: Result<ValueId, BuildError>) -> bool {
    let Ok(value) = built else { return false };
    let same = module.ty(value) == module.ty(module.op(op).results()[0]);
    if same {
        module.replace_op(op, &[value]);
    }
    same
}
