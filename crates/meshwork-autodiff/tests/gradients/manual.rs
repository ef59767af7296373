//! Derivatives of computations written for single devices.

use crate::common::check;
use meshwork_autodiff::{GradOptions, vjp};
use meshwork_ir::{Module, text, verify};

/// A computation on a mesh of 2 x 2 devices.
fn manual(args: &str, types: &str, ins: &str, body_args: &str, body: &str, out: &str, result: &str) -> Module {
    let signature: Vec<String> = args.split(", ").zip(types.split(", ")).map(|(a, t)| format!("{a}: {t}")).collect();
    let source = format!(
        "sdy.mesh @mesh = <[\"x\"=2, \"y\"=2]>
         func.func @main({}) -> {result} {{
           %r = sdy.manual_computation({args}) in_shardings=[{ins}] out_shardings=[{out}] manual_axes={{\"x\", \"y\"}} ({body_args}) {{
             {body}
           }} : ({types}) -> {result}
           return %r : {result}
         }}",
        signature.join(", ")
    )
    .replace('$', "stablehlo.");
    let module = text::parse(&source).unwrap_or_else(|e| panic!("{e:?} in\n{source}"));
    assert_eq!(verify::verify(&module), [], "{source}");
    module
}

const SUM: &str = "({
  ^bb0(%p: tensor<f64>, %q: tensor<f64>):
    %s = $add %p, %q : tensor<f64>
    $return %s : tensor<f64>
})";
const GROUPS: &str = "channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 2], [1, 3]]> : tensor<2x2xi64>, use_global_device_ids";

/// A product of split rows with copied columns, summed over the axis that splits the rows.
#[test]
fn sums_over_devices_with_copies_on_both_sides() {
    let body = format!(
        "%e = $dot_general %b, %v, contracting_dims = [0] x [0] : (tensor<2x3xf64>, tensor<2xf64>) -> tensor<3xf64>
         %t = \"$all_reduce\"(%e) <{{{GROUPS}}}> {SUM} : (tensor<3xf64>) -> tensor<3xf64>
         %u = $sine %t : tensor<3xf64>
         sdy.return %u : tensor<3xf64>"
    );
    let row = "<@mesh, [{\"x\"}, {}]>, <@mesh, [{\"x\"}]>";
    check(&manual(
        "%a, %w",
        "tensor<4x3xf64>, tensor<4xf64>",
        row,
        "%b: tensor<2x3xf64>, %v: tensor<2xf64>",
        &body,
        "<@mesh, [{}]>",
        "tensor<3xf64>",
    ));
    // The same weights on all devices: their cotangents are summed.
    check(&manual(
        "%a, %w",
        "tensor<4x3xf64>, tensor<2xf64>",
        "<@mesh, [{\"x\"}, {}]>, <@mesh, [{}]>",
        "%b: tensor<2x3xf64>, %v: tensor<2xf64>",
        &body,
        "<@mesh, [{}]>",
        "tensor<3xf64>",
    ));
}

#[test]
fn gathers_scatters_and_moves_between_devices() {
    let pairs = "channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, source_target_pairs = dense<[[0, 2], [2, 0], [1, 3]]> : tensor<3x2xi64>";
    let cases = [
        (
            format!("%g = \"$all_gather\"(%b) <{{all_gather_dim = 0 : i64, {GROUPS}}}> : (tensor<2x4xf64>) -> tensor<4x4xf64>
                     %u = $sine %g : tensor<4x4xf64>
                     %h = \"$reduce_scatter\"(%u) <{{scatter_dimension = 0 : i64, {GROUPS}}}> {SUM} : (tensor<4x4xf64>) -> tensor<2x4xf64>"),
            "%h",
        ),
        (
            format!("%g = \"$all_to_all\"(%b) <{{split_dimension = 1 : i64, concat_dimension = 0 : i64, split_count = 2 : i64, {}}}> : (tensor<2x4xf64>) -> tensor<4x2xf64>
                     %u = $sine %g : tensor<4x2xf64>
                     %h = $reshape %u : (tensor<4x2xf64>) -> tensor<2x4xf64>", GROUPS.replace(", use_global_device_ids", "")),
            "%h",
        ),
        (
            format!("%e = $exponential %b : tensor<2x4xf64>
                     %g = \"$collective_broadcast\"(%e) <{{{}}}> : (tensor<2x4xf64>) -> tensor<2x4xf64>
                     %h = $multiply %g, %b : tensor<2x4xf64>", GROUPS.replace(", use_global_device_ids", "")),
            "%h",
        ),
        (
            // The first of each group is its root.
            format!("%e = $exponential %b : tensor<2x4xf64>
                     %g = \"$collective_reduce\"(%e) <{{{}}}> {SUM} : (tensor<2x4xf64>) -> tensor<2x4xf64>
                     %h = $multiply %g, %b : tensor<2x4xf64>", GROUPS.replace("[[0, 2], [1, 3]]", "[[3, 0], [1, 2]]")),
            "%h",
        ),
        (
            format!("%o = $constant dense<1> : tensor<1xi32>
                     %g = \"$collective_broadcast\"(%b, %o) <{{has_dynamic_root, {0}}}> : (tensor<2x4xf64>, tensor<1xi32>) -> tensor<2x4xf64>
                     %w = $sine %g : tensor<2x4xf64>
                     %t = \"$collective_reduce\"(%w, %o) <{{has_dynamic_root, {0}}}> {SUM} : (tensor<2x4xf64>, tensor<1xi32>) -> tensor<2x4xf64>
                     %h = $multiply %t, %b : tensor<2x4xf64>", GROUPS.replace(", use_global_device_ids", "")),
            "%h",
        ),
        (
            format!("%g = \"$collective_permute\"(%b) <{{{pairs}}}> : (tensor<2x4xf64>) -> tensor<2x4xf64>
                     %h = $multiply %g, %b : tensor<2x4xf64>"),
            "%h",
        ),
    ];
    for (body, last) in cases {
        check(&manual(
            "%a",
            "tensor<4x8xf64>",
            "<@mesh, [{\"x\"}, {\"y\"}]>",
            "%b: tensor<2x4xf64>",
            &format!("{body}\nsdy.return {last} : tensor<2x4xf64>"),
            "<@mesh, [{\"x\"}, {\"y\"}]>",
            "tensor<4x8xf64>",
        ));
    }
}

#[test]
fn a_broadcast_that_leaves_out_devices_has_no_gradient() {
    let module = manual(
        "%a",
        "tensor<4x8xf64>",
        "<@mesh, [{\"x\"}, {\"y\"}]>",
        "%b: tensor<2x4xf64>",
        &format!(
            "%g = \"$collective_broadcast\"(%b) <{{{}}}> : (tensor<2x4xf64>) -> tensor<2x4xf64>
             sdy.return %g : tensor<2x4xf64>",
            GROUPS.replace("[[0, 2], [1, 3]]", "[[3, 0]]").replace("2x2", "1x2").replace(", use_global_device_ids", "")
        ),
        "<@mesh, [{\"x\"}, {\"y\"}]>",
        "tensor<4x8xf64>",
    );
    let error = vjp(&module, "main", &GradOptions { wrt: vec![0], keep_value: false }).expect_err("no rule");
    assert!(error.to_string().contains("leave out devices"), "{error}");
}

/// Parts in, parts out, and parts that are summed inside.
#[test]
fn parts_that_add_up() {
    let parts = "<@mesh, [{}], unreduced={\"x\"}>";
    let scaled = "%e = $multiply %b, %v : tensor<3xf64>";
    let back = format!("{scaled}\nsdy.return %e : tensor<3xf64>");
    let summed = format!(
        "{scaled}
         %t = \"$all_reduce\"(%e) <{{{GROUPS}}}> {SUM} : (tensor<3xf64>) -> tensor<3xf64>
         %u = $sine %t : tensor<3xf64>
         sdy.return %u : tensor<3xf64>"
    );
    for (ins, body, out) in [
        (format!("{parts}, <@mesh, [{{}}]>"), &back, parts),
        (format!("{parts}, <@mesh, [{{}}]>"), &summed, "<@mesh, [{}]>"),
        ("<@mesh, [{}]>, <@mesh, [{}]>".to_string(), &back, parts),
    ] {
        let types = "tensor<3xf64>, tensor<3xf64>";
        check(&manual("%a, %w", types, &ins, "%b: tensor<3xf64>, %v: tensor<3xf64>", body, out, "tensor<3xf64>"));
    }
}
