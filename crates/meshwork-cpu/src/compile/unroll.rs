//! Short loops that do the same to every element of large arrays, written out: all turns are then one fused loop, whose values
//! stay in registers. The rounds of a generator of random bits are such a loop.

use meshwork_ir::op::{ControlOp, MovementOp, SourceOp};
use meshwork_ir::{Module, OpId, OpKind, ValueMap, Walk};

use super::trips::trip_count;

/// More turns stay a loop.
const MOST_TURNS: u64 = 8;
/// Operations of all turns together.
const MOST_OPS: usize = 400;
/// Smaller arrays are left to `turns`.
const LEAST_ELEMENTS: i64 = 64;

/// Writes out the loops below `func` for which that pays.
pub(crate) fn write_out(module: &mut Module, func: OpId) {
    // Those inside others first.
    for op in module.ops_below(func, Walk::PostOrder) {
        if let Some(turns) = turns_to_write(module, op) {
            write(module, op, turns);
        }
    }
}

/// How many turns the loop `op` has, if it is to be written out.
fn turns_to_write(module: &Module, op: OpId) -> Option<u64> {
    if module.op(op).kind() != OpKind::Control(ControlOp::While) {
        return None;
    }
    let turns = trip_count(module, op).filter(|turns| (1..=MOST_TURNS).contains(turns))?;
    let body = module.body_of(op, 1)?;
    let ops = module.op_list(body);
    let is_known = |&inner: &OpId| match module.op(inner).kind() {
        OpKind::Unary(_) | OpKind::Binary(_) | OpKind::Mixed(_) => true,
        OpKind::Source(f) => matches!(f, SourceOp::Constant | SourceOp::Iota),
        OpKind::Movement(f) => matches!(f, MovementOp::BroadcastInDim | MovementOp::Reshape | MovementOp::Slice),
        kind => kind.is_terminator(),
    };
    if ops.len() * turns as usize > MOST_OPS || !ops.iter().all(is_known) {
        return None;
    }
    // Slices are of what is small, such as keys: those of the arrays would have to be computed for each place.
    let count = |dims: &[i64]| dims.iter().product::<i64>();
    let largest = module.op(op).results().iter().map(|&r| count(module.ty(r).dims())).max()?;
    let is_small_slice = |&inner: &OpId| {
        let data = module.op(inner);
        data.kind() != OpKind::Movement(MovementOp::Slice)
            || data.operands().iter().all(|&v| count(module.ty(v).dims()) < LEAST_ELEMENTS)
    };
    (largest >= LEAST_ELEMENTS && ops.iter().all(is_small_slice)).then_some(turns)
}

/// Writes `turns` copies of the body of `op` in its place.
fn write(module: &mut Module, op: OpId, turns: u64) {
    let Some(body) = module.body_of(op, 1) else { return };
    let (args, ops, returned) =
        (module.block(body).args().to_vec(), module.op_list(body), module.returned(body).to_vec());
    let mut carried = module.op(op).operands().to_vec();
    for _ in 0..turns {
        let mut map = ValueMap::default();
        map.extend(args.iter().copied().zip(carried.iter().copied()));
        for &inner in ops.iter().filter(|&&inner| !module.op(inner).kind().is_terminator()).collect::<Vec<_>>() {
            let copy = module.clone_op(inner, &mut map);
            module.insert_before(op, copy);
        }
        carried = returned.iter().map(|v| *map.get(v).unwrap_or(v)).collect();
    }
    module.replace_op(op, &carried);
}

#[cfg(test)]
mod tests {
    use crate::compile::testing::check;

    fn program(turns: i64, n: i64, step: &str) -> String {
        format!(
            "func.func @main(%x: tensor<{n}xui32>, %k: tensor<2xui32>) -> (tensor<{n}xui32>, tensor<2xui32>, tensor<i32>) {{
            %zero = stablehlo.constant dense<0> : tensor<i32>
            %0:3 = stablehlo.while(%i = %zero, %y = %x, %key = %k) : tensor<i32>, tensor<{n}xui32>, tensor<2xui32>
            cond {{
                %n = stablehlo.constant dense<{turns}> : tensor<i32>
                %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
                stablehlo.return %c : tensor<i1>
            }} do {{
                %one = stablehlo.constant dense<1> : tensor<i32>
                %next = stablehlo.add %i, %one : tensor<i32>
                %a = stablehlo.slice %key [1:2] : (tensor<2xui32>) -> tensor<1xui32>
                %b = stablehlo.reshape %a : (tensor<1xui32>) -> tensor<ui32>
                %w = stablehlo.broadcast_in_dim %b, dims = [] : (tensor<ui32>) -> tensor<{n}xui32>
                %u = stablehlo.convert %i : (tensor<i32>) -> tensor<ui32>
                %v = stablehlo.broadcast_in_dim %u, dims = [] : (tensor<ui32>) -> tensor<{n}xui32>
                %p = stablehlo.add %y, %w : tensor<{n}xui32>
                %q = stablehlo.xor %p, %v : tensor<{n}xui32>
                {step}
                %other = stablehlo.add %key, %key : tensor<2xui32>
                stablehlo.return %next, %r, %other : tensor<i32>, tensor<{n}xui32>, tensor<2xui32>
            }}
            return %0#1, %0#2, %0#0 : tensor<{n}xui32>, tensor<2xui32>, tensor<i32> }}"
        )
    }

    #[test]
    fn short_loops_over_large_arrays() {
        for turns in [1, 2, 5, 8, 9] {
            for n in [63, 64, 1009] {
                let text = check(
                    &program(
                        turns,
                        n,
                        "%r = stablehlo.multiply %q, %y : tensor<NxUI>".replace("NxUI", &format!("{n}xui32")).as_str(),
                    ),
                    0.0,
                );
                let stays = text.contains("while") || text.contains("turns");
                assert_eq!(stays, turns > 8 || (n < 64 && turns >= 1), "{turns} turns, {n} elements\n{text}");
            }
        }
        // None at all.
        check(&program(0, 100, "%r = stablehlo.multiply %q, %y : tensor<100xui32>"), 0.0);
    }

    #[test]
    fn loops_that_shift_their_arrays_stay() {
        let step = "%s = stablehlo.slice %q [0:99] : (tensor<100xui32>) -> tensor<99xui32>
                    %z = stablehlo.constant dense<0> : tensor<ui32>
                    %r = stablehlo.pad %s, %z, low = [1], high = [0], interior = [0] : (tensor<99xui32>, tensor<ui32>) -> tensor<100xui32>";
        let text = check(&program(5, 100, step), 0.0);
        assert!(text.contains("while") || text.contains("turns"), "{text}");
    }
}
