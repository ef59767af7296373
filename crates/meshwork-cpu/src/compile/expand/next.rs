//! The next number of 16-bit floats, by their bits: lanes hold such numbers as `f32`, whose next number is another one.

use meshwork_ir::build::Direction;
use meshwork_ir::{ElementType, Module, OpId, Type};

use super::replace;

/// `chlo.next_after` of `f16` or `bf16`.
pub(super) fn half(module: &mut Module, op: OpId) -> bool {
    let &[x, y] = module.op(op).operands() else { return false };
    let (Some(elem), dims) = (module.ty(x).elem(), module.ty(x).dims().to_vec()) else { return false };
    if !matches!(elem, ElementType::BF16 | ElementType::F16) {
        return false;
    }
    let bits = Type::tensor(dims.clone(), ElementType::UI16);
    replace(module, op, |b| {
        let (from, to) = (b.bitcast_convert(x, bits.clone())?, b.bitcast_convert(y, bits)?);
        let number = |b: &mut meshwork_ir::build::Builder<'_>, n: f64| b.splat(dims.clone(), ElementType::UI16, n);
        let (zero, one, sign) = (b.splat(dims.clone(), elem, 0.0)?, number(b, 1.0)?, number(b, f64::from(0x8000))?);
        // Codes of one sign grow with the magnitude.
        let (up, positive) = (b.compare(Direction::Gt, y, x)?, b.compare(Direction::Gt, x, zero)?);
        let away = b.compare(Direction::Eq, up, positive)?;
        let (more, less) = (b.add(from, one)?, b.subtract(from, one)?);
        let next = b.select(away, more, less)?;
        // From zero it is the least number with the other's sign.
        let towards = b.and(to, sign)?;
        let least = b.or(towards, one)?;
        let is_zero = b.compare(Direction::Eq, x, zero)?;
        let next = b.select(is_zero, least, next)?;
        let next = b.bitcast_convert(next, Type::tensor(dims.clone(), elem))?;
        let same = b.compare(Direction::Eq, x, y)?;
        let next = b.select(same, y, next)?;
        // With a number that is none, the sum is none.
        let (first, second) = (b.compare(Direction::Ne, x, x)?, b.compare(Direction::Ne, y, y)?);
        let (none, sum) = (b.or(first, second)?, b.add(x, y)?);
        Ok(Some(vec![b.select(none, sum, next)?]))
    })
}

#[cfg(test)]
mod tests {
    use meshwork_ir::{ElementType, Literal};

    use crate::compile::testing::check_on;

    #[test]
    fn next_halves() {
        let numbers =
            [0.0, -0.0, 1.0, -1.0, 6e-8, -6e-8, 1.5, 65504.0, -3.25, f64::INFINITY, f64::NEG_INFINITY, f64::NAN];
        let n = numbers.len();
        let (x, y): (Vec<f64>, Vec<f64>) = (0..n * n).map(|i| (numbers[i / n], numbers[i % n])).unzip();
        for elem in [ElementType::BF16, ElementType::F16, ElementType::F32] {
            let ty = format!("tensor<{}x{elem}>", n * n);
            let source = format!(
                "func.func @main(%x: {ty}, %y: {ty}) -> {ty} {{
                %0 = chlo.next_after %x, %y : {ty}, {ty} -> {ty}
                return %0 : {ty} }}"
            );
            let args = [&x, &y].map(|v| Literal::from_f64s([(n * n) as i64], elem, v).unwrap());
            check_on(&source, &args, 0.0);
        }
    }
}
