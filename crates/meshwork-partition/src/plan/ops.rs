//! The operations of a device in the order in which they run, with what each computes, touches and keeps in memory.
//!
//! A loop or branch stands before what is inside it. Nothing here is needed to run a program: the list is made when
//! somebody asks for it.

use meshwork_ir::hash::HashMap;
use meshwork_ir::op::{BodyOp, CollectiveOp, ControlOp, MovementOp, SourceOp, TokenOp};
use meshwork_ir::{BlockId, Def, Module, OpId, OpKind, Trait, ValueId};

use crate::compile::Compiled;
use crate::plan::Plan;
use crate::plan::cost::Machine;
use crate::plan::flops::{block_flops, op_flops};
use crate::plan::memory::{Watch, runs_regions, type_bytes, visit};
use crate::plan::simulate::simulate;
use crate::split::flow::trip_count;

/// What an operation reads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operand {
    /// An argument of the program.
    Argument(usize),
    /// A result of the operation with this number; inside a loop or branch, also what that hands in.
    Op(usize),
}

/// A result of an operation, as a device holds it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Buffer {
    /// The value.
    pub value: ValueId,
    /// Its bytes.
    pub bytes: i64,
    /// The number of the last operation that runs while it is alive.
    pub until: usize,
}

/// An operation of a device.
#[derive(Clone, PartialEq, Debug)]
pub struct PlannedOp {
    /// The operation in the per-device program.
    pub op: OpId,
    /// The number of the loop or branch that it is in.
    pub parent: Option<usize>,
    /// How often it runs: the product of the trip counts of the loops around it, as far as they are known.
    pub trips: i64,
    /// Whether a loop around it has a trip count that is not known (counted once).
    pub trips_unknown: bool,
    /// Whether totals count it: of the branches of an operation only the one with the most arithmetic.
    pub counted: bool,
    /// Arithmetic operations of one run, without what is inside a loop or branch.
    pub flops: f64,
    /// Bytes that one run reads and writes by itself.
    pub bytes: i64,
    /// Bytes of these that pass through memory if arithmetic on elements is fused with its readers.
    pub traffic: i64,
    /// Predicted seconds of one run, as part of the loop that it is fused into.
    pub seconds: f64,
    /// When it starts in the simulated run, in seconds.
    pub start: f64,
    /// What it reads.
    pub operands: Vec<Operand>,
    /// What it makes.
    pub results: Vec<Buffer>,
    /// The number of the collective of the plan that it is.
    pub collective: Option<usize>,
    /// Bytes alive while it runs.
    pub alive: i64,
}

impl PlannedOp {
    /// How often totals count it.
    pub fn runs(&self) -> f64 {
        if self.counted { self.trips as f64 } else { 0.0 }
    }
}

/// The operations of a device in order; loops and branches before what is inside them.
pub fn ops(compiled: &Compiled, machine: &Machine) -> Vec<PlannedOp> {
    simulate(compiled, machine).ops
}

/// The operations, before it is known how long those that compute take and when any starts.
pub(super) fn list(module: &Module, plan: &Plan, machine: &Machine) -> Vec<PlannedOp> {
    let Some(body) = module.entry().and_then(|func| module.body_of(func, 0)) else { return vec![] };
    let args = module.block(body).args().iter().map(|&v| type_bytes(module.ty(v))).sum();
    let mut recorder = Recorder { bytes: args, reached: vec![], until: HashMap::default() };
    visit(module, body, &mut recorder);
    let index: HashMap<OpId, usize> = recorder.reached.iter().enumerate().map(|(i, (op, _))| (*op, i)).collect();
    let planned = &plan.collectives;
    let collectives: HashMap<OpId, usize> =
        planned.iter().enumerate().map(|(i, c)| (c.collective.emitted, i)).collect();
    let mut largest: HashMap<OpId, Option<BlockId>> = HashMap::default();
    let mut list: Vec<PlannedOp> = Vec::with_capacity(recorder.reached.len());
    for (number, &(op, alive)) in recorder.reached.iter().enumerate() {
        let data = module.op(op);
        let parent = module.parent_op(op).and_then(|p| index.get(&p).copied());
        let (mut trips, mut trips_unknown, mut counted) = (1, false, true);
        if let Some(outer) = parent.map(|p| &list[p]) {
            (trips, trips_unknown, counted) = (outer.trips, outer.trips_unknown, outer.counted);
            match (module.op(outer.op).kind(), trip_count(module, outer.op)) {
                (OpKind::Control(ControlOp::While), Some(count)) => trips *= count,
                (OpKind::Control(ControlOp::While), None) => trips_unknown = true,
                _ => {
                    let largest = largest.entry(outer.op).or_insert_with(|| largest_region(module, outer.op));
                    counted &= data.parent() == *largest;
                }
            }
        }
        let flops = if runs_regions(data.kind()) { 0.0 } else { op_flops(module, op) };
        let bytes = touched(module, op);
        let collective = collectives.get(&op).copied();
        let seconds = match collective {
            Some(_) if machine.host.is_some() && is_halo(module, op) => 0.0,
            Some(i) => machine.collective_seconds(&planned[i], &plan.mesh),
            None => 0.0,
        };
        let operands = data.operands().iter().filter_map(|&v| operand(module, v, &index)).collect();
        let buffer = |&value: &ValueId| Buffer {
            value,
            bytes: type_bytes(module.ty(value)),
            until: recorder.until.get(&value).copied().unwrap_or(number),
        };
        let results = data.results().iter().map(buffer).collect();
        list.push(PlannedOp {
            op,
            parent,
            trips,
            trips_unknown,
            counted,
            flops,
            bytes,
            traffic: bytes,
            seconds,
            start: 0.0,
            operands,
            results,
            collective,
            alive,
        });
    }
    list
}

/// The least part of an array that does not count as its edge.
const EDGE: i64 = 16;

/// Whether `op` sends the edge of an array: threads of one computer read it where it is.
pub(super) fn is_halo(module: &Module, op: OpId) -> bool {
    let data = module.op(op);
    let (OpKind::Collective(CollectiveOp::CollectivePermute), [sent]) = (data.kind(), data.operands()) else {
        return false;
    };
    let slice = module.def_op(*sent).map(|op| module.op(op));
    slice
        .filter(|slice| slice.kind() == MovementOp::Slice)
        .is_some_and(|slice| type_bytes(module.ty(*sent)) * EDGE <= type_bytes(module.ty(slice.operands()[0])))
}

fn operand(module: &Module, v: ValueId, index: &HashMap<OpId, usize>) -> Option<Operand> {
    match module.value(v).def() {
        Def::Result(op, _) => index.get(&op).copied().map(Operand::Op),
        Def::Arg(block, i) => {
            let owner = module.block_parent_op(block)?;
            match module.op(owner).kind() {
                OpKind::Control(ControlOp::Func) => Some(Operand::Argument(i as usize)),
                _ => index.get(&owner).copied().map(Operand::Op),
            }
        }
    }
}

/// The body of the region of `branch` that computes most.
fn largest_region(module: &Module, branch: OpId) -> Option<BlockId> {
    let bodies = (0..module.op(branch).regions().len()).filter_map(|i| module.body_of(branch, i));
    let mut most: Option<(BlockId, f64)> = None;
    for body in bodies {
        let flops = block_flops(module, body);
        if most.is_none_or(|(_, so_far)| flops > so_far) {
            most = Some((body, flops));
        }
    }
    most.map(|(body, _)| body)
}

/// Bytes that an operation reads and writes. What only renames its operand touches nothing; what picks or replaces a part
/// touches that part.
pub(super) fn touched(module: &Module, op: OpId) -> i64 {
    let data = module.op(op);
    let bytes = |v: &ValueId| type_bytes(module.ty(*v));
    let results = || data.results().iter().map(bytes).sum::<i64>();
    let part = |i: usize| 2 * data.operands().get(i).map_or(0, bytes);
    match data.kind() {
        kind if runs_regions(kind) || kind.has(Trait::Terminator) => 0,
        OpKind::Source(SourceOp::Constant)
        | OpKind::Movement(MovementOp::Reshape)
        | OpKind::Control(ControlOp::OptimizationBarrier)
        | OpKind::Token(TokenOp::Tuple | TokenOp::GetTupleElement) => 0,
        OpKind::Movement(MovementOp::Slice | MovementOp::DynamicSlice | MovementOp::Gather) => 2 * results(),
        OpKind::Movement(MovementOp::DynamicUpdateSlice) => part(1),
        OpKind::Body(BodyOp::Scatter) => part(data.operands().len().saturating_sub(1)),
        _ => results() + data.operands().iter().map(bytes).sum::<i64>(),
    }
}

struct Recorder {
    bytes: i64,
    reached: Vec<(OpId, i64)>,
    until: HashMap<ValueId, usize>,
}

impl Watch for Recorder {
    fn comes(&mut self, module: &Module, v: ValueId) {
        self.bytes += type_bytes(module.ty(v));
    }

    fn reached(&mut self, op: OpId) {
        self.reached.push((op, self.bytes));
    }

    fn goes(&mut self, module: &Module, v: ValueId) {
        self.bytes -= type_bytes(module.ty(v));
        self.until.insert(v, self.reached.len() - 1);
    }
}
