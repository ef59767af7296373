//! Hoisting: moves operations that compute the same in every round of a loop in front of it.

use crate::op::{ControlOp, SdyOp, SourceOp};
use crate::{BlockId, Def, Module, OpId, OpKind, ValueId, ValueMap, Walk};

/// Moves loop-invariant operations for which `is_worth` holds out of every `while` of `module`, inner loops first.
///
/// An operation is invariant if it is pure, has no regions, and each operand is defined outside the loop, is a
/// constant, or is an argument of the loop's body that every round hands on unchanged.
pub fn hoist(module: &mut Module, is_worth: impl Fn(&Module, OpId) -> bool) {
    for op in module.all_ops(Walk::PostOrder) {
        let is_loop = module.op(op).kind() == OpKind::Control(ControlOp::While);
        let Some(body) = module.body_of(op, 1).filter(|_| is_loop) else { continue };
        let unchanged = unchanged_arguments(module, op, body);
        let outside = |v: ValueId| unchanged.iter().find(|(inner, _)| *inner == v).map(|(_, outer)| *outer);
        for inner in module.op_list(body) {
            let data = module.op(inner);
            let is_invariant = data.kind().is_pure()
                && !data.kind().is_terminator()
                && data.regions().is_empty()
                && !data.operands().is_empty()
                && data.operands().iter().all(|&v| outside(v).is_some() || is_fixed(module, v, op));
            if !is_invariant || !is_worth(module, inner) {
                continue;
            }
            for (i, v) in data.operands().to_vec().into_iter().enumerate() {
                if let Some(outer) = outside(v) {
                    module.set_operand(inner, i, outer);
                } else if let Some(def) = module.def_op(v).filter(|&def| module.is_inside(def, op)) {
                    let copy = module.clone_op(def, &mut ValueMap::default());
                    module.insert_before(op, copy);
                    let constant = module.result(copy);
                    module.set_operand(inner, i, constant);
                }
            }
            module.move_before(inner, op);
        }
    }
}

/// The arguments of a loop's body that it returns in their own place, each with the value the loop starts from.
fn unchanged_arguments(module: &Module, op: OpId, body: BlockId) -> Vec<(ValueId, ValueId)> {
    let (args, returned) = (module.block(body).args(), module.returned(body));
    let all = args.iter().zip(returned).zip(module.op(op).operands());
    all.filter(|((arg, returned), _)| arg == returned).map(|((&arg, _), &outer)| (arg, outer)).collect()
}

/// Whether `v` is defined outside `op`, or is a constant, which can be copied there.
fn is_fixed(module: &Module, v: ValueId, op: OpId) -> bool {
    match module.value(v).def() {
        Def::Result(def, _) => !module.is_inside(def, op) || is_constant(module, def),
        Def::Arg(block, _) => module.block_parent_op(block).is_none_or(|parent| !module.is_inside(parent, op)),
    }
}

fn is_constant(module: &Module, op: OpId) -> bool {
    matches!(module.op(op).kind(), OpKind::Source(SourceOp::Constant) | OpKind::Sdy(SdyOp::Constant))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::op::BinaryOp;
    use crate::text::parse;

    const LOOP: &str = "func.func @main(%n: tensor<i32>, %x: tensor<i32>) -> (tensor<i32>, tensor<i32>) {
      %0:2 = stablehlo.while(%i = %n, %y = %x) : tensor<i32>, tensor<i32>
        cond { %c = stablehlo.compare LT, %i, %y : (tensor<i32>, tensor<i32>) -> tensor<i1>
          stablehlo.return %c : tensor<i1>
        } do {
          %two = stablehlo.constant dense<2> : tensor<i32>
          %same = stablehlo.multiply %y, %two : tensor<i32>
          %next = stablehlo.add %i, %same : tensor<i32>
          stablehlo.return %next, %y : tensor<i32>, tensor<i32>
        }
      return %0#0, %0#1 : tensor<i32>, tensor<i32>
    }";

    fn kinds_in_front(is_worth: impl Fn(&Module, OpId) -> bool) -> Vec<OpKind> {
        let mut module = parse(LOOP).unwrap();
        hoist(&mut module, is_worth);
        assert!(crate::verify::verify(&module).is_empty());
        let body = module.body_of(module.entry().unwrap(), 0).unwrap();
        module.ops_in(body).map(|op| module.op(op).kind()).collect()
    }

    #[test]
    fn what_a_loop_does_not_change_moves_in_front_of_it() {
        let kinds = kinds_in_front(|_, _| true);
        assert!(kinds.contains(&OpKind::Binary(BinaryOp::Multiply)), "{kinds:?}");
        assert!(!kinds.contains(&OpKind::Binary(BinaryOp::Add)), "{kinds:?}");
    }

    #[test]
    fn what_is_not_worth_it_stays() {
        assert_eq!(kinds_in_front(|_, _| false).len(), 2);
    }
}
