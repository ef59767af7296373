//! Products that a loop forms with one row of an array after the other leave the loop: all rows at once are a larger product.
//!
//! ```text
//! while i < n:  y = x[i] · w; …      z = x · w;  while i < n:  y = z[i]; …
//! ```

use meshwork_ir::attr::DotDims;
use meshwork_ir::op::{ContractOp, ControlOp, MovementOp, SourceOp};
use meshwork_ir::{Attr, Def, Dense, Module, OpId, OpKind, OpSpec, TensorType, Type, ValueId, Walk};

use super::trip_count;
use crate::turns::Turns;

/// Bytes of a product of all rows.
const MOST_BYTES: i64 = 64 << 20;

/// Moves such products of `func` out of their loops, innermost loops first.
pub(crate) fn hoist_products(module: &mut Module, func: OpId) {
    for op in module.ops_below(func, Walk::PostOrder) {
        if module.op(op).kind() != OpKind::Control(ControlOp::While) {
            continue;
        }
        let (Some(trips), Some(body)) = (trip_count(module, op), module.body_of(op, 1)) else { continue };
        for dot in module.op_list(body) {
            if module.op(dot).kind() != OpKind::Contract(ContractOp::DotGeneral) {
                continue;
            }
            let found = {
                let turns = Turns::new(module, op, body, trips);
                find(module, &turns, dot)
            };
            if let Some(found) = found {
                apply(module, op, dot, &found);
            }
        }
    }
}

/// A product of a row with something that does not change.
struct Scanned {
    rows: ValueId,
    other: ValueId,
    /// Where the row starts.
    start: ValueId,
    dims: DotDims,
    /// The type of the product of all rows.
    ty: Type,
    /// Whether the row is the left operand.
    left: bool,
}

fn find(module: &Module, turns: &Turns<'_>, dot: OpId) -> Option<Scanned> {
    let data = module.op(dot);
    let (&[lhs, rhs], Some(Attr::Dot(dims))) = (data.operands(), data.attr("dot_dimension_numbers")) else {
        return None;
    };
    if !dims.lhs_batch.is_empty() || !dims.rhs_batch.is_empty() || data.attr("algorithm").is_some() {
        return None;
    }
    let outside = |v: ValueId| match module.value(v).def() {
        Def::Result(op, _) => !module.is_inside(op, turns.op),
        Def::Arg(block, _) => {
            module.block_parent_op(block).is_none_or(|owner| owner != turns.op && !module.is_inside(owner, turns.op))
        }
    };
    let result = module.ty(data.results()[0]).as_tensor()?;
    for (row, other, left) in [(lhs, rhs, true), (rhs, lhs, false)] {
        let Some((slice, dropped)) = slice_of(module, row).filter(|_| outside(other)) else { continue };
        let (&rows, starts) = module.op(slice).operands().split_first()?;
        let (all, sizes) = (module.ty(rows).dims(), module.ty(module.op(slice).results()[0]).dims());
        if !outside(rows) || sizes.first() != Some(&1) || sizes[1..] != all[1..] {
            continue;
        }
        let line = turns.line(starts[0]).filter(|l| l.step != 0)?;
        let inside = |at: Option<i64>| at.is_some_and(|at| (0..all[0]).contains(&at));
        let most = 2i64.checked_mul(i64::try_from(turns.trips).ok()?)?;
        if !inside(Some(line.base)) || !inside(line.at(turns.trips.checked_sub(1)?)) || all[0] > most {
            continue;
        }
        let (own, others) =
            if left { (&dims.lhs_contract, &dims.rhs_contract) } else { (&dims.rhs_contract, &dims.lhs_contract) };
        let own: Vec<i64> = own.iter().map(|&d| d + i64::from(dropped)).collect();
        if own.contains(&0) {
            continue;
        }
        let free = |v: ValueId, contracted: &[i64]| -> Vec<i64> {
            let dims = module.ty(v).dims();
            (0..dims.len()).filter(|&d| !contracted.contains(&(d as i64))).map(|d| dims[d]).collect()
        };
        let (own_free, other_free) = (free(rows, &own), free(other, others));
        // With the row on the right, its own dimensions would come first.
        if !left && own_free.len() > 1 && !other_free.is_empty() {
            continue;
        }
        let shape = [own_free, other_free].concat();
        let bytes = shape.iter().product::<i64>().checked_mul(result.elem.storage_bytes() as i64)?;
        if bytes > MOST_BYTES {
            continue;
        }
        let ty = Type::tensor(shape, result.elem);
        let dims = DotDims { lhs_contract: own, rhs_contract: others.clone(), ..DotDims::default() };
        return Some(Scanned { rows, other, start: starts[0], dims, ty, left });
    }
    None
}

/// The slice that `value` is, and whether its first dimension, of one element, was dropped.
fn slice_of(module: &Module, value: ValueId) -> Option<(OpId, bool)> {
    let op = module.def_op(value)?;
    let data = module.op(op);
    match data.kind() {
        OpKind::Movement(MovementOp::DynamicSlice) => Some((op, false)),
        OpKind::Movement(MovementOp::Reshape) => {
            let from = *data.operands().first()?;
            let slice = module.def_op(from)?;
            let is_slice = module.op(slice).kind() == OpKind::Movement(MovementOp::DynamicSlice);
            let dropped = module.ty(from).dims().split_first() == Some((&1, module.ty(value).dims()));
            (is_slice && dropped).then_some((slice, true))
        }
        _ => None,
    }
}

/// Writes the product `dot` of the loop `op` as a slice of the product of all rows.
fn apply(module: &mut Module, op: OpId, dot: OpId, found: &Scanned) {
    let data = module.op(dot);
    let (result, loc) = (module.ty(data.results()[0]).clone(), data.loc.clone());
    let mut spec = OpSpec::new(OpKind::Contract(ContractOp::DotGeneral))
        .operands([found.rows, found.other])
        .results([found.ty.clone()])
        .attr("dot_dimension_numbers", Attr::Dot(found.dims.clone().into()))
        .loc(loc.clone());
    if let Some(precision) = data.attr("precision_config").and_then(Attr::as_array) {
        let list: Vec<Attr> = precision.to_vec();
        let list = if found.left { list } else { list.into_iter().rev().collect() };
        spec = spec.attr("precision_config", Attr::Array(list.into()));
    }
    let whole = module.push_before(op, spec);
    let shape = found.ty.dims().to_vec();
    let Some(index) = module.ty(found.start).elem() else { return };
    let zero = Dense::splat(TensorType::new([], index).into(), &vec![0; index.storage_bytes()]);
    let spec = OpSpec::new(OpKind::Source(SourceOp::Constant)).results([Type::tensor([], index)]);
    let zero = module.push_before(dot, spec.attr("value", Attr::Dense(zero.into())));
    let mut sizes = shape.clone();
    sizes[0] = 1;
    let starts = std::iter::once(found.start).chain(std::iter::repeat_n(module.result(zero), shape.len() - 1));
    let elem = found.ty.elem().unwrap_or(meshwork_ir::ElementType::F32);
    let spec = OpSpec::new(OpKind::Movement(MovementOp::DynamicSlice))
        .operands(std::iter::once(module.result(whole)).chain(starts))
        .results([Type::tensor(sizes.clone(), elem)])
        .attr("slice_sizes", Attr::i64s(sizes))
        .loc(loc.clone());
    let slice = module.push_before(dot, spec);
    let spec = OpSpec::new(OpKind::Movement(MovementOp::Reshape)).operands([module.result(slice)]).results([result]);
    let reshaped = module.push_before(dot, spec.loc(loc));
    module.replace_op(dot, &[module.result(reshaped)]);
}

#[cfg(test)]
mod tests {
    use crate::compile::testing::check;

    fn program(row: &str, weights: &str, product: &str, dot: &str, start: &str) -> String {
        format!(
            "func.func @main(%x: tensor<6x{row}>, %w: tensor<{weights}>, %h: tensor<{product}>) -> (tensor<{product}>, tensor<6x{product}>) {{
            %zero = stablehlo.constant dense<0> : tensor<i32>
            %f = stablehlo.constant dense<0.0> : tensor<6x{product}>
            %0:3 = stablehlo.while(%i = %zero, %y = %h, %log = %f) : tensor<i32>, tensor<{product}>, tensor<6x{product}>
            cond {{
                %n = stablehlo.constant dense<6> : tensor<i32>
                %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
                stablehlo.return %c : tensor<i1>
            }} do {{
                %one = stablehlo.constant dense<1> : tensor<i32>
                %five = stablehlo.constant dense<5> : tensor<i32>
                %next = stablehlo.add %i, %one : tensor<i32>
                {start}
                {dot}
                %s = stablehlo.add %d, %y : tensor<{product}>
                %t = stablehlo.tanh %s : tensor<{product}>
                %r = stablehlo.reshape %t : (tensor<{product}>) -> tensor<1x{product}>
                LOG
                stablehlo.return %next, %t, %u : tensor<i32>, tensor<{product}>, tensor<6x{product}>
            }}
            return %0#1, %0#2 : tensor<{product}>, tensor<6x{product}> }}"
        )
    }

    #[test]
    fn products_of_rows_leave_the_loop() {
        let forwards = "%at = stablehlo.add %i, %zero : tensor<i32>";
        let backwards = "%at = stablehlo.subtract %five, %i : tensor<i32>";
        for start in [forwards, backwards] {
            let dot = "%a = stablehlo.dynamic_slice %x, %at, %zero, sizes = [1, 40] : (tensor<6x40xf32>, tensor<i32>, tensor<i32>) -> tensor<1x40xf32>
                %b = stablehlo.reshape %a : (tensor<1x40xf32>) -> tensor<40xf32>
                %d = stablehlo.dot_general %b, %w, contracting_dims = [0] x [0] : (tensor<40xf32>, tensor<40x24xf32>) -> tensor<24xf32>";
            let log = "%u = stablehlo.dynamic_update_slice %log, %r, %i, %zero : (tensor<6x24xf32>, tensor<1x24xf32>, tensor<i32>, tensor<i32>) -> tensor<6x24xf32>";
            let text = check(&program("40xf32", "40x24xf32", "24xf32", dot, start).replace("LOG", log), 1e-4);
            assert!(text.contains("6×24×40"), "{text}");
            // The matrix on the left.
            let dot = "%a = stablehlo.dynamic_slice %x, %at, %zero, sizes = [1, 40] : (tensor<6x40xf32>, tensor<i32>, tensor<i32>) -> tensor<1x40xf32>
                %b = stablehlo.reshape %a : (tensor<1x40xf32>) -> tensor<40xf32>
                %d = stablehlo.dot_general %w, %b, contracting_dims = [1] x [0] : (tensor<24x40xf32>, tensor<40xf32>) -> tensor<24xf32>";
            let text = check(&program("40xf32", "24x40xf32", "24xf32", dot, start).replace("LOG", log), 1e-4);
            assert!(text.contains("6×24×40"), "{text}");
        }
    }

    #[test]
    fn rows_of_a_batch() {
        let dot = "%a = stablehlo.dynamic_slice %x, %i, %zero, %zero, sizes = [1, 5, 40] : (tensor<6x5x40xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x5x40xf32>
                %b = stablehlo.reshape %a : (tensor<1x5x40xf32>) -> tensor<5x40xf32>
                %d = stablehlo.dot_general %b, %w, contracting_dims = [1] x [0] : (tensor<5x40xf32>, tensor<40x24xf32>) -> tensor<5x24xf32>";
        let log = "%u = stablehlo.dynamic_update_slice %log, %r, %i, %zero, %zero : (tensor<6x5x24xf32>, tensor<1x5x24xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<6x5x24xf32>";
        let text = check(&program("5x40xf32", "40x24xf32", "5x24xf32", dot, "").replace("LOG", log), 1e-4);
        assert!(text.contains("30×24×40"), "{text}");
    }
}
