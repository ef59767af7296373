//! Names of values: `%0`, `%1#0`, `%arg2`, `%cst_0`, by MLIR's rules.
//!
//! All values of a region are numbered before those of the regions nested in it, which go on from there. Sibling
//! regions do not see each other, so they reuse numbers. In the generic form no number is used twice in a
//! module, and regions are visited last first.

use super::body::compact_reducer;
use super::out::{Out, Short};
use crate::{Attr, BlockId, ElementType, Module, Op, OpId, OpKind, RegionId, ValueId};

/// Base names; the first two stand for plain numbers and entry arguments.
const BASES: [&str; 16] = [
    "",
    "arg",
    "c",
    "cst",
    "iterArg",
    "values",
    "indices",
    "output_state",
    "output",
    "grad_operand",
    "grad_scale",
    "grad_offset",
    "batch_mean",
    "batch_var",
    "input",
    "carry",
];
const NUMBER: u8 = 0;
const ARG: u8 = 1;
const C: u8 = 2;
const CST: u8 = 3;
const ITER_ARG: u8 = 4;
const INPUT: u8 = 14;
const CARRY: u8 = 15;

const NONE: u32 = u32::MAX;

/// A name that is no short text.
#[derive(Clone, Copy)]
struct Name {
    base: u8,
    /// The number after the base name, or [`NONE`].
    number: u32,
    /// Which result of a group it is, or [`NONE`].
    result: u32,
}

/// The counters of one region.
#[derive(Clone, Copy, Default)]
struct Scope {
    values: u32,
    args: u32,
    conflicts: u32,
    /// Which bare base names are taken, by position in [`BASES`].
    taken: u16,
}

/// The names of the values below one operation.
pub(super) struct Names {
    /// The names of most values. Names are written more often than they are given.
    short: Vec<Short>,
    /// Others, as they were given.
    long: Vec<Name>,
    generic: bool,
    /// Also those that are not written.
    all: bool,
}

impl Names {
    /// Names for all values of the module.
    pub(super) fn of_module(module: &Module, generic: bool) -> Names {
        let mut names = Names::empty(module, generic);
        names.number_from(module, |names, scope| names.number_block(module, module.body(), true, scope));
        names
    }

    /// Names for the values of `op`'s outermost enclosing operation.
    pub(super) fn around(module: &Module, op: OpId, generic: bool) -> Names {
        let mut top = op;
        while let Some(parent) = module.parent_op(top) {
            top = parent;
        }
        let mut names = Names { all: true, ..Names::empty(module, generic) };
        names.number_from(module, |names, scope| {
            names.number_op(module.op(top), module, scope);
            module.op(top).regions().to_vec()
        });
        names
    }

    fn empty(module: &Module, generic: bool) -> Names {
        Names { short: vec![Short::NONE; module.value_slots()], long: vec![], generic, all: generic }
    }

    fn number_from(&mut self, module: &Module, start: impl FnOnce(&mut Names, &mut Scope) -> Vec<RegionId>) {
        let mut scope = Scope::default();
        let first = start(self, &mut scope);
        let mut open: Vec<(RegionId, Scope)> = first.into_iter().map(|r| (r, scope)).collect();
        while let Some((region, inherited)) = open.pop() {
            if !self.generic {
                scope = inherited;
            }
            let nested = self.number_region(module, region, &mut scope);
            open.extend(nested.into_iter().map(|r| (r, scope)));
        }
    }

    fn number_region(&mut self, module: &Module, region: RegionId, scope: &mut Scope) -> Vec<RegionId> {
        let blocks = module.region(region).blocks();
        if let (false, Some(&entry)) = (self.generic, blocks.first()) {
            let parent = module.op(module.region(region).parent());
            let args = module.block(entry).args();
            match parent.kind() {
                OpKind::While => args.iter().for_each(|&a| self.set(a, ITER_ARG, scope)),
                OpKind::ChloScan => {
                    let inputs = super::body::scan_inputs(parent).unwrap_or(0);
                    let base = |i| if i < inputs { INPUT } else { CARRY };
                    args.iter().enumerate().for_each(|(i, &a)| self.set(a, base(i), scope));
                }
                _ => {}
            }
        }
        let mut nested = vec![];
        for (i, &block) in blocks.iter().enumerate() {
            nested.extend(self.number_block(module, block, i == 0, scope));
        }
        nested
    }

    /// Names the arguments and results of a block; returns the regions of its operations.
    fn number_block(&mut self, module: &Module, block: BlockId, entry: bool, scope: &mut Scope) -> Vec<RegionId> {
        for &arg in module.block(block).args() {
            if self.short[arg.index()] == Short::NONE {
                let (base, counter) = if entry { (ARG, &mut scope.args) } else { (NUMBER, &mut scope.values) };
                self.give(arg, Name { base, number: *counter, result: NONE });
                *counter += 1;
            }
        }
        let mut nested = vec![];
        for id in module.ops_in(block) {
            let op = module.op(id);
            self.number_op(op, module, scope);
            if !op.regions().is_empty() && (self.all || !is_one_line(module, op)) {
                nested.extend_from_slice(op.regions());
            }
        }
        nested
    }

    #[inline]
    fn number_op(&mut self, op: &Op, module: &Module, scope: &mut Scope) {
        if is_named(op.kind()) && !self.generic && self.name_results(op, module, scope) {
            return;
        }
        match *op.results() {
            [only] if scope.values < 10_000 => self.short[only.index()] = Short::value(scope.values),
            [only] => self.give(only, Name { base: NUMBER, number: scope.values, result: NONE }),
            ref results => {
                // Of several results each has its number behind the name of all.
                for (i, &value) in results.iter().enumerate() {
                    self.give(value, Name { base: NUMBER, number: scope.values, result: i as u32 });
                }
            }
        }
        scope.values += u32::from(!op.results().is_empty());
    }

    /// Gives the results the names that the operation suggests, if it does.
    fn name_results(&mut self, op: &Op, module: &Module, scope: &mut Scope) -> bool {
        let bases: &[u8] = match (op.kind(), op.results()) {
            (OpKind::Constant, &[result]) => {
                let elem = module.ty(result).elem();
                let integer = elem.is_some_and(|e| (e.is_integer() && e != ElementType::Index) || e == ElementType::I1);
                if integer { &[C] } else { &[CST] }
            }
            (OpKind::ChloTopK, [_, _]) => &[5, 6],
            (OpKind::RngBitGenerator, [_, _]) => &[7, 8],
            (OpKind::BatchNormGrad, [_, _, _]) => &[9, 10, 11],
            (OpKind::BatchNormTraining, [_, _, _]) => &[8, 12, 13],
            _ => return false,
        };
        for (&result, &base) in op.results().iter().zip(bases) {
            self.set(result, base, scope);
        }
        true
    }

    fn set(&mut self, value: ValueId, base: u8, scope: &mut Scope) {
        let bit = 1 << base;
        let number = if scope.taken & bit == 0 {
            scope.taken |= bit;
            NONE
        } else {
            // No two names share a conflict number on the way from the root, so the result is free.
            scope.conflicts += 1;
            scope.conflicts - 1
        };
        self.give(value, Name { base, number, result: NONE });
    }

    fn give(&mut self, value: ValueId, name: Name) {
        let base = BASES[usize::from(name.base)];
        let short = match name {
            Name { result, .. } if result != NONE => Short::NONE,
            Name { base: ARG, number: 0..1000, .. } => Short::arg(name.number),
            Name { number: NONE, .. } => Short::base(base),
            Name { base: NUMBER | ARG, number, .. } => Short::name(base, "", number),
            Name { number, .. } => Short::name(base, "_", number),
        };
        self.short[value.index()] = match short {
            Short::NONE => {
                self.long.push(name);
                Short::place(self.long.len() as u32 - 1)
            }
            short => short,
        };
    }

    fn long_name(&self, value: ValueId) -> Option<Name> {
        self.long.get(self.short[value.index()].as_place()?).copied()
    }

    /// Appends the name of `value`.
    #[inline]
    pub(super) fn push(&self, out: &mut Out, value: ValueId) {
        let short = self.short[value.index()];
        match short.is_text() {
            true => out.push_short(short),
            false => self.push_long(out, value),
        }
    }

    #[inline(never)]
    fn push_long(&self, out: &mut Out, value: ValueId) {
        let Some(name) = self.long_name(value) else { return out.push_str("%<<UNKNOWN SSA VALUE>>") };
        push_name(out, &name);
        if name.result != NONE {
            out.push('#');
            out.push_u64(name.result.into());
        }
    }

    /// Appends what stands left of the equals sign, and the sign, for an operation with results.
    pub(super) fn push_results(&self, out: &mut Out, results: &[ValueId]) {
        let Some(&first) = results.first() else { return };
        match self.long_name(first).filter(|name| name.result != NONE) {
            Some(name) if results.len() > 1 => {
                push_name(out, &name);
                out.push(':');
                out.push_u64(results.len() as u64);
            }
            _ => {
                for (i, &result) in results.iter().enumerate() {
                    out.push_str(if i > 0 { ", " } else { "" });
                    self.push(out, result);
                }
            }
        }
        out.push_str(" = ");
    }
}

/// Whether the body of `op` is not written, so that its values need no names.
fn is_one_line(module: &Module, op: &Op) -> bool {
    let (OpKind::Reduce, &[region], &[_, _]) = (op.kind(), op.regions(), op.operands()) else { return false };
    let &[body] = module.region(region).blocks() else { return false };
    compact_reducer(module, op, body).is_some() && matches!(op.attr("dimensions"), Some(Attr::I64Array(_)))
}

/// Whether an operation may suggest names for its results.
#[inline]
fn is_named(kind: OpKind) -> bool {
    use OpKind::*;
    matches!(kind, Constant | ChloTopK | RngBitGenerator | BatchNormGrad | BatchNormTraining)
}

/// Appends a name without the number of the result.
fn push_name(out: &mut Out, name: &Name) {
    out.push('%');
    out.push_str(BASES[usize::from(name.base)]);
    match (name.base, name.number) {
        (_, NONE) => {}
        (NUMBER | ARG, n) => out.push_u64(n.into()),
        (_, n) => {
            out.push('_');
            out.push_u64(n.into());
        }
    }
}
