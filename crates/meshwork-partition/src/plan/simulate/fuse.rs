//! Which operations run as one loop, and how long each takes then.
//!
//! Compilers fuse arithmetic on elements: a value whose readers all stand in one loop is never in memory. An operation
//! joins the group of its readers if these are all in one group; reductions, concatenations and updates take their operands
//! in but end a group (pieces of a concatenation, which may be concatenations, are written in their places where they are computed), unless the machine is a computer whose loops keep a row in its cache: there a reduction of rows joins the
//! loop that goes over the same rows again, as in a softmax or a norm. What only spreads or makes up numbers is made again by every reader. A group reads each value from outside once and writes
//! what others read. It takes as long as its arithmetic or its traffic, whichever is longer, and starts as one kernel.

use meshwork_ir::hash::{HashMap, HashSet};
use meshwork_ir::op::{BodyOp, MovementOp, SourceOp};
use meshwork_ir::{Def, Module, OpId, OpKind, ValueId};

use crate::plan::cause::short_name;
use crate::plan::cost::{Class, Machine};
use crate::plan::memory::type_bytes;
use crate::plan::ops::{PlannedOp, is_halo, touched};

/// The group of what every reader makes again.
const MADE_AGAIN: usize = usize::MAX;

/// How an operation stands to a loop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Part {
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

/// How `op` stands to a loop. Threads of one computer read halos where they are, so that blocks are not copied to join them.
fn part_of(module: &Module, op: OpId, rows: Rows) -> Part {
    let data = module.op(op);
    let joins_halos = || {
        let mut sources = data.operands().iter().filter_map(|&v| module.def_op(v));
        rows == Rows::InCache && sources.any(|source| is_halo(module, source))
    };
    match data.kind() {
        OpKind::Movement(MovementOp::Concatenate) if joins_halos() => Part::Inside,
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

/// Sets traffic and seconds of every operation that is no collective, on a mesh of `devices` devices.
pub(super) fn set_times(module: &Module, ops: &mut [PlannedOp], machine: &Machine, devices: i64) {
    let index: HashMap<OpId, usize> = ops.iter().enumerate().map(|(i, op)| (op.op, i)).collect();
    let made_by = |v: ValueId| match module.value(v).def() {
        Def::Result(op, _) => index.get(&op).copied(),
        Def::Arg(..) => None,
    };
    let rows = Rows::of(machine);
    let parts: Vec<Part> = ops.iter().map(|op| part_of(module, op.op, rows)).collect();
    let group = groups(module, ops, &parts, &made_by, rows);
    let free = |i: usize| group[i] == MADE_AGAIN;
    let placed = pieces_in_place(module, ops, &group, &made_by);
    let mut read: HashSet<(usize, ValueId)> = HashSet::default();
    let mut totals: Vec<Total> = vec![Total::default(); ops.len()];
    for i in 0..ops.len() {
        if ops[i].collective.is_some() || group[i] == MADE_AGAIN {
            continue;
        }
        let data = module.op(ops[i].op);
        let results = || data.results().iter().map(|&v| type_bytes(module.ty(v))).sum::<i64>();
        let traffic = match parts[i] {
            Part::Alone => touched(module, ops[i].op),
            Part::Renames | Part::Free if group[i] == i => 0,
            Part::Inside if group[i] == i && ops[i].traffic == 0 => 0,
            _ => {
                let picks = matches!(data.kind(), OpKind::Movement(MovementOp::Slice | MovementOp::DynamicSlice));
                // An update is written in place: the rest of the array is not touched.
                let (written, reads) = match (data.kind(), data.operands()) {
                    (OpKind::Movement(MovementOp::DynamicUpdateSlice), [_, update, ..]) => {
                        (type_bytes(module.ty(*update)), std::slice::from_ref(update))
                    }
                    (_, all) => (results(), all),
                };
                let mut traffic = placed[i] + if group[i] == i { written } else { 0 };
                for &v in reads {
                    // A row is reduced in the loop that makes it.
                    let takes_part = |from: usize| {
                        rows == Rows::InCache && parts[from] == Part::Inside && reduces_rows(module, ops[i].op)
                    };
                    let inside =
                        made_by(v).is_some_and(|from| group[from] == group[i] || free(from) || takes_part(from));
                    if !inside && read.insert((group[i], v)) {
                        let all = type_bytes(module.ty(v));
                        traffic += if picks { all.min(results()) } else { all };
                    }
                }
                traffic
            }
        };
        ops[i].traffic = traffic;
        let class = Class::of(data.kind());
        let first = data.operands().first().or(data.results().first());
        let elem = first.and_then(|&v| module.ty(v).as_tensor()).map_or(meshwork_ir::ElementType::F32, |t| t.elem);
        // Elements that change their places one by one take time in caches, too.
        let moves = matches!(data.kind(), OpKind::Movement(MovementOp::Transpose | MovementOp::Gather)) && traffic > 0;
        let moved = if moves { results() as f64 / elem.storage_bytes().max(1) as f64 } else { 0.0 };
        let listed = match data.kind() {
            OpKind::Unary(_) | OpKind::Binary(_) if !machine.device.functions.is_empty() => {
                machine.device.function_seconds(&short_name(data.name()), elem, ops[i].flops)
            }
            _ => None,
        };
        let by_class = || machine.device.arithmetic_seconds(class, elem, ops[i].flops + moved);
        ops[i].seconds = listed.unwrap_or_else(by_class);
        let total = &mut totals[group[i]];
        total.arithmetic += ops[i].seconds;
        total.traffic += traffic as f64;
    }
    for i in 0..ops.len() {
        if ops[i].collective.is_some() || group[i] == MADE_AGAIN {
            continue;
        }
        let Total { arithmetic, traffic } = totals[group[i]];
        // The thread that starts the loops of a computer computes numbers by itself.
        if machine.host.is_some() && traffic <= NUMBERS {
            ops[i].seconds = 0.0;
            continue;
        }
        let sharing = if machine.host.is_some() { devices } else { 1 };
        let memory = machine.device.shared_memory_seconds(traffic, sharing);
        let alone = arithmetic.max(memory);
        if alone <= 0.0 {
            ops[i].seconds = 0.0;
            continue;
        }
        let share = if arithmetic >= memory { ops[i].seconds / arithmetic } else { ops[i].traffic as f64 / traffic };
        let fixed = machine.device.curve(Class::of(module.op(ops[group[i]].op).kind())).microseconds * 1e-6;
        let own = alone * share + if group[i] == i { fixed } else { 0.0 };
        ops[i].seconds = match &machine.host {
            None => own,
            Some(host) => {
                let uncached = machine.device.caches.last().is_none_or(|&(size, _)| traffic * devices as f64 > size);
                own * host.seconds(alone + fixed, if uncached { traffic } else { 0.0 }, devices) / (alone + fixed)
            }
        };
    }
}

/// Bytes of concatenations that each operation writes where it computes them: less than none for those that are left with less to write.
fn pieces_in_place(
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
enum Rows {
    InCache,
    InMemory,
}

impl Rows {
    fn of(machine: &Machine) -> Rows {
        if machine.host.is_some() { Rows::InCache } else { Rows::InMemory }
    }
}

/// Bytes that a few numbers take at most.
const NUMBERS: f64 = 64.0;
/// The longest row that stays in a cache.
const ROW_BYTES: i64 = 1 << 18;

/// Whether `op` reduces short rows: the last dimensions of its operands.
fn reduces_rows(module: &Module, op: OpId) -> bool {
    let data = module.op(op);
    let (Some(gone), Some(&first)) = (data.i64s("dimensions"), data.operands().first()) else { return false };
    let dims = module.ty(first).dims();
    let kept = dims.len() - gone.len().min(dims.len());
    let last = gone.iter().all(|&d| d >= kept as i64);
    let elem = module.ty(first).elem().map_or(1, |elem| elem.storage_bytes() as i64);
    data.kind() == BodyOp::Reduce && last && dims[kept..].iter().product::<i64>() * elem <= ROW_BYTES
}

#[derive(Clone, Copy, Default)]
struct Total {
    arithmetic: f64,
    traffic: f64,
}

/// The last operation of the loop that each is part of. Marks what products read in any order by a traffic of 0.
fn groups(
    module: &Module,
    ops: &mut [PlannedOp],
    parts: &[Part],
    made_by: &impl Fn(ValueId) -> Option<usize>,
    rows: Rows,
) -> Vec<usize> {
    let mut group: Vec<usize> = (0..ops.len()).collect();
    let joins = |kind: OpKind| kind == MovementOp::Concatenate;
    let mut readers = vec![Readers::None; ops.len()];
    for i in (0..ops.len()).rev() {
        let kind = module.op(ops[i].op).kind();
        let transposed = kind == MovementOp::Transpose && readers[i] == Readers::Products;
        ops[i].traffic = if transposed { 0 } else { ops[i].bytes };
        match (parts[i], readers[i]) {
            (Part::Inside | Part::Renames | Part::Free, Readers::In(g)) => group[i] = g,
            (Part::Ends, Readers::In(g)) if rows == Rows::InCache && reduces_rows(module, ops[i].op) => group[i] = g,
            (Part::Ends, Readers::In(g)) if joins(kind) && joins(module.op(ops[g].op).kind()) => group[i] = g,
            (Part::Free, Readers::Groups) => {
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
