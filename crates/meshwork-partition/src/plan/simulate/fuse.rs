//! Which operations run as one loop.
//!
//! Compilers fuse arithmetic on elements: a value whose readers all stand in one loop is never in memory. An operation
//! joins the group of its readers if these are all in one group; reductions and updates take their operands
//! in but end a group, unless the machine is a computer whose loops keep a row in its cache: there a reduction of rows joins the
//! loop that goes over the same rows again, as in a softmax or a norm. A concatenation that one loop reads is read where its pieces
//! are; pieces of another one, which may be concatenations, are written in their places where they are computed. What only spreads or makes up numbers is made again by
//! every reader; on a computer so is arithmetic that takes less time than to store its result and load it.

use meshwork_ir::op::{BodyOp, MovementOp, SourceOp};
use meshwork_ir::{Module, OpId, OpKind, ValueId};

use crate::plan::cost::{Class, Machine};
use crate::plan::memory::type_bytes;
use crate::plan::ops::PlannedOp;

/// The group of what every reader makes again.
pub(super) const MADE_AGAIN: usize = usize::MAX;

/// How an operation stands to a loop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Part {
    /// It is arithmetic on elements, or reads its operand in another order.
    Inside,
    /// It gives its operand another shape.
    Renames,
    /// It makes up or spreads numbers.
    Free,
    /// It takes its operands in; its results are written.
    Ends,
    /// It has loops of its own.
    Alone,
}

fn part(kind: OpKind) -> Part {
    match kind {
        OpKind::Unary(_) | OpKind::Binary(_) | OpKind::Mixed(_) => Part::Inside,
        OpKind::Movement(m) => match m {
            MovementOp::Reshape | MovementOp::BitcastConvert => Part::Renames,
            MovementOp::BroadcastInDim | MovementOp::Broadcast => Part::Free,
            MovementOp::Concatenate | MovementOp::DynamicUpdateSlice => Part::Ends,
            MovementOp::Slice
            | MovementOp::DynamicSlice
            | MovementOp::Pad
            | MovementOp::Transpose
            | MovementOp::Reverse => Part::Inside,
            _ => Part::Alone,
        },
        OpKind::Source(SourceOp::Constant | SourceOp::Iota) => Part::Free,
        OpKind::Body(BodyOp::Reduce) => Part::Ends,
        _ => Part::Alone,
    }
}

/// How `op` stands to a loop. What is joined is read where it is; loops of a computer write short sums out.
pub(super) fn part_of(module: &Module, op: OpId, rows: Rows) -> Part {
    match module.op(op).kind() {
        OpKind::Movement(MovementOp::Concatenate) => Part::Inside,
        OpKind::Body(BodyOp::Reduce) if rows == Rows::InCache && is_expression(module, op) => Part::Inside,
        kind => part(kind),
    }
}

/// What is known about the readers of an operation's results.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Readers {
    None,
    /// All are in this group.
    In(usize),
    /// All are in groups, or take what the operation makes as they go.
    Groups,
    /// All are products.
    Products,
    Others,
}

impl Readers {
    fn and(self, other: Readers) -> Readers {
        match (self, other) {
            (Readers::None, one) | (one, Readers::None) => one,
            (a, b) if a == b => a,
            (Readers::In(_) | Readers::Groups, Readers::In(_) | Readers::Groups) => Readers::Groups,
            _ => Readers::Others,
        }
    }
}

/// Bytes of concatenations that each operation writes where it computes them: less than none for those that are left with less to
/// write.
pub(super) fn pieces_in_place(
    module: &Module,
    ops: &[PlannedOp],
    group: &[usize],
    made_by: &impl Fn(ValueId) -> Option<usize>,
) -> Vec<i64> {
    let mut placed = vec![0; ops.len()];
    for i in (0..ops.len()).filter(|&i| group[i] == i) {
        let mut whole = vec![i];
        while let Some(join) = whole.pop() {
            let data = module.op(ops[join].op);
            if data.kind() != MovementOp::Concatenate {
                continue;
            }
            for &v in data.operands() {
                let Some(from) = made_by(v).filter(|&from| group[from] == i) else { continue };
                if module.op(ops[from].op).kind() == MovementOp::Concatenate {
                    whole.push(from);
                } else {
                    placed[from] += type_bytes(module.ty(v));
                    placed[i] -= type_bytes(module.ty(v));
                }
            }
        }
    }
    placed
}

/// Whether loops go over the rows of an array several times while they are in a cache.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Rows {
    /// They do, as on a computer.
    InCache,
    /// Each loop reads memory.
    InMemory,
}

impl Rows {
    /// What loops of `machine` do.
    pub(super) fn of(machine: &Machine) -> Rows {
        if machine.host.is_some() { Rows::InCache } else { Rows::InMemory }
    }
}

/// The longest row that stays in a cache.
const ROW_BYTES: i64 = 1 << 18;

/// The extent of the rows that `op` reduces, if they are the last dimensions of its operands, and the bytes of an element.
fn reduced_row(module: &Module, op: OpId) -> Option<(i64, i64)> {
    let data = module.op(op);
    let (gone, &first) = (data.i64s("dimensions")?, data.operands().first()?);
    let dims = module.ty(first).dims();
    let kept = dims.len() - gone.len().min(dims.len());
    let is_row = data.kind() == BodyOp::Reduce && gone.iter().all(|&d| d >= kept as i64);
    let elem = module.ty(first).elem().map_or(1, |elem| elem.storage_bytes() as i64);
    is_row.then(|| (dims[kept..].iter().product(), elem))
}

/// Whether `op` reduces short rows: the last dimensions of its operands.
pub(super) fn reduces_rows(module: &Module, op: OpId) -> bool {
    reduced_row(module, op).is_some_and(|(extent, elem)| extent * elem <= ROW_BYTES)
}

/// The most elements whose sum a loop of a computer writes out as an expression.
const EXPRESSION: i64 = 8;

/// Whether `op` reduces so few elements that they are an expression.
fn is_expression(module: &Module, op: OpId) -> bool {
    let data = module.op(op);
    let (Some(gone), Some(&first)) = (data.i64s("dimensions"), data.operands().first()) else { return false };
    let dims = module.ty(first).dims();
    gone.iter().filter_map(|&d| dims.get(d as usize)).product::<i64>() <= EXPRESSION
}

/// The class of `op`, with reductions told apart by what they reduce.
pub(super) fn class_of(module: &Module, op: OpId, rows: Rows) -> Class {
    match module.op(op).kind() {
        OpKind::Body(BodyOp::Reduce) if rows == Rows::InCache && is_expression(module, op) => Class::Elementwise,
        OpKind::Body(BodyOp::Reduce) if reduced_row(module, op).is_none() => Class::Columns,
        kind => Class::of(kind),
    }
}

/// What loading an element costs, in additions.
const LOAD: u32 = 5;
/// What storing an element and loading it again costs, in additions: the loops of a computer compute again what costs less.
const STORE_AND_LOAD: u32 = 10;

/// Whether making a result of `op` again costs no more than to store it and load it again.
fn is_cheap(module: &Module, op: OpId) -> bool {
    let mut cost = 0;
    let mut work = vec![op];
    let mut seen: Vec<ValueId> = vec![];
    while let Some(op) = work.pop() {
        let kind = module.op(op).kind();
        cost += match (part(kind), Class::of(kind)) {
            (Part::Inside, Class::Elementwise) => 1,
            (Part::Inside, Class::Movement) if kind != MovementOp::Transpose => 0,
            (Part::Renames, _) => 0,
            _ => return false,
        };
        for &v in module.op(op).operands() {
            if seen.contains(&v) {
                continue;
            }
            seen.push(v);
            match module.def_op(v).map(|from| (from, part(module.op(from).kind()))) {
                Some((from, Part::Inside | Part::Renames)) => work.push(from),
                // A number for a row, or for all.
                Some((_, Part::Free)) => cost += 1,
                _ => cost += LOAD,
            }
        }
        if cost > STORE_AND_LOAD {
            return false;
        }
    }
    true
}

/// The last operation of the loop that each is part of. Marks what products read in any order by a traffic of 0.
pub(super) fn groups(
    module: &Module,
    ops: &mut [PlannedOp],
    parts: &[Part],
    made_by: &impl Fn(ValueId) -> Option<usize>,
    rows: Rows,
) -> Vec<usize> {
    let mut group: Vec<usize> = (0..ops.len()).collect();
    let mut readers = vec![Readers::None; ops.len()];
    for i in (0..ops.len()).rev() {
        let kind = module.op(ops[i].op).kind();
        let transposed = kind == MovementOp::Transpose && readers[i] == Readers::Products;
        ops[i].traffic = if transposed { 0 } else { ops[i].bytes };
        match (parts[i], readers[i]) {
            (Part::Inside | Part::Renames | Part::Free, Readers::In(g)) => group[i] = g,
            (Part::Ends, Readers::In(g)) if rows == Rows::InCache && reduces_rows(module, ops[i].op) => group[i] = g,
            (Part::Free, Readers::Groups) => {
                group[i] = MADE_AGAIN;
                ops[i].traffic = 0;
            }
            (Part::Inside, Readers::Groups) if rows == Rows::InCache && is_cheap(module, ops[i].op) => {
                group[i] = MADE_AGAIN;
                ops[i].traffic = 0;
            }
            _ => {}
        }
        let of_this = readers[i];
        let reads = |same_block: bool| match parts[i] {
            Part::Alone if Class::of(kind).is_product() => Readers::Products,
            _ if !same_block => Readers::Others,
            Part::Alone => Readers::Others,
            Part::Renames if of_this == Readers::Products => Readers::Products,
            Part::Free | Part::Renames if group[i] == i => Readers::Others,
            _ if group[i] == MADE_AGAIN => Readers::Groups,
            _ => Readers::In(group[i]),
        };
        for &v in module.op(ops[i].op).operands() {
            if let Some(from) = made_by(v) {
                readers[from] = readers[from].and(reads(ops[from].parent == ops[i].parent));
            }
        }
    }
    group
}

/// The last operation of the part of a loop that each can run in apart from the rest: the pieces of a concatenation are written one by
/// one. What is made again by every reader is apart from all.
pub(super) fn units(
    module: &Module,
    ops: &[PlannedOp],
    group: &[usize],
    made_by: &impl Fn(ValueId) -> Option<usize>,
) -> Vec<usize> {
    let mut unit: Vec<usize> = (0..ops.len()).collect();
    // The unit of all readers in the loop; more than one are none.
    let mut reader: Vec<Option<Option<usize>>> = vec![None; ops.len()];
    for i in (0..ops.len()).rev() {
        if group[i] != i && group[i] != MADE_AGAIN {
            unit[i] = reader[i].flatten().unwrap_or(i);
        }
        let data = module.op(ops[i].op);
        let joins = data.kind() == MovementOp::Concatenate && unit[i] == i;
        let own = (!joins).then_some(unit[i]);
        for from in data.operands().iter().filter_map(|&v| made_by(v)).filter(|&from| group[from] == group[i]) {
            let known = reader[from].get_or_insert(own);
            *known = if *known == own { own } else { None };
        }
    }
    unit
}
