//! Arithmetic whose result is repeated along short inner dimensions, and around others, is done for whole rows of it.
//!
//! The means of a group norm are one number for eight neighbors. A loop over an array that reads them so has rows of eight
//! elements. With each of them eight times in memory, rows go on over the groups.

use meshwork_ir::op::MovementOp;
use meshwork_ir::{Attr, Module, OpId, OpKind, OpSpec, Type, ValueId, Walk};

use super::stencil::Emitter;
use crate::fuse::numbers;

/// Elements of the inner dimensions: more are a row.
const MOST_INNER: i64 = 31;
/// Elements of the array, and how many times more they are than those of the rows.
const LEAST_SIZE: i64 = 1 << 16;
const LEAST_TIMES: i64 = 64;

/// Lays out rows of what is repeated in `func`.
pub(crate) fn lay_out(module: &mut Module, func: OpId) {
    for op in module.ops_below(func, Walk::PreOrder) {
        if module.op(op).kind() == OpKind::Movement(MovementOp::BroadcastInDim) {
            broadcast(module, op);
        }
    }
}

fn broadcast(module: &mut Module, op: OpId) -> Option<()> {
    let data = module.op(op);
    let (from, to) = (data.operands()[0], module.ty(data.results()[0]).dims().to_vec());
    let places = data.i64s("broadcast_dimensions")?.to_vec();
    let row = row_of(module.ty(from).dims(), &places, &to)?;
    let made = module.def_op(from).filter(|&made| numbers::is_arithmetic(module, made))?;
    let (kind, attrs, operands) =
        (module.op(made).kind(), module.op(made).attrs.clone(), module.op(made).operands().to_vec());
    let shape = module.ty(from).dims().to_vec();
    if operands.iter().any(|&v| module.ty(v).dims() != shape) {
        return None;
    }
    let ty = |v: ValueId| Some(Type::tensor(row.clone(), module.ty(v).elem()?));
    let types: Vec<Type> = operands.iter().map(|&v| ty(v)).collect::<Option<_>>()?;
    let (row_ty, all) = (ty(from)?, module.ty(module.op(op).results()[0]).clone());
    let mut e = Emitter { module, op };
    let repeated = |e: &mut Emitter<'_>, v: ValueId, places: &[i64], ty: Type| {
        let spec = OpSpec::new(OpKind::Movement(MovementOp::BroadcastInDim)).operands([v]);
        e.add(spec.attr("broadcast_dimensions", Attr::i64s(places.to_vec())), ty)
    };
    let wide: Vec<ValueId> = operands.into_iter().zip(types).map(|(v, ty)| repeated(&mut e, v, &places, ty)).collect();
    let mut spec = OpSpec::new(kind).operands(wide);
    spec.attrs = attrs;
    let rows = e.add(spec, row_ty);
    let same: Vec<i64> = (0..to.len() as i64).collect();
    let all = repeated(&mut e, rows, &same, all);
    module.replace_op(op, &[all]);
    Some(())
}

/// The dimensions of rows that a broadcast from `from` to `to` repeats: those of `from`, and the short ones after the last of them.
fn row_of(from: &[i64], places: &[i64], to: &[i64]) -> Option<Vec<i64>> {
    let kept = |d: usize| places.iter().zip(from).any(|(&p, &n)| p as usize == d && n > 1);
    let last = (0..to.len()).rev().find(|&d| kept(d))?;
    let inner: i64 = to[last + 1..].iter().product();
    let row: Vec<i64> = (0..to.len()).map(|d| if d > last || kept(d) { to[d] } else { 1 }).collect();
    let [size, rows] = [to, &row].map(|dims| dims.iter().product::<i64>());
    let is_around = to[..last].iter().zip(&row).any(|(t, r)| t > r);
    let is_worth_it = (2..=MOST_INNER).contains(&inner) && size >= LEAST_SIZE && size >= LEAST_TIMES * rows;
    (is_around && is_worth_it).then_some(row)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compile::testing::check;

    #[test]
    fn rows_of_broadcasts() {
        let row = |from: &[i64], places: &[i64], to: &[i64]| row_of(from, places, to);
        assert_eq!(row(&[16, 1, 1, 8, 1], &[0, 1, 2, 3, 4], &[16, 56, 56, 8, 8]), Some(vec![16, 1, 1, 8, 8]));
        assert_eq!(row(&[16, 8], &[0, 2], &[16, 3136, 8, 4, 2]), Some(vec![16, 1, 8, 4, 2]));
        // Nothing inside, long inside, nothing outside, small, one number.
        assert_eq!(row(&[8], &[2], &[16, 56000, 8]), None);
        assert_eq!(row(&[8], &[1], &[5600, 8, 32]), None);
        assert_eq!(row(&[5600, 80], &[0, 1], &[5600, 80, 8]), None);
        assert_eq!(row(&[8], &[1], &[56, 8, 8]), None);
        assert_eq!(row(&[1], &[1], &[56000, 1, 8]), None);
        assert_eq!(row(&[8], &[1], &[0, 8, 8]), None);
    }

    /// A norm of groups of channels: no array but the result is written.
    #[test]
    fn group_norm_reads_the_array_three_times() {
        for (elem, tolerance) in [("f32", 2e-5), ("f64", 1e-10)] {
            let (x, g) = (format!("tensor<3x90x17x4x8x{elem}>"), format!("tensor<3x4x{elem}>"));
            let m = format!("tensor<3x1x1x4x1x{elem}>");
            let text = check(
                &format!(
                    "func.func @main(%x: {x}) -> {x} {{
                    %zero = stablehlo.constant dense<0.0> : tensor<{elem}>
                    %n = stablehlo.constant dense<12240.0> : {m}
                    %e = stablehlo.constant dense<1.0e-3> : {m}
                    %0 = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [1, 2, 4] : ({x}, tensor<{elem}>) -> {g}
                    %1 = stablehlo.broadcast_in_dim %0, dims = [0, 3] : ({g}) -> {m}
                    %2 = stablehlo.divide %1, %n : {m}
                    %3 = stablehlo.broadcast_in_dim %2, dims = [0, 1, 2, 3, 4] : ({m}) -> {x}
                    %4 = stablehlo.subtract %x, %3 : {x}
                    %5 = stablehlo.multiply %4, %4 : {x}
                    %6 = stablehlo.reduce(%5 init: %zero) applies stablehlo.add across dimensions = [1, 2, 4] : ({x}, tensor<{elem}>) -> {g}
                    %7 = stablehlo.broadcast_in_dim %6, dims = [0, 3] : ({g}) -> {m}
                    %8 = stablehlo.divide %7, %n : {m}
                    %9 = stablehlo.add %8, %e : {m}
                    %10 = stablehlo.rsqrt %9 : {m}
                    %11 = stablehlo.broadcast_in_dim %10, dims = [0, 1, 2, 3, 4] : ({m}) -> {x}
                    %12 = stablehlo.multiply %4, %11 : {x}
                    return %12 : {x} }}"
                ),
                tolerance,
            );
            let arrays = text.lines().filter(|l| l.contains("3×90×17×4×8") && l.contains("fused")).count();
            assert_eq!(arrays, 1, "{text}");
        }
    }
}
