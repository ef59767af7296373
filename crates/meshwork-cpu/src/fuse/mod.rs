//! Fusion: arithmetic, index changes and reductions of a block as few loops over memory.
//!
//! See `README.md` beside this file.

mod affine;
mod bands;
#[cfg(test)]
mod bound_tests;
mod boxes;
mod build;
mod column;
#[cfg(test)]
mod column_tests;
#[cfg(test)]
mod gather_tests;
mod graph;
mod group;
mod interleaved;
mod keep;
mod listed;
#[cfg(test)]
mod memory_tests;
mod nest;
pub(crate) mod numbers;
mod packed;
mod phases;
#[cfg(test)]
mod random_tests;
mod range;
mod spread;
mod survey;
#[cfg(test)]
mod tests;
mod work;

use meshwork_ir::attr::GatherDims;
use meshwork_ir::op::{BodyOp, MovementOp, SourceOp};
use meshwork_ir::{Attr, ElementType, Module, OpId, OpKind, ValueId};

use crate::kernel::ir::{Combine, Ty};
use crate::kernel::jit_is_available;
use affine::{Lin, Map};
pub(crate) use affine::{scatter_parts, window};
pub(crate) use build::constant_bits;
pub(crate) use graph::Moved;
use graph::Node;
pub(crate) use group::State;
use numbers::lane;
pub(crate) use numbers::{Arithmetic, apply, cost, is_arithmetic, on};
pub(crate) use range::{Devices, comparison, range, whole};
pub use work::Fused;

/// Least and greatest integer of an element type.
pub(crate) fn limits_of(elem: meshwork_ir::ElementType) -> Option<(i64, i64)> {
    numbers::limits(lane(elem)?)
}

/// Whether fused loops compute with elements of this type; floats of one byte they only convert.
pub(crate) fn has_lanes(elem: meshwork_ir::ElementType) -> bool {
    lane(elem).is_some() && !crate::kernel::is_byte_float(elem)
}

/// How `op`, a `reduce`, combines, if a kernel can do it.
pub(crate) fn reduce_kind(module: &Module, op: OpId) -> Option<Combine> {
    let data = module.op(op);
    let &[operand, _] = data.operands() else { return None };
    let ty = lane(module.ty(operand).elem().filter(|&e| has_lanes(e))?)?;
    if data.kind() != OpKind::Body(BodyOp::Reduce) || module.ty(operand).elem() != module.ty(data.results()[0]).elem() {
        return None;
    }
    let combine = Combine::of_body(module, module.body_of(op, 0)?)?;
    let float = numbers::is_float(ty);
    Some(match (combine, ty) {
        (Combine::Add | Combine::Max, Ty::Pred) => Combine::Or,
        (Combine::Mul | Combine::Min, Ty::Pred) => Combine::And,
        (Combine::And | Combine::Or | Combine::Xor, _) if float => return None,
        _ => combine,
    })
}

/// The reduced dimensions of `op`, a `reduce`, in order.
pub(crate) fn reduced_dims(module: &Module, op: OpId) -> Vec<usize> {
    let mut dims: Vec<usize> =
        module.op(op).i64s("dimensions").unwrap_or_default().into_iter().map(|d| d as usize).collect();
    dims.sort_unstable();
    dims
}

/// If `op` reduces its innermost dimensions, from which one on. A row without elements has a result, but no loop.
pub(crate) fn row_reduce(module: &Module, op: OpId) -> Option<usize> {
    reduce_kind(module, op)?;
    let dims = reduced_dims(module, op);
    let shape = module.ty(module.op(op).operands()[0]).dims();
    let split = shape.len() - dims.len();
    let trailing = dims.iter().enumerate().all(|(i, &d)| d == split + i);
    let (rows, n) = (shape[..split].iter().product::<i64>(), shape[split..].iter().product::<i64>());
    let fits = trailing && n > 0 && (n <= LONG_ROW || rows >= MANY_ROWS) && !is_small_reduce(module, op);
    fits.then_some(split)
}

/// Whether `op` is a reduction of so few elements each that it is an expression like any other.
pub(crate) fn is_small_reduce(module: &Module, op: OpId) -> bool {
    let Some(&operand) = module.op(op).operands().first() else { return false };
    let shape = module.ty(operand).dims();
    let reduced = reduced_dims(module, op);
    let count: i64 = reduced.iter().map(|&d| shape[d]).product();
    // The elements of many short rows are taken apart.
    let rows = shape.iter().product::<i64>() / count.max(1);
    let most = if reduced == [shape.len().wrapping_sub(1)] && rows >= MANY_INTERLEAVED { INTERLEAVED } else { SMALL };
    reduce_kind(module, op).is_some() && (1..=most).contains(&count)
}

/// Where the elements are that a small reduction combines for its result at `map`, in order.
pub(crate) fn small_reads(module: &Module, op: OpId, map: &[Lin]) -> Vec<Map> {
    let shape = module.ty(module.op(op).operands()[0]).dims();
    let reduced = reduced_dims(module, op);
    let count: i64 = reduced.iter().map(|&d| shape[d]).product();
    let at = |i: i64| {
        let (mut rest, mut kept) = (i, map.iter().rev());
        let mut read: Map = vec![];
        for d in (0..shape.len()).rev() {
            if reduced.contains(&d) {
                read.push(Lin::at(rest % shape[d]));
                rest /= shape[d];
            } else {
                read.extend(kept.next());
            }
        }
        read.reverse();
        read
    };
    (0..count).map(at).collect()
}

/// Elements of a small reduction, and positions of a short dimension that are computed side by side.
pub(crate) const SMALL: i64 = 8;

/// The same for an innermost dimension, whose elements are taken apart or interleaved (`interleaved.rs`), and how many rows pay for that.
pub(crate) const INTERLEAVED: i64 = 16;
pub(crate) const MANY_INTERLEAVED: i64 = 256;

/// A longer row is reduced in pieces, unless there are many.
const LONG_ROW: i64 = 1 << 16;
const MANY_ROWS: i64 = 32;

/// Whether combining with this constant changes nothing.
fn is_neutral(combine: Combine, ty: Ty, node: &Node) -> bool {
    let Node::Const(word) = *node else { return false };
    let all = if numbers::bits(ty) == 64 { u64::MAX } else { (1 << numbers::bits(ty)) - 1 };
    let least = numbers::limits(ty).map(|l| l.0 as u64 & all);
    let most = numbers::limits(ty).map(|l| l.1 as u64 & all);
    match (combine, ty) {
        (Combine::Add, Ty::F32) => word & 0x7FFF_FFFF == 0,
        (Combine::Add, Ty::F64) => word << 1 == 0,
        (Combine::Mul, Ty::F32) => word == u64::from(1f32.to_bits()),
        (Combine::Mul, Ty::F64) => word == 1f64.to_bits(),
        (Combine::Max, Ty::F32) => word == u64::from(f32::NEG_INFINITY.to_bits()),
        (Combine::Max, Ty::F64) => word == f64::NEG_INFINITY.to_bits(),
        (Combine::Min, Ty::F32) => word == u64::from(f32::INFINITY.to_bits()),
        (Combine::Min, Ty::F64) => word == f64::INFINITY.to_bits(),
        (Combine::Add | Combine::Or | Combine::Xor, _) => word == 0,
        (Combine::Mul, _) => word == 1,
        (Combine::And, Ty::Pred) => word == 1,
        (Combine::And, _) => word == all,
        (Combine::Max, Ty::U64) => word == 0,
        (Combine::Min, Ty::U64) => word == u64::MAX,
        (Combine::Max, _) => Some(word) == least,
        (Combine::Min, _) => Some(word) == most,
    }
}

/// Whether `op` can be part of a fused loop.
pub(crate) fn is_fusible(module: &Module, op: OpId) -> bool {
    let data = module.op(op);
    let known = |v: ValueId| module.ty(v).elem().and_then(lane).is_some();
    let Some(&result) = data.results().first() else { return false };
    if !known(result) || !data.operands().iter().all(|&v| known(v)) {
        return false;
    }
    match data.kind() {
        OpKind::Movement(
            MovementOp::Slice
            | MovementOp::Reverse
            | MovementOp::Transpose
            | MovementOp::BroadcastInDim
            | MovementOp::Broadcast
            | MovementOp::Reshape,
        )
        | OpKind::Source(SourceOp::Iota) => true,
        OpKind::Movement(MovementOp::BitcastConvert) => {
            let whole = |v: ValueId| {
                module
                    .ty(v)
                    .elem()
                    .is_some_and(|e| lane(e).is_some_and(|t| t != Ty::Pred && numbers::bits(t) as usize == e.bits()))
            };
            whole(result)
                && whole(data.operands()[0])
                && module.ty(result).dims() == module.ty(data.operands()[0]).dims()
        }
        OpKind::Movement(MovementOp::Pad) => data.i64s("interior_padding").is_some_and(|p| p.iter().all(|&i| i == 0)),
        OpKind::Movement(MovementOp::Concatenate) => data.operands().len() <= MAX_PIECES,
        OpKind::Body(BodyOp::Scatter) if !module.ty(result).elem().is_some_and(has_lanes) => false,
        OpKind::Movement(MovementOp::DynamicUpdateSlice) | OpKind::Body(BodyOp::Scatter) => affine::window(module, op)
            .is_some_and(|w| {
                let count = |v: ValueId| module.ty(v).dims().iter().product::<i64>();
                count(w.update) * 4 >= count(w.target)
            }),
        // What is sliced is in memory, or at a place that follows from the number of the device.
        OpKind::Movement(MovementOp::DynamicSlice) => true,
        OpKind::Movement(MovementOp::Gather) => is_pick(module, op) || is_row_pick(module, op),
        OpKind::Body(BodyOp::Reduce) => row_reduce(module, op).is_some() || is_small_reduce(module, op),
        _ => numbers::is_arithmetic(module, op),
    }
}

/// Whether `op` is a slice at a place that is data.
pub(crate) fn is_moved_slice(module: &Module, op: OpId) -> bool {
    module.op(op).kind() == OpKind::Movement(MovementOp::DynamicSlice)
        && affine::offsets(module, op, range::Devices::SOME).is_none()
}

/// Whether `op` gathers elements that fused loops load where they are used, from an array in memory: single ones, each at a place of
/// its own, or those of windows of a few.
pub(crate) fn is_pick(module: &Module, op: OpId) -> bool {
    let data = module.op(op);
    if data.kind() != OpKind::Movement(MovementOp::Gather) {
        return false;
    }
    let &[from, indices] = data.operands() else { return false };
    let (Some(elem), Some(index)) = (module.ty(from).elem(), module.ty(indices).elem()) else { return false };
    let count = |v: ValueId| module.ty(v).dims().iter().product::<i64>();
    let plain = has_lanes(elem) && elem != ElementType::Index && index.is_integer() && index != ElementType::UI64;
    let window: i64 = data.i64s("slice_sizes").unwrap_or_default().iter().product();
    let fits = count(data.results()[0]) >= 2 && (1..=MOST_BYTES).contains(&(count(from) * 8));
    // Few bytes side by side are copied at once.
    let most = if elem.storage_bytes() < 4 { 1 } else { MOST_BESIDE };
    plain && fits && (1..=most).contains(&window) && jit_is_available()
}

/// Whether `op` gathers rows that fused loops read where they are, from an array in memory at places in memory.
pub(crate) fn is_row_pick(module: &Module, op: OpId) -> bool {
    let data = module.op(op);
    let (&[from, indices], Some(Attr::Gather(numbers))) = (data.operands(), data.attr("dimension_numbers")) else {
        return false;
    };
    let (Some(elem), Some(index)) = (module.ty(from).elem(), module.ty(indices).elem()) else { return false };
    let (last, end) = (module.ty(from).dims().len() as i64 - 1, module.ty(data.results()[0]).dims().len() as i64 - 1);
    let is_row = !numbers.collapsed_slice_dims.contains(&last)
        && !numbers.operand_batching_dims.contains(&last)
        && numbers.offset_dims.contains(&end);
    let long = data.i64s("slice_sizes").and_then(|sizes| sizes.last().copied()).is_some_and(|n| n >= LEAST_ROW);
    data.kind() == OpKind::Movement(MovementOp::Gather)
        && (has_lanes(elem) && elem != ElementType::Index && index.is_integer())
        && (is_row && long && jit_is_available())
        && !is_pick(module, op)
}

/// Where a gather, at a position of its result, finds the index vector, and where its element is in the window.
pub(crate) struct Pick {
    /// The position of the vector among the indices; of its components it is the first.
    vector: Map,
    /// Where the components are, if they have a dimension of their own.
    components: Option<usize>,
    /// Per dimension of the operand that no component says: where the element is along it.
    pub inside: Vec<(usize, Lin)>,
}

impl Pick {
    /// What the gather of `numbers` from an array of `rank` dimensions reads, whose indices have `index_rank` dimensions, for its
    /// result at `map`.
    pub fn new(numbers: &GatherDims, rank: usize, index_rank: usize, map: &[Lin]) -> Pick {
        let vector_dim = numbers.index_vector_dim as usize;
        let is_offset = |d: usize| numbers.offset_dims.contains(&(d as i64));
        let mut vector: Map = (0..map.len()).filter(|&d| !is_offset(d)).map(|d| map[d]).collect();
        let components = (vector_dim < index_rank).then_some(vector_dim);
        if components.is_some() {
            vector.insert(vector_dim, Lin::at(0));
        }
        let batching = numbers.operand_batching_dims.iter().zip(&numbers.start_indices_batching_dims);
        let mut inside: Vec<(usize, Lin)> = batching.map(|(&o, &i)| (o as usize, vector[i as usize])).collect();
        let left_out = |d: &usize| {
            let d = *d as i64;
            !numbers.collapsed_slice_dims.contains(&d) && !numbers.operand_batching_dims.contains(&d)
        };
        let kept = (0..rank).filter(left_out);
        inside.extend(kept.zip(&numbers.offset_dims).map(|(d, &at)| (d, map[at as usize])));
        Pick { vector, components, inside }
    }

    /// Where component `c` of the index vector is among the indices.
    pub fn read(&self, c: usize) -> Map {
        let mut read = self.vector.clone();
        if let Some(d) = self.components {
            read[d] = Lin::at(c as i64);
        }
        read
    }
}

/// Bytes of what is gathered from, which numbers of 32 bits count.
const MOST_BYTES: i64 = 1 << 30;
/// Elements of windows, which are computed side by side: those of longer ones are neighbors, which the library copies.
const MOST_BESIDE: i64 = 4;
/// Elements of rows that are read where they are: of shorter ones most of the time goes into finding the next.
const LEAST_ROW: i64 = 8;
/// The cost of a gathered element, in additions.
pub(crate) const PICK_COST: u32 = 6;

/// A concatenation of more pieces is left to the library.
const MAX_PIECES: usize = 12;

/// Whether `op` only renames elements.
pub(crate) fn is_renaming(kind: OpKind) -> bool {
    matches!(
        kind,
        OpKind::Movement(
            MovementOp::Slice
                | MovementOp::Reverse
                | MovementOp::Transpose
                | MovementOp::BroadcastInDim
                | MovementOp::Broadcast
                | MovementOp::Reshape
                | MovementOp::BitcastConvert
        )
    )
}
