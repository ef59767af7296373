//! Counters of loops: two that count alike are one, and what their bounds decide is not asked in every turn.
//!
//! ```text
//! while i < n:  j < 0 ? j + 8 : j      i and j start at 0 and grow by 1: j is i, and i < 0 is false
//! ```

use std::sync::Arc;

use meshwork_ir::op::{ControlOp, MixedOp, SourceOp};
use meshwork_ir::{Attr, Dense, Module, OpId, OpKind, OpSpec, Walk};

use super::trips::{constant, step_of};
use crate::fuse::{Devices, comparison};

/// Merges the counters of all loops of `func`, and decides comparisons.
pub(crate) fn simplify(module: &mut Module, func: OpId) {
    let ops = module.ops_below(func, Walk::PreOrder);
    for &op in &ops {
        if module.op(op).kind() == OpKind::Control(ControlOp::While) {
            merge(module, op);
        }
    }
    for op in ops {
        if module.op(op).kind() == OpKind::Mixed(MixedOp::Compare) {
            decide(module, op);
        }
    }
}

/// Makes carries of the loop `op` that always equal an earlier one idle.
fn merge(module: &mut Module, op: OpId) {
    let (Some(cond), Some(body)) = (module.body_of(op, 0), module.body_of(op, 1)) else { return };
    let Some(end) = module.terminator(body) else { return };
    let line = |i: usize| {
        let init = module.op(op).operands()[i];
        let ty = module.ty(init).as_tensor().filter(|ty| ty.dims.is_empty())?;
        Some((ty.elem, constant(module, init)?, step_of(module, body, i)?))
    };
    let lines: Vec<_> = (0..module.op(op).operands().len()).map(line).collect();
    for (i, found) in lines.iter().enumerate().filter(|(_, line)| line.is_some()) {
        let Some(first) = lines[..i].iter().position(|line| line == found) else { continue };
        let pair = |of: &[meshwork_ir::ValueId]| (of[i], of[first]);
        let inside = pair(module.block(body).args());
        for (twin, kept) in [inside, pair(module.block(cond).args()), pair(module.op(op).results())] {
            module.replace_all_uses(twin, kept);
        }
        module.set_operand(end, i, inside.0);
    }
}

/// Replaces the comparison `op` by its result, if the bounds of what it compares decide it.
fn decide(module: &mut Module, op: OpId) {
    let Some(known) = comparison(module, op, Devices::ALL) else { return };
    let Some(ty) = module.ty(module.op(op).results()[0]).as_tensor().cloned() else { return };
    let spec = OpSpec::new(OpKind::Source(SourceOp::Constant))
        .results([module.ty(module.op(op).results()[0]).clone()])
        .attr("value", Attr::Dense(Dense::splat(Arc::new(ty), &[u8::from(known)]).into()))
        .loc(module.op(op).loc.clone());
    let constant = module.push_before(op, spec);
    module.replace_op(op, &[module.result(constant)]);
}

#[cfg(test)]
mod tests {
    use crate::compile::testing::check;

    fn looped(place: &str) -> String {
        check(
            &format!(
                "func.func @main(%x: tensor<7x40xf32>) -> tensor<7x40xf32> {{
                %zero = stablehlo.constant dense<0> : tensor<i32>
                %0:3 = stablehlo.while(%i = %zero, %j = %zero, %y = %x) : tensor<i32>, tensor<i32>, tensor<7x40xf32>
                cond {{
                    %n = stablehlo.constant dense<7> : tensor<i32>
                    %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
                    stablehlo.return %c : tensor<i1>
                }} do {{
                    %one = stablehlo.constant dense<1> : tensor<i32>
                    %seven = stablehlo.constant dense<7> : tensor<i32>
                    %o = stablehlo.constant dense<0> : tensor<i32>
                    %next = stablehlo.add %i, %one : tensor<i32>
                    %other = stablehlo.add %j, %one : tensor<i32>
                    {place}
                    %negative = stablehlo.compare LT, %p, %o : (tensor<i32>, tensor<i32>) -> tensor<i1>
                    %around = stablehlo.add %p, %seven : tensor<i32>
                    %at = stablehlo.select %negative, %around, %p : tensor<i1>, tensor<i32>
                    %a = stablehlo.dynamic_slice %y, %at, %o, sizes = [1, 40] : (tensor<7x40xf32>, tensor<i32>, tensor<i32>) -> tensor<1x40xf32>
                    %s = \"stablehlo.sort\"(%a) <{{dimension = 1 : i64, is_stable = true}}> ({{
                    ^bb0(%l: tensor<f32>, %r: tensor<f32>):
                        %lt = stablehlo.compare LT, %l, %r : (tensor<f32>, tensor<f32>) -> tensor<i1>
                        stablehlo.return %lt : tensor<i1>
                    }}) : (tensor<1x40xf32>) -> tensor<1x40xf32>
                    %q = stablehlo.dynamic_update_slice %y, %s, %at, %o : (tensor<7x40xf32>, tensor<1x40xf32>, tensor<i32>, tensor<i32>) -> tensor<7x40xf32>
                    stablehlo.return %next, %other, %q : tensor<i32>, tensor<i32>, tensor<7x40xf32>
                }}
                return %0#2 : tensor<7x40xf32> }}"
            ),
            0.0,
        )
    }

    #[test]
    fn counters_are_merged_and_never_negative() {
        let text = looped("%p = stablehlo.add %j, %o : tensor<i32>");
        assert!(!text.contains("compare·") && !text.contains("·select"), "{text}");
    }

    #[test]
    fn bits_and_shifts_of_anything() {
        for place in [
            "%k = stablehlo.constant dense<5> : tensor<i32>
             %m = stablehlo.multiply %j, %k : tensor<i32>
             %f = stablehlo.subtract %m, %seven : tensor<i32>
             %p = stablehlo.and %f, %k : tensor<i32>",
            "%k = stablehlo.constant dense<29> : tensor<i32>
             %f = stablehlo.subtract %j, %seven : tensor<i32>
             %p = stablehlo.shift_right_logical %f, %k : tensor<i32>",
            "%f = stablehlo.subtract %j, %seven : tensor<i32>
             %b = stablehlo.convert %f : (tensor<i32>) -> tensor<ui8>
             %w = stablehlo.convert %b : (tensor<ui8>) -> tensor<i32>
             %p = stablehlo.remainder %w, %seven : tensor<i32>",
        ] {
            let text = looped(place);
            assert!(!text.contains("compare·") && !text.contains("·select"), "{text}");
        }
        // These are negative in some turns.
        looped("%p = stablehlo.subtract %j, %seven : tensor<i32>");
        looped(
            "%three = stablehlo.constant dense<3> : tensor<i32>
             %p = stablehlo.subtract %j, %three : tensor<i32>",
        );
    }

    /// Counters of all types, some of which wrap round, and how often a comparison with them holds.
    #[test]
    fn counters_that_wrap_round() {
        let all = u64::MAX;
        for (ty, first, step, compare, with) in [
            ("i8", "0", "1", "LT", "0".to_owned()),
            ("i8", "100", "1", "GE", "100".to_owned()),
            ("ui8", "3", "255", "LE", "3".to_owned()),
            ("ui8", "250", "1", "GT", "5".to_owned()),
            ("i16", "32760", "1", "LT", "0".to_owned()),
            ("i32", "2147483645", "1", "LT", "0".to_owned()),
            ("i32", "-5", "2", "LT", "0".to_owned()),
            ("ui32", "4294967293", "1", "GT", "5".to_owned()),
            ("i64", "9223372036854775804", "1", "LT", "0".to_owned()),
            ("ui64", "18446744073709551613", "1", "GT", "5".to_owned()),
            ("ui64", "3", "1", "LT", (all - 2).to_string()),
        ] {
            for turns in [1, 7, 200] {
                check(
                    &format!(
                        "func.func @main() -> (tensor<i32>, tensor<{ty}>) {{
                        %zero = stablehlo.constant dense<0> : tensor<i32>
                        %first = stablehlo.constant dense<{first}> : tensor<{ty}>
                        %0:3 = stablehlo.while(%i = %zero, %j = %first, %n = %zero) : tensor<i32>, tensor<{ty}>, tensor<i32>
                        cond {{
                            %b = stablehlo.constant dense<{turns}> : tensor<i32>
                            %c = stablehlo.compare LT, %i, %b : (tensor<i32>, tensor<i32>) -> tensor<i1>
                            stablehlo.return %c : tensor<i1>
                        }} do {{
                            %one = stablehlo.constant dense<1> : tensor<i32>
                            %step = stablehlo.constant dense<{step}> : tensor<{ty}>
                            %with = stablehlo.constant dense<{with}> : tensor<{ty}>
                            %k = stablehlo.add %i, %one : tensor<i32>
                            %l = stablehlo.add %j, %step : tensor<{ty}>
                            %c = stablehlo.compare {compare}, %j, %with : (tensor<{ty}>, tensor<{ty}>) -> tensor<i1>
                            %d = stablehlo.convert %c : (tensor<i1>) -> tensor<i32>
                            %m = stablehlo.add %n, %d : tensor<i32>
                            stablehlo.return %k, %l, %m : tensor<i32>, tensor<{ty}>, tensor<i32>
                        }}
                        return %0#2, %0#1 : tensor<i32>, tensor<{ty}> }}"
                    ),
                    0.0,
                );
            }
        }
    }

    /// Loops whose own counter wraps round before it reaches its bound, or goes down as one without sign.
    #[test]
    fn turns_of_counters_that_wrap_round() {
        for (ty, first, compare, bound, step) in [
            ("i8", "0", "LT", "127", "3"),
            ("i8", "0", "LT", "126", "3"),
            ("ui8", "10", "LT", "20", "255"),
            ("ui8", "10", "GT", "0", "255"),
            ("ui8", "200", "LE", "254", "1"),
            ("i8", "100", "GE", "-126", "-3"),
            ("i32", "2147483640", "LT", "2147483646", "1"),
            ("ui64", "18446744073709551610", "LT", "18446744073709551615", "1"),
        ] {
            check(
                &format!(
                    "func.func @main() -> (tensor<i32>, tensor<i32>) {{
                    %zero = stablehlo.constant dense<0> : tensor<i32>
                    %first = stablehlo.constant dense<{first}> : tensor<{ty}>
                    %0:3 = stablehlo.while(%i = %first, %j = %zero, %n = %zero) : tensor<{ty}>, tensor<i32>, tensor<i32>
                    cond {{
                        %b = stablehlo.constant dense<{bound}> : tensor<{ty}>
                        %c = stablehlo.compare {compare}, %i, %b : (tensor<{ty}>, tensor<{ty}>) -> tensor<i1>
                        stablehlo.return %c : tensor<i1>
                    }} do {{
                        %one = stablehlo.constant dense<1> : tensor<i32>
                        %five = stablehlo.constant dense<5> : tensor<i32>
                        %step = stablehlo.constant dense<{step}> : tensor<{ty}>
                        %k = stablehlo.add %i, %step : tensor<{ty}>
                        %l = stablehlo.add %j, %one : tensor<i32>
                        %c = stablehlo.compare GT, %j, %five : (tensor<i32>, tensor<i32>) -> tensor<i1>
                        %d = stablehlo.convert %c : (tensor<i1>) -> tensor<i32>
                        %m = stablehlo.add %n, %d : tensor<i32>
                        stablehlo.return %k, %l, %m : tensor<{ty}>, tensor<i32>, tensor<i32>
                    }}
                    return %0#1, %0#2 : tensor<i32>, tensor<i32> }}"
                ),
                0.0,
            );
        }
    }
}
