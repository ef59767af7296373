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
#[derive(Clone, Copy)]
enum Base {
    C,
    Cst,
    Values,
    Indices,
    OutputState,
    Output,
    GradOperand,
    GradScale,
    GradOffset,
    BatchMean,
    BatchVar,
    IterArg,
    Input,
    Carry,
}

impl Base {
    fn text(self) -> &'static str {
        match self {
            Base::C => "%c",
            Base::Cst => "%cst",
            Base::Values => "%values",
            Base::Indices => "%indices",
            Base::OutputState => "%output_state",
            Base::Output => "%output",
            Base::GradOperand => "%grad_operand",
            Base::GradScale => "%grad_scale",
            Base::GradOffset => "%grad_offset",
            Base::BatchMean => "%batch_mean",
            Base::BatchVar => "%batch_var",
            Base::IterArg => "%iterArg",
            Base::Input => "%input",
            Base::Carry => "%carry",
        }
    }
}

/// What a value is called.
#[derive(Clone, Copy)]
enum Name {
    /// It has no name.
    Unknown,
    /// `%0`.
    Number(u32),
    /// `%0#1`: one of several results.
    Part(u32, u32),
    /// `%arg0`.
    Arg(u32),
    /// `%cst`.
    Base(Base),
    /// `%cst_0`: others have that base name.
    Another(Base, u32),
}

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
        let names = vec![Name::Unknown; module.value_slots()];
        Names { names, generic: options.generic, scope: Scope::default(), announced: None }
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
                args.iter().for_each(|&arg| self.set(arg, Base::IterArg));
            }
            OpKind::Chlo(ChloOp::Scan) if !self.generic => {
                let inputs = super::body::scan_inputs(parent).unwrap_or(0).min(args.len());
                args[..inputs].iter().for_each(|&arg| self.set(arg, Base::Input));
                args[inputs..].iter().for_each(|&arg| self.set(arg, Base::Carry));
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
        let suggests = matches!(op.kind(), OpKind::Source(_) | OpKind::Chlo(_) | OpKind::Linalg(_));
        if suggests && !self.generic && self.suggested(module, op) {
            return;
        }
        match op.results() {
            [] => {}
            &[only] => self.count(only),
            results => {
                for (i, &result) in results.iter().enumerate() {
                    self.names[result.index()] = Name::Part(self.scope.values, i as u32);
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
        let bases: &[Base] = match (op.kind(), op.results()) {
            (OpKind::Source(SourceOp::Constant), &[result]) => {
                let elem = module.ty(result).elem();
                let integer = elem.is_some_and(|e| (e.is_integer() && e != ElementType::Index) || e == ElementType::I1);
                if integer { &[Base::C] } else { &[Base::Cst] }
            }
            (OpKind::Chlo(ChloOp::TopK), [_, _]) => &[Base::Values, Base::Indices],
            (OpKind::Source(SourceOp::RngBitGenerator), [_, _]) => &[Base::OutputState, Base::Output],
            (OpKind::Linalg(LinalgOp::BatchNormGrad), [_, _, _]) => {
                &[Base::GradOperand, Base::GradScale, Base::GradOffset]
            }
            (OpKind::Linalg(LinalgOp::BatchNormTraining), [_, _, _]) => {
                &[Base::Output, Base::BatchMean, Base::BatchVar]
            }
            _ => return false,
        };
        op.results().iter().zip(bases).for_each(|(&result, &base)| self.set(result, base));
        true
    }

    fn set(&mut self, value: ValueId, base: Base) {
        let bit = 1 << base as u32;
        self.names[value.index()] = if self.scope.taken & bit == 0 {
            Name::Base(base)
        } else {
            // No two names share a conflict number on the way from the root, so the result is free.
            self.scope.conflicts += 1;
            Name::Another(base, self.scope.conflicts - 1)
        };
        self.scope.taken |= bit;
    }

    /// Appends the name of `value`.
    #[inline(always)]
    pub(super) fn push(&self, out: &mut String, value: ValueId) {
        match self.names[value.index()] {
            Name::Unknown => out.push_str("%<<UNKNOWN SSA VALUE>>"),
            Name::Number(number) => {
                out.push('%');
                push_int(out, number);
            }
            Name::Part(group, part) => {
                out.push('%');
                push_int(out, group);
                out.push('#');
                push_int(out, part);
            }
            Name::Arg(number) => {
                out.push_str("%arg");
                push_int(out, number);
            }
            Name::Base(base) => out.push_str(base.text()),
            Name::Another(base, number) => {
                out.push_str(base.text());
                out.push('_');
                push_int(out, number);
            }
        }
    }

    /// Appends what is left of the equals sign, and the sign, for an operation with results.
    pub(super) fn push_results(&self, out: &mut String, results: &[ValueId]) {
        match results {
            [] => return,
            &[only] => self.push(out, only),
            &[first, ..] => match self.names[first.index()] {
                Name::Part(group, _) => {
                    out.push('%');
                    push_int(out, group);
                    out.push(':');
                    push_int(out, results.len() as u32);
                }
                _ => push_list(out, results, |out, &result| self.push(out, result)),
            },
        }
        out.push_str(" = ");
    }
}

/// The regions of the operations of a block.
fn regions_in(module: &Module, block: BlockId) -> impl Iterator<Item = RegionId> {
    module.ops_in(block).flat_map(|op| module.op(op).regions().iter().copied())
}
