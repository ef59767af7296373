//! When values die: for each block, which values are not needed any more after each of its operations.
//!
//! The evaluator hands a dying operand to the operation instead of sharing it, so that updates happen in place and
//! memory is returned as early as possible.

use std::collections::HashMap;

use meshwork_ir::{BlockId, Module, OpId, ValueId, Walk};

/// The steps of every block of a module.
#[derive(Debug)]
pub(crate) struct Plan {
    blocks: HashMap<BlockId, BlockPlan>,
}

/// The steps of one block.
#[derive(Debug, Default)]
pub(crate) struct BlockPlan {
    pub steps: Vec<Step>,
}

/// One operation, and what ends with it.
#[derive(Debug)]
pub(crate) struct Step {
    pub op: OpId,
    /// Per operand, whether the operation gets the only reference.
    pub take: Vec<bool>,
    /// Values to forget afterwards.
    pub drop: Vec<ValueId>,
}

impl Plan {
    /// The plan of all blocks of `module`.
    pub(crate) fn new(module: &Module) -> Plan {
        let mut blocks = HashMap::new();
        for op in module.all_ops(Walk::PreOrder) {
            for &region in module.op(op).regions() {
                for &block in module.region(region).blocks() {
                    blocks.insert(block, plan_block(module, block));
                }
            }
        }
        Plan { blocks }
    }

    /// The plan of `block`.
    pub(crate) fn block(&self, block: BlockId) -> Option<&BlockPlan> {
        self.blocks.get(&block)
    }
}

fn plan_block(module: &Module, block: BlockId) -> BlockPlan {
    let mut steps: Vec<Step> = module
        .ops_in(block)
        .map(|op| Step { op, take: vec![false; module.op(op).operands().len()], drop: vec![] })
        .collect();
    let place: HashMap<OpId, usize> = steps.iter().enumerate().map(|(i, s)| (s.op, i)).collect();
    let results = steps.iter().enumerate().flat_map(|(i, s)| module.op(s.op).results().iter().map(move |&v| (i, v)));
    let values: Vec<(usize, ValueId)> = module.block(block).args().iter().map(|&v| (0, v)).chain(results).collect();
    for (born, value) in values {
        let mut last = born;
        // Whether the last step uses the value inside one of its regions.
        let mut nested = false;
        for used in module.value(value).uses() {
            let Some((at, inside)) = step_of(module, block, used.op, &place) else { continue };
            if at > last {
                (last, nested) = (at, inside);
            } else if at == last {
                nested |= inside;
            }
        }
        let Some(step) = steps.get_mut(last) else { continue };
        match module.op(step.op).operands().iter().rposition(|&v| v == value) {
            Some(operand) if !nested => step.take[operand] = true,
            _ => step.drop.push(value),
        }
    }
    BlockPlan { steps }
}

/// The step of `block` that is or contains `op`, and whether it contains it.
fn step_of(module: &Module, block: BlockId, op: OpId, place: &HashMap<OpId, usize>) -> Option<(usize, bool)> {
    let mut at = op;
    loop {
        if module.op(at).parent() == Some(block) {
            return Some((*place.get(&at)?, at != op));
        }
        at = module.parent_op(at)?;
    }
}
