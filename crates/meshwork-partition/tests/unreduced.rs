//! Values in parts: every placement and reduction kind as argument, constraint and result, operations that work on parts
//! and those that do not, and what each device holds.

#[path = "common/mod.rs"]
mod common;

use common::{check, collectives, inputs, split};
use meshwork_eval as eval;
use meshwork_ir::{DeviceGrid, Literal};
use meshwork_partition::plan::PlannedCollective;

const MESH: &str = "sdy.mesh @m = <[\"x\"=2, \"y\"=3]>\n";
const KINDS: [&str; 3] = ["", "max", "min"];

/// All ways to use the axes of the mesh in a matrix: each splits a dimension, is unreduced, or is not used.
fn placements(kind: &str) -> Vec<String> {
    let mut out = vec![];
    for x in 0..4 {
        for y in 0..4 {
            let list = |place: i32| {
                let axes = [(x, "\"x\""), (y, "\"y\"")];
                axes.iter().filter(|a| a.0 == place).map(|a| a.1).collect::<Vec<_>>().join(", ")
            };
            let parts = list(2);
            let parts = if parts.is_empty() { String::new() } else { format!(", unreduced={kind}{{{parts}}}") };
            out.push(format!("#sdy.sharding<@m, [{{{}}}, {{{}}}]{parts}>", list(0), list(1)));
        }
    }
    out
}

#[test]
fn from_any_placement_to_any_other() {
    for kind in KINDS {
        for from in placements(kind) {
            for to in placements(kind) {
                for elem in ["i32", "f32"] {
                    let t = format!("tensor<4x5x{elem}>");
                    let inner = to.trim_start_matches("#sdy.sharding");
                    check(&format!(
                        "{MESH}func.func @main(%a: {t} {{sdy.sharding = {from}}}) -> ({t} {{sdy.sharding = {from}}}, {t} {{sdy.sharding = {to}}}) {{
                           %0 = sdy.sharding_constraint %a {inner} : {t}
                           %1 = stablehlo.add %0, %0 : {t}
                           return %1, %0 : {t}, {t}
                         }}"
                    ));
                }
            }
        }
    }
}

#[test]
fn from_parts_of_one_kind_to_another() {
    for from in KINDS {
        for to in KINDS {
            check(&format!(
                "{MESH}func.func @main(%a: tensor<6xi32> {{sdy.sharding = #sdy.sharding<@m, [{{}}], unreduced={from}{{\"x\"}}>}})
                   -> (tensor<6xi32> {{sdy.sharding = #sdy.sharding<@m, [{{}}], unreduced={to}{{\"x\", \"y\"}}>}}) {{
                   return %a : tensor<6xi32>
                 }}"
            ));
        }
    }
}

const U: &str = "<@m, [{\"y\"}, {}], unreduced={\"x\"}>";

/// Arguments `%a` and `%b` in parts, `%c` whole along the parts, and a body that makes `%r`.
fn on_parts(result: &str, placement: &str, body: &str) -> String {
    let t = "tensor<6x6xf32>";
    format!(
        "{MESH}func.func @main(%a: {t} {{sdy.sharding = #sdy.sharding{U}}}, %b: {t} {{sdy.sharding = #sdy.sharding{U}}},
             %c: {t} {{sdy.sharding = #sdy.sharding<@m, [{{\"y\"}}, {{}}]>}}, %p: tensor<6x6xi1>, %i: tensor<i32>)
             -> ({result} {{sdy.sharding = #sdy.sharding{placement}}}) {{
           {body}
           return %r : {result}
         }}"
    )
}

fn annotated(placement: &str) -> String {
    format!("{{sdy.sharding = #sdy.sharding_per_value<[{placement}]>}}")
}

#[test]
fn what_is_linear_works_on_parts() {
    let t = "tensor<6x6xf32>";
    let whole = "<@m, [{}, {}], unreduced={\"x\"}>";
    let row = "<@m, [{}], unreduced={\"x\"}>";
    let zero = "%z = stablehlo.constant dense<0.0> : tensor<f32>";
    let one = "%z = stablehlo.constant dense<1.0> : tensor<f32>";
    let u = annotated(U);
    let w = annotated(whole);
    let r = annotated(row);
    let matrix = |line: String| (t, U, line);
    let cases = [
        matrix(format!("%r = stablehlo.add %a, %b {u} : {t}")),
        matrix(format!("%r = stablehlo.subtract %a, %b {u} : {t}")),
        matrix(format!("%r = stablehlo.negate %a {u} : {t}")),
        matrix(format!("%r = stablehlo.multiply %a, %c {u} : {t}")),
        matrix(format!("%r = stablehlo.multiply %c, %b {u} : {t}")),
        matrix(format!("%d = stablehlo.exponential %c : {t}\n%r = stablehlo.divide %a, %d {u} : {t}")),
        matrix(format!("%r = stablehlo.select %p, %a, %b {u} : tensor<6x6xi1>, {t}")),
        matrix(format!("%k = stablehlo.constant dense<2.0> : {t}\n%r = stablehlo.add %a, %k {u} : {t}")),
        (t, whole, format!("%r = stablehlo.transpose %a, dims = [1, 0] {w} : ({t}) -> {t}")),
        (t, whole, format!("%r = stablehlo.reverse %a, dims = [0, 1] {w} : {t}")),
        (
            t,
            whole,
            format!(
                "%r = stablehlo.dynamic_update_slice %a, %b, %i, %i {w} : ({t}, {t}, tensor<i32>, tensor<i32>) -> {t}"
            ),
        ),
        ("tensor<36xf32>", row, format!("%r = stablehlo.reshape %a {r} : ({t}) -> tensor<36xf32>")),
        ("tensor<2x3xf32>", whole, format!("%r = stablehlo.slice %a [1:5:2, 0:3] {w} : ({t}) -> tensor<2x3xf32>")),
        (
            "tensor<6x12xf32>",
            U,
            format!("%r = stablehlo.concatenate %a, %b, dim = 1 {u} : ({t}, {t}) -> tensor<6x12xf32>"),
        ),
        (
            "tensor<6x8xf32>",
            U,
            format!(
                "{one}\n%r = stablehlo.pad %a, %z, low = [0, 1], high = [0, 1], interior = [0, 0] {u} : ({t}, tensor<f32>) -> tensor<6x8xf32>"
            ),
        ),
        (
            "tensor<2x2xf32>",
            whole,
            format!(
                "%r = stablehlo.dynamic_slice %a, %i, %i, sizes = [2, 2] {w} : ({t}, tensor<i32>, tensor<i32>) -> tensor<2x2xf32>"
            ),
        ),
        (
            "tensor<6xf32>",
            row,
            format!(
                "{zero}\n%r = stablehlo.reduce(%a init: %z) applies stablehlo.add across dimensions = [1] {r} : ({t}, tensor<f32>) -> tensor<6xf32>"
            ),
        ),
        (
            "tensor<6xf32>",
            row,
            format!(
                "{one}\n%r = stablehlo.reduce(%a init: %z) applies stablehlo.add across dimensions = [1] {r} : ({t}, tensor<f32>) -> tensor<6xf32>"
            ),
        ),
        ("tensor<6x6xf64>", U, format!("%r = stablehlo.convert %a {u} : ({t}) -> tensor<6x6xf64>")),
    ];
    for (result, placement, body) in cases {
        let program = check(&on_parts(result, placement, &body));
        let over_parts = |c: &PlannedCollective| c.axes.iter().any(|axis| &*axis.name == "x");
        assert!(!program.plan.collectives.iter().any(over_parts), "{body} combines its parts");
    }
    for body in [
        format!("%r = stablehlo.dot_general %a, %c, contracting_dims = [1] x [0] {u} : ({t}, {t}) -> {t}"),
        format!("%r = stablehlo.dot_general %c, %b, contracting_dims = [1] x [0] {u} : ({t}, {t}) -> {t}"),
        format!(
            "{zero}\n%s = stablehlo.reduce(%a init: %z) applies stablehlo.add across dimensions = [0, 1] {} : ({t}, tensor<f32>) -> tensor<f32>\n%r = stablehlo.broadcast_in_dim %s, dims = [] {u} : (tensor<f32>) -> {t}",
            annotated("<@m, [], unreduced={\"x\"}>")
        ),
    ] {
        check(&on_parts(t, U, &body));
    }
}

#[test]
fn what_is_not_linear_combines_its_parts_first() {
    let t = "tensor<6x6xf32>";
    for op in
        ["sine %a", "multiply %a, %b", "multiply %a, %a", "divide %c, %a", "maximum %a, %b", "abs %a", "power %a, %c"]
    {
        for placement in [U, "<@m, [{\"y\"}, {}]>", "<@m, [{}, {}], unreduced={\"x\", \"y\"}>"] {
            check(&on_parts(t, placement, &format!("%r = stablehlo.{op} {} : {t}", annotated(placement))));
        }
    }
    let narrow = "tensor<6x6xf16>";
    check(&on_parts(narrow, U, &format!("%r = stablehlo.convert %a {} : ({t}) -> {narrow}", annotated(U))));
}

#[test]
fn products_and_sums_stay_in_the_parts_they_come_in() {
    let (t, s) = ("tensor<6x6xf32>", "tensor<f32>");
    for (body, placement, result) in [
        (
            format!("%r = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] %u : ({t}, {t}) -> {t}"),
            "<@m, [{}, {}], unreduced={\"x\"}>",
            t,
        ),
        (
            format!(
                "%z = stablehlo.constant dense<0.0> : {s}\n%r = stablehlo.reduce(%a init: %z) applies stablehlo.add across dimensions = [0, 1] %u : ({t}, {s}) -> {s}"
            ),
            "<@m, [], unreduced={\"x\"}>",
            s,
        ),
    ] {
        for body in [body.replace("%u", &annotated(placement)), body.replace("%u", "")] {
            let program = check(&format!(
                "{MESH}func.func @main(%a: {t} {{sdy.sharding = #sdy.sharding<@m, [{{}}, {{\"x\"}}]>}},
                 %b: {t} {{sdy.sharding = #sdy.sharding<@m, [{{\"x\"}}, {{}}]>}})
                 -> ({result} {{sdy.sharding = #sdy.sharding{placement}}}) {{
               {body}
               return %r : {result}
             }}"
            ));
            assert_eq!(collectives(&program), [], "{body}");
        }
    }
}

/// A sum over rounds of a loop is combined once, after it.
#[test]
fn loops_and_branches_carry_parts() {
    let t = "tensor<6x6xf32>";
    let p = "<@m, [{}, {}], unreduced={\"x\"}>";
    let per = |list: &[&str]| format!("{{sdy.sharding = #sdy.sharding_per_value<[{}]>}}", list.join(", "));
    let program = check(&format!(
        "{MESH}func.func @main(%a: {t} {{sdy.sharding = #sdy.sharding<@m, [{{}}, {{\"x\"}}]>}},
             %b: {t} {{sdy.sharding = #sdy.sharding<@m, [{{\"x\"}}, {{}}]>}})
             -> ({t} {{sdy.sharding = #sdy.sharding<@m, [{{}}, {{}}]>}}) {{
           %zero = stablehlo.constant dense<0> : tensor<i32>
           %start = stablehlo.constant dense<0.0> : {t}
           %s:2 = stablehlo.while(%i = %zero, %v = %start) : tensor<i32>, {t} attributes {} cond {{
             %n = stablehlo.constant dense<5> : tensor<i32>
             %go = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
             stablehlo.return %go : tensor<i1>
           }} do {{
             %one = stablehlo.constant dense<1> : tensor<i32>
             %next = stablehlo.add %i, %one : tensor<i32>
             %d = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] {} : ({t}, {t}) -> {t}
             %w = stablehlo.add %v, %d {} : {t}
             stablehlo.return %next, %w : tensor<i32>, {t}
           }}
           return %s#1 : {t}
         }}",
        per(&["<@m, []>", p]),
        per(&[p]),
        per(&[p]),
    ));
    let sums: Vec<_> = collectives(&program).into_iter().filter(|c| c.0 == "all-reduce").map(|c| c.2).collect();
    assert_eq!(sums, [1]);
    check(&format!(
        "{MESH}func.func @main(%a: {t} {{sdy.sharding = #sdy.sharding{p}}}, %i: tensor<i32>)
             -> ({t} {{sdy.sharding = #sdy.sharding{p}}}) {{
           %r = \"stablehlo.case\"(%i) ({{
             %s = stablehlo.add %a, %a {} : {t}
             stablehlo.return %s : {t}
           }}, {{
             %s = stablehlo.sine %a : {t}
             stablehlo.return %s : {t}
           }}) {} : (tensor<i32>) -> {t}
           return %r : {t}
         }}",
        per(&[p]),
        per(&[p]),
    ));
}

/// What each device holds of the only result.
fn held(source: &str) -> Vec<Vec<f64>> {
    let (module, program) = split(source);
    let per_device = vec![inputs(&module); program.devices()];
    let locals = |args: Vec<Literal>, device: usize| {
        let cut = |(x, b): (&Literal, &meshwork_partition::Border)| {
            let all = common::cut_whole(x, &b.sharding, &program.plan.mesh);
            all[device].clone()
        };
        args.iter().zip(program.inputs()).map(cut).collect::<Vec<_>>()
    };
    let args = per_device.into_iter().enumerate().map(|(d, args)| locals(args, d)).collect();
    let grid = DeviceGrid { replicas: 1, partitions: program.devices() };
    let out = eval::run_devices(&program.module, None, args, grid).unwrap();
    out.into_iter().map(|results| results[0].to_f64s()).collect()
}

#[test]
fn the_first_device_keeps_a_whole_value_and_each_its_own_block() {
    let program = |from: &str, kind: &str| {
        format!(
            "sdy.mesh @m = <[\"x\"=2]>
             func.func @main(%a: tensor<4xf32> {{sdy.sharding = #sdy.sharding<@m, [{from}]>}})
                 -> (tensor<4xf32> {{sdy.sharding = #sdy.sharding<@m, [{{}}], unreduced={kind}{{\"x\"}}>}}) {{
               return %a : tensor<4xf32>
             }}"
        )
    };
    let [a, b, c, d] = [-1.25, 0.5, 2.25, 4.0];
    let low = f64::NEG_INFINITY;
    assert_eq!(held(&program("{}", "")), [[a, b, c, d], [0.0; 4]]);
    assert_eq!(held(&program("{\"x\"}", "")), [[a, b, 0.0, 0.0], [0.0, 0.0, c, d]]);
    assert_eq!(held(&program("{}", "max")), [[a, b, c, d], [low; 4]]);
    assert_eq!(held(&program("{\"x\"}", "min")), [[a, b, -low, -low], [-low, -low, c, d]]);
}

/// Inside a manual computation the parts are what the devices hold, and results leave as they are.
#[test]
fn manual_computations_take_and_return_parts() {
    let body = |ins: &str, outs: &str, result: &str| {
        format!(
            "sdy.mesh @m = <[\"x\"=2, \"y\"=2]>
             func.func @main(%a: tensor<4xf32> {{sdy.sharding = #sdy.sharding<@m, [{{}}]>}}) -> ({result} {{sdy.sharding = #sdy.sharding{outs}}}) {{
               %0 = sdy.sharding_constraint %a {ins} : tensor<4xf32>
               %1 = sdy.manual_computation(%0) in_shardings=[{ins}] out_shardings=[{outs}] manual_axes={{\"x\", \"y\"}} (%b: tensor<4xf32>) {{
                 %2 = stablehlo.add %b, %b : tensor<4xf32>
                 sdy.return %2 : tensor<4xf32>
               }} : (tensor<4xf32>) -> {result}
               return %1 : {result}
             }}"
        )
    };
    let parts = "<@m, [{}], unreduced={\"x\"}>";
    for (outs, result) in [(parts, "tensor<4xf32>"), ("<@m, [{\"x\"}]>", "tensor<8xf32>")] {
        let source = body(parts, outs, result);
        check(&source);
        let value = [-2.5, 1.0, 4.5, 8.0];
        assert_eq!(held(&source), [value, value, [0.0; 4], [0.0; 4]]);
    }
    // Every device returns the whole: the value is their sum.
    let source = body("<@m, [{}]>", parts, "tensor<4xf32>");
    assert_eq!(held(&source), [[-2.5, 1.0, 4.5, 8.0]; 4]);
    check(&source);
    for kind in KINDS {
        check(&body(
            &format!("<@m, [{{}}], unreduced={kind}{{\"x\", \"y\"}}>"),
            &format!("<@m, [{{}}], unreduced={kind}{{\"x\", \"y\"}}>"),
            "tensor<4xf32>",
        ));
    }
}

/// A caller gives an argument whole unless the argument says otherwise.
#[test]
fn an_argument_without_placement_stays_whole() {
    let (_, program) = split(
        "sdy.mesh @m = <[\"x\"=2]>
         func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {
           %0 = sdy.sharding_constraint %a <@m, [{}], unreduced={\"x\"}> : tensor<4xf32>
           %1 = sdy.sharding_constraint %0 <@m, [{}]> : tensor<4xf32>
           return %1 : tensor<4xf32>
         }",
    );
    assert!(program.inputs()[0].sharding.unreduced.is_empty());
    assert_eq!(program.inputs()[0].sharding.to_string(), "<@m, [{}]>");
}

#[test]
fn borders_say_which_parts_and_how_they_combine() {
    for kind in KINDS {
        let placement = format!("<@m, [{{\"y\"}}], unreduced={kind}{{\"x\"}}>");
        let (_, program) = split(&format!(
            "{MESH}func.func @main(%a: tensor<6xf32> {{sdy.sharding = #sdy.sharding{placement}}})
                 -> (tensor<6xf32> {{sdy.sharding = #sdy.sharding{placement}}}) {{
               return %a : tensor<6xf32>
             }}"
        ));
        assert_eq!(program.inputs()[0].sharding.to_string(), placement);
        assert_eq!(program.outputs()[0].sharding.to_string(), placement);
        assert_eq!(collectives(&program), []);
    }
}

#[test]
fn complex_numbers_have_no_largest_part() {
    let source = "sdy.mesh @m = <[\"x\"=2]>
        func.func @main(%a: tensor<4xcomplex<f32>> {sdy.sharding = #sdy.sharding<@m, [{}], unreduced=max{\"x\"}>}) -> tensor<4xcomplex<f32>> {
          return %a : tensor<4xcomplex<f32>>
        }";
    let module = meshwork_ir::text::parse(source).unwrap();
    let error = meshwork_partition::compile(&module, &Default::default()).err().unwrap().to_string();
    assert!(error.contains("unreduced=max"), "{error}");
}

#[test]
fn what_fills_padding_is_not_added_for_every_part() {
    for kind in KINDS {
        for from in placements(kind) {
            check(&format!(
                "{MESH}func.func @main(%a: tensor<4x6xi32> {{sdy.sharding = {from}}}, %b: tensor<i32>) -> tensor<7x8xi32> {{
                   %0 = stablehlo.pad %a, %b, low = [3, -1], high = [0, 3], interior = [0, 0] : (tensor<4x6xi32>, tensor<i32>) -> tensor<7x8xi32>
                   return %0 : tensor<7x8xi32>
                 }}"
            ));
        }
    }
}
