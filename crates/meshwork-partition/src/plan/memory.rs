//! Peak memory of a per-device program: the most bytes alive at once, and what they are.
//!
//! Values live from their operation to their last use; arguments, and what a loop or branch uses from outside, live
//! throughout. A loop's carried values are the buffers of its results; what it starts from becomes one if nothing else
//! reads it. An update of a part of a value is made in its place if nothing reads the value afterwards.

use std::collections::BTreeSet;

use meshwork_ir::hash::{HashMap, HashSet};
use meshwork_ir::op::{BodyOp, ControlOp, MovementOp};
use meshwork_ir::{BlockId, Def, Module, OpId, OpKind, Type, ValueId};
use meshwork_mesh::sort_by;
use smallvec::SmallVec;

use crate::plan::cause::{argument_name, place_of, short_name, short_type};

/// The most bytes a device needs at once.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Peak {
    /// Bytes alive at the peak.
    pub bytes: i64,
    /// The operation at which the peak is reached.
    pub at: String,
    /// The values alive then, largest first.
    pub alive: Vec<Alive>,
}

/// A value that is alive at the peak.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Alive {
    /// Its bytes.
    pub bytes: i64,
    /// Its type, as `f32[64,256]`.
    pub ty: String,
    /// What made it: `argument 3`, or an operation and where it stands.
    pub from: String,
}

/// Bytes of a value of type `ty`.
pub fn type_bytes(ty: &Type) -> i64 {
    match ty {
        Type::Tensor(t) => t.num_elements().unwrap_or(0) * t.elem.storage_bytes() as i64,
        Type::Tuple(parts) => parts.iter().map(type_bytes).sum(),
        _ => 0,
    }
}

/// The peak of function `func`.
pub fn peak(module: &Module, func: OpId) -> Peak {
    let Some((bytes, at)) = peak_bytes(module, func) else { return Peak::default() };
    let mut alive: Vec<Alive> = alive_at(module, func, at).into_iter().map(|v| describe(module, v)).collect();
    sort_by(&mut alive, |a, b| (b.bytes, &a.from).cmp(&(a.bytes, &b.from)));
    Peak { bytes, at: name_of(module, at), alive }
}

/// The most bytes that function `func` needs at once, and the operation at which it does.
pub(crate) fn peak_bytes(module: &Module, func: OpId) -> Option<(i64, OpId)> {
    let body = module.body_of(func, 0)?;
    let mut counter = Counter { bytes: argument_bytes(module, body), most: 0, at: None };
    visit(module, body, &mut counter);
    Some((counter.most, counter.at?))
}

/// The bytes of the arguments of a block.
pub(crate) fn argument_bytes(module: &Module, block: BlockId) -> i64 {
    module.block(block).args().iter().map(|&v| bytes_of(module, v)).sum()
}

/// The values of function `func` that are alive at `at`.
pub(crate) fn alive_at(module: &Module, func: OpId, at: OpId) -> Vec<ValueId> {
    let Some(body) = module.body_of(func, 0) else { return vec![] };
    let alive = module.block(body).args().iter().copied().collect();
    let mut lister = Lister { target: at, alive, found: vec![] };
    visit(module, body, &mut lister);
    lister.found
}

fn bytes_of(module: &Module, v: ValueId) -> i64 {
    type_bytes(module.ty(v))
}

fn name_of(module: &Module, op: OpId) -> String {
    let (name, place) = (short_name(module.op(op).name()), place_of(module, op));
    if place.is_empty() { name } else { format!("{name} at {place}") }
}

fn describe(module: &Module, v: ValueId) -> Alive {
    let from = match module.def_op(v) {
        Some(op) => name_of(module, op),
        None => argument_name(module, v).unwrap_or_default(),
    };
    Alive { bytes: bytes_of(module, v), ty: short_type(module.ty(v)), from }
}

/// Told what comes and goes, in program order.
pub(crate) trait Watch {
    fn comes(&mut self, module: &Module, v: ValueId);
    fn reached(&mut self, op: OpId);
    fn goes(&mut self, module: &Module, v: ValueId);
}

struct Counter {
    bytes: i64,
    most: i64,
    at: Option<OpId>,
}

impl Watch for Counter {
    fn comes(&mut self, module: &Module, v: ValueId) {
        self.bytes += bytes_of(module, v);
    }

    fn reached(&mut self, op: OpId) {
        if self.bytes > self.most || self.at.is_none() {
            (self.most, self.at) = (self.bytes, Some(op));
        }
    }

    fn goes(&mut self, module: &Module, v: ValueId) {
        self.bytes -= bytes_of(module, v);
    }
}

struct Lister {
    target: OpId,
    alive: BTreeSet<ValueId>,
    found: Vec<ValueId>,
}

impl Watch for Lister {
    fn comes(&mut self, _: &Module, v: ValueId) {
        self.alive.insert(v);
    }

    fn reached(&mut self, op: OpId) {
        if op == self.target {
            self.found = self.alive.iter().copied().collect();
        }
    }

    fn goes(&mut self, _: &Module, v: ValueId) {
        self.alive.remove(&v);
    }
}

// Recursion is as deep as regions nest, which the parser bounds.
pub(crate) fn visit(module: &Module, block: BlockId, watch: &mut impl Watch) {
    let ops = module.op_list(block);
    let mut ends = ends_after(module, &ops);
    // Results that are in the place of a value that a loop around the block carries.
    let mut carried: HashSet<ValueId> = HashSet::default();
    for (i, &op) in ops.iter().enumerate() {
        let data = module.op(op);
        for (result, operand) in overwritten(module, op) {
            if let Some(at) = ends[i].iter().position(|&v| v == operand) {
                ends[i].swap_remove(at);
                if carried.contains(&operand) {
                    carried.insert(result);
                } else {
                    watch.goes(module, operand);
                }
            } else if is_carried(module, operand, block) && is_last_use(module, operand, op, &ops[i + 1..]) {
                carried.insert(result);
            }
        }
        data.results().iter().filter(|v| !carried.contains(v)).for_each(|&v| watch.comes(module, v));
        watch.reached(op);
        if runs_regions(data.kind()) {
            for &region in data.regions() {
                module.region(region).blocks().iter().for_each(|&inner| visit(module, inner, watch));
            }
        }
        ends[i].drain(..).filter(|v| !carried.contains(v)).for_each(|v| watch.goes(module, v));
    }
}

/// Results of `op` that can be in the place of one of its operands, with these operands.
fn overwritten(module: &Module, op: OpId) -> SmallVec<[(ValueId, ValueId); 2]> {
    let data = module.op(op);
    let (operands, results) = (data.operands(), data.results());
    let count = match data.kind() {
        OpKind::Control(ControlOp::While) => operands.len(),
        OpKind::Movement(MovementOp::DynamicUpdateSlice) | OpKind::Body(BodyOp::Scatter) => 1,
        _ => return SmallVec::new(),
    };
    let once = |v: ValueId| operands.iter().filter(|&&o| o == v).count() == 1;
    let read_inside = |v: ValueId| module.value(v).uses().iter().any(|u| module.is_inside(u.op, op) && u.op != op);
    let pairs = results.iter().copied().zip(operands.iter().copied()).take(count);
    pairs.filter(|&(r, v)| module.ty(r) == module.ty(v) && once(v) && !read_inside(v)).collect()
}

/// Whether `v` is a value that a loop carries, as its body, `block`, sees it.
fn is_carried(module: &Module, v: ValueId, block: BlockId) -> bool {
    let around = module.block_parent_op(block);
    let is_body = around.is_some_and(|op| {
        module.op(op).kind() == OpKind::Control(ControlOp::While) && module.body_of(op, 1) == Some(block)
    });
    is_body && matches!(module.value(v).def(), Def::Arg(at, _) if at == block)
}

/// Whether `op` uses `v` and none of `later`, operations of one block, does.
fn is_last_use(module: &Module, v: ValueId, op: OpId, later: &[OpId]) -> bool {
    let uses = module.value(v).uses();
    uses.iter().all(|u| u.op == op || !later.iter().any(|&l| l == u.op || module.is_inside(u.op, l)))
}

/// Whether the regions of such an operation are parts of the program, not a function of elements.
pub(super) fn runs_regions(kind: OpKind) -> bool {
    matches!(kind, OpKind::Control(ControlOp::While | ControlOp::Case | ControlOp::If))
}

/// For each of `ops`, the results of these operations whose last use it is, directly or inside a region.
fn ends_after(module: &Module, ops: &[OpId]) -> Vec<SmallVec<[ValueId; 2]>> {
    let mut last: HashMap<ValueId, usize> = HashMap::with_capacity_and_hasher(ops.len(), Default::default());
    for (i, &op) in ops.iter().enumerate() {
        last.extend(module.op(op).results().iter().map(|&v| (v, i)));
        let mut note = |v: &ValueId| {
            if let Some(end) = last.get_mut(v) {
                *end = i;
            }
        };
        module.op(op).operands().iter().for_each(&mut note);
        if !module.op(op).regions().is_empty() {
            for inner in module.ops_below(op, meshwork_ir::Walk::PreOrder) {
                module.op(inner).operands().iter().for_each(&mut note);
            }
        }
    }
    let mut ends = vec![SmallVec::new(); ops.len()];
    for (v, i) in last {
        ends[i].push(v);
    }
    ends
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_lives_to_its_last_use() {
        let text = "func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {
          %0 = stablehlo.add %a, %a : tensor<4xf32>
          %1 = stablehlo.multiply %0, %0 : tensor<4xf32>
          %2 = stablehlo.add %0, %1 : tensor<4xf32>
          %3 = stablehlo.negate %2 : tensor<4xf32>
          return %3 : tensor<4xf32> }";
        let module = meshwork_ir::text::parse(text).unwrap();
        let peak = peak(&module, module.entry().unwrap());
        assert_eq!((peak.bytes, peak.at.as_str()), (64, "add at line 4"));
        let from: Vec<&str> = peak.alive.iter().map(|a| a.from.as_str()).collect();
        assert_eq!(from, ["add at line 2", "add at line 4", "argument 0", "multiply at line 3"]);
    }

    /// A stack that a loop fills row by row is there once: what it starts from, what it carries, and what a round updates.
    #[test]
    fn a_loop_updates_what_it_carries_in_place() {
        let program = |extra: &str| {
            format!(
                "func.func @main(%x: tensor<4xf32>) -> (tensor<i32>, tensor<16x4xf32>) {{
                  %i = stablehlo.constant dense<0> : tensor<i32>
                  %f = stablehlo.constant dense<0.0> : tensor<f32>
                  %z = stablehlo.broadcast_in_dim %f, dims = [] : (tensor<f32>) -> tensor<16x4xf32>
                  %r:2 = stablehlo.while(%k = %i, %s = %z) : tensor<i32>, tensor<16x4xf32>
                  cond {{
                    %n = stablehlo.constant dense<16> : tensor<i32>
                    %p = stablehlo.compare LT, %k, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
                    stablehlo.return %p : tensor<i1>
                  }} do {{
                    %o = stablehlo.constant dense<0> : tensor<i32>
                    %one = stablehlo.constant dense<1> : tensor<i32>
                    %u = stablehlo.reshape %x : (tensor<4xf32>) -> tensor<1x4xf32>
                    %t = stablehlo.dynamic_update_slice %s, %u, %k, %o : (tensor<16x4xf32>, tensor<1x4xf32>, tensor<i32>, tensor<i32>) -> tensor<16x4xf32>
                    {extra}
                    %j = stablehlo.add %k, %one : tensor<i32>
                    stablehlo.return %j, %t : tensor<i32>, tensor<16x4xf32>
                  }}
                  return %r#0, %r#1 : tensor<i32>, tensor<16x4xf32> }}"
            )
        };
        let bytes = |extra: &str| {
            let module = meshwork_ir::text::parse(&program(extra)).unwrap();
            peak(&module, module.entry().unwrap()).bytes
        };
        let once = bytes("");
        assert!((256..2 * 256).contains(&once), "{once}");
        // What is read after the update is not overwritten.
        let read = "%w = stablehlo.slice %s [0:1, 0:4] : (tensor<16x4xf32>) -> tensor<1x4xf32>";
        assert!((2 * 256..3 * 256).contains(&bytes(read)), "{}", bytes(read));
    }
}
