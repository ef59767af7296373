//! Comparisons of truth values, as logic: fused loops have that, and no order of truth values.

use meshwork_ir::build::{Builder, Direction};
use meshwork_ir::op::ControlOp;
use meshwork_ir::{ElementType, Module, OpId, OpKind};

use super::replace;

/// Whether the operands are truth values. Those of bodies stay as they are, since bodies are recognised by what they are written as.
fn is_truth(module: &Module, op: OpId) -> bool {
    let ty = module.op(op).operands().first().map(|&x| module.ty(x));
    let in_body = module.parent_op(op).is_some_and(|parent| {
        let kind = module.op(parent).kind();
        !matches!(kind, OpKind::Control(ControlOp::Func | ControlOp::While | ControlOp::Case | ControlOp::If))
    });
    ty.is_some_and(|ty| ty.elem() == Some(ElementType::I1) && !(in_body && ty.dims().is_empty()))
}

pub(super) fn compare(module: &mut Module, op: OpId) -> bool {
    let data = module.op(op);
    let direction = data.enum_value("comparison_direction").and_then(Direction::from_text);
    let (&[x, y], Some(direction)) = (data.operands(), direction) else { return false };
    if !is_truth(module, op) {
        return false;
    }
    let known = |v| crate::compile::constants::truth(module, v);
    if let (Direction::Ne | Direction::Eq, Some((v, constant))) =
        (direction, known(y).map(|k| (x, k)).or_else(|| known(x).map(|k| (y, k))))
    {
        // Compared with a constant, it is itself or its opposite.
        return match constant == (direction == Direction::Eq) {
            true => replace(module, op, |_| Ok(Some(vec![v]))),
            false => replace(module, op, |b| Ok(Some(vec![b.not(v)?]))),
        };
    }
    let less = |b: &mut Builder<'_>, x, y| {
        let no = b.not(x)?;
        b.and(no, y)
    };
    replace(module, op, |b| {
        let (value, is_opposite) = match direction {
            Direction::Ne => (b.xor(x, y)?, false),
            Direction::Eq => (b.xor(x, y)?, true),
            Direction::Lt => (less(b, x, y)?, false),
            Direction::Ge => (less(b, x, y)?, true),
            Direction::Gt => (less(b, y, x)?, false),
            Direction::Le => (less(b, y, x)?, true),
        };
        Ok(Some(vec![if is_opposite { b.not(value)? } else { value }]))
    })
}

#[cfg(test)]
mod tests {
    use crate::compile::testing::check;

    #[test]
    fn truth_values_are_fused() {
        let source = |op: &str| {
            format!(
                "func.func @main(%x: tensor<300xi1>, %y: tensor<300xi1>) -> tensor<300xi1> {{
                   %0 = {op} : (tensor<300xi1>, tensor<300xi1>) -> tensor<300xi1>
                   return %0 : tensor<300xi1> }}"
            )
        };
        let compare = |d| {
            format!("\"stablehlo.compare\"(%x, %y) {{comparison_direction = #stablehlo<comparison_direction {d}>}}")
        };
        for op in ["EQ", "NE", "LT", "LE", "GT", "GE"].map(compare) {
            let text = check(&source(&op), 0.0);
            assert!(text.contains("fused") && !text.contains("scalar"), "{op}: {text}");
        }
    }
}
