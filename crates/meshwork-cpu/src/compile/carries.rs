//! Carries of loops that never change: the body reads their first value where it is.

use meshwork_ir::op::ControlOp;
use meshwork_ir::{Module, OpId, OpKind, Walk};

/// Replaces carries that every turn hands on as they are by their first values, inside and after each loop of `func`.
pub(crate) fn forward_unchanged(module: &mut Module, func: OpId) {
    for op in module.ops_below(func, Walk::PreOrder) {
        if module.op(op).kind() != OpKind::Control(ControlOp::While) {
            continue;
        }
        let (Some(cond), Some(body)) = (module.body_of(op, 0), module.body_of(op, 1)) else { continue };
        let Some(end) = module.terminator(body) else { continue };
        for i in 0..module.op(op).operands().len() {
            let (init, result) = (module.op(op).operands()[i], module.op(op).results()[i]);
            let (inside, tested) = (module.block(body).args()[i], module.block(cond).args()[i]);
            if module.op(end).operands().get(i) != Some(&inside) || module.ty(init).as_tensor().is_none() {
                continue;
            }
            module.replace_all_uses(tested, init);
            module.replace_all_uses(result, init);
            module.replace_all_uses(inside, init);
            module.set_operand(end, i, inside);
        }
    }
}

/// Whether nothing depends on carry `i` of the loop `op`.
pub(crate) fn is_idle(module: &Module, op: OpId, i: usize) -> bool {
    let (Some(cond), Some(body)) = (module.body_of(op, 0), module.body_of(op, 1)) else { return false };
    let Some(end) = module.terminator(body) else { return false };
    let (Some(&inside), Some(&tested)) = (module.block(body).args().get(i), module.block(cond).args().get(i)) else {
        return false;
    };
    let only = module.value(inside).uses().iter().all(|u| u.op == end) && module.value(inside).uses().len() == 1;
    let unused = |v| module.value(v).uses().is_empty();
    only && module.op(end).operands().get(i) == Some(&inside) && unused(tested) && unused(module.op(op).results()[i])
}

#[cfg(test)]
mod tests {
    use crate::compile::testing::check;

    #[test]
    fn what_never_changes_is_not_carried() {
        let text = check(
            "func.func @main(%x: tensor<8xf32>, %w: tensor<8x8xf32>) -> (tensor<8xf32>, tensor<8x8xf32>) {
            %zero = stablehlo.constant dense<0> : tensor<i32>
            %0:3 = stablehlo.while(%i = %zero, %y = %x, %k = %w) : tensor<i32>, tensor<8xf32>, tensor<8x8xf32>
            cond {
                %n = stablehlo.constant dense<3> : tensor<i32>
                %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
                stablehlo.return %c : tensor<i1>
            } do {
                %one = stablehlo.constant dense<1> : tensor<i32>
                %next = stablehlo.add %i, %one : tensor<i32>
                %d = stablehlo.dot_general %k, %y, contracting_dims = [1] x [0]
                    : (tensor<8x8xf32>, tensor<8xf32>) -> tensor<8xf32>
                %t = stablehlo.tanh %d : tensor<8xf32>
                stablehlo.return %next, %t, %k : tensor<i32>, tensor<8xf32>, tensor<8x8xf32>
            }
            return %0#1, %0#2 : tensor<8xf32>, tensor<8x8xf32> }",
            1e-5,
        );
        assert!(!text.contains("256 bytes"), "{text}");
    }

    /// A row is read where it is, though the array is overwritten in the same turn.
    #[test]
    fn rows_of_an_array_that_changes() {
        check(
            "func.func @main(%x: tensor<6x40xf32>) -> tensor<6x40xf32> {
            %zero = stablehlo.constant dense<0> : tensor<i32>
            %0:2 = stablehlo.while(%i = %zero, %y = %x) : tensor<i32>, tensor<6x40xf32>
            cond {
                %n = stablehlo.constant dense<5> : tensor<i32>
                %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
                stablehlo.return %c : tensor<i1>
            } do {
                %one = stablehlo.constant dense<1> : tensor<i32>
                %o = stablehlo.constant dense<0> : tensor<i32>
                %next = stablehlo.add %i, %one : tensor<i32>
                %a = stablehlo.dynamic_slice %y, %i, %o, sizes = [1, 40] : (tensor<6x40xf32>, tensor<i32>, tensor<i32>) -> tensor<1x40xf32>
                %b = stablehlo.dynamic_slice %y, %next, %o, sizes = [1, 40] : (tensor<6x40xf32>, tensor<i32>, tensor<i32>) -> tensor<1x40xf32>
                %s = stablehlo.add %a, %b : tensor<1x40xf32>
                %p = stablehlo.dynamic_update_slice %y, %s, %i, %o : (tensor<6x40xf32>, tensor<1x40xf32>, tensor<i32>, tensor<i32>) -> tensor<6x40xf32>
                %t = stablehlo.tanh %a : tensor<1x40xf32>
                %q = stablehlo.dynamic_update_slice %p, %t, %next, %o : (tensor<6x40xf32>, tensor<1x40xf32>, tensor<i32>, tensor<i32>) -> tensor<6x40xf32>
                stablehlo.return %next, %q : tensor<i32>, tensor<6x40xf32>
            }
            return %0#1 : tensor<6x40xf32> }",
            1e-5,
        );
    }
}
