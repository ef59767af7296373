//! Peak memory of a per-device program: the most bytes alive at once, and what they are.
//!
//! Values live from their operation to their last use; arguments, and what a loop or branch uses from outside, live
//! throughout. A loop's carried values are the buffers of its results.

use std::collections::BTreeSet;

use meshwork_ir::hash::HashMap;
use meshwork_ir::op::ControlOp;
use meshwork_ir::{BlockId, Module, OpId, OpKind, Type, ValueId};
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
    let Some((bytes, at, alive)) = alive_at_peak(module, func) else { return Peak::default() };
    let mut alive: Vec<Alive> = alive.into_iter().map(|v| describe(module, v)).collect();
    alive.sort_by(|a, b| (b.bytes, &a.from).cmp(&(a.bytes, &b.from)));
    Peak { bytes, at: name_of(module, at), alive }
}

/// The most bytes that function `func` needs at once, the operation at which it does, and the values alive then.
pub(crate) fn alive_at_peak(module: &Module, func: OpId) -> Option<(i64, OpId, Vec<ValueId>)> {
    let body = module.body_of(func, 0)?;
    let args = module.block(body).args();
    let mut counter = Counter { bytes: args.iter().map(|&v| bytes_of(module, v)).sum(), most: 0, at: None };
    visit(module, body, &mut counter);
    let at = counter.at?;
    let mut lister = Lister { target: at, alive: args.iter().copied().collect(), found: vec![] };
    visit(module, body, &mut lister);
    Some((counter.most, at, lister.found))
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
pub(super) trait Watch {
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
pub(super) fn visit(module: &Module, block: BlockId, watch: &mut impl Watch) {
    let ops = module.op_list(block);
    let mut ends = ends_after(module, &ops);
    for (i, &op) in ops.iter().enumerate() {
        let data = module.op(op);
        data.results().iter().for_each(|&v| watch.comes(module, v));
        watch.reached(op);
        if runs_regions(data.kind()) {
            for &region in data.regions() {
                module.region(region).blocks().iter().for_each(|&inner| visit(module, inner, watch));
            }
        }
        ends[i].drain(..).for_each(|v| watch.goes(module, v));
    }
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
}
