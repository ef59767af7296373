//! How long the loops of a program take, and what part of it each operation is.
//!
//! A group of operations ([`fuse`](super::fuse)) reads each value from outside once and writes what others read. It takes as
//! long as its arithmetic or its traffic, whichever is longer, and starts as one kernel. A group that reduces rows in a cache
//! goes over each row several times, in *phases*: a phase begins where something needs the result of a reduction. Each phase
//! takes as long as its own arithmetic or traffic. Where the speed of the innermost cache is known, all loads and stores of a
//! phase pass through it, those of an array at several places and of what phases before it have read included.

use meshwork_ir::hash::HashMap;
use meshwork_ir::op::{BinaryOp, MovementOp, UnaryOp};
use meshwork_ir::{Def, ElementType, Module, OpId, OpKind, ValueId};

use super::fuse::{MADE_AGAIN, Part, Rows, class_of, groups, part_of, pieces_in_place, reduces_rows, units};
use crate::plan::cause::short_name;
use crate::plan::cost::{Class, Machine};
use crate::plan::memory::type_bytes;
use crate::plan::ops::{PlannedOp, touched};

/// Bytes that a few numbers take at most.
const NUMBERS: f64 = 64.0;

/// What the operations of a phase amount to.
#[derive(Clone, Copy, Default)]
struct Phase {
    /// Seconds of arithmetic.
    arithmetic: f64,
    /// Bytes that pass through memory.
    traffic: f64,
    /// Bytes of all loads and stores.
    loaded: f64,
    /// Elements of functions that take registers, together, and of the largest.
    functions: (f64, f64),
}

/// What an operation does in its phase.
#[derive(Clone, Copy, Default)]
struct Share {
    phase: usize,
    loaded: f64,
    /// Elements, if it is a function that takes registers.
    function: f64,
}

/// The loops of a program.
struct Loops<'a> {
    module: &'a Module,
    ids: Vec<OpId>,
    index: HashMap<OpId, usize>,
    parts: Vec<Part>,
    group: Vec<usize>,
    /// Bytes of concatenations that each operation writes in their places.
    placed: Vec<i64>,
    /// The last operation of what each starts with.
    unit: Vec<usize>,
    rows: Rows,
}

/// Sets traffic and seconds of every operation that is no collective, on a mesh of `devices` devices. Gives for each the last
/// operation of what it starts together with.
pub(super) fn set_times(module: &Module, ops: &mut [PlannedOp], machine: &Machine, devices: i64) -> Vec<usize> {
    let loops = Loops::of(module, ops, Rows::of(machine));
    let mut seen: HashMap<(usize, ValueId), usize> = HashMap::default();
    let mut shares: Vec<Share> = vec![Share::default(); ops.len()];
    let mut phases: Vec<Vec<Phase>> = vec![vec![]; ops.len()];
    for i in 0..ops.len() {
        if ops[i].collective.is_some() || loops.is_made_again(i) {
            continue;
        }
        let g = loops.group[i];
        let operands = module.op(ops[i].op).operands();
        let phase = operands.iter().map(|&v| loops.phase_after(g, v, &shares)).max().unwrap_or(0);
        let Touched { traffic, loaded, again } = loops.touched(i, &ops[i], phase, &shares, &mut seen);
        ops[i].traffic = traffic;
        ops[i].seconds = arithmetic_seconds(module, &ops[i], machine);
        for (other, share) in again {
            ops[i].seconds += arithmetic_seconds(module, &ops[other], machine) * share;
        }
        let function = if takes_registers(module.op(ops[i].op).kind()) { elements(module, ops[i].op) } else { 0.0 };
        shares[i] = Share { phase, loaded: loaded as f64, function };
        let of_group = &mut phases[g];
        of_group.resize(of_group.len().max(phase + 1), Phase::default());
        let total = &mut of_group[phase];
        total.traffic += traffic as f64;
        total.loaded += loaded as f64;
        total.functions = (total.functions.0 + function, total.functions.1.max(function));
    }
    // What functions take is known when it is known how many they are.
    for i in 0..ops.len() {
        if ops[i].collective.is_none() && !loops.is_made_again(i) {
            let total = &mut phases[loops.group[i]][shares[i].phase];
            if shares[i].function > 0.0 {
                ops[i].seconds *= machine.device.crowded(total.functions.0 / total.functions.1);
            }
            total.arithmetic += ops[i].seconds;
        }
    }
    for i in 0..ops.len() {
        if ops[i].collective.is_none() && !loops.is_made_again(i) {
            let leader = ops[loops.group[i]].op;
            let fixed = machine.device.curve(class_of(module, leader, loops.rows)).microseconds * 1e-6;
            let fixed = if loops.starts(i, &ops[i]) { Fixed::Leads(fixed) } else { Fixed::Follows(fixed) };
            ops[i].seconds = seconds_of(&ops[i], shares[i], &phases[loops.group[i]], fixed, machine, devices);
        }
    }
    loops.unit
}

/// The time to start a loop, of the operation that has it or of another one.
#[derive(Clone, Copy)]
enum Fixed {
    Leads(f64),
    Follows(f64),
}

/// The part of its loop's time that is an operation's, whose `seconds` are those of its arithmetic.
fn seconds_of(op: &PlannedOp, share: Share, phases: &[Phase], fixed: Fixed, machine: &Machine, devices: i64) -> f64 {
    let traffic: f64 = phases.iter().map(|phase| phase.traffic).sum();
    // The thread that starts the loops of a computer computes numbers by itself.
    if machine.host.is_some() && traffic <= NUMBERS {
        return 0.0;
    }
    let sharing = if machine.host.is_some() { devices } else { 1 };
    let by_byte = if traffic > 0.0 { machine.device.shared_memory_seconds(traffic, sharing) / traffic } else { 0.0 };
    let memory = |bytes: f64| bytes * by_byte;
    let loads = |bytes: f64| machine.device.loaded_seconds(bytes);
    let longer = |phase: &Phase| phase.arithmetic.max(memory(phase.traffic)).max(loads(phase.loaded));
    let alone: f64 = phases.iter().map(longer).sum();
    if alone <= 0.0 {
        return 0.0;
    }
    let phase = &phases[share.phase];
    let (by_memory, by_loads) = (memory(phase.traffic), loads(phase.loaded));
    let own = if phase.arithmetic >= by_memory.max(by_loads) {
        op.seconds
    } else if by_memory >= by_loads {
        memory(op.traffic as f64)
    } else {
        loads(share.loaded)
    };
    let (own, fixed) = match fixed {
        Fixed::Leads(fixed) => (own + fixed, fixed),
        Fixed::Follows(fixed) => (own, fixed),
    };
    match &machine.host {
        None => own,
        Some(host) => {
            let uncached = machine.device.caches.last().is_none_or(|&(size, _)| traffic * devices as f64 > size);
            own * host.seconds(alone + fixed, if uncached { traffic } else { 0.0 }, devices) / (alone + fixed)
        }
    }
}

/// How much of an array is read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reads {
    Whole,
    Part,
}

/// Whether an operation picks a part of its operand.
fn picks(kind: OpKind) -> bool {
    matches!(kind, OpKind::Movement(MovementOp::Slice | MovementOp::DynamicSlice))
}

/// What an operation touches as a part of its loop.
struct Touched {
    /// Bytes through memory.
    traffic: i64,
    /// Bytes of loads and stores, wherever they are.
    loaded: i64,
    /// What it makes again for itself, and the share of its elements.
    again: Vec<(usize, f64)>,
}

impl<'a> Loops<'a> {
    fn of(module: &'a Module, ops: &mut [PlannedOp], rows: Rows) -> Loops<'a> {
        let ids: Vec<OpId> = ops.iter().map(|op| op.op).collect();
        let index: HashMap<OpId, usize> = ids.iter().enumerate().map(|(i, &op)| (op, i)).collect();
        let parts: Vec<Part> = ids.iter().map(|&op| part_of(module, op, rows)).collect();
        let mut loops = Loops { module, ids, index, parts, group: vec![], placed: vec![], unit: vec![], rows };
        loops.group = groups(module, ops, &loops.parts, &|v| loops.made_by(v), rows);
        loops.placed = pieces_in_place(module, ops, &loops.group, &|v| loops.made_by(v));
        loops.unit = match rows {
            Rows::InMemory => units(module, ops, &loops.group, &|v| loops.made_by(v)),
            // Nothing runs beside what is sent.
            Rows::InCache => (0..ops.len()).map(|i| if loops.is_made_again(i) { i } else { loops.group[i] }).collect(),
        };
        loops
    }

    fn made_by(&self, v: ValueId) -> Option<usize> {
        match self.module.value(v).def() {
            Def::Result(op, _) => self.index.get(&op).copied(),
            Def::Arg(..) => None,
        }
    }

    fn is_made_again(&self, i: usize) -> bool {
        self.group[i] == MADE_AGAIN
    }

    /// Whether operation `i` has the time to start a loop. What only joins pieces that are in their places starts nothing.
    fn starts(&self, i: usize, op: &PlannedOp) -> bool {
        let pieces =
            |v: &ValueId| self.made_by(*v).is_some_and(|from| self.unit[from] == from && self.group[from] == i);
        let data = self.module.op(op.op);
        let joins = data.kind() == MovementOp::Concatenate && op.traffic == 0 && data.operands().iter().any(pieces);
        self.unit[i] == i && !joins
    }

    /// The first phase of group `g` in which `v` is there.
    fn phase_after(&self, g: usize, v: ValueId, shares: &[Share]) -> usize {
        match self.made_by(v) {
            Some(from) if self.group[from] == g => shares[from].phase + usize::from(self.parts[from] == Part::Ends),
            Some(from) if self.is_made_again(from) => {
                let operands = self.module.op(self.ids[from]).operands();
                operands.iter().map(|&v| self.phase_after(g, v, shares)).max().unwrap_or(0)
            }
            _ => 0,
        }
    }

    /// What is read to have `v`, and what is made again for it.
    fn sources(&self, v: ValueId, reads: Reads, values: &mut Vec<(ValueId, Reads)>, again: &mut Vec<usize>) {
        match self.made_by(v).filter(|&from| self.is_made_again(from)) {
            None => values.push((v, reads)),
            Some(from) if self.parts[from] == Part::Free || again.contains(&from) => {}
            Some(from) => {
                again.push(from);
                let data = self.module.op(self.ids[from]);
                let reads = if picks(data.kind()) { Reads::Part } else { reads };
                data.operands().iter().for_each(|&v| self.sources(v, reads, values, again));
            }
        }
    }

    /// What operation `i` touches in phase `phase` of its group; `seen` has the last phase in which a group read a value.
    fn touched(
        &self,
        i: usize,
        op: &PlannedOp,
        phase: usize,
        shares: &[Share],
        seen: &mut HashMap<(usize, ValueId), usize>,
    ) -> Touched {
        let (module, g) = (self.module, self.group[i]);
        let data = module.op(op.op);
        let results = || data.results().iter().map(|&v| type_bytes(module.ty(v))).sum::<i64>();
        let mut out = Touched { traffic: 0, loaded: 0, again: vec![] };
        match self.parts[i] {
            Part::Alone => out.traffic = touched(module, op.op),
            Part::Renames | Part::Free if g == i => {}
            Part::Inside if g == i && op.traffic == 0 => {}
            _ => {
                // An update is written in place: the rest of the array is not touched.
                let (written, reads) = match (data.kind(), data.operands()) {
                    (OpKind::Movement(MovementOp::DynamicUpdateSlice), [_, update, ..]) => {
                        (type_bytes(module.ty(*update)), std::slice::from_ref(update))
                    }
                    (_, all) => (results(), all),
                };
                out.traffic = self.placed[i] + if g == i { written } else { 0 };
                out.loaded = out.traffic;
                let (mut values, mut again) = (vec![], vec![]);
                let own = if picks(data.kind()) { Reads::Part } else { Reads::Whole };
                reads.iter().for_each(|&v| self.sources(v, own, &mut values, &mut again));
                let share = |other: &usize| {
                    let (own, all) = (elements(module, op.op), elements(module, self.ids[*other]));
                    (*other, (own / all.max(1.0)).min(1.0))
                };
                out.again = again.iter().map(share).collect();
                for (v, reads) in values {
                    let from = self.made_by(v);
                    // A row is reduced in the loop that makes it.
                    let takes_part = |from: usize| {
                        self.rows == Rows::InCache && self.parts[from] == Part::Inside && reduces_rows(module, op.op)
                    };
                    let all = type_bytes(module.ty(v));
                    let bytes = if reads == Reads::Part { all.min(results()) } else { all };
                    let before = match from {
                        Some(from) if self.group[from] == g && self.parts[from] != Part::Inside => Some(phase),
                        Some(from) if self.group[from] == g => Some(shares[from].phase),
                        Some(from) if takes_part(from) => Some(phase),
                        _ => None,
                    };
                    let last = seen.insert((g, v), phase).or(before);
                    // Elements at another place are loaded once more.
                    if last.is_none_or(|last| last < phase) || (reads == Reads::Part && before.is_none()) {
                        out.loaded += bytes;
                    }
                    if last.is_none() {
                        out.traffic += bytes;
                    }
                }
            }
        }
        out
    }
}

/// Elements of the first result of `op`.
fn elements(module: &Module, op: OpId) -> f64 {
    let result = module.op(op).results().first();
    result.map_or(0.0, |&v| module.ty(v).dims().iter().product::<i64>() as f64)
}

/// Whether a function is computed from so many numbers that they fill registers. Divisions and roots are single instructions.
fn takes_registers(kind: OpKind) -> bool {
    let is_instruction = matches!(
        kind,
        OpKind::Binary(BinaryOp::Divide | BinaryOp::Remainder) | OpKind::Unary(UnaryOp::Sqrt | UnaryOp::Rsqrt)
    );
    Class::of(kind) == Class::Function && !is_instruction
}

/// Seconds of the arithmetic of `op` by itself, whose traffic is known.
fn arithmetic_seconds(module: &Module, op: &PlannedOp, machine: &Machine) -> f64 {
    let data = module.op(op.op);
    let first = data.operands().first().or(data.results().first());
    let elem = first.and_then(|&v| module.ty(v).as_tensor()).map_or(ElementType::F32, |t| t.elem);
    // Elements that change their places one by one take time in caches, too.
    let moves = matches!(data.kind(), OpKind::Movement(MovementOp::Transpose | MovementOp::Gather)) && op.traffic > 0;
    let results = || data.results().iter().map(|&v| type_bytes(module.ty(v))).sum::<i64>();
    let moved = if moves { results() as f64 / elem.storage_bytes().max(1) as f64 } else { 0.0 };
    let listed = match data.kind() {
        OpKind::Unary(_) | OpKind::Binary(_) if !machine.device.functions.is_empty() => {
            machine.device.function_seconds(&short_name(data.name()), elem, op.flops)
        }
        _ => None,
    };
    let by_class =
        || machine.device.arithmetic_seconds(class_of(module, op.op, Rows::of(machine)), elem, op.flops + moved);
    listed.unwrap_or_else(by_class)
}
