//! Sub-axes of any factorization: 6 is 2 times 3 and 3 times 2, and a program may use both.

use crate::cases::{Failures, t};

/// Shardings of two dimensions by parts of an axis of six devices.
const SHARDINGS: &[&str] = &[
    "[{}, {}]",
    "[{\"x\"}, {}]",
    "[{}, {\"x\":(1)2}]",
    "[{\"x\":(1)3}, {}]",
    "[{\"x\":(3)2}, {\"x\":(1)3}]",
    "[{\"x\":(2)3}, {\"x\":(1)2}]",
    "[{\"x\":(2)3, \"x\":(1)2}, {}]",
    "[{}, {\"x\":(3)2, \"x\":(1)3}]",
];

#[test]
fn arguments_results_and_constraints() {
    let mut failures = Failures::default();
    for n in [6, 7] {
        let a = t(&[n, 6], "i32");
        for from in SHARDINGS {
            for between in SHARDINGS {
                for to in SHARDINGS {
                    failures.check(&format!(
                        "sdy.mesh @mesh = <[\"x\"=6]>
func.func @main(%a: {a} {{sdy.sharding = #sdy.sharding<@mesh, {from}>}}) -> ({a} {{sdy.sharding = #sdy.sharding<@mesh, {to}>}}) {{
%x = stablehlo.add %a, %a : {a}
%c = sdy.sharding_constraint %x <@mesh, {between}> : {a}
%y = stablehlo.reverse %c, dims = [0] : {a}
return %y : {a}
}}"
                    ));
                }
            }
        }
    }
    failures.report();
}

/// Propagation cuts axes as reshapes cut dimensions.
#[test]
fn reshapes_cut_axes() {
    let mut failures = Failures::default();
    for (wide, narrow) in [([6, 4], [3, 8]), ([6, 4], [2, 12]), ([12, 2], [4, 6]), ([12, 2], [6, 4])] {
        for (mesh, s) in [("\"x\"=6", "{\"x\"}"), ("\"x\"=12", "{\"x\"}"), ("\"x\"=6, \"y\"=2", "{\"y\", \"x\"}")] {
            for result in ["", " {sdy.sharding = #sdy.sharding<@mesh, [{}, {?}]>}"] {
                let (a, b) = (t(&wide, "i32"), t(&narrow, "i32"));
                failures.check(&format!(
                    "sdy.mesh @mesh = <[{mesh}]>
func.func @main(%a: {a} {{sdy.sharding = #sdy.sharding<@mesh, [{s}, {{}}]>}}) -> ({b}{result}) {{
%x = stablehlo.reshape %a : ({a}) -> {b}
%y = stablehlo.add %x, %x : {b}
return %y : {b}
}}"
                ));
            }
        }
    }
    failures.report();
}

/// The axes of two meshes cut the same devices elsewhere.
#[test]
fn meshes_of_other_factors() {
    let mut failures = Failures::default();
    let a = t(&[6, 6], "i32");
    for s in ["{\"a\"}, {}", "{\"b\"}, {\"a\"}", "{}, {\"b\", \"a\"}"] {
        failures.check(&format!(
            "sdy.mesh @mesh = <[\"x\"=2, \"y\"=3]>
sdy.mesh @other = <[\"a\"=3, \"b\"=2]>
func.func @main(%a: {a} {{sdy.sharding = #sdy.sharding<@mesh, [{{\"x\"}}, {{\"y\"}}]>}}, %b: {a} {{sdy.sharding = #sdy.sharding<@other, [{s}]>}}) -> {a} {{
%y = stablehlo.subtract %a, %b : {a}
return %y : {a}
}}"
        ));
    }
    failures.report();
}
