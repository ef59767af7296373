//! Names of values: `%0`, `%1#0`, `%arg2`, `%cst_0`, by MLIR's rules.
//!
//! All values of a region are numbered before those of the regions nested in it, which go on from there. Sibling
//! regions do not see each other, so they reuse numbers: a region is named when the printer enters it. In the generic
//! form no number is used twice in a module, and regions are visited last first: there all are named beforehand.

use super::PrintOptions;
use super::write::{push_int, push_list};
use crate::op::{ChloOp, ControlOp, LinalgOp, SourceOp};
use crate::{BlockId, ElementType, Module, Op, OpId, OpKind, RegionId, ValueId};

#[derive(Clone, Copy)]
enum Name {
    Unknown,
    /// `%0`.
    Number(u32),
    /// `%0#1`: one of several results.
    Grouped(u32, u32),
    /// `%arg0`.
    Arg(u32),
    /// `%cst`, by its position in [`BASES`].
    Bare(u8),
    /// `%cst_0`.
    Numbered(u8, u32),
}

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
    names: Vec<Name>,
    generic: bool,
    scope: Scope,
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
        Names { names: vec![Name::Unknown; module.value_slots()], generic: options.generic, scope: Scope::default() }
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
                self.entry_args(module, region, block);
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
            self.names[arg.index()] = Name::Arg(self.scope.args);
            self.scope.args += 1;
        }
    }

    /// Names the results of the operations of a block.
    fn block(&mut self, module: &Module, block: BlockId) {
        module.ops_in(block).for_each(|op| self.op(module, module.op(op)));
    }

    fn op(&mut self, module: &Module, op: &Op) {
        if !self.generic && self.suggested(module, op) {
            return;
        }
        match op.results() {
            [] => {}
            &[only] => self.count(only),
            results => {
                for (i, &result) in results.iter().enumerate() {
                    self.names[result.index()] = Name::Grouped(self.scope.values, i as u32);
                }
                self.scope.values += 1;
            }
        }
    }

    fn count(&mut self, value: ValueId) {
        self.names[value.index()] = Name::Number(self.scope.values);
        self.scope.values += 1;
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
        let number = BASES.iter().position(|b| *b == base).unwrap_or_default() as u8;
        self.names[value.index()] = if self.scope.taken >> number & 1 == 1 {
            // No two names share a conflict number on the way from the root, so the result is free.
            self.scope.conflicts += 1;
            Name::Numbered(number, self.scope.conflicts - 1)
        } else {
            self.scope.taken |= 1 << number;
            Name::Bare(number)
        };
    }

    /// Appends the name of `value`.
    pub(super) fn push(&self, out: &mut String, value: ValueId) {
        match self.names[value.index()] {
            Name::Unknown => out.push_str("%<<UNKNOWN SSA VALUE>>"),
            Name::Number(n) => push_numbered(out, "%", n),
            Name::Grouped(n, result) => {
                push_numbered(out, "%", n);
                push_numbered(out, "#", result);
            }
            Name::Arg(n) => push_numbered(out, "%arg", n),
            Name::Bare(base) => out.push_str(BASES[usize::from(base)]),
            Name::Numbered(base, n) => {
                out.push_str(BASES[usize::from(base)]);
                push_numbered(out, "_", n);
            }
        }
    }

    /// Appends what is left of the equals sign, and the sign, for an operation with results.
    pub(super) fn push_results(&self, out: &mut String, results: &[ValueId]) {
        let Some(&first) = results.first() else { return };
        if let Name::Grouped(n, _) = self.names[first.index()] {
            push_numbered(out, "%", n);
            push_numbered(out, ":", results.len() as u32);
        } else {
            push_list(out, results, |out, &result| self.push(out, result));
        }
        out.push_str(" = ");
    }
}

/// Appends a prefix and a number.
#[inline]
fn push_numbered(out: &mut String, prefix: &str, number: u32) {
    out.push_str(prefix);
    push_int(out, number);
}

/// The regions of the operations of a block.
fn regions_in(module: &Module, block: BlockId) -> impl Iterator<Item = RegionId> {
    module.ops_in(block).flat_map(|op| module.op(op).regions().iter().copied())
}
