//! Lines and types that this thread has written before.
//!
//! What follows the operands of most operations depends on their kind, types and attributes only. Programs repeat
//! themselves: so the end of an operation is often a copy of an earlier one.

use super::Printer;
use super::attr::push_dict;
use super::body::compact_reducer;
use super::short::Short;
use super::tails::Key;
use super::write::push_type;
use crate::module::Addresses;
use crate::op::{BodyOp, ContractOp, MixedOp, MovementOp, SourceOp};
use crate::{Attr, AttrDict, Op, OpKind, Type, ValueId};

/// The kind of `op` as part of a key; it applies `inner`.
#[inline(always)]
fn kind(op: &Op, inner: Option<OpKind>) -> usize {
    op.kind().number() | inner.map_or(0, |kind| kind.number() + 1) << 16
}

/// Whether the end of `op` may come again and is small.
fn is_kept(op: &Op) -> bool {
    match op.kind() {
        OpKind::Source(SourceOp::Constant) => {
            let small = |dense: &crate::Dense| dense.splat_bytes().is_some_and(|bytes| bytes.len() <= 16);
            op.attrs.is_shared() && matches!(op.attr("value"), Some(Attr::Dense(dense)) if small(dense))
        }
        // Their kind does not tell their name.
        OpKind::Unregistered => false,
        OpKind::Movement(MovementOp::BroadcastInDim)
        | OpKind::Mixed(MixedOp::Compare)
        | OpKind::Contract(ContractOp::DotGeneral)
        | OpKind::Source(SourceOp::Iota)
        | OpKind::Movement(MovementOp::Transpose)
        | OpKind::Body(BodyOp::Reduce) => op.attrs.is_shared(),
        _ => op.attrs.is_empty(),
    }
}

impl<'m> Printer<'m> {
    /// Writes the line of `op` if it consists of its only result, its name, its operands and an end that was written
    /// before.
    #[inline]
    pub(super) fn repeat_line(&mut self, op: &'m Op, result: ValueId) -> Option<()> {
        let kind = match op.regions() {
            [] => kind(op, None),
            _ => kind(op, Some(compact_reducer(self.module, op)?)),
        };
        match *op.operands() {
            [] => self.repeat_on(kind, op, result, []),
            [a] => self.repeat_on(kind, op, result, [a]),
            [a, b] => self.repeat_on(kind, op, result, [a, b]),
            [a, b, c] => self.repeat_on(kind, op, result, [a, b, c]),
            _ => None,
        }
    }

    #[inline(always)]
    fn repeat_on<const N: usize>(
        &mut self,
        kind: usize,
        op: &'m Op,
        result: ValueId,
        operands: [ValueId; N],
    ) -> Option<()> {
        let ty = self.module.ty(result);
        let known = self.tails.get(&Key::new(self.module, kind, &op.attrs, ty, operands)?)?;
        let mut names = [Short::NONE; N];
        for (name, operand) in names.iter_mut().zip(operands) {
            *name = self.names.short(operand);
        }
        let name = self.names.short(result);
        if !(name.is_text() && names.iter().all(|name| name.is_text())) {
            return None;
        }
        let mut line = self.out.line()?;
        line.put(&[b' '; INDENT], self.indent as u8);
        line.put_short(name);
        line.put(&known.head, known.head_count);
        for (i, &name) in names.iter().enumerate() {
            if i > 0 {
                line.put_short(known.between);
            }
            line.put_short(name);
        }
        known.put_tail(&mut line);
        line.finish();
        self.out.push_rest(&known.rest);
        Some(())
    }

    /// Appends what `write` writes for the end of `op`, which applies `inner`: no names of values. Before it stand the
    /// name of the operation and nothing but its operands.
    pub(super) fn tail(
        &mut self,
        op: &'m Op,
        inner: Option<OpKind>,
        write: impl FnOnce(&mut Self) -> Option<()>,
    ) -> Option<()> {
        let ty = match *op.results() {
            // A body that is written would be missing.
            [result] if is_kept(op) && op.regions().is_empty() == inner.is_none() => self.module.ty(result),
            _ => return write(self),
        };
        let kind = kind(op, inner);
        match *op.operands() {
            [] => self.tail_on(kind, op, ty, [], write),
            [a] => self.tail_on(kind, op, ty, [a], write),
            [a, b] => self.tail_on(kind, op, ty, [a, b], write),
            [a, b, c] => self.tail_on(kind, op, ty, [a, b, c], write),
            _ => write(self),
        }
    }

    fn tail_on<const N: usize>(
        &mut self,
        kind: usize,
        op: &'m Op,
        ty: &Type,
        operands: [ValueId; N],
        write: impl FnOnce(&mut Self) -> Option<()>,
    ) -> Option<()> {
        let Some(key) = Key::new(self.module, kind, &op.attrs, ty, operands) else { return write(self) };
        let start = self.out.len();
        write(self)?;
        if self.tails.get(&key).is_none() {
            let (open, between) = match (op.kind(), N) {
                (OpKind::Mixed(MixedOp::Compare), _) => {
                    (format!(" {}, ", op.enum_value("comparison_direction")?), ", ")
                }
                (OpKind::Body(BodyOp::Reduce), _) => ("(".into(), " init: "),
                (_, 0) => (String::new(), ""),
                _ => (" ".into(), ", "),
            };
            let (head, tail) = (format!(" = {}{open}", op.name()), format!("{}\n", self.out.since(start)));
            let held = Addresses::hold(self.module, op.operands(), &op.attrs, Some(ty));
            self.tails.put(&key, [&head, between, &tail], held);
        }
        Some(())
    }

    /// Appends the type of a value.
    pub(super) fn ty(&mut self, value: ValueId) {
        self.typed([], self.module.ty(value), &AttrDict::new());
    }

    /// Appends short texts, a type, and a dictionary unless it is empty: many arguments have the same.
    pub(super) fn typed<const N: usize>(&mut self, before: [Short; N], ty: &Type, dict: &AttrDict) {
        let key = Key::new(self.module, TYPED, dict, ty, []);
        let known = key.as_ref().and_then(|key| self.tails.get(key));
        if let Some(mut line) = self.out.line() {
            before.iter().for_each(|&text| line.put_short(text));
            if let Some(known) = known {
                known.put_tail(&mut line);
            }
            line.finish();
        }
        if let Some(known) = known {
            return self.out.push_rest(&known.rest);
        }
        let start = self.out.len();
        push_type(&mut self.out, ty);
        if !dict.is_empty() {
            self.out.push(' ');
            push_dict(&mut self.out, dict);
        }
        let is_kept = dict.iter().all(|(_, attr)| matches!(attr, Attr::Sharding(_)));
        if let Some(key) = key.filter(|_| is_kept) {
            let held = Addresses::hold(self.module, &[], dict, Some(ty));
            self.tails.put(&key, ["", "", self.out.since(start)], held);
        }
    }
}

/// The kind of no operation.
const TYPED: usize = u16::MAX as usize;

/// Only lines of this depth or less are repeated.
pub(super) const INDENT: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::op::BodyOp;
    use crate::text::print;

    #[test]
    fn a_text_is_the_same_the_second_time() {
        let text = r#"module {
  func.func @main(%arg0: tensor<2x3xf32>, %arg1: tensor<3xf32>) -> tensor<3x2xf32> {
    %cst = stablehlo.constant dense<1.000000e+00> : tensor<2x3xf32>
    %0 = stablehlo.broadcast_in_dim %arg1, dims = [1] : (tensor<3xf32>) -> tensor<2x3xf32>
    %1 = stablehlo.add %arg0, %0 : tensor<2x3xf32>
    %2 = stablehlo.multiply %1, %cst : tensor<2x3xf32>
    %3 = stablehlo.transpose %2, dims = [1, 0] : (tensor<2x3xf32>) -> tensor<3x2xf32>
    return %3 : tensor<3x2xf32>
  }
}
"#;
        let module = crate::text::parse(text).unwrap();
        assert_eq!(print(&module), text);
        assert_eq!(print(&module), text);
        assert_eq!(print(&module.clone()), text);
    }

    #[test]
    fn lines_of_any_depth_are_the_same_the_second_time() {
        let (open, close) = (
            "sdy.named_computation<\"f\">(%a) (%a: tensor<2xf32>) {",
            "sdy.return %b : tensor<2xf32> } : (tensor<2xf32>) -> tensor<2xf32>",
        );
        let sum = "%b = stablehlo.add %a, %a : tensor<2xf32>";
        let nested = (0..12).fold(sum.to_string(), |inner, _| format!("{sum} %c = {open} {inner} {close}"));
        let text = format!("func.func @f(%a: tensor<2xf32>) {{ {nested} return }}");
        let module = crate::text::parse(&text).unwrap();
        let printed = print(&module);
        assert!(
            printed.contains("\n                            %24 = stablehlo.add %arg12, %arg12 : tensor<2xf32>\n"),
            "{printed}"
        );
        assert_eq!(print(&module), printed);
        assert_eq!(print(&crate::text::parse(&printed).unwrap()), printed);
    }

    #[test]
    fn shared_attributes_that_stand_before_operands_are_part_of_the_name() {
        let text = r#"module {
  func.func @main(%arg0: tensor<2xi32>) {
    %0 = stablehlo.iota dim = 0 : tensor<2xi32>
    %1 = stablehlo.compare LT, %0, %arg0, SIGNED : (tensor<2xi32>, tensor<2xi32>) -> tensor<2xi1>
    %2 = stablehlo.compare GE, %arg0, %0, SIGNED : (tensor<2xi32>, tensor<2xi32>) -> tensor<2xi1>
    return
  }
}
"#;
        let module = crate::text::parse(text).unwrap();
        // A copy of a module shares its attributes.
        let copy = module.clone();
        assert_eq!([print(&module), print(&copy), print(&module)], [text; 3]);
    }

    #[test]
    fn operations_of_one_kind_keep_their_names() {
        let text = r#"module {
  func.func @main(%arg0: tensor<2xf32>, %arg1: tensor<2xf32>) -> tensor<2xf32> {
    %0 = chlo.broadcast_add %arg0, %arg1 : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
    %1 = chlo.broadcast_multiply %0, %arg1 : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
    return %1 : tensor<2xf32>
  }
}
"#;
        assert_eq!(print(&crate::text::parse(text).unwrap()), text);
    }

    #[test]
    fn texts_of_any_length_are_the_same_the_second_time() {
        for rank in [0, 1, 10, 20, 50, 200, 3000] {
            let ty = format!("tensor<{}f32>", "1x".repeat(rank));
            let line = format!("stablehlo.add %arg0, %arg0 : {ty}\n");
            let text = format!("func.func @f(%a: {ty}) {{ %0 = stablehlo.add %a, %a : {ty} return }}");
            let module = crate::text::parse(&text).unwrap();
            assert!([print(&module), print(&module)].iter().all(|text| text.contains(&line)), "rank {rank}");
        }
    }

    #[test]
    fn a_reduce_without_a_body_is_not_taken_for_one_with_a_body() {
        let text = "func.func @f(%a: tensor<4xf32>, %b: tensor<f32>) {
            %0 = stablehlo.reduce(%a init: %b) across dimensions = [0] : (tensor<4xf32>, tensor<f32>) -> tensor<f32>
             reducer(%x: tensor<f32>, %y: tensor<f32>) {
              %1 = stablehlo.subtract %x, %y : tensor<f32>
              stablehlo.return %1 : tensor<f32>
            }
            return
        }";
        let mut module = crate::text::parse(text).unwrap();
        print(&module.clone());
        let reduce = module.op_ids().find(|&op| module.op(op).kind() == OpKind::Body(BodyOp::Reduce)).unwrap();
        let op = module.op(reduce);
        let spec = crate::OpSpec::new(OpKind::Body(BodyOp::Reduce)).operands(op.operands().to_vec());
        let spec = spec.results([module.ty(op.results()[0]).clone()]);
        let attrs = op.attrs.clone();
        module.push_after(reduce, crate::OpSpec { attrs, ..spec });
        let printed = print(&module);
        assert!(printed.contains("%1 = \"stablehlo.reduce\"(%arg0, %arg1)"), "{printed}");
    }
}
