//! Total orders of floats, as orders of integers.

use meshwork_ir::build::Direction;
use meshwork_ir::{ElementType, Module, OpId, Type};

use super::replace;

/// Compares arrays of floats by integers that are in the same order: the bits, with those of negative numbers but the sign
/// turned around. Scalars stay as they are: comparators are recognised by what they are written as.
pub(super) fn compare(module: &mut Module, op: OpId) -> bool {
    let data = module.op(op);
    let (&[x, y], Some("TOTALORDER")) = (data.operands(), data.enum_value("compare_type")) else { return false };
    let Some(direction) = data.enum_value("comparison_direction").and_then(Direction::from_text) else { return false };
    let ty = module.ty(x);
    let dims = ty.dims().to_vec();
    let (wide, bits) = match ty.elem() {
        Some(ElementType::F64) => (ElementType::F64, ElementType::I64),
        Some(ElementType::F32 | ElementType::BF16 | ElementType::F16) => (ElementType::F32, ElementType::I32),
        _ => return false,
    };
    if dims.is_empty() {
        return false;
    }
    replace(module, op, |b| {
        let mut keys = vec![];
        for v in [x, y] {
            let v = if b.ty(v).elem() == Some(wide) { v } else { b.convert(v, wide)? };
            let v = b.bitcast_convert(v, Type::tensor(dims.iter().copied(), bits))?;
            let shift = b.splat(dims.iter().copied(), bits, bits.bits() as f64 - 1.0)?;
            let one = b.splat(dims.iter().copied(), bits, 1.0)?;
            let negative = b.shift_right_arithmetic(v, shift)?;
            let turned = b.shift_right_logical(negative, one)?;
            keys.push(b.xor(v, turned)?);
        }
        Ok(Some(vec![b.compare(direction, keys[0], keys[1])?]))
    })
}

#[cfg(test)]
mod tests {
    use meshwork_ir::{ElementType, Literal};

    use crate::compile::testing::check_on;

    #[test]
    fn total_orders_are_fused() {
        let numbers = [f64::NAN, f64::NEG_INFINITY, -2.5, -1e-42, -0.0, 0.0, 1e-42, 2.5, f64::INFINITY, -f64::NAN];
        let pairs: Vec<(f64, f64)> = numbers.iter().flat_map(|&a| numbers.map(|b| (a, b))).collect();
        let n = pairs.len() as i64;
        for (elem, name) in [
            (ElementType::F32, "f32"),
            (ElementType::F64, "f64"),
            (ElementType::BF16, "bf16"),
            (ElementType::F16, "f16"),
        ] {
            for direction in ["EQ", "NE", "LT", "LE", "GT", "GE"] {
                let source = format!(
                    "func.func @main(%x: tensor<{n}x{name}>, %y: tensor<{n}x{name}>) -> tensor<{n}xi1> {{
                       %0 = stablehlo.compare {direction}, %x, %y, TOTALORDER : (tensor<{n}x{name}>, tensor<{n}x{name}>) -> tensor<{n}xi1>
                       return %0 : tensor<{n}xi1> }}"
                );
                let side = |f: fn(&(f64, f64)) -> f64| {
                    Literal::from_f64s([n], elem, &pairs.iter().map(f).collect::<Vec<_>>()).unwrap()
                };
                let text = check_on(&source, &[side(|p| p.0), side(|p| p.1)], 0.0);
                assert!(text.contains("fused") && !text.contains("scalar"), "{text}");
            }
        }
    }
}
