//! Loops, branches, manual computations, constraints and meshes with their own device order.

use crate::cases::{Failures, Program, conform, program, t};

fn loop_program(n: i64, m: i64, body: &str) -> Program {
    let a = t(&[n, m], "f32");
    program(
        &[&a],
        &[&a],
        format!(
            "%zero = stablehlo.constant dense<0> : tensor<i32>
%three = stablehlo.constant dense<3> : tensor<i32>
%one = stablehlo.constant dense<1> : tensor<i32>
%f0 = stablehlo.constant dense<0.0> : tensor<f32>
%i, %r0 = stablehlo.while(%k = %zero, %v = %a0) : tensor<i32>, {a}
cond {{
  %c = stablehlo.compare LT, %k, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
  stablehlo.return %c : tensor<i1>
}} do {{
  %next = stablehlo.add %k, %one : tensor<i32>
  {body}
  stablehlo.return %next, %out : tensor<i32>, {a}
}}"
        ),
    )
}

#[test]
fn loops() {
    let mut programs = vec![];
    for n in [1, 3, 4, 7] {
        let a = t(&[n, 4], "f32");
        programs.push(loop_program(n, 4, &format!("%out = stablehlo.add %v, %a0 : {a}")));
        programs.push(loop_program(
            n,
            4,
            &format!("%r = stablehlo.reverse %a0, dims = [0] : {a}\n%out = stablehlo.add %v, %r : {a}"),
        ));
        programs.push(loop_program(
            n,
            4,
            &format!(
                "%s = stablehlo.reduce(%v init: %f0) applies stablehlo.maximum across dimensions = [0] : ({a}, tensor<f32>) -> tensor<4xf32>
  %b = stablehlo.broadcast_in_dim %s, dims = [1] : (tensor<4xf32>) -> {a}
  %out = stablehlo.subtract %b, %v : {a}"
            ),
        ));
        programs.push(loop_program(
            n,
            4,
            &format!(
                "%row = stablehlo.dynamic_slice %v, %k, %zero, sizes = [1, 4] : ({a}, tensor<i32>, tensor<i32>) -> tensor<1x4xf32>
  %out = stablehlo.dynamic_update_slice %v, %row, %zero, %zero : ({a}, tensor<1x4xf32>, tensor<i32>, tensor<i32>) -> {a}"
            ),
        ));
    }
    conform(programs, 5);
}

#[test]
fn branches() {
    let mut programs = vec![];
    for n in [1, 3, 4, 7] {
        let a = t(&[n, 3], "i32");
        let (s, p) = ("tensor<i32>".to_string(), "tensor<i1>".to_string());
        let body = format!(
            "%r0 = \"stablehlo.case\"(%a0) ({{
  %x = stablehlo.add %a1, %a2 : {a}
  stablehlo.return %x : {a}
}}, {{
  %x = stablehlo.reverse %a1, dims = [0] : {a}
  stablehlo.return %x : {a}
}}, {{
  stablehlo.return %a2 : {a}
}}) : (tensor<i32>) -> {a}"
        );
        programs.push(program(&[&s, &a, &a], &[&a], body));
        let body = format!(
            "%r0 = \"stablehlo.if\"(%a0) ({{
  %x = stablehlo.transpose %a1, dims = [1, 0] : (tensor<3x{n}xi32>) -> {a}
  stablehlo.return %x : {a}
}}, {{
  stablehlo.return %a2 : {a}
}}) : (tensor<i1>) -> {a}"
        );
        programs.push(program(&[&p, &t(&[3, n], "i32"), &a], &[&a], body));
    }
    conform(programs, 6);
}

#[test]
fn constraints_in_between() {
    let mut failures = Failures::default();
    for (mesh, shardings) in [
        (&[("x", 2)][..], &["[{\"x\"}, {}]", "[{}, {\"x\"}]", "[{}, {}]"][..]),
        (&[("x", 2), ("y", 3)], &["[{\"x\"}, {\"y\"}]", "[{\"y\", \"x\"}, {}]", "[{}, {\"x\", \"y\"}]"]),
    ] {
        for n in [1, 3, 4, 7] {
            let a = t(&[n, 5], "i32");
            for s in shardings {
                for u in shardings {
                    let body = format!(
                        "%x = stablehlo.add %a0, %a0 : {a}
%c = sdy.sharding_constraint %x <@mesh, {s}> : {a}
%y = stablehlo.multiply %c, %a0 : {a}
%d = sdy.sharding_constraint %y <@mesh, {u}> : {a}
%r0 = stablehlo.reverse %d, dims = [0] : {a}"
                    );
                    failures.enumerate_on(mesh, &program(&[&a], &[&a], body), 10);
                }
            }
        }
    }
    failures.report();
}

/// The body of a manual computation sees local shapes along its axes and says itself what is exchanged.
#[test]
fn manual_computations() {
    let mut failures = Failures::default();
    for n in [2, 4, 6] {
        for free in ["", "\"y\""] {
            let a = t(&[n, 3], "f32");
            let l = t(&[n / 2, 3], "f32");
            let body = format!(
                "%m = sdy.manual_computation(%a0) in_shardings=[<@mesh, [{{\"x\"}}, {{{free}}}]>] out_shardings=[<@mesh, [{{\"x\"}}, {{{free}}}]>] manual_axes={{\"x\"}} (%v: {l}) {{
  %s = \"stablehlo.all_reduce\"(%v) <{{channel_handle = #stablehlo.channel_handle<handle = 7, type = 1>, replica_groups = dense<[[0, 3], [1, 4], [2, 5]]> : tensor<3x2xi64>, use_global_device_ids}}> ({{
  ^bb0(%p: tensor<f32>, %q: tensor<f32>):
    %w = stablehlo.add %p, %q : tensor<f32>
    stablehlo.return %w : tensor<f32>
  }}) : ({l}) -> {l}
  %g = \"stablehlo.collective_permute\"(%v) <{{channel_handle = #stablehlo.channel_handle<handle = 8, type = 1>, source_target_pairs = dense<[[0, 3], [3, 0], [1, 4], [4, 1], [2, 5], [5, 2]]> : tensor<6x2xi64>}}> : ({l}) -> {l}
  %o = stablehlo.subtract %s, %g : {l}
  sdy.return %o : {l}
}} : ({a}) -> {a}
%r0 = stablehlo.reverse %m, dims = [0] : {a}"
            );
            failures.enumerate_on(&[("x", 2), ("y", 3)], &program(&[&a], &[&a], body), 60);
        }
    }
    failures.report();
}

/// Devices may stand in the mesh in any order.
#[test]
fn meshes_with_their_own_device_order() {
    let mut failures = Failures::default();
    for (mesh, s, r) in [
        ("[\"x\"=4], device_ids=[2, 0, 3, 1]", "[{\"x\"}, {}]", "[{}, {\"x\"}]"),
        ("[\"x\"=2, \"y\"=3], device_ids=[5, 4, 3, 2, 1, 0]", "[{\"x\"}, {\"y\"}]", "[{\"y\", \"x\"}, {}]"),
        ("[\"x\"=2, \"y\"=2], device_ids=[0, 2, 1, 3]", "[{\"y\"}, {\"x\"}]", "[{\"x\", \"y\"}, {}]"),
    ] {
        for n in [1, 3, 4, 7, 12] {
            let a = t(&[n, 6], "i32");
            failures.check(&format!(
                "sdy.mesh @mesh = <{mesh}>
func.func @main(%a: {a} {{sdy.sharding = #sdy.sharding<@mesh, {s}>}}) -> ({a} {{sdy.sharding = #sdy.sharding<@mesh, {r}>}}, tensor<6xi32>) {{
%i = stablehlo.iota dim = 0 : {a}
%x = stablehlo.multiply %a, %i : {a}
%y = stablehlo.reverse %x, dims = [0] : {a}
%one = stablehlo.constant dense<0> : tensor<i32>
%p = stablehlo.pad %y, %one, low = [1, 0], high = [-1, 0], interior = [0, 0] : ({a}, tensor<i32>) -> {a}
%sum = stablehlo.reduce(%p init: %one) applies stablehlo.add across dimensions = [0] : ({a}, tensor<i32>) -> tensor<6xi32>
return %p, %sum : {a}, tensor<6xi32>
}}"
            ));
        }
    }
    failures.report();
}

/// Functions that call others.
#[test]
fn calls() {
    let mut failures = Failures::default();
    for s in ["[{\"x\"}]", "[{}]"] {
        for n in [1, 4, 7] {
            failures.check(&format!(
                "sdy.mesh @mesh = <[\"x\"=4]>
func.func @main(%a: tensor<{n}xi32> {{sdy.sharding = #sdy.sharding<@mesh, {s}>}}) -> tensor<{n}xi32> {{
%x = call @twice(%a) : (tensor<{n}xi32>) -> tensor<{n}xi32>
%y = call @twice(%x) : (tensor<{n}xi32>) -> tensor<{n}xi32>
return %y : tensor<{n}xi32>
}}
func.func private @twice(%a: tensor<{n}xi32>) -> tensor<{n}xi32> {{
%r = stablehlo.reverse %a, dims = [0] : tensor<{n}xi32>
%s = stablehlo.add %a, %r : tensor<{n}xi32>
return %s : tensor<{n}xi32>
}}"
            ));
        }
    }
    failures.report();
}
