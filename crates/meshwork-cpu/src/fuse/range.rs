//! What an integer scalar can be: the least and greatest value, from the program alone.

use meshwork_ir::DeviceGrid;
use meshwork_ir::op::{BinaryOp, BodyOp, MixedOp, MovementOp, SourceOp};
use meshwork_ir::{BlockId, Def, ElementType, Module, OpId, OpKind, ValueId};

use super::numbers::{self, lane, limits};
use crate::compile;
use crate::kernel::ir::Cmp;
use crate::library;

/// A set of devices.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Devices {
    /// The first and the last partition.
    partitions: (i64, i64),
    /// The last replica.
    replicas: i64,
}

impl Devices {
    /// One partition of several replicas, to ask whether a number follows from the partition alone.
    pub const SOME: Devices = Devices { partitions: (0, 0), replicas: 1 };

    /// All devices of any grid.
    pub const ALL: Devices = Devices { partitions: (0, u32::MAX as i64), replicas: u32::MAX as i64 };

    /// All devices of `grid`.
    pub fn all(grid: DeviceGrid) -> Devices {
        Devices { partitions: (0, grid.partitions as i64 - 1), replicas: grid.replicas as i64 - 1 }
    }

    /// Those of partition `p`.
    pub fn partition(grid: DeviceGrid, p: usize) -> Devices {
        Devices { partitions: (p as i64, p as i64), ..Devices::all(grid) }
    }
}

/// Bounds of `value` on `devices`.
pub(crate) fn range(module: &Module, value: ValueId, devices: Devices) -> Option<(i64, i64)> {
    bounded(module, value, devices, 0)
}

const MAX_DEPTH: usize = 16;

/// Operations above a comparison that are looked at: all comparisons of a program are asked about.
const COMPARED_DEPTH: usize = 6;

fn bounded(module: &Module, value: ValueId, devices: Devices, depth: usize) -> Option<(i64, i64)> {
    if depth > MAX_DEPTH {
        return None;
    }
    let found = match (crate::compile::constant(module, value), module.value(value).def()) {
        (Some(v), _) => (v, v),
        (None, Def::Arg(block, i)) => counter(module, block, i as usize)?,
        (None, _) => computed(module, value, devices, depth)?,
    };
    let (low, high) = whole(module.ty(value).elem()?)?;
    (low <= found.0 && found.1 <= high).then_some(found)
}

/// The least and greatest integer of a type, of which those from 2^63 on are left out: what stays inside has not wrapped round.
pub(crate) fn whole(elem: ElementType) -> Option<(i64, i64)> {
    if elem == ElementType::UI64 { Some((0, i64::MAX)) } else { limits(lane(elem)?) }
}

/// Bounds of what an operation computes, were there no end of numbers.
fn computed(module: &Module, value: ValueId, devices: Devices, depth: usize) -> Option<(i64, i64)> {
    let op = module.op(module.def_op(value)?);
    let of = |i: usize| bounded(module, *op.operands().get(i)?, devices, depth + 1);
    Some(match op.kind() {
        OpKind::Source(SourceOp::PartitionId) => devices.partitions,
        OpKind::Source(SourceOp::ReplicaId) => (0, devices.replicas),
        OpKind::Source(SourceOp::Iota) => {
            let along = *module.ty(value).dims().get(op.int("iota_dimension")? as usize)?;
            (0, (along - 1).max(0))
        }
        OpKind::Movement(MovementOp::Reshape | MovementOp::BroadcastInDim) => of(0)?,
        OpKind::Mixed(MixedOp::Convert) => of(0).or_else(|| narrow(module, op.operands()[0]))?,
        OpKind::Binary(BinaryOp::And) => masked(of(0), of(1))?,
        OpKind::Binary(BinaryOp::ShiftRightLogical) => shifted(lane(module.ty(value).elem()?)?.size(), of(0), of(1)?)?,
        OpKind::Binary(BinaryOp::Add) => combine(of(0)?, of(1)?, i64::checked_add)?,
        OpKind::Binary(BinaryOp::Subtract) => combine(of(0)?, of(1)?, i64::checked_sub)?,
        OpKind::Binary(BinaryOp::Multiply) => combine(of(0)?, of(1)?, i64::checked_mul)?,
        OpKind::Binary(BinaryOp::Minimum) => combine(of(0)?, of(1)?, |a, b| Some(a.min(b)))?,
        OpKind::Binary(BinaryOp::Maximum) => combine(of(0)?, of(1)?, |a, b| Some(a.max(b)))?,
        OpKind::Mixed(MixedOp::Compare) => {
            let cmp = numbers::direction(op.enum_value("comparison_direction")?)?;
            compared(cmp, of(0)?, of(1)?).map_or((0, 1), |known| (known.into(), known.into()))
        }
        OpKind::Mixed(MixedOp::Select) => match (of(0)?, of(1)?, of(2)?) {
            ((1, 1), yes, _) => yes,
            ((0, 0), _, no) => no,
            (_, yes, no) => (yes.0.min(no.0), yes.1.max(no.1)),
        },
        OpKind::Mixed(MixedOp::Clamp) => {
            let (low, high) = (of(0)?, of(2)?);
            let x = of(1).unwrap_or((i64::MIN, i64::MAX));
            let bound = |x: i64, low: i64, high: i64| x.max(low).min(high);
            (bound(x.0, low.0, high.0), bound(x.1, low.1, high.1))
        }
        // The second result of `argmax` is one of the positions that it is given.
        OpKind::Body(BodyOp::Reduce) if op.results().get(1) == Some(&value) => {
            library::takes_largest(module, module.body_of(module.def_op(value)?, 0)?)?;
            let (places, start) = (of(1)?, of(3)?);
            (places.0.min(start.0), places.1.max(start.1))
        }
        OpKind::Binary(BinaryOp::Divide) => divide(of(0)?, of(1)?)?,
        OpKind::Binary(BinaryOp::Remainder) => remainder(of(0)?, of(1)?)?,
        _ => return None,
    })
}

/// What the comparison `op` gives on all of `devices`, if the bounds of what it compares decide it.
pub(crate) fn comparison(module: &Module, op: OpId, devices: Devices) -> Option<bool> {
    let data = module.op(op);
    let &[left, right] = data.operands() else { return None };
    let cmp = numbers::direction(data.enum_value("comparison_direction")?)?;
    let bounds = |v: ValueId| bounded(module, v, devices, MAX_DEPTH - COMPARED_DEPTH);
    compared(cmp, bounds(left)?, bounds(right)?)
}

/// Bounds of integers without sign of one or two bytes.
fn narrow(module: &Module, value: ValueId) -> Option<(i64, i64)> {
    let ty = lane(module.ty(value).elem()?).filter(|ty| ty.is_unsigned() && ty.size() < 4)?;
    limits(ty)
}

/// Bounds of the bits that two numbers have in common, one of which is not negative.
fn masked(a: Option<(i64, i64)>, b: Option<(i64, i64)>) -> Option<(i64, i64)> {
    let most = [a, b].into_iter().flatten().filter(|bounds| bounds.0 >= 0).map(|bounds| bounds.1).min()?;
    Some((0, most))
}

/// Bounds of a number of `size` bytes without its last bits, where zeros come in at the other end.
fn shifted(size: usize, x: Option<(i64, i64)>, places: (i64, i64)) -> Option<(i64, i64)> {
    let bits = 8 * size as i64;
    if places.0 < 1 || places.1 >= bits {
        return None;
    }
    let most = x.filter(|x| x.0 >= 0).map_or(u64::MAX >> (64 - bits), |x| x.1 as u64);
    Some((0, (most >> places.0) as i64))
}

/// Bounds of carry `i` of the loop whose body is `block`, if it counts the turns.
fn counter(module: &Module, block: BlockId, i: usize) -> Option<(i64, i64)> {
    let op = module.block_parent_op(block).filter(|&op| module.body_of(op, 1) == Some(block))?;
    let last = i64::try_from(compile::trip_count(module, op)?.checked_sub(1)?).ok()?;
    let first = compile::constant(module, *module.op(op).operands().get(i)?)?;
    let end = compile::step_of(module, block, i)?.checked_mul(last)?.checked_add(first)?;
    Some((first.min(end), first.max(end)))
}

/// Bounds of a function that is monotone in each argument.
pub(crate) fn combine(a: (i64, i64), b: (i64, i64), f: impl Fn(i64, i64) -> Option<i64>) -> Option<(i64, i64)> {
    let corners = [f(a.0, b.0)?, f(a.0, b.1)?, f(a.1, b.0)?, f(a.1, b.1)?];
    Some((*corners.iter().min()?, *corners.iter().max()?))
}

/// Bounds of a quotient with a positive divisor.
pub(crate) fn divide(a: (i64, i64), b: (i64, i64)) -> Option<(i64, i64)> {
    if b.0 <= 0 {
        return None;
    }
    combine(a, b, |x, y| x.checked_div(y))
}

/// Bounds of a remainder of numbers that are not negative.
pub(crate) fn remainder(a: (i64, i64), b: (i64, i64)) -> Option<(i64, i64)> {
    match (a.0 >= 0 && b.0 > 0, a.0 == a.1 && b.0 == b.1) {
        (true, true) => Some((a.0 % b.0, a.0 % b.0)),
        (true, false) => Some((0, a.1.min(b.1 - 1))),
        (false, _) => None,
    }
}

/// What a comparison of numbers within bounds always gives.
pub(crate) fn compared(f: Cmp, a: (i64, i64), b: (i64, i64)) -> Option<bool> {
    let known = |yes: bool, no: bool| (yes || no).then_some(yes);
    match f {
        Cmp::Lt => known(a.1 < b.0, a.0 >= b.1),
        Cmp::Le => known(a.1 <= b.0, a.0 > b.1),
        Cmp::Gt => known(a.0 > b.1, a.1 <= b.0),
        Cmp::Ge => known(a.0 >= b.1, a.1 < b.0),
        Cmp::Eq => known(a == b && a.0 == a.1, a.1 < b.0 || a.0 > b.1),
        Cmp::Ne => known(a.1 < b.0 || a.0 > b.1, a == b && a.0 == a.1),
    }
}
