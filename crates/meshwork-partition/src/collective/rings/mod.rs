//! Products in rings: blocks of an operand go round from device to device while those that are there are multiplied, instead
//! of a gather before the product; sums of the result go round likewise, instead of a reduce-scatter behind it.
//!
//! ```text
//! y = dot(all_gather(x), w)            for t in 0..p: y[block i-t] = dot(x, w), x = from the device before
//! z = reduce_scatter(dot(x, w))        for t in 0..p: z = from the device before + dot(x[block i-1-t], w)
//! ```
//!
//! As many bytes are sent, in as many steps as there are devices, and each step but the first runs beside a product. Of a
//! gathered operand only dimensions that the result has go round: sums would otherwise be added in another order on every
//! device, and copies of the result would differ in their last bits. Blocks may hold positions behind the end of a dimension;
//! they give positions behind the end of the result, which are cut off as those of the gathered operand were.
//!
//! This happens where a run of the whole program is predicted to be shorter, on a machine whose links work beside its
//! processors. Nothing is known about that of a machine that was not given.

mod choose;
mod write;

use meshwork_ir::hash::{HashMap, HashSet};
use meshwork_ir::op::{ContractOp, MovementOp};
use meshwork_ir::{Attr, Combine, ElementType, Module, OpId, OpKind, ValueId};
use meshwork_mesh::{sort_by, sort_by_key};

use super::{Collective, CollectiveKind, Peers, wire_bytes};
use crate::layout::atoms::{AtomList, Atoms};
use crate::plan::cost::{Class, Machine};
use crate::plan::memory::type_bytes;
use crate::plan::{PlannedCollective, PlannedOp, op_flops};

pub use choose::choose;
use write::write;

/// Devices of a ring, at most: each is a step of the program.
const MOST_STEPS: i64 = 32;

/// What goes round.
#[derive(Clone, PartialEq, Debug)]
enum Round {
    /// Blocks of the gathered operand of these products, in program order. `kept` is what is left of their dimension behind
    /// the gather, if something is cut off.
    Operand { products: Vec<Factor>, kept: Option<Kept> },
    /// Sums of blocks of the result of this product, which is filled up by `pad`, if it does not divide into them.
    Result { product: Factor, pad: Option<OpId> },
}

/// What a slice behind a gather leaves of the gathered dimension.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Kept {
    slice: OpId,
    from: i64,
    to: i64,
}

/// A product of which one operand is taken block by block.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Factor {
    op: OpId,
    /// The operand, 0 or 1, and the dimension of it.
    operand: usize,
    dim: usize,
    /// Where that dimension is in the result.
    result_dim: usize,
}

/// A gather or reduce-scatter that a ring can take the place of.
#[derive(Clone, Debug)]
pub struct Ring {
    /// Its number among the collectives.
    index: usize,
    atoms: AtomList,
    /// As many as there are devices.
    steps: i64,
    round: Round,
    /// Predicted seconds with the ring and without, both by themselves.
    seconds: [f64; 2],
}

impl Ring {
    /// Whether a program in which the collective and its products run as in `ops` waits for the collective.
    pub fn is_waited_for(&self, collectives: &[Collective], ops: &[PlannedOp]) -> bool {
        let Round::Operand { products, .. } = &self.round else { return true };
        let of = |op: OpId| ops.iter().find(|planned| planned.op == op);
        let (Some(gather), Some(product)) = (of(collectives[self.index].emitted), of(products[0].op)) else {
            return true;
        };
        product.start <= gather.start + gather.seconds * gather.runs() * (1.0 + 1e-9)
    }

    /// Whether an operand goes round, not a result.
    pub fn gathers(&self) -> bool {
        matches!(self.round, Round::Operand { .. })
    }

    /// Whether it is predicted to be faster than what it replaces, by itself.
    pub fn pays(&self) -> bool {
        self.seconds[0] < self.seconds[1]
    }

    fn products(&self) -> &[Factor] {
        match &self.round {
            Round::Operand { products, .. } => products,
            Round::Result { product, .. } => std::slice::from_ref(product),
        }
    }
}

/// The rings that `module` could have. Each product is in one of them at most, where it is predicted to gain most.
pub fn find(module: &Module, collectives: &[Collective], atoms: &Atoms, machine: &Machine) -> Vec<Ring> {
    let mut found: Vec<Ring> = vec![];
    for (index, c) in collectives.iter().enumerate() {
        let Peers::Group(list) = &c.peers else { continue };
        let steps = atoms.product(list);
        if !(2..=MOST_STEPS).contains(&steps) || module.op(c.emitted).operands().len() != 1 {
            continue;
        }
        let round = match c.kind {
            CollectiveKind::AllGather => operand_round(module, c.emitted),
            CollectiveKind::ReduceScatter(Combine::Add) => result_round(module, c.emitted),
            _ => None,
        };
        let Some(round) = round else { continue };
        let mut ring = Ring { index, atoms: list.clone(), steps, round, seconds: [0.0; 2] };
        ring.seconds = seconds(module, c, &ring, atoms, machine);
        found.push(ring);
    }
    let gain = |ring: &Ring| ring.seconds[1] - ring.seconds[0];
    sort_by(&mut found, |a, b| gain(b).total_cmp(&gain(a)));
    let mut taken: HashSet<OpId> = HashSet::default();
    found.retain(|ring| {
        let free = ring.products().iter().all(|product| !taken.contains(&product.op));
        if free {
            taken.extend(ring.products().iter().map(|product| product.op));
        }
        free
    });
    sort_by_key(&mut found, |ring| ring.index);
    found
}

/// The products that alone use what `gather` gathers.
fn operand_round(module: &Module, gather: OpId) -> Option<Round> {
    let dim = usize::try_from(module.op(gather).int("all_gather_dim")?).ok()?;
    let mut value = module.result(gather);
    let kept = match module.value(value).uses() {
        [only] => kept_of(module, only.op, dim),
        _ => None,
    };
    if let Some(kept) = kept {
        value = module.result(kept.slice);
    }
    let block = module.op(gather).parent()?;
    let place: HashMap<OpId, usize> = module.ops_in(block).enumerate().map(|(i, op)| (op, i)).collect();
    let mut products = vec![];
    for used in module.value(value).uses() {
        let operands = module.op(used.op).operands();
        if !place.contains_key(&used.op) || operands.iter().filter(|&&v| v == value).count() != 1 {
            return None;
        }
        products.push(factor(module, used.op, used.operand as usize, dim)?);
    }
    sort_by_key(&mut products, |product| place[&product.op]);
    let elements = module.ty(value).as_tensor()?.num_elements()?;
    (!products.is_empty() && elements > 0).then_some(Round::Operand { products, kept })
}

/// What `op` keeps of dimension `dim` of its operand, if it is a slice that keeps all others.
fn kept_of(module: &Module, op: OpId, dim: usize) -> Option<Kept> {
    let data = module.op(op);
    if data.kind() != OpKind::Movement(MovementOp::Slice) {
        return None;
    }
    let from = module.ty(data.operands()[0]).dims();
    let (starts, limits) = (data.i64s("start_indices")?, data.i64s("limit_indices")?);
    let whole = |d: usize| d == dim || (starts[d] == 0 && limits[d] == from[d]);
    let plain = data.i64s("strides").is_none_or(|strides| strides.iter().all(|&s| s == 1));
    let kept = Kept { slice: op, from: *starts.get(dim)?, to: *limits.get(dim)? };
    (plain && (0..from.len()).all(whole)).then_some(kept)
}

/// The product that gives what `scatter` adds up, and nothing else.
fn result_round(module: &Module, scatter: OpId) -> Option<Round> {
    let &[value] = module.op(scatter).operands() else { return None };
    let dim = usize::try_from(module.op(scatter).int("scatter_dimension")?).ok()?;
    let alone = |value: ValueId| {
        let op = module.def_op(value)?;
        let here = module.op(op).parent() == module.op(scatter).parent();
        (here && module.value(value).uses().len() == 1).then_some(op)
    };
    let pad = alone(value).filter(|&op| fills_up(module, op, dim));
    let op = alone(pad.map_or(value, |pad| module.op(pad).operands()[0]))?;
    let candidates = [0, 1].into_iter().flat_map(|operand| {
        let rank = module.op(op).operands().get(operand).map_or(0, |&v| module.ty(v).dims().len());
        (0..rank).map(move |d| (operand, d))
    });
    let mut factors = candidates.filter_map(|(operand, d)| factor(module, op, operand, d));
    let product = factors.find(|factor| factor.result_dim == dim)?;
    let elements = module.ty(value).as_tensor()?.num_elements()?;
    (elements > 0).then_some(Round::Result { product, pad })
}

/// Whether `op` is a pad that makes its operand longer at the end of dimension `dim`, and nothing else.
fn fills_up(module: &Module, op: OpId, dim: usize) -> bool {
    let data = module.op(op);
    let zero = |name: &str, but: Option<usize>| {
        data.i64s(name).is_some_and(|all| all.iter().enumerate().all(|(d, &n)| n == 0 || Some(d) == but))
    };
    let longer = || data.i64s("edge_padding_high").is_some_and(|all| all.get(dim).is_some_and(|&n| n >= 0));
    data.kind() == OpKind::Movement(MovementOp::Pad)
        && zero("edge_padding_low", None)
        && zero("interior_padding", None)
        && zero("edge_padding_high", Some(dim))
        && longer()
}

/// The product `op` by blocks of a dimension of one of its operands; `None` if it is no product, or if the result does not
/// have the dimension to itself.
fn factor(module: &Module, op: OpId, operand: usize, dim: usize) -> Option<Factor> {
    let data = module.op(op);
    let (OpKind::Contract(ContractOp::DotGeneral), Some(Attr::Dot(dims))) =
        (data.kind(), data.attr("dot_dimension_numbers"))
    else {
        return None;
    };
    let free = |operand: usize| {
        let (batch, contract) = match operand {
            0 => (&dims.lhs_batch, &dims.lhs_contract),
            _ => (&dims.rhs_batch, &dims.rhs_contract),
        };
        let rank = module.ty(data.operands()[operand]).dims().len();
        let own = |d: &usize| !batch.contains(&(*d as i64)) && !contract.contains(&(*d as i64));
        (0..rank).filter(own).collect::<Vec<usize>>()
    };
    let at = free(operand).iter().position(|&d| d == dim)?;
    let before = dims.lhs_batch.len() + if operand == 0 { 0 } else { free(0).len() };
    Some(Factor { op, operand, dim, result_dim: before + at })
}

/// Predicted seconds of the collective `c` and its products with `ring` and without.
fn seconds(module: &Module, c: &Collective, ring: &Ring, atoms: &Atoms, machine: &Machine) -> [f64; 2] {
    let (p, mesh) = (ring.steps as f64, atoms.mesh());
    let planned = |c: Collective| PlannedCollective { collective: c, axes: atoms.to_axes(&ring.atoms), causes: vec![] };
    let together = machine.collective_seconds(&planned(c.clone()), mesh);
    let step = step_of(c, ring, atoms);
    let hop = machine.collective_seconds(&planned(step), mesh);
    let (mut whole, mut part) = (0.0, 0.0);
    for product in ring.products() {
        let data = module.op(product.op);
        let bytes = |v: ValueId| type_bytes(module.ty(v)) as f64;
        let (own, other) = (bytes(data.operands()[product.operand]), bytes(data.operands()[1 - product.operand]));
        let result = bytes(data.results()[0]);
        let elem = module.ty(data.operands()[0]).elem().unwrap_or(ElementType::F32);
        let flops = op_flops(module, product.op);
        let device = &machine.device;
        whole += device.op_seconds(Class::Product, elem, flops, own + other + result);
        part += device.op_seconds(Class::Product, elem, flops / p, own / p + other + result / p);
        // A block of the result is put into its place, or added to what came round.
        part += device.memory_seconds(2.0 * result / p);
    }
    [part + (p - 1.0) * part.max(hop), whole + together]
}

/// One step of `ring`, which takes the place of `c`.
fn step_of(c: &Collective, ring: &Ring, atoms: &Atoms) -> Collective {
    let peers =
        Peers::Line { atoms: ring.atoms.clone(), moves: (0..ring.steps).map(|t| (t, (t + 1) % ring.steps)).collect() };
    let operand_bytes = match c.kind {
        CollectiveKind::AllGather => c.operand_bytes,
        _ => c.operand_bytes / ring.steps,
    };
    let wire_bytes = wire_bytes(&CollectiveKind::Permute, &peers, operand_bytes, atoms);
    Collective { kind: CollectiveKind::Permute, peers, operand_bytes, wire_bytes, ..c.clone() }
}
