//! Arithmetic on 64-bit integers of which only the low half counts, in 32 bits.
//!
//! A generator of random bits counts elements in 64 bits and takes the two halves apart. A fused loop that holds 64-bit
//! values has half as many lanes for everything else, so the low half is computed by itself, and the high half is zero where the
//! numbers are known to be small:
//!
//! ```text
//! n = 16 * iota + iota : ui64        lo = 16 * iota + iota : ui32
//! lo = convert n                ──►
//! hi = convert (n >> 32)             hi = 0
//! ```

use meshwork_ir::hash::HashMap;
use meshwork_ir::op::{BinaryOp, MixedOp, MovementOp, SourceOp};
use meshwork_ir::{Attr, Dense, ElementType, Module, OpId, OpKind, OpSpec, TensorType, Type, ValueId, Walk};

use super::trips::constant;
use crate::fuse::{Devices, range};

/// Operations between a conversion and what it is computed from.
const MAX_DEPTH: usize = 12;

/// Rewrites conversions of 64-bit integers to 32 bits below `func`.
pub(crate) fn low_halves(module: &mut Module, func: OpId, devices: Devices) {
    let mut halves = HashMap::default();
    for op in module.ops_below(func, Walk::PreOrder) {
        let data = module.op(op);
        if data.kind() != OpKind::Mixed(MixedOp::Convert) {
            continue;
        }
        let (operand, result) = (data.operands()[0], data.results()[0]);
        let (Some(from), Some(to)) = (module.ty(operand).elem(), module.ty(result).elem()) else { continue };
        let is_array = module.ty(result).dims().iter().product::<i64>() > 1;
        let is_narrow = matches!(to, ElementType::I32 | ElementType::UI32);
        if !is_array || !is_narrow || !is_long(from) || !has_low_half(module, operand, devices, 0) {
            continue;
        }
        let low = low_half(module, operand, to, &mut halves);
        module.replace_op(op, &[low]);
    }
}

fn is_long(elem: ElementType) -> bool {
    matches!(elem, ElementType::I64 | ElementType::UI64)
}

/// Whether the elements of `value` are from 0 to below 2^32.
fn is_short(module: &Module, value: ValueId, devices: Devices) -> bool {
    range(module, value, devices).is_some_and(|(low, high)| low >= 0 && high <= i64::from(u32::MAX))
}

/// Whether the low half of `value`, a 64-bit integer, can be computed in 32 bits.
fn has_low_half(module: &Module, value: ValueId, devices: Devices, depth: usize) -> bool {
    let Some(op) = module.def_op(value).filter(|_| depth < MAX_DEPTH) else { return false };
    let data = module.op(op);
    let operand = |i: usize| has_low_half(module, data.operands()[i], devices, depth + 1);
    match data.kind() {
        OpKind::Source(SourceOp::Constant) => constant(module, value).is_some(),
        OpKind::Source(SourceOp::Iota) => true,
        OpKind::Movement(MovementOp::BroadcastInDim | MovementOp::Reshape) => operand(0),
        OpKind::Binary(
            BinaryOp::Add | BinaryOp::Subtract | BinaryOp::Multiply | BinaryOp::And | BinaryOp::Or | BinaryOp::Xor,
        ) => operand(0) && operand(1),
        OpKind::Binary(BinaryOp::ShiftRightLogical) => match constant(module, data.operands()[1]) {
            Some(by) if is_short(module, data.operands()[0], devices) => by >= 32 || (by >= 0 && operand(0)),
            _ => false,
        },
        // Of numbers that are not negative, which keep their bits, and of what is narrowed once more.
        OpKind::Mixed(MixedOp::Convert) => match module.ty(data.operands()[0]).elem() {
            Some(ElementType::UI8 | ElementType::UI16 | ElementType::UI32) => true,
            Some(ElementType::I32) => is_short(module, data.operands()[0], devices),
            Some(elem) => is_long(elem) && operand(0),
            None => false,
        },
        _ => false,
    }
}

/// The low half of `value`, which has one, as integers of type `to`.
fn low_half(
    module: &mut Module,
    value: ValueId,
    to: ElementType,
    halves: &mut HashMap<(ValueId, ElementType), ValueId>,
) -> ValueId {
    if let Some(&half) = halves.get(&(value, to)) {
        return half;
    }
    let Some(op) = module.def_op(value) else { return value };
    let (kind, operands) = (module.op(op).kind(), module.op(op).operands().to_vec());
    let dims = module.ty(value).dims().to_vec();
    let mut spec = OpSpec::new(kind).results([Type::tensor(dims.clone(), to)]).loc(module.op(op).loc.clone());
    let word = |x: i64| Dense::splat(TensorType::new(dims.clone(), to).into(), &x.to_le_bytes()[..4]);
    let is_gone =
        kind == OpKind::Binary(BinaryOp::ShiftRightLogical) && constant(module, operands[1]).is_some_and(|by| by >= 32);
    let known = if is_gone { Some(0) } else { constant(module, value) };
    if let Some(known) = known {
        spec.kind = OpKind::Source(SourceOp::Constant);
        spec = spec.attr("value", Attr::Dense(word(known).into()));
    } else if kind == OpKind::Mixed(MixedOp::Convert) && !module.ty(operands[0]).elem().is_some_and(is_long) {
        spec = spec.operands(operands);
    } else if kind == OpKind::Mixed(MixedOp::Convert) {
        let half = low_half(module, operands[0], to, halves);
        halves.insert((value, to), half);
        return half;
    } else {
        let halved: Vec<ValueId> = operands.iter().map(|&v| low_half(module, v, to, halves)).collect();
        spec = spec.operands(halved);
        spec.attrs = module.op(op).attrs.clone();
    }
    let half = module.push_before(op, spec);
    let half = module.result(half);
    halves.insert((value, to), half);
    half
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compile::testing::{ONE, check, check_on, parse};
    use meshwork_ir::Literal;
    use meshwork_ir::transform::dead::remove_dead;

    #[test]
    fn counters_in_halves() {
        for to in ["ui32", "i32"] {
            for from in ["ui64", "i64"] {
                for (dims, factor) in [("7x5", 5), ("64x3", 3), ("1x9", 9), ("3x1", 4_000_000_000u64)] {
                    let ty = format!("tensor<{dims}x{from}>");
                    let source = format!(
                        "func.func @main() -> (tensor<{dims}x{to}>, tensor<{dims}x{to}>, tensor<{dims}x{to}>) {{
                            %0 = stablehlo.iota dim = 0 : {ty}
                            %1 = stablehlo.iota dim = 1 : {ty}
                            %c = stablehlo.constant dense<{factor}> : tensor<{from}>
                            %2 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<{from}>) -> {ty}
                            %3 = stablehlo.multiply %2, %0 : {ty}
                            %4 = stablehlo.add %3, %1 : {ty}
                            %d = stablehlo.constant dense<32> : {ty}
                            %e = stablehlo.constant dense<3> : {ty}
                            %5 = stablehlo.shift_right_logical %4, %d : {ty}
                            %6 = stablehlo.convert %4 : ({ty}) -> tensor<{dims}x{to}>
                            %7 = stablehlo.convert %5 : ({ty}) -> tensor<{dims}x{to}>
                            %8 = stablehlo.shift_right_logical %4, %e : {ty}
                            %9 = stablehlo.convert %8 : ({ty}) -> tensor<{dims}x{to}>
                            return %6, %7, %9 : tensor<{dims}x{to}>, tensor<{dims}x{to}>, tensor<{dims}x{to}> }}"
                    );
                    check(&source, 0.0);
                    let mut module = parse(&source);
                    let func = module.entry().unwrap();
                    low_halves(&mut module, func, Devices::all(ONE));
                    remove_dead(&mut module);
                    let text = meshwork_ir::text::print(&module);
                    assert_eq!(text.contains("i64>"), factor > 1_000_000, "{text}");
                }
            }
        }
    }

    /// What is not known to be small keeps its high half.
    #[test]
    fn numbers_from_outside() {
        let x = Literal::from_i64s([3], ElementType::UI64, &[5, -1, 1 << 40]).unwrap();
        let y = Literal::from_i64s([], ElementType::UI32, &[0xFFFF_FFFFu32.into()]).unwrap();
        check_on(
            "func.func @main(%x: tensor<3xui64>, %y: tensor<ui32>) -> (tensor<3xui32>, tensor<3xui32>, tensor<3xui32>) {
            %i = stablehlo.iota dim = 0 : tensor<3xui64>
            %w = stablehlo.convert %y : (tensor<ui32>) -> tensor<ui64>
            %b = stablehlo.broadcast_in_dim %w, dims = [] : (tensor<ui64>) -> tensor<3xui64>
            %s = stablehlo.add %b, %i : tensor<3xui64>
            %d = stablehlo.constant dense<32> : tensor<3xui64>
            %h = stablehlo.shift_right_logical %s, %d : tensor<3xui64>
            %t = stablehlo.add %x, %i : tensor<3xui64>
            %0 = stablehlo.convert %s : (tensor<3xui64>) -> tensor<3xui32>
            %1 = stablehlo.convert %h : (tensor<3xui64>) -> tensor<3xui32>
            %2 = stablehlo.convert %t : (tensor<3xui64>) -> tensor<3xui32>
            return %0, %1, %2 : tensor<3xui32>, tensor<3xui32>, tensor<3xui32> }",
            &[x, y],
            0.0,
        );
    }
}
