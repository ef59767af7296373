//! Names of values: `%0`, `%1#0`, `%arg2`, `%cst_0`, by MLIR's rules.
//!
//! All values of a region are numbered before those of the regions nested in it, which go on from there. Sibling
//! regions do not see each other, so they reuse numbers: a region is named when the printer enters it. In the generic
//! form no number is used twice in a module, and regions are visited last first: there all are named beforehand.

use super::PrintOptions;
use super::write::{push_int, push_list};
use crate::op::{ChloOp, ControlOp, LinalgOp, SourceOp};
use crate::{BlockId, ElementType, Module, Op, OpId, OpKind, RegionId, ValueId};

/// What operations call their results, and bodies their arguments.
const BASES: [&str; 14] = [
    "%c",
    "%cst",
    "%values",
    "%indices",
    "%output_state",
    "%output",
    "%grad_operand",
    "%grad_scale",
    "%grad_offset",
    "%batch_mean",
    "%batch_var",
    "%iterArg",
    "%input",
    "%carry",
];

/// The name of a value that has none.
const UNKNOWN: &str = "%<<UNKNOWN SSA VALUE>>";

/// What is taken in a region and those around it.
#[derive(Clone, Copy, Default)]
pub(super) struct Scope {
    values: u32,
    args: u32,
    /// Tells values with the same base name apart.
    conflicts: u32,
    /// The base names in use, a bit each.
    taken: u32,
}

/// The names of values.
pub(super) struct Names {
    /// One name after the other.
    text: String,
    /// Where in `text` the name of each value starts and ends.
    spans: Vec<(u32, u32)>,
    generic: bool,
    scope: Scope,
    /// The region whose arguments are named already, and what is taken with them.
    announced: Option<(RegionId, Scope)>,
}

impl Names {
    /// Names for the values of a module outside regions; in the generic form for all.
    pub(super) fn of_module(module: &Module, options: PrintOptions) -> Names {
        let mut names = Names::empty(module, options);
        names.count_args(module, module.body());
        names.block(module, module.body());
        if options.generic {
            let mut open: Vec<RegionId> = regions_in(module, module.body()).collect();
            while let Some(region) = open.pop() {
                names.region(module, region);
                open.extend(module.region(region).blocks().iter().flat_map(|&block| regions_in(module, block)));
            }
        }
        names
    }

    /// Names for what `op` sees: the values of the regions that it is in.
    pub(super) fn around(module: &Module, op: OpId) -> Names {
        let mut names = Names::empty(module, PrintOptions::default());
        let (mut top, mut path) = (op, vec![]);
        while let Some(region) = module.op(top).parent().and_then(|block| module.block(block).parent()) {
            path.push(region);
            top = module.region(region).parent();
        }
        names.op(module, module.op(top));
        path.iter().rev().for_each(|&region| names.region(module, region));
        names
    }

    fn empty(module: &Module, options: PrintOptions) -> Names {
        let spans = vec![(0, UNKNOWN.len() as u32); module.value_slots()];
        let mut text = String::with_capacity(8 * module.value_slots() + UNKNOWN.len());
        text.push_str(UNKNOWN);
        Names { text, spans, generic: options.generic, scope: Scope::default(), announced: None }
    }

    /// Names the values of a region that is about to be printed. What it returns is given back by [`leave`](Names::leave).
    pub(super) fn enter(&mut self, module: &Module, region: RegionId) -> Scope {
        let outer = self.scope;
        if !self.generic {
            self.region(module, region);
        }
        outer
    }

    /// Names the arguments of a region that is about to be printed, for what stands before it.
    pub(super) fn announce(&mut self, module: &Module, region: RegionId) {
        if let (false, Some(&entry)) = (self.generic, module.region(region).blocks().first()) {
            let outer = self.scope;
            self.entry_args(module, region, entry);
            self.announced = Some((region, self.scope));
            self.scope = outer;
        }
    }

    /// Ends a region.
    pub(super) fn leave(&mut self, outer: Scope) {
        self.scope = outer;
    }

    fn region(&mut self, module: &Module, region: RegionId) {
        for (i, &block) in module.region(region).blocks().iter().enumerate() {
            if i == 0 {
                match self.announced.take() {
                    Some((announced, scope)) if announced == region => self.scope = scope,
                    _ => self.entry_args(module, region, block),
                }
            } else {
                module.block(block).args().iter().for_each(|&arg| self.count(arg));
            }
            self.block(module, block);
        }
    }

    fn entry_args(&mut self, module: &Module, region: RegionId, entry: BlockId) {
        let parent = module.op(module.region(region).parent());
        let args = module.block(entry).args();
        match parent.kind() {
            OpKind::Control(ControlOp::While) if !self.generic => {
                args.iter().for_each(|&arg| self.set(arg, "%iterArg"));
            }
            OpKind::Chlo(ChloOp::Scan) if !self.generic => {
                let inputs = super::body::scan_inputs(parent).unwrap_or(0).min(args.len());
                args[..inputs].iter().for_each(|&arg| self.set(arg, "%input"));
                args[inputs..].iter().for_each(|&arg| self.set(arg, "%carry"));
            }
            _ => self.count_args(module, entry),
        }
    }

    fn count_args(&mut self, module: &Module, block: BlockId) {
        for &arg in module.block(block).args() {
            self.name(arg, "%arg", self.scope.args);
            self.scope.args += 1;
        }
    }

    /// Names the results of the operations of a block.
    fn block(&mut self, module: &Module, block: BlockId) {
        module.ops_in(block).for_each(|op| self.op(module, module.op(op)));
    }

    fn op(&mut self, module: &Module, op: &Op) {
        let suggests = matches!(op.kind(), OpKind::Source(_) | OpKind::Chlo(_) | OpKind::Linalg(_));
        if suggests && !self.generic && self.suggested(module, op) {
            return;
        }
        match op.results() {
            [] => {}
            &[only] => self.count(only),
            results => {
                for (i, &result) in results.iter().enumerate() {
                    self.name(result, "%", self.scope.values);
                    self.append(result, "#", i as u32);
                }
                self.scope.values += 1;
            }
        }
    }

    fn count(&mut self, value: ValueId) {
        self.name(value, "%", self.scope.values);
        self.scope.values += 1;
    }

    /// Calls a value by a prefix and a number.
    fn name(&mut self, value: ValueId, prefix: &str, number: u32) {
        self.spans[value.index()].0 = self.text.len() as u32;
        self.append(value, prefix, number);
    }

    /// Adds to the name that was given last.
    fn append(&mut self, value: ValueId, prefix: &str, number: u32) {
        self.text.push_str(prefix);
        push_int(&mut self.text, number);
        self.spans[value.index()].1 = self.text.len() as u32;
    }

    /// Gives the results the names that the operation suggests, if it does.
    fn suggested(&mut self, module: &Module, op: &Op) -> bool {
        let bases: &[&str] = match (op.kind(), op.results()) {
            (OpKind::Source(SourceOp::Constant), &[result]) => {
                let elem = module.ty(result).elem();
                let integer = elem.is_some_and(|e| (e.is_integer() && e != ElementType::Index) || e == ElementType::I1);
                if integer { &["%c"] } else { &["%cst"] }
            }
            (OpKind::Chlo(ChloOp::TopK), [_, _]) => &["%values", "%indices"],
            (OpKind::Source(SourceOp::RngBitGenerator), [_, _]) => &["%output_state", "%output"],
            (OpKind::Linalg(LinalgOp::BatchNormGrad), [_, _, _]) => &["%grad_operand", "%grad_scale", "%grad_offset"],
            (OpKind::Linalg(LinalgOp::BatchNormTraining), [_, _, _]) => &["%output", "%batch_mean", "%batch_var"],
            _ => return false,
        };
        op.results().iter().zip(bases).for_each(|(&result, base)| self.set(result, base));
        true
    }

    fn set(&mut self, value: ValueId, base: &str) {
        // All that are given are in the list.
        let bit = 1 << BASES.iter().position(|b| *b == base).unwrap_or_default();
        let start = self.text.len() as u32;
        self.text.push_str(base);
        self.spans[value.index()] = (start, self.text.len() as u32);
        if self.scope.taken & bit != 0 {
            // No two names share a conflict number on the way from the root, so the result is free.
            self.append(value, "_", self.scope.conflicts);
            self.scope.conflicts += 1;
        }
        self.scope.taken |= bit;
    }

    /// The name of `value`.
    pub(super) fn of(&self, value: ValueId) -> &str {
        let (start, end) = self.spans[value.index()];
        &self.text[start as usize..end as usize]
    }

    /// Appends what is left of the equals sign, and the sign, for an operation with results.
    pub(super) fn push_results(&self, out: &mut String, results: &[ValueId]) {
        match results {
            [] => return,
            &[only] => out.push_str(self.of(only)),
            &[first, ..] => match self.of(first).split_once('#') {
                Some((group, _)) => {
                    out.push_str(group);
                    out.push(':');
                    push_int(out, results.len() as u32);
                }
                None => push_list(out, results, |out, &result| out.push_str(self.of(result))),
            },
        }
        out.push_str(" = ");
    }
}

/// The regions of the operations of a block.
fn regions_in(module: &Module, block: BlockId) -> impl Iterator<Item = RegionId> {
    module.ops_in(block).flat_map(|op| module.op(op).regions().iter().copied())
}
