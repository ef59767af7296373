//! Loops over a few numbers as one kernel whose rows are the turns.
//!
//! See `README.md` beside this file.

mod code;
mod early;
mod elements;
mod expand;
mod gathers;
mod known;
mod limit;
mod line;
mod mixed;
#[cfg(test)]
mod mixed_tests;
mod open;
mod routine;
mod tables;
#[cfg(test)]
mod tests;
mod winners;
mod work;

use std::sync::Arc;

use meshwork_ir::op::{BodyOp, ContractOp, ControlOp, MovementOp};
use meshwork_ir::{BlockId, ElementType, Module, OpId, OpKind, ValueId, Walk};

use crate::compile::lower::Lower;
use crate::compile::trip_count;
use crate::kernel::ir::{BinaryOp, Combine};
use crate::kernel::{Backend, Kernel, Stores};
use crate::program::Node;
use crate::step::{Buf, Step, View};
use code::Place;
use elements::{Expansion, Pick};
use expand::Expand;
use line::Line;
pub(crate) use line::Turns;
use work::{Carry, Copied, Data, End, Rows};

/// Fewer turns are not worth a kernel of their own.
const FEWEST_TURNS: u64 = 4;
/// So many turns, roughly, have loops whose end depends on data.
const OPEN_TURNS: u64 = 32;
/// Fewer lanes are elements like any others, unless these are too many for one by one.
const FEWEST_LANES: i64 = 8;
const FEWEST_NARROW_LANES: i64 = 4;
/// Elements per lane of a loop that treats all elements alike, and of one that only moves them besides: a stencil.
const MOST_PER_LANE: i64 = 4;
const MOST_MOVED_PER_LANE: i64 = 32;
/// Nanoseconds from one step of a turn to the next, in an ordinary loop.
const STEP_NS: f64 = 45.0;
/// Nanoseconds of an operation on one element or one vector.
const OP_NS: f64 = 0.3;
/// The share of the arithmetic of a turn without lanes that vectors would save.
const SCALAR_SHARE: f64 = 0.75;
/// Nanoseconds to combine lanes, and to begin and end a row of them.
const COMBINING_NS: f64 = 25.0;
/// Nanoseconds of a turn from which on threads are worth more than a kernel of all turns whose lanes are combined.
const MOST_COMBINED_NS: f64 = 1000.0;

/// Makes the loop `op` one step, if it is small enough. Its operands and what it captures are in memory.
pub(crate) fn lower(cx: &mut Lower<'_>, op: OpId) -> bool {
    as_rows(cx, op, Width::Any) || routine::lower(cx, op) || as_rows(cx, op, Width::Narrow)
}

/// How many lanes rows may have.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Width {
    /// None, or enough to fill vectors.
    Any,
    /// Few, which are better than an ordinary loop.
    Narrow,
}

/// As a kernel whose rows are the turns.
fn as_rows(cx: &mut Lower<'_>, op: OpId, width: Width) -> bool {
    let module = cx.module;
    let Some(body) = module.body_of(op, 1) else { return false };
    let (trips, goes_on) = match trip_count(module, op) {
        Some(trips) => (trips, None),
        None => (OPEN_TURNS, open::goes_on(module, op)),
    };
    let is_open = goes_on.is_some();
    let is_known = is_open || trip_count(module, op).is_some_and(|trips| trips >= FEWEST_TURNS);
    if !is_known || !crate::kernel::jit_is_available() || !is_plain(module, op) {
        return false;
    }
    let turns = Turns::new(module, op, body, trips).ending(goes_on);
    let mut extents: Vec<i64> = module.op(op).results().iter().flat_map(|&r| module.ty(r).dims().to_vec()).collect();
    extents.retain(|&n| match width {
        Width::Any => n >= FEWEST_LANES,
        Width::Narrow => (FEWEST_NARROW_LANES..FEWEST_LANES).contains(&n) && !is_open,
    });
    extents.sort_unstable();
    extents.dedup();
    // Arithmetic on whole arrays is one fused loop a turn, which is faster than many elements of a lane side by side.
    let most = match kind(module, op) {
        _ if is_open => MOST_MOVED_PER_LANE,
        Kind::Elementwise => MOST_PER_LANE,
        Kind::Moving => MOST_MOVED_PER_LANE,
        Kind::Other => i64::MAX,
    };
    let largest = largest_carry(module, op, body);
    extents.retain(|&n| largest <= n.saturating_mul(most));
    let with_lanes = extents.into_iter().rev().flat_map(|n| [(n, Pick::Last), (n, Pick::First)]);
    let without = [(1, Pick::Last)].into_iter().filter(|_| !is_open && width == Width::Any);
    for (lanes, pick) in with_lanes.chain(without) {
        let (bufs, steps) = (cx.bufs.len(), cx.nodes.len());
        if expand(cx, &turns, lanes, pick).is_some() {
            return true;
        }
        debug_assert_eq!(cx.nodes.len(), steps);
        // Constants of an attempt that came to nothing.
        cx.bufs.truncate(bufs);
    }
    false
}

/// Whether nothing in the loop is beyond all expansions.
fn is_plain(module: &Module, op: OpId) -> bool {
    let known = |&inner: &OpId| match module.op(inner).kind() {
        OpKind::Unary(_) | OpKind::Binary(_) | OpKind::Mixed(_) | OpKind::Source(_) => true,
        OpKind::Movement(MovementOp::Gather) => gathers::is_in_memory(module, inner, op),
        OpKind::Movement(f) => f != MovementOp::TorchIndexSelect,
        OpKind::Body(BodyOp::Scatter) => tables::is_one_scatter(module, inner),
        OpKind::Body(f) => f == BodyOp::Reduce,
        OpKind::Contract(f) => f == ContractOp::DotGeneral,
        OpKind::Control(f) => {
            matches!(f, ControlOp::While | ControlOp::Case | ControlOp::If | ControlOp::HloReturn)
        }
        _ => false,
    };
    module.ops_below(op, Walk::PreOrder).iter().skip(1).all(known)
}

/// What a loop does to its arrays.
enum Kind {
    /// The same to every element.
    Elementwise,
    /// The same to every element and others at some distance from it.
    Moving,
    Other,
}

fn kind(module: &Module, op: OpId) -> Kind {
    let kinds: Vec<OpKind> =
        module.ops_below(op, Walk::PreOrder).into_iter().skip(1).map(|inner| module.op(inner).kind()).collect();
    let alike = |kind: &OpKind| match kind {
        OpKind::Unary(_) | OpKind::Binary(_) | OpKind::Mixed(_) | OpKind::Source(_) => true,
        OpKind::Movement(f) => *f == MovementOp::BroadcastInDim,
        OpKind::Control(f) => *f == ControlOp::HloReturn,
        _ => false,
    };
    let moves = |kind: &OpKind| matches!(kind, OpKind::Movement(f) if *f != MovementOp::Gather);
    if kinds.iter().all(alike) {
        Kind::Elementwise
    } else if kinds.iter().all(|kind| alike(kind) || moves(kind)) {
        Kind::Moving
    } else {
        Kind::Other
    }
}

/// Elements of the largest array that the loop changes and does not only write to.
fn largest_carry(module: &Module, op: OpId, body: BlockId) -> i64 {
    let is_log = |(arg, next): (&ValueId, &ValueId)| {
        let data = module.def_op(*next).map(|def| module.op(def));
        data.is_some_and(|data| {
            data.kind() == OpKind::Movement(MovementOp::DynamicUpdateSlice) && data.operands().first() == Some(arg)
        })
    };
    let carries = module.op(op).results().iter().zip(module.block(body).args().iter().zip(module.returned(body)));
    let count = |r: ValueId| module.ty(r).dims().iter().product();
    let changes = |(arg, next): (&ValueId, &ValueId)| arg != next;
    carries.filter(|(_, carry)| changes(*carry) && !is_log(*carry)).map(|(&r, _)| count(r)).max().unwrap_or(0)
}

/// Steps that a turn of an ordinary loop has, roughly: one for what is fused, one for each op that is not. A loop inside has
/// those of all its turns.
fn steps(module: &Module, op: OpId) -> f64 {
    1.0 + module.body_of(op, 1).map_or(0.0, |body| further_steps(module, body))
}

/// Those of `block` but for what is fused.
fn further_steps(module: &Module, block: BlockId) -> f64 {
    let inside = |op: OpId, region| module.body_of(op, region).map_or(0.0, |b| further_steps(module, b));
    let own = |op: OpId| match module.op(op).kind() {
        OpKind::Control(ControlOp::While) => 1.0 + trip_count(module, op).unwrap_or(1) as f64 * (1.0 + inside(op, 1)),
        OpKind::Control(ControlOp::Case | ControlOp::If) => {
            1.0 + (0..module.op(op).regions().len()).map(|region| inside(op, region)).sum::<f64>()
        }
        OpKind::Contract(_) => 1.0,
        OpKind::Movement(MovementOp::DynamicUpdateSlice | MovementOp::Concatenate | MovementOp::Gather) => 1.0,
        OpKind::Body(_) => 0.5,
        _ => 0.0,
    };
    module.op_list(block).into_iter().map(own).sum()
}

/// A carry that the body only writes, at a line: the target of the write and its starts.
struct Log {
    update: ValueId,
    starts: Vec<Line>,
    /// Whether the turns write all of it.
    whole: bool,
}

/// Carry `i` as a log.
fn log(e: &Expansion<'_, '_>, i: usize) -> Option<Log> {
    let (module, turns) = (e.cx.module, e.turns);
    let (argument, next) = (module.block(turns.body).args()[i], module.returned(turns.body)[i]);
    let data = module.op(module.def_op(next)?);
    let &[into, update, ref starts @ ..] = data.operands() else { return None };
    let only = |v: ValueId| module.value(v).uses().len() == 1;
    if data.kind() != OpKind::Movement(MovementOp::DynamicUpdateSlice)
        || into != argument
        || !only(argument)
        || !only(next)
    {
        return None;
    }
    let (dims, sizes) = (module.ty(into).dims(), module.ty(update).dims());
    let room: Vec<i64> = dims.iter().zip(sizes).map(|(n, size)| n - size).collect();
    let starts = e.starts(starts, &room)?;
    let moving: Vec<usize> = (0..dims.len()).filter(|&d| starts[d].step != 0).collect();
    let &[moving] = &moving[..] else { return None };
    let covered = |d: usize| match d == moving {
        true => starts[d].step.abs() == sizes[d] && sizes[d] * turns.trips as i64 == dims[d],
        false => room[d] == 0,
    };
    Some(Log { update, whole: (0..dims.len()).all(covered), starts })
}

/// Adds the step of the loop whose lanes are a dimension of extent `lanes`.
fn expand<'m>(cx: &mut Lower<'m>, turns: &Turns<'m>, lanes: i64, pick: Pick) -> Option<()> {
    let (module, op) = (cx.module, turns.op);
    let data = module.op(op);
    let (args, returned) = (module.block(turns.body).args(), module.returned(turns.body));
    let worth = (steps(module, op) * STEP_NS / OP_NS) as usize;
    let most = if lanes == 1 { worth.min(elements::MOST) } else { elements::MOST };
    let mut e = Expansion::new(cx, turns, (lanes, pick), most);
    e.limit = limit::find(&e);
    // Read by every part, so no part overwrites it.
    e.reads.extend(e.limit.as_ref().map(|l| l.until.end.buf));
    let is_used = |i: usize| !module.value(data.results()[i]).uses().is_empty();
    let mut copied: Vec<Copied> = vec![];
    let mut results: Vec<(usize, View)> = vec![];
    // Before anything is asked for: what is sliced finds them.
    let mut tables: Vec<(usize, Vec<OpId>)> = vec![];
    for i in 0..args.len() {
        if turns.counter(i).is_some() || log(&e, i).is_some() {
            continue;
        }
        if let Some(updates) = tables::updates(&e, i) {
            let (elem, dims) = e.cx.shape(args[i]);
            let view = View::dense(e.cx.buffer(elem, &dims), elem, &dims);
            copied.push(Copied { from: e.cx.view(data.operands()[i])?.clone(), to: view.clone() });
            e.tables.insert(args[i], view.clone());
            tables.push((i, updates));
            results.push((i, view));
        }
    }
    for (i, updates) in &tables {
        let view = e.tables[&args[*i]].clone();
        updates.iter().try_for_each(|&op| e.update_table(op, &view))?;
    }
    // Last values of counters, and logs.
    for i in (0..args.len()).filter(|&i| is_used(i)) {
        let (elem, dims) = e.cx.shape(data.results()[i]);
        if let Some(line) = turns.counter(i) {
            let last = e.cx.constant(integer(elem, &dims, line.at(turns.trips)?)?);
            results.push((i, View::dense(last, elem, &dims)));
        } else if e.tables.contains_key(&args[i]) {
            // In the memory of the result already.
        } else if let Some(log) = log(&e, i) {
            let lane = e.lane_of(module.ty(log.update).dims());
            let elements = e.value(log.update, lane)?;
            let view = View::dense(e.cx.buffer(elem, &dims), elem, &dims);
            let start: i64 = log.starts.iter().zip(&view.strides).map(|(l, s)| l.base * s).sum();
            let per_turn = log.starts.iter().zip(&view.strides).map(|(l, s)| l.step * s).sum();
            let per_lane = lane.map_or(0, |d| view.strides[d]);
            let rest = expand::rest(module.ty(log.update).dims(), lane);
            for (offset, &element) in expand::offsets(&rest, &view.strides, start).into_iter().zip(elements.iter()) {
                let place = Place::Buf { buf: view.buf, offset, per_lane, per_turn };
                e.code.store(place, elem, lane.is_some(), element);
            }
            if !log.whole {
                copied.push(Copied { from: e.cx.view(data.operands()[i])?.clone(), to: view.clone() });
            }
            results.push((i, view));
        } else {
            // Asked for, so that it is part of the state.
            e.value(args[i], e.lane_of(&dims))?;
        }
    }
    // The next values of all carries that were asked for; asking may ask for more.
    let mut done = 0;
    while done < e.carries.len() {
        let (i, first) = e.carries[done];
        done += 1;
        if returned[i] == args[i] {
            continue;
        }
        let (elem, dims) = e.cx.shape(args[i]);
        let lane = e.lane_of(&dims);
        let elements = e.value(returned[i], lane)?;
        for (row, &element) in elements.iter().enumerate() {
            e.code.store(Place::State(first + row), elem, lane.is_some(), element);
        }
    }
    let (combines, mixes) = (e.code.combines(), e.code.mixes());
    if turns.goes_on.is_some() && mixes {
        return None;
    }
    // Combining lanes costs a few numbers as much as to compute with them one by one, and many lanes are worth several threads,
    // which only parts of an ordinary loop have.
    let one_by_one = e.code.cost as f64 * lanes as f64 * OP_NS;
    let by_vectors = e.code.len() as f64 * lanes as f64 / 8.0 * OP_NS;
    let is_large = work::state_bytes(&e.state, lanes) > work::STATE_BYTES || by_vectors > MOST_COMBINED_NS;
    if (mixes && is_large) || (combines && one_by_one < COMBINING_NS) {
        return None;
    }
    let open = match turns.goes_on {
        Some(goes_on) => Some(any_goes_on(&mut e, goes_on)?),
        None => None,
    };
    if e.code.failed {
        return None;
    }
    let (ops, once, cost) = (e.code.len() as f64, e.code.once() as f64, e.code.cost as f64);
    // An ordinary loop does as much, in vectors that are rarely full.
    let single = match lanes {
        1 => once.max(cost) * SCALAR_SHARE,
        // Most of each vector is empty.
        ..FEWEST_LANES => ops,
        _ => once,
    };
    if single > worth as f64 || (lanes > 1 && once == ops) {
        return None;
    }
    let carries = e.carries.clone();
    let (state, reads, pick_lane) =
        (e.state.clone(), e.reads.clone(), carries.iter().map(|&(i, _)| e.lane_of(module.ty(args[i]).dims())));
    let lane_dims: Vec<Option<usize>> = pick_lane.collect();
    let (limit, fixed) = (e.limit.take().map(|l| l.until), std::mem::take(&mut e.fixed));
    let code = e.code;
    let (places, index) = (code.places.clone(), code.index.clone());
    let kernel = Kernel::cached(code.body(), Stores::Cached).ok()?;
    if kernel.backend() != Backend::Compiled {
        return None;
    }
    let (loaded, mut reads, mut in_place) = (reads.clone(), reads, vec![]);
    let tables: Vec<(usize, View)> =
        results.iter().filter(|(i, _)| tables.iter().any(|t| t.0 == *i)).cloned().collect();
    let mut moved = vec![];
    for (&(i, first), lane) in carries.iter().zip(lane_dims) {
        let from = cx.view(data.operands()[i])?.clone();
        let to = match is_used(i) {
            true => {
                let (elem, dims) = cx.shape(data.results()[i]);
                let view = View::dense(cx.buffer(elem, &dims), elem, &dims);
                let whole = cx.bufs[from.buf.0 as usize].bytes == cx.bufs[view.buf.0 as usize].bytes;
                if lane.is_some() && from.is_dense() && whole && !reads.contains(&from.buf) {
                    in_place.push((from.buf, view.buf));
                }
                results.push((i, view.clone()));
                Some(view)
            }
            false => None,
        };
        moved.push(Carry { from, to, lane, row: first });
    }
    for from in moved.iter().map(|c| &c.from).chain(copied.iter().map(|c| &c.from)) {
        if !reads.contains(&from.buf) {
            reads.push(from.buf);
        }
    }
    // A table may be updated where it comes from.
    for Copied { from, to } in copied.iter().filter(|c| tables.iter().any(|(_, view)| view.buf == c.to.buf)) {
        let whole = cx.bufs[from.buf.0 as usize].bytes == cx.bufs[to.buf.0 as usize].bytes;
        let once = copied.iter().filter(|c| c.from.buf == from.buf).count() == 1;
        if from.is_dense() && whole && once && !loaded.contains(&from.buf) {
            in_place.push((from.buf, to.buf));
        }
    }
    // Read twice, it cannot be written meanwhile.
    let twice = |buf: Buf| moved.iter().filter(|c| c.from.buf == buf).count() > 1;
    in_place.retain(|&(from, _)| !twice(from));
    let is_written = |view: &View| cx.bufs[view.buf.0 as usize].constant.is_none();
    let writes = results.iter().filter(|(_, view)| is_written(view)).map(|(_, view)| view.buf).collect();
    let on = if lanes > 1 { format!(" on {lanes} lanes") } else { String::new() };
    let count = if open.is_some() { "open".to_string() } else { turns.trips.to_string() };
    let name = format!("{count} turns of {ops} operations{on}");
    let vectors = (lanes as f64 / 8.0).max(1.0);
    let turn_ns = (ops.max(cost) * vectors * OP_NS).max(2.0);
    let data_of = Data { state, carries: moved, copied, fixed };
    let end = match (open, limit) {
        (Some(row), _) => End::Open(row),
        (None, Some(until)) => End::Until(until),
        (None, None) => End::Known,
    };
    let work = Rows::new(kernel, places, index, (turns.trips, end), lanes, data_of, turn_ns);
    for (i, view) in results {
        cx.set_view(data.results()[i], view);
    }
    cx.nodes.push(Node::Step(Step { work: Arc::new(work), reads, writes, in_place, op, name }));
    Some(())
}

/// Adds what tells whether any lane went on at the start of the turn: a row of the state.
fn any_goes_on(e: &mut Expansion<'_, '_>, goes_on: ValueId) -> Option<usize> {
    let (lane, asked_for) = (e.lane_of(e.cx.module.ty(goes_on).dims())?, e.carries.len());
    let elements = e.value(goes_on, Some(lane))?;
    // Changes of all carries wait for it: what it needs is part of the state already, unless nobody needs the loop.
    if e.carries.len() > asked_for {
        return None;
    }
    let any = e.folded(BinaryOp::Or, elements.to_vec())?;
    let flag = e.code.reduce(Combine::Or, any);
    e.state.push((ElementType::I1, false));
    let row = e.state.len() - 1;
    e.code.store(Place::State(row), ElementType::I1, false, flag);
    Some(row)
}

/// An array of one integer.
fn integer(elem: meshwork_ir::ElementType, dims: &[i64], value: i64) -> Option<meshwork_ir::Literal> {
    let bytes = value.to_le_bytes()[..elem.storage_bytes()].to_vec();
    meshwork_ir::Literal::from_bytes(dims.iter().copied(), elem, bytes)
}
