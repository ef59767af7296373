//! Hoisting: moves operations that compute the same in every round of a loop in front of it.

use crate::hash::HashSet;
use crate::op::{ControlOp, SdyOp, SourceOp};
use crate::{BlockId, Def, Module, OpId, OpKind, ValueId, ValueMap, Walk};

/// Moves loop-invariant operations for which `is_worth` holds out of every `while` of `module`, inner loops first.
///
/// An operation is invariant if it is pure, its regions use nothing from outside them, and each operand is defined outside the loop, is a
/// constant, or is an argument of the loop's body that every round hands on unchanged.
pub fn hoist(module: &mut Module, is_worth: impl Fn(&Module, OpId) -> bool) {
    hoist_with(module, is_worth, is_constant);
}

/// As [`hoist`], where operands may also come from other invariant operations that are not worth it by themselves: these are
/// copied in front of the loop, and what else uses them in the loop keeps its own.
pub fn hoist_chains(module: &mut Module, is_worth: impl Fn(&Module, OpId) -> bool) {
    hoist_with(module, is_worth, |_, _| true);
}

fn hoist_with(
    module: &mut Module,
    is_worth: impl Fn(&Module, OpId) -> bool,
    may_be_copied: impl Fn(&Module, OpId) -> bool,
) {
    for op in module.all_ops(Walk::PostOrder) {
        let is_loop = module.op(op).kind() == OpKind::Control(ControlOp::While);
        let Some(body) = module.body_of(op, 1).filter(|_| is_loop) else { continue };
        // Values of the body that have one in front of the loop.
        let mut outside: ValueMap = unchanged_arguments(module, op, body).into_iter().collect();
        let mut invariant: HashSet<OpId> = HashSet::default();
        for inner in module.op_list(body) {
            let data = module.op(inner);
            let is_same = |&v: &ValueId| {
                let made_inside = module.def_op(v).is_some_and(|def| invariant.contains(&def));
                outside.contains_key(&v) || made_inside || is_outside(module, v, op)
            };
            let is_plain = data.kind().is_pure() && !data.kind().is_terminator() && is_closed(module, inner);
            if !is_plain || !data.operands().iter().all(is_same) {
                continue;
            }
            if data.operands().is_empty() || !is_worth(module, inner) {
                if may_be_copied(module, inner) {
                    invariant.insert(inner);
                }
                continue;
            }
            for (i, v) in data.operands().to_vec().into_iter().enumerate() {
                let outer = in_front(module, v, op, &mut outside);
                module.set_operand(inner, i, outer);
            }
            module.move_before(inner, op);
        }
    }
}

/// `v`, which is the same in every round of the loop `op`, as a value in front of it: what makes it inside is copied there.
fn in_front(module: &mut Module, v: ValueId, op: OpId, outside: &mut ValueMap) -> ValueId {
    if let Some(&outer) = outside.get(&v) {
        return outer;
    }
    let Some(def) = module.def_op(v).filter(|&def| module.is_inside(def, op)) else { return v };
    for operand in module.op(def).operands().to_vec() {
        in_front(module, operand, op, outside);
    }
    let copy = module.clone_op(def, outside);
    module.insert_before(op, copy);
    outside.get(&v).copied().unwrap_or(v)
}

/// The arguments of a loop's body that it returns in their own place, each with the value the loop starts from.
fn unchanged_arguments(module: &Module, op: OpId, body: BlockId) -> Vec<(ValueId, ValueId)> {
    let (args, returned) = (module.block(body).args(), module.returned(body));
    let all = args.iter().zip(returned).zip(module.op(op).operands());
    all.filter(|((arg, returned), _)| arg == returned).map(|((&arg, _), &outer)| (arg, outer)).collect()
}

/// Whether `v` is defined outside `op`.
fn is_outside(module: &Module, v: ValueId, op: OpId) -> bool {
    match module.value(v).def() {
        Def::Result(def, _) => !module.is_inside(def, op),
        Def::Arg(block, _) => module.block_parent_op(block).is_none_or(|parent| !module.is_inside(parent, op)),
    }
}

/// Whether what is inside `op` uses only what is inside it.
fn is_closed(module: &Module, op: OpId) -> bool {
    let mut inner = module.ops_below(op, Walk::PreOrder).into_iter().filter(|&inner| inner != op);
    inner.all(|inner| module.op(inner).operands().iter().all(|&v| !is_outside(module, v, op)))
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

    #[test]
    fn what_is_worth_it_takes_a_copy_of_what_it_needs_along() {
        let text = "func.func @main(%n: tensor<i32>, %x: tensor<i32>) -> tensor<i32> {
          %0:2 = stablehlo.while(%i = %n, %y = %x) : tensor<i32>, tensor<i32>
            cond { %c = stablehlo.compare LT, %i, %y : (tensor<i32>, tensor<i32>) -> tensor<i1>
              stablehlo.return %c : tensor<i1>
            } do {
              %two = stablehlo.constant dense<2> : tensor<i32>
              %same = stablehlo.multiply %y, %two : tensor<i32>
              %less = stablehlo.subtract %same, %two : tensor<i32>
              %most = stablehlo.maximum %less, %same : tensor<i32>
              %sum = stablehlo.add %i, %same : tensor<i32>
              %next = stablehlo.add %sum, %most : tensor<i32>
              stablehlo.return %next, %y : tensor<i32>, tensor<i32>
            }
          return %0#0 : tensor<i32>
        }";
        let is_maximum = |module: &Module, op: OpId| module.op(op).kind() == OpKind::Binary(BinaryOp::Maximum);
        for (with_chains, in_front) in [(true, 6), (false, 2)] {
            let mut module = parse(text).unwrap();
            if with_chains {
                hoist_chains(&mut module, is_maximum);
            } else {
                hoist(&mut module, is_maximum);
            }
            assert!(crate::verify::verify(&module).is_empty());
            let body = module.body_of(module.entry().unwrap(), 0).unwrap();
            let kinds: Vec<OpKind> = module.ops_in(body).map(|op| module.op(op).kind()).collect();
            assert_eq!(kinds.len(), in_front, "{kinds:?}");
            let inside = module.all_ops(Walk::PreOrder);
            let products = inside.iter().filter(|&&op| module.op(op).kind() == OpKind::Binary(BinaryOp::Multiply));
            // The sum of the loop keeps its own.
            assert_eq!(products.count(), if with_chains { 2 } else { 1 });
        }
    }
}
