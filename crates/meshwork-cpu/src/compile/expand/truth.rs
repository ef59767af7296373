//! Comparisons of truth values, as logic: fused loops have that, and no order of truth values.

use meshwork_ir::{ElementType, Module, OpId};

use super::replace;

/// Whether the operands are arrays of truth values. Scalars stay as they are: they stand in bodies, which are recognised by
/// what they are written as.
fn is_truth(module: &Module, op: OpId) -> bool {
    let ty = module.op(op).operands().first().map(|&x| module.ty(x));
    ty.is_some_and(|ty| ty.elem() == Some(ElementType::I1) && !ty.dims().is_empty())
}

pub(super) fn compare(module: &mut Module, op: OpId) -> bool {
    let data = module.op(op);
    let (&[x, y], Some(direction)) = (data.operands(), data.enum_value("comparison_direction")) else { return false };
    if !is_truth(module, op) {
        return false;
    }
    let direction = direction.to_string();
    replace(module, op, |b| {
        Ok(Some(vec![match direction.as_str() {
            "NE" => b.xor(x, y)?,
            "EQ" => {
                let differ = b.xor(x, y)?;
                b.not(differ)?
            }
            "LT" => {
                let no = b.not(x)?;
                b.and(no, y)?
            }
            "LE" => {
                let no = b.not(x)?;
                b.or(no, y)?
            }
            "GT" => {
                let no = b.not(y)?;
                b.and(x, no)?
            }
            "GE" => {
                let no = b.not(y)?;
                b.or(x, no)?
            }
            _ => return Ok(None),
        }]))
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
