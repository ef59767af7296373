//! Colours: dimensions that a split passes between without communication.
//!
//! Two dimensions of values have one colour if an operation relates them by a factor of its sharding rule, directly or through
//! other values: the hidden dimension of a layer has one colour in both of its weights and in the activation between them.
//! Splitting a colour over an axis splits all of them alike.
//!
//! Only the major factor of a dimension counts: a split takes that first.

use std::collections::BTreeSet;

use meshwork_ir::op::{ContractOp, ControlOp};
use meshwork_ir::{Module, OpId, OpKind, ValueId, Walk};
use meshwork_partition::plan::op_flops;
use meshwork_propagate::rules::{RuleMode, RuleResult, sharding_rule};

/// The colours of a program.
pub struct Colours {
    /// Where the dimensions of each value start in `parent`.
    offset: Vec<usize>,
    parent: Vec<usize>,
}

/// What a colour takes part in.
#[derive(Clone, Debug, Default)]
pub struct Weight {
    /// Arithmetic of the products it is a dimension of.
    pub flops: f64,
    /// Bytes of the values it is a dimension of.
    pub bytes: f64,
}

impl Colours {
    /// The colours of the entry function of `module`, whose calls are inlined.
    pub fn of(module: &Module) -> Colours {
        let mut offset = Vec::with_capacity(module.value_slots() + 1);
        let mut total = 0;
        for ty in module.value_types() {
            offset.push(total);
            total += ty.rank().unwrap_or(0);
        }
        offset.push(total);
        let mut colours = Colours { offset, parent: (0..total).collect() };
        let Some(func) = module.entry() else { return colours };
        for op in module.ops_below(func, Walk::PreOrder) {
            colours.relate(module, op);
        }
        colours
    }

    fn relate(&mut self, module: &Module, op: OpId) {
        let data = module.op(op);
        if let RuleResult::Rule(rule) = sharding_rule(module, op, RuleMode::Full) {
            let mut first: Vec<Option<usize>> = vec![None; rule.factor_sizes.len()];
            let tensors = data.operands().iter().zip(&rule.operands).chain(data.results().iter().zip(&rule.results));
            for (&v, dims) in tensors {
                for (d, factors) in dims.iter().enumerate() {
                    let Some(&major) = factors.iter().find(|&&f| rule.factor_sizes[f] > 1) else { continue };
                    if rule.need_replication.contains(&major) {
                        continue;
                    }
                    let node = self.offset[v.index()] + d;
                    match first[major] {
                        None => first[major] = Some(node),
                        Some(other) => self.union(other, node),
                    }
                }
            }
            return;
        }
        match data.kind() {
            OpKind::Control(ControlOp::While) => {
                for (i, (&operand, &result)) in data.operands().iter().zip(data.results()).enumerate() {
                    self.alike(module, operand, result);
                    for body in (0..data.regions().len()).filter_map(|r| module.body_of(op, r)) {
                        if let Some(&arg) = module.block(body).args().get(i) {
                            self.alike(module, operand, arg);
                        }
                        // The condition returns one predicate, which has no dimensions.
                        if let Some(&returned) = module.returned(body).get(i) {
                            self.alike(module, operand, returned);
                        }
                    }
                }
            }
            OpKind::Control(ControlOp::Case | ControlOp::If) => {
                for body in (0..data.regions().len()).filter_map(|r| module.body_of(op, r)) {
                    for (&returned, &result) in module.returned(body).iter().zip(data.results()) {
                        self.alike(module, returned, result);
                    }
                }
            }
            OpKind::Control(ControlOp::OptimizationBarrier) => {
                for (&operand, &result) in data.operands().iter().zip(data.results()) {
                    self.alike(module, operand, result);
                }
            }
            _ => {}
        }
    }

    /// Gives the dimensions of two values of one type the same colours.
    pub fn alike(&mut self, module: &Module, a: ValueId, b: ValueId) {
        if module.ty(a).dims() != module.ty(b).dims() {
            return;
        }
        for d in 0..module.ty(a).dims().len() {
            self.union(self.offset[a.index()] + d, self.offset[b.index()] + d);
        }
    }

    fn find(&self, mut node: usize) -> usize {
        while self.parent[node] != node {
            node = self.parent[node];
        }
        node
    }

    /// As [`find`](Colours::find), and halves the way for the next one.
    fn shorten(&mut self, mut node: usize) -> usize {
        while self.parent[node] != node {
            self.parent[node] = self.parent[self.parent[node]];
            node = self.parent[node];
        }
        node
    }

    fn union(&mut self, a: usize, b: usize) {
        let (a, b) = (self.shorten(a), self.shorten(b));
        let (low, high) = (a.min(b), a.max(b));
        self.parent[high] = low;
    }

    /// Makes every lookup one step.
    pub fn settle(&mut self) {
        for node in 0..self.parent.len() {
            // Parents come first, so they are settled already.
            self.parent[node] = self.parent[self.parent[node]];
        }
    }

    /// The colour of each dimension of a value.
    pub fn of_value(&self, v: ValueId) -> Vec<usize> {
        (self.offset[v.index()]..self.offset[v.index() + 1]).map(|node| self.find(node)).collect()
    }
}

/// What the colours take part in, and which two of them are dimensions of one value.
pub struct Census {
    /// By colour.
    pub weights: std::collections::BTreeMap<usize, Weight>,
    /// Pairs of colours, smaller first, that stand in one value.
    pub together: BTreeSet<(usize, usize)>,
}

/// Counts what the colours of `module` take part in.
pub fn census(module: &Module, colours: &Colours) -> Census {
    let mut out = Census { weights: Default::default(), together: BTreeSet::new() };
    let Some(func) = module.entry() else { return out };
    let count = |v: ValueId, out: &mut Census| {
        let Some(ty) = module.ty(v).as_tensor() else { return };
        let bytes = ty.num_elements().unwrap_or(0) as f64 * ty.elem.storage_bytes() as f64;
        let own = colours.of_value(v);
        for (i, &c) in own.iter().enumerate() {
            out.weights.entry(c).or_default().bytes += bytes;
            out.together.extend(own[..i].iter().map(|&other| (c.min(other), c.max(other))));
        }
    };
    if let Some(body) = module.body_of(func, 0) {
        module.block(body).args().iter().for_each(|&v| count(v, &mut out));
    }
    for op in module.ops_below(func, Walk::PreOrder) {
        let data = module.op(op);
        data.results().iter().for_each(|&v| count(v, &mut out));
        if matches!(data.kind(), OpKind::Contract(ContractOp::DotGeneral | ContractOp::Dot | ContractOp::Convolution)) {
            let flops = op_flops(module, op);
            let values = data.operands().iter().chain(data.results());
            let taking_part: BTreeSet<usize> = values.flat_map(|&v| colours.of_value(v)).collect();
            for c in taking_part {
                out.weights.entry(c).or_default().flops += flops;
            }
        }
    }
    out
}
