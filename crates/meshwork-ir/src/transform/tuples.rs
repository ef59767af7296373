//! Tuples that are made and taken apart in the same body.

use crate::op::TokenOp;
use crate::{Module, OpId, OpKind, ValueId, Walk};

/// What `op` takes from a tuple, if it does, and an operation makes that tuple.
pub fn element(module: &Module, op: OpId) -> Option<ValueId> {
    let data = module.op(op);
    if data.kind() != OpKind::Token(TokenOp::GetTupleElement) {
        return None;
    }
    let made = module.op(module.def_op(*data.operands().first()?)?);
    let index = usize::try_from(data.int("index")?).ok()?;
    let element = *made.operands().get(index)?;
    (made.kind() == OpKind::Token(TokenOp::Tuple)).then_some(element)
}

/// Takes elements from where the tuples were made of them, and removes tuples that nothing uses then.
pub fn forward(module: &mut Module) {
    let ops = module.all_ops(Walk::PreOrder);
    for &op in &ops {
        if let Some(element) = element(module, op) {
            module.replace_all_uses(module.result(op), element);
            module.erase(op);
        }
    }
    // Last first: a tuple may be an element of a later one.
    for &op in ops.iter().rev().filter(|&&op| !module.is_erased(op)).collect::<Vec<_>>() {
        let data = module.op(op);
        if data.kind() == OpKind::Token(TokenOp::Tuple)
            && data.results().iter().all(|&r| module.value(r).uses().is_empty())
        {
            module.erase(op);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text;

    #[test]
    fn tuples_in_tuples_go_and_those_of_others_stay() {
        let source = "func.func @main(%a: tensor<f32>, %b: tensor<2xf32>, %t: tuple<tensor<f32>>) -> (tensor<2xf32>, tensor<f32>) {
            %0 = stablehlo.tuple %a, %b : tuple<tensor<f32>, tensor<2xf32>>
            %1 = stablehlo.tuple %0, %a : tuple<tuple<tensor<f32>, tensor<2xf32>>, tensor<f32>>
            %2 = stablehlo.get_tuple_element %1[0] : (tuple<tuple<tensor<f32>, tensor<2xf32>>, tensor<f32>>) -> tuple<tensor<f32>, tensor<2xf32>>
            %3 = stablehlo.get_tuple_element %2[1] : (tuple<tensor<f32>, tensor<2xf32>>) -> tensor<2xf32>
            %4 = stablehlo.get_tuple_element %t[0] : (tuple<tensor<f32>>) -> tensor<f32>
            return %3, %4 : tensor<2xf32>, tensor<f32>\n}";
        let mut module = text::parse(source).unwrap();
        forward(&mut module);
        let printed = text::print(&module);
        assert!(!printed.contains("stablehlo.tuple") && printed.matches("get_tuple_element").count() == 1, "{printed}");
        assert!(printed.contains("return %arg1, %0"), "{printed}");
    }
}
