//! Names of values: `%0`, `%1#0`, `%arg2`, `%cst_0`, by MLIR's rules.
//!
//! All values of a region are numbered before those of the regions nested in it, which go on from there. Sibling
//! regions do not see each other, so they reuse numbers. In the generic form no number is used twice in a
//! module, and regions are visited last first.

use super::out::Out;
use super::short::{Counter, Short};
use crate::{BlockId, ElementType, Module, Op, OpId, OpKind, RegionId, ValueId};

/// Base names; the first two stand for plain numbers and entry arguments.
const BASES: [&str; 16] = [
    "%",
    "%arg",
    "%c",
    "%cst",
    "%iterArg",
    "%values",
    "%indices",
    "%output_state",
    "%output",
    "%grad_operand",
    "%grad_scale",
    "%grad_offset",
    "%batch_mean",
    "%batch_var",
    "%input",
    "%carry",
];

/// Those that are short.
const SHORT_BASES: [Short; 16] = {
    let mut short = [Short::NONE; 16];
    let mut i = 0;
    while i < 16 {
        short[i] = Short::new(BASES[i]);
        i += 1;
    }
    short
};

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
#[derive(Clone, Copy)]
pub(super) struct Scope {
    values: Counter,
    args: Counter,
    conflicts: u32,
    /// Which bare base names are taken, by position in [`BASES`].
    taken: u16,
}

impl Scope {
    fn new() -> Scope {
        let [values, args] = [NUMBER, ARG].map(|base| Counter::new(SHORT_BASES[usize::from(base)], 0));
        Scope { values, args, conflicts: 0, taken: 0 }
    }
}

/// The names of values.
pub(super) struct Names {
    /// The names of most values. Names are written more often than they are given.
    short: Vec<Short>,
    /// Others, as they were given.
    long: Vec<Name>,
    generic: bool,
    /// The counters at the end of the region that is being written. None if all values have names already.
    scope: Option<Scope>,
}

impl Names {
    /// Names for the values of the module's body, and in the generic form for all.
    pub(super) fn of_module(module: &Module, generic: bool) -> Names {
        let mut names = Names::empty(module, generic);
        let mut scope = Scope::new();
        names.number_block(module, module.body(), ARG, &mut scope);
        match generic {
            true => names.number_below(module, regions_in(module, module.body()), scope),
            false => names.scope = Some(scope),
        }
        names
    }

    /// Names for all values of `op`'s outermost enclosing operation.
    pub(super) fn around(module: &Module, op: OpId) -> Names {
        let mut top = op;
        while let Some(parent) = module.parent_op(top) {
            top = parent;
        }
        let mut names = Names::empty(module, false);
        let mut scope = Scope::new();
        names.number_op(module.op(top), module, &mut scope);
        names.number_below(module, module.op(top).regions().to_vec(), scope);
        names
    }

    fn empty(module: &Module, generic: bool) -> Names {
        Names { short: vec![Short::NONE; module.value_slots()], long: vec![], generic, scope: None }
    }

    /// What [`leave`](Names::leave) goes back to the region that is being written with.
    pub(super) fn scope(&self) -> Option<Scope> {
        self.scope
    }

    /// Names the values of a region that is about to be written, but not of those nested in it. Returns what has to be
    /// given to [`leave`](Names::leave) behind it.
    pub(super) fn enter(&mut self, module: &Module, region: RegionId) -> Option<Scope> {
        let outer = self.scope?;
        let mut scope = outer;
        self.number_region(module, region, &mut scope);
        self.scope = Some(scope);
        Some(outer)
    }

    /// Goes back to the region around the one that was entered.
    pub(super) fn leave(&mut self, outer: Option<Scope>) {
        self.scope = outer;
    }

    /// Names the values of regions and of all that are nested in them.
    fn number_below(&mut self, module: &Module, regions: Vec<RegionId>, mut scope: Scope) {
        let mut open: Vec<(RegionId, Scope)> = regions.into_iter().map(|r| (r, scope)).collect();
        while let Some((region, inherited)) = open.pop() {
            if !self.generic {
                scope = inherited;
            }
            self.number_region(module, region, &mut scope);
            for &block in module.region(region).blocks() {
                open.extend(regions_in(module, block).into_iter().map(|r| (r, scope)));
            }
        }
    }

    fn number_region(&mut self, module: &Module, region: RegionId, scope: &mut Scope) {
        let region = module.region(region);
        let Some((&entry, others)) = region.blocks().split_first() else { return };
        let parent = module.op(region.parent());
        match parent.kind() {
            OpKind::While if !self.generic => self.number_block(module, entry, ITER_ARG, scope),
            OpKind::ChloScan if !self.generic => {
                let args = module.block(entry).args();
                let inputs = super::body::scan_inputs(parent).unwrap_or(0).min(args.len());
                args[..inputs].iter().for_each(|&arg| self.set(arg, INPUT, scope));
                args[inputs..].iter().for_each(|&arg| self.set(arg, CARRY, scope));
                self.number_ops(module, entry, scope);
            }
            _ => self.number_block(module, entry, ARG, scope),
        }
        others.iter().for_each(|&block| self.number_block(module, block, NUMBER, scope));
    }

    /// Names the arguments of a block after `base`, and the results of its operations.
    fn number_block(&mut self, module: &Module, block: BlockId, base: u8, scope: &mut Scope) {
        for &arg in module.block(block).args() {
            match base {
                ARG => self.count(arg, base, &mut scope.args),
                NUMBER => self.count(arg, base, &mut scope.values),
                _ => self.set(arg, base, scope),
            }
        }
        self.number_ops(module, block, scope);
    }

    fn number_ops(&mut self, module: &Module, block: BlockId, scope: &mut Scope) {
        let mut next = module.block(block).first();
        while let Some(id) = next {
            let op = module.op(id);
            next = op.next;
            self.number_op(op, module, scope);
        }
    }

    #[inline(always)]
    fn number_op(&mut self, op: &Op, module: &Module, scope: &mut Scope) {
        if !is_named(op.kind()) || self.generic || !self.name_results(op, module, scope) {
            match *op.results() {
                [only] => self.count(only, NUMBER, &mut scope.values),
                ref results => self.number_group(results, scope),
            }
        }
    }

    /// Names a value by the next number behind `base`.
    #[inline(always)]
    fn count(&mut self, value: ValueId, base: u8, counter: &mut Counter) {
        let number = counter.number();
        match counter.take() {
            Short::NONE => self.give(value, Name { base, number, result: NONE }),
            name => self.short[value.index()] = name,
        }
    }

    /// Of several values each has its number behind the name of all.
    #[inline(never)]
    fn number_group(&mut self, values: &[ValueId], scope: &mut Scope) {
        if values.is_empty() {
            return;
        }
        let number = scope.values.number();
        scope.values.take();
        for (i, &value) in values.iter().enumerate() {
            self.give(value, Name { base: NUMBER, number, result: i as u32 });
        }
    }

    /// Gives the results the names that the operation suggests, if it does.
    #[inline(never)]
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
        let base = SHORT_BASES[usize::from(name.base)];
        let short = match name {
            Name { result, .. } if result != NONE => Short::NONE,
            Name { number: NONE, .. } => base,
            Name { base: NUMBER | ARG, number, .. } => base.and(number),
            Name { number, .. } => base.then(b'_').and(number),
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

    /// The name of `value`, if it is short.
    #[inline(always)]
    pub(super) fn short(&self, value: ValueId) -> Short {
        self.short[value.index()]
    }

    /// Appends the name of `value`.
    #[inline]
    pub(super) fn push(&self, out: &mut Out, value: ValueId) {
        match out.line() {
            Some(mut line) if self.short(value).is_text() => {
                line.put_short(self.short(value));
                line.finish();
            }
            _ => self.push_long(out, value),
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

/// The regions of the operations of a block.
fn regions_in(module: &Module, block: BlockId) -> Vec<RegionId> {
    module.ops_in(block).flat_map(|op| module.op(op).regions().iter().copied()).collect()
}

/// Whether an operation may suggest names for its results.
#[inline]
fn is_named(kind: OpKind) -> bool {
    use OpKind::*;
    matches!(kind, Constant | ChloTopK | RngBitGenerator | BatchNormGrad | BatchNormTraining)
}

/// Appends a name without the number of the result.
fn push_name(out: &mut Out, name: &Name) {
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
