//! Operations with regions in their pretty form: reduce, while, scan, and the computations of `sdy`.

use super::sdy::{push_sharding_list, push_stripped};
use super::write::{push_dims, push_int, push_quoted};
use super::{BlockLabel, Printer};
use crate::op::{BodyOp, ControlOp};
use crate::{Attr, BlockId, Module, Op, OpKind, RegionId, Trait, Type};

impl<'m> Printer<'m> {
    /// `(%x init: %c) applies stablehlo.add across dimensions = [0] : ...`, or with a `reducer`.
    pub(super) fn reduce(&mut self, op: &'m Op) -> Option<()> {
        let &[region] = op.regions() else { return None };
        let &[body] = self.module.region(region).blocks() else { return None };
        let inputs = op.operands().len() / 2;
        let args = self.module.block(body).args();
        if inputs == 0 || op.operands().len() != 2 * inputs || args.len() != 2 * inputs {
            return None;
        }
        let (values, inits) = op.operands().split_at(inputs);
        for (i, (&value, &init)) in values.iter().zip(inits).enumerate() {
            self.out.push_str(if i > 0 { "), (" } else { "(" });
            self.value(value);
            self.out.push_str(" init: ");
            self.value(init);
        }
        let compact = compact_reducer(self.module, op);
        self.out.push(')');
        if let Some(kind) = compact {
            self.out.push_str(" applies ");
            self.out.push_str(kind.name());
        }
        self.out.push_str(" across dimensions = ");
        let Attr::I64Array(dims) = op.attr("dimensions")? else { return None };
        push_dims(&mut self.out, dims);
        if op.attrs.len() > 1 {
            self.dict(op, &["dimensions"]);
        }
        self.out.push_str(" : ");
        self.functional_type(op);
        if compact.is_none() {
            self.names.announce(self.module, region);
            self.newline();
            self.out.push_str(" reducer");
            for i in 0..inputs {
                self.out.push('(');
                for (at, separator) in [(i, ", "), (i + inputs, ") ")] {
                    self.block_arg(body, at);
                    self.arg_loc(body, at);
                    self.out.push_str(separator);
                }
            }
            self.out.push(' ');
            self.region(region, BlockLabel::Hidden);
        }
        Some(())
    }

    /// `(%iterArg = %c) : tensor<i32>`, then `cond {...} do {...}`.
    pub(super) fn while_loop(&mut self, op: &'m Op) -> Option<()> {
        let &[cond, body] = op.regions() else { return None };
        for region in [cond, body] {
            if !self.same_types(self.module.block(self.only_block(region)?).args(), op.operands()) {
                return None;
            }
        }
        if !self.same_types(op.operands(), op.results()) {
            return None;
        }
        self.names.announce(self.module, body);
        let args = self.module.block(self.only_block(body)?).args();
        self.out.push('(');
        for (i, (&arg, &operand)) in args.iter().zip(op.operands()).enumerate() {
            if i > 0 {
                self.out.push_str(", ");
            }
            self.value(arg);
            self.out.push_str(" = ");
            self.value(operand);
        }
        self.out.push(')');
        if !op.operands().is_empty() {
            self.out.push_str(" : ");
            self.types(op.operands());
        }
        self.attr_list(" attributes {", op.attrs.iter().map(|(n, a)| (n.as_str(), a)), "}");
        self.newline();
        for (keyword, region) in [("cond ", cond), (" do ", body)] {
            self.out.push_str(keyword);
            self.region(region, BlockLabel::Hidden);
        }
        Some(())
    }

    /// `chlo.scan(%x) inits (%c) dimension=0 {...} : ...`.
    pub(super) fn scan(&mut self, op: &'m Op) -> Option<()> {
        let &[region] = op.regions() else { return None };
        let (inputs, inits) = op.operands().split_at_checked(scan_inputs(op)?)?;
        self.out.push('(');
        self.operands(inputs);
        self.out.push_str(") inits (");
        self.operands(inits);
        self.out.push_str(") dimension=");
        push_int(&mut self.out, op.int("dimension")?);
        self.out.push(' ');
        let shown = op.attrs.iter().map(|(n, a)| (n.as_str(), a));
        let hidden = ["dimension", "operandSegmentSizes", "resultSegmentSizes"];
        self.attr_list(" attributes {", shown.filter(|(n, _)| !hidden.contains(n)), "}");
        self.out.push(' ');
        self.region(region, BlockLabel::Args);
        self.out.push_str(" : ");
        self.functional_type(op);
        Some(())
    }

    /// `sdy.manual_computation(%x) in_shardings=[...] out_shardings=[...] manual_axes={"x"} (%arg1: ...) {...}`.
    pub(super) fn manual_computation(&mut self, op: &'m Op) -> Option<()> {
        self.out.push('(');
        self.operands(op.operands());
        self.out.push_str(") in_shardings=");
        self.sharding_list(op, "in_shardings")?;
        self.out.push_str(" out_shardings=");
        self.sharding_list(op, "out_shardings")?;
        self.out.push_str(" manual_axes=");
        let axes @ Attr::Axes(_) = op.attr("manual_axes")? else { return None };
        push_stripped(&mut self.out, axes);
        self.body_without_label(op)?;
        self.tail_functional(op, &["in_shardings", "out_shardings", "manual_axes"]);
        Some(())
    }

    /// `sdy.named_computation<"f">(%x) in_shardings=[...] (%arg1: ...) {...}`.
    pub(super) fn named_computation(&mut self, op: &'m Op) -> Option<()> {
        self.out.push('<');
        push_quoted(&mut self.out, op.attr("name")?.as_str()?);
        self.out.push_str(">(");
        self.operands(op.operands());
        self.out.push(')');
        for name in ["in_shardings", "out_shardings"] {
            if op.attr(name).is_some() {
                self.out.push(' ');
                self.out.push_str(name);
                self.out.push('=');
                self.sharding_list(op, name)?;
            }
        }
        self.body_without_label(op)?;
        self.tail_functional(op, &["name", "in_shardings", "out_shardings"]);
        Some(())
    }

    fn sharding_list(&mut self, op: &Op, name: &str) -> Option<()> {
        let list @ Attr::ShardingPerValue(_) = op.attr(name)? else { return None };
        push_sharding_list(&mut self.out, list);
        Some(())
    }

    /// ` (%arg1: tensor<f32>) {...}`.
    fn body_without_label(&mut self, op: &'m Op) -> Option<()> {
        let &[region] = op.regions() else { return None };
        let block = self.only_block(region)?;
        self.names.announce(self.module, region);
        self.out.push_str(" (");
        self.block_args(block);
        self.out.push_str(") ");
        self.region(region, BlockLabel::Hidden);
        Some(())
    }

    fn only_block(&self, region: RegionId) -> Option<BlockId> {
        match self.module.region(region).blocks() {
            &[block] => Some(block),
            _ => None,
        }
    }
}

/// The operation that a one-line reduce applies, if its body is only that: a commutative operation on
/// both arguments, whose result is returned. An operation with attributes does not qualify: they would be lost.
pub(super) fn compact_reducer(module: &Module, op: &Op) -> Option<OpKind> {
    let (OpKind::Body(BodyOp::Reduce), &[region], &[value, _]) = (op.kind(), op.regions(), op.operands()) else {
        return None;
    };
    let &[body] = module.region(region).blocks() else { return None };
    let block = module.block(body);
    let (inner, last) = (module.op(block.first()?), module.op(block.last()?));
    let kind = inner.kind();
    // What is commutative and StableHLO's reads back.
    let plain = kind.has(Trait::Commutative) && inner.attrs.is_empty();
    let (&[lhs, rhs], &[result]) = (inner.operands(), inner.results()) else { return None };
    let (&[first, second], &[returned]) = (block.args(), last.operands()) else { return None };
    let passed = [lhs, rhs, result] == [first, second, returned];
    let ends =
        inner.next == block.last() && last.kind() == OpKind::Control(ControlOp::HloReturn) && last.attrs.is_empty();
    if !(plain && passed && ends) {
        return None;
    }
    let Type::Tensor(ty) = module.ty(lhs) else { return None };
    let scalar = ty.dims.is_empty() && ty.encoding.is_none() && module.ty(value).elem() == Some(ty.elem);
    let typed = |v| module.type_id(v) == module.type_id(lhs);
    (scalar && typed(rhs) && typed(result)).then_some(kind)
}

/// How many operands of a `chlo.scan` are scanned over; the rest start the carries.
pub(super) fn scan_inputs(op: &Op) -> Option<usize> {
    match op.attr("operandSegmentSizes")? {
        Attr::Opaque(text) => {
            let first = text.split(':').nth(1)?.split([',', '>']).next()?;
            first.trim().parse().ok()
        }
        other => other.as_i64s()?.first().copied()?.try_into().ok(),
    }
}
