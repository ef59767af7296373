//! Names of values: `%0`, `%1#0`, `%arg2`, `%cst_0`, by MLIR's rules.
//!
//! All values of a region are numbered before those of the regions nested in it, which go on from there. Sibling
//! regions do not see each other, so they reuse numbers. In the generic form no number is used twice in a
//! module, and regions are visited last first.
//!
//! Most blocks have no regions nested in them that are written. So values get their names as they are written, and the
//! rest of a region when a nested one comes up.

use super::out::Out;
use super::short::{Counter, Short};
use crate::op::{ChloOp, ControlOp, LinalgOp, SourceOp};
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

/// The counters of one region, and how far its values have names.
#[derive(Clone, Copy)]
pub(super) struct Scope {
    values: Counter,
    args: Counter,
    /// What tells values with the same base name apart: `_0`, `_1` and so on.
    conflicts: Counter,
    /// Which bare base names are taken, by position in [`BASES`].
    taken: u16,
    named: Named,
}

/// Which values have names.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Named {
    /// All.
    All,
    /// Those of the region that is being written, and of those around it.
    Region,
    /// Those up to the operation that is being written, and of the regions around it all.
    Written,
}

/// The names of values.
pub(super) struct Names {
    /// The names of most values. Names are written more often than they are given.
    short: Vec<Short>,
    /// Others, as they were given.
    long: Vec<Name>,
    generic: bool,
    scope: Scope,
}

impl Names {
    /// Names for the values of a module: in the generic form at once, else as they are written.
    pub(super) fn of_module(module: &Module, generic: bool) -> Names {
        let mut names = Names::empty(module, generic);
        names.number_args(module, module.body(), ARG);
        if generic {
            names.number_ops(module, module.block(module.body()).first());
            names.number_below(module, regions_in(module, module.body()));
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
        names.number_op(module, module.op(top));
        names.number_below(module, module.op(top).regions().to_vec());
        names
    }

    fn empty(module: &Module, generic: bool) -> Names {
        let [values, args] = [NUMBER, ARG].map(|base| Counter::new(SHORT_BASES[usize::from(base)], 0));
        let conflicts = Counter::new(Short::new("_"), 0);
        let scope = Scope { values, args, conflicts, taken: 0, named: Named::Written };
        Names { short: vec![Short::NONE; module.value_slots()], long: vec![], generic, scope }
    }

    /// What [`leave`](Names::leave) goes back to the region that is being written with.
    pub(super) fn scope(&self) -> Scope {
        self.scope
    }

    /// Begins a region that is about to be written, and names its arguments. Returns what has to be given to
    /// [`leave`](Names::leave) behind it.
    pub(super) fn enter(&mut self, module: &Module, region: RegionId) -> Scope {
        match self.scope.named {
            Named::All => return self.scope,
            Named::Region => {}
            Named::Written => self.number_rest(module, module.op(module.region(region).parent())),
        }
        let outer = self.scope;
        self.scope.named = Named::Written;
        self.number_entry(module, region);
        outer
    }

    /// Goes back to the region around the one that was entered.
    pub(super) fn leave(&mut self, outer: Scope) {
        self.scope = outer;
    }

    /// Names the results of an operation that is about to be written, unless they have names.
    pub(super) fn define(&mut self, module: &Module, op: &Op) {
        if self.scope.named == Named::Written {
            self.number_op(module, op);
        }
    }

    /// The same for an operation with only one.
    #[inline(always)]
    pub(super) fn define_one(&mut self, module: &Module, op: &Op, result: ValueId) {
        if self.scope.named == Named::Written {
            self.number_one(module, op, result);
        }
    }

    /// Names the arguments of a block that is about to be written and is not the first one of its region.
    pub(super) fn define_args(&mut self, module: &Module, block: BlockId) {
        if self.scope.named == Named::Written {
            self.number_args(module, block, NUMBER);
        }
    }

    /// Names the operands of `op` in case that they are defined behind it.
    pub(super) fn look_ahead(&mut self, module: &Module, op: &Op) {
        let is_unknown = |operand: &ValueId| self.short(*operand) == Short::NONE;
        if self.scope.named == Named::Written && op.operands().iter().any(is_unknown) {
            self.number_rest(module, op);
        }
    }

    /// Names the values of a region that come behind `op`.
    fn number_rest(&mut self, module: &Module, op: &Op) {
        self.number_ops(module, op.next);
        let region = op.parent().and_then(|block| module.block(block).parent());
        let blocks = region.map_or(&[][..], |region| module.region(region).blocks());
        let at = blocks.iter().position(|&block| Some(block) == op.parent());
        for &block in at.map_or(&[][..], |at| &blocks[at + 1..]) {
            self.number_args(module, block, NUMBER);
            self.number_ops(module, module.block(block).first());
        }
        self.scope.named = Named::Region;
    }

    /// Names the values of regions and of all that are nested in them: then all have names.
    fn number_below(&mut self, module: &Module, regions: Vec<RegionId>) {
        let mut open: Vec<(RegionId, Scope)> = regions.into_iter().map(|r| (r, self.scope)).collect();
        while let Some((region, inherited)) = open.pop() {
            if !self.generic {
                self.scope = inherited;
            }
            self.number_entry(module, region);
            let blocks = module.region(region).blocks();
            for (i, &block) in blocks.iter().enumerate() {
                if i > 0 {
                    self.number_args(module, block, NUMBER);
                }
                self.number_ops(module, module.block(block).first());
            }
            let nested = blocks.iter().flat_map(|&block| regions_in(module, block));
            open.extend(nested.map(|r| (r, self.scope)));
        }
        self.scope.named = Named::All;
    }

    /// Names the arguments of the first block of a region.
    fn number_entry(&mut self, module: &Module, region: RegionId) {
        let region = module.region(region);
        let Some(&entry) = region.blocks().first() else { return };
        let parent = module.op(region.parent());
        match parent.kind() {
            OpKind::Control(ControlOp::While) if !self.generic => self.number_args(module, entry, ITER_ARG),
            OpKind::Chlo(ChloOp::Scan) if !self.generic => {
                let args = module.block(entry).args();
                let inputs = super::body::scan_inputs(parent).unwrap_or(0).min(args.len());
                args[..inputs].iter().for_each(|&arg| self.set(arg, INPUT));
                args[inputs..].iter().for_each(|&arg| self.set(arg, CARRY));
            }
            _ => self.number_args(module, entry, ARG),
        }
    }

    /// Names the arguments of a block after `base`.
    fn number_args(&mut self, module: &Module, block: BlockId, base: u8) {
        for &arg in module.block(block).args() {
            match base {
                ARG | NUMBER => self.count(arg, base),
                _ => self.set(arg, base),
            }
        }
    }

    /// Names the results of the operations from `next` to the end of its block.
    fn number_ops(&mut self, module: &Module, mut next: Option<OpId>) {
        while let Some(id) = next {
            let op = module.op(id);
            next = op.next;
            self.number_op(module, op);
        }
    }

    fn number_op(&mut self, module: &Module, op: &Op) {
        match *op.results() {
            [only] => self.number_one(module, op, only),
            _ if is_named(op.kind()) && !self.generic && self.name_results(module, op) => {}
            ref results => self.number_group(results),
        }
    }

    #[inline(always)]
    fn number_one(&mut self, module: &Module, op: &Op, result: ValueId) {
        if !(is_named(op.kind()) && !self.generic && self.name_results(module, op)) {
            self.count(result, NUMBER);
        }
    }

    /// Names a value by the next number behind `base`.
    #[inline(always)]
    fn count(&mut self, value: ValueId, base: u8) {
        let counter = if base == ARG { &mut self.scope.args } else { &mut self.scope.values };
        match counter.take_short() {
            Some(name) => self.short[value.index()] = name,
            None => self.count_anew(value, base),
        }
    }

    #[inline(never)]
    fn count_anew(&mut self, value: ValueId, base: u8) {
        let counter = if base == ARG { &mut self.scope.args } else { &mut self.scope.values };
        match counter.take() {
            (Short::NONE, number) => self.give(value, Name { base, number, result: NONE }),
            (name, _) => self.short[value.index()] = name,
        }
    }

    /// Of several values each has its number behind the name of all.
    #[inline(never)]
    fn number_group(&mut self, values: &[ValueId]) {
        if values.is_empty() {
            return;
        }
        let (_, number) = self.scope.values.take();
        for (i, &value) in values.iter().enumerate() {
            self.give(value, Name { base: NUMBER, number, result: i as u32 });
        }
    }

    /// Gives the results the names that the operation suggests, if it does.
    #[inline(never)]
    fn name_results(&mut self, module: &Module, op: &Op) -> bool {
        let bases: &[u8] = match (op.kind(), op.results()) {
            (OpKind::Source(SourceOp::Constant), &[result]) => {
                let elem = module.ty(result).elem();
                let integer = elem.is_some_and(|e| (e.is_integer() && e != ElementType::Index) || e == ElementType::I1);
                self.set(result, if integer { C } else { CST });
                return true;
            }
            (OpKind::Chlo(ChloOp::TopK), [_, _]) => &[5, 6],
            (OpKind::Source(SourceOp::RngBitGenerator), [_, _]) => &[7, 8],
            (OpKind::Linalg(LinalgOp::BatchNormGrad), [_, _, _]) => &[9, 10, 11],
            (OpKind::Linalg(LinalgOp::BatchNormTraining), [_, _, _]) => &[8, 12, 13],
            _ => return false,
        };
        for (&result, &base) in op.results().iter().zip(bases) {
            self.set(result, base);
        }
        true
    }

    fn set(&mut self, value: ValueId, base: u8) {
        let (scope, bit, bare) = (&mut self.scope, 1 << base, SHORT_BASES[usize::from(base)]);
        let (short, number) = if scope.taken & bit == 0 {
            scope.taken |= bit;
            (bare, NONE)
        } else {
            // No two names share a conflict number on the way from the root, so the result is free.
            let (suffix, number) = scope.conflicts.take();
            (bare.join(suffix), number)
        };
        match short {
            Short::NONE => self.give(value, Name { base, number, result: NONE }),
            short => self.short[value.index()] = short,
        }
    }

    /// Gives a value a name that is no short text.
    fn give(&mut self, value: ValueId, name: Name) {
        self.long.push(name);
        self.short[value.index()] = Short::place(self.long.len() as u32 - 1);
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
    matches!(
        kind,
        OpKind::Source(SourceOp::Constant)
            | OpKind::Chlo(ChloOp::TopK)
            | OpKind::Source(SourceOp::RngBitGenerator)
            | OpKind::Linalg(LinalgOp::BatchNormGrad | LinalgOp::BatchNormTraining)
    )
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

#[cfg(test)]
mod tests {
    use crate::op::UnaryOp;
    use crate::text::{parse, print};
    use crate::{OpKind, Walk};

    #[test]
    fn a_value_that_is_used_too_early_has_the_name_it_gets_later() {
        let text = "func.func @f(%a: tensor<f32>) -> tensor<f32> {
            %b = stablehlo.abs %a : tensor<f32>
            %c = stablehlo.negate %b : tensor<f32>
            return %c : tensor<f32>
        }";
        let mut module = parse(text).unwrap();
        let all = module.all_ops(Walk::PreOrder);
        let find = |kind| all.iter().copied().find(|&op| module.op(op).kind() == kind).unwrap();
        let (early, late) = (find(OpKind::Unary(UnaryOp::Negate)), find(OpKind::Unary(UnaryOp::Abs)));
        module.move_before(early, late);
        for text in [print(&module), print(&module)] {
            assert!(text.contains("%0 = stablehlo.negate %1 : tensor<f32>\n    %1 = stablehlo.abs %arg0"), "{text}");
        }
    }
}
