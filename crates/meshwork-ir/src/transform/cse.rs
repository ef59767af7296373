//! `-cse`: computes equal things once.
//!
//! Two operations are equal if they have the same name, operands (in any order for commutative ones), attributes,
//! result types and bodies, whatever their locations, and have no effect but their results. The later one is replaced
//! by the earlier one where that is visible: in its block, or in a block around it within the same function.

use std::hash::{BuildHasher, Hash, Hasher};

use foldhash::fast::FixedState;

use super::dead;
use crate::hash::HashMap;
use crate::{BlockId, Diagnostic, Failed, Module, OpId, Pass, PassOptions, RegionId, Trait, ValueId, ValueMap};

/// The pass.
pub const PASS: Pass = Pass { name: "cse", summary: "Compute equal things once", options: &[], run };

fn run(module: &mut Module, _: &PassOptions, _: &mut Vec<Diagnostic>) -> Result<(), Failed> {
    eliminate(module);
    Ok(())
}

/// Merges equal operations and removes dead ones. Tells whether anything changed.
pub fn eliminate(module: &mut Module) -> bool {
    let mut changed = dead::remove_dead(module);
    let body = module.body();
    changed |= visit_block(module, body, &mut Known::default());
    changed
}

/// Operations seen so far that are visible here, by hash.
#[derive(Default)]
struct Known {
    by_hash: HashMap<u64, Vec<OpId>>,
    /// Hashes in the order of insertion, to leave a scope.
    log: Vec<u64>,
}

impl Known {
    fn insert(&mut self, hash: u64, op: OpId) {
        self.by_hash.entry(hash).or_default().push(op);
        self.log.push(hash);
    }

    fn leave(&mut self, mark: usize) {
        for hash in self.log.drain(mark..) {
            if let Some(ops) = self.by_hash.get_mut(&hash) {
                ops.pop();
            }
        }
    }
}

// Recursion is as deep as regions nest, which the parser bounds.
fn visit_block(module: &mut Module, block: BlockId, known: &mut Known) -> bool {
    let mark = known.log.len();
    let mut changed = false;
    for op in module.op_list(block) {
        let regions = module.op(op).regions().to_vec();
        let isolated = module.op(op).kind().has(Trait::Isolated);
        for region in regions {
            for inner in module.region(region).blocks().to_vec() {
                changed |= if isolated {
                    visit_block(module, inner, &mut Known::default())
                } else {
                    visit_block(module, inner, known)
                };
            }
        }
        if module.op(op).results().is_empty() || !dead::is_effect_free(module, op) {
            continue;
        }
        let hash = hash_of(module, op);
        let same = known.by_hash.get(&hash).and_then(|ops| ops.iter().copied().find(|&o| is_equal(module, o, op)));
        match same {
            None => known.insert(hash, op),
            Some(first) => {
                let values = module.op(first).results().to_vec();
                module.replace_op(op, &values);
                changed = true;
            }
        }
    }
    known.leave(mark);
    changed
}

/// Operands in an order that does not depend on how a commutative operation was written.
fn operand_key(module: &Module, op: OpId) -> Vec<ValueId> {
    let mut operands = module.op(op).operands().to_vec();
    if module.op(op).kind().has(Trait::Commutative) {
        operands.sort_unstable();
    }
    operands
}

fn hash_of(module: &Module, op: OpId) -> u64 {
    let data = module.op(op);
    let mut hasher = FixedState::default().build_hasher();
    data.name().hash(&mut hasher);
    operand_key(module, op).hash(&mut hasher);
    data.results().iter().for_each(|&r| module.ty(r).hash(&mut hasher));
    data.attrs.iter().for_each(|(name, _)| name.hash(&mut hasher));
    data.regions().len().hash(&mut hasher);
    hasher.finish()
}

fn is_equal(module: &Module, a: OpId, b: OpId) -> bool {
    operand_key(module, a) == operand_key(module, b)
        && same_shell(module, a, b)
        && same_bodies(module, a, b, &mut ValueMap::default())
}

/// Everything but operands and bodies.
fn same_shell(module: &Module, a: OpId, b: OpId) -> bool {
    let (x, y) = (module.op(a), module.op(b));
    x.name() == y.name()
        && x.attrs == y.attrs
        && x.results().len() == y.results().len()
        && x.results().iter().zip(y.results()).all(|(&r, &s)| module.ty(r) == module.ty(s))
}

/// Whether the bodies of `b` are those of `a` up to the names of values; `map` takes values of `b` to those of `a`.
fn same_bodies(module: &Module, a: OpId, b: OpId, map: &mut ValueMap) -> bool {
    let (xs, ys) = (module.op(a).regions(), module.op(b).regions());
    xs.len() == ys.len() && xs.iter().zip(ys).all(|(&x, &y)| same_region(module, x, y, map))
}

fn same_region(module: &Module, a: RegionId, b: RegionId, map: &mut ValueMap) -> bool {
    let (xs, ys) = (module.region(a).blocks(), module.region(b).blocks());
    xs.len() == ys.len() && xs.iter().zip(ys).all(|(&x, &y)| same_block(module, x, y, map))
}

fn same_block(module: &Module, a: BlockId, b: BlockId, map: &mut ValueMap) -> bool {
    let (xs, ys) = (module.block(a).args(), module.block(b).args());
    if xs.len() != ys.len() || xs.iter().zip(ys).any(|(&x, &y)| module.ty(x) != module.ty(y)) {
        return false;
    }
    map.extend(ys.iter().copied().zip(xs.iter().copied()));
    let (mut left, mut right) = (module.ops_in(a), module.ops_in(b));
    loop {
        match (left.next(), right.next()) {
            (None, None) => return true,
            (Some(x), Some(y)) => {
                let (p, q) = (module.op(x), module.op(y));
                let same_operands = p.operands().len() == q.operands().len()
                    && p.operands().iter().zip(q.operands()).all(|(v, w)| v == map.get(w).unwrap_or(w));
                if !same_operands || !same_shell(module, x, y) || !same_bodies(module, x, y, map) {
                    return false;
                }
                map.extend(q.results().iter().copied().zip(p.results().iter().copied()));
            }
            _ => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::parse;

    #[test]
    fn bodies_that_see_nothing_outside_keep_what_they_compute() {
        let mut module = parse(
            "func.func @main(%x: tensor<3xf32>, %init: tensor<f32>) -> (tensor<3xf32>, tensor<f32>, tensor<f32>) {
              %c = stablehlo.constant dense<2.0> : tensor<f32>
              %y, %last = chlo.scan(%x) inits(%init) dimension=0 {
              ^bb0(%a: tensor<f32>, %carry: tensor<f32>):
                %two = stablehlo.constant dense<2.0> : tensor<f32>
                %next = stablehlo.multiply %carry, %two : tensor<f32>
                stablehlo.return %a, %next : tensor<f32>, tensor<f32>
              } : (tensor<3xf32>, tensor<f32>) -> (tensor<3xf32>, tensor<f32>)
              return %y, %last, %c : tensor<3xf32>, tensor<f32>, tensor<f32>
            }",
        )
        .unwrap();
        assert!(crate::verify::verify(&module).is_empty());
        eliminate(&mut module);
        assert_eq!(crate::verify::verify(&module), []);
    }
}
